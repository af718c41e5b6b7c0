"""After a crash: record what really happened (R-23), on scripted keepers that outlive the engine."""

import asyncio
from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from rota.model.records import Outcome
from rota.model.spec import Condition, Gates, OnRestart
from rota.model.states import Reason, Status
from rota.operations.run_actions import cancel_run
from rota.store.tables import runs
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.calling import reserve
from tests.engine.conftest import ALLOW, NOON, command, cron, every, function

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)


async def crashed_with_a_running_command(scene: Scene, **changes) -> None:
    scene.processes.scripts["long"] = Script(takes=HOUR)
    spec = command("long", schedule=cron("0 13 * * *"))
    scene.declare(replace(spec, work=replace(spec.work, **changes)))
    await scene.advance("1h")
    assert scene.told("long") == [("RUNNING", None)]
    await scene.crash()


async def test_a_living_keeper_is_adopted_and_its_outcome_recorded_when_it_ends(scene: Scene) -> None:
    """R-23: adopt is the default; the run is never interrupted."""
    await crashed_with_a_running_command(scene)
    scene.clock.advance("10m")
    assert await scene.start() == 1
    await scene.settle()
    assert scene.told("long") == [("RUNNING", None)]
    await scene.advance("50m")
    (run,) = scene.history("long")
    assert (run.status, run.finished_at) == (Status.COMPLETED, NOON + 2 * HOUR)
    assert scene.processes.begun == ["long:1"]


async def test_adoption_raises_the_epoch_of_the_run_and_keeps_that_of_the_execution(scene: Scene) -> None:
    """R-23: the slot stays, also one beyond the new concurrency."""
    await crashed_with_a_running_command(scene)
    await scene.start()
    await scene.quiet()
    (run,) = scene.history("long")
    execution = scene.store.read(partial(runs.execution_of_run, run_id=run.id))
    assert execution is not None
    assert (run.epoch, execution.epoch, run.slot) == (2, 1, 0)


async def test_an_outcome_that_a_keeper_left_is_recorded_as_it_ended(scene: Scene) -> None:
    """R-23: the keeper ended while no scheduler looked."""
    await crashed_with_a_running_command(scene)
    scene.clock.advance("2h")
    scene.processes.end_due()
    await scene.start()
    (run,) = scene.history("long")
    assert (run.status, run.finished_at) == (Status.COMPLETED, NOON + 2 * HOUR)


async def test_instants_after_a_run_that_ended_unseen_were_missed_not_overlapped(scene: Scene) -> None:
    """R-10, R-23: what counts is when the run ended, not when that was recorded."""
    scene.processes.scripts["tick"] = Script(takes=timedelta(minutes=90))
    scene.declare(command("tick", schedule=cron("0 * * * *")))
    await scene.advance("1h")
    await scene.crash()
    scene.clock.advance("5h")
    scene.clock.advance("30m")
    scene.processes.end_due()
    await scene.start()
    await scene.settle()
    assert scene.told("tick") == [("COMPLETED", None), ("SKIPPED", "overlap"), ("SKIPPED", "missed")]
    assert [run.count for run in scene.history("tick")][1:] == [1, 4]


async def test_a_run_without_keeper_or_outcome_is_failed_as_process_restarted(scene: Scene) -> None:
    """R-23: reboot, or the keeper was killed too."""
    await crashed_with_a_running_command(scene)
    scene.processes.living.clear()
    await scene.start()
    assert scene.told("long") == [("FAILED", "process_restarted")]


async def test_on_restart_kill_stops_the_survivor(scene: Scene) -> None:
    """R-23: on_restart kill."""
    await crashed_with_a_running_command(scene, on_restart=OnRestart.KILL)
    await scene.start()
    await scene.settle()
    assert scene.told("long") == [("FAILED", "shutdown")]
    assert not scene.processes.living


async def test_a_function_of_a_dead_process_is_failed(scene: Scene) -> None:
    """R-23: functions die with their process."""

    async def forever(context) -> None:
        await asyncio.Event().wait()

    scene.table.functions = {"forever": forever}
    scene.declare(function("forever"))
    scene.trigger("forever")
    await scene.settle()
    await scene.crash()
    await scene.start()
    assert scene.told("forever") == [("FAILED", "process_restarted")]


async def test_recovery_twice_equals_once(scene: Scene) -> None:
    """R-23."""
    await crashed_with_a_running_command(scene)
    scene.processes.living.clear()
    await scene.start()
    first = scene.history("long")
    await scene.crash()
    assert await scene.start() == 0
    assert scene.history("long") == first


