"""`rota verify` over direct calls, which have no run: their slots, their owners and their processes (R-13)."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest

from rota.operations.verify.report import Check
from rota.runners.processes import TAG
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.calling import call, reserve
from tests.engine.conftest import audit, command
from tests.scene import tamper

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)


async def with_calls(scene: Scene) -> tuple[str, str]:
    """Play a call that has ended and one that runs, and a reserved slot beside a run; return the two calls."""
    scene.declare(command("quick"), command("long"), command("run"))
    scene.processes.scripts["long"] = scene.processes.scripts["run"] = Script(takes=HOUR)
    ended = call(scene, "quick")
    await scene.settle()
    running = call(scene, "long")
    reserve(scene, caller=scene.processes.caller())
    scene.trigger("run")
    await scene.settle()
    return ended, running


async def test_sound_direct_calls_are_clean(scene: Scene) -> None:
    await with_calls(scene)
    assert audit(scene).violations == ()


BROKEN = {
    "an unfinished call that nobody carries": (
        Check.EXECUTION,
        "is unfinished, but no process carries it",
        "DELETE FROM direct_hold WHERE execution_id = '{running}'",
    ),
    "a finished call that somebody carries": (
        Check.EXECUTION,
        "is finished, but a process still carries it",
        "INSERT INTO direct_hold (execution_id, epoch) SELECT id, epoch FROM call WHERE id = '{ended}'",
    ),
    "a call that ended before it started": (
        Check.EXECUTION,
        "finished before it started",
        "UPDATE call SET finished_at = started_at - 3600000 WHERE id = '{ended}'",
    ),
    "a call of a version that is not there": (
        Check.EXECUTION,
        "executes version 99, which is not there",
        "UPDATE call SET version = 99 WHERE id = '{ended}'",
    ),
    "a call in the slot of a run": (
        Check.STATE,
        "holds 2 runs or direct calls",
        "UPDATE call SET slot = (SELECT slot FROM live WHERE state = 3) WHERE id = '{running}'",
    ),
    "a call whose process is gone": (
        Check.OWNER,
        "but the process that held it is gone",
        "UPDATE process SET lock = 'nobody', ended_at = 0, ending = 'lost' WHERE ended_at IS NULL",
    ),
    "a call at its gate whose process is gone": (
        Check.OWNER,
        "is DISPATCHED, but the process that held it is gone",
        """
        INSERT INTO direct_wait (id, turn, lane_id, boot_id, pid, pid_start, asked_at, worker_id, slot, epoch)
            SELECT '{running}-0', 1, 1, 'boot', 1, 1, 0, worker_id, 9, epoch FROM process ORDER BY epoch DESC LIMIT 1;
        UPDATE process SET lock = 'nobody', ended_at = 0, ending = 'lost' WHERE epoch = (SELECT max(epoch) FROM process)
        """,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_wrong_with_a_direct_call_is_found(unaudited: Scene, name: str) -> None:
    """INV-002, INV-003."""
    ended, running = await with_calls(unaudited)
    check, text, statement = BROKEN[name]
    dropped = ["DROP INDEX call_slot"] if "slot" in name else []
    tamper(unaudited, *dropped, statement.format(ended=ended, running=running))
    if "gone" in name:
        unaudited.processes.living.clear()
    violations = audit(unaudited).violations
    found = [one for one in violations if one.check is check and text in one.text]
    assert found, violations
    subject = " ".join(f"{one.where} {one.text}" for one in found)
    assert check is Check.STATE or ended in subject or running in subject


@contextlib.contextmanager
def stray(tag: str) -> Iterator[int]:
    """Start a process that carries a tag; yield its pid."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, TAG: tag})
    try:
        yield process.pid
    finally:
        process.communicate(b"\n")


async def test_a_process_that_outlived_its_direct_call_is_found(unaudited: Scene) -> None:
    """Its tag is the call's identifier."""
    ended, _ = await with_calls(unaudited)
    with stray(ended) as pid:
        found = [one for one in audit(unaudited).violations if one.check is Check.PROCESS]
    assert [one.text for one in found] == [f"is COMPLETED, but process {pid} of it is still there"]
    assert found[0].where == f"the direct call {ended}"
