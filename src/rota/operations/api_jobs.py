"""Jobs that are made through the API: read by the rules of the file, kept until somebody deletes them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from rota.declare.files import load_again
from rota.declare.naming import in_case_only
from rota.declare.notes import notes_on, refuse_past
from rota.declare.plan import ChangeKind
from rota.declare.registry import BUILTIN_CONDITIONS
from rota.declare.validate import read_given
from rota.model.errors import FileProblems, InvalidValue, JobProblems, StateError
from rota.model.names import Names
from rota.model.spec import JobSpec, Kind
from rota.operations.declaring import KEPT, put_job, refuse_file, remove_job
from rota.operations.dry import tried
from rota.operations.jobs import JobView, find_job, job_view
from rota.operations.secrets import notes_on_targets
from rota.settings import FILE_NAME
from rota.store import jobs
from rota.store.driver import Database, Store

SECTIONS = (
    *("timezone", "defaults", "scheduler", "pools", "budgets", "prices", "quiet_hours", "poll", "agents", "notify"),
)
"""What a job may refer to in the project's file."""
NO_PYTHON = "functions belong to jobs of the file, the API imports nothing"


def read_job(name: str, body: Mapping[str, Any], *, folder: Path, state: Path, environ: Mapping[str, str]) -> JobSpec:
    """Return a job written with the keys of a file, as if it stood in the project's; JobProblems tells what is wrong.

    What it names must be in that file. Python functions are not: nothing is imported because a request says so.
    """
    sections = _sections(folder)
    declared = read_given(
        {**sections, "jobs": {name: dict(body)}},
        folder,
        environment=environ,
        functions=NothingImported(),
        state=state,
    )
    spec = next(spec for spec in declared.jobs if spec.name == name)
    _refuse_python(spec)
    return spec


class NothingImported:
    """Knows no function: a request may name none."""

    def find(self, functions: Sequence[str], conditions: Sequence[str], sources: Sequence[str] = ()) -> Names:
        """Return every name as missing but those of the conditions that are built in."""
        unknown = [name for name in conditions if name not in BUILTIN_CONDITIONS]
        return Names(
            {**dict.fromkeys((*functions, *sources), NO_PYTHON), **{name: _no_condition(name) for name in unknown}}
        )


def _no_condition(name: str) -> str:
    """Return the file's words for a name that is nearly a built-in one; else it may be one that the file registers."""
    near = get_close_matches(name, BUILTIN_CONDITIONS, n=1, cutoff=0.6)
    return f'no condition is named "{name}"; did you mean "{near[0]}"?' if near else NO_PYTHON


def _refuse_python(spec: JobSpec) -> None:
    named = [one.name for one in spec.gates.conditions if one.name and one.name not in BUILTIN_CONDITIONS]
    if spec.work.kind is Kind.FUNCTION or named:
        raise InvalidValue(f"job {spec.name!r} names Python functions: {NO_PYTHON}", hint="declare it in rota.yaml")


def _sections(folder: Path) -> dict[str, Any]:
    """Return the sections of the project's file that a job may refer to; agents without their own schedules."""
    try:
        data = load_again(folder / FILE_NAME).data
    except FileProblems as error:
        hint = f"mend {folder / FILE_NAME} first: {error.problems[0]}"
        raise StateError("the project's file cannot be read, so that the job cannot be checked", hint=hint) from None
    found = {key: data[key] for key in SECTIONS if key in data}
    agents = found.get("agents")
    if isinstance(agents, dict):
        bare = {name: _without_schedules(agent) for name, agent in agents.items()}
        found["agents"] = bare
    return found


def _without_schedules(agent: Any) -> Any:
    return {key: value for key, value in agent.items() if key != "schedules"} if isinstance(agent, dict) else agent


def put(
    store: Store, spec: JobSpec, *, new: bool = False, now: datetime, dry_run: bool = False
) -> tuple[JobView, bool]:
    """Store a job, or change the one of its name; tell whether it is new. One that a file declares is refused."""
    operation = partial(_put, spec=spec, new=new, now=now)
    return tried(store, operation) if dry_run else store.write(operation)


def _put(db: Database, *, spec: JobSpec, new: bool, now: datetime) -> tuple[JobView, bool]:
    _refuse_case(db, spec.name)
    before = jobs.job_by_name(db, spec.name)
    if before is None or before.retired_at is not None or before.spec.schedule.at != spec.schedule.at:
        refuse_past(spec, now=now)
    change = put_job(db, spec, source=KEPT, now=now)
    created = change.kind in (ChangeKind.CREATE, ChangeKind.REVIVE)
    if new and not created:
        raise InvalidValue(f"there is a job {spec.name!r} already", hint="change it with PUT, or choose another name")
    return job_view(db, find_job(db, spec.name)), created


def _refuse_case(db: Database, name: str) -> None:
    other = next((one for one in jobs.job_names(db) if one.casefold() == name.casefold()), name)
    if other != name:
        raise JobProblems([in_case_only(name, other)])


def notes_of(view: JobView, *, state: Path, environ: Mapping[str, str], now: datetime) -> tuple[str, ...]:
    """Return what is worth telling about a job that was made, as a check of the file does."""
    spec = view.job.spec
    return (*notes_on([spec], now=now, environ=environ), *notes_on_targets([spec], {}, state, environ))


def enable(store: Store, name: str, *, enabled: bool, now: datetime, dry_run: bool = False) -> JobView:
    """Enable or disable a job that was made through the API; one of a file is changed there."""

    hint = f"set `enabled: {'true' if enabled else 'false'}` there; `rota pause` holds a job back for a time"

    def change(db: Database) -> JobView:
        job = find_job(db, name)
        refuse_file(job, hint=hint)
        put_job(db, replace(job.spec, enabled=enabled), source=job.source, now=now)
        return job_view(db, find_job(db, name))

    refuse_file(store.read(partial(find_job, name=name)), hint=hint)  # reads files: not while it locks the database
    return tried(store, change) if dry_run else store.write(change)


def delete(store: Store, name: str, *, now: datetime, dry_run: bool = False) -> JobView:
    """Take away a job that was made through the API: it fires no more, its runs go on, its history stays."""

    def change(db: Database) -> JobView:
        remove_job(db, name=name, now=now)
        return job_view(db, find_job(db, name))

    refuse_file(store.read(partial(find_job, name=name)))  # reads files: not while it locks the database
    return tried(store, change) if dry_run else store.write(change)
