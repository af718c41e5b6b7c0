"""uvicorn around the application, on the loop of the HTTP side, with nothing to do when idle."""

import asyncio
from functools import partial
from typing import Any

import anyio.to_thread
import uvicorn

from rota.http.app import make_app
from rota.http.connections import PatientProtocol, most_connections
from rota.http.context import Context
from rota.http.doorman import Doorman
from rota.http.feed import Feed
from rota.http.side import HttpSide
from rota.operations.login import ended_sessions

THREADS = 2
"""How many operations run at the same time, each with a connection of its own to the database."""
HEADS = 64 * 1024
PATIENCE = 5


class QuietServer(uvicorn.Server):
    """uvicorn without its clock, which would wake ten times a second: it sleeps until it is asked to end."""

    def __init__(self, config: uvicorn.Config, ending: asyncio.Event, feed: Feed) -> None:
        super().__init__(config)
        self._ending = ending
        self._feed = feed

    async def main_loop(self) -> None:
        """Wait until somebody ends the server; streams end by themselves then."""
        await self._ending.wait()
        self._feed.close()


async def serve(side: HttpSide, ending: asyncio.Event) -> None:
    """Serve until `ending` is set."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    feed = Feed(side.store)
    wanted = side.wanted
    context = Context(
        side.store,
        side.clock,
        side.folder,
        side.state,
        environ=side.environ,
        codes=side.codes,
        base_path=wanted.http.base_path,
        secure=wanted.encrypted,
        feed=feed,
        settings=side.settings,
    )
    doorman = Doorman(
        side.clock,
        token=lambda: side.token,
        cookie=f"rota_{side.port}",
        hosts=frozenset({wanted.host}),
        public_url=wanted.http.public_url,
        ended=await anyio.to_thread.run_sync(side.store.read, partial(ended_sessions, now=side.clock.now())),
    )
    server = QuietServer(_config(make_app(context, doorman), side), ending, feed)
    await server.serve([side.socket.dup()])


def _config(app: Any, side: HttpSide) -> uvicorn.Config:
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
