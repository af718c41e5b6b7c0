"""The summary of document 001 on a playing scheduler: counts, what may be claimed, who is there, when to ask again."""

from datetime import timedelta
from functools import partial

import pytest

from rota.engine.transactions.pause import pause_everything
from rota.model.records import Outcome
from rota.model.spec import Condition, Draw, Gates, WhenFalse
from rota.model.states import Reason, Status
from rota.operations.activity import touch
from rota.operations.status.heartbeat import Heartbeat, Liveness
from rota.operations.status.summary import SchedulerSummary, summarise_in, summary_json
from rota.store.tables import processes, queue
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import ALLOW, NOON, command, every
from tests.scene import one_machine

pytestmark = pytest.mark.anyio


def summary(
    scene: Scene, *, slots: int = 16, taken: int = 0, liveness: Liveness = Liveness.RUNNING, worker: str | None = None
) -> SchedulerSummary:
    beat = Heartbeat(liveness, answer={"concurrency": slots, "slots_taken": taken})
    look = partial(summarise_in, state=scene.settings.state, beat=beat, now=scene.clock.now(), worker=worker)
    return scene.store.read(look)


def counts(scene: Scene) -> dict[str, int]:
    told: dict[str, int] = summary_json(summary(scene))["queue_counts"]
    return told


async def test_every_status_is_counted_under_the_word_of_the_document(scene: Scene) -> None:
    false = Gates((Condition(command=("./look",)),), when_false=WhenFalse.SKIP)
    scene.processes.conditions["./look"] = "false"
    scene.processes.scripts["long"] = Script(takes=timedelta(hours=1))
    scene.processes.scripts["bad"] = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3))
    scene.declare(command("good"), command("bad"), command("long"), command("gated", gates=false))
    for name in ("good", "bad", "long", "gated"):
        scene.trigger(name)
    await scene.settle()
    scene.trigger("good")
    assert counts(scene) == {
        "incoming": 1,
        "claimed": 1,
        "provisional": 0,
        "done": 1,
        "failed": 1,
        "skipped": 1,
        "cancelled": 0,
    }
    await scene.settle()


@one_machine
async def test_a_ready_run_and_a_free_slot_make_it_claimable(scene: Scene) -> None:
    scene.declare(command("job"))
    assert not summary(scene).claimable
    scene.trigger("job")
    assert summary(scene).claimable
    assert not summary(scene, slots=2, taken=2).claimable
    assert not summary(scene, liveness=Liveness.DEAD).claimable


async def test_a_run_without_room_in_its_pool_is_not_claimable(scene: Scene) -> None:
    """R-03."""
    scene.store.write(partial(queue.declare_pools, capacities={"gpu": 1}))
    scene.processes.scripts["holds"] = Script(takes=timedelta(hours=1))
    scene.declare(command("holds", pools=(Draw("gpu"),)), command("wants", pools=(Draw("gpu"),)))
    scene.trigger("holds")
    await scene.settle()
    scene.trigger("wants")
    assert not summary(scene).claimable
    scene.declare(command("free"))
    scene.trigger("free")
    assert summary(scene).claimable
    await scene.settle()


async def test_nothing_is_claimable_while_everything_is_paused(scene: Scene) -> None:
    """R-20."""
    scene.declare(command("job"))
    scene.trigger("job")
    scene.store.write(partial(pause_everything, until=None, reason="", now=scene.clock.now()))
    assert not summary(scene).claimable


async def test_a_worker_is_registered_by_identifier_or_name_while_its_process_lives(scene: Scene) -> None:
    worker_id = scene.session.holder.worker_id
    (worker,) = scene.store.read(processes.workers)
    assert summary(scene).registered is None
    assert summary(scene, worker=worker_id).registered is True
    assert summary(scene, worker=worker.name).registered is True
    assert summary(scene, worker="somebody").registered is False
    await scene.crash()
    assert summary(scene, worker=worker_id).registered is False
    await scene.start()


async def test_counts_are_told_per_worker_too(scene: Scene) -> None:
    scene.declare(command("job", overlap=ALLOW))
    for _ in range(3):
        scene.trigger("job")
    await scene.settle()
    (worker,) = summary(scene).workers
    assert worker.registered
    assert worker.counts[Status.COMPLETED] == 3


async def test_mode_and_next_fire_say_when_to_ask_again(scene: Scene) -> None:
    """R-18."""
    scene.declare(command("hourly", schedule=every("1h")))
    await scene.settle()
    found = summary(scene)
    assert (found.mode, found.next_due_at, found.suggested_poll_seconds) == ("dormant", NOON + timedelta(hours=1), 300)
    touch(scene.store, now=scene.clock.now())
    assert (summary(scene).mode, summary(scene).suggested_poll_seconds) == ("active", 15)
    scene.clock.advance(timedelta(minutes=59, seconds=53))
    assert (summary(scene).mode, summary(scene).suggested_poll_seconds) == ("idle", 7)
