"""What the runs of an agent are given beyond their task, as a file says it: session, carry, workspace, after."""

from datetime import timedelta

import pytest
from tests.unit.declare.test_agents import FOLDER, asked, job, problems, read

from rota.declare.export import Top, export_keys
from rota.declare.plan import differences
from rota.model.spec import AfterStep, Carry, SessionMode, StepFolder, Workspace
from rota.settings import SchedulerSettings

CUSTOM = "agents: {mine: {adapter: custom, access: full, options: {argv: [mine]}}}\n"


def test_a_job_that_says_nothing_begins_afresh_in_the_project() -> None:
    work = asked("jobs: {j: {prompt: x}}\n")
    assert (work.session, work.carry, work.workspace, work.after) == (SessionMode.FRESH, (), Workspace.PROJECT, None)


def test_a_job_says_what_its_runs_are_given() -> None:
    work = asked("jobs: {j: {prompt: x, session: resume, carry: last_summary, after: {command: [gh, pr, create]}}}\n")
    assert (work.session, work.carry) == (SessionMode.RESUME, (Carry.LAST_SUMMARY,))
    assert work.after == AfterStep(command=("gh", "pr", "create"))


def test_what_is_carried_may_be_a_list() -> None:
    work = asked("jobs: {j: {prompt: x, carry: [state, last_summary, state]}}\n")
    assert work.carry == (Carry.STATE, Carry.LAST_SUMMARY)
    assert asked("defaults: {carry: state}\njobs: {j: {prompt: x, carry: []}}\n").carry == ()


def test_a_step_may_be_a_text_for_the_shell_in_the_project() -> None:
    work = asked("jobs: {j: {prompt: x, after: {shell: make report | tail -1, cwd: project}}}\n")
    assert work.after == AfterStep(shell="make report | tail -1", cwd=StepFolder.PROJECT)


def test_an_agent_says_where_its_jobs_work_and_whether_they_resume_and_a_job_goes_before_it() -> None:
    agents = "agents: {r: {adapter: claude, session: resume}, f: {adapter: codex, workspace: worktree}}\n"
    jobs = "jobs: {a: {agent: r, prompt: x}, b: {agent: f, prompt: x}, c: {agent: f, prompt: x, workspace: scratch}}\n"
    found = read(agents + jobs)
    works = [spec.work.agent for spec in found.jobs]
    assert [(work.session.value, work.workspace.value) for work in works if work] == [
        ("resume", "project"),
        ("fresh", "worktree"),
        ("fresh", "scratch"),
    ]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("session: resumed", "jobs.j.session"),
        ("carry: summary", "jobs.j.carry"),
        ("carry: [state, summary]", "jobs.j.carry[1]"),
        ("workspace: tree", "jobs.j.workspace"),
        ("after: make", "members of a group"),
        ("after: {cwd: workspace}", "needs either `command` or `shell`"),
        ("after: {command: [a], shell: b}", "needs either `command` or `shell`"),
        ("after: {command: [a], cwd: home}", "jobs.j.after.cwd"),
        ("after: {command: [a], timeout: 5m}", "jobs.j.after.timeout: unknown key"),
        ("after: {command: 'a | b'}", "which needs a shell"),
        ("after: {command: ['{{ item.title }}']}", "is allowed only in prompts"),
        ("after: {command: ['{{ params.x }}']}", 'the job has no param "x"'),
        ("after: {shell: 'echo {{ job }}'}", "is not filled in `shell`"),
        ("session: resume, workspace: worktree", "a session belongs to its folder"),
        ("session: resume, workspace: scratch", "a session belongs to its folder"),
    ],
)
def test_what_cannot_be_is_told_with_its_place(keys: str, told: str) -> None:
    [message] = problems(f"jobs: {{j: {{prompt: x, {keys}}}}}\n")
    assert told in message


def test_r_30_an_agent_that_knows_no_sessions_is_not_told_to_resume_one() -> None:
    """R-30: nothing is accepted and ignored."""
    [message] = problems(f"{CUSTOM}jobs: {{j: {{prompt: x, access: full, session: resume}}}}\n")
    assert "custom cannot continue a session; write `session: fresh`, and `carry: last_summary`" in message


@pytest.mark.parametrize("key", ["session: fresh", "carry: state", "workspace: scratch", "after: {command: [b]}"])
def test_they_have_no_effect_on_other_jobs(key: str) -> None:
    [message] = problems(f"jobs: {{j: {{command: [a], {key}}}}}\n")
    assert "has no effect without an agent's work" in message


def test_r_25_a_prompt_names_what_its_conditions_wrote() -> None:
    """R-25."""
    asked("jobs: {j: {prompt: 'Look: {{ conditions.0.output }}', conditions: [{command: [a]}]}}\n")
    [message] = problems("jobs: {j: {prompt: 'Look: {{ conditions.1.output }}', conditions: [{command: [a]}]}}\n")
    assert "jobs.j.prompt: the job has no condition 1; they are numbered from 0" in message
    [message] = problems("jobs: {j: {command: [a, '{{ conditions.0.output }}'], conditions: [{command: [a]}]}}\n")
    assert "is allowed only in prompts" in message


def test_r_25_a_prompt_names_its_item_only_where_there_is_one() -> None:
    """R-25."""
    [message] = problems("jobs: {j: {task: 'Fix {{ item.title }}'}}\n")
    assert "needs a work item; add `work_source:` to the job" in message


def test_they_are_exported_and_read_again() -> None:
    text = (
        "jobs: {j: {prompt: x, workspace: worktree, carry: [state, last_summary], "
        "after: {command: [gh, pr], cwd: project}}, k: {prompt: x, session: resume, after: {shell: make}}}\n"
    )
    top = Top(folder=str(FOLDER))
    keys = [export_keys(spec, top) for spec in read(text).jobs]
    assert keys[0]["after"] == {"command": ["gh", "pr"], "cwd": "project"}
    assert (keys[0]["workspace"], keys[0]["carry"]) == ("worktree", ["state", "last_summary"])
    assert (keys[1]["session"], keys[1]["after"]) == ("resume", {"shell": "make"})


def test_a_change_of_them_is_told() -> None:
    before = job("jobs: {j: {prompt: x, after: {command: [a]}}}\n")
    after = job("jobs: {j: {prompt: x, workspace: scratch, after: {command: [a], cwd: project}}}\n")
    assert differences(before, after) == (
        'workspace "project" -> "scratch"',
        'after ["a"] in workspace -> ["a"] in project',
    )


def test_agents_have_a_grace_of_their_own_at_shutdown() -> None:
    """R-08."""
    assert SchedulerSettings().agent_shutdown_grace == timedelta(minutes=10)
    found = read("scheduler: {agent_shutdown_grace: 1h}\njobs: {j: {prompt: x}}\n").settings.scheduler
    assert (found.shutdown_grace, found.agent_shutdown_grace) == (timedelta(seconds=30), timedelta(hours=1))
