"""Queries over runs: filters, chains, timeline and outputs."""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypedDict, Unpack

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms
from rota.model.records import Job, Run
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.admission import PendingRetry
from rota.store.driver import Database
from rota.store.rows import Record, read_object, run_of, write_json
from rota.store.tables.runs import reason_or_none

FIRST_ID = ""
LAST_ID = "g"
LAST_NUMBER = 2**62


@dataclass(frozen=True, slots=True)
class Matching:
    """An unfinished run that a filter names."""

    id: str
    status: Status


@dataclass(frozen=True, slots=True)
class Said:
    """What a run says about itself, and which it is."""

    id: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Older:
    """The runs of a job right before one, as far as they ended like it: how many, and what they used together."""

    runs: int
    times: int
    """How many instants or starts they stand for."""
    oldest: int | None
    """The number of the oldest of them."""
    usd_told: int
    """How many of them tell what they cost."""
    usd: int
    tokens_told: int
    tokens: int
    complete: bool
    """Whether no further run of the job is older."""


@dataclass(frozen=True, slots=True)
class UnfinishedFilter:
    """Which unfinished runs of a job are meant: made at `before` or earlier, of these statuses, waiting for this."""

    before: datetime
    statuses: tuple[Status, ...]
    waiting_for: WaitingFor | None = None


class RunSelection(TypedDict, total=False):
    """Which past and present runs are meant: made in [since, until).

    A status may have a reason: `FAILED/timed_out`.

    A page goes on `before_number` where it is that of a job, else `before_id`.
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


def newest_of_jobs(db: Database, job_ids: Sequence[str], *, limit: int) -> dict[str, list[Run]]:
    """Return, by job, the newest runs of each of these jobs, newest first; a job without runs is not there."""
    return _by_job(db.records("runs_newest_of_jobs", job_ids=write_json(list(job_ids)), limit=limit))


def oldest_unfinished(db: Database, job_ids: Sequence[str]) -> dict[str, list[Run]]:
    """Return, by job, the oldest unfinished run of each of these jobs that has one."""
    return _by_job(db.records("runs_oldest_unfinished", job_ids=write_json(list(job_ids))))


def _by_job(rows: Iterable[Record]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for row in rows:
        found.setdefault(row["job_id"], []).append(run_of(row))
    return found


def unfinished_runs(db: Database, job_id: str) -> list[Run]:
    """Return a job's unfinished runs, oldest first."""
    return [run_of(row) for row in db.records("runs_unfinished", job_id=job_id)]


def some_unfinished_runs(db: Database, job_id: str, *, limit: int) -> list[Run]:
    """Return what runs of a job and the `limit` oldest of its unfinished runs, oldest first."""
    return [run_of(row) for row in db.records("runs_unfinished_some", job_id=job_id, limit=limit)]


def pending_retries(db: Database, job: Job) -> list[PendingRetry]:
    """Return the retries of a job that wait for their backoff and belong to no group, oldest first."""
    found = db.rows("runs_in_backoff", job_id=job.id)
    return [
        PendingRetry(one, f"{job.name}:{number}", read_object(params), chain) for one, number, params, chain in found
    ]


def running_runs(db: Database) -> list[Run]:
    """Return the runs of all jobs that are dispatched or running, oldest first."""
    return [run_of(row) for row in db.records("runs_running")]


def all_unfinished_runs(db: Database, *, limit: int) -> list[Run]:
    """Return unfinished runs of all jobs in the order of the queue."""
    return [run_of(row) for row in db.records("runs_of_all_unfinished", limit=limit)]


def history(db: Database, *, limit: int, **chosen: Unpack[RunSelection]) -> list[Run]:
    """Return runs, newest first."""
    given = parameters(chosen) | {"limit": limit}
    found = db.records("runs_history_of_job", **given) if "job_id" in given else db.records("runs_history", **given)
    return [run_of(row) for row in found]


def alike_before(db: Database, run: Run, **chosen: Unpack[RunSelection]) -> Older:
    """Return the runs of a job that came before one and ended like it, back to the first that did not."""
    given = parameters({**chosen, "job_id": run.job_id, "before_number": run.number})
    unlike = db.row("run_unlike", status=run.status.shown, reason=run.reason, denied=len(run.denied_tools), **given)
    row = db.row("runs_total", above=-1 if unlike is None else unlike[0], **given)
    assert row is not None
    runs, times, oldest, usd_told, usd, tokens_told, tokens = row
    return Older(runs, times, oldest, usd_told, usd, tokens_told, tokens, complete=unlike is None)


