"""Connections that say nothing, say it slowly, or are too many (#71, #36)."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.server import ServerState

from rota.http.people import PEER
from rota.http.server import (
    PIECE,
    SPARE,
    JoiningTransport,
    Listening,
    PatientProtocol,
    UnreadBytes,
    bind,
    most_connections,
)
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
async def listening(kind: type[PatientProtocol], *, limit: int = 100, served: Any = app) -> AsyncIterator[int]:
    """Yield the port of a server of this protocol."""
    config = uvicorn.Config(served, http=kind, lifespan="off", log_config=None, limit_concurrency=limit)
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


async def next_turn() -> None:
    """Wait until the callbacks that are due by now have run."""
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


class Written:
    """A connection that notes the packets that it is to send."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.packets.append(data)

    def close(self) -> None:
        self.closed = True


async def test_the_head_of_an_answer_goes_with_the_first_piece_of_its_body() -> None:
    written = Written()
    connection = JoiningTransport(written, asyncio.get_running_loop())
    connection.join()
    connection.write(b"head ")
    connection.write(b"body")
    connection.write(b"rest")
    assert written.packets == [b"head body", b"rest"]
    await next_turn()
    assert written.packets == [b"head body", b"rest"]


async def test_the_head_of_a_stream_does_not_wait_for_its_first_piece() -> None:
    async def stream(_scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive())["type"] != "http.disconnect":
            pass

    async with listening(PatientProtocol, served=stream) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(WHOLE)
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LONGEST_WAIT)).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_a_head_that_nothing_follows_is_sent_before_the_connection_closes() -> None:
    written = Written()
    connection = JoiningTransport(written, asyncio.get_running_loop())
    connection.join()
    connection.write(b"head")
    connection.close()
    assert (written.packets, written.closed) == ([b"head"], True)


class Large:
    """An application whose answer is larger than what connections hold, and what a server of it does."""

    def __init__(self, *, parts: int = 1) -> None:
        self.body = b"x" * 8_000_000
        self.parts = parts
        self.ended = asyncio.Event()

    async def __call__(self, _scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        length = str(len(self.body) * self.parts).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        for number in range(self.parts):
            await send({"type": "http.response.body", "body": self.body, "more_body": number < self.parts - 1})
        self.ended.set()


async def without_reading(port: int) -> socket.socket:
    """Return a connection that asks and reads nothing of the answer."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(made, ("127.0.0.1", port))
    await loop.sock_sendall(made, WHOLE)
    return made


async def reset(connection: socket.socket) -> bool:
    """Read what came; tell whether the server cut the connection before the end."""
    read = 0
    try:
        while data := await asyncio.get_running_loop().sock_recv(connection, 1 << 20):
            read += len(data)
    except ConnectionResetError:
        return True
    return read < 8_000_000


@pytest.mark.parametrize("parts", [1, 3])
async def test_a_client_that_reads_everything_gets_it_whole(parts: int) -> None:
    large = Large(parts=parts)
    async with listening(PatientProtocol, served=large) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(WHOLE)
        await reader.readuntil(b"\r\n\r\n")
        assert await asyncio.wait_for(reader.readexactly(8_000_000 * parts), LONGEST_WAIT) == large.body * parts
        writer.close()
    assert PatientProtocol.unread.total == 0


async def test_a_client_that_does_not_read_is_cut_off_and_holds_one_piece() -> None:
    sizes: list[int] = []

    class Noting(PatientProtocol):
        """One that notes how much waits in its connection."""

        write_patience = 0.3
        unread = UnreadBytes()

        def pause_writing(self) -> None:
            super().pause_writing()
            sizes.append(self.transport.get_write_buffer_size())

    large = Large(parts=3)
    async with listening(Noting, served=large) as port:
        connection = await without_reading(port)
        await asyncio.wait_for(large.ended.wait(), LONGEST_WAIT)
        assert await reset(connection)
        connection.close()
    assert max(sizes) <= PIECE + 1024
    assert Noting.unread.total == 0


async def test_a_short_answer_that_is_not_read_is_cut_off_too() -> None:
    """Closing alone would wait for the client without an end."""

    lost = asyncio.Event()

    class Noting(PatientProtocol):
        """One that notes its end."""

        write_patience = 0.3
        unread = UnreadBytes()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    async def short(_scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"60000")]})
        await send({"type": "http.response.body", "body": b"x" * 60_000})

    async with listening(Noting, served=short) as port:
        connection = await without_reading(port)
        await asyncio.get_running_loop().sock_sendall(connection, WHOLE * 50)
        await asyncio.wait_for(lost.wait(), LONGEST_WAIT)
        connection.close()


async def test_all_clients_together_hold_a_bounded_memory_and_the_slowest_goes() -> None:
    paused = asyncio.Event()

    class Bounded(PatientProtocol):
        """One whose clients may leave 20 MB unread together."""

        unread = UnreadBytes(limit=20_000_000)

        def pause_writing(self) -> None:
            super().pause_writing()
            paused.set()

    large = Large()
    async with listening(Bounded, served=large) as port:
        connections = []
        for _ in range(4):
            connections.append(await without_reading(port))
            await asyncio.wait_for(paused.wait(), LONGEST_WAIT)
            paused.clear()
        assert Bounded.unread.total <= 20_000_000
        assert await asyncio.wait_for(reset(connections[0]), LONGEST_WAIT)
        assert not await asyncio.wait_for(reset(connections[3]), LONGEST_WAIT)
        for one in connections:
            one.close()


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


async def test_the_address_of_the_connection_survives_the_headers_of_a_proxy() -> None:
    """A person behind a proxy is believed by this address, so `X-Forwarded-For` must not change it."""
    seen: list[tuple[str, str]] = []

    async def noting(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        seen.append((scope["client"][0], scope[PEER]))
        await app(scope, receive, send)

    async with listening(PatientProtocol, served=ProxyHeadersMiddleware(noting, trusted_hosts="*")) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(WHOLE.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 10.0.0.5\r\n\r\n"))
        await asyncio.wait_for(reader.readuntil(b"ok"), LONGEST_WAIT)
        writer.close()
    assert seen == [("10.0.0.5", "127.0.0.1")]
