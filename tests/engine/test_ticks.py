"""Tick mode: what is due is done by processes that come and go, as one worker with one set of slots (R-24)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.engine.transactions.pause import pause_job
from rota.model.records import Outcome
from rota.model.spec import Gates, Retry
from rota.model.states import Reason, Status
from rota.operations.run_actions import cancel_run
from rota.operations.verify.report import AuditReport
from rota.rules.liveness import MAX_UNSEEN
from rota.store.tables import processes, runs
from rota.store.tables.processes import end_process
from rota.testing.doubles import Script
from tests.engine.conftest import ALLOW, NOON, QUEUE, audit, command, cron, every, function
from tests.engine.machines import Machine
from tests.engine.ticking import TickScene
from tests.scene import Scene, many_machines

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
LONG = Script(takes=timedelta(minutes=10))
FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1)

Make = Callable[[], TickScene]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """A project with two slots that nobody serves, at noon; what the test leaves is audited."""
    made = Scene(tmp_path, NOON, concurrency=2)
    yield made
    found: AuditReport = audit(made)
    made.store.close()
    assert found.violations == ()


@pytest.fixture
async def ticks(scene: Scene) -> AsyncIterator[Make]:
    """Makes ticks on that project."""
    made: list[TickScene] = []

    def make() -> TickScene:
        made.append(TickScene(scene.settings.state, scene))
        return made[-1]

    yield make
    for one in made:
        await one.end()


async def test_a_tick_does_what_is_due_and_goes(scene: Scene, ticks: Make) -> None:
    scene.declare(command("job", schedule=cron("* * * * *")))
    scene.clock.advance("1m")
    await ticks().tick()
    assert scene.told("job") == [("COMPLETED", None)]
    assert scene.store.read(processes.open_processes) == []


async def test_every_duty_has_its_round_in_a_look_but_pruning(ticks: Make) -> None:
    """Also those that are added to the engine later."""
    tick = ticks()
    await tick.look()
    idle = [loop.name for loop in tick.engine.loops if not loop.pulse.rounds]
    assert idle == ["prune"]


async def test_a_long_run_takes_a_slot_not_the_clock(scene: Scene, ticks: Make) -> None:
    """R-04: the rows tell which slots other ticks hold."""
    scene.processes.scripts["long"] = LONG
    scene.declare(command("long", schedule=cron("1 12 * * *")), command("short", schedule=cron("* * * * *")))
    first, second = ticks(), ticks()
    scene.clock.advance("1m")
    await first.look()
    await first.carry()
    assert (scene.told("long"), scene.told("short")) == ([("RUNNING", None)], [("COMPLETED", None)])
    scene.clock.advance("1m")
    await second.tick()
    assert scene.told("short") == [("COMPLETED", None)] * 2
    assert {run.slot for run in (*scene.history("long"), *scene.history("short")[1:])} == {0, 1}
    scene.clock.advance("9m")
    await first.carry()
    assert scene.told("long") == [("COMPLETED", None)]
    await first.leave()


async def test_with_all_slots_full_instants_are_fired_and_wait(scene: Scene, ticks: Make) -> None:
    """A tick that cannot start anything goes at once; none waits for another."""
    for name in ("one", "two"):
        scene.processes.scripts[name] = LONG
        scene.declare(command(name, schedule=cron("1 12 * * *")))
    scene.declare(command("third", schedule=cron("2 12 * * *")))
    first = ticks()
    scene.clock.advance("1m")
    await first.look()
    scene.clock.advance("1m")
    await ticks().tick()
    assert scene.told("third") == [("QUEUED", None)]
    scene.clock.advance("9m")
    await first.carry()
    assert (first.carries, scene.told("third")) == (False, [("QUEUED", None)])
    await first.leave()
    await ticks().tick()
    assert scene.told("third") == [("COMPLETED", None)]


async def test_a_tick_that_stays_drains_what_was_queued_at_its_look_and_no_more(scene: Scene, ticks: Make) -> None:
    """The bound: a tick always ends, however much is enqueued while it carries runs."""
    scene.processes.scripts["job"] = Script(takes=timedelta(minutes=1))
    scene.declare(command("job", overlap=ALLOW))
    for _ in range(5):
        scene.trigger("job")
    first = ticks()
    await first.look()
    for _ in range(4):
        scene.clock.advance("1m")
        scene.trigger("job")
        await first.carry()
    assert not first.carries
    assert [status for status, _ in scene.told("job")] == ["COMPLETED"] * 5 + ["QUEUED"] * 4
    await first.leave()


async def test_a_later_run_that_comes_first_is_not_overtaken(scene: Scene, ticks: Make) -> None:
    """INV-004: a tick that must not take it takes nothing behind it either."""
    scene.processes.scripts["job"] = Script(takes=timedelta(minutes=1))
    scene.declare(command("job", overlap=ALLOW), command("urgent", priority=9))
    for _ in range(3):
        scene.trigger("job")
    first = ticks()
    await first.look()
    scene.clock.advance("30s")
    scene.trigger("urgent")
    scene.clock.advance("30s")
    await first.carry()
    assert [status for status, _ in scene.told("job")] == ["COMPLETED", "COMPLETED", "QUEUED"]
    await first.leave()
    await ticks().look()
    assert scene.told("urgent") == [("COMPLETED", None)]


async def test_a_sequence_of_a_queueing_job_goes_on_in_the_tick_that_began_it(scene: Scene, ticks: Make) -> None:
    """What waits for a predecessor was there at the look."""
    scene.processes.scripts["job"] = Script(takes=timedelta(minutes=1))
    scene.declare(command("job", overlap=QUEUE))
    scene.trigger("job")
    scene.trigger("job")
    first = ticks()
    await first.look()
    for _ in range(2):
        scene.clock.advance("1m")
        await first.carry()
    assert scene.told("job") == [("COMPLETED", None)] * 2
    await first.leave()


async def test_instants_between_two_ticks_are_not_late(scene: Scene, ticks: Make) -> None:
    """R-10: in tick mode at the earliest after the time since the previous tick."""
    scene.declare(command("job", schedule=cron("1 * * * *")))
    await ticks().tick()
    scene.clock.advance("10m")
    await ticks().tick()
    assert scene.told("job") == [("COMPLETED", None)]
    (run,) = scene.history("job")
    assert (run.decisions["late_ms"], run.decisions["grace_ms"]) == (540_000, 600_000)


async def test_after_fifteen_minutes_without_a_tick_an_instant_is_late(scene: Scene, ticks: Make) -> None:
    """R-10: up to 15 min."""
    scene.declare(command("job", schedule=cron("1 * * * *")), command("young", schedule=cron("10 * * * *")))
    await ticks().tick()
    scene.clock.advance(timedelta(minutes=1, milliseconds=1) + MAX_UNSEEN)
    await ticks().tick()
    assert (scene.told("job"), scene.told("young")) == ([("SKIPPED", "missed")], [("COMPLETED", None)])


async def test_after_a_serving_process_the_grace_is_the_jobs_own(scene: Scene, ticks: Make) -> None:
    """R-10: tick mode is when the newest process is a tick."""
    scene.declare(command("job", schedule=cron("5 * * * *")))
    await ticks().tick()
    await scene.start()
    await scene.settle()
    scene.clock.advance("10m")
    await scene.settle()
    assert scene.told("job") == [("SKIPPED", "missed")]
    await scene.crash()


async def test_a_pause_between_two_ticks_settles_what_was_not_late(scene: Scene, ticks: Make) -> None:
    """R-10, R-20: whoever changes a job between ticks judges its instants as the next tick would."""
    scene.declare(command("job", schedule=cron("1 * * * *")))
    await ticks().tick()
    scene.clock.advance("5m")
    now = scene.clock.now()
    scene.store.write(partial(pause_job, job_id=scene.job("job").id, until=None, reason="", now=now))
    assert scene.told("job") == [("QUEUED", None)]


async def test_idle_ticks_leave_one_row_among_them(scene: Scene, ticks: Make) -> None:
    """R-23: an epoch that no row names may be had by the next tick, so idle ticks do not fill the database."""
    scene.declare(command("job", schedule=cron("0 * * * *")))
    for _ in range(5):
        await ticks().tick()
        scene.clock.advance("10s")
    rows = scene.store.read(lambda db: db.rows("process_last", limit=100))
    assert [(epoch, ending) for epoch, _, _, _, _, ending in rows] == [(1, "clean")]


@many_machines
async def test_idle_ticks_of_two_machines_leave_a_row_each(scene: Scene, ticks: Make) -> None:
    """R-23, R-24: what another machine's ticks leave is theirs."""
    scene.declare(command("job", schedule=cron("0 * * * *")))
    await ticks().tick()
    other = Machine(scene, "other", kind="tick")
    scene.store.write(partial(end_process, epoch=other.holder.epoch, ending="clean", now=scene.clock.now()))
    for _ in range(3):
        await ticks().tick()
        scene.clock.advance("10s")
    rows = scene.store.read(lambda db: db.rows("process_last", limit=100))
    assert [epoch for epoch, *_ in rows] == [other.holder.epoch, 1]


