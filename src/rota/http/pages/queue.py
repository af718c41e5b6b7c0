"""The page of the queue and its actions."""

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from rota.engine.transactions.enqueue import Where
from rota.http.context import RunName, segment
from rota.http.pages.page import PageContext, Pages, View, VisitOf, fit, given_params, param_fields
from rota.model.errors import InvalidValue
from rota.model.records import Run
from rota.model.states import Status
from rota.operations import run_actions
from rota.operations.capacity import PoolView, pool_views
from rota.operations.queue import COUNTED, QueueView, draw_words, hold_words, look_in, waiting_words
from rota.operations.runs import find_run, show_run
from rota.operations.status.heartbeat import heartbeat
from rota.store.tables import queue
from rota.text.format import ago

pages = Pages()
PATH = "/ui/queue"
LINES = 30
MAX_LINES = 100
MOVES = ("first", "up", "down", "last")


@pages.show("/ui/queue")
def show_queue(visit: VisitOf, limit: Annotated[int, Query(ge=1, le=MAX_LINES)] = LINES) -> Response:
    """Show the queue."""
    return fit(lambda lines: _show(visit, limit=lines), lines=limit)


def _show(visit: PageContext, *, limit: int) -> Response:
    zone, now, beat = visit.zone, visit.now, heartbeat(visit.ctx.state)
    queue_view, pools, aging = visit.ctx.store.read(
        lambda db: (look_in(db, beat=beat, limit=limit, now=now), pool_views(db), queue.aging(db) is not None)
    )
    more = queue_view.ready_count > len(queue_view.ready) or queue_view.waiting_count > len(queue_view.waiting)
    view = {
        "queue": queue_view,
        "ready": [
            {
                "one": ready,
                "path": _path(ready.run),
                "why": hold_words(ready, queue_view, zone=zone, now=now),
                "pools": draw_words(ready),
            }
            for ready in queue_view.ready
        ],
        "waiting": [
            {"run": run, "path": _path(run), "why": waiting_words(run, queue_view, zone=zone, now=now)}
            for run in queue_view.waiting
        ],
        "ready_count": _counted(queue_view.ready_count),
        "waiting_count": _counted(queue_view.waiting_count),
        "head": hold_words(queue_view.ready[0], queue_view, zone=zone, now=now) if queue_view.ready else "",
        "gauges": _gauges(queue_view, pools),
        "aged": aging,  # waiting raises priorities, so that nothing can be moved by hand
        "more": visit.href(PATH, limit=MAX_LINES) if more and limit == LINES else "",
        "left_out": more,
    }
    return visit.show("queue.html", view, title="Queue", section="queue")


def _path(run: Run) -> str:
    return f"{PATH}/{segment(run.handle)}"


def _counted(count: int) -> str:
    return f"{count:,}{'+' * (count >= COUNTED)}"


def _gauges(found: QueueView, pools: list[PoolView]) -> list[View]:
    """Return the use of the scheduler's slots and of the pools."""
    beat = found.beat.answer
    taken, slots = beat.get("slots_taken", 0), beat.get("concurrency", 0)
    own = [{"name": "slots", "used": taken, "capacity": slots, "holders": ()}] if slots else []
    return own + [
        {"name": view.pool.name, "used": view.pool.used, "capacity": view.pool.capacity, "holders": view.holders}
        for view in pools
    ]


@pages.show("/ui/queue/{run}")
def show_queued_run(visit: VisitOf, run: RunName) -> Response:
    """Show the form that changes a queued run."""
    run_view = show_run(visit.ctx.store, run)
    if run_view.run.status is not Status.QUEUED:
        raise InvalidValue(f"{run_view.run.handle} is no longer in the queue", hint="see the run")
    view = {
        "run": run_view.run,
        "path": _path(run_view.run),
        "params": param_fields(run_view.spec.work, {**run_view.spec.work.params, **run_view.run.params}),
        "frozen": run_view.run.first_dispatched_at is not None,  # params of a dispatched run never change
    }
    return visit.show("queue_edit.html", view, title=f"Change {run_view.run.handle}", section="queue")


@pages.act("/ui/queue/{run}/edit", back=PATH)
def edit_queued_run_here(visit: VisitOf, run: RunName) -> Response:
    """Change the params or the priority of a queued run."""
    run_view = show_run(visit.ctx.store, run)
    params = given_params(visit.form, run_view.spec.work, {**run_view.spec.work.params, **run_view.run.params})
    written = visit.form.get("priority", "")
    try:
        priority = int(written) if written.strip() else run_view.run.priority
    except ValueError:
        hint = "write a whole number between -1000 and 1000"
        raise InvalidValue(f"{written[:40]!r} is not a priority", hint=hint) from None
    if not params and priority == run_view.run.priority:
        return visit.done(f"{run_view.run.handle} is unchanged", back=PATH)
    changed = None if priority == run_view.run.priority else priority
    edited = run_actions.edit_run(visit.ctx.store, run_view.run.id, params=params, priority=changed, now=visit.now)
    visit.ctx.wake()
    changes = [f"{name} = {edited.run.params[name]!r}" for name in sorted(params)]
    changes += [] if changed is None else [f"priority {priority}"]
    return visit.done(f"{edited.run.handle}: {', '.join(changes)}", back=PATH)


@pages.act("/ui/queue/{run}/move", back=PATH)
def move_queued_run_here(visit: VisitOf, run: RunName) -> Response:
    """Move a queued run: first, up, down or last within its priority."""
    moved = _moved(visit, run, visit.form.get("to", ""))
    visit.ctx.wake()
    place = f"is at place {moved.place}" if moved.place else "is moved"
    return visit.done(f"{moved.run.handle} {place}{f', {moved.note}' if moved.note else ''}", back=PATH)


def _moved(visit: PageContext, run: str, to: str) -> run_actions.ReorderedRun:
    store, now = visit.ctx.store, visit.now
    if to in ("up", "down"):
        return run_actions.step_run(store, run, steps=-1 if to == "up" else 1, now=now)
    if to in ("first", "last"):
        return run_actions.move_runs(store, [run], run_actions.Destination(Where(to)), now=now)[0]
    raise InvalidValue(f"a run cannot be moved {to[:40]!r}", hint=f"there are: {', '.join(MOVES)}")


@pages.act("/ui/queue/{run}/cancel", back=PATH)
def cancel_queued_run_here(visit: VisitOf, run: RunName) -> Response:
    """Remove a run from the queue; if it has started meanwhile, stop it."""
    found = visit.ctx.store.read(lambda db: find_run(db, run))
    if not visit.confirmed:
        return _confirm_cancel(visit, found)
    done = run_actions.cancel_run(visit.ctx.store, found.id, now=visit.now)
    visit.ctx.wake()
    if not done.final:
        run_actions.stop_unattended(visit.ctx.store, visit.ctx.state, [found.id])
    return visit.done(f"{found.handle} is {'cancelled' if done.final else 'being stopped'}", back=PATH)


def _confirm_cancel(visit: PageContext, run: Run) -> Response:
    queued = run.status is Status.QUEUED
    says = "It leaves the queue and does not run." if queued else "It has started: its processes are stopped."
    params = ", ".join(f"{name} = {value!r}" for name, value in run.params.items())
    detail = (f"waiting for {ago(run.created_at, visit.now)}" if queued else "", f"params: {params}" if params else "")
    return visit.confirm(
        f"Cancel {run.handle}?", says=says, button="Cancel it", back=PATH, detail=tuple(filter(None, detail))
    )
