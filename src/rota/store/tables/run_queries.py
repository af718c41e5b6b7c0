"""Queries over runs: filters, chains, timeline and outputs."""

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from msgspec import Struct

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms
from rota.model.records import Job, Run
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.store.driver import Database
from rota.store.rows import Record, read_object, record_of, records_of, run_of, value_of, write_json
from rota.store.tables.runs import ENDS

if TYPE_CHECKING:
    from rota.rules.admission import PendingRetry

FIRST_ID = ""
LAST_ID = "g"
LAST_NUMBER = 2**62


class Said(Struct, frozen=True):
    """The error and summary of a run."""

    id: str
    number: int
    text: str


class Older(Struct, frozen=True):
    """The runs of a job right before one that ended alike: their number and total usage."""

    runs: int
    times: int
    """The instants or starts that they stand for."""
    oldest: int | None
    usd_told: int
    """The number of runs with known costs."""
    usd: int
    tokens_told: int
    tokens: int
    complete: bool
    """Whether the job has no older run."""


class UnfinishedFilter(Struct, frozen=True):
    """Selects unfinished runs of a job: created at `before` or earlier, of these statuses, waiting for this."""

    before: datetime
    statuses: tuple[Status, ...]
    waiting_for: WaitingFor | None = None


class RunSelection(TypedDict, total=False):
    """Selects runs: created in [since, until).

    A status may have a reason: `FAILED/timed_out`. The next page of a job starts at `before_number`, of all jobs at
    `before_id`.
    """

    job_id: str | None
    job_ids: Sequence[str] | None
    statuses: Sequence[str] | None
    reasons: Sequence[str] | None
    triggers: Sequence[str] | None
    since: datetime | None
    until: datetime | None
    before_id: str
    before_number: int | None


def newest_runs(db: Database, job_id: str, *, limit: int, offset: int = 0) -> list[Run]:
    """Return a job's newest runs, newest first."""
    return [run_of(row) for row in db.records("runs_newest", job_id=job_id, limit=limit, offset=offset)]


class Neighbours(NamedTuple):
    """The numbers of the stored runs of a job before and after a run, None for none."""

    before: int | None
    after: int | None


def neighbours(db: Database, run: Run) -> Neighbours:
    """Return the runs of the same job beside a run."""
    row = db.row("run_neighbours", job_id=run.job_id, number=run.number)
    return Neighbours(None, None) if row is None else record_of(Neighbours, row)


def newest_of_jobs(db: Database, job_ids: Sequence[str], *, limit: int) -> dict[str, list[Run]]:
    """Return the newest runs of these jobs by job, newest first; a job without runs has no entry."""
    return _by_job(db.records("runs_newest_of_jobs", job_ids=write_json(list(job_ids)), limit=limit))


def oldest_unfinished(db: Database, job_ids: Sequence[str]) -> dict[str, list[Run]]:
    """Return the oldest unfinished run of these jobs by job; a job without one has no entry."""
    return _by_job(db.records("runs_oldest_unfinished", job_ids=write_json(list(job_ids))))


def _by_job(rows: Iterable[Record]) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {}
    for row in rows:
        runs.setdefault(row["job_id"], []).append(run_of(row))
    return runs


def unfinished_runs(db: Database, job_id: str) -> list[Run]:
    """Return a job's unfinished runs, oldest first."""
    db.defer("runs_lock", job_id=job_id)
    return [run_of(row) for row in db.records("runs_unfinished", job_id=job_id)]


def some_unfinished_runs(db: Database, job_id: str, *, limit: int) -> list[Run]:
    """Return the started runs of a job and the `limit` oldest of its unfinished runs, oldest first."""
    return [run_of(row) for row in db.records("runs_unfinished_some", job_id=job_id, limit=limit)]


def pending_retries(db: Database, job: Job) -> "list[PendingRetry]":
    """Return the retries of a job in backoff that belong to no group, oldest first."""
    from rota.rules.admission import PendingRetry

    rows = db.rows("runs_in_backoff", job_id=job.id)
    return [
        PendingRetry(id_, f"{job.name}:{number}", read_object(params), chain) for id_, number, params, chain in rows
    ]


def running_runs(db: Database) -> list[Run]:
    """Return the dispatched and running runs of all jobs, oldest first."""
    return [run_of(row) for row in db.records("runs_running")]


