"""The jobs file of document 000: its keys as they are written there, everything else is named."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from rota.declare.importers.jobs_file import PLACEHOLDER, translate_jobs
from rota.declare.importers.translation import Translation
from rota.declare.project import read_project
from rota.declare.sections import POLL
from rota.declare.yaml import parse
from rota.model.errors import FileProblems
from rota.model.spec import JobSpec, Kind, Names

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

    def find(self, functions: Sequence[str], conditions: Sequence[str]) -> Names:
        return Names()


def imported(text: str = JOBS) -> Translation:
    return translate_jobs(parse(text.encode(), "jobs.yaml"), timezone="Europe/Rome")


def read(text: str) -> Mapping[str, JobSpec]:
    """Return what the new file declares, by name."""
    content = imported(text).text.encode()
    found = read_project(Path("/p"), environment={}, functions=EveryName(), content=content)
    return {spec.name: spec for spec in found.jobs}


def told(text: str) -> list[str]:
    return [remark.message for remark in imported(text).by_hand]


def test_script_jobs_keep_their_keys_as_written() -> None:
    jobs = read(JOBS)
    seconds = {name: spec.schedule.interval.total_seconds() for name, spec in jobs.items() if spec.schedule.interval}
    expected = {"check_finished_agents": 10, "register_orchestrator": 300, "sweep_stale_worktrees": 3600}
    assert {name: seconds[name] for name in expected} == expected
    assert jobs["check_finished_agents"].work.function == "orchestrator.jobs:check_finished_agents"
    assert [gate.name for gate in jobs["sweep_stale_worktrees"].gates.conditions] == ["no_agents_running"]
    assert not jobs["sweep_stale_worktrees"].enabled
    assert jobs["sweep_stale_worktrees"].work.timeout is None
    scripts = [name for name, spec in jobs.items() if spec.work.kind is Kind.FUNCTION]
    assert {name: jobs[name].gates.needs_poll for name in scripts} == {
        "check_finished_agents": False,
        "register_orchestrator": True,
        "sweep_stale_worktrees": False,
    }


def test_remote_jobs_bring_a_poll_to_fill_in() -> None:
    """R-16: as often as the most frequent of them, at an address that cannot be until somebody writes the real one."""
    poll = read(JOBS)[POLL]
    assert poll.work.url == PLACEHOLDER
    assert poll.schedule.interval == timedelta(minutes=5)
    assert any(text.startswith("poll.url: write the address") for text in told(JOBS))
    assert "poll.interval: 300" in [kept.key for kept in imported().kept]


def test_a_file_without_remote_jobs_has_no_poll() -> None:
    text = "jobs: {a: {interval: 10, type: script, run: a, group: local}}\n"
    assert set(read(text)) == {"a"}
    assert not any("poll" in remark for remark in told(text))


def test_a_job_without_a_group_is_local_here_and_that_is_told() -> None:
    """R-16, section 13: 000's default was remote, rota's is local."""
    text = "jobs: {a: {interval: 10, type: script, run: a}}\n"
    assert not read(text)["a"].gates.needs_poll
    assert (
        "a has no group, which octopoid read as remote; here it is local and runs without the poll's data: add "
        in (told(text)[0])
    )


def test_a_condition_that_looks_at_the_poll_makes_its_job_remote() -> None:
    text = "jobs: {a: {interval: 10, type: script, run: a, conditions: [has_open_prs]}}\n"
    jobs = read(text)
    assert jobs["a"].gates.needs_poll
    assert jobs[POLL].work.url == PLACEHOLDER
    assert not any("names no group" in remark for remark in told(text))
    assert any("has_open_prs is built in: `queue_counts.provisional`" in remark for remark in told(text))


def test_conditions_of_the_project_are_asked_for() -> None:
    text = "jobs: {a: {interval: 10, type: script, run: 'm:a', group: local, conditions: [quiet_office]}}\n"
    assert "conditions quiet_office: add the modules that register them to `imports:`" in told(text)


def test_every_key_is_either_written_or_named() -> None:
    """Each key of the old file is a key of the new one, means what rota does anyway, or stands in the report."""
    found, raw = imported(), parse(JOBS.encode()).data["jobs"]
    told = " ".join(remark.message for remark in (*found.by_hand, *found.left_out))
    written = {job.name: job.keys for job in found.jobs}
    for name, body in raw.items():
        for key, value in body.items():
            kept = name in written and written[name].get(key) == value
            assert kept or name in told, (name, key)


def test_an_agents_job_is_carried_over() -> None:
    keys = {job.name: job.keys for job in imported().jobs}["review_stale_prs"]
    assert (keys["type"], keys["max_turns"]) == ("agent", 10)
    assert keys["prompt"].startswith("Review open PRs: older than 48 hours.\n")


def test_a_job_that_has_no_place_stays_as_a_comment() -> None:
    odd = "  b:\n    type: daemon\n    prompt: |\n      one: 1\n      # two\n"
    found = imported(f"jobs:\n  a: {{interval: 10, run: a, group: local}}\n{odd}")
    assert [remark.message.split()[0] for remark in found.left_out] == ["b"]
    assert "  #       one: 1\n" in found.text
    assert set(parse(found.text.encode()).data["jobs"]) == {"a"}


def test_modules_of_functions_are_imported_and_the_others_asked_for() -> None:
    assert parse(imported().text.encode()).data["imports"] == ["orchestrator.jobs"]
    assert "functions register_orchestrator: add the modules that register them to `imports:`" in told(JOBS)


@pytest.mark.parametrize("entry", ["a: 1", "- 1", "- {interval: 5}"])
def test_an_entry_that_is_no_job_does_not_refuse_the_others(entry: str) -> None:
    other = "- {name: b, interval: 10}" if entry.startswith("-") else "b: {interval: 10}"
    found = imported(f"jobs:\n  {entry}\n  {other}\n")
    assert [job.name for job in found.jobs] == ["b"]
    assert [one.line for one in found.left_out] == [2]


@pytest.mark.parametrize("text", ["jobs: 1\n", "agents: {}\n", "jobs: {}\nother: 1\n"])
def test_another_file_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(FileProblems) as caught:
        imported(text)
    assert caught.value.problems[0].code == "jobs_file"
    assert caught.value.problems[0].line >= 1
