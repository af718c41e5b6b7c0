"""Groups: members are inserted, released and ended together; the last one ends the group.

Nothing here ends a run: what must end is returned, and `record` ends it in the same transaction.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from rota import faults
from rota.engine.transactions.insert import create_run
from rota.model.errors import UnknownJob
from rota.model.ids import new_id
from rota.model.records import Group, Job, Outcome, Run
from rota.model.spec import GroupMode, Kind, Member, OnFailure
from rota.model.states import GroupStatus, Reason, Status, Trigger, WaitingFor
from rota.rules.groups import FAILING, Cancel, Finish, MemberState, Start, next_step, to_repeat
from rota.rules.outcome import ONE_ATTEMPT
from rota.store.driver import Database
from rota.store.tables import groups, jobs, runs
from rota.store.tables.processes import hold_jobs_named


class NewGroup(Struct, frozen=True):
    """A group about to begin: its members, and the run that it belongs to, None for one made at run time."""

    name: str
    mode: GroupMode
    on_failure: OnFailure
    members: tuple[Member, ...]
    run: Run | None = None
    retry_of: str | None = None


class Founded(Struct, frozen=True):
    """A group that was just stored, and the members that end at once, since their jobs are not there to run."""

    group: Group
    ends: list[runs.RunEnd]


def begin(db: Database, run_id: str, *, now: datetime) -> list[runs.RunEnd]:
    """Give a declared group's run its members, all in this transaction; return what must end."""
    run = runs.run_by_id(db, run_id)
    assert run is not None, "the run was stored or let go in this transaction"
    return found(db, _founding_of(db, run), now=now).ends


def let_go(db: Database, run_id: str, *, now: datetime) -> list[runs.RunEnd]:
    """Begin a group whose run waited for others; return what must end."""
    return begin(db, run_id, now=now) if groups.begin_run(db, run_id, now=now) else []


def _founding_of(db: Database, run: Run) -> NewGroup:
    repeated = groups.group_of_run(db, run.retry_of) if run.retry_of else None
    if repeated is not None:
        return repeat(db, repeated, run=run)
    work = jobs.version_spec(db, run.job_id, run.version).work
    return NewGroup(run.job, work.mode, work.on_failure, work.members, run=run)


def repeat(db: Database, group: Group, *, run: Run | None) -> NewGroup:
    """Return a final group again, from its first failed member on, with the params its members had."""
    seats = groups.seats(db, group.id)
    again = set(to_repeat(group.mode, [_place(seat) for seat in seats]))
    members = tuple(_member_of(db, seat) for seat in seats if seat.place in again)
    return NewGroup(group.name, group.mode, group.on_failure, members, run=run, retry_of=group.id)


def _member_of(db: Database, seat: groups.GroupMember) -> Member:
    run = runs.run_by_id(db, seat.run_id)
    assert run is not None, "the seat was read in this transaction"
    return Member(seat.job, run.params, always=seat.always)


def found(db: Database, founding: NewGroup, *, now: datetime) -> Founded:
    """Store a group with all of its members, or nothing; start those that come first."""
    group = _insert(db, founding, now=now)
    ends: list[runs.RunEnd] = []
    before: str | None = None
    hold_jobs_named(db, {member.job for member in founding.members})
    for place, member in enumerate(founding.members, start=1):
        job = jobs.job_by_name(db, member.job)
        if job is None:
            raise UnknownJob(member.job)
        run_id = _bear_member(db, group, job, member, place=place, before=before, run=founding.run, now=now)
        before = before if member.always else run_id
        absent = _absence(job)
        if absent is not None:
            outcome = Outcome(Status.CANCELLED, Reason.RETIRED, error=absent)
            ends.append(runs.RunEnd(run_id, outcome, expected=Status.QUEUED, at=now))
    faults.point("group.members_born")
    return Founded(group, ends or step(db, group.id, now=now))


def _insert(db: Database, founding: NewGroup, *, now: datetime) -> Group:
    group = Group(
        id=new_id(now),
        name=founding.name,
        number=groups.next_number(db, founding.name) if founding.run is None else founding.run.number,
        run_id=None if founding.run is None else founding.run.id,
        mode=founding.mode,
        on_failure=founding.on_failure,
        status=GroupStatus.RUNNING,
        size=len(founding.members),
        retry_of=founding.retry_of,
        created_at=now,
        cancel_requested_at=None,
        finished_at=None,
    )
    groups.insert_group(db, group)
    return group


def _bear_member(
    db: Database,
    group: Group,
    job: Job,
    member: Member,
    *,
    place: int,
    before: str | None,
    run: Run | None,
    now: datetime,
) -> str:
    """Store one member; all are held at first, and `before` is what `explain` says it waits for."""
    newborn = runs.NewRun(
        id=new_id(now),
        job=job,
        trigger=Trigger.GROUP,
        created_at=now,
        scheduled_for=None if run is None else run.scheduled_for,
        waiting_for=WaitingFor.PREDECESSOR,
        predecessor_id=before if group.mode is GroupMode.SEQUENTIAL or member.always else None,
        params={**job.spec.work.params, **member.params},
        group_id=group.id,
        place=place,
        always=member.always,
        decisions={ONE_ATTEMPT: True} if run is not None and run.decisions.get(ONE_ATTEMPT) else None,
    )
    return create_run(db, newborn).id


