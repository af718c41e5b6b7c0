"""OpenTelemetry without its packages: which signals the environment asks for, and the trace of a run."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACEPARENT = "TRACEPARENT"
HTTP = "http/protobuf"


class Signal(StrEnum):
    """A kind of telemetry, as the variables of OpenTelemetry name it."""

    TRACES = "traces"
    METRICS = "metrics"
    LOGS = "logs"


class SpanIds(Struct, frozen=True):
    """The identifiers of the span of a run, as numbers."""

    trace: int
    span: int

    @property
    def header(self) -> str:
        """The `traceparent` of W3C; always sampled."""
        return f"00-{self.trace:032x}-{self.span:016x}-01"


def span_of(run_id: str) -> SpanIds:
    """Return the identifiers of the span of a run; they follow from the run alone, so nothing is stored.

    >>> span_of("0198c1d2-0000-7000-8000-000000000001").header
    '00-0198c1d2000070008000000000000001-463969e0429f264f-01'
    """
    digest = hashlib.sha256(run_id.encode()).digest()
    return SpanIds(int(run_id.replace("-", ""), 16), int.from_bytes(digest[:8]) or 1)


def wanted_signals(environ: Mapping[str, str]) -> frozenset[Signal]:
    """Return the signals that have an endpoint and are not switched off.

    >>> sorted(wanted_signals({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_LOGS_EXPORTER": "none"}))
    [<Signal.METRICS: 'metrics'>, <Signal.TRACES: 'traces'>]
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return frozenset()
    return frozenset(
        signal
        for signal in Signal
        if (environ.get(ENDPOINT) or environ.get(f"OTEL_EXPORTER_OTLP_{signal.name}_ENDPOINT"))
        and environ.get(f"OTEL_{signal.name}_EXPORTER", "otlp").strip().lower() not in ("none", "")
    )


def foreign_protocol(environ: Mapping[str, str]) -> str | None:
    """Return a protocol that rota does not speak, None for http/protobuf."""
    names = ("OTEL_EXPORTER_OTLP_PROTOCOL", *(f"OTEL_EXPORTER_OTLP_{signal.name}_PROTOCOL" for signal in Signal))
    return next((environ[name] for name in names if environ.get(name, HTTP).strip().lower() not in (HTTP, "")), None)
