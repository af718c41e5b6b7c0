"""Applying a declaration to the stored jobs."""

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rota import faults
from rota.declare.agents import own_pools
from rota.declare.entries import in_case_only, notes_on, refuse_past
from rota.declare.include import files_of, locate_job, sources_of
from rota.declare.plan import ChangeKind, JobChange, Plan, StoredSettings, plan, settings_differences
from rota.declare.project import Declared, read_given
from rota.declare.registry import BUILTIN_CONDITIONS
from rota.declare.yaml import home_of, load_again
from rota.engine.activity import mode_of
from rota.engine.clock import tzdata_version
from rota.engine.transactions import budgets as budgets_transactions
from rota.engine.transactions.enqueue import active_runs, cancel
from rota.engine.transactions.fire import settle
from rota.engine.transactions.pause import account_for, end_pause_if_over, pause_newborn, retire, settle_pause
from rota.model.agents import Access
from rota.model.errors import EmptyApply, FileProblems, InvalidValue, JobInFile, JobProblems, Problem, StateError
from rota.model.ids import new_id
from rota.model.proposals import MADE, Provenance
from rota.model.records import Job
from rota.model.spec import JobSpec, Kind, Mode, Names, Workspace
from rota.model.states import Reason, Status
from rota.operations.admin.secrets import notes_on_targets
from rota.operations.jobs import ENABLED_KEY, HELD, TIMEZONE_KEY, JobView, find_job, job_view
from rota.rules.schedule.blackouts import has_waits
from rota.rules.schedule.cursor import NOWHERE, Cursor, cursor_after_edit, cursor_at, cursor_of, first_cursor
from rota.rules.schedule.instants import next_instant
from rota.runners.processes import machine_boot
from rota.settings import FILE_NAME, Settings
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import activity, audit, budgets, jobs, notifications, queue, run_queries
from rota.store.tables.processes import CriticalSection, lock_section

FILES_KEY = "applied_files"
"""The files that were applied last, by path, each with the digest of its content."""
HELD_KEY = "held_files"
"""Why a change of them waits for a person; empty: none does."""
FILES_NAMED = 3
NO_FILES: Mapping[str, str] = MappingProxyType({})
SLACK = timedelta(seconds=1)
"""How far the clock of a file system may be from ours."""


def source_of(declared: Declared) -> str:
    """Return the source under which the jobs of a file are stored."""
    return f"file:{declared.settings.file}"


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
    """Make the stored jobs of the file equal to it; return what changed, or would (R-14)."""
    operation = partial(
        apply_in,
        declared=declared,
        now=now,
        adopt=adopt,
        allow_empty=allow_empty,
        cancel_queued=cancel_queued,
    )
    if dry_run:
        return store.read(partial(_planned, declared=declared, adopt=adopt, allow_empty=allow_empty))
    return store.write(operation)


def first_plan(declared: Declared) -> Plan:
    """Return what the first apply of a project would do; nothing is stored yet."""
    settings = settings_differences(declared.settings, StoredSettings())
    return replace(plan(declared.jobs, [], source=source_of(declared)), settings=settings)


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
    """Apply inside a transaction; `source` in the place of the file's, `files` as they were before they were read."""
    lock_section(db, CriticalSection.DECLARE)
    source = source or source_of(declared)
    found = _planned(db, declared=declared, adopt=adopt, allow_empty=allow_empty, source=source)
    tzdata = tzdata_version()
    if found.changing or found.settings:
        activity.touch(db, what="apply", now=now)
    settings = _wanted(db, declared, source)
    jobs.set_policy(db, settings.agent_policy)
    queue.declare_pools(db, settings.pools)
    queue.set_aging(db, settings.scheduler.aging)
    budgets_transactions.declare(db, settings.budgets, settings.prices)
    notifications.declare_targets(db, settings.notify, now=now)
    for change in found.changing:
        carry_out(db, change, source=source, tzdata=tzdata, now=now)
        faults.point("apply.changed")
        if cancel_queued and change.job is not None:
            cancel_waiting(db, change.job.id, now)
    scheduler = "on" if declared.settings.scheduler.enabled else "off"
    values = {TIMEZONE_KEY: declared.settings.timezone, ENABLED_KEY: scheduler}
    if source == source_of(declared):
        values |= {
            FILES_KEY: json.dumps(
                _digests(_files_of(declared), declared.settings.folder) | dict(files), sort_keys=True
            ),
            HELD_KEY: "",
        }
    for key, value in values.items():
        _set_meta(db, key, value)
    if activity.quiet_hours(db) != declared.settings.quiet:
        activity.set_quiet_hours(db, declared.settings.quiet)
    faults.point("apply.written")
    return found


