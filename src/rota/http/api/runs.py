"""Routes of runs, the queue and direct calls."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote

from anyio.to_thread import run_sync
from fastapi import Header, Path, Query, Request
from msgspec import Struct
from starlette.responses import FileResponse, Response, StreamingResponse

from rota.engine.transactions.enqueue import Where
from rota.http import schemas
from rota.http.context import (
    Ctx,
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
from rota.model.questions import Door
from rota.model.serialize import run_json
from rota.model.spec import GroupMode, Member, OnFailure
from rota.model.states import WaitingFor
from rota.operations import budgets, group_actions, groups
from rota.operations.admin.access import Scope
from rota.operations.agents.sessions import fork_run
from rota.operations.agents.transcripts import TranscriptJson, transcript_json, transcript_of
from rota.operations.bulk import Filter, cancel_matching, edited_json, match_runs, moved_json
from rota.operations.diff import RunDiffJson, diff_json, diff_runs
from rota.operations.direct_actions import LOOK_AGAIN, direct_call, wait_a_little
from rota.operations.direct_calls import DirectCallJson, DirectCallsJson, calls_json, direct_calls, direct_json
from rota.operations.explain import ExplanationJson, explain, explanation_json
from rota.operations.groups import group_around
from rota.operations.jobs import project_timezone
from rota.operations.output import (
    RunFilesJson,
    fetch_output,
    file_of,
    files_json,
    files_of,
    follow_bytes,
    output_of,
    snapshot_of,
    why_no_output,
)
from rota.operations.queue import QueueViewJson, look_at_queue, queue_json
from rota.operations.run_actions import Destination, cancel_run, edit_run, move_runs, retry_run, stop_unattended
from rota.operations.runs import Query as RunQuery
from rota.operations.runs import find_run, page_of_runs, show_run
from rota.operations.views import WholeRunJson, whole_run_json

runs_routes = Routes("runs")
TEXT = "text/plain; charset=utf-8"
LINES = 100_000


class RangeRefused(HttpRefusal, code="range", status=416):
    """A range outside the output."""

    def __init__(self, size: int) -> None:
        super().__init__("the range is not within the output", hint=f"there are {size} bytes; write bytes=0-99")
        self.headers = (("Content-Range", f"bytes */{size}"),)


@runs_routes.on("GET", "/runs", scope=Scope.READ, answer=schemas.RunPage)
def get_runs(
    ctx: Ctx,
    job: Annotated[str | None, Query(min_length=1, max_length=300)] = None,
    status: Annotated[list[StatusWord] | None, Query(max_length=20)] = None,
    reason: Annotated[list[ReasonWord] | None, Query(max_length=50)] = None,
    label: Annotated[list[FilterWord] | None, Query(max_length=100)] = None,
    trigger: Annotated[list[TriggerWord] | None, Query(max_length=20)] = None,
    agent: Annotated[
        str | None, Query(min_length=1, max_length=100, description="Of jobs that use this agent now.")
    ] = None,
    text: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Text in the summary or error, in any case.")
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
        since=instant(since, now=ctx.now) if since else None,
        until=instant(until, now=ctx.now) if until else None,
    )
    runs_page = page_of_runs(ctx.store, query, cursor=cursor, limit=limit)
    return answer(page([run_json(run) for run in runs_page.runs], following=runs_page.cursor))


@runs_routes.on("POST", "/runs/cancel", scope=Scope.RUN, answer=schemas.Told)
def cancel_runs(ctx: Ctx, wish: schemas.SweepWish) -> Response:
    """Cancel every unfinished run that matches a filter."""
    chosen = _filter(wish)
    found = match_runs(ctx.store, chosen, now=ctx.now)
    jobs = [{"job": job.job, "queued": job.queued, "running": job.running} for job in found]
    told: dict[str, Any] = {"dry_run": wish.dry_run, "jobs": jobs, "cancelled": 0, "stopping": 0}
    if found and not wish.dry_run:
        swept = cancel_matching(ctx.store, chosen, now=ctx.now)
        ctx.wake()
        stop_unattended(ctx.store, ctx.state, swept.asked)
        told |= {"cancelled": swept.cancelled, "stopping": len(swept.asked)}
    return answer(told)


@runs_routes.on("GET", "/runs/{run}", scope=Scope.READ, answer=WholeRunJson)
def get_run(ctx: Ctx, run: RunName) -> Response:
    """Show a run with everything that is stored about it."""
    view = show_run(ctx.store, run)
    group = ctx.store.read(partial(group_around, run=view.run))
    return answer(whole_run_json(view, group))


@runs_routes.on("PATCH", "/runs/{run}", scope=Scope.RUN, answer=schemas.Told)
def edit_queued_run(ctx: Ctx, run: RunName, wish: schemas.EditWish) -> Response:
    """Change a queued run: its params before it is dispatched, its priority before it starts."""
    edited = edit_run(ctx.store, run, params=wish.params, priority=wish.priority, now=ctx.now, dry_run=wish.dry_run)
    ctx.wake(dry_run=wish.dry_run)
    return answer(edited_json(edited, dry_run=wish.dry_run))


@runs_routes.on("POST", "/runs/{run}/cancel", scope=Scope.RUN, answer=schemas.CancelledRun)
def cancel_one_run(ctx: Ctx, run: RunName, wish: schemas.OptionalDryRun) -> Response:
    """Cancel a run: remove a queued one, stop a running one."""
    dry_run = wish.dry_run
    done = cancel_run(ctx.store, run, now=ctx.now, dry_run=dry_run)
    if not dry_run:
        ctx.wake()
        if not done.final:
            stop_unattended(ctx.store, ctx.state, [done.run.id])
    return answer({**run_json(done.run), "final": done.final, "dry_run": dry_run})


@runs_routes.on("POST", "/runs/{run}/retry", scope=Scope.RUN, answer=schemas.RetriedRun, status=202)
def retry_one_run(ctx: Ctx, run: RunName, wish: schemas.OptionalRetryWish) -> Response:
    """Run a finished run again, as a new run that refers to it."""
    return retry(ctx, run, wish)


def retry(ctx: RequestContext, run: str, wish: schemas.RetryWish) -> Response:
    """Retry a run, for this route and its deprecated alias."""
    done = retry_run(
        ctx.store, run, now=ctx.now, again=wish.again, force=wish.force, params=wish.params, dry_run=wish.dry_run
    )
    if done.born is None:
        return answer({"retried": done.run.handle, "params": dict(done.params), "would": "queue"}, status=202)
    ctx.wake()
    made = ctx.store.read(partial(find_run, handle=done.born.id))
    headers = {"Location": ctx.path(f"/runs/{made.id}")}
    return answer({**run_json(made), "retried": done.run.handle}, status=202, headers=headers)


@runs_routes.on("POST", "/runs/{run}/fork", scope=Scope.ADMIN, answer=schemas.ForkedRun, status=202)
def fork_one_run(ctx: Ctx, run: RunName, wish: schemas.ForkWish) -> Response:
    """Start a run of the same job that goes on from the session of a finished run, with this prompt."""
    forked = fork_run(
        ctx.store,
        run,
        wish.prompt,
        state=ctx.state,
        by=ctx.actor,
        door=Door.DASHBOARD if ctx.caller.browser else Door.API,
        now=ctx.now,
        force=wish.force,
        dry_run=wish.dry_run,
    )
    if wish.dry_run:
        return answer({"forked": forked.of.handle, "would": "queue"}, status=202)
    ctx.wake()
    made = ctx.store.read(partial(find_run, handle=forked.born.id))
    headers = {"Location": ctx.path(f"/runs/{made.id}")}
    return answer({**run_json(made), "forked": forked.of.handle}, status=202, headers=headers)


@runs_routes.on("POST", "/runs/{run}/move", scope=Scope.RUN, answer=schemas.Told)
def move_queued_run(ctx: Ctx, run: RunName, wish: schemas.MoveWish) -> Response:
    """Change the place of a queued run within its priority."""
    moved = move_runs(ctx.store, [run], _destination(wish), now=ctx.now, dry_run=wish.dry_run)
    ctx.wake(dry_run=wish.dry_run)
    return answer(moved_json(moved, dry_run=wish.dry_run))


@runs_routes.on("GET", "/runs/{run}/explain", scope=Scope.READ, answer=ExplanationJson)
def explain_run(ctx: Ctx, run: RunName) -> Response:
    """Explain why a run did, did not, or will run."""
    view = show_run(ctx.store, run)
    return answer(explanation_json(explain(ctx.store, view.run.id, state=ctx.state, now=ctx.now)))


@runs_routes.on("GET", "/runs/{run}/diff", scope=Scope.READ, answer=RunDiffJson)
def get_run_diff(
    ctx: Ctx,
    run: RunName,
    other: Annotated[str, Query(alias="with", min_length=1, max_length=300, description="The other run.")],
) -> Response:
    """Compare a run with another one: definition, params, prompt, model, duration, cost and output."""
    view = diff_runs(ctx.store, ctx.state, run, other, now=ctx.now)
    return answer(diff_json(view, now=ctx.now))


@runs_routes.on("GET", "/runs/{run}/files", scope=Scope.READ, answer=RunFilesJson)
def get_run_files(ctx: Ctx, run: RunName) -> Response:
    """List the files that the result of a run names."""
    view = show_run(ctx.store, run)
    return answer(files_json(view, files_of(ctx.state, view)))


@runs_routes.on("GET", "/runs/{run}/files/{number}", scope=Scope.READ, answer=str, media="application/octet-stream")
def get_run_file(ctx: Ctx, run: RunName, number: Annotated[int, Path(ge=0, lt=1000)]) -> Response:
    """Download a file of a run's result. A browser draws images alone, and runs nothing of it."""
    file = file_of(ctx.state, show_run(ctx.store, run), number)
    name = quote(PurePosixPath(file.name).name[:200], safe="")
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{name or number}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
    }
    return FileResponse(file.path, headers=headers, media_type=file.media)


