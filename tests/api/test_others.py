"""The queue, groups, budgets, workers, the scheduler itself, health, metrics, login, older paths."""

import re
from datetime import timedelta
from functools import partial

import pytest

from rota.model.agents import SubscriptionWindow
from rota.operations.admin.access import Scope
from rota.store.tables import notifications
from tests.api.conftest import BASE, Api
from tests.faces.test_subscriptions import FILE as KEPT
from tests.faces.test_subscriptions import report


def test_the_queue_is_told_as_by_the_command_line(api: Api) -> None:
    api.post("/jobs/hello/trigger", status=202)
    assert api.get("/queue") == api.cli("queue")
    assert api.refused("GET", "/api/v1/queue?limit=0")[0] == 422


def test_a_group_is_made_shown_cancelled_and_repeated(api: Api) -> None:
    made = api.post("/groups", {"name": "two", "members": [{"job": "hello"}, {"job": "other"}]}, status=202)
    assert (made["group"], made["status"], len(made["members"])) == ("two:1", "RUNNING", 2)
    assert api.get("/groups/two") == api.cli("groups", "show", "two")
    assert api.get("/groups")["items"] == api.cli("groups")
    assert api.post("/groups/two:1/cancel")["status"] == "CANCELLED"
    assert api.refused("POST", "/api/v1/groups/two:1/cancel") == (409, "group_final")
    assert api.post("/groups/two:1/retry", status=202)["group"]["group"] == "two:2"


@pytest.mark.parametrize(
    "wish",
    [{"name": "x", "members": []}, {"name": "x"}, {"name": "hello", "members": [{"job": "other"}]}, {"members": "x"}],
)
def test_a_group_that_cannot_be_is_refused(api: Api, wish: object) -> None:
    assert api.refused("POST", "/api/v1/groups", wish)[0] in (409, 422)
    assert [line["name"] for line in api.get("/groups")["items"]] == ["both"]


def test_budgets_and_usage_are_told_as_by_the_command_line(api: Api) -> None:
    assert api.get("/budgets")["items"] == api.cli("budgets")["budgets"]
    assert api.get("/budgets/day") == api.cli("budgets", "day")
    assert api.get("/usage")["total"] == api.cli("usage")["total"]
    assert api.refused("GET", "/api/v1/budgets/nope") == (404, "unknown_account")
    assert api.get("/usage?by=day")["by"] == "day"


def test_how_the_project_is_is_told_as_by_the_command_line(api: Api) -> None:
    assert api.get("/scheduler/status") == api.cli("status")
    assert api.get("/scheduler/status")["state"] == "dead"


def test_the_summary_is_answered_with_304_while_nothing_changes(api: Api) -> None:
    found = api.call("GET", "/api/v1/scheduler/poll")
    assert found.json() == api.cli("status", "--poll")
    tag = found.headers["etag"]
    again = api.call("GET", "/api/v1/scheduler/poll", If_None_Match=f'"x", {tag}')
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert int(again.headers["x-suggested-poll-seconds"]) > 0
    api.post("/jobs/hello/trigger", status=202)
    assert api.call("GET", "/api/v1/scheduler/poll", If_None_Match=tag).status_code == 200


def test_a_scheduler_elsewhere_is_registered_while_it_says_so(api: Api) -> None:
    poll = "/scheduler/poll?worker_id=octopoid"
    assert api.get(poll)["orchestrator_registered"] is False
    found = api.call("PUT", "/api/v1/workers/octopoid", {"lost_after_seconds": 60}).json()
    assert (found["name"], found["registered"]) == ("octopoid", True)
    assert api.get(poll)["orchestrator_registered"] is True
    assert api.get(f"/scheduler/poll?worker_id={found['id']}")["orchestrator_registered"] is True
    api.project.clock.advance(timedelta(seconds=60))
    assert api.get(poll)["orchestrator_registered"] is False
    assert api.call("PUT", "/api/v1/workers/octopoid").json()["id"] == found["id"]
    assert [one["name"] for one in api.get("/workers")["items"] if one["remote"]] == ["octopoid"]
    assert api.call("DELETE", "/api/v1/workers/octopoid").status_code == 200
    assert api.refused("DELETE", "/api/v1/workers/octopoid") == (404, "unknown_worker")


