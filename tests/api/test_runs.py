"""Runs over HTTP: pages, changes, output."""

import json
from datetime import timedelta

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.admin.access import Scope
from tests.api.conftest import COMPLETED, Api

FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3")


@pytest.fixture
def ten(api: Api) -> Api:
    """Ten runs, a second apart, of which the first five have ended."""
    for number in range(10):
        api.post("/jobs/hello/trigger", {"params": {"who": str(number)}}, status=202)
        api.project.clock.advance(timedelta(seconds=1))
        if number == 4:
            api.project.carry_out([COMPLETED, FAILED, COMPLETED, COMPLETED, COMPLETED], output="line\n" * 3)
    return api


def names(page: dict[str, list[dict[str, str]]]) -> list[str]:
    return [run["run"] for run in page["items"]]


def test_runs_are_listed_as_the_command_line_lists_them(ten: Api) -> None:
    assert ten.get("/runs")["items"] == ten.cli("history")
    assert names(ten.get("/runs?status=failed")) == ["hello:2"]
    assert names(ten.get("/runs?status=succeeded&status=failed&limit=2")) == ["hello:5", "hello:4"]
    assert names(ten.get("/runs?job=other")) == []
    assert len(ten.get("/runs?label=greeting&since=1h")["items"]) == 10


@pytest.mark.parametrize("path", ["/runs?limit=3", "/runs?job=hello&limit=3", "/jobs/hello/runs?limit=3"])
def test_pages_follow_each_other_without_gaps_or_repeats(ten: Api, path: str) -> None:
    page = ten.get(path)
    told = names(page)
    while page["next"]:
        ten.post("/jobs/hello/trigger", status=202)  # what is made meanwhile moves nothing
        page = ten.get(f"{path}&cursor={page['next']}")
        told += names(page)
    assert told == [f"hello:{number}" for number in range(10, 0, -1)]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=1000000000",
        "limit=x",
        "cursor=garbage",
        "cursor=%FF",
        "status[$ne]=x",
        "order_by=id",
    ],
)
def test_a_wrong_page_is_refused(ten: Api, query: str) -> None:
    """#41, #42: what is no filter is no filter."""
    assert ten.refused("GET", f"/api/v1/runs?{query}")[0] == 422


def test_a_cursor_goes_on_while_a_relative_since_moves_with_the_time(ten: Api) -> None:
    first = ten.get("/runs?limit=3&since=30d")
    ten.project.clock.advance(timedelta(minutes=1))
    then = ten.get(f"/runs?limit=3&since=30d&cursor={first['next']}")
    assert len({*names(first), *names(then)}) == 6


def test_a_cursor_belongs_to_its_query(ten: Api) -> None:
    cursor = ten.get("/runs?limit=3")["next"]
    assert ten.refused("GET", f"/api/v1/runs?limit=3&job=hello&cursor={cursor}") == (422, "invalid_value")


@pytest.mark.parametrize("query", ["status=nope", "reason=nope", "since=soon", "since=0001-01-01T00:00:00%2B23:00"])
def test_an_unknown_word_in_a_filter_is_told(ten: Api, query: str) -> None:
    assert ten.refused("GET", f"/api/v1/runs?{query}")[0] == 422


def test_a_run_is_shown_as_the_command_line_shows_it(ten: Api) -> None:
    assert ten.get("/runs/hello:2") == ten.cli("show", "hello:2")
    assert ten.get("/runs/hello:-1")["run"] == "hello:9"
    assert ten.get(f"/runs/{ten.get('/runs/hello')['id']}")["run"] == "hello:10"


@pytest.mark.parametrize("run", ["hello:99", "nope:1", "01a1e334-551a-740d-b942-842d05c9ad79"])
def test_an_unknown_run_is_told(ten: Api, run: str) -> None:
    assert ten.refused("GET", f"/api/v1/runs/{run}")[0] == 404


