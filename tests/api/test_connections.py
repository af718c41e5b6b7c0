"""Connections that say nothing, say it slowly, or are too many (#71, #36)."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from rota.http.connections import SPARE, PatientProtocol, most_connections
from rota.http.listening import Listening, bind
from rota.settings import Http
from tests.waiting import LONGEST_WAIT

pytestmark = pytest.mark.anyio
WHOLE = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Hasty(PatientProtocol):
    """One whose patience ends soon."""

    patience = 0.2


async def app(_scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def listening(kind: type[PatientProtocol], *, limit: int = 100) -> AsyncIterator[int]:
    """Yield the port of a server of this protocol."""
    config = uvicorn.Config(app, http=kind, lifespan="off", log_config=None, limit_concurrency=limit)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: kind(config=config, server_state=state, app_state={}), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for connection in list(state.connections):
            connection.shutdown()


async def test_a_head_that_comes_byte_by_byte_buys_no_time() -> None:
    async with listening(Hasty) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        over = asyncio.ensure_future(reader.read())
        async with asyncio.timeout(LONGEST_WAIT):
            while not over.done():
                writer.write(b"G")
                await asyncio.wait([over], timeout=0.02)
        assert over.exception() is not None or over.result().startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_a_connection_that_says_nothing_is_let_go() -> None:
    async with listening(Hasty) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert (await asyncio.wait_for(reader.read(), LONGEST_WAIT)).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_the_head_of_a_further_request_is_waited_for_as_long_as_the_first() -> None:
    class HastyLater(PatientProtocol):
        """One whose patience ends soon, once the first request is answered."""

    async with listening(HastyLater) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(WHOLE)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
        HastyLater.patience = Hasty.patience
        writer.write(WHOLE[:10])
        assert (await asyncio.wait_for(reader.read(), LONGEST_WAIT)).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_a_connection_is_used_again_and_again() -> None:
    async with listening(PatientProtocol) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(WHOLE)
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_connections_beyond_the_limit_are_closed() -> None:
    async with listening(PatientProtocol, limit=2) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 + SPARE)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(WHOLE)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), LONGEST_WAIT)
        for _, one in [*held, (reader, writer)]:
            one.close()


def test_connections_leave_files_to_the_scheduler() -> None:
    assert 1 <= most_connections() <= 2_000


async def test_an_answer_does_not_wait_for_the_next_packet() -> None:
    made: asyncio.Queue[Any] = asyncio.Queue()

    class Noting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.put_nowait(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    bound = bind(Listening(Http(listen="127.0.0.1:0")))
    async with await asyncio.get_running_loop().create_server(Noting, sock=bound):
        _, writer = await asyncio.open_connection(*bound.getsockname())
        assert await made.get()
        writer.close()