async def test_a_dispatched_run_goes_back_to_the_queue_and_the_third_loss_fails_it(scene: Scene) -> None:
    """R-01: no attempt is counted for a run that never started."""

    async def forever(context) -> bool:
        await asyncio.Event().wait()
        return True

    scene.table.conditions = {"forever": forever}
    scene.declare(command("gated", gates=Gates((Condition(name="forever"),))))
    scene.trigger("gated")
    told = []
    for _ in range(3):
        await scene.settle()
        assert scene.told("gated") == [("DISPATCHED", None)]
        await scene.crash()
        await scene.start()
        told.append((scene.told("gated")[0], scene.history("gated")[0].losses))
    assert told == [(("QUEUED", None), 1), (("QUEUED", None), 2), (("FAILED", "worker_lost"), 2)]


async def test_recovery_comes_before_the_first_fire(scene: Scene) -> None:
    """R-10: a run that ended process_restarted does not make later instants overlap."""
    scene.processes.scripts["tick"] = Script(takes=HOUR * 10)
    scene.declare(command("tick", schedule=cron("0 * * * *")))
    await scene.advance("1h")
    await scene.crash()
    scene.processes.living.clear()
    scene.clock.advance("3h")
    scene.clock.advance("30m")
    await scene.start()
    await scene.settle()
    assert scene.told("tick") == [("FAILED", "process_restarted"), ("SKIPPED", "missed")]
    assert scene.history("tick")[1].count == 3


async def test_a_cancel_asked_before_the_crash_is_carried_out_after_it(scene: Scene) -> None:
    await crashed_with_a_running_command(scene)
    cancel_run(scene.store, "long:1", now=scene.clock.now())
    await scene.start()
    await scene.settle()
    assert scene.told("long") == [("CANCELLED", "requested")]


async def test_nothing_is_claimed_into_a_slot_before_recovery_has_found_what_sits_in_it(tmp_path):
    """INV-003, R-23: the end of a run that is stopped frees its own slot alone, not that of a call found later."""
    names = ("stopped", "second", "third", "fourth")
    scene = Scene(tmp_path, NOON, concurrency=len(names) + 1)
    await scene.start()
    for name in (*names, "next"):
        scene.processes.scripts[name] = Script(takes=HOUR)
        scene.declare(command(name, overlap=ALLOW))
    for name in names:
        scene.trigger(name)
    await scene.settle()
    reserve(scene, caller=scene.processes.caller())
    await scene.settle()
    for _ in range(3):
        scene.trigger("next")
    cancel_run(scene.store, "stopped:1", now=scene.clock.now())
    await scene.crash()
    await scene.start()
    await scene.settle()
    assert scene.told("stopped") == [("CANCELLED", "requested")]
    assert [scene.told(name) for name in names[1:]] == [[("RUNNING", None)]] * 3
    assert scene.told("next") == [("RUNNING", None), ("QUEUED", None), ("QUEUED", None)]
    await scene.close()


async def test_a_worker_whose_run_was_taken_cannot_write_it(scene: Scene) -> None:
    """RISK-3, R-22: every write of a run names its epoch."""
    await crashed_with_a_running_command(scene)
    await scene.start()
    await scene.quiet()
    (run,) = scene.history("long")
    outcome = Outcome(Status.FAILED, Reason.EXIT_CODE)
    late = runs.RunEnd(run.id, outcome, expected=Status.RUNNING, at=scene.clock.now())
    assert scene.store.write(partial(runs.finish_runs, ends=[late], epoch=1)) == []
    assert scene.told("long") == [("RUNNING", None)]


async def test_an_interval_job_goes_on_after_its_run_was_recovered(scene: Scene) -> None:
    """R-06 with R-23: the chain is final, so the next instant is planned."""
    scene.processes.scripts["sync"] = Script(takes=timedelta(minutes=5))
    scene.declare(command("sync", schedule=every("10m")))
    await scene.settle()
    await scene.crash()
    scene.processes.living.clear()
    await scene.start()
    assert scene.job("sync").next_for == NOON + timedelta(minutes=10)


async def test_two_schedulers_on_one_state_find_each_other_alive(scene: Scene, tmp_path) -> None:
    """CON-001, R-22: a process is alive while it holds its lock; its runs are left alone."""
    scene.processes.scripts["long"] = Script(takes=HOUR)
    scene.declare(command("long", schedule=cron("0 13 * * *")))
    await scene.advance("1h")
    other = Scene(tmp_path, scene.clock.now())
    assert await other.start() == 0
    assert scene.told("long") == [("RUNNING", None)]
    await other.close()


async def test_every_loop_looks_again_within_a_tick_although_nobody_woke_it(scene: Scene) -> None:
    """A command that died between its commit and its hint loses nothing: the tick finds what it left."""
    tick = scene.settings.scheduler.tick
    for loop in (scene.engine.fire_loop, scene.engine.claim_loop, scene.engine.release_loop, scene.engine.cancel_loop):
        due = await loop.turn()
        assert due is not None
        assert due <= scene.clock.now() + tick
