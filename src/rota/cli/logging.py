"""The scheduler's log: structured lines on stderr, human on a terminal, JSON otherwise."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

TOLD_BY_CONSOLE = frozenset(
    {
        "run skipped",
        "run failed",
        "run waits",
        "run is being stopped",
        "the file cannot be applied; the last good set goes on",
    }
)
_DEBUG, _INFO = 10, 20


def configure_logging(*, verbose: bool, console: bool, stamp: Callable[[], str]) -> None:
    """Set the log up; with `console`, what the console tells on the same stream is left out.

    `stamp` gives the time for people; the JSON lines carry UTC.
    """
    human = sys.stderr.isatty()
    renderer: Any = structlog.dev.ConsoleRenderer(colors=human, pad_event_to=0) if human else _json_renderer()
    processors: list[Any] = [
        structlog.processors.add_log_level,
        partial(_stamp, stamp=stamp) if human else structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if console and not verbose:
        processors.insert(0, _leave_to_console)
    if not human:
        processors.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_DEBUG if verbose else _INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _json_renderer() -> Any:
    return structlog.processors.JSONRenderer(ensure_ascii=False)


def _stamp(_logger: Any, _method: str, event: Any, *, stamp: Callable[[], str]) -> Any:
    event["timestamp"] = stamp()
    return event


def _leave_to_console(_logger: Any, _method: str, event: Any) -> Any:
    if event.get("event") in TOLD_BY_CONSOLE:
        raise structlog.DropEvent
    return event
