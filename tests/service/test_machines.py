"""Several machines on one PostgreSQL: who is lost, who comes back, what holds over all (R-03, R-04, R-05, R-22)."""

import signal
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.shims import compiled
from tests.faults.steps import SteppedClock
from tests.postgres import lay_postgres
from tests.service.machines import Machine
from tests.service.serving import gone, kill
from tests.waiting import until

FILE = """
scheduler: {concurrency: 4, tick: 1s}
pools: {one: 1, left: 9, right: 9}
jobs:
  work: {command: [sleep, "600"], pools: [left], retry: {max_attempts: 2, backoff: 1s, jitter: 0}}
  more: {command: [sleep, "600"], pools: [right], retry: {max_attempts: 2, backoff: 1s, jitter: 0}}
  short: {command: ["true"], pools: [one], overlap: allow}
  talk: {command: [echo, "said there"], pools: [right], output: database}
  each: {cron: "* * * * *", command: ["true"]}
"""

Make = Callable[[str], Machine]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Make]:
    """Make folders that share one database."""
    store, made = lay_postgres("machines"), []

    def make(name: str) -> Machine:
        made.append(Machine(tmp_path / name, store, FILE))
        return made[-1]

    yield make
    for one in made:
        one.end()


def test_runs_of_a_lost_machine_run_elsewhere_and_one_that_returns_ends_its_own_tree(machine: Make) -> None:
    """R-22, G-09: one machine is killed, one stopped beyond its lease and let go again."""
    here, killed, stopped = machine("a"), machine("b"), machine("c")
    here.serve("--name", "here")
    here.rota("workers", "drain", "here")
    first = killed.work("--name", "killed", "--only-pools", "left")
    second = stopped.work("--name", "stopped", "--only-pools", "right", "--label", "zone=east")
    here.rota("trigger", "work")
    here.rota("trigger", "more")
    until(lambda: here.running_on("work") == "killed", what="the run on the machine to be killed")
    until(lambda: here.running_on("more") == "stopped", what="the run on the machine to be stopped")
    tree = until(stopped.processes, what="its command to begin")
    here.rota("workers", "resume", "here")
    kill(first)
    second.send_signal(signal.SIGSTOP)
    until(lambda: here.running_on("work") == "here" == here.running_on("more"), what="both runs to run again here")
    assert here.told("work") == [("FAILED", "worker_lost"), ("RUNNING", None)]
    assert here.told("more") == [("FAILED", "worker_lost"), ("RUNNING", None)]
    assert here.workers()["stopped"]["state"] == "gone"
    second.send_signal(signal.SIGCONT)
    until(lambda: all(gone(pid) for pid in tree), what="the tree of the machine that came back to end")
    until(lambda: here.workers()["stopped"]["state"] == "alive", what="the machine to begin anew")
    assert here.workers()["stopped"]["labels"] == {"zone": "east"}
    assert "lease expired" in stopped.log()
    assert here.rota("workers", "forget", "stopped", check=False).returncode == 6
    left = killed.processes()
    killed.work()
    until(lambda: all(gone(pid) for pid in left), what="what the killed machine left to end at its next start")
    assert left
    assert here.json("verify")["violations"] == []
    killed.rota("stop")
    until(lambda: here.workers()["killed"]["state"] == "gone", what="the machine to leave")
    here.rota("workers", "forget", "killed")
    assert sorted(here.workers()) == ["here", "stopped"]


def test_a_pool_of_one_and_every_instant_hold_over_two_machines(machine: Make) -> None:
    """R-03, R-05."""
    one, two = machine("a"), machine("b")
    one.serve("--name", "one")
    two.serve("--name", "two")
    for _ in range(8):
        one.rota("trigger", "short")
    until(lambda: all(run["status"] == "COMPLETED" for run in one.history("short")), what="all runs to end")
    spans = sorted((run["started_at"], run["finished_at"]) for run in one.history("short"))
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert one.json("verify")["violations"] == []


def test_a_drained_worker_leaves_runs_to_the_others(machine: Make) -> None:
    """R-04."""
    one, two = machine("a"), machine("b")
    one.serve("--name", "one")
    two.work("--name", "two")
    one.rota("workers", "drain", "one")
    one.rota("trigger", "work")
    until(lambda: one.running_on("work") == "two", what="the other worker to take the run")
    note = one.json("logs", "work")["note"]
    assert "is on the worker two" in note
    one.rota("cancel", "work", "--yes")
    one.until_told("work", [("CANCELLED", "requested")])


def test_output_that_is_shared_is_read_on_every_machine(machine: Make) -> None:
    """R-21."""
    one, two = machine("a"), machine("b")
    one.serve("--except-pools", "right")
    two.work("--name", "two")
    one.rota("trigger", "talk")
    one.until_told("talk", [("COMPLETED", None)])
    assert one.json("show", "talk:1")["worker"] == "two"
    assert one.rota("logs", "talk:1").stdout == "said there\n"


def test_a_run_that_no_worker_takes_says_so(machine: Make) -> None:
    """R-02: no_worker is derived when somebody looks."""
    one = machine("a")
    one.serve("--except-pools", "left")
    one.rota("trigger", "work")
    held = until(lambda: [run["held"] for run in one.json("queue")["ready"]], what="the run to wait")
    assert held == ["no_worker"]
    assert "no running worker accepts runs that use left" in one.rota("explain", "work").stdout


class ClockAhead(Machine):
    """A machine whose clock is wrong by as much as its file says."""

    def environment(self) -> dict[str, str]:
        """Return the environment of commands and schedulers."""
        shim = compiled("clock", self.folder.parent)
        return {**super().environment(), "LD_PRELOAD": str(shim), "FAULTS_CLOCK": str(self.folder / "clock")}


def test_a_machine_whose_clock_is_an_hour_ahead_takes_no_part_until_it_is_right(tmp_path: Path, machine: Make) -> None:
    """R-41: the right machine fires every instant, nothing is missed, and everybody is told."""
    right = machine("a")
    right.serve("--name", "right")
    wrong = ClockAhead(tmp_path / "b", right.store, FILE)
    wrong.apart = True
    clock = SteppedClock(wrong.folder / "clock")
    clock.step(3600)
    try:
        ticked = wrong.rota("tick", check=False)
        assert "clock: this machine's clock is 1 h ahead" in ticked.stdout + ticked.stderr
        wrong.serve("--name", "wrong")
        told = until(lambda: wrong.json_of("status")["failing"], what="the wrong clock to be told")
        assert (told["stage"], told["code"]) == ("clock", "clock_wrong")
        assert wrong.rota("status", check=False).returncode == 1
        assert "clock is wrong" in wrong.log()
        until(lambda: right.workers()["wrong"]["clock_skew_seconds"], what="the others to know")
        assert round(right.workers()["wrong"]["clock_skew_seconds"] / 60) == 60
        assert "clock wrong" in right.rota("workers").stdout
        attention = {one["name"]: one["what"] for one in right.json("status")["attention"]}
        assert "1 h ahead of the database server's" in attention["wrong"]
        assert [reason for _, reason in right.told("each") if reason is not None] == []
        clock.step(-3600)
        until(lambda: right.workers()["wrong"]["clock_skew_seconds"] is None, what="the clock to be right again")
        right.rota("workers", "drain", "right")
        assert "COMPLETED" in right.rota("run", "short").stdout
        assert right.json("show", "short:1")["worker"] == "wrong"
        assert right.clean() == "[]"
    finally:
        wrong.end()
