"""Routes of runs, the queue and direct calls."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import Header, Query, Request
from starlette.responses import Response, StreamingResponse

from rota.engine.transactions.enqueue import Where
from rota.http import schemas
from rota.http.context import (
    DeskOf,
    FilterWord,
    GroupName,
    PastTime,
    ReasonWord,
    RequestContext,
    Routes,
    RunName,
    StatusWord,
    TriggerWord,
    Word,
    answer,
    instant,
    page,
)
from rota.http.errors import Busy, HttpRefusal
from rota.model.errors import InvalidValue
from rota.model.serialize import run_json
from rota.model.spec import GroupMode, Member, OnFailure
from rota.model.states import WaitingFor
from rota.operations import budgets, group_actions, groups
from rota.operations.admin.access import Scope
from rota.operations.bulk import Filter, cancel_matching, edited_json, match_runs, moved_json
from rota.operations.direct_actions import LOOK_AGAIN, direct_call, wait_a_little
from rota.operations.direct_calls import DirectCallJson, DirectCallsJson, calls_json, direct_calls, direct_json
from rota.operations.explain import ExplanationJson, explain, explanation_json
from rota.operations.groups import group_around
from rota.operations.jobs import project_timezone
from rota.operations.output import fetch_output, follow_bytes, output_of, snapshot_of, why_no_output
from rota.operations.queue import look_at_queue, queue_json
from rota.operations.run_actions import Destination, cancel_run, edit_run, move_runs, retry_run, stop_unattended
from rota.operations.runs import Query as RunQuery
from rota.operations.runs import page_of_runs, show_run
from rota.operations.views import WholeRunJson, whole_run_json

runs_routes = Routes("runs")
TEXT = "text/plain; charset=utf-8"
LINES = 100_000


class RangeRefused(HttpRefusal):
    """A range of the output that is not there."""

    code = "range"
    status = 416

    def __init__(self, size: int) -> None:
        super().__init__("the range is not within the output", hint=f"there are {size} bytes; write bytes=0-99")
        self.headers = (("Content-Range", f"bytes */{size}"),)


@runs_routes.on("GET", "/runs", scope=Scope.READ, answer=schemas.RunPage)
def get_runs(
    desk: DeskOf,
    job: Annotated[str | None, Query(min_length=1, max_length=300)] = None,
    status: Annotated[list[StatusWord] | None, Query(max_length=20)] = None,
    reason: Annotated[list[ReasonWord] | None, Query(max_length=50)] = None,
    label: Annotated[list[FilterWord] | None, Query(max_length=100)] = None,
    trigger: Annotated[list[TriggerWord] | None, Query(max_length=20)] = None,
    agent: Annotated[
        str | None, Query(min_length=1, max_length=100, description="Of jobs that ask this agent now.")
    ] = None,
    text: Annotated[
        str | None, Query(min_length=1, max_length=200, description="In the summary or the error, whatever its case.")
    ] = None,
    since: PastTime | None = None,
    until: PastTime | None = None,
    cursor: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """List runs, newest first."""
    query = RunQuery(
        job=job,
        statuses=tuple(status or ()),
        reasons=tuple(reason or ()),
        labels=tuple(label or ()),
        triggers=tuple(trigger or ()),
        agent=agent or "",
        text=(text or "").strip(),
        since=instant(since, now=desk.now) if since else None,
        until=instant(until, now=desk.now) if until else None,
    )
    found = page_of_runs(desk.store, query, cursor=cursor, limit=limit)
    return answer(page([run_json(run) for run in found.runs], following=found.cursor))


@runs_routes.on("POST", "/runs/cancel", scope=Scope.RUN, answer=schemas.Told)
def cancel_runs(desk: DeskOf, wish: schemas.SweepWish) -> Response:
    """Cancel every unfinished run that a filter names."""
    chosen = _filter(wish)
    found = match_runs(desk.store, chosen, now=desk.now)
    jobs = [{"job": one.job, "queued": one.queued, "running": one.running} for one in found]
    told: dict[str, Any] = {"dry_run": wish.dry_run, "jobs": jobs, "cancelled": 0, "stopping": 0}
    if found and not wish.dry_run:
        swept = cancel_matching(desk.store, chosen, now=desk.now)
        desk.wake()
        stop_unattended(desk.store, desk.state, swept.asked)
        told |= {"cancelled": swept.cancelled, "stopping": len(swept.asked)}
    return answer(told)


@runs_routes.on("GET", "/runs/{run}", scope=Scope.READ, answer=WholeRunJson)
def get_run(desk: DeskOf, run: RunName) -> Response:
    """Show a run with everything that is stored about it."""
    view = show_run(desk.store, run)
    group = desk.store.read(partial(group_around, run=view.run))
    return answer(whole_run_json(view, group))


@runs_routes.on("PATCH", "/runs/{run}", scope=Scope.RUN, answer=schemas.Told)
def edit_queued_run(desk: DeskOf, run: RunName, wish: schemas.EditWish) -> Response:
    """Change a queued run: its params until it is dispatched, its priority until it starts."""
    edited = edit_run(desk.store, run, params=wish.params, priority=wish.priority, now=desk.now, dry_run=wish.dry_run)
    if not wish.dry_run:
        desk.wake()
    return answer(edited_json(edited, dry_run=wish.dry_run))


@runs_routes.on("POST", "/runs/{run}/cancel", scope=Scope.RUN, answer=schemas.CancelledRun)
def cancel_one_run(desk: DeskOf, run: RunName, wish: schemas.OptionalDryRun) -> Response:
    """Cancel a run: a queued one at once, a running one by stopping it."""
    dry_run = wish.dry_run
    done = cancel_run(desk.store, run, now=desk.now, dry_run=dry_run)
    if not dry_run:
        desk.wake()
        if not done.final:
            stop_unattended(desk.store, desk.state, [done.run.id])
    return answer({**run_json(done.run), "final": done.final, "dry_run": dry_run})


@runs_routes.on("POST", "/runs/{run}/retry", scope=Scope.RUN, answer=schemas.RetriedRun, status=202)
def retry_one_run(desk: DeskOf, run: RunName, wish: schemas.OptionalRetryWish) -> Response:
    """Run a finished run again, as a new run that points at it."""
    return retry(desk, run, wish)


def retry(desk: RequestContext, run: str, wish: schemas.RetryWish) -> Response:
    """Retry a run, for this route and its older spelling."""
    done = retry_run(
        desk.store,
        run,
        now=desk.now,
        again=wish.again,
        force=wish.force,
        params=wish.params,
        dry_run=wish.dry_run,
    )
    if done.born is None:
        return answer({"retried": done.run.handle, "params": dict(done.params), "would": "queue"}, status=202)
    desk.wake()
    made = show_run(desk.store, done.born.id).run
    headers = {"Location": desk.path(f"/runs/{made.id}")}
    return answer({**run_json(made), "retried": done.run.handle}, status=202, headers=headers)


@runs_routes.on("POST", "/runs/{run}/move", scope=Scope.RUN, answer=schemas.Told)
def move_queued_run(desk: DeskOf, run: RunName, wish: schemas.MoveWish) -> Response:
    """Change the place of a queued run within its priority."""
    moved = move_runs(desk.store, [run], _destination(wish), now=desk.now, dry_run=wish.dry_run)
    if not wish.dry_run:
        desk.wake()
    return answer(moved_json(moved, dry_run=wish.dry_run))


@runs_routes.on("GET", "/runs/{run}/explain", scope=Scope.READ, answer=ExplanationJson)
def explain_run(desk: DeskOf, run: RunName) -> Response:
    """Tell why a run did, did not, or will run."""
    view = show_run(desk.store, run)
    return answer(explanation_json(explain(desk.store, view.run.id, state=desk.state, now=desk.now)))


@runs_routes.on(
    "GET",
    "/runs/{run}/output",
    scope=Scope.READ,
    answer=str,
    media=TEXT,
    also={206: {"description": "A part of it.", "content": {TEXT: {"schema": {"type": "string"}}}}},
)
async def get_run_output(
    desk: DeskOf,
    run: RunName,
    tail: Annotated[int | None, Query(ge=1, le=LINES, description="Only from the last lines on.")] = None,
    follow: Annotated[bool, Query(description="Go on until the run has ended.")] = False,  # noqa: FBT002
    range: Annotated[str | None, Header(max_length=64, include_in_schema=False)] = None,  # noqa: A002
) -> Response:
    """Return what a run wrote, as text: all that is kept, its last lines, a range of bytes, or as it grows.

    `Range: bytes=FIRST-LAST` is answered with 206; beside `tail` or `follow` it has no effect.
    """
    view = await run_sync(show_run, desk.store, run)
    await run_sync(fetch_output, desk.store, desk.state, view)
    headers = {"Content-Disposition": f'attachment; filename="{view.run.id}.txt"', "Accept-Ranges": "bytes"}
    if follow:
        return StreamingResponse(_grown(desk, view.run.id, lines=tail), 200, headers, TEXT)
    if why := await run_sync(partial(why_no_output, desk.state, view, now=desk.now)):
        headers["X-Rota-Note"] = why.encode("ascii", "replace").decode()
    if tail is not None:
        return StreamingResponse(output_of(desk.state, view.run.id, lines=tail), 200, headers, TEXT)
    content = await run_sync(snapshot_of, desk.state, view.run.id)
    if range is not None:
        part = _range(range, content.size)
        headers["Content-Range"] = f"bytes {part.first}-{part.last}/{content.size}"
        headers["Content-Length"] = str(part.last - part.first + 1)
        return StreamingResponse(content.read(part.first, part.last), 206, headers, TEXT)
    if not view.run.status.final:  # segments of a flood are replaced meanwhile: no length is promised
        return StreamingResponse(output_of(desk.state, view.run.id), 200, headers, TEXT)
    headers["Content-Length"] = str(content.size)
    return StreamingResponse(content.read(0, content.size - 1), 200, headers, TEXT)


async def _grown(desk: RequestContext, run_id: str, *, lines: int | None) -> AsyncIterator[bytes]:
    """Yield the output of a run as it grows, until the run has ended and all of it was told."""
    reader, pause = follow_bytes(desk.state, run_id, lines=lines), LOOK_AGAIN
    while True:
        view = await run_sync(show_run, desk.store, run_id)
        ended = view.run.status.final  # before the last look at the file
        await run_sync(fetch_output, desk.store, desk.state, view)
        told = await run_sync(reader.more)
        if told:
            yield told
            pause = LOOK_AGAIN
        elif ended:
            return
        else:
            await wait_a_little(pause)
            pause = min(pause * 2, timedelta(seconds=1))


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The first and the last byte of a range."""

    first: int
    last: int


