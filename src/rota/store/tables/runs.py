"""Rows of runs and executions: insert, claim, start and finish."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec import Struct

from rota.model.budgets import usage_json
from rota.model.clock import to_ms, to_ms_or_none
from rota.model.errors import InvariantRefused
from rota.model.ids import created_ms
from rota.model.records import ARTIFACTS_LIMIT, Execution, Job, Outcome, ProcessIdentity, Run
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.queue_order import NO_POOLS, POSITION_GAP
from rota.rules.spans import WAITS, add_wait
from rota.rules.stats import usage_tally
from rota.store.driver import Database, Row
from rota.store.rows import (
    columns_of,
    execution_of,
    merge_objects,
    read_object,
    records_of,
    run_of,
    value_of,
    write_json,
)
from rota.store.tallies import Addition, EndedRuns

NO_WORKER = ""
_DISPATCHED, _RUNNING = Status.DISPATCHED, str(Status.RUNNING)

READY, WAITING = 1, 0
"""The states of a queued run in `live`: it may be claimed, or waits for something."""
STATES = {Status.QUEUED: (WAITING, READY), Status.DISPATCHED: (2, 2), Status.RUNNING: (3, 3)}
"""The states in `live` of an unfinished status, the lowest and the highest."""
ENDS = {Status.COMPLETED: 4, Status.FAILED: 5, Status.SKIPPED: 6, Status.CANCELLED: 7}
"""The final statuses in `ended`."""
STATUSES = (Status.QUEUED, Status.QUEUED, Status.DISPATCHED, Status.RUNNING, *ENDS)
"""The status by its number in `live` or `ended`."""


def count(db: Database, status: Status, by: int, *, worker_id: str | None = None) -> None:
    """Count runs of a worker that entered a status, or left it (negative)."""
    # Called for each run: the properties of an enum would cost as much as the rest.
    key = (_RUNNING if status is _DISPATCHED else str(status), worker_id or NO_WORKER)
    db.counted[key] = db.counted.get(key, 0) + by


def counts(db: Database) -> dict[Status, dict[str, int]]:
    """Return the number of runs by status and worker; those without a worker under `NO_WORKER`."""
    numbers: dict[Status, dict[str, int]] = {}
    for status, worker_id, number in db.rows("counter_all"):
        numbers.setdefault(Status(status), {})[worker_id] = number
    return numbers


MAX_DENIED_TOOLS = 50
"""The denied tools of an agent that are stored with its execution."""


class Candidate(NamedTuple):
    """A claimable run with the data that its execution needs. Number 0: a direct call, which has no run."""

    id: str
    job_id: str
    version: int
    number: int
    job: str
    trigger: Trigger
    scheduled_for: datetime | None
    created_at: datetime
    attempt: int
    params: Mapping[str, Any]
    expires_at: datetime | None
    forced: bool
    state: Mapping[str, Any]
    seq: int = 0

    @property
    def handle(self) -> str:
        """The name of the run for people: `backup:112`."""
        return f"{self.job}:{self.number or Trigger.DIRECT}"

    @property
    def nominal(self) -> datetime:
        """The instant of placeholders and ROTA_DATE."""
        return self.scheduled_for or self.created_at


class Owned(Struct, frozen=True):
    """A run of a live or dead process."""

    id: str
    epoch: int
    status: Status
    job_id: str
    version: int
    losses: int
    cancel_reason: Reason | None
    process: ProcessIdentity | None


class ClaimedSlot(NamedTuple):
    """A run and the slot that it takes. `started`: it starts with the claim, in `process` or in this one."""

    seq: int
    slot: int
    started: bool
    process: ProcessIdentity | None = None


class RunState(Struct, frozen=True):
    """The status of an unfinished run, and the reason of its cancellation if that was requested."""

    status: Status
    cancel_reason: Reason | None


class RunEnd(NamedTuple):
    """The outcome and end of a run, and the status that it leaves."""

    run_id: str
    outcome: Outcome
    expected: Status
    at: datetime


class FinishedRun(NamedTuple):
    """A run that became final, with the data for its follow-ups."""

    id: str
    job_id: str
    version: int
    trigger: Trigger
    scheduled_for: datetime | None
    started_at: datetime | None
    predecessor_id: str | None
    lane_id: int
    attempt: int
    chain_id: str | None
    group_id: str | None
    cancel_reason: Reason | None
    outcome: Outcome
    finished_at: datetime

    @property
    def status(self) -> Status:
        """The final status."""
        return self.outcome.status


def run_by_id(db: Database, run_id: str) -> Run | None:
    """Return the run with this identifier, None for none."""
    db.defer("run_lock", id=run_id)
    return next(map(run_of, db.records("run_by_id", id=run_id)), None)


def run_by_seq(db: Database, seq: int) -> Run | None:
    """Return the run with this key, None for none."""
    return next(map(run_of, db.records("run_by_seq", seq=seq)), None)


def run_by_number(db: Database, job_id: str, number: int) -> Run | None:
    """Return a job's run of this number, None for none."""
    db.defer("run_lock_number", job_id=job_id, number=number)
    return next(map(run_of, db.records("run_by_number", job_id=job_id, number=number)), None)