def test_a_queued_run_is_cancelled_once(ten: Api) -> None:
    told = ten.post("/runs/hello:7/cancel")
    assert (told["status"], told["reason"], told["final"]) == ("CANCELLED", "requested", True)
    assert ten.refused("POST", "/api/v1/runs/hello:7/cancel") == (409, "run_final")


def test_runs_are_cancelled_by_filter(ten: Api) -> None:
    assert ten.refused("POST", "/api/v1/runs/cancel", {}) == (422, "invalid_value")
    assert ten.post("/runs/cancel", {"jobs": ["hello"], "queued": True, "dry_run": True})["cancelled"] == 0
    assert ten.post("/runs/cancel", {"jobs": ["hello"], "queued": True})["cancelled"] == 5
    assert ten.post("/runs/cancel", {"all": True})["cancelled"] == 0


def test_a_failed_run_is_run_again(ten: Api) -> None:
    found = ten.call("POST", "/api/v1/runs/hello:2/retry", {"params": {"who": "me"}})
    assert (found.status_code, found.json()["retried"], found.json()["run"]) == (202, "hello:2", "hello:11")
    assert ten.refused("POST", "/api/v1/runs/hello:1/retry") == (409, "run_completed")
    assert ten.post("/runs/hello:1/retry", {"again": True}, status=202)["run"] == "hello:12"
    assert ten.refused("POST", "/api/v1/runs/hello:9/retry") == (409, "run_unfinished")


def test_a_queued_run_is_edited_until_it_is_dispatched(ten: Api) -> None:
    """INV-001."""
    told = ten.call("PATCH", "/api/v1/runs/hello:9", {"params": {"who": "x"}, "priority": 5}).json()
    assert (told["params"], told["priority"], told["place"]) == ({"who": "x"}, 5, 1)
    assert ten.refused("PATCH", "/api/v1/runs/hello:1", {"params": {"who": "x"}}) == (409, "immutable")
    assert ten.refused("PATCH", "/api/v1/runs/hello:9", {"priority": 1e9})[0] == 422
    assert ten.refused("PATCH", "/api/v1/runs/hello:9", {"priority": True})[0] == 422


def test_a_queued_run_is_moved(ten: Api) -> None:
    assert ten.post("/runs/hello:10/move", {"first": True})["runs"][0]["place"] == 1
    assert ten.post("/runs/hello:10/move", {"before": "hello:8"})["runs"][0]["place"] == 3
    assert ten.refused("POST", "/api/v1/runs/hello:10/move", {"first": True, "last": True})[0] == 422
    assert ten.refused("POST", "/api/v1/runs/hello:1/move", {"first": True}) == (409, "not_queued")


def test_the_output_of_a_run_is_text_in_whole_or_in_part(ten: Api) -> None:
    found = ten.call("GET", "/api/v1/runs/hello:1/output")
    assert (found.text, found.headers["content-type"]) == ("line\n" * 3, "text/plain; charset=utf-8")
    assert found.headers["content-disposition"].startswith("attachment;")
    assert ten.call("GET", "/api/v1/runs/hello:1/output?tail=1").text == "line\n"
    part = ten.call("GET", "/api/v1/runs/hello:1/output", Range="bytes=5-8")
    assert (part.status_code, part.text, part.headers["content-range"]) == (206, "line", "bytes 5-8/15")
    assert ten.call("GET", "/api/v1/runs/hello:1/output", Range="bytes=-5").text == "line\n"
    assert ten.call("GET", "/api/v1/runs/hello:1/output?follow=true").text == "line\n" * 3
    assert ten.call("GET", "/api/v1/runs/hello:1/output?follow=true&tail=1").text == "line\n"
    whole = ten.call("GET", "/api/v1/runs/hello:1/output?tail=2", Range="bytes=5-8")
    assert (whole.status_code, whole.text) == (200, "line\n" * 2)


