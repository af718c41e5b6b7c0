"""Runs and executions. A write names the status and epoch it leaves; no row changed: somebody else acted first."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.clock import from_ms, from_ms_or_none, to_ms, to_ms_or_none
from rota.model.ids import created_ms
from rota.model.records import ARTIFACTS_LIMIT, Execution, Job, Outcome, ProcessIdentity, Run
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.lanes import NO_POOLS
from rota.rules.order import POSITION_GAP
from rota.store import queue
from rota.store.driver import Database
from rota.store.rows import execution_of, read_object, run_of, write_json

SIBLING_GAP = 64
"""Places between runs made at once: 10,000 of them fit into one millisecond, with room for moves between them."""
FIRST_ID = ""
LAST_ID = "g"


@dataclass(frozen=True, slots=True)
class Newborn:
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
class Sibling:
    """One of many runs made at once: what it does not share with the others. `params` None: the job's."""

    id: str
    params: Mapping[str, Any] | None = None
    scheduled_for: datetime | None = None
    predecessor_id: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
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
    rank: int = 0
    position: int = 0

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


@dataclass(frozen=True, slots=True)
class Taken:
    """A run on its way into a slot. `started`: nothing stands before its start (R-01)."""

    run_id: str
    slot: int
    started: bool


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that starts, with the identifier of its execution."""

    execution_id: str
    run_id: str
    job_id: str
    slot: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands that is about to end, and why somebody asked for that, if so."""

    status: Status
    cancel_reason: Reason | None


@dataclass(frozen=True, slots=True)
class End:
    """How and when a run ends, and the status that it leaves."""

    run_id: str
    outcome: Outcome
    expected: Status
    at: datetime


@dataclass(frozen=True, slots=True)
class Ended:
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


@dataclass(frozen=True, slots=True)
class Chain:
    """What a run and its retries began with: the door it came through, and the first start of them all."""

    trigger: Trigger
    first_started_at: datetime | None


def insert_run(db: Database, run: Newborn, *, number: int) -> None:
    """Store a newborn run."""
    skipped = run.reason is not None
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
        status=Status.SKIPPED if skipped else Status.RUNNING if run.begins else Status.QUEUED,
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


def insert_runs(db: Database, shared: Newborn, siblings: Sequence[Sibling], *, first: int) -> None:
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


def _sibling(one: Sibling) -> tuple[Any, ...]:
    params = None if one.params is None else write_json(one.params)
    return (one.id, params, to_ms_or_none(one.scheduled_for), one.predecessor_id)


def run_by_id(db: Database, run_id: str) -> Run | None:
    """Return the run with this identifier, None for none."""
    found = db.records("run_by_id", id=run_id)
    return run_of(found[0]) if found else None


def run_by_number(db: Database, job_id: str, number: int) -> Run | None:
    """Return a job's run of this number, None for none."""
    found = db.records("run_by_number", job_id=job_id, number=number)
    return run_of(found[0]) if found else None


def newest_runs(db: Database, job_id: str, *, limit: int, offset: int = 0) -> list[Run]:
    """Return a job's newest runs, newest first."""
    return [run_of(row) for row in db.records("runs_newest", job_id=job_id, limit=limit, offset=offset)]


def unfinished_runs(db: Database, job_id: str) -> list[Run]:
    """Return a job's unfinished runs, oldest first."""
    return [run_of(row) for row in db.records("runs_unfinished", job_id=job_id)]


def some_unfinished_runs(db: Database, job_id: str, *, limit: int) -> list[Run]:
    """Return what runs of a job and the `limit` oldest of its unfinished runs, oldest first."""
    return [run_of(row) for row in db.records("runs_unfinished_some", job_id=job_id, limit=limit)]


def running_runs(db: Database) -> list[Run]:
    """Return the runs of all jobs that are dispatched or running, oldest first."""
    return [run_of(row) for row in db.records("runs_running")]


def all_unfinished_runs(db: Database, *, limit: int) -> list[Run]:
    """Return unfinished runs of all jobs in the order of the queue."""
    return [run_of(row) for row in db.records("runs_of_all_unfinished", limit=limit)]


