"""OpenTelemetry: one span a run, metrics and log lines, sent by OTLP from a thread of its own.

The thread reads ended runs from the database behind a stored position, so nothing waits for a collector: neither the
scheduler nor its transactions know of it. The packages of OpenTelemetry are imported in that thread, and only then.
"""

import json
import logging
import socket
import threading
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib.metadata import version
from math import isinf
from pathlib import Path
from typing import Any

from msgspec import Struct

from rota.log import LogLine, log
from rota.model.clock import Clock
from rota.model.errors import RotaError
from rota.model.records import ERROR_LIMIT, Run, cut
from rota.model.states import Status
from rota.model.telemetry import Signal, SpanIds, foreign_protocol, span_of, wanted_signals
from rota.operations.status.metrics import MetricFamily, MetricKind, RunTotals, collect_metrics
from rota.store.driver import Database, Store
from rota.store.tables import audit, queue

POSITION = "telemetry_position"
"""The key of the newest change whose runs were handed to an exporter."""
BATCH = 500
"""The most changes of a batch; the spans of one batch are lost in a crash."""
LOG_LINES = 2048
"""The most log lines that wait; further ones are dropped and counted."""
VALUE_LIMIT = 4096
REFUSED = frozenset({400, 413, 422})
"""Answers about the batch itself: it is never accepted. Others may be about the collector or its token."""
CLOSE_TIMEOUT = 3.0
ENDED = frozenset({"run.finished", "run.skipped", "run"})
EXTRA = "install the extra: `pip install 'rota[otel]'`"
DELAY, INTERVAL = "OTEL_BSP_SCHEDULE_DELAY", "OTEL_METRIC_EXPORT_INTERVAL"
SEVERITIES = {logging.DEBUG: 5, logging.INFO: 9, logging.WARNING: 13, logging.ERROR: 17, logging.CRITICAL: 21}


class Ended(Struct, frozen=True):
    """A batch of ended runs; `missed` if changes were pruned before they were read."""

    runs: Sequence[Run]
    more: bool = False
    missed: bool = False


def take_ended(db: Database) -> Ended:
    """Return the runs that ended after the stored position, and move it; the first call only stores it."""
    row, bounds = db.row("meta_get", key=POSITION), audit.bounds(db)
    if row is None:
        db.execute("meta_set", key=POSITION, value=str(bounds.last))
        return Ended(())
    at = int(row[0])
    missed = bool(bounds.last) and at < bounds.first - 1
    changes = audit.changes_after(db, at, limit=BATCH)
    if not changes:
        return Ended((), missed=missed)
    db.execute("meta_set", key=POSITION, value=str(changes[-1].seq))
    moved = dict.fromkeys(change.subject for change in changes if change.kind in ENDED)
    ended = [run for run in queue.runs_of(db, list(moved)) if run.status.final]
    return Ended(ended, more=len(changes) >= BATCH, missed=missed)