@runs_routes.on("GET", "/runs/{run}/transcript", scope=Scope.READ, answer=TranscriptJson)
def get_run_transcript(ctx: Ctx, run: RunName) -> Response:
    """Show the prompt, the turns, the tool calls and their results of an agent's run."""
    view = show_run(ctx.store, run)
    fetch_output(ctx.store, ctx.state, view)
    note = why_no_output(ctx.state, view, now=ctx.now)
    return answer(transcript_json(view, transcript_of(ctx.state, view), note))


@runs_routes.on(
    "GET",
    "/runs/{run}/output",
    scope=Scope.READ,
    answer=str,
    media=TEXT,
    also={206: {"description": "A part of it.", "content": {TEXT: {"schema": {"type": "string"}}}}},
)
async def get_run_output(
    ctx: Ctx,
    run: RunName,
    tail: Annotated[int | None, Query(ge=1, le=LINES, description="Only the last lines.")] = None,
    follow: Annotated[bool, Query(description="Stream until the run has ended.")] = False,  # noqa: FBT002
    range: Annotated[str | None, Header(max_length=64, include_in_schema=False)] = None,  # noqa: A002
) -> Response:
    """Return the output of a run as text: all of it, its last lines, a range of bytes, or a live stream.

    `Range: bytes=FIRST-LAST` returns 206; with `tail` or `follow` it has no effect.
    """
    view = await run_sync(show_run, ctx.store, run)
    await run_sync(fetch_output, ctx.store, ctx.state, view)
    headers = {"Content-Disposition": f'attachment; filename="{view.run.id}.txt"', "Accept-Ranges": "bytes"}
    if follow:
        return StreamingResponse(_grown(ctx, view.run.id, lines=tail), 200, headers, TEXT)
    if why := await run_sync(partial(why_no_output, ctx.state, view, now=ctx.now)):
        headers["X-Rota-Note"] = why.encode("ascii", "replace").decode()
    if tail is not None:
        return StreamingResponse(output_of(ctx.state, view.run.id, lines=tail), 200, headers, TEXT)
    content = await run_sync(snapshot_of, ctx.state, view.run.id)
    if range is not None:
        part = _range(range, content.size)
        headers["Content-Range"] = f"bytes {part.first}-{part.last}/{content.size}"
        headers["Content-Length"] = str(part.last - part.first + 1)
        return StreamingResponse(content.read(part.first, part.last), 206, headers, TEXT)
    if not view.run.status.final:  # old segments may be replaced meanwhile, so the length is unknown
        return StreamingResponse(output_of(ctx.state, view.run.id), 200, headers, TEXT)
    headers["Content-Length"] = str(content.size)
    return StreamingResponse(content.read(0, content.size - 1), 200, headers, TEXT)


