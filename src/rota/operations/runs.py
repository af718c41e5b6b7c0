"""Runs: start, cancel, find, list."""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypedDict, Unpack

from rota import faults
from rota.engine.birth import Born
from rota.engine.cadence import touching
from rota.engine.enqueue import active_for, cancel, enqueue
from rota.model.claims import Claim
from rota.model.errors import (
    InvalidValue,
    JobDisabled,
    JobProvisional,
    OptionLike,
    OverlapRefused,
    RunIsFinal,
    UnknownRun,
)
from rota.model.holds import ProviderHold
from rota.model.ids import is_id
from rota.model.making import Maker
from rota.model.notify import Delivery
from rota.model.records import PARAMS_LIMIT, Execution, Job, ProcessIdentity, Run
from rota.model.spec import JobSpec
from rota.model.states import OLDER_WORDS, SHOWN, Reason, Status, Trigger
from rota.model.workspaces import Worktree
from rota.operations.jobs import find_job, has_labels
from rota.operations.making import count_start
from rota.rules.brief_words import workspace_of
from rota.rules.overlap import Go, Refuse, judge
from rota.rules.placeholders import option_places
from rota.runners.processes import send_signal
from rota.store import chains, deliveries, finding, groups, holds, jobs, runs, work
from rota.store.driver import Database, Store
from rota.store.processes import is_shared
from rota.store.rows import write_json
from rota.store.workers import Worker, worker_by_id
from rota.store.worktrees import worktree_of_run

LOOKED_THROUGH = 1000
"""So many newest runs of a job are looked through for one that started."""
_NUMBER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_OPTION = re.compile(r"-(?![0-9]+(\.[0-9]+)?$)", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run with everything stored about it."""

    run: Run
    job: Job
    spec: JobSpec
    execution: Execution | None
    chain: tuple[Run, ...] = ()
    """The run and its automatic retries, or those before it, the first one first (DEC-001)."""
    work: Claim | None = None
    """What it asked of its work source (003)."""
    worktree: Worktree | None = None
    """The git worktree of its own, while there is one."""
    hold: ProviderHold | None = None
    """That of its provider, which keeps it from starting, or which it caused itself (section 8)."""
    deliveries: tuple[Delivery, ...] = ()
    """What was told of it to whom, the oldest first (DEC-009)."""
    worker: Worker | None = None
    """Who has it or had it, where there are many."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a cancel did: the run is final now, or its processes are being stopped."""

    run: Run
    final: bool


def start(
    store: Store, name: str, *, now: datetime, params: Mapping[str, Any] | None = None, force: bool = False
) -> Born:
    """Start a job for a program that a schedule may have started itself: as `trigger`, but no activity (R-18)."""
    return store.write(partial(_trigger, name=name, params=params, force=force, now=now))


def trigger(
    store: Store,
    name: str,
    *,
    now: datetime,
    params: Mapping[str, Any] | None = None,
    force: bool = False,
    by: Maker | None = None,
) -> Born:
    """Start a job by hand: a new run in the queue, or an error that says what is in the way (R-29).

    `by` is who starts it, where that is a run or comes through the tools: it is recorded, and agents have a limit.
    """
    operation = partial(_trigger, name=name, params=params, force=force, by=by, now=now)
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
) -> Born:
    job = find_job(db, name)
    refuse_disabled(job)
    if job.expired(now):
        raise JobDisabled(job.name, "over: it was made for a time that has passed")
    verdict = Go() if force else judge(job.spec.overlap, active_for(db, job))
    if isinstance(verdict, Refuse):
        raise OverlapRefused(name, verdict.blocking.handle, job.spec.overlap.policy.value)
    decisions = {"overlap": {"policy": job.spec.overlap.policy.value, "verdict": type(verdict).__name__.lower()}}
    if by is not None:
        decisions["by"] = count_start(db, by, now=now)
    return enqueue(
        db,
        job,
        verdict,
        trigger=Trigger.MANUAL,
        now=now,
        params=merged_params(job.spec, params),
        forced=force,
        decisions=decisions,
    )


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


