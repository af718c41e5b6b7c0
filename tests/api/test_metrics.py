"""`/metrics`, and the rules, the board and the page about it: every name and label exists in a scrape."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from rota.model.agents import AgentProblem, ProviderHold
from rota.model.budgets import Usage
from rota.model.notifications import Channel, Event, Target
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.store.tables import notifications, queue
from tests.api.conftest import Api
from tests.docs.pages import ROOT, first_cells, page

FOLDER = ROOT / "examples" / "watch"
METRIC = re.compile(r"\brota_[a-z_]+")
SELECTOR = re.compile(r"(rota_[a-z_]+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\b(by|without) \(([^)]*)\)")
ADDED_LABELS = {"instance", "le"}
"""Prometheus adds `instance` to every series, and a histogram has `le`."""


def scrape(api: Api, query: str = "") -> dict[str, Metric]:
    found = api.call("GET", f"/api/v1/metrics{query}")
    assert found.status_code == 200, found.text
    families = list(text_string_to_metric_families(found.text))
    return {f"{one.name}_total" if one.type == "counter" else one.name: one for one in families}


@pytest.fixture
def full(api: Api) -> Api:
    """A project in which everything that is measured has happened."""
    for name in ("hello", "other"):
        api.post(f"/jobs/{name}/trigger", status=202)
    usage = Usage(tokens_in=9, tokens_cached=4, tokens_out=2, requests=1, usd=30_000, model="haiku")
    api.project.carry_out(
        [Outcome(Status.COMPLETED, usage=usage), Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3")]
    )
    now = api.project.clock.now()
    hold = ProviderHold("acme", now + timedelta(hours=1), False, 1, "used up", None, now, AgentProblem.QUOTA, now)
    target = Target("ops", Channel.WEBHOOK, on=(Event.FAILED,), address="https://example.com/hook")
    api.store.write(partial(queue.put_hold, hold=hold))
    api.store.write(partial(notifications.declare_targets, declared={"ops": target}, now=now))
    message = partial(notifications.insert_message, event=Event.ATTENTION, subject="s", payload={}, now=now)
    api.store.write(lambda db: message(db, target))
    return api


def series(api: Api) -> dict[str, set[str]]:
    """Return the labels of each series of a scrape by its name, as a query writes it."""
    found: dict[str, set[str]] = {}
    for family in scrape(api).values():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_a_full_scrape_can_be_read_and_has_every_metric_of_the_page(full: Api) -> None:
    found = scrape(full)
    assert all(family.samples and family.documentation.endswith(".") for family in found.values())
    documented = {word for word in first_cells(page("watch.md")) if word.startswith("rota_")}
    assert documented == set(found)


def test_the_labels_of_the_page_are_those_of_the_scrape(full: Api) -> None:
    told = series(full)
    rows = re.findall(r"^\| (`rota_[^|]*) \| (\w+) \| ([^|]*)\|", page("watch.md"), re.MULTILINE)
    assert rows
    for names, kind, labels in rows:
        for name in METRIC.findall(names):
            sample = f"{name}_bucket" if kind == "histogram" else name
            assert told[sample] - {"le"} == set(re.findall(r"`(\w+)`", labels)), name


def test_values_are_those_of_what_happened(full: Api) -> None:
    text = full.call("GET", "/api/v1/metrics").text
    assert 'rota_runs_total{job="hello",reason="",status="COMPLETED"} 1.0' in text
    assert 'rota_runs_total{job="other",reason="exit_code",status="FAILED"} 1.0' in text
    assert 'rota_cost_dollars_total{agent="",model="haiku"} 0.03' in text
    assert 'rota_provider_held{problem="quota",provider="acme"} 1.0' in text
    assert 'rota_deliveries{status="PENDING",target="ops"} 1.0' in text
    assert 'rota_delivery_target_disabled{target="ops"} 0.0' in text
    assert 'rota_run_seconds_bucket{le="+Inf"} 2.0' in text
    assert "# TYPE rota_runs_total counter" in text


def test_a_series_is_written_once(full: Api) -> None:
    text = full.call("GET", "/api/v1/metrics").text
    keys = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(keys) == len(set(keys))
    types = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))


def test_the_limit_of_jobs_is_a_parameter(full: Api) -> None:
    text = full.call("GET", "/api/v1/metrics?jobs=0").text
    assert set(re.findall(r'job="([^"]*)"', text)) == {"other"}
    for wrong in ("-1", "1001", "many", ""):
        assert full.refused("GET", f"/api/v1/metrics?jobs={wrong}")[0] == 422
    assert full.refused("GET", "/api/v1/metrics?job=1")[0] == 422


def expressions() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each query of the rules and of the board."""
    rules = YAML(typ="safe").load((FOLDER / "rules.yaml").read_text("utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in board()["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    yield from (("page", text) for text in re.findall(r"^sum.*$", page("watch.md"), re.MULTILINE))


def board() -> Any:
    return json.loads((FOLDER / "dashboard.json").read_text("utf-8"))


def test_every_query_uses_names_and_labels_of_a_scrape(full: Api) -> None:
    told = series(full)
    queries = list(expressions())
    assert len(queries) > 30
    for name, query in queries:
        used = SELECTOR.findall(query)
        assert used, name
        labels: set[str] = set(ADDED_LABELS)
        for metric, matchers in used:
            assert metric in told, (name, metric)
            labels |= told[metric]
            for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers):
                assert label in told[metric], (name, label)
        for _, names in GROUPING.findall(query):
            assert set(re.findall(r"\w+", names)) <= labels, name


def test_counters_of_several_schedulers_are_taken_once() -> None:
    for name, query in expressions():
        for match in re.finditer(r"rota_\w+(?:_total|_bucket)\b", query):
            before = query[: match.start()]
            assert re.search(r"max without \(instance\) \((?:rate|increase)\($", before), (name, query)


def test_texts_of_alerts_name_labels_that_their_query_keeps() -> None:
    rules = YAML(typ="safe").load((FOLDER / "rules.yaml").read_text("utf-8"))["groups"][0]["rules"]
    for rule in rules:
        kept = {label for _, names in GROUPING.findall(rule["expr"]) for label in re.findall(r"\w+", names)}
        texts = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", texts)) <= kept, rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
    assert {rule["alert"] for rule in rules} == {word for word in first_cells(page("watch.md")) if word[:4] == "Rota"}


def test_the_board_can_be_imported() -> None:
    found = board()
    assert {"title", "uid", "schemaVersion", "panels", "templating"} <= set(found)
    ids = [panel["id"] for panel in found["panels"]]
    assert len(ids) == len(set(ids))
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in found["panels"]]
    assert len(places) == len(set(places))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in found["panels"])
    for panel in found["panels"]:
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


def test_the_scrape_configuration_reads_the_route_with_a_token(api: Api) -> None:
    config = YAML(typ="safe").load((FOLDER / "prometheus.yml").read_text("utf-8"))
    (one,) = config["scrape_configs"]
    assert one["honor_labels"] is True
    assert api.call("GET", one["metrics_path"]).status_code == 200
    assert config["rule_files"] == ["rules.yaml"]
