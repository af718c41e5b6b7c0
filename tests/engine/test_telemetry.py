"""OpenTelemetry on a playing scheduler: what a local collector gets, and what it may cost nobody."""

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rota.log import log
from rota.model.records import Outcome
from rota.model.spec import Retry
from rota.model.states import Reason, Status
from rota.model.telemetry import Signal, foreign_protocol, span_of, wanted_signals
from rota.operations.status.metrics import RunTotals, collect_metrics
from rota.serve import telemetry as module
from rota.serve.telemetry import Telemetry
from rota.testing.doubles import Script
from tests.collector import Collector, attributes, collecting
from tests.engine.conftest import Scene, command, every

pytestmark = pytest.mark.anyio
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as made:
        monkeypatch.setenv(ENDPOINT, made.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        yield made


def opened(scene: Scene) -> Telemetry:
    made = Telemetry(scene.store, scene.clock, scene.settings.state, dict(os.environ))
    assert made.open()
    made.round(metrics=False)
    return made


async def test_each_ended_run_is_one_span_with_its_decisions(scene: Scene, collector: Collector) -> None:
    telemetry = opened(scene)
    scene.declare(command("backup", schedule=every("1h")), command("manual"))
    await scene.advance("1s")
    telemetry.round(metrics=False)
    telemetry.round(metrics=False)
    (run,) = scene.history("backup")
    (span,) = collector.spans
    ids = span_of(run.id)
    assert (span.name, int.from_bytes(span.trace_id), int.from_bytes(span.span_id)) == ("backup", ids.trace, ids.span)
    told = attributes(span)
    assert (told["rota.run"], told["rota.status"], told["rota.trigger"]) == ("backup:1", "COMPLETED", "schedule")
    assert span.status.code == 1
    assert span.end_time_unix_nano >= span.start_time_unix_nano > 0
    assert [event.name for event in span.events][:2] == ["created", "claimed"]


async def test_attempts_are_linked_and_a_failure_says_why(scene: Scene, collector: Collector) -> None:
    telemetry = opened(scene)
    scene.declare(command("flaky", retry=Retry(max_attempts=2)))
    scene.processes.scripts["flaky"] = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3))
    scene.trigger("flaky")
    await scene.settle()
    await scene.advance("1h")
    telemetry.round(metrics=False)
    first, second = sorted(collector.spans, key=lambda span: attributes(span)["rota.attempt"])
    assert (first.status.code, attributes(first)["rota.reason"]) == (2, "exit_code")
    assert first.status.message.startswith("exit_code")
    (link,) = second.links
    assert (link.trace_id, link.span_id) == (first.trace_id, first.span_id)
    retried = next(event for event in second.events if event.name == "decision.retry")
    assert json.loads(attributes(retried)["rota.decision"])["after"] == "flaky:1"


async def test_runs_wait_in_the_database_while_the_collector_refuses(scene: Scene, collector: Collector) -> None:
    telemetry = opened(scene)
    collector.status = 403
    scene.declare(command("backup", schedule=every("1h")))
    for _ in range(3):
        await scene.advance("1h")
        telemetry.round(metrics=False)
    assert collector.spans == []
    collector.status = 200
    telemetry.round(metrics=False)
    told = sorted(attributes(span)["rota.run"] for span in collector.spans)
    assert told == sorted(run.handle for run in scene.history("backup") if run.status is Status.COMPLETED)
    assert len(told) > 3


async def test_a_batch_that_is_never_accepted_does_not_hold_up_the_next(scene: Scene, collector: Collector) -> None:
    telemetry = opened(scene)
    scene.declare(command("backup", schedule=every("1h")))
    collector.status = 400
    await scene.advance("1s")
    telemetry.round(metrics=False)
    collector.status = 200
    await scene.advance("1h")
    telemetry.round(metrics=False)
    assert [attributes(span)["rota.run"] for span in collector.spans] == ["backup:2"]
    assert telemetry.dropped[Signal.TRACES] == 1


async def test_the_metrics_are_those_of_the_other_way(scene: Scene, collector: Collector) -> None:
    telemetry = opened(scene)
    scene.declare(command("backup", schedule=every("1h")))
    await scene.advance("1s")
    telemetry.round(metrics=True)
    families = collect_metrics(scene.store, scene.settings.state, RunTotals(), now=scene.clock.now())
    filled = {one.name for one in families if one.samples or one.histogram is not None}
    assert set(collector.metrics) == filled | {"rota_telemetry_dropped_total"}
    (point,) = collector.metrics["rota_runs_total"].sum.data_points
    assert (attributes(point)["job"], point.as_double) == ("backup", 1.0)
    (histogram,) = collector.metrics["rota_run_seconds"].histogram.data_points
    assert histogram.count == sum(histogram.bucket_counts) == 1
    assert len(histogram.bucket_counts) == len(histogram.explicit_bounds) + 1


async def test_log_lines_keep_their_fields_and_further_ones_are_counted(
    scene: Scene, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_LINES", 3)
    telemetry = opened(scene)
    lines = telemetry._lines
    logging.getLogger("rota").addHandler(lines)
    try:
        for number in range(5):
            log.warning("disk is slow", number=number)
    finally:
        logging.getLogger("rota").removeHandler(lines)
    assert telemetry.dropped[Signal.LOGS] == 2
    collector.status = 403
    telemetry.round(metrics=False)
    assert collector.lines == []
    collector.status = 200
    telemetry.round(metrics=False)
    assert [(line.body.string_value, attributes(line)["number"]) for line in collector.lines] == [
        ("disk is slow", 0),
        ("disk is slow", 1),
        ("disk is slow", 2),
    ]


async def test_a_collector_that_never_answers_delays_neither_start_nor_end(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{silent.getsockname()[1]}")
        telemetry = Telemetry(scene.store, scene.clock, scene.settings.state, dict(os.environ))
        telemetry.start()
        scene.declare(command("backup", schedule=every("1h")))
        await scene.advance("1s")
        telemetry.close(within=0)
        assert [run.status for run in scene.history("backup")] == [Status.COMPLETED]


async def test_a_missing_package_and_another_protocol_switch_it_off(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {ENDPOINT: "http://127.0.0.1:9"}
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert not Telemetry(scene.store, scene.clock, scene.settings.state, environ).open()
    assert "a package is missing" in caplog.text
    assert "rota[otel]" in caplog.text
    grpc = {**environ, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    assert not Telemetry(scene.store, scene.clock, scene.settings.state, grpc).open()
    assert "protocol='grpc'" in caplog.text


def test_without_the_variables_nothing_of_it_is_imported() -> None:
    code = "import sys, rota.serve.daemon, rota.serve.telemetry; print(*sys.modules)"
    imported = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert "rota.serve.telemetry" in imported
    assert [name for name in imported if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))] == []


@pytest.mark.parametrize(
    ("environ", "signals"),
    [
        ({}, ""),
        ({ENDPOINT: ""}, ""),
        ({ENDPOINT: "http://c"}, "logs metrics traces"),
        ({ENDPOINT: "http://c", "OTEL_SDK_DISABLED": "TRUE"}, ""),
        ({ENDPOINT: "http://c", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "None"}, "traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, "traces"),
    ],
)
def test_the_variables_choose_the_signals(environ: dict[str, str], signals: str) -> None:
    assert sorted(wanted_signals(environ)) == signals.split()
    assert foreign_protocol({**environ, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}) is None
