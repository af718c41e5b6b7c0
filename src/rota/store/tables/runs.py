"""Rows of runs and executions: insert, claim, start and finish."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from rota.model.budgets import usage_json
from rota.model.clock import from_ms, from_ms_or_none, to_ms, to_ms_or_none
from rota.model.ids import created_ms
from rota.model.records import ARTIFACTS_LIMIT, Execution, Job, Outcome, ProcessIdentity, Run
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.queue_order import NO_POOLS, POSITION_GAP
from rota.store.driver import Database, Row
from rota.store.rows import execution_of, merge_objects, read_object, run_of, write_json
from rota.store.tables import budgets, queue

NOBODY = ""
_DISPATCHED, _RUNNING = Status.DISPATCHED, str(Status.RUNNING)


def count(db: Database, status: Status, by: int, *, worker_id: str | None = None) -> None:
    """Note that so many runs of a worker entered a status, or left it (negative)."""
    # Once a run at least, so without the properties of an enum, which cost as much as all the rest.
    key = (_RUNNING if status is _DISPATCHED else str(status), worker_id or NOBODY)
    db.counted[key] = db.counted.get(key, 0) + by


def counts(db: Database) -> dict[Status, dict[str, int]]:
    """Return how many runs there are, by status and worker; those of no worker under `NOBODY`."""
    found: dict[Status, dict[str, int]] = {}
    for status, worker_id, number in db.rows("counter_all"):
        found.setdefault(Status(status), {})[worker_id] = number
    return found


_TRIGGERS = {one.value: one for one in Trigger}
DENIED_KEPT = 50
"""How many of the tools that an agent was refused are kept with its execution."""


class Candidate(NamedTuple):
    """A run that may be claimed, with what execution needs of it. Number 0: a direct call, which is no run (R-13)."""

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

    @property
    def handle(self) -> str:
        """The run as people write it: `backup:112`."""
        return f"{self.job}:{self.number or Trigger.DIRECT}"

    @property
    def nominal(self) -> datetime:
        """The instant that placeholders and ROTA_DATE use (R-05)."""
        return self.scheduled_for or self.created_at


@dataclass(frozen=True, slots=True)
class Owned:
    """A run that a process holds, or held when it died."""

    id: str
    epoch: int
    status: Status
    job_id: str
    version: int
    losses: int
    cancel_reason: Reason | None
    process: ProcessIdentity | None


class Taken(NamedTuple):
    """A run on its way into a slot. `started`: nothing stands before its start (R-01)."""

    run_id: str
    slot: int
    started: bool


class StartedRun(NamedTuple):
    """A run that starts. Its execution has the identifier of the run: there is one at most."""

    run_id: str
    job_id: str
    slot: int


@dataclass(frozen=True, slots=True)
class RunState:
    """Where a run stands that is about to end, and why somebody asked for that, if so."""

    status: Status
    cancel_reason: Reason | None


class RunEnd(NamedTuple):
    """How and when a run ends, and the status that it leaves."""

    run_id: str
    outcome: Outcome
    expected: Status
    at: datetime


class FinishedRun(NamedTuple):
    """A run that became final, and what its end leads on to."""

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
    found = db.records("run_by_id", id=run_id)
    return run_of(found[0]) if found else None


def run_by_number(db: Database, job_id: str, number: int) -> Run | None:
    """Return a job's run of this number, None for none."""
    found = db.records("run_by_number", job_id=job_id, number=number)
    return run_of(found[0]) if found else None


def run_by_handle(db: Database, handle: str) -> Run | None:
    """Return the run that is written `backup:112`, None for none; its job is not locked."""
    name, _, number = handle.rpartition(":")
    row = db.row("run_by_handle", name=name, number=int(number)) if number.isdecimal() else None
    return None if row is None else run_by_id(db, row[0])


def ask_candidates(db: Database, *, free: int, lane_id: int = NO_POOLS) -> None:
    """Ask `candidates` ahead."""
    db.ahead("run_candidates", lane_id=lane_id, free=free)


def candidates(db: Database, *, free: int, lane_id: int = NO_POOLS) -> list[Candidate]:
    """Return up to `free` runs of a lane that may be claimed, in the order of INV-004."""
    return [_candidate(*row) for row in db.rows("run_candidates", lane_id=lane_id, free=free)]


def passed_over(db: Database, *, lane_id: int = NO_POOLS) -> bool:
    """Tell whether a run of a lane may be claimed that `candidates` passed over, since somebody else holds it."""
    return db.row("run_passed_over", lane_id=lane_id) is not None


