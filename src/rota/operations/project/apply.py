"""Applying a declaration to the stored jobs."""

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from rota import faults
from rota.declare.entries import in_case_only, notes_on, refuse_past
from rota.declare.include import files_of, locate_job, sources_of
from rota.declare.plan import ChangeKind, JobChange, Plan, StoredSettings, plan, settings_differences, source_of
from rota.declare.project import Declared, read_given
from rota.declare.readers.agents import own_pools
from rota.declare.registry import BUILTIN_CONDITIONS
from rota.declare.yaml import load_again
from rota.engine.activity import mode_of
from rota.engine.clock import tzdata_version
from rota.engine.transactions import budgets as budgets_transactions
from rota.engine.transactions.enqueue import active_runs, cancel
from rota.engine.transactions.fire import settle
from rota.engine.transactions.pause import account_for, end_pause_if_over, pause_newborn, retire, settle_pause
from rota.engine.transactions.questions import propose, withdraw_of_job
from rota.model.agents import Access
from rota.model.errors import (
    EmptyApply,
    FileProblems,
    InvalidValue,
    JobInFile,
    JobProblems,
    Problem,
    StateError,
    nearest,
)
from rota.model.ids import new_id
from rota.model.proposals import MADE, Provenance
from rota.model.questions import Subject
from rota.model.records import Job
from rota.model.spec import JobSpec, Kind, Mode, Names, Workspace
from rota.model.states import Reason, Status
from rota.operations.admin.secrets import notes_on_targets
from rota.operations.jobs import ENABLED_KEY, HELD, JobView, find_job, job_view
from rota.rules.schedule.blackouts import has_waits
from rota.rules.schedule.cursor import NOWHERE, Cursor, cursor_after_edit, cursor_at, cursor_of, first_cursor
from rota.rules.schedule.instants import next_instant
from rota.runners.processes import machine_boot
from rota.settings import FILE_NAME, Settings, home_of
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import activity, audit, budgets, jobs, notifications, queue, run_queries
from rota.store.tables.jobs import TIMEZONE_KEY
from rota.store.tables.processes import CriticalSection, is_shared, lock_section

FILES_KEY = "applied_files"
"""The files of the last apply, by path, each with the digest of its content."""
HELD_KEY = "held_files"
"""The reason why a change of these files waits for a person, if any."""
FILES_NAMED = 3
NO_FILES: Mapping[str, str] = MappingProxyType({})
SLACK = timedelta(seconds=1)
"""The tolerated difference between the clock of a file system and ours."""


def apply(
    store: Store,
    declared: Declared,
    *,
    now: datetime,
    dry_run: bool = False,
    adopt: Collection[str] = (),
    allow_empty: bool = False,
    cancel_queued: bool = False,
) -> Plan:
    """Make the stored jobs of the file equal to it; return the changes, or those of a dry run."""
    if dry_run:
        return store.read(partial(_planned, declared=declared, adopt=adopt, allow_empty=allow_empty))
    return store.write(
        partial(apply_in, declared=declared, now=now, adopt=adopt, allow_empty=allow_empty, cancel_queued=cancel_queued)
    )


