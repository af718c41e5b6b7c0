"""Whether a scheduler runs, or ticks or other machines replace it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rota.engine.activity import in_tick_mode, read_ticks, taken_by_all
from rota.engine.membership.control import ask
from rota.engine.membership.locks import SERVE_LOCK, live_processes, serving_pid
from rota.model.records import Run
from rota.model.spec import Draw
from rota.operations.jobs import ENABLED_KEY
from rota.operations.workers import WorkerState, anybody_takes, slots_of_all, worker_states
from rota.rules.liveness import Ticks
from rota.store.driver import Database, Store
from rota.store.sqlite.store import is_held
from rota.store.tables import processes


class Liveness(StrEnum):
    """The state of the scheduler of a state folder, or of the ticks or other machines that replace it.

    STOPPING: it starts no more runs. FAILING: two consecutive starts failed.
    """

    RUNNING = "running"
    STOPPING = "stopping"
    FAILING = "failing"
    ELSEWHERE = "elsewhere"
    TICKING = "ticking"
    STALLED = "stalled"
    DEAD = "dead"


class Heartbeat(Struct, frozen=True):
    """The answer of the scheduler's loop, or the last ticks if no scheduler runs.

    `workers`: all machines of a shared database; empty for a database of this folder alone.
    """

    liveness: Liveness
    pid: int | None = None
    answer: Mapping[str, Any] = field(default_factory=dict)
    ticks: Ticks | None = None
    state: Path | None = None
    workers: tuple[WorkerState, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether due runs will start."""
        return self.liveness in (Liveness.RUNNING, Liveness.TICKING, Liveness.ELSEWHERE)

    @property
    def slots(self) -> int:
        """The number of slots of all machines."""
        slots: int = slots_of_all(self.workers)[0] if self.workers else self.answer.get("concurrency", 0)
        return slots

    @property
    def slots_taken(self) -> int:
        """The number of taken slots of all machines."""
        taken: int = slots_of_all(self.workers)[1] if self.workers else self.answer.get("slots_taken", 0)
        return taken

    def serves(self, draws: Sequence[Draw]) -> bool:
        """Return whether a live worker accepts a run with these draws."""
        return anybody_takes(self.workers, draws) if self.workers else self.liveness is not Liveness.DEAD

    @property
    def fires(self) -> bool:
        """Whether the next instant fires: not if the scheduler stops and no other machine serves."""
        others = any("serve" in worker.kinds and not worker.here for worker in self.workers)
        return self.liveness is not Liveness.STOPPING or others

    @property
    def last_round(self) -> datetime | None:
        """The time of the newest round of a loop."""
        rounds = [datetime.fromisoformat(loop["last_at"]) for loop in self.answer.get("loops", ()) if loop["last_at"]]
        return max(rounds, default=None)


def heartbeat(state: Path) -> Heartbeat:
    """Query the scheduler's loop; a lock without an answer within a second means a stalled scheduler."""
    answer = ask(state, {"ask": "status"})
    if answer is not None and "pid" in answer:
        liveness = Liveness.FAILING if answer.get("failing") else Liveness.RUNNING
        liveness = Liveness.STOPPING if answer.get("stopping") else liveness
        return Heartbeat(liveness, answer["pid"], answer, state=state)
    if serves(state):
        return Heartbeat(Liveness.STALLED, serving_pid(state), state=state)
    return Heartbeat(Liveness.DEAD, state=state)


def with_ticks(db: Database, beat: Heartbeat, *, now: datetime) -> Heartbeat:
    """Return a heartbeat with the ticks, if no scheduler runs, and the other machines of the database."""
    if processes.is_shared(db):
        beat = replace(beat, workers=worker_states(db, beat.state))
        if beat.liveness is Liveness.DEAD and any("serve" in worker.kinds for worker in beat.workers):
            return replace(beat, liveness=Liveness.ELSEWHERE)
    if beat.liveness is not Liveness.DEAD or not in_tick_mode(db):
        return beat
    ticks = read_ticks(db)
    if not ticks.still_come(now):
        return replace(beat, ticks=ticks if ticks.last else None)
    answer = {"concurrency": ticks.slots, "slots_taken": taken_by_all(db, beat.state) if beat.state else 0}
    return replace(beat, liveness=Liveness.TICKING, answer=answer, ticks=ticks)


def attended(store: Store, state: Path, *, now: datetime, run: Run | None = None) -> bool:
    """Return whether queued runs will start: a scheduler runs, or ticks come; or whether a process executes `run`."""
    if serves(state) or (run is not None and carried(store, state, run)):
        return True
    return store.read(lambda db: with_ticks(db, Heartbeat(Liveness.DEAD, state=state), now=now)).alive


SWITCHED_OFF = "the scheduler is switched off by `scheduler.enabled: false`: nothing fires and nothing starts"


def switched_off(db: Database, beat: Heartbeat) -> bool:
    """Return whether `scheduler.enabled: false` applies, by the running scheduler, else by the applied file."""
    if "enabled" in beat.answer:
        return not beat.answer["enabled"]
    return db.row("meta_get", key=ENABLED_KEY) == ("off",)


def carried(store: Store, state: Path, run: Run) -> bool:
    """Return whether the process that executes a run is alive and will record its end."""
    return any(process.epoch == run.epoch for process in store.read(partial(live_processes, state=state)))


def serves(state: Path) -> bool:
    """Return whether a process holds the lock of the scheduler."""
    return is_held(state / SERVE_LOCK)
