"""Routes of the scheduler, attention, events, metrics and the system."""

import hashlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from math import isinf
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.registry import Collector
from starlette.responses import Response, StreamingResponse

from rota.http import schemas
from rota.http.api.jobs import pause_jobs, resume_jobs
from rota.http.context import Ctx, PastTime, RequestContext, Routes, ServerContext, Word, answer, instant, page
from rota.http.errors import Busy, TokenEnded
from rota.http.security import Authenticator
from rota.model.store_url import SQLITE, shown
from rota.operations.admin.access import Caller, Scope, end_session
from rota.operations.admin.audit import entry_json, read_trail
from rota.operations.group_actions import drain_worker
from rota.operations.group_actions import forget_worker as forget_gone
from rota.operations.jobs import project_timezone
from rota.operations.pause import JobSelection
from rota.operations.status.attention import AttentionItem, acknowledge, chosen_among, need_json, point_out
from rota.operations.status.digest import DigestJson, look_at_digest
from rota.operations.status.heartbeat import Liveness, heartbeat
from rota.operations.status.metrics import LABELLED_JOBS, MAX_LABELLED_JOBS, MetricFamily, MetricKind, collect_metrics
from rota.operations.status.status import ask_to_stop, look, look_at_health, needs_of, system_json
from rota.operations.status.summary import SummaryJson, summarise, summary_json
from rota.operations.workers import forget, register, remote_json, remote_workers


