"""What a target is told of, when it is tried again, and when it is left alone (DEC-009)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.model.notifications import Channel, Event, Target
from rota.model.states import Reason, Status
from rota.rules.notifications import LONGEST_REST, PAUSES, decide_events, event_of, late_at, pause_before, rest_after

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
OPS = Target("ops", Channel.WEBHOOK, address="https://hooks.example.net")
ALL = replace(OPS, on=tuple(event for event in Event if event is not Event.TEST))


@pytest.mark.parametrize(
    ("status", "reason", "event"),
    [
        (Status.COMPLETED, None, Event.COMPLETED),
        (Status.FAILED, Reason.TIMED_OUT, Event.FAILED),
        (Status.SKIPPED, Reason.OVERLAP, Event.SKIPPED),
        (Status.SKIPPED, Reason.MISSED, Event.MISSED),
        (Status.CANCELLED, Reason.REQUESTED, Event.CANCELLED),
        (Status.RUNNING, None, None),
        (Status.QUEUED, None, None),
    ],
)
def test_a_status_is_an_event_once_it_is_final(status: Status, reason: Reason | None, event: Event | None) -> None:
    assert event_of(status, reason) is event


def test_the_first_failure_is_told_and_those_of_the_same_day_are_not() -> None:
    first = decide_events(OPS, Event.FAILED, failing=None, now=NOW)
    assert (first.events, first.failing) == ((Event.FAILED,), NOW)
    again = decide_events(OPS, Event.FAILED, failing=NOW, now=NOW + 23 * HOUR)
    assert (again.events, again.failing) == ((), NOW)


def test_a_day_later_the_failure_is_told_again() -> None:
    found = decide_events(OPS, Event.FAILED, failing=NOW, now=NOW + 24 * HOUR)
    assert (found.events, found.failing) == ((Event.FAILED,), NOW + 24 * HOUR)


def test_a_target_that_wants_every_failure_gets_it() -> None:
    assert decide_events(replace(OPS, remind=None), Event.FAILED, failing=NOW, now=NOW).events == (Event.FAILED,)


def test_success_after_a_failure_is_a_recovery() -> None:
    found = decide_events(OPS, Event.COMPLETED, failing=NOW, now=NOW + HOUR)
    assert (found.events, found.failing) == ((Event.RECOVERED,), None)
    assert decide_events(ALL, Event.COMPLETED, failing=NOW, now=NOW).events == (Event.RECOVERED, Event.COMPLETED)


def test_success_alone_is_told_only_to_who_asks_for_it() -> None:
    assert decide_events(OPS, Event.COMPLETED, failing=None, now=NOW).events == ()
    assert decide_events(ALL, Event.COMPLETED, failing=None, now=NOW).events == (Event.COMPLETED,)


def test_a_recovery_is_told_also_where_failures_are_not() -> None:
    quiet = replace(OPS, on=(Event.RECOVERED,))
    failed = decide_events(quiet, Event.FAILED, failing=None, now=NOW)
    assert (failed.events, failed.failing) == ((), NOW)
    assert decide_events(quiet, Event.COMPLETED, failing=failed.failing, now=NOW).events == (Event.RECOVERED,)


def test_skips_and_cancellations_leave_a_failing_job_failing() -> None:
    for event in (Event.SKIPPED, Event.CANCELLED, Event.MISSED, Event.LATE):
        assert decide_events(ALL, event, failing=NOW, now=NOW + HOUR).failing == NOW
        assert decide_events(ALL, event, failing=None, now=NOW).events == (event,)


def test_a_missed_instant_is_a_skip_to_who_asks_for_skips_alone() -> None:
    assert decide_events(replace(OPS, on=(Event.SKIPPED,)), Event.MISSED, failing=None, now=NOW).events == (
        Event.SKIPPED,
    )


@pytest.mark.parametrize(
    ("scheduled", "zone", "by"),
    [
        ("2026-11-16T22:00:00+00:00", "UTC", "2026-11-17T06:00:00+00:00"),
        ("2026-11-16T05:59:00+00:00", "UTC", "2026-11-16T06:00:00+00:00"),
        ("2026-11-16T06:00:00+00:00", "UTC", "2026-11-17T06:00:00+00:00"),
        ("2026-03-28T23:00:00+00:00", "Europe/Madrid", "2026-03-29T04:00:00+00:00"),
    ],
)
def test_a_run_must_have_finished_at_the_next_such_time_of_the_day(scheduled: str, zone: str, by: str) -> None:
    assert late_at("06:00", zone, after=datetime.fromisoformat(scheduled)) == datetime.fromisoformat(by)


@given(st.text(max_size=40), st.integers(2, 4), st.none() | st.floats(0, 1e9))
def test_pauses_grow_differ_by_a_fifth_and_follow_the_receiver_up_to_an_hour(
    delivery: str, attempt: int, wish: float | None
) -> None:
    pause = pause_before(attempt, delivery=delivery, wish=wish)
    assert pause is not None
    planned = PAUSES[attempt - 2]
    assert pause >= min(timedelta(seconds=min(wish or 0, 3600)), HOUR)
    assert planned * 0.8 <= pause <= max(planned * 1.2, timedelta(seconds=min(wish or 0, 3600)))


def test_there_is_no_fifth_attempt() -> None:
    """DEC-009: one attempt and three retries."""
    assert pause_before(4, delivery="a", wish=None) is not None
    assert pause_before(5, delivery="a", wish=10) is None


def test_an_endpoint_rests_longer_the_longer_it_fails() -> None:
    """RISK-5: nothing is tried for ever."""
    rests = [rest_after(failures) for failures in range(1, 40)]
    assert rests[:4] == [None] * 4
    known = [rest for rest in rests if rest is not None]
    assert known == sorted(known)
    assert known[-1] == LONGEST_REST
