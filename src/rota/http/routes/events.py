"""Live events: what happens to runs and jobs, to be followed instead of polling (document 001, option B)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import Header, Query, Request
from starlette.responses import Response, StreamingResponse

from rota.http.context import DeskOf
from rota.http.doorman import Doorman
from rota.http.refusals import Busy
from rota.http.routing import Routes
from rota.operations.access import Caller, Scope

routes = Routes("events")
STREAM = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
UNKNOWN = -1
"""A Last-Event-ID that is none of ours: the stream begins with a reset."""


@routes.on("GET", "/events", scope=Scope.READ, answer=str, media=STREAM)
async def follow_events(
    desk: DeskOf,
    request: Request,
    last_event_id: Annotated[str | None, Header(max_length=200, description="Where to go on.")] = None,
    after: Annotated[str | None, Query(max_length=200, description="The same, for who cannot send headers.")] = None,
) -> Response:
    """Follow what happens: run.created, run.waiting, run.started, run.finished, job.changed, reset."""
    feed = desk.context.feed
    if feed is None:
        raise Busy("live streams")
    feed.check_room()
    told = after if last_event_id is None else last_event_id
    last = None if told is None else _seq(told)
    return StreamingResponse(_until_logout(feed.stream(last), request), 200, HEADERS, STREAM)


async def _until_logout(stream: AsyncGenerator[bytes], request: Request) -> AsyncGenerator[bytes]:
    """Yield the pieces of a stream; that of a browser ends with its session."""
    doorman: Doorman = request.state.doorman
    caller: Caller = request.state.caller
    session = doorman.session_in(request.headers.get("cookie", "")) if caller.browser else None
    async with aclosing(stream):
        async for piece in stream:
            if session is not None and doorman.know_session(session) is None:
                return
            yield piece


def _seq(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else UNKNOWN
