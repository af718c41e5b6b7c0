"""The plans of the hot queries on SQLite: each uses its index, none reads a whole table (R-02, R-03)."""

import re
from contextlib import contextmanager

import apsw
import pytest

from rota.store.migrate import HISTORY
from rota.store.queries import load_migrations, load_queries

HOT = {
    "jobs_due": "job_due",
    "job_next_due": "job_due",
    "run_candidates": "live_ready",
    "runs_let_go": "live_released",
    "runs_expired": "live_expiring",
    "run_next_release": "live_released",
    "run_next_expiry": "live_expiring",
    "runs_cancelling": "live_cancelling",
    "runs_unfinished": "live_job",
    "job_standing": "live_waiting",
    "runs_replacing": "live_waiting",
    "runs_following": "live_following",
    "runs_relink_followers": "live_following",
    "run_retried_as": "run_retried",
    "chain_begun": "run_chain",
    "runs_of_chain": "run_chain",
    "chain_scheduled_unfinished": "live_job",
    "run_unfinished_before": "live_job",
    "order_at": "live_order",
    "order_ready": "live_order",
    "order_waiting": "live_held",
    "order_next_rank": "live_order",
    "queue_front": "live_order",
    "runs_matching": "live_job",
    "runs_matching_count": "live_job",
    "runs_backfilled": "run_backfill",
    "runs_fired": "run_fire",
    "job_accounted_to": "run_fire",
    "run_last_backfill": "live_job",
    "runs_polled": "live_polling",
    "runs_unfinished_some": "live_job",
    "timeline_counts": "ended_pruning",
    "runs_running": "live_slot",
    "groups_within": "ended_pruning",
    "executions_within": "ended_pruning",
    "executions_ended_since": "ended_pruning",
    "runs_history_of_job": "run_number",
    "runs_said_of_job": "run_number",
    "run_unlike": "run_number",
    "runs_total": "run_number",
    "runs_newest": "run_number",
    "runs_newest_of_jobs": "run_number",
    "runs_oldest_unfinished": "live_job",
    "slots_taken": "live_slot",
    "runs_owned": "live_slot",
    "processes_with_runs": "live_slot",
    "processes_unended": "process_open",
    "job_next_due_but": "job_due",
    "budget_any_held": "budget_entry_open",
    "budget_anybody_waits": "live_budget",
    "budget_largest": "budget_entry_job",
    "budget_rest": "budget_entry_window",
    "budget_waiting": "live_budget",
    "jobs_expired": "job_expiring",
    "jobs_made_active": "job_made",
    "jobs_provisional": "job_provisional",
    "making_count": "making_recent",
    "work_any_open": "work_open",
    "work_due": "work_due",
    "work_given_up": "work_given_up",
    "work_failures": "work_of_item",
    "work_holders": "work_held",
    "work_next_due": "work_due",
    "work_of_run": "work_of_run",
    "prune_candidates": "ended_pruning",
    "prune_surplus": "ended_pruning",
}
SMALL = ("lane", "json_each", "direct_hold", "direct_wait", "abandoned", "worker")
"""What may be read whole: one row a set of pools, one row a value of a filter, one row a direct call in progress,
one row a thread that outlived its run, one row a worker."""


@pytest.fixture(scope="module")
def connection():
    connection = apsw.Connection(":memory:")
    connection.execute(HISTORY).fetchall()
    for _, _, script in load_migrations("sqlite"):
        connection.execute(script).fetchall()
    return connection


def plan_of(connection, name):
    statement = load_queries("sqlite")[name]
    params = dict.fromkeys(re.findall(r":([a-z_]+)", statement), None)
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", params)]


def scans(plan):
    """Return the steps that read a table from end to end; reading a partial index is reading only what it holds."""
    indexes = r"job_due|run_(?!number)\w+|live_(?!job)\w+|process_open|budget_entry_open|work_(open|due)"
    partial = re.compile(rf"USING (COVERING )?INDEX ({indexes})\b")
    whole = [step for step in plan if step.startswith("SCAN") and not partial.search(step)]
    # What a subquery gives is read to its end; what that reads has steps of its own.
    inner = {step.split()[1] for step in plan if step.startswith("CO-ROUTINE")}
    return [step for step in whole if step.split()[1] not in {*SMALL, *inner} and "VIRTUAL TABLE" not in step]


@pytest.mark.parametrize(("name", "index"), sorted(HOT.items()))
def test_a_hot_query_uses_its_index_and_scans_no_table(connection, name, index):
    plan = plan_of(connection, name)
    assert any(f"INDEX {index}" in step for step in plan), plan
    assert scans(plan) == []


@pytest.mark.parametrize(
    "name",
    [
        "jobs_due",
        "order_ahead",
        "order_at",
        "order_behind",
        "order_next_rank",
        "order_ready",
        "order_waiting",
        "queue_front",
        "run_unfinished_before",
        "runs_newest",
        "runs_replacing",
    ],
)
def test_the_order_comes_from_the_index_and_needs_no_sorting(connection, name):
    assert not any("TEMP B-TREE" in step for step in plan_of(connection, name))


