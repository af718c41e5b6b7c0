"""The plans of the hot queries on SQLite: each uses its index, none reads a whole table (R-02, R-03)."""

import re

import apsw
import pytest

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
    "order_ahead": "run_ready",
    "order_behind": "run_ready",
    "order_lane_ahead": "run_ready",
    "order_lane_behind": "run_ready",
    "order_waiting_ahead": "run_held",
    "order_waiting_behind": "run_held",
    "order_waiting": "run_held",
    "order_next_rank": "run_ready",
    "runs_matching": "run_unfinished",
    "runs_matching_count": "run_unfinished",
    "runs_backfilled": "run_backfill",
    "runs_fired": "run_fire",
    "run_last_backfill": "run_unfinished",
    "runs_running": "run_slot",
    "executions_within": "execution_job",
    "executions_before": "execution_job",
    "runs_history_of_job": "run_number",
    "runs_newest": "run_number",
    "runs_in_slots": "run_slot",
    "runs_owned": "run_slot",
    "processes_with_runs": "run_slot",
    "processes_unended": "process_open",
    "prune_candidates": "run_pruning",
    "prune_surplus": "run_pruning",
}
SMALL = ("lane", "json_each", "direct_hold", "direct_wait")
"""What may be read whole: one row a set of pools, one row a value of a filter, one row a direct call under way."""


@pytest.fixture(scope="module")
def connection():
    connection = apsw.Connection(":memory:")
    for _, _, script in load_migrations("sqlite"):
        connection.execute(script).fetchall()
    return connection


def plan_of(connection, name):
    statement = load_queries("sqlite")[name]
    params = dict.fromkeys(re.findall(r":([a-z_]+)", statement), None)
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", params)]


def scans(plan):
    """Return the steps that read a table from end to end; reading a partial index is reading only what it holds."""
    partial = re.compile(r"USING (COVERING )?INDEX (job_due|run_(?!number)\w+|process_open)\b")
    whole = [step for step in plan if step.startswith("SCAN") and not partial.search(step)]
    return [step for step in whole if step.split()[1] not in SMALL and "VIRTUAL TABLE" not in step]


@pytest.mark.parametrize(("name", "index"), sorted(HOT.items()))
def test_a_hot_query_uses_its_index_and_scans_no_table(connection, name, index):
    plan = plan_of(connection, name)
    assert any(f"INDEX {index}" in step for step in plan), plan
    assert scans(plan) == []


@pytest.mark.parametrize("name", ["jobs_due", "run_unfinished_before", "runs_replacing", "runs_newest"])
def test_the_order_comes_from_the_index_and_needs_no_sorting(connection, name):
    assert not any("TEMP B-TREE" in step for step in plan_of(connection, name))


@pytest.mark.parametrize("name", ["run_candidates", "lane_heads"])
def test_the_heads_of_a_lane_are_found_without_sorting_the_queue_r_03(connection, name):
    plan = plan_of(connection, name)
    assert any("INDEX run_ready (lane_id=?)" in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan


@pytest.mark.parametrize("name", ["job_by_name", "run_by_id", "run_by_number", "run_ending", "execution_by_run"])
def test_a_single_row_is_found_by_its_key(connection, name):
    plan = plan_of(connection, name)
    assert all(step.startswith("SEARCH") for step in plan), plan


@pytest.mark.parametrize("name", ["order_place", "order_count_above", "order_count_ready"])
def test_a_count_steps_into_the_index_of_each_lane_r_03(connection, name):
    assert any(step.startswith("SEARCH q USING INDEX run_ready (lane_id=?") for step in plan_of(connection, name))


def test_a_plan_without_its_index_would_be_noticed(connection):
    plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN SELECT id FROM run WHERE error = 'x'")]
    assert scans(plan)


@pytest.mark.parametrize("name", ["run_claim", "run_finish", "runs_ending", "execution_finish"])
def test_many_runs_are_moved_by_one_statement_and_each_is_found_by_its_key(connection, name):
    plan = plan_of(connection, name)
    table = "execution" if name == "execution_finish" else "run"
    assert any(step.startswith(f"SEARCH {table} ") for step in plan), plan
    assert scans(plan) == []
