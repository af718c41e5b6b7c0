"""From an instant to its row: fire, claim, execute and record, on a fake clock."""

from datetime import timedelta

import pytest

from rota.model.clock import iso, to_ms
from rota.model.records import Outcome
from rota.model.spec import Anchor, FirstRun, Misfire, MisfirePolicy, Overlap, OverlapPolicy
from rota.model.states import Reason, Status, Trigger
from rota.store.tables import runs
from rota.testing.doubles import Script
from tests.engine.conftest import ALLOW, NOON, ONCE, QUEUE, REPLACE, command, cron, every
from tests.scene import Scene

pytestmark = pytest.mark.anyio


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


async def test_a_cron_job_runs_at_its_instant_and_its_cursor_moves_on(scene: Scene) -> None:
    scene.declare(command("tick", schedule=cron("*/5 * * * *")))
    await scene.advance("12m")
    assert [iso(run.scheduled_for) for run in scene.history("tick")] == ["2026-11-15T12:05:00Z", "2026-11-15T12:10:00Z"]
    assert scene.told("tick") == [("COMPLETED", None)] * 2
    assert scene.job("tick").next_for == NOON + minutes(15)


async def test_a_run_never_starts_before_its_instant(scene: Scene) -> None:
    scene.declare(command("tick", schedule=cron("*/5 * * * *")))
    await scene.advance("4m")
    assert scene.history("tick") == []
    await scene.advance("1m")
    assert [run.started_at for run in scene.history("tick")] == [NOON + minutes(5)]


async def test_an_interval_counts_from_the_end_of_the_run(scene: Scene) -> None:
    """R-06: completion is the default anchor."""
    scene.processes.scripts["sync"] = Script(takes=minutes(3))
    scene.declare(command("sync", schedule=every("10m")))
    await scene.settle()
    assert scene.job("sync").next_for is None
    await scene.advance("3m")
    assert scene.job("sync").next_for == NOON + minutes(13)
    await scene.advance("20m")
    assert [run.scheduled_for - NOON for run in scene.history("sync")] == [minutes(0), minutes(13)]


async def test_an_interval_may_count_from_the_start_but_waits_for_the_end(scene: Scene) -> None:
    """R-06: start anchor."""
    scene.processes.scripts["short"] = Script(takes=minutes(3))
    scene.processes.scripts["long"] = Script(takes=minutes(12))
    scene.declare(command("short", schedule=every("10m", anchor=Anchor.START)))
    scene.declare(command("long", schedule=every("10m", anchor=Anchor.START)))
    await scene.advance("13m")
    assert [run.scheduled_for - NOON for run in scene.history("short")] == [minutes(0), minutes(10)]
    assert [run.scheduled_for - NOON for run in scene.history("long")] == [minutes(0), minutes(12)]


async def test_a_fixed_interval_is_a_grid_from_the_creation(scene: Scene) -> None:
    """R-06: fixed anchor; the instants do not depend on the runs."""
    scene.processes.scripts["grid"] = Script(takes=minutes(3))
    scene.declare(command("grid", schedule=every("10m", anchor=Anchor.FIXED)))
    await scene.advance("25m")
    assert [run.scheduled_for - NOON for run in scene.history("grid")] == [minutes(0), minutes(10), minutes(20)]


async def test_first_run_after_interval_waits_one_interval(scene: Scene) -> None:
    """R-06: first_run."""
    scene.declare(command("later", schedule=every("10m", first_run=FirstRun.AFTER_INTERVAL)))
    await scene.advance("9m")
    assert scene.history("later") == []
    await scene.advance("1m")
    assert scene.told("later") == [("COMPLETED", None)]


async def test_manual_runs_never_move_the_cursor(scene: Scene) -> None:
    """R-06: unscheduled runs leave next_at alone."""
    scene.declare(command("sync", schedule=every("10m", first_run=FirstRun.AFTER_INTERVAL)))
    await scene.advance("4m")
    scene.trigger("sync")
    await scene.settle()
    assert scene.job("sync").next_for == NOON + minutes(10)
    assert [run.trigger for run in scene.history("sync")] == [Trigger.MANUAL]


async def test_a_failed_run_keeps_exit_code_and_error(scene: Scene) -> None:
    failed = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error='exit 3: "repository locked"')
    scene.processes.scripts["backup"] = Script(ending=failed)
    scene.declare(command("backup", schedule=cron("0 13 * * *")))
    await scene.advance("1h")
    (run,) = scene.history("backup")
    assert (run.status, run.reason, run.exit_code, run.error) == (
        Status.FAILED,
        Reason.EXIT_CODE,
        3,
        'exit 3: "repository locked"',
    )


async def test_an_instant_while_the_job_is_active_is_skipped_and_names_the_blocking_run(scene: Scene) -> None:
    """R-11: forbid is the default."""
    scene.processes.scripts["slow"] = Script(takes=minutes(7))
    scene.declare(command("slow", schedule=cron("*/5 * * * *")))
    await scene.advance("10m")
    assert scene.told("slow") == [("RUNNING", None), ("SKIPPED", "overlap")]
    assert "slow:1" in (scene.history("slow")[1].error or "")


