"""Bounded output on disk. Standard library only: the keeper uses it without rota installed.

Each file is named `output.<offset of its first byte>`, so a reader needs no index and sees every gap: the first half
of the limit in one file, the last half in short segments of which the oldest is deleted when a new one begins.
"""

import os
import struct
from collections.abc import Callable

PREFIX = "output."
TIMES = f"{PREFIX}times"
"""The file with the times of an output: pairs of an offset and milliseconds. A short output has none."""
TIME = struct.Struct(">QQ")
TIME_GAP, TIME_SHARE = 1000, 3600
"""The least milliseconds between two times, and the part of the output's age: a long output has few times."""
OUTPUT_LIMIT = 10_000_000
SEGMENTS = 16
FULL, TAIL, NONE = "full", "tail", "none"


class BoundedWriter:
    """Keeps the first and the last half of the output (`full`), the last part (`tail`), or nothing (`none`)."""

    def __init__(self, folder: str, policy: str, *, limit: int, clock: Callable[[int], int] | None = None) -> None:
        self.total = 0
        self.truncated = False
        self.error: str | None = None
        self._folder = folder
        self._clock = clock or _written_at
        self._policy = policy
        self._head = limit // 2 if policy == FULL else 0
        self._segment = max(1, (limit - self._head) // SEGMENTS)
        self._kept: list[int] = []
        self._file: int | None = None
        self._room = 0
        self._start = 0
        self._began = self._noted = 0
        """The first and the last noted time in milliseconds."""

    def write(self, data: bytes | memoryview) -> None:
        """Store `data`; bytes that cannot be stored are counted and marked, without an exception."""
        view = memoryview(data)
        if self._policy == NONE:
            self.total += len(view)
            return
        while view:
            view = view[self._store(view) :]

    def _store(self, view: memoryview) -> int:
        try:
            if self._file is None or not self._room:
                self._next_file()
            assert self._file is not None
            stored = os.write(self._file, view[: self._room])
        except OSError as error:
            return self._drop(len(view), str(error))
        self._note_time(self._file)
        self.total += stored
        self._room -= stored
        return stored

    def _note_time(self, file: int) -> None:
        """Note the time of a write if the last noted one is long enough ago."""
        at = self._clock(file)
        if not self._began:
            self._began = self._noted = at
        if at - self._noted < max(TIME_GAP, (at - self._began) // TIME_SHARE):
            return
        pairs = [(0, self._began)] if self._noted == self._began else []
        self._noted = at
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        times = os.open(os.path.join(self._folder, TIMES), flags, 0o600)
        try:
            os.write(times, b"".join(TIME.pack(*pair) for pair in (*pairs, (self.total, at))))
        finally:
            os.close(times)

    def _drop(self, count: int, problem: str) -> int:
        self._discard_empty()
        self.error = self.error or problem
        self.truncated = True
        self.total += count
        return count

    def _discard_empty(self) -> None:
        """Close the file, and remove an empty one, so that a full disk does not fill with names."""
        if self._file is not None and self._start == self.total:
            _remove(self._path(self._start))
            self._kept = [offset for offset in self._kept if offset != self._start]
        self.close()

    def _next_file(self) -> None:
        self.close()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._path(self.total), flags, 0o600)
        self._start = self.total
        if self.total < self._head:
            self._room = self._head - self.total
            return
        self._room = self._segment
        self._kept.append(self.total)
        while len(self._kept) > SEGMENTS:
            self.truncated = True
            _remove(self._path(self._kept.pop(0)))

    def _path(self, offset: int) -> str:
        return os.path.join(self._folder, f"{PREFIX}{offset}")

    def close(self) -> None:
        """Close the file that is being written; a later write opens the next one."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _written_at(file: int) -> int:
    """Return the milliseconds of the last write to a file, as the file system tells them."""
    return os.fstat(file).st_mtime_ns // 1_000_000


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # the output continues without it