def history(
    db: Database,
    *,
    job_id: str | None = None,
    job_ids: Sequence[str] | None = None,
    statuses: Sequence[str] | None = None,
    reasons: Sequence[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int,
) -> list[Run]:
    """Return runs made in [since, until), newest first."""
    filters: dict[str, Any] = {
        "since_id": FIRST_ID if since is None else id_at(since),
        "until_id": LAST_ID if until is None else id_at(until),
        "statuses": _json_or_none(statuses),
        "reasons": _json_or_none(reasons),
        "limit": limit,
    }
    if job_id is not None:
        return [run_of(row) for row in db.records("runs_history_of_job", job_id=job_id, **filters)]
    return [run_of(row) for row in db.records("runs_history", job_ids=_json_or_none(job_ids), **filters)]


def id_at(at: datetime) -> str:
    """Return the text below all identifiers made at `at` or later: UUIDv7 begin with their milliseconds."""
    digits = f"{to_ms(at):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def _json_or_none(values: Sequence[str] | None) -> str | None:
    return None if values is None else json.dumps(list(values))


def candidates(db: Database, *, free: int, lane_id: int = NO_POOLS) -> list[Candidate]:
    """Return up to `free` runs of a lane that may be claimed, in the order of INV-004."""
    return [_candidate(*row) for row in db.rows("run_candidates", lane_id=lane_id, free=free)]


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
    rank: int,
    position: int,
) -> Candidate:
    return Candidate(
        id=id_,
        job_id=job_id,
        version=version,
        number=number,
        job=job,
        trigger=Trigger(trigger),
        scheduled_for=from_ms_or_none(scheduled_for),
        created_at=from_ms(created_at),
        attempt=attempt,
        params=read_object(params),
        expires_at=from_ms_or_none(expires_at),
        forced=bool(forced),
        state=read_object(state),
        rank=rank,
        position=position,
    )


def claim_runs(db: Database, taken: Sequence[Taken], *, worker_id: str, epoch: int, now: datetime) -> int:
    """Move QUEUED runs into slots: DISPATCHED, or RUNNING at once where nothing stands before their start (R-01)."""
    running, dispatched = (Status.RUNNING, to_ms(now)), (Status.DISPATCHED, None)
    items = [(one.run_id, one.slot, *(running if one.started else dispatched)) for one in taken]
    return db.execute("run_claim", runs=write_json(items), worker_id=worker_id, epoch=epoch, now=to_ms(now))


def start_run(db: Database, run_id: str, *, epoch: int, now: datetime) -> bool:
    """Move a DISPATCHED run to RUNNING."""
    return db.execute("run_start", id=run_id, epoch=epoch, now=to_ms(now)) == 1