@many_machines
async def test_a_tick_after_a_machine_that_served_takes_a_new_epoch(scene: Scene, ticks: Make) -> None:
    """R-10: the newest process tells whether there are ticks alone."""
    scene.declare(command("job", schedule=cron("0 * * * *")))
    await ticks().tick()
    other = Machine(scene, "other", kind="serve")
    scene.store.write(partial(end_process, epoch=other.holder.epoch, ending="clean", now=scene.clock.now()))
    await ticks().tick()
    newest, *_ = scene.store.read(lambda db: db.rows("process_last", limit=1))
    assert newest[:2] == (other.holder.epoch + 1, "tick")


async def test_a_tick_that_worked_keeps_its_epoch_for_itself(scene: Scene, ticks: Make) -> None:
    """R-23: every process takes a new epoch."""
    scene.declare(command("job", schedule=cron("* * * * *")))
    for _ in range(3):
        scene.clock.advance("1m")
        await ticks().tick()
    rows = scene.store.read(lambda db: db.rows("process_last", limit=100))
    assert [epoch for epoch, *_ in rows] == [3, 2, 1]
    assert {run.epoch for run in scene.history("job")} == {1, 2, 3}


async def test_what_a_killed_tick_carried_is_adopted_by_the_next(scene: Scene, ticks: Make) -> None:
    """R-23: its keeper lives, so the run goes on and its end is recorded."""
    scene.processes.scripts["long"] = LONG
    scene.declare(command("long", schedule=cron("1 12 * * *")))
    first, second = ticks(), ticks()
    scene.clock.advance("1m")
    await first.look()
    await first.crash()
    scene.clock.advance("1m")
    assert await second.look() == 1
    assert second.carries
    scene.clock.advance("9m")
    await second.carry()
    assert scene.told("long") == [("COMPLETED", None)]
    await second.leave()