def find_run(db: Database, handle: str) -> Run:
    """Return the run that a handle names: `backup:112`, `backup:-1`, `backup` (its newest), or an identifier."""
    if is_id(handle):
        run = runs.run_by_id(db, handle.lower())
        if run is None:
            raise UnknownRun(handle)
        return run
    name, colon, number = handle.rpartition(":")
    if not colon:
        return _newest(db, handle, back=0)
    if not _NUMBER.fullmatch(number):
        raise UnknownRun(handle)
    if number.startswith("-"):
        return _newest(db, name, back=int(number[1:]))
    found = runs.run_by_number(db, find_job(db, name).id, int(number))
    if found is None:
        raise UnknownRun(handle)
    return found


def _newest(db: Database, name: str, *, back: int) -> Run:
    found = finding.newest_runs(db, find_job(db, name).id, limit=1, offset=back)
    if not found:
        raise UnknownRun(f"{name}:-{back}" if back else name, "" if back else "the job has not run yet")
    return found[0]


def find_unfinished(db: Database, handle: str) -> Run:
    """Return the run that a handle names; of a job alone its newest that is not finished, where there is one."""
    run = find_run(db, handle)
    if not run.status.final or not _is_job(db, handle):
        return run
    found = finding.some_unfinished_runs(db, run.job_id, limit=1)
    return max(found, key=lambda one: one.number, default=run)


def find_started(db: Database, handle: str) -> Run:
    """Return the run that a handle names; of a job alone its newest that has started, where there is one."""
    run = find_run(db, handle)
    if run.started_at is not None or not _is_job(db, handle):
        return run
    running = [one for one in finding.some_unfinished_runs(db, run.job_id, limit=1) if one.started_at is not None]
    newest = [one for one in finding.newest_runs(db, run.job_id, limit=LOOKED_THROUGH) if one.started_at is not None]
    return max(running + newest, key=lambda one: one.number, default=run)


def _is_job(db: Database, handle: str) -> bool:
    return not is_id(handle) and jobs.job_by_name(db, handle) is not None


def find_any(db: Database, name: str) -> Job | Run:
    """Return the job of this name, else the run of this handle; a name that means both is refused."""
    job = jobs.job_by_name(db, name)
    run = runs.run_by_id(db, name.lower()) if is_id(name) else None
    if job is not None and run is not None:
        raise InvalidValue(
            f"{name!r} names a job and the run {run.handle}",
            hint=f"write {run.handle}, or {name}:-0 for the newest run",
        )
    if job is not None:
        return job
    return find_run(db, name) if run is None else run


def show_run(store: Store, handle: str) -> RunView:
    """Return one run with its job, frozen definition and execution."""
    return store.read(lambda db: run_view(db, find_run(db, handle)))


def run_view(db: Database, run: Run) -> RunView:
    """Return a run with everything stored about it."""
    spec = jobs.version_spec(db, run.job_id, run.version)
    return RunView(
        run=run,
        job=jobs.job_by_id(db, run.job_id),
        spec=spec,
        execution=runs.execution_of_run(db, run.id),
        chain=tuple(chains.chain_runs(db, run.chain_id or run.id)),
        work=_claim(db, run, spec),
        worktree=worktree_of_run(db, run.id) if workspace_of(run) else None,
        hold=_hold(db, run, spec),
        deliveries=tuple(deliveries.of_run(db, run.id)),
        worker=_worker(db, run),
    )


def _worker(db: Database, run: Run) -> Worker | None:
    return worker_by_id(db, run.worker_id) if run.worker_id is not None and is_shared(db) else None


def _claim(db: Database, run: Run, spec: JobSpec) -> Claim | None:
    sourced = spec.work.agent is not None and spec.work.agent.source is not None
    return work.of_run(db, run.id) if sourced else None


def _hold(db: Database, run: Run, spec: JobSpec) -> ProviderHold | None:
    """Return the hold that a run waits for, or that began with it; None where it has to do with none."""
    hold = holds.hold_of(db, spec.work.agent.provider) if spec.work.agent is not None else None
    if hold is None or hold.until is None:
        return None
    waits = run.status is Status.QUEUED and run.waiting_for is None
    return hold if waits or hold.run_id == run.id else None


def cancel_run(store: Store, handle: str, *, now: datetime, dry_run: bool = False) -> Cancelled:
    """Cancel a run: at once if it is queued, else by asking its holder to stop it."""
    if dry_run:
        run = store.read(partial(_cancellable, handle=handle))
        return Cancelled(run, final=run.status is Status.QUEUED)
    cancelled = store.write(touching(partial(_cancel_run, handle=handle, now=now), what="cancel", now=now))
    faults.point("cancel.asked")
    return cancelled


