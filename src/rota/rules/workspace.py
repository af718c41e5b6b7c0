"""Where an agent works: the names of worktrees and their branches, and which of them are kept (section 8)."""

import re
from collections.abc import Collection, Iterator
from itertools import count

from rota.model.states import Status

BRANCHES = "rota/"
NAME_LIMIT = 150
_UNSAFE = re.compile(r"[^A-Za-z0-9._/-]+|\.\.+|@\{|//+")
_EDGES = re.compile(r"^[.-]+|\.+$|\.lock$")

COMMITS = "it has commits"
CHANGES = "it has uncommitted changes"
FAILED = "the run failed"


def branch_name(job: str, number: int, *, taken: Collection[str] = ()) -> str:
    """Return the branch of a run's worktree, which git can hold and nobody has; number 0 is a direct call.

    >>> branch_name("fix-issues", 9), branch_name("api/fix issues", 9, taken={"rota/api/fix-issues-9"})
    ('rota/fix-issues-9', 'rota/api/fix-issues-9-2')
    """
    parts = [_EDGES.sub("-", part) for part in _UNSAFE.sub("-", job).strip("/")[:NAME_LIMIT].split("/")]
    name = f"{BRANCHES}{'/'.join(part or '-' for part in parts)}-{number or 'direct'}"
    return next(one for one in _numbered(name) if not _clashes(one, taken))


def _numbered(name: str) -> Iterator[str]:
    return (name if step == 1 else f"{name}-{step}" for step in count(1))


def _clashes(name: str, taken: Collection[str]) -> bool:
    """Tell whether git has this name, or would have to make a folder of it: `rota/a-1` and `rota/a-1/b`."""
    return name in taken or any(other.startswith(f"{name}/") for other in taken)


def folder_name(branch: str, *, taken: Collection[str] = ()) -> str:
    """Return the name of a worktree's folder, which nobody has.

    >>> folder_name("rota/api/fix-issues-9")
    'api-fix-issues-9'
    """
    name = branch.removeprefix(BRANCHES).replace("/", "-")
    return next(one for one in _numbered(name) if one not in taken)


def why_kept(status: Status | None, *, commits: bool, changes: bool) -> str | None:
    """Return why the worktree of a run stays, None where it goes: never what holds work (section 8).

    `status` None: the run never started, or is gone itself.
    """
    if commits:
        return COMMITS
    if changes:
        return CHANGES
    return FAILED if status is Status.FAILED else None
