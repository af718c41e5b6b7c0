"""One table of wrong jobs drives the file and the API: the same places, texts and hints through both."""

import json
import re

import pytest

from rota.declare.yaml import parse
from rota.model.errors import FileProblems
from tests.api.conftest import Api
from tests.unit.declare.test_validate import refused_jobs

PLACE = re.compile(r"^\d+:\d+: ")
AS_A_FILE = re.compile(r"\bYAML\b|quotes|no condition is named")


def body_of(text: str) -> dict[str, object] | None:
    """Return a job of the table as JSON; None where what is wrong is the YAML itself."""
    written = "jobs:\n  x:\n" + "".join(f"    {line}\n" for line in text.split("|"))
    try:
        body = parse(written.encode()).data["jobs"]["x"]
        return json.loads(json.dumps(body, allow_nan=False)) if isinstance(body, dict) else None
    except (FileProblems, TypeError, ValueError):
        return None


def told(line: str) -> str:
    """Return a line of the table without the place in the file, which a request does not have."""
    return PLACE.sub("", line)


def test_a_wrong_job_is_refused_by_the_api_as_in_the_file(api: Api) -> None:
    compared = 0
    api.project.write("jobs: {a: {command: [a]}}\n")
    for text, said in refused_jobs():
        body = body_of(text)
        if body is None or "run" in body or "python" in body or AS_A_FILE.search("".join(said)):
            continue
        found = api.call("PUT", "/api/v1/jobs/x", body)
        assert found.status_code == 422, (text, found.text)
        problems = found.json()["problems"]
        lines = [f"{one['path']}: {one['message']}" + (f"; {one['hint']}" if one["hint"] else "") for one in problems]
        assert lines == [told(line) for line in said], text
        compared += 1
    assert compared > 60


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_what_is_no_job_at_all_is_refused(api: Api, body: object) -> None:
    found = api.call("PUT", "/api/v1/jobs/x", json.dumps(body).encode())
    assert found.status_code == (400 if body is None else 422)
