"""The metrics: one list of families for `/metrics` and OTLP, the same from every scheduler of a database."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from rota.model.budgets import MILLION, Unit
from rota.model.clock import to_ms
from rota.model.states import Status
from rota.operations.budgets import account_views
from rota.operations.capacity import hold_views, pool_views
from rota.operations.status.heartbeat import Heartbeat
from rota.operations.status.status import needs_at
from rota.operations.status.summary import SchedulerSummary, summarise
from rota.rules.stats import (
    CALLS,
    DAY,
    DURATION,
    LATE,
    LATENESS,
    LETTERS,
    WAIT,
    Tally,
    add,
    counted,
    cumulative,
    ends,
    reasons,
    spent,
)
from rota.store.driver import Database, Store
from rota.store.tables import jobs, notifications, stats
from rota.store.tallies import ALL_JOBS

LABELLED_JOBS = 100
"""The default number of jobs with a label of their own."""
MAX_LABELLED_JOBS = 1000
MAX_LABELLED = 100
"""The number of models, targets and attention items with labels of their own."""
OTHER = "other"
RECENT = timedelta(days=1)
"""Deliveries are counted for this long."""
Labels = tuple[str, ...]


class MetricKind(StrEnum):
    """The type of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class HistogramValue(Struct, frozen=True):
    """A histogram: the number of values up to each bound, the last one infinite, and their sum."""

    buckets: tuple[tuple[float, int], ...]
    total: float


class MetricFamily(Struct, frozen=True):
    """A metric with its samples by the values of its labels; a counter's name ends in `_total`."""

    name: str
    kind: MetricKind
    help: str
    labels: Labels = ()
    samples: tuple[tuple[Labels, float], ...] = ()
    histogram: HistogramValue | None = None


def one(name: str, text: str, value: float, *, kind: MetricKind = MetricKind.GAUGE) -> MetricFamily:
    """Return a metric without labels."""
    return MetricFamily(name, kind, text, samples=(((), float(value)),))


def family(
    name: str, text: str, labels: str, samples: Mapping[Any, float], *, kind: MetricKind = MetricKind.GAUGE
) -> MetricFamily:
    """Return a metric with labels."""
    return MetricFamily(name, kind, text, tuple(labels.split()), tuple((key, float(n)) for key, n in samples.items()))


