"""`groups:` of a file (R-15): every refusal with its exact line, defaults that fit, and the spec that comes out."""

from datetime import timedelta

import pytest

from rota.declare.project import read_project
from rota.model.errors import FileProblems
from rota.model.serialize import decode, encode
from rota.model.spec import GroupMode, JobSpec, Kind, Member, MisfirePolicy, OnFailure, OverlapPolicy, Retry

JOBS = """jobs:
  extract: {command: [./extract.py]}
  transform: {command: [./transform.py], params: {full: true, day: 1}}
  load: {command: [./load.py]}
  off: {command: [./off.py], enabled: false}
"""


def declared(tmp_path, groups, *, before="", jobs=JOBS):
    (tmp_path / "rota.yaml").write_text(f"{before}{jobs}{groups}")
    return {spec.name: spec for spec in read_project(tmp_path, environment={}).jobs}


def problems(tmp_path, groups, **changes):
    with pytest.raises(FileProblems) as raised:
        declared(tmp_path, groups, **changes)
    return [str(problem) for problem in raised.value.problems]


def refusal(tmp_path, body):
    """Return what is said of a group `g` whose body begins in line 8, without the file's name."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return [text.removeprefix("rota.yaml:") for text in problems(tmp_path, f"groups:\n  g:\n{lines}")]


def test_a_group_becomes_a_job_of_its_own_kind(tmp_path):
    found = declared(
        tmp_path,
        """groups:
  nightly:
    cron: "0 1 * * *"
    mode: sequential
    on_failure: continue
    overlap: queue
    members:
      - extract
      - {job: transform, params: {full: false}}
      - {job: load, always: true}
""",
    )
    spec = found["nightly"]
    assert spec.work.kind is Kind.GROUP
    assert spec.work.members == (Member("extract"), Member("transform", {"full": False}), Member("load", always=True))
    assert (spec.work.mode, spec.work.on_failure) == (GroupMode.SEQUENTIAL, OnFailure.CONTINUE)
    assert (spec.schedule.cron, spec.overlap.policy) == (("0 1 * * *",), OverlapPolicy.QUEUE)
    assert decode(JobSpec, encode(spec)) == spec


def test_a_group_without_words_runs_in_sequence_stops_at_a_failure_and_is_never_retried(tmp_path):
    """R-15: without automatic retry; no timeout applies."""
    spec = declared(tmp_path, "groups: {g: {members: [extract]}}\n")["g"]
    assert (spec.work.mode, spec.work.on_failure) == (GroupMode.SEQUENTIAL, OnFailure.STOP)
    assert (spec.retry, spec.work.timeout, spec.schedule.manual) == (Retry(max_attempts=1), None, True)


def test_defaults_that_a_group_knows_apply_to_it_and_others_do_not(tmp_path):
    before = """timezone: Europe/Berlin
