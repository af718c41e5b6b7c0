"""Routes of the scheduler, attention, events, metrics and the system."""

import hashlib
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.registry import Collector
from starlette.responses import Response, StreamingResponse

from rota.http import schemas
from rota.http.api.jobs import hold_back, let_go
from rota.http.context import DeskOf, PastTime, RequestContext, Routes, ServerContext, Word, answer, instant, page
from rota.http.errors import Busy
from rota.http.security import Authenticator
from rota.model.budgets import MILLION, Unit
from rota.operations.admin.access import Caller, Scope, end_session
from rota.operations.admin.audit import entry_json, read_trail
from rota.operations.budgets import list_accounts
from rota.operations.capacity import pool_views
from rota.operations.group_actions import drain_worker
from rota.operations.group_actions import forget_worker as forget_gone
from rota.operations.jobs import project_timezone
from rota.operations.pause import JobSelection
from rota.operations.status.attention import AttentionItem, need_json
from rota.operations.status.attention_items import acknowledge, chosen_among, point_out
from rota.operations.status.status import Liveness, ask_to_stop, heartbeat, look, look_at_health, needs_of, system_json
from rota.operations.status.summary import summarise, summary_json
from rota.operations.workers import forget, register, remote_json, remote_workers
from rota.store.driver import Store


class Metrics(Collector):
    """Collects the metrics of one moment."""

    def __init__(self, store: Store, state: Path, *, now: datetime) -> None:
        self._store = store
        self._now = now
        self._summary = summarise(store, state, now=now)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        summary, answer = self._summary, self._summary.heartbeat.answer
        yield Gauge("rota_up", "Whether what is due will be done.", float(summary.heartbeat.alive))
        runs = Gauge("rota_runs", "Runs that are stored, by status.", labels=["status"])  # pruned runs do not count
        for status, number in summary.counts.items():
            runs.add_metric([status.value], number)
        yield runs
        yield Gauge("rota_slots", "How many runs execute at the same time.", answer.get("concurrency", 0))
        yield Gauge("rota_slots_taken", "How many slots are taken.", answer.get("slots_taken", 0))
        if summary.next_due_at is not None:
            seconds = (summary.next_due_at - self._now).total_seconds()
            yield Gauge("rota_next_due_seconds", "Seconds until the next instant is due.", seconds)
        yield from self._pools()
        yield from self._budgets()

    def _pools(self) -> Iterator[Metric]:
        capacity = Gauge("rota_pool_capacity", "How much a pool holds.", labels=["pool"])
        used = Gauge("rota_pool_used", "How much of a pool is drawn.", labels=["pool"])
        for view in self._store.read(pool_views):
            capacity.add_metric([view.pool.name], view.pool.capacity)
            used.add_metric([view.pool.name], view.pool.used)
        yield capacity
        yield used

    def _budgets(self) -> Iterator[Metric]:
        labels = ["account", "unit"]
        limit = Gauge("rota_budget_limit", "The limit of an account in its window.", labels=labels)
        used = Gauge("rota_budget_used", "What is spent or reserved of it.", labels=labels)
        for view in list_accounts(self._store, now=self._now):
            values = [view.account.name, str(view.account.unit)]
            scale = MILLION if view.account.unit is Unit.USD else 1  # money in dollars, as the label says
            limit.add_metric(values, view.account.limit / scale)
            used.add_metric(values, view.used / scale)
        yield limit
        yield used


system_routes = Routes("system")
door = Routes("door", prefix="")
"""What needs no token."""

HEALTH = {Liveness.RUNNING: "ok", Liveness.STOPPING: "stopping"}
STALLED: dict[int | str, dict[str, Any]] = {
    503: {"description": "It does not answer, or no run can start.", "model": schemas.Health}
}


def context_of(request: Request) -> ServerContext:
    """Return the project that is served."""
    context: ServerContext = request.app.state.context
    return context


ContextOf = Annotated[ServerContext, Depends(context_of)]


@door.on("GET", "/healthz", scope=None, answer=schemas.Health, also=STALLED)
def healthz(context: ContextOf) -> Response:
    """Tell whether the scheduler's own loop answers and runs can start; nothing else: no token is asked for here.

    A scheduler that stops is well: a supervisor that took it for broken would kill what it waits for.
    """
    beat = heartbeat(context.state)
    failing = beat.answer.get("failing")
    if beat.answer.get("gone"):
        return answer({"status": "database_gone"}, status=503)
    if failing is not None:
        return answer({"status": "failing", "error": failing["code"]}, status=503)
    status = HEALTH.get(beat.liveness)
    return answer({"status": status or "stalled"}, status=200 if status else 503)