async def test_overlap_queue_lets_one_wait_and_skips_the_next(scene: Scene) -> None:
    """R-11: queue, with a depth of one."""
    scene.processes.scripts["slow"] = Script(takes=minutes(12))
    scene.declare(command("slow", schedule=cron("*/5 * * * *"), overlap=QUEUE))
    await scene.advance("15m")
    assert scene.told("slow") == [("RUNNING", None), ("QUEUED", None), ("SKIPPED", "overlap")]
    assert scene.history("slow")[1].waiting_for == "predecessor"
    await scene.advance("2m")
    assert scene.told("slow")[:2] == [("COMPLETED", None), ("RUNNING", None)]


async def test_who_waits_in_line_waits_for_all_that_came_before(scene: Scene) -> None:
    """R-11: the end of a start that was forced lets nobody go while an earlier run of the job goes on."""
    scene.declare(command("slow", overlap=Overlap(OverlapPolicy.QUEUE, queue_depth=3)))
    scene.processes.scripts["slow"] = Script(takes=minutes(30))
    scene.trigger("slow")
    await scene.settle()
    scene.processes.scripts["slow"] = Script(takes=minutes(2))
    scene.trigger("slow", force=True)
    await scene.settle()
    scene.trigger("slow")
    await scene.advance("5m")
    assert scene.told("slow") == [("RUNNING", None), ("COMPLETED", None), ("QUEUED", None)]
    await scene.advance("26m")
    assert scene.told("slow") == [("COMPLETED", None), ("COMPLETED", None), ("RUNNING", None)]


async def test_overlap_allow_starts_beside_the_running_one(scene: Scene) -> None:
    """R-11: allow."""
    scene.processes.scripts["slow"] = Script(takes=minutes(12))
    scene.declare(command("slow", schedule=cron("*/5 * * * *"), overlap=ALLOW))
    await scene.advance("10m")
    assert scene.told("slow") == [("RUNNING", None), ("RUNNING", None)]


async def test_replace_cancels_the_running_one_and_starts_when_it_is_dead(scene: Scene) -> None:
    """R-12: replace."""
    scene.processes.scripts["slow"] = Script(takes=minutes(30))
    scene.declare(command("slow", schedule=cron("*/5 * * * *"), overlap=REPLACE))
    await scene.advance("10m")
    assert scene.told("slow") == [("CANCELLED", "replaced"), ("RUNNING", None)]


async def test_replace_keeps_waiting_while_the_old_one_cannot_be_killed(scene: Scene) -> None:
    """R-12: the new run starts only when the old tree is dead."""
    scene.processes.scripts["stuck"] = Script(takes=minutes(30), stops=False)
    scene.declare(command("stuck", schedule=cron("*/10 * * * *"), overlap=REPLACE))
    await scene.advance("20m")
    assert scene.told("stuck") == [("RUNNING", None), ("QUEUED", None)]
    assert scene.history("stuck")[1].waiting_for == "replaced_run"
    await scene.advance("10m")
    assert [status for status, _ in scene.told("stuck")][:2] == ["RUNNING", "CANCELLED"]


async def test_missed_instants_become_one_counted_row(scene: Scene) -> None:
    """R-10: skip is cron's default; one row per unbroken stretch."""
    scene.declare(command("tick", schedule=cron("*/5 * * * *")))
    scene.clock.advance("1h")
    await scene.settle()
    missed, latest = scene.history("tick")
    assert (missed.status, missed.reason, missed.count) == (Status.SKIPPED, Reason.MISSED, 11)
    assert (missed.scheduled_for, missed.covers_to) == (NOON + minutes(5), NOON + minutes(55))
    assert (latest.scheduled_for, latest.status) == (NOON + minutes(60), Status.COMPLETED)


async def test_misfire_once_runs_the_latest_missed_instant(scene: Scene) -> None:
    """R-10: once."""
    scene.declare(command("tick", schedule=cron("0 * * * *"), misfire=ONCE))
    scene.clock.advance("3h")
    scene.clock.advance("30m")
    await scene.settle()
    assert scene.told("tick") == [("SKIPPED", "missed"), ("COMPLETED", None)]
    assert scene.history("tick")[1].scheduled_for == NOON + minutes(180)


async def test_misfire_once_leaves_the_run_to_a_punctual_instant_which_covers_the_missed_ones(scene: Scene) -> None:
    """R-10: a machine wakes 30 s after an instant."""
    scene.processes.scripts["tick"] = Script(takes=minutes(5))
    scene.declare(command("tick", schedule=cron("0 * * * *"), misfire=ONCE))
    scene.clock.advance("3h")
    scene.clock.advance("30s")
    await scene.settle()
    missed, punctual = scene.history("tick")
    assert scene.told("tick") == [("SKIPPED", "missed"), ("RUNNING", None)]
    assert (missed.scheduled_for, missed.covers_to) == (NOON + minutes(60), NOON + minutes(120))
    assert (punctual.scheduled_for, "made_up" in punctual.decisions) == (NOON + minutes(180), False)


