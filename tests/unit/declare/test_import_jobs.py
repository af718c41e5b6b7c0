"""The jobs file of document 000: its keys as they are written there, everything else named."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from rota.declare.files import parse
from rota.declare.importing.jobs_file import translate_jobs
from rota.declare.importing.report import Translation
from rota.declare.spec import JobEntry
from rota.declare.validate import read_project
from rota.model.errors import FileProblems

JOBS = """
jobs:
  check_finished_agents: {interval: 10, type: script, run: "orchestrator.jobs:check_finished_agents", group: local}
  register_orchestrator: {interval: 300, type: script, run: register_orchestrator, group: remote}
  sweep_stale_worktrees:
    interval: 3600
    type: script
    run: orchestrator.jobs:sweep_stale_worktrees
    group: local
    enabled: false
    conditions:
      - no_agents_running
  review_stale_prs:
    interval: 7200
    type: agent
    prompt: |
      Review open PRs: older than 48 hours.
      # no comment
    max_turns: 10
"""


class EveryName:
    """Knows every function and condition."""

    def find(self, functions: Sequence[str], conditions: Sequence[str]) -> Mapping[str, str]:
        return {}


def imported(text: str = JOBS) -> Translation:
    return translate_jobs(parse(text.encode(), "jobs.yaml"), timezone="Europe/Rome")


def test_script_jobs_keep_their_keys_as_written() -> None:
    content = imported().text.encode()
    jobs = {
        job.name: job for job in read_project(Path("/p"), environment={}, functions=EveryName(), content=content).jobs
    }
    assert {
        name: int(job.schedule.interval.total_seconds()) for name, job in jobs.items() if job.schedule.interval
    } == {
        name: seconds
        for name, seconds in {
            "check_finished_agents": 10,
            "register_orchestrator": 300,
            "sweep_stale_worktrees": 3600,
            "review_stale_prs": 7200,
        }.items()
        if name in jobs
    }
    assert jobs["check_finished_agents"].work.function == "orchestrator.jobs:check_finished_agents"
    assert [gate.name for gate in jobs["sweep_stale_worktrees"].gates.conditions] == ["no_agents_running"]
    assert not jobs["sweep_stale_worktrees"].enabled
    assert jobs["sweep_stale_worktrees"].work.timeout is None


def test_every_key_is_either_written_or_named() -> None:
    """Each key of the old file is a key of the new one, means what rota does anyway, or stands in the report."""
    found, raw = imported(), parse(JOBS.encode()).data["jobs"]
    told = " ".join(remark.text for remark in (*found.by_hand, *found.left_out))
    written = {job.name: job.keys for job in found.jobs}
    for name, body in raw.items():
        for key, value in body.items():
            kept = name in written and written[name].get(key) == value
            assert kept or (key, value) == ("group", "local") or name in told, (name, key)


def test_a_job_that_has_no_place_yet_stays_as_a_comment() -> None:
    if "prompt" in JobEntry.model_fields:
        pytest.skip("this version knows agent jobs")
    found = imported()
    assert [remark.text.split()[0] for remark in found.left_out] == ["review_stale_prs"]
    assert "  #       Review open PRs: older than 48 hours.\n" in found.text
    assert set(parse(found.text.encode()).data["jobs"]) == {job.name for job in found.jobs}


def test_modules_of_functions_are_imported_and_the_others_asked_for() -> None:
    found = imported()
    assert parse(found.text.encode()).data["imports"] == ["orchestrator.jobs"]
    told = [remark.text for remark in found.by_hand if remark.line == 0]
    assert any("no_agents_running" in text or "register_orchestrator" in text for text in told)


@pytest.mark.parametrize("text", ["jobs: [1]\n", "agents: {}\n", "jobs: {a: 1}\n", "jobs: {}\nother: 1\n"])
def test_another_file_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(FileProblems) as caught:
        imported(text)
    assert caught.value.problems[0].code == "jobs_file"
    assert caught.value.problems[0].line >= 1
