"""Backfill: the runs of a past range, each instant once, one after another (R-05)."""

from datetime import datetime, timedelta

import pytest

from rota.model.errors import InvalidValue, JobDisabled
from rota.model.records import Outcome
from rota.model.spec import Anchor, Gates, GroupMode, JobSpec, Kind, Member, Retry, Schedule, Work
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.operations.bulk import MAX_INSTANTS, Filter, Range, backfill, cancel_matching
from rota.operations.pause import JobSelection, pause, resume
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import NOON, command, cron, every

pytestmark = pytest.mark.anyio

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3)
HOURLY = cron("0 * * * *")


def fill(scene: Scene, name: str, since: datetime, until: datetime, **changes):
    dry_run = changes.pop("dry_run", False)
    return backfill(scene.store, name, Range(since, until, **changes), now=scene.clock.now(), dry_run=dry_run)


def instants(scene: Scene, name: str) -> list[datetime | None]:
    return [run.scheduled_for for run in scene.history(name) if run.trigger is Trigger.BACKFILL]


async def test_every_instant_of_the_range_gets_a_run_and_the_end_is_not_included_r_05(scene: Scene) -> None:
    """R-05: scheduled_for is the instant, trigger backfill."""
    scene.declare(command("report", schedule=HOURLY))
    done = fill(scene, "report", NOON - 5 * HOUR, NOON - 2 * HOUR)
    assert instants(scene, "report") == [NOON - 5 * HOUR, NOON - 4 * HOUR, NOON - 3 * HOUR]
    assert [born.handle for born in done.born] == ["report:1", "report:2", "report:3"]
    await scene.settle()
    assert scene.told("report") == [("COMPLETED", None)] * 3


async def test_runs_wait_for_each_other_and_begin_in_the_order_of_their_instants(scene: Scene) -> None:
    scene.declare(command("daily", schedule=cron("0 0 * * *")))
    scene.processes.scripts["daily"] = Script(takes=HOUR)
    fill(scene, "daily", NOON - 3 * DAY, NOON)
    await scene.settle()
    assert [run.waiting_for for run in scene.history("daily")] == [None, WaitingFor.PREDECESSOR, WaitingFor.PREDECESSOR]
    assert [run.status for run in scene.history("daily")] == [Status.RUNNING, Status.QUEUED, Status.QUEUED]
    await scene.advance("3h")
    assert scene.processes.begun == ["daily:1", "daily:2", "daily:3"]
    assert scene.told("daily") == [("COMPLETED", None)] * 3


async def test_in_parallel_none_waits_for_another(scene: Scene) -> None:
    scene.processes.scripts["daily"] = Script(takes=HOUR)
    scene.declare(command("daily", schedule=cron("0 0 * * *")))
    fill(scene, "daily", NOON - 3 * DAY, NOON, parallel=True)
    await scene.settle()
    assert [run.status for run in scene.history("daily")] == [Status.RUNNING] * 3
    await scene.advance("1h")


async def test_an_instant_is_filled_once_and_the_second_backfill_says_how_many_it_left_out_r_05(scene: Scene) -> None:
    """R-05: unique (job, scheduled_for) where trigger = backfill."""
    scene.declare(command("report", schedule=HOURLY))
    fill(scene, "report", NOON - 3 * HOUR, NOON)
    done = fill(scene, "report", NOON - 5 * HOUR, NOON)
    assert (done.existing, len(done.born)) == (3, 2)
    assert sorted(map(str, instants(scene, "report"))) == [str(NOON - hours * HOUR) for hours in (5, 4, 3, 2, 1)]
    await scene.settle()


async def test_a_second_backfill_stands_behind_the_unfinished_runs_of_the_first(scene: Scene) -> None:
    scene.processes.scripts["daily"] = Script(takes=HOUR)
    scene.declare(command("daily", schedule=cron("0 0 * * *")))
    fill(scene, "daily", NOON - 2 * DAY, NOON)
    fill(scene, "daily", NOON - 4 * DAY, NOON - 2 * DAY)
    first = scene.history("daily")
    assert first[2].predecessor_id == first[1].id
    await scene.advance("4h")
    assert scene.processes.begun == ["daily:1", "daily:2", "daily:3", "daily:4"]


async def test_a_dry_run_tells_the_same_and_creates_nothing(scene: Scene) -> None:
    scene.declare(command("report", schedule=HOURLY))
    told = fill(scene, "report", NOON - 3 * HOUR, NOON, dry_run=True)
    assert scene.history("report") == []
    done = fill(scene, "report", NOON - 3 * HOUR, NOON)
    assert [born.handle for born in told.born] == [born.handle for born in done.born]
    assert told.instants == done.instants
    await scene.settle()