def run_by_handle(db: Database, handle: str) -> Run | None:
    """Return the run of a handle such as `backup:112`, None for none; its job is not locked."""
    name, _, number = handle.rpartition(":")
    run_id = value_of(db, "run_by_handle", name=name, number=int(number)) if number.isdecimal() else None
    return None if run_id is None else run_by_id(db, run_id)


def prefetch_candidates(db: Database, *, free: int, lane_id: int = NO_POOLS) -> None:
    """Prefetch `candidates`."""
    db.prefetch("run_candidates", lane_id=lane_id, free=free)


def candidates(db: Database, *, free: int, lane_id: int = NO_POOLS) -> list[Candidate]:
    """Return up to `free` claimable runs of a lane in queue order."""
    return records_of(Candidate, db.rows("run_candidates", lane_id=lane_id, free=free))


def passed_over(db: Database, *, lane_id: int = NO_POOLS) -> bool:
    """Return whether `candidates` skipped a claimable run of a lane because another transaction has locked it."""
    return db.row("run_passed_over", lane_id=lane_id) is not None


def chosen(db: Database, seqs: Sequence[int]) -> list[Candidate]:
    """Return the runs to claim in the given order."""
    return records_of(Candidate, db.rows("run_chosen", runs=write_json(seqs)))


def claim_runs(db: Database, claimed: Sequence[ClaimedSlot], *, worker_id: str, epoch: int, now: datetime) -> int:
    """Move QUEUED runs into slots, as RUNNING if they start with the claim, else as DISPATCHED; return the number.

    A run that cannot be claimed refuses all.
    """
    running, dispatched = (STATES[Status.RUNNING][0], to_ms(now)), (STATES[Status.DISPATCHED][0], None)
    items: list[tuple[int | None, ...]] = []
    boot_id = None
    for run in claimed:
        item = (run.seq, run.slot, *(running if run.started else dispatched))
        if run.process is not None:
            item, boot_id = (*item, run.process.pid, run.process.start), run.process.boot_id
        items.append(item)
    values = {"worker_id": worker_id, "epoch": epoch, "boot_id": boot_id, "now": to_ms(now)}
    changed = db.execute("run_claim", runs=write_json(items), **values)
    if changed != len(claimed):
        raise InvariantRefused(
            "no such transition", f"{len(claimed) - changed} of {len(claimed)} runs were not claimable"
        )
    count(db, Status.QUEUED, -changed)
    count(db, Status.RUNNING, changed, worker_id=worker_id)
    return changed


def start_run(db: Database, run_id: str, *, epoch: int, process: ProcessIdentity, now: datetime) -> bool:
    """Move a DISPATCHED run to RUNNING in a process."""
    identity = {"boot_id": process.boot_id, "pid": process.pid, "pid_start": process.start}
    return db.execute("run_start", id=run_id, epoch=epoch, now=to_ms(now), **identity) == 1


def release_run(
    db: Database,
    run_id: str,
    *,
    epoch: int,
    waiting_for: WaitingFor | None = None,
    not_before: datetime | None = None,
    lost: bool = False,
) -> bool:
    """Return a DISPATCHED run to the queue, where it may have to wait; release its pools and budgets."""
    from rota.store.tables import budgets, queue

    released = db.rows(
        "run_release",
        id=run_id,
        epoch=epoch,
        waiting_for=waiting_for,
        not_before=to_ms_or_none(not_before),
        lost=int(lost),
    )
    for _, worker_id in released:
        count(db, Status.DISPATCHED, -1, worker_id=worker_id)
        count(db, Status.QUEUED, 1)
    queue.give_back(db, [lane_id for lane_id, _ in released])
    if released:
        budgets.release(db, [run_id])
    return len(released) == 1


