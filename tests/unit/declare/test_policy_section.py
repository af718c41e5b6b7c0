"""`agent_policy:` and `rota_tools` in a file, and jobs that are declared beside the file's own (section 8, R-30)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.declare.test_agents import asked, problems, read

from rota.declare.project import read_further
from rota.model.agents import Access
from rota.model.errors import JobProblems
from rota.model.proposals import AgentPolicy, Approval
from rota.model.spec import JobSpec

JOB = 'jobs: {a: {command: "true"}}\n'
FURTHER = """
timezone: Europe/Berlin
agents: {reviewer: {adapter: claude, model: haiku}}
budgets: {day: {runs: 9, per: day}}
defaults: {budget: day}
jobs: {broken: {cron: nonsense}, other: {command: "true"}}
groups: {nightly: {members: [other]}}
"""


def test_the_limits_are_these_unless_the_file_says_otherwise() -> None:
    assert read(JOB).settings.agent_policy == AgentPolicy(
        enabled=True,
        max_active=20,
        creations_per_hour=30,
        min_interval=timedelta(minutes=5),
        expires_after=timedelta(days=30),
        max_depth=2,
        approval=Approval.NONE,
        access=Access.FULL,
    )


def test_every_limit_can_be_set() -> None:
    text = (
        "agent_policy: {enabled: false, max_active: 3, creations_per_hour: 4, min_interval: 1h, expires_after: 7d, "
        f"max_depth: 0, approval: required, access: read}}\n{JOB}"
    )
    assert read(text).settings.agent_policy == AgentPolicy(
        enabled=False,
        max_active=3,
        creations_per_hour=4,
        min_interval=timedelta(hours=1),
        expires_after=timedelta(days=7),
        max_depth=0,
        approval=Approval.REQUIRED,
        access=Access.READ,
    )


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("max_activ: 3", "did you mean"),
        ("max_active: 0", "max_active"),
        ("approval: maybe", "approval"),
        ("access: root", "access"),
        ("min_interval: often", "min_interval"),
        ("max_depth: 11", "max_depth"),
    ],
)
def test_a_wrong_limit_is_told_with_its_key(written: str, told: str) -> None:
    [problem] = problems(f"agent_policy: {{{written}}}\n{JOB}")
    assert problem.startswith("rota.yaml:1:")
    assert told in problem


def test_an_agent_or_a_job_gets_the_tools() -> None:
    assert asked("agents: {r: {adapter: claude, rota_tools: true}}\njobs: {a: {prompt: x}}\n").rota_tools
    assert asked("jobs: {a: {prompt: x, agent: codex, rota_tools: true}}\n").rota_tools
    assert not asked("jobs: {a: {prompt: x}}\n").rota_tools
    own = "agents: {r: {adapter: claude, rota_tools: true}}\njobs: {a: {prompt: x, rota_tools: false}}\n"
    assert not asked(own).rota_tools


@pytest.mark.parametrize("adapter", ["gemini"])
def test_r_30_a_program_that_cannot_be_given_tools_is_refused(adapter: str) -> None:
    [problem] = problems(f"jobs:\n  a: {{prompt: x, agent: {adapter}, rota_tools: true}}\n")
    assert f"{adapter} cannot be given tools" in problem


def test_tools_are_for_agents_alone() -> None:
    assert problems('jobs: {a: {command: "true", rota_tools: true}}\n')


def further(tmp_path: Path, **keys: Any) -> JobSpec:
    (tmp_path / "rota.yaml").write_text(FURTHER)
    return read_further(tmp_path, "watch", keys, environment={"HOME": str(tmp_path)})


def test_a_further_job_is_declared_by_the_sections_of_the_file_and_not_by_its_jobs(tmp_path: Path) -> None:
    spec = further(tmp_path, task="look", cron="0 9 * * *")
    assert (spec.name, spec.schedule.timezone) == ("watch", "Europe/Berlin")
    assert spec.work.agent is not None
    assert (spec.work.agent.agent, spec.work.agent.model) == ("reviewer", "haiku")
    assert [spend.account for spend in spec.budgets] == ["day"]


def test_what_is_wrong_with_a_further_job_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(JobProblems) as caught:
        further(tmp_path, task="look", cron="nonsense", access="root")
    assert {problem.path for problem in caught.value.problems} == {"jobs.watch.cron", "jobs.watch.access"}


def test_a_further_job_of_an_included_project_is_declared_by_that_one(tmp_path: Path) -> None:
    inner = tmp_path / "code" / "api"
    inner.mkdir(parents=True)
    (inner / "rota.yaml").write_text("timezone: Asia/Tokyo\nagents: {mine: {adapter: codex}}\njobs: {}\n")
    (tmp_path / "rota.yaml").write_text('include: ["code/*/rota.yaml"]\nagents: {other: {adapter: claude}}\n')
    environment = {"HOME": str(tmp_path)}
    spec = read_further(tmp_path, "watch", {"task": "look", "cron": "0 9 * * *"}, environment=environment, inner=inner)
    assert (spec.name, spec.schedule.timezone, spec.work.project) == ("api/watch", "Asia/Tokyo", str(inner))
    assert spec.work.agent is not None
    assert spec.work.agent.adapter == "codex"
    gone = tmp_path / "elsewhere"
    with pytest.raises(JobProblems):
        read_further(tmp_path, "watch", {"task": "look"}, environment=environment, inner=gone)
