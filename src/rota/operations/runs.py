"""Runs as they are stored: find, list and show them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, Unpack

from rota.model.claims import Claim
from rota.model.errors import InvalidValue, UnknownRun
from rota.model.holds import ProviderHold
from rota.model.ids import is_id
from rota.model.notify import Delivery
from rota.model.records import Execution, Job, Run
from rota.model.spec import JobSpec
from rota.model.states import OLDER_WORDS, SHOWN, Reason, Status, Trigger
from rota.model.workspaces import Worktree
from rota.operations.jobs import find_job, has_labels
from rota.rules.brief_words import workspace_of
from rota.store import chains, deliveries, finding, holds, jobs, runs, work
from rota.store.driver import Database, Store
from rota.store.processes import is_shared
from rota.store.workers import Worker, worker_by_id
from rota.store.worktrees import worktree_of_run

LOOKED_THROUGH = 1000
"""So many newest runs of a job are looked through for one that started."""
_NUMBER = re.compile(r"-?[0-9]{1,15}", re.ASCII)


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
    if upper == "TIMED_OUT":
        return [f"{status}/{Reason.TIMED_OUT}"]
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
