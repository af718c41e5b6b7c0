"""Stopping in order, on scripted processes (R-08, R-23)."""

from datetime import timedelta

import pytest

from rota.engine.stopping import Stop, Stopping
from rota.testing import Scene, Script
from tests.engine.conftest import command

pytestmark = pytest.mark.anyio

NO_TIME = timedelta()


async def with_a_running_command(scene: Scene) -> None:
    scene.processes.scripts["long"] = Script(takes=timedelta(hours=1))
    scene.declare(command("long"))
    scene.trigger("long")
    await scene.settle()
    scene.engine.quiesce()


async def test_an_idle_engine_stops_at_once(scene: Scene) -> None:
    scene.engine.quiesce()
    assert await Stopping().carry_out(Stop("grace", None), scene.engine) is False


async def test_when_the_grace_is_over_the_runs_are_ended_and_recorded(scene: Scene) -> None:
    """R-08: FAILED/shutdown."""
    await with_a_running_command(scene)
    stopping = Stopping()
    assert await stopping.carry_out(Stop("within", NO_TIME), scene.engine) is False
    assert scene.told("long") == [("FAILED", "shutdown")]
    assert stopping.unstored == 0


async def test_detach_leaves_commands_running_for_the_next_scheduler(scene: Scene) -> None:
    """R-23."""
    await with_a_running_command(scene)
    assert await Stopping().carry_out(Stop("detach", NO_TIME), scene.engine) is True
    assert scene.told("long") == [("RUNNING", None)]
    await scene.crash()
    assert await scene.start() == 1
    await scene.advance("1h")
    assert scene.told("long") == [("COMPLETED", None)]


async def test_another_wish_ends_the_wait(scene: Scene) -> None:
    await with_a_running_command(scene)
    stopping = Stopping()
    stopping.ask(Stop("grace", None))
    await stopping.carry_out(Stop("idle", None), scene.engine)
    assert scene.told("long") == [("FAILED", "shutdown")]
    assert scene.history("long")[0].error == "killed"