def apply_in(
    db: Database,
    *,
    declared: Declared,
    now: datetime,
    adopt: Collection[str] = (),
    allow_empty: bool = False,
    cancel_queued: bool = False,
    source: str = "",
    files: Mapping[str, str] = NO_FILES,
) -> Plan:
    """Apply inside a transaction; `source` replaces the source of the file, `files` are the digests before reading."""
    lock_section(db, CriticalSection.DECLARE)
    source = source or source_of(declared)
    changes = _planned(db, declared=declared, adopt=adopt, allow_empty=allow_empty, source=source)
    for before in _moved_sources(db, declared, source):
        db.execute("job_move_source", before=before, after=source)
    tzdata = tzdata_version()
    if changes.changing or changes.settings:
        activity.touch(db, what="apply", now=now)
    settings = _wanted(db, declared, source)
    jobs.set_policy(db, settings.agent_policy)
    queue.declare_pools(db, settings.pools)
    queue.set_aging(db, settings.scheduler.aging)
    budgets_transactions.declare(db, settings.budgets, settings.prices, subscriptions=settings.subscriptions)
    notifications.declare_targets(db, settings.notify, now=now)
    for change in changes.changing:
        carry_out(db, change, source=source, tzdata=tzdata, now=now)
        faults.point("apply.changed")
        if cancel_queued and change.job is not None:
            cancel_waiting(db, change.job.id, now)
    scheduler = "on" if declared.settings.scheduler.enabled else "off"
    values = {TIMEZONE_KEY: declared.settings.timezone, ENABLED_KEY: scheduler}
    if source == source_of(declared):
        digests = _digests(_files_of(declared), declared.settings.folder) | dict(files)
        values |= {FILES_KEY: json.dumps(digests, sort_keys=True), HELD_KEY: ""}
    for key, value in values.items():
        _set_meta(db, key, value)
    if activity.quiet_hours(db) != declared.settings.quiet:
        activity.set_quiet_hours(db, declared.settings.quiet)
    faults.point("apply.written")
    return changes


def _planned(db: Database, *, declared: Declared, adopt: Collection[str], allow_empty: bool, source: str = "") -> Plan:
    omitted = {project.included.name for project in declared.left_out}
    source, stored = source or source_of(declared), jobs.all_jobs(db)
    moved = _moved_sources(db, declared, source)
    if moved:
        stored = [replace(job, source=source) if job.source in moved else job for job in stored]
    changes = plan(declared.jobs, stored, source=source, adopt=adopt, kept=omitted)
    if changes.empties and not allow_empty:
        message = f"{declared.settings.file} has no jobs, and {len(changes.changes)} stored ones came from it"
        raise EmptyApply(message, hint="to retire them all pass --allow-empty")
    moves = (f"file {before.removeprefix('file:')} -> {source.removeprefix('file:')}" for before in moved)
    return replace(
        changes, settings=(*moves, *settings_differences(_wanted(db, declared, source), _stored_settings(db)))
    )


def _moved_sources(db: Database, declared: Declared, source: str) -> list[str]:
    """Return the sources of jobs whose file is gone because the project's folder was moved, with its state in it."""
    settings = declared.settings
    if source != source_of(declared) or is_shared(db) or not settings.state.is_relative_to(settings.folder):
        return []
    others = [other for (other,) in db.rows("job_sources") if other != source and other.startswith("file:")]
    return [other for other in others if not os.path.lexists(other.removeprefix("file:"))]


def _wanted(db: Database, declared: Declared, source: str) -> Settings:
    """Return the settings to store; while a project is left out, its stored pools, budgets and targets stay.

    Jobs of other sources keep the pools of their agents.
    """
    others = [job for job in jobs.all_jobs(db) if job.source != source and job.retired_at is None]
    drawn = [own_pools(job.spec.work.agent) for job in others if job.spec.work.agent is not None]
    other_pools = {name: capacity for pools in drawn for name, capacity in pools.items()}
    settings = replace(declared.settings, pools={**other_pools, **declared.settings.pools})
    if not declared.left_out:
        return settings
    stored = _stored_settings(db)
    pools, accounts = {**stored.pools, **settings.pools}, {**stored.budgets, **settings.budgets}
    return replace(
        settings,
        pools=pools,
        budgets=accounts,
        subscriptions={**stored.subscriptions, **settings.subscriptions},
        notify={**stored.notify, **settings.notify},
    )


def _stored_settings(db: Database) -> StoredSettings:
    return StoredSettings(
        pools={pool.name: pool.capacity for pool in queue.pools(db) if pool.declared},
        aging=queue.aging(db),
        budgets={stored.account.name: stored.account for stored in budgets.accounts(db) if stored.declared},
        subscriptions=budgets.subscriptions(db),
        prices=budgets.prices(db),
        agent_policy=jobs.policy(db),
        notify=notifications.targets(db),
    )


