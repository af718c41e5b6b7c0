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

CASES = int(os.environ.get("SCHEMA_CASES", "3"))
ENDLESS = {"follow_events"}
DESCRIBED = [route for route in routes().routes if isinstance(route, APIRoute) and route.include_in_schema]
NAMES = {route.operation_id or "" for route in DESCRIBED}
LEFT_OUT = ("ignored_auth", "positive_data_acceptance", "unsupported_method", "not_a_server_error")
"""The door has tests of its own; a name that the schema allows need not be there; without a scheduler 503 is right."""


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
        made.project.carry_out([COMPLETED], output="line\n")
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
    # In a query everything is a text: a number in the place of one is none that could be told from it.
    left_out = [CHECKS.get_one(one) for one in (*LEFT_OUT, *(["negative_data_rejection"] if played.query else []))]
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
        sent = case.as_transport_kwargs(base_url=BASE)
        sent["headers"] = {**dict(sent.get("headers") or {}), **api.headers()}
        sent["content"] = sent.pop("data", None)
        sent.pop("cookies", None)
        response = api.bare.request(**{key: value for key, value in sent.items() if value is not None})
        assert response.status_code < 500 or response.status_code == 503, response.text
        if response.status_code != 413:  # what is wrong may also be too large
            case.validate_response(response, excluded_checks=left_out)

    play()
