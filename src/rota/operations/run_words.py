"""What is told about one run, as pairs of a label and a text, the same on a terminal and on a page."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime

from rota.model.holds import provider_pool
from rota.operations.runs import RunView
from rota.operations.spec_words import work_words
from rota.operations.words import plain, took
from rota.rules.brief_words import say_workspace
from rota.rules.budget_words import say_usage
from rota.rules.hold_words import say_hold
from rota.rules.retry_words import say_attempt
from rota.rules.times import full_time
from rota.rules.why import say_why
from rota.rules.work_words import say_work

Pairs = Iterator[tuple[str, str]]


def run_pairs(view: RunView, *, zone: str, now: datetime) -> Pairs:
    """Yield what is known about a run; instants in `zone`."""
    run = view.run

    def when(at: datetime | None) -> str:
        return f"{full_time(at, zone, now=now, seconds=True)} ({zone})" if at else "–"

    yield "id", run.id
    yield "trigger", run.trigger.value + (", forced" if run.forced else "")
    if run.scheduled_for:
        yield "due", when(run.scheduled_for)
    if run.covers_to and run.covers_to != run.scheduled_for:
        yield "to", f"{when(run.covers_to)}, {run.count or 'more than 10,000'} instants"
    yield from _chain_pairs(view, when)
    yield "created", when(run.created_at)
    yield "started", when(run.started_at)
    yield "finished", when(run.finished_at)
    yield from outcome_pairs(view, zone=zone, now=now)
    yield from told_pairs(view)
    yield view.spec.work.kind.value, work_words(view.spec)
    yield "definition", f"version {run.version}" + ("" if run.version == view.job.version else " (changed since)")
    if view.execution is not None:
        yield "process", f"pid {view.execution.pid}, slot {view.execution.slot}, epoch {view.execution.epoch}"


def _chain_pairs(view: RunView, when: Callable[[datetime | None], str]) -> Pairs:
    run, chain = view.run, view.chain
    if run.attempt > 1 or len(chain) > 1:
        first, *retries = [one.handle for one in chain]
        handles = [first, *(handle.removeprefix(run.job) for handle in retries)]
        yield "attempt", say_attempt(run, view.spec).removeprefix("attempt ")
        yield "chain", " → ".join(handles)
    pending = chain[-1] if chain else run
    if pending.not_before is not None:
        yield "next try", when(pending.not_before)


def outcome_pairs(view: RunView, *, zone: str, now: datetime) -> Pairs:
    """Yield how a run went: what held it, what it did, used, was refused and left."""
    run = view.run
    if view.hold is not None:
        yield "held", say_hold(provider_pool(view.hold.provider), view.hold.until, zone=zone, now=now)
    source = view.spec.work.agent.source if view.spec.work.agent else None
    if source is not None and (worked := say_work(run, source, view.work, tz=zone)):
        yield "work", plain(worked)
    if run.started_at:
        on = f", on {view.worker.called}" if view.worker is not None else ""
        yield "took", took(run, now=now) + plain(on)
    if run.exit_code is not None:
        yield "exit code", str(run.exit_code)
    if error := say_why(run, zone, now=now):
        yield "error", plain(error)
    if run.result_summary:
        yield "summary", plain(run.result_summary)
    if run.usage:
        yield "used", plain(say_usage(run.usage))
    if run.denied_tools:
        yield "denied", plain(", ".join(run.denied_tools))
    if run.session_id:
        resumed = " (gone on with)" if run.decisions.get("session") == run.session_id else ""
        yield "session", plain(run.session_id) + resumed
    if (place := say_workspace(run, view.worktree)) is not None:
        yield "workspace", plain(place)
    if run.params:
        yield "params", plain(json.dumps(dict(run.params), ensure_ascii=False))


def told_pairs(view: RunView) -> Pairs:
    """Yield who was told of what: a state beside that of the run, never in it (DEC-009)."""
    for one in view.deliveries:
        tries = f", {one.attempts} tries" if one.attempts > 1 else ""
        error = f": {plain(one.error)}" if one.error and one.finished_at else ""
        yield "told", f"{plain(one.target)} of {one.event}: {one.status}{tries}{error}"