def read_files(file: Path, *, home: str) -> dict[str, str]:
    """Return the digests of a project's file and its included files."""
    return _digests(files_of(file, home=home), file.parent)


def held_change(db: Database, *, file: Path, home: str, now: datetime) -> str | None:
    """Return why the files of a project are not applied: an agent with write access may have changed them.

    Such a change waits until a person applies or reverts it; nothing of it is loaded before.
    """
    row = db.row("meta_get", key=FILES_KEY)
    if row is None:
        return None
    folder, applied = file.parent, json.loads(row[0])
    found = _digests([*files_of(file, home=home), *(folder / name for name in applied)], folder)
    changed = sorted(name for name, digest in found.items() if digest != applied.get(name, ""))
    held: str = (db.row("meta_get", key=HELD_KEY) or ("",))[0] if changed else ""
    if changed and not held and (writer := _writer_of(db, changed, folder=folder, now=now)):
        names = ", ".join(changed[:FILES_NAMED]) + (", …" if changed[FILES_NAMED:] else "")
        held = f"{HELD}{names} changed while the agent's run {writer} worked there; apply it with `rota apply`"
    _set_meta(db, HELD_KEY, held)
    return held or None


def _digests(paths: Iterable[Path], folder: Path) -> dict[str, str]:
    """Return the digests of files by relative path; empty for an empty or unreadable file."""
    digests = {}
    for path in paths:
        content = b""
        with contextlib.suppress(OSError):
            content = path.read_bytes()
        digests[os.path.relpath(path, folder)] = hashlib.sha256(content).hexdigest() if content else ""
    return digests


def _files_of(declared: Declared) -> list[Path]:
    """Return the files of a project, and of the modules that it and its included projects import."""
    settings = declared.settings
    imports = {(work.project, work.imports) for work in (job.work for job in declared.jobs) if work.project}
    modules = [source for folder, names in imports for source in sources_of(Path(folder or ""), names)]
    files = files_of(settings.file, home=home_of(os.environ))
    return [*files, *sources_of(settings.folder, settings.imports), *modules]


def _set_meta(db: Database, key: str, value: str) -> None:
    row = db.row("meta_get", key=key)
    if row != (value,) and (row is not None or value):
        db.execute("meta_set", key=key, value=value)


def _writer_of(db: Database, changed: Sequence[str], *, folder: Path, now: datetime) -> str | None:
    """Return the run or direct call of an agent that could write one of these files at its last change."""
    times = [(path, _changed_at(path, now)) for path in (folder / name for name in changed)]
    for job in jobs.all_jobs(db):
        reached = [at for path, at in times if _reaches(job.spec, path, folder)]
        for began, ended, name in run_queries.executed_since(db, job.id, min(reached) - SLACK) if reached else ():
            if any(began - SLACK <= at <= (ended or now) + SLACK for at in reached):
                return name
    return None


def _changed_at(path: Path, now: datetime) -> datetime:
    """Return the status-change time of a file, which no tool can set; now for a deleted file."""
    for place in (path, path.parent):
        with contextlib.suppress(OSError):
            return datetime.fromtimestamp(place.stat().st_ctime, UTC)
    return now


def _reaches(spec: JobSpec, path: Path, folder: Path) -> bool:
    """Return whether the agent of a job may write a file: with full access any file, else those of its repository."""
    work = spec.work.agent
    if work is None or work.access is Access.READ:
        return False
    if work.access in (Access.ASK, Access.FULL):
        return True
    if work.workspace is not Workspace.PROJECT:
        return False
    cwd = Path(os.path.realpath(Path(spec.work.project or folder) / os.path.expanduser(spec.work.cwd)))
    top = next((place for place in (cwd, *cwd.parents) if (place / ".git").exists()), cwd)
    return "{{" in spec.work.cwd or Path(os.path.realpath(path)).is_relative_to(top)


