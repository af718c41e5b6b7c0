"""The next step of a group, and its final status."""

from collections.abc import Sequence

from msgspec import Struct

from rota.model.spec import GroupMode, OnFailure
from rota.model.states import GroupStatus, Reason, Status

FAILING = (Status.FAILED, Status.CANCELLED)
"""Ends of a member that stop the following ones."""
PASSING = (Status.COMPLETED, Status.SKIPPED)


class MemberState(Struct, frozen=True):
    """The newest attempt at a place of a group: `held` by the group, or `tried` before and queued again."""

    number: int
    status: Status
    always: bool = False
    held: bool = False
    tried: bool = False


class Start(Struct, frozen=True):
    """Queue these places."""

    places: tuple[int, ...]


class Cancel(Struct, frozen=True):
    """Cancel these places, which have not started; `because`: the failed place, None for a request."""

    places: tuple[int, ...]
    reason: Reason
    because: int | None = None


class Finish(Struct, frozen=True):
    """The group is final, as all members are."""

    status: GroupStatus


class KeepWaiting(Struct, frozen=True):
    """Nothing to do until a member ends."""


Step = Start | Cancel | Finish | KeepWaiting


def next_step(mode: GroupMode, on_failure: OnFailure, places: Sequence[MemberState], *, cancelled: bool) -> Step:
    """Return the next step of a group, given its places in order and whether it was cancelled.

    While some places are not final, final ones may be missing, except the first failed one. Of a sequence without a
    failure, the first unfinished place is enough.

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
    """Return the status of a group with final members.

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
    """Return the places of a final group that a retry repeats; none if nothing failed.

    Of a sequence: the first failed place and all after it, which depend on its work. Of a parallel group: the failed
    ones. Members with `always` run again.
    """
    failed = [place.number for place in places if place.status in FAILING]
    if not failed:
        return ()
    again = [place for place in places if place.number >= failed[0]] if mode is GroupMode.SEQUENTIAL else []
    chosen = {place.number for place in [*again, *(place for place in places if place.always)]} | set(failed)
    return tuple(sorted(chosen))


def _stopped(mode: GroupMode, places: Sequence[MemberState]) -> Cancel | None:
    """Return the cancellation that a failed member causes: of later places, or in parallel of unstarted ones."""
    ordinary = [place for place in places if not place.always]
    failed = next((place for place in ordinary if place.status in FAILING), None)
    if failed is None:
        return None
    waiting = [place.number for place in ordinary if place.status is Status.QUEUED and not place.tried]
    doomed = tuple(number for number in waiting if mode is GroupMode.PARALLEL or number > failed.number)
    return Cancel(doomed, Reason.PREDECESSOR_FAILED, because=failed.number) if doomed else None


def _start(mode: GroupMode, places: Sequence[MemberState]) -> Start | KeepWaiting:
    """Start the next place of a sequence, or all; places with `always` start when all others are final."""
    unfinished = [place for place in places if not place.status.final]
    stage = [place for place in unfinished if not place.always] or unfinished
    chosen = stage[:1] if mode is GroupMode.SEQUENTIAL else stage
    held = tuple(place.number for place in chosen if place.held)
    return Start(held) if held else KeepWaiting()