def _cancellable(db: Database, *, handle: str) -> Run:
    run = find_unfinished(db, handle)
    if run.status.final:
        raise RunIsFinal(run.handle, run.status)
    return run


def _cancel_run(db: Database, *, handle: str, now: datetime) -> Cancelled:
    run = _cancellable(db, handle=handle)
    final = cancel(db, run.id, reason=Reason.REQUESTED, now=now)
    after = runs.run_by_id(db, run.id)
    assert after is not None
    return Cancelled(after, final)


def stop_keeper(store: Store, run: Run) -> bool:
    """Signal the keepers of a run or of a group's members that no scheduler carries; tell whether there were any."""
    group = store.read(partial(groups.group_of_run, run_id=run.id))
    if group is not None:
        members = store.read(partial(groups.member_runs, group_id=group.id))
        stopped = [stop_keeper(store, member) for member in members if not member.status.final]
        return any(stopped)
    execution = store.read(partial(runs.execution_of_run, run_id=run.id))
    spec = store.read(partial(jobs.version_spec, job_id=run.job_id, version=run.version))
    if execution is None or execution.finished_at is not None or spec.work.in_process:
        return False
    keeper = ProcessIdentity(execution.boot_id, execution.pid, execution.pid_start)
    return send_signal(keeper, signal.SIGTERM)


class Asked(TypedDict, total=False):
    """Which runs somebody asks for, in words; `agent`: those of jobs that ask it now.

    A page goes on before a number of the job, else before a run.
    """

    job: str | None
    statuses: Sequence[str]
    reasons: Sequence[str]
    labels: Sequence[str]
    triggers: Sequence[str]
    agent: str
    since: datetime | None
    until: datetime | None
    before_id: str
    before_number: int | None


def history(store: Store, *, limit: int = 50, **asked: Unpack[Asked]) -> list[Run]:
    """Return past and present runs, newest first."""

    def read(db: Database) -> list[Run]:
        chosen = chosen_of(db, asked)
        return [] if chosen is None else finding.history(db, limit=limit, **chosen)

    return store.read(read)


def chosen_of(db: Database, asked: Asked) -> finding.Chosen | None:
    """Return which runs are meant; None where no run can be."""
    job, labels, agent = asked.get("job"), asked.get("labels", ()), asked.get("agent", "")
    job_id = find_job(db, job).id if job else None
    job_ids = _fitting(db, labels, agent) if labels or agent else None
    if job_id is not None and job_ids is not None and job_id not in job_ids:
        return None
    return {
        "job_id": job_id,
        "job_ids": job_ids,
        "statuses": [word for status in asked.get("statuses", ()) for word in _stored_statuses(status)] or None,
        "reasons": [_reason(reason) for reason in asked.get("reasons", ())] or None,
        "triggers": [_trigger_word(word) for word in asked.get("triggers", ())] or None,
        "since": asked.get("since"),
        "until": asked.get("until"),
        "before_id": asked.get("before_id", ""),
        "before_number": asked.get("before_number"),
    }


def _fitting(db: Database, labels: Sequence[str], agent: str) -> list[str]:
    return [one.id for one in jobs.all_jobs(db) if has_labels(one, labels) and (not agent or asks(one, agent))]


def _stored_statuses(word: str) -> list[str]:
    upper = word.upper()
    status = OLDER_WORDS.get(upper) or (Status(upper) if upper in SHOWN else None)
    if status is None:
        raise InvalidValue(f"no status is named {word!r}", hint=f"use one of {', '.join(SHOWN)}")
    return ["DISPATCHED", "RUNNING"] if status is Status.RUNNING else [status.value]


def _reason(word: str) -> str:
    try:
        return Reason(word.lower()).value
    except ValueError:
        raise InvalidValue(f"no reason is named {word!r}", hint=f"use one of {', '.join(Reason)}") from None


def _trigger_word(word: str) -> str:
    try:
        return Trigger(word.lower()).value
    except ValueError:
        raise InvalidValue(f"no trigger is named {word!r}", hint=f"use one of {', '.join(Trigger)}") from None


def asks(job: Job, agent: str) -> bool:
    """Tell whether a job asks this agent."""
    return job.spec.work.agent is not None and job.spec.work.agent.agent == agent
