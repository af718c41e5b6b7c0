"""What is paused, as every face shows it."""

from dataclasses import dataclass

from rota.engine.pauses import Pause, everything_paused, paused_jobs
from rota.store.driver import Database, Store


@dataclass(frozen=True, slots=True)
class Pauses:
    """What is paused now: everything, and each job."""

    everything: Pause | None
    jobs: tuple[Pause, ...]


def pauses(store: Store) -> Pauses:
    """Return what is paused."""
    return store.read(pauses_in)


def pauses_in(db: Database) -> Pauses:
    """Return what is paused, inside a transaction."""
    return Pauses(everything_paused(db), tuple(paused_jobs(db)))
