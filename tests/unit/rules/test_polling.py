"""The shared poll: which result serves, and how far its server's wish is followed (R-16)."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.model.spec import ByMode, Schedule
from rota.rules.activity import bounded, is_fresh

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MODES = Schedule(by_mode=ByMode(15 * SECOND, 60 * SECOND, 300 * SECOND))


@pytest.mark.parametrize(("age", "fresh"), [(0, True), (15, True), (16, False)])
def test_a_result_serves_as_long_as_the_interval_of_the_mode(age: int, fresh: bool) -> None:
    """R-16: not older than the mode's interval."""
    now = NOON + age * SECOND
    assert is_fresh(NOON, interval=15 * SECOND, born=now, now=now) is fresh


def test_a_result_made_since_the_run_was_born_serves_however_late_it_starts() -> None:
    """R-16: the poll that released a run is the one that it gets."""
    assert is_fresh(NOON, interval=15 * SECOND, born=NOON - SECOND, now=NOON + timedelta(hours=1))


def test_under_never_only_a_poll_made_for_the_run_serves() -> None:
    """R-16: under `never` a needing run enqueues one poll."""
    assert not is_fresh(NOON - SECOND, interval=None, born=NOON, now=NOON)
    assert is_fresh(NOON + SECOND, interval=None, born=NOON, now=NOON + SECOND)


def test_no_result_serves_nobody() -> None:
    """R-16."""
    assert not is_fresh(None, interval=15 * SECOND, born=NOON, now=NOON)


@pytest.mark.parametrize(("asked", "given"), [(30, 30), (1, 15), (7200, 3600), (0.0, 15), (-5, 15), (1e300, 3600)])
def test_the_servers_wish_is_followed_within_bounds(asked: float, given: int) -> None:
    """R-16: honoured, bounded: never shorter than the file's shortest interval, never above an hour."""
    assert bounded(asked, MODES) == given * SECOND


def test_a_longer_interval_of_the_file_is_the_upper_bound() -> None:
    """R-16."""
    daily = Schedule(by_mode=ByMode(15 * SECOND, None, timedelta(days=1)))
    assert bounded(7200, daily) == timedelta(hours=2)


def test_no_wish_is_none() -> None:
    """R-16."""
    assert bounded(None, MODES) is None
