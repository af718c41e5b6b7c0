"""Creation, inspection and removal of git worktrees by git's command line. Blocking: call it in a thread."""

import contextlib
import os
import shutil
import signal
import subprocess

from msgspec import Struct

from rota.model.errors import WorkspaceFailed

GIT_SECONDS = 120.0
ERROR_LIMIT = 600
_ELSEWHERE = frozenset(
    (
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE"),
    )
)
"""Variables that point git to another repository, as in a hook."""
_HINTS = {
    "not a git repository": "`workspace: worktree` needs a `cwd` inside a git repository; `git init` creates one",
    "dubious ownership": "the repository belongs to another user; see safe.directory in git's settings",
    "needed a single revision": "the repository has no commit yet; create one",
    "no space left": "free space on the disk of the state folder",
    "permission denied": "check owner and mode of the repository and of the state folder",
}


class GitCheckout(Struct, frozen=True):
    """The place of a folder in git: its repository, its path below the top, the commit that is checked out."""

    repository: str
    below: str
    base: str
    head: str
    """The branch, or the short commit id without a branch."""


class Look(Struct, frozen=True):
    """The state of a worktree."""

    commits: bool
    changes: bool


def locate(folder: str) -> GitCheckout:
    """Return the place of a folder in git; raise WorkspaceFailed without a repository or a commit."""
    top, below = _git("rev-parse", "--show-toplevel", "--show-prefix", at=folder).split("\n")[:2]
    base = _git("rev-parse", "--verify", "HEAD^{commit}", at=folder).strip()
    head = _git("rev-parse", "--abbrev-ref", "HEAD", at=folder).strip()
    return GitCheckout(top, below.rstrip("/"), base, base[:7] if head == "HEAD" else head)


def branches(repository: str, prefix: str) -> set[str]:
    """Return the branches below a prefix, and the branch of that name."""
    listed = _git("for-each-ref", "--format=%(refname:lstrip=2)", f"refs/heads/{prefix}", at=repository)
    return set(listed.split())


def make(repository: str, path: str, *, branch: str, base: str) -> None:
    """Create a worktree with a new branch at a commit."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    _git("worktree", "add", "--quiet", "-b", branch, path, base, at=repository)


def look(repository: str, path: str, *, branch: str, base: str) -> Look:
    """Return whether a worktree has commits or changes beyond its base."""
    tips = {_git("rev-parse", "--verify", "HEAD^{commit}", at=path).strip(), _tip(repository, branch) or base}
    changed = _git("status", "--porcelain", "--untracked-files=normal", at=path).strip()
    return Look(commits=tips != {base}, changes=bool(changed))


def remove(repository: str, path: str, *, branch: str, base: str) -> None:
    """Remove a worktree without changes, and its branch unless it has moved."""
    try:
        if os.path.lexists(path):
            # --force only for submodules: the worktree was checked before.
            _git("worktree", "remove", "--force", path, at=repository)
    except WorkspaceFailed:
        if os.path.lexists(path):  # else another process removed it
            raise
    _git("worktree", "prune", at=repository)
    if _tip(repository, branch) == base:
        _git("update-ref", "-d", f"refs/heads/{branch}", base, at=repository)


def _tip(repository: str, branch: str) -> str | None:
    return next(
        iter(_git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}", at=repository).split()), None
    )


def _git(*words: str, at: str) -> str:
    """Run git in a folder and return its output, or raise WorkspaceFailed with its message and a hint."""
    program = shutil.which("git")
    if program is None:
        raise WorkspaceFailed("git was not found on the scheduler's PATH", hint="install git")
    environ = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        process = subprocess.Popen(
            [program, *words],
            cwd=at,
            env={**environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise WorkspaceFailed(f"git cannot be started in {at!r}: {why}", hint="try it by hand") from error
    try:
        written, errors = process.communicate(timeout=GIT_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with its hooks
        process.communicate()
        hint = "check the repository: a hook or a lock may block git"
        raise WorkspaceFailed(f"git {words[0]} took longer than {GIT_SECONDS:g} s in {at}", hint=hint) from None
    if process.returncode != 0:
        raise _failure(words, errors.decode("utf-8", "replace"), at=at)
    return written.decode("utf-8", "surrogateescape")


def _failure(words: tuple[str, ...], errors: str, *, at: str) -> WorkspaceFailed:
    text = "; ".join(line.strip() for line in errors.splitlines() if line.strip())[:ERROR_LIMIT]
    hint = next((hint for part, hint in _HINTS.items() if part in text.lower()), f"try the same by hand in {at}")
    return WorkspaceFailed(f"git {words[0]} failed in {at}: {text or 'no message'}", hint=hint)
