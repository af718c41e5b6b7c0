"""Direct calls of a real scheduler: several callers, and the death of each side (R-13, DEC-004, R-23)."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rota.engine.clock import SystemClock
from rota.model.clock import parse_duration
from rota.model.errors import NoSlot
from rota.operations.direct_actions import direct_call, reserve_slot
from rota.operations.project.locate import open_state
from tests.service.serving import Project, ended, gone, kill
from tests.waiting import LONGEST_WAIT, until

pytestmark = pytest.mark.xdist_group("service")

FILE = """
scheduler: {concurrency: 1}
pools: {gpu: 1}
jobs:
  gated:
    shell: 'echo begun; while [ ! -e go ]; do sleep 0.02; done; echo done'
  queued: {command: ["true"]}
  quick: {shell: 'echo "$ROTA_RUN $ROTA_TRIGGER"', pools: [gpu]}
"""
RESERVING = """
import asyncio, sys, pathlib
from rota.engine.clock import SystemClock
from rota.operations.project.locate import open_state
from rota.operations.direct_actions import reserve_slot

async def main():
    clock, state = SystemClock(), pathlib.Path(sys.argv[1])
    store = open_state(state, clock, create=False)
    async with reserve_slot(store, state, clock) as slot:
        print(slot.id, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def served(project: Project) -> Project:
    project.write(FILE)
    project.serve()
    return project


class Caller:
    """A `rota direct` in a process of its own."""

    def __init__(self, project: Project, job: str) -> None:
        self._path = project.folder / f"caller.{job}.txt"
        self.process = project.start("direct", job, log=self._path)

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return self._path.read_text()

    def waits(self) -> None:
        """Wait until it says that it waits."""
        until(lambda: "waits for the next slot" in self.printed, what="a caller to wait")

    def ends(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and what it printed."""
        return self.process.wait(LONGEST_WAIT), self.printed


def direct(project: Project) -> dict[str, Any]:
    """Return who waits and who runs."""
    told: dict[str, Any] = project.json("status")["direct"]
    return told


def running(project: Project) -> dict[str, Any]:
    """Wait until a direct call runs its command; return it."""

    def look() -> dict[str, Any] | None:
        found = direct(project)["running"]
        return found[0] if found and found[0]["started_at"] and "begun" in output(project, found[0]["id"]) else None

    told: dict[str, Any] = until(look, what="a direct call to run")
    return told


def output(project: Project, call_id: str) -> str:
    text: str = json.loads(project.rota("logs", call_id, "--json", check=False).stdout)["output"]
    return text


def ended_call(project: Project, call_id: str) -> dict[str, Any]:
    """Wait until a direct call has ended; return it."""

    def look() -> dict[str, Any] | None:
        told: dict[str, Any] = project.json("show", call_id)
        return told if told["finished_at"] else None

    found: dict[str, Any] = until(look, what="the direct call to end")
    return found


def open_gate(project: Project) -> None:
    (project.folder / "go").touch()


def test_callers_wait_for_the_current_call_and_come_before_the_queue(served: Project) -> None:
    """DEC-004: [current] → [direct] → [queue]."""
    first = Caller(served, "gated")
    running(served)
    served.rota("trigger", "queued")
    second = Caller(served, "quick")
    second.waits()
    open_gate(served)
    assert first.ends()[0] == 0
    code, printed = second.ends()
    assert code == 0
    assert "│ quick:direct direct" in printed
    served.until_told("queued", [("COMPLETED", None)])
    call_id = printed.split()[-1]
    assert served.json("show", call_id)["started_at"] <= served.history("queued")[0]["started_at"]
    assert served.history("quick") == []
    assert "clean" in served.rota("verify").stdout


def test_the_death_of_its_caller_cancels_a_call_and_ends_its_processes(served: Project) -> None:
    caller = Caller(served, "gated")
    told = running(served)
    caller.process.kill()
    caller.ends()
    found = ended_call(served, told["id"])
    assert (found["status"], found["reason"]) == ("CANCELLED", "requested")
    until(lambda: gone(told["pid"]), what="the keeper to end, which told the outcome before")


def test_a_call_survives_the_death_of_the_scheduler_under_its_keeper(served: Project) -> None:
    """R-23: the next scheduler adopts it, and its caller sees it end."""
    caller = Caller(served, "gated")
    told = running(served)
    kill(served.servers[0])
    served.serve()
    assert [one["id"] for one in direct(served)["running"]] == [told["id"]]
    open_gate(served)
    code, printed = caller.ends()
    assert (code, "│ done" in printed, "COMPLETED" in printed) == (0, True, True)
    assert "clean" in served.rota("verify").stdout


def test_a_caller_whose_scheduler_never_comes_back_is_told(served: Project) -> None:
    caller = Caller(served, "gated")
    running(served)
    kill(served.servers[0])
    open_gate(served)
    code, printed = caller.ends()
    assert code == 69
    assert "the scheduler is gone" in printed


def test_ctrl_c_gives_up_the_place_of_a_waiting_caller(served: Project) -> None:
    current = Caller(served, "gated")
    running(served)
    waiting = Caller(served, "quick")
    waiting.waits()
    waiting.process.send_signal(signal.SIGINT)
    code, printed = waiting.ends()
    assert (code, "quick  cancelled" in printed) == (130, True)
    assert direct(served)["waiting"] == []
    open_gate(served)
    assert current.ends()[0] == 0


def test_ctrl_c_cancels_a_running_call(served: Project) -> None:
    caller = Caller(served, "gated")
    told = running(served)
    caller.process.send_signal(signal.SIGINT)
    assert caller.ends()[0] == 130
    found = ended_call(served, told["id"])
    assert (found["status"], found["reason"]) == ("CANCELLED", "requested")
    until(lambda: gone(told["pid"]), what="the keeper to end, which told the outcome before")


def test_waiting_callers_are_told_when_the_scheduler_stops(served: Project) -> None:
    """CON-003: exit 69, and their place is gone; the running call may finish."""
    current = Caller(served, "gated")
    running(served)
    waiting = Caller(served, "quick")
    waiting.waits()
    told = served.folder / "stop.txt"
    stopping = served.start("stop", "--when-idle", log=told)
    code, printed = waiting.ends()
    assert (code, "the scheduler stopped before it started" in printed) == (69, True)
    open_gate(served)
    assert current.ends()[0] == 0
    assert ended(served.servers[0]) == 0
    assert stopping.wait(LONGEST_WAIT) == 0
    assert "1 direct call may finish" in told.read_text()


def test_the_slot_of_a_program_that_reserved_it_and_died_is_free_again(served: Project, tmp_path: Path) -> None:
    script = tmp_path / "reserving.py"
    script.write_text(RESERVING)
    program = subprocess.Popen(
        [sys.executable, str(script), str(served.state)], stdout=subprocess.PIPE, text=True, env=served.environment()
    )
    assert program.stdout is not None
    call_id = program.stdout.readline().strip()
    served.rota("trigger", "queued")
    assert served.json("show", call_id)["pid"] == program.pid
    assert served.told("queued") == [("QUEUED", None)]
    program.kill()
    program.communicate(timeout=LONGEST_WAIT)
    served.until_told("queued", [("COMPLETED", None)])
    assert ended_call(served, call_id)["error"] == "the caller ended"


@pytest.mark.anyio
async def test_a_block_holds_its_slot_and_pools_until_it_is_left(served: Project) -> None:
    """R-13: `async with reserve_slot()`."""
    clock = SystemClock()
    store = open_state(served.state, clock, create=False)
    try:
        async with reserve_slot(store, served.state, clock, pools=["gpu"]) as reservation:
            assert reservation.slot == 0
            served.rota("trigger", "queued")
            with pytest.raises(NoSlot, match="within 1 s"):
                async with reserve_slot(store, served.state, clock, within=parse_duration("1s")):
                    pass
            assert served.told("queued") == [("QUEUED", None)]
        served.until_told("queued", [("COMPLETED", None)])
        assert served.json("show", reservation.id)["status"] == "COMPLETED"
        with pytest.raises(ZeroDivisionError):
            async with reserve_slot(store, served.state, clock) as failing:
                raise ZeroDivisionError("by nothing")
        found = served.json("show", failing.id)
        assert (found["status"], found["reason"], found["error"]) == (
            "FAILED",
            "exception",
            "ZeroDivisionError: by nothing",
        )
    finally:
        store.close()


@pytest.mark.anyio
async def test_a_program_awaits_a_direct_call(served: Project) -> None:
    """`operations.direct_call`, for other faces."""
    clock = SystemClock()
    store = open_state(served.state, clock, create=False)
    try:
        view = await direct_call(store, served.state, clock, job="quick")
    finally:
        store.close()
    assert (view.status, view.exit_code) == ("COMPLETED", 0)
    assert output(served, view.id) == "quick:direct direct\n"