def _planned(db: Database, *, declared: Declared, adopt: Collection[str], allow_empty: bool, source: str = "") -> Plan:
    kept = {one.included.name for one in declared.left_out}
    source = source or source_of(declared)
    found = plan(declared.jobs, jobs.all_jobs(db), source=source, adopt=adopt, kept=kept)
    if found.empties and not allow_empty:
        raise EmptyApply(
            f"{declared.settings.file} has no jobs, and {len(found.changes)} stored ones came from it",
            hint="to retire them all pass --allow-empty",
        )
    return replace(found, settings=settings_differences(_wanted(db, declared, source), _stored_settings(db)))


def _wanted(db: Database, declared: Declared, source: str) -> Settings:
    """Return the settings as they are to be; while a project is left out, what it may have declared stays.

    Jobs of other sources keep the pools of their agents.
    """
    others = [job for job in jobs.all_jobs(db) if job.source != source and job.retired_at is None]
    drawn = [own_pools(job.spec.work.agent) for job in others if job.spec.work.agent is not None]
    kept = {name: capacity for pools in drawn for name, capacity in pools.items()}
    settings = replace(declared.settings, pools={**kept, **declared.settings.pools}) if kept else declared.settings
    if not declared.left_out:
        return settings
    stored = _stored_settings(db)
    pools, accounts = {**stored.pools, **settings.pools}, {**stored.budgets, **settings.budgets}
    return replace(settings, pools=pools, budgets=accounts, notify={**stored.notify, **settings.notify})


def _stored_settings(db: Database) -> StoredSettings:
    return StoredSettings(
        pools={pool.name: pool.capacity for pool in queue.pools(db) if pool.declared},
        aging=queue.aging(db),
        budgets={one.account.name: one.account for one in budgets.accounts(db) if one.declared},
        prices=budgets.prices(db),
        agent_policy=jobs.policy(db),
        notify=notifications.targets(db),
    )


# changes that an agent may have made


def read_files(file: Path, *, home: str) -> dict[str, str]:
    """Return a project's file and those that it includes, each with the digest of its content."""
    return _digests(files_of(file, home=home), file.parent)


def held_change(db: Database, *, file: Path, home: str, now: datetime) -> str | None:
    """Return why the files of a project are not applied: an agent that may write may have changed them.

    Such a change waits until a person applies it, or until it is taken back; nothing of it is loaded before.
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
    """Return the digests of files by their paths from the project's folder; empty for one that cannot be read."""
    contents = {os.path.relpath(path, folder): _content(path) for path in paths}
    return {name: hashlib.sha256(content).hexdigest() if content else "" for name, content in contents.items()}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _files_of(declared: Declared) -> list[Path]:
    """Return the files of a project, and those of the modules that it and its included projects import."""
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
    """Return the run or direct call of an agent that could write these files when one of them was changed last."""
    times = [(path, _changed_at(path, now)) for path in (folder / name for name in changed)]
    for job in jobs.all_jobs(db):
        reached = [at for path, at in times if _reaches(job.spec, path, folder)]
        for began, ended, name in run_queries.executed_since(db, job.id, min(reached) - SLACK) if reached else ():
            if any(began - SLACK <= at <= (ended or now) + SLACK for at in reached):
                return name
    return None


def _changed_at(path: Path, now: datetime) -> datetime:
    """Return when a file was changed last by the time of the system, which no tool sets; of one that is gone, now."""
    for place in (path, path.parent):
        with contextlib.suppress(OSError):
            return datetime.fromtimestamp(place.stat().st_ctime, UTC)
    return now


def _reaches(spec: JobSpec, path: Path, folder: Path) -> bool:
    """Tell whether the agent of a job may write a file: with full access every one, else those of its repository."""
    work = spec.work.agent
    if work is None or work.access is Access.READ:
        return False
    if work.access is Access.FULL:
        return True
    if work.workspace is not Workspace.PROJECT:
        return False
    cwd = Path(os.path.realpath(Path(spec.work.project or folder) / os.path.expanduser(spec.work.cwd)))
    top = next((place for place in (cwd, *cwd.parents) if (place / ".git").exists()), cwd)
    return "{{" in spec.work.cwd or Path(os.path.realpath(path)).is_relative_to(top)


def carry_out(db: Database, change: JobChange, *, source: str, tzdata: str, now: datetime) -> None:
    """Make one job as a plan says."""
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
    """Store a new job and return its identifier; a provisional one has no due instants, paused or not (R-29)."""
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
    """Give a stored job another definition or source; provisional from then on where `provisional_at` says so."""
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
    if job.made is not None and source != MADE:
        _take_from_maker(db, job, now=now)
    activity.set_mode(db, job.id, spec, mode=mode)
    _note_boot(db, job, spec)


def _take_from_maker(db: Database, job: Job, *, now: datetime) -> None:
    """Forget who made a job: the file has taken it over."""
    jobs.set_made(db, job.id, None)
    jobs.set_approved(db, job.id, None, now=now)


