"""One table of bad inputs through file, command line, API and MCP: the same code and text (section 4.5)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from rota.operations.tools.reads import WORDS
from tests.api.bad_inputs import WARNED, Bad, Warned, bad_inputs
from tests.api.conftest import Api, opened
from tests.api.test_tools import call
from tests.faces.conftest import Project

FILE = """\
agents:
  helper: {adapter: claude}
jobs:
  a:
    command: ["true"]
  run-me:
    command: ["true", "{{ params.who }}"]
    params: {who: world}
"""
OF_THE_TOOL = {"cron": "schedule", "at": "at", "timezone": "timezone", "prompt": "task", "agent": "provider"}
SAME_BUT_CASE, IN_YEARS = 29, 10
"""Rows that a tool sees differently: a job is known in any case, and nothing that it makes lives for a year."""
TABLE = list(bad_inputs())
TOLD_TO_TOOLS = [
    one
    for one in TABLE
    if set(one.keys) <= set(OF_THE_TOOL) and one.keys.get("cron") != "" and one.number != SAME_BUT_CASE
]
"""What a tool can be given, too: for it an empty text is one that was left out, and a job is known in any case."""
Told = list[tuple[str, str, str, str]]


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder: Path = tmp_path_factory.mktemp("four") / "home"
    folder.mkdir()
    with opened(Project(folder).applied(FILE)) as made:
        yield made


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


def noted(api: Api, name: str, keys: dict[str, Any]) -> list[str]:
    """Return what `rota check` notes of a job in the file."""
    api.project.write(f"{FILE}  {written(name)}: {written(keys)}\n")
    try:
        notes: list[str] = api.cli("check")["notes"]
    finally:
        api.project.write(FILE)
    return notes


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
    said = by_request(four, bad)
    assert [code for code, *_ in said] == [bad.code]
    if bad.kept:
        assert [note.partition("; ")[0] for note in noted(four, bad.name, bad.keys)] == [f"{bad.name}: {said[0][2]}"]
    else:
        assert by_file(four, bad) == said
    if bad.name and "\\u0000" not in written([bad.name, bad.keys]):  # an empty word is refused before it is read
        assert by_command(four, bad) == said


@pytest.mark.parametrize("bad", TOLD_TO_TOOLS, ids=str)
def test_a_bad_job_is_told_alike_over_mcp(four: Api, bad: Bad) -> None:
    [(code, path, message, hint)] = by_request(four, bad)
    arguments = {OF_THE_TOOL[key]: value for key, value in bad.keys.items()}
    answered = call(four, "schedule_job", name=bad.name, **arguments)
    key = path.removeprefix(f"jobs.{bad.name}.")
    field = "jobs" if path == "jobs" else WORDS.get(key, key) if key in bad.keys else "name"
    assert answered["isError"] is True
    assert answered["content"][0]["text"] == f"{code}: {field}: {message}" + (f" ({hint})" if hint else "")


@pytest.mark.parametrize("warned", WARNED, ids=lambda one: f"{one.number} {one.note}"[:40])
def test_what_is_only_warned_of_is_told_alike_by_file_command_api_and_mcp(four: Api, warned: Warned) -> None:
    assert noted(four, "x", warned.keys) == [warned.note]
    settings = [word for key, value in warned.keys.items() for word in ("--set", f"{key}={written(value)}")]
    assert four.cli("add", "x", "--dry-run", *settings)["notes"] == [warned.note]
    found = four.call("POST", "/api/v1/jobs?dry_run=true", {**warned.keys, "name": "x"})
    assert (found.status_code, found.json()["notes"]) == (201, [warned.note])
    if set(warned.keys) <= set(OF_THE_TOOL):
        arguments = {OF_THE_TOOL[key]: value for key, value in warned.keys.items()}
        answered = call(four, "schedule_job", name=f"x{warned.number}", **arguments)
        told = "never_fires" if warned.number == IN_YEARS else warned.note.removeprefix("x: ")
        assert told in answered["content"][0]["text"].replace('\\"', '"')


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


ASKED += [
    (
        "unknown_run",
        ("show", "0190b3a2-0000-7000-8000-000000000000"),
        ("GET", "/runs/0190b3a2-0000-7000-8000-000000000000", None),
        ("get_run", {"run": "0190b3a2-0000-7000-8000-000000000000"}),
    ),
    # 52: who starts a job does not choose the options of its program
    (
        "arg_option_like",
        ("trigger", "run-me", "--param", "who=--config=/etc/shadow"),
        ("POST", "/jobs/run-me/trigger", {"params": {"who": "--config=/etc/shadow"}}),
        ("trigger_job", {"name": "run-me", "params": {"who": "--config=/etc/shadow"}}),
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


@pytest.mark.parametrize(
    "text", [f"run-me:{'9' * 30}", "run-me:\xb2", "run-me:--1", "..", "%2e%2e", "1 OR 1=1", "%252F", "\U0001f468"]
)
def test_what_is_no_name_of_a_run_is_not_there_for_anybody(four: Api, text: str) -> None:
    """#30: the path of a request takes nothing of another shape, the others look for it and find nothing."""
    typed = json.loads(four.project.rota("show", text, "--json").stderr)["error"]["code"]
    assert typed in ("unknown_run", "unknown_job")
    assert four.call("GET", f"/api/v1/runs/{quote(text, safe='')}").status_code in (404, 422)
    assert call(four, "get_run", run=text)["content"][0]["text"].startswith(f"{typed}: ")
