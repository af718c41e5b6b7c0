"""Power of this machine: the battery, an inhibitor against sleep, and the alarm that wakes it."""

import ctypes
import errno
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import psutil

from rota.model.clock import to_ms
from rota.rules.power import Power

CLOCK_REALTIME_ALARM = 8
"""The clock whose timers wake a machine that sleeps; Linux alone has it."""
CLOCKS = Path("/sys/class/rtc")
ANSWER_MS = 10_000
NO_CLOCK = "the machine has no clock that can wake it"
_RUNNING = "echo; exec cat"
"""What an inhibitor runs: it says that it runs, and ends with the pipe of its starter, also after a kill -9."""
_PROGRAMS = {
    "linux": ("systemd-inhibit", "--what=sleep:idle", "--who=rota", "--mode=block"),
    "darwin": ("caffeinate", "-i"),
}


def read_power() -> Power:
    """Return the power of this machine."""
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return Power() if battery is None else Power(battery.power_plugged, float(battery.percent))


def inhibitor_problem() -> str:
    """Return why this machine cannot be kept awake, empty if it can: an inhibitor is started and ended."""
    power = SystemPower()
    try:
        return power.hold("rota doctor")
    finally:
        power.close()


def alarm_problem() -> str:
    """Return why this machine cannot be woken, empty if it can."""
    power = SystemPower()
    try:
        return power.set_up_alarm()
    finally:
        power.close()


class SystemPower:
    """Keeps this machine awake and wakes it; each method returns why it cannot, empty if it can."""

    def __init__(self, platform: str = sys.platform, clocks: Path = CLOCKS) -> None:
        self._platform = platform
        self._clocks = clocks
        self._inhibitor: subprocess.Popen[bytes] | None = None
        self._alarm: int | None = None

    def read(self) -> Power:
        """Return the power of this machine."""
        return read_power()

    def hold(self, why: str) -> str:
        """Keep the machine awake until `release`, or until this process ends. Blocks until it is known."""
        if self._inhibitor is not None and self._inhibitor.poll() is None:
            return ""
        self.release()
        program = _PROGRAMS.get(self._platform, ())
        if not program:
            return f"rota knows no inhibitor for {self._platform}"
        if shutil.which(program[0]) is None:
            return f"{program[0]} is not installed"
        reason = (f"--why={why}",) if self._platform == "linux" else ()
        return self._start([*program, *reason, "/bin/sh", "-c", _RUNNING])

    def _start(self, argv: list[str]) -> str:
        pipe = subprocess.PIPE
        try:
            self._inhibitor = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        except OSError as error:
            return f"{argv[0]} cannot be started: {error.strerror}"
        assert self._inhibitor.stdout is not None
        answered = select.poll()
        answered.register(self._inhibitor.stdout)
        if answered.poll(ANSWER_MS) and self._inhibitor.stdout.readline():
            return ""
        words = self._end().strip().splitlines()
        return words[-1] if words else f"{argv[0]} gave no answer"

    def release(self) -> None:
        """Allow sleep again."""
        self._end()

    def _end(self) -> str:
        """End the inhibitor by closing its pipe, or kill it; return what it wrote to standard error."""
        held, self._inhibitor = self._inhibitor, None
        if held is None:
            return ""
        try:
            _, told = held.communicate(timeout=ANSWER_MS / 1000)
        except subprocess.TimeoutExpired:
            os.killpg(held.pid, signal.SIGKILL)
            _, told = held.communicate()
        return told.decode(errors="replace")

    def set_up_alarm(self) -> str:
        """Prepare the alarm that wakes the machine."""
        if self._alarm is not None:
            return ""
        if self._platform != "linux":
            return f"rota cannot wake a machine with {self._platform}"
        if not any(self._clocks.glob("*/wakealarm")):
            return NO_CLOCK
        self._alarm = _libc().timerfd_create(CLOCK_REALTIME_ALARM, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._alarm >= 0:
            return ""
        self._alarm = None
        return _alarm_words(ctypes.get_errno())

    def wake_at(self, at: datetime | None) -> str:
        """Wake the machine at an instant if it sleeps then; None: not at all."""
        if at is None and self._alarm is None:
            return ""
        if problem := self.set_up_alarm():
            return problem
        ms = 0 if at is None else max(1, to_ms(at))
        setting = struct.pack("qqqq", 0, 0, ms // 1000, ms % 1000 * 1_000_000)
        if _libc().timerfd_settime(self._alarm, 1, setting, None) < 0:
            return _alarm_words(ctypes.get_errno())
        return ""

    def close(self) -> None:
        """Allow sleep, and clear the alarm."""
        self.release()
        if self._alarm is not None:
            os.close(self._alarm)
            self._alarm = None


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _alarm_words(code: int) -> str:
    if code == errno.EPERM:
        return "the process lacks the capability CAP_WAKE_ALARM"
    if code in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV):
        return NO_CLOCK
    return f"the clock cannot be set: {os.strerror(code)}"
