"""Damage: after an unclean stop the whole database is read beside the work; what is found is told, never changed."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from rota.log import log
from rota.model.errors import RotaError
from rota.store.copying import quick_check

HINT = "work goes on as far as it can; stop {who} and put back a backup with `rota restore`"


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