async def test_a_tick_leaves_alone_what_another_living_one_carries(scene: Scene, ticks: Make) -> None:
    """R-22, R-23: a run is owned by its epoch's process, and that one lives."""
    scene.processes.scripts["long"] = LONG
    scene.declare(command("long", schedule=cron("1 12 * * *")))
    first = ticks()
    scene.clock.advance("1m")
    await first.look()
    second = ticks()
    assert await second.look() == 0
    assert [process.epoch for process in second.session.living] == [first.session.holder.epoch]
    await second.leave()
    scene.clock.advance("10m")
    await first.carry()
    await first.leave()
    (run,) = scene.history("long")
    assert run.epoch == 1


async def test_a_function_of_a_killed_tick_is_recorded_and_retried(scene: Scene, ticks: Make) -> None:
    """R-23: nothing is left of it."""
    scene.table.functions = {"stay": _stay}
    scene.declare(function("stay", schedule=cron("1 12 * * *"), retry=Retry(max_attempts=2)))
    first = ticks()
    scene.clock.advance("1m")
    await first.look()
    await first.crash()
    second = ticks()
    await second.look()
    assert scene.told("stay") == [("FAILED", "process_restarted"), ("QUEUED", None)]
    await second.leave()


async def _stay(_context) -> None:
    await asyncio.Event().wait()


async def test_a_backoff_that_is_over_is_tried_again_by_a_later_tick(scene: Scene, ticks: Make) -> None:
    scene.processes.scripts["job"] = Script(ending=FAILED)
    scene.declare(command("job", retry=Retry(max_attempts=2, jitter=None), schedule=cron("1 12 * * *")))
    scene.clock.advance("1m")
    await ticks().tick()
    assert scene.told("job") == [("FAILED", "exit_code"), ("QUEUED", None)]
    await ticks().tick()
    assert scene.told("job")[1] == ("QUEUED", None)
    scene.clock.advance("1m")
    await ticks().tick()
    assert scene.told("job") == [("FAILED", "exit_code")] * 2


