"""Rows of work items, worktrees and sessions of agents."""

import json
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from rota.model.agents import AgentSession, WorkItem, WorkReport
from rota.model.budgets import MILLION
from rota.model.clock import from_ms, to_ms, to_ms_or_none
from rota.model.records import Claim, ClaimState, Worktree
from rota.model.serialize import encode
from rota.model.spec import WorkSource
from rota.model.states import Status
from rota.store.driver import Database
from rota.store.rows import columns_of, instant_of, record_of, record_or_none, records_of, value_of, write_json


def intend(db: Database, *, run_id: str, handle: str, source: WorkSource, now: datetime) -> str:
    """Store the request of a run to its source; return the name of the claim."""
    params = {"run_id": run_id, "handle": handle, "source": write_json(encode(source)), "asked_at": to_ms(now)}
    return str(value_of(db, "work_intend", source_key=source.key, **params))


def hold(db: Database, claim: str, item: WorkItem, *, now: datetime) -> bool:
    """Store the item of a run; return False if another run holds it or the claim was given up."""
    changed = db.execute(
        "work_hold", claim=claim, item_id=item.id, item=write_json(encode(item)), claimed_at=to_ms(now)
    )
    return changed == 1


def forget(db: Database, claim: str) -> None:
    """Delete a request without an item."""
    db.execute("work_forget", claim=claim)


def open_claims(db: Database, run_ids: Sequence[str]) -> list[Claim]:
    """Return the open claims of these runs; usually one read of an empty index."""
    if not run_ids or db.row("work_any_open") is None:
        return []
    return records_of(Claim, db.rows("work_open_of", ids=json.dumps(list(run_ids))))


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
    """Plan the report or release of a finished claim; return whether it was open."""
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
    """Plan another release of a claim: its source may have claimed an item after the claim was given up."""
    db.execute("work_late", claim=claim, now=to_ms(now))


def due(db: Database, *, now: datetime, limit: int) -> list[Claim]:
    """Return the claims with due reports or releases."""
    return records_of(Claim, db.rows("work_due", now=to_ms(now), limit=limit))


def next_due(db: Database) -> datetime | None:
    """Return the time of the next report or release."""
    return instant_of(db, "work_next_due")


def take(db: Database, claim: str, *, now: datetime, until: datetime) -> bool:
    """Take a due report or release; no other process takes it before `until`."""
    return db.execute("work_take", claim=claim, now=to_ms(now), until=to_ms(until)) == 1


def told(db: Database, claim: str, *, now: datetime) -> None:
    """Store that a source has the report or release."""
    db.execute("work_told", claim=claim, now=to_ms(now))


def refused(db: Database, claim: str, error: str, *, not_before: datetime | None, now: datetime) -> None:
    """Store a failed report or release and the time of its retry; None: never."""
    db.execute("work_refused", claim=claim, error=error, not_before=to_ms_or_none(not_before), now=to_ms(now))


def of_run(db: Database, run_id: str) -> Claim | None:
    """Return the newest claim of a run, None for none."""
    return record_or_none(Claim, db.row("work_of_run", run_id=run_id))


def given_up(db: Database, since: datetime, *, prefix: str = "", limit: int) -> list[Claim]:
    """Return the newest claims with abandoned reports, of jobs whose names start with `prefix`."""
    return records_of(Claim, db.rows("work_given_up", since=to_ms(since), prefix=prefix, limit=limit))


def failures(db: Database, source: WorkSource, item_id: str) -> int:
    """Return the number of runs that failed at an item since its last report."""
    return int(value_of(db, "work_failures", source_key=source.key, item_id=item_id) or 0)


def holders(db: Database, source: WorkSource) -> list[str]:
    """Return the runs that hold an item of a source."""
    return [handle for (handle,) in db.rows("work_holders", source_key=source.key)]


def leave_all(db: Database, why: str, *, now: datetime) -> int:
    """Abandon all open claims and planned reports; return the number."""
    return db.execute("work_leave_all", why=why, now=to_ms(now))


def forget_runs(db: Database, run_ids: Sequence[str]) -> None:
    """Delete the claims of pruned runs."""
    db.execute("prune_work", ids=json.dumps(list(run_ids)))


