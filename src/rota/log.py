"""The log: an event in words and its fields, through the standard library. Where it goes is the host's choice."""

import logging
from typing import Any


class LogLine:
    """What a line says: `str` of it is the line as a stranger's handler prints it."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: dict[str, Any]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        """Return the event, then each field."""
        return " ".join([self.event, *(f"{name}={value!r}" for name, value in self.fields.items())])


class EventLogger:
    """Tells events to the logger `rota`; a line that nobody wants costs one look at its level."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def is_enabled_for(self, level: int) -> bool:
        """Tell whether lines of this level are wanted."""
        return self._logger.isEnabledFor(level)

    def debug(self, event: str, **fields: Any) -> None:
        """Tell what is only of use to who looks for something."""
        self._tell(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Tell what is out of the ordinary and right."""
        self._tell(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Tell what somebody may have to look at."""
        self._tell(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Tell what went wrong."""
        self._tell(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Tell what went wrong, with the traceback of the exception at hand."""
        self._tell(logging.ERROR, event, fields, traceback=True)

    def _tell(self, level: int, event: str, fields: dict[str, Any], *, traceback: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, LogLine(event, fields), exc_info=traceback)


log = EventLogger("rota")
