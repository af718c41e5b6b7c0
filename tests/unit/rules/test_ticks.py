"""Ticks: how far apart they usually come, whether they still do, and what is not late between two of them (R-24)."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.rules.liveness import STORED_TICKS, Ticks

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def looks(*seconds: float) -> Ticks:
    return Ticks(tuple(NOON + timedelta(seconds=one) for one in seconds))


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("ticks", "usual"),
    [
        (looks(0), 60),
        (looks(0, 10, 20, 30), 10),
        (looks(0, 60, 120, 121, 180), 60),
        (looks(0, 0.5, 1), 10),
    ],
    ids=["one alone", "a timer", "one started by hand between", "a burst"],
)
def test_the_usual_distance_is_the_middle_one(ticks: Ticks, usual: int) -> None:
    assert ticks.usual == timedelta(seconds=usual)


def test_ticks_are_missed_when_three_distances_have_passed() -> None:
    """R-24: what `rota status` tells of a project that nobody serves."""
    ticks = looks(0, 10, 20)
    assert ticks.still_come(after(49.9))
    assert not ticks.still_come(after(50))
    assert not Ticks().still_come(NOON)


@pytest.mark.parametrize(("seconds", "unseen"), [(7, 7), (14 * 60, 14 * 60), (3600, 15 * 60), (-5, 0)])
def test_nobody_looked_since_the_last_tick_up_to_fifteen_minutes(seconds: int, unseen: int) -> None:
    """R-10: in tick mode an instant is not late before that."""
    assert looks(-600, 0).unseen(after(seconds)) == timedelta(seconds=unseen)


def test_before_the_first_tick_nothing_was_unseen() -> None:
    assert Ticks().unseen(NOON) == timedelta()


def test_only_the_last_looks_are_kept() -> None:
    ticks = Ticks()
    for second in range(STORED_TICKS * 2):
        ticks = ticks.looked(after(second), slots=4)
    assert (len(ticks.looks), ticks.looks[0], ticks.last, ticks.slots) == (
        STORED_TICKS,
        after(STORED_TICKS),
        after(2 * STORED_TICKS - 1),
        4,
    )


def test_looks_from_before_the_clock_was_set_back_are_forgotten() -> None:
    """R-26: they would lie in the future."""
    assert looks(0, 10, 20).looked(after(5), slots=1).looks == (after(0), after(5))
