"""Rows of work items, worktrees and sessions of agents."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.agents import AgentSession, WorkItem, WorkReport
from rota.model.budgets import MILLION
from rota.model.clock import from_ms, from_ms_or_none, to_ms, to_ms_or_none
from rota.model.records import Claim, ClaimState, Worktree
from rota.model.serialize import decode, encode
from rota.model.spec import WorkSource
from rota.model.states import Status
from rota.store.driver import Database, Row
from rota.store.rows import write_json


def intend(db: Database, *, run_id: str, handle: str, source: WorkSource, now: datetime) -> str:
    """Store that a run is about to ask its source; return the name of the claim."""
    rows = db.rows(
        "work_intend",
        run_id=run_id,
        handle=handle,
        source=write_json(encode(source)),
        source_key=source.key,
        asked_at=to_ms(now),
    )
    claim: str = rows[0][0]
    return claim


def hold(db: Database, claim: str, item: WorkItem, *, now: datetime) -> bool:
    """Store what a run got; tell whether it has it: no other run holds the same item, and it was not given up."""
    changed = db.execute(
        "work_hold", claim=claim, item_id=item.id, item=write_json(encode(item)), claimed_at=to_ms(now)
    )
    return changed == 1


def forget(db: Database, claim: str) -> None:
    """Drop a request that got nothing."""
    db.execute("work_forget", claim=claim)


def prefetch_open(db: Database) -> None:
    """Ask ahead what `open_claims` looks at first."""
    db.prefetch("work_any_open")


def open_claims(db: Database, run_ids: Sequence[str]) -> list[Claim]:
    """Return what these runs have asked for or hold; as a rule that costs one look into an empty index."""
    if not run_ids or db.row("work_any_open") is None:
        return []
    return [_claim(row) for row in db.rows("work_open_of", ids=json.dumps(list(run_ids)))]


def end(
    db: Database,
    claim: str,
    state: ClaimState,
    *,
    at: datetime,
    not_before: datetime,
    failed: bool = False,
    report: WorkReport | None = None,
) -> bool:
    """Plan what a source is told about a claim that its run has no more; tell whether it was open."""
    changed = db.execute(
        "work_end",
        claim=claim,
        state=state,
        ended_at=to_ms(at),
        not_before=to_ms(not_before),
        failed=int(failed),
        report=None if report is None else write_json(encode(report)),
    )
    return changed == 1


def answered_late(db: Database, claim: str, *, now: datetime) -> None:
    """Plan the release of a claim once more: its source may have claimed something after it was given up."""
    db.execute("work_late", claim=claim, now=to_ms(now))


def due(db: Database, *, now: datetime, limit: int) -> list[Claim]:
    """Return the claims whose sources are to be told by now."""
    return [_claim(row) for row in db.rows("work_due", now=to_ms(now), limit=limit)]


def next_due(db: Database) -> datetime | None:
    """Return when a source is to be told next."""
    row = db.row("work_next_due")
    return from_ms_or_none(row[0]) if row else None


def take(db: Database, claim: str, *, now: datetime, until: datetime) -> bool:
    """Take it on to tell a source; nobody else does until then."""
    return db.execute("work_take", claim=claim, now=to_ms(now), until=to_ms(until)) == 1


def told(db: Database, claim: str, *, now: datetime) -> None:
    """Store that a source was told."""
    db.execute("work_told", claim=claim, now=to_ms(now))


def refused(db: Database, claim: str, error: str, *, not_before: datetime | None, now: datetime) -> None:
    """Store that a source could not be told, and when it is tried again; None: never."""
    db.execute("work_refused", claim=claim, error=error, not_before=to_ms_or_none(not_before), now=to_ms(now))


def of_run(db: Database, run_id: str) -> Claim | None:
    """Return the newest claim of a run, None where it made none."""
    row = db.row("work_of_run", run_id=run_id)
    return None if row is None else _claim(row)


def given_up(db: Database, since: datetime, *, prefix: str = "", limit: int) -> list[Claim]:
    """Return the newest claims whose sources were never told of their end; `prefix` begins the names of the jobs."""
    rows = db.rows("work_given_up", since=to_ms(since), prefix=prefix, limit=limit)
    return [_claim(row) for row in rows]


def failures(db: Database, source: WorkSource, item_id: str) -> int:
    """Return how many runs failed at an item since its source was last told how it ended."""
    row = db.row("work_failures", source_key=source.key, item_id=item_id)
    return row[0] if row else 0


def holders(db: Database, source: WorkSource) -> list[str]:
    """Return the runs that hold an item of a source."""
    return [handle for (handle,) in db.rows("work_holders", source_key=source.key)]


def leave_all(db: Database, why: str, *, now: datetime) -> int:
    """Tell no source about what is open or planned; return how many claims are left as they are."""
    return db.execute("work_leave_all", why=why, now=to_ms(now))


def forget_runs(db: Database, run_ids: Sequence[str]) -> None:
    """Drop the claims of runs whose rows go."""
    db.execute("prune_work", ids=json.dumps(list(run_ids)))


def _claim(row: Row) -> Claim:
    return Claim(
        claim=row[0],
        run_id=row[1],
        handle=row[2],
        source=decode(WorkSource, json.loads(row[3])),
        asked_at=from_ms(row[4]),
        item=None if row[5] is None else decode(WorkItem, json.loads(row[5])),
        claimed_at=from_ms_or_none(row[6]),
        state=ClaimState(row[7]),
        ended_at=from_ms_or_none(row[8]),
        report=None if row[9] is None else decode(WorkReport, json.loads(row[9])),
        attempts=row[10],
        not_before=from_ms_or_none(row[11]),
        told_at=from_ms_or_none(row[12]),
        error=row[13],
    )


@dataclass(frozen=True, slots=True)
class LeftWorktree:
    """A worktree whose run is over; `status` None: it never started, or is gone too."""

    worktree: Worktree
    status: Status | None


def store_worktree(db: Database, worktree: Worktree) -> None:
    """Note a worktree that is about to be made."""
    db.execute(
        "worktree_store",
        run_id=worktree.run_id,
        handle=worktree.handle,
        repository=worktree.repository,
        path=worktree.path,
        branch=worktree.branch,
        base=worktree.base,
        made_at=to_ms(worktree.made_at),
    )


def worktree_of_run(db: Database, run_id: str) -> Worktree | None:
    """Return the newest worktree of a run, None where it has none, or none any more."""
    row = db.row("worktree_of_run", run_id=run_id)
    return None if row is None else _worktree(row)


def unused_worktrees(db: Database, run_id: str) -> list[Worktree]:
    """Return what earlier starts of a run made that never came to its work."""
    return [_worktree(row) for row in db.rows("worktrees_unused", run_id=run_id)]


def kept_worktrees(db: Database) -> list[Worktree]:
    """Return the worktrees that were kept, oldest first."""
    return [_worktree(row) for row in db.rows("worktrees_kept")]


def left_worktrees(db: Database) -> list[LeftWorktree]:
    """Return the worktrees whose runs are over and that nobody has looked at since."""
    found = []
    for row in db.rows("worktrees_ended"):
        status = None if row[9] is None or row[10] is None else Status(row[9])
        found.append(LeftWorktree(_worktree(row[:9]), status))
    return found


def known_paths(db: Database) -> set[str]:
    """Return where there is, or was to be, a worktree."""
    return {path for (path,) in db.rows("worktree_paths")}


def keep_worktree(db: Database, worktree: Worktree, *, why: str, now: datetime) -> bool:
    """Note that a worktree stays, and why."""
    return db.execute("worktree_keep", path=worktree.path, at=to_ms(now), why=why) == 1


def forget_worktree(db: Database, worktree: Worktree) -> bool:
    """Note that a worktree is gone."""
    return db.execute("worktree_forget", path=worktree.path) == 1


def _worktree(row: Any) -> Worktree:
    run_id, handle, repository, path, branch, base, made_at, kept_at, kept_why = row
    kept = from_ms_or_none(kept_at)
    return Worktree(run_id, handle, repository, path, branch, base, from_ms(made_at), kept, kept_why)


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a job that was COMPLETED."""

    handle: str
    finished_at: datetime
    summary: str | None