async def test_overlap_does_not_apply_and_a_failure_does_not_end_the_line_r_11(scene: Scene) -> None:
    """R-11: not to backfill; the line goes on after a failed run."""
    scene.processes.scripts["daily"] = Script(takes=HOUR, ending=FAILED)
    scene.declare(command("daily", schedule=cron("0 0 * * *")))
    scene.trigger("daily")
    fill(scene, "daily", NOON - 2 * DAY, NOON)
    await scene.advance("2h")
    assert scene.told("daily") == [("FAILED", "exit_code")] * 3


async def test_the_one_behind_waits_for_the_retries_of_the_one_before_dec_001(scene: Scene) -> None:
    """DEC-001: one after another means one chain after another."""
    scene.processes.scripts["daily"] = Script(ending=FAILED)
    retry = Retry(max_attempts=2, backoff=timedelta(minutes=10))
    scene.declare(command("daily", schedule=cron("0 0 * * *"), retry=retry))
    fill(scene, "daily", NOON - 2 * DAY, NOON)
    await scene.settle()
    assert scene.processes.begun == ["daily:1"]
    await scene.advance("10m")
    assert scene.processes.begun == ["daily:1", "daily:3", "daily:2"]
    await scene.advance("10m")
    assert [(run.scheduled_for, run.attempt) for run in scene.history("daily")] == [
        (NOON - 36 * HOUR, 1),
        (NOON - 12 * HOUR, 1),
        (NOON - 36 * HOUR, 2),
        (NOON - 12 * HOUR, 2),
    ]


async def test_only_missed_leaves_out_what_ran_when_it_was_due(scene: Scene) -> None:
    """A skipped instant is filled, one that ran, however it ended, is not."""
    scene.declare(command("report", schedule=HOURLY))
    await scene.advance("2h")
    pause(scene.store, JobSelection(("report",)), until=None, reason="", now=scene.clock.now())
    await scene.advance("2h")
    resume(scene.store, JobSelection(("report",)), catch_up=False, now=scene.clock.now())
    await scene.advance("90m")
    done = fill(scene, "report", NOON, scene.clock.now(), only_missed=True)
    ran = [run.scheduled_for for run in scene.history("report") if run.status is Status.COMPLETED]
    assert done.ran == len(ran) > 0
    assert set(done.instants).isdisjoint(ran)
    assert {NOON + 3 * HOUR, NOON + 4 * HOUR} <= set(done.instants)
    await scene.settle()


@pytest.mark.parametrize("anchor", [Anchor.COMPLETION, Anchor.START])
async def test_an_interval_that_follows_its_runs_has_no_past_instants_r_06(scene: Scene, anchor: Anchor) -> None:
    """R-06: completion and start anchors depend on runs; the refusal names the anchor."""
    scene.declare(command("watch", schedule=every("1h", anchor=anchor)))
    with pytest.raises(InvalidValue, match=f"depend on its runs .`anchor: {anchor}`"):
        fill(scene, "watch", NOON - DAY, NOON)
    await scene.settle()


async def test_an_interval_on_a_fixed_grid_and_an_instant_can_be_filled(scene: Scene) -> None:
    grid = every("1h", anchor=Anchor.FIXED, start_at=NOON - DAY)
    scene.declare(command("grid", schedule=grid), command("once", schedule=Schedule(at=NOON - HOUR)))
    assert len(fill(scene, "grid", NOON - 3 * HOUR, NOON).born) == 3
    assert fill(scene, "once", NOON - DAY, NOON).instants == (NOON - HOUR,)
    await scene.settle()


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        (NOON - HOUR, NOON + HOUR, "in the future"),
        (NOON - HOUR, NOON - HOUR, "is empty"),
        (NOON - 9 * DAY, NOON, f"more than {MAX_INSTANTS:,} instants"),
    ],
)
async def test_a_range_that_makes_no_sense_is_refused(
    scene: Scene, since: datetime, until: datetime, message: str
) -> None:
    scene.declare(command("dense", schedule=cron("* * * * *"), enabled=True))
    with pytest.raises(InvalidValue, match=message):
        fill(scene, "dense", since, until)
    assert scene.history("dense") == []


async def test_a_job_without_a_schedule_or_a_disabled_one_is_refused(scene: Scene) -> None:
    scene.declare(command("manual"), command("off", schedule=HOURLY, enabled=False))
    with pytest.raises(InvalidValue, match="has no schedule"):
        fill(scene, "manual", NOON - DAY, NOON)
    with pytest.raises(JobDisabled):
        fill(scene, "off", NOON - DAY, NOON)


async def test_the_cursor_of_the_job_does_not_move_r_05(scene: Scene) -> None:
    """R-05: only scheduled fires are the ledger; the auditor finds it whole."""
    scene.declare(command("report", schedule=HOURLY))
    before = scene.job("report").next_for
    fill(scene, "report", NOON - 3 * HOUR, NOON)
    await scene.settle()
    assert scene.job("report").next_for == before


