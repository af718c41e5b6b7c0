"""Why a queued run that may be claimed is not running; derived when somebody looks, never stored (R-02)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rota.model.spec import Draw
from rota.model.states import Held
from rota.rules.lanes import Room


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps a run; `pool`: the one it lacks room in, or that is held. None at all: it is the next to start."""

    held: Held | None = None
    pool: str | None = None


def holds(
    draws: Sequence[Sequence[Draw]],
    room: Room,
    *,
    paused: bool,
    served: Callable[[Sequence[Draw]], bool],
    free: int,
    first: Sequence[Sequence[Draw]] = (),
) -> list[Hold]:
    """Return what keeps each of the runs at the head of the queue, given what they draw, in their order.

    `served`: whether a worker is there who may take a run that draws so. `first` is what those draw who are served
    before the whole queue (R-13). As in a claim, who lacks room in a pool keeps that pool from all behind (R-03).
    """
    if paused:
        return [Hold(Held.PAUSED)] * len(draws)
    found: list[Hold] = []
    for wanted in (*first, *draws):
        hold = _hold(wanted, room, free=free) if served(wanted) else Hold(Held.NO_WORKER)
        free -= hold.held is None
        found.append(hold)
    return found[len(first) :]


def _hold(wanted: Sequence[Draw], room: Room, *, free: int) -> Hold:
    closed = room.closes(wanted)
    if closed is not None:
        return Hold(Held.PROVIDER_HOLD, closed)
    lacking = room.lacks(wanted)
    if lacking is not None:
        room.hold(wanted)
        return Hold(Held.POOL, lacking)
    if free <= 0:
        return Hold(Held.SLOT)
    room.take(wanted)
    return Hold()
