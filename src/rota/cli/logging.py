"""The scheduler's log: structured lines on stderr, human on a terminal, JSON otherwise."""

import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from rota.cli.streams import json_text
from rota.log import Told
from rota.model.clock import Clock, iso

TOLD_BY_CONSOLE = frozenset(
    {
        "run of a lost process",
        "run skipped",
        "run failed",
        "run waits",
        "run is being stopped",
        "the file cannot be applied; the last good set goes on",
    }
)
_COLOURS = {logging.DEBUG: "2", logging.INFO: "32", logging.WARNING: "33", logging.ERROR: "31"}


def configure_logging(*, verbose: bool, console: bool, stamp: Callable[[], str]) -> None:
    """Set the log up; with `console`, what the console tells on the same stream is left out.

    `stamp` gives the time for people; the JSON lines carry UTC.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_ForPeople(stamp) if sys.stderr.isatty() else _AsJson())
    if console and not verbose:
        handler.addFilter(_left_to_the_log)
    logger = logging.getLogger("rota")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False


def same_stream() -> bool:
    """Tell whether stdout and stderr end up in one place, where a line in both would be told twice."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return False


def say_dropped(clock: Clock, *, as_json: bool) -> dict[str, Callable[[int], str]]:
    """Return what words a number of dropped lines, for stdout and stderr; `as_json` is about the console on stdout."""

    def on_console(lines: int) -> str:
        return json_text({"event": "dropped", "at": iso(clock.now()), "lines": lines})

    def in_log(lines: int) -> str:
        at = iso(clock.now())
        return json_text({"event": "lines dropped", "lines": lines, "level": "warning", "timestamp": at})

    return {
        "stdout": on_console if as_json else _dropped_words,
        "stderr": _dropped_words if sys.stderr.isatty() else in_log,
    }


def _dropped_words(lines: int) -> str:
    return f"rota: dropped {lines:,} line{'' if lines == 1 else 's'} because this output was not read"


class _AsJson(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        told = _told(record)
        at = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        line = {**told.fields, "event": told.event, "level": record.levelname.lower(), "timestamp": at}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json_text(line)


class _ForPeople(logging.Formatter):
    """The time, the level, the event and its fields."""

    def __init__(self, stamp: Callable[[], str]) -> None:
        super().__init__()
        self._stamp = stamp

    def format(self, record: logging.LogRecord) -> str:
        level = f"\x1b[{_COLOURS.get(record.levelno, '0')}m{record.levelname.lower():7}\x1b[0m"
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{self._stamp()}  {level} {_told(record)}{trace}"


def _told(record: logging.LogRecord) -> Told:
    """Return what a line says; one of the standard library's own has no fields."""
    return record.msg if isinstance(record.msg, Told) else Told(record.getMessage(), {})


def _left_to_the_log(record: logging.LogRecord) -> bool:
    return _told(record).event not in TOLD_BY_CONSOLE
