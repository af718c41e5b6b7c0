"""Params with kinds at every door: one check, one refusal, and a form with a control for each kind."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.model.errors import InvalidParams
from rota.model.ids import begin_again
from rota.operations.admin.access import Scope
from rota.operations.run_actions import trigger
from rota.operations.runs import history
from tests.api.conftest import Api, opened
from tests.faces.conftest import Project
from tests.pages.conftest import Site

FILE = """
jobs:
  report:
    command: [echo, "{{ params.region }}"]
    overlap: allow
    params:
      region: {one_of: [eu, us], default: eu, description: where the data is}
      n: {type: int, min: 1, max: 10}
      mail: {type: bool, default: false}
      tag: {type: text, default: "1.0"}
      day: monday
  plain: {command: [echo], overlap: allow}
groups:
  all: {members: [plain]}
"""
PATH = "/ui/jobs/report/run"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    begin_again(os.urandom)
    folder = tmp_path / "home"
    folder.mkdir()
    with opened(Project(folder).applied(FILE)) as made:
        yield made


def params_of(site: Site) -> list[dict[str, Any]]:
    return [dict(run.params) for run in history(site.store, limit=9)]


def test_the_command_reads_values_by_kind_and_refuses_others(site: Site) -> None:
    site.project.ok("trigger", "report", "--param", "n=3", "--param", "tag=1.10", "--param", "mail=true")
    assert params_of(site) == [{"region": "eu", "n": 3, "mail": True, "tag": "1.10", "day": "monday"}]
    refused = site.project.rota("run", "report", "--detach", "--param", "n=11")
    assert refused.exit_code == 2
    assert "job 'report', param 'n': 11 is out of range" in refused.stderr
    missing = site.project.rota("run", "report", "--dry-run")
    assert "param 'n': needs a value" in missing.stderr
    assert "no param 'm'" in site.project.rota("trigger", "report", "--param", "m=1").stderr
    assert len(params_of(site)) == 1


def test_a_queued_run_and_a_retry_keep_to_the_kinds(site: Site) -> None:
    site.project.ok("trigger", "report", "--param", "n=3")
    assert "out of range" in site.project.rota("edit", "report:1", "--param", "n=0").stderr
    site.project.ok("edit", "report:1", "--param", "n=4")
    assert params_of(site)[0]["n"] == 4
    site.project.ok("cancel", "report:1", "--yes")
    assert "is not one of eu, us" in site.project.rota("retry", "report:1", "--param", "region=asia").stderr
    site.project.rota("retry", "report:1", "--param", "region=us")
    assert (params_of(site)[0]["region"], params_of(site)[0]["n"]) == ("us", 4)


@pytest.mark.parametrize(
    ("params", "paths"),
    [
        ({"n": 0, "region": "x"}, ["params.n", "params.region"]),
        ({"n": "3"}, ["params.n"]),
        ({}, ["params.n"]),
        ({"n": 3, "mail": 1}, ["params.mail"]),
    ],
)
def test_the_api_names_each_param_that_it_refuses(api: Api, params: dict[str, Any], paths: list[str]) -> None:
    refused = api.call("POST", "/api/v1/jobs/report/trigger", {"params": params})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_params")
    assert [problem["path"] for problem in refused.json()["problems"]] == paths
    assert api.get("/runs")["items"] == []


def test_the_api_and_the_command_show_the_schema_of_the_params(api: Api) -> None:
    schema = api.get("/jobs/report")["params_schema"]
    assert schema == api.cli("show", "report")["params_schema"]
    assert schema["required"] == ["n"]
    assert schema["properties"]["region"] == {
        "enum": ["eu", "us"],
        "description": "where the data is",
        "default": "eu",
    }


def test_the_tools_of_agents_show_the_schema_and_refuse_other_values(api: Api) -> None:
    def call(tool: str, **arguments: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        accept = "application/json, text/event-stream"
        return api.call("POST", "/mcp", message, scope=Scope.AGENT, Accept=accept).json()["result"]

    listed = call("list_jobs")["structuredContent"]["jobs"]
    schema = next(job["params"] for job in listed if job["name"] == "report")
    assert schema["properties"]["n"] == {"type": "integer", "minimum": 1, "maximum": 10}
    refused = call("trigger_job", name="report", params={"n": 99})
    assert refused["isError"] is True
    assert "a whole number from 1 to 10" in refused["content"][0]["text"]
    assert call("trigger_job", name="report", params={"n": 9}).get("isError", False) is False


def test_operations_and_groups_of_the_api_refuse_other_values(api: Api) -> None:
    with pytest.raises(InvalidParams):
        trigger(api.store, "report", params={"n": 2.5}, now=api.project.clock.now())
    members = [{"job": "report", "params": {"n": 77}}, {"job": "plain"}]
    refused = api.call("POST", "/api/v1/groups", {"name": "g", "members": members})
    assert refused.json()["code"] == "invalid_params"


def test_run_now_opens_a_form_with_a_control_for_each_kind(site: Site) -> None:
    assert PATH in site.get("/ui/jobs/report").links
    assert "/ui/jobs/plain/run" in site.get("/ui/jobs/plain").actions
    page = site.get(PATH)
    assert [one["name"] for one in page.all("select") if one["name"].startswith("param.")] == ["param.region"]
    [number] = page.all("input", type="number")
    assert (number["name"], number["min"], number["max"], number["step"]) == ("param.n", "1", "10", "1")
    assert [one["name"] for one in page.all("input", type="checkbox")] == ["param.mail", "force"]
    assert page.all("input", name="param.tag")[0]["value"] == "1.0"
    assert "where the data is" in page.words


def test_the_form_starts_the_job_with_what_was_chosen(site: Site) -> None:
    form = {"param.region": "us", "param.n": "7", "param.mail": "true", "param.tag": "2.0", "param.day": "3"}
    page = site.post(PATH, **form)
    assert "report:1 is in the queue" in page.words
    assert params_of(site) == [{"region": "us", "n": 7, "mail": True, "tag": "2.0", "day": 3}]


def test_a_refused_form_keeps_what_was_typed_and_says_why_beside_the_field(site: Site) -> None:
    page = site.post(PATH, **{"param.region": "us", "param.n": "70", "param.tag": "<b>", "force": "yes"})
    assert page.status == 422
    assert params_of(site) == []
    assert "1 param cannot be used" in page.words
    [number] = page.all("input", type="number")
    assert (number["value"], number["aria-invalid"]) == ("70", "true")
    assert "70 is out of range" in page.words
    assert page.all("option", value="us")[0].keys() == {"value", "selected"}
    assert page.all("input", name="param.tag")[0]["value"] == "<b>"
    assert "checked" in page.all("input", name="force")[0]


def test_a_needed_param_that_is_left_out_is_asked_for(site: Site) -> None:
    page = site.post(PATH, **{"param.n": ""})
    assert (page.status, params_of(site)) == (422, [])
    assert "needs a value" in page.words
    assert "needs a value" in site.post(PATH).words, "the button of a list sends no fields"


def test_a_reader_sees_no_form(site: Site) -> None:
    site.get(PATH, status=403, scope=Scope.READ)
    assert PATH not in site.get("/ui/jobs/report", scope=Scope.READ).links