def insert_executions(
    db: Database,
    begun: Sequence[Begun],
    *,
    worker_id: str,
    epoch: int,
    process: ProcessIdentity,
    now: datetime,
) -> None:
    """Store the audit records of starts."""
    db.execute(
        "execution_insert",
        executions=write_json([(one.execution_id, one.run_id, one.job_id, one.slot) for one in begun]),
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
    """Give a DISPATCHED run back to the queue, waiting where something is named, and its pools with it."""
    released = db.rows(
        "run_release",
        id=run_id,
        epoch=epoch,
        waiting_for=waiting_for,
        not_before=to_ms_or_none(not_before),
        lost=int(lost),
    )
    queue.give_back(db, [lane_id for (lane_id,) in released])
    return len(released) == 1


def note_decisions(db: Database, run_id: str, decisions: Mapping[str, Any]) -> None:
    """Add to what `explain` tells of an unfinished run."""
    db.execute("run_note", id=run_id, decisions=write_json(decisions))


def ending_runs(db: Database, run_ids: Sequence[str]) -> dict[str, Standing]:
    """Return, by identifier, those of the runs that are not final."""
    found = db.rows("runs_ending", ids=write_json(run_ids))
    return {run_id: Standing(Status(status), reason_or_none(reason)) for run_id, status, reason in found}


def finish_runs(db: Database, ends: Sequence[End], *, epoch: int | None) -> list[Ended]:
    """Give runs their final status; return those that were still as expected and ours, with what follows from each."""
    rows = db.rows("run_finish", runs=write_json([_ending(end, end.outcome) for end in ends]), epoch=epoch)
    changed = {row[0]: row for row in rows}
    return [_ended(*changed[end.run_id], end=end) for end in ends if end.run_id in changed]


def _ending(end: End, outcome: Outcome) -> tuple[Any, ...]:
    left = (outcome.status, outcome.reason, outcome.error, outcome.summary)
    return (end.run_id, end.expected, to_ms(end.at), *left)


def finish_executions(db: Database, ends: Sequence[End]) -> None:
    """Close the audit records of runs."""
    db.execute("execution_finish", executions=write_json([_closing(end, end.outcome) for end in ends]))


def _closing(end: End, outcome: Outcome) -> tuple[Any, ...]:
    return (end.run_id, to_ms(end.at), outcome.status, outcome.exit_code, outcome.error, artifacts_of(outcome))


def artifacts_of(outcome: Outcome, *, reason: Reason | None = None) -> str | None:
    """Return the JSON of what a run left; names of files that do not fit are counted, never a cause to fail."""
    if not (outcome.output_bytes or outcome.summary or outcome.files or reason):
        return None
    files = list(outcome.files)
    while True:
        left_out = len(outcome.files) - len(files)
        artifacts = {
            "reason": reason,
            "output_bytes": outcome.output_bytes,
            "summary": outcome.summary,
            "files": files,
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


def taken_slots(db: Database, worker_id: str) -> set[int]:
    """Return the slots of a worker that hold a run."""
    return {slot for (slot,) in db.rows("runs_in_slots", worker_id=worker_id)}


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
    end: End,
) -> Ended:
    return Ended(
        id=id_,
        job_id=job_id,
        version=version,
        trigger=Trigger(trigger),
        scheduled_for=from_ms_or_none(scheduled_for),
        started_at=from_ms_or_none(started_at),
        predecessor_id=predecessor_id,
        lane_id=lane_id,
        attempt=attempt,
        chain_id=chain_id,
        group_id=group_id,
        cancel_reason=reason_or_none(cancel_reason),
        outcome=end.outcome,
        finished_at=end.at,
    )


def followers(db: Database, run_id: str) -> list[str]:
    """Return the queued runs that wait for this one as their predecessor, oldest first; members of groups left out."""
    return [follower for (follower,) in db.rows("runs_following", id=run_id)]


def replacing_runs(db: Database, job_id: str) -> list[str]:
    """Return the job's queued runs that wait until those they replace are gone, oldest first."""
    return [run_id for (run_id,) in db.rows("runs_replacing", job_id=job_id)]


def relink_followers(db: Database, run_id: str, successor_id: str) -> None:
    """Let those who wait for a run wait for another one."""
    db.execute("runs_relink_followers", id=run_id, successor_id=successor_id)


def chain_of(db: Database, chain_id: str) -> Chain:
    """Return what a chain began with; its first run is there as long as the chain is not final."""
    row = db.row("chain_begun", id=chain_id)
    assert row is not None
    return Chain(Trigger(row[0]), from_ms_or_none(row[1]))


def chain_runs(db: Database, chain_id: str) -> list[Run]:
    """Return the runs of a chain, the first one first."""
    return [run_of(row) for row in db.records("runs_of_chain", id=chain_id)]


def retry_of(db: Database, run_id: str) -> Run | None:
    """Return the automatic retry of a run, None for none."""
    found = db.records("run_retried_as", id=run_id)
    return run_of(found[0]) if found else None


def scheduled_chain_unfinished(db: Database, job_id: str) -> bool:
    """Tell whether a chain that the schedule began is not final."""
    return db.row("chain_scheduled_unfinished", job_id=job_id) is not None


def unfinished_before(db: Database, job_id: str, run_id: str) -> bool:
    """Tell whether the job has an unfinished run older than this one."""
    return db.row("run_unfinished_before", job_id=job_id, id=run_id) is not None


def is_unfinished(db: Database, run_id: str) -> bool:
    """Tell whether a run is there and not final."""
    return db.row("run_is_unfinished", id=run_id) is not None


def relink(db: Database, run_id: str, predecessor_id: str) -> None:
    """Let a waiting run wait for another predecessor."""
    db.execute("run_relink", id=run_id, predecessor_id=predecessor_id)


def let_go(db: Database, run_id: str) -> bool:
    """Make a waiting run claimable; tell whether it is: that of a group begins instead."""
    return db.execute("run_let_go", id=run_id) == 1


def let_go_due(db: Database, now: datetime) -> int:
    """Make runs claimable whose waiting time is over; return how many."""
    return db.execute("runs_let_go", now=to_ms(now))


def executed_spans(
    db: Database, job_id: str, *, since: datetime, until: datetime, grouped: bool = False, before: int = 64
) -> list[tuple[datetime, datetime | None, str]]:
    """Return start, end and run of the job's executions within a time, and of those that reach into it."""
    groups = db.rows("groups_within", job_id=job_id, since=to_ms(since), until=to_ms(until)) if grouped else []
    earlier = db.rows("executions_before", job_id=job_id, since=to_ms(since), limit=before)
    within = db.rows("executions_within", job_id=job_id, since=to_ms(since), until=to_ms(until))
    kept = [row for row in reversed(earlier) if row[1] is None or row[1] > to_ms(since)]
    return [(from_ms(start), from_ms_or_none(end), handle) for start, end, handle in [*groups, *kept, *within]]
