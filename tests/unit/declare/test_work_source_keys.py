"""`work_source:` in a file: each kind and its keys, what is refused, and how it is written again."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.declare.export import Top, export_text
from rota.declare.problems import BadValue
from rota.declare.project import read_project
from rota.declare.readers.work_sources import read_work_source
from rota.declare.registry import RegisteredFinder, Registry
from rota.model.errors import FileProblems
from rota.model.serialize import decode, encode
from rota.model.spec import EnvValue, JobSpec, SourceKind, WorkSource

TOKEN: dict[str, Any] = {"secret": "GITHUB_TOKEN"}
HEAD = "agents: {fixer: {adapter: claude}}\n"
JOB = HEAD + "jobs:\n  fix:\n    interval: 15m\n    prompt: Fix it.\n    work_source: "


class Tickets:
    """A class that a file may name."""


def load(folder: Path, text: str, *, registry: Registry | None = None) -> tuple[JobSpec, ...]:
    (folder / "rota.yaml").write_text(text)
    finder = RegisteredFinder(registry or Registry())
    return read_project(folder, environment={"HOME": "/home/x"}, functions=finder).jobs


def source_of(folder: Path, written: str, *, registry: Registry | None = None) -> WorkSource:
    (spec,) = load(folder, JOB + written, registry=registry)
    assert spec.work.agent is not None
    assert spec.work.agent.source is not None
    return spec.work.agent.source


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(FileProblems) as told:
        load(folder, text)
    return [f"{one.line}:{one.path}: {one.message}; {one.hint}" for one in told.value.problems]


def test_a_github_source_has_a_label_and_a_token_by_reference(tmp_path: Path) -> None:
    source = source_of(tmp_path, "{github: me/api, label: ready, token: {secret: GITHUB_TOKEN}}")
    assert (source.kind, source.place) == (SourceKind.GITHUB, "me/api")
    assert source.options == {"label": "ready"}
    assert source.values == (EnvValue("token", secret="GITHUB_TOKEN"),)
    assert (source.timeout, source.attempts) == (timedelta(seconds=30), 3)


def test_the_folder_of_a_directory_source_is_that_of_the_project(tmp_path: Path) -> None:
    assert source_of(tmp_path, "{directory: inbox, pattern: '*.md'}").place == str(tmp_path / "inbox")
    assert source_of(tmp_path, "{directory: ~/inbox}").place == "/home/x/inbox"


def test_an_http_source_has_headers(tmp_path: Path) -> None:
    source = source_of(tmp_path, "{http: 'https://x/q', headers: {Authorization: {secret: KEY}, X-Team: ops}}")
    assert source.values == (EnvValue("Authorization", secret="KEY"), EnvValue("X-Team", value="ops"))


def test_a_class_gets_its_options_and_secrets(tmp_path: Path) -> None:
    registry = Registry()
    registry.source("tickets")(Tickets)
    source = source_of(
        tmp_path, "{run: tickets, options: {board: 7, key: {secret: KEY}}, timeout: 1m, attempts: 1}", registry=registry
    )
    assert (source.place, source.options) == ("tickets", {"board": 7})
    assert source.values == (EnvValue("key", secret="KEY"),)
    assert (source.timeout, source.attempts) == (timedelta(minutes=1), 1)


def test_a_schedule_of_an_agent_has_a_source_too(tmp_path: Path) -> None:
    text = "agents: {claude: {schedules: {hourly: {interval: 1h, work_source: {directory: inbox}}}}}"
    (spec,) = load(tmp_path, text)
    assert spec.work.agent is not None
    assert spec.work.agent.source is not None


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("nothing", "is not a work source"),
        ({}, "does not name a source"),
        ({"github": "me/api", "directory": "x"}, "has github and directory"),
        ({"github": "api", "token": TOKEN}, "is not a repository"),
        ({"github": "me/api"}, "has no token"),
        ({"github": "me/api", "token": "ghp_canary"}, "is a literal secret"),
        ({"github": "me/api", "token": TOKEN, "label": "a,b"}, "cannot be a label"),
        ({"github": "me/api", "token": TOKEN, "label": "agent-done"}, "is also the label of `label`"),
        ({"github": "me/api", "token": TOKEN, "labels": "x"}, "unknown key"),
        ({"github": "me/api", "token": TOKEN, "api_url": "ftp://x"}, "not an http or https address"),
        ({"directory": ""}, "is empty"),
        ({"directory": "x", "token": TOKEN}, "unknown key"),
        ({"http": "https://user:pw@x"}, "holds a user or a password"),
        ({"http": "https://x", "headers": []}, "is not a map of headers"),
        ({"run": "not a class"}, "is not a class"),
        ({"run": "m:C", "options": [1]}, "is not a map of arguments"),
        ({"directory": "x", "timeout": "1h"}, "not between 1s and 10m"),
        ({"directory": "x", "attempts": 0}, "not between 1 and 100"),
    ],
)
def test_what_a_source_cannot_be_is_told(written: Any, message: str) -> None:
    with pytest.raises(BadValue) as told:
        read_work_source(written)
    problem = told.value.problems[0]
    assert message in problem.message
    assert "canary" not in problem.message + problem.hint


def test_a_problem_is_told_with_its_line_and_key(tmp_path: Path) -> None:
    text = JOB + "\n      github: me/api\n      labl: x\n      token: {secret: T}\n"
    assert problems(tmp_path, text) == ['8:jobs.fix.work_source.labl: unknown key; did you mean "label"?']


def test_a_source_means_nothing_without_an_agent(tmp_path: Path) -> None:
    (told,) = problems(tmp_path, "jobs: {x: {command: [true], work_source: {directory: inbox}}}")
    assert "has no effect without an agent's work" in told


def test_a_class_that_nobody_knows_is_told_where_it_is_named(tmp_path: Path) -> None:
    (told,) = problems(tmp_path, JOB + "{run: tickets}")
    assert told.startswith('6:jobs.fix.work_source.run: no work source is named "tickets"')
    text = "agents: {claude: {schedules: {hourly: {interval: 1h, work_source: {run: tickets}}}}}"
    (told,) = problems(tmp_path, text)
    assert told.startswith("1:agents.claude.schedules.hourly.work_source.run: no work source")


def test_a_class_cannot_run_in_another_interpreter(tmp_path: Path) -> None:
    (tmp_path / "py").touch(mode=0o755)
    told = problems(tmp_path, "python: ./py\n" + JOB + "{run: 'm:Tickets'}")
    assert any("runs inside the scheduler's process" in one for one in told)


@pytest.mark.parametrize(
    "written",
    [
        "{github: me/api, label: ready, done_label: ok, token: {secret: T}, api_url: 'https://ghe/api/v3'}",
        "{directory: inbox, pattern: '*.md', attempts: 5}",
        "{http: 'https://x/q', headers: {Authorization: {secret: KEY}, X-Team: ops}, timeout: 2m}",
        "{run: 'tests.unit.declare.test_work_source_keys:Tickets', options: {board: 7, key: {secret: KEY}}}",
    ],
)
def test_a_source_is_stored_and_exported_as_it_was(tmp_path: Path, written: str) -> None:
    (spec,) = load(tmp_path, JOB + written)
    assert decode(JobSpec, encode(spec)) == spec
    again = load(tmp_path, export_text([spec], Top(folder=str(tmp_path))))
    assert again == (spec,)


def test_the_label_does_not_tell_sources_apart_but_the_server_does() -> None:
    one = read_work_source({"github": "me/api", "token": TOKEN, "label": "a"})
    other = read_work_source({"github": "me/api", "token": TOKEN, "label": "b"})
    elsewhere = read_work_source({"github": "me/api", "token": TOKEN, "api_url": "https://ghe"})
    assert one.key == other.key != elsewhere.key
