"""Pools that a thread keeps beyond the end of its run, since it cannot be killed (R-03)."""

import asyncio
from collections.abc import Callable, Collection
from functools import partial

from rota.engine.pools import return_kept
from rota.engine.refusals import AGAIN, Refusals
from rota.store.driver import Store


class KeptPools:
    """Whose threads still keep pools; `returned` is called when one has given them back."""

    def __init__(self, store: Store, *, refusals: Refusals, returned: Callable[[], None]) -> None:
        self._store = store
        self._refusals = refusals
        self._returned = returned
        self._run_ids: set[str] = set()

    def keep(self, run_ids: Collection[str]) -> None:
        """Note runs that end while code of them still runs."""
        self._run_ids.update(run_ids)

    def give_back(self, run_id: str) -> None:
        """Give back what the thread of a run kept, if it kept anything."""
        if run_id in self._run_ids:
            future = self._store.submit(partial(return_kept, run_id=run_id))
            future.add_done_callback(partial(self._given, run_id))

    def _given(self, run_id: str, future: "asyncio.Future[None]") -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._refusals.meet("record", error)
            asyncio.get_running_loop().call_later(AGAIN, self.give_back, run_id)
            return
        self._run_ids.discard(run_id)
        self._returned()
