"""`ctx.http`: clients that charge every request before it is sent, redirects too. httpx2 is imported with the first."""

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any

from rota.runners.usage import Meter

if TYPE_CHECKING:
    import ssl

    import httpx2

CONNECT = 10.0
TIMEOUT = 30.0
"""Seconds without an answer, or without a further part of it."""


def open_client(meter: Meter) -> "httpx2.Client":
    """Return a client for functions on threads."""
    import httpx2

    def charge(_request: Any) -> None:
        charged = meter.charge()
        if charged is not None:
            charged.result()
        meter.counted()

    hooks = {"request": [charge]}
    return httpx2.Client(timeout=_timeout(), verify=trusted(), follow_redirects=True, event_hooks=hooks)


def open_async_client(meter: Meter) -> "httpx2.AsyncClient":
    """Return a client for async functions."""
    import httpx2

    async def charge(_request: Any) -> None:
        charged = meter.charge()
        if charged is not None:
            await asyncio.wrap_future(charged)
        meter.counted()

    hooks = {"request": [charge]}
    return httpx2.AsyncClient(timeout=_timeout(), verify=trusted(), follow_redirects=True, event_hooks=hooks)


@cache
def trusted() -> "ssl.SSLContext":
    """Return the certificates of this machine; reading them costs more than most requests."""
    import httpx2

    return httpx2.create_ssl_context()


def _timeout() -> "httpx2.Timeout":
    import httpx2

    return httpx2.Timeout(TIMEOUT, connect=CONNECT)