def _range(text: str, size: int) -> ByteRange:
    """Return the range of a header: `bytes=0-99`, `bytes=100-`, `bytes=-50`."""
    unit, _, written = text.partition("=")
    first, dash, last = written.strip().partition("-")
    digits = all(not end or (end.isdecimal() and len(end) < 19) for end in (first, last))
    if unit.strip() != "bytes" or not dash or not digits or not (first or last):
        raise InvalidValue(f"{text[:40]!r} is no range of bytes", hint="write bytes=0-99, bytes=100- or bytes=-50")
    if not first:
        found = ByteRange(max(0, size - int(last)), size - 1)
    else:
        found = ByteRange(int(first), min(int(last) if last else size - 1, size - 1))
    if found.first > found.last or not size:
        raise RangeRefused(size)
    return found


def _filter(wish: schemas.SweepWish) -> Filter:
    chosen = (wish.jobs, wish.labels, wish.queued, wish.running, wish.waiting_for, wish.older_than_seconds, wish.all)
    if not any(chosen):
        raise InvalidValue("no filter chooses runs", hint="name jobs, labels, queued, running, or all")
    if wish.waiting_for is not None and (wish.running or wish.waiting_for not in set(WaitingFor)):
        words = ", ".join(WaitingFor)
        raise InvalidValue(f"{wish.waiting_for!r} is nothing that queued runs wait for", hint=f"use one of {words}")
    older = wish.older_than_seconds
    return Filter(
        jobs=tuple(wish.jobs),
        labels=tuple(wish.labels),
        queued=wish.queued,
        running=wish.running,
        waiting_for=WaitingFor(wish.waiting_for) if wish.waiting_for else None,
        older_than=timedelta(seconds=older) if older else None,
    )


