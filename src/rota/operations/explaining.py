"""Explain: the stored facts about a job or run, told by `rules/explain.py`."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rota.engine.lock import SERVE_LOCK, is_held
from rota.engine.pause import claiming_paused, everything_paused
from rota.engine.wake import ask
from rota.model.records import Run
from rota.model.states import Held, Status
from rota.operations.jobs import JobView, job_view
from rota.operations.runs import find_any, run_view
from rota.operations.views import job_json, run_json
from rota.rules.explain import Facts, Line, explain_job, explain_run, title
from rota.store import jobs, runs
from rota.store.driver import Database, Store


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is told: of a job its own lines, and those of a run, its newest."""

    name: str
    job: JobView
    job_lines: tuple[Line, ...]
    run: Run | None
    title: str
    run_lines: tuple[Line, ...]


def explain(store: Store, name: str, *, state: Path, now: datetime) -> Explanation:
    """Explain a job and its newest run, or one run."""
    held = held_by(state)
    return store.read(partial(_explain, name=name, held=held, now=now))


def held_by(state: Path) -> Held | None:
    """Return why a claimable run is not running: nobody claims, or every slot is taken (R-02)."""
    if not is_held(state / SERVE_LOCK):
        return Held.NO_WORKER
    answer = ask(state, {"ask": "status"})
    return Held.SLOT if answer and answer["slots_taken"] >= answer["concurrency"] else None


def _explain(db: Database, *, name: str, held: Held | None, now: datetime) -> Explanation:
    found = find_any(db, name)
    if isinstance(found, Run):
        view = job_view(db, jobs.job_by_id(db, found.job_id))
        return _told(db, view, found, held=held, now=now, job_lines=())
    view = job_view(db, found)
    lines = explain_job(found, state=view.state, unfinished=view.unfinished, now=now)
    newest = _most_telling(view)
    if newest is None:
        return Explanation(name, view, tuple(lines), None, "", ())
    return _told(db, view, newest, held=held, now=now, job_lines=tuple(lines))


def _most_telling(view: JobView) -> Run | None:
    """Return the run that a question about the job is most likely about: what runs, else the newest."""
    running = [run for run in view.unfinished if run.status is not Status.QUEUED]
    return running[-1] if running else (view.last[0] if view.last else None)


def _told(
    db: Database, view: JobView, run: Run, *, held: Held | None, now: datetime, job_lines: tuple[Line, ...]
) -> Explanation:
    whole = run_view(db, run)
    unfinished = runs.unfinished_runs(db, run.job_id)
    pause = everything_paused(db) if claiming_paused(db, now) else None
    facts = Facts(
        run,
        whole.spec,
        whole.job,
        whole.execution,
        unfinished,
        held=Held.PAUSED if pause else held,
        held_until=pause.until if pause else None,
        held_why=pause.reason if pause else "",
    )
    return Explanation(
        run.job if job_lines else run.handle,
        view,
        job_lines,
        run,
        title(facts, now=now),
        tuple(explain_run(facts, now=now)),
    )


def explanation_json(found: Explanation) -> dict[str, Any]:
    """Return an explanation as JSON: the lines for people, and the records behind them."""
    return {
        "name": found.name,
        "job": job_json(found.job, fires=1),
        "job_lines": [_line(line) for line in found.job_lines],
        "run": run_json(found.run) if found.run else None,
        "run_lines": [_line(line) for line in found.run_lines],
        "decisions": dict(found.run.decisions) if found.run else {},
    }


def _line(line: Line) -> dict[str, str]:
    return {"label": line.label, "text": line.text}
