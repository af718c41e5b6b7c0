"""Where a run stands when it is born (INV-004, DEC-005), and how long aging lets it be overtaken (R-03)."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from rota.rules.queue_order import POSITION_GAP, place_of

NOON = 1_794_744_000_000
PRIORITIES = st.integers(-1000, 1000)
AGINGS = st.integers(1, 7 * 86_400).map(lambda seconds: timedelta(seconds=seconds))


def order(priority: int, created_ms: int, aging: timedelta | None) -> tuple[int, int, int]:
    place = place_of(priority, created_ms=created_ms, aging=aging)
    return (-place.rank, place.position, created_ms)


def test_without_aging_the_priority_is_the_rank_and_the_age_the_position():
    place = place_of(5, created_ms=NOON, aging=None)
    assert (place.rank, place.position) == (5, NOON * POSITION_GAP)


def test_under_aging_all_runs_share_one_rank():
    assert {place_of(priority, created_ms=NOON, aging=timedelta(minutes=1)).rank for priority in (-5, 0, 7)} == {0}


@given(PRIORITIES, PRIORITIES, AGINGS, st.integers(0, 10**10))
def test_a_newer_run_overtakes_only_within_the_worth_of_its_higher_priority(waits, newer, aging, later):
    """RISK-4, R-03: of priority P it overtakes one of priority p only if made less than (P - p) × aging after it."""
    overtakes = order(newer, NOON + later, aging) < order(waits, NOON, aging)
    assert overtakes == (later < (newer - waits) * (aging // timedelta(milliseconds=1)))


@given(PRIORITIES, st.integers(0, 10**10), st.none() | AGINGS)
def test_a_newer_run_of_the_same_priority_never_overtakes(priority, later, aging):
    """INV-004: first come, first served within a priority."""
    assert order(priority, NOON, aging) <= order(priority, NOON + later, aging)


@given(PRIORITIES, AGINGS, st.integers(NOON, NOON * 4))
def test_a_position_fits_where_it_is_stored(priority, aging, created_ms):
    place = place_of(priority, created_ms=created_ms, aging=aging)
    assert 0 < place.position < 2**63