defaults: {misfire: once, timeout: 1h, cwd: /srv, labels: [etl], env: {A: b}, misfire_grace: 5m}
"""
    spec = declared(
        tmp_path, 'groups: {g: {cron: "0 1 * * *", members: [extract], labels: [nightly]}}\n', before=before
    )["g"]
    assert (spec.schedule.timezone, spec.misfire.policy) == ("Europe/Berlin", MisfirePolicy.ONCE)
    assert (spec.misfire.grace, spec.labels) == (timedelta(minutes=5), ("etl", "nightly"))
    assert (spec.work.timeout, spec.work.cwd, spec.work.env) == (None, ".", ())


def test_a_job_may_stand_in_several_groups_and_twice_in_one(tmp_path):
    found = declared(tmp_path, "groups: {a: {members: [load, load]}, b: {members: [load], mode: parallel}}\n")
    assert [member.job for member in found["a"].work.members] == ["load", "load"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("members: [extrct]", '8:15: groups.g.members[0]: no job is named "extrct"; did you mean "extract"?'),
        ("members: [zzz]", '8:15: groups.g.members[0]: no job is named "zzz"; declare it under `jobs:`'),
        ("members: [g]", '8:15: groups.g.members[0]: "g" is a group, and groups cannot contain groups; name its jobs'),
        (
            "members: [off]",
            '8:15: groups.g.members[0]: the job "off" is disabled; enable it, or remove it from the group',
        ),
        (
            "members: [{job: transform, params: {ful: false}}]",
            '8:41: groups.g.members[0].params.ful: the job "transform" has no param "ful"; its params: day, full',
        ),
        (
            "members: [{job: load, params: {x: 1}}]",
            (
                '8:36: groups.g.members[0].params.x: the job "load" has no param "x"; '
                "declare it in that job: `params: {x: …}`"
            ),
        ),
        ("members: []", "8:5: groups.g.members: has no members; name at least one job: `members: [extract, load]`"),
        ("mode: parallel", "7:3: groups.g: has no members; name at least one job: `members: [extract, load]`"),
        (
            "members: [{job: load, always: true}]",
            (
                "8:5: groups.g.members: every member is `always`; "
                "`always` members run when the others are final; remove it where there are no others"
            ),
        ),
        (
            "members: [{params: {full: true}}]",
            (
                "8:15: groups.g.members[0]: names no job; "
                "write a job's name, or {job: name, params: {full: false}, always: true}"
            ),
        ),
        (
            "members: [{job: load, when: x}]",
            "8:27: groups.g.members[0].when: unknown key; a member has the keys job, params, always",
        ),
        (
            "members: [{job: load, always: 1}]",
            "8:27: groups.g.members[0].always: 1 is not true or false",
        ),
        (
            "members: [3]",
            (
                "8:15: groups.g.members[0]: 3 is not a member; "
                "write a job's name, or {job: name, params: {full: false}, always: true}"
            ),
        ),
        ("members: load", '8:5: groups.g.members: "load" is not a list; write `members: [load]`'),
        (
            "members: [load]\ntimeout: 1h",
            "9:5: groups.g.timeout: has no effect on a group; write it in the jobs of its members",
        ),
        (
            "members: [load]\npriority: 5",
            "9:5: groups.g.priority: has no effect on a group; write it in the jobs of its members",
        ),
        (
            "members: [load]\ncommand: x",
            "9:5: groups.g.command: has no effect on a group; write it in the jobs of its members",
        ),
        (
            "members: [load]\njitter: 10%",
            (
                "9:5: groups.g.jitter: has no effect without `cron` or `interval`; "
                "add `cron` or `interval`, or remove this line"
            ),
        ),
        (
            "members: [load]\nmode: paralel",
            '9:5: groups.g.mode: "paralel" is not one of sequential, parallel; did you mean "parallel"?',
        ),
        ("members: [load]\nparallel: true", "9:5: groups.g.parallel: unknown key; write `mode: parallel`"),
        ("jobs: [load]\nmembers: [load]", "8:5: groups.g.jobs: unknown key; write `members: [extract, load]`"),
        (
            'members: [load]\ncron: "0 1 * * *"\ninterval: 1h',
            "10:5: groups.g.interval: a group has one schedule, and this one has `cron` already; keep one of them",
        ),
    ],
)
def test_a_refused_group_is_told_with_place_value_and_hint(tmp_path, body, said):
    """DEC-012."""
    assert refusal(tmp_path, body) == [said]


def test_a_group_with_more_than_a_thousand_members_is_refused(tmp_path):
    assert declared(tmp_path, f"groups: {{g: {{members: [{', '.join(['load'] * 1000)}]}}}}\n")
    [told] = problems(tmp_path, f"groups: {{g: {{members: [{', '.join(['load'] * 1001)}]}}}}\n")
    assert told.endswith("groups.g.members: has 1,001 members; at most 1,000; make several groups")


def test_a_group_and_a_job_cannot_share_a_name(tmp_path):
    told = problems(tmp_path, "groups:\n  load: {members: [extract]}\n  Extract: {members: [load]}\n")
    assert told == [
        "rota.yaml:7:3: groups.load: a job of this name already exists; choose another name",
        'rota.yaml:8:3: groups.Extract: differs from "extract" in case only; choose another name',
    ]


def test_a_group_that_is_no_map_is_told(tmp_path):
    assert problems(tmp_path, "groups: [a]\n") == [
        "rota.yaml:6:1: groups: is not a map of groups; write each group under its name"
    ]
    assert problems(tmp_path, "groups: {g: }\n")[0].endswith(
        "groups.g: has no members; name at least one job: `members: [extract, load]`"
    )


def test_a_member_with_problems_of_its_own_is_told_once(tmp_path):
    jobs = "jobs:\n  load: {command: [a], timeout: x}\n"
    [told] = problems(tmp_path, "groups: {g: {members: [load]}}\n", jobs=jobs)
    assert told.startswith("rota.yaml:2:24: jobs.load.timeout")


def test_a_disabled_group_may_name_a_disabled_job(tmp_path):
    assert declared(tmp_path, "groups: {g: {members: [off], enabled: false}}\n")["g"].enabled is False


@pytest.mark.parametrize("word", ["depends_on", "needs", "after", "group"])
def test_a_job_that_names_another_is_pointed_at_groups(tmp_path, word):
    [told] = problems(tmp_path, "", jobs=f"jobs:\n  a: {{command: [a], {word}: b}}\n")
    assert "jobs that belong together are members of a group" in told
