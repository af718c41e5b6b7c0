"""Stopping in order, on scripted processes (R-08, R-23)."""

import asyncio
from datetime import timedelta

import pytest

from rota.engine.loops.loop import pause_for
from rota.engine.membership.shutdown import Stop, StopMode, Stopping, wanted_stop
from rota.engine.transactions.claim import Claimed
from rota.settings import SchedulerSettings
from rota.testing.doubles import Script, ScriptedProcess
from rota.testing.scene import Scene
from tests.engine.agent_jobs import agent
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


async def test_detach_leaves_a_command_that_is_just_starting_too(scene: Scene) -> None:
    """R-23: the stop comes while its keeper is forked; the command must not end with the grace."""
    starting, forked = asyncio.Event(), asyncio.Event()
    launch = scene.processes.launch

    async def launch_later(run_id: str, prepared: Claimed) -> ScriptedProcess:
        starting.set()
        await forked.wait()
        return await launch(run_id, prepared)

    scene.processes.launch = launch_later  # type: ignore[method-assign]
    scene.processes.scripts["long"] = Script(takes=LONG)
    scene.declare(command("long"))
    scene.trigger("long")
    scene.engine.claim_now()
    await starting.wait()
    scene.engine.quiesce()
    stopping = asyncio.create_task(Stopping().carry_out(Stop("detach", LONG), scene.engine))
    await asyncio.wait([stopping], timeout=0.01)
    forked.set()
    assert await stopping is True
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


A_MOMENT = timedelta(seconds=0.01)
LONG = timedelta(hours=1)


async def with_an_agent_and_a_command(scene: Scene) -> None:
    for name in ("long", "asked"):
        scene.processes.scripts[name] = Script(takes=LONG)
    scene.declare(command("long"), agent("asked"))
    for name in ("long", "asked"):
        scene.trigger(name)
    await scene.settle()
    scene.engine.quiesce()


async def test_agents_have_a_grace_of_their_own(scene: Scene) -> None:
    """R-08: the command is ended, the agent goes on for as long as it needs."""
    await with_an_agent_and_a_command(scene)
    stopping = asyncio.create_task(Stopping().carry_out(Stop("grace", A_MOMENT, LONG), scene.engine))
    while scene.told("long") != [("FAILED", "shutdown")]:
        await pause_for(A_MOMENT)
    assert scene.told("asked") == [("RUNNING", None)]
    scene.processes.living[scene.history("asked")[0].id].end()
    assert await stopping is False
    assert scene.told("asked") == [("COMPLETED", None)]


async def test_when_the_grace_of_agents_is_over_they_are_ended_too(scene: Scene) -> None:
    """R-08."""
    await with_an_agent_and_a_command(scene)
    stopping = Stopping()
    assert await stopping.carry_out(Stop("grace", NO_TIME, A_MOMENT), scene.engine) is False
    assert (scene.told("long"), scene.told("asked")) == ([("FAILED", "shutdown")], [("FAILED", "shutdown")])
    assert stopping.ended == 2


async def test_agents_may_have_a_shorter_grace_than_the_others(scene: Scene) -> None:
    await with_an_agent_and_a_command(scene)
    stopping = asyncio.create_task(Stopping().carry_out(Stop("grace", LONG, NO_TIME), scene.engine))
    while scene.told("asked") != [("FAILED", "shutdown")]:
        await pause_for(A_MOMENT)
    assert scene.told("long") == [("RUNNING", None)]
    scene.processes.living[scene.history("long")[0].id].end()
    assert await stopping is False


async def test_an_agent_that_was_taken_over_has_its_own_grace_as_well(scene: Scene) -> None:
    """R-23."""
    await with_an_agent_and_a_command(scene)
    await scene.crash()
    assert await scene.start() == 2
    scene.engine.quiesce()
    stopping = asyncio.create_task(Stopping().carry_out(Stop("grace", A_MOMENT, LONG), scene.engine))
    while scene.told("long") != [("FAILED", "shutdown")]:
        await pause_for(A_MOMENT)
    assert scene.told("asked") == [("RUNNING", None)]
    scene.processes.living[scene.history("asked")[0].id].end()
    assert await stopping is False


async def test_another_wish_ends_agents_too(scene: Scene) -> None:
    await with_an_agent_and_a_command(scene)
    stopping = Stopping()
    stopping.ask(Stop("grace", LONG, LONG))
    await stopping.carry_out(Stop("grace", LONG, LONG * 2), scene.engine)
    assert (scene.told("long"), scene.told("asked")) == ([("FAILED", "shutdown")], [("FAILED", "shutdown")])


@pytest.mark.parametrize("mode", ["grace", "detach"])
def test_a_stop_uses_what_the_file_says_unless_a_time_is_named(mode: StopMode) -> None:
    scheduler = SchedulerSettings(shutdown_grace=A_MOMENT, agent_shutdown_grace=LONG)
    assert wanted_stop(mode, None, scheduler=scheduler) == Stop(mode, A_MOMENT, LONG)
    assert wanted_stop(mode, 5, scheduler=scheduler) == Stop(mode, timedelta(seconds=5))
