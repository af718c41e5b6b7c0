"""The folders that agents work in: made before a run starts, and looked at when it has ended."""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from rota import faults
from rota.engine.processes import run_facts, surroundings_of
from rota.engine.transactions.claim import Claimed
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import WorkspaceFailed
from rota.model.records import Worktree
from rota.model.spec import Workspace
from rota.rules.agents import BRANCHES, branch_name, folder_name, why_kept
from rota.runners import worktree as git
from rota.runners.command import working_folder
from rota.runners.output import folder_of as run_folder
from rota.runners.output import make_folder
from rota.settings import Settings
from rota.store.driver import Database, Store
from rota.store.tables import runs, work_items
from rota.store.tables.work_items import LeftWorktree

T = TypeVar("T")

WORKTREES = "worktrees"
SCRATCH = "scratch"


def uses_worktree(claimed: Claimed) -> bool:
    """Return whether a run gets a worktree of its own."""
    agent = claimed.spec.work.agent
    return agent is not None and agent.workspace is Workspace.WORKTREE


class Workspaces:
    """Makes the folders of runs, and removes what they left where it holds nothing."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, *, shared: bool = False) -> None:
        self._shared = shared
        """Whether folders of other machines are stored beside ours: what is not here is theirs."""
        self._store = store
        self._clock = clock
        self._settings = settings
        self._forgot = False

    async def give(self, claimed: Claimed) -> Claimed:
        """Return the run with the folder that it works in; raises WorkspaceFailed."""
        agent = claimed.spec.work.agent
        if agent is None or agent.workspace is Workspace.PROJECT:
            return claimed
        if claimed.brief.continues is not None:
            continued = await self._continued(claimed, claimed.brief.continues)
            if continued is not None:
                return continued
            # A session belongs to its folder: without it the task starts again.
            claimed = claimed._replace(brief=replace(claimed.brief, continues=None, session=None))
        if agent.workspace is Workspace.SCRATCH:
            return claimed._replace(brief=replace(claimed.brief, workspace=await self._scratch(claimed)))
        path, branch = await self._worktree(claimed)
        return claimed._replace(brief=replace(claimed.brief, workspace=path, branch=branch))

    async def _continued(self, claimed: Claimed, earlier: Mapping[str, Any]) -> Claimed | None:
        """Return the run with the folder of the run that it continues, None if that is gone."""
        if "path" not in earlier or not await asyncio.to_thread(os.path.lexists, earlier["path"]):
            return None
        path = earlier["path"]
        if uses_worktree(claimed):
            path = _below(path, (await asyncio.to_thread(git.locate, self._folder(claimed))).below)
        await self._note(claimed, earlier)
        return claimed._replace(brief=replace(claimed.brief, workspace=path, branch=earlier.get("branch")))

    async def sweep(self) -> int:
        """Look at the worktrees of runs that have ended: keep what holds work, remove the rest; return how many."""
        await self._forget_removed()
        worktrees = [left for left in self._store.read(work_items.left_worktrees) if self._ours(left.worktree)]
        for left in worktrees:
            faults.point("workspace.found")
            await self._clear(left)
        return len(worktrees)

    async def _forget_removed(self) -> None:
        """Forget worktrees that were removed by hand; once in the life of this process."""
        worktrees = [] if self._forgot or self._shared else self._store.read(work_items.kept_worktrees)
        self._forgot = True
        for tree in worktrees:
            if not await asyncio.to_thread(os.path.lexists, tree.path):
                await self._store.submit(partial(work_items.forget_worktree, worktree=tree))

    # an empty folder

    async def _scratch(self, claimed: Claimed) -> str:
        folder = run_folder(self._settings.state, claimed.run.id)
        try:
            path = make_folder(folder / SCRATCH)
        except OSError as error:
            words = f"{folder / SCRATCH} cannot be created: {(error.strerror or str(error)).lower()}"
            raise WorkspaceFailed(words, hint="check owner, mode and free space of the state folder") from error
        await self._note(claimed, {"kind": Workspace.SCRATCH.value, "path": str(path)})
        return str(path)

    # a worktree

    async def _worktree(self, claimed: Claimed) -> tuple[str, str]:
        await self._clear_earlier(claimed.run.id)
        place = await asyncio.to_thread(git.locate, self._folder(claimed))
        taken = await asyncio.to_thread(git.branches, place.repository, BRANCHES)
        worktree = self._named(claimed, place, taken)
        told = {"kind": Workspace.WORKTREE.value, "path": worktree.path, "branch": worktree.branch, "base": place.base}
        await self._note(claimed, told, further=partial(work_items.store_worktree, worktree=worktree))
        faults.point("workspace.noted")
        await _to_the_end(
            partial(git.make, worktree.repository, worktree.path, branch=worktree.branch, base=worktree.base)
        )
        faults.point("workspace.made")
        return _below(worktree.path, place.below), worktree.branch

    def _folder(self, claimed: Claimed) -> str:
        work, folder = claimed.spec.work, run_folder(self._settings.state, claimed.run.id)
        return working_folder(
            work, run_facts(claimed), surroundings_of(work, self._settings, folder=folder, environ={})
        )

    def _named(self, claimed: Claimed, place: git.GitCheckout, taken: set[str]) -> Worktree:
        run, folder = claimed.run, self._settings.state / WORKTREES
        branch = branch_name(run.job, run.number, taken=taken)
        known = {os.path.basename(path) for path in self._store.read(work_items.known_paths)}
        there = set(os.listdir(folder)) if folder.is_dir() else set()
        path = os.path.abspath(folder / folder_name(branch, taken=known | there))
        return Worktree(run.id, run.handle, place.repository, path, branch, place.base, self._clock.now())

    async def _note(
        self, claimed: Claimed, told: Mapping[str, Any], *, further: Callable[[Database], None] = lambda _db: None
    ) -> None:
        def note(db: Database) -> None:
            further(db)
            runs.note_decisions(db, claimed.run.id, {"workspace": told})

        await self._store.submit(note)

    async def _clear_earlier(self, run_id: str) -> None:
        for worktree in self._store.read(partial(work_items.unused_worktrees, run_id=run_id)):
            if self._ours(worktree):
                await self._clear(LeftWorktree(worktree, None))

    def _ours(self, tree: Worktree) -> bool:
        """Return whether a worktree is on this machine: no two have the same name, on whichever machine."""
        return not self._shared or os.path.lexists(tree.path)

    async def _clear(self, left: LeftWorktree) -> None:
        tree = left.worktree
        try:
            why = await _to_the_end(partial(_judge, left))
        except WorkspaceFailed as error:
            why = str(error)
        faults.point("workspace.cleared")
        if why is None:
            await self._store.submit(partial(work_items.forget_worktree, worktree=tree))
        else:
            log.info("worktree kept", run=tree.handle, path=tree.path, branch=tree.branch, why=why)
            now = self._clock.now()
            await self._store.submit(partial(work_items.keep_worktree, worktree=tree, why=why, now=now))


def _below(path: str, below: str) -> str:
    folder = os.path.normpath(os.path.join(path, below))
    if not os.path.isdir(folder):
        hint = "commit it first: a worktree has only committed files"
        raise WorkspaceFailed(f"the folder {below!r} of `cwd` is not in the commit that is checked out", hint=hint)
    return folder


def _judge(left: LeftWorktree) -> str | None:
    """Remove a worktree unless it holds work; return why it stays. Blocks."""
    tree = left.worktree
    where = (tree.repository, tree.path)
    if not os.path.isdir(tree.repository):
        return "its repository is gone" if os.path.lexists(tree.path) else None
    if os.path.lexists(tree.path):
        look = git.look(*where, branch=tree.branch, base=tree.base)
        why = why_kept(left.status, commits=look.commits, changes=look.changes)
        if why is not None:
            return why
    git.remove(*where, branch=tree.branch, base=tree.base)
    return None


async def _to_the_end(work: Callable[[], T]) -> T:
    """Run blocking work in a thread; a cancellation waits for its end, so that no half-done work is left."""
    doing = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        raise
