"""Clock steps, suspend and restarts across them (R-26)."""

from datetime import timedelta
from functools import partial

import pytest

from rota.model.spec import Anchor, Condition, Gates, Misfire, WhenFalse
from rota.operations.status.attention import machines_needing
from rota.operations.workers import worker_states
from rota.rules.liveness import AMONG_MACHINES
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import NOON, ONCE, audit, command, cron, every
from tests.engine.machines import Machine
from tests.scene import many_machines

pytestmark = pytest.mark.anyio

STEPS = [timedelta(seconds=2), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)]


def minutes(count: int) -> timedelta:
    return timedelta(minutes=count)


@pytest.mark.parametrize("back", STEPS, ids=str)
async def test_a_step_back_refires_no_instant_of_the_calendar(scene: Scene, back: timedelta) -> None:
    """R-26, R-05: the cursor of cron never moves back."""
    scene.declare(command("tick", schedule=cron("*/10 * * * *")))
    await scene.advance("35m")
    scene.clock.step(-back)
    await scene.advance(back + minutes(10))
    instants = [run.scheduled_for for run in scene.history("tick")]
    assert len(instants) == len(set(instants)) == 4
    assert instants == sorted(instants)


@pytest.mark.parametrize("back", STEPS, ids=str)
@pytest.mark.parametrize("anchor", [Anchor.COMPLETION, Anchor.START])
async def test_a_step_back_stalls_no_interval(scene: Scene, back: timedelta, anchor: Anchor) -> None:
    """R-26: what counts elapsed time moves with the clock."""
    scene.declare(command("sync", schedule=every("10m", anchor=anchor)))
    await scene.advance("35m")
    scene.clock.step(-back)
    await scene.settle()
    await scene.advance("10m")
    assert len(scene.history("sync")) == 5


async def test_a_step_back_while_no_scheduler_ran_stalls_no_interval(scene: Scene) -> None:
    """R-26: the offset to the boot clock is remembered with the process."""
    scene.declare(command("sync", schedule=every("10m")))
    await scene.advance("35m")
    await scene.crash()
    scene.clock.step(-timedelta(days=1))
    await scene.start()
    await scene.advance("10m")
    assert len(scene.history("sync")) == 5


@pytest.mark.parametrize("back", [timedelta(hours=1), timedelta(days=1)], ids=str)
async def test_a_clock_behind_the_rows_after_a_reboot_stalls_no_interval(scene: Scene, back: timedelta) -> None:
    """R-26: boot clocks of two boots cannot be compared, but what was written before cannot lie ahead."""
    scene.declare(command("sync", schedule=every("10m")))
    await scene.advance("35m")
    await scene.crash()
    scene.boot = "the next boot"
    scene.clock.step(-back)
    await scene.start()
    await scene.advance("10m")
    assert len(scene.history("sync")) == 5


async def test_a_reboot_after_which_the_clock_is_behind_is_told_as_an_event(scene: Scene) -> None:
    """R-26: found by simulation; without it the order of times would look broken to an auditor."""
    scene.processes.scripts["slow"] = Script(takes=minutes(1))
    scene.declare(command("slow"))
    scene.engine.claimer.allowed = False
    scene.trigger("slow")
    await scene.crash()
    scene.boot = "the next boot"
    scene.clock.step(-timedelta(hours=1))
    await scene.start()
    await scene.advance("5m")
    rows = scene.store.read(lambda db: db.rows("events_newest", since=0, limit=10))
    assert [row[2] for row in rows] == ["clock_set_back"]
    assert scene.told("slow") == [("COMPLETED", None)]
    assert audit(scene).violations == ()


async def test_an_ordinary_reboot_is_no_step(scene: Scene) -> None:
    scene.declare(command("sync", schedule=every("10m")))
    await scene.advance("35m")
    await scene.crash()
    scene.boot = "the next boot"
    scene.clock.advance("2m")
    await scene.start()
    assert scene.store.read(lambda db: db.rows("events_newest", since=0, limit=10)) == []


async def test_a_step_forward_is_remembered_so_that_its_undoing_is_seen_after_a_restart(scene: Scene) -> None:
    """R-26: the clock was wrong for a while, and was set right again while no scheduler ran."""
    scene.declare(command("sync", schedule=every("10m")))
    scene.clock.step(timedelta(hours=5))
    await scene.advance("35m")
    before = len(scene.history("sync"))
    await scene.crash()
    scene.clock.step(-timedelta(hours=5))
    await scene.start()
    await scene.advance("10m")
    assert len(scene.history("sync")) == before + 1


async def test_a_step_back_moves_the_ends_of_waits(scene: Scene) -> None:
    scene.processes.conditions["./look"] = "false"
    gates = Gates((Condition(command=("./look",)),), when_false=WhenFalse.WAIT, recheck=minutes(10))
    scene.declare(command("gated", schedule=every("1h"), gates=gates))
    await scene.settle()
    scene.clock.step(-timedelta(hours=5))
    await scene.settle()
    scene.processes.conditions["./look"] = "pass"
    await scene.advance("10m")
    assert scene.told("gated") == [("COMPLETED", None)]


async def test_a_step_back_is_told_as_an_event(scene: Scene) -> None:
    scene.declare(command("sync", schedule=every("10m")))
    await scene.settle()
    scene.clock.step(-timedelta(hours=1))
    await scene.settle()
    rows = scene.store.read(lambda db: db.rows("events_newest", since=0, limit=10))
    assert [row[2] for row in rows] == ["clock_set_back"]


