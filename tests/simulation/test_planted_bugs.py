"""Test the tests: each planted bug must make the part of the suite fail that stands guard against it.

Most bugs are one-line hooks in the code (`rota.faults.planted`), armed by a private file that a subprocess is pointed
at. One is made here instead, since its hook would have disturbed the code: two transactions for a fire.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from rota import faults
from rota.engine.transactions.fire import fire
from rota.store.driver import PLAIN, Database, Operation, WriteOptions
from tests import forking
from tests.simulation.failing import failing
from tests.simulation.world import DyingStore, World
from tests.waiting import LONGEST_WAIT

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "rota"
SET_CHILD_SUBREAPER = 36

NODES = {
    "unique_key_dropped": "tests/store/test_store_runs.py::test_a_fire_is_stored_once_r_05",
    "synchronous_normal": "tests/store/test_sqlite.py::test_every_connection_has_the_pragmas_that_the_promises_rest_on",
    "acknowledged_before_commit": "tests/store/test_sqlite.py"
    "::test_submitted_operations_share_a_commit_and_none_is_acknowledged_before_it",
    "no_epoch_check": "tests/store/test_store_runs.py::test_after_adoption_only_the_new_epoch_can_write_r_23",
    "unknown_key_ignored": "tests/unit/declare/test_validate.py"
    "::test_the_three_mistakes_of_the_experience_are_told_at_once_in_file_order",
    "recovery_without_kill": "tests/simulation/test_simulation.py"
    "::test_a_scheduler_that_died_with_its_keepers_leaves_no_process",
    "group_kill_only": "tests/service/test_process_trees.py"
    "::test_r28_what_a_command_leaves_behind_is_killed_when_it_ends",
    "pool_not_given_back": "tests/engine/test_pools.py::test_a_pool_of_one_never_holds_two",
    "retry_not_waited_for": "tests/engine/test_retry.py::test_who_is_queued_behind_a_run_waits_for_its_chain",
}
"""Bugs that a test of the suite finds."""

SEEDS = {
    "gate_opened_before_commit": (46, 4),
    "count_off_by_one": (2, 2),
    "condition_error_opens": (1, 2),
    "refire_on_step_back": (11, 3),
}
"""Bugs that the simulation finds, and among which seeds."""

AS_FAILED = 1
PYTEST = ("pytest", "-x", "-p", "pytest_timeout", "-p", "anyio.pytest_plugin")


def run(tmp_path: Path, *arguments: str, bug: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a module of Python in a process of its own, with a bug planted."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE", "PYTEST_"))}
    if bug is not None:
        armed = tmp_path / "faults.json"
        armed.write_text(json.dumps({"planted": [bug]}))
        armed.chmod(0o600)
        environment[faults.VARIABLE] = str(armed)
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    module, *others = arguments
    return forking.run(module, *others, environment=environment, folder=tmp_path, timeout=LONGEST_WAIT)


@contextmanager
def orphans_killed() -> Iterator[None]:
    """Become the parent of whatever a planted bug leaves running, and kill it."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else lambda *_: 0
    forking.parent()  # it stays
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        left = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
        for process in left:
            process.send_signal(signal.SIGKILL)
        psutil.wait_procs(left)


def test_every_planted_bug_of_the_code_is_looked_for_here() -> None:
    texts = [path.read_text() for path in SOURCES.rglob("*.py") if path.name != "faults.py"]
    planted = {part.partition('"')[0] for text in texts for part in text.split('faults.planted("')[1:]}
    assert planted == {*NODES, *SEEDS}
    assert len(planted) + len(MADE_HERE) >= 12


def test_without_a_bug_the_same_tests_find_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, *PYTEST, *NODES.values())
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize("bug", sorted(NODES))
def test_a_test_of_the_suite_finds(bug: str, tmp_path: Path) -> None:
    with orphans_killed():
        done = run(tmp_path, *PYTEST, NODES[bug], bug=bug)
    assert done.returncode == AS_FAILED, done.stdout[-2000:] + done.stderr[-2000:]
    assert " failed" in done.stdout


@pytest.mark.parametrize("bug", sorted(SEEDS))
def test_the_simulation_finds(bug: str, tmp_path: Path) -> None:
    first, count = SEEDS[bug]
    wanted = ("--seeds", str(count), "--from", str(first), "--processes", "1", "--as-it-is", "--first", "--quiet")
    done = run(tmp_path, "tests.simulation", *wanted, bug=bug)
    assert done.returncode == AS_FAILED, done.stdout[-2000:] + done.stderr[-2000:]
    assert "repeat it with" in done.stdout


class Late:
    """A transaction that leaves the moving of cursors for another one."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.kept: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, query: str, /, **params: Any) -> int:
        if query != "job_move_cursor":
            return self._db.execute(query, **params)
        self.kept.append(params)
        return 1


class TwoTransactions(DyingStore):
    """Fires in two transactions: the rows, then the cursor."""

    def submit(self, operation: Operation[Any], manner: WriteOptions = PLAIN) -> Any:
        if not isinstance(operation, partial) or operation.func is not fire:
            return super().submit(operation, manner)
        held: list[dict[str, Any]] = []

        def rows(db: Database) -> Any:
            late = Late(db)
            fired = operation(late)
            held.extend(late.kept)
            return fired

        first = super().submit(rows)
        first.add_done_callback(lambda _: super(TwoTransactions, self).submit(partial(_move, held=held)))
        return first


def _move(db: Database, *, held: list[dict[str, Any]]) -> None:
    for params in held:
        db.execute("job_move_cursor", **params)


class WorldOfTwoTransactions(World):
    store_type = TwoTransactions


MADE_HERE = {"two_transactions_for_fire": WorldOfTwoTransactions}
SEEDS_MADE_HERE = (43, 29, 47, 48)


@pytest.mark.parametrize("bug", sorted(MADE_HERE))
def test_the_simulation_finds_what_is_made_here(bug: str) -> None:
    assert any(failing([seed], MADE_HERE[bug])[1] for seed in SEEDS_MADE_HERE)
