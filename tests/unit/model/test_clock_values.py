"""Instants as they are stored and shown."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.clock import cut_to_ms, from_ms, from_ms_or_none, iso, to_ms, to_ms_or_none

SOME = datetime(2026, 11, 15, tzinfo=UTC)
instants = st.timedeltas(timedelta(days=-80_000), timedelta(days=2_000_000)).map(lambda distance: SOME + distance)


@given(instants)
def test_an_instant_is_kept_to_the_millisecond(at):
    kept = from_ms(to_ms(at))
    assert timedelta(0) <= at - kept < timedelta(milliseconds=1)
    assert cut_to_ms(at) == kept
    assert to_ms(kept) == to_ms(at)


@given(st.one_of(st.integers(-(10**13), 10**14), st.integers(1000 * 2**32 - 3, 1000 * 2**32 + 3)))
def test_stored_milliseconds_are_an_exact_instant_however_far_away(ms):
    assert from_ms(ms) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert to_ms(from_ms(ms)) == ms


@given(instants)
def test_what_is_shown_reads_back_as_the_instant_that_is_stored(at):
    assert datetime.fromisoformat(iso(cut_to_ms(at))) == cut_to_ms(at)


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (datetime(2026, 11, 15, 20, 41, 7, tzinfo=UTC), "2026-11-15T20:41:07Z"),
        (datetime(2026, 11, 15, 20, 41, 7, 5_000, tzinfo=UTC), "2026-11-15T20:41:07.005Z"),
        (datetime(2026, 11, 15, 20, 41, 7, 900, tzinfo=UTC), "2026-11-15T20:41:07Z"),
        (datetime(2026, 11, 15, 21, 41, 7, tzinfo=timezone(timedelta(hours=1))), "2026-11-15T20:41:07Z"),
    ],
)
def test_an_instant_is_shown_in_utc_with_milliseconds_only_where_there_are_any(at, shown):
    assert iso(at) == shown


def test_nothing_stays_nothing():
    assert from_ms_or_none(None) is None
    assert to_ms_or_none(None) is None
    assert from_ms_or_none(to_ms_or_none(from_ms(5))) == from_ms(5)
