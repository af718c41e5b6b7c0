"""Jobs over HTTP."""

from datetime import timedelta
from functools import partial

import pytest

from rota.operations.jobs import find_job
from tests.api.conftest import COMPLETED, Api

NEW = {"command": ["echo", "new"], "interval": "1h", "labels": ["made"]}


def test_jobs_are_listed_as_the_command_line_lists_them(api: Api) -> None:
    assert api.get("/jobs") == {"items": api.cli("list"), "next": None}
    assert [job["name"] for job in api.get("/jobs?label=greeting")["items"]] == ["hello"]


def test_a_job_is_shown_as_the_command_line_shows_it(api: Api) -> None:
    assert api.get("/jobs/hello") == api.cli("show", "hello")


def test_an_unknown_job_is_told_with_the_nearest_name(api: Api) -> None:
    found = api.call("GET", "/api/v1/jobs/helo")
    assert (found.status_code, found.json()["code"]) == (404, "unknown_job")
    assert "did you mean 'hello'?" in found.json()["hint"]


def test_a_job_is_made_changed_disabled_and_deleted(api: Api) -> None:
    made = api.post("/jobs", {"name": "new", **NEW}, status=201)
    assert (made["name"], made["source"], made["schedule"]) == ("new", "api", "every 1 h after it finishes")
    changed = api.call("PUT", "/api/v1/jobs/new", {**NEW, "interval": "2h"})
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    assert api.call("PUT", "/api/v1/jobs/newer", NEW).status_code == 201
    assert api.post("/jobs/new/disable")["state"] == "disabled"
    assert api.refused("POST", "/api/v1/jobs/new/trigger") == (409, "job_disabled")
    assert api.post("/jobs/new/enable")["state"] == "idle"
    assert api.call("DELETE", "/api/v1/jobs/new").json()["state"] == "retired"
    assert [job["name"] for job in api.get("/jobs")["items"]] == ["both", "hello", "newer", "other"]


def test_r_14_a_job_that_was_deleted_and_is_made_again_is_a_new_one(api: Api) -> None:
    """New identifier, no old pause, `first_run` applies; the history stays with the old one."""
    api.post("/jobs", {"name": "new", **NEW}, status=201)
    api.post("/jobs/new/trigger", {}, status=202)
    api.project.carry_out([COMPLETED])
    old = api.store.read(partial(find_job, name="new"))
    api.post("/jobs/new/pause", {"reason": "broken"})
    api.call("DELETE", "/api/v1/jobs/new")
    api.project.clock.advance(timedelta(hours=3))
    made = api.post("/jobs", {"name": "new", **NEW}, status=201)
    assert api.store.read(partial(find_job, name="new")).id != old.id
    assert (made["version"], made["state"], made["last"], made["paused"]) == (1, "idle", [], None)
    assert made["next"][0]["at"] == made["created_at"]
    kept = f"new~{old.id[-8:]}"
    assert [run["run"] for run in api.get(f"/runs?job={kept}")["items"]][-1] == f"{kept}:1"
    assert api.get("/runs?job=new")["items"] == []
    assert [job["name"] for job in api.get("/jobs")["items"]].count("new") == 1


def test_a_job_that_is_there_already_is_not_made_again(api: Api) -> None:
    api.post("/jobs", {"name": "new", **NEW}, status=201)
    assert api.refused("POST", "/api/v1/jobs", {"name": "new", **NEW}) == (422, "invalid_value")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/api/v1/jobs/hello", None),
        ("DELETE", "/api/v1/jobs/hello?dry_run=true", None),
        ("POST", "/api/v1/jobs/hello/enable", None),
        ("POST", "/api/v1/jobs/hello/disable", None),
    ],
)
def test_a_job_of_the_file_is_changed_in_that_file(api: Api, method: str, path: str, body: object) -> None:
    before = api.get("/jobs/hello")
    refused = api.call(method, path, body)
    told = refused.json()
    file = f"{api.project.folder}/rota.yaml"
    assert (refused.status_code, told["code"]) == (409, "job_in_file")
    assert told["detail"] == f"job 'hello' is declared in {file}:6"
    assert [(one["file"], one["line"], one["path"]) for one in told["problems"]] == [(file, 6, "jobs.hello")]
    assert api.get("/jobs/hello") == before