def _destination(wish: schemas.MoveWish) -> Destination:
    given = [
        *([Destination(Where.FIRST)] if wish.first else []),
        *([Destination(Where.LAST)] if wish.last else []),
        *([Destination(Where.BEFORE, other=wish.before)] if wish.before is not None else []),
        *([Destination(Where.TO, place=wish.to)] if wish.to is not None else []),
    ]
    if len(given) != 1:
        raise InvalidValue("give exactly one of first, last, before, to", hint='for example `{"first": true}`')
    return given[0]


direct_routes = Routes("direct")
AT_ONCE = 64
"""How many requests may wait; each holds a connection."""


class WaitingRequests:
    """How many requests wait for the end of a direct call."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        if self.count >= AT_ONCE:
            raise Busy("waiting calls")
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1


waiting = WaitingRequests()


@direct_routes.on("GET", "/direct", scope=Scope.READ, answer=DirectCallsJson)
def get_direct_calls(desk: DeskOf) -> Response:
    """List who waits for a slot, and who has one."""
    return answer(calls_json(desk.store.read(direct_calls)))


@direct_routes.on("POST", "/direct", scope=Scope.RUN, answer=DirectCallJson)
async def call_directly(desk: DeskOf, wish: schemas.DirectWish, request: Request) -> Response:
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


async def _call(desk: RequestContext, wish: schemas.DirectWish) -> Response:
    within = timedelta(seconds=wish.within_seconds) if wish.within_seconds else None
    view = await direct_call(desk.store, desk.state, desk.clock, job=wish.job, params=wish.params, within=within)
    return answer(direct_json(view))


async def _gone(request: Request) -> None:
    """Wait until the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