class Telemetry:
    """The thread that exports. Log lines wait in memory, ended runs in the database."""

    def __init__(self, store: Store, clock: Clock, state: Path, environ: Mapping[str, str]) -> None:
        self._store = store
        self._clock = clock
        self._state = state
        self._environ = environ
        self._totals = RunTotals()
        self._spans: Sequence[Run] = ()
        self.dropped: Counter[Signal] = Counter()
        """Log lines that found no room, batches that were refused, and times at which ended runs were pruned unread."""
        self._lines = _Lines(self.dropped)
        self._failing: set[Signal] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rota-telemetry", daemon=True)
        self._exporter: Exporter | None = None

    def start(self) -> None:
        """Start the thread; collect log lines and ended runs from now on."""
        if Signal.TRACES in wanted_signals(self._environ):
            with suppress(RotaError):  # the storage: the thread tries again
                self._store.write(_begin)
        if Signal.LOGS in wanted_signals(self._environ):
            logging.getLogger("rota").addHandler(self._lines)
        self._thread.start()

    def close(self, *, within: float = CLOSE_TIMEOUT) -> None:
        """Export what waits, within a few seconds, and end."""
        self._stop.set()
        self._thread.join(within)
        logging.getLogger("rota").removeHandler(self._lines)
        if self._exporter is not None:
            self._exporter.close()

    def open(self) -> bool:
        """Load the packages of OpenTelemetry; return whether there is an exporter."""
        protocol = foreign_protocol(self._environ)
        if protocol is not None:
            log.warning("telemetry is off: unknown OTLP protocol", protocol=protocol, hint="set it to http/protobuf")
            return False
        try:
            self._exporter = Exporter(wanted_signals(self._environ), self._clock, self._state)
        except ImportError as error:
            log.warning("telemetry is off: a package is missing", error=str(error), hint=EXTRA)
            return False
        except Exception as error:  # a value of a variable that the packages refuse
            log.warning("telemetry is off: the variables are not usable", error=str(error), hint="correct OTEL_*")
            return False
        return True

    def _run(self) -> None:
        if not self.open():
            logging.getLogger("rota").removeHandler(self._lines)
            return
        delay = _milliseconds(self._environ, DELAY, 5_000)
        every = max(1, round(_milliseconds(self._environ, INTERVAL, 60_000) / delay))
        number = 0
        while not self._stop.wait(delay):
            self.round(metrics=number % every == 0)
            number += 1
        self.round(metrics=True)

    def round(self, *, metrics: bool) -> None:
        """Export what is due; a failure waits for the next round."""
        assert self._exporter is not None, "only its thread and tests come here"
        steps = {
            Signal.TRACES: partial(self._export_spans, self._exporter),
            Signal.LOGS: partial(self._export_lines, self._exporter),
            **({Signal.METRICS: partial(self._export_metrics, self._exporter)} if metrics else {}),
        }
        for signal in self._exporter.signals & steps.keys():
            try:
                self._note(signal, None if steps[signal]() else "the collector did not accept it")
            except RotaError as error:  # the storage
                self._note(signal, str(error))
            except Exception as error:
                self._note(signal, f"{type(error).__name__}: {error}")

    def _note(self, signal: Signal, problem: str | None) -> None:
        """Log a failure once, and its end."""
        if problem is not None and signal not in self._failing:
            self._failing.add(signal)
            log.warning("telemetry export failed, retrying", signal=signal.value, error=problem)
        elif problem is None and signal in self._failing:
            self._failing.discard(signal)
            log.info("telemetry export works again", signal=signal.value, dropped=self.dropped[signal])

    def _export_spans(self, exporter: "Exporter") -> bool:
        while True:
            if self._spans and not exporter.spans(self._spans) and not self._is_refused(exporter, Signal.TRACES):
                return False
            self._spans = ()
            batch = self._store.write(take_ended) if self._store.read(_moved) else Ended(())
            if batch.missed:
                self.dropped[Signal.TRACES] += 1
                log.warning("telemetry missed ended runs: their changes were pruned")
            self._spans = batch.runs
            if not batch.runs and not batch.more:
                return True

    def _export_lines(self, exporter: "Exporter") -> bool:
        lines = self._lines.take()
        if not lines or exporter.lines(lines) or self._is_refused(exporter, Signal.LOGS):
            return True
        self._lines.put_back(lines)
        return False

    def _is_refused(self, exporter: "Exporter", signal: Signal) -> bool:
        """Return whether the collector will never accept a batch, which is dropped and counted then."""
        if exporter.answer not in REFUSED:
            return False
        self.dropped[signal] += 1
        log.warning("telemetry dropped: the collector refused it", signal=signal.value, status=exporter.answer)
        return True

    def _export_metrics(self, exporter: "Exporter") -> bool:
        families = collect_metrics(self._store, self._state, self._totals, now=self._clock.now())
        return exporter.metrics([*families, self._drops()])

    def _drops(self) -> MetricFamily:
        samples = tuple(((signal.value,), float(self.dropped[signal])) for signal in Signal)
        text = "Dropped log lines and batches, and gaps in the spans."
        return MetricFamily("rota_telemetry_dropped_total", MetricKind.COUNTER, text, ("signal",), samples)


def _begin(db: Database) -> None:
    """Store the position of a database that has none, so that no run which ends from now on is missed."""
    if db.row("meta_get", key=POSITION) is None:
        take_ended(db)


def _moved(db: Database) -> bool:
    """Return whether there is something to take, without a write."""
    row = db.row("meta_get", key=POSITION)
    return row is None or int(row[0]) < audit.bounds(db).last


def _milliseconds(environ: Mapping[str, str], name: str, usual: int) -> float:
    """Return a variable of OpenTelemetry in seconds; an invalid one is the usual value."""
    try:
        return max(int(environ[name]), 100) / 1000
    except (KeyError, ValueError):
        return usual / 1000