def session_of(db: Database, job_id: str, *, adapter: str, worker_id: str) -> AgentSession | None:
    """Return the newest session of a job with this program, None for none, or for one of another worker's disk."""
    row = db.row("agent_session", job_id=job_id, adapter=adapter)
    if row is None or row[5] not in (None, worker_id):
        return None
    return AgentSession(row[0], row[1] / MILLION, row[2], row[3], row[4], adapter)


def save_session(db: Database, job_id: str, session: AgentSession, *, run_id: str, now: datetime) -> None:
    """Make a session the newest of a job."""
    db.execute(
        "agent_session_save",
        job_id=job_id,
        adapter=session.adapter,
        session_id=session.id,
        run_id=run_id,
        usd=round(session.usd * MILLION),
        tokens_in=session.tokens_in,
        tokens_out=session.tokens_out,
        tokens_cached=session.tokens_cached,
        at=to_ms(now),
    )


def drop_session(db: Database, job_id: str, session_id: str) -> bool:
    """Forget a session; tell whether it was still the newest."""
    return db.execute("agent_session_drop", job_id=job_id, session_id=session_id) == 1


def last_completed(db: Database, job_id: str) -> LastRun | None:
    """Return the last run of a job that was COMPLETED, None for none."""
    row = db.row("run_last_completed", job_id=job_id)
    return None if row is None else LastRun(row[0], from_ms(row[1]), row[2])
