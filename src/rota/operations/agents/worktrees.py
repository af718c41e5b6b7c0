"""Kept worktrees of agents: list them with their work, merge it, or discard it."""

import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypedDict

from msgspec import Struct

from rota.declare.include import files_of
from rota.model.amounts import listed
from rota.model.errors import WorkspaceFailed, WorktreeRefused
from rota.model.records import Worktree
from rota.model.serialize import fields_json, to_shape
from rota.operations.project.locate import ProjectPaths, in_scope
from rota.operations.runs import find_run
from rota.runners import worktree as git
from rota.runners.worktree import FileChange, WorktreeContent
from rota.settings import FILE_NAME
from rota.store.driver import Database, Store
from rota.store.tables import audit, run_queries, work_items
from rota.store.tables.processes import is_shared
from rota.text.jobs import workspace_of

NAMES_SHOWN = 5
LIST_HINT = "`rota worktrees` lists the kept ones"


class KeptWorktree(Struct, frozen=True):
    """A kept worktree and its work; `content` None: git cannot read it, and `problem` says why."""

    tree: Worktree
    content: WorktreeContent | None = None
    problem: str = ""


def list_worktrees(store: Store, *, scope: str = "") -> list[KeptWorktree]:
    """Return the kept worktrees, oldest first, each inspected by git."""
    worktrees = store.read(work_items.kept_worktrees)
    return [_inspect(tree) for tree in worktrees if in_scope(tree.handle.rpartition(":")[0], scope)]


def _inspect(tree: Worktree) -> KeptWorktree:
    if not os.path.isdir(tree.path):
        return KeptWorktree(tree, problem="the folder is gone, or on another machine")
    if not os.path.isdir(tree.repository):
        return KeptWorktree(tree, problem="its repository is gone")
    try:
        return KeptWorktree(tree, git.content(tree.path, base=tree.base))
    except WorkspaceFailed as error:
        return KeptWorktree(tree, problem=error.message)


PATCH_LIMIT = 200_000


class WorktreeChanges(Struct, frozen=True):
    """The changes in a worktree: its files, and the patch of the tracked ones. `problem`: git cannot read it."""

    files: tuple[FileChange, ...] = ()
    patch: str = ""
    cut: bool = False
    problem: str = ""


def worktree_changes(tree: Worktree) -> WorktreeChanges:
    """Return what a run changed in its worktree, kept or still in use."""
    if not os.path.isdir(tree.path):
        return WorktreeChanges(problem="the folder is gone, or on another machine")
    try:
        files = git.file_changes(tree.path, base=tree.base)
        text = git.patch(tree.path, base=tree.base, limit=PATCH_LIMIT + 1)
    except WorkspaceFailed as error:
        return WorktreeChanges(problem=error.message)
    return WorktreeChanges(tuple(files), text[:PATCH_LIMIT], cut=len(text) > PATCH_LIMIT)


class WorktreeJson(TypedDict):
    """A kept worktree, as `rota worktrees --json` prints it; figures are null if git cannot read it."""

    run: str
    branch: str
    path: str
    repository: str
    base: str
    made_at: str | None
    kept_at: str | None
    kept_why: str | None
    commits: int | None
    files: int | None
    insertions: int | None
    deletions: int | None
    uncommitted: int | None
    problem: str | None


def worktree_json(kept: KeptWorktree) -> WorktreeJson:
    """Return a kept worktree as JSON."""
    figures = ("commits", "files", "insertions", "deletions", "uncommitted")
    content = dict.fromkeys(figures) if kept.content is None else fields_json(kept.content, *figures)
    return to_shape(WorktreeJson, kept.tree, run=kept.tree.handle, problem=kept.problem or None, **content)


def show_worktree(store: Store, handle: str) -> KeptWorktree:
    """Return the kept worktree of a run; raise WorktreeRefused if there is none."""
    return _inspect(store.read(lambda db: find_worktree(db, handle)))


