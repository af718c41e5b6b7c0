"""Another machine on the database of a scene: a worker with a lease, that claims and starts as the engine does."""

from datetime import timedelta
from functools import partial

from msgspec.structs import replace

from rota.engine.transactions.claim import Claimed, ClaimOwner, claim, start
from rota.model.ids import new_id
from rota.model.records import ProcessIdentity
from rota.rules.liveness import LEASE
from rota.rules.queue_order import EVERYTHING, PoolFilter
from rota.store.driver import Database
from rota.store.tables import processes
from rota.store.tables.processes import Worker
from rota.testing.scene import Scene

LONG_OVER = timedelta(hours=-1)
LATER = timedelta(milliseconds=1)


class Machine:
    """A worker of another folder. What it writes names its epoch; whether it lives, its lease alone tells."""

    def __init__(
        self, scene: Scene, name: str, *, takes: PoolFilter = EVERYTHING, slots: int = 4, kind: str = "worker"
    ) -> None:
        self.scene = scene
        self.name = name
        self.kind = kind
        self.slots = slots
        scene.clock.advance(LATER)  # the scene's own worker is the first: so SQLite knows whose folder it is
        self.holder: ClaimOwner = scene.store.write(partial(self._enter, takes=takes))

    def _enter(self, db: Database, *, takes: PoolFilter) -> ClaimOwner:
        now = self.scene.clock.now()
        me = ProcessIdentity(f"boot of {self.name}", 1, 1)
        worker = Worker(new_id(now), self.name, {}, self.name, "/srv/rota")
        processes.insert_worker(db, worker, now=now)
        processes.note_capacity(db, worker.id, takes=takes, slots=self.slots)
        epoch = processes.open_process(
            db, worker_id=worker.id, kind=self.kind, identity=me, lock=new_id(now), version="0", now=now
        )
        processes.renew_lease(db, epoch, lease=LEASE)
        return ClaimOwner(worker.id, epoch, me, takes, leased=True)

    def renew(self, lease: timedelta = LEASE) -> bool:
        """Say that it is alive, for so long; tell whether it still is who it was."""
        renewing = partial(processes.renew_lease, epoch=self.holder.epoch, lease=lease)
        return self.scene.store.write(renewing) is not None

    def lives(self) -> bool:
        """Return whether its lease lasts, by the database's clock."""

        def look(db: Database) -> bool:
            now = processes.server_now(db)
            found = [one for one in processes.open_processes(db) if one.epoch == self.holder.epoch]
            return any(one.lease_until is not None and one.lease_until >= now for one in found)

        return self.scene.store.read(look)

    def vanish(self) -> None:
        """Be heard of no more: its lease was over long ago."""
        assert self.renew(LONG_OVER)

    def claim(self, free: int = 1) -> list[Claimed]:
        """Claim as the engine does: not at all once it was declared lost, or is drained."""

        def take(db: Database) -> list[Claimed]:
            if not processes.may_claim(db, self.holder.epoch):
                return []
            return claim(db, self.holder, range(free), now=self.scene.clock.now(), alive=lambda _one: True)

        return self.scene.store.write(take)

    def start(self, claimed: Claimed) -> bool:
        """Start what it claimed, in a process of its own."""
        process = replace(self.holder.identity, pid=77)
        starting = partial(start, claimed=claimed, holder=self.holder, process=process, now=self.scene.clock.now())
        return self.scene.store.write(starting)