async def _grown(ctx: RequestContext, run_id: str, *, lines: int | None) -> AsyncIterator[bytes]:
    """Yield the output of a run as it grows, until the run has ended."""
    reader, pause = follow_bytes(ctx.state, run_id, lines=lines), LOOK_AGAIN
    while True:
        view = await run_sync(show_run, ctx.store, run_id)
        ended = view.run.status.final  # read before the file, so that no late output is missed
        await run_sync(fetch_output, ctx.store, ctx.state, view)
        data = await run_sync(reader.more)
        if data:
            yield data
            pause = LOOK_AGAIN
        elif ended:
            return
        else:
            await wait_a_little(pause)
            pause = min(pause * 2, timedelta(seconds=1))


class ByteRange(Struct, frozen=True):
    """The first and the last byte of a range."""

    first: int
    last: int


def _range(text: str, size: int) -> ByteRange:
    """Return the range of a header: `bytes=0-99`, `bytes=100-`, `bytes=-50`."""
    unit, _, written = text.partition("=")
    first, dash, last = written.strip().partition("-")
    digits = all(not end or (end.isdecimal() and len(end) < 19) for end in (first, last))
    if unit.strip() != "bytes" or not dash or not digits or not (first or last):
        raise InvalidValue(f"{text[:40]!r} is not a byte range", hint="write bytes=0-99, bytes=100- or bytes=-50")
    if not first:
        byte_range = ByteRange(max(0, size - int(last)), size - 1)
    else:
        byte_range = ByteRange(int(first), min(int(last) if last else size - 1, size - 1))
    if byte_range.first > byte_range.last or not size:
        raise RangeRefused(size)
    return byte_range


