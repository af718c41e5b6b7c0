"""`rota worktrees`: kept worktrees are listed with their work, merged or discarded, and no work is lost silently."""

import subprocess
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from rota.model.records import Outcome, Worktree
from rota.model.states import Status
from rota.operations.project.locate import open_state
from rota.store.tables import audit, runs, work_items
from tests.faces.conftest import NOON, Project

FILE = "jobs: {fix: {prompt: mend, agent: claude, workspace: worktree, overlap: allow}}\n"
DONE = Outcome(Status.COMPLETED, exit_code=0, session_id="s-1")


def git(folder: Path | str, *words: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.net")
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder as a repository on the branch main."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "n")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "n@example.net")
    project.applied(FILE)
    (project.folder / ".gitignore").write_text(".rota\n*.log\n")
    (project.folder / "code").write_text("one\ntwo\n")
    git(project.folder, "init", "-q", "-b", "main")
    git(project.folder, "add", ".")
    git(project.folder, "commit", "-q", "-m", "first")
    return project.folder


def store_of(project: Project) -> Any:
    return open_state(project.state, project.clock, create=False)


def kept(project: Project, repository: Path) -> Worktree:
    """Leave the worktree of fix:1, with a branch at the commit of main."""
    project.ok("trigger", "fix")
    run = project.json("show", "fix:1")
    base = git(repository, "rev-parse", "HEAD")
    path = str(project.state / "worktrees" / "fix-1")
    git(repository, "worktree", "add", "-q", "-b", "rota/fix-1", path, base)
    tree = Worktree(run["id"], "fix:1", str(repository), path, "rota/fix-1", base, project.clock.now())
    told = {"workspace": {"kind": "worktree", "path": path, "branch": "rota/fix-1", "base": base}}
    store = store_of(project)
    try:
        store.write(partial(work_items.store_worktree, worktree=tree))
        store.write(partial(work_items.keep_worktree, worktree=tree, why="it has commits", now=project.clock.now()))
        store.write(partial(runs.note_decisions, run_id=run["id"], decisions=told))
    finally:
        store.close()
    project.carry_out([DONE])
    return tree


def commit(tree: Worktree, name: str = "new", text: str = "work\n") -> None:
    (Path(tree.path) / name).write_text(text)
    git(tree.path, "add", ".")
    git(tree.path, "commit", "-q", "-m", "work")


def refused(result: Result) -> str:
    assert result.exit_code == 6, result.output
    return " ".join(result.stderr.split())


def event(project: Project, kind: str) -> Mapping[str, Any]:
    store = store_of(project)
    try:
        found = store.read(partial(audit.newest, since=NOON, limit=50))
    finally:
        store.close()
    return next(one.data for one in found if one.kind == kind)


def test_the_list_has_commits_diff_and_uncommitted_files(project: Project, repository: Path) -> None:
    tree = kept(project, repository)
    assert project.json("worktrees")[0]["commits"] == 0
    commit(tree)
    (Path(tree.path) / "code").write_text("one\n")
    (Path(tree.path) / "loose").write_text("x\n")
    project.clock.advance(timedelta(hours=3))
    [found] = project.json("worktrees")
    assert (found["run"], found["branch"], found["path"]) == ("fix:1", "rota/fix-1", tree.path)
    assert [found[key] for key in ("commits", "files", "insertions", "deletions", "uncommitted")] == [1, 2, 1, 1, 2]
    told = project.ok("worktrees")
    assert "+1 -1 in 2 files" in told
    assert "3 h" in told
    assert project.rota("worktrees", "open", "fix", "--print").stdout.strip() == tree.path


def test_without_any_the_list_says_so_and_a_run_without_one_is_refused(project: Project, repository: Path) -> None:
    assert project.ok("worktrees").strip() == "no kept worktrees"
    project.ok("trigger", "fix")
    for action in ("merge", "discard", "open"):
        assert "fix:1 has no kept worktree" in refused(project.rota("worktrees", action, "fix:1"))


def test_a_merge_brings_the_work_and_removes_folder_and_branch(project: Project, repository: Path) -> None:
    tree = kept(project, repository)
    commit(tree)
    (repository / "other").write_text("meanwhile\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "meanwhile")
    assert "would be merged into main" in project.ok("worktrees", "merge", "fix:1", "--dry-run")
    assert not (repository / "new").exists()
    assert "merged rota/fix-1 into main as " in project.ok("worktrees", "merge", "fix:1")
    assert (repository / "new").read_text() == "work\n"
    assert git(repository, "log", "-1", "--format=%s") == "Merge rota/fix-1 of fix:1"
    assert not Path(tree.path).exists()
    assert git(repository, "branch", "--format=%(refname:short)") == "main"
    assert project.json("worktrees") == []
    entry = next(entry for entry in project.json("audit") if entry["action"] == "worktrees merge")
    assert entry["target"] == "fix:1"
    assert (event(project, "worktree_merged")["branch"], event(project, "worktree_merged")["into"]) == (
        "rota/fix-1",
        "main",
    )


def test_changes_without_a_commit_are_merged_only_with_a_message(project: Project, repository: Path) -> None:
    tree = kept(project, repository)
    (Path(tree.path) / "new").write_text("work\n")
    said = refused(project.rota("worktrees", "merge", "fix:1"))
    assert "fix:1 has changes in 1 file that no commit has" in said
    assert "--commit" in said
    assert (Path(tree.path) / "new").exists()
    project.ok("worktrees", "merge", "fix:1", "--commit", "Add new")
    assert git(repository, "log", "-1", "--format=%s") == "Add new"
    assert (repository / "new").read_text() == "work\n"


def test_a_conflict_is_refused_and_changes_nothing(project: Project, repository: Path) -> None:
    tree = kept(project, repository)
    commit(tree, "code", "theirs\n")
    (repository / "code").write_text("ours\n")
    git(repository, "commit", "-q", "-a", "-m", "ours")
    assert "fix:1 conflicts in code" in refused(project.rota("worktrees", "merge", "fix:1"))
    assert (repository / "code").read_text() == "ours\n"
    assert git(repository, "status", "--porcelain") == ""
    assert Path(tree.path).exists()


def test_a_dirty_target_and_one_without_a_branch_are_refused(project: Project, repository: Path) -> None:
    tree = kept(project, repository)
    commit(tree)
    (repository / "code").write_text("changed\n")
    assert "has changes that no commit has: code" in refused(project.rota("worktrees", "merge", "fix:1"))
    assert (repository / "code").read_text() == "changed\n"
    git(repository, "checkout", "-q", "code")
    git(repository, "checkout", "-q", "--detach")
    assert "has no branch checked out" in refused(project.rota("worktrees", "merge", "fix:1"))
    git(repository, "checkout", "-q", "main")
    (repository / "new").write_text("in the way\n")
    result = project.rota("worktrees", "merge", "fix:1")
    assert result.exit_code == 71
    assert (repository / "new").read_text() == "in the way\n"
    assert Path(tree.path).exists()


def test_no_hook_of_the_worktree_runs(project: Project, repository: Path) -> None:
    hooks = repository / "hooks"
    hooks.mkdir()
    for name in ("post-merge", "pre-commit", "post-commit", "commit-msg", "post-checkout", "pre-merge-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {repository}/ran-{name}\n")
        (hooks / name).chmod(0o755)
    tree = kept(project, repository)
    git(repository, "config", "core.hooksPath", "hooks")
    git(repository, "config", "core.fsmonitor", f"touch {repository}/ran-fsmonitor; false")
    (Path(tree.path) / "new").write_text("work\n")
    project.ok("worktrees")
    (repository / "hooks").rename(repository.parent / "aside")
    project.ok("worktrees", "merge", "fix:1", "--commit", "Add new")
    assert (repository / "new").exists()
    assert list(repository.glob("ran-*")) == []


def test_a_merge_that_changes_the_project_file_needs_a_yes(project: Project, repository: Path) -> None:
    tree = kept(project, repository)
    commit(tree, "rota.yaml", FILE.replace("mend", "mend more"))
    said = refused(project.rota("worktrees", "merge", "fix:1"))
    assert "fix:1 changes rota.yaml, which the scheduler applies" in said
    assert (repository / "rota.yaml").read_text() == FILE
    project.ok("worktrees", "merge", "fix:1", "--yes")
    assert "mend more" in (repository / "rota.yaml").read_text()


def test_a_repository_inside_is_refused_because_git_stores_no_files_of_it(project: Project, repository: Path) -> None:
    tree = kept(project, repository)
    inner = Path(tree.path) / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "work").write_text("precious\n")
    git(inner, "add", ".")
    git(inner, "commit", "-q", "-m", "inside")
    said = refused(project.rota("worktrees", "merge", "fix:1", "--commit", "All"))
    assert "has a repository inside, whose files git does not store: inner" in said
    assert (inner / "work").read_text() == "precious\n"


def test_another_branch_in_the_folder_and_one_without_work_are_refused(project: Project, repository: Path) -> None:
    tree = kept(project, repository)
    assert "has no work to merge" in refused(project.rota("worktrees", "merge", "fix:1"))
    git(tree.path, "checkout", "-q", "-b", "own")
    commit(tree)
    assert "which is not the end of rota/fix-1" in refused(project.rota("worktrees", "merge", "fix:1"))


def test_a_worktree_in_which_a_run_works_stays(project: Project, repository: Path) -> None:
    tree = kept(project, repository)
    commit(tree)
    project.ok("fork", "fix:1", "--prompt", "more")
    project.begin()
    store = store_of(project)
    try:
        told = {"workspace": {"kind": "worktree", "path": tree.path, "branch": tree.branch, "base": tree.base}}
        run = project.json("show", "fix:2")["id"]
        store.write(partial(runs.note_decisions, run_id=run, decisions=told))
    finally:
        store.close()
    for words in (("merge", "fix:1"), ("discard", "fix:1", "--yes")):
        assert "has a worktree in which fix:2 works now" in refused(project.rota("worktrees", *words))
    assert Path(tree.path).exists()


def test_a_discard_asks_and_removes_everything_only_after_a_yes(project: Project, repository: Path) -> None:
    tree = kept(project, repository)
    commit(tree)
    (Path(tree.path) / "loose").write_text("x\n")
    head = git(tree.path, "rev-parse", "HEAD")
    result = project.rota("worktrees", "discard", "fix:1")
    assert result.exit_code == 2
    assert "discarding needs confirmation" in result.stderr
    said = project.ok("worktrees", "discard", "fix:1", "--dry-run")
    assert "1 commit, +1 -0 in 1 file, 1 file uncommitted" in said
    assert Path(tree.path).exists()
    assert project.ok("worktrees", "discard", "fix:1", "--yes").splitlines()[-1] == "removed"
    assert not Path(tree.path).exists()
    assert git(repository, "branch", "--format=%(refname:short)") == "main"
    assert event(project, "worktree_discarded")["commit"] == head
    assert git(repository, "cat-file", "-t", head) == "commit"
    assert project.json("worktrees") == []


def test_what_git_cannot_read_is_listed_and_can_be_discarded(project: Project, repository: Path) -> None:
    tree = kept(project, repository)
    repository_git = repository / ".git"
    repository_git.rename(repository / "moved")
    assert project.json("worktrees")[0]["problem"].startswith("git diff failed")
    assert "that git cannot read" in refused(project.rota("worktrees", "merge", "fix:1"))
    assert project.rota("worktrees", "discard", "fix:1", "--yes").exit_code == 71
    (repository / "moved").rename(repository_git)
    git(repository, "worktree", "remove", "--force", tree.path)
    assert "gone" in project.json("worktrees")[0]["problem"]
    assert "is gone" in refused(project.rota("worktrees", "open", "fix:1"))
    project.ok("worktrees", "discard", "fix:1", "--yes")
    assert project.json("worktrees") == []
    assert git(repository, "branch", "--format=%(refname:short)") == "main"