def all_unfinished_runs(db: Database, *, limit: int) -> list[Run]:
    """Return unfinished runs of all jobs in queue order."""
    return [run_of(row) for row in db.records("runs_of_all_unfinished", limit=limit)]


def history(db: Database, *, limit: int, **chosen: Unpack[RunSelection]) -> list[Run]:
    """Return runs, newest first."""
    params = parameters(chosen) | {"limit": limit}
    rows = db.records("runs_history_of_job", **params) if "job_id" in params else db.records("runs_history", **params)
    return [run_of(row) for row in rows]


def alike_before(db: Database, run: Run, **chosen: Unpack[RunSelection]) -> Older:
    """Return the runs of a job before one that ended alike, back to the first that did not."""
    params = parameters({**chosen, "job_id": run.job_id, "before_number": run.number})
    unlike = db.row("run_unlike", status=run.status.shown, reason=run.reason, denied=len(run.denied_tools), **params)
    row = db.row("runs_total", above=-1 if unlike is None else unlike[0], **params)
    assert row is not None
    return record_of(Older, row, unlike is None)


def parameters(chosen: RunSelection) -> dict[str, Any]:
    """Return the parameters of the queries over the runs of a job or of all jobs."""
    since, until, before_id = chosen.get("since"), chosen.get("until"), chosen.get("before_id")
    until_id = LAST_ID if until is None else id_at(until)
    filters: dict[str, Any] = {
        "since_id": FIRST_ID if since is None else id_at(since),
        "until_id": min(until_id, before_id) if before_id else until_id,
        "statuses": _json_or_none(chosen.get("statuses")),
        "reasons": _json_or_none(chosen.get("reasons")),
        "triggers": _json_or_none(chosen.get("triggers")),
    }
    if chosen.get("job_id"):
        below = chosen.get("before_number")
        return {**filters, "job_id": chosen["job_id"], "below": LAST_NUMBER if below is None else below}
    return {**filters, "job_ids": _json_or_none(chosen.get("job_ids"))}


def id_at(at: datetime) -> str:
    """Return a text below all identifiers created at `at` or later: a UUIDv7 starts with its milliseconds."""
    digits = f"{to_ms(at):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def _json_or_none(values: Sequence[str] | None) -> str | None:
    return None if values is None else write_json(list(values))


def said(db: Database, *, limit: int, **chosen: Unpack[RunSelection]) -> list[Said]:
    """Return the errors and summaries of runs, newest first: whole runs cost several times as much to read."""
    params = parameters(chosen) | {"limit": limit}
    rows = db.rows("runs_said_of_job", **params) if "job_id" in params else db.rows("runs_said", **params)
    return [Said(run_id, number, f"{error or ''}\n{summary or ''}") for run_id, number, error, summary in rows]


def matching(db: Database, job_id: str, wish: UnfinishedFilter, *, below: str, limit: int) -> dict[str, Status]:
    """Return the status of a job's selected unfinished runs by identifier, newest first, starting below one."""
    rows = db.rows("runs_matching", job_id=job_id, below=below, limit=limit, **_selected(wish))
    return {run_id: Status(status) for run_id, status in rows}


def count_matching(db: Database, job_id: str, wish: UnfinishedFilter) -> tuple[int, int]:
    """Return the number of selected queued runs and of selected started runs of a job."""
    row = db.row("runs_matching_count", job_id=job_id, **_selected(wish))
    assert row is not None
    return row[0], row[1]


def _selected(wish: UnfinishedFilter) -> dict[str, Any]:
    statuses = write_json(wish.statuses)
    return {"before": to_ms(wish.before), "statuses": statuses, "waiting_for": wish.waiting_for}


def backfilled(db: Database, job_id: str, *, since: datetime, until: datetime) -> set[datetime]:
    """Return the instants in [since, until) that have a run of a backfill."""
    rows = db.rows("runs_backfilled", job_id=job_id, since=to_ms(since), until=to_ms(until))
    return {from_ms(at) for (at,) in rows}


def fired(db: Database, job_id: str, instants: Sequence[datetime]) -> set[datetime]:
    """Return those of these instants of a cron, at or fixed schedule that ran."""
    keys = write_json([str(to_ms(at)) for at in instants])
    return {from_ms(at) for (at,) in db.rows("runs_fired", job_id=job_id, keys=keys)}


