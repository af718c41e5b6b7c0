"""System services: units for systemd and launchd."""

import hashlib
import os
import plistlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from msgspec import Struct, field

from rota.model.errors import InvalidValue, ServiceUnavailable

MARGIN = timedelta(seconds=30)
RESTART_AFTER = 5
NOT_RESTARTED = (73, 78)
"""Exit codes that a restart would repeat: another scheduler runs, or the database is unusable."""
TICK_TIMEOUT = 300
"""The timeout of a tick in seconds."""
TICK_THROTTLE = 10


class ServiceFacts(Struct, frozen=True):
    """The parameters of a project's service; `user` is set for a system service of another user than root.

    `every` is the interval of ticks; None for a resident scheduler.
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
    """The store of the environment; a store in the file needs no entry."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the service takes from this shell."""
        found = {"PATH": self.search_path, "ROTA_TRUST": str(self.folder)}
        if self.state != self.folder / ".rota":
            found["ROTA_STATE"] = str(self.state)
        if self.store:
            found["ROTA_STORE"] = self.store
        return found

    @property
    def name(self) -> str:
        """The service's name: the project's folder, and a hash of its path."""
        word = re.sub(r"[^A-Za-z0-9_-]+", "-", self.folder.name).strip("-") or "project"
        kind = "-tick" if self.every is not None else ""
        return f"rota-{word[:40]}-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:6]}{kind}"

    @property
    def start(self) -> list[str]:
        """The command of the service. A tick detaches from its runs, so that the next tick can start."""
        action = ["serve"] if self.every is None else ["tick", "--detach", "--quiet"]
        return [*self.program, "--dir", str(self.folder), *action]

    @property
    def stop_timeout(self) -> int:
        """The timeout of a stop in seconds: the graces of functions and agents, and a margin."""
        return int((max(self.shutdown_grace, self.agent_shutdown_grace) + MARGIN).total_seconds())