def test_everything_is_held_back_and_let_go(api: Api) -> None:
    told = api.post("/scheduler/stop", status=202)
    assert (told["mode"], told["everything"], told["reason"]) == ("hold", True, "stopped through the API")
    assert api.get("/scheduler/status")["paused"]["reason"] == "stopped through the API"
    assert api.post("/scheduler/start")["everything_was_paused"] is True
    assert api.get("/scheduler/status")["paused"] is None


def test_a_stop_of_the_process_needs_one(api: Api) -> None:
    assert api.refused("POST", "/api/v1/scheduler/stop", {"mode": "now"}) == (503, "no_scheduler")


def test_a_direct_call_needs_a_scheduler(api: Api) -> None:
    assert api.refused("POST", "/api/v1/direct", {"job": "hello"}) == (503, "no_scheduler")
    assert api.get("/direct") == {"waiting": [], "running": []}


def test_agents_approvals_targets_and_deliveries_are_listed(api: Api) -> None:
    assert api.get("/agents") == api.cli("agents")
    assert api.get("/approvals") == {"items": api.cli("approve"), "next": None}
    assert api.get("/deliveries") == {"items": api.cli("deliveries"), "next": None}
    assert api.get("/notify")["items"] == []
    assert api.refused("POST", "/api/v1/jobs/hello/approve", {"digest": "x"}) == (409, "not_provisional")
    assert api.refused("POST", "/api/v1/deliveries/retry", {}) == (422, "invalid_value")
    assert api.post("/deliveries/retry", {"failed": True}, status=202)["retried"] == []


def test_health_tells_nothing_but_whether_the_loop_answers(api: Api) -> None:
    found = api.bare.get("/healthz")
    assert (found.status_code, found.json()) == (503, {"status": "stalled"})


