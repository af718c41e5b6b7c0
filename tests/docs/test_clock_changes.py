"""The table about clock changes in docs/scheduling.md, row by row, against the rule that fires."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from rota.rules.schedule.cron import check_cron, cron_next
from tests.docs.pages import page

PARIS = "Europe/Paris"
GAP, FOLD = (3, 29), (10, 25)
ROWS = {
    ("30 2 * * *",): (["03:00+0200"], ["02:30+0200"]),
    ("15 2 * * *", "45 2 * * *"): (["03:00+0200"], ["02:15+0200", "02:45+0200"]),
    ("0 3 * * *",): (["03:00+0200"], ["03:00+0100"]),
    ("30 * * * *",): (["01:30+0100", "03:30+0200"], ["01:30+0200", "02:30+0200", "02:30+0100", "03:30+0100"]),
    ("*/30 * * * *",): (
        ["01:00+0100", "01:30+0100", "03:00+0200", "03:30+0200"],
        [f"0{h}:{m}+0{o}00" for h, o in ((1, 2), (2, 2), (2, 1), (3, 1)) for m in ("00", "30")],
    ),
    ("*/30 2 * * *",): ([], ["02:00+0200", "02:30+0200", "02:00+0100", "02:30+0100"]),
    ("0 */2 * * *",): ([], ["02:00+0200", "02:00+0100"]),
}


def shown(expressions: tuple[str, ...], month: int, day: int) -> list[str]:
    """Return what fires from 01:00 to before 04:00 of that day, on the clock of Paris."""
    zone = ZoneInfo(PARIS)
    begin = datetime(2026, month, day, 0, 59, 59, tzinfo=zone).astimezone(UTC)
    end = datetime(2026, month, day, 4, tzinfo=zone).astimezone(UTC)
    found = []
    at = cron_next(tuple(map(check_cron, expressions)), PARIS, begin)
    while at is not None and at < end:
        found.append(f"{at.astimezone(zone):%H:%M%z}")
        at = cron_next(tuple(map(check_cron, expressions)), PARIS, at)
    return found


@pytest.mark.parametrize("expressions", ROWS)
def test_a_row_of_the_table_is_true(expressions: tuple[str, ...]) -> None:
    assert (shown(expressions, *GAP), shown(expressions, *FOLD)) == ROWS[expressions]


def test_the_table_has_exactly_these_rows() -> None:
    table = page("scheduling.md").split("## When clocks change")[1].split("## Bounds")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert [tuple(part for part in row.split("`") if "*" in part) for row in rows] == list(ROWS)