def chosen(db: Database, run_ids: Sequence[str]) -> list[Candidate]:
    """Return runs that are to be claimed, in the order in which they are named."""
    return [_candidate(*row) for row in db.rows("run_chosen", ids=write_json(run_ids))]


def _candidate(
    id_: str,
    job_id: str,
    version: int,
    number: int,
    job: str,
    trigger: str,
    scheduled_for: int | None,
    created_at: int,
    attempt: int,
    params: str,
    expires_at: int | None,
    forced: int,
    state: str,
) -> Candidate:
    return Candidate(
        id_,
        job_id,
        version,
        number,
        job,
        _TRIGGERS[trigger],
        from_ms_or_none(scheduled_for),
        from_ms(created_at),
        attempt,
        read_object(params),
        from_ms_or_none(expires_at),
        bool(forced),
        read_object(state),
    )


def claim_runs(db: Database, taken: Sequence[Taken], *, worker_id: str, epoch: int, now: datetime) -> int:
    """Move QUEUED runs into slots: DISPATCHED, or RUNNING at once where nothing stands before their start (R-01).

    Return how many. Where all start at once nobody waits for that: whoever is not in its slot is refused its execution
    (INV-003), and with it the whole claim.
    """
    running, dispatched = (Status.RUNNING, to_ms(now)), (Status.DISPATCHED, None)
    items = [(one.run_id, one.slot, *(running if one.started else dispatched)) for one in taken]
    told = {"runs": write_json(items), "worker_id": worker_id, "epoch": epoch, "now": to_ms(now)}
    if all(one.started for one in taken):
        db.later("run_claim", **told)
        changed = len(taken)
    else:
        changed = db.execute("run_claim", **told)
    count(db, Status.QUEUED, -changed)
    count(db, Status.RUNNING, changed, worker_id=worker_id)
    return changed


def start_run(db: Database, run_id: str, *, epoch: int, now: datetime) -> bool:
    """Move a DISPATCHED run to RUNNING."""
    return db.execute("run_start", id=run_id, epoch=epoch, now=to_ms(now)) == 1


def insert_executions(
    db: Database,
    begun: Sequence[StartedRun],
    *,
    worker_id: str,
    epoch: int,
    process: ProcessIdentity,
    now: datetime,
) -> None:
    """Store the audit records of starts."""
    db.later(
        "execution_insert",
        executions=write_json(begun),
        worker_id=worker_id,
        epoch=epoch,
        boot_id=process.boot_id,
        pid=process.pid,
        pid_start=process.start,
        now=to_ms(now),
    )


def release_run(
    db: Database,
    run_id: str,
    *,
    epoch: int,
    waiting_for: WaitingFor | None = None,
    not_before: datetime | None = None,
    lost: bool = False,
) -> bool:
    """Give a DISPATCHED run back to the queue, waiting where something is named; its pools and budgets are free."""
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
    """Add to what `explain` tells of an unfinished run."""
    row = db.row("run_decisions", id=run_id)
    if row is not None:
        db.execute("run_note", id=run_id, decisions=write_json(merge_objects(read_object(row[0]), decisions)))


def ending_runs(db: Database, run_ids: Sequence[str]) -> dict[str, RunState]:
    """Return, by identifier, those of the runs that are not final."""
    found = db.rows("runs_ending", ids=write_json(run_ids))
    return {run_id: RunState(Status(status), reason_or_none(reason)) for run_id, status, reason in found}


def finish_runs(
    db: Database, ends: Sequence[RunEnd], *, epoch: int | None, sent: Callable[[], None] = lambda: None
) -> list[FinishedRun]:
    """Give runs their final status; return those that were still as expected and ours, with what follows from each.

    `sent` may ask ahead what is looked at next; it is answered as of after the change.
    """
    rows = (_finish_alike if _alike(ends) else _finish_each)(db, ends, epoch=epoch, sent=sent)
    changed = {row[0]: row for row in rows}
    final = [end for end in ends if end.run_id in changed]
    moves = ((end.expected, end.outcome.status, changed[end.run_id][-1]) for end in final)
    for (left, entered, worker_id), alike in groupby(moves):
        number = len(list(alike))
        count(db, left, -number, worker_id=worker_id)
        count(db, entered, number, worker_id=worker_id)
    return [_ended(*changed[end.run_id][:-1], end=end) for end in final]


def _alike(ends: Sequence[RunEnd]) -> bool:
    """Tell whether all end in one way: then only their identifiers are told one by one."""
    _, outcome, expected, at = ends[0]
    return all(end.outcome is outcome and end.expected is expected and end.at == at for end in ends)


