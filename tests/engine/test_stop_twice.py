"""A run at its gates that is told twice to go: the second word must not keep the first from being carried out."""

import asyncio

import pytest

from rota.engine.loops.in_flight import RunPhase
from rota.model.spec import Condition, Gates
from rota.testing.scene import Scene
from tests.engine.conftest import command
from tests.waiting import LONGEST_WAIT

pytestmark = pytest.mark.anyio


async def at_its_gates(scene: Scene) -> str:
    async def forever(context) -> bool:
        await asyncio.Event().wait()
        return True

    scene.table.conditions = {"forever": forever}
    scene.declare(command("gated", gates=Gates((Condition(name="forever"),))))
    scene.trigger("gated")
    await scene.settle()
    assert scene.told("gated") == [("DISPATCHED", None)]
    (run_id,) = scene.engine.executor.carried
    return run_id


async def test_a_shutdown_without_grace_hands_a_run_at_its_gates_back_and_ends(scene: Scene) -> None:
    """R-08: quiesce hands it back, the end of the grace stops it while that is being stored."""
    run_id = await at_its_gates(scene)
    scene.engine.quiesce()
    await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0)
    scene.engine.executor.stop(run_id)
    await asyncio.wait_for(scene.engine.until_empty(), LONGEST_WAIT)
    assert scene.told("gated") == [("QUEUED", None)]


async def test_a_second_order_to_stop_a_run_at_its_gates_changes_nothing(scene: Scene) -> None:
    run_id = await at_its_gates(scene)
    scene.engine.executor.stop(run_id)
    await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0)
    scene.engine.executor.stop(run_id, at_once=True)
    await asyncio.wait_for(scene.engine.until_empty(), LONGEST_WAIT)
    assert scene.told("gated") == [("CANCELLED", "requested")]


async def test_a_run_claimed_during_the_shutdown_goes_back_although_the_grace_ends_meanwhile(scene: Scene) -> None:
    """R-08: it hands itself back at its first step; the stop comes while that is being stored."""
    scene.declare(command("backup"))
    scene.trigger("backup")
    scene.engine.claim_now()
    scene.engine.quiesce()
    assert scene.engine.slots.filling
    await scene.engine.claimer.over()
    (carried,) = scene.engine.executor.carried.values()
    while carried.phase is RunPhase.CLAIMED:
        await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0)
    scene.engine.executor.stop(carried.run_id)
    await asyncio.wait_for(scene.engine.until_empty(), LONGEST_WAIT)
    assert scene.told("backup") == [("QUEUED", None)]
