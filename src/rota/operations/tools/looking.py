"""The tools that only look: list, search, explain, get a run, preview times."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rota.model.errors import ToolArguments
from rota.operations.explaining import explain
from rota.operations.jobs import JobView, job_view, list_jobs
from rota.operations.made import made_by
from rota.operations.runs import show_run
from rota.operations.tools.answers import (
    LONG,
    NOTICE,
    job_answer,
    last_ended,
    next_start,
    quoted,
    quoted_end,
    run_answer,
    when_answer,
)
from rota.operations.tools.arguments import ExplainJob, GetRun, ListJobs, PreviewSchedule, SearchJobs
from rota.operations.tools.catalog import Answer
from rota.operations.tools.desk import Desk
from rota.operations.tools.times import schedule_of
from rota.rules.agent_policy import LOOKED_AT, shortest_gap
from rota.rules.coming import next_fires
from rota.runners.output import folder_of, size, tail
from rota.store import making

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
LINES = 60


def list_all(desk: Desk, wanted: ListJobs) -> Answer:
    """Answer `list_jobs`."""
    views = list_jobs(desk.store, labels=(wanted.label,) if wanted.label else ())
    found = [view for view in views if not wanted.mine or made_by(view.job, desk.maker.name)]
    found.sort(key=lambda view: (view.job.created_at, view.job.id), reverse=True)
    return _listed(desk, found, wanted.limit)


def _listed(desk: Desk, found: list[JobView], limit: int) -> Answer:
    return {
        "jobs": [job_answer(view, desk.maker) for view in found[:limit]],
        "total": len(found),
        "more": len(found) > limit,
        "notice": NOTICE,
    }


def search(desk: Desk, wanted: SearchJobs) -> Answer:
    """Answer `search_jobs`."""
    words = wanted.query.casefold().split()
    last = _range("last_run", wanted.last_run_from, wanted.last_run_to)
    following = _range("next_run", wanted.next_run_from, wanted.next_run_to)
    found = [
        view
        for view in list_jobs(desk.store)
        if all(word in _text(view) for word in words) and last(last_ended(view)) and following(next_start(view))
    ]
    return _listed(desk, _ordered(found, wanted.order), wanted.limit)


def _text(view: JobView) -> str:
    spec = view.job.spec
    task = spec.work.agent.prompt if spec.work.agent is not None else ""
    return "\n".join((spec.name, task, *spec.labels)).casefold()


def _range(key: str, since: str, until: str) -> Callable[[datetime | None], bool]:
    """Return what tells whether a time lies within both ends; without any, every job does."""
    first, last = read_utc(f"{key}_from", since), read_utc(f"{key}_to", until)
    if first is None and last is None:
        return lambda _: True
    return lambda at: at is not None and (first or EPOCH) <= at <= (last or NEVER)


def read_utc(key: str, text: str) -> datetime | None:
    """Return an instant that a model wrote, UTC where it says no offset; None for an empty text."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ToolArguments(f"{key}: {text!r} is no time", hint="write 2026-12-01T08:00:00Z") from None


def _ordered(found: list[JobView], order: str) -> list[JobView]:
    keys: dict[str, Callable[[JobView], Any]] = {
        "name": lambda view: view.job.name,
        "newest": lambda view: (view.job.created_at, view.job.id),
        "last_run": lambda view: last_ended(view) or EPOCH,
        "next_run": lambda view: next_start(view) or NEVER,
    }
    return sorted(found, key=keys[order], reverse=order in ("newest", "last_run"))


def preview(desk: Desk, wanted: PreviewSchedule) -> Answer:
    """Answer `preview_schedule`."""
    now, policy = desk.now(), desk.store.read(making.policy)
    schedule = schedule_of(wanted, default_zone=desk.zone())
    fires = next_fires(schedule, now, max(wanted.count, LOOKED_AT), created_at=now)
    gap = schedule.interval or shortest_gap([fire.nominal for fire in fires], schedule.timezone)
    return {
        **when_answer(schedule, fires[: wanted.count]),
        "shortest_gap_seconds": None if gap is None else int(gap.total_seconds()),
        "least_gap_seconds": int(policy.min_interval.total_seconds()),
        "allowed": gap is None or gap >= policy.min_interval,
    }


def why(desk: Desk, wanted: ExplainJob) -> Answer:
    """Answer `explain_job`."""
    found = explain(desk.store, wanted.name, state=desk.state, now=desk.now())
    lines = [*found.job_lines, *found.run_lines]
    return {
        "job": job_answer(found.job, desk.maker),
        "run": None if found.run is None else run_answer(found.run),
        "explanation": quoted("\n".join(f"{line.label}: {line.text}" for line in lines), "rota explain", limit=LONG),
        "notice": NOTICE,
    }


def get_run(desk: Desk, wanted: GetRun) -> Answer:
    """Answer `get_run`."""
    view = show_run(desk.store, wanted.run)
    run = view.run
    answer = run_answer(run)
    for key, text in (("summary", run.result_summary), ("error", run.error)):
        answer[key] = quoted(text, f"{key} of {run.handle}", limit=LONG) if text else None
    job = desk.store.read(partial(job_view, job=view.job))
    return {
        **answer,
        "job": job_answer(job, desk.maker),
        "trigger": run.trigger.value,
        "attempt": run.attempt,
        "output": _output(desk, run.id, run.handle) if wanted.output else None,
        "notice": NOTICE,
    }


def _output(desk: Desk, run_id: str, handle: str) -> Answer | None:
    """Return the end of a run's output."""
    folder = folder_of(desk.state, run_id)
    written = size(folder)
    if not written:
        return None
    data = tail(folder, LINES)
    return quoted_end(data.decode("utf-8", "replace"), f"output of {handle}", cut=len(data) < written)
