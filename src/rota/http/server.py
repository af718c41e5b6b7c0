"""The HTTP server thread: sockets, connection limits and addresses."""

import asyncio
import errno
import json
import os
import resource
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, ClassVar

import anyio.to_thread
import h11
import uvicorn
from msgspec import Struct
from msgspec.structs import replace
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from rota.declare.readers.values import DEFAULT_PORT, split_listen
from rota.http.app import make_app
from rota.http.context import AnswerCache, ServerContext
from rota.http.feed import Feed
from rota.http.oidc import CALLBACK, SignOn
from rota.http.people import PEER, ProxiedPeople
from rota.http.security import Authenticator
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import ListenExposed, ListenRefused
from rota.operations.admin.access import Codes, ended_sessions, make_token, read_token
from rota.operations.admin.tokens import TokenDesk
from rota.runners.environment import Secrets
from rota.runners.processes import port_owner
from rota.settings import Http, Settings
from rota.store.driver import OpenStore

MAX_CONNECTIONS = 2_000
SPARE = 16
"""Connections beyond the limit that get a 503; all further ones are closed at once."""
PIECE = 64 * 1024
"""Bytes of a body that are handed to a connection at a time."""
KERNEL_BUFFER = 128 * 1024
"""Bytes that the system buffers for a connection; by itself it would grow to megabytes."""
UNREAD = 64 * 1024 * 1024
"""Bytes that wait for all clients together."""
SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def most_connections() -> int:
    """Return the limit of connections: half of the files that this process may open, at most 2,000."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(MAX_CONNECTIONS, files // 2))


class UnreadBytes:
    """The bytes that clients have not read yet, by connection; beyond the limit, the longest wait is ended."""

    def __init__(self, limit: int = UNREAD) -> None:
        self.limit = limit
        self.total = 0
        self._waiting: dict[PatientProtocol, int] = {}  # in the order in which they began to wait

    def set(self, connection: "PatientProtocol", count: int) -> None:
        """Record the unread bytes of a connection; 0 when the client has read everything."""
        self.total += count - self._waiting.pop(connection, 0)
        if count:
            self._waiting[connection] = count
        while self.total > self.limit:
            slowest = next(iter(self._waiting))
            self.total -= self._waiting.pop(slowest)
            slowest.transport.abort()


class JoiningTransport:
    """A connection that sends the head of an answer with the first piece of its body, unless that comes later."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._joining = False
        self._head = b""

    def join(self) -> None:
        """Hold the next bytes until the ones after them, or to the next turn of the event loop."""
        self._joining = True

    def write(self, data: bytes) -> None:
        """Send bytes behind held ones, or hold them."""
        if self._joining:
            self._joining, self._head = False, data
            self._loop.call_soon(self._flush)
        else:
            held, self._head = self._head, b""
            self._transport.write(held + data)

    def close(self) -> None:
        """Send held bytes, and close the connection."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            self.write(b"")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with limits on slow clients."""

    patience = 10.0
    """Seconds from the start of a connection, or the first byte of a further request, to the end of its head."""
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
        """Accept a connection, unless there are too many."""
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
        self._joining = JoiningTransport(transport, self.loop)
        self.transport = self._joining  # type: ignore[assignment]  # it has all that uvicorn uses

    def data_received(self, data: bytes) -> None:
        """Read data; more bytes of the same head do not extend its timeout."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel_head()
        elif self._head is None:
            self._head = self.loop.call_later(self.patience, self._end_late_head)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the timers and counters of a connection."""
        self._cancel_head()
        self._cancel_write()
        self.unread.set(self, 0)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the write timeout of a client that does not read."""
        super().pause_writing()
        if self._write is None:
            self._write = self.loop.call_later(self.write_patience, self.transport.abort)
        self.unread.set(self, self.transport.get_write_buffer_size() + self._rest)

    def resume_writing(self) -> None:
        """Stop the write timeout: the client has read everything."""
        self._cancel_write()
        self.unread.set(self, 0)
        super().resume_writing()

    async def _answer_in_pieces(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application; send its answer in pieces."""
        scope[PEER] = scope["client"][0] if scope.get("client") else ""  # before a header of a proxy replaces it

        async def send_pieces(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._joining.join()
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


FILE_NAME = "http.json"
PORTS_TRIED = 50
IN_USE_HINT = (
    "stop that process, or name another port: `rota serve --listen 127.0.0.1:8000`, `http: {listen: …}` in rota.yaml"
)
MOVED_HINT = "set a fixed port with `http: {listen: 127.0.0.1:PORT}`"


class Listening(Struct, frozen=True):
    """The settings of the listener; flags override the file."""

    http: Http
    exposed: bool = False
    """Whether the command line names an address beyond this machine."""
    behind_proxy: bool = False
    certificate: Path | None = None
    key: Path | None = None

    @property
    def encrypted(self) -> bool:
        """Whether browsers connect over TLS."""
        return self.certificate is not None or self.http.public_url.startswith("https://")

    @property
    def host(self) -> str:
        """The address without brackets."""
        return split_listen(self.http.listen)[0].strip("[]")

    @property
    def port(self) -> int | None:
        """The written port; None: the default one, or the next free one."""
        written = split_listen(self.http.listen)[1]
        return None if written is None else int(written)


def check_exposure(wanted: Listening) -> None:
    """Refuse an address beyond this machine without a flag, or without encryption."""
    if is_loopback(wanted.host):
        return
    if not wanted.exposed:
        hint = f"if you intend that, start it with `rota serve --listen {wanted.http.listen}`"
        raise ListenExposed(f"`http.listen: {wanted.http.listen}` is reachable from other machines", hint=hint)
    if wanted.certificate is None and not wanted.behind_proxy:
        hint = "pass --tls-cert and --tls-key, or --behind-proxy if a proxy terminates TLS"
        raise ListenExposed(f"{wanted.http.listen} is reachable from other machines without encryption", hint=hint)


def is_loopback(host: str) -> bool:
    """Return whether an address is local to this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def bind(wanted: Listening) -> socket.socket:
    """Return a socket on the written port, where 0 lets the system choose; else on the default one or the next free.

    Clients, proxies and firewalls know a written port, so no other one replaces it.
    """
    if wanted.port is not None:
        found = _bound(wanted.host, wanted.port)
        if found is None:
            raise ListenRefused(f"{wanted.http.listen} is in use by {port_owner(wanted.port)}", hint=IN_USE_HINT)
        return found
    for port in range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED):
        found = _bound(wanted.host, port)
        if found is not None:
            if port != DEFAULT_PORT:
                taken = f"port {DEFAULT_PORT} is in use, listening on {port}"
                log.warning(taken, used_by=port_owner(DEFAULT_PORT), hint=MOVED_HINT)
            return found
    last = DEFAULT_PORT + PORTS_TRIED - 1
    raise ListenRefused(f"the ports {DEFAULT_PORT} to {last} of {wanted.host} are all in use", hint=IN_USE_HINT)


def _bound(host: str, port: int) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, else asyncio does not know it and leaves Nagle's wait on: 40 ms for each answer.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A port in TIME_WAIT may be used again; one with a listener may not.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(1)  # two sockets may be bound to one port, but only one may listen
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            return None
        reason = (error.strerror or str(error)).lower()
        hint = "name another address: `http: {listen: 127.0.0.1:7682}`, or `rota serve --no-http`"
        raise ListenRefused(f"cannot listen on {host}:{port}: {reason}", hint=hint) from None
    return made


def write_address(state: Path, url: str) -> None:
    """Write the address to the state folder."""
    path = state / FILE_NAME
    fresh = path.with_name(f"{FILE_NAME}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"url": url, "pid": os.getpid()}, file)
    fresh.rename(path)


START_TIMEOUT = 10.0


class HttpServerThread:
    """Listens at once, answers as soon as the server is loaded, and ends when it is closed."""

    def __init__(
        self,
        store: OpenStore,
        clock: Clock,
        *,
        folder: Path,
        state: Path,
        wanted: Listening,
        environ: Mapping[str, str],
        settings: Settings | None = None,
    ) -> None:
        check_exposure(wanted)
        _check_certificate(wanted)
        make_token(state)
        self.token = read_token(state)
        self.wanted, self.clock, self.state = wanted, clock, state
        find = Secrets(state, environ, lambda: settings.secrets if settings is not None else {}).find
        self.people = _people(wanted.http, find)
        self.sign_on = _sign_on(wanted.http, clock, find)
        self.socket = bind(wanted)
        self.feed, self.codes = Feed(store), Codes()
        self.context = ServerContext(
            store,
            clock,
            folder,
            state,
            environ=environ,
            codes=self.codes,
            base_path=wanted.http.base_path,
            secure=wanted.encrypted,
            feed=self.feed,
            settings=settings,
            answers=AnswerCache(store.commits(), clock),
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rota-http", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        found: int = self.socket.getsockname()[1]
        return found

    @property
    def url(self) -> str:
        """The address for people."""
        if self.wanted.http.public_url:
            return self.wanted.http.public_url
        host = self.wanted.host
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
        scheme = "https" if self.wanted.certificate else "http"
        return f"{scheme}://{shown}:{self.port}{self.wanted.http.base_path}"

    def start(self) -> None:
        """Load the server in its own thread, and serve."""
        write_address(self.state, self.url)
        self._thread.start()

    def login(self) -> str:
        """Return an address that logs a browser in once, within a minute."""
        return f"{self.url}/login?code={self.codes.make(at=self.clock.monotonic())}"

    def renew(self) -> None:
        """Read the replaced token."""
        self.token = read_token(self.state)

    def close(self) -> None:
        """Accept no more requests, wait shortly for current ones, and stop."""
        (self.state / FILE_NAME).unlink(missing_ok=True)
        self._closing.set()
        if self._loop is not None and self._ending is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._ending.set)
        if self._thread.ident is not None:
            self._thread.join(START_TIMEOUT)
        self.socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            log.exception("HTTP server stopped unexpectedly", error=str(error))

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        if not self._closing.is_set():
            await serve(self, self._ending)


def _people(http: Http, find: Callable[[str], str]) -> ProxiedPeople | None:
    """Return what finds people behind a proxy; raise SecretMissing for a secret that the proxy is to send."""
    if not http.trusted_header:
        return None
    return ProxiedPeople(http, find(http.proxy_secret).strip() if http.proxy_secret else "")


def _sign_on(http: Http, clock: Clock, find: Callable[[str], str]) -> SignOn | None:
    """Return the logins at an identity provider; raise SecretMissing for the secret of the client."""
    if http.oidc is None:
        return None
    secret = find(http.oidc.client_secret).strip() if http.oidc.client_secret else ""
    return SignOn(http, clock, secret=secret, redirect=f"{http.public_url}{CALLBACK}")


def _check_certificate(wanted: Listening) -> None:
    if wanted.certificate is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(wanted.certificate, wanted.key)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "name a PEM file with --tls-cert, and its key with --tls-key"
        raise ListenRefused(f"the certificate {wanted.certificate} cannot be used: {reason}", hint=hint) from None


THREADS = 2
"""Concurrent operations, each with its own database connection."""
HEADS = 64 * 1024
PATIENCE = 5


class QuietServer(uvicorn.Server):
    """uvicorn without its timer of ten wake-ups a second."""

    def __init__(self, config: uvicorn.Config, ending: asyncio.Event, feed: Feed) -> None:
        super().__init__(config)
        self._ending = ending
        self._feed = feed

    async def main_loop(self) -> None:
        """Wait for the end of the server, then end the streams."""
        await self._ending.wait()
        self._feed.close()


async def serve(side: HttpServerThread, ending: asyncio.Event) -> None:
    """Serve until `ending` is set."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    wanted, store = side.wanted, side.context.store
    authenticator = Authenticator(
        side.clock,
        token=lambda: side.token,
        cookie=f"rota_{side.port}",
        hosts=frozenset({wanted.host}),
        public_url=wanted.http.public_url,
        ended=await anyio.to_thread.run_sync(store.read, partial(ended_sessions, now=side.clock.now())),
        desk=TokenDesk(store, side.clock),
        people=side.people,
        sign_on=side.sign_on,
    )
    server = QuietServer(_config(make_app(side.context, authenticator), side), ending, side.feed)
    await server.serve([side.socket.dup()])


def _config(app: Any, side: HttpServerThread) -> uvicorn.Config:
    wanted = side.wanted
    further: dict[str, Any] = {}
    if wanted.certificate is not None:
        further = {"ssl_certfile": str(wanted.certificate), "ssl_keyfile": str(wanted.key or wanted.certificate)}
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=wanted.behind_proxy,
        forwarded_allow_ips="*" if wanted.behind_proxy else "127.0.0.1",
        h11_max_incomplete_event_size=HEADS,
        limit_concurrency=most_connections(),
        timeout_graceful_shutdown=PATIENCE,
        **further,
    )


class Flags(Struct, frozen=True):
    """The flags of `rota serve` about HTTP."""

    listen: str | None = None
    behind_proxy: bool = False
    certificate: Path | None = None
    key: Path | None = None

    def over(self, http: Http) -> "Listening":
        """Return the file's settings, overridden by these flags."""

        return Listening(
            http=http if self.listen is None else replace(http, listen=self.listen),
            exposed=self.listen is not None,
            behind_proxy=self.behind_proxy,
            certificate=self.certificate,
            key=self.key,
        )
