"""What a start notices: too many crashes, and new time zone data."""

from datetime import timedelta
from functools import partial

import pytest

from rota.engine.activity import everything_paused
from rota.engine.transactions.pause import pause_in_crash_loop
from rota.operations.group_actions import drain_worker
from rota.operations.pause import JobSelection, resume
from rota.operations.project.apply import adopt_tzdata
from rota.operations.workers import worker_states
from rota.testing.scene import Scene
from tests.engine.conftest import command, cron
from tests.scene import many_machines, one_machine

pytestmark = pytest.mark.anyio


async def crash_times(scene: Scene, count: int) -> None:
    for _ in range(count):
        await scene.crash()
        scene.clock.advance("10s")
        await scene.start()


def own_name(scene: Scene) -> str:
    found = scene.store.read(partial(worker_states, state=scene.settings.state))
    return next(one.worker.called for one in found if one.here)


def guarded(scene: Scene) -> int:
    return scene.store.write(
        partial(pause_in_crash_loop, worker_id=scene.session.holder.worker_id, now=scene.clock.now())
    )


@one_machine
async def test_the_sixth_start_after_crashes_within_five_minutes_is_paused(scene: Scene) -> None:
    """R-23."""
    scene.declare(command("tick"))
    await crash_times(scene, 5)
    assert guarded(scene) == 0
    await crash_times(scene, 1)
    assert guarded(scene) == 6
    pause = scene.store.read(everything_paused)
    assert pause is not None
    assert pause.reason == "crash_loop"
    scene.trigger("tick")
    await scene.advance("1h")
    assert scene.told("tick") == [("QUEUED", None)]


@one_machine
async def test_crashes_before_everything_was_resumed_do_not_count(scene: Scene) -> None:
    """Who found the cause and goes on has five more."""
    await crash_times(scene, 6)
    assert guarded(scene) == 6
    resume(scene.store, JobSelection(everything=True), catch_up=False, now=scene.clock.now())
    await crash_times(scene, 5)
    assert guarded(scene) == 0
    await crash_times(scene, 1)
    assert guarded(scene) == 6


@many_machines
async def test_crashes_before_a_worker_was_resumed_do_not_count(scene: Scene) -> None:
    await crash_times(scene, 6)
    assert guarded(scene) == 6
    drain_worker(scene.store, own_name(scene), draining=False)
    await crash_times(scene, 5)
    assert guarded(scene) == 0
    await crash_times(scene, 1)
    assert guarded(scene) == 6


async def test_crashes_that_are_long_ago_do_not_count(scene: Scene) -> None:
    await crash_times(scene, 6)
    scene.clock.advance("5m")
    assert guarded(scene) == 0


async def test_new_zone_data_closes_the_spans_of_jobs_in_zones_and_plans_them_anew(scene: Scene) -> None:
    """R-20: a span is recorded with its tzdata; future instants follow the new one."""
    zoned = cron("30 2 * * *", timezone="Europe/Paris")
    scene.declare(command("zoned", schedule=zoned), command("utc", schedule=cron("30 2 * * *")))
    adopt = partial(adopt_tzdata, now=scene.clock.now())
    assert scene.store.write(partial(adopt, tzdata="2026a")) == 0
    assert scene.store.write(partial(adopt, tzdata="2026a")) == 0
    planned = scene.job("zoned").next_for
    assert scene.store.write(partial(adopt, tzdata="2026b")) == 1
    assert (scene.job("zoned").version, scene.job("utc").version) == (2, 1)
    assert scene.job("zoned").next_for == planned


async def test_what_was_due_under_the_old_zone_data_is_accounted_for_first(scene: Scene) -> None:
    scene.declare(command("zoned", schedule=cron("0 * * * *", timezone="Europe/Paris")))
    scene.store.write(partial(adopt_tzdata, tzdata="2026a", now=scene.clock.now()))
    scene.clock.advance(timedelta(hours=3, minutes=30))
    scene.store.write(partial(adopt_tzdata, tzdata="2026b", now=scene.clock.now()))
    (missed,) = scene.history("zoned")
    assert (missed.reason, missed.count, missed.version) == ("missed", 3, 1)
