"""Workspaces of agents: worktrees made, kept and removed with a real git, processes by script (section 8)."""

import os
import subprocess
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec.structs import replace

from rota.engine.loops.loop import pause_for
from rota.engine.transactions.claim import Claimed
from rota.model.errors import SessionUnusable, StateError
from rota.model.records import Outcome, Worktree
from rota.model.spec import JobSpec, Workspace
from rota.model.states import Reason, Status
from rota.operations.runs import show_run
from rota.store.tables import work_items
from rota.testing.doubles import Script, ScriptedProcesses
from rota.testing.scene import Scene
from rota.text.jobs import say_workspace
from tests.engine.agent_jobs import agent
from tests.engine.test_sessions import DONE, fork
from tests.scene import one_machine
from tests.waiting import LONGEST_WAIT

pytestmark = pytest.mark.anyio

FAILED = Outcome(Status.FAILED, Reason.AGENT_ERROR, error="no")
HOUR = timedelta(hours=1)


def git(folder: Path | str, *words: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.net")
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit and a folder below its top."""
    folder = tmp_path / "repository"
    (folder / "service").mkdir(parents=True)
    (folder / "service" / "code").write_text("one\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def fixer(
    repository: Path, name: str = "fix", *, below: str = "", workspace: Workspace = Workspace.WORKTREE
) -> JobSpec:
    return agent(name, cwd=str(repository / below), workspace=workspace)


async def until(scene: Scene, reached: Callable[[], bool]) -> None:
    """Let the scene go on until something is so: git works in threads of its own."""
    for _ in range(round(LONGEST_WAIT / 0.02)):
        await scene.settle()
        if reached():
            return
        await pause_for(timedelta(seconds=0.02))
    raise AssertionError("it did not come")


async def run_through(scene: Scene, name: str = "fix") -> None:
    """Start a job and see its run recorded and its worktree looked at."""
    before = len(scene.history(name))
    scene.trigger(name)
    await until(scene, lambda: len(scene.history(name)) > before and scene.history(name)[-1].status.final)
    await scene.engine.workspace_loop.turn()
    assert scene.engine.workspace_loop.pulse.error is None


async def running(scene: Scene, name: str = "fix") -> Worktree:
    """Start a job that takes an hour; return its worktree."""
    scene.processes.scripts[name] = Script(takes=HOUR)
    scene.trigger(name)
    await until(scene, lambda: scene.history(name)[-1].status is Status.RUNNING)
    found = of(scene, name)
    assert found is not None
    return found


def of(scene: Scene, name: str = "fix") -> Worktree | None:
    """Return the worktree of a job's newest run."""
    return scene.store.read(partial(work_items.worktree_of_run, run_id=scene.history(name)[-1].id))


async def ended(scene: Scene, name: str = "fix", ending: Outcome | None = None) -> None:
    """End the running process of a job, and see what becomes of its worktree."""
    scene.processes.living[scene.history(name)[-1].id].end(ending)
    await until(scene, lambda: scene.history(name)[-1].status.final)
    await scene.engine.workspace_loop.turn()


def there(path: str) -> bool:
    return Path(path).is_dir()


def move(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def branches(repository: Path) -> list[str]:
    return git(repository, "branch", "--format=%(refname:short)").split()


async def test_a_run_works_in_a_worktree_with_a_branch_of_its_own(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository, below="service"))
    tree = await running(scene)
    assert (Path(tree.path) / "service" / "code").read_text() == "one\n"
    assert Path(tree.path).parent == scene.settings.state / "worktrees"
    assert git(tree.path, "branch", "--show-current") == tree.branch == "rota/fix-1"
    told = scene.history("fix")[-1].decisions["workspace"]
    assert (told["kind"], told["path"], told["branch"]) == ("worktree", tree.path, tree.branch)


class Seeing(ScriptedProcesses):
    """Processes that tell where each was to work."""

    folders: ClassVar[list[str | None]] = []

    async def prepare(self, claimed: Claimed) -> Claimed:
        self.folders.append(claimed.brief.workspace)
        return await super().prepare(claimed)


async def test_a_folder_below_the_top_stays_below_it(scene: Scene, repository: Path) -> None:
    await scene.crash()
    scene.processes = Seeing(scene.clock)
    await scene.start()
    scene.declare(fixer(repository, below="service"))
    await run_through(scene)
    assert Seeing.folders == [str(scene.settings.state / "worktrees" / "fix-1" / "service")]


async def test_a_worktree_that_holds_nothing_goes_with_its_branch(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository))
    tree = await running(scene)
    await ended(scene)
    assert scene.told("fix") == [("COMPLETED", None)]
    assert (there(tree.path), of(scene), branches(repository)) == (False, None, ["main"])
    assert git(repository, "worktree", "list").count("\n") == 0


