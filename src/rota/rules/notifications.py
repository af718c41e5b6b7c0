"""Which events are notified, when a failed delivery or report is retried, and when a digest is due."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from rota.model.notifications import Event, PingSignal, Target
from rota.model.states import Reason, Status
from rota.rules.schedule.cron import cron_next, cron_previous

PAUSES = (timedelta(seconds=5), timedelta(seconds=30), timedelta(minutes=5))
"""The pauses before retries; after the last retry a delivery has failed."""
SPREAD = 0.2
MAX_RETRY_AFTER = timedelta(hours=1)
"""The maximum Retry-After of a receiver."""
MAX_FAILURES = 5
"""The number of failed attempts in a row before an endpoint rests."""
FIRST_REST, LONGEST_REST = timedelta(minutes=1), timedelta(minutes=30)

_OF_STATUS = {
    Status.COMPLETED: Event.COMPLETED,
    Status.FAILED: Event.FAILED,
    Status.SKIPPED: Event.SKIPPED,
    Status.CANCELLED: Event.CANCELLED,
}


class EventDecision(Struct, frozen=True):
    """The events to send to a target, and the last notification of failure, None if the job does not fail."""

    events: tuple[Event, ...]
    failing: datetime | None


def event_of(status: Status, reason: Reason | None) -> Event | None:
    """Return the event of a final status, None for an unfinished run."""
    return Event.MISSED if reason is Reason.MISSED else _OF_STATUS.get(status)


def decide_events(target: Target, event: Event, *, failing: datetime | None, now: datetime) -> EventDecision:
    """Return the events to send to a target.

    Of failures in a row the first is sent, then one per `remind`, then the recovery.

    >>> from datetime import UTC
    >>> from rota.model.notifications import Channel
    >>> noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    >>> decide_events(Target("ops", Channel.COMMAND), Event.FAILED, failing=noon - timedelta(hours=1), now=noon).events
    ()
    """
    if event is Event.FAILED:
        due = failing is None or target.remind is None or now >= failing + target.remind
        return EventDecision((event,) if due and event in target.on else (), now if due else failing)
    if event is Event.COMPLETED:
        recovered = failing is not None and Event.RECOVERED in target.on
        done = (event,) if event in target.on else ()
        return EventDecision((*((Event.RECOVERED,) if recovered else ()), *done), None)
    if event is Event.MISSED and event not in target.on:
        event = Event.SKIPPED
    return EventDecision((event,) if event in target.on else (), failing)


def ping_signal(status: Status) -> PingSignal:
    """Return the signal of the end of a run that started."""
    return PingSignal.SUCCESS if status is Status.COMPLETED else PingSignal.FAIL


def ping_address(address: str, signal: PingSignal, *, run_id: str, exit_code: int | None) -> str:
    """Return the address of a signal: its path ends with `/start`, `/fail` or the exit code, and it names the run.

    >>> ping_address("https://hc.example/ab", PingSignal.START, run_id="r", exit_code=None)
    'https://hc.example/ab/start?rid=r'
    >>> ping_address("https://hc.example/ab/?create=1", PingSignal.FAIL, run_id="r", exit_code=3)
    'https://hc.example/ab/3?create=1&rid=r'
    >>> ping_address("https://hc.example/ab", PingSignal.SUCCESS, run_id="r", exit_code=0)
    'https://hc.example/ab?rid=r'
    """
    path, _, query = address.partition("?")
    coded = exit_code is not None and 0 < exit_code < 256
    ends = {PingSignal.START: "/start", PingSignal.SUCCESS: "", PingSignal.FAIL: f"/{exit_code}" if coded else "/fail"}
    return f"{path.rstrip('/')}{ends[signal]}?{f'{query}&' if query else ''}rid={run_id}"


def late_at(finish_by: str, timezone: str, *, after: datetime) -> datetime | None:
    """Return the deadline of a run of the instant `after`: the next such time of day.

    >>> from datetime import UTC
    >>> late_at("06:00", "UTC", after=datetime(2026, 11, 16, 22, tzinfo=UTC)).isoformat()
    '2026-11-17T06:00:00+00:00'
    """
    return cron_next((_daily(finish_by),), timezone, after)


def pause_before(attempt: int, *, delivery: str, wish: float | None) -> timedelta | None:
    """Return the pause before the attempt of this number, None after the last.

    The pauses grow and vary by a fifth; a longer Retry-After of the receiver counts, up to an hour.
    """
    if not 2 <= attempt <= len(PAUSES) + 1:
        return None
    digest = hashlib.sha256(f"{delivery}\0{attempt}".encode()).digest()
    share = int.from_bytes(digest[:4], "big") / 2**32 * 2 - 1
    pause = PAUSES[attempt - 2] * (1 + SPREAD * share)
    wished = timedelta(seconds=min(wish or 0.0, MAX_RETRY_AFTER.total_seconds()))
    return max(pause, wished)


def rest_after(failures: int) -> timedelta | None:
    """Return the rest of an endpoint after this many failed attempts in a row, None for no rest.

    >>> rest_after(4), rest_after(5), rest_after(7)
    (None, datetime.timedelta(seconds=60), datetime.timedelta(seconds=240))
    """
    if failures < MAX_FAILURES:
        return None
    doublings: int = min(failures - MAX_FAILURES, 10)
    return min(FIRST_REST * (1 << doublings), LONGEST_REST)


FIRST_PAUSE = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(hours=1)
TRIES = 20
"""The number of reports before rota gives up: with the pauses, half a day."""
AT_THE_WORK = frozenset(
    {
        Reason.EXIT_CODE,
        Reason.EXCEPTION,
        Reason.TIMED_OUT,
        Reason.IDLE,
        Reason.LOOPING,
        Reason.POSTCONDITION_FAILED,
        Reason.AGENT_ERROR,
        Reason.DENIED,
        Reason.RESULT_INVALID,
    }
)
"""Failures that the item may have caused; others would affect any item."""


class Ending(StrEnum):
    """The report to a source."""

    DONE = "done"
    FAILED = "failed"
    RELEASED = "released"


class Verdict(Struct, frozen=True):
    """The report to a source, and whether the run counts as a failure of the item."""

    ending: Ending
    failed: bool = False


def ending_of(status: Status, reason: Reason | None, *, failures: int, attempts: int) -> Verdict:
    """Return the report on an item: a failed run releases it, until `attempts` runs have failed.

    >>> ending_of(Status.COMPLETED, None, failures=0, attempts=3).ending.value
    'done'
    >>> ending_of(Status.FAILED, Reason.EXIT_CODE, failures=1, attempts=3).ending.value
    'released'
    >>> ending_of(Status.FAILED, Reason.EXIT_CODE, failures=2, attempts=3).ending.value
    'failed'
    >>> ending_of(Status.FAILED, Reason.OUTAGE, failures=9, attempts=3)
    Verdict(ending=<Ending.RELEASED: 'released'>, failed=False)
    """
    if status is Status.COMPLETED:
        return Verdict(Ending.DONE)
    if status is not Status.FAILED or reason not in AT_THE_WORK:
        return Verdict(Ending.RELEASED)
    return Verdict(Ending.FAILED if failures + 1 >= attempts else Ending.RELEASED, failed=True)


def pause_before_report(tries: int, *, wish: float | None) -> timedelta | None:
    """Return the pause after this many failed reports, at least the server's Retry-After; None to give up.

    >>> pause_before_report(1, wish=None), pause_before_report(3, wish=None), pause_before_report(1, wish=600.0)
    (datetime.timedelta(seconds=10), datetime.timedelta(seconds=40), datetime.timedelta(seconds=600))
    >>> pause_before_report(20, wish=None) is None
    True
    """
    if tries >= TRIES:
        return None
    pause: timedelta = min(FIRST_PAUSE * 2 ** min(tries - 1, 20), LONGEST_PAUSE)
    return pause if wish is None else max(pause, timedelta(seconds=wish))


LONGEST_DIGEST = timedelta(days=7)
"""A digest covers at most this time: after a long stop, older runs are in the history."""


def digest_due(times: Sequence[str], timezone: str, *, last: datetime, now: datetime) -> bool:
    """Return whether a time of day has come since the last digest. Several that have passed make one digest.

    >>> from datetime import UTC
    >>> now = datetime(2026, 11, 16, 9, tzinfo=UTC)
    >>> [digest_due(["07:30"], "UTC", last=now.replace(hour=hour), now=now) for hour in (7, 8)]
    [True, False]
    """
    instant = cron_previous(tuple(map(_daily, times)), timezone, now + timedelta(milliseconds=1))
    return instant is not None and instant > last


def next_digest(times: Sequence[str], timezone: str, *, now: datetime) -> datetime | None:
    """Return the next time of day.

    >>> from datetime import UTC
    >>> next_digest(["07:30", "18:00"], "UTC", now=datetime(2026, 11, 16, 9, tzinfo=UTC)).isoformat()
    '2026-11-16T18:00:00+00:00'
    """
    return cron_next(tuple(map(_daily, times)), timezone, now)


def _daily(time: str) -> str:
    """Return the cron expression of a time of day."""
    hour, minute = time.split(":")
    return f"{int(minute)} {int(hour)} * * *"
