"""How many runs there are of each status and worker. Whoever moves runs counts them; a transaction stores it once."""

from rota.model.states import Status
from rota.store.driver import Database

NOBODY = ""
_DISPATCHED, _RUNNING = Status.DISPATCHED, str(Status.RUNNING)


def count(db: Database, status: Status, by: int, *, worker_id: str | None = None) -> None:
    """Note that so many runs of a worker entered a status, or left it (negative)."""
    # Once a run at least, so without the properties of an enum, which cost as much as all the rest.
    key = (_RUNNING if status is _DISPATCHED else str(status), worker_id or NOBODY)
    db.counted[key] = db.counted.get(key, 0) + by


def counts(db: Database) -> dict[Status, dict[str, int]]:
    """Return how many runs there are, by status and worker; those of no worker under `NOBODY`."""
    found: dict[Status, dict[str, int]] = {}
    for status, worker_id, number in db.rows("counter_all"):
        found.setdefault(Status(status), {})[worker_id] = number
    return found
