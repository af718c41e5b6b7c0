"""Connections: who does not send the head of his request in time is let go, and there are only so many at once."""

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

AT_ONCE = 2_000
SPARE = 16
"""How many more than allowed are told so by a 503; all others are closed at once."""
SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def most_connections() -> int:
    """Return how many connections are served at once: half of the files that this process may open, at most 2,000."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return AT_ONCE if files == resource.RLIM_INFINITY else max(1, min(AT_ONCE, files // 2))


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with an end to its patience."""

    patience = 10.0
    """Seconds from the first moment of a connection, or the first byte of a further request, to the end of its head."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency + SPARE:
            self.transport = transport
            transport.abort()
            return
        super().connection_made(transport)
        self._head = self.loop.call_later(self.patience, self._let_go)

    def data_received(self, data: bytes) -> None:
        """Read on; more bytes of the same head do not buy more time."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._has_come()
        elif self._head is None:
            self._head = self.loop.call_later(self.patience, self._let_go)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that is over."""
        self._has_come()
        super().connection_lost(exc)

    def _has_come(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _let_go(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.transport.write(SLOW)
            self.transport.close()
