"""Built-in conditions that look at the database (R-09)."""

from collections.abc import Callable, Mapping
from functools import partial

from rota.engine.budget import charges
from rota.engine.claim import Claimed
from rota.model.clock import Clock
from rota.store import queue
from rota.store.driver import Database, Store

AGENTS = "agents"
MANY = 1_000_000

Fact = Callable[[Claimed], bool]


def facts_of(store: Store, clock: Clock) -> Mapping[str, Fact]:
    """Return the built-in conditions that this database answers, by name."""
    return {
        "no_agents_running": partial(_ask, store, no_agents_running),
        "budget_left": partial(_ask, store, partial(budget_left, clock=clock)),
    }


def _ask(store: Store, question: Callable[[Database, Claimed], bool], claimed: Claimed) -> bool:
    return store.read(lambda db: question(db, claimed))


def no_agents_running(db: Database, claimed: Claimed) -> bool:
    """Tell whether nobody draws on the pool `agents`, the run that asks left out."""
    return not [one for one in queue.holders(db, AGENTS, limit=MANY) if one != claimed.run.handle]


def budget_left(db: Database, claimed: Claimed, *, clock: Clock) -> bool:
    """Tell whether all accounts of the job have room for what a run of it is expected to cost (R-19)."""
    found = charges(db, claimed.spec, job_id=claimed.run.job_id, now=clock.now())
    return all(charge.fits for charge in found)