def systemd_unit(facts: ServiceFacts) -> str:
    """Return the unit of a project: a stop detaches, so a restart interrupts no command."""
    stop = [*facts.program, "--dir", str(facts.folder), "stop", "--detach"]
    lines = [
        *_systemd_head(facts, "scheduler", kind="exec"),
        "# Running commands continue under their keepers; the next start adopts them.",
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
    """Return the unit of one tick; its runs outlive it."""
    lines = [
        *_systemd_head(facts, "tick", kind="oneshot"),
        "# Running commands continue under a tick in the background; the timer continues too.",
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
    """Return the property list of a project; keepers outlive the scheduler."""
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
        raise InvalidValue(f"{text!r} is not allowed in a service file", hint="use a folder without control characters")
    return text


BOOTED = Path("/run/systemd/system")
PATIENCE = 180.0


class ServiceState(Struct, frozen=True):
    """The state of a service, as reported by its manager."""

    installed: bool
    active: bool
    enabled: bool


class Service(Struct, frozen=True):
    """A project's service under one manager; tests set `root` to another folder."""

    facts: ServiceFacts
    manager: str
    environ: Mapping[str, str]
    root: Path = field(default_factory=lambda: Path("/"))

    @property
    def text(self) -> str:
        """The files of the service as text; several files each begin with their name."""
        texts = self.texts
        if len(texts) == 1:
            return texts[self.file]
        return "\n".join(f"# {file.name}\n{text}" for file, text in texts.items())

    @property
    def texts(self) -> dict[Path, str]:
        """The files of the service: one, or for ticks under systemd a timer and its unit."""
        if self.manager == "launchd":
            return {self.file: launchd_plist(self.facts)}
        if self.facts.every is None:
            return {self.file: systemd_unit(self.facts)}
        unit = self.file.with_suffix(".service")
        return {unit: systemd_tick_unit(self.facts), self.file: systemd_timer(self.facts)}

    @property
    def file(self) -> Path:
        """The path of the service's file; for ticks under systemd that of the timer."""
        home = Path(self.environ.get("HOME") or os.path.expanduser("~"))
        if self.manager == "launchd":
            folder = self.root / "Library/LaunchDaemons" if self.facts.system else home / "Library/LaunchAgents"
            return folder / f"{self.facts.name}.plist"
        settings = Path(self.environ.get("XDG_CONFIG_HOME") or home / ".config")
        folder = self.root / "etc/systemd/system" if self.facts.system else settings / "systemd/user"
        return folder / f"{self.facts.name}.{'service' if self.facts.every is None else 'timer'}"

    def steps(self, action: str) -> list[list[str]]:
        """Return the manager's own commands that carry out an action, in order."""
        return _systemd(self, action) if self.manager == "systemd" else _launchd(self, action)

    def install(self) -> None:
        """Write the service's files and start it, now and at each boot or login."""
        _reachable(self)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            for file, text in self.texts.items():
                file.write_text(text, "utf-8")
        except OSError as error:
            hint = "for a system service become root: sudo rota service install --system"
            raise ServiceUnavailable(f"cannot write {self.file}: {error.strerror}", hint=hint) from None
        self.carry_out("install")

    def remove(self) -> None:
        """Stop the service and take its file away; commands that run go on to their end."""
        self.must_be_installed()
        self.carry_out("remove")
        for file in self.texts:
            file.unlink(missing_ok=True)
        self.carry_out("reload")

    def must_be_installed(self) -> None:
        """Raise an error unless the service is installed."""
        if not self.file.exists():
            kind = (" --system" if self.facts.system else "") + (" --tick" if self.facts.every is not None else "")
            raise ServiceUnavailable(f"{self.file} does not exist", hint=f"install it: rota service install{kind}")

    def standing(self) -> ServiceState:
        """Return how the service stands."""
        active, enabled = (_ask(self, step) for step in self.steps("status"))
        return ServiceState(self.file.exists(), active.returncode == 0, enabled.returncode == 0)

    def carry_out(self, action: str) -> None:
        """Call the service manager; raise ServiceUnavailable with its error."""
        for step in self.steps(action):
            done = _ask(self, step)
            if done.returncode != 0:
                said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
                hint = "see `rota service status`; without a manager run `rota serve` by hand"
                raise ServiceUnavailable(f"`{' '.join(step)}` failed: {said}", hint=hint)


def find_manager(platform: str = sys.platform, booted: Path = BOOTED) -> str | None:
    """Return the service manager of this machine, None when it has none that rota knows."""
    if platform == "darwin":
        return "launchd"
    return "systemd" if booted.exists() else None


def no_manager() -> ServiceUnavailable:
    """Return the refusal on a machine without a manager."""
    return ServiceUnavailable(
        "no systemd or launchd runs on this machine",
        hint="start `rota serve` with your own process manager (in a container: as its command); "
        "`rota service install --print` shows a unit to copy",
    )


def own_program(executable: str = sys.executable) -> tuple[str, ...]:
    """Return how to start rota by absolute path: the command beside this interpreter, else the module."""
    command = Path(executable).absolute().parent / "rota"
    return (str(command),) if os.access(command, os.X_OK) else (str(Path(executable).absolute()), "-m", "rota")


def lingers(environ: Mapping[str, str], root: Path = Path("/")) -> bool:
    """Return whether services of this user keep running after logout (systemd)."""
    return (root / "var/lib/systemd/linger" / (environ.get("USER") or environ.get("LOGNAME") or "")).is_file()


def _systemd(service: Service, action: str) -> list[list[str]]:
    scope = [] if service.facts.system else ["--user"]
    unit = service.file.name
    control, reload = ["systemctl", *scope], ["systemctl", *scope, "daemon-reload"]
    return {
        "install": [reload, [*control, "enable", unit], [*control, "restart", unit]],
        "remove": [[*control, "disable", "--now", unit]],
        "reload": [reload],
        "restart": [[*control, "restart", unit]],
        "status": [[*control, "is-active", "--quiet", unit], [*control, "is-enabled", "--quiet", unit]],
        "logs": [["journalctl", *scope, "--no-pager", "-u", f"{service.facts.name}.service", "-n"]],
    }[action]


def _launchd(service: Service, action: str) -> list[list[str]]:
    domain = "system" if service.facts.system else f"gui/{os.getuid()}"
    target = f"{domain}/{service.facts.name}"
    stop = [*service.facts.program, "--dir", str(service.facts.folder), "stop", "--detach"]
    # launchd ends a service with TERM, which would end its runs after the grace: detach first. A tick has left by then.
    restart = [stop, ["launchctl", "kickstart", "-k", target]]
    return {
        "install": [["launchctl", "bootstrap", domain, str(service.file)]],
        "remove": [["launchctl", "bootout", target]],
        "reload": [],
        "restart": restart if service.facts.every is None else restart[1:],
        "status": [["launchctl", "print", target], ["launchctl", "print", target]],
        "logs": [["tail", "-n"]],
    }[action]


def _reachable(service: Service) -> None:
    program = service.steps("install")[0][0]
    if shutil.which(program, path=service.environ.get("PATH")) is None:
        raise no_manager()


def _ask(service: Service, step: Sequence[str]) -> subprocess.CompletedProcess[str]:
    found = shutil.which(step[0], path=service.environ.get("PATH"))
    if found is None:
        raise no_manager()
    try:
        return subprocess.run(
            [found, *step[1:]],
            env=dict(service.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServiceUnavailable(
            f"`{' '.join(step)}` did not answer", hint="check the log of the service manager"
        ) from None


def output_of_service(service: Service, *, lines: int) -> str:
    """Return the last lines that the service wrote."""
    service.must_be_installed()
    [step] = service.steps("logs")
    file = [] if service.manager == "systemd" else [str(service.facts.state / "service.log")]
    return _ask(service, [*step, str(lines), *file]).stdout
