"""The raw limit: rota's tables and statements through apsw, without engine, rules or threads."""

import json
from collections.abc import Sequence
from pathlib import Path

import apsw

from bench.scheduling import CLOCK, add_job, store_in
from rota.engine.membership.session import open_session
from rota.model.clock import to_ms
from rota.model.ids import created_ms, new_id
from rota.model.records import ProcessIdentity
from rota.rules.queue_order import NO_POOLS, POSITION_GAP
from rota.store.queries import load_queries
from rota.store.sqlite.store import connect

ME = ProcessIdentity("bench", 1, 1)
FILL = """
WITH RECURSIVE counted (number) AS (SELECT :first UNION ALL SELECT number + 1 FROM counted WHERE number < :last)
INSERT INTO run (id, job_id, number, version, trigger, status, lane_id, position, created_at)
SELECT printf('01980000-0000-7000-8000-%012x', number), :job_id, number, 1, 'manual', 'QUEUED',
    json_extract(:lanes, '$[' || (number % json_array_length(:lanes)) || ']'), number * 1048576, number
FROM counted
"""
INSTANTS = ("scheduled_for", "covers_to", "not_before", "expires_at", "started_at", "finished_at")
OTHERS = ("predecessor_id", "retry_of", "chain_id", "group_id", "place")
NOTHING = ("slot_key", "count", "reason", "waiting_for", "error", *INSTANTS, *OTHERS)


class RawRows:
    """One connection that writes what rota writes for each run."""

    def __init__(self, folder: Path) -> None:
        store = store_in(folder)
        self.job = add_job(store, "nothing")
        holder = open_session(store, folder, CLOCK, kind="serve", identity=ME).holder
        self._held = {"worker_id": holder.worker_id, "epoch": holder.epoch}
        store.close()
        self.connection: apsw.Connection = connect(folder / "rota.db")
        self._queries = load_queries("sqlite")
        self._number = 0

    def _run(self, query: str, **params: object) -> list[tuple]:
        return self.connection.execute(self._queries[query], params).fetchall()

    def insert(self) -> str:
        """Insert one queued run, without a transaction of its own."""
        now, self._number = CLOCK.now(), self._number + 1
        run_id = new_id(now)
        self._run("job_count_run", id=self.job.id)
        self._run(
            "run_insert",
            id=run_id,
            job_id=self.job.id,
            number=self._number,
            version=1,
            trigger="manual",
            status="QUEUED",
            lane_id=NO_POOLS,
            priority=0,
            rank=0,
            position=created_ms(run_id) * POSITION_GAP,
            params="{}",
            attempt=1,
            always=0,
            forced=0,
            created_at=to_ms(now),
            decisions="{}",
            **dict.fromkeys(NOTHING),
        )
        return run_id

    def enqueue(self, count: int) -> None:
        """Insert many queued runs in one transaction."""
        with self._transaction():
            for _ in range(count):
                self.insert()

    def fill(self, count: int, *, lanes: Sequence[int] = (NO_POOLS,), first: int = 1) -> None:
        """Queue very many runs by one statement, in turn in each of the lanes."""
        span = {"first": first, "last": first + count - 1}
        self._number = span["last"]
        with self._transaction():
            self.connection.execute(FILL, {"job_id": self.job.id, "lanes": json.dumps(list(lanes)), **span}).fetchall()

    def block(self, count: int, *, lane_id: int) -> None:
        """Let the first runs stand in one lane, whose pools have no room."""
        with self._transaction():
            self.connection.execute("UPDATE run SET lane_id = ? WHERE number <= ?", (lane_id, count)).fetchall()
            full = "UPDATE pool SET capacity = 0 WHERE name IN (SELECT pool FROM lane_pool WHERE lane_id = ?)"
            self.connection.execute(full, (lane_id,)).fetchall()

    def place(self, number: int) -> None:
        """Give one queued run another position and commit."""
        with self._transaction():
            found = self._run("run_by_number", job_id=self.job.id, number=number + 1)
            self._run("runs_place", runs=json.dumps([[found[0][0], number]]))

    def page(self, size: int) -> list[tuple]:
        """Read the first runs of the queue."""
        return self._run("run_candidates", lane_id=NO_POOLS, free=size)

    def enqueue_one(self) -> None:
        """Insert one queued run and commit it."""
        with self._transaction():
            self.insert()

    def drain(self, size: int) -> None:
        """Start and finish all queued runs, so many a commit: the ends of some and the starts of the next."""
        running: list[str] = []
        while True:
            with self._transaction():
                self._finish(running)
                running = [row[0] for row in self._run("run_candidates", lane_id=NO_POOLS, free=size)]
                self._start(running)
            if not running:
                return

    def start(self, size: int, *, lane_id: int = NO_POOLS) -> list[str]:
        """Claim the first runs of a lane and commit."""
        with self._transaction():
            found = [row[0] for row in self._run("run_candidates", lane_id=lane_id, free=size)]
            self._start(found)
        return found

    def end(self, run_ids: Sequence[str]) -> None:
        """End running runs and commit."""
        with self._transaction():
            self._finish(run_ids)

    def _start(self, run_ids: Sequence[str]) -> None:
        now = to_ms(CLOCK.now())
        claims = json.dumps([[run_id, slot, "RUNNING", now] for slot, run_id in enumerate(run_ids)])
        self._run("run_claim", runs=claims, now=now, **self._held)
        starts = json.dumps([[run_id, self.job.id, slot] for slot, run_id in enumerate(run_ids)])
        process = {"boot_id": ME.boot_id, "pid": ME.pid, "pid_start": ME.start}
        self._run("execution_insert", executions=starts, now=now, **process, **self._held)

    def _finish(self, run_ids: Sequence[str]) -> None:
        now = to_ms(CLOCK.now())
        ends = json.dumps([[run_id, "RUNNING", now, "COMPLETED", None, None, None] for run_id in run_ids])
        self._run("run_finish", runs=ends, epoch=self._held["epoch"])
        ends = json.dumps([[run_id, now, "COMPLETED", None, None, None] for run_id in run_ids])
        self._run("execution_finish", executions=ends)

    def _transaction(self) -> "_Transaction":
        return _Transaction(self.connection)


class _Transaction:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, *_: object) -> None:
        self._connection.execute("COMMIT")
