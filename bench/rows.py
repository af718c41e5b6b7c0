"""The raw limit: rota's tables and statements through apsw, without engine, rules or threads."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
INSERT INTO run (id, job, number, version, trigger, lane_id, created_at)
SELECT printf('01980000-0000-7000-8000-%012x', number), (SELECT seq FROM job WHERE id = :job_id), number, 1, 'manual',
    iif(number <= :blocked, :lanes ->> 0, json_extract(:lanes, '$[' || (number % json_array_length(:lanes)) || ']')),
    number
FROM counted
"""
FILL_QUEUE = """
INSERT INTO live (run, job, state, lane_id, rank, position, created_at)
SELECT seq, job, 1, lane_id, priority, number * 1048576, created_at FROM run
WHERE job = (SELECT seq FROM job WHERE id = :job_id) AND number BETWEEN :first AND :last
"""
OF_A_RUN = ("slot_key", "scheduled_for", "covers_to", "count", "retry_of", "chain_id", "group_id", "place")
OF_A_STATE = ("waiting_for", "not_before", "expires_at", "predecessor_id", "started_at", "decisions")
OF_AN_END = ("reason", "exit_code", "error", "summary", "artifacts")
READY, RUNNING, COMPLETED = 1, 3, 4
ID, KEY = 0, -1
"""Where identifier and key of a run stand in the row of a candidate."""


@contextmanager
def unguarded(connection: apsw.Connection) -> Iterator[None]:
    """Store rows as they would be after years of work, which the triggers let happen in no other way."""
    found = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN ('run', 'live', 'ended')"
    triggers = connection.execute(found).fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}").fetchall()
    try:
        yield
    finally:
        for _, text in triggers:
            connection.execute(text).fetchall()


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
            lane_id=NO_POOLS,
            priority=0,
            params="{}",
            attempt=1,
            always=0,
            forced=0,
            created_at=to_ms(now),
            **dict.fromkeys(OF_A_RUN),
        )
        place = {"rank": 0, "position": created_ms(run_id) * POSITION_GAP}
        self._run("run_enqueue", id=run_id, state=READY, **place, **dict.fromkeys(OF_A_STATE))
        return run_id

    def enqueue(self, count: int) -> None:
        """Insert many queued runs of one job by two statements in one transaction."""
        now = CLOCK.now()
        siblings = json.dumps([(new_id(now), None, None, None) for _ in range(count)])
        place = {"lane_id": NO_POOLS, "priority": 0, "rank": 0, "position": to_ms(now) * POSITION_GAP}
        of_runs = {"job_id": self.job.id, "first": self._number + 1, "version": 1, "trigger": "manual", "params": "{}"}
        with self._transaction():
            times = {"forced": 0, "created_at": to_ms(now)}
            self._run("run_insert_many", siblings=siblings, **of_runs, **times, **place)
            self._run("run_enqueue_many", siblings=siblings, expires_at=None, gap=1, decisions=None, **place)
        self._number += count

    def fill(self, count: int, *, lanes: Sequence[int] = (NO_POOLS,), first: int = 1, blocked: int = 0) -> None:
        """Queue very many runs by two statements, in turn in each of the lanes.

        So many of the first are `blocked`: they stand in the first lane, whose pools have no room.
        """
        span = {"first": first, "last": first + count - 1, "job_id": self.job.id}
        self._number = span["last"]
        full = "UPDATE pool SET capacity = 0 WHERE name IN (SELECT pool FROM lane_pool WHERE lane_id = ?)"
        with self._transaction():
            self.connection.execute(FILL, {"lanes": json.dumps(list(lanes)), "blocked": blocked, **span}).fetchall()
            self.connection.execute(FILL_QUEUE, span).fetchall()
            if blocked:
                self.connection.execute(full, (lanes[0],)).fetchall()

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
                running = self._start(self._run("run_candidates", lane_id=NO_POOLS, free=size))
            if not running:
                return

    def start(self, size: int, *, lane_id: int = NO_POOLS) -> list[str]:
        """Claim the first runs of a lane and commit."""
        with self._transaction():
            return self._start(self._run("run_candidates", lane_id=lane_id, free=size))

    def end(self, run_ids: Sequence[str]) -> None:
        """End running runs and commit."""
        with self._transaction():
            self._finish(run_ids)

    def _start(self, candidates: Sequence[tuple]) -> list[str]:
        now = to_ms(CLOCK.now())
        claims = json.dumps([[row[KEY], slot, RUNNING, now] for slot, row in enumerate(candidates)])
        self._run("run_claim", runs=claims, boot_id=None, now=now, **self._held)
        return [row[ID] for row in candidates]

    def _finish(self, run_ids: Sequence[str]) -> None:
        self._run(
            "run_finish_alike",
            ids=json.dumps(list(run_ids)),
            low=RUNNING,
            high=RUNNING,
            epoch=self._held["epoch"],
            status=COMPLETED,
            finished_at=to_ms(CLOCK.now()),
            **dict.fromkeys(OF_AN_END),
        )

    def _transaction(self) -> "_Transaction":
        return _Transaction(self.connection)


class _Transaction:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, *_: object) -> None:
        self._connection.execute("COMMIT")
