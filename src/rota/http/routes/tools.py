"""The tools for agents over MCP (streamable HTTP, without sessions); the protocol is loaded at the first request."""

from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync
from fastapi import Request
from starlette.responses import Response
from starlette.types import Message, Scope

from rota.http import schemas
from rota.http.context import Desk, DeskOf
from rota.http.routing import Routes
from rota.operations.access import Scope as TokenScope
from rota.operations.project import Place
from rota.operations.tools.makers import project_declares
from rota.operations.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from starlette.types import ASGIApp

routes = Routes("tools", prefix="")


@routes.on("POST", "/mcp", scope=TokenScope.AGENT, answer=schemas.Told, shown=False)
async def call_tools(desk: DeskOf, request: Request) -> Response:
    """Answer one message of MCP: the tools act as the token that asks, within `agent_policy`."""
    body: bytes = request.state.body_bytes
    # The tools read and write the database: on a thread, with a loop for the protocol that ends with the answer.
    return await run_sync(partial(anyio.run, _answer, desk, dict(request.scope), body))


async def _answer(desk: Desk, scope: Scope, body: bytes) -> Response:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from rota.mcp import server_of

    context = desk.context
    toolbox = Toolbox(
        context.store,
        context.state,
        context.clock,
        maker=desk.maker,
        declare=project_declares(Place(context.folder, context.state), context.environ),
    )
    manager = StreamableHTTPSessionManager(server_of(toolbox), json_response=True, stateless=True)
    async with manager.run():
        return await _response(manager.handle_request, scope, body)


async def _response(app: "ASGIApp", scope: Scope, body: bytes) -> Response:
    """Return what an application answers to a request that was read already."""
    response = Response()
    parts: list[bytes] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            response.status_code = message["status"]
            response.raw_headers = [pair for pair in message["headers"] if pair[0].lower() != b"content-length"]
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    response.body = b"".join(parts)
    response.headers["content-length"] = str(len(response.body))
    return response
