"""Copies of the output of running jobs into the database, for those that share it."""

import asyncio
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from rota.engine.loops.loop import Loop
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import RotaError
from rota.runners.output import folder_of, read_from
from rota.store.driver import Store
from rota.store.tables import run_queries
from rota.store.tables.run_queries import Shared

EVERY = timedelta(seconds=2)
LIVE_LIMIT = 1_000_000
"""How many bytes of a run are shared while it runs: a flood is bounded on disk, and shall be so in the database."""
PIECES_PER_WRITE = 16
"""How many pieces go into one transaction."""


class Outputs:
    """Copies the output of runs whose jobs share it. Nothing is done while none of them runs."""

    def __init__(self, store: Store, clock: Clock, state: Path) -> None:
        self._store = store
        self._clock = clock
        self._state = state
        self._sent: dict[str, int | None] = {}
        """How far each of them is shared; None: the database knows, another process may have begun."""
        self.loop = Loop("outputs", self.round, clock=clock)

    def begin(self, run_id: str) -> None:
        """Share the output of a run from now on."""
        self._sent.setdefault(run_id, None)
        self.loop.wake()

    async def round(self) -> datetime | None:
        """Copy what runs have written since the last look."""
        for run_id in list(self._sent):
            if (self._sent.get(run_id) or 0) < LIVE_LIMIT:
                await self._copy(run_id, limit=LIVE_LIMIT)
        again: datetime = self._clock.now() + EVERY
        return again if self._sent else None

    async def finish(self, run_id: str) -> None:
        """Copy the rest of what a run has written; a storage that refuses is told, and the files stay."""
        try:
            await self._copy(run_id, limit=None)
        except RotaError as error:
            log.warning("could not upload run output; the files stay on this machine", error=str(error))
        finally:
            self._sent.pop(run_id, None)

    def drop(self, run_id: str) -> None:
        """Share no more of a run: it is no longer ours."""
        self._sent.pop(run_id, None)

    async def _copy(self, run_id: str, *, limit: int | None) -> None:
        folder = folder_of(self._state, run_id)
        begin = self._sent.get(run_id)
        begin = self._store.read(partial(run_queries.end, run_id=run_id)) if begin is None else begin
        while pieces := await asyncio.to_thread(_pieces, folder, begin, limit=limit):
            await self._store.submit(partial(run_queries.save, run_id=run_id, pieces=pieces, now=self._clock.now()))
            begin = pieces[-1].end
            if run_id in self._sent:
                self._sent[run_id] = begin


def _pieces(folder: Path, offset: int, *, limit: int | None) -> list[Shared]:
    """Return what comes next of an output, some of it at a time. Blocks."""
    found: list[Shared] = []
    while len(found) < PIECES_PER_WRITE and (limit is None or offset < limit):
        piece = read_from(folder, offset)
        if not piece.data:
            break
        found.append(Shared(piece.end - len(piece.data), piece.data))
        offset = piece.end
    return found
