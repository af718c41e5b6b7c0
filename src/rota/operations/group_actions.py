"""Actions on groups: trigger, cancel, retry and drain."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rota.declare.jobs import MEMBERS
from rota.declare.problems import JOB_NAME
from rota.engine.activity import touching
from rota.engine.loops.leases import lose, lost_outcome, take_over
from rota.engine.transactions import groups as groups_transactions
from rota.engine.transactions.enqueue import active_for, cancel_group, enqueue
from rota.engine.transactions.finish import end_runs
from rota.model import errors
from rota.model.records import Group, Run
from rota.model.spec import GroupMode, Kind, Member, OnFailure
from rota.model.states import Reason, Trigger
from rota.operations.groups import GroupView, find_group, group_view
from rota.operations.jobs import find_job
from rota.operations.run_actions import merged_params, refuse_disabled
from rota.operations.workers import SHARED_HINT, Presence, worker_states
from rota.rules.admission import Allow, Refuse, judge, verdict_word
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import groups, jobs, processes, runs
from rota.store.tables.processes import FORGOTTEN, Worker


def create(
    store: Store,
    name: str,
    members: Sequence[Member],
    *,
    mode: GroupMode = GroupMode.SEQUENTIAL,
    on_failure: OnFailure = OnFailure.STOP,
    now: datetime,
    dry_run: bool = False,
) -> GroupView:
    """Create a group at run time, with all of its members or not at all; it has no job and no schedule."""

    def change(db: Database) -> GroupView:
        if not all(JOB_NAME.fullmatch(part) for part in name.split("/", 1)):
            raise errors.InvalidValue(f"{name!r} cannot be a group's name", hint="use letters, digits and . _ -")
        if jobs.job_by_name(db, name) is not None:
            raise errors.NameTaken(f"a job is named {name!r}", hint="choose another name for the group")
        _check_members(db, members)
        return _insert(db, groups_transactions.NewGroup(name, mode, on_failure, tuple(members)), now=now)

    return rolled_back(store, change) if dry_run else store.write(touching(change, what="group", now=now))


def _check_members(db: Database, members: Sequence[Member]) -> None:
    if not 1 <= len(members) <= MEMBERS:
        raise errors.InvalidValue(f"a group of {len(members):,} members", hint=f"name 1 to {MEMBERS:,} jobs")
    if all(member.always for member in members):
        raise errors.InvalidValue("every member is `always`", hint="`always` members run when the others are final")
    for member in members:
        job = find_job(db, member.job)
        refuse_disabled(job)
        if job.spec.work.kind is Kind.GROUP:
            raise errors.InvalidValue(
                f"{job.name!r} is a group, and groups cannot contain groups", hint="name its jobs"
            )
        merged_params(job.spec, member.params)


def _insert(db: Database, group: groups_transactions.NewGroup, *, now: datetime) -> GroupView:
    inserted = groups_transactions.found(db, group, now=now)
    end_runs(db, inserted.ends, epoch=None, now=now)
    return _reloaded(db, inserted.group.id)


def _reloaded(db: Database, group_id: str) -> GroupView:
    group = groups.group_by_id(db, group_id)
    assert group is not None, "the group was read or made in this transaction"
    return group_view(db, group)


def cancel(store: Store, handle: str, *, now: datetime, dry_run: bool = False) -> GroupView:
    """Cancel a group: dequeue waiting members and stop running ones; `always` members do not run either."""

    def change(db: Database) -> GroupView:
        group = find_group(db, handle)
        if group.finished_at is not None:
            raise errors.GroupIsFinal(group.handle, group.status)
        cancel_group(db, group, reason=Reason.REQUESTED, now=now)
        return _reloaded(db, group.id)

    return rolled_back(store, change) if dry_run else store.write(touching(change, what="cancel", now=now))


class Repeated(Struct, frozen=True):
    """A group that retries another: its run, None if it has no job, and its members, None while it waits."""

    of: Group
    run: Run | None
    view: GroupView | None


def retry(store: Store, handle: str, *, now: datetime, force: bool = False, dry_run: bool = False) -> Repeated:
    """Create a new group of the failed members: of a sequence from the first failed member on, with its params."""
    operation = partial(_retry, handle=handle, force=force, now=now)
    return rolled_back(store, operation) if dry_run else store.write(touching(operation, what="retry", now=now))


def _retry(db: Database, *, handle: str, force: bool, now: datetime) -> Repeated:
    group = find_group(db, handle)
    if group.finished_at is None:
        raise errors.GroupUnfinished(group.handle)
    new_group = groups_transactions.repeat(db, group, run=None)
    if not new_group.members:
        raise errors.GroupCompleted(group.handle, group.status, group.name)
    if group.run_id is None:
        return Repeated(group, None, _insert(db, new_group, now=now))
    return _retry_run(db, group, group.run_id, force=force, now=now)


def _retry_run(db: Database, group: Group, run_id: str, *, force: bool, now: datetime) -> Repeated:
    """Retry a declared group by a manual run of its job, subject to overlap."""
    failed = runs.run_by_id(db, run_id)
    assert failed is not None, "a foreign key holds the group's run"
    job = jobs.job_by_id(db, failed.job_id)
    refuse_disabled(job)
    verdict = Allow() if force else judge(job.spec.overlap, active_for(db, job))
    if isinstance(verdict, Refuse):
        raise errors.OverlapRefused(job.name, verdict.blocking.handle, job.spec.overlap.policy.value)
    run = enqueue(
        db,
        job,
        verdict,
        trigger=Trigger.MANUAL,
        now=now,
        scheduled_for=failed.scheduled_for,
        forced=force,
        retry_of=failed.id,
        decisions={"overlap": {"policy": job.spec.overlap.policy.value, "verdict": verdict_word(verdict)}},
    )
    begun = groups.group_of_run(db, run.id)
    return Repeated(group, runs.run_by_id(db, run.id), group_view(db, begun) if begun else None)


def drain_worker(store: Store, name: str, *, draining: bool, dry_run: bool = False) -> bool:
    """Stop or restart a worker's claims; its runs finish. Return whether the state changed."""

    def change(db: Database) -> bool:
        worker = _named(db, name)
        return worker.draining != draining if dry_run else processes.drain(db, worker.id, draining=draining)

    return store.read(change) if dry_run else store.write(change)


