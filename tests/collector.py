"""A collector of OTLP over HTTP: keeps what it accepts, decoded, and can refuse."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import decompress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS: dict[str, Any] = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}


class Collector:
    """What was sent; `status` is the answer to each request."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[Any] = []
        self.url = ""
        self.tried = 0

    @property
    def spans(self) -> list[Any]:
        """All accepted spans."""
        found = [one for one in list(self.requests) if isinstance(one, ExportTraceServiceRequest)]
        return [span for one in found for of in one.resource_spans for part in of.scope_spans for span in part.spans]

    @property
    def metrics(self) -> dict[str, Any]:
        """The newest metrics by name."""
        found = [one for one in list(self.requests) if isinstance(one, ExportMetricsServiceRequest)]
        return {
            metric.name: metric
            for one in found[-1:]
            for of in one.resource_metrics
            for part in of.scope_metrics
            for metric in part.metrics
        }

    @property
    def lines(self) -> list[Any]:
        """All accepted log lines."""
        found = [one for one in list(self.requests) if isinstance(one, ExportLogsServiceRequest)]
        return [
            line for one in found for of in one.resource_logs for part in of.scope_logs for line in part.log_records
        ]


def attributes(record: Any) -> dict[str, Any]:
    """Return the attributes of a record."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in record.attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Yield a collector that listens."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            body = decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            collector.tried += 1
            if collector.status == 200:
                collector.requests.append(KINDS[self.path].FromString(body))
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
