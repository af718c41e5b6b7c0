"""Runs found by what they are: of a job, by filter and page, by the instants of a range; and how long they took."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms
from rota.model.records import Job, Run
from rota.model.states import Status, WaitingFor
from rota.rules.overlap import PendingRetry
from rota.store.driver import Database
from rota.store.rows import Record, read_object, run_of, write_json

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
class Wish:
    """Which unfinished runs of a job are meant: made at `before` or earlier, of these statuses, waiting for this."""

    before: datetime
    statuses: tuple[Status, ...]
    waiting_for: WaitingFor | None = None


class Chosen(TypedDict, total=False):
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


def history(db: Database, *, limit: int, **chosen: Unpack[Chosen]) -> list[Run]:
    """Return runs, newest first."""
    given = parameters(chosen) | {"limit": limit}
    found = db.records("runs_history_of_job", **given) if "job_id" in given else db.records("runs_history", **given)
    return [run_of(row) for row in found]


def alike_before(db: Database, run: Run, **chosen: Unpack[Chosen]) -> Older:
    """Return the runs of a job that came before one and ended like it, back to the first that did not."""
    given = parameters({**chosen, "job_id": run.job_id, "before_number": run.number})
    unlike = db.row("run_unlike", status=run.status.shown, reason=run.reason, denied=len(run.denied_tools), **given)
    row = db.row("runs_total", above=-1 if unlike is None else unlike[0], **given)
    assert row is not None
    runs, times, oldest, usd_told, usd, tokens_told, tokens = row
    return Older(runs, times, oldest, usd_told, usd, tokens_told, tokens, complete=unlike is None)


def parameters(chosen: Chosen) -> dict[str, Any]:
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


def said(db: Database, *, limit: int, **chosen: Unpack[Chosen]) -> list[Said]:
    """Return the errors and summaries of runs, newest first: whole runs cost several times as much to read."""
    given = parameters(chosen) | {"limit": limit}
    rows = db.rows("runs_said_of_job", **given) if "job_id" in given else db.rows("runs_said", **given)
    return [Said(run_id, number, f"{error or ''}\n{summary or ''}") for run_id, number, error, summary in rows]


def matching(db: Database, job_id: str, wish: Wish, *, below: str, limit: int) -> list[Matching]:
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


def count_matching(db: Database, job_id: str, wish: Wish) -> tuple[int, int]:
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
