"""A folder as a work source: one file per item, claimed by an atomic rename, moved to `done` or `failed`."""

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import chain, count
from pathlib import Path

from msgspec.structs import asdict

from rota.model.agents import WorkAhead, WorkItem, WorkReport, WorkRequest
from rota.model.errors import SourceError
from rota.sources.items import DESCRIPTION_LIMIT, make_item

CLAIMED, DONE, FAILED = "claimed", "done", "failed"
UNFINISHED_SUFFIXES = ("~", ".tmp", ".part", ".swp")
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
READ_LIMIT = 4 * DESCRIPTION_LIMIT


class DirectorySource:
    """Items are the files of a folder, oldest first. A claimed file is in `claimed/CLAIM/` under its own name."""

    def __init__(self, folder: str, *, pattern: str = "*") -> None:
        self._folder = Path(folder)
        self._pattern = pattern

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the oldest file; the first rename wins."""
        with _folder_errors(self._folder):
            held = self._held(request.claim)
            if held is not None:  # a repeated request after a lost answer
                return self._item(held, request.claim)
            for path in self._waiting():
                target = self._folder / CLAIMED / request.claim / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.rename(path, target)
                except FileNotFoundError:
                    continue  # another claim was faster
                return self._item(target, request.claim)
            self._leave(request.claim)
            return None

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        """Move the file to `done` or `failed`, with a report beside it."""
        with _folder_errors(self._folder):
            claim = item.claim["id"]
            held = self._held(claim)
            if held is None:
                return
            ended = self._folder / (DONE if outcome.success else FAILED)
            ended.mkdir(exist_ok=True)
            target = _move(held, ended, keep=True)
            part = target.with_name(f".{target.name}.report.json.part")
            part.write_text(json.dumps(asdict(outcome), ensure_ascii=False, indent=2) + "\n", "utf-8")
            part.rename(target.with_name(f"{target.name}.report.json"))
            held.unlink(missing_ok=True)
            self._leave(claim)

    def release(self, item: WorkItem, /) -> None:
        """Put the file back."""
        self._release(item.claim["id"])

    def release_claim(self, request: WorkRequest, /) -> None:
        """Put back the file of this claim, if any."""
        self._release(request.claim)

    def _release(self, claim: str) -> None:
        with _folder_errors(self._folder):
            held = self._held(claim)
            if held is not None:
                _move(held, self._folder)
            self._leave(claim)

    def peek(self, _request: WorkRequest, /) -> WorkAhead:
        """Return the number of files, and the oldest."""
        with _folder_errors(self._folder):
            waiting = self._waiting()
            return WorkAhead(len(waiting), self._item(waiting[0], None) if waiting else None)

    def _waiting(self) -> list[Path]:
        files = []
        for entry in os.scandir(self._folder):
            name = entry.name
            if name.startswith(".") or name.endswith(UNFINISHED_SUFFIXES) or not fnmatchcase(name, self._pattern):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):  # no symbolic links
                files.append((status.st_mtime_ns, name))
        return [self._folder / name for _, name in sorted(files)]

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
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        content = file.read(READ_LIMIT)
    # A binary file has no text; the agent finds it by its path.
    return "" if b"\0" in content else content.decode("utf-8", "replace")


def _move(path: Path, folder: Path, *, keep: bool = False) -> Path:
    """Move a file to a free name, without overwriting; `keep`: its old name stays for now."""
    stem, suffix = os.path.splitext(path.name)
    for name in chain([path.name], (f"{stem}.{number}{suffix}" for number in count(2))):
        target = folder / name
        try:
            os.link(path, target)
        except FileExistsError:
            if not os.path.samefile(path, target):  # else a crash interrupted an earlier move
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


@contextmanager
def _folder_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError into a SourceError that names the folder."""
    try:
        yield
    except OSError as error:
        hint = "check its permissions" if folder.is_dir() else "create it, or correct `directory:`"
        raise SourceError(f"the folder {folder} cannot be used: {error.strerror or error}", hint=hint) from error
