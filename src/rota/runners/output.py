"""Reading of a run's output, written by `writer.py`: whole, its end, or while it grows."""

import json
import os
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from rota.model.clock import from_ms
from rota.model.ids import created_at
from rota.runners.writer import PREFIX, TIME, TIMES
from rota.text.ansi import clean_for_terminal

CHUNK = 64 * 1024
RUNS = "runs"
LAST_LINE_LIMIT = 200
_END = 8 * 1024
_ATTEMPTS = 5


class OutputPiece(Struct, frozen=True):
    """A part of a run's output: `skipped` bytes that are missing, then `data`, which ends at `end`."""

    data: bytes
    end: int
    skipped: int = 0


class _Part(Struct, frozen=True):
    path: Path
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size

    def __len__(self) -> int:
        return self.size

    def read(self, first: int, end: int) -> Iterator[bytes]:
        """Yield the bytes between two offsets in chunks; the file is open only while a chunk is read."""
        for start in range(first, end, CHUNK):
            with self.path.open("rb") as file:
                file.seek(start)
                yield file.read(min(CHUNK, end - start))


@lru_cache(maxsize=256)
def folder_of(state: Path, run_id: str) -> Path:
    """Return the folder of a run, by the day of its id."""
    return state / RUNS / f"{created_at(run_id):%Y%m%d}" / run_id


def make_folder(folder: Path) -> Path:
    """Make the folder of a run and its missing parents, with mode 0700."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
    except FileNotFoundError:
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def read_json(path: Path, *, needs: str | None = None) -> dict[str, Any] | None:
    """Return the JSON object in a file; None without a file, or without the key that it `needs`."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) and (needs is None or needs in value) else None


def write_private(path: Path | str, text: str) -> None:
    """Write a file with mode 0600; one that has this text already is left as it is."""
    data = text.encode("utf-8", "backslashreplace")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        before = os.read(file, len(data) + 1)
        if before == data:
            return
        written = 0
        while written < len(data):
            written += os.pwrite(file, data[written:], written)
        if before:  # an empty file that is written and closed would be flushed to the disk
            os.ftruncate(file, written)
    finally:
        os.close(file)


def _parts(folder: Path) -> list[_Part]:
    parts = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                offset = entry.name.removeprefix(PREFIX)
                if entry.name.startswith(PREFIX) and offset.isdecimal():
                    parts.append(_Part(Path(entry.path), int(offset), entry.stat().st_size))
    except FileNotFoundError:
        return []  # not begun, pruned, or a segment was replaced just now: the next read is right
    return sorted(parts, key=lambda part: part.start)


def size(folder: Path) -> int:
    """Return the number of bytes written so far, kept or not."""
    parts = _parts(folder)
    return parts[-1].end if parts else 0


def written_at(folder: Path) -> datetime | None:
    """Return the time of the last output, None without any."""
    try:
        times = [part.path.stat().st_mtime for part in _parts(folder) if part.size]
    except FileNotFoundError:
        return None  # the writer replaced this segment: the next look is right
    return datetime.fromtimestamp(max(times), UTC) if times else None


