"""The scheduler itself: how it is, the summary of document 001, workers, stopping and starting; and the audit."""

import hashlib
import json
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Header, Query
from starlette.responses import Response

from rota.http import schemas, wishes
from rota.http.context import DeskOf
from rota.http.routes.jobs import hold_back, let_go
from rota.http.routes.names import Word
from rota.http.routes.times import PastTime, instant
from rota.http.routing import Routes, answer, page
from rota.operations.access import Scope
from rota.operations.draining import drain_worker
from rota.operations.draining import forget_worker as forget_gone
from rota.operations.pausing import Chosen
from rota.operations.remote import forget, register, remote_json, remote_workers
from rota.operations.summary import summarise, summary_json
from rota.operations.system import ask_to_stop, heartbeat, look, system_json
from rota.operations.trail import entry_json, read_trail

routes = Routes("scheduler")
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "Nothing has changed since the ETag."}}
HOLD = "stopped through the API"


@routes.on("GET", "/scheduler/status", scope=Scope.READ, answer=schemas.System)
def get_status(desk: DeskOf) -> Response:
    """Tell how the project is: alive or not, what needs somebody, what runs, what is next."""
    view = look(desk.store, heartbeat(desk.state), now=desk.now)
    context = desk.context
    told = {"project": str(context.folder), "scope": "", "store": context.address, "applied": True}
    return answer({**told, **system_json(view, now=desk.now)})


@routes.on("GET", "/scheduler/poll", scope=Scope.READ, answer=schemas.Summary, also=NOT_MODIFIED)
def poll_scheduler(
    desk: DeskOf,
    worker_id: Annotated[
        str | None, Query(min_length=1, max_length=100, description="A worker that may be registered.")
    ] = None,
    if_none_match: Annotated[str | None, Header(max_length=200)] = None,
) -> Response:
    """Tell everything that somebody who polls needs to know, in one cheap answer (document 001)."""
    told = summary_json(summarise(desk.store, desk.state, now=desk.now, worker=worker_id))
    # The suggestion counts down to the next due instant: it alone makes no difference.
    lasting = {key: value for key, value in told.items() if key != "suggested_poll_seconds"}
    tag = f'W/"{hashlib.sha256(json.dumps(lasting).encode()).hexdigest()[:24]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if if_none_match is not None and tag in [one.strip() for one in if_none_match.split(",")]:
        return Response(None, 304, {**headers, "X-Suggested-Poll-Seconds": str(told["suggested_poll_seconds"])})
    return answer(told, headers=headers)


@routes.on("POST", "/scheduler/stop", scope=Scope.ADMIN, answer=schemas.Told, status=202)
def stop_scheduler(desk: DeskOf, wish: wishes.OptionalStopWish) -> Response:
    """Hold everything back, so that nothing fires or starts; or end the process, and this API with it."""
    if wish.mode == "hold":
        pause = wishes.PauseWish(reason=wish.reason or HOLD)
        return answer({"mode": "hold", **hold_back(desk, Chosen(everything=True), pause)}, status=202)
    within = timedelta(seconds=wish.within_seconds) if wish.within_seconds else None
    desk.note()
    carries = ask_to_stop(desk.state, mode=wish.mode, within=within)
    return answer({"mode": wish.mode, "running": carries.running, "direct": carries.direct}, status=202)


@routes.on("POST", "/scheduler/start", scope=Scope.ADMIN, answer=schemas.Told)
def start_scheduler(desk: DeskOf, wish: wishes.OptionalStartWish) -> Response:
    """Let everything go that was held back by a stop or a pause of everything."""
    catch_up = wish.catch_up == "once"
    return answer(let_go(desk, Chosen(everything=True), catch_up=catch_up, dry_run=False))


@routes.on("GET", "/workers", scope=Scope.READ, answer=schemas.WorkerPage)
def get_workers(desk: DeskOf) -> Response:
    """List who claims runs, on all machines that share the store, and the schedulers elsewhere that read this one."""
    here = summary_json(summarise(desk.store, desk.state, now=desk.now))["workers"]
    elsewhere = [remote_json(one, now=desk.now) for one in desk.store.read(remote_workers)]
    return answer(page([*here, *elsewhere], following=None))


@routes.on("POST", "/workers/{worker}/drain", scope=Scope.ADMIN, answer=schemas.Told)
def drain_one_worker(desk: DeskOf, worker: Word) -> Response:
    """Let a worker finish what it has and take no more, until it is resumed."""
    changed = drain_worker(desk.store, worker, draining=True)
    return answer({"worker": worker, "draining": True, "changed": changed})


@routes.on("POST", "/workers/{worker}/resume", scope=Scope.ADMIN, answer=schemas.Told)
def resume_one_worker(desk: DeskOf, worker: Word) -> Response:
    """Let a worker take runs again."""
    changed = drain_worker(desk.store, worker, draining=False)
    desk.wake()
    return answer({"worker": worker, "draining": False, "changed": changed})


@routes.on("POST", "/workers/{worker}/forget", scope=Scope.ADMIN, answer=schemas.Told)
def forget_lost_worker(desk: DeskOf, worker: Word) -> Response:
    """Take a worker off the list that is gone for good; what it still had fails as worker_lost and is retried."""
    ended = forget_gone(desk.store, desk.state, worker, now=desk.now)
    desk.wake()
    return answer({"worker": worker, "forgotten": True, "runs_failed": ended})


@routes.on("PUT", "/workers/{worker}", scope=Scope.RUN, answer=schemas.Worker)
def register_worker(desk: DeskOf, worker: Word, wish: wishes.OptionalWorkerWish) -> Response:
    """Register a scheduler elsewhere, or note that it is still there (document 001)."""
    made = register(desk.context.store, worker, lost_after=timedelta(seconds=wish.lost_after_seconds), now=desk.now)
    return answer(remote_json(made, now=desk.now))


@routes.on("DELETE", "/workers/{worker}", scope=Scope.RUN, answer=schemas.Told)
def forget_worker(desk: DeskOf, worker: Word) -> Response:
    """Take a scheduler elsewhere off the list."""
    forget(desk.store, worker)
    return answer({"forgotten": worker})


@routes.on("GET", "/audit", scope=Scope.ADMIN, answer=schemas.EntryPage)
def get_audit(
    desk: DeskOf,
    actor: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    since: PastTime | None = None,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """Tell who did what, newest first."""
    begin = instant(since, now=desk.now) if since else None
    found = read_trail(desk.store, limit=limit + 1, before=before, since=begin, actor=actor)
    following = str(found[limit - 1].number) if len(found) > limit else None
    return answer(page([entry_json(one) for one in found[:limit]], following=following))
