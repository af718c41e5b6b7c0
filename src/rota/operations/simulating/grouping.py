"""Groups in memory, as `engine/group.py` has them in the database (R-15). What must end is returned."""

from collections.abc import Sequence

from rota.model.spec import Kind
from rota.model.states import GroupStatus, Reason, Status, Trigger, WaitingFor
from rota.operations.simulating.played import End, PlayedGroup, PlayedJob, PlayedRun
from rota.operations.simulating.stage import Due, Stage
from rota.rules.group import Cancel, Finish, Start, next_step


def begin(stage: Stage, run: PlayedRun) -> list[End]:
    """Give a group's run its members; return what must end."""
    run.status, run.waiting_for, run.started_at = Status.RUNNING, None, stage.now
    work = run.played.job.spec.work
    group = run.group = PlayedGroup(work.mode, work.on_failure, run)
    ends: list[End] = []
    for place, member in enumerate(work.members, start=1):
        played = stage.named.get(member.job)
        if played is None:
            continue  # the file is checked: only a job that is gone from the state could be missing
        seat = _bear_member(stage, group, played, run=run, place=place, always=member.always)
        if _absent(played):
            ends.append(End(seat, Status.CANCELLED, Reason.RETIRED))
    return ends or step(stage, group)


def _bear_member(
    stage: Stage, group: PlayedGroup, played: PlayedJob, *, run: PlayedRun, place: int, always: bool
) -> PlayedRun:
    seat = stage.newborn(played, Trigger.GROUP, run.scheduled_for)
    seat.waiting_for = WaitingFor.PREDECESSOR
    seat.group, seat.place, seat.always = group, place, always
    group.seats.append(seat)
    return stage.bear(seat)


def _absent(played: PlayedJob) -> bool:
    return played.job.retired_at is not None or not played.job.enabled or played.job.spec.work.kind is Kind.GROUP


def step(stage: Stage, group: PlayedGroup) -> list[End]:
    """Move a group on after one of its members ended; return what must end because of it."""
    if group.final:
        return []
    decided = next_step(group.mode, group.on_failure, group.places(), cancelled=group.cancelled)
    if isinstance(decided, Start):
        _start(stage, [seat for seat in group.seats if seat.place in decided.places])
    if isinstance(decided, Cancel):
        return [End(seat, Status.CANCELLED, decided.reason) for seat in group.seats if seat.place in decided.places]
    if isinstance(decided, Finish):
        return _finish(group, decided.status)
    return []


def _start(stage: Stage, seats: Sequence[PlayedRun]) -> None:
    """Let members go; `expires_after` counts from here, for until now the group held them."""
    for seat in seats:
        expires_after = seat.played.job.spec.gates.expires_after
        if expires_after is not None:
            seat.expires_at = stage.now + expires_after
            stage.plan(Due.EXPIRE, seat.expires_at, seat)
        stage.ready(seat)


def _finish(group: PlayedGroup, status: GroupStatus) -> list[End]:
    group.final = True
    if group.run is None:
        return []
    if status is GroupStatus.COMPLETED:
        return [End(group.run, Status.COMPLETED)]
    if status is GroupStatus.CANCELLED:
        return [End(group.run, Status.CANCELLED, Reason.REPLACED)]
    return [End(group.run, Status.FAILED, Reason.MEMBERS_FAILED)]


def cancel(stage: Stage, group: PlayedGroup) -> list[End]:
    """Ask a group to end: members that run are stopped; return the others, which must end now."""
    group.cancelled = True
    for seat in group.seats:
        if seat.status is Status.RUNNING:
            stage.plan(Due.STOP, stage.now, seat)
    return step(stage, group)