class OutputTimes:
    """The times of an output by offset; an output without noted times has that of its file."""

    def __init__(self, folder: Path) -> None:
        try:
            data = (folder / TIMES).read_bytes()
        except OSError:
            data = b""
        pairs = list(TIME.iter_unpack(data[: len(data) // TIME.size * TIME.size]))
        self._offsets = [offset for offset, _ in pairs]
        self._times = [from_ms(at) for _, at in pairs]
        self._only = None if pairs else written_at(folder)

    def at(self, offset: int) -> datetime | None:
        """Return when the byte at an offset was written, within the precision of the noted times."""
        place = bisect_right(self._offsets, offset) - 1
        return self._times[place] if place >= 0 else self._only


def read_from(folder: Path, offset: int, *, limit: int = CHUNK) -> OutputPiece:
    """Return the output from `offset` on, `limit` bytes at most; no data if there is nothing new."""
    for _ in range(_ATTEMPTS):
        part = next((part for part in _parts(folder) if part.end > offset), None)
        if part is None:
            break
        start = max(offset, part.start)
        try:
            with part.path.open("rb") as file:
                file.seek(start - part.start)
                data = file.read(min(limit, part.end - start))
        except FileNotFoundError:
            continue  # the writer replaced this segment
        return OutputPiece(data=data, end=start + len(data), skipped=start - offset)
    return OutputPiece(data=b"", end=offset)


def read_output(folder: Path, *, start: int = 0) -> Iterator[bytes]:
    """Yield the output from an offset on in chunks, with gaps marked."""
    offset = start
    while (piece := read_from(folder, offset)).data:
        if piece.skipped:
            yield gap_mark(piece.skipped)
        yield piece.data
        offset = piece.end


class Snapshot:
    """The output with a fixed size, marks of gaps included; only its file names are in memory."""

    def __init__(self, folder: Path) -> None:
        self._spans: list[bytes | _Part] = []
        self.size = end = 0
        for part in _parts(folder):
            if part.start > end:
                self._add(gap_mark(part.start - end))
            self._add(part)
            end = part.end

    def _add(self, span: "bytes | _Part") -> None:
        self._spans.append(span)
        self.size += len(span)

    def read(self, first: int, last: int) -> Iterator[bytes]:
        """Yield the bytes from `first` to `last` in chunks; raise FileNotFoundError if a file was pruned."""
        at = 0
        for span in self._spans:
            start, end = max(first - at, 0), min(last + 1 - at, len(span))
            at += len(span)
            if start < end:
                yield from [span[start:end]] if isinstance(span, bytes) else span.read(start, end)


def read_all(folder: Path) -> bytes:
    """Return the whole output, with gaps marked."""
    return b"".join(read_output(folder))


def tail_after(folder: Path, offset: int, limit: int) -> bytes:
    """Return the last `limit` bytes of the output after an offset."""
    at, data = max(offset, size(folder) - limit), b""
    while (piece := read_from(folder, at)).data and len(data) < limit:
        at, data = piece.end, data + piece.data
    return data


def append_output(folder: Path, other: Path, *, limit: int = CHUNK) -> int:
    """Append the end of another folder's output, whose writer is done; return the new size."""
    data, end = tail_after(other, 0, limit), size(folder)
    if data:
        try:
            write_private(folder / f"{PREFIX}{end}", data.decode("utf-8", "replace"))
        except OSError:
            return end  # the disk is full: the copy in the other folder stays
    return size(folder)


def forget_output(folder: Path) -> None:
    """Remove the output of a run."""
    for part in _parts(folder):
        part.path.unlink(missing_ok=True)
    (folder / TIMES).unlink(missing_ok=True)


def gap_mark(skipped: int) -> bytes:
    """Return the line that marks missing bytes."""
    units = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"))
    size = next((f"{skipped / unit:.1f} {name}" for unit, name in units if skipped >= unit), f"{skipped} bytes")
    return f"\n… {size} omitted …\n".encode()


def tail(folder: Path, lines: int) -> bytes:
    """Return the last `lines` lines of the output after the last gap."""
    return b"".join(read_output(folder, start=tail_start(folder, lines)))


def tail_start(folder: Path, lines: int) -> int:
    """Return the offset of the last `lines` lines after the last gap."""
    parts = _parts(folder)
    end = start = parts[-1].end if parts else 0
    missing = lines
    for part in reversed(parts):
        if part.end != start or missing <= 0:
            break
        try:
            for first in range((part.size - 1) // CHUNK * CHUNK, -1, -CHUNK):
                data = b"".join(part.read(first, min(first + CHUNK, part.size)))
                searched = len(data) - (part.start + first + len(data) == end)  # the newline at the end begins no line
                while (newline := data.rfind(b"\n", 0, searched)) >= 0:
                    missing, searched = missing - 1, newline
                    if not missing:
                        return part.start + first + newline + 1
        except FileNotFoundError:
            break  # the writer replaced this segment
        start = part.start
    return start if lines > 0 else end


def last_line(folder: Path) -> str:
    """Return the last line of the output that is not blank, cleaned and short."""
    end = size(folder)
    data = b""
    while (piece := read_from(folder, max(0, end - _END) + len(data))).data and len(data) < _END:
        data += piece.data
    lines = clean_for_terminal(data.decode("utf-8", "replace")).splitlines()
    line = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return line if len(line) <= LAST_LINE_LIMIT else line[: LAST_LINE_LIMIT - 1] + "…"