@system_routes.on("POST", "/logout", scope=Scope.READ, answer=schemas.Told)
def log_out(desk: DeskOf, request: Request) -> Response:
    """End a browser's session."""
    response = answer({"caller": desk.caller.name})
    end_login(desk, request, response)
    return response


def end_login(desk: RequestContext, request: Request, response: Response) -> None:
    """End the session that a request came with, so that no copy of its cookie is good, and drop the cookie."""
    doorman: Authenticator = request.state.doorman
    session = doorman.session_in(request.headers.get("cookie", ""))
    if session is not None and doorman.know_session(session) is not None:
        doorman.ended = desk.store.write(partial(end_session, session=session, now=desk.now))
    response.delete_cookie(doorman.cookie, path=desk.context.base_path or "/", httponly=True, samesite="strict")


@system_routes.on("GET", "/openapi.json", scope=Scope.READ, answer=schemas.Told)
def get_openapi(request: Request) -> Response:
    """Describe the API (OpenAPI 3.1)."""
    return answer(request.app.openapi())


@system_routes.on("GET", "/metrics", scope=Scope.READ, answer=str, media="text/plain; version=0.0.4; charset=utf-8")
def get_metrics(desk: DeskOf) -> Response:
    """Return the figures of the scheduler in the text format of Prometheus."""
    metrics = Metrics(desk.store, desk.state, now=desk.now)
    return Response(generate_latest(metrics), media_type=CONTENT_TYPE)


scheduler_routes = Routes("scheduler")
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "Nothing has changed since the ETag."}}
HOLD = "stopped through the API"


@scheduler_routes.on("GET", "/scheduler/status", scope=Scope.READ, answer=schemas.System)
def get_status(desk: DeskOf) -> Response:
    """Tell how the project is: alive or not, what needs somebody, what runs, what is next."""
    view = look(desk.store, heartbeat(desk.state), now=desk.now)
    context = desk.context
    told = {"project": str(context.folder), "scope": "", "store": context.address, "applied": True}
    return answer({**told, **system_json(view, now=desk.now)})


@scheduler_routes.on("GET", "/scheduler/poll", scope=Scope.READ, answer=schemas.Summary, also=NOT_MODIFIED)
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


@scheduler_routes.on("POST", "/scheduler/stop", scope=Scope.ADMIN, answer=schemas.Told, status=202)
def stop_scheduler(desk: DeskOf, wish: schemas.OptionalStopWish) -> Response:
    """Hold everything back, so that nothing fires or starts; or end the process, and this API with it."""
    if wish.mode == "hold":
        pause = schemas.PauseWish(reason=wish.reason or HOLD)
        return answer({"mode": "hold", **hold_back(desk, JobSelection(everything=True), pause)}, status=202)
    within = timedelta(seconds=wish.within_seconds) if wish.within_seconds else None
    desk.note()
    carries = ask_to_stop(desk.state, mode=wish.mode, within=within)
    return answer({"mode": wish.mode, "running": carries.running, "direct": carries.direct}, status=202)


@scheduler_routes.on("POST", "/scheduler/start", scope=Scope.ADMIN, answer=schemas.Told)
def start_scheduler(desk: DeskOf, wish: schemas.OptionalStartWish) -> Response:
    """Let everything go that was held back by a stop or a pause of everything."""
    catch_up = wish.catch_up == "once"
    return answer(let_go(desk, JobSelection(everything=True), catch_up=catch_up, dry_run=False))


@scheduler_routes.on("GET", "/workers", scope=Scope.READ, answer=schemas.WorkerPage)
def get_workers(desk: DeskOf) -> Response:
    """List who claims runs, on all machines that share the store, and the schedulers elsewhere that read this one."""
    here = summary_json(summarise(desk.store, desk.state, now=desk.now))["workers"]
    elsewhere = [remote_json(one, now=desk.now) for one in desk.store.read(remote_workers)]
    return answer(page([*here, *elsewhere], following=None))


@scheduler_routes.on("POST", "/workers/{worker}/drain", scope=Scope.ADMIN, answer=schemas.Told)
def drain_one_worker(desk: DeskOf, worker: Word) -> Response:
    """Let a worker finish what it has and take no more, until it is resumed."""
    changed = drain_worker(desk.store, worker, draining=True)
    return answer({"worker": worker, "draining": True, "changed": changed})


