"""Document 003's test plan for `parseInterval`, `calculateNextTrigger` and `isScheduleDue`."""

from datetime import UTC, datetime, timedelta

import pytest

import rota

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5s", 5), ("10m", 600), ("1h", 3600), ("2d", 172_800), ("30d", 2_592_000), (" 1H ", 3600)]
)
def test_an_interval_is_one_whole_number_and_one_unit(text: str, seconds: int) -> None:
    assert rota.parse_interval(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "5x", "-5m", "1.5h", "0s", "1h30m", "m", "٥m"])
def test_everything_else_is_refused_and_named(text: str) -> None:
    with pytest.raises(rota.IntervalParseError) as caught:
        rota.parse_interval(text)
    assert caught.value.interval == text
    assert repr(text) in caught.value.message
    assert caught.value.hint
    assert isinstance(caught.value, rota.SchedulerError)


def test_what_is_no_text_is_refused_too() -> None:
    with pytest.raises(rota.IntervalParseError):
        rota.parse_interval(300)  # type: ignore[arg-type]


def test_what_never_completed_is_due_now() -> None:
    assert rota.next_trigger(None, "5m", now=NOON) == NOON


def test_the_next_trigger_counts_from_the_last_completion() -> None:
    assert rota.next_trigger(NOON, "5m", now=NOON) == NOON + timedelta(minutes=5)
    assert rota.next_trigger(NOON, HOUR, now=NOON) == NOON + HOUR


def test_jitter_only_delays_by_less_than_its_share_of_the_interval() -> None:
    completions = [NOON + timedelta(seconds=number) for number in range(200)]
    delays = [rota.next_trigger(at, "1h", jitter=10, now=NOON) - at - HOUR for at in completions]
    assert all(timedelta(0) <= one < HOUR / 10 for one in delays)
    assert len(set(delays)) > 100


def test_jitter_is_the_same_each_time_it_is_asked_for() -> None:
    """Document 003 draws lots; DESIGN.md section 13 has it deterministic."""
    assert len({rota.next_trigger(NOON, "1h", jitter=50, now=NOON) for _ in range(5)}) == 1


@pytest.mark.parametrize("percent", [-1, 51, 100])
def test_jitter_is_at_most_half_of_the_interval(percent: float) -> None:
    """Document 003 allows 100 %; DESIGN.md section 13 has 0–50 %."""
    with pytest.raises(rota.RotaError):
        rota.next_trigger(NOON, "1h", jitter=percent, now=NOON)


def test_a_trigger_that_lies_in_the_past_is_due_now() -> None:
    assert rota.next_trigger(NOON - timedelta(days=3), "5m", now=NOON) == NOON


def test_without_now_the_clock_is_asked() -> None:
    last = rota.next_trigger(None, "5m")
    assert rota.is_due(last)
    assert rota.next_trigger(last, "1h") == last + HOUR
    assert not rota.is_due(last + HOUR)


@pytest.mark.parametrize(("at", "due"), [(NOON - HOUR, True), (NOON, True), (NOON + HOUR, False)])
def test_an_instant_is_due_from_the_moment_it_names(at: datetime, due: bool) -> None:
    assert rota.is_due(at, NOON) is due


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(rota.RotaError, match="no time zone"):
        rota.is_due(NOON.replace(tzinfo=None), NOON)
    with pytest.raises(rota.RotaError, match="no time zone"):
        rota.next_trigger(NOON.replace(tzinfo=None), "5m", now=NOON)