def _note_boot(db: Database, job: Job, spec: JobSpec) -> None:
    """Let a job that fires at boot from now on wait for the next one; one that did so before has its boot already."""
    if not spec.schedule.reboot and job.booted is not None:
        jobs.set_booted(db, job.id, None)
    elif spec.schedule.reboot and not (job.spec.schedule.reboot and job.schedules and job.booted):
        jobs.set_booted(db, job.id, machine_boot())


def _cursor_after_edit(db: Database, job: Job, spec: JobSpec, *, mode: Mode, now: datetime) -> Cursor:
    # Runs by hand never move the cursor, so none may be waited for.
    active = run_queries.scheduled_chain_unfinished(db, job.id)
    accounted_to = jobs.accounted_until(db, job)
    return cursor_after_edit(job, spec, now=now, active=active, accounted_to=accounted_to, mode=mode)


def cancel_waiting(db: Database, job_id: str, now: datetime) -> None:
    """Cancel the runs of a job that have not started."""
    for run in active_runs(db, job_id):
        if run.status is Status.QUEUED:
            cancel(db, run.id, reason=Reason.RETIRED, now=now)


DECLARED = "python"
"""The source of jobs that the code declares each time it starts; what it no longer has is retired, as of a file."""
KEPT = "api"
"""The source of jobs that stay until somebody removes them."""
FILE = "file:"


def apply_declared(
    db: Database, *, declared: Declared, kept: Collection[str], allow_empty: bool, now: datetime
) -> Plan:
    """Make the stored jobs equal to what the code declares; those of `kept` are upserted and never retired."""
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
    """Store a job, or change the one of its name; one that came from elsewhere than Python code is refused.

    A deleted job does not come back: its name goes to a new job, and its history stays under its identifier (R-14).
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
    """Tell whether a job was deleted for good; its name is free then."""
    if job.retired_at is None or job.source not in (KEPT, MADE):
        return False
    jobs.give_up_name(db, job)
    return True


def give_pool(db: Database, spec: JobSpec) -> None:
    """Declare the pools of a job's agent: nobody may have drawn on them when the settings were stored (R-04)."""
    agent = spec.work.agent
    if agent is not None:
        pools = {pool.name: pool.capacity for pool in queue.pools(db) if pool.declared}
        queue.declare_pools(db, {**pools, **own_pools(agent)})


def _of_that_name(db: Database, name: str) -> list[Job]:
    """Return the job whose name differs at most in case."""
    known = next((one for one in jobs.job_names(db) if one.casefold() == name.casefold()), name)
    found = jobs.job_by_name(db, known)
    return [] if found is None else [found]


def refuse_file(job: Job, *, hint: str = "take it out of that file and apply it") -> None:
    """Refuse to change or remove a job that a file declares: the next apply would undo it."""
    if job.source.startswith(FILE):
        file = job.source.removeprefix(FILE)
        place = locate_job(Path(file), job.name, home=home_of({}))
        raise JobInFile(job.name, place or Problem("declared it", JobInFile.code, file), hint=hint)


def remove_job(db: Database, *, name: str, now: datetime) -> None:
    """Retire a job: no more fires, its runs go on, its history stays; the same name makes a new job."""
    job = find_job(db, name)
    refuse_file(job)
    if job.retired_at is None:
        activity.touch(db, what="remove_job", now=now)
        change = JobChange(ChangeKind.RETIRE, job.name, job=job)
        carry_out(db, change, source=job.source, tzdata=tzdata_version(), now=now)


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
    return rolled_back(store, operation) if dry_run else store.write(operation)


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
    return rolled_back(store, change) if dry_run else store.write(change)


def delete(store: Store, name: str, *, now: datetime, dry_run: bool = False) -> JobView:
    """Take away a job that was made through the API: it fires no more, its runs go on, its history stays."""

    def change(db: Database) -> JobView:
        remove_job(db, name=name, now=now)
        return job_view(db, find_job(db, name))

    refuse_file(store.read(partial(find_job, name=name)))  # reads files: not while it locks the database
    return rolled_back(store, change) if dry_run else store.write(change)


TZDATA_KEY = "tzdata"


def adopt_tzdata(db: Database, *, tzdata: str, now: datetime) -> int:
    """Close the spans of jobs in zones with rules and plan them anew, if the data changed; return how many."""
    row = db.row("meta_get", key=TZDATA_KEY)
    if row == (tzdata,):
        return 0
    db.execute("meta_set", key=TZDATA_KEY, value=tzdata)
    if row is None:
        return 0
    known = jobs.all_jobs(db)
    moved = [job for job in known if _follows_a_zone(job) and _replan(db, job.id, tzdata=tzdata, now=now)]
    for job in known:
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
