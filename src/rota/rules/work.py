"""What a work source is told when a run that holds one of its items ends, and when it is told again (003)."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from rota.model.states import Reason, Status

FIRST_PAUSE = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(hours=1)
TRIES = 20
"""How often a source is told before it is given up: by the pauses that is half a day."""
AT_THE_WORK = frozenset(
    {
        Reason.EXIT_CODE,
        Reason.EXCEPTION,
        Reason.TIMED_OUT,
        Reason.AGENT_ERROR,
        Reason.DENIED,
        Reason.RESULT_INVALID,
    }
)
"""Failures that may lie with the item; all others would have met any item."""


class Ending(StrEnum):
    """What a source is told."""

    DONE = "done"
    FAILED = "failed"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a source is told, and whether that run counts as a failure at the item."""

    ending: Ending
    failed: bool = False


def ending_of(status: Status, reason: Reason | None, *, failures: int, attempts: int) -> Verdict:
    """Return what becomes of an item: a failed run gives it back, until `attempts` runs have failed at it.

    >>> ending_of(Status.COMPLETED, None, failures=0, attempts=3).ending.value
    'done'
    >>> ending_of(Status.FAILED, Reason.EXIT_CODE, failures=1, attempts=3).ending.value
    'released'
    >>> ending_of(Status.FAILED, Reason.EXIT_CODE, failures=2, attempts=3).ending.value
    'failed'
    >>> ending_of(Status.FAILED, Reason.OUTAGE, failures=9, attempts=3)
    Verdict(ending=<Ending.RELEASED: 'released'>, failed=False)
    """
    if status is Status.COMPLETED:
        return Verdict(Ending.DONE)
    if status is not Status.FAILED or reason not in AT_THE_WORK:
        return Verdict(Ending.RELEASED)
    return Verdict(Ending.FAILED if failures + 1 >= attempts else Ending.RELEASED, failed=True)


def pause_before(tries: int, *, wish: float | None) -> timedelta | None:
    """Return how long to wait after so many failed tries, at least as long as the server wishes; None: give up.

    >>> pause_before(1, wish=None), pause_before(3, wish=None), pause_before(1, wish=600.0)
    (datetime.timedelta(seconds=10), datetime.timedelta(seconds=40), datetime.timedelta(seconds=600))
    >>> pause_before(20, wish=None) is None
    True
    """
    if tries >= TRIES:
        return None
    pause: timedelta = min(FIRST_PAUSE * 2 ** min(tries - 1, 20), LONGEST_PAUSE)
    return pause if wish is None else max(pause, timedelta(seconds=wish))
