"""Edits and pauses after the clock was set back: nothing goes back behind what has its row (R-05, R-26)."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.model.spec import Anchor, QuietHours, QuietPolicy
from rota.model.states import Reason
from rota.operations.pause import JobSelection, pause, resume
from rota.testing.scene import Scene
from tests.engine.conftest import NOON, command, cron, every
from tests.engine.test_apply import put

pytestmark = pytest.mark.anyio

BACK = timedelta(hours=1)


def minutes(count: int) -> timedelta:
    return timedelta(minutes=count)


def instants(scene: Scene, name: str) -> list[timedelta]:
    return [run.scheduled_for - NOON for run in scene.history(name) if run.scheduled_for]


def spans(scene: Scene, name: str) -> list[dict]:
    job_id = scene.job(name).id
    return scene.store.read(lambda db: db.records("audit_spans", job_id=job_id))


async def fired_until_half_past_and_set_back(scene: Scene, schedule) -> None:
    put(scene, command("tick", schedule=schedule))
    await scene.advance("35m")
    scene.clock.step(-BACK)
    await scene.settle()


@pytest.mark.parametrize("schedule", [cron("*/5 * * * *"), every("5m", anchor=Anchor.FIXED)], ids=["cron", "fixed"])
async def test_a_new_schedule_goes_on_after_what_has_its_row(scene: Scene, schedule) -> None:
    """R-05: the cursor never moves back, so no instant meets the key of its own earlier row."""
    await fired_until_half_past_and_set_back(scene, cron("*/10 * * * *"))
    put(scene, command("tick", schedule=schedule))
    await scene.advance(BACK + minutes(5))
    assert instants(scene, "tick") == [minutes(one) for one in (10, 20, 30, 35, 40)]


async def test_a_job_enabled_again_goes_on_after_what_has_its_row(scene: Scene) -> None:
    """R-05, R-14."""
    spec = command("tick", schedule=cron("*/10 * * * *"))
    await fired_until_half_past_and_set_back(scene, spec.schedule)
    put(scene, replace(spec, enabled=False))
    put(scene, spec)
    await scene.advance(BACK + minutes(10))
    assert instants(scene, "tick") == [minutes(one) for one in (10, 20, 30, 40)]


async def test_a_span_reaches_as_far_as_its_rows(scene: Scene) -> None:
    """R-20: a version owns every instant that has a row of it, whatever the wall shows when it ends."""
    await fired_until_half_past_and_set_back(scene, cron("*/10 * * * *"))
    pause(scene.store, JobSelection(("tick",)), until=None, reason="", now=scene.clock.now())
    resume(scene.store, JobSelection(("tick",)), catch_up=False, now=scene.clock.now())
    last = int((NOON + minutes(30)).timestamp() * 1000)
    assert [(span["since"] >= last, span["until"]) for span in spans(scene, "tick")][1:] == [(True, last), (True, None)]
    await scene.advance(BACK + minutes(10))
    assert instants(scene, "tick") == [minutes(one) for one in (10, 20, 30, 40)]


async def test_an_edit_accounts_for_what_waited_for_quiet_hours_when_the_clock_was_set_back(scene: Scene) -> None:
    """R-17, R-20: the old definition owns the instant at which it began, however early the wall says it is."""
    quiet = QuietHours(("11:00-14:00",), policy=QuietPolicy.SKIP)
    put(scene, command("tick", schedule=every("1h", anchor=Anchor.FIXED, quiet=quiet)))
    await scene.settle()
    scene.clock.step(timedelta(days=-1))
    await scene.settle()
    put(scene, command("tick"))
    assert [(run.reason, run.scheduled_for) for run in scene.history("tick")] == [(Reason.QUIET_HOURS, NOON)]


async def test_an_edit_accounts_for_what_a_pause_held_when_the_clock_was_set_back(scene: Scene) -> None:
    """R-17, R-20: an instant that came before the pause has its row before the definition is gone."""
    quiet = QuietHours(("11:00-14:00",), policy=QuietPolicy.DEFER)
    put(scene, command("tick", schedule=cron("30 12 * * *", quiet=quiet)))
    await scene.advance("45m")
    pause(scene.store, JobSelection(("tick",)), until=None, reason="", now=scene.clock.now())
    scene.clock.step(timedelta(days=-1))
    await scene.settle()
    put(scene, command("tick"))
    assert [(run.reason, run.scheduled_for) for run in scene.history("tick")] == [(Reason.PAUSED, NOON + minutes(30))]
