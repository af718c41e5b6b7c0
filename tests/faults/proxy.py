"""A machine's way to PostgreSQL, over TCP: it can refuse, reset, delay, and swallow everything without a word."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

CHUNK = 1 << 16
RESET = struct.pack("ii", 1, 0)


class Street:
    """The event loop in which all ways run, in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something there, and wait until it is done."""
        asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def close(self) -> None:
        """End the loop and what still runs in it."""
        self.do(_cancel_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Proxy:
    """One way: a port of this machine on one side, the server's socket on the other."""

    def __init__(self, street: Street, target: Path) -> None:
        self.port = 0
        self.cuts = 0
        self._street = street
        self._target = target
        self._delay = 0.0
        self._healed = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()
        self._listener: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        street.do(self._listen())

    def reset(self) -> None:
        """Break all connections."""
        self._harm(self._reset)

    def refuse(self) -> None:
        """Break all connections and take no new ones."""
        self._harm(self._refuse)

    def delay(self, seconds: float) -> None:
        """Pass everything on, but late."""
        self._delay = seconds
        self._harm(self._healed.clear)

    def swallow(self) -> None:
        """Pass nothing on, and tell nobody."""
        self._harm(self._open.clear)

    def heal(self) -> None:
        """Pass everything on, also what was held back."""
        self._street.do(self._heal())

    def _harm(self, how: Callable[[], None]) -> None:
        async def harm() -> None:
            how()

        self.cuts += 1
        self._street.do(harm())

    async def _heal(self) -> None:
        self._delay = 0.0
        self._healed.set()
        self._open.set()
        if self._listener is None:
            await self._listen()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", self.port, limit=CHUNK)
        self.port = self._listener.sockets[0].getsockname()[1]

    def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._reset()

    def _reset(self) -> None:
        for writer in list(self._writers):
            _abort(writer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        there: asyncio.StreamWriter | None = None
        try:
            await self._open.wait()
            back, there = await asyncio.open_unix_connection(str(self._target), limit=CHUNK)
            self._writers.add(there)
            await asyncio.gather(self._pass_on(reader, there), self._pass_on(back, writer))
        except OSError:
            pass  # the server is gone, or one side has left: the other is told by the end of its connection
        finally:
            for one in filter(None, (writer, there)):
                self._writers.discard(one)
                _abort(one)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            if self._delay:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._healed.wait(), self._delay)
            await self._open.wait()
            writer.write(data)
            await writer.drain()
        await self._open.wait()
        raise ConnectionResetError


def _abort(writer: asyncio.StreamWriter) -> None:
    own = writer.get_extra_info("socket")
    if own is not None and own.family != socket.AF_UNIX:
        with contextlib.suppress(OSError):
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
