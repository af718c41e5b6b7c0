"""Two readings of a cron line, cronsim's own and rota's, tell the same instants, or where they part."""

from datetime import UTC, datetime

import pytest

from rota.rules.schedule.preview import Difference, compare_fires, peer_fires

SPRING = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize(
    "cron", ["*/5 * * * *", "30 2 * * *", "0 */2 * * *", "@weekly", "15 3,15 1 * mon", "0 0 29 2 *"]
)
def test_the_readings_agree_over_clock_changes(cron: str, zone: str) -> None:
    assert compare_fires(cron, zone, after=SPRING) is None


def test_a_fire_in_the_gap_is_cron_s() -> None:
    fires = peer_fires("30 2 * * *", "Europe/Paris", after=datetime(2026, 3, 28, 12, tzinfo=UTC), count=2)
    assert [f"{at:%d %H:%M}" for at in fires] == ["29 01:00", "30 00:30"]


def test_a_difference_names_both_instants() -> None:
    """Lord Howe's clocks move by half an hour: cronsim's own steps lose the half hour that the clock shows."""
    found = compare_fires("30 * * * *", "Australia/Lord_Howe", after=datetime(2026, 10, 3, 12, tzinfo=UTC))
    assert found == Difference(
        cron=datetime(2026, 10, 3, 16, 30, tzinfo=UTC), rota=datetime(2026, 10, 3, 15, 30, tzinfo=UTC)
    )


def test_a_reading_that_ends_earlier_is_a_difference() -> None:
    assert compare_fires("@daily", "UTC", after=datetime(9900, 12, 29, tzinfo=UTC), count=5) is not None
