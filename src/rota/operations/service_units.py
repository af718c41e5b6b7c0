"""The text of a service: a systemd unit or a launchd plist, from facts alone."""

import hashlib
import plistlib
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from rota.model.errors import InvalidValue

MARGIN = timedelta(seconds=30)
RESTART_AFTER = 5
NOT_RESTARTED = (73, 78)
"""Exit codes after which a new start would end the same way: somebody else serves, a database that cannot be used."""


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """What a service of one project is made of; `user` is set for a system service that is not root's."""

    program: tuple[str, ...]
    folder: Path
    state: Path
    search_path: str
    shutdown_grace: timedelta
    system: bool = False
    user: str | None = None

    @property
    def name(self) -> str:
        """The service's name: the project's folder, and a hash of its path so that two of them differ."""
        word = re.sub(r"[^A-Za-z0-9_-]+", "-", self.folder.name).strip("-") or "project"
        return f"rota-{word[:40]}-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:6]}"

    @property
    def stop_timeout(self) -> int:
        """Seconds within which a stop must be over: functions may use the whole grace (R-23)."""
        return int((self.shutdown_grace + MARGIN).total_seconds())


def systemd_unit(facts: ServiceFacts) -> str:
    """Return the unit of a project: stopping it detaches, so a restart interrupts no command (R-23)."""
    start = [*facts.program, "--dir", str(facts.folder), "serve"]
    stop = [*facts.program, "--dir", str(facts.folder), "stop", "--detach"]
    user = [f"User={_plain(facts.user)}"] if facts.system and facts.user else []
    lines = [
        "[Unit]",
        f"Description=rota scheduler of {_specifier(_plain(str(facts.folder)))}",
        *(["After=network.target"] if facts.system else []),
        "",
        "[Service]",
        "Type=exec",
        *user,
        f"WorkingDirectory={_specifier(_plain(str(facts.folder)))}",
        f"Environment={_quoted(f'PATH={facts.search_path}')}",
        *([f"Environment={_quoted(f'ROTA_STATE={facts.state}')}"] if facts.state != facts.folder / ".rota" else []),
        f"ExecStart={_command(start)}",
        "# What runs goes on under its keeper, and the next start takes it over.",
        f"ExecStop={_command(stop)}",
        "KillMode=process",
        f"TimeoutStopSec={facts.stop_timeout}",
        "Restart=on-failure",
        f"RestartSec={RESTART_AFTER}",
        f"RestartPreventExitStatus={' '.join(map(str, NOT_RESTARTED))}",
        "",
        "[Install]",
        f"WantedBy={'multi-user.target' if facts.system else 'default.target'}",
    ]
    return "\n".join(lines) + "\n"


def launchd_plist(facts: ServiceFacts) -> str:
    """Return the property list of a project; keepers are left alone when the scheduler ends (R-23)."""
    environment = {"PATH": facts.search_path}
    if facts.state != facts.folder / ".rota":
        environment["ROTA_STATE"] = str(facts.state)
    output = str(facts.state / "service.log")
    content = {
        "Label": facts.name,
        "ProgramArguments": [*facts.program, "--dir", str(facts.folder), "serve"],
        "WorkingDirectory": str(facts.folder),
        "EnvironmentVariables": environment,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": RESTART_AFTER,
        "ExitTimeOut": facts.stop_timeout,
        "AbandonProcessGroup": True,
        "StandardOutPath": output,
        "StandardErrorPath": output,
        **({"UserName": facts.user} if facts.system and facts.user else {}),
    }
    for text in (str(facts.folder), facts.search_path, *facts.program):
        _plain(text)
    return plistlib.dumps(content, sort_keys=False).decode()


def _command(words: list[str]) -> str:
    """Return a command line as systemd reads it: quoted, nothing expanded."""
    return " ".join(_quoted(word.replace("$", "$$"), always=False) for word in words)


def _quoted(text: str, *, always: bool = True) -> str:
    escaped = _specifier(_plain(text)).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if always or escaped != text or not re.fullmatch(r"[\w@+=:,./-]+", text) else text


def _specifier(text: str) -> str:
    return text.replace("%", "%%")


def _plain(text: str | None) -> str:
    if text is None or not text.isprintable():
        raise InvalidValue(f"{text!r} cannot stand in a service's file", hint="use a folder without control characters")
    return text
