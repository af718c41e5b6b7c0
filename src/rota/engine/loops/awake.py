"""The loop that keeps the machine awake while runs are in its slots, and wakes it for the next instant."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from rota.engine.loops.loop import Loop
from rota.engine.ports import PowerSwitch
from rota.log import log
from rota.model.amounts import counted
from rota.model.clock import Clock
from rota.model.spec import KeepAwake
from rota.rules.power import LINGER, LOOK_EVERY, Power, keeps_awake, wakes_at
from rota.store.driver import Store
from rota.store.tables import jobs


class Refused(NamedTuple):
    """Why no inhibitor is held, and until when none is tried; `problem` empty: one is held."""

    problem: str
    until: datetime


class Awake:
    """Holds an inhibitor while slots are taken, and an alarm for the next instant of the jobs with `wake`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        power: PowerSwitch,
        *,
        policy: KeepAwake,
        running: Callable[[], int],
        wakes: bool,
    ) -> None:
        self.policy = policy
        self.held = False
        self._store = store
        self._clock = clock
        self._power = power
        self._running = running
        self._wakes = wakes
        self._alarm: datetime | None = None
        self._idle_since: datetime | None = None
        """The end of the last run, while the machine is still kept awake."""
        self._refused = Refused("", clock.now())
        self._told: set[str] = set()
        self.loop = Loop("awake", self.round, clock=clock)

    async def round(self) -> datetime | None:
        """Hold or release the inhibitor, set the alarm; return when to look again."""
        refused = await self._keep_awake()
        unset = self._set_alarm() if self._wakes else ""
        for problem in {refused, unset} - {"", *self._told}:
            self._told.add(problem)
            log.warning("power setting failed", error=problem, hint="`rota doctor` tries it again")
        self.loop.note = "; ".join(filter(None, (refused, unset))) or None
        if self.held and self._idle_since is not None:
            return self._idle_since + LINGER
        again = bool(self.loop.note) or (self.policy is not KeepAwake.OFF and self._running() > 0)
        return self._clock.now() + LOOK_EVERY if again else None

    async def _keep_awake(self) -> str:
        if self.policy is KeepAwake.OFF:
            return ""
        taken, now = self._running(), self._clock.now()
        self._idle_since = None if taken else self._idle_since or now
        if self.held and self._idle_since is not None and now < self._idle_since + LINGER:
            return ""
        if not keeps_awake(self.policy, taken=taken, power=self._power.read() if taken else Power()):
            await self._release()
            return ""
        if self._refused.problem and now < self._refused.until:
            return self._refused.problem
        refused = await asyncio.to_thread(self._power.hold, f"{counted(taken, 'run')} in progress")
        if not refused and not self.held:
            log.info("keeping the machine awake", runs=taken)
        self.held = not refused
        problem = f"the machine may sleep: {refused}" if refused else ""
        self._refused = Refused(problem, now + LOOK_EVERY)
        return problem

    async def _release(self) -> None:
        if self.held:
            await asyncio.to_thread(self._power.release)
            log.info("the machine may sleep again")
        self.held = False

    def _set_alarm(self) -> str:
        """Set the alarm for the next instant of a job with `wake`; a near one leaves it as it is."""
        next_at = self._store.read(jobs.next_wake)
        alarm = wakes_at(next_at, now=self._clock.now())
        if alarm == self._alarm:
            return ""
        refused = self._power.wake_at(alarm)
        self._alarm = None if refused else alarm
        return f"the machine is not woken for its jobs: {refused}" if refused else ""

    def close(self) -> None:
        """Allow sleep, and clear the alarm."""
        self._power.close()
