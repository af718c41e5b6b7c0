"""Damage: after an unclean stop the whole database is read beside the work; what is found is told, never changed.

A state folder that vanishes and a database file that is overwritten are noticed while they are in use.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rota.engine.lock import WORKER, file_identity
from rota.engine.session import DATABASE, Session
from rota.log import log
from rota.model.errors import DatabaseCorrupt, RotaError, StateError
from rota.store.copying import quick_check
from rota.store.sqlite import Head, mark_database, read_head

HINT = "work goes on as far as it can; stop {who} and put back a backup with `rota restore`"
_GONE_HINT = "nothing more was started; put it back, or start again with an empty one"
_OVERWRITTEN_HINT = (
    "nothing more was started, and the file is left as it was found; before you use it remove the files beside it"
    " that end in -wal and -shm, or put back a backup with `rota restore`"
)


class DamageCheck:
    """Reads a database file for damage, in a thread; `found` is what people are told, `who` whom they should stop."""

    def __init__(self, path: Path, *, who: str) -> None:
        self._path = path
        self._hint = HINT.format(who=who)
        self.found: str | None = None

    @contextlib.contextmanager
    def beside(self, threads: Executor | None = None) -> Iterator[None]:
        """Look while the work in here goes on, and stop with it."""
        stop = threading.Event()
        looking = asyncio.create_task(self._look(stop, threads), name="rota-check")
        try:
            yield
        finally:
            stop.set()
            looking.cancel()

    async def _look(self, stop: threading.Event, threads: Executor | None) -> None:
        try:
            check = partial(quick_check, self._path, stop=stop)
            found = await asyncio.get_running_loop().run_in_executor(threads, check)
        except RotaError as error:
            found = (str(error),)
        if found:
            self.found = f"{self._path} is damaged: {found[0]}; put back a backup"
            log.error("the database is damaged", path=str(self._path), found=found, hint=self._hint)
        else:
            log.debug("the database is whole")


def watch_state(state: Path, session: Session, *, alone: bool) -> "StateWatch":
    """Return what watches the state folder; `alone`: no other process serves it, so its database may be marked."""
    if session.leased:
        return StateWatch(state / WORKER)
    watch = StateWatch(state / DATABASE)
    watch.begin(alone=alone)
    return watch


@dataclass(frozen=True, slots=True)
class Loss:
    """What happened to the state of a process, and what to do about it."""

    what: str
    hint: str


class StateWatch:
    """Looks whether the state folder is the one that this process entered, and the database file the one it wrote.

    SQLite does not notice a file that is overwritten in place: it goes on with its log and with the pages it has read.
    """

    def __init__(self, anchor: Path) -> None:
        self._anchor = anchor
        self._identity = file_identity(anchor)
        self._marks: tuple[int, ...] = ()
        self._head: Head | None = None
        self._looked_at: tuple[int, int] | None = None
        self._doubtful = False

    def begin(self, *, alone: bool) -> None:
        """Note what the database file is like, and where this process serves it alone, mark it."""
        before = read_head(self._anchor)
        if alone and before is not None:
            with contextlib.suppress(StateError):  # a full disk: the file is watched without a mark
                self._marks = (before.mark, mark_database(self._anchor))
        self._head = read_head(self._anchor)

    def lost(self) -> Loss | None:
        """Return what happened to the state, None while it is there.

        Only the second look in a row counts: the first one may have met a checkpoint.
        """
        if file_identity(self._anchor) != self._identity:
            return Loss(f"the state folder {self._anchor.parent} vanished or was replaced", _GONE_HINT)
        if self._head is None or not self._is_overwritten(self._head):
            self._doubtful = False
            return None
        if not self._doubtful:
            self._doubtful = True
            return None
        return Loss(f"the database {self._anchor} was overwritten", _OVERWRITTEN_HINT)

    def _is_overwritten(self, earlier: Head) -> bool:
        try:
            found = self._anchor.stat()
            if self._looked_at == (found.st_mtime_ns, found.st_size):
                return False
            head = read_head(self._anchor)
        except DatabaseCorrupt:
            return True
        except (OSError, StateError):
            return False  # the loops tell that the file cannot be read
        if head is None or not head.follows(earlier, marks=self._marks):
            return True
        if self._marks and head.mark == self._marks[-1]:
            self._marks = self._marks[-1:]
        self._head, self._looked_at = head, (found.st_mtime_ns, found.st_size)
        return False
