"""Agents, what agents proposed, and who was told of what."""

from functools import partial
from typing import Annotated, Literal

from fastapi import Query
from starlette.responses import Response

from rota.http import schemas, wishes
from rota.http.context import DeskOf
from rota.http.routes.names import JobName, TargetName
from rota.http.routing import Routes, answer, page
from rota.model.errors import InvalidValue
from rota.model.notify import DeliveryStatus
from rota.operations.access import Scope
from rota.operations.agents import agents_json, look_at_agents
from rota.operations.jobs import show_job
from rota.operations.made import waiting
from rota.operations.making import approve
from rota.operations.notifying import (
    delivery_json,
    enable_target,
    list_deliveries,
    list_targets,
    retry_deliveries,
    target_json,
)
from rota.operations.project import Place
from rota.operations.views import job_json, provisional_json

routes = Routes("people")


@routes.on("GET", "/agents", scope=Scope.READ, answer=schemas.Told)
def get_agents(desk: DeskOf) -> Response:
    """List the agents: program, version, login, holds, what runs; each program is really looked for."""
    context = desk.context
    place = Place(context.folder, context.state)
    return answer(agents_json(look_at_agents(place, desk.store, context.environ, now=desk.now, acts=True)))


@routes.on("GET", "/approvals", scope=Scope.READ, answer=schemas.Page)
def get_approvals(desk: DeskOf) -> Response:
    """List the jobs that agents proposed and that wait for approval, each with the digest of what it would do."""
    return answer(page([provisional_json(job) for job in desk.store.read(waiting)], following=None))


@routes.on("POST", "/jobs/{job}/approve", scope=Scope.ADMIN, answer=schemas.Job)
def approve_job(desk: DeskOf, job: JobName, wish: wishes.ApproveWish) -> Response:
    """Allow a job that an agent proposed; `digest` is that of what was looked at, and any change voids it."""
    desk.store.write(partial(approve, name=job, digest=wish.digest, now=desk.now))
    desk.wake()
    return answer(job_json(show_job(desk.store, job)))


@routes.on("GET", "/notify", scope=Scope.READ, answer=schemas.Page)
def get_targets(desk: DeskOf) -> Response:
    """List who is told of runs."""
    return answer(page([target_json(view) for view in list_targets(desk.store)], following=None))


@routes.on("POST", "/notify/{target}/enable", scope=Scope.RUN, answer=schemas.Told)
def enable_notify(desk: DeskOf, target: TargetName, wish: wishes.OptionalDryRun) -> Response:
    """Send to a target again that was switched off by a 410, or is left alone since it kept failing."""
    dry_run = wish.dry_run
    changed = enable_target(desk.store, target, dry_run=dry_run)
    if changed and not dry_run:
        desk.wake()
    return answer({"target": target, "changed": changed, "dry_run": dry_run})


@routes.on("GET", "/deliveries", scope=Scope.READ, answer=schemas.Page)
def get_deliveries(
    desk: DeskOf,
    status: Annotated[Literal["PENDING", "DELIVERED", "FAILED"] | None, Query()] = None,
    about: Annotated[
        str | None, Query(min_length=1, max_length=300, description="A job, or a run as JOB:NUMBER.")
    ] = None,
    target: Annotated[str | None, Query(min_length=1, max_length=300)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    """List what was told to whom, newest first."""
    wanted = DeliveryStatus(status) if status else None
    found = list_deliveries(desk.store, status=wanted, about=about, target=target, limit=limit)
    return answer(page([delivery_json(one) for one in found], following=None))


@routes.on("POST", "/deliveries/retry", scope=Scope.RUN, answer=schemas.Told, status=202)
def retry_sent(desk: DeskOf, wish: wishes.DeliveriesWish) -> Response:
    """Send deliveries again, under their own ids: those that are named, or all that failed."""
    if not wish.ids and not wish.failed:
        raise InvalidValue("no delivery is named", hint="name `ids`, or set `failed`")
    found = retry_deliveries(desk.store, wish.ids, failed=wish.failed, now=desk.now, dry_run=wish.dry_run)
    if found and not wish.dry_run:
        desk.wake()
    return answer({"dry_run": wish.dry_run, "retried": [delivery_json(one) for one in found]}, status=202)
