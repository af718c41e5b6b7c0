"""Rows that a decision holds until it is stored: on PostgreSQL others wait for it, on SQLite only one writes anyway.

Who needs several holds them in this order: turns, jobs, runs, groups, pools, budgets. See docs/postgresql.md.
"""

from collections.abc import Iterable
from enum import StrEnum

from rota.store.driver import Database
from rota.store.rows import write_json


class Turn(StrEnum):
    """What only one transaction at a time does, whichever rows it touches."""

    DECLARE = "declare"
    GROUPS = "groups"
    MAKING = "making"
    ORDER = "order"
    STATE = "state"


def wait_briefly(db: Database) -> None:
    """Wait no longer than a second for rows that others hold: DatabaseBusy then, for who tries again by itself."""
    db.later("lock_briefly")


def hold_turn(db: Database, turn: Turn) -> None:
    """Wait until nobody else does this."""
    db.later("turn_hold", key=f"turn:{turn}")


def hold_jobs_of(db: Database, run_ids: Iterable[str]) -> None:
    """Hold the jobs of these runs: who waits for whom, and what comes next, is decided by one at a time for each."""
    db.later("jobs_of_runs_hold", ids=write_json(list(run_ids)))


def hold_jobs_waited_for(db: Database, job_ids: Iterable[str]) -> None:
    """Hold those of these jobs in which somebody waits for a run, or whose failures are counted."""
    db.later("jobs_waited_for_hold", ids=write_json(list(job_ids)))


def hold_jobs_named(db: Database, names: Iterable[str]) -> None:
    """Hold several jobs, as all do who need them, in the order of their identifiers."""
    db.later("jobs_named_hold", names=write_json(list(names)))


def hold_worker(db: Database, worker_id: str) -> None:
    """Hold a worker while its slots are given out (INV-003)."""
    db.later("worker_hold", worker_id=worker_id)


def hold_births(db: Database) -> None:
    """Let no run be born until the transaction ends: every birth counts in its job first."""
    db.later("births_hold")
