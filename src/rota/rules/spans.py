"""The spans of a run: what it waited for, by cause, and when it ran."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from rota.model.clock import MILLISECOND, from_ms, to_ms
from rota.model.records import Run
from rota.model.states import Held, Reason, Status, Trigger, WaitingFor

QUEUE, START, RUNNING, RETRYING = "queue", "start", "running", "retrying"
PHASES = (*(cause.value for cause in WaitingFor), QUEUE, START, RUNNING, RETRYING)
"""The phases of a run: waits by cause, the queue, the start, and the work of a first or a later attempt."""
WAITS = "waits"
"""The key of a run's decisions for the waits at its gates."""
WAITS_LIMIT = 20
SAME_WAIT = timedelta(minutes=1)
"""The longest time between two waits for the same cause that count as one: a gate was checked in between."""
_BEFORE_TURN = (Reason.PREDECESSOR_FAILED, Reason.GROUP_CANCELLED)


class Span(Struct, frozen=True):
    """A part of a run's life. `open`: it has not ended; `held`: why a run in the queue does not start."""

    phase: str
    since: datetime
    until: datetime
    open: bool = False
    held: Held | None = None

    @property
    def length(self) -> timedelta:
        """The length of the span so far."""
        return self.until - self.since

    @property
    def works(self) -> bool:
        """Whether the work itself runs."""
        return self.phase in (RUNNING, RETRYING)


class Release(Struct, frozen=True):
    """The end of a wait for another run or for an answer, None while it lasts."""

    cause: WaitingFor
    at: datetime | None


def add_wait(
    waits: Sequence[Mapping[str, Any]], cause: WaitingFor, *, since: datetime, until: datetime | None
) -> list[Mapping[str, Any]]:
    """Return the stored waits of a run with one more; a wait that continues after a check extends the last one.

    >>> at = from_ms(60_000)
    >>> waits = add_wait([], WaitingFor.BUDGET, since=at, until=at + SAME_WAIT)
    >>> add_wait(waits, WaitingFor.BUDGET, since=at + SAME_WAIT, until=at + 2 * SAME_WAIT)
    [{'for': 'budget', 'since': 60000, 'until': 180000}]
    """
    new = {"for": cause.value, "since": to_ms(since), "until": None if until is None else to_ms(until)}
    last = waits[-1] if waits else None
    if last is None or last["for"] != new["for"]:
        return [*waits, new][-WAITS_LIMIT:]
    ended = last["until"]
    if ended is not None and new["since"] - ended > SAME_WAIT // MILLISECOND:
        return [*waits, new][-WAITS_LIMIT:]
    return [*waits[:-1], {**last, "until": new["until"]}]


def spans_of(run: Run, *, now: datetime, release: Release | None = None, held: Held | None = None) -> tuple[Span, ...]:
    """Return the life of a run from its creation to its end or to `now`, without gaps.

    Times without a stored cause are the queue until the first dispatch, and the start after it.
    """
    line = _Line(run.created_at, run.started_at or run.finished_at or now)
    if run.trigger is Trigger.RETRY:
        line.to(_backoff_end(run), WaitingFor.BACKOFF.value)
    elif release is not None or run.reason in _BEFORE_TURN:
        cause, at = (WaitingFor.PREDECESSOR, None) if release is None else (release.cause, release.at)
        line.to(at or run.first_dispatched_at or line.end, cause.value)
    stored = run.decisions.get(WAITS, ())
    for wait in stored:
        line.to(from_ms(wait["since"]), QUEUE)
        line.to(line.end if wait["until"] is None else from_ms(wait["until"]), wait["for"])
    if run.status is Status.QUEUED:
        line.to(now, run.waiting_for.value if run.waiting_for else QUEUE)
    elif run.first_dispatched_at is not None and not stored:
        line.to(run.first_dispatched_at, QUEUE)
        line.to(line.end, START)
    line.to(line.end, QUEUE)
    if run.started_at is not None:
        line.end = max(run.finished_at or now, run.started_at)
        line.to(line.end, RETRYING if run.attempt > 1 else RUNNING)
    return _opened(line.spans, run, held)


def _backoff_end(run: Run) -> datetime:
    if run.waiting_for is WaitingFor.BACKOFF and run.not_before is not None:
        return run.not_before
    return run.created_at + int(run.decisions.get("retry", {}).get("backoff_ms", 0)) * MILLISECOND


class _Line:
    """Spans that follow each other up to an end."""

    def __init__(self, begin: datetime, end: datetime) -> None:
        self.spans: list[Span] = []
        self.at = begin
        self.end = max(begin, end)

    def to(self, until: datetime, phase: str) -> None:
        """Add a span up to an instant, at most up to the end; none if that is past."""
        until = min(until, self.end)
        if until <= self.at:
            return
        if self.spans and self.spans[-1].phase == phase:
            self.spans[-1] = Span(phase, self.spans[-1].since, until)
        else:
            self.spans.append(Span(phase, self.at, until))
        self.at = until


def _opened(spans: Sequence[Span], run: Run, held: Held | None) -> tuple[Span, ...]:
    """Return the spans of a run, the last one open if the run is not final."""
    if run.status.final or not spans:
        return tuple(spans)
    last = spans[-1]
    why = held if last.phase == QUEUE else None
    return (*spans[:-1], Span(last.phase, last.since, last.until, open=True, held=why))


def totals(spans: Iterable[Span]) -> dict[str, timedelta]:
    """Return the length of each phase that occurs, in the order of a run's life."""
    sums: dict[str, timedelta] = {}
    for span in spans:
        sums[span.phase] = sums.get(span.phase, timedelta()) + span.length
    return {phase: sums[phase] for phase in PHASES if phase in sums}