@pytest.mark.parametrize(
    ("given", "status"),
    [("bytes=99-", 416), ("bytes=3-1", 416), ("lines=1-2", 422), ("bytes=", 422), ("bytes=a-b", 422)],
)
def test_a_range_that_is_none_is_refused(ten: Api, given: str, status: int) -> None:
    assert ten.refused("GET", "/api/v1/runs/hello:1/output", Range=given)[0] == status


def test_a_run_without_output_says_why(ten: Api) -> None:
    found = ten.call("GET", "/api/v1/runs/hello:9/output")
    assert (found.status_code, found.text) == (200, "")
    assert found.headers["x-rota-note"] == "hello:9 has not started: it is QUEUED"


@pytest.mark.parametrize(
    "query", ["job=", "status=", "reason=", "label=", "trigger=", "agent=", "text=", "since=", "until=", "cursor="]
)
def test_an_empty_filter_is_refused_by_its_name_and_returns_no_run(ten: Api, query: str) -> None:
    answer = ten.call("GET", f"/api/v1/runs?{query}")
    assert answer.status_code == 422
    assert query.rstrip("=") in answer.text


@pytest.mark.parametrize(
    "path",
    ["/jobs?label=", "/usage?job=", "/deliveries?about=", "/deliveries?target=", "/audit?actor=", "/usage?since="],
)
def test_an_empty_filter_of_another_list_is_refused_too(ten: Api, path: str) -> None:
    assert ten.call("GET", f"/api/v1{path}").status_code == 422


def test_the_transcript_of_an_agent_is_that_of_the_command(api: Api) -> None:
    text = (api.project.folder / "rota.yaml").read_text()
    api.project.applied(text.replace("jobs:\n", "jobs:\n  look: {prompt: x, agent: opencode, model: a/b}\n", 1))
    api.post("/jobs/look/trigger", {}, status=202)
    events = [
        {"type": "step_start", "part": {"messageID": "m1"}},
        {"type": "text", "part": {"text": "I look."}},
        {"type": "step_finish", "part": {"cost": 0.25, "tokens": {"input": 5, "output": 2}}},
    ]
    api.project.carry_out([COMPLETED], output="".join(json.dumps(event) + "\n" for event in events))
    found = api.get("/runs/look:1/transcript")
    assert found == api.cli("logs", "look:1", "--transcript")
    [turn] = found["turns"]
    assert (turn["text"], turn["usd"], turn["tokens_in"], found["usd"]) == ("I look.", 0.25, 5, 0.25)
    api.post("/jobs/hello/trigger", {}, status=202)
    assert api.call("GET", "/api/v1/runs/hello:1/transcript").status_code == 422


def test_a_run_is_forked_from_its_session_by_a_token_that_may_write_prompts(api: Api) -> None:
    api.project.applied("jobs: {review: {prompt: look, agent: claude, overlap: allow}}")
    api.post("/jobs/review/trigger", status=202)
    assert api.refused("POST", "/api/v1/runs/review:1/fork", {"prompt": "more"}) == (409, "run_unfinished")
    api.project.carry_out([Outcome(Status.COMPLETED, exit_code=0, session_id="s-1")])
    assert api.post("/runs/review:1/fork", {"prompt": "more", "dry_run": True}, status=202)["would"] == "queue"
    found = api.call("POST", "/api/v1/runs/review:1/fork", {"prompt": "more"})
    assert (found.status_code, found.json()["forked"], found.json()["trigger"]) == (202, "review:1", "fork")
    assert found.headers["location"].endswith(f"/runs/{found.json()['id']}")
    assert api.refused("POST", "/api/v1/runs/review:1/fork", {"prompt": " "}) == (422, "invalid_value")
    assert api.refused("POST", "/api/v1/runs/review:1/fork", {}) == (422, "request_invalid")
    assert api.call("POST", "/api/v1/runs/review:1/fork", {"prompt": "more"}, scope=Scope.RUN).status_code == 403