class Metrics(Collector):
    """Gives metrics to the writer of the text format."""

    def __init__(self, families: Sequence[MetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        for family in self._families:
            if family.histogram is not None:
                buckets = [("+Inf" if isinf(bound) else str(bound), count) for bound, count in family.histogram.buckets]
                yield HistogramMetricFamily(family.name, family.help, buckets, family.histogram.total)
                continue
            make = CounterMetricFamily if family.kind is MetricKind.COUNTER else GaugeMetricFamily
            metric = make(family.name, family.help, labels=family.labels)
            for labels, value in family.samples:
                metric.add_metric(labels, value)
            yield metric


system_routes = Routes("system")
door = Routes("door", prefix="")
"""Routes without a token."""

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
    """Return whether the scheduler responds and runs can start; no more, since this needs no token.

    A stopping scheduler is healthy: otherwise a supervisor would kill it while it waits for its runs.
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
def log_out(ctx: Ctx, request: Request) -> Response:
    """End the session of a browser."""
    response = answer({"caller": ctx.caller.name})
    end_login(ctx, request, response)
    return response


def end_login(ctx: RequestContext, request: Request, response: Response) -> None:
    """End the session of a request on the server, and delete its cookie."""
    authenticator: Authenticator = request.state.authenticator
    session = authenticator.session_in(request.headers.get("cookie", ""))
    if session is not None and authenticator.know_session(session) is not None:
        authenticator.ended = ctx.store.write(partial(end_session, session=session, now=ctx.now))
    response.delete_cookie(authenticator.cookie, path=ctx.context.base_path or "/", httponly=True, samesite="strict")


@system_routes.on("GET", "/openapi.json", scope=Scope.READ, answer=schemas.Told)
def get_openapi(request: Request) -> Response:
    """Describe the API (OpenAPI 3.1)."""
    return answer(request.app.openapi())


@system_routes.on("GET", "/metrics", scope=Scope.READ, answer=str, media="text/plain; version=0.0.4; charset=utf-8")
def get_metrics(
    ctx: Ctx,
    jobs: Annotated[
        int, Query(ge=0, le=MAX_LABELLED_JOBS, description="The number of jobs with a label of their own.")
    ] = LABELLED_JOBS,
) -> Response:
    """Return the metrics in the text format of Prometheus."""
    families = collect_metrics(ctx.context.store, ctx.state, ctx.context.totals, now=ctx.now, labelled=jobs)
    return Response(generate_latest(Metrics(families)), media_type=CONTENT_TYPE)


scheduler_routes = Routes("scheduler")
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "Nothing has changed since the ETag."}}
HOLD = "stopped through the API"
SHARED_SECONDS = 0.2
"""The age of a summary that pollers share: it also tells whether the scheduler answers."""


@scheduler_routes.on("GET", "/scheduler/status", scope=Scope.READ, answer=schemas.System)
def get_status(ctx: Ctx) -> Response:
    """Return the state of the project: scheduler, attention items, current and next runs."""
    view = look(ctx.store, heartbeat(ctx.state), now=ctx.now)
    context = ctx.context
    store = shown(context.settings.store) if context.settings is not None else SQLITE
    place = {"project": str(context.folder), "scope": "", "store": store, "applied": True}
    return answer({**place, **system_json(view, now=ctx.now)})


@scheduler_routes.on("GET", "/scheduler/poll", scope=Scope.READ, answer=SummaryJson, also=NOT_MODIFIED)
async def poll_scheduler(
    ctx: Ctx,
    worker_id: Annotated[
        str | None, Query(min_length=1, max_length=100, description="The name of a remote scheduler.")
    ] = None,
    if_none_match: Annotated[str | None, Header(max_length=200)] = None,
) -> Response:
    """Return a summary for pollers in one cheap answer."""

    def look() -> SummaryJson:
        return summary_json(summarise(ctx.store, ctx.state, now=ctx.now, worker=worker_id))

    body = await ctx.shared(("poll", worker_id), look, within=SHARED_SECONDS)
    # The suggestion counts down to the next due instant: it alone is no change, and stands at the end.
    lasting, _, suggested = body.rpartition(b',"suggested_poll_seconds":')
    tag = f'W/"{hashlib.sha256(lasting).hexdigest()[:24]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if if_none_match is not None and tag in [known.strip() for known in if_none_match.split(",")]:
        return Response(None, 304, {**headers, "X-Suggested-Poll-Seconds": suggested.rstrip(b"}").decode()})
    return Response(body, headers=headers, media_type="application/json")


@scheduler_routes.on("POST", "/scheduler/stop", scope=Scope.ADMIN, answer=schemas.Told, status=202)
def stop_scheduler(ctx: Ctx, wish: schemas.OptionalStopWish) -> Response:
    """Pause everything, so that nothing fires or starts; or stop the process, and this API with it."""
    if wish.mode == "hold":
        pause = schemas.PauseWish(reason=wish.reason or HOLD)
        return answer({"mode": "hold", **pause_jobs(ctx, JobSelection(everything=True), pause)}, status=202)
    within = timedelta(seconds=wish.within_seconds) if wish.within_seconds else None
    ctx.store.write(lambda _db: None)  # the audit entry
    carries = ask_to_stop(ctx.state, mode=wish.mode, within=within)
    return answer({"mode": wish.mode, "running": carries.running, "direct": carries.direct}, status=202)


@scheduler_routes.on("POST", "/scheduler/start", scope=Scope.ADMIN, answer=schemas.Told)
def start_scheduler(ctx: Ctx, wish: schemas.OptionalStartWish) -> Response:
    """Resume everything after a stop or a pause."""
    catch_up = wish.catch_up == "once"
    return answer(resume_jobs(ctx, JobSelection(everything=True), catch_up=catch_up, dry_run=False))


@scheduler_routes.on("GET", "/workers", scope=Scope.READ, answer=schemas.WorkerPage)
def get_workers(ctx: Ctx) -> Response:
    """List the workers on all machines that share the store, and the remote schedulers that read this one."""
    here = summary_json(summarise(ctx.store, ctx.state, now=ctx.now))["workers"]
    elsewhere = [remote_json(worker, now=ctx.now) for worker in ctx.store.read(remote_workers)]
    return answer(page([*here, *elsewhere], following=None))


@scheduler_routes.on("POST", "/workers/{worker}/drain", scope=Scope.ADMIN, answer=schemas.Told)
def drain_one_worker(ctx: Ctx, worker: Word) -> Response:
    """Drain a worker: it finishes its runs and claims no more until it is resumed."""
    changed = drain_worker(ctx.store, worker, draining=True)
    return answer({"worker": worker, "draining": True, "changed": changed})


@scheduler_routes.on("POST", "/workers/{worker}/resume", scope=Scope.ADMIN, answer=schemas.Told)
def resume_one_worker(ctx: Ctx, worker: Word) -> Response:
    """Resume a drained worker."""
    changed = drain_worker(ctx.store, worker, draining=False)
    ctx.wake()
    return answer({"worker": worker, "draining": False, "changed": changed})


@scheduler_routes.on("POST", "/workers/{worker}/forget", scope=Scope.ADMIN, answer=schemas.Told)
def forget_lost_worker(ctx: Ctx, worker: Word) -> Response:
    """Remove a lost worker; its unfinished runs fail as worker_lost and are retried."""
    ended = forget_gone(ctx.store, ctx.state, worker, now=ctx.now)
    ctx.wake()
    return answer({"worker": worker, "forgotten": True, "runs_failed": ended})


@scheduler_routes.on("PUT", "/workers/{worker}", scope=Scope.RUN, answer=schemas.Worker)
def register_worker(ctx: Ctx, worker: Word, wish: schemas.OptionalWorkerWish) -> Response:
    """Register a remote scheduler, or renew its registration."""
    remote_worker = register(
        ctx.context.store, worker, lost_after=timedelta(seconds=wish.lost_after_seconds), now=ctx.now
    )
    return answer(remote_json(remote_worker, now=ctx.now))


@scheduler_routes.on("DELETE", "/workers/{worker}", scope=Scope.RUN, answer=schemas.Told)
def forget_worker(ctx: Ctx, worker: Word) -> Response:
    """Remove a remote scheduler."""
    forget(ctx.store, worker)
    return answer({"forgotten": worker})


@scheduler_routes.on("GET", "/audit", scope=Scope.ADMIN, answer=schemas.EntryPage)
def get_audit(
    ctx: Ctx,
    actor: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    since: PastTime | None = None,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """List the audit log, newest first."""
    begin = instant(since, now=ctx.now) if since else None
    entries = read_trail(ctx.store, limit=limit + 1, before=before, since=begin, actor=actor)
    following = str(entries[limit - 1].number) if len(entries) > limit else None
    return answer(page([entry_json(entry) for entry in entries[:limit]], following=following))


attention_routes = Routes("attention")


@attention_routes.on("GET", "/digest", scope=Scope.READ, answer=DigestJson)
def get_digest(ctx: Ctx, since: PastTime | None = None) -> Response:
    """Return what ran, what agents did, what failed, what needs attention, and the budgets."""
    begin = instant(since, now=ctx.now) if since else None
    zone, beat = project_timezone(ctx.store), heartbeat(ctx.state)
    return answer(look_at_digest(ctx.store, beat=beat, since=begin, zone=zone, now=ctx.now))


@attention_routes.on("GET", "/attention", scope=Scope.READ, answer=schemas.NeedPage)
def get_attention(ctx: Ctx) -> Response:
    """List the attention items, the worst first; `acknowledged` has the actor and the time."""
    return answer(page([need_json(need) for need in _needs(ctx)], following=None))


@attention_routes.on("POST", "/attention/acknowledge", scope=Scope.RUN, answer=schemas.Acknowledged)
def acknowledge_needs(ctx: Ctx, wish: schemas.AcknowledgeWish) -> Response:
    """Acknowledge items: hide them until something new happens."""
    needs = _needs(ctx)
    chosen = [need for need in chosen_among(needs, wish.names, everything=wish.all) if need.seen is None]
    if not wish.dry_run:
        chosen = list(acknowledge(ctx.store, chosen, needs=needs, actor=ctx.actor, now=ctx.now))
    return answer({"items": [need_json(need) for need in chosen], "dry_run": wish.dry_run})


@attention_routes.on("POST", "/attention/show", scope=Scope.RUN, answer=schemas.Acknowledged)
def show_needs(ctx: Ctx, wish: schemas.AcknowledgeWish) -> Response:
    """Show acknowledged items again."""
    chosen = [need for need in chosen_among(_needs(ctx), wish.names, everything=wish.all) if need.seen]
    if not wish.dry_run:
        point_out(ctx.store, [need.attention.topic for need in chosen])
    return answer({"items": [need_json(need) for need in chosen], "dry_run": wish.dry_run})


def _needs(ctx: RequestContext) -> tuple[AttentionItem, ...]:
    beat = look_at_health(ctx.store, ctx.state, now=ctx.now).heartbeat
    return needs_of(ctx.store, beat=beat, zone=project_timezone(ctx.store), now=ctx.now)


events_routes = Routes("events")
STREAM = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
UNKNOWN = -1
"""A foreign Last-Event-ID: the stream begins with a reset."""


@events_routes.on("GET", "/events", scope=Scope.READ, answer=str, media=STREAM)
async def follow_events(
    ctx: Ctx,
    request: Request,
    last_event_id: Annotated[str | None, Header(max_length=200, description="The last event received.")] = None,
    after: Annotated[str | None, Query(max_length=200, description="The same, as a parameter.")] = None,
) -> Response:
    """Stream events: run.created, run.waiting, run.started, run.finished, job.changed, question.*, reset."""
    feed = ctx.context.feed
    if feed is None:
        raise Busy("live streams")
    feed.check_room()
    text = after if last_event_id is None else last_event_id
    last = None if text is None else int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else UNKNOWN
    return StreamingResponse(_until_logout(feed.stream(last), request), 200, HEADERS, STREAM)


async def _until_logout(stream: AsyncGenerator[bytes], request: Request) -> AsyncGenerator[bytes]:
    """Yield the pieces of a stream; it ends with the session of a browser, and with a stored token."""
    authenticator: Authenticator = request.state.authenticator
    caller: Caller = request.state.caller
    session = authenticator.session_in(request.headers.get("cookie", "")) if caller.browser else None
    async with aclosing(stream):
        async for piece in stream:
            if session is not None and authenticator.know_session(session) is None:
                return
            try:
                await authenticator.check_token(caller)
            except TokenEnded:
                return
            yield piece