def parameters(chosen: RunSelection) -> dict[str, Any]:
    """Return the parameters of the statements that read the runs of a job, else of all, newest first."""
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
    """Return the text below all identifiers made at `at` or later: UUIDv7 begin with their milliseconds."""
    digits = f"{to_ms(at):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def _json_or_none(values: Sequence[str] | None) -> str | None:
    return None if values is None else write_json(list(values))


def said(db: Database, *, limit: int, **chosen: Unpack[RunSelection]) -> list[Said]:
    """Return the errors and summaries of runs, newest first: whole runs cost several times as much to read."""
    given = parameters(chosen) | {"limit": limit}
    rows = db.rows("runs_said_of_job", **given) if "job_id" in given else db.rows("runs_said", **given)
    return [Said(run_id, number, f"{error or ''}\n{summary or ''}") for run_id, number, error, summary in rows]


def matching(db: Database, job_id: str, wish: UnfinishedFilter, *, below: str, limit: int) -> list[Matching]:
    """Return a job's unfinished runs that are meant, newest first, from one on."""
    rows = db.rows(
        "runs_matching",
        job_id=job_id,
        below=below,
        before=to_ms(wish.before),
        statuses=write_json(wish.statuses),
        waiting_for=wish.waiting_for,
        limit=limit,
    )
    return [Matching(run_id, Status(status)) for run_id, status in rows]


def count_matching(db: Database, job_id: str, wish: UnfinishedFilter) -> tuple[int, int]:
    """Return how many queued and how many started runs of a job are meant."""
    row = db.row(
        "runs_matching_count",
        job_id=job_id,
        before=to_ms(wish.before),
        statuses=write_json(wish.statuses),
        waiting_for=wish.waiting_for,
    )
    assert row is not None
    return row[0], row[1]


def backfilled(db: Database, job_id: str, *, since: datetime, until: datetime) -> set[datetime]:
    """Return the instants in [since, until) that a backfill has made runs for."""
    rows = db.rows("runs_backfilled", job_id=job_id, since=to_ms(since), until=to_ms(until))
    return {from_ms(at) for (at,) in rows}


def fired(db: Database, job_id: str, instants: Sequence[datetime]) -> set[datetime]:
    """Return which of these instants of a cron, at or fixed schedule really ran."""
    keys = write_json([str(to_ms(at)) for at in instants])
    return {from_ms(at) for (at,) in db.rows("runs_fired", job_id=job_id, keys=keys)}


def last_backfill(db: Database, job_id: str) -> str | None:
    """Return the newest unfinished run that a backfill of the job has made, None for none."""
    row = db.row("run_last_backfill", job_id=job_id)
    return None if row is None else str(row[0])


def durations(db: Database, job_id: str, *, limit: int) -> list[timedelta]:
    """Return how long the job's newest runs took."""
    return [took * MILLISECOND for (took,) in db.rows("runs_durations", job_id=job_id, limit=limit)]


def executed_spans(
    db: Database, job_id: str, *, since: datetime, until: datetime, grouped: bool = False, before: int = 64
) -> list[tuple[datetime, datetime | None, str]]:
    """Return start, end and run of the job's executions within a time, and of those that reach into it."""
    groups = db.rows("groups_within", job_id=job_id, since=to_ms(since), until=to_ms(until)) if grouped else []
    earlier = db.rows("executions_before", job_id=job_id, since=to_ms(since), limit=before)
    within = db.rows("executions_within", job_id=job_id, since=to_ms(since), until=to_ms(until))
    kept = [row for row in reversed(earlier) if row[1] is None or row[1] > to_ms(since)]
    return [(from_ms(start), from_ms_or_none(end), handle) for start, end, handle in [*groups, *kept, *within]]


def executed_since(db: Database, job_id: str, since: datetime) -> list[tuple[datetime, datetime | None, str]]:
    """Return start, end and name of the job's runs and direct calls that had not ended before an instant."""
    rows = db.rows("executions_ended_since", job_id=job_id, since=to_ms(since))
    return [(from_ms(start), from_ms_or_none(end), name) for start, end, name in rows]


class Chain(NamedTuple):
    """What a run and its retries began with: the door it came through, and the first start of them all."""

    trigger: Trigger
    first_started_at: datetime | None