def find_worktree(db: Database, handle: str) -> Worktree:
    """Return the kept worktree of a run, of a direct call, or that a run goes on in."""
    worktrees = work_items.kept_worktrees(db)
    named = next((tree for tree in worktrees if handle in (tree.handle, tree.run_id)), None)
    if named is not None:
        return named
    run = find_run(db, handle)
    path = (workspace_of(run) or {}).get("path")
    worktree = next((tree for tree in worktrees if tree.path == path), None)
    if worktree is None:
        raise WorktreeRefused(run.handle, "has no kept worktree", hint=LIST_HINT)
    return worktree


def _refuse_busy(db: Database, tree: Worktree) -> None:
    for run in run_queries.running_runs(db):
        if (workspace_of(run) or {}).get("path") == tree.path:
            hint = f"wait for it, or stop it with `rota cancel {run.handle}`"
            raise WorktreeRefused(tree.handle, f"has a worktree in which {run.handle} works now", hint=hint)


class Merged(Struct, frozen=True):
    """A merge of a worktree: its branch, the branch that has the work now, and the new commit (None: a dry run)."""

    kept: KeptWorktree
    into: str
    commit: str | None


def merge_worktree(
    store: Store,
    place: ProjectPaths,
    handle: str,
    *,
    now: datetime,
    message: str = "",
    yes: bool = False,
    dry_run: bool = False,
) -> Merged:
    """Merge the branch of a kept worktree into the branch that its repository has checked out, and remove the worktree.

    `message`: commit changes in the worktree first. Refuse what would conflict, lose work or change the project's file.
    """
    worktree = show_worktree(store, handle)
    tree, content = worktree.tree, _readable(worktree)
    store.read(lambda db: _refuse_busy(db, tree))
    if content.uncommitted and not message.strip():
        count = f"{content.uncommitted} {'file' if content.uncommitted == 1 else 'files'}"
        hint = f'commit with `rota worktrees merge {tree.handle} --commit "MESSAGE"`, or in {tree.path}'
        raise WorktreeRefused(tree.handle, f"has changes in {count} that no commit has", hint=hint)
    into = _target(tree)
    head = _head(tree, content)
    if dry_run and content.uncommitted:
        return Merged(worktree, into, None)  # what a merge of these changes does is known when they are committed
    if content.uncommitted:
        head = git.commit_all(tree.path, message)
    if head == tree.base:
        raise WorktreeRefused(tree.handle, "has no work to merge", hint=f"`rota worktrees discard {tree.handle}`")
    _refuse_merge(tree, head, place=place, yes=yes)
    if dry_run:
        return Merged(worktree, into, None)
    _refuse_late(tree, head)
    commit = git.merge(tree.repository, head, message=f"Merge {tree.branch} of {tree.handle}")
    _record(store, tree, "worktree_merged", now=now, into=into, commit=commit)
    git.drop(tree.repository, tree.path, branch=tree.branch)
    store.write(partial(work_items.forget_worktree, worktree=tree))
    return Merged(worktree, into, commit)


def _readable(kept: KeptWorktree) -> WorktreeContent:
    if kept.content is None:
        raise WorktreeRefused(kept.tree.handle, f"has a worktree that git cannot read: {kept.problem}", hint=LIST_HINT)
    return kept.content


def _target(tree: Worktree) -> str:
    """Return the branch that is checked out in the repository; refuse a dirty one."""
    into = git.current_branch(tree.repository)
    if into is None:
        hint = f"check out a branch in {tree.repository}"
        raise WorktreeRefused(tree.handle, "cannot be merged: its repository has no branch checked out", hint=hint)
    dirty = git.changed_files(tree.repository)
    if dirty:
        why = f"cannot be merged: {into} in {tree.repository} has changes that no commit has: {_names(dirty)}"
        raise WorktreeRefused(tree.handle, why, hint="commit them, and try again")
    return into


def _head(tree: Worktree, content: WorktreeContent) -> str:
    """Return the commit of the branch; refuse a worktree that stands at another one."""
    tip = git.tip(tree.repository, tree.branch)
    if tip != content.head:
        why = f"has a worktree at {content.head[:7]}, which is not the end of {tree.branch}"
        raise WorktreeRefused(tree.handle, why, hint=f"look at it in {tree.path}, and merge by hand")
    return content.head


