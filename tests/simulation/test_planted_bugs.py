"""Test the tests: each planted bug must make the part of the suite fail that stands guard against it.

A bug is an edit of a copy of the package (`EDITS`), and a process of its own runs the part of the suite on that copy.
One bug is a store of the simulation instead, since it is no small edit: two transactions for a fire.
"""

import ctypes
import os
import shutil
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

from rota.engine.transactions.fire import fire
from rota.store.driver import PLAIN, Database, Operation, WriteOptions
from tests.postgres import VARIABLE as POSTGRES
from tests.postgres import server_address
from tests.simulation.failing import failing
from tests.simulation.world import DyingStore, World
from tests.waiting import LONGEST_WAIT

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "rota"
SET_CHILD_SUBREAPER = 36

EDITS = (
    (
        "unique_key_dropped",
        "store/sql/sqlite/migrations/0014_row_states.sql",
        "CREATE UNIQUE INDEX run_fire",
        "CREATE INDEX run_fire",
    ),
    (
        "unique_key_dropped",
        "store/sql/postgres/migrations/0014_row_states.sql",
        "CREATE UNIQUE INDEX run_fire",
        "CREATE INDEX run_fire",
    ),
    (
        "synchronous_normal",
        "store/sqlite/store.py",
        '"synchronous", 2, value="FULL"',
        '"synchronous", 1, value="NORMAL"',
    ),
    (
        "acknowledged_before_commit",
        "store/sqlite/store.py",
        "for item in batch)\n                driver.store_counts(database)\n",
        (
            "for item in batch)\n                driver.store_counts(database)\n"
            "                from rota.store.driver import hand_back\n\n                hand_back(done)\n"
        ),
    ),
    (
        "acknowledged_before_commit_on_postgres",
        "store/postgres/store.py",
        "                    commit(link, meanwhile=partial(driver.call_precommit, batch, done))",
        (
            "                    from rota.store.driver import hand_back\n\n                    hand_back(done)\n"
            "                    commit(link, meanwhile=partial(driver.call_precommit, batch, done))"
        ),
    ),
    (
        "no_epoch_check",
        "store/queries.py",
        "            text = file.read_bytes().decode()",
        (
            r'            text = re.sub(r"\bepoch (IS|IS NOT DISTINCT FROM) :epoch\b",'
            r' r"CAST(:epoch AS bigint) \1 :epoch", file.read_bytes().decode())'
        ),
    ),
    (
        "unknown_key_ignored",
        "declare/keys.py",
        "            problems.append(_unknown(table, name))",
        "            continue  # planted",
    ),
    (
        "recovery_without_kill",
        "engine/recovery.py",
        "outcome = await heir.end_tree(left.owned.id)",
        "outcome = RESTARTED",
    ),
    (
        "group_kill_only",
        "runners/keeper.py",
        "    if _prctl is not None:\n        _prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)",
        "    pass",
    ),
    (
        "group_kill_only",
        "runners/keeper.py",
        "        strays = self._strays()\n        for pid in strays:",
        (
            "        if self.child:\n            send(-self.child, *signals)\n            return []\n"
            "        strays = self._strays()\n        for pid in strays:"
        ),
    ),
    (
        "pool_not_given_back",
        "store/tables/queue.py",
        'db.execute("pools_give_back", lanes=json.dumps(drawing))',
        "pass",
    ),
    (
        "retry_not_waited_for",
        "engine/transactions/finish.py",
        "run_queries.relink_followers(db, attempt.retry_of, born.id)",
        "pass",
    ),
    (
        "gate_opened_before_commit",
        "engine/loops/executor.py",
        'faults.point("execute.launched")',
        'faults.point("execute.launched")\n        launched.open()',
    ),
    (
        "count_off_by_one",
        "rules/schedule/instants.py",
        "    if schedule.cron:\n        return cron_count(",
        "    last -= _INSTANT\n    if schedule.cron:\n        return cron_count(",
    ),
    ("condition_error_opens", "rules/admission.py", 'if result.answer == "error":', "if False:"),
    ("refire_on_step_back", "engine/loops/firer.py", 'db.rows("jobs_following")', 'db.rows("jobs_all")'),
)
"""Bugs: name, file below `src/rota`, old text, new text. A bug of several edits has several rows."""

NODES = {
    "unique_key_dropped": "tests/store/test_store_runs.py::test_a_fire_is_stored_once_r_05",
    "synchronous_normal": "tests/store/test_sqlite.py::test_every_connection_has_the_pragmas_that_the_promises_rest_on",
    "acknowledged_before_commit": "tests/store/test_sqlite.py"
    "::test_submitted_operations_share_a_commit_and_none_is_acknowledged_before_it",
    "acknowledged_before_commit_on_postgres": "tests/store/test_postgres.py"
    "::test_a_commit_without_an_answer_is_looked_up_and_happens_once[question-submit]",
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


def copy(folder: Path, bug: str | None = None) -> None:
    """Copy the package into a folder, with the edits of a bug; an edit that fits no line, or several, is stale."""
    unfinished = shutil.ignore_patterns("*.pyc.*")  # bytecode that another process writes
    shutil.copytree(SOURCES, folder / "rota", ignore=unfinished)
    for name, file, old, new in EDITS:
        if name != bug:
            continue
        path = folder / "rota" / file
        text = path.read_text("utf-8")
        assert text.count(old) == 1, f"{name}: {old!r} occurs {text.count(old)} times in {file}"
        path.write_text(text.replace(old, new), "utf-8")


def run(tmp_path: Path, *arguments: str, bug: str | None = None) -> tuple[int, str]:
    """Run a module of Python on a copy of the package, with a bug planted; return its exit code and its output."""
    copy(tmp_path / "copy", bug)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE", "PYTEST_"))}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(tmp_path / "copy")}
    environment[POSTGRES] = server_address()  # else each would make a server of its own
    output = tmp_path / "output"  # a pipe would stay open as long as a process that the bug leaves running
    with output.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            timeout=LONGEST_WAIT,
            check=False,
        )
    return done.returncode, output.read_text(errors="replace")


@contextmanager
def orphans_killed() -> Iterator[None]:
    """Become the parent of whatever a planted bug leaves running, and kill it."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else lambda *_: 0
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


def test_every_planted_bug_is_looked_for() -> None:
    planted = {name for name, *_ in EDITS}
    assert planted == {*NODES, *SEEDS}
    assert len(planted) + len(MADE_HERE) >= 12


def test_every_edit_fits_exactly_one_line() -> None:
    stale = [(name, file) for name, file, old, _ in EDITS if (SOURCES / file).read_text("utf-8").count(old) != 1]
    assert not stale


def test_without_a_bug_the_same_tests_find_nothing(tmp_path: Path) -> None:
    code, output = run(tmp_path, *PYTEST, *NODES.values())
    assert code == 0, output[-4000:]


@pytest.mark.parametrize("bug", sorted(NODES))
def test_a_test_of_the_suite_finds(bug: str, tmp_path: Path) -> None:
    with orphans_killed():
        code, output = run(tmp_path, *PYTEST, NODES[bug], bug=bug)
    assert code == AS_FAILED, output[-4000:]
    assert " failed" in output


@pytest.mark.parametrize("bug", sorted(SEEDS))
def test_the_simulation_finds(bug: str, tmp_path: Path) -> None:
    first, count = SEEDS[bug]
    wanted = ("--seeds", str(count), "--from", str(first), "--processes", "1", "--as-it-is", "--first", "--quiet")
    code, output = run(tmp_path, "tests.simulation", *wanted, bug=bug)
    assert code == AS_FAILED, output[-4000:]
    assert "repeat it with" in output


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