def carry_out(db: Database, change: JobChange, *, source: str, tzdata: str, now: datetime) -> None:
    """Apply one change of a plan."""
    if change.kind is ChangeKind.CREATE:
        assert change.spec is not None
        create(db, change.spec, source=source, tzdata=tzdata, now=now)
        return
    assert change.job is not None
    if change.kind is ChangeKind.RETIRE:
        retire(db, change.job.id, now=now)
        return
    assert change.spec is not None
    change_to(db, change.job, change.spec, source=source, tzdata=tzdata, now=now)


def create(
    db: Database,
    spec: JobSpec,
    *,
    source: str,
    tzdata: str,
    now: datetime,
    made: Provenance | None = None,
    provisional: bool = False,
) -> str:
    """Store a new job and return its identifier; a provisional job has no due instants."""
    job_id = new_id(now)
    mode = mode_of(db, spec, now=now)
    cursor = NOWHERE if provisional else first_cursor(spec, created_at=now, mode=mode)
    jobs.insert_job(
        db,
        spec,
        job_id=job_id,
        source=source,
        next_for=cursor.next_for,
        next_at=cursor.next_at,
        tzdata=tzdata,
        now=now,
        provisional=provisional,
    )
    if made is not None:
        jobs.set_made(db, job_id, made)
    if provisional:
        jobs.set_provisional(db, job_id, now)
        propose(db, jobs.job_by_id(db, job_id), now=now)
    activity.set_mode(db, job_id, spec, mode=mode)
    if spec.schedule.reboot:
        jobs.set_booted(db, job_id, machine_boot())
    pause_newborn(db, job_id, now=now)
    return job_id


def change_to(
    db: Database,
    job: Job,
    spec: JobSpec,
    *,
    source: str,
    tzdata: str,
    now: datetime,
    provisional_at: datetime | None = None,
) -> None:
    """Give a stored job another definition or source; with `provisional_at` it becomes provisional."""
    provisional = provisional_at is not None
    same = spec.enabled and spec.schedule == job.spec.schedule and not provisional
    job = account_for(db, job.id, now=now, closing=not same)
    same_schedule = job.spec.schedule == spec.schedule
    used_up_at = job.used_up_at if same_schedule else None
    planned = replace(job, next_for=job.next_for or job.held_for, next_at=job.next_at or job.held_for)
    mode = mode_of(db, spec, now=now)
    nowhere = provisional or used_up_at is not None
    cursor = NOWHERE if nowhere else _cursor_after_edit(db, planned, spec, mode=mode, now=now)
    if job.provisional_at is not None and not provisional:
        jobs.set_provisional(db, job.id, None)
        why = "the job no longer waits for approval"
        withdraw_of_job(db, job.id, why=why, now=now, subjects=(Subject.PROPOSAL,))
    jobs.change_job(
        db,
        replace(job, provisional_at=provisional_at),
        spec,
        source=source,
        retired_at=None,
        used_up_at=used_up_at,
        next_for=cursor.next_for,
        next_at=cursor.next_at,
        tzdata=tzdata,
        now=now,
    )
    if provisional:
        jobs.set_provisional(db, job.id, provisional_at)
        propose(db, jobs.job_by_id(db, job.id), now=now)
    if job.made is not None and source != MADE:  # the file has adopted it
        jobs.set_made(db, job.id, None)
        jobs.set_approved(db, job.id, None, now=now)
    activity.set_mode(db, job.id, spec, mode=mode)
    if not spec.schedule.reboot and job.booted is not None:
        jobs.set_booted(db, job.id, None)
    elif spec.schedule.reboot and not (job.spec.schedule.reboot and job.schedules and job.booted):
        jobs.set_booted(db, job.id, machine_boot())  # it waits for the next boot


