"""Stopping runs that no scheduler carries: their keepers are signalled by whoever asks."""

from collections.abc import Sequence
from pathlib import Path

from rota.operations.runs import show_run, stop_keeper
from rota.operations.system import carried, serves
from rota.store.driver import Store


def stop_unattended(store: Store, state: Path, run_ids: Sequence[str]) -> None:
    """Signal the keepers of runs that were asked to stop where nobody else will."""
    if serves(state):
        return
    for run_id in run_ids:
        run = show_run(store, run_id).run
        if not carried(store, state, run):
            stop_keeper(store, run)
