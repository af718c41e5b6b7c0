"""Direct calls on scripted processes: order, pools, callers that are gone, and recovery (R-13, DEC-004, R-23)."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.engine.transactions import direct_calls
from rota.model.errors import InvalidValue, JobDisabled, SpawnFailed, StorageFull
from rota.model.records import Outcome
from rota.model.spec import Condition, Draw, Gates, JobSpec, Kind, Member, OnRestart, Work
from rota.model.states import Reason, Status
from rota.operations.pause import JobSelection, pause, resume
from rota.store.tables import direct_calls as direct_calls_table
from rota.store.tables import jobs, queue
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.calling import call, look, reserve, told, withdraw
from tests.engine.conftest import NOON, audit, command, function

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
RUNNING, COMPLETED = ("RUNNING", None), ("COMPLETED", None)
QUEUED = ("QUEUED", None)


@pytest.fixture
async def narrow(tmp_path: Path) -> AsyncIterator[Scene]:
    """A scheduler with one slot; what the test leaves is audited."""
    scene = Scene(tmp_path, NOON, concurrency=1)
    await scene.start()
    yield scene
    await scene.quiet()
    assert audit(scene).violations == ()
    await scene.close()


def long(scene: Scene, *names: str) -> None:
    """Declare commands that take an hour."""
    for name in names:
        scene.processes.scripts[name] = Script(takes=HOUR)
        scene.declare(command(name))


def used(scene: Scene) -> int:
    """Return how much of the pool `gpu` is drawn."""
    return next(pool.used for pool in scene.store.read(queue.pools) if pool.name == "gpu")


# order


async def test_a_direct_call_leaves_an_execution_and_no_run(scene: Scene) -> None:
    """DEC-004."""
    scene.declare(command("extract"))
    called = call(scene, "extract")
    await scene.settle()
    assert told(scene, called) == COMPLETED
    assert scene.history("extract") == []
    assert scene.processes.begun == ["extract:direct"]


async def test_the_current_run_goes_on_then_comes_the_direct_call_then_the_queue(narrow: Scene) -> None:
    """DEC-004: [current] → [direct] → [queue], never preempting."""
    long(narrow, "current", "queued", "extract")
    narrow.trigger("current")
    await narrow.settle()
    narrow.trigger("queued")
    called = call(narrow, "extract")
    await narrow.settle()
    assert told(narrow, called) == QUEUED
    assert narrow.told("current") == [RUNNING]
    await narrow.advance(HOUR)
    assert told(narrow, called) == RUNNING
    assert narrow.told("queued") == [QUEUED]
    await narrow.advance(HOUR)
    await narrow.advance(HOUR)
    assert narrow.processes.begun == ["current:1", "extract:direct", "queued:1"]


async def test_callers_are_served_in_the_order_in_which_they_came(narrow: Scene) -> None:
    """R-13."""
    long(narrow, "a", "b", "c")
    called = [call(narrow, name) for name in ("c", "a", "b")]
    await narrow.settle()
    assert [look(narrow, one).ahead for one in called if look(narrow, one)] == [0, 0, 1]
    await narrow.advance(3 * HOUR)
    assert narrow.processes.begun == ["c:direct", "a:direct", "b:direct"]


async def test_several_slots_serve_several_callers(scene: Scene) -> None:
    long(scene, "a", "b")
    called = [call(scene, "a"), call(scene, "b")]
    await scene.settle()
    views = [look(scene, one) for one in called]
    assert [view.slot for view in views if view] == [0, 1]
    assert [told(scene, one) for one in called] == [RUNNING, RUNNING]
    await scene.advance(HOUR)


async def test_conditions_and_overlap_do_not_hold_a_direct_call_back(scene: Scene) -> None:
    """R-13: it asks for slot and pools alone."""
    long(scene, "extract")
    scene.declare(command("gated", gates=Gates((Condition("never"),))))
    scene.processes.conditions["never"] = "false"
    scene.trigger("extract")
    await scene.settle()
    called = [call(scene, "extract"), call(scene, "gated")]
    await scene.settle()
    assert [told(scene, one) for one in called] == [RUNNING, COMPLETED]
    await scene.advance(HOUR)


async def test_while_everything_is_paused_direct_calls_wait_too(scene: Scene) -> None:
    """R-20."""
    scene.declare(command("extract"))
    pause(scene.store, JobSelection(everything=True), until=None, reason="", now=scene.clock.now())
    called = call(scene, "extract")
    await scene.settle()
    assert told(scene, called) == QUEUED
    resume(scene.store, JobSelection(everything=True), catch_up=False, now=scene.clock.now())
    await scene.settle()
    assert told(scene, called) == COMPLETED


# functions


async def test_a_function_is_called_directly_with_its_params_and_state(scene: Scene) -> None:
    seen: list[object] = []

    def work(context) -> str:
        seen.append((context.params["n"], context.run.handle, context.run.trigger.value))
        context.state["last"] = context.params["n"]
        return "done"

    scene.table.functions = {"work": work}
    spec = function("extract", called="work")
    scene.declare(replace(spec, work=replace(spec.work, params={"n": 0})))
    called = call(scene, "extract", params={"n": 7})
    await scene.settle()
    await scene.engine.until_empty()
    view, job_id = look(scene, called), scene.job("extract").id
    assert view is not None
    assert (view.status, view.summary) == (Status.COMPLETED, "done")
    assert seen == [(7, "extract:direct", "direct")]
    assert scene.store.read(lambda db: jobs.job_state(db, job_id)) == {"last": 7}


async def test_a_thread_that_outlives_its_call_keeps_slot_and_pools(narrow: Scene) -> None:
    """Section 7: a thread cannot be killed."""
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def stuck(context) -> None:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait()

    narrow.table.functions = {"stuck": stuck}
    narrow.declare(function("stuck", pools=(Draw("gpu"),)), command("next"))
    narrow.store.write(lambda db: queue.declare_pools(db, {"gpu": 1}))
    called = call(narrow, "stuck")
    await narrow.settle()
    await begun.wait()
    withdraw(narrow, called)
    await narrow.settle()
    await narrow.engine.until_empty()
    narrow.trigger("next")
    await narrow.settle()
    assert told(narrow, called) == ("CANCELLED", "requested")
    assert narrow.told("next") == [QUEUED]
    assert used(narrow) == 1
    go_on.set()
    while narrow.told("next") != [COMPLETED]:
        await narrow.settle()
    assert used(narrow) == 0


# pools


async def test_a_call_takes_its_pools_and_gives_them_back(scene: Scene) -> None:
    scene.store.write(lambda db: queue.declare_pools(db, {"gpu": 2}))
    scene.processes.scripts["train"] = Script(takes=HOUR)
    scene.declare(command("train", pools=(Draw("gpu", 2),)))
    called = call(scene, "train")
    await scene.settle()
    assert used(scene) == 2
    await scene.advance(HOUR)
    assert told(scene, called) == COMPLETED
    assert used(scene) == 0


async def test_a_caller_that_lacks_room_holds_the_pool_against_the_queue(scene: Scene) -> None:
    """R-13: a smaller queued run does not overtake it, one without that pool does."""
    scene.store.write(lambda db: queue.declare_pools(db, {"gpu": 2}))
    for name, cost in (("small", 1), ("big", 2), ("other", 1)):
        scene.processes.scripts[name] = Script(takes=HOUR)
        scene.declare(command(name, pools=(Draw("gpu", cost),)))
    scene.declare(command("free"))
    scene.trigger("small")
    await scene.settle()
    called = call(scene, "big")
    scene.trigger("other")
    scene.trigger("free")
    await scene.settle()
    assert told(scene, called) == QUEUED
    assert scene.told("other") == [QUEUED]
    assert scene.told("free") == [COMPLETED]
    await scene.advance(HOUR)
    assert told(scene, called) == RUNNING
    assert scene.told("other") == [QUEUED]
    await scene.advance(2 * HOUR)


async def test_a_draw_that_no_pool_could_grant_is_refused(scene: Scene) -> None:
    """DEC-004."""
    scene.store.write(lambda db: queue.declare_pools(db, {"gpu": 1}))
    scene.declare(command("train", pools=(Draw("gpu", 2),)), command("lost", pools=(Draw("cpu"),)))
    with pytest.raises(InvalidValue, match="pool 'gpu' holds 1, the call needs 2"):
        call(scene, "train")
    with pytest.raises(InvalidValue, match="no pool is named 'cpu'"):
        call(scene, "lost")


async def test_a_disabled_job_is_not_called(scene: Scene) -> None:
    scene.declare(command("off", enabled=False))
    with pytest.raises(JobDisabled):
        call(scene, "off")


async def test_a_group_is_not_called_directly(scene: Scene) -> None:
    """DEC-004."""
    scene.declare(command("a"), JobSpec("nightly", Work(Kind.GROUP, members=(Member("a"),))))
    with pytest.raises(InvalidValue, match="'nightly' is a group"):
        call(scene, "nightly")


# callers


async def test_a_caller_that_is_gone_loses_its_place(narrow: Scene) -> None:
    """R-13."""
    long(narrow, "current", "extract")
    narrow.trigger("current")
    await narrow.settle()
    caller = narrow.processes.caller()
    called = call(narrow, "extract", caller=caller)
    await narrow.settle()
    narrow.processes.leave(caller)
    await narrow.settle()
    assert told(narrow, called) is None
    await narrow.advance(HOUR)
    assert narrow.processes.begun == ["current:1"]


async def test_a_dead_caller_no_longer_holds_its_pool(scene: Scene) -> None:
    scene.store.write(lambda db: queue.declare_pools(db, {"gpu": 2}))
    for name, cost in (("small", 1), ("big", 2), ("other", 1)):
        scene.processes.scripts[name] = Script(takes=HOUR)
        scene.declare(command(name, pools=(Draw("gpu", cost),)))
    scene.trigger("small")
    await scene.settle()
    caller = scene.processes.caller()
    call(scene, "big", caller=caller)
    scene.trigger("other")
    await scene.settle()
    scene.processes.leave(caller)
    await scene.settle()
    assert scene.told("other") == [RUNNING]
    await scene.advance(HOUR)


async def test_the_end_of_its_caller_cancels_a_running_call(scene: Scene) -> None:
    """R-13."""
    long(scene, "extract")
    caller = scene.processes.caller()
    called = call(scene, "extract", caller=caller)
    await scene.settle()
    scene.processes.leave(caller)
    await scene.settle()
    assert told(scene, called) == ("CANCELLED", "requested")
    assert scene.engine.slots.taken == 0


async def test_a_call_that_is_given_up_while_it_runs_is_cancelled(scene: Scene) -> None:
    long(scene, "extract")
    called = call(scene, "extract")
    await scene.settle()
    assert withdraw(scene, called)
    await scene.settle()
    assert told(scene, called) == ("CANCELLED", "requested")
    assert not withdraw(scene, called)


async def test_a_call_that_is_given_up_before_its_start_leaves_nothing(narrow: Scene) -> None:
    long(narrow, "current")
    narrow.declare(command("extract"))
    narrow.trigger("current")
    await narrow.settle()
    called = call(narrow, "extract")
    assert withdraw(narrow, called)
    assert told(narrow, called) is None
    await narrow.advance(HOUR)


async def test_a_failed_call_is_never_retried(scene: Scene) -> None:
    """R-13."""
    scene.processes.scripts["extract"] = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3))
    scene.declare(command("extract"))
    called = call(scene, "extract")
    await scene.advance(HOUR)
    view = look(scene, called)
    assert view is not None
    assert (view.status, view.reason, view.exit_code) == (Status.FAILED, "exit_code", 3)
    assert scene.processes.begun == ["extract:direct"]


async def test_a_call_that_cannot_be_started_leaves_a_failed_execution(scene: Scene) -> None:
    """Nothing is silent: there is no run that could say so."""
    scene.processes.refused["extract"] = SpawnFailed("no program 'extract' is on PATH", hint="write its whole path")
    scene.declare(command("extract"))
    called = call(scene, "extract")
    await scene.settle()
    view = look(scene, called)
    assert view is not None
    assert told(scene, called) == ("FAILED", "spawn_failed")
    assert (view.error or "").startswith("no program 'extract' is on PATH")
    assert scene.engine.slots.taken == 0


async def test_a_call_waits_again_when_the_disk_is_full_at_its_start(scene: Scene) -> None:
    scene.processes.refused["extract"] = StorageFull("the disk is full", hint="make room")
    scene.declare(command("extract"))
    called = call(scene, "extract")
    await scene.claim_now()
    await scene.quiet()
    assert told(scene, called) == ("DISPATCHED", None)
    del scene.processes.refused["extract"]
    while told(scene, called) != COMPLETED:
        await scene.settle()


# reservations


async def test_a_reserved_slot_is_the_callers_until_it_hands_it_back(narrow: Scene) -> None:
    """R-13."""
    caller = narrow.processes.caller()
    narrow.declare(command("queued"))
    reserved = reserve(narrow, caller=caller)
    await narrow.settle()
    view = look(narrow, reserved)
    assert view is not None
    assert (view.status, view.slot, view.process) == (Status.RUNNING, 0, caller)
    narrow.trigger("queued")
    await narrow.settle()
    assert narrow.told("queued") == [QUEUED]
    done = Outcome(Status.COMPLETED)
    narrow.store.write(lambda db: direct_calls.finish(db, reserved, done, epoch=None, now=narrow.clock.now()))
    await narrow.settle()
    assert narrow.told("queued") == [COMPLETED]
    assert told(narrow, reserved) == COMPLETED


async def test_the_slot_of_a_caller_that_died_is_free_again(narrow: Scene) -> None:
    caller = narrow.processes.caller()
    narrow.declare(command("queued"))
    reserved = reserve(narrow, caller=caller)
    await narrow.settle()
    narrow.trigger("queued")
    narrow.processes.leave(caller)
    await narrow.settle()
    view = look(narrow, reserved)
    assert view is not None
    assert (view.status, view.error) == (Status.FAILED, "the caller ended")
    assert narrow.told("queued") == [COMPLETED]


async def test_a_reservation_that_is_cancelled_gives_slot_and_pools_back(narrow: Scene) -> None:
    narrow.store.write(lambda db: queue.declare_pools(db, {"gpu": 1}))
    reserved = reserve(narrow, caller=narrow.processes.caller(), pools=[Draw("gpu")])
    await narrow.settle()
    assert used(narrow) == 1
    withdraw(narrow, reserved)
    await narrow.settle()
    assert told(narrow, reserved) == ("CANCELLED", "requested")
    assert (narrow.engine.slots.taken, used(narrow)) == (0, 0)


# recovery


async def test_a_call_whose_keeper_lives_is_adopted(scene: Scene) -> None:
    """R-23."""
    long(scene, "extract")
    called = call(scene, "extract")
    await scene.settle()
    await scene.crash()
    assert await scene.start() == 1
    assert told(scene, called) == RUNNING
    assert scene.engine.slots.taken == 1
    await scene.advance(HOUR)
    assert told(scene, called) == COMPLETED


async def test_an_adopted_call_is_adopted_again(scene: Scene) -> None:
    """R-23: it belongs to the last process that carried it, whatever epoch it started under."""
    long(scene, "extract")
    called = call(scene, "extract")
    await scene.settle()
    for _ in range(2):
        await scene.crash()
        assert await scene.start() == 1
    await scene.advance(HOUR)
    assert told(scene, called) == COMPLETED


async def test_a_call_that_ended_while_nobody_was_there_is_recorded_as_it_ended(scene: Scene) -> None:
    """R-23, also when its caller is gone since."""
    long(scene, "extract")
    caller = scene.processes.caller()
    called = call(scene, "extract", caller=caller)
    await scene.settle()
    await scene.crash()
    scene.processes.leave(caller)
    scene.clock.advance(HOUR)
    scene.processes.end_due()
    await scene.start()
    assert told(scene, called) == COMPLETED


async def test_a_call_that_lives_on_without_its_caller_is_cancelled_by_the_next_scheduler(scene: Scene) -> None:
    long(scene, "extract")
    caller = scene.processes.caller()
    called = call(scene, "extract", caller=caller)
    await scene.settle()
    await scene.crash()
    scene.processes.leave(caller)
    await scene.start()
    await scene.settle()
    assert told(scene, called) == ("CANCELLED", "requested")


async def test_a_wish_to_cancel_survives_a_restart(scene: Scene) -> None:
    long(scene, "extract")
    called = call(scene, "extract")
    await scene.settle()
    await scene.crash()
    withdraw(scene, called)
    await scene.start()
    await scene.settle()
    assert told(scene, called) == ("CANCELLED", "requested")


async def test_a_call_whose_keeper_died_failed_with_its_scheduler(scene: Scene) -> None:
    long(scene, "extract")
    called = call(scene, "extract")
    await scene.settle()
    await scene.crash()
    scene.processes.living.clear()
    await scene.start()
    assert told(scene, called) == ("FAILED", "process_restarted")


async def test_on_restart_kill_ends_a_call_that_survived(scene: Scene) -> None:
    scene.processes.scripts["extract"] = Script(takes=HOUR)
    spec = command("extract")
    scene.declare(replace(spec, work=replace(spec.work, on_restart=OnRestart.KILL)))
    called = call(scene, "extract")
    await scene.settle()
    await scene.crash()
    await scene.start()
    await scene.settle()
    assert told(scene, called) == ("FAILED", "shutdown")


async def test_a_call_that_stood_at_its_gate_waits_again(scene: Scene) -> None:
    """R-01, R-23: the row of a dead epoch goes back to waiting, and keeps its turn."""
    scene.processes.refused["extract"] = StorageFull("the disk is full", hint="make room")
    scene.declare(command("extract"))
    called = call(scene, "extract")
    await scene.claim_now()
    await scene.quiet()
    assert told(scene, called) == ("DISPATCHED", None)
    await scene.crash()
    del scene.processes.refused["extract"]
    await scene.start()
    assert told(scene, called) == QUEUED
    await scene.settle()
    assert told(scene, called) == COMPLETED


async def test_a_waiting_caller_that_died_with_the_scheduler_is_forgotten(narrow: Scene) -> None:
    long(narrow, "current", "extract")
    narrow.trigger("current")
    await narrow.settle()
    caller = narrow.processes.caller()
    gone, stays = call(narrow, "extract", caller=caller), call(narrow, "extract")
    await narrow.crash()
    narrow.processes.leave(caller)
    await narrow.start()
    assert [one.id for one in narrow.store.read(direct_calls_table.calls)] == [stays]
    assert told(narrow, gone) is None
    await narrow.advance(2 * HOUR)


async def test_a_reservation_outlives_the_scheduler_with_its_caller(narrow: Scene) -> None:
    """R-23: the caller's own code goes on; its slot is kept for it."""
    kept, lost = narrow.processes.caller(), narrow.processes.caller()
    reserved = reserve(narrow, caller=kept)
    await narrow.settle()
    await narrow.crash()
    await narrow.start()
    assert told(narrow, reserved) == RUNNING
    assert narrow.engine.slots.taken == 1
    narrow.processes.leave(kept)
    await narrow.settle()
    assert told(narrow, reserved) == ("FAILED", "worker_lost")
    again = reserve(narrow, caller=lost)
    await narrow.settle()
    await narrow.crash()
    narrow.processes.leave(lost)
    await narrow.start()
    assert told(narrow, again) == ("FAILED", "worker_lost")