def _cursor_after_edit(db: Database, job: Job, spec: JobSpec, *, mode: Mode, now: datetime) -> Cursor:
    # Manual runs never move the cursor, so the cursor must not wait for one.
    active = run_queries.scheduled_chain_unfinished(db, job.id)
    accounted_to = jobs.accounted_until(db, job)
    return cursor_after_edit(job, spec, now=now, active=active, accounted_to=accounted_to, mode=mode)


def cancel_waiting(db: Database, job_id: str, now: datetime) -> None:
    """Cancel the runs of a job that have not started."""
    for run in active_runs(db, job_id):
        if run.status is Status.QUEUED:
            cancel(db, run.id, reason=Reason.RETIRED, now=now)


DECLARED = "python"
"""The source of jobs that the code declares at each start; missing ones are retired, as with a file."""
KEPT = "api"
"""The source of jobs that stay until they are removed."""
FILE = "file:"


def apply_declared(
    db: Database, *, declared: Declared, kept: Collection[str], allow_empty: bool, now: datetime
) -> Plan:
    """Make the stored jobs equal to those of the code; jobs of `kept` are upserted and never retired."""
    own = tuple(spec for spec in declared.jobs if spec.name not in kept)
    stored = jobs.all_jobs(db)
    gone = [job.name for job in stored if job.source == DECLARED and job.retired_at is None]
    if gone and not own and not allow_empty:
        hint = "declare them before it starts; to retire them all: Scheduler(…, allow_empty=True)"
        raise EmptyApply(f"the code declares no jobs, and {len(gone)} stored ones came from it", hint=hint)
    for spec in declared.jobs:
        if spec.name in kept:
            put_job(db, spec, source=KEPT, now=now)
    taken_over = [job.name for job in stored if job.source == KEPT]
    return apply_in(
        db, declared=replace(declared, jobs=own), now=now, adopt=taken_over, allow_empty=True, source=DECLARED
    )


def put_job(db: Database, spec: JobSpec, *, source: str, now: datetime) -> JobChange:
    """Store a job, or change the one of its name; refuse a job that does not come from Python code.

    A deleted job does not come back: a new job gets its name, and its history stays under its identifier.
    """
    stored = [job for job in _of_that_name(db, spec.name) if not _deleted(db, job)]
    adopt = [job.name for job in stored if job.source in (DECLARED, KEPT)]
    (change,) = plan((spec,), stored, source=source, adopt=adopt).changes
    if change.kind is not ChangeKind.UNCHANGED:
        activity.touch(db, what="add_job", now=now)
        give_pool(db, spec)
        carry_out(db, change, source=source, tzdata=tzdata_version(), now=now)
    return change


def _deleted(db: Database, job: Job) -> bool:
    """Return whether a job was deleted for good, and free its name."""
    if job.retired_at is None or job.source not in (KEPT, MADE):
        return False
    jobs.give_up_name(db, job)
    return True


def give_pool(db: Database, spec: JobSpec) -> None:
    """Declare the pools of a job's agent, which the stored settings may lack."""
    agent = spec.work.agent
    if agent is not None:
        pools = {pool.name: pool.capacity for pool in queue.pools(db) if pool.declared}
        queue.declare_pools(db, {**pools, **own_pools(agent)})


def _of_that_name(db: Database, name: str) -> list[Job]:
    """Return the job whose name differs at most in case."""
    stored = next((other for other in jobs.job_names(db) if other.casefold() == name.casefold()), name)
    job = jobs.job_by_name(db, stored)
    return [] if job is None else [job]


def refuse_file(job: Job, *, hint: str = "remove it from that file and apply it") -> None:
    """Raise JobInFile for a job that a file declares: the next apply would undo a change."""
    if job.source.startswith(FILE):
        file = job.source.removeprefix(FILE)
        place = locate_job(Path(file), job.name, home=home_of({}))
        raise JobInFile(job.name, place or Problem("declared it", JobInFile.code, file), hint=hint)


