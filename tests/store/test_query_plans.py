"""The plans of the hot queries on SQLite: each uses its index, none reads a whole table (R-02, R-03)."""

import re

import apsw
import pytest

from rota.store.migrate import HISTORY
from rota.store.queries import load_migrations, load_queries

HOT = {
    "jobs_due": "job_due",
    "job_next_due": "job_due",
    "run_candidates": "run_ready",
    "runs_let_go": "run_released",
    "runs_expired": "run_expiring",
    "run_next_release": "run_released",
    "run_next_expiry": "run_expiring",
    "runs_cancelling": "run_cancelling",
    "runs_unfinished": "run_unfinished",
    "job_standing": "run_waiting",
    "runs_replacing": "run_waiting",
    "runs_following": "run_following",
    "runs_relink_followers": "run_following",
    "run_retried_as": "run_retried",
    "chain_begun": "run_chain",
    "runs_of_chain": "run_chain",
    "chain_scheduled_unfinished": "run_unfinished",
    "run_unfinished_before": "run_unfinished",
    "order_at": "run_order",
    "order_ready": "run_order",
    "order_waiting": "run_held",
    "order_next_rank": "run_order",
    "queue_front": "run_order",
    "runs_matching": "run_unfinished",
    "runs_matching_count": "run_unfinished",
    "runs_backfilled": "run_backfill",
    "runs_fired": "run_fire",
    "run_last_backfill": "run_unfinished",
    "runs_running": "run_slot",
    "executions_within": "execution_job",
    "executions_before": "execution_job",
    "executions_ended_since": "execution_job",
    "runs_history_of_job": "run_number",
    "runs_said_of_job": "run_number",
    "run_unlike": "run_number",
    "runs_total": "run_number",
    "runs_newest": "run_number",
    "runs_newest_of_jobs": "run_number",
    "runs_oldest_unfinished": "run_unfinished",
    "slots_taken": "run_slot",
    "runs_owned": "run_slot",
    "processes_with_runs": "run_slot",
    "processes_unended": "process_open",
    "job_next_due_but": "job_due",
    "budget_any_held": "budget_entry_open",
    "budget_anybody_waits": "run_budget",
    "budget_largest": "budget_entry_job",
    "budget_rest": "budget_entry_window",
    "budget_waiting": "run_budget",
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
    "prune_candidates": "run_pruning",
    "prune_surplus": "run_pruning",
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
    indexes = r"job_due|run_(?!number)\w+|process_open|budget_entry_open|work_(open|due)"
    partial = re.compile(rf"USING (COVERING )?INDEX ({indexes})\b")
    whole = [step for step in plan if step.startswith("SCAN") and not partial.search(step)]
    return [step for step in whole if step.split()[1] not in SMALL and "VIRTUAL TABLE" not in step]


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
    assert any("INDEX run_ready (lane_id=?)" in step for step in plan), plan
    sorts = [step for step in plan if "TEMP B-TREE" in step]
    assert sorts == (plan[-1:] if name == "lane_heads" else []), "at most the heads, one a lane"


@pytest.mark.parametrize("name", ["job_by_name", "run_by_id", "run_by_number", "run_ending", "execution_by_run"])
def test_a_single_row_is_found_by_its_key(connection, name):
    plan = plan_of(connection, name)
    assert all(step.startswith("SEARCH") for step in plan), plan


@pytest.mark.parametrize("name", ["order_ahead", "order_behind"])
def test_neighbours_are_found_by_one_step_into_what_is_ready_and_one_into_what_waits_r_03(connection, name):
    plan = plan_of(connection, name)
    sign = ">" if name == "order_ahead" else "<"
    for index in ("run_order", "run_held"):
        step = f"INDEX {index} (rank=? AND (position,created_at,id){sign}(?,?,?))"
        assert any(step in found for found in plan), plan


@pytest.mark.parametrize("name", ["order_place", "order_count_above", "order_count_ready"])
def test_a_count_reads_the_queue_in_its_order_r_03(connection, name):
    plan = plan_of(connection, name)
    assert [step for step in plan if " run " in step and "INDEX run_order" not in step] == [], plan


@pytest.mark.parametrize("name", ["direct_held", "audit_called"])
def test_direct_calls_under_way_are_read_from_the_few_that_are_held_r_13(connection, name):
    plan = plan_of(connection, name)
    assert "SEARCH execution USING PRIMARY KEY (id=?)" in plan
    assert scans(plan) == []


@pytest.mark.parametrize("name", ["event_oldest_before", "event_prune"])
def test_the_oldest_events_are_found_by_their_key(connection, name):
    plan = plan_of(connection, name)
    assert "SEARCH event USING PRIMARY KEY (id<?)" in plan
    assert scans(plan) == []


def test_a_plan_without_its_index_would_be_noticed(connection):
    plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN SELECT id FROM run WHERE error = 'x'")]
    assert scans(plan)


@pytest.mark.parametrize("name", ["run_claim", "run_finish", "runs_ending", "execution_finish"])
def test_many_runs_are_moved_by_one_statement_and_each_is_found_by_its_key(connection, name):
    plan = plan_of(connection, name)
    table = "execution" if name == "execution_finish" else "run"
    assert any(step.startswith(f"SEARCH {table} ") for step in plan), plan
    assert scans(plan) == []
