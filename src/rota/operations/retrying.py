"""Retry by hand: a final run once more, as a new run that points at it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from rota.engine.birth import Born
from rota.engine.cadence import touching
from rota.engine.enqueue import ManualStart, enqueue, judge_start
from rota.model.errors import InvalidValue, RunCompleted, RunUnfinished
from rota.model.records import Job, Run
from rota.model.spec import Kind
from rota.model.states import Status, Trigger, WaitingFor
from rota.operations.runs import find_run
from rota.operations.starting import admitted, merged_params, refuse_disabled, start_decisions
from rota.rules.overlap import After, Go, Replace
from rota.store import chains, jobs
from rota.store.driver import Database, Store


@dataclass(frozen=True, slots=True)
class Retried:
    """A run that is run again: what it was, the params it gets, and the new run; None: it was only looked at."""

    run: Run
    params: Mapping[str, Any]
    verdict: Go | After | Replace
    start: ManualStart
    born: Born | None = None


def retry_run(
    store: Store,
    handle: str,
    *,
    now: datetime,
    again: bool = False,
    force: bool = False,
    params: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> Retried:
    """Run a final run again: with its params, by the job's definition of now; a completed one only with `again`.

    It is a start by hand (R-29): overlap applies, it begins a chain of its own, and no schedule moves.
    """
    wanted = partial(_wanted, handle=handle, again=again, force=force, params=params or {})
    if dry_run:
        return store.read(lambda db: wanted(db)[1])
    return store.write(touching(lambda db: _retry(db, *wanted(db), force=force, now=now), what="retry", now=now))


def _wanted(db: Database, *, handle: str, again: bool, force: bool, params: Mapping[str, Any]) -> tuple[Job, Retried]:
    run = find_run(db, handle)
    job = jobs.job_by_id(db, run.job_id)
    _refuse(db, run, job, again=again)
    merged = _params(run, job, params)
    start = judge_start(db, job, [merged], force=force, chain_id=run.chain_id or run.id)
    return job, Retried(run, merged, admitted(job, start), start)


def _refuse(db: Database, run: Run, job: Job, *, again: bool) -> None:
    if not run.status.final:
        raise RunUnfinished(run.handle, run.status)
    chain = [one for one in chains.chain_runs(db, run.chain_id or run.id) if not one.status.final]
    pending = next((one for one in chain if one.waiting_for is not WaitingFor.BACKOFF or one.group_id), None)
    if pending is not None:
        raise RunUnfinished(pending.handle, pending.status, retry_of=run.handle)
    if run.status is Status.COMPLETED and not again:
        raise RunCompleted(run.handle)
    if job.spec.work.kind is Kind.GROUP:
        hint = f"`rota groups retry {run.handle}` makes a new group from the first failed member"
        raise InvalidValue(f"{run.handle} is the run of a group", hint=hint)
    refuse_disabled(job)


def _params(run: Run, job: Job, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the params of the run with those given over them; names that the job no longer has are left out."""
    known = {name: value for name, value in run.params.items() if name in job.spec.work.params}
    return merged_params(job.spec, {**known, **given})


def _retry(db: Database, job: Job, wanted: Retried, *, force: bool, now: datetime) -> Retried:
    run = wanted.run
    born = enqueue(
        db,
        job,
        wanted.verdict,
        trigger=Trigger.MANUAL,
        now=now,
        scheduled_for=run.scheduled_for,
        params=wanted.params,
        forced=force,
        retry_of=run.id,
        decisions={
            **start_decisions(job, wanted.start),
            "retried": {"run": run.handle, "status": run.status, "reason": run.reason},
        },
        replaces=wanted.start.replaces,
    )
    return replace(wanted, born=born)