class _Lines(logging.Handler):
    """Keeps log lines until they are exported; never waits."""

    def __init__(self, dropped: Counter[Signal]) -> None:
        super().__init__()
        self._waiting: deque[logging.LogRecord] = deque()
        self._dropped = dropped

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._waiting) >= LOG_LINES:
            self._dropped[Signal.LOGS] += 1
        else:
            self._waiting.append(record)

    def take(self) -> list[logging.LogRecord]:
        """Return the lines that wait, the oldest first."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def put_back(self, lines: Sequence[logging.LogRecord]) -> None:
        """Keep lines that were not accepted; the newest of all go if there is no room."""
        self._waiting.extendleft(reversed(lines))
        while len(self._waiting) > LOG_LINES:
            self._waiting.pop()
            self._dropped[Signal.LOGS] += 1


class Exporter:
    """Makes records of OpenTelemetry from those of rota, and sends them by OTLP over HTTP."""

    def __init__(self, signals: Collection[Signal], clock: Clock, state: Path) -> None:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from requests import Session

        _silence()
        self.signals = frozenset(signals)
        self._clock = clock
        self.answer: int | None = None
        """The status of the answer to the last batch of spans or lines; None without one."""
        session = Session()
        session.hooks["response"] = [self._note_answer]
        self._traces = OTLPSpanExporter(session=session) if Signal.TRACES in signals else None
        self._metrics = OTLPMetricExporter(session=session) if Signal.METRICS in signals else None
        self._logs = OTLPLogExporter(session=session) if Signal.LOGS in signals else None
        own = {"service.name": "rota", "service.version": version("rota"), "host.name": socket.gethostname()}
        named = Resource.create({"rota.state": str(state)})
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win; the name that the packages invent does not.
        given = {name: value for name, value in named.attributes.items() if value != "unknown_service"}
        self._resource = Resource({**own, **given}, named.schema_url)
        self._scope = InstrumentationScope("rota", version("rota"))

    def close(self) -> None:
        """End the connections; an export in progress fails."""
        for one in (self._traces, self._metrics, self._logs):
            if one is not None:
                one.shutdown()

    def _note_answer(self, response: Any, *_: Any, **__: Any) -> None:
        self.answer = response.status_code

    def spans(self, runs: Sequence[Run]) -> bool:
        """Send the spans of runs; return whether they were accepted."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        assert self._traces is not None
        self.answer = None
        return self._traces.export([self._span(run) for run in runs]) is SpanExportResult.SUCCESS

    def _span(self, run: Run) -> Any:
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import Link
        from opentelemetry.trace.status import Status as SpanStatus
        from opentelemetry.trace.status import StatusCode

        began = run.started_at or run.finished_at or run.created_at
        codes = {Status.COMPLETED: StatusCode.OK, Status.FAILED: StatusCode.ERROR}
        code = codes.get(run.status, StatusCode.UNSET)
        why = f"{run.reason}: {run.error}" if run.error else str(run.reason)
        linked = [] if run.retry_of is None else [Link(_context(span_of(run.retry_of)), {"rota.link": "retry_of"})]
        return ReadableSpan(
            name=run.job,
            context=_context(span_of(run.id)),
            resource=self._resource,
            attributes=span_attributes(run),
            events=[Event(event.name, event.attributes, _nanoseconds(event.at)) for event in span_events(run)],
            links=linked,
            status=SpanStatus(code, cut(why, ERROR_LIMIT) if code is StatusCode.ERROR else None),
            start_time=_nanoseconds(began),
            end_time=_nanoseconds(run.finished_at or began),
            instrumentation_scope=self._scope,
        )

    def lines(self, records: Sequence[logging.LogRecord]) -> bool:
        """Send log lines; return whether they were accepted."""
        from opentelemetry._logs import LogRecord, SeverityNumber
        from opentelemetry.sdk._logs import ReadableLogRecord
        from opentelemetry.sdk._logs.export import LogRecordExportResult

        assert self._logs is not None
        self.answer = None
        found = []
        for record in records:
            line = record.msg
            event, fields = (line.event, line.fields) if isinstance(line, LogLine) else (record.getMessage(), {})
            attributes = {name: _scalar(value) for name, value in fields.items() if value is not None}
            if record.exc_info:
                attributes["exception.stacktrace"] = logging.Formatter().formatException(record.exc_info)[-VALUE_LIMIT:]
            at = round(record.created * 1e9)
            log_record = LogRecord(
                timestamp=at,
                observed_timestamp=at,
                severity_text=record.levelname,
                severity_number=SeverityNumber(SEVERITIES.get(record.levelno, 9)),
                body=event,
                attributes=attributes,
            )
            found.append(ReadableLogRecord(log_record, self._resource, self._scope))
        return self._logs.export(found) is LogRecordExportResult.SUCCESS

    def metrics(self, families: Sequence[MetricFamily]) -> bool:
        """Send metrics; return whether they were accepted."""
        from opentelemetry.sdk.metrics.export import (
            MetricExportResult,
            MetricsData,
            ResourceMetrics,
            ScopeMetrics,
        )

        assert self._metrics is not None
        now = _nanoseconds(self._clock.now())
        found = [_metric(family, now) for family in families if family.samples or family.histogram is not None]
        scope = ScopeMetrics(self._scope, found, "")
        data = MetricsData([ResourceMetrics(self._resource, [scope], self._resource.schema_url)])
        return self._metrics.export(data) is MetricExportResult.SUCCESS