def forget_worker(store: Store, state: Path, name: str, *, now: datetime, dry_run: bool = False) -> int:
    """Remove a worker that will not return; return the number of its runs that this ends."""
    operation = partial(_forget, state=state, name=name, now=now)
    return rolled_back(store, operation) if dry_run else store.write(operation)


def _forget(db: Database, *, state: Path, name: str, now: datetime) -> int:
    worker = _named(db, name)
    if not processes.is_shared(db):
        raise errors.StoreNotShared(f"{name!r} is the only worker of this project", hint=SHARED_HINT)
    states = [seen for seen in worker_states(db, state) if seen.worker.id == worker.id]
    if any(seen.presence is not Presence.GONE for seen in states):
        raise errors.WorkerAlive(name)
    ended = 0
    for process in processes.open_processes(db):
        if process.worker_id == worker.id:
            left = lose(db, process.epoch, worker=name, now=now, forced=True)
            ended += left.failed if left is not None else 0
    for epoch in processes.epochs_with_runs(db, worker.id):  # runs with keepers that outlived their processes
        ended += take_over(db, epoch, lost_outcome(name), now=now).failed
    processes.update_worker(db, replace(worker, name=f"{worker.name}{FORGOTTEN}{worker.id}"))
    return ended


def _named(db: Database, name: str) -> Worker:
    worker = processes.worker_by_name(db, name) or processes.worker_by_id(db, name)
    if worker is None or worker.forgotten:
        raise errors.UnknownWorker(name)
    return worker
