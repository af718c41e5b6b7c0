"""A first project: what this machine has, and the commented file that fits it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from rota.agents.probing import Found, probe_all
from rota.agents.registry import adapter
from rota.declare.schema import json_schema
from rota.declare.zone import local_zone, plain_name
from rota.model.errors import FileExists, RotaError, StateError
from rota.operations.project import make_state
from rota.settings import FILE_NAME, STATE_NAME
from rota.store.rows import write_json

AGENTS = ("claude", "codex", "gemini", "opencode")
MODULE = "rota_jobs.py"


@dataclass(frozen=True, slots=True)
class Machine:
    """What was found on this machine."""

    timezone: str
    detected_zone: bool
    battery: bool
    agents: tuple[Found, ...]


def inspect_machine(environ: Mapping[str, str]) -> Machine:
    """Look at this machine: its zone, its battery, the agents on PATH."""
    try:
        timezone, detected = plain_name(local_zone(environ)), True
    except RotaError:
        timezone, detected = "UTC", False
    return Machine(timezone, detected, _has_battery(), found_agents(environ))


def found_agents(environ: Mapping[str, str], but: Collection[str] = ()) -> tuple[Found, ...]:
    """Return the agents on PATH `but` some, all asked for version and login at the same time."""
    asked = [adapter(name) for name in AGENTS if name not in but]
    return tuple(found for found in probe_all(asked, environ) if found.path)


def _has_battery() -> bool:
    try:
        return psutil.sensors_battery() is not None
    except (AttributeError, OSError, RuntimeError):
        return False


def plan_project(folder: Path, machine: Machine, *, kind: str | None) -> dict[str, str]:
    """Return the files of a first project by name; raise FileExists where one is there already."""
    files = {FILE_NAME: first_file(machine, kind=kind)}
    if kind == "python":
        files[MODULE] = _MODULE
    for name in files:
        if (folder / name).exists() or (folder / name).is_symlink():
            raise FileExists(str(folder / name))
    return files


def make_project(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a first project, its state folder and the schema for editors."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except FileExistsError as error:
        raise FileExists(str(error.filename)) from None
    except OSError as error:
        raise StateError(
            f"cannot write into {folder}: {error.strerror}", hint="choose a folder that is yours"
        ) from None
    make_state(folder / STATE_NAME)
    (folder / STATE_NAME / "schema.json").write_text(write_json(json_schema()), encoding="utf-8")


def first_file(machine: Machine, *, kind: str | None) -> str:
    """Return the text of a first rota.yaml."""
    zone = "" if machine.detected_zone else "   # this machine's own zone has no name that could be found"
    parts = [
        f"# yaml-language-server: $schema={STATE_NAME}/schema.json",
        _HEAD,
        f"timezone: {machine.timezone}{zone}\n",
    ]
    if machine.battery:
        parts.append(_BATTERY)
    if kind == "python":
        parts.append("imports: [rota_jobs]             # modules whose @rota.job and @rota.condition are known\n")
    parts.append("jobs:\n" + _JOBS[kind])
    if machine.agents and kind not in ("claude", "codex"):
        names = ", ".join(agent.name for agent in machine.agents)
        parts.append(_AGENTS_FOUND.format(names=names, first=machine.agents[0].name))
    return "\n".join(parts)


_HEAD = """\
# rota.yaml: what runs here, and when. After each change: rota check (what does it mean?), rota apply (make it so);
# a running `rota serve` also applies the file by itself.
"""

_BATTERY = """\
defaults:                        # any job key; a job's own key wins
  misfire: once                  # a battery was found: what was missed during sleep runs once on wake
"""

_AGENTS_FOUND = """
# Found on PATH: {names}. A job with a `prompt:` lets one of them work, unattended and within limits:
# see `rota init --with {first} --dry-run` in an empty folder for an example (claude and codex).
"""

_HELLO = """\
  hello:
    cron: "*/5 * * * *"          # minute hour day month weekday; quotes are needed
    command: [echo, "hello from rota"]
    # timeout: 10m               # the default; `never` for none
    # retry: false               # a failed run is tried 3 times by default
    # overlap: forbid            # the default: no second run while one is unfinished
    # conditions: [{command: [./may-i-run]}]   # exit 0 run, 10 skip
"""

_CRON = """\
  nightly:
    cron: "30 2 * * *"           # every day at 02:30 in `timezone`
    shell: echo "backing up on $ROTA_DATE" && sleep 1 && echo done   # a shell; `command:` starts a program directly
    timeout: 1h
    misfire: once                # missed because the machine was off: run once when it is back
  # cron had no timeout, no overlap check and dropped the output; rota has all three: see `rota logs nightly`
"""

_PYTHON = """\
  greet:
    interval: 1m                 # counted from the end of the last run
    run: greet                   # the function below @rota.job("greet") in rota_jobs.py
    conditions: [is_awake]       # @rota.condition("is_awake"); false: looked at again later
    params: {name: world}
"""

_MODULE = '''\
"""The functions that rota.yaml names."""

import rota


@rota.job("greet")
def greet(ctx: rota.JobContext) -> str:
    """Say hello; the text returned is the run's summary."""
    ctx.log(f"hello {ctx.params['name']}")
    ctx.state["greetings"] = ctx.state.get("greetings", 0) + 1
    return f"greeted {ctx.params['name']} {ctx.state['greetings']} times"


@rota.condition("is_awake")
def is_awake(ctx: rota.JobContext) -> bool:
    """Say whether the job may run now."""
    return True
'''

_CLAUDE = """\
  nightly-review:
    cron: "30 2 * * *"
    enabled: false               # it may cost money: try `rota run nightly-review --dry-run`, then enable it
    agent: claude
    access: read                 # read | write | full; what it is refused is shown, never waited for
    max_usd: 1.00                # what one run may cost at most
    prompt: Review the commits of the last day.
    timeout: 30m
    # env_pass: [ANTHROPIC_API_KEY]   # a run gets HOME and PATH, but no other variable unless it is named
"""

_CODEX = """\
  nightly-review:
    cron: "30 2 * * *"
    enabled: false               # it may cost money: try `rota run nightly-review --dry-run`, then enable it
    agent: codex
    access: read                 # read | write | full, as Codex's sandbox keeps it
    prompt: Review the commits of the last day.
    timeout: 30m
    # env_pass: [OPENAI_API_KEY]      # a run gets HOME and PATH, but no other variable unless it is named
"""

_JOBS = {None: _HELLO, "cron": _CRON, "python": _PYTHON, "claude": _CLAUDE, "codex": _CODEX}