def note_decisions(db: Database, run_id: str, decisions: Mapping[str, Any]) -> None:
    """Add to the decisions that `explain` shows of an unfinished run."""
    stored = value_of(db, "run_decisions", id=run_id)
    if stored is not None:
        db.execute("run_note", id=run_id, decisions=write_json(merge_objects(read_object(stored), decisions)))


def note_wait(db: Database, run_id: str, waiting_for: WaitingFor, *, since: datetime, until: datetime | None) -> None:
    """Add a wait at a gate to the decisions of a run: its spans show what it waited for."""
    stored = value_of(db, "run_decisions", id=run_id)
    if stored is not None:
        waits = add_wait(read_object(stored).get(WAITS, ()), waiting_for, since=since, until=until)
        note_decisions(db, run_id, {WAITS: waits})


def note_end(db: Database, run_id: str, decisions: Mapping[str, Any], *, epoch: int | None) -> None:
    """Add to the decisions of a run that this process holds, in the transaction of its end."""
    stored = value_of(db, "run_decisions", id=run_id)
    if stored is not None:
        db.execute(
            "run_note_held", id=run_id, decisions=write_json(merge_objects(read_object(stored), decisions)), epoch=epoch
        )


def ending_runs(db: Database, run_ids: Sequence[str]) -> dict[str, RunState]:
    """Return the state of those of the runs that are not final, by identifier."""
    rows = db.rows("runs_ending", ids=write_json(run_ids))
    return {run_id: RunState(STATUSES[state], reason and Reason(reason)) for run_id, state, reason in rows}


class EndFacts(NamedTuple):
    """Whether any run holds a budget, and whether any holds a work item."""

    budget_held: bool
    work_open: bool


def prefetch_end_facts(db: Database) -> None:
    """Prefetch `end_facts`."""
    db.prefetch("run_end_facts")


def end_facts(db: Database) -> EndFacts:
    """Return which tables the end of a run has to read."""
    return EndFacts(*map(bool, db.row("run_end_facts") or ()))


def finish_runs(
    db: Database, ends: Sequence[RunEnd], *, epoch: int | None, sent: Callable[[], None] = lambda: None
) -> list[FinishedRun]:
    """Give runs their final status; return those that still had the expected status and epoch.

    `sent` may prefetch the next queries; their answers reflect this change.
    """
    rows: dict[str, Row] = {}
    by_status = {status: [end for end in ends if end.expected is status] for status in {end.expected for end in ends}}
    for status, alike in by_status.items():
        low, high = STATES[status]
        leaving = {"low": low, "high": high, "epoch": epoch}
        ids = write_json([end.run_id for end in alike])
        db.prefetch("runs_to_finish", ids=ids, **leaving)  # before the ends: they take the runs out of `live`
        _insert_ends(db, alike, ids, leaving)
        if alike[-1] is ends[-1]:
            sent()
        rows |= {row[0]: row for row in db.rows("runs_to_finish", ids=ids, **leaving)}
    final = [end for end in ends if end.run_id in rows]
    _tally(db, final, rows)
    moves = ((end.expected, end.outcome.status, rows[end.run_id][WORKER]) for end in final)
    for (left, entered, worker_id), same in groupby(moves):
        number = len(list(same))
        count(db, left, -number, worker_id=worker_id)
        count(db, entered, number, worker_id=worker_id)
    outcomes, times = [end.outcome for end in final], [end.at for end in final]
    return records_of(FinishedRun, [rows[end.run_id][:WORKER] for end in final], outcomes, times)


WORKER = 12
"""The column of the worker in `runs_to_finish`; the ones before it are the fields of `FinishedRun`."""
_JOB_AND_TIMES = itemgetter(1, 3, 4, 13, 14, 5, 15)