async def test_commits_are_never_removed(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository))
    tree = await running(scene)
    git(tree.path, "commit", "-q", "--allow-empty", "-m", "work")
    await ended(scene)
    kept = of(scene)
    assert kept is not None
    assert (kept.kept_why, branches(repository)) == ("it has commits", ["main", "rota/fix-1"])
    assert git(repository, "log", "-1", "--format=%s", "rota/fix-1") == "work"


async def test_commits_on_another_branch_keep_it_too(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository))
    tree = await running(scene)
    git(tree.path, "checkout", "-q", "-b", "own")
    git(tree.path, "commit", "-q", "--allow-empty", "-m", "work")
    await ended(scene)
    kept = of(scene)
    assert kept is not None
    assert kept.kept_why == "it has commits"


async def test_changes_that_are_not_committed_are_never_removed(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository))
    tree = await running(scene)
    (Path(tree.path) / "new").write_text("work\n")
    await ended(scene)
    kept = of(scene)
    assert kept is not None
    assert (kept.kept_why, (Path(tree.path) / "new").read_text()) == ("it has uncommitted changes", "work\n")


async def test_the_worktree_of_a_run_that_failed_is_kept(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository))
    tree = await running(scene)
    await ended(scene, ending=FAILED)
    kept = of(scene)
    assert kept is not None
    assert (kept.kept_why, there(tree.path)) == ("the run failed", True)
    assert scene.told("fix") == [("FAILED", "agent_error")]


async def test_a_name_that_is_taken_gets_a_number(scene: Scene, repository: Path) -> None:
    git(repository, "branch", "rota/fix-1")
    (scene.settings.state / "worktrees" / "fix-1-2").mkdir(parents=True)
    scene.declare(fixer(repository))
    tree = await running(scene)
    assert (tree.branch, Path(tree.path).name) == ("rota/fix-1-2", "fix-1-2-2")


async def test_without_a_repository_the_run_fails_with_the_words_of_git(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    scene.declare(fixer(tmp_path / "plain"))
    await run_through(scene)
    [run] = scene.history("fix")
    assert (run.status, run.reason) == (Status.FAILED, Reason.SPAWN_FAILED)
    assert "not a git repository" in (run.error or "")
    assert of(scene) is None


async def test_without_a_commit_the_run_fails_and_says_so(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    scene.declare(fixer(tmp_path / "empty"))
    await run_through(scene)
    assert "Needed a single revision" in (scene.history("fix")[0].error or "")


async def test_a_folder_that_is_not_committed_cannot_be_worked_in(scene: Scene, repository: Path) -> None:
    (repository / "fresh").mkdir()
    scene.declare(fixer(repository, below="fresh"))
    await run_through(scene)
    assert "'fresh' of `cwd` is not in the commit" in (scene.history("fix")[0].error or "")
    assert (of(scene), branches(repository)) == (None, ["main"])


async def test_a_run_that_could_not_start_leaves_no_worktree(scene: Scene, repository: Path) -> None:
    scene.processes.refused["fix"] = ValueError("no such program")
    scene.declare(fixer(repository))
    await run_through(scene)
    assert scene.told("fix") == [("FAILED", "spawn_failed")]
    assert (of(scene), branches(repository)) == (None, ["main"])


async def test_a_crash_before_the_start_is_made_good_when_the_run_comes_again(scene: Scene, repository: Path) -> None:
    """R-23: the worktree of the first try goes, the second try has one of its own from the newest commit."""
    scene.processes.refused["fix"] = StateError("the disk is full")
    scene.declare(fixer(repository))
    scene.trigger("fix")
    await until(scene, lambda: of(scene) is not None and bool(scene.processes.turned_away))
    await scene.crash()
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    del scene.processes.refused["fix"]
    scene.processes.scripts["fix"] = Script(takes=HOUR)
    await scene.start()
    await until(scene, lambda: scene.history("fix")[-1].status is Status.RUNNING)
    tree = of(scene)
    assert tree is not None
    assert git(tree.path, "log", "-1", "--format=%s") == "second"
    assert branches(repository) == ["main", "rota/fix-1"]
    await ended(scene)
    assert branches(repository) == ["main"]


async def test_the_worktree_of_a_run_that_was_taken_over_is_looked_at_too(scene: Scene, repository: Path) -> None:
    """R-23."""
    scene.declare(fixer(repository))
    tree = await running(scene)
    await scene.crash()
    assert await scene.start() == 1
    await ended(scene)
    assert scene.told("fix") == [("COMPLETED", None)]
    assert (there(tree.path), branches(repository)) == (False, ["main"])


async def test_what_a_crash_left_after_the_end_of_a_run_is_looked_at_at_the_next_start(
    scene: Scene, repository: Path
) -> None:
    """The run is recorded, its worktree is not yet removed."""
    scene.declare(fixer(repository))
    tree = await running(scene)
    scene.processes.living[scene.history("fix")[-1].id].end()
    await until(scene, lambda: scene.history("fix")[-1].status.final)
    await scene.crash()
    assert there(tree.path)
    await scene.start()
    await scene.engine.workspace_loop.turn()
    assert (there(tree.path), of(scene)) == (False, None)


async def test_a_repository_that_is_gone_leaves_what_is_there_alone(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository))
    tree = await running(scene)
    move(repository)
    await ended(scene)
    kept = of(scene)
    assert kept is not None
    assert (kept.kept_why, there(tree.path)) == ("its repository is gone", True)
    assert scene.told("fix") == [("COMPLETED", None)]


@one_machine
async def test_a_worktree_that_somebody_removed_is_forgotten_with_its_branch(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository))
    tree = await running(scene)
    git(repository, "worktree", "remove", "--force", tree.path)
    await ended(scene)
    assert (of(scene), branches(repository)) == (None, ["main"])


