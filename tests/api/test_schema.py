"""The description of the API is true: schemathesis plays it against the routes and finds nothing.

The same cases each time; SCHEMA_CASES=200 plays so many for each operation.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from rota.http.app import make_routes
from tests.api.conftest import BASE, COMPLETED, FILE, Api, opened, routes
from tests.faces.conftest import Project

CASES = int(os.environ.get("SCHEMA_CASES", "2"))
ENDLESS = {"follow_events"}
SLOW = {"backfill_job"}
"""Two times in one body, at and beyond all bounds, take schemathesis ten seconds to make up."""
DESCRIBED = [route for route in routes().routes if isinstance(route, APIRoute) and route.include_in_schema]
NAMES = {route.operation_id or "" for route in DESCRIBED}
LEFT_OUT = ("ignored_auth", "unsupported_method", "not_a_server_error")
"""The door has tests of its own; without a scheduler 503 is right."""
BY_CONTENT = {
    *("create_job", "put_job"),  # the rules of rota.yaml
    *("trigger_job", "legacy_trigger_job", "trigger_job_many", "retry_one_run", "legacy_retry_run"),  # the job's params
    *("edit_queued_run", "create_group", "call_directly"),  # the job's params
    *("backfill_job", "pause_job", "legacy_pause_job"),  # which of two times is later
    "fork_one_run",  # a prompt of blanks
    "get_forecast",  # the rules of schedules and of rota.yaml
    *("get_runs", "get_job_runs"),  # the cursor of another query
}
"""What no schema can say: these may refuse a wish of the right shape, for what it holds."""


@cache
def operations() -> dict[str, Any]:
    """Return the operations that the document describes, by name: to read it takes a second."""
    document = {**make_routes(None).openapi(), "security": []}  # type: ignore[arg-type]
    found = [one.ok() for one in schemathesis.openapi.from_dict(document).get_all_operations()]
    return {operation.definition.raw["operationId"]: operation for operation in found}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("api") / "home"
    folder.mkdir()
    with opened(Project(folder).applied(FILE), raises=False) as made:
        for job in ("hello", "hello", "other"):
            made.post(f"/jobs/{job}/trigger", status=202)
        made.project.carry_out([COMPLETED] * 3, output="line\n")  # none goes on: to cancel it would end this process
        made.post("/jobs/hello/trigger", status=202)
        yield made


def test_there_is_much_to_play() -> None:
    assert len(operations()) > 45
    assert set(operations()) == NAMES >= ENDLESS


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize("name", sorted(NAMES - ENDLESS))
def test_every_answer_is_as_described(api: Api, name: str, mode: GenerationMode) -> None:
    played = operations()[name]
    try:
        strategy = played.as_strategy(generation_mode=mode)
        strategy.validate()
    except Exception as error:
        if mode is GenerationMode.NEGATIVE and "negative" in str(error).lower():
            return  # nothing about it can be wrong
        raise
    if mode is GenerationMode.NEGATIVE and not (played.body or played.path_parameters or played.query):
        return

    @settings(
        max_examples=CASES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def play(case: Any) -> None:
        response = judged(api, name, case)
        if mode is GenerationMode.POSITIVE and response.status_code == 422:
            assert response.json()["code"] != "request_invalid", response.text

    play()


@pytest.mark.parametrize("name", sorted(name for name in NAMES - ENDLESS - SLOW if not name.startswith("legacy_")))
def test_every_edge_of_the_description_is_the_edge_of_the_checks(api: Api, name: str) -> None:
    """Values at and beyond each bound of the schema, missing and unknown fields, and other methods."""
    played = operations()[name]
    modes, config = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], played.schema.config.generation
    for case in played.schema.iter_coverage_cases(played, generation_modes=modes, generation_config=config):
        if case.method != "TRACE":  # the client of these tests cannot send it
            judged(api, name, case)


def judged(api: Api, name: str, case: Any) -> Any:
    """Send a case and check that its answer is as described."""
    sent = case.as_transport_kwargs(base_url=BASE)
    sent["headers"] = {**dict(sent.get("headers") or {}), **api.headers()}
    sent["content"] = sent.pop("data", None)
    sent.pop("cookies", None)
    response = api.bare.request(**{key: value for key, value in sent.items() if value is not None})
    assert response.status_code < 500 or response.status_code == 503, response.text
    # In a query everything is a text: a number in the place of one is none that could be told from it.
    queried = ["negative_data_rejection"] if case.operation.query else []
    content = ["positive_data_acceptance"] if name in BY_CONTENT else []
    if response.status_code != 413:  # what is wrong may also be too large
        left_out = [CHECKS.get_one(one) for one in (*LEFT_OUT, *queried, *content)]
        case.validate_response(response, excluded_checks=left_out)
    return response


def test_what_may_be_left_out_is_never_null() -> None:
    """Generated clients send what the document allows: a body that may be null breaks those that mean none."""
    document = routes().openapi()
    for path, described in document["paths"].items():
        for method, operation in described.items():
            body = operation.get("requestBody", {"content": {}})["content"].get("application/json", {"schema": {}})
            schemas = [body["schema"], *(param["schema"] for param in operation.get("parameters", ()))]
            assert [one for one in schemas if {"type": "null"} in one.get("anyOf", ())] == [], (method, path)


def test_a_null_in_the_place_of_a_body_is_refused(api: Api) -> None:
    assert api.refused("POST", "/api/v1/jobs/hello/trigger", b"null") == (400, "json_invalid")


def test_a_start_that_is_only_tried_is_described(api: Api) -> None:
    for path in ("/api/v1/jobs/{job}/trigger", "/jobs/{job}/trigger"):
        answers = routes().openapi()["paths"][path]["post"]["responses"]
        assert answers["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/DryStart")
        told = api.call("POST", path.format(job="hello"), {"dry_run": True})
        assert (told.status_code, told.json()["dry_run"]) == (200, True)


def test_a_method_that_a_path_does_not_know_is_told_which_it_knows(api: Api) -> None:
    for path, allowed in {"/runs/cancel": "POST", "/runs/hello:1": "GET, PATCH", "/deliveries/retry": "POST"}.items():
        refused = api.call("DELETE", f"/api/v1{path}")
        assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