def _filter(wish: schemas.SweepWish) -> Filter:
    chosen = (wish.jobs, wish.labels, wish.queued, wish.running, wish.waiting_for, wish.older_than_seconds, wish.all)
    if not any(chosen):
        raise InvalidValue("no filter is set", hint="name jobs, labels, queued, running, or all")
    if wish.waiting_for is not None and (wish.running or wish.waiting_for not in set(WaitingFor)):
        words = ", ".join(WaitingFor)
        hint = f"use one of {words}"
        raise InvalidValue(f"{wish.waiting_for!r} is not something that queued runs wait for", hint=hint)
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
    places = [
        *([Destination(Where.FIRST)] if wish.first else []),
        *([Destination(Where.LAST)] if wish.last else []),
        *([Destination(Where.BEFORE, other=wish.before)] if wish.before is not None else []),
        *([Destination(Where.TO, place=wish.to)] if wish.to is not None else []),
    ]
    if len(places) != 1:
        raise InvalidValue("give exactly one of first, last, before, to", hint='for example `{"first": true}`')
    return places[0]


direct_routes = Routes("direct")
MAX_WAITING = 64
"""Each waiting request holds a connection."""


class WaitingRequests:
    """Counts the requests that wait for the end of a direct call."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        if self.count >= MAX_WAITING:
            raise Busy("waiting calls")
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1


waiting = WaitingRequests()


@direct_routes.on("GET", "/direct", scope=Scope.READ, answer=DirectCallsJson)
def get_direct_calls(ctx: Ctx) -> Response:
    """List the direct calls that wait for a slot or have one."""
    return answer(calls_json(ctx.store.read(direct_calls)))


@direct_routes.on("POST", "/direct", scope=Scope.RUN, answer=DirectCallJson)
async def call_directly(ctx: Ctx, wish: schemas.DirectWish, request: Request) -> Response:
    """Execute a job in the next free slot and wait for its end; a client that disconnects cancels its call."""
    with waiting:
        calling = asyncio.create_task(_call(ctx, wish), name="rota-direct")
        leaving = asyncio.create_task(_gone(request), name="rota-gone")
        try:
            await asyncio.wait({calling, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not calling.done():
                calling.cancel()
            await asyncio.gather(calling, leaving, return_exceptions=True)
    return calling.result() if not calling.cancelled() else answer({}, status=499)


async def _call(ctx: RequestContext, wish: schemas.DirectWish) -> Response:
    within = timedelta(seconds=wish.within_seconds) if wish.within_seconds else None
    view = await direct_call(ctx.store, ctx.state, ctx.clock, job=wish.job, params=wish.params, within=within)
    return answer(direct_json(view))


async def _gone(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


queue_routes = Routes("queue")


@queue_routes.on("GET", "/queue", scope=Scope.READ, answer=QueueViewJson)
def get_queue(ctx: Ctx, limit: Annotated[int, Query(ge=1, le=1000)] = 20) -> Response:
    """Show the queue in order, and why its first run does not start."""
    return answer(queue_json(look_at_queue(ctx.store, ctx.state, limit=limit, now=ctx.now)))


@queue_routes.on("GET", "/groups", scope=Scope.READ, answer=schemas.GroupPage)
def get_groups(ctx: Ctx) -> Response:
    """List the groups, each with its newest instance."""
    lines = groups.list_groups(ctx.store)
    return answer(page([groups.line_json(line) for line in lines], following=None))


@queue_routes.on("POST", "/groups", scope=Scope.RUN, answer=groups.GroupJson, status=202)
def create_group(ctx: Ctx, wish: schemas.GroupWish) -> Response:
    """Create a group of jobs at run time, with all of its members or not at all."""
    view = group_actions.create(
        ctx.store,
        wish.name,
        [Member(member.job, params=member.params, always=member.always) for member in wish.members],
        mode=GroupMode(wish.mode),
        on_failure=OnFailure(wish.on_failure),
        now=ctx.now,
        dry_run=wish.dry_run,
    )
    ctx.wake(dry_run=wish.dry_run)
    return answer(groups.group_json(view), status=202)


@queue_routes.on("GET", "/groups/{group}", scope=Scope.READ, answer=groups.GroupJson)
def get_group(ctx: Ctx, group: GroupName) -> Response:
    """Show a group with its members."""
    return answer(groups.group_json(groups.show_group(ctx.store, group)))


@queue_routes.on("POST", "/groups/{group}/cancel", scope=Scope.RUN, answer=groups.GroupJson)
def cancel_group(ctx: Ctx, group: GroupName, wish: schemas.OptionalDryRun) -> Response:
    """Cancel a group: remove queued members, stop running ones."""
    dry_run = wish.dry_run
    view = group_actions.cancel(ctx.store, group, now=ctx.now, dry_run=dry_run)
    if not dry_run:
        ctx.wake()
        stop_unattended(ctx.store, ctx.state, [run.id for run in groups.running_members(view)])
    return answer(groups.group_json(view))


@queue_routes.on("POST", "/groups/{group}/retry", scope=Scope.RUN, answer=schemas.Told, status=202)
def retry_group(ctx: Ctx, group: GroupName, wish: schemas.OptionalGroupRetryWish) -> Response:
    """Create a new group of the failed members."""
    made = group_actions.retry(ctx.store, group, now=ctx.now, force=wish.force, dry_run=wish.dry_run)
    ctx.wake(dry_run=wish.dry_run)
    told: dict[str, Any] = {"retry_of": made.of.handle, "run": run_json(made.run) if made.run else None}
    return answer({**told, "group": groups.group_json(made.view) if made.view else None}, status=202)


@queue_routes.on("GET", "/budgets", scope=Scope.READ, answer=schemas.AccountPage)
def get_budgets(ctx: Ctx) -> Response:
    """List the budget accounts in their current windows."""
    accounts = budgets.list_accounts(ctx.store, now=ctx.now)
    return answer(page([budgets.account_json(view) for view in accounts], following=None))


@queue_routes.on("GET", "/budgets/{account}", scope=Scope.READ, answer=budgets.AccountJson)
def get_budget(ctx: Ctx, account: Word) -> Response:
    """Show an account with its last windows and top spenders."""
    return answer(budgets.history_json(budgets.show_account(ctx.store, account, now=ctx.now)))


@queue_routes.on("GET", "/usage", scope=Scope.READ, answer=budgets.UsageJson)
def get_usage(
    ctx: Ctx,
    by: Annotated[budgets.By, Query()] = budgets.By.JOB,
    since: PastTime | None = None,
    job: Annotated[str | None, Query(min_length=1, max_length=300)] = None,
) -> Response:
    """Return the usage of runs: time, tokens, requests and money."""
    begin = instant(since, now=ctx.now) if since else ctx.now - timedelta(days=30)
    zone = project_timezone(ctx.store)
    return answer(
        budgets.usage_json(budgets.look_at_usage(ctx.store, by=by, since=begin, tz=zone, now=ctx.now, job=job))
    )
