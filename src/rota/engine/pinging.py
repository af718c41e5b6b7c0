"""The dead man's switch: the loop that fires says outside that it goes round; who no longer hears it raises alarm."""

import asyncio
from datetime import datetime, timedelta

from rota.engine.ports import Post
from rota.log import log
from rota.model.notify import Receipt, Target

EVERY = timedelta(seconds=60)
SLACK = timedelta(seconds=5)
"""A round that comes a little early pings too: the rounds of an idle loop are a minute apart."""


class Pinger:
    """Pings `scheduler.ping_url` with rounds of the loop, never waiting for an answer."""

    def __init__(self, post: Post, target: Target | None) -> None:
        self._post = post
        self._target = target
        self._last: datetime | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: str | None = None

    def beat(self, now: datetime) -> None:
        """Ping, unless the last time was less than a minute ago or is not over."""
        if self._target is None or (self._task is not None and not self._task.done()):
            return
        if self._last is not None and abs(now - self._last) < EVERY - SLACK:
            return
        self._last = now
        self._task = asyncio.get_running_loop().create_task(self._ping(self._target), name="rota-ping")

    async def _ping(self, target: Target) -> None:
        self._tell(await self._post.ping(target))

    def _tell(self, receipt: Receipt) -> None:
        """Tell a failure once, and that it is over."""
        error = None if receipt.ok else receipt.error or "it failed"
        if error is not None and error != self._error:
            log.warning("`scheduler.ping_url` cannot be reached", error=error)
        elif error is None and self._error is not None:
            log.info("`scheduler.ping_url` is reached again")
        self._error = error
