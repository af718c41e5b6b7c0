"""What a Python function gets: its params, its state, its log and its run."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rota.model.clock import iso
from rota.model.spec import OutputPolicy
from rota.model.states import Trigger
from rota.runners.output import make_folder
from rota.runners.writer import OUTPUT_LIMIT, BoundedWriter


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The run that a function is part of; `scheduled_for` is nominal and aware (R-05)."""

    id: str
    handle: str
    job: str
    number: int
    attempt: int
    trigger: Trigger
    scheduled_for: datetime
    timezone: str


class RunLog:
    """Lines for the run's output: call it, or use its levels. Safe from any thread; free until the first line."""

    __slots__ = ("_folder", "_lock", "_now", "_policy", "_writer")

    def __init__(
        self, folder: Callable[[], Path], now: Callable[[], datetime], *, policy: OutputPolicy = OutputPolicy.FULL
    ) -> None:
        self._folder = folder
        self._now = now
        self._policy = policy
        self._lock = threading.Lock()
        self._writer: BoundedWriter | None = None

    def __call__(self, *parts: object) -> None:
        """Write one line."""
        self._line("", parts)

    def info(self, *parts: object) -> None:
        """Write one line of information."""
        self._line("info ", parts)

    def warning(self, *parts: object) -> None:
        """Write one line that somebody should look at."""
        self._line("warning ", parts)

    def error(self, *parts: object) -> None:
        """Write one line about something that went wrong."""
        self._line("error ", parts)

    def _line(self, level: str, parts: tuple[object, ...]) -> None:
        text = " ".join(map(str, parts))
        self.write(f"{iso(self._now())} {level}{text}\n")

    def write(self, text: str) -> None:
        """Append text to the run's output as it is."""
        data = text.encode("utf-8", "backslashreplace")
        with self._lock:
            if self._writer is None:
                self._writer = self._open()
            self._writer.write(data)

    def _open(self) -> BoundedWriter:
        folder = self._folder()
        if self._policy is not OutputPolicy.NONE:
            make_folder(folder)
        return BoundedWriter(str(folder), self._policy, limit=OUTPUT_LIMIT)

    @property
    def total(self) -> int:
        """How many bytes were written, kept or not."""
        return self._writer.total if self._writer else 0

    def close(self) -> None:
        """Close the file; a later line, of a thread that was abandoned, opens the next one."""
        with self._lock:
            if self._writer is not None:
                self._writer.close()


class JobContext:
    """The one argument of a job's function and of a condition."""

    __slots__ = ("_cancelled", "_given", "_original", "_params", "_state", "log", "run")

    def __init__(self, run: RunInfo, log: RunLog, *, params: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        self.run = run
        self.log = log
        self._given = params
        self._params: dict[str, Any] | None = None
        self._original = state
        self._state: dict[str, Any] | None = None
        self._cancelled = False

    @property
    def params(self) -> dict[str, Any]:
        """The run's params; a copy, since those of the run are frozen."""
        if self._params is None:
            self._params = _copy(self._given)
        return self._params

    @property
    def state(self) -> dict[str, Any]:
        """The job's own JSON object, kept from run to run when the run completes; 16 KB at most."""
        if self._state is None:
            self._state = _copy(self._original)
        return self._state

    @property
    def changed_state(self) -> dict[str, Any] | None:
        """The state if the function changed it, else None."""
        return self._state if self._state is not None and self._state != self._original else None

    @property
    def cancelled(self) -> bool:
        """Whether the run was asked to end: stopped, replaced or out of time. Long functions look at it."""
        return self._cancelled

    def cancel(self) -> None:
        """Tell the function that its run was asked to end."""
        self._cancelled = True


def _copy(value: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(dict(value)))
    return copied