async def test_expires_after_holds_for_backfilled_runs_r_09(scene: Scene) -> None:
    """R-09: it counts from the enqueue, also while a run waits for the one before."""
    scene.processes.scripts["daily"] = Script(takes=2 * HOUR)
    scene.declare(command("daily", schedule=cron("0 0 * * *"), gates=Gates(expires_after=HOUR)))
    fill(scene, "daily", NOON - 3 * DAY, NOON)
    await scene.advance("2h")
    assert scene.told("daily") == [("COMPLETED", None), ("SKIPPED", "expired"), ("SKIPPED", "expired")]


async def test_the_estimate_is_the_median_of_what_runs_took(scene: Scene) -> None:
    scene.declare(command("daily", schedule=cron("0 0 * * *")))
    assert fill(scene, "daily", NOON - 2 * DAY, NOON, dry_run=True).each is None
    for minutes in (1, 30, 9):
        scene.processes.scripts["daily"] = Script(takes=timedelta(minutes=minutes))
        scene.trigger("daily")
        await scene.advance("31m")
    assert fill(scene, "daily", NOON - 2 * DAY, NOON, dry_run=True).each == timedelta(minutes=9)


def nightly(mode: GroupMode = GroupMode.SEQUENTIAL) -> JobSpec:
    work = Work(Kind.GROUP, members=(Member("extract"), Member("load")), mode=mode)
    return JobSpec("nightly", work, cron("0 1 * * *"))


async def test_groups_are_filled_one_group_at_a_time_r_15(scene: Scene) -> None:
    """R-15: the members carry the instant of their group, and the next group begins when the one before is final."""
    scene.processes.scripts |= {name: Script(takes=HOUR) for name in ("extract", "load")}
    scene.declare(command("extract"), command("load"), nightly())
    done = fill(scene, "nightly", NOON - 2 * DAY, NOON)
    assert (len(done.born), done.members) == (2, 4)
    await scene.settle()
    assert [run.status for run in scene.history("nightly")] == [Status.RUNNING, Status.QUEUED]
    await scene.advance("4h")
    assert scene.processes.begun == ["extract:1", "load:1", "extract:2", "load:2"]
    assert scene.told("nightly") == [("COMPLETED", None)] * 2
    assert [run.scheduled_for for run in scene.history("load")] == instants(scene, "nightly")


async def test_a_second_backfill_waits_for_the_retry_of_the_last_run_of_the_first(scene: Scene) -> None:
    """DEC-001: a chain is not final while a retry is to come."""
    scene.processes.scripts["daily"] = Script(ending=FAILED)
    scene.declare(command("daily", schedule=cron("0 0 * * *"), retry=Retry(max_attempts=2, backoff=HOUR)))
    fill(scene, "daily", NOON - DAY, NOON)
    await scene.settle()
    fill(scene, "daily", NOON - 2 * DAY, NOON - DAY)
    await scene.settle()
    assert [run.waiting_for for run in scene.history("daily")] == [None, WaitingFor.BACKOFF, WaitingFor.PREDECESSOR]
    await scene.advance("3h")
    assert scene.processes.begun == ["daily:1", "daily:2", "daily:3", "daily:4"]


async def test_a_crash_in_the_middle_of_a_backfill_loses_and_doubles_nothing_dec_008(scene: Scene) -> None:
    """DEC-008: the line, its order and what each run waits for are as they were."""
    scene.processes.scripts["daily"] = Script(takes=HOUR)
    scene.declare(command("daily", schedule=cron("0 0 * * *")))
    fill(scene, "daily", NOON - 3 * DAY, NOON)
    await scene.advance("30m")
    before = [(run.id, run.status, run.waiting_for, run.predecessor_id) for run in scene.history("daily")]
    await scene.crash()
    await scene.start()
    assert [(run.id, run.status, run.waiting_for, run.predecessor_id) for run in scene.history("daily")] == before
    await scene.advance("3h")
    assert scene.processes.begun == ["daily:1", "daily:2", "daily:3"]


async def test_a_long_line_is_cancelled_without_starting_any_of_it(scene: Scene) -> None:
    scene.processes.scripts["dense"] = Script(takes=HOUR)
    scene.declare(command("dense", schedule=cron("* * * * *", end_at=NOON - HOUR)))
    fill(scene, "dense", NOON - timedelta(minutes=1500), NOON - HOUR)
    await scene.settle()
    assert scene.processes.begun == ["dense:1"]
    swept = cancel_matching(scene.store, Filter(jobs=("dense",), queued=True), now=scene.clock.now())
    assert (swept.cancelled, swept.asked) == (1439, ())
    await scene.advance("1h")
    assert scene.processes.begun == ["dense:1"]