async def test_a_timed_pause_that_is_over_is_ended_by_a_later_tick(scene: Scene, ticks: Make) -> None:
    """R-20: its end is the stored one; the instants after it fire in the same tick."""
    scene.declare(command("job", schedule=cron("* * * * *")))
    until = NOON + timedelta(minutes=5, seconds=30)
    pause = partial(pause_job, job_id=scene.job("job").id, until=until, reason="", now=NOON)
    scene.store.write(pause)
    await ticks().tick()
    scene.clock.advance("6m")
    await ticks().tick()
    assert scene.told("job") == [("SKIPPED", "paused"), ("COMPLETED", None)]
    assert scene.history("job")[0].count == 5


async def test_a_run_that_waited_too_long_expires_at_a_tick(scene: Scene, ticks: Make) -> None:
    """R-09."""
    scene.declare(replace(command("job"), gates=Gates(expires_after=timedelta(minutes=5))))
    scene.trigger("job")
    scene.clock.advance("6m")
    await ticks().tick()
    assert scene.told("job") == [("SKIPPED", "expired")]


async def test_ticks_that_overlap_are_no_clock_that_was_set_back(scene: Scene, ticks: Make) -> None:
    """R-26: the earlier one ends long after the later one began; times are checked all the same."""
    scene.processes.scripts["long"] = LONG
    scene.declare(command("long", schedule=cron("1 12 * * *")), command("short", schedule=cron("* * * * *")))
    first = ticks()
    scene.clock.advance("1m")
    await first.look()
    scene.clock.advance("1m")
    await ticks().tick()
    scene.clock.advance("9m")
    await first.carry()
    await first.leave()
    report = audit(scene)
    assert [note for note in report.notes if "set back" in note] == []


async def test_a_clock_set_back_between_ticks_stalls_no_interval(scene: Scene, ticks: Make) -> None:
    """R-26: the next tick tells by the offset that the last one stored."""
    scene.declare(command("job", schedule=every("10m")))
    await ticks().tick()
    scene.clock.step(-HOUR)
    await ticks().tick()
    scene.clock.advance("10m")
    await ticks().tick()
    assert scene.told("job") == [("COMPLETED", None)] * 2


async def test_a_wish_to_cancel_reaches_the_tick_that_carries_the_run(scene: Scene, ticks: Make) -> None:
    scene.processes.scripts["long"] = LONG
    scene.declare(command("long"))
    scene.trigger("long")
    first = ticks()
    await first.look()
    cancel_run(scene.store, "long:1", now=scene.clock.now())
    await ticks().tick()
    assert scene.told("long") == [("RUNNING", None)]
    await first.carry()
    assert scene.told("long") == [("CANCELLED", "requested")]
    await first.leave()


async def test_a_scheduler_that_starts_beside_a_tick_leaves_its_slots_alone(scene: Scene, ticks: Make) -> None:
    """R-04: one worker, one set of slots."""
    scene.processes.scripts["long"] = LONG
    scene.declare(command("long", overlap=ALLOW))
    scene.trigger("long")
    first = ticks()
    await first.look()
    await scene.start()
    scene.clock.advance("1s")
    scene.trigger("long")
    scene.trigger("long")
    await scene.settle()
    assert [status for status, _ in scene.told("long")] == ["RUNNING", "RUNNING", "QUEUED"]
    scene.clock.advance("10m")
    await first.carry()
    await first.leave()
    await scene.settle()
    assert [status for status, _ in scene.told("long")] == ["COMPLETED", "COMPLETED", "RUNNING"]
    await scene.crash()
    assert len(scene.store.read(partial(runs.owned_runs, epochs=[2]))) == 1


async def test_a_tick_prunes_one_batch_and_the_next_ticks_the_rest(scene: Scene, ticks: Make) -> None:
    """What is old goes, an hour apart, without a tick that takes long."""
    scene.declare(command("job", overlap=ALLOW))
    for _ in range(3):
        scene.trigger("job")
        cancel_run(scene.store, "job", now=scene.clock.now())
    scene.clock.advance(timedelta(days=400))
    pruned = []
    for _ in range(3):
        tick = ticks()
        await tick.look()
        await tick.engine.prune_loop.turn()
        await tick.leave()
        pruned.append((len(scene.history("job")), scene.store.read(lambda db: db.row("meta_get", key="pruned_at"))))
    assert [count for count, _ in pruned] == [0, 0, 0]
    assert pruned[0][1] is None
    assert pruned[1][1] == pruned[2][1] is not None
