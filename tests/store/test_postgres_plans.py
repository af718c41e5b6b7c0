"""The plans of the hot statements on PostgreSQL: where reading a whole table is forbidden, each finds its index."""

import itertools
import re

import psycopg
import pytest

from rota.store.postgres.pipeline import REPLAN_AFTER, statement
from rota.store.postgres.setup import open_postgres
from rota.store.queries import load_queries
from rota.store.tables import jobs
from tests.postgres import lay_postgres
from tests.store.making import NOW, add_job
from tests.store.test_query_plans import HOT

OTHERWISE = {
    "chain_scheduled_unfinished": "live_job",
    "order_ahead": "live_order",
    "order_behind": "live_order",
    "lane_heads": "live_ready",
    "lane_front": "live_ready",
    "run_chosen": "live_pkey",
    "run_claim": "live_pkey",
    "run_finish": "run_id_key",
    "run_finish_alike": "run_id_key",
    "runs_to_finish": "run_id_key",
    "runs_ending": "run_id_key",
    "jobs_of_runs_hold": "run_id_key",
    "changes_after": "change_pkey",
}
FILL = """
BEGIN;
SET LOCAL session_replication_role = replica;
INSERT INTO job (id, name, source, version, enabled, created_at, updated_at, ledger_from)
SELECT 'job' || number, 'job' || number, '', 1, 1, 1, 1, 1 FROM generate_series(0, 49) AS number;
INSERT INTO run (id, job, number, version, trigger, created_at)
SELECT 'run' || number, 1 + number % 50, number, 1, 'manual', number FROM generate_series(1, 3000) AS number;
INSERT INTO live (run, job, state, lane_id, rank, position, created_at)
SELECT seq, job, 1, 1, 0, number, created_at FROM run;
COMMIT
"""
"""A queue of which the planner knows nothing but how many pages it takes."""
NEVER_ALL_QUEUED = re.compile(r"Scan using (live_pkey|live_ready|live_job|live_waiting)\b[^\n]*\n(?! *Index Cond)")
"""An index of all that is queued or unfinished, read from end to end."""
FORBIDDEN = re.compile(r"Seq Scan on (run|live|ended|call|job_version|budget_entry|change|delivery|event)\b")


@pytest.fixture(scope="module")
def connection():
    with psycopg.connect(lay_postgres("plans"), autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE run SET (autovacuum_enabled = off); ALTER TABLE live SET (autovacuum_enabled = off);"
            "ALTER TABLE job SET (autovacuum_enabled = off)"
        )
        connection.execute(FILL)
        connection.execute(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan"
        )
        yield connection


def plan_of(connection, name):
    wanted = statement(load_queries("postgres", writing=True)[name])
    connection.execute(b"PREPARE asked AS " + wanted.text)
    try:
        values = f"({', '.join(['NULL'] * len(wanted.names))})" if wanted.names else ""
        return "\n".join(line for (line,) in connection.execute(f"EXPLAIN EXECUTE asked{values}").fetchall())
    finally:
        connection.execute("DEALLOCATE asked")


@pytest.mark.parametrize("name", sorted({**HOT, **OTHERWISE}))
def test_a_hot_statement_reads_no_whole_table(connection, name):
    """R-02, R-03: what it costs does not grow with the history or with the queue."""
    plan = plan_of(connection, name)
    assert not FORBIDDEN.search(plan), plan
    assert not NEVER_ALL_QUEUED.search(plan), plan
    if name in OTHERWISE:
        assert OTHERWISE[name] in plan, plan


@pytest.fixture(scope="module")
def short():
    """A queue that is short, and was all there was when statistics were taken: to read it whole looks cheap."""
    with psycopg.connect(lay_postgres("short"), autocommit=True) as connection:
        connection.execute(FILL)
        connection.execute("ANALYZE")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        yield connection


@pytest.mark.parametrize(
    "name", ["run_chosen", "run_claim", "run_finish", "run_finish_alike", "runs_to_finish", "runs_ending"]
)
def test_a_run_is_found_by_its_identifier_in_a_short_table_too(short, name):
    """R-02: read for every run of a batch, even a short one costs more than all the rest."""
    plan = plan_of(short, name)
    assert OTHERWISE[name] in plan, plan
    assert not FORBIDDEN.search(plan), plan


FILL_LONG = """
BEGIN;
SET LOCAL session_replication_role = replica;
INSERT INTO job (id, name, source, version, enabled, created_at, updated_at, ledger_from)
VALUES ('job0', 'job0', '', 1, 1, 1, 1, 1);
INSERT INTO run (id, job, number, version, trigger, created_at)
SELECT 'run' || number, 1, number, 1, 'manual', number FROM generate_series(1, 20000) AS number;
INSERT INTO ended (run, job, status, reason, finished_at) SELECT seq, job, 6, 'overlap', created_at FROM run;
COMMIT
"""
ABOUT = {"job_id": "'job0'", "limit": "10", "offset": "0", "below": str(2**62), "since_id": "''", "until_id": "'s'"}
ABOUT |= {"status": "'COMPLETED'", "denied": "0"}


@pytest.fixture(scope="module")
def long():
    """A job with a long history, of which the planner knows."""
    with psycopg.connect(lay_postgres("long"), autocommit=True) as connection:
        connection.execute(FILL_LONG)
        connection.execute("ANALYZE")
        yield connection


@pytest.mark.parametrize(
    "name", ["runs_newest", "timeline_runs", "runs_history_of_job", "runs_said_of_job", "run_unlike"]
)
def test_the_newest_runs_of_a_job_are_read_without_the_older_ones(long, name):
    """Pages of a job with 300,000 runs took seconds while all of them were sorted."""
    wanted = statement(load_queries("postgres")[name])
    long.execute(b"PREPARE asked AS " + wanted.text)
    try:
        values = ", ".join(ABOUT.get(one, "NULL") for one in wanted.names)
        plan = "\n".join(line for (line,) in long.execute(f"EXPLAIN EXECUTE asked({values})").fetchall())
    finally:
        long.execute("DEALLOCATE asked")
    assert "Index Scan Backward using run_number" in plan, plan
    assert "Sort" not in plan, plan
    assert not re.search(r"Seq Scan on (run|ended)\b", plan), plan


def test_a_connection_that_forgets_its_plans_goes_on():
    moments = itertools.count()
    store = open_postgres(lay_postgres(), now=lambda: NOW + next(moments) * 2 * REPLAN_AFTER)
    try:
        for number in range(3):
            job = add_job(store, f"job{number}")
            assert store.read(lambda db, job=job: jobs.job_by_id(db, job.id)).name == job.name
    finally:
        store.close()