def _refuse_merge(tree: Worktree, head: str, *, place: ProjectPaths, yes: bool) -> None:
    repositories = git.nested(tree.repository, tree.base, head)
    if repositories:
        why = f"has a repository inside, whose files git does not store: {_names(repositories)}"
        raise WorktreeRefused(tree.handle, why, hint=f"move it out of {tree.path}, or remove its .git")
    conflicts = git.conflicts(tree.repository, head)
    if conflicts:
        hint = f"merge {tree.branch} by hand in {tree.repository}; nothing was changed there"
        raise WorktreeRefused(tree.handle, f"conflicts in {_names(conflicts)}", hint=hint)
    ours = _own_files(tree, head, place)
    if ours and not yes:
        hint = f"read `git diff {tree.base[:7]} {tree.branch}`, then merge with --yes"
        raise WorktreeRefused(tree.handle, f"changes {_names(ours)}, which the scheduler applies", hint=hint)


def _refuse_late(tree: Worktree, head: str) -> None:
    """Refuse if the worktree got work after it was inspected."""
    content = git.content(tree.path, base=tree.base)
    if content.uncommitted or content.head != head:
        hint = "end the program that writes there, and try again"
        raise WorktreeRefused(tree.handle, f"has a worktree that just changed: {tree.path}", hint=hint)


def _own_files(tree: Worktree, head: str, place: ProjectPaths) -> list[str]:
    """Return the changed files that declare jobs of this project."""
    top = os.path.realpath(tree.repository)
    home = os.path.expanduser("~")
    files = {
        os.path.realpath(path) for path in (place.folder / FILE_NAME, *files_of(place.folder / FILE_NAME, home=home))
    }
    changed = git.changes_between(tree.repository, tree.base, head)
    return [name for name in changed if os.path.join(top, name) in files]


def _names(names: Sequence[str]) -> str:
    return listed(names, NAMES_SHOWN)


def discard_worktree(store: Store, place: ProjectPaths, handle: str, *, now: datetime) -> KeptWorktree:
    """Remove a kept worktree and its branch with all work in it; return what was removed.

    The commit of the branch is in the audit log: until git collects it, `git branch NAME COMMIT` brings it back.
    """
    worktree = show_worktree(store, handle)
    tree = worktree.tree
    store.read(lambda db: _refuse_busy(db, tree))
    if not os.path.lexists(tree.path) and store.read(is_shared):
        hint = "discard it on the machine that has it"
        raise WorktreeRefused(tree.handle, f"has its worktree on another machine: {tree.path}", hint=hint)
    if os.path.isdir(tree.repository):
        commit = git.tip(tree.repository, tree.branch) or ""
        git.drop(tree.repository, tree.path, branch=tree.branch)
    else:
        commit = ""
        _delete(tree, place)
    _record(store, tree, "worktree_discarded", now=now, commit=commit)
    store.write(partial(work_items.forget_worktree, worktree=tree))
    return worktree


def _delete(tree: Worktree, place: ProjectPaths) -> None:
    """Delete the folder of a worktree without its repository, if it is one of this project."""
    ours = Path(os.path.abspath(place.state)) / "worktrees"
    if ours not in Path(tree.path).parents:
        raise WorktreeRefused(tree.handle, f"has a folder outside {ours}: {tree.path}", hint="remove it by hand")
    try:
        shutil.rmtree(tree.path)
    except FileNotFoundError:
        return
    except OSError as error:
        why = f"has a folder that cannot be removed: {(error.strerror or str(error)).lower()}"
        raise WorktreeRefused(tree.handle, why, hint=f"remove {tree.path} by hand") from error


def _record(store: Store, tree: Worktree, kind: str, *, now: datetime, **told: str) -> None:
    about = {"run": tree.handle, "branch": tree.branch, "path": tree.path}
    store.write(lambda db: audit.insert_event(db, kind, now=now, **about, **told))