def _finish_alike(db: Database, ends: Sequence[RunEnd], *, epoch: int | None, sent: Callable[[], None]) -> list[Row]:
    _, outcome, expected, at = ends[0]
    told = {
        "ids": write_json([end.run_id for end in ends]),
        "status": outcome.status,
        "reason": outcome.reason,
        "error": outcome.error,
        "summary": outcome.summary,
        "finished_at": to_ms(at),
        "expected": expected,
        "epoch": epoch,
    }
    db.ahead("run_finish_alike", **told)
    sent()
    return db.rows("run_finish_alike", **told)


def _finish_each(db: Database, ends: Sequence[RunEnd], *, epoch: int | None, sent: Callable[[], None]) -> list[Row]:
    told = write_json([_ending(end, end.outcome) for end in ends])
    db.ahead("run_finish", runs=told, epoch=epoch)
    sent()
    return db.rows("run_finish", runs=told, epoch=epoch)


def _ending(end: RunEnd, outcome: Outcome) -> tuple[Any, ...]:
    left = (outcome.status, outcome.reason, outcome.error, outcome.summary)
    return (end.run_id, end.expected, to_ms(end.at), *left)


def finish_executions(db: Database, ends: Sequence[RunEnd]) -> None:
    """Close the audit records of runs."""
    if not _alike(ends):
        db.later("execution_finish", executions=write_json([_closing(end, end.outcome) for end in ends]))
        return
    _, finished_at, status, exit_code, error, artifacts = _closing(ends[0], ends[0].outcome)
    db.later(
        "execution_finish_alike",
        run_ids=write_json([end.run_id for end in ends]),
        finished_at=finished_at,
        status=status,
        exit_code=exit_code,
        error=error,
        artifacts=artifacts,
    )


def _closing(end: RunEnd, outcome: Outcome) -> tuple[Any, ...]:
    return (end.run_id, to_ms(end.at), outcome.status, outcome.exit_code, outcome.error, artifacts_of(outcome))


def artifacts_of(outcome: Outcome, *, reason: Reason | None = None) -> str | None:
    """Return the JSON of what a run left; names of files that do not fit are counted, never a cause to fail."""
    told = outcome.output_bytes or outcome.summary or outcome.files or outcome.usage or outcome.denied_tools
    if not (told or outcome.session_id or reason):
        return None
    files = list(outcome.files)
    while True:
        left_out = len(outcome.files) - len(files)
        artifacts = {
            "reason": reason,
            "output_bytes": outcome.output_bytes,
            "summary": outcome.summary,
            "files": files,
            "usage": usage_json(outcome.usage),
            "session_id": outcome.session_id,
            "denied_tools": list(outcome.denied_tools[:DENIED_KEPT]),
        }
        kept = {name: value for name, value in {**artifacts, "files_left_out": left_out}.items() if value}
        text = write_json(kept)
        if not files or len(text.encode()) <= ARTIFACTS_LIMIT:
            return text if kept else None
        files.pop()


def execution_of_run(db: Database, run_id: str) -> Execution | None:
    """Return the execution of a run, None if it never started."""
    found = db.records("execution_by_run", run_id=run_id)
    return execution_of(found[0]) if found else None


def owned_runs(db: Database, epochs: Sequence[int]) -> list[Owned]:
    """Return the dispatched and running runs of these epochs."""
    return [_owned(*row) for row in db.rows("runs_owned", epochs=json.dumps(list(epochs)))]


def _owned(
    id_: str,
    epoch: int,
    status: str,
    job_id: str,
    version: int,
    losses: int,
    cancel_requested_at: int | None,
    cancel_reason: str | None,
    boot_id: str | None,
    pid: int | None,
    pid_start: int | None,
) -> Owned:
    known = boot_id is not None and pid is not None and pid_start is not None
    return Owned(
        id=id_,
        epoch=epoch,
        status=Status(status),
        job_id=job_id,
        version=version,
        losses=losses,
        cancel_reason=None if cancel_requested_at is None or cancel_reason is None else Reason(cancel_reason),
        process=ProcessIdentity(str(boot_id), pid or 0, pid_start or 0) if known else None,
    )


def ask_taken_slots(db: Database, worker_id: str) -> None:
    """Ask `taken_slots` ahead."""
    db.ahead("slots_taken", worker_id=worker_id)


def taken_slots(db: Database, worker_id: str) -> set[int]:
    """Return the slots of a worker that hold something, for whichever of its processes."""
    return {slot for (slot,) in db.rows("slots_taken", worker_id=worker_id)}


def ask_cancel(db: Database, run_id: str, *, reason: Reason, now: datetime) -> bool:
    """Note that a dispatched or running run must stop; the first wish stands."""
    return db.execute("run_ask_cancel", id=run_id, reason=reason, now=to_ms(now)) == 1


