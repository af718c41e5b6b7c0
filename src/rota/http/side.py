"""The HTTP side of a scheduler: a thread with a loop of its own. Light to import; the server itself is loaded there."""

import asyncio
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rota.http.listening import Listening, bind, check_exposure, forget_address, write_address
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import ListenRefused
from rota.operations.access import Codes, make_token, read_token
from rota.settings import Settings
from rota.store.driver import Store

PATIENCE = 10.0


class HttpSide:
    """Listens from the first moment, answers as soon as the server is loaded, and ends when it is closed."""

    def __init__(
        self,
        store: Store,
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
        self.store, self.clock, self.folder, self.state, self.environ = store, clock, folder, state, environ
        self.wanted = wanted
        self.settings = settings
        self.socket = bind(wanted)
        self.codes = Codes()
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
        """Where people reach it."""
        if self.wanted.http.public_url:
            return self.wanted.http.public_url
        host = self.wanted.host
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
        scheme = "https" if self.wanted.certificate else "http"
        return f"{scheme}://{shown}:{self.port}{self.wanted.http.base_path}"

    def start(self) -> None:
        """Load the server beside the scheduler's loop, and serve."""
        write_address(self.state, self.url)
        self._thread.start()

    def login(self) -> str:
        """Return an address that logs a browser in, once and within a minute."""
        return f"{self.url}/login?code={self.codes.make(at=self.clock.monotonic())}"

    def renew(self) -> None:
        """Read the token again: it was replaced."""
        self.token = read_token(self.state)

    def close(self) -> None:
        """Take no more requests, let those under way end for a moment, and stop."""
        forget_address(self.state)
        self._closing.set()
        if self._loop is not None and self._ending is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._ending.set)
        if self._thread.ident is not None:
            self._thread.join(PATIENCE)
        self.socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            log.exception("the HTTP side ended", error=str(error))

    async def _serve(self) -> None:
        from rota.http.server import serve  # FastAPI and uvicorn take half a second: not on the scheduler's loop

        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        if not self._closing.is_set():
            await serve(self, self._ending)


def _check_certificate(wanted: Listening) -> None:
    if wanted.certificate is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(wanted.certificate, wanted.key)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "name a PEM file with --tls-cert, and its key with --tls-key"
        raise ListenRefused(f"the certificate {wanted.certificate} cannot be used: {reason}", hint=hint) from None
