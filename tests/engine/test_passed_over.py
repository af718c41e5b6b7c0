"""A run that somebody else holds just then is passed over by a claim, and not forgotten (R-02)."""

import asyncio
from datetime import timedelta

import psycopg

from rota.engine.loops.loop import pause_for
from tests.engine.conftest import command
from tests.scene import Scene, address_of, many_machines
from tests.waiting import LONGEST_WAIT

MOMENT = timedelta(milliseconds=20)


@many_machines
async def test_a_run_that_was_held_without_a_change_starts_soon_after(scene: Scene) -> None:
    scene.engine.claimer.allowed = False
    scene.declare(command("held"))
    scene.trigger("held")
    with psycopg.connect(address_of(scene.settings.state)) as other:
        other.execute("SELECT 1 FROM live FOR NO KEY UPDATE")
        scene.engine.claimer.allowed = True
        await scene.claim_now()
        await scene.settle()
        assert scene.told("held") == [("QUEUED", None)]
        other.rollback()
    async with asyncio.timeout(LONGEST_WAIT):
        while scene.told("held") == [("QUEUED", None)]:
            await pause_for(MOMENT)
