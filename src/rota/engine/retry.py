"""Retry: a failed run leads to a new one in the transaction of its end, so that no crash can come between (DEC-001)."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from rota import faults
from rota.engine.birth import Born, bear
from rota.model.clock import MILLISECOND
from rota.model.ids import new_id
from rota.model.records import Run
from rota.model.spec import JobSpec
from rota.model.states import Reason, Trigger, WaitingFor
from rota.rules.retry import ONE_ATTEMPT, next_attempt
from rota.rules.retry_words import outages_before
from rota.store import births, chains, jobs, runs
from rota.store.driver import Database


def retry(db: Database, ended: runs.Ended, *, now: datetime) -> Born | None:
    """Bear the next attempt of a failed run where its definition allows one; who waited for the run waits for that."""
    spec = jobs.version_spec(db, ended.job_id, ended.version)
    earlier = runs.run_by_id(db, ended.id) if ended.attempt > 1 else None
    at = next_attempt(
        spec.retry,
        ended.outcome,
        attempt=ended.attempt,
        run_id=ended.id,
        finished_at=ended.finished_at,
        asked=ended.cancel_reason,
        outages=outages_before(earlier) if earlier else 0,
    )
    failed = None if at is None else earlier or runs.run_by_id(db, ended.id)
    if at is None or failed is None or failed.decisions.get(ONE_ATTEMPT):
        return None
    born = bear(db, _attempt(db, failed, spec, at=at, now=now))
    if not faults.planted("retry_not_waited_for"):
        chains.relink_followers(db, failed.id, born.id)
    faults.point("retry.born")
    return born


def _attempt(db: Database, failed: Run, spec: JobSpec, *, at: datetime, now: datetime) -> births.Newborn:
    """Return the same run once more: what it does and with what stay as they were when the chain began."""
    job = replace(jobs.job_by_id(db, failed.job_id), version=failed.version, spec=spec)
    expires_after = spec.gates.expires_after
    waits = at > now
    return births.Newborn(
        id=new_id(now),
        job=job,
        trigger=Trigger.RETRY,
        created_at=now,
        scheduled_for=failed.scheduled_for,
        waiting_for=WaitingFor.BACKOFF if waits else None,
        not_before=at if waits else None,
        expires_at=max(at, now) + expires_after if expires_after else None,
        lane_id=failed.lane_id,
        priority=failed.priority,
        params=failed.params,
        attempt=failed.attempt + 1,
        retry_of=failed.id,
        chain_id=failed.chain_id or failed.id,
        group_id=failed.group_id,
        place=failed.place,
        always=failed.always,
        forced=failed.forced,
        decisions={"retry": _note(failed, spec, at=at)},
    )


def _note(failed: Run, spec: JobSpec, *, at: datetime) -> dict[str, Any]:
    assert failed.finished_at is not None
    outages = outages_before(failed) + (failed.reason is Reason.OUTAGE)
    return {
        **({"outages": outages} if outages else {}),
        "after": failed.handle,
        "reason": failed.reason,
        "of": spec.retry.max_attempts,
        "backoff_ms": (at - failed.finished_at) // MILLISECOND,
    }
