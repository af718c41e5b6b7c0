"""The skeleton of every loop, its alarm, the report of storage errors, and calls in threads."""

import asyncio
import contextlib
import ctypes
import os
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from msgspec import Struct

from rota.log import log
from rota.model.clock import Clock, to_ms
from rota.model.errors import DatabaseGone, RotaError, SourceError, StateError

T = TypeVar("T")
Round = Callable[[], Awaitable[datetime | None]]
FIRST_PAUSE = timedelta(seconds=1)
MAX_PAUSE = timedelta(seconds=30)
LONGEST_SLEEP = timedelta(seconds=5)
TFD_NONBLOCK = os.O_NONBLOCK
TFD_CLOEXEC = os.O_CLOEXEC
TFD_TIMER_ABSTIME = 1
TFD_TIMER_CANCEL_ON_SET = 2


class Alarm(Protocol):
    """Sets an event when a wall time has come."""

    def set(self, at: datetime | None) -> None:
        """Ring at `at`; None: never."""
        ...

    def close(self) -> None:
        """Release the timer."""
        ...


AlarmFactory = Callable[[asyncio.Event], Alarm]


def make_alarm(clock: Clock, event: asyncio.Event) -> Alarm:
    """Return the best alarm of this system for the running loop."""
    return TimerAlarm(event) if hasattr(ctypes.CDLL(None), "timerfd_create") else SleepAlarm(clock, event)


class TimerAlarm:
    """A timerfd at absolute wall time: exact, counts suspended time, and rings when the clock is set."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.timerfd_create(time.CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        asyncio.get_running_loop().add_reader(self._descriptor, self._ring)

    def set(self, at: datetime | None) -> None:
        """Ring at `at`; None: never."""
        # A deadline in the past must still ring: zero would disarm the timer.
        ms = 0 if at is None else max(1, to_ms(at))
        setting = struct.pack("qqqq", 0, 0, ms // 1000, ms % 1000 * 1_000_000)
        flags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET
        if self._libc.timerfd_settime(self._descriptor, flags, setting, None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")

    def close(self) -> None:
        """Release the timer."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _ring(self) -> None:
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:
            return
        except OSError:
            pass  # ECANCELED: the clock was set, so look again now
        self._event.set()


class SleepAlarm:
    """Sleeps of at most five seconds, for systems without timerfd."""

    def __init__(self, clock: Clock, event: asyncio.Event) -> None:
        self._clock = clock
        self._event = event
        self._at: datetime | None = None
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at: datetime | None) -> None:
        """Ring at `at`; None: never."""
        self.close()
        self._at = at
        if at is not None:
            pause = min(max(at - self._clock.now(), timedelta()), LONGEST_SLEEP)
            self._handle = asyncio.get_running_loop().call_later(pause.total_seconds(), self._look)

    def close(self) -> None:
        """Release the timer."""
        if self._handle is not None:
            self._handle.cancel()

    def _look(self) -> None:
        if self._at is not None and self._clock.now() >= self._at:
            self._event.set()
        else:
            self.set(self._at)


class Pulse(Struct):
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
        self.note: str | None = None
        """A failure outside of the rounds."""
        self._clock = clock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Wake the loop at once. Call from its event loop."""
        self._woken.set()

    def take_wake(self) -> bool:
        """Return whether the loop was woken since its last turn, and forget it."""
        woken = self._woken.is_set()
        self._woken.clear()
        return woken

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
        pause = min(FIRST_PAUSE * 2 ** min(pulse.failures - 1, 5), MAX_PAUSE)
        again: datetime = self._clock.now() + pause
        return again


def _surprising(error: Exception) -> bool:
    """Return whether a traceback says more than the message: our own errors name their cause and remedy."""
    return not isinstance(error, RotaError)


AGAIN = 1.0
"""Seconds before a failed write is retried."""

FRESH = 60.0


class StorageErrors:
    """The recent storage errors of each stage."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._met: dict[str, tuple[str, float]] = {}

    @property
    def problem(self) -> str | None:
        """The text of a recent storage error; every failed write is retried well within that time."""
        since = self._clock.monotonic() - FRESH
        return next((text for text, at in self._met.values() if at >= since), None)

    def report(self, stage: str, error: BaseException) -> None:
        """Log an error once, however often it comes back."""
        told, _ = self._met.get(stage, ("", 0.0))
        if told != str(error):
            log.error("database write failed, retrying", stage=stage, error=str(error))
        self._met[stage] = (str(error), self._clock.monotonic())

    def clear(self, stage: str) -> None:
        """Note that a stage could store."""
        if self._met.pop(stage, None) is not None:
            log.info("database write recovered", stage=stage)

    @contextlib.contextmanager
    def reporting(self, stage: str) -> Iterator[None]:
        """Report the storage errors of the block, and raise them."""
        try:
            yield
        except StateError as error:
            self.report(stage, error)
            raise


async def call_in_thread(
    call: Callable[[], T],
    *,
    within: float,
    hide: Callable[[RotaError], RotaError],
    late: Callable[[], None] = lambda: None,
) -> T:
    """Return the answer of a call in a thread of its own; raise its error, or SourceError after `within` seconds.

    A thread cannot be ended: a call that takes too long is left. `late` is called when the caller gets no answer: it
    was cancelled, or the answer came after the time limit. `hide` removes secrets from an error.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def hand_over(value: T | None, error: BaseException | None) -> None:
        if answer.cancelled():
            late()
        elif error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type]

    def work() -> None:
        value, error = _called(call, hide)
        try:
            loop.call_soon_threadsafe(hand_over, value, error)
        except RuntimeError:
            pass  # the loop is closed: the next process finds the claim in the database

    threading.Thread(target=work, name="rota-source", daemon=True).start()
    try:  # `asyncio.wait_for` of Python 3.11 loses a cancellation that comes together with the answer
        await asyncio.wait([answer], timeout=within)
    except asyncio.CancelledError:
        if not answer.cancel():
            answer.exception()
            late()
        raise
    if answer.cancel():
        hint = "check the source, or raise its `timeout`"
        raise SourceError(f"no answer within {within:g} s", hint=hint)
    return answer.result()


def _called(call: Callable[[], T], hide: Callable[[RotaError], RotaError]) -> tuple[T | None, BaseException | None]:
    try:
        return call(), None
    except RotaError as error:
        return None, hide(error)
    except Exception as error:
        return None, hide(SourceError(f"{type(error).__name__}: {error}".rstrip(": ")))


async def pause_for(duration: timedelta) -> None:
    """Wait for an elapsed time on the running loop."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    handle = loop.call_later(duration.total_seconds(), done.set)
    try:
        await done.wait()
    finally:
        handle.cancel()