@pytest.mark.parametrize("forward", STEPS, ids=str)
async def test_a_step_forward_makes_no_storm(scene: Scene, forward: timedelta) -> None:
    """R-26: forward steps fall under misfire; every instant has its row."""
    scene.declare(command("tick", schedule=cron("* * * * *")))
    await scene.advance("5m")
    begun = len(scene.processes.begun)
    scene.clock.step(forward)
    await scene.settle()
    assert len(scene.processes.begun) - begun <= 2
    covered = sum(run.count or 1 for run in scene.history("tick"))
    assert covered == (scene.clock.now() - NOON) // minutes(1)


async def test_suspend_and_resume_is_a_misfire_not_a_step(scene: Scene) -> None:
    """R-26: wall and boot clock move together."""
    scene.declare(command("tick", schedule=cron("0 * * * *"), misfire=ONCE), command("sync", schedule=every("10m")))
    await scene.advance("5m")
    scene.clock.suspend(timedelta(hours=8))
    await scene.settle()
    assert scene.told("tick") == [("SKIPPED", "missed"), ("COMPLETED", None)]
    assert len(scene.history("sync")) == 2
    assert scene.store.read(lambda db: db.rows("events_newest", since=0, limit=10)) == []


async def test_a_small_drift_is_not_a_step(scene: Scene) -> None:
    scene.declare(command("sync", schedule=every("10m")))
    await scene.settle()
    planned = scene.job("sync").next_for
    scene.clock.step(-timedelta(milliseconds=900))
    await scene.settle()
    assert scene.job("sync").next_for == planned


async def test_new_runs_sort_after_old_ones_after_a_step_back(scene: Scene) -> None:
    """INV-004: the order of the queue does not follow the wall clock back."""
    scene.processes.scripts["a"] = Script(takes=minutes(1))
    scene.declare(command("a"), command("b"))
    scene.engine.claimer.allowed = False
    scene.trigger("a")
    await scene.crash()
    scene.clock.step(-timedelta(days=1))
    await scene.start()
    scene.engine.claimer.allowed = False
    scene.trigger("b")
    scene.engine.claimer.allowed = True
    await scene.settle()
    assert scene.processes.begun == ["a:1", "b:1"]


@many_machines
@pytest.mark.parametrize(("kind", "runs"), [("serve", 4), ("worker", 5)])
async def test_a_step_back_of_one_machine_moves_nothing_where_another_one_fires(
    scene: Scene, kind: str, runs: int
) -> None:
    """R-26, R-22: the other's clock did not move; one that only claims is no reason to let everything wait."""
    scene.declare(command("sync", schedule=every("10m")))
    await scene.advance("35m")
    Machine(scene, "other", kind=kind)
    scene.clock.step(-timedelta(hours=1))
    await scene.settle()
    await scene.advance("10m")
    assert len(scene.history("sync")) == runs


@many_machines
async def test_a_step_back_while_another_machine_fired_moves_nothing(scene: Scene) -> None:
    """R-26: what that one wrote was written by its own clock."""
    scene.declare(command("sync", schedule=every("10m")))
    await scene.advance("35m")
    await scene.crash()
    other = Machine(scene, "other", kind="serve")
    other.vanish()
    scene.clock.step(-timedelta(days=1))
    await scene.start()
    await scene.advance("10m")
    assert len(scene.history("sync")) == 4


@many_machines
@pytest.mark.parametrize("skew", [timedelta(hours=1), -timedelta(hours=1)], ids=str)
async def test_a_machine_whose_clock_is_wrong_fires_and_claims_nothing_until_it_is_right(
    scene: Scene, skew: timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    """R-41: it says so, and begins by itself."""
    scene.declare(command("tick", schedule=cron("*/10 * * * *")), command("hand"))
    await scene.settle()
    scene.trigger("hand")
    scene.clock.step(skew)
    scene.skew = skew
    await scene.settle()
    scene.clock.advance("1s")
    await scene.settle()
    assert (scene.told("tick"), scene.told("hand")) == ([], [("QUEUED", None)])
    (state,) = scene.store.read(partial(worker_states, state=scene.settings.state))
    assert (state.skew, state.claims) == (skew, False)
    assert [one.kind for one in machines_needing([state])] == ["clock"]
    assert scene.engine.failing is not None
    assert scene.engine.failing.code == "clock_wrong"
    assert "clock is wrong: firing and claiming stopped" in caplog.text
    scene.clock.step(-skew)
    scene.skew = timedelta()
    await scene.advance("10m")
    assert scene.told("hand") == [("COMPLETED", None)]
    assert scene.told("tick") == [("COMPLETED", None)]
    assert scene.engine.failing is None
    assert [one.skew for one in scene.store.read(partial(worker_states, state=scene.settings.state))] == [None]


@many_machines
async def test_a_clock_that_differs_by_less_than_the_grace_is_followed(scene: Scene) -> None:
    """R-41: the clocks of machines are never quite the same."""
    scene.declare(command("tick", schedule=cron("*/10 * * * *")))
    scene.skew = Misfire().grace
    await scene.advance("10m")
    assert scene.told("tick") == [("COMPLETED", None)]


@many_machines
async def test_a_wrong_clock_that_is_set_back_to_the_right_time_moves_nothing(scene: Scene) -> None:
    """R-26, R-41: what waits was never counted by the wrong clock."""
    scene.declare(command("sync", schedule=every("10m")))
    await scene.advance("5m")
    for skew, step in ((timedelta(hours=1), 1), (timedelta(), -1)):
        scene.skew = skew
        scene.clock.step(step * timedelta(hours=1))
        await scene.settle()
    before = len(scene.history("sync"))
    await scene.advance("4m")
    assert len(scene.history("sync")) == before
    await scene.advance("1m")
    assert len(scene.history("sync")) == before + 1


def test_the_difference_that_clocks_may_have_is_the_grace_of_a_job_that_names_none() -> None:
    assert Misfire().grace == AMONG_MACHINES
