"""`rota direct` and `rota run --next-slot`, with a scheduler played by the pauses between two looks (R-13)."""

import json
import signal
import weakref
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

import pytest

from rota.cli.invocation import Invocation
from rota.engine.membership.locks import Lock, take_serve_lock
from rota.engine.transactions import direct_calls
from rota.engine.transactions.claim import Claimed, ClaimOwner, claim, start
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.direct_actions import ask_for_work
from rota.operations.project.locate import open_state
from rota.runners.output import folder_of, make_folder
from rota.runners.processes import identity
from rota.store.driver import Database
from rota.store.tables import direct_calls as direct_calls_table
from tests.faces.conftest import Project

FILE = """
pools: {gpu: 1}
jobs:
  extract: {command: [extract], params: {day: today}, pools: [gpu]}
  off: {command: [extract], enabled: false}
"""
DONE = Outcome(Status.COMPLETED, exit_code=0, summary="3 rows")
BROKEN = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3: no rows")

Step = Callable[[Database], None]


class Gone:
    """What a weak reference is told the end of."""


class Scheduler:
    """Somebody who holds the lock of a scheduler, and takes one step in each pause of a command."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.lock: Lock | None = take_serve_lock(project.state)
        self.steps: list[Step] = []
        self.holder: ClaimOwner | None = None
        self.claimed: list[Claimed] = []
        project.pause = self.pause

    def pause(self, _seconds: float) -> None:
        Invocation().pause(0)
        self.project.clock.advance(timedelta(seconds=1))
        if self.steps:
            self.write(self.steps.pop(0))

    def write(self, step: Step) -> None:
        store = open_state(self.project.state, self.project.clock, create=False)
        try:
            store.write(step)
        finally:
            store.close()

    def claims(self, db: Database) -> None:
        self.holder = self.holder or self.project._holder(db)
        self.claimed += claim(db, self.holder, range(4), now=self.project.clock.now())

    def starts(self, db: Database) -> None:
        assert self.holder is not None
        for one in self.claimed:
            start(db, one, self.holder, process=self.holder.identity, now=self.project.clock.now())

    def writes(self, text: str) -> Step:
        def step(_db: Database) -> None:
            for one in self.claimed:
                (make_folder(folder_of(self.project.state, one.run.id)) / "output.0").write_text(text)

        return step

    def ends(self, outcome: Outcome) -> Step:
        def step(db: Database) -> None:
            for one in self.claimed:
                assert direct_calls.finish(db, one.run.id, outcome, epoch=None, now=self.project.clock.now())

        return step

    def another(self, db: Database) -> None:
        """Let somebody else call."""
        ask_for_work(db, name="extract", params=None, caller=identity(), now=self.project.clock.now())

    def dismisses(self, db: Database) -> None:
        direct_calls_table.dismiss(db)

    def vanishes(self, _db: Database) -> None:
        assert self.lock is not None
        self.lock.release()
        self.lock = None

    def interrupts(self, _db: Database) -> None:
        raise KeyboardInterrupt

    def interrupts_in_vain(self, _db: Database) -> None:
        """Press Ctrl-C while the interpreter runs a callback of its own, out of which nothing comes but a warning."""
        gone = Gone()
        told = weakref.ref(gone, lambda _: signal.raise_signal(signal.SIGINT))
        del gone
        assert told() is None


@pytest.fixture
def scheduler(project: Project) -> Iterator[Scheduler]:
    project.applied(FILE)
    made = Scheduler(project)
    yield made
    if made.lock is not None:
        made.lock.release()


def last_call(project: Project, scheduler: Scheduler) -> dict[str, object]:
    told: dict[str, object] = project.json("show", scheduler.claimed[-1].run.id)
    return told


@pytest.mark.parametrize("typed", [("direct", "extract"), ("run", "extract", "--next-slot")])
def test_a_call_is_followed_to_its_end(project: Project, scheduler: Scheduler, typed: tuple[str, ...]) -> None:
    """DEC-004: both spellings, the same words."""
    scheduler.steps = [scheduler.claims, scheduler.starts, scheduler.writes("one\ntwo\n"), scheduler.ends(DONE)]
    result = project.rota(*typed)
    assert result.exit_code == 0
    call_id = scheduler.claimed[0].run.id
    assert result.stdout.splitlines() == [
        "extract  waits for the next slot → RUNNING  12:00:02   (Ctrl-C cancels it)",
        "│ one",
        "│ two",
        f"extract  COMPLETED  2 s · 3 rows   rota show {call_id}",
    ]


def test_json_tells_the_call_when_it_has_ended(project: Project, scheduler: Scheduler) -> None:
    scheduler.steps = [scheduler.claims, scheduler.starts, scheduler.ends(DONE)]
    result = project.rota("direct", "extract", "--param", "day=monday", "--json")
    told = json.loads(result.stdout)
    assert (told["status"], told["exit_code"], told["result_summary"]) == ("COMPLETED", 0, "3 rows")
    assert (told["job"], told["direct"], told["reserves"], told["slot"]) == ("extract", True, False, 0)
    assert told["params"] == {"day": "monday"}
    assert told["started_at"] == "2026-11-15T12:00:02Z"


@pytest.mark.parametrize(
    ("outcome", "code"), [(DONE, 0), (BROKEN, 1), (Outcome(Status.CANCELLED, Reason.REQUESTED), 4)]
)
def test_the_exit_code_tells_how_it_ended(project: Project, scheduler: Scheduler, outcome: Outcome, code: int) -> None:
    scheduler.steps = [scheduler.claims, scheduler.starts, scheduler.ends(outcome)]
    assert project.rota("direct", "extract").exit_code == code


def test_a_call_without_a_scheduler_is_refused_at_once(project: Project) -> None:
    project.applied(FILE)
    result = project.rota("direct", "extract")
    assert result.exit_code == 69
    assert "no scheduler is running" in result.stderr
    assert "rota serve" in result.stderr
    assert project.json("status")["direct"] == {"waiting": [], "running": []}


def test_a_call_that_gets_no_slot_in_time_gives_up_its_place(project: Project, scheduler: Scheduler) -> None:
    result = project.rota("direct", "extract", "--wait", "5s")
    assert result.exit_code == 5
    assert "extract got no slot and left the queue" in result.stdout
    assert project.json("status")["direct"]["waiting"] == []


def test_a_call_that_runs_longer_than_the_limit_is_cancelled(project: Project, scheduler: Scheduler) -> None:
    scheduler.steps = [scheduler.claims, scheduler.starts]
    result = project.rota("direct", "extract", "--wait", "5s")
    assert result.exit_code == 5
    assert "extract was still running and is cancelled" in result.stdout
    call_id = scheduler.claimed[0].run.id
    store = open_state(project.state, project.clock, create=False)
    found = store.read(partial(direct_calls_table.direct_by_id, call_id=call_id))
    store.close()
    assert found is not None
    assert found.cancel_requested_at is not None


def test_ctrl_c_gives_the_place_up(project: Project, scheduler: Scheduler) -> None:
    scheduler.steps = [scheduler.interrupts]
    result = project.rota("direct", "extract")
    assert result.exit_code == 130
    assert "extract  cancelled" in result.stdout
    assert project.json("status")["direct"]["waiting"] == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_that_the_interpreter_swallows_still_cancels(project: Project, scheduler: Scheduler) -> None:
    scheduler.steps = [scheduler.claims, scheduler.starts, scheduler.interrupts_in_vain, scheduler.ends(DONE)]
    result = project.rota("direct", "extract")
    assert (result.exit_code, "cancelled" in result.stdout) == (130, True)


def test_a_caller_that_is_sent_away_says_so(project: Project, scheduler: Scheduler) -> None:
    """CON-003: the scheduler stops."""
    scheduler.steps = [scheduler.dismisses]
    result = project.rota("direct", "extract")
    assert result.exit_code == 69
    assert "the direct call of 'extract': the scheduler stopped before it started" in result.stderr


def test_a_caller_whose_scheduler_vanished_leaves_the_line(project: Project, scheduler: Scheduler) -> None:
    scheduler.steps = [scheduler.vanishes]
    result = project.rota("direct", "extract")
    assert result.exit_code == 69
    assert project.json("status")["direct"]["waiting"] == []


def test_a_rehearsal_shows_slot_pools_and_who_is_ahead(project: Project, scheduler: Scheduler) -> None:
    for _ in range(2):
        scheduler.write(scheduler.another)
    told = project.ok("direct", "extract", "--dry-run").splitlines()
    assert told[0] == "would call extract in the next free slot, behind 2 callers, before the whole queue"
    assert told[-1] == "nothing was changed (--dry-run)"
    assert project.json("direct", "extract", "--dry-run") == {
        "job": "extract",
        "params": {"day": "today"},
        "pools": {"gpu": 1},
        "ahead": 2,
    }
    assert project.json("run", "extract", "--next-slot", "--dry-run")["ahead"] == 2


@pytest.mark.parametrize("option", ["--detach", "--force", "--retry"])
def test_next_slot_does_not_go_with_detach_force_or_retry(project: Project, scheduler: Scheduler, option: str) -> None:
    result = project.rota("run", "extract", "--next-slot", option)
    assert result.exit_code == 2
    assert "--next-slot goes with none of --detach, --force and --retry" in result.stderr


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        (("direct", "extrakt"), 2, "did you mean 'extract'?"),
        (("direct", "off"), 6, "disabled"),
        (("direct", "extract", "--param", "week=2"), 2, "has no param 'week'"),
    ],
)
def test_what_cannot_be_called_is_refused(
    project: Project, scheduler: Scheduler, typed: tuple[str, ...], code: int, said: str
) -> None:
    result = project.rota(*typed)
    assert (result.exit_code, said in result.stderr) == (code, True)


def test_status_tells_who_waits_and_who_runs(project: Project, scheduler: Scheduler) -> None:
    for step in (scheduler.another, scheduler.claims, scheduler.starts, scheduler.another, scheduler.another):
        scheduler.write(step)
    assert scheduler.holder is not None
    pid = scheduler.holder.identity.pid
    assert f"direct    2 waiting, 1 running (extract, pid {pid})" in project.rota("status").stdout.splitlines()
    told = project.json("status")["direct"]
    assert [one["ahead"] for one in told["waiting"]] == [0, 1]
    assert [one["status"] for one in told["running"]] == ["RUNNING"]


def test_show_and_logs_know_a_direct_call_by_its_identifier(project: Project, scheduler: Scheduler) -> None:
    scheduler.steps = [scheduler.claims, scheduler.starts, scheduler.writes("no rows\n"), scheduler.ends(BROKEN)]
    project.rota("direct", "extract")
    call_id = scheduler.claimed[0].run.id
    shown = project.ok("show", call_id).splitlines()
    assert shown[0] == "extract  direct call  FAILED exit_code"
    assert any(line.split() == ["exit", "code", "3"] for line in shown)
    assert any(line.strip() == f"more         rota logs {call_id}" for line in shown)
    assert last_call(project, scheduler)["error"] == "exit 3: no rows"
    assert project.ok("logs", call_id) == "no rows\n"
    assert project.json("logs", call_id) == {"run": "extract", "output": "no rows\n", "note": None}


def test_logs_say_why_a_direct_call_has_no_output(project: Project, scheduler: Scheduler) -> None:
    scheduler.steps = [scheduler.claims, scheduler.starts, scheduler.ends(DONE)]
    project.rota("direct", "extract")
    result = project.rota("logs", scheduler.claimed[0].run.id)
    assert "the direct call of extract wrote nothing" in result.stderr


def test_a_direct_call_is_cancelled_by_its_identifier(project: Project, scheduler: Scheduler) -> None:
    for step in (scheduler.another, scheduler.claims, scheduler.starts, scheduler.another):
        scheduler.write(step)
    running = scheduler.claimed[0].run.id
    waiting = project.json("status")["direct"]["waiting"][0]["id"]
    told = project.ok("cancel", waiting, running, "--dry-run").splitlines()
    assert told[:2] == ["extract  would be removed from the queue", "extract  would be stopped"]
    told = project.ok("cancel", waiting, running).splitlines()
    assert told[0] == "extract  removed from the queue, it had not started"
    assert told[1] == f"extract  is being stopped   rota show {running}"
    assert project.json("status")["direct"]["waiting"] == []
    scheduler.write(scheduler.ends(DONE))
    again = project.rota("cancel", running)
    assert (again.exit_code, "is already COMPLETED" in again.stderr) == (6, True)