def _tally(db: Database, final: Sequence[RunEnd], rows: Mapping[str, Row]) -> None:
    """Note the ends for the statistics; ends in one way at one time are counted without a loop in Python."""
    if not final:
        return
    _, outcome, _, at = final[0]
    alike = all(end.outcome is outcome and end.at == at for end in final)
    for same in [final] if alike else [[end] for end in final]:
        numbers = Counter(map(_JOB_AND_TIMES, (rows[end.run_id] for end in same)))
        db.ended.append(EndedRuns(same[0].outcome.status, same[0].outcome.reason, to_ms(same[0].at), numbers))
    for end in final:
        if end.outcome.usage is not None:
            _, job_id, version, *_ = rows[end.run_id]
            tally = usage_tally(end.outcome.usage, agent_of(db, job_id, version))
            db.ended.append(Addition(job_id, to_ms(end.at), tally))
    costs = [(end.run_id, to_ms(end.at), end.outcome.usage.usd) for end in final if end.outcome.usage is not None]
    if costs := [cost for cost in costs if cost[-1]]:
        db.defer("run_cost_add", costs=write_json(costs))


def agent_of(db: Database, job_id: str | None, version: int | None) -> str | None:
    """Return the agent of a version of a job, None for another kind of work."""
    row = None if job_id is None else db.row("job_version_spec", job_id=job_id, version=version)
    agent = read_object(row[0]).get("work", {}).get("agent") if row else None
    return agent["agent"] if agent else None


def _insert_ends(db: Database, ends: Sequence[RunEnd], ids: str, leaving: Mapping[str, Any]) -> None:
    _, outcome, _, at = ends[0]
    if all(end.outcome is outcome and end.at == at for end in ends):
        db.defer("run_finish_alike", ids=ids, **leaving, **_ending(outcome, at))
    else:
        items = [(end.run_id, *_ending(end.outcome, end.at).values()) for end in ends]
        db.defer("run_finish", ends=write_json(items), **leaving)


def _ending(outcome: Outcome, at: datetime) -> dict[str, Any]:
    return {
        "status": ENDS[outcome.status],
        "reason": outcome.reason,
        "finished_at": to_ms(at),
        "exit_code": outcome.exit_code,
        "error": outcome.error,
        "summary": outcome.summary,
        "artifacts": artifacts_of(outcome),
    }


def artifacts_of(outcome: Outcome, *, reason: Reason | None = None) -> str | None:
    """Return the JSON of an outcome's artifacts; file names above the size limit are counted instead of listed."""
    present = outcome.output_bytes or outcome.summary or outcome.files or outcome.usage or outcome.denied_tools
    if not (present or outcome.session_id or outcome.agent or reason):
        return None
    files = list(outcome.files)
    while True:
        artifacts = {
            "reason": reason,
            "output_bytes": outcome.output_bytes,
            "summary": outcome.summary,
            "files": files,
            "usage": usage_json(outcome.usage),
            "session_id": outcome.session_id,
            "agent": outcome.agent,
            "denied_tools": list(outcome.denied_tools[:MAX_DENIED_TOOLS]),
            "files_left_out": len(outcome.files) - len(files),
        }
        stored = {name: value for name, value in artifacts.items() if value}
        text = write_json(stored)
        if not files or len(text.encode()) <= ARTIFACTS_LIMIT:
            return text if stored else None
        files.pop()


def execution_of_run(db: Database, run_id: str) -> Execution | None:
    """Return the execution of a run, None if it never started."""
    return next(map(execution_of, db.records("execution_by_run", run_id=run_id)), None)


def owned_runs(db: Database, epochs: Sequence[int]) -> list[Owned]:
    """Return the dispatched and running runs of these epochs."""
    return [_owned(row) for row in db.rows("runs_owned", epochs=json.dumps(list(epochs)))]


def _owned(row: Row) -> Owned:
    run_id, epoch, state, job_id, version, losses, cancel_requested_at, cancel_reason, boot_id, pid, pid_start = row
    process = None if None in (boot_id, pid, pid_start) else ProcessIdentity(boot_id, pid, pid_start)
    reason = None if cancel_requested_at is None else Reason(cancel_reason)
    return Owned(run_id, epoch, STATUSES[state], job_id, version, losses, reason, process)


def prefetch_taken_slots(db: Database, worker_id: str) -> None:
    """Prefetch `taken_slots`."""
    db.prefetch("slots_taken", worker_id=worker_id)


def taken_slots(db: Database, worker_id: str) -> set[int]:
    """Return the occupied slots of a worker, over all of its processes."""
    return {slot for (slot,) in db.rows("slots_taken", worker_id=worker_id)}


def ask_cancel(db: Database, run_id: str, *, reason: Reason, now: datetime) -> bool:
    """Request the cancellation of a dispatched or running run; the first request counts."""
    return db.execute("run_ask_cancel", id=run_id, reason=reason, now=to_ms(now)) == 1


