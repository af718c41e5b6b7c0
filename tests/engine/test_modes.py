"""Intervals by mode: activity, the hours, and re-planning at once (R-18)."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from rota.model.records import Outcome
from rota.model.spec import ByMode, FirstRun, Jitter, JobSpec, Kind, Member, Mode, QuietHours, Retry, Schedule, Work
from rota.model.states import Reason, Status
from rota.operations.activity import touch
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.run_actions import cancel_run
from rota.store.tables import activity
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.agent_jobs import agent
from tests.engine.conftest import ALLOW, NOON, command, cron, every, function
from tests.engine.real_work import play

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
BY_MODE = ByMode(15 * SECOND, MINUTE, 5 * MINUTE)
SLEEPS = ByMode(15 * SECOND, MINUTE, None)


def adaptive(modes: ByMode = BY_MODE, **changes) -> Schedule:
    return Schedule(by_mode=modes, **changes)


def fires(scene: Scene, name: str) -> list[datetime]:
    return [run.scheduled_for for run in scene.history(name) if run.scheduled_for]


async def test_a_day_of_activity_fires_as_often_as_its_modes_say(scene: Scene) -> None:
    """R-18: 10 min active, 50 min idle, then dormant."""
    touch(scene.store, now=NOON)
    scene.declare(command("look", schedule=adaptive()))
    await scene.advance("2h")
    found = fires(scene, "look")
    active = [at for at in found if at < NOON + 10 * MINUTE]
    idle = [at for at in found if NOON + 10 * MINUTE <= at < NOON + 60 * MINUTE]
    dormant = [at for at in found if at >= NOON + 60 * MINUTE]
    assert (len(active), len(idle), len(dormant)) == (40, 50, 13)  # 13:00, and every 5 min up to 14:00


async def test_a_touch_re_plans_at_once(scene: Scene) -> None:
    """R-18: a change of mode re-plans at once; an instant that would lie in the past comes now."""
    scene.declare(command("look", schedule=adaptive()))
    await scene.advance("2m")
    assert scene.job("look").mode is Mode.DORMANT
    touch(scene.store, now=scene.clock.now())
    await scene.settle()
    assert fires(scene, "look") == [NOON, NOON + 2 * MINUTE]
    assert (scene.job("look").mode, scene.job("look").next_for) == (Mode.ACTIVE, NOON + 2 * MINUTE + 15 * SECOND)


async def test_a_slower_mode_moves_the_next_instant_away(scene: Scene) -> None:
    """R-18: as if the interval had always been that of the new mode."""
    touch(scene.store, now=NOON - 9 * MINUTE - 50 * SECOND)
    scene.declare(command("look", schedule=adaptive()))
    await scene.advance("11s")
    assert (scene.job("look").mode, scene.job("look").next_for) == (Mode.IDLE, NOON + MINUTE)


async def test_never_means_no_instant_until_the_mode_changes(scene: Scene) -> None:
    """R-18: `dormant: never`; a job asleep has no cursor and has not stalled."""
    scene.declare(command("look", schedule=adaptive(SLEEPS)))
    await scene.advance("3h")
    assert fires(scene, "look") == []
    assert scene.job("look").next_for is None
    touch(scene.store, now=scene.clock.now())
    await scene.advance("30s")
    assert len(fires(scene, "look")) == 3


async def test_a_run_that_ends_in_a_mode_without_instants_leaves_the_job_asleep(scene: Scene) -> None:
    """R-06, R-18."""
    touch(scene.store, now=NOON - 59 * MINUTE)
    scene.processes.scripts["look"] = Script(takes=5 * MINUTE)
    scene.declare(command("look", schedule=adaptive(SLEEPS)))
    await scene.advance("2h")
    assert (len(fires(scene, "look")), scene.job("look").next_for) == (1, None)
    touch(scene.store, now=scene.clock.now())
    await scene.settle()
    assert fires(scene, "look") == [NOON, NOON + timedelta(hours=2)]


async def test_scheduled_fires_are_no_activity_and_commands_are(scene: Scene) -> None:
    """R-18: what counts as activity."""
    scene.declare(command("look", schedule=adaptive()), command("tick", schedule=every("1m")))
    await scene.advance("5m")
    assert scene.job("look").mode is Mode.DORMANT
    handle = scene.trigger("tick")
    await scene.settle()
    assert scene.job("look").mode is Mode.ACTIVE
    await scene.advance("2h")
    assert scene.job("look").mode is Mode.DORMANT
    scene.processes.scripts["tick"] = Script(takes=timedelta(hours=5))
    handle = scene.trigger("tick")
    await scene.advance("2h")
    cancel_run(scene.store, handle, now=scene.clock.now())
    await scene.settle()
    assert scene.job("look").mode is Mode.ACTIVE


def works(scene: Scene, *names: str, takes: timedelta = 2 * HOUR) -> None:
    """Let agents work for a while."""
    for name in names:
        scene.processes.scripts[name] = Script(takes, Outcome(Status.COMPLETED, provider="anthropic"))


async def test_the_end_of_an_agents_run_is_activity(scene: Scene) -> None:
    """R-18: whoever gave it its task comes back for the result."""
    works(scene, "review")
    scene.declare(command("look", schedule=adaptive()), replace(agent("review"), schedule=cron("30 12 * * *")))
    await scene.advance("2h")
    assert scene.job("look").mode is Mode.DORMANT
    await scene.advance("31m")
    assert scene.told("review") == [("COMPLETED", None)]
    assert scene.job("look").mode is Mode.ACTIVE
    last = scene.store.read(activity.last_activity)
    assert (last.what, last.at) == ("review:1 ended", NOON + 150 * MINUTE)


async def test_the_end_of_a_commands_run_is_no_activity(scene: Scene) -> None:
    """R-18."""
    scene.declare(command("look", schedule=adaptive()), command("tick", schedule=cron("30 12 * * *")))
    await scene.advance("31m")
    assert scene.told("tick") == [("COMPLETED", None)]
    assert scene.job("look").mode is Mode.DORMANT


async def test_an_agent_that_goes_by_the_mode_does_not_keep_itself_active(scene: Scene) -> None:
    """R-18: not by its runs, not by their retries."""
    refused = Outcome(Status.FAILED, Reason.AGENT_ERROR, error="no", provider="anthropic")
    scene.processes.scripts["fix"] = Script(MINUTE, refused)
    retry = Retry(max_attempts=2, backoff=MINUTE)
    scene.declare(replace(agent("fix"), schedule=adaptive(), retry=retry))
    await scene.advance("30m")
    assert len(scene.told("fix")) > 4
    assert scene.store.read(activity.last_activity) is None


async def test_a_person_who_starts_an_agent_that_goes_by_the_mode_makes_it_active_at_its_end(scene: Scene) -> None:
    """R-18."""
    works(scene, "fix")
    scene.declare(replace(agent("fix"), schedule=adaptive(ByMode(HOUR, HOUR, None))))
    scene.trigger("fix")
    await scene.advance("121m")
    assert scene.store.read(activity.last_activity).what == "fix:1 ended"


async def test_what_functions_of_a_job_that_goes_by_the_mode_start_does_not_keep_it_active(scene: Scene) -> None:
    """R-18: by `ctx.sdk`, also through another function; what a job with a plain schedule starts is activity."""
    works(scene, "review", takes=timedelta())
    scene.table.functions = {
        "watch": lambda ctx: ctx.sdk.trigger("between") and None,
        "plain": lambda ctx: ctx.sdk.trigger("between") and None,
        "between": lambda ctx: ctx.sdk.trigger("review") and None,
    }
    watch = function("watch", schedule=adaptive(ByMode(HOUR, HOUR, None)))
    scene.declare(agent("review"), function("between", overlap=ALLOW), watch)
    touch(scene.store, now=NOON - MINUTE)
    await play(scene)
    assert scene.told("review") == [("COMPLETED", None)]
    assert scene.store.read(activity.last_activity).what == "touch"
    scene.declare(function("plain", schedule=every("1h")))
    scene.clock.advance("1m")
    await play(scene)
    assert scene.store.read(activity.last_activity).what == "review:2 ended"


async def test_the_members_of_a_group_that_goes_by_the_mode_do_not_keep_it_active(scene: Scene) -> None:
    """R-15, R-18."""
    works(scene, "review", takes=MINUTE)
    group = Work(Kind.GROUP, members=(Member("review"),))
    scene.declare(agent("review"), JobSpec("nightly", group, schedule=adaptive(ByMode(HOUR, HOUR, HOUR))))
    await scene.advance("3h")
    assert scene.told("nightly")[-1] == ("COMPLETED", None)
    assert scene.store.read(activity.last_activity) is None


async def test_quiet_hours_make_a_job_dormant_and_let_it_go_when_they_end(scene: Scene) -> None:
    """R-17: the policy `dormant` slows intervals by mode; R-18."""
    quiet = QuietHours(("12:05-12:09",))
    touch(scene.store, now=NOON)
    scene.declare(command("look", schedule=adaptive(SLEEPS, quiet=quiet)))
    await scene.advance("10m")
    found = fires(scene, "look")
    # What has come at the very border was planned before it, and stays.
    assert [at for at in found if NOON + 5 * MINUTE < at < NOON + 9 * MINUTE] == []
    assert found[-5:] == [NOON + 9 * MINUTE + 15 * count * SECOND for count in range(5)]


async def test_a_restart_finds_the_mode_that_holds_now(scene: Scene) -> None:
    """R-18, R-23: the mode may have changed while nobody was there."""
    touch(scene.store, now=NOON)
    scene.declare(command("look", schedule=adaptive()))
    await scene.advance("1m")
    await scene.crash()
    scene.clock.advance("3h")
    await scene.start()
    await scene.advance("10m")
    assert scene.job("look").mode is Mode.DORMANT
    found = fires(scene, "look")
    assert [later - earlier for earlier, later in zip(found[-2:], found[-1:], strict=False)] == [5 * MINUTE]


async def test_the_first_run_waits_an_interval_where_it_should(scene: Scene) -> None:
    """R-06, R-18."""
    touch(scene.store, now=NOON)
    scene.declare(command("look", schedule=adaptive(first_run=FirstRun.AFTER_INTERVAL)))
    await scene.advance("14s")
    assert fires(scene, "look") == []
    await scene.advance("1s")
    assert fires(scene, "look") == [NOON + 15 * SECOND]


async def test_an_activity_in_the_future_counts_as_now(scene: Scene) -> None:
    """R-18, R-26: a clock that was set back must not keep everything active for long."""
    touch(scene.store, now=NOON + timedelta(days=1))
    scene.declare(command("look", schedule=adaptive()))
    await scene.settle()
    assert scene.job("look").mode is Mode.ACTIVE
    await scene.advance("2m")
    assert scene.job("look").next_for is not None


async def test_a_paused_job_keeps_its_pause_through_a_change_of_mode(scene: Scene) -> None:
    """R-18, R-20."""
    touch(scene.store, now=NOON)
    scene.declare(command("look", schedule=adaptive()))
    await scene.advance("1m")
    pause(scene.store, JobSelection(names=("look",)), until=None, reason="", now=scene.clock.now())
    await scene.advance("2h")
    before = len(fires(scene, "look"))
    resume(scene.store, JobSelection(names=("look",)), catch_up=False, now=scene.clock.now())
    await scene.advance("1m")
    assert len(fires(scene, "look")) >= before + 4
    assert scene.history("look")[before].reason in ("paused", None)


async def test_jitter_stays_within_the_interval_of_the_mode(scene: Scene) -> None:
    """R-18: never as much as the gap to the next instant."""
    touch(scene.store, now=NOON)
    scene.declare(command("look", schedule=replace(adaptive(), jitter=Jitter(percent=50))))
    await scene.advance("5m")
    for run in scene.history("look"):
        assert run.scheduled_for is not None
        assert timedelta() <= run.created_at - run.scheduled_for < 15 * SECOND / 2