def remove_job(db: Database, *, name: str, now: datetime) -> None:
    """Retire a job: it fires no more, its runs finish, its history stays; its name is free for a new job."""
    job = find_job(db, name)
    refuse_file(job)
    if job.retired_at is None:
        activity.touch(db, what="remove_job", now=now)
        change = JobChange(ChangeKind.RETIRE, job.name, job=job)
        carry_out(db, change, source=job.source, tzdata=tzdata_version(), now=now)


SECTIONS = (
    *("timezone", "defaults", "scheduler", "pools", "budgets", "prices", "quiet_hours", "poll", "agents", "notify"),
)
"""The sections of the project's file that a job may refer to."""
NO_PYTHON = "only jobs of the file may use functions; the API imports no code"


def read_job(name: str, body: Mapping[str, Any], *, folder: Path, state: Path, environ: Mapping[str, str]) -> JobSpec:
    """Return a job that a request writes with the keys of a file, checked with the project's file; raise JobProblems.

    The job may refer to that file, but not to Python functions: a request imports nothing.
    """
    data = {**_sections(folder), "jobs": {name: dict(body)}}
    declared = read_given(data, folder, environment=environ, functions=NothingImported(), state=state)
    spec = next(spec for spec in declared.jobs if spec.name == name)
    names = [condition.name for condition in spec.gates.conditions if condition.name]
    if spec.work.kind is Kind.FUNCTION or not set(names) <= set(BUILTIN_CONDITIONS):
        raise InvalidValue(f"job {spec.name!r} names Python functions: {NO_PYTHON}", hint="declare it in rota.yaml")
    return spec


class NothingImported:
    """A finder that knows no function: a request may name none."""

    def find(self, functions: Sequence[str], conditions: Sequence[str], sources: Sequence[str] = ()) -> Names:
        """Return every name as missing, except the built-in conditions."""
        missing = dict.fromkeys((*functions, *sources), NO_PYTHON)
        for name in conditions:
            if name not in BUILTIN_CONDITIONS:
                near = nearest(name, BUILTIN_CONDITIONS)
                guess = f'no condition is named "{name}"; did you mean "{near[0]}"?' if near else NO_PYTHON
                missing[name] = guess
        return Names(missing)


def _sections(folder: Path) -> dict[str, Any]:
    """Return the sections of the project's file that a job may refer to; agents without their schedules."""
    try:
        data = load_again(folder / FILE_NAME).data
    except FileProblems as error:
        hint = f"fix {folder / FILE_NAME} first: {error.problems[0]}"
        raise StateError("the job cannot be checked because the project's file cannot be read", hint=hint) from None
    sections = {key: data[key] for key in SECTIONS if key in data}
    agents = sections.get("agents")
    if isinstance(agents, dict):
        sections["agents"] = {
            name: {key: value for key, value in agent.items() if key != "schedules"}
            if isinstance(agent, dict)
            else agent
            for name, agent in agents.items()
        }
    return sections


def put(
    store: Store, spec: JobSpec, *, new: bool = False, now: datetime, dry_run: bool = False
) -> tuple[JobView, bool]:
    """Store a job, or change the one of its name; return it and whether it is new. Refuse a job of a file."""
    operation = partial(_put, spec=spec, new=new, now=now)
    return rolled_back(store, operation) if dry_run else store.write(operation)


def _put(db: Database, *, spec: JobSpec, new: bool, now: datetime) -> tuple[JobView, bool]:
    folded = spec.name.casefold()
    other = next((name for name in jobs.job_names(db) if name.casefold() == folded), spec.name)
    if other != spec.name:
        raise JobProblems([in_case_only(spec.name, other)])
    before = jobs.job_by_name(db, spec.name)
    if before is None or before.retired_at is not None or before.spec.schedule.at != spec.schedule.at:
        refuse_past(spec, now=now)
    change = put_job(db, spec, source=KEPT, now=now)
    created = change.kind in (ChangeKind.CREATE, ChangeKind.REVIVE)
    if new and not created:
        raise InvalidValue(f"a job {spec.name!r} already exists", hint="change it with PUT, or choose another name")
    return job_view(db, find_job(db, spec.name)), created


