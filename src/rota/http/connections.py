"""Connections: bounded in number, in the time that a client takes to send and to read, and in unread memory."""

import asyncio
import resource
import socket
from typing import Any, ClassVar

import h11
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

AT_ONCE = 2_000
SPARE = 16
"""How many more than allowed are told so by a 503; all others are closed at once."""
PIECE = 64 * 1024
"""How many bytes of a body are handed to a connection at a time."""
KERNEL_BUFFER = 128 * 1024
"""How many bytes the system buffers for a connection; it would grow the buffer to megabytes by itself."""
UNREAD = 64 * 1024 * 1024
"""How many bytes wait for all clients together."""
SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def most_connections() -> int:
    """Return how many connections are served at once: half of the files that this process may open, at most 2,000."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return AT_ONCE if files == resource.RLIM_INFINITY else max(1, min(AT_ONCE, files // 2))


class UnreadBytes:
    """The bytes that clients have not read yet, by connection; beyond the limit, the longest wait is ended."""

    def __init__(self, limit: int = UNREAD) -> None:
        self.limit = limit
        self.total = 0
        self._waiting: dict[PatientProtocol, int] = {}  # in the order in which they began to wait

    def set(self, connection: "PatientProtocol", count: int) -> None:
        """Record what waits for a connection; 0 when the client has read everything."""
        self.total += count - self._waiting.pop(connection, 0)
        if count:
            self._waiting[connection] = count
        while self.total > self.limit:
            slowest = next(iter(self._waiting))
            self.total -= self._waiting.pop(slowest)
            slowest.transport.abort()


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with limits on slow clients."""

    patience = 10.0
    """Seconds from the first moment of a connection, or the first byte of a further request, to the end of its head."""
    write_patience = 30.0
    """Seconds in which a client must take a piece of an answer."""
    unread: ClassVar[UnreadBytes] = UnreadBytes()

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head: asyncio.TimerHandle | None = None
        self._write: asyncio.TimerHandle | None = None
        self._rest = 0
        self._whole_app = self.app
        self.app = self._answer_in_pieces

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency + SPARE:
            self.transport = transport
            transport.abort()
            return
        super().connection_made(transport)
        # Writing pauses as soon as the system takes no more, so that a piece at a time is in memory, and that is timed.
        # The transport of TLS compares by >=: 0 would be a pause without an end.
        transport.set_write_buffer_limits(high=1 if transport.get_extra_info("ssl_object") else 0, low=0)
        if (made := transport.get_extra_info("socket")) is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BUFFER)
        self._head = self.loop.call_later(self.patience, self._end_late_head)

    def data_received(self, data: bytes) -> None:
        """Read on; more bytes of the same head do not buy more time."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel_head()
        elif self._head is None:
            self._head = self.loop.call_later(self.patience, self._end_late_head)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what a connection held."""
        self._cancel_head()
        self._cancel_write()
        self.unread.set(self, 0)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Give the client a time to read what waits for it."""
        super().pause_writing()
        if self._write is None:
            self._write = self.loop.call_later(self.write_patience, self.transport.abort)
        self.unread.set(self, self.transport.get_write_buffer_size() + self._rest)

    def resume_writing(self) -> None:
        """Go on: the client has read everything so far."""
        self._cancel_write()
        self.unread.set(self, 0)
        super().resume_writing()

    async def _answer_in_pieces(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application; hand its answer to the connection a piece at a time."""

        async def send_pieces(message: Message) -> None:
            body = message.get("body", b"")
            if len(body) <= PIECE:
                await send(message)
                return
            for start in range(0, len(body), PIECE):
                self._rest = max(0, len(body) - start - PIECE)
                more = self._rest > 0 or message.get("more_body", False)
                await send({**message, "body": body[start : start + PIECE], "more_body": more})

        await self._whole_app(scope, receive, send_pieces)

    def _end_late_head(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.transport.write(SLOW)
            self.transport.close()

    def _cancel_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _cancel_write(self) -> None:
        if self._write is not None:
            self._write.cancel()
            self._write = None