class LeftWorktree(Struct, frozen=True):
    """A worktree of a finished run; `status` None: the run never started or was pruned."""

    worktree: Worktree
    status: Status | None


def store_worktree(db: Database, worktree: Worktree) -> None:
    """Store a worktree before its creation."""
    db.execute("worktree_store", **columns_of(worktree))


def worktree_of_run(db: Database, run_id: str) -> Worktree | None:
    """Return the newest worktree of a run, None for none."""
    return record_or_none(Worktree, db.row("worktree_of_run", run_id=run_id))


def worktree_at(db: Database, path: str) -> Worktree | None:
    """Return the worktree in a folder, None for none."""
    return record_or_none(Worktree, db.row("worktree_at", path=path))


def unused_worktrees(db: Database, run_id: str) -> list[Worktree]:
    """Return the worktrees of earlier, aborted starts of a run."""
    return records_of(Worktree, db.rows("worktrees_unused", run_id=run_id))


def kept_worktrees(db: Database) -> list[Worktree]:
    """Return the kept worktrees, oldest first."""
    return records_of(Worktree, db.rows("worktrees_kept"))


def left_worktrees(db: Database) -> list[LeftWorktree]:
    """Return the worktrees of finished runs that are neither kept nor removed yet."""
    return [
        LeftWorktree(record_of(Worktree, tuple(row)), None if None in (status, started_at) else Status(status))
        for *row, status, started_at in db.rows("worktrees_ended")
    ]


def known_paths(db: Database) -> set[str]:
    """Return the paths of all stored worktrees."""
    return {path for (path,) in db.rows("worktree_paths")}


def keep_worktree(db: Database, worktree: Worktree, *, why: str, now: datetime) -> bool:
    """Mark a worktree as kept, with the reason."""
    return db.execute("worktree_keep", path=worktree.path, at=to_ms(now), why=why) == 1


def forget_worktree(db: Database, worktree: Worktree) -> bool:
    """Delete the row of a removed worktree."""
    return db.execute("worktree_forget", path=worktree.path) == 1


class StoredSession(Struct, frozen=True):
    """The session that the next run of a job resumes; `run` None: its last run was a direct call or is pruned."""

    job: str
    job_id: str
    adapter: str
    session: str
    run: str | None
    usd: float
    turns: int
    began_at: datetime
    used_at: datetime


class LastRun(Struct, frozen=True):
    """The last COMPLETED run of a job."""

    handle: str
    finished_at: datetime
    summary: str | None


def session_of(db: Database, job_id: str, *, adapter: str, worker_id: str) -> AgentSession | None:
    """Return the newest session of a job with this program, None for none or for a session on another worker."""
    row = db.row("agent_session", job_id=job_id, adapter=adapter)
    if row is None or row[5] not in (None, worker_id):
        return None
    return AgentSession(row[0], row[1] / MILLION, row[2], row[3], row[4], adapter, turns=row[6], began_ms=row[7])


def save_session(db: Database, job_id: str, session: AgentSession, *, run_id: str, now: datetime) -> None:
    """Store a session as the newest of a job."""
    columns = columns_of(session) | {"session_id": session.id, "usd": round(session.usd * MILLION)}
    columns["began_at"] = columns.pop("began_ms") or to_ms(now)
    db.execute("agent_session_save", job_id=job_id, run_id=run_id, at=to_ms(now), **columns)


def sessions(db: Database) -> list[StoredSession]:
    """Return the newest session of each job that has one, by job."""
    return [
        StoredSession(name, job_id, adapter, session, run, usd / MILLION, turns, from_ms(began_at), from_ms(at))
        for name, job_id, adapter, session, run, usd, turns, began_at, at in db.rows("agent_sessions")
    ]


def drop_session(db: Database, job_id: str, session_id: str) -> bool:
    """Delete a session; return whether it was still the newest."""
    return db.execute("agent_session_drop", job_id=job_id, session_id=session_id) == 1


def last_completed(db: Database, job_id: str) -> LastRun | None:
    """Return the last COMPLETED run of a job, None for none."""
    return record_or_none(LastRun, db.row("run_last_completed", job_id=job_id))
