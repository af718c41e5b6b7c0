"""A stop that comes between a claim and the first step of what was claimed."""

from datetime import timedelta

import pytest

from rota.engine.membership.shutdown import Stop, Stopping
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import command

pytestmark = pytest.mark.anyio


async def test_a_run_claimed_while_the_stop_came_goes_back_to_the_queue(scene: Scene) -> None:
    scene.declare(command("backup"))
    scene.trigger("backup")
    await scene.claim_now()
    scene.engine.quiesce()
    await scene.quiet()
    assert scene.told("backup") == [("QUEUED", None)]
    assert not scene.engine.busy
    assert scene.processes.begun == []


async def test_a_run_cancelled_right_after_its_claim_never_starts(scene: Scene) -> None:
    scene.declare(command("backup"))
    handle = scene.trigger("backup")
    await scene.claim_now()
    claiming = scene.engine.claimer._claiming
    assert claiming is not None
    claiming.add_done_callback(
        lambda _: [scene.engine.executor.stop(run_id) for run_id in scene.engine.executor.carried]
    )
    await scene.quiet()
    assert scene.told("backup") == [("CANCELLED", "requested")]
    assert handle not in scene.processes.begun


async def test_a_claim_under_way_is_waited_for_also_by_a_stop_without_grace(scene: Scene) -> None:
    """R-08: else what it brings would be left behind as RUNNING, without its process."""
    scene.declare(command("backup"))
    scene.trigger("backup")
    await scene.claim_now()
    scene.engine.quiesce()
    assert scene.engine.busy
    await Stopping().carry_out(Stop("grace", timedelta()), scene.engine)
    assert scene.told("backup") == [("QUEUED", None)]


async def test_the_slots_that_a_claim_may_fill_do_not_count_as_taken(scene: Scene) -> None:
    scene.declare(command("backup"))
    scene.processes.scripts["backup"] = Script(timedelta(minutes=5))
    scene.trigger("backup")
    await scene.claim_now()
    assert (scene.engine.slots.free(), scene.engine.slots.taken) == ([], 0)
    await scene.settle()
    assert scene.engine.slots.taken == 1