def cancelling_runs(db: Database, epoch: int) -> list[tuple[str, Reason]]:
    """Return the runs of an epoch that somebody wants stopped, and why."""
    return [(run_id, Reason(reason)) for run_id, reason in db.rows("runs_cancelling", epoch=epoch)]


def reason_or_none(text: str | None) -> Reason | None:
    """Return the reason of a stored text, None for none."""
    return None if text is None else Reason(text)


def _ended(
    id_: str,
    job_id: str,
    version: int,
    trigger: str,
    scheduled_for: int | None,
    started_at: int | None,
    predecessor_id: str | None,
    lane_id: int,
    attempt: int,
    chain_id: str | None,
    group_id: str | None,
    cancel_reason: str | None,
    *,
    end: RunEnd,
) -> FinishedRun:
    return FinishedRun(
        id_,
        job_id,
        version,
        _TRIGGERS[trigger],
        from_ms_or_none(scheduled_for),
        from_ms_or_none(started_at),
        predecessor_id,
        lane_id,
        attempt,
        chain_id,
        group_id,
        reason_or_none(cancel_reason),
        end.outcome,
        end.at,
    )


SIBLING_GAP = 64
"""Places between runs made at once: 10,000 of them fit into one millisecond, with room for moves between them."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run as it enters the database: queued, skipped from the start (`reason`), or a group's, which `begins` at once.

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


@dataclass(frozen=True, slots=True)
class NewRunVariant:
    """One of many runs made at once: what it does not share with the others. `params` None: the job's."""

    id: str
    params: Mapping[str, Any] | None = None
    scheduled_for: datetime | None = None
    predecessor_id: str | None = None


def insert_run(db: Database, run: NewRun, *, number: int) -> None:
    """Store a newborn run."""
    skipped = run.reason is not None
    status = Status.SKIPPED if skipped else Status.RUNNING if run.begins else Status.QUEUED
    priority = run.job.spec.priority if run.priority is None else run.priority
    db.execute(
        "run_insert",
        id=run.id,
        job_id=run.job.id,
        number=number,
        version=run.job.version,
        trigger=run.trigger,
        slot_key=run.slot_key,
        scheduled_for=to_ms_or_none(run.scheduled_for),
        covers_to=to_ms_or_none(run.covers_to),
        count=run.count,
        status=status,
        reason=run.reason,
        waiting_for=run.waiting_for,
        not_before=to_ms_or_none(run.not_before),
        expires_at=to_ms_or_none(run.expires_at),
        predecessor_id=run.predecessor_id,
        lane_id=NO_POOLS if run.lane_id is None else run.lane_id,
        priority=priority,
        rank=priority if run.rank is None else run.rank,
        position=created_ms(run.id) * POSITION_GAP if run.position is None else run.position,
        params=write_json(run.job.spec.work.params if run.params is None else run.params),
        attempt=run.attempt,
        retry_of=run.retry_of,
        chain_id=run.chain_id,
        group_id=run.group_id,
        place=run.place,
        always=int(run.always),
        forced=int(run.forced),
        created_at=to_ms(run.created_at),
        started_at=to_ms(run.created_at) if run.begins else None,
        finished_at=to_ms(run.created_at) if skipped else None,
        error=run.error,
        decisions=write_json(run.decisions or {}),
    )
    count(db, status, 1)


def insert_runs(db: Database, shared: NewRun, siblings: Sequence[NewRunVariant], *, first: int) -> None:
    """Store many newborn runs of one job by one statement, numbered from `first` on and one behind the other."""
    spec = shared.job.spec
    db.execute(
        "run_insert_many",
        job_id=shared.job.id,
        first=first,
        version=shared.job.version,
        trigger=shared.trigger,
        expires_at=to_ms_or_none(shared.expires_at),
        lane_id=NO_POOLS if shared.lane_id is None else shared.lane_id,
        priority=spec.priority if shared.priority is None else shared.priority,
        rank=spec.priority if shared.rank is None else shared.rank,
        position=created_ms(shared.id) * POSITION_GAP if shared.position is None else shared.position,
        gap=SIBLING_GAP,
        params=write_json(spec.work.params),
        forced=int(shared.forced),
        created_at=to_ms(shared.created_at),
        decisions=write_json(shared.decisions or {}),
        siblings=json.dumps([_sibling(one) for one in siblings], separators=(",", ":"), ensure_ascii=False),
    )
    count(db, Status.QUEUED, len(siblings))


def _sibling(one: NewRunVariant) -> tuple[Any, ...]:
    params = None if one.params is None else write_json(one.params)
    return (one.id, params, to_ms_or_none(one.scheduled_for), one.predecessor_id)
