"""The queue: what waits, in order, why the first waits, and what is done about it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from rota.engine.transactions.enqueue import Where
from rota.http.context import RunName, segment
from rota.http.pages.page import PageContext, Pages, ParamField, VisitOf, fit, given_params, param_fields
from rota.model.errors import InvalidValue
from rota.model.records import Run
from rota.model.states import Status
from rota.operations import run_actions
from rota.operations.capacity import PoolView, pool_views
from rota.operations.queue import COUNTED, QueueView, ReadyRun, draw_words, hold_words, look_in, waiting_words
from rota.operations.runs import find_run, show_run
from rota.operations.status.status import heartbeat
from rota.store.driver import Database
from rota.store.tables import queue
from rota.text.format import ago

pages = Pages()
PATH = "/ui/queue"
LINES = 30
MOST = 100
MOVES = ("first", "up", "down", "last")


@dataclass(frozen=True, slots=True)
class ReadyRow:
    """A run that may be claimed."""

    one: ReadyRun
    path: str
    why: str
    pools: str


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A run that waits for something before it may be claimed."""

    run: Run
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class PoolGauge:
    """How full a pool is, in numbers and words, and who draws on it."""

    name: str
    used: int
    capacity: int
    holders: tuple[str, ...]
    held_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class QueuePageView:
    """The page of the queue."""

    queue: QueueView
    ready: tuple[ReadyRow, ...]
    waiting: tuple[WaitingRow, ...]
    ready_count: str
    waiting_count: str
    head: str
    """Why the first run waits, empty where it starts next."""
    gauges: tuple[PoolGauge, ...]
    aged: bool
    """Whether waiting raises priorities, so that nothing can be moved by hand."""
    more: str
    left_out: bool
    """Whether there are more runs than lines."""


@pages.show("/ui/queue")
def show_queue(visit: VisitOf, limit: Annotated[int, Query(ge=1, le=MOST)] = LINES) -> Response:
    """Show the queue."""
    return fit(lambda lines: _show(visit, limit=lines), lines=limit)


def _show(visit: PageContext, *, limit: int) -> Response:
    beat = heartbeat(visit.desk.state)
    look = partial(look_in, beat=beat, limit=limit, now=visit.now)
    found, pools, aging = visit.desk.store.read(lambda db: _look(db, look))
    more = found.ready_count > len(found.ready) or found.waiting_count > len(found.waiting)
    head = hold_words(found.ready[0], found, zone=visit.zone, now=visit.now) if found.ready else ""
    view = QueuePageView(
        queue=found,
        ready=tuple(_ready(visit, one, found) for one in found.ready),
        waiting=tuple(_waiting(visit, run, found) for run in found.waiting),
        ready_count=_counted(found.ready_count),
        waiting_count=_counted(found.waiting_count),
        head=head,
        gauges=_gauges(found, pools),
        aged=aging,
        more=visit.href(PATH, limit=MOST) if more and limit == LINES else "",
        left_out=more,
    )
    return visit.show("queue.html", view, title="Queue", section="queue")


def _look(db: Database, look: Callable[[Database], QueueView]) -> tuple[QueueView, list[PoolView], bool]:
    return look(db), pool_views(db), queue.aging(db) is not None


def _ready(visit: PageContext, one: ReadyRun, found: QueueView) -> ReadyRow:
    why = hold_words(one, found, zone=visit.zone, now=visit.now)
    return ReadyRow(one, _path(one.run), why, draw_words(one))


def _waiting(visit: PageContext, run: Run, found: QueueView) -> WaitingRow:
    why = waiting_words(run, found, zone=visit.zone, now=visit.now)
    return WaitingRow(run, _path(run), why)


def _path(run: Run) -> str:
    return f"{PATH}/{segment(run.handle)}"


def _counted(count: int) -> str:
    return f"{count:,}{'+' * (count >= COUNTED)}"


def _gauges(found: QueueView, pools: list[PoolView]) -> tuple[PoolGauge, ...]:
    """Return the slots of the scheduler, and the pools."""
    beat = found.beat.answer
    taken, slots = beat.get("slots_taken", 0), beat.get("concurrency", 0)
    own = (PoolGauge("slots", taken, slots, ()),) if slots else ()
    return (*own, *(PoolGauge(one.pool.name, one.pool.used, one.pool.capacity, one.holders) for one in pools))


