"""What the runs of agents are given, in `run --dry-run`, `show`, `explain` and `doctor`."""

import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from rota.model.agents import AgentSession
from rota.model.records import Outcome, Worktree
from rota.model.states import Status
from rota.operations.project.locate import open_state
from rota.store.driver import Database
from rota.store.tables import runs, work_items
from rota.store.tables.work_items import save_session
from tests.faces.conftest import NOON, Project

CLAUDE = '#!/bin/sh\n[ "$1" = --version ] && echo "2.1.259 (Claude Code)"\n'
FILE = """
defaults: {{env: {{PATH: "{folder}/bin:/usr/bin:/bin"}}}}
agents: {{reviewer: {{adapter: claude, model: sonnet}}}}
jobs:
  fix: {{prompt: mend, workspace: worktree, cwd: repository, after: {{command: [git, push]}}}}
  plain: {{prompt: mend, workspace: worktree, cwd: bin}}
  draft: {{prompt: draw, workspace: scratch}}
  talk: {{prompt: go on, session: resume, carry: [last_summary, state]}}
  gated: {{prompt: "New: {{{{ conditions.0.output }}}}", conditions: [{{command: [echo, three PRs]}}]}}
"""


@pytest.fixture
def agents(project: Project) -> Project:
    """A project with a repository of one commit and a program that tells its version."""
    program = project.folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(CLAUDE)
    program.chmod(0o755)
    repository = project.folder / "repository"
    repository.mkdir()
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.net")
    for words in (("init", "-q", "-b", "main"), (*identity, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", *words], cwd=repository, check=True)
    return project.applied(FILE.format(folder=project.folder))


def write(project: Project, operation: Callable[[Database], object]) -> None:
    store = open_state(project.state, project.clock, create=False)
    try:
        store.write(operation)
    finally:
        store.close()


def keep_talking(db: Database, session: AgentSession) -> None:
    job = db.row("job_by_name", name="talk")
    assert job is not None
    save_session(db, job[0], session, run_id="r", now=NOON)


def line(text: str, label: str) -> str:
    """Return what stands behind the label of a line."""
    return next(one.split(maxsplit=1)[1] for one in text.splitlines() if one.strip().startswith(f"{label} "))


def test_a_dry_run_tells_who_would_work_in_which_worktree_and_makes_none(agents: Project) -> None:
    told = agents.ok("run", "fix", "--dry-run")
    head = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"],
        cwd=agents.folder / "repository",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    where = f"a new worktree of main@{head}, branch rota/fix-1"
    assert f"fix, agent reviewer (claude 2.1.259, sonnet), in {where}" in told
    assert line(told, "after") == "git push, in its workspace"
    assert line(told, "command").startswith("claude -p --output-format stream-json")
    assert not (Path(agents.state) / "worktrees").exists()
    assert agents.json("run", "fix", "--dry-run")["agent"]["workspace"] == where


def test_a_dry_run_tells_the_length_of_the_prompt_and_prints_it_when_asked(agents: Project) -> None:
    """R-25: also what the conditions wrote."""
    told = agents.ok("run", "gated", "--dry-run")
    prompt = agents.json("run", "gated", "--dry-run")["agent"]["prompt"]
    assert prompt.endswith("New: three PRs")
    assert line(told, "prompt") == f"{len(prompt):,} characters, shown with --full"
    assert "New: three PRs" not in told
    assert agents.ok("run", "gated", "--dry-run", "--full").rstrip().endswith("New: three PRs")


def test_the_whole_prompt_is_shown_by_a_dry_run_alone(agents: Project) -> None:
    assert "--full belongs to --dry-run" in agents.rota("run", "fix", "--full").stderr


def test_a_dry_run_tells_what_git_would_refuse(agents: Project) -> None:
    told = agents.ok("run", "plain", "--dry-run")
    assert "it would fail at once: git rev-parse failed in" in told
    assert "not a git repository" in told


def test_a_dry_run_tells_the_session_and_what_is_carried_over(agents: Project) -> None:
    assert line(agents.ok("run", "talk", "--dry-run"), "session") == "resume: starts a new one"
    write(agents, lambda db: keep_talking(db, AgentSession("s-7", adapter="claude")))
    told = agents.ok("run", "talk", "--dry-run")
    assert line(told, "session") == "resume: continues s-7"
    assert line(told, "carry") == "the last summary and the job's state"
    assert "--resume=s-7" in line(told, "command")


def test_an_agent_is_denied_the_files_of_rota_the_state_and_git(agents: Project) -> None:
    part = agents.folder / "more.yaml"
    part.write_text("jobs: {other: {command: ls}}\n")
    file = agents.folder / "rota.yaml"
    file.write_text(f"include: [more.yaml]\n{file.read_text()}")
    agents.ok("apply")
    told = line(agents.ok("run", "talk", "--dry-run"), "command")
    for path in (file, part, agents.folder / ".git", Path(agents.state) / "token"):
        assert f"Edit(/{path})" in told
    assert f"Read(/{agents.state}/token)" in told
    assert f"Read(/{part})" not in told


def test_a_stored_session_that_the_program_would_take_for_an_option_starts_nothing(agents: Project) -> None:
    write(agents, lambda db: keep_talking(db, AgentSession("--yolo", adapter="claude")))
    assert "session: '--yolo' begins with `-`" in agents.ok("run", "talk", "--dry-run")


def test_show_tells_what_the_runs_of_a_job_are_given(agents: Project) -> None:
    told = agents.ok("show", "fix")
    assert line(told, "workspace") == "worktree: a git worktree and branch of its own for each run"
    assert line(told, "after") == "git push, in its workspace"
    assert line(agents.ok("show", "talk"), "session") == "resume: each run continues the newest one"


def kept(project: Project) -> Worktree:
    """Leave a run of `fix` that was kept in a worktree."""
    project.ok("trigger", "fix")
    path = Path(project.state) / "worktrees" / "fix-1"
    path.mkdir(parents=True)
    [run] = project.json("history", "fix")
    tree = Worktree(run["id"], "fix:1", "/srv/api", str(path), "rota/fix-1", "4f1c2d9", NOON)
    told = {"workspace": {"kind": "worktree", "path": tree.path, "branch": tree.branch, "base": tree.base}}
    write(project, lambda db: runs.note_decisions(db, tree.run_id, told))
    write(project, lambda db: work_items.store_worktree(db, tree))
    project.carry_out([Outcome(Status.COMPLETED, exit_code=0)])
    write(project, lambda db: work_items.keep_worktree(db, tree, why="it has commits", now=NOON))
    return tree


def test_show_and_explain_name_the_folder_and_branch_that_were_kept(agents: Project) -> None:
    tree = kept(agents)
    where = f"worktree rota/fix-1 in {tree.path}, kept: it has commits"
    assert line(agents.ok("show", "fix:1"), "workspace") == where
    told = agents.ok("explain", "fix:1")
    assert line(told, "workspace") == where
    assert "worktree rota/fix-1" in line(told, "start")
    assert agents.json("show", "fix:1")["workspace"]["kept"] == "it has commits"


def test_doctor_counts_what_was_kept_and_tells_how_it_goes(agents: Project) -> None:
    tree = kept(agents)
    [finding] = [one for one in agents.json("doctor")["findings"] if one["topic"] == "worktrees"]
    assert finding["level"] == "note"
    assert finding["text"] == f"1 kept in {Path(tree.path).parent}: rota/fix-1 (it has commits)"
    assert (
        finding["remedy"]
        == "`rota worktrees` lists them; `rota worktrees merge fix:1`, or `rota worktrees discard fix:1`"
    )


def test_doctor_looks_for_the_program_of_the_step_after_an_agent(project: Project) -> None:
    project.applied("jobs: {fix: {prompt: mend, after: {command: [no-such-program]}}}\n")
    [finding] = [one for one in project.json("doctor")["findings"] if one["topic"] == "PATH"]
    assert finding["text"] == "not found on this PATH: fix: no-such-program"


def test_explain_tells_what_the_runs_of_a_job_are_given(agents: Project) -> None:
    told = agents.ok("explain", "talk")
    assert line(told, "session") == "resume: each run continues the newest one"
    assert line(told, "carry") == "the last summary and the job's state"


# in a container


ENCLOSED = """
agents:
  reader: {{adapter: opencode, model: a/b, account: work}}
  wide: {{adapter: claude, add_dirs: [../other], access: {access}}}
defaults: {{sandbox: {{container: an-image, runtime: {runtime}}}}}
jobs:
  look: {{prompt: look, agent: reader}}
  both: {{prompt: look, agent: wide}}
  tool: {{command: [only-in-the-image, x]}}
"""


def enclosed(
    project: Project, patch: pytest.MonkeyPatch, job: str, *, runtime: str = "docker", access: str = "read"
) -> list[str]:
    """Return the argv of a job whose container runtime is a stand-in."""
    program = project.folder / "bin" / runtime
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (project.folder.parent / "other").mkdir(exist_ok=True)
    patch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    project.applied(ENCLOSED.format(runtime=runtime, access=access))
    argv: list[str] = project.json("run", job, "--dry-run")["argv"]
    return argv


def pairs(argv: list[str], option: str) -> list[str]:
    return [after for word, after in pairwise(argv) if word == option]


def test_an_agent_in_a_container_keeps_the_variables_of_its_access(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenCode gets its permissions in a variable; without it the access would be that of its own settings."""
    argv = enclosed(project, monkeypatch, "look")
    assert {"OPENCODE_CONFIG_CONTENT", "OPENCODE_DISABLE_PROJECT_CONFIG", "XDG_DATA_HOME", "ROTA_JOB_ID"} <= {
        *pairs(argv, "--env")
    }


def test_the_login_folder_of_an_account_is_in_the_container(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = pairs(enclosed(project, monkeypatch, "look"), "--volume")
    assert any(mount.endswith("accounts/opencode/work") for mount in mounts)


@pytest.mark.parametrize(("access", "ending"), [("read", ":ro"), ("write", "")])
def test_further_folders_are_in_the_container_with_the_access_of_the_agent(
    access: str, ending: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = pairs(enclosed(project, monkeypatch, "both", access=access), "--volume")
    other = project.folder.parent / "other"
    assert f"{other}:{other}{ending}" in mounts


@pytest.mark.parametrize(("runtime", "ending"), [("docker", ""), ("podman", ":notmpcopyup")])
def test_a_container_does_not_show_the_state_folder(
    runtime: str, ending: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = enclosed(project, monkeypatch, "tool", runtime=runtime)
    assert pairs(argv, "--tmpfs") == [f"{project.state}{ending}"]


def test_a_link_to_the_project_does_not_show_the_state_folder(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = project.folder.parent / "link"
    link.symlink_to(project.folder)
    enclosed(project, monkeypatch, "tool")
    project.applied(f"jobs: {{tool: {{command: [x], cwd: {link}, sandbox: {{container: an-image}}}}}}\n")
    assert pairs(project.json("run", "tool", "--dry-run")["argv"], "--tmpfs") == [f"{link}/.rota"]


def test_a_program_of_an_image_need_not_be_on_this_machine(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    enclosed(project, monkeypatch, "tool")
    assert "only-in-the-image" not in project.rota("check").stdout
    findings = project.rota("doctor", "--json").stdout
    assert "only-in-the-image" not in findings
