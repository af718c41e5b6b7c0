"""Edit, retire, revive: what an apply does to jobs, runs and the ledger (R-14, R-06, INV-005)."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from rota.model.errors import EmptyApply, NameTaken
from rota.model.spec import FirstRun, Jitter, JobSpec, Schedule
from rota.operations.explain import explain
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.project.apply import apply
from rota.settings import Settings
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import NOON, ONCE, command, cron, every

pytestmark = pytest.mark.anyio


def declared(scene: Scene, *specs: JobSpec) -> SimpleNamespace:
    return SimpleNamespace(jobs=specs, settings=Settings(scene.settings.folder, scene.settings.state), left_out=())


def put(scene: Scene, *specs: JobSpec, **options) -> list[str]:
    """Apply these jobs as the whole file and return what happened to each."""
    plan = apply(scene.store, declared(scene, *specs), now=scene.clock.now(), **options)
    return [f"{change.kind.value} {change.name}" for change in plan.changes]


def minutes(count: int) -> timedelta:
    return timedelta(minutes=count)


async def test_applying_the_same_file_again_changes_nothing(scene: Scene) -> None:
    spec = command("a", schedule=cron("0 13 * * *"))
    assert put(scene, spec) == ["create a"]
    before = scene.job("a")
    assert put(scene, spec) == ["unchanged a"]
    assert scene.job("a") == before


async def test_a_dry_run_stores_nothing(scene: Scene) -> None:
    assert put(scene, command("a"), dry_run=True) == ["create a"]
    assert put(scene, command("a"), dry_run=True) == ["create a"]


async def test_editing_leaves_queued_and_running_runs_as_they_were(scene: Scene) -> None:
    """INV-005, R-14: runs keep their version."""
    scene.processes.scripts["a"] = Script(takes=minutes(30))
    spec = command("a", schedule=cron("0 13 * * *"))
    put(scene, spec)
    await scene.advance("1h")
    put(scene, replace(spec, priority=7))
    (run,) = scene.history("a")
    assert (run.version, run.priority, scene.job("a").version) == (1, 0, 2)
    await scene.advance("30m")
    assert scene.told("a") == [("COMPLETED", None)]


async def test_editing_anything_but_the_schedule_leaves_the_cursor(scene: Scene) -> None:
    """R-06."""
    spec = command("a", schedule=every("1h"))
    put(scene, spec)
    await scene.advance("20m")
    planned = scene.job("a").next_for
    put(scene, replace(spec, description="new words"))
    assert scene.job("a").next_for == planned == NOON + minutes(60)


async def test_a_new_interval_counts_from_the_last_anchor_and_never_into_the_past(scene: Scene) -> None:
    """R-06: past becomes now."""
    spec = command("a", schedule=every("1h"))
    put(scene, spec)
    await scene.advance("20m")
    put(scene, replace(spec, schedule=every("30m")))
    assert scene.job("a").next_for == NOON + minutes(30)
    put(scene, replace(spec, schedule=every("5m")))
    assert scene.job("a").next_for == NOON + minutes(20)


async def test_a_new_cron_counts_from_now(scene: Scene) -> None:
    spec = command("a", schedule=cron("0 * * * *"))
    put(scene, spec)
    await scene.advance("90m")
    put(scene, replace(spec, schedule=cron("*/20 * * * *")))
    assert scene.job("a").next_for == NOON + minutes(100)


async def test_what_was_due_under_the_old_schedule_is_accounted_for_under_it(scene: Scene) -> None:
    """The ledger has no hole where a definition changed while nothing was running."""
    spec = command("a", schedule=cron("0 * * * *"))
    put(scene, spec)
    scene.clock.advance("3h")
    scene.clock.advance("30m")
    put(scene, replace(spec, schedule=cron("45 * * * *")))
    (missed,) = scene.history("a")
    assert (missed.reason, missed.count, missed.version) == ("missed", 3, 1)
    assert scene.job("a").next_for == NOON + minutes(225)


async def test_a_job_that_left_the_file_is_retired_and_keeps_its_history(scene: Scene) -> None:
    """R-14."""
    put(scene, command("a", schedule=cron("0 13 * * *")), command("b"))
    await scene.advance("1h")
    assert put(scene, command("b")) == ["unchanged b", "retire a"]
    job = scene.job("a")
    assert (job.next_for, job.retired_at) == (None, NOON + minutes(60))
    assert scene.told("a") == [("COMPLETED", None)]


async def test_the_same_name_revives_a_job_without_making_up_what_was_missed(scene: Scene) -> None:
    """R-14: history goes on; first_run does not apply."""
    fixed, hourly = command("a", schedule=cron("0 * * * *")), command("i", schedule=every("1h"))
    put(scene, fixed, hourly, command("b"))
    await scene.advance("1h")
    put(scene, command("b"))
    scene.clock.advance("5h")
    assert put(scene, fixed, hourly, command("b"))[:2] == ["revive a", "revive i"]
    await scene.settle()
    assert len(scene.history("a")) == 1
    assert scene.job("a").next_for == NOON + minutes(420)
    assert scene.job("i").next_for == NOON + minutes(420)


async def test_disabling_stops_fires_and_enabling_goes_on_from_now(scene: Scene) -> None:
    spec = command("a", schedule=cron("0 * * * *"))
    put(scene, spec)
    put(scene, replace(spec, enabled=False))
    await scene.advance("3h")
    assert scene.history("a") == []
    put(scene, spec)
    await scene.advance("1h")
    assert scene.told("a") == [("COMPLETED", None)]


async def test_a_used_up_job_stays_used_up_until_its_schedule_changes(scene: Scene) -> None:
    """R-07."""
    spec = command("a", schedule=cron("0 * * * *", run_once=True))
    put(scene, spec)
    await scene.advance("2h")
    put(scene, replace(spec, description="words"))
    await scene.advance("2h")
    assert scene.told("a") == [("COMPLETED", None)]
    put(scene, replace(spec, schedule=cron("30 * * * *", run_once=True)))
    await scene.advance("2h")
    assert scene.told("a") == [("COMPLETED", None)] * 2


async def test_going_from_some_jobs_to_none_needs_a_word(scene: Scene) -> None:
    put(scene, command("a"))
    with pytest.raises(EmptyApply, match="--allow-empty"):
        put(scene)
    assert scene.job("a").retired_at is None
    assert put(scene, allow_empty=True) == ["retire a"]


async def test_jobs_of_other_sources_are_never_touched(scene: Scene) -> None:
    scene.declare(command("a"), source="api")
    with pytest.raises(NameTaken, match="--adopt a"):
        put(scene, command("a"))
    assert put(scene, command("b")) == ["create b"]
    assert put(scene, command("a"), command("b"), adopt=["a"]) == ["adopt a", "unchanged b"]


async def test_cancel_queued_cancels_what_waits_of_a_changed_job(scene: Scene) -> None:
    """R-14: --cancel-queued is the only way an edit touches runs."""
    spec = command("a", schedule=cron("0 13 * * *"))
    put(scene, spec)
    scene.engine.claimer.allowed = False
    await scene.advance("1h")
    put(scene, replace(spec, priority=3), cancel_queued=True)
    assert scene.told("a") == [("CANCELLED", "retired")]


async def test_each_change_closes_a_span(scene: Scene) -> None:
    """R-20: versions are spans without gap or overlap."""
    spec = command("a", schedule=cron("0 13 * * *"))
    put(scene, spec)
    scene.clock.advance("10m")
    put(scene, replace(spec, enabled=False))
    scene.clock.advance("10m")
    put(scene, spec)
    job = scene.job("a")
    versions = scene.store.read(lambda db: db.records("audit_spans", job_id=job.id))
    assert [(row["schedules"], row["until"]) for row in versions][:2] == [
        (1, versions[1]["since"]),
        (0, versions[2]["since"]),
    ]
    assert versions[2]["until"] is None


async def test_an_edit_during_a_run_by_hand_does_not_stall_an_interval(scene: Scene) -> None:
    """R-06: runs by hand never move the cursor, so an edit must not wait for their end."""
    scene.processes.scripts["a"] = Script(takes=minutes(5))
    spec = command("a", schedule=every("30m", first_run=FirstRun.AFTER_INTERVAL))
    put(scene, spec)
    scene.trigger("a")
    await scene.advance("1m")
    put(scene, replace(spec, schedule=every("20m")))
    assert scene.job("a").next_for is not None
    await scene.advance("1h")
    assert len(scene.history("a")) > 2


async def test_a_job_enabled_during_a_run_by_hand_does_not_stall(scene: Scene) -> None:
    """R-06."""
    scene.processes.scripts["a"] = Script(takes=minutes(5))
    spec = command("a", schedule=every("30m", first_run=FirstRun.AFTER_INTERVAL))
    put(scene, spec)
    scene.trigger("a")
    await scene.advance("1m")
    put(scene, replace(spec, enabled=False))
    put(scene, spec)
    assert scene.job("a").next_for == NOON + minutes(31)


@pytest.mark.parametrize("off_for", ["1m", "1h"], ids=["while it runs", "until it has ended"])
async def test_a_run_once_job_switched_off_and_on_again_runs_once(scene: Scene, off_for: str) -> None:
    """R-07: off and on again is not a new schedule, and the run that was in progress is the once."""
    scene.processes.scripts["a"] = Script(takes=minutes(25))
    spec = command("a", schedule=cron("*/10 * * * *", run_once=True))
    put(scene, spec)
    await scene.advance("12m")
    put(scene, replace(spec, enabled=False))
    await scene.advance(off_for)
    put(scene, spec)
    await scene.advance("2h")
    assert scene.told("a") == [("COMPLETED", None)]
    assert scene.job("a").used_up_at is not None


@pytest.mark.parametrize("change", ["edit", "disable", "retire", "pause"])
async def test_an_instant_that_waits_out_its_jitter_runs_before_its_definition_ends(scene: Scene, change: str) -> None:
    """A definition owns every instant up to its end; jitter only says when within the gap it fires."""
    jittered = command("a", schedule=cron("0 * * * *", jitter=Jitter(up_to=minutes(50))))
    put(scene, jittered, command("b"))
    await scene.advance("1h")
    assert scene.history("a") == []
    if change == "edit":
        put(scene, replace(jittered, schedule=cron("30 * * * *")), command("b"))
    elif change == "disable":
        put(scene, replace(jittered, enabled=False), command("b"))
    elif change == "retire":
        put(scene, command("b"))
    else:
        pause(scene.store, JobSelection(("a",)), until=None, reason="", now=scene.clock.now())
    await scene.settle()
    (run,) = scene.history("a")
    assert (run.scheduled_for, run.status.value, run.version) == (NOON + minutes(60), "COMPLETED", 1)


async def test_an_edit_after_downtime_accounts_for_what_still_waits_out_its_jitter(scene: Scene) -> None:
    """R-14, found by simulation: the instant behind those that are late waits out a jitter of its own."""
    spec = command("job", schedule=cron("1,6,11 12 * * *", jitter=Jitter(percent=50)), misfire=ONCE)
    put(scene, spec)
    await scene.crash()
    scene.clock.advance("30m")
    put(scene, replace(spec, enabled=False))
    covered = [run.covers_to or run.scheduled_for for run in scene.history("job")]
    assert max(at for at in covered if at) == NOON + timedelta(minutes=11)
    await scene.start()


async def test_r10_an_at_of_the_past_in_a_file_that_this_state_has_never_seen_is_missed_and_never_runs(
    scene: Scene,
) -> None:
    spec = command("old", schedule=Schedule(at=datetime(1999, 1, 1, tzinfo=UTC)), misfire=ONCE)
    put(scene, spec)
    await scene.advance("1h")
    assert scene.told("old") == [("SKIPPED", "missed")]
    told = explain(scene.store, "old:1", state=scene.settings.state, now=scene.clock.now())
    misfire = next(line.text for line in told.run_lines if line.label == "misfire")
    assert "it was past when this job was first stored" in misfire
    put(scene, spec)
    await scene.advance("1h")
    assert len(scene.history("old")) == 1


async def test_r10_an_at_that_this_state_knew_is_made_up(scene: Scene) -> None:
    put(scene, command("soon", schedule=Schedule(at=NOON + minutes(30)), misfire=ONCE))
    await scene.crash()
    scene.clock.advance(timedelta(hours=3))
    await scene.start()
    await scene.settle()
    assert scene.told("soon") == [("COMPLETED", None)]


async def test_r10_resume_with_catch_up_does_not_run_an_at_that_was_past_when_the_job_came(scene: Scene) -> None:
    pause(scene.store, JobSelection(everything=True), until=None, reason="", now=scene.clock.now())
    put(scene, command("old", schedule=Schedule(at=NOON - minutes(60)), misfire=ONCE))
    resume(scene.store, JobSelection(everything=True), now=scene.clock.now(), catch_up=True)
    await scene.advance("1h")
    assert [status for status, _ in scene.told("old")] == ["SKIPPED"]


async def test_r06_a_shorter_interval_of_a_job_that_has_not_run_is_due_at_once(scene: Scene) -> None:
    spec = command("a", schedule=every("1h", first_run=FirstRun.AFTER_INTERVAL))
    put(scene, spec)
    await scene.advance("10m")
    put(scene, replace(spec, schedule=every("5m", first_run=FirstRun.AFTER_INTERVAL)))
    await scene.settle()
    assert [run.scheduled_for for run in scene.history("a")] == [NOON + minutes(10)]


async def test_r06_edits_every_50_minutes_do_not_keep_a_job_from_its_first_run(scene: Scene) -> None:
    for number in range(4):
        put(scene, command("a", schedule=every(f"{60 + number}m", first_run=FirstRun.AFTER_INTERVAL)))
        await scene.advance("50m")
    assert scene.told("a")[:1] == [("COMPLETED", None)]
