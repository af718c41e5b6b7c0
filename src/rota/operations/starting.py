"""Starting jobs by hand (R-29): overlap judges, and what is given is checked."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from rota import faults
from rota.engine.birth import Born
from rota.engine.cadence import touching
from rota.engine.enqueue import ManualStart, enqueue, judge_start
from rota.model.errors import InvalidValue, JobDisabled, JobProvisional, OptionLike, OverlapRefused
from rota.model.making import Maker
from rota.model.records import PARAMS_LIMIT, Job
from rota.model.spec import JobSpec
from rota.model.states import Trigger
from rota.operations.jobs import find_job
from rota.operations.made import count_start
from rota.rules.overlap import After, Go, Refuse, Replace, TooMany, verdict_word
from rota.rules.placeholders import option_places
from rota.rules.retry import ONE_ATTEMPT
from rota.store.driver import Database, Store
from rota.store.rows import write_json

_OPTION = re.compile(r"-(?![0-9]+(\.[0-9]+)?$)", re.ASCII)


def start(
    store: Store,
    name: str,
    *,
    now: datetime,
    params: Mapping[str, Any] | None = None,
    force: bool = False,
    by: Maker | None = None,
) -> Born:
    """Start a job for a program that a schedule may have started itself: as `trigger`, but no activity (R-18)."""
    return store.write(partial(_trigger, name=name, params=params, force=force, by=by, now=now))


def trigger(
    store: Store,
    name: str,
    *,
    now: datetime,
    params: Mapping[str, Any] | None = None,
    force: bool = False,
    by: Maker | None = None,
    one_attempt: bool = False,
) -> Born:
    """Start a job by hand: a new run in the queue, or an error that says what is in the way (R-29, R-31).

    `by` is who starts it, where that is a run or comes through the tools: it is recorded, and agents have a limit.
    `one_attempt`: a failure is not retried, whatever the job's policy says.
    """
    operation = partial(_trigger, name=name, params=params, force=force, by=by, one_attempt=one_attempt, now=now)
    born = store.write(touching(operation, what="trigger", now=now))
    faults.point("trigger.committed")
    return born


def _trigger(
    db: Database,
    *,
    name: str,
    params: Mapping[str, Any] | None,
    force: bool,
    now: datetime,
    by: Maker | None = None,
    one_attempt: bool = False,
) -> Born:
    job = find_job(db, name)
    recorded = {} if by is None else {"by": count_start(db, by, now=now, force=force)}
    refuse_disabled(job)
    if job.expired(now):
        raise JobDisabled(job.name, "over: it was made for a time that has passed")
    merged = merged_params(job.spec, params)
    start = judge_start(db, job, [merged], force=force)
    verdict = admitted(job, start)
    decisions = {**start_decisions(job, start), **({ONE_ATTEMPT: True} if one_attempt else {}), **recorded}
    return enqueue(
        db,
        job,
        verdict,
        trigger=Trigger.MANUAL,
        now=now,
        params=merged,
        forced=force,
        decisions=decisions,
        replaces=start.replaces,
    )


def admitted(job: Job, start: ManualStart) -> Go | After | Replace:
    """Return the verdict of a manual start, or raise the error that names the run in the way."""
    if isinstance(start.verdict, Refuse):
        raise OverlapRefused(job.name, start.verdict.blocking.handle, job.spec.overlap.policy.value)
    assert not isinstance(start.verdict, TooMany), "one run is refused by name, never as a set"
    return start.verdict


def start_decisions(job: Job, start: ManualStart) -> dict[str, Any]:
    """Return what a manually started run stores about its start, for `explain`."""
    overlap = {"policy": job.spec.overlap.policy.value, "verdict": verdict_word(start.verdict)}
    return {"overlap": overlap, **start.decisions}


def refuse_disabled(job: Job) -> None:
    """Refuse a start by hand of a job that is disabled or retired (R-29)."""
    if job.retired_at is not None:
        gone = "the file no longer has it" if job.made is None else "it was removed, or its time was over"
        raise JobDisabled(job.name, f"retired: {gone}")
    if job.provisional_at is not None:
        raise JobProvisional(job.name)
    if not job.enabled:
        raise JobDisabled(job.name, "disabled")


def merged_params(spec: JobSpec, params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the job's params with those of this run over them; only declared names, 64 KB at most (R-25)."""
    given = params or {}
    unknown = sorted(set(given) - set(spec.work.params))
    if unknown:
        known = ", ".join(sorted(spec.work.params)) or "none"
        raise InvalidValue(f"job {spec.name!r} has no param {unknown[0]!r}", hint=f"its params: {known}")
    _refuse_options(spec, given)
    merged = {**spec.work.params, **given}
    if len(write_json(merged).encode()) > PARAMS_LIMIT:
        raise InvalidValue(
            f"the params of {spec.name!r} are larger than {PARAMS_LIMIT // 1024} KB", hint="pass a file's path instead"
        )
    return merged


def _refuse_options(spec: JobSpec, given: Mapping[str, Any]) -> None:
    """Refuse texts by which who starts a job would choose options of its program; its own params may be some."""
    for name in sorted(option_places(spec.work.command) & set(given)) if given else ():
        value = given[name]
        if isinstance(value, str) and _OPTION.match(value) and value != spec.work.params[name]:
            raise OptionLike(spec.name, name, value)
