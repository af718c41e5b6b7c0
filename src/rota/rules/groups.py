"""What a group does next, and how it ends (R-15, DEC-012, INV-006)."""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.model.spec import GroupMode, OnFailure
from rota.model.states import GroupStatus, Reason, Status

FAILING = (Status.FAILED, Status.CANCELLED)
"""How a member ends that stops those after it."""
PASSING = (Status.COMPLETED, Status.SKIPPED)


@dataclass(frozen=True, slots=True)
class MemberState:
    """A place of a group as its newest attempt stands: `held` by the group, or `tried` before and queued again."""

    number: int
    status: Status
    always: bool = False
    held: bool = False
    tried: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Let these places go to the queue."""

    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """End these places, which have not started; `because` is the place that stopped them, None for a request."""

    places: tuple[int, ...]
    reason: Reason
    because: int | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """Every member is final, so the group is (INV-006)."""

    status: GroupStatus


@dataclass(frozen=True, slots=True)
class KeepWaiting:
    """Nothing to do until a member ends."""


Step = Start | Cancel | Finish | KeepWaiting


def next_step(mode: GroupMode, on_failure: OnFailure, places: Sequence[MemberState], *, cancelled: bool) -> Step:
    """Return what a group does next, given its places in order and whether somebody cancelled it.

    While some are not final, the final ones may be left out, but for the first that failed; of a sequence without such
    a one the first that is not final is enough.

    >>> places = [MemberState(1, Status.FAILED), MemberState(2, Status.QUEUED, held=True)]
    >>> next_step(GroupMode.SEQUENTIAL, OnFailure.STOP, places, cancelled=False)
    Cancel(places=(2,), reason=<Reason.PREDECESSOR_FAILED: 'predecessor_failed'>, because=1)
    """
    if all(place.status.final for place in places):
        return Finish(final_status([place.status for place in places], cancelled=cancelled))
    if cancelled:
        doomed = tuple(place.number for place in places if place.status is Status.QUEUED)
        return Cancel(doomed, Reason.GROUP_CANCELLED) if doomed else KeepWaiting()
    stopped = _stopped(mode, places) if on_failure is OnFailure.STOP else None
    return stopped or _start(mode, places)


def final_status(statuses: Sequence[Status], *, cancelled: bool) -> GroupStatus:
    """Return the status of a group all of whose members are final.

    >>> final_status([Status.COMPLETED, Status.SKIPPED], cancelled=False)
    <GroupStatus.COMPLETED: 'COMPLETED'>
    >>> final_status([Status.COMPLETED, Status.CANCELLED], cancelled=True)
    <GroupStatus.PARTIAL: 'PARTIAL'>
    """
    if all(status in PASSING for status in statuses):
        return GroupStatus.COMPLETED
    if cancelled and not any(status in (Status.COMPLETED, Status.FAILED) for status in statuses):
        return GroupStatus.CANCELLED
    return GroupStatus.PARTIAL


def to_repeat(mode: GroupMode, places: Sequence[MemberState]) -> tuple[int, ...]:
    """Return the places of a final group that a retry runs again; none if nothing failed.

    Of a sequence: the first that failed and all after it, which were meant to see its work. Of a parallel group: those
    that failed. Members that always run do so again.
    """
    failed = [place.number for place in places if place.status in FAILING]
    if not failed:
        return ()
    again = [place for place in places if place.number >= failed[0]] if mode is GroupMode.SEQUENTIAL else []
    chosen = {place.number for place in [*again, *(place for place in places if place.always)]} | set(failed)
    return tuple(sorted(chosen))


def _stopped(mode: GroupMode, places: Sequence[MemberState]) -> Cancel | None:
    """Return the end of those that a failed member stops: what comes after it, or in parallel what has not started."""
    ordinary = [place for place in places if not place.always]
    failed = next((place for place in ordinary if place.status in FAILING), None)
    if failed is None:
        return None
    waiting = [place.number for place in ordinary if place.status is Status.QUEUED and not place.tried]
    doomed = tuple(number for number in waiting if mode is GroupMode.PARALLEL or number > failed.number)
    return Cancel(doomed, Reason.PREDECESSOR_FAILED, because=failed.number) if doomed else None


def _start(mode: GroupMode, places: Sequence[MemberState]) -> Start | KeepWaiting:
    """Start the next of a sequence, or all at once; those that always run come when all others are final."""
    unfinished = [place for place in places if not place.status.final]
    stage = [place for place in unfinished if not place.always] or unfinished
    chosen = stage[:1] if mode is GroupMode.SEQUENTIAL else stage
    held = tuple(place.number for place in chosen if place.held)
    return Start(held) if held else KeepWaiting()
