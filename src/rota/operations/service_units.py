"""The text of a service: systemd units or a launchd plist, from facts alone."""

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
TICK_TIMEOUT = 300
"""Seconds after which a tick whose look does not end is given up."""
TICK_THROTTLE = 10


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """What a service of one project is made of; `user` is set for a system service that is not root's.

    `every`: how far apart ticks come (R-24); None: a scheduler that stays.
    """

    program: tuple[str, ...]
    folder: Path
    state: Path
    search_path: str
    shutdown_grace: timedelta
    system: bool = False
    user: str | None = None
    every: timedelta | None = None
    agent_shutdown_grace: timedelta = timedelta()
    store: str = ""
    """The store where the environment names it; one that the file names need not be told."""

    @property
    def environment(self) -> dict[str, str]:
        """What the service's environment has of this shell's."""
        found = {"PATH": self.search_path, "ROTA_TRUST": str(self.folder)}
        if self.state != self.folder / ".rota":
            found["ROTA_STATE"] = str(self.state)
        if self.store:
            found["ROTA_STORE"] = self.store
        return found

    @property
    def name(self) -> str:
        """The service's name: the project's folder, and a hash of its path so that two of them differ."""
        word = re.sub(r"[^A-Za-z0-9_-]+", "-", self.folder.name).strip("-") or "project"
        kind = "-tick" if self.every is not None else ""
        return f"rota-{word[:40]}-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:6]}{kind}"

    @property
    def start(self) -> list[str]:
        """What the manager starts. A tick must not keep the next one from coming, so it leaves what runs behind it."""
        action = ["serve"] if self.every is None else ["tick", "--detach", "--quiet"]
        return [*self.program, "--dir", str(self.folder), *action]

    @property
    def stop_timeout(self) -> int:
        """Seconds within which a stop must be over: functions and agents may use the whole of their graces (R-23)."""
        return int((max(self.shutdown_grace, self.agent_shutdown_grace) + MARGIN).total_seconds())


def systemd_unit(facts: ServiceFacts) -> str:
    """Return the unit of a project: stopping it detaches, so a restart interrupts no command (R-23)."""
    stop = [*facts.program, "--dir", str(facts.folder), "stop", "--detach"]
    lines = [
        *_systemd_head(facts, "scheduler", kind="exec"),
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


def systemd_tick_unit(facts: ServiceFacts) -> str:
    """Return the unit of one tick; what it leaves running is not ended with it (R-23, R-24)."""
    lines = [
        *_systemd_head(facts, "tick", kind="oneshot"),
        "# What runs goes on under a tick in the background, and the timer goes on too.",
        "KillMode=process",
        f"TimeoutStartSec={TICK_TIMEOUT}",
    ]
    return "\n".join(lines) + "\n"


def systemd_timer(facts: ServiceFacts) -> str:
    """Return the timer that starts the ticks of a project."""
    assert facts.every is not None
    lines = [
        "[Unit]",
        f"Description=rota ticks of {_specifier(_plain(str(facts.folder)))}",
        "",
        "[Timer]",
        "OnActiveSec=0",
        f"OnUnitActiveSec={int(facts.every.total_seconds())}s",
        "AccuracySec=1s",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ]
    return "\n".join(lines) + "\n"


def _systemd_head(facts: ServiceFacts, what: str, *, kind: str) -> list[str]:
    user = [f"User={_plain(facts.user)}"] if facts.system and facts.user else []
    return [
        "[Unit]",
        f"Description=rota {what} of {_specifier(_plain(str(facts.folder)))}",
        *(["After=network.target"] if facts.system else []),
        "",
        "[Service]",
        f"Type={kind}",
        *user,
        f"WorkingDirectory={_specifier(_plain(str(facts.folder)))}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in facts.environment.items()),
        f"ExecStart={_command(facts.start)}",
    ]


def launchd_plist(facts: ServiceFacts) -> str:
    """Return the property list of a project; keepers are left alone when the scheduler ends (R-23)."""
    output = str(facts.state / "service.log")
    content = {
        "Label": facts.name,
        "ProgramArguments": facts.start,
        "WorkingDirectory": str(facts.folder),
        "EnvironmentVariables": facts.environment,
        "RunAtLoad": True,
        **_launchd_rhythm(facts),
        "AbandonProcessGroup": True,
        "StandardOutPath": output,
        "StandardErrorPath": output,
        **({"UserName": facts.user} if facts.system and facts.user else {}),
    }
    for text in (str(facts.folder), facts.search_path, *facts.program):
        _plain(text)
    return plistlib.dumps(content, sort_keys=False).decode()


def _launchd_rhythm(facts: ServiceFacts) -> dict[str, object]:
    """Return what makes it stay, or come again."""
    if facts.every is None:
        keep = {"SuccessfulExit": False}
        return {"KeepAlive": keep, "ThrottleInterval": RESTART_AFTER, "ExitTimeOut": facts.stop_timeout}
    seconds = int(facts.every.total_seconds())
    return {"StartInterval": seconds, "ThrottleInterval": min(seconds, TICK_THROTTLE)}


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