def test_a_job_of_the_file_is_not_made_over_http(api: Api) -> None:
    before = api.get("/jobs/hello")
    assert api.refused("PUT", "/api/v1/jobs/hello", NEW) == (409, "name_taken")
    assert api.get("/jobs/hello") == before


def test_a_job_that_its_file_no_longer_has_is_refused_with_the_file_alone(api: Api) -> None:
    (api.project.folder / "rota.yaml").write_text("jobs: {x: {command: [echo, x]}}")
    told = api.call("DELETE", "/api/v1/jobs/hello").json()
    assert told["detail"] == f"job 'hello' is declared in {api.project.folder}/rota.yaml"


def test_a_made_job_keeps_out_of_the_way_of_the_file(api: Api) -> None:
    api.post("/jobs", {"name": "new", **NEW}, status=201)
    api.project.ok("apply")
    assert api.get("/jobs/new")["state"] == "idle"


def test_a_made_job_may_use_what_the_file_declares(api: Api) -> None:
    made = api.post("/jobs", {"name": "new", **NEW, "pools": ["gpu"], "budget": "day"}, status=201)
    assert made["pools"] == {"gpu": 1}


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"name": "x", "command": ["a"], "priorty": 1}, "jobs.x.priorty", "unknown_key"),
        ({"name": "x", "command": ["a"], "pools": ["nope"]}, "jobs.x.pools[0]", "pool_missing"),
        ({"name": "x", "command": ["a"], "cron": "60 * * * *"}, "jobs.x.cron", "cron_range"),
        ({"name": "x"}, "jobs.x", "no_work_given"),
        ({"name": "x", "run": "os:system"}, "jobs.x.run", "function_missing"),
        ({"name": "x", "command": ["a"], "conditions": ["mine"]}, "jobs.x.conditions[0]", "condition_missing"),
        ({"name": "../x", "command": ["a"]}, "jobs.../x", "job_name"),
    ],
)
def test_a_wrong_job_is_told_as_in_a_file(api: Api, body: object, path: str, code: str) -> None:
    found = api.call("POST", "/api/v1/jobs", body)
    assert (found.status_code, found.json()["code"]) == (422, "job_problems")
    assert [(one["code"], one["path"]) for one in found.json()["problems"]] == [(code, path)]


def test_nothing_is_imported_because_a_request_says_so(api: Api) -> None:
    """Airflow CVE-2026-33264: a function is a name of the file's own imports."""
    (api.project.folder / "trap.py").write_text("raise SystemExit('imported')\n")
    for keys in ({"run": "trap:main"}, {"run": "trap:main", "python": "python3"}):
        assert api.call("PUT", "/api/v1/jobs/x", keys).status_code == 422


def test_a_job_is_started_and_counts_as_started_by_the_token(api: Api) -> None:
    found = api.call("POST", "/api/v1/jobs/hello/trigger", {"params": {"who": "you"}})
    assert found.status_code == 202
    run = found.json()
    assert (run["run"], run["status"]) == ("hello:1", "QUEUED")
    assert found.headers["location"] == f"/api/v1/runs/{run['id']}"
    whole = api.get("/runs/hello:1")
    assert whole["params"] == {"who": "you"}
    assert "token:owner" in str(whole["decisions"]["by"])


def test_a_start_that_would_overlap_is_refused_with_the_text_of_the_command_line(api: Api) -> None:
    api.post("/jobs/other/trigger", status=202)
    found = api.call("POST", "/api/v1/jobs/other/trigger").json()
    told = api.project.rota("trigger", "other", "--json")
    assert (found["code"], found["status"]) == ("overlap", 409)
    assert found["detail"] in told.stderr
    assert api.post("/jobs/other/trigger", {"force": True}, status=202)["run"] == "other:2"