def cancelling_runs(db: Database, epoch: int) -> list[tuple[str, Reason]]:
    """Return the runs of an epoch with a requested cancellation, and its reason."""
    return [(run_id, Reason(reason)) for run_id, reason in db.rows("runs_cancelling", epoch=epoch)]


SIBLING_GAP = 64
"""Positions between runs inserted together: 10,000 fit into one millisecond, with room for moves between them."""


class NewRun(Struct, frozen=True):
    """A run to insert: queued, skipped at once (`reason`), or that of a group, which starts at once (`begins`).

    `rank` and `position` None: at the end of its priority. `priority` None: the job's. `lane_id` None: no pools.
    """

    id: str
    job: Job
    trigger: Trigger
    created_at: datetime
    slot_key: str | None = None
    scheduled_for: datetime | None = None
    covers_to: datetime | None = None
    count: int | None = None
    reason: Reason | None = None
    waiting_for: WaitingFor | None = None
    not_before: datetime | None = None
    predecessor_id: str | None = None
    expires_at: datetime | None = None
    lane_id: int | None = None
    priority: int | None = None
    rank: int | None = None
    position: int | None = None
    params: Mapping[str, Any] | None = None
    attempt: int = 1
    retry_of: str | None = None
    chain_id: str | None = None
    group_id: str | None = None
    place: int | None = None
    always: bool = False
    forced: bool = False
    begins: bool = False
    error: str | None = None
    decisions: Mapping[str, Any] | None = None


class NewRunVariant(Struct, frozen=True):
    """The fields of one of several runs inserted together that differ. `params` None: the job's."""

    id: str
    params: Mapping[str, Any] | None = None
    scheduled_for: datetime | None = None
    predecessor_id: str | None = None


def insert_run(db: Database, run: NewRun, *, number: int) -> None:
    """Insert a run with its first state, or with its end if it is skipped at once."""
    columns = columns_of(run) | _defaults(run)
    params = columns["params"] or write_json(run.job.spec.work.params)
    db.execute(
        "run_insert", **columns | {"job_id": run.job.id, "version": run.job.version, "number": number, "params": params}
    )
    if run.reason is not None:
        db.execute("run_skip", **columns)
        count(db, Status.SKIPPED, 1)
        db.ended.append(_skipped(run))
        return
    status = Status.RUNNING if run.begins else Status.QUEUED
    state = STATES[Status.RUNNING][0] if run.begins else READY if run.waiting_for is None else WAITING
    db.execute("run_enqueue", **columns, state=state, started_at=to_ms(run.created_at) if run.begins else None)
    count(db, status, 1)


def _skipped(run: NewRun) -> EndedRuns:
    stretch = run.count if run.covers_to is not None else 1
    created_at = to_ms(run.created_at)
    times = (run.job.id, run.trigger, to_ms_or_none(run.scheduled_for), created_at, None, None, stretch)
    return EndedRuns(Status.SKIPPED, run.reason, created_at, {times: 1})


def insert_runs(db: Database, shared: NewRun, variants: Sequence[NewRunVariant], *, first: int) -> None:
    """Insert runs of one job by two statements, numbered from `first` and one behind the other."""
    rows = [
        (
            variant.id,
            None if variant.params is None else write_json(variant.params),
            to_ms_or_none(variant.scheduled_for),
            variant.predecessor_id,
        )
        for variant in variants
    ]
    siblings = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
    place = _defaults(shared)
    db.execute(
        "run_insert_many",
        job_id=shared.job.id,
        first=first,
        version=shared.job.version,
        trigger=shared.trigger,
        params=write_json(shared.job.spec.work.params),
        forced=int(shared.forced),
        created_at=to_ms(shared.created_at),
        siblings=siblings,
        **place,
    )
    db.execute(
        "run_enqueue_many",
        siblings=siblings,
        expires_at=to_ms_or_none(shared.expires_at),
        gap=SIBLING_GAP,
        decisions=write_json(shared.decisions) if shared.decisions else None,
        **place,
    )
    count(db, Status.QUEUED, len(variants))


def _defaults(run: NewRun) -> dict[str, Any]:
    priority = run.job.spec.priority if run.priority is None else run.priority
    return {
        "lane_id": NO_POOLS if run.lane_id is None else run.lane_id,
        "priority": priority,
        "rank": priority if run.rank is None else run.rank,
        "position": created_ms(run.id) * POSITION_GAP if run.position is None else run.position,
    }