@dataclass(frozen=True, slots=True)
class EditView:
    """A queued run whose params or priority are to change."""

    run: Run
    path: str
    params: tuple[ParamField, ...]
    frozen: bool
    """Whether it was dispatched once, so that its params stay (INV-001)."""


@pages.show("/ui/queue/{run}")
def show_queued_run(visit: VisitOf, run: RunName) -> Response:
    """Show the form in which a queued run is changed."""
    found = show_run(visit.desk.store, run)
    if found.run.status is not Status.QUEUED:
        raise InvalidValue(f"{found.run.handle} is not in the queue any more", hint="look at its run")
    view = EditView(
        run=found.run,
        path=_path(found.run),
        params=param_fields({**found.spec.work.params, **found.run.params}),
        frozen=found.run.first_dispatched_at is not None,
    )
    return visit.show("queue_edit.html", view, title=f"Change {found.run.handle}", section="queue")


@pages.act("/ui/queue/{run}/edit", back=PATH)
def edit_queued_run_here(visit: VisitOf, run: RunName) -> Response:
    """Change the params or the priority of a queued run."""
    found = show_run(visit.desk.store, run)
    params = given_params(visit.form, {**found.spec.work.params, **found.run.params})
    priority = _whole(visit.form.get("priority", ""), found.run.priority)
    if not params and priority == found.run.priority:
        return visit.done(f"{found.run.handle} is as it was", back=PATH)
    changed = None if priority == found.run.priority else priority
    edited = run_actions.edit_run(visit.desk.store, found.run.id, params=params, priority=changed, now=visit.now)
    visit.desk.wake()
    told = [*(f"{name} = {edited.run.params[name]!r}" for name in sorted(params))]
    told += [] if changed is None else [f"priority {priority}"]
    return visit.done(f"{edited.run.handle}: {', '.join(told)}", back=PATH)


def _whole(text: str, otherwise: int) -> int:
    try:
        return int(text) if text.strip() else otherwise
    except ValueError:
        raise InvalidValue(
            f"{text[:40]!r} is no priority", hint="write a whole number between -1000 and 1000"
        ) from None


@pages.act("/ui/queue/{run}/move", back=PATH)
def move_queued_run_here(visit: VisitOf, run: RunName) -> Response:
    """Move a queued run: first, up, down or last within its priority."""
    moved = _moved(visit, run, visit.form.get("to", ""))
    visit.desk.wake()
    place = f"is at place {moved.place}" if moved.place else "is moved"
    return visit.done(f"{moved.run.handle} {place}{f', {moved.note}' if moved.note else ''}", back=PATH)


def _moved(visit: PageContext, run: str, to: str) -> run_actions.ReorderedRun:
    store, now = visit.desk.store, visit.now
    if to in ("up", "down"):
        return run_actions.step_run(store, run, steps=-1 if to == "up" else 1, now=now)
    if to in ("first", "last"):
        return run_actions.move_runs(store, [run], run_actions.Destination(Where(to)), now=now)[0]
    raise InvalidValue(f"a run cannot be moved {to[:40]!r}", hint=f"there are: {', '.join(MOVES)}")


@pages.act("/ui/queue/{run}/cancel", back=PATH)
def cancel_queued_run_here(visit: VisitOf, run: RunName) -> Response:
    """Take a run out of the queue; where it has started meanwhile, stop it."""
    found = visit.desk.store.read(lambda db: find_run(db, run))
    if not visit.confirmed:
        return _ask_cancel(visit, found)
    done = run_actions.cancel_run(visit.desk.store, found.id, now=visit.now)
    visit.desk.wake()
    if not done.final:
        run_actions.stop_unattended(visit.desk.store, visit.desk.state, [found.id])
    return visit.done(f"{found.handle} is {'cancelled' if done.final else 'being stopped'}", back=PATH)


def _ask_cancel(visit: PageContext, run: Run) -> Response:
    queued = run.status is Status.QUEUED
    says = "It leaves the queue and does not run." if queued else "It has started: its processes are stopped."
    params = ", ".join(f"{name} = {value!r}" for name, value in run.params.items())
    detail = (
        f"it has been waiting for {ago(run.created_at, visit.now)}" if queued else "",
        f"params: {params}" if params else "",
    )
    return visit.confirm(
        f"Cancel {run.handle}?", says=says, button="Cancel it", back=PATH, detail=tuple(filter(None, detail))
    )
