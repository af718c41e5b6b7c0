"""What a disk holds after a power cut: the recorder's log, replayed up to any point."""

import random
import struct
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

HEAD = struct.Struct("=IIQq")
SECTOR = 512

Loss = Literal["all", "content", "torn"]
"""What a cut takes: everything not synced, names too; content alone; or a random part of both."""


class Kind(IntEnum):
    """What was done; the numbers are those of recorder.c, ACK is the writer's own."""

    WRITE = 1
    TRUNCATE = 2
    SYNC = 3
    CREATE = 4
    RENAME = 5
    UNLINK = 6
    LINK = 7
    SYNC_FOLDER = 8
    ACK = 9


class Event(Struct, frozen=True):
    """One line of the log."""

    kind: Kind
    inode: int
    offset: int
    data: bytes


def read_log(path: Path) -> Iterator[Event]:
    """Return the events of a log in their order."""
    with path.open("rb") as file:
        while head := file.read(HEAD.size):
            kind, size, inode, offset = HEAD.unpack(head)
            yield Event(Kind(kind), inode, offset, file.read(size))


def acknowledgement(text: bytes) -> bytes:
    """Return the log line by which a writer says that a commit was acknowledged."""
    return HEAD.pack(Kind.ACK, len(text), 0, 0) + text


class _File(Struct):
    now: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[Event] = field(default_factory=list)


class Disk:
    """The files of one folder as programs see them, and as a power cut would leave them."""

    def __init__(self) -> None:
        self.acknowledged: list[bytes] = []
        self._files: dict[int, _File] = {}
        self._names: dict[str, int] = {}
        self._durable_names: dict[str, int] = {}

    def apply(self, event: Event) -> None:
        """Let one event happen."""
        match event.kind:
            case Kind.ACK:
                self.acknowledged.append(event.data)
            case Kind.WRITE | Kind.TRUNCATE:
                file = self._file(event.inode)
                file.pending.append(event)
                _change(file.now, event)
            case Kind.SYNC:
                file = self._file(event.inode)
                file.durable, file.pending = bytes(file.now), []
            case Kind.SYNC_FOLDER:
                self._durable_names = dict(self._names)
            case _:
                self._rename(event)

    def _file(self, inode: int) -> _File:
        return self._files.setdefault(inode, _File())

    def _rename(self, event: Event) -> None:
        first, _, second = event.data.decode().partition("\0")
        match event.kind:
            case Kind.CREATE:
                self._files[event.inode] = _File()
                self._names[first] = event.inode
            case Kind.UNLINK:
                self._names.pop(first, None)
            case Kind.RENAME:
                self._names[second] = self._names.pop(first)
            case Kind.LINK:
                self._names[second] = self._names[first]

    def image(self, loss: Loss, chance: random.Random) -> dict[str, bytes]:
        """Return the files that a power cut now would leave; the index in shared memory never survives."""
        names = self._names if loss == "content" else self._durable_names
        if loss == "torn" and chance.random() < 0.5:
            names = self._names
        kept = {name: inode for name, inode in names.items() if not name.endswith("-shm")}
        return {name: self._content(self._file(inode), loss, chance) for name, inode in kept.items()}

    def _content(self, file: _File, loss: Loss, chance: random.Random) -> bytes:
        if loss != "torn":
            return file.durable
        torn = bytearray(file.durable)
        for event in file.pending:
            _tear(torn, event, chance)
        return bytes(torn)


def _change(content: bytearray, event: Event) -> None:
    if event.kind is Kind.TRUNCATE:
        del content[event.offset :]
        content.extend(bytes(max(0, event.offset - len(content))))
        return
    content.extend(bytes(max(0, event.offset - len(content))))
    content[event.offset : event.offset + len(event.data)] = event.data


def _tear(content: bytearray, event: Event, chance: random.Random) -> None:
    """Let a random half of a write that was not synced reach the disk, by sectors."""
    if event.kind is Kind.TRUNCATE:
        if chance.random() < 0.5:
            _change(content, event)
        return
    for start in range(0, len(event.data), SECTOR):
        if chance.random() < 0.5:
            part = event.data[start : start + SECTOR]
            _change(content, Event(Kind.WRITE, event.inode, event.offset + start, part))