class RunTotals:
    """The sums of all days of jobs. Days that cannot change are summed once and kept in memory."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[int, Tally]] = {}

    def read(self, db: Database, job_ids: Sequence[str], *, now: datetime) -> dict[str, Tally]:
        """Return the sum of each job, `ALL_JOBS` for the sum of all, with what is not yet in the cells.

        A day is final when another has passed since, nothing of it is pending and the past is counted.
        """
        until = (to_ms(now) // DAY - 1) * DAY
        pending = {cell: tally for cell, tally in stats.pending(db).items() if cell.span == DAY}
        final = stats.counted_from(db) is None and all(cell.since >= until for cell in pending)
        sums = self._final(db, job_ids, until=until, known=self._sums if final else {})
        if final:
            self._sums = {**self._sums, **{job_id: (until, tally) for job_id, tally in sums.items()}}
        totals = {job_id: dict(tally) for job_id, tally in sums.items()}
        for job_id, tally in stats.stored_days(db, job_ids, since=until, until=1 << 62):
            add(totals[job_id], _wanted(job_id, tally))
        for cell, tally in pending.items():
            if cell.job_id in totals:
                add(totals[cell.job_id], _wanted(cell.job_id, tally))
        return totals

    @staticmethod
    def _final(
        db: Database, job_ids: Sequence[str], *, until: int, known: Mapping[str, tuple[int, Tally]]
    ) -> dict[str, Tally]:
        begins: dict[int, list[str]] = {}
        sums: dict[str, Tally] = {}
        for job_id in job_ids:
            since, tally = known.get(job_id, (0, {}))
            if since > until:  # the clock was set back
                since, tally = 0, {}
            begins.setdefault(since, []).append(job_id)
            sums[job_id] = dict(tally)
        for since, names in begins.items():
            for job_id, tally in stats.stored_days(db, names, since=since, until=until):
                add(sums[job_id], _wanted(job_id, tally))
        return sums


def _wanted(job_id: str, tally: Tally) -> Tally:
    return tally if job_id == ALL_JOBS else ends(tally)


def collect_metrics(
    store: Store, state: Path, totals: RunTotals, *, now: datetime, labelled: int = LABELLED_JOBS
) -> list[MetricFamily]:
    """Return all metrics; `labelled` is the number of jobs with a label of their own."""
    summary = summarise(store, state, now=now)
    return store.read(partial(_collect, summary=summary, totals=totals, now=now, labelled=labelled))


def _collect(
    db: Database, *, summary: SchedulerSummary, totals: RunTotals, now: datetime, labelled: int
) -> list[MetricFamily]:
    return [
        *_scheduler(summary, now=now),
        *_ended(db, totals, now=now, labelled=labelled),
        *_pools(db),
        *_budgets(db, now=now),
        *_holds(db),
        *_deliveries(db, now=now),
        _attention(db, summary.heartbeat, now=now),
    ]


def _scheduler(summary: SchedulerSummary, *, now: datetime) -> Iterator[MetricFamily]:
    answer = summary.heartbeat.answer
    yield one("rota_up", "Whether due runs will start.", summary.heartbeat.alive)
    runs = {(status.value,): number for status, number in summary.counts.items()}
    yield family("rota_runs", "Runs in the database by status; retention removes runs.", "status", runs)
    yield one("rota_slots", "The number of slots of this scheduler.", answer.get("concurrency", 0))
    yield one("rota_slots_taken", "The number of taken slots of this scheduler.", answer.get("slots_taken", 0))
    if summary.next_due_at is not None:
        seconds = (summary.next_due_at - now).total_seconds()
        yield one("rota_next_due_seconds", "Seconds until the next instant is due; negative: overdue.", seconds)


def _ended(db: Database, totals: RunTotals, *, now: datetime, labelled: int) -> Iterator[MetricFamily]:
    names = stats.oldest_jobs(db, limit=labelled)
    tallies = totals.read(db, [ALL_JOBS, *(job_id for job_id, _ in names)], now=now)
    whole = tallies[ALL_JOBS]
    runs, known = Counter[Labels](), Counter[Labels]()
    for job_id, name in names:
        part = _ends_by_labels(tallies[job_id])
        known.update(part)
        runs.update({(name, *labels): number for labels, number in part.items()})
    rest = {labels: number - known[labels] for labels, number in _ends_by_labels(whole).items()}
    runs.update({(OTHER, *labels): number for labels, number in rest.items() if number > 0})
    text = "Ended runs and skipped instants; jobs beyond the limit are `other`."
    yield family("rota_runs_total", text, "job status reason", runs, kind=MetricKind.COUNTER)
    late = "Scheduled runs that started more than 60 s after their instant."
    yield one("rota_late_runs_total", late, whole.get(LATE, 0), kind=MetricKind.COUNTER)
    calls = whole.get(CALLS, 0)
    yield one("rota_direct_calls_total", "Ended direct calls.", calls, kind=MetricKind.COUNTER)
    yield _histogram("rota_run_seconds", "Run time from start to end.", whole, DURATION)
    yield _histogram("rota_lateness_seconds", "Time from the instant to the start of scheduled runs.", whole, LATENESS)
    yield _histogram("rota_queue_seconds", "Time from the creation of a run to its first claim.", whole, WAIT)
    yield from _used(whole)


def _ends_by_labels(tally: Tally) -> dict[Labels, int]:
    found: dict[Labels, int] = {
        (status.value, reason): number
        for status in LETTERS
        if status is not Status.COMPLETED
        for reason, number in reasons(tally, status).items()
    }
    completed = counted(tally, Status.COMPLETED)
    return {(Status.COMPLETED.value, ""): completed, **found} if completed else found


def _histogram(name: str, text: str, tally: Tally, measure: str) -> MetricFamily:
    value = HistogramValue(tuple(cumulative(tally, measure)), tally.get(measure, 0) / 1000)
    return MetricFamily(name, MetricKind.HISTOGRAM, text, histogram=value)


def _used(whole: Tally) -> Iterator[MetricFamily]:
    runs, requests, tokens, cached, usd = (Counter[Labels]() for _ in range(5))
    seen = dict.fromkeys(key.split(".", 2)[2] for key in whole if key.startswith("u."))
    own = set(list(seen)[:MAX_LABELLED])  # the oldest ones, so that none of them moves to `other` later
    for row in spent(whole):
        labels = (row.agent, row.model) if f"{row.agent}|{row.model}" in own else (OTHER, OTHER)
        runs[labels] += row.runs
        requests[labels] += row.requests
        tokens[*labels, "in"] += row.tokens_in
        tokens[*labels, "out"] += row.tokens_out
        cached[labels] += row.tokens_cached
        usd[labels] += row.usd
    by, counter = "agent model", MetricKind.COUNTER
    yield family("rota_agent_runs_total", "Runs and direct calls that reported usage.", by, runs, kind=counter)
    yield family("rota_agent_requests_total", "Requests to models.", by, requests, kind=counter)
    yield family("rota_tokens_total", "Tokens by direction.", f"{by} direction", tokens, kind=counter)
    yield family("rota_cached_tokens_total", "Input tokens that came from a cache.", by, cached, kind=counter)
    dollars = {labels: amount / MILLION for labels, amount in usd.items()}
    yield family("rota_cost_dollars_total", "Reported cost in US dollars.", by, dollars, kind=counter)


def _pools(db: Database) -> Iterator[MetricFamily]:
    pools = [view.pool for view in pool_views(db)]
    capacity = {(pool.name,): pool.capacity for pool in pools}
    yield family("rota_pool_capacity", "The capacity of a pool.", "pool", capacity)
    yield family("rota_pool_used", "The used capacity of a pool.", "pool", {(pool.name,): pool.used for pool in pools})


def _budgets(db: Database, *, now: datetime) -> Iterator[MetricFamily]:
    limits: dict[Labels, float] = {}
    used: dict[Labels, float] = {}
    waiting: dict[Labels, float] = {}
    for view in account_views(db, now=now):
        labels = (view.account.name, str(view.account.unit))
        scale = MILLION if view.account.unit is Unit.USD else 1  # money in dollars, as the label says
        limits[labels] = view.account.limit / scale
        used[labels] = view.used / scale
        waiting[labels] = len(view.waiting)
    yield family("rota_budget_limit", "The limit of a budget in its window.", "account unit", limits)
    yield family("rota_budget_used", "The used and reserved amount of a budget.", "account unit", used)
    yield family("rota_budget_waiting_runs", "Runs that wait for a budget.", "account unit", waiting)


def _holds(db: Database) -> Iterator[MetricFamily]:
    held = [view for view in hold_views(db) if view.hold.until is not None]
    active = {(view.hold.provider, view.hold.problem.value): 1 for view in held}
    yield family("rota_provider_held", "1 while a provider is held.", "provider problem", active)
    waiting = {(view.hold.provider,): view.waiting for view in held}
    yield family("rota_provider_waiting_runs", "Runs that wait for a held provider.", "provider", waiting)


def _deliveries(db: Database, *, now: datetime) -> Iterator[MetricFamily]:
    targets = notifications.targets(db)
    own = set(sorted(targets)[:MAX_LABELLED])
    sent = Counter[Labels]()
    for name, status, number in notifications.counted_since(db, now - RECENT):
        sent[name if name in own else OTHER, status.value] += number
    yield family("rota_deliveries", "Notifications of the last 24 hours by target and status.", "target status", sent)
    disabled = Counter[Labels]()
    for name, target in sorted(targets.items()):
        closed = notifications.endpoint(db, target.endpoint).disabled_at is not None
        disabled[name if name in own else OTHER,] += closed
    yield family("rota_delivery_target_disabled", "1 for a target that is disabled.", "target", disabled)


def _attention(db: Database, beat: Heartbeat, *, now: datetime) -> MetricFamily:
    items = Counter[Labels]()
    needs = needs_at(db, beat=beat, zone=jobs.timezone_of(db), now=now)
    for number, need in enumerate(needs):
        name = need.attention.name if number < MAX_LABELLED else OTHER
        items[need.attention.kind.value, name, "true" if need.seen else "false"] += 1
    text = "Items that need attention, as `rota ack` lists them."
    return family("rota_attention", text, "kind name acknowledged", items)