def last_backfill(db: Database, job_id: str) -> str | None:
    """Return the newest unfinished backfill run of the job, None for none."""
    run_id: str | None = value_of(db, "run_last_backfill", job_id=job_id)
    return run_id


def durations(db: Database, job_id: str, *, limit: int) -> list[timedelta]:
    """Return the durations of the job's newest runs."""
    return [took * MILLISECOND for (took,) in db.rows("runs_durations", job_id=job_id, limit=limit)]


def executed_spans(
    db: Database, job_id: str, *, since: datetime, until: datetime, grouped: bool = False
) -> list[tuple[datetime, datetime | None, str]]:
    """Return start, end and run of the job's executions that overlap a time."""
    groups = db.rows("groups_within", job_id=job_id, since=to_ms(since), until=to_ms(until)) if grouped else []
    within = db.rows("executions_within", job_id=job_id, since=to_ms(since), until=to_ms(until))
    return [(from_ms(start), from_ms_or_none(end), handle) for start, end, handle in [*groups, *within]]


def executed_since(db: Database, job_id: str, since: datetime) -> list[tuple[datetime, datetime | None, str]]:
    """Return start, end and name of the job's runs and direct calls that had not ended before an instant."""
    rows = db.rows("executions_ended_since", job_id=job_id, since=to_ms(since))
    return [(from_ms(start), from_ms_or_none(end), name) for start, end, name in rows]


class Chain(NamedTuple):
    """The trigger of a run with its retries, and the first start among them."""

    trigger: Trigger
    first_started_at: datetime | None


class WaitingSuccessor(Struct, frozen=True):
    """A queued run that waits for its predecessor."""

    id: str
    job_id: str
    version: int
    trigger: Trigger


def followers(db: Database, run_id: str) -> list[WaitingSuccessor]:
    """Return the queued runs that wait for this predecessor, oldest first, without members of groups."""
    return records_of(WaitingSuccessor, db.rows("runs_following", id=run_id))


def last_ahead(db: Database, run_id: str) -> str | None:
    """Return the newest of the job's unfinished runs older than this one, None for none."""
    last: str | None = value_of(db, "run_last_ahead", id=run_id)
    return last


def replacing_runs(db: Database, job_id: str) -> list[str]:
    """Return the job's queued runs that wait for the end of the runs they replace, oldest first."""
    return [run_id for (run_id,) in db.rows("runs_replacing", job_id=job_id)]


def relink_followers(db: Database, run_id: str, successor_id: str) -> None:
    """Make the followers of a run wait for another one."""
    db.execute("runs_relink_followers", id=run_id, successor_id=successor_id)


def chain_of(db: Database, chain_id: str) -> Chain:
    """Return the start of a chain; its first run exists as long as the chain is not final."""
    row = db.row("chain_begun", id=chain_id)
    assert row is not None
    return record_of(Chain, row)


def chain_runs(db: Database, chain_id: str) -> list[Run]:
    """Return the runs of a chain, the first one first."""
    return [run_of(row) for row in db.records("runs_of_chain", id=chain_id)]


def retry_of(db: Database, run_id: str) -> Run | None:
    """Return the automatic retry of a run, None for none."""
    return next(map(run_of, db.records("run_retried_as", id=run_id)), None)


def scheduled_chain_unfinished(db: Database, job_id: str) -> bool:
    """Return whether the job has a scheduled chain that is not final."""
    return db.row("chain_scheduled_unfinished", job_id=job_id) is not None


def unfinished_before(db: Database, job_id: str, run_id: str) -> bool:
    """Return whether the job has an unfinished run older than this one."""
    return db.row("run_unfinished_before", job_id=job_id, id=run_id) is not None


def is_unfinished(db: Database, run_id: str) -> bool:
    """Return whether a run exists and is not final."""
    return db.row("run_is_unfinished", id=run_id) is not None


def relink(db: Database, run_id: str, predecessor_id: str) -> None:
    """Make a waiting run wait for another predecessor."""
    db.execute("run_relink", id=run_id, predecessor_id=predecessor_id)


def release(db: Database, run_id: str) -> bool:
    """Make a waiting run claimable; return False for the run of a group, which starts instead."""
    return db.execute("run_let_go", id=run_id) == 1


def release_due(db: Database, now: datetime) -> int:
    """Make the runs claimable whose waiting time is over; return the number."""
    return db.execute("runs_let_go", now=to_ms(now))