def test_an_unknown_field_of_a_wish_is_refused(api: Api) -> None:
    found = api.call("POST", "/api/v1/jobs/hello/trigger", {"forced": True})
    assert (found.status_code, found.json()["code"]) == (422, "request_invalid")
    assert found.json()["problems"][0]["path"] == "body.forced"
    assert api.get("/runs")["items"] == []


def test_many_runs_are_made_at_once_or_none(api: Api) -> None:
    told = api.post("/jobs/hello/runs", {"params": [{"who": "a"}, {"who": "b"}]}, status=202)
    assert (told["count"], told["first"], told["last"]) == (2, "hello:1", "hello:2")
    refused = api.refused("POST", "/api/v1/jobs/hello/runs", {"params": [{"who": "a"}, {"whom": "b"}]})
    assert refused == (422, "invalid_value")
    assert len(api.get("/runs")["items"]) == 2


def test_a_dry_run_changes_nothing(api: Api) -> None:
    assert api.post("/jobs/hello/trigger", {"dry_run": True})["run"] == "hello:1"
    assert api.call("POST", "/api/v1/jobs?dry_run=true", {"name": "new", **NEW}).json()["dry_run"] is True
    api.post("/jobs/hello/pause", {"dry_run": True})
    assert api.get("/runs")["items"] == []
    assert [job["name"] for job in api.get("/jobs")["items"]] == ["both", "hello", "other"]
    assert api.get("/jobs/hello")["paused"] is None
    assert [one["action"] for one in api.get("/audit")["items"]] == ["apply"]


def test_a_job_is_paused_for_a_time_and_resumed(api: Api) -> None:
    told = api.post("/jobs/hello/pause", {"seconds": 3600, "reason": "lunch"})
    assert (told["jobs"], told["until"]) == (["hello"], "2026-11-15T13:00:00Z")
    assert api.get("/jobs/hello")["paused"]["reason"] == "lunch"
    assert api.post("/jobs/hello/resume")["jobs"][0]["job"] == "hello"
    assert api.get("/jobs/hello")["paused"] is None


@pytest.mark.parametrize(
    "wish",
    [{"until": "yesterday"}, {"until": "2020-01-01T00:00:00Z"}, {"until": "13:00", "seconds": 5}, {"seconds": 0}],
)
def test_a_pause_that_cannot_be_is_refused(api: Api, wish: object) -> None:
    assert api.refused("POST", "/api/v1/jobs/hello/pause", wish)[0] == 422


def test_the_coming_fires_of_a_job(api: Api) -> None:
    told = api.get("/jobs/hello/preview?n=2")
    assert [fire["at"] for fire in told["fires"]] == ["2026-11-16T03:00:00Z", "2026-11-17T03:00:00Z"]
    assert api.refused("GET", "/api/v1/jobs/hello/preview?n=0") == (422, "request_invalid")


def test_a_job_is_explained_as_the_command_line_explains_it(api: Api) -> None:
    api.post("/jobs/hello/trigger", status=202)
    api.project.carry_out([COMPLETED])
    assert api.get("/jobs/hello/explain") == api.cli("explain", "hello")
    assert api.get("/runs/hello:1/explain") == api.cli("explain", "hello:1")


def test_a_past_range_is_filled(api: Api) -> None:
    api.project.clock.advance(timedelta(days=3))
    wish = {"since": "2026-11-16", "until": "2026-11-18T12:00:00Z", "dry_run": True}
    told = api.post("/jobs/hello/backfill", wish, status=202)
    assert (told["count"], told["dry_run"]) == (3, True)
    assert api.post("/jobs/hello/backfill", {**wish, "dry_run": False}, status=202)["count"] == 3
    assert {run["trigger"] for run in api.get("/runs")["items"]} == {"backfill"}


def test_a_job_with_a_slash_is_written_with_a_tilde(api: Api) -> None:
    found = api.call("GET", "/api/v1/jobs/api~triage")
    assert (found.status_code, found.json()["detail"]) == (404, "no job is named 'api/triage'")
