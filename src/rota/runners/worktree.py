"""Creation, inspection, merge and removal of git worktrees by git's command line. Blocking: call it in a thread."""

import contextlib
import os
import re
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


QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""Options with which git starts no program of a folder that an agent has written."""
PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--no-renames")
NESTED = re.compile(r"^:000000 160000 .*\t(.+)$", re.MULTILINE)
"""The raw line of a repository that was added inside another one."""
MERGE_CONFLICT = 1


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


class WorktreeContent(Struct, frozen=True):
    """The work in a worktree beyond its base: `untracked` and `changed` count files without a commit."""

    commits: int
    files: int
    insertions: int
    deletions: int
    changed: int
    untracked: int
    head: str
    """The commit that is checked out."""

    @property
    def uncommitted(self) -> int:
        """The files whose work no commit has."""
        return self.changed + self.untracked


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


def content(path: str, *, base: str) -> WorktreeContent:
    """Return the work in a worktree beyond its base; files that git ignores do not count."""
    stat = _git(*QUIET, "diff", *PLAIN_DIFF, "--shortstat", base, at=path)
    figures = {word: int(number) for number, word in re.findall(r"(\d+) (file|insertion|deletion)", stat)}
    status = _git(*QUIET, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", at=path).split(
        "\0"
    )
    untracked = sum(line.startswith("??") for line in status)
    commits = int(_git("rev-list", "--count", f"{base}..HEAD", at=path))
    head = _git("rev-parse", "--verify", "HEAD^{commit}", at=path).strip()
    return WorktreeContent(
        commits=commits,
        files=figures.get("file", 0),
        insertions=figures.get("insertion", 0),
        deletions=figures.get("deletion", 0),
        changed=sum(map(bool, status)) - untracked,
        untracked=untracked,
        head=head,
    )


class FileChange(Struct, frozen=True):
    """A file that a worktree changes; lines None: a binary file, or an untracked one."""

    path: str
    insertions: int | None
    deletions: int | None
    untracked: bool = False


def file_changes(path: str, *, base: str) -> list[FileChange]:
    """Return the files that a worktree changes beyond its base, then the untracked ones."""
    listed = _git(*QUIET, "diff", *PLAIN_DIFF, "--numstat", "-z", base, at=path)
    changes = []
    for line in filter(None, listed.split("\0")):
        added, removed, name = line.split("\t", 2)
        lines = [int(one) if one.isdecimal() else None for one in (added, removed)]
        changes.append(FileChange(name, lines[0], lines[1]))
    others = _git(*QUIET, "ls-files", "--others", "--exclude-standard", "-z", at=path)
    return [*changes, *(FileChange(name, None, None, untracked=True) for name in others.split("\0") if name)]


def patch(path: str, *, base: str, limit: int) -> str:
    """Return the beginning of the patch of a worktree, at most `limit` bytes of it."""
    process = _start(*QUIET, "diff", *PLAIN_DIFF, "--no-color", base, at=path)
    assert process.stdout is not None, "it was started with a pipe"
    with process.stdout as pipe:
        data = pipe.read(limit)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # it may have more to tell
    process.wait()
    return data.decode("utf-8", "replace")


def tip(repository: str, branch: str) -> str | None:
    """Return the commit of a branch, None for no such branch."""
    return _tip(repository, branch)


def current_branch(repository: str) -> str | None:
    """Return the branch that is checked out, None for a commit without a branch."""
    done = _run("symbolic-ref", "--quiet", "--short", "HEAD", at=repository)
    return done.output.strip() or None if done.code == 0 else None


def changed_files(repository: str) -> list[str]:
    """Return the tracked files with changes that no commit has."""
    status = _git(*QUIET, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", at=repository)
    return [line[3:] for line in status.split("\0") if line]


def changes_between(repository: str, base: str, tip: str) -> list[str]:
    """Return the files, relative to the top of the repository, that differ between two commits."""
    names = _git("diff", *PLAIN_DIFF, "--name-only", "-z", base, tip, at=repository)
    return [name for name in names.split("\0") if name]


def nested(repository: str, base: str, tip: str) -> list[str]:
    """Return the repositories inside a repository that a commit adds: git stores no files of them."""
    return NESTED.findall(_git("diff", *PLAIN_DIFF, "--raw", base, tip, at=repository))


def conflicts(repository: str, tip: str) -> list[str]:
    """Return the files in which a merge would conflict; changes nothing. An old git cannot tell and returns none."""
    done = _run("merge-tree", "--write-tree", "--name-only", "--no-messages", "HEAD", tip, at=repository)
    return done.output.split("\n")[1:-1] if done.code == MERGE_CONFLICT else []


def commit_all(path: str, message: str) -> str:
    """Commit everything in a worktree without hooks; return the commit."""
    _git(*QUIET, "add", "--all", at=path)
    _git(*QUIET, "commit", "--quiet", "--no-verify", "--message", message, at=path)
    return _git("rev-parse", "--verify", "HEAD^{commit}", at=path).strip()


def merge(repository: str, tip: str, *, message: str) -> str:
    """Merge a commit into the branch that is checked out, without hooks; return the new commit.

    A merge that fails is undone.
    """
    try:
        _git(*QUIET, "merge", "--quiet", "--no-verify", "-m", message, tip, at=repository)
    except WorkspaceFailed:
        with contextlib.suppress(WorkspaceFailed):  # nothing to undo where git refused before it began
            _git(*QUIET, "merge", "--abort", at=repository)
        raise
    return _git("rev-parse", "--verify", "HEAD^{commit}", at=repository).strip()


def drop(repository: str, path: str, *, branch: str) -> None:
    """Remove a worktree with everything in it, and its branch."""
    if os.path.lexists(path):
        _git(*QUIET, "worktree", "remove", "--force", "--force", path, at=repository)
    _git("worktree", "prune", at=repository)
    found = _tip(repository, branch)
    if found is not None:
        _git("update-ref", "-d", f"refs/heads/{branch}", found, at=repository)


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


class GitEnd(Struct, frozen=True):
    """The end of a git process."""

    code: int
    output: str
    errors: str


def _git(*words: str, at: str) -> str:
    """Run git in a folder and return its output, or raise WorkspaceFailed with its message and a hint."""
    done = _run(*words, at=at)
    if done.code != 0:
        raise _failure(words, f"{done.errors}\n{done.output if _command(words) == 'merge' else ''}", at=at)
    return done.output


def _command(words: tuple[str, ...]) -> str:
    """Return the subcommand of git after its options."""
    return words[len(QUIET)] if words[: len(QUIET)] == QUIET else words[0]


def _start(*words: str, at: str, errors: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    """Start git in a folder; raise WorkspaceFailed if it cannot be started."""
    program = shutil.which("git")
    if program is None:
        raise WorkspaceFailed("git was not found on the scheduler's PATH", hint="install git")
    environ = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        return subprocess.Popen(
            [program, *words],
            cwd=at,
            env={**environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise WorkspaceFailed(f"git cannot be started in {at!r}: {why}", hint="try it by hand") from error


def _run(*words: str, at: str) -> GitEnd:
    """Run git in a folder; raise WorkspaceFailed if it cannot be started or takes too long."""
    process = _start(*words, at=at, errors=subprocess.PIPE)
    try:
        written, errors = process.communicate(timeout=GIT_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with its hooks
        process.communicate()
        hint = "check the repository: a hook or a lock may block git"
        raise WorkspaceFailed(f"git {_command(words)} took longer than {GIT_SECONDS:g} s in {at}", hint=hint) from None
    return GitEnd(process.returncode, written.decode("utf-8", "surrogateescape"), errors.decode("utf-8", "replace"))


def _failure(words: tuple[str, ...], errors: str, *, at: str) -> WorkspaceFailed:
    text = "; ".join(line.strip() for line in errors.splitlines() if line.strip())[:ERROR_LIMIT]
    hint = next((hint for part, hint in _HINTS.items() if part in text.lower()), f"try the same by hand in {at}")
    return WorkspaceFailed(f"git {_command(words)} failed in {at}: {text or 'no message'}", hint=hint)
