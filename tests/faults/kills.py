"""Storms of kill -9: random victims at random times, under clients that go on asking."""

import random
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from pathlib import Path

from msgspec import Struct, field

from rota.model.errors import RotaError
from rota.model.store_url import SQLITE
from rota.runners.processes import send_signal
from tests.faults.drill import Damage, Drill

VICTIMS = ("serve", "keeper", "keeper", "keeper", "keeper", "keeper", "spawner", "both", "all")
ASKED = ("hand", "gated", "brief", "brief", "brief-doomed", "nap", "late", "late-call")
LONGEST = 0.4
MANY = 20


class Storm(Struct):
    """One project in a storm: drawn from one seed, except for what the machine adds."""

    drill: Drill
    chance: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    _over: threading.Event = field(default_factory=threading.Event)

    def rage(self, kills: int) -> None:
        """Kill until so many have died, restarting the scheduler whenever it is gone."""
        self.drill.declare()
        client = threading.Thread(target=self._ask, args=(random.Random(self.chance.random()),), daemon=True)
        client.start()
        try:
            while self.kills.total() < kills:
                self._round()
        finally:
            self._over.set()
            client.join()

    def _round(self) -> None:
        if not self.drill.servers or self.drill.servers[-1].poll() is not None:
            self.drill.serve(ready=self.chance.random() < 0.7)
        self._over.wait(self.chance.uniform(0, LONGEST))
        victim = self.chance.choice(VICTIMS)
        if victim in ("serve", "both", "all"):
            self._kill_server()
        if victim in ("keeper", "both", "all"):
            self._kill_keepers(everyone=victim == "all")
        if victim == "spawner":
            for spawner in self.drill.spawners():
                spawner.kill()
                self.kills["spawner"] += 1

    def _kill_server(self) -> None:
        server: subprocess.Popen[bytes] = self.drill.servers[-1]
        if server.poll() is None:
            server.kill()
            server.wait()
            self.kills["serve"] += 1

    def _kill_keepers(self, *, everyone: bool) -> None:
        found = self.drill.keepers()
        chosen = found if everyone else self.chance.sample(found, min(1, len(found)))
        self.kills["keeper"] += sum(send_signal(keeper, signal.SIGKILL) for keeper in chosen)

    def _ask(self, chance: random.Random) -> None:
        """Be a client: what returns is acknowledged, whatever happens to the scheduler."""
        store = self.drill.client()
        try:
            while not self._over.wait(chance.uniform(0, 0.2)):
                if not self._room():
                    continue
                try:
                    self.drill.trigger(chance.choice(ASKED), store=store)
                except RotaError:
                    continue  # refused is not acknowledged
        finally:
            store.close()

    def _room(self) -> bool:
        """Return whether the queue is short enough for more: it must be empty soon after the storm."""
        queued = self.drill.rows("SELECT count(*) FROM live WHERE state < 2")
        return int(queued[0][0]) < MANY


def storm(*, kills: int, seed: int, folder: Path, store: str = SQLITE) -> tuple[Counter[str], Damage]:
    """Let a storm of so many kills pass over a new project; return who died, and what it cost."""
    with tempfile.TemporaryDirectory(prefix="storm-", dir=folder) as name:
        drill = Drill(Path(name), store=store)
        raging = Storm(drill, random.Random(seed))
        try:
            raging.rage(kills)
            if drill.servers[-1].poll() is None:
                drill.servers[-1].kill()
                drill.servers[-1].wait()
            drill.calm()
            return raging.kills, drill.damage()
        finally:
            drill.end()
