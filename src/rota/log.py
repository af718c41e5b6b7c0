"""The log: a message with fields, through the standard library."""

import logging
from typing import Any


class LogLine:
    """A message with its fields; `str` is the line of an ordinary handler."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: dict[str, Any]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        """Return the event, then each field."""
        return " ".join([self.event, *(f"{name}={value!r}" for name, value in self.fields.items())])


class EventLogger:
    """Writes to the logger `rota`; a disabled line costs one check of its level."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        self.format = "auto"
        """The format that the settings choose; the handler of `rota serve` follows it."""

    def is_enabled_for(self, level: int) -> bool:
        """Return whether lines of this level are enabled."""
        return self._logger.isEnabledFor(level)

    def debug(self, event: str, **fields: Any) -> None:
        """Log details."""
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log an unusual but correct event."""
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log an event that may need attention."""
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log a failure."""
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log a failure with the traceback of the current exception."""
        self._log(logging.ERROR, event, fields, traceback=True)

    def _log(self, level: int, event: str, fields: dict[str, Any], *, traceback: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, LogLine(event, fields), exc_info=traceback)


log = EventLogger("rota")
