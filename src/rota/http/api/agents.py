"""Routes of agents, proposals, notifications and tools."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from anyio.to_thread import run_sync
from fastapi import Query, Request
from starlette.responses import Response
from starlette.types import Message
from starlette.types import Scope as AsgiScope

from rota.http import schemas
from rota.http.context import Ctx, JobName, RequestContext, Routes, TargetName, answer, page
from rota.model.errors import InvalidValue
from rota.model.notifications import DeliveryStatus
from rota.model.questions import Door
from rota.model.serialize import delivery_json
from rota.operations.admin.access import Scope
from rota.operations.agents.agents import agents_json, look_at_agents
from rota.operations.jobs import show_job, waiting
from rota.operations.notifications import enable_target, list_deliveries, list_targets, retry_deliveries, target_json
from rota.operations.project.locate import ProjectPaths
from rota.operations.questions.answers import Answerer, approve
from rota.operations.tools.context import project_declares
from rota.operations.tools.toolbox import Toolbox
from rota.operations.views import JobJson, job_json, provisional_json

if TYPE_CHECKING:
    from starlette.types import ASGIApp


people_routes = Routes("people")


@people_routes.on("GET", "/agents", scope=Scope.READ, answer=schemas.Told)
def get_agents(ctx: Ctx) -> Response:
    """List the agents: program, version, login, rate limits, current runs; each program is started to check it."""
    context = ctx.context
    place = ProjectPaths(context.folder, context.state)
    return answer(agents_json(look_at_agents(place, ctx.store, context.environ, now=ctx.now, acts=True)))


@people_routes.on("GET", "/approvals", scope=Scope.READ, answer=schemas.Page)
def get_approvals(ctx: Ctx) -> Response:
    """List the jobs that agents proposed and that wait for approval, each with the digest of what it would do."""
    return answer(page([provisional_json(job) for job in ctx.store.read(waiting)], following=None))


@people_routes.on("POST", "/jobs/{job}/approve", scope=Scope.ADMIN, answer=JobJson)
def approve_job(ctx: Ctx, job: JobName, wish: schemas.ApproveWish) -> Response:
    """Approve a proposed job; `digest` is that of the reviewed definition, and any change voids it."""
    ctx.store.write(partial(approve, name=job, digest=wish.digest, by=Answerer(ctx.actor, Door.API), now=ctx.now))
    ctx.wake()
    return answer(job_json(show_job(ctx.store, job)))


@people_routes.on("GET", "/notify", scope=Scope.READ, answer=schemas.Page)
def get_targets(ctx: Ctx) -> Response:
    """List the notification targets."""
    return answer(page([target_json(view) for view in list_targets(ctx.store)], following=None))


@people_routes.on("POST", "/notify/{target}/enable", scope=Scope.RUN, answer=schemas.Told)
def enable_notify(ctx: Ctx, target: TargetName, wish: schemas.OptionalDryRun) -> Response:
    """Enable a target that was disabled by a 410, or that is in backoff after failures."""
    dry_run = wish.dry_run
    changed = enable_target(ctx.store, target, dry_run=dry_run)
    if changed and not dry_run:
        ctx.wake()
    return answer({"target": target, "changed": changed, "dry_run": dry_run})


@people_routes.on("GET", "/deliveries", scope=Scope.READ, answer=schemas.Page)
def get_deliveries(
    ctx: Ctx,
    status: Annotated[Literal["PENDING", "DELIVERED", "FAILED"] | None, Query()] = None,
    about: Annotated[
        str | None, Query(min_length=1, max_length=300, description="A job, or a run as JOB:NUMBER.")
    ] = None,
    target: Annotated[str | None, Query(min_length=1, max_length=300)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    """List the notifications, newest first."""
    wanted = DeliveryStatus(status) if status else None
    deliveries = list_deliveries(ctx.store, status=wanted, about=about, target=target, limit=limit)
    return answer(page([delivery_json(delivery) for delivery in deliveries], following=None))


@people_routes.on("POST", "/deliveries/retry", scope=Scope.RUN, answer=schemas.Told, status=202)
def retry_sent(ctx: Ctx, wish: schemas.DeliveriesWish) -> Response:
    """Resend notifications under their own ids: the named ones, or all that failed."""
    if not wish.ids and not wish.failed:
        raise InvalidValue("no delivery is named", hint="name `ids`, or set `failed`")
    found = retry_deliveries(ctx.store, wish.ids, failed=wish.failed, now=ctx.now, dry_run=wish.dry_run)
    if found and not wish.dry_run:
        ctx.wake()
    return answer({"dry_run": wish.dry_run, "retried": [delivery_json(delivery) for delivery in found]}, status=202)


tools_routes = Routes("tools", prefix="")


@tools_routes.on("POST", "/mcp", scope=Scope.AGENT, answer=schemas.Told, shown=False)
async def call_tools(ctx: Ctx, request: Request) -> Response:
    """Answer one MCP message: the tools act as the token of the request, within `agent_policy`."""
    body: bytes = request.state.body_bytes
    # The tools read and write the database: on a thread, with a loop for the protocol that ends with the answer.
    return await run_sync(partial(anyio.run, _answer, ctx, dict(request.scope), body))


async def _answer(ctx: RequestContext, scope: AsgiScope, body: bytes) -> Response:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from rota.mcp import server_of

    context = ctx.context
    toolbox = Toolbox(
        context.store,
        context.state,
        context.clock,
        maker=ctx.maker,
        declare=project_declares(ProjectPaths(context.folder, context.state), context.environ),
    )
    manager = StreamableHTTPSessionManager(server_of(toolbox), json_response=True, stateless=True)
    async with manager.run():
        return await _response(manager.handle_request, scope, body)


async def _response(app: "ASGIApp", scope: AsgiScope, body: bytes) -> Response:
    """Return the response of an application to a request whose body is read already."""
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