def _absence(job: Job) -> str | None:
    if job.retired_at is not None:
        return f"job {job.name!r} is retired: the file no longer has it"
    if not job.enabled:
        return f"job {job.name!r} is disabled"
    if job.spec.work.kind is Kind.GROUP:
        return f"{job.name!r} is a group by now, and groups cannot contain groups"
    return None


def step(db: Database, group_id: str, *, now: datetime) -> list[runs.RunEnd]:
    """Move a group on after one of its members ended or it was cancelled; return what must end because of it."""
    group = groups.group_by_id(db, group_id)
    if group is None or group.finished_at is not None:
        return []
    seats = _deciding(db, group)
    cancelled = group.cancel_requested_at is not None
    decided = next_step(group.mode, group.on_failure, [_place(seat) for seat in seats], cancelled=cancelled)
    if isinstance(decided, Start):
        _start(db, [seat for seat in seats if seat.place in decided.places], now=now)
    if isinstance(decided, Cancel):
        return _cancelled(decided, seats, now=now)
    if isinstance(decided, Finish):
        return _finish(db, group, seats, status=decided.status)
    return []


def _deciding(db: Database, group: Group) -> list[groups.GroupMember]:
    """Return the places on which the next step depends, all of them only at the end: a long group stays cheap."""
    stops = group.on_failure is OnFailure.STOP and group.cancel_requested_at is None
    failed = groups.failed_seat(db, group.id) if stops else None
    turn_only = group.mode is GroupMode.SEQUENTIAL and group.cancel_requested_at is None and failed is None
    unfinished = groups.open_seats(db, group.id, limit=1 if turn_only else group.size)
    if not unfinished:
        return groups.seats(db, group.id)
    return sorted([*unfinished, *([failed] if failed else [])], key=lambda seat: seat.place)


def _place(seat: groups.GroupMember) -> MemberState:
    return MemberState(
        seat.place,
        seat.status,
        always=seat.always,
        held=seat.waiting_for is WaitingFor.PREDECESSOR,
        tried=seat.attempt > 1,
    )


def _start(db: Database, seats: Sequence[groups.GroupMember], *, now: datetime) -> None:
    """Release members; `expires_after` counts from here, because the group held them until now."""
    gates = [jobs.version_spec(db, seat.job_id, seat.version).gates for seat in seats]
    expiries = [now + gate.expires_after if gate.expires_after else None for gate in gates]
    started = groups.release(db, [(seat.run_id, at) for seat, at in zip(seats, expiries, strict=True)])
    assert started == len(seats), "the members were read in this transaction"
    faults.point("group.members_let_go")


def _cancelled(decided: Cancel, seats: Sequence[groups.GroupMember], *, now: datetime) -> list[runs.RunEnd]:
    by_place = {seat.place: seat for seat in seats}
    why = f"{by_place[decided.because].handle} did not complete" if decided.because else None
    outcome = Outcome(Status.CANCELLED, decided.reason, error=why)
    return [runs.RunEnd(by_place[place].run_id, outcome, expected=Status.QUEUED, at=now) for place in decided.places]


def _finish(
    db: Database, group: Group, seats: Sequence[groups.GroupMember], *, status: GroupStatus
) -> list[runs.RunEnd]:
    """Make a group final in the transaction of its last member, and end the run that it belongs to."""
    at = max(seat.finished_at for seat in seats if seat.finished_at is not None)
    finished = groups.finish_group(db, group.id, status, at=max(at, group.created_at))
    assert finished, "the group was read in this transaction"
    faults.point("group.finished")
    if group.run_id is None:
        return []
    standing = runs.ending_runs(db, [group.run_id])[group.run_id]
    outcome = _outcome(status, seats, asked=standing.cancel_reason)
    return [runs.RunEnd(group.run_id, outcome, expected=Status.RUNNING, at=at)]


def _outcome(status: GroupStatus, seats: Sequence[groups.GroupMember], *, asked: Reason | None) -> Outcome:
    if status is GroupStatus.COMPLETED:
        return Outcome(Status.COMPLETED)
    if status is GroupStatus.CANCELLED:
        return Outcome(Status.CANCELLED, asked or Reason.REQUESTED)
    first = next(seat for seat in seats if seat.status in FAILING)
    return Outcome(Status.FAILED, Reason.MEMBERS_FAILED, error=f"{first.handle} ended {first.status}/{first.reason}")


def cancel(db: Database, group: Group, *, reason: Reason, now: datetime) -> list[runs.RunEnd]:
    """Ask a group to end: members that run are asked to stop; return the others, which must end now."""
    groups.ask_cancel(db, group.id, now=now)
    if group.run_id is not None:
        runs.ask_cancel(db, group.run_id, reason=reason, now=now)
    for seat in groups.seats(db, group.id):
        if seat.status in (Status.DISPATCHED, Status.RUNNING):
            runs.ask_cancel(db, seat.run_id, reason=Reason.GROUP_CANCELLED, now=now)
    return step(db, group.id, now=now)
