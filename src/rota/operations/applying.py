"""Making the stored jobs equal to what a file or code declares (R-14): create, change, retire them."""

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType

from rota import faults
from rota.declare.agents import own_pools
from rota.declare.files import home_of
from rota.declare.including import files_of, sources_of
from rota.declare.plan import Change, ChangeKind, Plan, StoredSettings, plan, settings_differences
from rota.declare.validate import Declared
from rota.engine import budget
from rota.engine.cadence import mode_of
from rota.engine.clock import tzdata_version
from rota.engine.enqueue import active_runs, cancel
from rota.engine.pause import pause_newborn
from rota.engine.retire import account_for, retire
from rota.model.agents import Access
from rota.model.errors import EmptyApply
from rota.model.ids import new_id
from rota.model.making import MADE, Made
from rota.model.records import Job
from rota.model.spec import JobSpec, Mode, Workspace
from rota.model.states import Reason, Status
from rota.operations.jobs import ENABLED_KEY, HELD, TIMEZONE_KEY
from rota.rules.cursor import NOWHERE, Cursor, cursor_after_edit, first_cursor
from rota.runners.boot import machine_boot
from rota.settings import Settings
from rota.store import budgets, cadence, chains, deliveries, finding, jobs, making, queue
from rota.store.driver import Database, Store
from rota.store.locking import Turn, hold_turn

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
    hold_turn(db, Turn.DECLARE)
    source = source or source_of(declared)
    found = _planned(db, declared=declared, adopt=adopt, allow_empty=allow_empty, source=source)
    tzdata = tzdata_version()
    if found.changing or found.settings:
        cadence.touch(db, what="apply", now=now)
    settings = _wanted(db, declared, source)
    making.set_policy(db, settings.agent_policy)
    queue.declare_pools(db, settings.pools)
    queue.set_aging(db, settings.scheduler.aging)
    budget.declare(db, settings.budgets, settings.prices)
    deliveries.declare_targets(db, settings.notify, now=now)
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
    if cadence.quiet_hours(db) != declared.settings.quiet:
        cadence.set_quiet_hours(db, declared.settings.quiet)
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
        agent_policy=making.policy(db),
        notify=deliveries.targets(db),
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
        for began, ended, name in finding.executed_since(db, job.id, min(reached) - SLACK) if reached else ():
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


def carry_out(db: Database, change: Change, *, source: str, tzdata: str, now: datetime) -> None:
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
    made: Made | None = None,
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
        making.set_made(db, job_id, made)
    if provisional:
        making.set_provisional(db, job_id, now)
    cadence.set_mode(db, job_id, spec, mode=mode)
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
        making.set_provisional(db, job.id, None)
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
        making.set_provisional(db, job.id, provisional_at)
    if job.made is not None and source != MADE:
        _take_from_maker(db, job, now=now)
    cadence.set_mode(db, job.id, spec, mode=mode)
    _note_boot(db, job, spec)


def _take_from_maker(db: Database, job: Job, *, now: datetime) -> None:
    """Forget who made a job: the file has taken it over."""
    making.set_made(db, job.id, None)
    making.set_approved(db, job.id, None, now=now)


def _note_boot(db: Database, job: Job, spec: JobSpec) -> None:
    """Let a job that fires at boot from now on wait for the next one; one that did so before has its boot already."""
    if not spec.schedule.reboot and job.booted is not None:
        jobs.set_booted(db, job.id, None)
    elif spec.schedule.reboot and not (job.spec.schedule.reboot and job.schedules and job.booted):
        jobs.set_booted(db, job.id, machine_boot())


def _cursor_after_edit(db: Database, job: Job, spec: JobSpec, *, mode: Mode, now: datetime) -> Cursor:
    # Runs by hand never move the cursor, so none may be waited for.
    active = chains.scheduled_chain_unfinished(db, job.id)
    accounted_to = jobs.accounted_until(db, job)
    return cursor_after_edit(job, spec, now=now, active=active, accounted_to=accounted_to, mode=mode)


def cancel_waiting(db: Database, job_id: str, now: datetime) -> None:
    """Cancel the runs of a job that have not started."""
    for run in active_runs(db, job_id):
        if run.status is Status.QUEUED:
            cancel(db, run.id, reason=Reason.RETIRED, now=now)
