"""The skeleton of every loop, and the report of storage errors."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.engine.clock import Alarm
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import DatabaseGone, RotaError, StateError

Round = Callable[[], Awaitable[datetime | None]]
AlarmFactory = Callable[[asyncio.Event], Alarm]
FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(seconds=30)


@dataclass(slots=True)
class Pulse:
    """When a loop last went round, how often it failed since it last succeeded, and the last error."""

    rounds: int = 0
    last_at: datetime | None = None
    failures: int = 0
    error: str | None = None
    code: str | None = None

    def fail(self, error: BaseException) -> None:
        """Count a failure."""
        self.failures += 1
        self.error = str(error)
        self.code = error.code if isinstance(error, RotaError) else type(error).__name__

    def succeed(self) -> None:
        """Forget the failures."""
        self.failures, self.error, self.code = 0, None, None


class Loop:
    """A duty: `round` does what is due and says when to look again (None: only when woken)."""

    def __init__(self, name: str, round_: Round, *, clock: Clock) -> None:
        self.name = name
        self.round = round_
        self.pulse = Pulse()
        self._clock = clock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Let the loop look again at once. Call from its event loop."""
        self._woken.set()

    async def run(self, make_alarm: AlarmFactory) -> None:
        """Go round until cancelled. A round that raises is told, and tried again after a growing pause."""
        alarm = make_alarm(self._woken)
        try:
            while True:
                self._woken.clear()
                alarm.set(await self.turn())
                await self._woken.wait()
        finally:
            alarm.close()

    async def turn(self) -> datetime | None:
        """Do one round; return when the next is due."""
        try:
            due = await self.round()
        except Exception as error:
            return self._failed(error)
        finally:
            self.pulse.rounds += 1
            self.pulse.last_at = self._clock.now()
        if self.pulse.failures:
            log.info("loop recovered", loop=self.name, failures=self.pulse.failures)
        self.pulse.succeed()
        return due

    def _failed(self, error: Exception) -> datetime:
        pulse = self.pulse
        if pulse.error != str(error) and not isinstance(error, DatabaseGone):  # that is told once for all loops
            tell = log.exception if _surprising(error) else log.error
            tell("loop failed", loop=self.name, error=str(error))
        pulse.fail(error)
        pause = min(FIRST_PAUSE * 2 ** min(pulse.failures - 1, 5), LONGEST_PAUSE)
        again: datetime = self._clock.now() + pause
        return again


def _surprising(error: Exception) -> bool:
    """Tell whether a traceback says more than the message: our own errors name their cause and remedy."""
    return not isinstance(error, RotaError)


AGAIN = 1.0
"""After how many seconds what was refused is tried again."""

FRESH = 60.0


class StorageErrors:
    """What was refused of late, by the stage that met it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._met: dict[str, tuple[str, float]] = {}

    @property
    def problem(self) -> str | None:
        """What the storage refused of late; everything refused is tried again well within that time."""
        since = self._clock.monotonic() - FRESH
        return next((text for text, at in self._met.values() if at >= since), None)

    def meet(self, stage: str, error: BaseException) -> None:
        """Tell a refusal once, however often it is met again."""
        told, _ = self._met.get(stage, ("", 0.0))
        if told != str(error):
            log.error("database write failed, retrying", stage=stage, error=str(error))
        self._met[stage] = (str(error), self._clock.monotonic())

    def clear(self, stage: str) -> None:
        """Note that a stage could store."""
        if self._met.pop(stage, None) is not None:
            log.info("database write recovered", stage=stage)

    @contextlib.contextmanager
    def telling(self, stage: str) -> Iterator[None]:
        """Tell what the storage refuses in here, and let it through."""
        try:
            yield
        except StateError as error:
            self.meet(stage, error)
            raise