async def test_misfire_all_runs_the_newest_ones_one_after_another(scene: Scene) -> None:
    """R-10: all, bounded by its limit; the runs wait for each other."""
    scene.processes.scripts["tick"] = Script(takes=minutes(1))
    scene.declare(command("tick", schedule=cron("0 * * * *"), misfire=Misfire(MisfirePolicy.ALL, limit=3)))
    scene.clock.advance("5h")
    scene.clock.advance("30m")
    await scene.settle()
    assert scene.told("tick") == [("SKIPPED", "missed"), ("RUNNING", None), ("QUEUED", None), ("QUEUED", None)]
    await scene.advance("2m")
    assert [status for status, _ in scene.told("tick")] == ["SKIPPED", "COMPLETED", "COMPLETED", "RUNNING"]


async def test_a_late_instant_inside_a_run_is_overlap_and_never_made_up(scene: Scene) -> None:
    """R-10: a run was executing at that instant."""
    scene.processes.scripts["tick"] = Script(takes=minutes(150))
    scene.declare(command("tick", schedule=cron("0 * * * *"), misfire=ONCE))
    await scene.advance("1h")
    scene.clock.advance("5h")
    scene.clock.advance("30m")
    scene.processes.end_due()
    await scene.quiet()
    await scene.settle()
    told = [(run.reason, run.count) for run in scene.history("tick") if run.status is Status.SKIPPED]
    assert told[0][0] is Reason.OVERLAP


async def test_run_once_is_used_up_by_its_run(scene: Scene) -> None:
    """R-07: it fires once and is off when final."""
    scene.declare(command("once", schedule=cron("*/5 * * * *", run_once=True)))
    await scene.advance("30m")
    assert scene.told("once") == [("COMPLETED", None)]
    assert scene.job("once").used_up_at == NOON + minutes(5)
    assert not scene.job("once").schedules


async def test_a_skip_does_not_use_up_run_once(scene: Scene) -> None:
    """R-07: a skipped instant leaves the next one."""
    scene.declare(command("once", schedule=cron("*/5 * * * *", run_once=True)))
    scene.clock.advance("7m")
    await scene.settle()
    assert scene.told("once") == [("SKIPPED", "missed")]
    await scene.advance("3m")
    assert scene.told("once") == [("SKIPPED", "missed"), ("COMPLETED", None)]


async def test_a_hundred_jobs_due_at_once_all_fire_and_claim_in_order(scene: Scene) -> None:
    """R-03: priority first, then age."""
    for number in range(40):
        scene.declare(command(f"job{number:02}", schedule=cron("0 13 * * *"), priority=number % 3))
    await scene.advance("1h")
    started = [handle.partition(":")[0] for handle in scene.processes.begun]
    assert len(started) == 40
    priorities = [int(name[3:]) % 3 for name in started]
    assert priorities == sorted(priorities, reverse=True)


async def test_slots_bound_what_runs_and_the_rest_waits_in_the_queue(tmp_path) -> None:
    """INV-003, R-04: at capacity a run stays QUEUED; its instant is not lost."""
    scene = Scene(tmp_path, NOON, concurrency=2)
    await scene.start()
    for name in "abcd":
        scene.processes.scripts[name] = Script(takes=minutes(10))
        scene.declare(command(name, schedule=cron("0 13 * * *")))
    await scene.advance("1h")
    assert sorted(scene.told(name)[0][0] for name in "abcd") == ["QUEUED", "QUEUED", "RUNNING", "RUNNING"]
    await scene.advance("20m")
    assert [scene.told(name)[0][0] for name in "abcd"] == ["COMPLETED"] * 4
    await scene.close()


async def test_a_job_that_cannot_be_fired_costs_no_other(unaudited: Scene) -> None:
    scene = unaudited
    scene.declare(command("good", schedule=cron("0 13 * * *")), command("bad", schedule=cron("0 13 * * *")))
    taken = _taken(scene)
    scene.store.write(lambda db: runs.insert_run(db, taken, number=99))
    await scene.advance("1h")
    assert scene.told("good") == [("COMPLETED", None)]
    assert len(scene.history("bad")) == 1


def _taken(scene: Scene) -> runs.NewRun:
    """A row that already has the slot key of 13:00, as no code of ours could leave it."""
    at = NOON + timedelta(hours=1)
    return runs.NewRun(
        id="0" * 36,
        job=scene.job("bad"),
        trigger=Trigger.SCHEDULE,
        created_at=at,
        slot_key=str(to_ms(at)),
        scheduled_for=at,
        count=1,
        reason=Reason.MISSED,
        position=0,
    )
