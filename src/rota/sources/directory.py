"""A folder as a work source: one file per item, claimed by an atomic rename, ended in `done` or `failed`."""

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from rota.model.agents import WorkAhead, WorkItem, WorkReport, WorkRequest
from rota.model.errors import SourceError
from rota.sources.items import DESCRIPTION_LIMIT, make_item

CLAIMED, DONE, FAILED = "claimed", "done", "failed"
UNFINISHED = ("~", ".tmp", ".part", ".swp")
"""How files end that somebody is still writing."""
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
READ_LIMIT = 4 * DESCRIPTION_LIMIT


class DirectorySource:
    """Items are the files of a folder, oldest first. A claimed one lies in `claimed/CLAIM/` under its own name."""

    def __init__(self, folder: str, *, pattern: str = "*") -> None:
        self._folder = Path(folder)
        self._pattern = pattern

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the oldest file; whoever renames it first has it."""
        with _telling(self._folder):
            held = self._held(request.claim)
            if held is not None:  # asked again after a lost answer
                return self._item(held, request.claim)
            for path in self._waiting():
                target = self._room(request.claim) / path.name
                try:
                    os.rename(path, target)
                except FileNotFoundError:
                    continue  # somebody else was faster
                return self._item(target, request.claim)
            self._leave(request.claim)
            return None

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        """Move the file to `done` or `failed`, with a report beside it."""
        with _telling(self._folder):
            claim = item.claim["id"]
            held = self._held(claim)
            if held is None:
                return
            ended = self._folder / (DONE if outcome.success else FAILED)
            ended.mkdir(exist_ok=True)
            target = _move(held, ended, keep=True)
            _write_report(target.with_name(f"{target.name}.report.json"), outcome)
            held.unlink(missing_ok=True)
            self._leave(claim)

    def release(self, item: WorkItem, /) -> None:
        """Put the file back."""
        self._release(item.claim["id"])

    def release_claim(self, request: WorkRequest, /) -> None:
        """Put back whatever this claim renamed."""
        self._release(request.claim)

    def _release(self, claim: str) -> None:
        with _telling(self._folder):
            held = self._held(claim)
            if held is not None:
                _move(held, self._folder)
            self._leave(claim)

    def peek(self, _request: WorkRequest, /) -> WorkAhead:
        """Return how many files there are, and the oldest."""
        with _telling(self._folder):
            waiting = self._waiting()
            return WorkAhead(len(waiting), self._item(waiting[0], None) if waiting else None)

    def _waiting(self) -> list[Path]:
        found = []
        for entry in os.scandir(self._folder):
            if self._fits(entry.name):
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(status.st_mode):  # what a link points to is none of ours
                    found.append((status.st_mtime_ns, entry.name))
        return [self._folder / name for _, name in sorted(found)]

    def _fits(self, name: str) -> bool:
        return not name.startswith(".") and not name.endswith(UNFINISHED) and fnmatchcase(name, self._pattern)

    def _room(self, claim: str) -> Path:
        room = self._folder / CLAIMED / claim
        room.mkdir(parents=True, exist_ok=True)
        return room

    def _held(self, claim: str) -> Path | None:
        try:
            return next((Path(entry.path) for entry in os.scandir(self._folder / CLAIMED / claim)), None)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _leave(self, claim: str) -> None:
        try:
            (self._folder / CLAIMED / claim).rmdir()
        except OSError:
            pass  # never made

    def _item(self, path: Path, claim: str | None) -> WorkItem:
        text = _read(path)
        first = next((line.strip(" \t#") for line in text.splitlines() if line.strip(" \t#")), "")
        return make_item(
            path.name,
            first or path.name,
            description=text.strip(),
            metadata={"file": path.name, "path": str(path)},
            claim={} if claim is None else {"id": claim},
        )


def _read(path: Path) -> str:
    """Return the text of a file; one that is no text has none, and is found by its path."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(READ_LIMIT)
    return "" if b"\0" in content else content.decode("utf-8", "replace")


def _move(path: Path, folder: Path, *, keep: bool = False) -> Path:
    """Move a file under a name that is free there: nothing is ever overwritten. `keep`: its old name stays for now."""
    for name in _names(path.name):
        target = folder / name
        try:
            os.link(path, target)
        except FileExistsError:
            if not os.path.samefile(path, target):  # else a crash came between the two halves of a move
                continue
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            if target.exists():
                continue
            os.rename(path, target)
            return target
        if not keep:
            path.unlink(missing_ok=True)
        return target
    raise AssertionError("names never end")


def _names(name: str) -> Iterator[str]:
    yield name
    stem, suffix = os.path.splitext(name)
    number = 2
    while True:
        yield f"{stem}.{number}{suffix}"
        number += 1


def _write_report(path: Path, outcome: WorkReport) -> None:
    told = {"success": outcome.success, "run": outcome.run, "summary": outcome.summary, "error": outcome.error}
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(told, ensure_ascii=False, indent=2) + "\n", "utf-8")
    part.rename(path)


@contextmanager
def _telling(folder: Path) -> Iterator[None]:
    """Turn what the system refuses into an error that names the folder."""
    try:
        yield
    except OSError as error:
        hint = "look at its permissions" if folder.is_dir() else "make it, or correct `directory:`"
        raise SourceError(f"the folder {folder} cannot be worked on: {error.strerror or error}", hint=hint) from error
