"""From a job's work to a process ready to start (R-25, R-27). Decides everything, starts and writes nothing."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rota.model.errors import InvalidValue, SpawnFailed
from rota.model.spec import Condition, Kind, OutputPolicy, Work
from rota.rules.placeholders import fill
from rota.runners.environment import (
    PARAMS_NAME,
    POLL_NAME,
    RunFacts,
    Surroundings,
    build_environment,
    placeholder_values,
)
from rota.runners.spawning import Launch

CHILD = Path(__file__).with_name("child.py")
CONTEXT_NAME = "context.json"
CONDITION_OUTPUT_LIMIT = 64 * 1024
CONDITION_GRACE = 1.0


@dataclass(frozen=True, slots=True)
class Description:
    """What `rota run --dry-run` shows of a launch: no values of the environment."""

    argv: tuple[str, ...]
    cwd: str
    environment: tuple[str, ...]


def prepare(work: Work, run: RunFacts, surroundings: Surroundings) -> Launch:
    """Return the process that does `work`, or raise SecretMissing or SpawnFailed; nothing is started or written."""
    with _refusing():
        return _launch(_argv(work, run, surroundings), work, run=run, surroundings=surroundings)


def prepare_program(
    argv: tuple[str, ...], work: Work, *, run: RunFacts, surroundings: Surroundings, further: Mapping[str, str]
) -> Launch:
    """Return a process of this very argv in the surroundings of `work`; what its `env` says wins over `further`."""
    with _refusing():
        launch = _launch(argv, work, run=run, surroundings=surroundings)
    return replace(launch, env={**further, **launch.env})


def prepare_check(condition: Condition, work: Work, *, run: RunFacts, surroundings: Surroundings) -> Launch:
    """Return the process that answers a condition, in the folder and environment of the work it guards (R-09)."""
    with _refusing():
        values = placeholder_values(run)
        argv = tuple(fill(item, values) for item in condition.command)
        argv = argv or _child("condition", condition.name, work=work, surroundings=surroundings)
        launch = _launch(argv, work, run=run, surroundings=surroundings)
    return replace(
        launch,
        timeout=condition.timeout.total_seconds(),
        term_grace=CONDITION_GRACE,
        output=OutputPolicy.FULL,
        output_limit=2 * CONDITION_OUTPUT_LIMIT,
    )


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn a value that this run lacks or has wrong into a start that failed."""
    try:
        yield
    except InvalidValue as error:
        raise SpawnFailed(error.message, hint=error.hint) from error


def _launch(argv: tuple[str, ...], work: Work, *, run: RunFacts, surroundings: Surroundings) -> Launch:
    params = _compact(run.params)
    cwd = folder_of(work, run, surroundings)
    env = build_environment(work, run, surroundings=surroundings, params=params)
    _check_program(argv[0], cwd, env.get("PATH", os.defpath))
    return Launch(
        argv=argv,
        env=env,
        cwd=cwd,
        timeout=None if work.timeout is None else work.timeout.total_seconds(),
        term_grace=work.term_grace.total_seconds(),
        output=work.output.on_disk,
        files=_files(run, surroundings, params=params, child=str(CHILD) in argv),
        secret=tuple(variable.name for variable in work.env if variable.secret is not None),
    )


def _files(run: RunFacts, surroundings: Surroundings, *, params: str, child: bool) -> dict[str, str]:
    """Return what a run finds in its folder when it starts."""
    files = {PARAMS_NAME: params}
    if run.poll_data is not None:
        files[POLL_NAME] = _compact(run.poll_data)
    if child:
        files[CONTEXT_NAME] = _context(run, surroundings)
    return files


def describe(launch: Launch) -> Description:
    """Return what may be shown of a launch before it is made."""
    return Description(argv=launch.argv, cwd=launch.cwd, environment=tuple(sorted(launch.env)))


def _compact(value: Mapping[str, object]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"))


def _argv(work: Work, run: RunFacts, surroundings: Surroundings) -> tuple[str, ...]:
    if work.kind is Kind.SHELL:
        return (*work.shell_with, work.shell)
    if work.kind is Kind.FUNCTION:
        return _child("run", work.function, work=work, surroundings=surroundings)
    values = placeholder_values(run)
    return tuple(fill(item, values) for item in work.command)


def _child(verb: str, name: str, *, work: Work, surroundings: Surroundings) -> tuple[str, ...]:
    return (_python(work, surroundings), "-u", str(CHILD), verb, name, str(surroundings.folder / CONTEXT_NAME))


def _python(work: Work, surroundings: Surroundings) -> str:
    if work.python is None:
        return sys.executable
    path = os.path.expanduser(work.python)
    return str(surroundings.project / path) if os.sep in path else path


def folder_of(work: Work, run: RunFacts, surroundings: Surroundings) -> str:
    """Return the folder that a run works in, its placeholders filled; raise SpawnFailed where it is not there."""
    written = os.path.expanduser(fill(work.cwd, placeholder_values(run)))
    folder = os.path.normpath(surroundings.project / written)
    if not os.path.exists(folder):
        raise SpawnFailed(f"the folder {folder!r} of `cwd` does not exist", hint="make it, or correct `cwd`")
    if not os.path.isdir(folder) or not os.access(folder, os.X_OK):
        wrong = "cannot be entered" if os.path.isdir(folder) else "is a file"
        raise SpawnFailed(f"the folder {folder!r} of `cwd` {wrong}", hint="correct `cwd`, or its mode")
    return folder


def _check_program(program: str, cwd: str, path: str) -> None:
    """Refuse what cannot be started in words that help; the start itself stays the keeper's."""
    if os.sep in program:
        found = os.path.join(cwd, program.removeprefix("./"))
        if not os.path.exists(found):
            raise SpawnFailed(f"there is no program {found!r}", hint="a path with / is relative to `cwd`")
        if not os.access(found, os.X_OK) or os.path.isdir(found):
            raise SpawnFailed(f"{found!r} is not executable", hint=f"run `chmod +x {found}`, or name its interpreter")
        return
    _find_on_path(program, cwd, path)


def check_on_path(program: str, env: Mapping[str, str]) -> None:
    """Refuse a program that is not on the PATH of a run; one with a path of its own may be made meanwhile."""
    if os.sep not in program:
        _find_on_path(program, "", env.get("PATH", os.defpath))


def _find_on_path(program: str, cwd: str, path: str) -> None:
    if not any(_is_program(os.path.join(cwd, folder, program)) for folder in path.split(os.pathsep)):
        raise SpawnFailed(
            f"no program {program!r} is on PATH {path!r}", hint="write its whole path, or set PATH under `env:`"
        )


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _context(run: RunFacts, surroundings: Surroundings) -> str:
    return json.dumps(
        {
            "params": dict(run.params),
            "state": dict(run.state),
            "scheduler_state": dict(run.scheduler_state),
            "poll_data": None if run.poll_data is None else dict(run.poll_data),
            "imports": list(surroundings.imports),
            "project": str(surroundings.project),
            "folder": str(surroundings.folder),
            "run": {
                "id": run.run_id,
                "handle": run.handle,
                "job": run.job,
                "number": run.number,
                "attempt": run.attempt,
                "trigger": str(run.trigger),
                "scheduled_for": run.scheduled_for.isoformat(),
                "timezone": run.timezone,
            },
        }
    )