@one_machine
async def test_what_was_kept_and_removed_by_hand_is_forgotten_at_the_next_start(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository))
    tree = await running(scene)
    await ended(scene, ending=FAILED)
    git(repository, "worktree", "remove", tree.path)
    await scene.crash()
    await scene.start()
    await scene.engine.workspace_loop.turn()
    assert of(scene) is None


async def test_work_in_a_worktree_of_a_run_that_never_started_is_kept_all_the_same(
    scene: Scene, repository: Path
) -> None:
    """As after a backup was put back: the run makes another one for itself."""
    scene.processes.refused["fix"] = StateError("the disk is full")
    scene.declare(fixer(repository))
    scene.trigger("fix")
    await until(scene, lambda: bool(scene.processes.turned_away))
    first = of(scene)
    assert first is not None
    await scene.crash()
    git(first.path, "commit", "-q", "--allow-empty", "-m", "work")
    del scene.processes.refused["fix"]
    await scene.start()
    await until(scene, lambda: scene.history("fix")[-1].status.final)
    await scene.engine.workspace_loop.turn()
    assert branches(repository) == ["main", "rota/fix-1"]
    [kept] = scene.store.read(work_items.kept_worktrees)
    assert (kept.path, kept.kept_why) == (first.path, "it has commits")


async def test_a_scratch_folder_is_empty_and_lies_with_the_run(scene: Scene, tmp_path: Path) -> None:
    scene.declare(fixer(tmp_path, workspace=Workspace.SCRATCH))
    await run_through(scene)
    told = scene.history("fix")[-1].decisions["workspace"]
    assert told["kind"] == "scratch"
    assert os.listdir(told["path"]) == []
    assert scene.history("fix")[-1].id in told["path"]


# forks


async def test_a_fork_works_in_the_kept_worktree_of_the_run(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository))
    tree = await running(scene)
    (Path(tree.path) / "new").write_text("work\n")
    await ended(scene, ending=replace(DONE, session_id="s-1"))
    fork(scene, "fix:1")
    await until(scene, lambda: scene.history("fix")[-1].status is Status.RUNNING)
    second = scene.history("fix")[-1]
    brief = scene.processes.given[second.handle].brief
    assert (brief.workspace, brief.branch, brief.reply) == (tree.path, tree.branch, "Now add a test.")
    assert of(scene) is None
    with pytest.raises(SessionUnusable, match="in which fix:2 works now"):
        fork(scene, "fix:1", force=True)
    await ended(scene, ending=DONE)
    view = show_run(scene.store, "fix:2")
    assert say_workspace(view.run, view.worktree) == (
        f"worktree {tree.branch} in {tree.path}, kept: it has uncommitted changes"
    )
    assert (Path(tree.path) / "new").read_text() == "work\n"


async def test_a_worktree_that_goes_before_the_start_leaves_the_answer(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository))
    tree = await running(scene)
    (Path(tree.path) / "new").write_text("work\n")
    await ended(scene, ending=replace(DONE, session_id="s-1", summary="it is mended"))
    await scene.crash()
    fork(scene, "fix:1")
    git(repository, "worktree", "remove", "--force", tree.path)
    await scene.start()
    await until(scene, lambda: scene.history("fix")[-1].status is Status.RUNNING)
    brief = scene.processes.given["fix:2"].brief
    assert brief.session is None
    assert brief.workspace != tree.path
    assert "it is mended" in (brief.reply or "")
    assert "Now add a test." in (brief.reply or "")
    await ended(scene, ending=DONE)


async def test_a_folder_that_is_gone_or_not_kept_yet_is_not_forked(scene: Scene, repository: Path) -> None:
    scene.declare(fixer(repository))
    await running(scene)
    scene.processes.living[scene.history("fix")[-1].id].end(replace(DONE, session_id="s-1"))
    await until(scene, lambda: scene.history("fix")[-1].status.final)
    await scene.engine.workspace_loop.turn()
    with pytest.raises(SessionUnusable, match="worked in a folder that is gone"):
        fork(scene, "fix:1")
