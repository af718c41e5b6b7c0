"""What was left behind: schedulers that are another rota than the installed one, a database that was moved."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rota.engine.life import who_lives, worker_here
from rota.engine.package import installed_version
from rota.engine.ticks import KIND as TICK
from rota.operations.attention import Attention
from rota.rules.machine import Finding, Level
from rota.store import workers
from rota.store.driver import Database
from rota.store.moving import MOVED_TO

CALLED = {"serve": "the scheduler", "worker": "the worker", "guest": "a program that embeds rota"}
MOVED = "let `store:` in rota.yaml name that one; two schedulers would do the same work twice"
RESTART = "restart it: `rota service restart`, or `rota stop --detach` and `rota serve`"
RESTART_THERE = "restart it there: `rota service restart`, or `rota stop --detach` and `rota serve`"


@dataclass(frozen=True, slots=True)
class Outdated:
    """A living process that is another rota than the installed one; `where` is the name of its machine elsewhere."""

    kind: str
    pid: int
    version: str
    installed: str
    where: str = ""

    @property
    def text(self) -> str:
        """What differs."""
        who, place = CALLED.get(self.kind, self.kind), f" on {self.where}" if self.where else ""
        return f"{who}{place} (pid {self.pid}) is rota {self.version}, installed here is {self.installed}"


def outdated(db: Database, state: Path | None) -> list[Outdated]:
    """Return the living processes of other versions, as seen from a state folder; a tick ends by itself."""
    installed = installed_version()
    if state is None or installed is None:
        return []
    own = worker_here(db, state)
    names = {one.id: one.called for one in workers.workers(db)}
    return [
        Outdated(
            one.kind,
            one.identity.pid,
            one.version,
            installed,
            "" if one.worker_id == own else names.get(one.worker_id, one.worker_id),
        )
        for one in who_lives(db, state)
        if one.kind != TICK and one.version != installed
    ]


def left_behind(db: Database, state: Path | None) -> Iterator[Attention]:
    """Yield which schedulers should be started again, and whether this is the database at all."""
    if (place := moved_to(db)) is not None:
        yield Attention("database", f"was moved to {place}: use that one", "rota doctor", kind="moved", sign=place)
    for one in outdated(db, state):
        yield Attention(
            one.where or "scheduler", f"{one.text}: restart it", "rota doctor", kind="version", sign=one.text
        )


def moved_to(db: Database) -> str | None:
    """Return where `rota migrate` moved this database, None for nowhere."""
    row = db.row("meta_get", key=MOVED_TO)
    return row[0] if row is not None else None


def left_behind_findings(db: Database, state: Path) -> list[Finding]:
    """Tell which schedulers are not the rota that is installed, and how they become it; and of a move."""
    place = moved_to(db)
    moved = [] if place is None else [Finding("store", Level.WARNING, f"this database was moved to {place}", MOVED)]
    return moved + [
        Finding("version", Level.WARNING, one.text, RESTART_THERE if one.where else RESTART)
        for one in outdated(db, state)
    ]
