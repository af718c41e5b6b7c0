"""One vocabulary: every command has its path, every error its status, every code its line in the documentation."""

import importlib
import json
import pkgutil

import pytest
from fastapi.routing import APIRoute

import rota.http
from rota.cli.main import COMMANDS
from rota.http import schemas
from rota.http.context import model_of
from rota.http.errors import STATUSES, TITLES, HttpRefusal, status_of
from rota.model import errors as model
from rota.model.errors import RotaError
from rota.operations.budgets import UsageJson
from rota.operations.explain import ExplanationJson
from rota.operations.queue import QueueViewJson
from rota.operations.stats import shapes
from rota.operations.status.summary import SummaryJson
from rota.operations.views import WholeJobJson, WholeRunJson
from tests.api.conftest import COMPLETED, Api
from tests.docs.pages import first_cells, page

PATHS = {
    "next": ["preview_job"],
    "status": ["get_status", "poll_scheduler"],
    "list": ["get_jobs"],
    "show": ["get_job", "get_run", "get_group", "get_run_files", "get_run_file"],
    "history": ["get_runs", "get_job_runs"],
    "logs": ["get_run_output", "get_run_transcript"],
    "explain": ["explain_job", "explain_run"],
    "usage": ["get_usage"],
    "digest": ["get_digest"],
    "stats": [
        "get_overview_stats",
        "get_jobs_stats",
        "get_job_stats",
        "get_cost_stats",
        "get_throughput_stats",
        "get_queue_stats",
    ],
    "diff": ["get_run_diff"],
    "spans": ["get_run_spans", "get_group_spans"],
    "run": ["trigger_job", "get_run_output"],
    "trigger": ["trigger_job", "trigger_job_many"],
    "direct": ["call_directly", "get_direct_calls"],
    "retry": ["retry_one_run"],
    "fork": ["fork_one_run"],
    "cancel": ["cancel_one_run", "cancel_runs"],
    "backfill": ["backfill_job"],
    "pause": ["pause_job", "stop_scheduler"],
    "resume": ["resume_job", "start_scheduler"],
    "queue": ["get_queue"],
    "move": ["move_queued_run"],
    "edit": ["edit_queued_run"],
    "groups": ["get_groups", "create_group", "get_group", "cancel_group", "retry_group"],
    "budgets": ["get_budgets", "get_budget"],
    "stop": ["stop_scheduler"],
    "audit": ["get_audit"],
    "add": ["create_job", "put_job", "enable_job", "disable_job"],
    "remove": ["delete_job"],
    "schema": ["get_openapi"],
    "mcp": ["call_tools"],
    "agents": ["get_agents"],
    "ack": ["get_attention", "acknowledge_needs", "show_needs"],
    "questions": ["get_questions", "get_question"],
    "answer": ["answer_one_question"],
    "grants": ["get_grants", "revoke_one_grant"],
    "approve": ["get_approvals", "approve_job"],
    "notify": ["get_targets", "enable_notify"],
    "workers": ["get_workers", "drain_one_worker", "resume_one_worker", "forget_lost_worker"],
    "deliveries": ["get_deliveries", "retry_sent"],
    "simulate": ["get_forecast", "get_calendar"],
}
"""The operations of HTTP that do what a command does."""
HERE_ALONE = {
    **dict.fromkeys(
        ("init", "check", "apply", "trust", "import", "takeover", "export"),
        "it is about a file on this machine",
    ),
    **dict.fromkeys(
        ("serve", "demo", "worker", "tick", "service", "open", "completion", "help", "attach"),
        "it is about this terminal",
    ),
    **dict.fromkeys(
        ("verify", "doctor", "backup", "restore", "migrate", "worktrees", "sessions"), "it is about this machine"
    ),
    **dict.fromkeys(("token", "secrets"), "it would hand out or take what must not travel"),
    "touch": "requests that change something count as activity by themselves",
}
ON_ITS_OWN = {
    "follow_events",
    "get_calendar_file",
    "get_metrics",
    "healthz",
    "log_in",
    "begin_sign_on",
    "end_sign_on",
    "log_out",
    "login_page",
}
FOR_PEOPLE = {"pages", "static"}
ELSEWHERE = {"register_worker", "forget_worker"}


def operations(api: Api) -> set[str]:
    api_routes = [route for route in api.routes.routes if isinstance(route, APIRoute)]
    found = {route.operation_id or "" for route in api_routes if not FOR_PEOPLE.intersection(route.tags)}
    return {name for name in found if not name.startswith("legacy_")}