@pytest.mark.parametrize("name", ["run_candidates", "lane_front", "lane_heads"])
def test_the_heads_of_a_lane_are_found_without_sorting_the_queue_r_03(connection, name):
    plan = plan_of(connection, name)
    assert any("INDEX live_ready (lane_id=?)" in step for step in plan), plan
    sorts = [step for step in plan if "TEMP B-TREE" in step]
    assert sorts == (plan[-1:] if name == "lane_heads" else []), "at most the heads, one a lane"


@pytest.mark.parametrize(
    "name", ["job_by_name", "run_by_id", "run_by_seq", "run_by_number", "run_by_handle", "run_ending", "run_start"]
)
def test_a_single_row_is_found_by_its_key(connection, name):
    plan = plan_of(connection, name)
    assert any(step.startswith("SEARCH") for step in plan), plan
    assert [step for step in plan if not step.startswith("SEARCH") and "SCALAR SUBQUERY" not in step] == []


def test_the_execution_of_a_run_is_found_without_a_look_at_the_calls(connection):
    """Whatever the view is made of: no step reads a row that is not of this run."""
    with ran(connection) as counted:
        connection.execute("BEGIN")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(
            """WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000)
            INSERT INTO call (id, lane_id, caller, worker_id, slot, epoch, boot_id, pid, pid_start, started_at)
            SELECT n, 1, 'tests', 'w', n, 1, 'boot', 1, 1, 1 FROM counted"""
        ).fetchall()
        counted.clear()
        connection.execute(load_queries("sqlite")["execution_by_run"], {"run_id": "x"}).fetchall()
        connection.execute("ROLLBACK")
    assert counted[0]["SQLITE_STMTSTATUS_FULLSCAN_STEP"] == 0
    assert counted[0]["SQLITE_STMTSTATUS_VM_STEP"] < 200


@contextmanager
def ran(connection):
    """Lend a list of what each statement that ends meanwhile has cost."""
    counted = []
    profile = {"mask": apsw.SQLITE_TRACE_PROFILE, "callback": lambda event: counted.append(event["stmt_status"])}
    connection.trace_v2(**profile)
    try:
        yield counted
    finally:
        connection.trace_v2(0, None)


@pytest.mark.parametrize("name", ["order_ahead", "order_behind"])
def test_neighbours_are_found_by_one_step_into_what_is_ready_and_one_into_what_waits_r_03(connection, name):
    plan = plan_of(connection, name)
    sign = ">" if name == "order_ahead" else "<"
    for index in ("live_ready (lane_id=? AND ", "live_order (", "live_held ("):
        step = f"INDEX {index}rank=? AND (position,created_at){sign}(?,?))"
        assert any(step in found for found in plan), plan
    assert scans(plan) == []


@pytest.mark.parametrize("name", ["order_place", "order_count_above", "order_count_ready"])
def test_a_count_reads_the_queue_in_its_order_r_03(connection, name):
    plan = plan_of(connection, name)
    reads = [step for step in plan if " live " in step]
    assert reads
    assert [step for step in reads if not re.search("COVERING INDEX live_(ready|order) ?", step)] == [], plan


@pytest.mark.parametrize("name", ["order_count_ready", "order_count_above", "order_count_waiting", "order_place"])
def test_a_count_stops_at_its_limit_r_03(connection, name):
    """However long the queue: it is neither sorted nor read to its end."""
    queue = """WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 20000)
        INSERT INTO live (run, job, state, waiting_for, lane_id, rank, position, created_at)
        SELECT n, 1, n % 4 > 0, iif(n % 4, NULL, 'poll'), 1 + n % 2, 5, n, n FROM counted"""
    statement = load_queries("sqlite")[name]
    given = {"limit": 10, "rank": 4, "position": 0, "created_at": 0, "run": 0}
    connection.execute("PRAGMA foreign_keys = OFF; BEGIN").fetchall()
    try:
        connection.execute(queue).fetchall()
        with ran(connection) as counted:
            found = connection.execute(
                statement, {key: given[key] for key in given if f":{key}" in statement}
            ).fetchall()
    finally:
        connection.execute("ROLLBACK")
    assert found == [(10,)]
    assert counted[0]["SQLITE_STMTSTATUS_VM_STEP"] < 2000


@pytest.mark.parametrize("name", ["direct_held", "audit_called"])
def test_direct_calls_under_way_are_read_from_the_few_that_are_held_r_13(connection, name):
    plan = plan_of(connection, name)
    assert "SEARCH call USING PRIMARY KEY (id=?)" in plan
    assert scans(plan) == []


@pytest.mark.parametrize("name", ["event_oldest_before", "event_prune"])
def test_the_oldest_events_are_found_by_their_key(connection, name):
    plan = plan_of(connection, name)
    assert "SEARCH event USING PRIMARY KEY (id<?)" in plan
    assert scans(plan) == []


def test_a_plan_without_its_index_would_be_noticed(connection):
    plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN SELECT run FROM ended WHERE error = 'x'")]
    assert scans(plan)


@pytest.mark.parametrize(
    "name", ["run_chosen", "run_claim", "runs_ending", "runs_to_finish", "run_finish", "run_finish_alike"]
)
def test_many_runs_are_moved_by_one_statement_and_each_is_found_by_its_key(connection, name):
    plan = plan_of(connection, name)
    assert "SEARCH live USING INTEGER PRIMARY KEY (rowid=?)" in plan
    assert scans(plan) == []
