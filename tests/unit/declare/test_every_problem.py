"""Several problems inside one key: each is told, with its own place, and none that follows from another."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rota.declare.problems import MAX_PROBLEMS, BadValue, ProblemList, read_items, wrong_type
from rota.declare.project import read_project
from rota.declare.readers.values import read_labels
from rota.model.errors import FileProblems, JobProblems, Problem
from rota.operations.project.apply import read_job

JOB = "jobs:\n  x:\n    command: [a]\n    interval: 1h\n    "
AGENT = "jobs:\n  x:\n    prompt: a\n    interval: 1h\n    "
ENVIRONMENT = {"HOME": "/home/ops"}


def problems(folder: Path, text: str) -> tuple[Problem, ...]:
    (folder / "rota.yaml").write_text(text)
    with pytest.raises(FileProblems) as caught:
        read_project(folder, environment=ENVIRONMENT)
    return caught.value.problems


def places(folder: Path, text: str) -> list[str]:
    return [problem.path for problem in problems(folder, text)]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("pools: {db: -1, x: many, -: 1}", ["db", "x", "-"]),
        ("quiet_hours: {windows: [bad, bad2], policy: nap}", ["windows[0]", "windows[1]", "policy"]),
        ("quiet_hours: [bad, 22:00-07:00, bad2]", ["[0]", "[2]"]),
        ("budgets: {d: {usd: five, per: fortnight}}", ["d.usd", "d.per"]),
        ("budgets: {d: {usd: five}}", ["d", "d.usd"]),
        ("budgets: {d: {usd: 0, runs: x, policy: x}}", ["d", "d.usd", "d.runs", "d.policy"]),
        ("prices: {m: {input: a, output: b}}", ["m.input", "m.output"]),
        ("notify: {ops: {on: [x, y], command: [a], remind: z}}", ["ops.on[0]", "ops.on[1]", "ops.remind"]),
        (
            "notify: {ops: {command: [a], token: 1, signing: 2}}",
            ["ops.token", "ops.token", "ops.signing", "ops.signing"],
        ),
        ("poll: {url: https://a.b, headers: {Host: x, b c: 1}}", ["headers.Host", "headers.b c"]),
        ("agents: {a: {adapter: {run: 3, capabilities: [x, y]}}}", ["run", "capabilities[0]", "capabilities[1]"]),
        ("agents: {a: {adapter: ollama, max_turns: 4, max_usd: 1}}", ["a.max_turns", "a.max_usd"]),
        ("agents: {a: {schedules: {h: {type: [x], agent: b, run: c}}}}", ["h.type", "h.agent", "h.run"]),
        (
            "agents: {a: {schedules: {h: {type: cron, expression: x, promt: y, misfire: skip, timeout: z}}}}",
            ["h.type", "h.expression", "h.promt", "h.timeout"],
        ),
        ("agents: {a: {schedules: {h: {type: chat, agent: b, colour: c}}}}", ["h.type", "h.agent", "h.colour"]),
        ("defaults: {except: [2026-02-30, gone.ics]}", ["except[0]", "except[1]"]),
        ("defaults: {pools: [none, {db: 0}]}", ["pools[0]", "pools[1].db"]),
        (f"{JOB}retry: {{max_attempts: 0, backof: 1s}}", ["max_attempts", "backof"]),
        (f"{JOB}on_repeated_failure: {{after: 0, backoff_max: x}}", ["after", "backoff_max"]),
        (f"{JOB}except: [2026-02-30, nofile.ics, 2026-12-24]", ["except[0]", "except[1]"]),
        (f"{JOB}pools: [none, {{db: 0}}, 3]", ["pools[0]", "pools[1].db", "pools[2]"]),
        (f"{JOB}budget: [none, 3]", ["budget[0]", "budget[1]"]),
        (f"{JOB}notify: [nobody, 3, {{on: x}}]", ["notify[0]", "notify[1]", "notify[2]", "notify[2].on"]),
        (f"{JOB}labels: ['!', a, '?']", ["labels[0]", "labels[2]"]),
        (f"{JOB}params: {{1a: 1, b: 2, B: 3}}", ["params.1a", "params.B"]),
        (f"{JOB}conditions: [{{name: 3, timeout: x}}]", ["conditions[0].name", "conditions[0].timeout"]),
        ("jobs: {x: {command: [a, null, []], cron: [x, y]}}", ["command[1]", "command[2]", "cron[0]", "cron[1]"]),
        ("jobs: {x: {command: [a], interval: {active: x, idle: y}}}", ["interval.active", "interval.idle"]),
        (f"{AGENT}carry: [a, b]", ["carry[0]", "carry[1]"]),
        (f"{AGENT}after: {{command: [null], cwd: x}}", ["after.command[0]", "after.cwd"]),
        (f"{AGENT}work_source: {{github: x, label: 'a,b'}}", ["work_source", "github", "label"]),
        (f"{AGENT}work_source: {{timeout: x, attempts: 0}}", ["work_source", "timeout", "attempts"]),
        ("groups: {g: {members: [none, {job: 3, always: x}]}}", ["members[0]", "members[1].job", "members[1].always"]),
    ],
)
def test_every_wrong_part_of_a_value_is_told_where_it_stands(tmp_path: Path, text: str, paths: list[str]) -> None:
    found = places(tmp_path, text)
    assert [path.endswith(end) for path, end in zip(found, paths, strict=True)] == [True] * len(paths), found


def test_each_problem_has_its_own_line_column_code_and_hint(tmp_path: Path) -> None:
    found = problems(tmp_path, f"{JOB}retry:\n      max_attempts: 0\n      backof: 1s\n")
    assert [(one.line, one.column, one.code, one.hint) for one in found] == [
        (6, 7, "out_of_range", ""),
        (7, 7, "unknown_key", 'did you mean "backoff"?'),
    ]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("budgets: {d: {usd: 1, perr: day}}", "budgets.d.perr"),
        ("prices: {m: {input: 1, outptu: 2}}", "prices.m.outptu"),
        ("quiet_hours: {window: ['00:00-07:00']}", "quiet_hours.window"),
        (f"{JOB}retry: {{max: 1s, backof: 500s}}", "jobs.x.retry.backof"),
        (f"{JOB}conditions: [{{nam: x}}]", "jobs.x.conditions[0].nam"),
        ("groups: {g: {members: [{jobb: x}]}}", "groups.g.members[0].jobb"),
        ("jobs: {x: {command: [a], interval: {activ: 1s}}}", "jobs.x.interval.activ"),
        (f"{JOB}budget: [3]\n    estimate: 1", "jobs.x.budget[0]"),
    ],
)
def test_what_follows_from_a_mistake_is_not_told_beside_it(tmp_path: Path, text: str, path: str) -> None:
    assert places(tmp_path, text) == [path]


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"retry": {"max_attempts": 0, "backof": "1s"}}, ["jobs.x.retry.max_attempts", "jobs.x.retry.backof"]),
        ({"except": ["2026-02-30", "nofile.ics"]}, ["jobs.x.except[0]", "jobs.x.except[1]"]),
    ],
)
def test_a_body_of_the_api_is_told_every_problem_too(tmp_path: Path, body: Mapping[str, Any], paths: list[str]) -> None:
    (tmp_path / "rota.yaml").write_text("timezone: UTC\n")
    whole = {"command": ["a"], "interval": "1h", **body}
    with pytest.raises(JobProblems) as caught:
        read_job("x", whole, folder=tmp_path, state=tmp_path, environ=ENVIRONMENT)
    assert [problem.path for problem in caught.value.problems] == paths


def test_a_refusal_of_several_parts_speaks_as_the_first_of_them() -> None:
    with pytest.raises(BadValue) as caught:
        read_labels(["a", 3, "!"])
    assert caught.value.problems[0].message == "3 is not a label"
    assert [one.at for one in caught.value.problems] == [(1,), (2,)]


def test_parts_of_parts_keep_the_whole_way_to_them() -> None:
    with pytest.raises(BadValue) as caught, ProblemList() as parts, parts.below("outer"):
        read_items([[1, 2], [3]], lambda items: read_items(items, _refuse))
    assert [one.at for one in caught.value.problems] == [("outer", 0, 0), ("outer", 0, 1), ("outer", 1, 0)]


def _refuse(value: Any) -> None:
    raise wrong_type(value, "a word")


def test_a_long_list_of_nonsense_has_a_short_answer() -> None:
    with pytest.raises(BadValue) as caught:
        read_labels(["!"] * (MAX_PROBLEMS + 1000))
    assert len(caught.value.problems) == MAX_PROBLEMS + 1
    assert (caught.value.problems[-1].message, caught.value.problems[-1].at) == (
        "1,000 more of its parts are wrong",
        (),
    )


def test_an_error_of_the_program_is_no_problem_of_the_value() -> None:
    with pytest.raises(ZeroDivisionError):
        read_items([1, 0], lambda item: 1 // item)