def notes_of(view: JobView, *, state: Path, environ: Mapping[str, str], now: datetime) -> tuple[str, ...]:
    """Return the notes of a check about a job."""
    spec = view.job.spec
    return (*notes_on([spec], now=now, environ=environ), *notes_on_targets([spec], {}, state, environ))


def enable(store: Store, name: str, *, enabled: bool, now: datetime, dry_run: bool = False) -> JobView:
    """Enable or disable a job of the API; refuse a job of a file."""

    hint = f"set `enabled: {'true' if enabled else 'false'}` there; `rota pause` pauses a job"

    def change(db: Database) -> JobView:
        job = find_job(db, name)
        refuse_file(job, hint=hint)
        put_job(db, replace(job.spec, enabled=enabled), source=job.source, now=now)
        return job_view(db, find_job(db, name))

    refuse_file(store.read(partial(find_job, name=name)), hint=hint)  # reads files: not while it locks the database
    return rolled_back(store, change) if dry_run else store.write(change)


def delete(store: Store, name: str, *, now: datetime, dry_run: bool = False) -> JobView:
    """Remove a job of the API: it fires no more, its runs finish, its history stays."""

    def change(db: Database) -> JobView:
        remove_job(db, name=name, now=now)
        return job_view(db, find_job(db, name))

    refuse_file(store.read(partial(find_job, name=name)))  # reads files: not while it locks the database
    return rolled_back(store, change) if dry_run else store.write(change)


TZDATA_KEY = "tzdata"


def adopt_tzdata(db: Database, *, tzdata: str, now: datetime) -> int:
    """Replan the jobs in zones with rules if the time zone data changed; return their number."""
    row = db.row("meta_get", key=TZDATA_KEY)
    if row == (tzdata,):
        return 0
    db.execute("meta_set", key=TZDATA_KEY, value=tzdata)
    if row is None:
        return 0
    stored = jobs.all_jobs(db)
    moved = [job for job in stored if _follows_a_zone(job) and _replan(db, job.id, tzdata=tzdata, now=now)]
    for job in stored:
        if not _follows_a_zone(job) and has_waits(job.spec.schedule) and job.next_for is not None:
            jobs.wait_until(db, job, cursor_of(job, job.next_for).next_at)
    audit.insert_event(db, "tzdata_changed", now=now, before=row[0], after=tzdata, jobs=len(moved))
    return len(moved)


def _follows_a_zone(job: Job) -> bool:
    return bool(job.spec.schedule.cron) and job.spec.schedule.timezone != "UTC"


def _replan(db: Database, job_id: str, *, tzdata: str, now: datetime) -> bool:
    end_pause_if_over(db, job_id, now=now)
    settle(db, job_id, now=now, closing=True)
    job = jobs.job_by_id(db, job_id)
    if job.paused_at is not None:
        job = settle_pause(db, job, now=now, closing=True)
    schedule = job.spec.schedule
    planned = (job.next_for or job.held_for) is not None
    after = max(now, jobs.accounted_until(db, job))
    following = next_instant(schedule, after=after, created_at=job.created_at) if planned else None
    cursor = cursor_at(schedule, following, name=job.name, created_at=job.created_at)
    return jobs.change_job(
        db,
        job,
        job.spec,
        source=job.source,
        retired_at=job.retired_at,
        used_up_at=job.used_up_at,
        next_for=cursor.next_for,
        next_at=cursor.next_at,
        tzdata=tzdata,
        now=now,
    )