def test_every_command_has_its_path_or_a_reason_to_have_none(api: Api) -> None:
    assert set(COMMANDS) - set(PATHS) - set(HERE_ALONE) == set()
    assert set(PATHS) & set(HERE_ALONE) == set()


def test_every_path_is_that_of_a_command_or_stands_for_itself(api: Api) -> None:
    named = {name for names in PATHS.values() for name in names}
    assert named - operations(api) == set()
    assert operations(api) - named == ON_ITS_OWN | ELSEWHERE


def test_every_error_has_a_status(api: Api) -> None:
    """Errors know nothing of HTTP: the face maps them, and none falls through to 500."""
    kinds = [kind for kind in vars(model).values() if isinstance(kind, type) and issubclass(kind, RotaError)]
    mapped = [base for base in STATUSES if base is not RotaError]
    lost = [kind for kind in kinds if kind is not RotaError and not issubclass(kind, tuple(mapped))]
    assert len(kinds) > 50
    assert lost == []
    assert {*STATUSES.values()} <= set(TITLES)
    assert status_of(model.StorageFull("full")) == 507


def test_every_code_of_http_is_documented() -> None:
    for module in pkgutil.walk_packages(rota.http.__path__, "rota.http."):
        importlib.import_module(module.name)
    told = first_cells(page("errors.md", "errors-agents.md", "errors-system.md", "http-errors.md"))
    kinds = [HttpRefusal, *HttpRefusal.__subclasses__()]
    assert len(kinds) > 14
    assert {kind.code for kind in kinds} | {"internal", "request_invalid"} <= told


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/jobs", schemas.JobPage),
        ("/jobs/hello", WholeJobJson),
        ("/jobs/hello/explain", ExplanationJson),
        ("/runs", schemas.RunPage),
        ("/runs/hello:1", WholeRunJson),
        ("/queue", QueueViewJson),
        ("/groups", schemas.GroupPage),
        ("/budgets", schemas.AccountPage),
        ("/scheduler/status", schemas.System),
        ("/scheduler/poll", SummaryJson),
        ("/workers", schemas.WorkerPage),
        ("/audit", schemas.EntryPage),
        ("/usage", UsageJson),
        ("/stats/overview", shapes.OverviewStatsJson),
        ("/stats/jobs", shapes.JobsStatsJson),
        ("/stats/jobs/hello", shapes.JobStatsJson),
        ("/stats/costs?by=job&unit=tokens", shapes.CostsJson),
        ("/stats/throughput?range=7d", shapes.ThroughputJson),
        ("/stats/queue?since=2d", shapes.QueueStatsJson),
    ],
)
def test_what_is_answered_has_the_shape_that_is_described(api: Api, path: str, shape: type) -> None:
    api.post("/jobs/hello/trigger", status=202)
    api.project.carry_out([COMPLETED])
    model_of(shape).model_validate(api.get(path))


@pytest.mark.parametrize(("path", "shape"), [("/runs/hello:1", WholeRunJson), ("/jobs/hello", WholeJobJson)])
def test_every_field_of_a_run_and_a_job_is_described(api: Api, path: str, shape: type) -> None:
    api.post("/jobs/hello/trigger", status=202)
    assert set(api.get(path)) == set(shape.__annotations__)


def test_a_refusal_reads_as_on_the_command_line(api: Api) -> None:
    """The same code, text and hint through HTTP and the command line."""
    cases = [
        ("GET", "/api/v1/jobs/helo", None, ["show", "helo"]),
        ("GET", "/api/v1/runs/hello:9", None, ["show", "hello:9"]),
        ("POST", "/api/v1/jobs/hello/trigger", {"params": {"nope": 1}}, ["trigger", "hello", "--param", "nope=1"]),
        ("GET", "/api/v1/runs?status=nope", None, ["history", "--status", "nope"]),
        ("GET", "/api/v1/budgets/nope", None, ["budgets", "nope"]),
        ("GET", "/api/v1/groups/nope", None, ["groups", "show", "nope"]),
    ]
    for method, path, body, command in cases:
        over_http = api.call(method, path, body).json()
        typed = api.project.rota(*command, "--json")
        told = json.loads(typed.stderr)["error"]
        assert (over_http["code"], over_http["hint"]) == (told["code"], told["hint"]), path
        assert over_http["detail"] == told["message"], path
