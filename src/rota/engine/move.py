"""Move: give queued runs another place within their priority, in one transaction (DEC-005, R-03)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from rota.model.records import Run
from rota.rules.position import Spread, spread
from rota.store import order
from rota.store.driver import Database
from rota.store.locking import Turn, hold_turn
from rota.store.order import Spot

FIRST_WINDOW = 4
FETCH = 8
"""A neighbour, the first window and one behind it are found by one look."""


class Where(StrEnum):
    """Where runs are moved to."""

    FIRST = "first"
    LAST = "last"
    BEFORE = "before"
    TO = "to"


@dataclass(frozen=True, slots=True)
class Aim:
    """A place to move to: `other` of `before`, `place` of `to`."""

    where: Where
    other: Run | None = None
    place: int = 0


def move(db: Database, moved: Sequence[Run], aim: Aim) -> None:
    """Move queued runs of one rank to a place, in their given order; at a border of their rank they stop."""
    hold_turn(db, Turn.ORDER)
    rank, moving = moved[0].rank, {run.id for run in moved}
    _Gap(db, rank, _spot(db, rank, aim, moving), moving).fill(moved)


def _spot(db: Database, rank: int, aim: Aim, moving: set[str]) -> Spot:
    """Return the spot of the run that will stand behind those that are moved, or an end of the rank."""
    if aim.where is Where.FIRST:
        return order.START
    if aim.where is Where.LAST:
        return order.END
    if aim.other is not None:
        return order.spot_of(aim.other)
    reached = order.at_place(db, aim.place, without=moving)
    if reached is None or reached[0] < rank:
        return order.END
    return reached[1] if reached[0] == rank else order.START


class _Gap:
    """The place before a spot, with those around it, nearest first; read as far as is needed."""

    def __init__(self, db: Database, rank: int, spot: Spot, moving: set[str]) -> None:
        self._db = db
        self._before: list[Spot] = []
        self._after: list[Spot] = [] if spot in (order.START, order.END) else [spot]
        self._back = self._others(rank, spot, moving, back=True) if spot != order.START else iter(())
        self._ahead = self._others(rank, spot, moving, back=False) if spot != order.END else iter(())

    def _others(self, rank: int, spot: Spot, moving: set[str], *, back: bool) -> Iterator[Spot]:
        around = order.walk(self._db, rank, spot, back=back, fetch=FETCH)
        return (found for found in around if found.id not in moving)

    def fill(self, moved: Sequence[Run]) -> None:
        """Give the runs positions in the gap; where it is too narrow, spread those around it anew (R-03)."""
        window, found = 0, self._spread(moved, 0)
        while found is None:
            window = window * 2 or FIRST_WINDOW
            found = self._spread(moved, window)
        before = zip([spot.id for spot in reversed(self._before[:window])], found.before, strict=True)
        after = zip([spot.id for spot in self._after[:window]], found.after, strict=True)
        middle = zip([run.id for run in moved], found.moved, strict=True)
        order.place(self._db, dict([*before, *middle, *after]))

    def _spread(self, moved: Sequence[Run], window: int) -> Spread | None:
        self._before += islice(self._back, max(window + 1 - len(self._before), 0))
        self._after += islice(self._ahead, max(window + 1 - len(self._after), 0))
        around = [spot.position for spot in (*self._before, *self._after)]
        return spread(
            [spot.position for spot in self._before],
            [spot.position for spot in self._after],
            moved=len(moved),
            window=window,
            origin=min([*around, *(run.position for run in moved)]),
        )