class SpanEvent(Struct, frozen=True):
    """An event of a span."""

    name: str
    at: datetime
    attributes: Mapping[str, str]


def span_attributes(run: Run) -> dict[str, str | int | float | bool]:
    """Return what the span of a run says about it."""
    found: dict[str, Any] = {
        "rota.job": run.job,
        "rota.run": run.handle,
        "rota.run_id": run.id,
        "rota.trigger": run.trigger.value,
        "rota.attempt": run.attempt,
        "rota.status": run.status.value,
        "rota.reason": None if run.reason is None else run.reason.value,
        "rota.scheduled_for": None if run.scheduled_for is None else run.scheduled_for.isoformat(),
        "rota.count": run.count,
        "rota.exit_code": run.exit_code,
        "rota.worker": run.worker_id,
        "rota.session_id": run.session_id,
        **{f"rota.usage.{name}": value for name, value in run.usage.items()},
    }
    if run.first_dispatched_at is not None:
        found["rota.queue_seconds"] = (run.first_dispatched_at - run.created_at).total_seconds()
    return {name: _scalar(value) for name, value in found.items() if value is not None}


def span_events(run: Run) -> list[SpanEvent]:
    """Return the creation, the claim and the decisions of a run; a decision without a time has that of the start."""
    usual = run.started_at or run.first_dispatched_at or run.finished_at or run.created_at
    events = [SpanEvent("created", run.created_at, {})]
    if run.first_dispatched_at is not None:
        events.append(SpanEvent("claimed", run.first_dispatched_at, {}))
    for name, value in run.decisions.items():
        if not name.endswith("_at"):
            at = _time(run.decisions.get(f"{name}_at")) or usual
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            events.append(SpanEvent(f"decision.{name}", at, {"rota.decision": text[:VALUE_LIMIT]}))
    return sorted(events, key=lambda event: event.at)


def _time(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _scalar(value: Any) -> str | int | float | bool:
    if isinstance(value, str):
        return value[:VALUE_LIMIT]
    return value if isinstance(value, bool | int | float) else str(value)[:VALUE_LIMIT]


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000


def _context(ids: SpanIds) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(ids.trace, ids.span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _metric(family: MetricFamily, now: int) -> Any:
    """Return a metric; counters are sums since the database was created."""
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        Histogram,
        HistogramDataPoint,
        Metric,
        NumberDataPoint,
        Sum,
    )

    temporality = AggregationTemporality.CUMULATIVE
    name = family.name  # as in /metrics, so that one board shows both
    if family.histogram is not None:
        bounds = [bound for bound, _ in family.histogram.buckets if not isinf(bound)]
        sums = [count for _, count in family.histogram.buckets]
        counts = [count - before for before, count in zip([0, *sums], sums, strict=False)]
        total = sums[-1] if sums else 0
        nothing: Any = None  # the smallest and largest values are unknown
        point = HistogramDataPoint({}, 0, now, total, family.histogram.total, counts, bounds, nothing, nothing)
        return Metric(name, family.help, "", Histogram([point], temporality))
    points = [
        NumberDataPoint(dict(zip(family.labels, labels, strict=True)), 0, now, value)
        for labels, value in family.samples
    ]
    if family.kind is MetricKind.COUNTER:
        return Metric(name, family.help, "", Sum(points, temporality, is_monotonic=True))
    return Metric(name, family.help, "", Gauge(points))


def _silence() -> None:
    """Keep the packages' own lines off standard error: failures are told once, in rota's log."""
    for name in ("opentelemetry", "urllib3"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