class Drawn(Struct, frozen=True):
    """A run in the timeline."""

    number: int
    status: Status
    reason: Reason | None
    count: int | None
    scheduled_for: datetime | None
    covers_to: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class EndCount(Struct, frozen=True):
    """The number of runs of a job that ended alike within one part of a timeline, and their first and last end."""

    count: int
    since: datetime
    until: datetime


def newest_run_of_jobs(db: Database) -> dict[str, datetime]:
    """Return the creation of the newest run of each job by job; a job without runs has no entry."""
    return {job_id: from_ms(at) for job_id, at in db.rows("jobs_newest_run") if at is not None}


def striking_jobs(db: Database, *, newest: int) -> set[str]:
    """Return the jobs with a failed, missed or expired run or a failed condition among their newest runs."""
    return {job_id for (job_id,) in db.rows("jobs_striking", newest=newest)}


def drawn_runs(db: Database, job_id: str, *, limit: int) -> list[Drawn]:
    """Return the newest runs of a job, newest first."""
    return records_of(Drawn, db.rows("timeline_runs", job_id=job_id, limit=limit))


def ended_runs(
    db: Database, job_id: str, status: Status, *, since: datetime, width: timedelta, limit: int
) -> list[EndCount]:
    """Return the number of the job's newest runs with this status in each part of a timeline."""
    rows = db.rows(
        "timeline_counts",
        job_id=job_id,
        status=ENDS[status],
        since=to_ms(since),
        width=width // MILLISECOND,
        limit=limit,
    )
    return [EndCount(count, from_ms(first), from_ms(last)) for _, count, first, last in rows]


class Shared(Struct, frozen=True):
    """A piece of a run's output and its offset."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset of the next piece, if none was left out."""
        return self.offset + len(self.data)


def save(db: Database, run_id: str, pieces: Sequence[Shared], *, now: datetime) -> None:
    """Store pieces; an existing piece stays."""
    for piece in pieces:
        text = b2a_base64(piece.data, newline=False).decode("ascii")
        db.execute("output_save", run_id=run_id, part=piece.offset, text=text, now=to_ms(now))


def read(db: Database, run_id: str, *, after: int, limit: int) -> list[Shared]:
    """Return the pieces from an offset on, in order."""
    rows = db.rows("output_read", run_id=run_id, after=after, limit=limit)
    return [Shared(part, a2b_base64(text)) for part, text in rows]


def end(db: Database, run_id: str) -> int:
    """Return the end of the stored output of a run."""
    row = db.row("output_last", run_id=run_id)
    return 0 if row is None else Shared(row[0], a2b_base64(row[1])).end


def forget_runs(db: Database, run_ids: Sequence[str]) -> None:
    """Delete the output and the results of pruned runs."""
    db.execute("output_forget", ids=json.dumps(list(run_ids)))
    db.execute("result_forget", ids=json.dumps(list(run_ids)))


def save_result(db: Database, run_id: str, text: str, *, now: datetime) -> None:
    """Store the whole answer of a run."""
    db.execute("result_save", run_id=run_id, text=text, now=to_ms(now))


def result_of(db: Database, run: Run) -> str | None:
    """Return the whole answer of a run: its stored result, else its summary."""
    row = db.row("result_of_run", run_id=run.id)
    return run.result_summary if row is None else str(row[0])


def result_of_job(db: Database, name: str, *, group_id: str | None) -> str | None:
    """Return the answer of the newest completed run of a job, in this group if it has one; None without any."""
    member = None if group_id is None else db.row("result_of_member", name=name, group_id=group_id)
    row = member or db.row("result_of_job", name=name)
    return None if row is None else row[0]


def old_results(db: Database, before: datetime) -> bool:
    """Return whether there are results from before an instant."""
    return db.row("result_old", before=to_ms(before)) is not None


def prune_results(db: Database, before: datetime, *, job_ids: Sequence[str], limit: int) -> int:
    """Delete results of these jobs from before an instant; return the number."""
    return db.execute("result_prune", before=to_ms(before), jobs=json.dumps(list(job_ids)), limit=limit)


def old(db: Database, before: datetime) -> bool:
    """Return whether there are pieces from before an instant."""
    return db.row("output_old", before=to_ms(before)) is not None


def prune(db: Database, before: datetime, *, limit: int) -> int:
    """Delete pieces from before an instant; return the number."""
    return db.execute("output_prune", before=to_ms(before), limit=limit)