@dataclass(frozen=True, slots=True)
class WaitingSuccessor:
    """A queued run that waits for its predecessor."""

    id: str
    job_id: str
    version: int
    trigger: Trigger


def followers(db: Database, run_id: str) -> list[WaitingSuccessor]:
    """Return the queued runs that wait for this one as their predecessor, oldest first; members of groups left out."""
    return [
        WaitingSuccessor(follower, job_id, version, Trigger(trigger))
        for follower, job_id, version, trigger in db.rows("runs_following", id=run_id)
    ]


def last_ahead(db: Database, run_id: str) -> str | None:
    """Return the last of the job's unfinished runs that came before this one, None where it is the first in line."""
    row = db.row("run_last_ahead", id=run_id)
    return row[0] if row else None


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


@dataclass(frozen=True, slots=True)
class Drawn:
    """A run, as far as it is drawn."""

    number: int
    status: Status
    reason: Reason | None
    count: int | None
    scheduled_for: datetime | None
    covers_to: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class EndCount:
    """How many runs of a job ended alike within a small part of a timeline, from the first to the last."""

    count: int
    since: datetime
    until: datetime


def newest_run_of_jobs(db: Database) -> dict[str, datetime]:
    """Return when the newest run of each job was made, by job; those without runs are not there."""
    return {job_id: from_ms(at) for job_id, at in db.rows("jobs_newest_run") if at is not None}


def striking_jobs(db: Database, *, newest: int) -> set[str]:
    """Return the jobs of whose newest runs one failed, was missed, expired or had a condition that failed."""
    return {job_id for (job_id,) in db.rows("jobs_striking", newest=newest)}


def drawn_runs(db: Database, job_id: str, *, limit: int) -> list[Drawn]:
    """Return the newest runs of a job, newest first."""
    return [
        Drawn(
            number,
            Status(status),
            reason_or_none(reason),
            count,
            from_ms_or_none(scheduled_for),
            from_ms_or_none(covers_to),
            from_ms(created_at),
            from_ms_or_none(started_at),
            from_ms_or_none(finished_at),
        )
        for number, status, reason, count, scheduled_for, covers_to, created_at, started_at, finished_at in db.rows(
            "timeline_runs", job_id=job_id, limit=limit
        )
    ]


def ended_runs(
    db: Database, job_id: str, status: Status, *, since: datetime, width: timedelta, limit: int
) -> list[EndCount]:
    """Return how many runs of a job ended with this status in each part of a timeline, of the newest ones."""
    found = db.rows(
        "timeline_counts",
        job_id=job_id,
        status=status.value,
        since=to_ms(since),
        width=width // timedelta(milliseconds=1),
        limit=limit,
    )
    return [EndCount(count, from_ms(first), from_ms(last)) for _, count, first, last in found]


@dataclass(frozen=True, slots=True)
class Shared:
    """A piece of a run's output, and where it begins."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """Where the next one begins, unless something was left out."""
        return self.offset + len(self.data)


def save(db: Database, run_id: str, pieces: Sequence[Shared], *, now: datetime) -> None:
    """Store pieces; one that is there stays as it is."""
    for piece in pieces:
        text = base64.b64encode(piece.data).decode("ascii")
        db.execute("output_save", run_id=run_id, part=piece.offset, text=text, now=to_ms(now))


def read(db: Database, run_id: str, *, after: int, limit: int) -> list[Shared]:
    """Return the pieces that begin at an offset or later, in order."""
    rows = db.rows("output_read", run_id=run_id, after=after, limit=limit)
    return [Shared(part, base64.b64decode(text)) for part, text in rows]


def end(db: Database, run_id: str) -> int:
    """Return how far the output of a run is stored."""
    row = db.row("output_last", run_id=run_id)
    return 0 if row is None else Shared(row[0], base64.b64decode(row[1])).end


def forget_runs(db: Database, run_ids: Sequence[str]) -> None:
    """Let go of the output of runs that are gone."""
    db.execute("output_forget", ids=json.dumps(list(run_ids)))


def old(db: Database, before: datetime) -> bool:
    """Tell whether there are pieces from before."""
    return db.row("output_old", before=to_ms(before)) is not None


def prune(db: Database, before: datetime, *, limit: int) -> int:
    """Let go of pieces from before; return how many went."""
    return db.execute("output_prune", before=to_ms(before), limit=limit)
