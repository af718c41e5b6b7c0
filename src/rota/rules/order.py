"""The order of the queue: where a run stands when it is born (INV-004), and what aging makes of it (R-03)."""

from datetime import timedelta
from typing import NamedTuple

from rota.model.clock import MILLISECOND

POSITION_GAP = 1 << 20
"""Places within one millisecond: room for moves between runs, and for many runs made at once."""


class Place(NamedTuple):
    """Where a run stands: higher ranks first, then lower positions."""

    rank: int
    position: int


def place_of(priority: int, *, created_ms: int, aging: timedelta | None) -> Place:
    """Return the place of a run made in this millisecond: at the end of its priority, or where its age puts it.

    Under `aging` each step of priority is worth that much time: all runs share one rank, and a run stands as if it
    had been made `priority × aging` earlier. So a run is overtaken by a newer one of a priority that is `n` higher
    only if that one was made less than `n × aging` after it, and never by one of its own priority or below.
    """
    if aging is None:
        return Place(priority, created_ms * POSITION_GAP)
    return Place(rank=0, position=(created_ms - priority * (aging // MILLISECOND)) * POSITION_GAP)
