"""How the scheduler is, in one cheap read: what every page of the dashboard shows at its top."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from rota.engine.cadence import project_mode
from rota.engine.pauses import Pause, everything_paused
from rota.model.spec import Mode
from rota.operations.system import Heartbeat, Liveness, heartbeat, with_ticks
from rota.store import jobs
from rota.store.driver import Database, Store

BEHIND = timedelta(seconds=5)
"""A scheduler whose earliest due instant is older than this is behind."""

WORDS = {Liveness.DEAD: "not running", Liveness.ELSEWHERE: "running elsewhere"}


@dataclass(frozen=True, slots=True)
class Health:
    """Whether what is due will be done: `lag` is for how long the earliest due instant has been waiting to fire."""

    heartbeat: Heartbeat
    lag: timedelta
    mode: Mode
    paused: Pause | None

    @property
    def level(self) -> str:
        """How bad it is: ok, warning, bad."""
        answer = self.heartbeat.answer
        stopping = self.heartbeat.liveness is Liveness.STOPPING
        if not (self.heartbeat.alive or stopping) or answer.get("storage_problem") or answer.get("damage"):
            return "bad"
        if self.paused is not None or stopping or not answer.get("enabled", True) or self.lag > BEHIND:
            return "warning"
        return "ok"

    @property
    def word(self) -> str:
        """The state in a word or two."""
        if self.heartbeat.liveness is Liveness.RUNNING and self.paused is not None:
            return "paused"
        if self.heartbeat.liveness is Liveness.RUNNING and not self.heartbeat.answer.get("enabled", True):
            return "switched off"
        return WORDS.get(self.heartbeat.liveness, self.heartbeat.liveness.value)


def look_at_health(store: Store, state: Path, *, now: datetime) -> Health:
    """Return how the scheduler is."""
    return store.read(partial(_health, beat=heartbeat(state), now=now))


def _health(db: Database, *, beat: Heartbeat, now: datetime) -> Health:
    due = jobs.next_due(db)
    lag = max(now - due, timedelta()) if due is not None else timedelta()
    return Health(with_ticks(db, beat, now=now), lag, project_mode(db, now=now).mode, everything_paused(db))
