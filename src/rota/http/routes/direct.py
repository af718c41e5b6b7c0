"""Direct calls (R-13): a job in the next free slot, before the queue; the request waits for its end."""

import asyncio
from datetime import timedelta

from fastapi import Request
from starlette.responses import Response

from rota.http import schemas, wishes
from rota.http.context import Desk, DeskOf
from rota.http.refusals import Busy
from rota.http.routing import Routes, answer
from rota.operations.access import Scope
from rota.operations.direct_calls import calls_json, direct_calls, direct_json
from rota.operations.reserving import direct_call

routes = Routes("direct")
AT_ONCE = 64
"""How many requests may wait; each holds a connection."""


class Waiting:
    """How many requests wait for the end of a direct call."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        if self.count >= AT_ONCE:
            raise Busy("waiting calls")
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1


waiting = Waiting()


@routes.on("GET", "/direct", scope=Scope.READ, answer=schemas.DirectCalls)
def get_direct_calls(desk: DeskOf) -> Response:
    """List who waits for a slot, and who has one."""
    return answer(calls_json(desk.store.read(direct_calls)))


@routes.on("POST", "/direct", scope=Scope.RUN, answer=schemas.DirectCall)
async def call_directly(desk: DeskOf, wish: wishes.DirectWish, request: Request) -> Response:
    """Execute a job in the next free slot and wait for its end; a client that goes away gives its place up."""
    with waiting:
        calling = asyncio.create_task(_call(desk, wish), name="rota-direct")
        leaving = asyncio.create_task(_gone(request), name="rota-gone")
        try:
            await asyncio.wait({calling, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not calling.done():
                calling.cancel()
            await asyncio.gather(calling, leaving, return_exceptions=True)
    return calling.result() if not calling.cancelled() else answer({}, status=499)


async def _call(desk: Desk, wish: wishes.DirectWish) -> Response:
    within = timedelta(seconds=wish.within_seconds) if wish.within_seconds else None
    view = await direct_call(desk.store, desk.state, desk.clock, job=wish.job, params=wish.params, within=within)
    return answer(direct_json(view))


async def _gone(request: Request) -> None:
    """Wait until the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
