"""Making the stored jobs equal to what a file or code declares (R-14): create, change, retire them."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from functools import partial

from rota import faults
from rota.declare.agents import own_pools
from rota.declare.plan import Change, ChangeKind, Plan, StoredSettings, plan, settings_differences
from rota.declare.validate import Declared
from rota.engine import budget
from rota.engine.cadence import mode_of
from rota.engine.clock import tzdata_version
from rota.engine.enqueue import active_runs, cancel
from rota.engine.pause import pause_newborn
from rota.engine.retire import account_for, retire
from rota.model.errors import EmptyApply
from rota.model.ids import new_id
from rota.model.making import MADE, Made
from rota.model.records import Job
from rota.model.spec import JobSpec, Mode
from rota.model.states import Reason, Status
from rota.operations.jobs import ENABLED_KEY, TIMEZONE_KEY
from rota.rules.cursor import NOWHERE, Cursor, cursor_after_edit, first_cursor
from rota.runners.boot import machine_boot
from rota.settings import Settings
from rota.store import budgets, cadence, chains, deliveries, jobs, making, queue
from rota.store.driver import Database, Store
from rota.store.locking import Turn, hold_turn


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
) -> Plan:
    """Apply inside a transaction; `source` in the place of the file's."""
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
    for key, value in ((TIMEZONE_KEY, declared.settings.timezone), (ENABLED_KEY, scheduler)):
        if db.row("meta_get", key=key) != (value,):
            db.execute("meta_set", key=key, value=value)
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
