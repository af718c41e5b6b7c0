"""The environment of a run, in the order of R-27."""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from rota.model.clock import iso
from rota.model.errors import SpawnFailed
from rota.model.spec import EnvValue, Work
from rota.model.states import Trigger
from rota.rules.placeholders import PlaceholderValues, fill, write_param
from rota.rules.timezone import zone
from rota.runners.redacting import RESULT
from rota.runners.secrets import find_secret, read_env_file

RESULT_NAME = RESULT
PARAMS_NAME = "params.json"
POLL_NAME = "poll.json"
RESERVED = "ROTA_"
_INHERITED = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "PATH")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a process or function is told about its run; `scheduled_for` is nominal (R-05)."""

    run_id: str
    handle: str
    job: str
    number: int
    attempt: int
    trigger: Trigger
    scheduled_for: datetime
    timezone: str = "UTC"
    params: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    poll_data: Mapping[str, Any] | None = None
    scheduler_state: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a run happens: the project, its state, the run's own folder, the scheduler's environment."""

    project: Path
    state: Path
    folder: Path
    environ: Mapping[str, str]
    credentials: str | None = None
    imports: tuple[str, ...] = ()
    root: Path | None = None
    """The scheduler's own project, where that is another one: it includes this one."""


def placeholder_values(run: RunFacts) -> PlaceholderValues:
    """Return what the placeholders of this run stand for (R-25)."""
    return PlaceholderValues(
        job=run.job, number=run.number, scheduled_for=run.scheduled_for, timezone=run.timezone, params=run.params
    )


def build_environment(work: Work, run: RunFacts, *, surroundings: Surroundings, params: str) -> dict[str, str]:
    """Return the whole environment of a run; later sources replace earlier ones (R-27)."""
    environment = inherited(surroundings.environ) | described(run, surroundings=surroundings, params=params)
    environment |= {name: surroundings.environ[name] for name in work.env_pass if name in surroundings.environ}
    if work.env_file is not None:
        environment |= _from_file(surroundings.project / Path(work.env_file).expanduser())
    values = placeholder_values(run)
    return environment | {variable.name: _value(variable, values, surroundings) for variable in work.env}


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what every run gets of the scheduler's environment; who we are is looked up where it is not said."""
    found = _from_accounts(os.getuid()) | {name: environ[name] for name in _INHERITED if name in environ}
    return found | {name: value for name, value in environ.items() if name.startswith("LC_")}


@cache
def _from_accounts(user: int) -> dict[str, str]:
    found = {"PATH": os.defpath}
    try:
        entry = pwd.getpwuid(user)
    except KeyError:
        return found  # a container may run under a number that has no name
    who = {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell}
    return found | {name: value for name, value in who.items() if value}


def described(run: RunFacts, *, surroundings: Surroundings, params: str) -> dict[str, str]:
    """Return the ROTA_* variables of a run; `params` is its params as JSON."""
    found = {
        "RUN_ID": run.run_id,
        "RUN": run.handle,
        "JOB": run.job,
        "ATTEMPT": str(run.attempt),
        "SCHEDULED_FOR": iso(run.scheduled_for),
        "DATE": f"{run.scheduled_for.astimezone(zone(run.timezone)):%Y-%m-%d}",
        "TRIGGER": str(run.trigger),
        "RESULT_FILE": str(surroundings.folder / RESULT_NAME),
        "PARAMS": params,
        "PARAMS_FILE": str(surroundings.folder / PARAMS_NAME),
        "PROJECT_DIR": str(surroundings.project),
        "SCHEDULER_DIR": str(surroundings.root or surroundings.project),
        "STATE_DIR": str(surroundings.state),
    }
    if run.poll_data is not None:
        found["POLL_FILE"] = str(surroundings.folder / POLL_NAME)
    scalars = {name: value for name, value in run.params.items() if isinstance(value, str | bool | int | float)}
    found |= {f"PARAM_{name.upper()}": write_param(value) for name, value in scalars.items()}
    return {f"{RESERVED}{name}": value for name, value in found.items()}


def _from_file(path: Path) -> dict[str, str]:
    found = read_env_file(path)
    taken = next((name for name in found if name.startswith(RESERVED)), None)
    if taken is not None:
        raise SpawnFailed(f"{path} sets {taken}", hint="names that start with ROTA_ belong to rota, use another one")
    return found


def _value(variable: EnvValue, values: PlaceholderValues, surroundings: Surroundings) -> str:
    if variable.secret is None:
        return fill(variable.value or "", values)
    return find_secret(
        variable.secret, credentials=surroundings.credentials, environ=surroundings.environ, state=surroundings.state
    )
