"""Modes: active, idle, dormant, and when they change by themselves (R-18)."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.model.spec import Mode, QuietHours, QuietPolicy
from rota.rules.activity import mode_at, next_change

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
NIGHT = QuietHours(("00:00-07:00",))


@pytest.mark.parametrize(
    ("minutes", "mode"),
    [
        (0, Mode.ACTIVE),
        (9.99, Mode.ACTIVE),
        (10, Mode.IDLE),
        (59.9, Mode.IDLE),
        (60, Mode.DORMANT),
        (9999, Mode.DORMANT),
    ],
)
def test_activity_wears_off(minutes: float, mode: Mode) -> None:
    """R-18: active within 10 min, idle within 1 h, then dormant."""
    assert mode_at(NOON + timedelta(minutes=minutes), activity=NOON) is mode


def test_without_any_activity_all_is_dormant() -> None:
    """R-18."""
    assert mode_at(NOON, activity=None) is Mode.DORMANT
    assert next_change(NOON, activity=None) is None


def test_quiet_hours_are_dormant_whatever_happens() -> None:
    """R-17, R-18: dormant in quiet hours too."""
    night = NOON.replace(hour=3)
    assert mode_at(night, activity=night, quiet=NIGHT) is Mode.DORMANT
    assert mode_at(NOON, activity=NOON, quiet=NIGHT) is Mode.ACTIVE


def test_quiet_hours_that_defer_or_skip_do_not_change_the_mode() -> None:
    """R-17: they act on instants."""
    night = NOON.replace(hour=3)
    for policy in (QuietPolicy.DEFER, QuietPolicy.SKIP):
        quiet = QuietHours(("00:00-07:00",), policy=policy)
        assert mode_at(night, activity=night, quiet=quiet) is Mode.ACTIVE
        assert next_change(night, activity=None, quiet=quiet) is None


@pytest.mark.parametrize(
    ("now", "expected"),
    [(NOON, NOON + timedelta(minutes=10)), (NOON + timedelta(minutes=10), NOON + timedelta(hours=1))],
)
def test_the_next_change_is_that_of_the_clock(now: datetime, expected: datetime) -> None:
    """R-18: a change of mode re-plans at once, so somebody must look then."""
    assert next_change(now, activity=NOON) == expected


def test_the_border_of_quiet_hours_is_a_change() -> None:
    """R-17, R-18."""
    late = NOON.replace(hour=23, minute=55)
    assert next_change(late, activity=late, quiet=NIGHT) == late + timedelta(minutes=5)
    assert next_change(NOON.replace(hour=3), activity=None, quiet=NIGHT) == NOON.replace(hour=7)
