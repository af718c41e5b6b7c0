"""Firing what is due, many jobs at once: one that cannot be fired is left alone for a while and costs no other."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from rota import faults
from rota.engine.fire import Fired, fire
from rota.engine.refusals import Refusals
from rota.log import log
from rota.model.errors import StateError
from rota.store import jobs
from rota.store.driver import Store

FIRES_A_ROUND = 200
QUARANTINE = timedelta(seconds=60)


class Firer:
    """Fires the due jobs of a process; `claim` is called while they are on their way, `tell` as each is stored."""

    def __init__(
        self, store: Store, *, refusals: Refusals, claim: Callable[[], None], tell: Callable[[Fired], None]
    ) -> None:
        self._store = store
        self._refusals = refusals
        self._claim = claim
        self._tell = tell
        self.quarantine: dict[str, datetime] = {}
        """The jobs that could not be fired, and when they are tried again."""

    async def fire_due(self, now: datetime) -> bool:
        """Fire what is due; tell whether that made runs."""
        due = self._store.read(partial(jobs.due_jobs, now=now, limit=FIRES_A_ROUND + len(self.quarantine)))
        due = [job_id for job_id in due if self.quarantine.get(job_id, now) <= now]
        with self._refusals.telling("fire"):
            fired = await self._fire_all(due, now)
        if due:
            self._refusals.clear("fire")
        return any(one is not None and one.runs for one in fired)

    async def _fire_all(self, due: Sequence[str], now: datetime) -> list[Fired | None]:
        """Fire jobs and claim what they enqueue, as a rule in one commit: a run starts one flush after its instant."""
        firing = [(job_id, self._store.submit(partial(fire, job_id=job_id, now=now))) for job_id in due]
        if firing:
            self._claim()
        return await asyncio.gather(*(self._fire_one(job_id, future, now=now) for job_id, future in firing))

    async def _fire_one(self, job_id: str, firing: "asyncio.Future[Fired]", *, now: datetime) -> Fired | None:
        """See one job fired. One that cannot be is told and left alone for a while, so that it costs no other."""
        try:
            fired = await firing
        except StateError:
            raise  # not this job's fault: the loop waits and tries all of them again, late instants fall under R-10
        except Exception as error:
            self.quarantine[job_id] = now + QUARANTINE
            log.exception("job could not be fired", job=job_id, error=str(error))
            return None
        faults.point("fire.committed")
        self.quarantine.pop(job_id, None)
        self._tell(fired)
        return fired

    def next_at(self, now: datetime, *, tick: datetime) -> datetime:
        """Return when to look again, at `tick` the latest."""
        due = self._store.read(jobs.next_due)
        if due is None:
            return tick
        if due <= now and self.quarantine:
            return min(tick, *self.quarantine.values())
        return min(due, tick)
