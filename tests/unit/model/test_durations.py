"""Durations as users write and read them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.clock import LONGEST, UNITS, parse_duration, say_duration, write_duration
from rota.model.errors import InvalidDuration

whole_seconds = st.integers(1, int(LONGEST.total_seconds()))


@given(whole_seconds)
def test_what_is_written_reads_back_the_same(seconds):
    duration = timedelta(seconds=seconds)
    assert parse_duration(write_duration(duration)) == duration
    assert parse_duration(seconds) == duration


@given(whole_seconds)
def test_a_duration_is_written_in_the_largest_exact_unit(seconds):
    unit = write_duration(timedelta(seconds=seconds))[-1]
    larger = [size for size in UNITS.values() if size > UNITS[unit]]
    assert all(seconds % size for size in larger)


@given(st.integers(1, 3660), st.sampled_from("smhdSMHD"), st.sampled_from(["", " ", "\t", "  "]))
def test_one_number_and_one_unit_in_any_case_and_with_outer_spaces(number, unit, space):
    expected = timedelta(seconds=number * UNITS[unit.lower()])
    assert parse_duration(f"{space}{number}{unit}{space}") == expected


REFUSED = [
    "", " ", "5", "1.5h", "-5m", "+5m", "0s", "0d", "5 m", "1e3s", "∞", "99999999999d", "9999999999999s", "3661d",
    "1h30m", "m", "5mm", "5w", "5min", "٣m", "５m", "5m\0", "0x5s", "1_0s", "never", "5m;", "{0.__class__}", "%s",
    0, -5, -(10**9), 10**12, True, False,
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=repr)
def test_everything_else_is_refused_with_the_value_and_an_example(text):
    with pytest.raises(InvalidDuration) as refused:
        parse_duration(text)
    assert repr(text) in refused.value.message
    assert "30s, 5m, 1h, 1d" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "'' is empty"),
        (" ", "' ' is empty"),
        ("-5m", "'-5m' is negative"),
        (-5, "-5 is negative"),
        ("0s", "'0s' is zero"),
        (0, "0 is zero"),
        ("1.5h", "'1.5h' is not a whole number"),
        ("1,5h", "'1,5h' is not a whole number"),
        (1.5, "1.5 is not a whole number"),
        ("5", "'5' has no unit"),
        ("5 m", "'5 m' has a space before its unit"),
        ("5w", "'5w' has the unit 'w', not one of s, m, h, d"),
        ("5 minutes", "'5 minutes' has the unit 'minutes', not one of s, m, h, d"),
        ("soon", "'soon' is not a duration"),
        ("1h30m", "'1h30m' is not a duration"),
        ("3661d", "'3661d' is longer than 3660 days"),
    ],
)
def test_each_mistake_is_named(text, mistake):
    with pytest.raises(InvalidDuration) as refused:
        parse_duration(text)
    assert refused.value.message == mistake


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), None, [], {}, b"5m"], ids=repr)
def test_a_value_of_another_kind_is_refused_like_any_other(value):
    with pytest.raises(InvalidDuration):
        parse_duration(value)


@pytest.mark.parametrize("value", [10**5000, "9" * 5000 + "s"], ids=["number", "text"])
def test_a_monstrous_value_is_refused_in_one_short_line(value):
    with pytest.raises(InvalidDuration) as refused:
        parse_duration(value)
    assert len(refused.value.message) < 200


def test_the_longest_duration_is_allowed_and_the_next_is_not():
    assert parse_duration("3660d") == LONGEST
    with pytest.raises(InvalidDuration, match="longer than 3660 days"):
        parse_duration(int(LONGEST.total_seconds()) + 1)


@pytest.mark.parametrize(
    ("duration", "said"),
    [
        (timedelta(0), "0 s"),
        (timedelta(milliseconds=240), "0.2 s"),
        (timedelta(seconds=9.9), "9.9 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(seconds=60), "1 min"),
        (timedelta(seconds=61), "1 min 1 s"),
        (timedelta(hours=5, minutes=54, seconds=3), "5 h 54 min"),
        (timedelta(hours=1, seconds=3), "1 h"),
        (timedelta(days=2, hours=3), "2 d 3 h"),
        (timedelta(seconds=-90), "-1 min 30 s"),
    ],
)
def test_a_duration_is_said_in_at_most_two_units(duration, said):
    assert say_duration(duration) == said
