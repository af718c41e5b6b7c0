"""The system's clock, and a timer that waits for wall time. The only place that reads time."""

import os
import struct
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rota.model.clock import Clock, cut_to_ms, to_ms

if TYPE_CHECKING:
    import asyncio

LONGEST_SLEEP = timedelta(seconds=5)
TFD_NONBLOCK = os.O_NONBLOCK
TFD_CLOEXEC = os.O_CLOEXEC
TFD_TIMER_ABSTIME = 1
TFD_TIMER_CANCEL_ON_SET = 2


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC, cut to milliseconds."""
        return cut_to_ms(datetime.now(UTC))

    def monotonic(self) -> float:
        """Return seconds that never step; suspended time does not count."""
        return time.monotonic()

    def boottime(self) -> float:
        """Return seconds that never step; suspended time counts."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Alarm(Protocol):
    """Sets an event when a wall time has come."""

    def set(self, at: datetime | None) -> None:
        """Ring at `at`; None: never."""
        ...

    def close(self) -> None:
        """Release the timer."""
        ...


def make_alarm(clock: Clock, event: "asyncio.Event") -> Alarm:
    """Return the best alarm of this system for the running loop."""
    import ctypes

    return TimerAlarm(event) if hasattr(ctypes.CDLL(None), "timerfd_create") else SleepAlarm(clock, event)


class TimerAlarm:
    """A timerfd at absolute wall time: exact, counts suspended time, and rings when the clock is set."""

    def __init__(self, event: "asyncio.Event") -> None:
        import asyncio
        import ctypes

        self._event, self._errno = event, ctypes.get_errno
        self._loop = asyncio.get_running_loop()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.timerfd_create(time.CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(self._errno(), "timerfd_create failed")
        self._loop.add_reader(self._descriptor, self._ring)

    def set(self, at: datetime | None) -> None:
        """Ring at `at`; None: never."""
        # A deadline in the past must still ring: zero would disarm the timer.
        ms = 0 if at is None else max(1, to_ms(at))
        setting = struct.pack("qqqq", 0, 0, ms // 1000, ms % 1000 * 1_000_000)
        flags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET
        if self._libc.timerfd_settime(self._descriptor, flags, setting, None) < 0:
            raise OSError(self._errno(), "timerfd_settime failed")

    def close(self) -> None:
        """Release the timer."""
        self._loop.remove_reader(self._descriptor)
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

    def __init__(self, clock: Clock, event: "asyncio.Event") -> None:
        import asyncio

        self._loop, self._clock = asyncio.get_running_loop(), clock
        self._event = event
        self._at: datetime | None = None
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at: datetime | None) -> None:
        """Ring at `at`; None: never."""
        self.close()
        self._at = at
        if at is not None:
            pause = min(max(at - self._clock.now(), timedelta()), LONGEST_SLEEP)
            self._handle = self._loop.call_later(pause.total_seconds(), self._look)

    def close(self) -> None:
        """Release the timer."""
        if self._handle is not None:
            self._handle.cancel()

    def _look(self) -> None:
        if self._at is not None and self._clock.now() >= self._at:
            self._event.set()
        else:
            self.set(self._at)


def tzdata_version() -> str:
    """Return the version of the time zone data that `zoneinfo` reads: the system's, else the package's."""
    for folder in ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"):
        try:
            with Path(folder, "tzdata.zi").open(encoding="ascii", errors="replace") as file:
                first = file.readline()  # the rest is a hundred times as long
        except OSError:
            continue
        return first.removeprefix("# version ").strip()
    from importlib import metadata

    return metadata.version("tzdata")