def test_metrics_count_what_there_is(api: Api) -> None:
    api.post("/jobs/hello/trigger", status=202)
    found = api.call("GET", "/api/v1/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'rota_runs{status="QUEUED"} 1.0' in found.text
    assert 'rota_budget_limit{account="day",unit="runs"} 100.0' in found.text


def test_metrics_tell_money_in_dollars(api: Api) -> None:
    api.project.applied(
        "budgets: {money: {usd: 2.50, per: day, estimate: 0.50}}\njobs:\n  paid: {command: [x], budget: money}\n"
    )
    found = api.call("GET", "/api/v1/metrics")
    assert 'rota_budget_limit{account="money",unit="usd"} 2.5' in found.text


# logging a browser in


def test_a_browser_is_logged_in_once_by_a_code(api: Api) -> None:
    code = api.context.codes.make(at=api.project.clock.monotonic())
    found = api.bare.get(f"/login?code={code}", follow_redirects=False)
    cookie = found.headers["set-cookie"]
    assert (found.status_code, found.headers["location"]) == (303, "/")
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/"))
    assert api.token not in cookie
    assert "owner, admin" in api.bare.get("/").text
    assert api.bare.get("/api/v1/jobs").status_code == 200
    assert api.bare.get(f"/login?code={code}").status_code == 401


def test_a_browser_changes_nothing_without_its_own_origin(api: Api) -> None:
    code = api.context.codes.make(at=api.project.clock.monotonic())
    api.bare.get(f"/login?code={code}")
    assert api.bare.post("/api/v1/jobs/hello/trigger").status_code == 403
    assert api.bare.post("/api/v1/jobs/hello/trigger", headers={"Origin": "http://evil.test"}).status_code == 403
    assert api.bare.post("/api/v1/jobs/hello/trigger", headers={"Origin": BASE}).status_code == 202
    assert api.get("/audit")["items"][0]["actor"] == "browser:owner"
    api.bare.post("/api/v1/logout", headers={"Origin": BASE})
    assert api.bare.get("/api/v1/jobs").status_code == 401


def test_a_browser_is_logged_in_by_the_token_on_our_own_page_alone(api: Api) -> None:
    assert "<form" in api.bare.get("/login").text
    form = {"token": api.token}
    assert api.bare.post("/login", data=form).status_code == 403
    assert api.bare.post("/login", data=form, headers={"Origin": "http://evil.test"}).status_code == 403
    assert api.bare.post("/login", data={"token": "wrong"}, headers={"Origin": BASE}).status_code == 401
    weak = {"token": api.token_of(Scope.AGENT)}
    assert api.bare.post("/login", data=weak, headers={"Origin": BASE}).status_code == 403
    assert api.bare.post("/login", data=form, headers={"Origin": BASE}, follow_redirects=False).status_code == 303


def test_the_login_page_has_no_script_and_no_style_of_its_own(api: Api) -> None:
    """T-05: the policy allows neither, and nothing is echoed."""
    text = api.bare.get("/login?code=<script>alert(1)</script>").text
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=", text)


# older paths (CON-004)


@pytest.mark.parametrize(
    ("method", "path", "instead"),
    [
        ("GET", "/jobs", "/api/v1/jobs"),
        ("GET", "/jobs/hello", "/api/v1/jobs/hello"),
        ("GET", "/jobs/hello/runs", "/api/v1/jobs/hello/runs"),
        ("POST", "/jobs/hello/trigger", "/api/v1/jobs/hello/trigger"),
        ("POST", "/jobs/hello/pause", "/api/v1/jobs/hello/pause"),
        ("POST", "/jobs/hello/resume", "/api/v1/jobs/hello/resume"),
    ],
)
def test_an_older_path_answers_and_names_the_new_one(api: Api, method: str, path: str, instead: str) -> None:
    """CON-004."""
    found = api.call(method, path)
    assert found.status_code in (200, 202)
    assert found.headers["deprecation"].startswith("@")
    assert found.headers["link"] == f'<{instead}>; rel="successor-version"'


def test_an_older_path_refuses_as_the_new_one_does(api: Api) -> None:
    """CON-004."""
    for method, old, new in (("GET", "/jobs/nope", "/api/v1/jobs/nope"), ("POST", "/jobs/a", "/api/v1/jobs/a")):
        assert api.refused(method, old) == api.refused(method, new)
    assert api.bare.get("/jobs").status_code == 401


def test_the_older_path_of_a_retry_answers_as_the_new_one(api: Api) -> None:
    """CON-004, DEC-007."""
    run = api.post("/jobs/hello/trigger", status=202)
    api.post("/runs/hello:1/cancel")
    found = api.call("POST", f"/api/job-runs/{run['id']}/retry")
    assert (found.status_code, found.json()["retried"]) == (202, "hello:1")
    assert found.headers["link"].startswith(f"</api/v1/runs/{run['id']}/retry>")


HOOKED = """
notify: {ops: {webhook: "https://hooks.example.net/a", on: [cancelled]}}
jobs: {backup: {command: 'true', notify: ops}}
"""


def test_a_target_that_was_switched_off_is_told_again(api: Api) -> None:
    api.project.applied(HOOKED)
    endpoint = "webhook https://hooks.example.net/a"
    api.store.write(partial(notifications.endpoint_gone, name=endpoint, error="410 Gone", now=api.project.clock.now()))
    assert api.get("/notify")["items"][0]["error"] == "410 Gone"
    told = {"target": "ops", "changed": True, "dry_run": True}
    assert api.post("/notify/ops/enable", {"dry_run": True}) == told == api.cli("notify", "enable", "ops", "--dry-run")
    assert api.post("/notify/ops/enable") == {**told, "dry_run": False}
    assert api.get("/notify")["items"][0]["disabled_at"] is None
    assert api.post("/notify/ops/enable")["changed"] is False
    assert api.get("/audit")["items"][0]["target"] == "ops"
    assert api.refused("POST", "/api/v1/notify/opps/enable") == (404, "unknown_target")


def test_a_run_shows_what_was_told_of_it(api: Api) -> None:
    api.project.applied(HOOKED)
    api.post("/jobs/backup/trigger", status=202)
    api.post("/runs/backup:1/cancel")
    shown = api.get("/runs/backup:1")
    assert [(one["target"], one["event"], one["status"]) for one in shown["deliveries"]] == [
        ("ops", "cancelled", "PENDING")
    ]
    assert api.cli("show", "backup:1")["deliveries"] == shown["deliveries"] == api.get("/deliveries")["items"]
    assert "\n  told         ops of cancelled: PENDING\n" in api.project.ok("show", "backup:1")


def test_the_api_tells_what_the_command_tells(api: Api) -> None:
    api.project.applied(KEPT)
    report(api.project, SubscriptionWindow("five_hour", 0.5))
    [one] = api.get("/agents")["subscriptions"]
    assert (one["provider"], one["windows"][0]["used"]) == ("anthropic", 0.5)
