"""Grids of instants at equal distances (R-06, anchor fixed) and how an interval reads."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.spec import Anchor, Schedule
from rota.rules.schedule.instants import explain_interval, grid_count, grid_next, grid_previous

ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)
offsets = st.integers(-5_000, 50_000).map(lambda ms: ORIGIN + timedelta(milliseconds=ms))
intervals = st.integers(1, 9_000).map(lambda ms: timedelta(milliseconds=ms))


def grid(interval: timedelta) -> list[datetime]:
    found = [ORIGIN]
    while found[-1] <= ORIGIN + timedelta(seconds=60):
        found.append(found[-1] + interval)
    return found


@settings(max_examples=100)
@given(intervals.filter(lambda interval: interval >= timedelta(milliseconds=40)), offsets, offsets)
def test_next_previous_and_count_agree_with_a_written_out_grid(interval, at, other):
    instants = grid(interval)
    assert grid_next(ORIGIN, interval, at) == next(instant for instant in instants if instant > at)
    earlier = [instant for instant in instants if instant < at]
    assert grid_previous(ORIGIN, interval, at) == (earlier[-1] if earlier else None)
    first, last = min(at, other), max(at, other)
    held = sum(first <= instant <= last for instant in instants)
    assert grid_count(ORIGIN, interval, first=first, last=last) == held


def test_the_origin_is_an_instant_and_nothing_comes_before_it():
    hour = timedelta(hours=1)
    assert grid_next(ORIGIN, hour, ORIGIN - timedelta(days=9)) == ORIGIN
    assert grid_previous(ORIGIN, hour, ORIGIN + timedelta(microseconds=1)) == ORIGIN
    assert grid_previous(ORIGIN, hour, ORIGIN) is None


@pytest.mark.parametrize(
    ("anchor", "reading"),
    [
        (Anchor.COMPLETION, "every 30 min after it finishes"),
        (Anchor.START, "every 30 min after it starts"),
        (Anchor.FIXED, "every 30 min"),
    ],
)
def test_an_interval_reads_with_what_it_counts_from(anchor, reading):
    assert explain_interval(Schedule(interval=timedelta(minutes=30), anchor=anchor)) == reading