queue_routes = Routes("queue")


@queue_routes.on("GET", "/queue", scope=Scope.READ, answer=schemas.QueueView)
def get_queue(desk: DeskOf, limit: Annotated[int, Query(ge=1, le=1000)] = 20) -> Response:
    """Show what waits, in order, and why the first does not run."""
    return answer(queue_json(look_at_queue(desk.store, desk.state, limit=limit, now=desk.now)))


@queue_routes.on("GET", "/groups", scope=Scope.READ, answer=schemas.GroupPage)
def get_groups(desk: DeskOf) -> Response:
    """List the groups, each with its newest instance."""
    lines = groups.list_groups(desk.store)
    return answer(page([groups.line_json(line) for line in lines], following=None))


@queue_routes.on("POST", "/groups", scope=Scope.RUN, answer=groups.GroupJson, status=202)
def create_group(desk: DeskOf, wish: schemas.GroupWish) -> Response:
    """Make a group of jobs at run time, with all of its members or not at all."""
    view = group_actions.create(
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


@queue_routes.on("GET", "/groups/{group}", scope=Scope.READ, answer=groups.GroupJson)
def get_group(desk: DeskOf, group: GroupName) -> Response:
    """Show a group with its members."""
    return answer(groups.group_json(groups.show_group(desk.store, group)))


@queue_routes.on("POST", "/groups/{group}/cancel", scope=Scope.RUN, answer=groups.GroupJson)
def cancel_group(desk: DeskOf, group: GroupName, wish: schemas.OptionalDryRun) -> Response:
    """Cancel a group: queued members at once, running ones by stopping them."""
    dry_run = wish.dry_run
    view = group_actions.cancel(desk.store, group, now=desk.now, dry_run=dry_run)
    if not dry_run:
        desk.wake()
        stop_unattended(desk.store, desk.state, [run.id for run in groups.running_members(view)])
    return answer(groups.group_json(view))


@queue_routes.on("POST", "/groups/{group}/retry", scope=Scope.RUN, answer=schemas.Told, status=202)
def retry_group(desk: DeskOf, group: GroupName, wish: schemas.OptionalGroupRetryWish) -> Response:
    """Make a new group of what failed."""
    made = group_actions.retry(desk.store, group, now=desk.now, force=wish.force, dry_run=wish.dry_run)
    if not wish.dry_run:
        desk.wake()
    told: dict[str, Any] = {"retry_of": made.of.handle, "run": run_json(made.run) if made.run else None}
    return answer({**told, "group": groups.group_json(made.view) if made.view else None}, status=202)


@queue_routes.on("GET", "/budgets", scope=Scope.READ, answer=schemas.AccountPage)
def get_budgets(desk: DeskOf) -> Response:
    """List the accounts of budgets in their windows of now."""
    found = budgets.list_accounts(desk.store, now=desk.now)
    return answer(page([budgets.account_json(view) for view in found], following=None))


@queue_routes.on("GET", "/budgets/{account}", scope=Scope.READ, answer=budgets.AccountJson)
def get_budget(desk: DeskOf, account: Word) -> Response:
    """Show an account with its last windows and who spent most."""
    return answer(budgets.history_json(budgets.show_account(desk.store, account, now=desk.now)))


@queue_routes.on("GET", "/usage", scope=Scope.READ, answer=budgets.UsageJson)
def get_usage(
    desk: DeskOf,
    by: Annotated[budgets.By, Query()] = budgets.By.JOB,
    since: PastTime | None = None,
    job: Annotated[str | None, Query(min_length=1, max_length=300)] = None,
) -> Response:
    """Tell what runs used: time, tokens, requests and money."""
    begin = instant(since, now=desk.now) if since else desk.now - timedelta(days=30)
    zone = project_timezone(desk.store)
    return answer(
        budgets.usage_json(budgets.look_at_usage(desk.store, by=by, since=begin, tz=zone, now=desk.now, job=job))
    )
