"""Who looks on at a scheduler costs it nothing, whatever happens to them."""

from datetime import timedelta

import pytest

from rota.model.errors import DatabaseGone
from rota.model.spec import Condition, Gates, WhenFalse
from rota.testing import Scene
from tests.engine.conftest import command

pytestmark = pytest.mark.anyio


async def test_runs_that_end_together_all_leave_although_the_end_of_one_cannot_be_shown(scene: Scene) -> None:
    """R-08: the database is gone when the console reads what it shows; a stop would wait for the others for ever."""

    def unable(run_id: str) -> None:
        raise DatabaseGone(f"{run_id} cannot be read")

    scene.engine._on_finished = unable
    scene.declare(command("one"), command("two"), command("three"))
    for name in ("one", "two", "three"):
        scene.trigger(name)
    await scene.settle()
    await scene.advance("1h")
    assert [scene.told(name) for name in ("one", "two", "three")] == [[("COMPLETED", None)]] * 3
    assert not scene.engine.busy


async def test_a_run_that_expired_in_the_queue_is_shown_like_one_that_ran(scene: Scene) -> None:
    """R-09: nothing ends in silence."""
    shown: list[str] = []
    scene.engine._on_finished = lambda _run_id: shown.append(scene.history("stale")[0].status)
    scene.processes.conditions["./look"] = "false"
    gates = Gates((Condition(command=("./look",)),), when_false=WhenFalse.WAIT, expires_after=timedelta(minutes=5))
    scene.declare(command("stale", gates=gates))
    scene.trigger("stale")
    await scene.advance("10m")
    assert scene.told("stale") == [("SKIPPED", "expired")]
    assert shown[-1] == "SKIPPED"
