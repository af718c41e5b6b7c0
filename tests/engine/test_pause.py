"""Pause and resume on a fake clock (R-20)."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.model.errors import InvalidValue
from rota.model.spec import FirstRun
from rota.model.states import Reason, Status
from rota.operations.pause import JobSelection, pause, resume
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import NOON, command, cron, every
from tests.engine.test_apply import put

pytestmark = pytest.mark.anyio

EVERYTHING = JobSelection(everything=True)


def minutes(count: int) -> timedelta:
    return timedelta(minutes=count)


def hold(scene: Scene, *names: str, until=None, reason: str = "upgrade"):
    return pause(
        scene.store, JobSelection(names) if names else EVERYTHING, until=until, reason=reason, now=scene.clock.now()
    )


def let_go(scene: Scene, *names: str, catch_up: bool = False):
    return resume(scene.store, JobSelection(names) if names else EVERYTHING, catch_up=catch_up, now=scene.clock.now())


async def test_instants_in_a_pause_become_one_counted_row_at_resume(scene: Scene) -> None:
    """R-20."""
    scene.declare(command("tick", schedule=cron("*/10 * * * *")))
    await scene.advance("15m")
    hold(scene, "tick")
    await scene.advance("60m")
    assert len(scene.history("tick")) == 1
    let_go(scene, "tick")
    row = scene.history("tick")[1]
    assert (row.status, row.reason, row.count) == (Status.SKIPPED, Reason.PAUSED, 6)
    assert (row.scheduled_for, row.covers_to) == (NOON + minutes(20), NOON + minutes(70))
    await scene.advance("5m")
    assert [run.scheduled_for for run in scene.history("tick")][2:] == [NOON + minutes(80)]


async def test_resume_may_catch_up_with_the_latest_instant(scene: Scene) -> None:
    """R-20: the latest runs and is not counted."""
    scene.declare(command("tick", schedule=cron("*/10 * * * *")))
    hold(scene, "tick")
    await scene.advance("35m")
    let_go(scene, "tick", catch_up=True)
    await scene.settle()
    assert scene.told("tick") == [("SKIPPED", "paused"), ("COMPLETED", None)]
    assert [run.scheduled_for - NOON for run in scene.history("tick")] == [minutes(10), minutes(30)]
    assert scene.history("tick")[0].count == 2


@pytest.mark.parametrize("once", [False, True], ids=["again and again", "run once"])
async def test_a_refused_catch_up_leaves_the_job_its_next_instant(scene: Scene, once: bool) -> None:
    """R-20, R-07: a job that follows its runs goes on after the end of the pause, as after any skip."""
    schedule = every("10m", first_run=FirstRun.AFTER_INTERVAL)
    scene.processes.scripts["tick"] = Script(takes=minutes(60))
    scene.declare(command("tick", schedule=replace(schedule, run_once=once)))
    scene.trigger("tick")
    await scene.settle()
    hold(scene, "tick")
    await scene.advance("15m")
    let_go(scene, "tick", catch_up=True)
    assert scene.told("tick")[1:] == [("SKIPPED", "overlap")]
    assert scene.job("tick").next_for == NOON + minutes(25)


async def test_a_refused_catch_up_does_not_use_up_a_cron_job_that_runs_once(scene: Scene) -> None:
    """R-20, R-07."""
    scene.processes.scripts["tick"] = Script(takes=minutes(60))
    scene.declare(command("tick", schedule=cron("*/10 * * * *", run_once=True)))
    scene.trigger("tick")
    await scene.settle()
    hold(scene, "tick")
    await scene.advance("15m")
    let_go(scene, "tick", catch_up=True)
    assert scene.told("tick")[1:] == [("SKIPPED", "overlap")]
    assert scene.job("tick").next_for == NOON + minutes(20)


async def test_a_timed_pause_ends_by_itself_at_its_stored_end(scene: Scene) -> None:
    """R-20."""
    scene.declare(command("tick", schedule=cron("*/10 * * * *")))
    hold(scene, "tick", until=NOON + minutes(25))
    await scene.advance("30m")
    assert scene.told("tick") == [("SKIPPED", "paused"), ("COMPLETED", None)]
    assert scene.history("tick")[0].count == 2


async def test_what_comes_after_a_timed_pause_that_was_seen_late_falls_under_misfire(scene: Scene) -> None:
    """R-20, R-10: the end is the stored one, not the moment it was noticed."""
    scene.declare(command("tick", schedule=cron("*/10 * * * *")))
    hold(scene, "tick", until=NOON + minutes(25))
    await scene.crash()
    scene.clock.advance("65m")
    await scene.start()
    await scene.settle()
    assert [(run.reason, run.count) for run in scene.history("tick")] == [("paused", 2), ("missed", 4)]


async def test_queued_and_running_runs_go_on_and_a_manual_trigger_works(scene: Scene) -> None:
    """R-20: pausing a job stops its fires only."""
    scene.processes.scripts["long"] = Script(takes=minutes(30))
    scene.declare(command("long", schedule=cron("0 13 * * *")))
    await scene.advance("1h")
    hold(scene, "long")
    await scene.advance("30m")
    assert scene.told("long") == [("COMPLETED", None)]
    scene.trigger("long")
    await scene.advance("30m")
    assert scene.told("long") == [("COMPLETED", None)] * 2


async def test_pausing_everything_stops_claiming_and_triggers_queue(scene: Scene) -> None:
    """R-20: --all."""
    scene.declare(command("tick", schedule=cron("*/10 * * * *")))
    hold(scene)
    scene.trigger("tick")
    await scene.advance("15m")
    assert scene.told("tick") == [("QUEUED", None)]
    let_go(scene)
    await scene.settle()
    assert scene.told("tick") == [("COMPLETED", None), ("SKIPPED", "paused")]


async def test_a_timed_pause_of_everything_lets_claiming_go_on(scene: Scene) -> None:
    scene.declare(command("tick"))
    hold(scene, until=NOON + minutes(20))
    scene.trigger("tick")
    await scene.advance("19m")
    assert scene.told("tick") == [("QUEUED", None)]
    await scene.advance("1m")
    assert scene.told("tick") == [("COMPLETED", None)]


async def test_a_pause_survives_apply_and_restart(scene: Scene) -> None:
    """R-20: it is state, not definition."""
    spec = command("tick", schedule=cron("*/10 * * * *"))
    put(scene, spec)
    hold(scene, "tick")
    put(scene, replace(spec, description="new words"))
    await scene.crash()
    await scene.start()
    await scene.advance("30m")
    assert scene.history("tick") == []
    let_go(scene, "tick")
    assert [(run.reason, run.count) for run in scene.history("tick")] == [("paused", 3)]


async def test_an_edit_during_a_pause_closes_the_old_schedules_account(scene: Scene) -> None:
    """R-20: span by span; no instant of the old schedule is lost, none of the new one is counted before it was."""
    spec = command("tick", schedule=cron("*/10 * * * *"))
    put(scene, spec)
    hold(scene, "tick")
    await scene.advance("25m")
    put(scene, replace(spec, schedule=cron("*/5 * * * *")))
    await scene.advance("10m")
    let_go(scene, "tick")
    rows = [
        (run.scheduled_for - NOON, run.covers_to and run.covers_to - NOON, run.count) for run in scene.history("tick")
    ]
    assert rows == [(minutes(10), minutes(20), 2), (minutes(30), minutes(35), 2)]


async def test_an_interval_whose_instant_fell_into_the_pause_goes_on_after_its_end(scene: Scene) -> None:
    """R-20: end + interval."""
    scene.declare(command("sync", schedule=every("10m", first_run=FirstRun.AFTER_INTERVAL)))
    hold(scene, "sync")
    await scene.advance("25m")
    let_go(scene, "sync")
    assert scene.told("sync") == [("SKIPPED", "paused")]
    assert scene.job("sync").next_for == NOON + minutes(35)


async def test_an_interval_whose_instant_lies_after_the_pause_keeps_it(scene: Scene) -> None:
    scene.declare(command("sync", schedule=every("1h", first_run=FirstRun.AFTER_INTERVAL)))
    hold(scene, "sync")
    await scene.advance("25m")
    let_go(scene, "sync")
    assert scene.history("sync") == []
    assert scene.job("sync").next_for == NOON + minutes(60)


async def test_a_chain_that_ends_in_the_pause_plans_what_the_pause_holds_back(scene: Scene) -> None:
    scene.processes.scripts["sync"] = Script(takes=minutes(5))
    scene.declare(command("sync", schedule=every("10m")))
    await scene.settle()
    hold(scene, "sync")
    await scene.advance("10m")
    assert (scene.job("sync").next_for, scene.job("sync").held_for) == (None, NOON + minutes(15))
    let_go(scene, "sync")
    await scene.advance("5m")
    assert scene.told("sync") == [("COMPLETED", None), ("RUNNING", None)]


async def test_pausing_again_changes_end_and_reason_and_loses_nothing(scene: Scene) -> None:
    scene.declare(command("tick", schedule=cron("*/10 * * * *")))
    hold(scene, "tick", until=NOON + minutes(15))
    hold(scene, "tick", until=NOON + minutes(35), reason="longer")
    await scene.advance("36m")
    assert [(run.reason, run.count, run.error) for run in scene.history("tick")] == [("paused", 3, "paused: longer")]


async def test_a_job_paused_on_its_own_for_longer_stays_so_when_a_pause_of_everything_ends(scene: Scene) -> None:
    """R-20: the end of `--all --for` is not the end of what somebody else paused without one."""
    scene.declare(command("tick", schedule=cron("*/10 * * * *")), command("other", schedule=cron("*/10 * * * *")))
    hold(scene, "tick", reason="broken")
    hold(scene, until=NOON + minutes(15))
    await scene.advance("45m")
    assert (scene.job("tick").pause_reason, scene.history("tick")) == ("broken", [])
    assert scene.told("other")[:2] == [("SKIPPED", "paused"), ("COMPLETED", None)]


async def test_a_pause_of_everything_may_be_made_shorter(scene: Scene) -> None:
    scene.declare(command("tick", schedule=cron("*/10 * * * *")))
    hold(scene)
    hold(scene, until=NOON + minutes(15))
    await scene.advance("25m")
    assert scene.told("tick") == [("SKIPPED", "paused"), ("COMPLETED", None)]


async def test_a_job_made_while_everything_is_paused_is_paused_too(scene: Scene) -> None:
    hold(scene)
    scene.declare(command("tick", schedule=every("10m")))
    await scene.advance("1h")
    assert scene.history("tick") == []
    let_go(scene)
    assert scene.told("tick") == [("SKIPPED", "paused")]


async def test_a_pause_that_would_be_over_is_refused(scene: Scene) -> None:
    scene.declare(command("tick"))
    with pytest.raises(InvalidValue, match="future"):
        hold(scene, "tick", until=NOON - minutes(1))


async def test_pause_tells_what_runs_and_how_many_instants_fall_into_it(scene: Scene) -> None:
    scene.processes.scripts["long"] = Script(takes=minutes(90))
    scene.declare(command("long", schedule=cron("0 13 * * *")), command("tick", schedule=cron("*/10 * * * *")))
    await scene.advance("61m")
    told = hold(scene, until=scene.clock.now() + minutes(60))
    assert told.jobs == ("long", "tick")
    assert told.running == ("long:1",)
    assert told.instants == 6


async def test_the_paused_span_is_a_version_of_its_own(scene: Scene) -> None:
    """R-20: each pause closes a span."""
    scene.declare(command("tick", schedule=cron("*/10 * * * *")))
    await scene.advance("5m")
    hold(scene, "tick")
    await scene.advance("20m")
    let_go(scene, "tick")
    job = scene.job("tick")
    rows = scene.store.read(lambda db: db.records("audit_spans", job_id=job.id))
    assert [row["schedules"] for row in rows] == [1, 0, 1]
    assert [row["until"] for row in rows][:2] == [row["since"] for row in rows][1:]


async def test_resuming_everything_lets_retired_jobs_go_too(scene: Scene) -> None:
    """A job that was retired in the pause and comes back after it is not paused for ever."""
    spec = command("tick", schedule=cron("*/10 * * * *"))
    put(scene, spec, command("other"))
    hold(scene)
    put(scene, command("other"))
    let_go(scene)
    put(scene, spec, command("other"))
    await scene.advance("10m")
    assert scene.told("tick") == [("COMPLETED", None)]
