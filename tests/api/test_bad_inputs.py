"""One table of bad inputs through file, command line, API and MCP: the same code and text (section 4.5)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.operations.tools.words import WORDS
from tests.api.bad_inputs import Bad, bad_inputs
from tests.api.conftest import Api
from tests.api.test_tools import call
from tests.faces.conftest import Project

FILE = """\
agents:
  helper: {adapter: claude}
jobs:
  a:
    command: [a]
  run-me:
    command: [a]
    params: {who: world}
"""
OF_THE_TOOL = {"cron": "schedule", "at": "at", "timezone": "timezone", "prompt": "task", "agent": "provider"}
TABLE = list(bad_inputs())
TOLD_TO_TOOLS = [one for one in TABLE if set(one.keys) <= set(OF_THE_TOOL) and one.keys.get("cron") != ""]
"""What a tool can be given, too; an empty text is for a tool one that was left out."""
Told = list[tuple[str, str, str, str]]


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder: Path = tmp_path_factory.mktemp("four") / "home"
    folder.mkdir()
    made = Api(Project(folder).applied(FILE))
    yield made
    made.bare.close()
    made.store.close()


def problems(told: dict[str, Any]) -> Told:
    return [(one["code"], one["path"], one["message"], one["hint"]) for one in told["problems"]]


def by_file(api: Api, bad: Bad) -> Told:
    """Refuse it as `rota check` does, in the file."""
    api.project.write(f"{FILE}  {written(bad.name)}: {written(bad.keys)}\n")
    try:
        checked = api.project.rota("check", "--json")
    finally:
        api.project.write(FILE)
    assert checked.exit_code == 65, checked.output
    return problems(json.loads(checked.stderr)["error"])


def by_command(api: Api, bad: Bad) -> Told:
    """Refuse it as `rota add` does, of options."""
    settings = [word for key, value in bad.keys.items() for word in ("--set", f"{key}={written(value)}")]
    added = api.project.rota("add", "--json", *settings, "--", bad.name)
    assert added.exit_code == 65, added.output
    return problems(json.loads(added.stderr)["error"])


def by_request(api: Api, bad: Bad) -> Told:
    """Refuse it as the API does, of a body."""
    found = api.call("POST", "/api/v1/jobs", {**bad.keys, "name": bad.name})
    assert found.status_code == 422, found.text
    assert found.headers["content-type"] == "application/problem+json"
    return problems(found.json())


def written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("bad", TABLE, ids=str)
def test_a_bad_job_is_told_alike_by_file_command_and_api(four: Api, bad: Bad) -> None:
    said = by_file(four, bad)
    assert [code for code, *_ in said] == [bad.code]
    assert by_request(four, bad) == said
    if "\\u0000" not in written([bad.name, bad.keys]):  # the system lets nobody type it
        assert by_command(four, bad) == said


@pytest.mark.parametrize("bad", TOLD_TO_TOOLS, ids=str)
def test_a_bad_job_is_told_alike_over_mcp(four: Api, bad: Bad) -> None:
    [(code, path, message, hint)] = by_file(four, bad)
    arguments = {OF_THE_TOOL[key]: value for key, value in bad.keys.items()}
    answered = call(four, "schedule_job", name=bad.name, **arguments)
    key = path.removeprefix(f"jobs.{bad.name}.")
    field = "jobs" if path == "jobs" else WORDS.get(key, key) if key in bad.keys else "name"
    assert answered["isError"] is True
    assert answered["content"][0]["text"] == f"{code}: {field}: {message}" + (f" ({hint})" if hint else "")


def test_most_of_the_table_goes_through_all_four() -> None:
    assert len(TOLD_TO_TOOLS) > 35


ASKED: list[tuple[str, tuple[str, ...], tuple[str, str, Any], tuple[str, dict[str, Any]]]] = [
    (
        "unknown_job",
        ("trigger", "nope"),
        ("POST", "/jobs/nope/trigger", None),
        ("trigger_job", {"name": "nope"}),
    ),
    (
        "unknown_job",
        ("explain", "run-mee"),
        ("GET", "/jobs/run-mee/explain", None),
        ("explain_job", {"name": "run-mee"}),
    ),
    (
        "unknown_run",
        ("show", "run-me:99"),
        ("GET", "/runs/run-me:99", None),
        ("get_run", {"run": "run-me:99"}),
    ),
    (
        "invalid_value",
        ("trigger", "run-me", "--param", "whom=x"),
        ("POST", "/jobs/run-me/trigger", {"params": {"whom": "x"}}),
        ("trigger_job", {"name": "run-me", "params": {"whom": "x"}}),
    ),
]


@pytest.mark.parametrize(("code", "typed", "sent", "called"), ASKED, ids=lambda value: str(value)[:30])
def test_a_bad_request_is_told_alike_by_command_api_and_mcp(
    four: Api,
    code: str,
    typed: tuple[str, ...],
    sent: tuple[str, str, Any],
    called: tuple[str, dict[str, Any]],
) -> None:
    told = json.loads(four.project.rota(*typed, "--json").stderr)["error"]
    assert told["code"] == code
    found = four.call(sent[0], f"/api/v1{sent[1]}", sent[2]).json()
    assert (found["code"], found["detail"], found["hint"]) == (code, told["message"], told["hint"])
    answered = call(four, called[0], **called[1])["content"][0]["text"]
    said, _, advice = answered.partition(". What to do: ")
    assert said == f"{code}: {told['message']}"
    assert bool(advice) == bool(told["hint"])  # a model is told which tool helps, not which command