@scheduler_routes.on("POST", "/workers/{worker}/resume", scope=Scope.ADMIN, answer=schemas.Told)
def resume_one_worker(desk: DeskOf, worker: Word) -> Response:
    """Let a worker take runs again."""
    changed = drain_worker(desk.store, worker, draining=False)
    desk.wake()
    return answer({"worker": worker, "draining": False, "changed": changed})


@scheduler_routes.on("POST", "/workers/{worker}/forget", scope=Scope.ADMIN, answer=schemas.Told)
def forget_lost_worker(desk: DeskOf, worker: Word) -> Response:
    """Take a worker off the list that is gone for good; what it still had fails as worker_lost and is retried."""
    ended = forget_gone(desk.store, desk.state, worker, now=desk.now)
    desk.wake()
    return answer({"worker": worker, "forgotten": True, "runs_failed": ended})


@scheduler_routes.on("PUT", "/workers/{worker}", scope=Scope.RUN, answer=schemas.Worker)
def register_worker(desk: DeskOf, worker: Word, wish: schemas.OptionalWorkerWish) -> Response:
    """Register a scheduler elsewhere, or note that it is still there (document 001)."""
    made = register(desk.context.store, worker, lost_after=timedelta(seconds=wish.lost_after_seconds), now=desk.now)
    return answer(remote_json(made, now=desk.now))


@scheduler_routes.on("DELETE", "/workers/{worker}", scope=Scope.RUN, answer=schemas.Told)
def forget_worker(desk: DeskOf, worker: Word) -> Response:
    """Take a scheduler elsewhere off the list."""
    forget(desk.store, worker)
    return answer({"forgotten": worker})


@scheduler_routes.on("GET", "/audit", scope=Scope.ADMIN, answer=schemas.EntryPage)
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


attention_routes = Routes("attention")


@attention_routes.on("GET", "/attention", scope=Scope.READ, answer=schemas.NeedPage)
def get_attention(desk: DeskOf) -> Response:
    """List what needs somebody, the worst first; `acknowledged` tells who has seen it, with nothing new since."""
    return answer(page([need_json(need) for need in _needs(desk)], following=None))


@attention_routes.on("POST", "/attention/acknowledge", scope=Scope.RUN, answer=schemas.Acknowledged)
def acknowledge_needs(desk: DeskOf, wish: schemas.AcknowledgeWish) -> Response:
    """Keep things quiet until something new happens to them."""
    needs = _needs(desk)
    chosen = [need for need in chosen_among(needs, wish.names, everything=wish.all) if need.seen is None]
    if not wish.dry_run:
        chosen = list(acknowledge(desk.store, chosen, needs=needs, actor=desk.actor, now=desk.now))
    return answer({"items": [need_json(need) for need in chosen], "dry_run": wish.dry_run})


@attention_routes.on("POST", "/attention/show", scope=Scope.RUN, answer=schemas.Acknowledged)
def show_needs(desk: DeskOf, wish: schemas.AcknowledgeWish) -> Response:
    """Show things again that were acknowledged."""
    chosen = [need for need in chosen_among(_needs(desk), wish.names, everything=wish.all) if need.seen]
    if not wish.dry_run:
        point_out(desk.store, [need.attention.topic for need in chosen])
    return answer({"items": [need_json(need) for need in chosen], "dry_run": wish.dry_run})


def _needs(desk: RequestContext) -> tuple[AttentionItem, ...]:
    beat = look_at_health(desk.store, desk.state, now=desk.now).heartbeat
    return needs_of(desk.store, beat=beat, zone=project_timezone(desk.store), now=desk.now)


events_routes = Routes("events")
STREAM = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
UNKNOWN = -1
"""A Last-Event-ID that is none of ours: the stream begins with a reset."""


@events_routes.on("GET", "/events", scope=Scope.READ, answer=str, media=STREAM)
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
    last = None if told is None else int(told) if told.isascii() and told.isdecimal() and len(told) < 19 else UNKNOWN
    return StreamingResponse(_until_logout(feed.stream(last), request), 200, HEADERS, STREAM)


async def _until_logout(stream: AsyncGenerator[bytes], request: Request) -> AsyncGenerator[bytes]:
    """Yield the pieces of a stream; that of a browser ends with its session."""
    doorman: Authenticator = request.state.doorman
    caller: Caller = request.state.caller
    session = doorman.session_in(request.headers.get("cookie", "")) if caller.browser else None
    async with aclosing(stream):
        async for piece in stream:
            if session is not None and doorman.know_session(session) is None:
                return
            yield piece
