"""Two readings of a cron line, cronsim's own and rota's, tell the same instants, or where they part."""

from datetime import UTC, datetime

import pytest

from rota.model.spec import Schedule
from rota.rules.schedule.cron import normalise
from rota.rules.schedule.preview import next_fires, peer_fires

SPRING = datetime(2026, 3, 1, tzinfo=UTC)


def rota_fires(cron: str, zone: str, *, after: datetime, count: int) -> list[datetime]:
    return [fire.at for fire in next_fires(Schedule(cron=(normalise(cron),), timezone=zone), after, count)]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize(
    "cron", ["*/5 * * * *", "30 2 * * *", "0 */2 * * *", "@weekly", "15 3,15 1 * mon", "0 0 29 2 *"]
)
def test_the_readings_agree_over_clock_changes(cron: str, zone: str) -> None:
    assert peer_fires(cron, zone, after=SPRING, count=200) == rota_fires(cron, zone, after=SPRING, count=200)


def test_a_fire_in_the_gap_is_cron_s() -> None:
    fires = peer_fires("30 2 * * *", "Europe/Paris", after=datetime(2026, 3, 28, 12, tzinfo=UTC), count=2)
    assert [f"{at:%d %H:%M}" for at in fires] == ["29 01:00", "30 00:30"]


def test_the_readings_part_where_the_clock_moves_by_half_an_hour() -> None:
    """Lord Howe's clocks do: cronsim's own steps lose the half hour that the clock shows."""
    zone, after = "Australia/Lord_Howe", datetime(2026, 10, 3, 12, tzinfo=UTC)
    theirs, ours = (read("30 * * * *", zone, after=after, count=10) for read in (peer_fires, rota_fires))
    parted = next((one, other) for one, other in zip(theirs, ours, strict=True) if one != other)
    assert parted == (datetime(2026, 10, 3, 16, 30, tzinfo=UTC), datetime(2026, 10, 3, 15, 30, tzinfo=UTC))
