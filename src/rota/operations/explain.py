"""Explain: the stored facts about a job or run, for the sentences of `text/explain.py`."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from msgspec import Struct

from rota.engine.activity import claiming_paused, everything_paused
from rota.model.records import Run
from rota.model.serialize import RunJson, run_json, to_shape
from rota.model.spec import Draw, OutputPolicy
from rota.model.states import FINAL, Held, Reason, Status
from rota.operations.capacity import pool_wait
from rota.operations.jobs import UNFINISHED_SHOWN, JobView, job_view
from rota.operations.runs import RunView, find_any, run_view
from rota.operations.status.heartbeat import SWITCHED_OFF, Heartbeat, Liveness, heartbeat, switched_off, with_ticks
from rota.operations.views import JobJson, job_json
from rota.operations.workers import all_drained
from rota.store.driver import Database, Store
from rota.store.tables import groups, jobs, questions, queue, run_queries
from rota.text.explain import Belonging, ExplainLine, Facts, Seen, explain_job, explain_run, title
from rota.text.format import roughly, spaced
from rota.text.jobs import say_drained, say_no_worker, say_shortage


class ExplanationView(Struct, frozen=True):
    """The lines about a job, and about a run: of a job its newest one."""

    name: str
    job: JobView
    job_lines: tuple[ExplainLine, ...]
    run: Run | None
    title: str
    run_lines: tuple[ExplainLine, ...]


class Holding(Struct, frozen=True):
    """The reason why a claimable run does not start."""

    held: Held | None
    until: datetime | None = None
    text: str = ""
    problem: str = ""


def explain(store: Store, name: str, *, state: Path, now: datetime) -> ExplanationView:
    """Explain a job and its newest run, or one run."""
    return store.read(partial(_explain, name=name, beat=heartbeat(state), now=now))


def held_by(beat: Heartbeat, draws: Sequence[Draw]) -> Holding:
    """Return why a claimable run is not running: no worker accepts it, or every slot is taken."""
    if not beat.serves(draws):
        drained = all_drained(beat.workers)
        why = say_drained(drained) if drained else say_no_worker(draws)
        return Holding(Held.NO_WORKER, text=why if beat.alive else "")
    if (beat.answer or beat.workers) and beat.slots_taken >= beat.slots:
        return Holding(Held.SLOT)
    if beat.ticks is None or beat.liveness is not Liveness.TICKING:
        return Holding(None)
    return Holding(None, text=f"for the next tick; they usually come every {roughly(beat.ticks.usual)}")


def _explain(db: Database, *, name: str, beat: Heartbeat, now: datetime) -> ExplanationView:
    held = with_ticks(db, beat, now=now)
    subject = find_any(db, name)
    if isinstance(subject, Run):
        view = job_view(db, jobs.job_by_id(db, subject.job_id))
        return _explain_run(db, view, subject, held=held, now=now, job_lines=())
    view = job_view(db, subject)
    look = jobs.next_look(db, subject.id)
    lines = explain_job(subject, state=view.state, unfinished=view.unfinished, now=now, look=look)
    if switched_off(db, held):
        lines.append(ExplainLine("scheduler", SWITCHED_OFF))
    running = [run for run in view.unfinished if run.status is not Status.QUEUED]
    if not running and not view.last:
        return ExplanationView(name, view, tuple(lines), None, "", ())
    newest = running[-1] if running else view.last[0]
    return _explain_run(db, view, newest, held=held, now=now, job_lines=tuple(lines))


def _explain_run(
    db: Database, view: JobView, run: Run, *, held: Heartbeat, now: datetime, job_lines: tuple[ExplainLine, ...]
) -> ExplanationView:
    whole = run_view(db, run)
    why = holding(db, run, held=held, now=now)
    facts = Facts(
        run,
        whole.spec,
        whole.job,
        whole.execution,
        run_queries.some_unfinished_runs(db, run.job_id, limit=UNFINISHED_SHOWN),
        held=why.held,
        held_until=why.until,
        held_for=why.problem,
        held_why=why.text,
        group=_belonging(db, run),
        chain=whole.chain,
        work=whole.work,
        worktree=whole.worktree,
        hold=whole.hold,
        worker=whole.worker.called if whole.worker is not None else "",
        abandoned=queue.abandoned(db),
        questions=questions.of_run(db, run.id),
        answers=questions.for_run(db, run.id),
        seen=_seen(whole, held.state),
    )
    name, run_lines = run.job if job_lines else run.handle, tuple(explain_run(facts, now=now))
    return ExplanationView(name, view, job_lines, run, title(facts, now=now), run_lines)


SILENT = (Reason.IDLE, Reason.LOOPING, Reason.TIMED_OUT)
"""The reasons after which the last output is of interest."""


def _seen(view: RunView, state: Path | None) -> Seen | None:
    """Return the last output of a run that runs, or that was ended for its silence."""
    run = view.run
    if state is None or run.started_at is None or not (run.status is Status.RUNNING or run.reason in SILENT):
        return None
    from rota.operations.output import said_last
    from rota.runners.output import folder_of, written_at

    at = written_at(folder_of(state, run.id))
    if at is None:
        return None
    kept = view.spec.work.output is not OutputPolicy.NONE
    return Seen(at, said_last(state, run.id, spec=view.spec) if kept else "")


def _belonging(db: Database, run: Run) -> Belonging | None:
    """Return the group that a run belongs to, or that it represents."""
    group = groups.group_by_id(db, run.group_id) if run.group_id else groups.group_of_run(db, run.id)
    if group is None:
        return None
    seats = groups.seats(db, group.id)
    open_seats = [seat for seat in seats if seat.status not in FINAL and seat.run_id != run.id]
    ahead = [seat for seat in open_seats if not seat.always and (run.always or seat.place < (run.place or 0))]
    return Belonging(
        group.handle,
        group.mode.value,
        group.on_failure.value,
        tuple(f"{seat.handle} {seat.status.shown}{spaced(seat.reason)}" for seat in seats),
        unfinished=tuple(seat.handle for seat in (ahead or open_seats)),
        place=run.place,
    )


def holding(db: Database, run: Run, *, held: Heartbeat, now: datetime) -> Holding:
    """Return what holds a claimable run: a disabled scheduler, a pause of everything, no worker, a pool, or no slot."""
    if switched_off(db, held):
        return Holding(Held.NO_WORKER, text=f"since {SWITCHED_OFF}")
    by = held_by(held, queue.lane_draws(db).get(run.lane_id, ()))
    pause = everything_paused(db) if claiming_paused(db, now) else None
    if pause is not None:
        return Holding(Held.PAUSED, pause.until, pause.reason)
    wait = None if by.held is Held.NO_WORKER else pool_wait(db, run)
    if wait is not None and wait.shortage.pool.held_until is not None:
        pool = wait.shortage.pool
        return Holding(Held.PROVIDER_HOLD, pool.held_until, pool.name, pool.held_for)
    if wait is not None:
        return Holding(Held.POOL, text=say_shortage(wait.shortage, holders=wait.holders, behind=wait.behind))
    return by


class LineJson(TypedDict):
    """One line of an explanation."""

    label: str
    text: str


class ExplanationJson(TypedDict):
    """Why a job or run did, did not, or will run, as `rota explain --json`."""

    name: str
    job: JobJson
    job_lines: list[LineJson]
    run: RunJson | None
    run_lines: list[LineJson]
    decisions: dict[str, Any]


def explanation_json(view: ExplanationView) -> ExplanationJson:
    """Return an explanation as JSON: the lines for people, and the records behind them."""
    return {
        "name": view.name,
        "job": job_json(view.job, fires=1),
        "job_lines": [to_shape(LineJson, line) for line in view.job_lines],
        "run": run_json(view.run) if view.run else None,
        "run_lines": [to_shape(LineJson, line) for line in view.run_lines],
        "decisions": dict(view.run.decisions) if view.run else {},
    }
