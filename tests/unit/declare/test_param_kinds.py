"""Params with kinds in the file: what is read, what is refused with its line, and what export writes back."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from rota.declare.export import Top, export_text
from rota.declare.project import read_project
from rota.declare.schema import json_schema
from rota.model.errors import FileProblems
from rota.model.params import ParamKind, ParamType
from rota.model.serialize import decode, encode
from rota.model.spec import JobSpec

JOB = "jobs:\n  x:\n    command: [true]\n    params:\n"


def read(folder: Path, *lines: str, more: str = "") -> JobSpec:
    text = JOB + "".join(f"      {line}\n" for line in lines) + more
    (folder / "rota.yaml").write_text(text)
    return next(job for job in read_project(folder, environment={"HOME": "/home/ops"}).jobs if job.name == "x")


def refused(folder: Path, *lines: str, more: str = "") -> str:
    with pytest.raises(FileProblems) as caught:
        read(folder, *lines, more=more)
    return "\n".join(str(problem) for problem in caught.value.problems)


def test_a_kind_has_a_type_choices_bounds_and_a_default(tmp_path: Path) -> None:
    work = read(
        tmp_path,
        "region: {one_of: [eu, us], default: eu}",
        "n: {type: int, min: 1, max: 10}",
        "day: monday",
    ).work
    assert work.params == {"region": "eu", "day": "monday"}
    assert work.param_kinds == (
        ParamKind("region", one_of=("eu", "us")),
        ParamKind("n", ParamType.INT, min=1, max=10, required=True),
        ParamKind("day"),
    )


def test_plain_values_have_no_kinds(tmp_path: Path) -> None:
    work = read(tmp_path, "a: 1", "b: {x: 2}", "c: {type: json, default: {type: 3}}").work
    assert work.param_kinds == ()
    assert work.params == {"a": 1, "b": {"x": 2}, "c": {"type": 3}}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("n: {type: itn}", 'rota.yaml:5:11: jobs.x.params.n.type: "itn" is not one of text, int, number, bool, json'),
        ("n: {type: int, mni: 1}", '"mni" is not a key of a param\'s kind; did you mean "min"?'),
        ("n: {type: int, min: 3, max: 2}", "jobs.x.params.n.min: 3 is more than the max, 2"),
        ("n: {type: text, min: 3}", "jobs.x.params.n.min: has an effect on numbers alone"),
        ("n: {type: int, min: a}", "jobs.x.params.n.min: 'a' is not a whole number"),
        ("n: {type: int, default: x}", "jobs.x.params.n.default: 'x' is not a whole number; a whole number"),
        ("n: {type: int, max: 3, default: 4}", "jobs.x.params.n.default: 4 is out of range; a whole number to 3"),
        ("n: {type: bool, default: 1}", "jobs.x.params.n.default: 1 is not true or false"),
        (
            "n: {one_of: [eu, us], default: eux}",
            'n.default: "eux" is not one of eu, us; did you mean "eu"?',
        ),
        ("n: {one_of: []}", "jobs.x.params.n.one_of: [] is not a list of values"),
        ("n: {one_of: eu}", 'jobs.x.params.n.one_of: "eu" is not a list of values'),
        ("n: {one_of: [[1]]}", "jobs.x.params.n.one_of[0]: [1] is not a text"),
        ("n: {one_of: [a, b, a]}", 'jobs.x.params.n.one_of[2]: "a" is there twice'),
        ("n: {type: int, one_of: [1, a]}", "jobs.x.params.n.one_of[1]: 'a' is not a whole number"),
        ("n: {type: int, default: 1, description: 7}", "jobs.x.params.n.description: 7 is not a text"),
    ],
)
def test_a_wrong_kind_is_refused_at_its_place(tmp_path: Path, line: str, said: str) -> None:
    assert said in refused(tmp_path, line)


def test_a_scheduled_job_needs_a_default_for_each_param(tmp_path: Path) -> None:
    said = refused(tmp_path, "n: {type: int}", more="    cron: 0 3 * * *\n")
    assert "jobs.x.params.n: has no default, and the job has a schedule" in said
    assert read(tmp_path, "n: {type: int, default: 0}", more="    cron: 0 3 * * *\n").work.params == {"n": 0}


GROUP = "groups:\n  g:\n    members: [{}]\n"


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("x", 'groups.g.members[0]: the job "x" needs the param "n"'),
        ("{job: x, params: {n: 11}}", "groups.g.members[0].params.n: 11 is out of range"),
        ("{job: x, params: {n: 3, m: 1}}", 'groups.g.members[0].params.m: the job "x" has no param "m"'),
    ],
)
def test_a_group_gives_its_members_values_of_their_kinds(tmp_path: Path, member: str, said: str) -> None:
    assert said in refused(tmp_path, "n: {type: int, max: 10}", more=GROUP.format(member))
    read(tmp_path, "n: {type: int, max: 10}", more=GROUP.format("{job: x, params: {n: 3}}"))


def test_kinds_are_stored_and_exported_as_they_were_declared(tmp_path: Path) -> None:
    spec = read(
        tmp_path,
        "region: {one_of: [eu, us, 3, true], default: 3, description: where}",
        "n: {type: number, min: 0.5}",
        "flag: {type: bool, default: false}",
        "odd: {type: json, default: {one_of: [1]}}",
        "day: monday",
    )
    assert decode(JobSpec, encode(spec)) == spec
    folder = tmp_path / "again"
    folder.mkdir()
    (folder / "rota.yaml").write_text(export_text([spec], Top(str(tmp_path), "UTC")))
    [again] = read_project(folder, environment={"HOME": "/home/ops"}).jobs
    assert again.work.param_kinds == spec.work.param_kinds
    assert again.work.params == spec.work.params


@pytest.mark.parametrize(
    ("params", "fits"),
    [
        ({"n": {"type": "int", "min": 1}, "a": 3, "m": {"x": 1}}, True),
        ({"n": {"one_of": ["eu"], "default": "eu"}}, True),
        ({"n": {"type": "itn"}}, False),
        ({"n": {"type": "int", "mni": 1}}, False),
    ],
)
def test_the_schema_of_editors_knows_kinds(params: dict[str, Any], fits: bool) -> None:
    document = {"jobs": {"x": {"command": ["true"], "params": params}}}
    assert Draft202012Validator(json_schema()).is_valid(document) is fits
