"""The queue, groups, budgets and usage."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from rota.http import schemas, wishes
from rota.http.context import DeskOf
from rota.http.routes.names import GroupName, Word
from rota.http.routes.times import PastTime, instant
from rota.http.routing import Routes, answer, page
from rota.model.spec import GroupMode, Member, OnFailure
from rota.operations import grouping, groups
from rota.operations.access import Scope
from rota.operations.budgets import account_json, history_json, list_accounts, show_account
from rota.operations.jobs import project_timezone
from rota.operations.queue import look_at_queue, queue_json
from rota.operations.stopping import stop_unattended
from rota.operations.usage import By, look_at_usage, usage_json
from rota.operations.views import run_json

routes = Routes("queue")


@routes.on("GET", "/queue", scope=Scope.READ, answer=schemas.QueueView)
def get_queue(desk: DeskOf, limit: Annotated[int, Query(ge=1, le=1000)] = 20) -> Response:
    """Show what waits, in order, and why the first does not run."""
    return answer(queue_json(look_at_queue(desk.store, desk.state, limit=limit, now=desk.now)))


@routes.on("GET", "/groups", scope=Scope.READ, answer=schemas.GroupPage)
def get_groups(desk: DeskOf) -> Response:
    """List the groups, each with its newest instance."""
    lines = groups.list_groups(desk.store)
    return answer(page([groups.line_json(line) for line in lines], following=None))


@routes.on("POST", "/groups", scope=Scope.RUN, answer=schemas.Group, status=202)
def create_group(desk: DeskOf, wish: wishes.GroupWish) -> Response:
    """Make a group of jobs at run time, with all of its members or not at all."""
    view = grouping.create(
        desk.store,
        wish.name,
        [Member(one.job, params=one.params, always=one.always) for one in wish.members],
        mode=GroupMode(wish.mode),
        on_failure=OnFailure(wish.on_failure),
        now=desk.now,
        dry_run=wish.dry_run,
    )
    if not wish.dry_run:
        desk.wake()
    return answer(groups.group_json(view), status=202)


@routes.on("GET", "/groups/{group}", scope=Scope.READ, answer=schemas.Group)
def get_group(desk: DeskOf, group: GroupName) -> Response:
    """Show a group with its members."""
    return answer(groups.group_json(groups.show_group(desk.store, group)))


@routes.on("POST", "/groups/{group}/cancel", scope=Scope.RUN, answer=schemas.Group)
def cancel_group(desk: DeskOf, group: GroupName, wish: wishes.OptionalDryRun) -> Response:
    """Cancel a group: queued members at once, running ones by stopping them."""
    dry_run = wish.dry_run
    view = grouping.cancel(desk.store, group, now=desk.now, dry_run=dry_run)
    if not dry_run:
        desk.wake()
        stop_unattended(desk.store, desk.state, [run.id for run in groups.running_members(view)])
    return answer(groups.group_json(view))


@routes.on("POST", "/groups/{group}/retry", scope=Scope.RUN, answer=schemas.Told, status=202)
def retry_group(desk: DeskOf, group: GroupName, wish: wishes.OptionalGroupRetryWish) -> Response:
    """Make a new group of what failed."""
    made = grouping.retry(desk.store, group, now=desk.now, force=wish.force, dry_run=wish.dry_run)
    if not wish.dry_run:
        desk.wake()
    told: dict[str, Any] = {"retry_of": made.of.handle, "run": run_json(made.run) if made.run else None}
    return answer({**told, "group": groups.group_json(made.view) if made.view else None}, status=202)


@routes.on("GET", "/budgets", scope=Scope.READ, answer=schemas.AccountPage)
def get_budgets(desk: DeskOf) -> Response:
    """List the accounts of budgets in their windows of now."""
    found = list_accounts(desk.store, now=desk.now)
    return answer(page([account_json(view) for view in found], following=None))


@routes.on("GET", "/budgets/{account}", scope=Scope.READ, answer=schemas.Account)
def get_budget(desk: DeskOf, account: Word) -> Response:
    """Show an account with its last windows and who spent most."""
    return answer(history_json(show_account(desk.store, account, now=desk.now)))


@routes.on("GET", "/usage", scope=Scope.READ, answer=schemas.Usage)
def get_usage(
    desk: DeskOf,
    by: Annotated[By, Query()] = By.JOB,
    since: PastTime | None = None,
    job: Annotated[str | None, Query(min_length=1, max_length=300)] = None,
) -> Response:
    """Tell what runs used: time, tokens, requests and money."""
    begin = instant(since, now=desk.now) if since else desk.now - timedelta(days=30)
    zone = project_timezone(desk.store)
    return answer(usage_json(look_at_usage(desk.store, by=by, since=begin, tz=zone, now=desk.now, job=job)))
