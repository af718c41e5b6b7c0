"""Jobs at boot (`@reboot`): one row for each boot of the machine, and none for the one they were made in (R-05)."""

from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from rota.engine.transactions.fire import fire_at_boot
from rota.model.records import Outcome
from rota.model.spec import Retry, Schedule
from rota.model.states import Reason, Status
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.run_actions import trigger
from rota.operations.verify.report import Check
from rota.runners.processes import machine_boot
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from rota.text.schedule import next_fire
from tests.engine.conftest import audit, command, cron
from tests.engine.test_apply import put
from tests.scene import tamper

pytestmark = pytest.mark.anyio

WARM = command("warm", schedule=Schedule(reboot=True))


async def boot(scene: Scene, name: str) -> None:
    """Let a scheduler begin in this boot of the machine."""
    scene.store.write(partial(fire_at_boot, boot=name, now=scene.clock.now()))
    await scene.advance("1m")


async def test_a_job_waits_for_the_boot_after_the_one_it_was_made_in(scene: Scene) -> None:
    """R-05: as cron does."""
    put(scene, WARM)
    await boot(scene, machine_boot())
    assert scene.history("warm") == []
    assert next_fire(scene.job("warm"), now=scene.clock.now()) == "next at the next boot of the machine"


async def test_each_boot_fires_it_once_however_often_a_scheduler_starts_in_it(scene: Scene) -> None:
    """R-05: the boot is the key of its row."""
    put(scene, WARM)
    await boot(scene, "first")
    await boot(scene, "first")
    await boot(scene, "second")
    assert [(run.status, run.decisions["boot"]) for run in scene.history("warm")] == [
        (Status.COMPLETED, "first"),
        (Status.COMPLETED, "second"),
    ]
    assert [run.scheduled_for for run in scene.history("warm")] == [run.created_at for run in scene.history("warm")]


async def test_it_has_no_instants_between_boots(scene: Scene) -> None:
    put(scene, WARM)
    await boot(scene, "first")
    await scene.advance("30h")
    assert len(scene.history("warm")) == 1
    assert scene.job("warm").next_for is None


async def test_a_failure_is_tried_again_within_the_boot(scene: Scene) -> None:
    """DEC-007."""
    scene.processes.scripts["warm"] = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1))
    put(scene, replace(WARM, retry=Retry(max_attempts=2, backoff=timedelta(seconds=5))))
    await boot(scene, "first")
    assert scene.told("warm") == [("FAILED", "exit_code")] * 2
    assert scene.job("warm").next_for is None


async def test_a_paused_one_has_a_skipped_row_and_is_not_made_up(scene: Scene) -> None:
    """R-20: the row is written at once, since nothing else would tell of the boot."""
    put(scene, WARM)
    pause(scene.store, JobSelection(("warm",)), until=None, reason="later", now=scene.clock.now())
    await boot(scene, "first")
    resume(scene.store, JobSelection(("warm",)), catch_up=True, now=scene.clock.now())
    await boot(scene, "first")
    assert scene.told("warm") == [("SKIPPED", "paused")]
    assert scene.history("warm")[0].error == "paused: later"


async def test_an_unfinished_run_makes_a_boot_overlap(scene: Scene) -> None:
    """R-11."""
    scene.processes.scripts["warm"] = Script(takes=timedelta(hours=1))
    put(scene, WARM)
    trigger(scene.store, "warm", now=scene.clock.now())
    await boot(scene, "first")
    assert scene.told("warm") == [("RUNNING", None), ("SKIPPED", "overlap")]


async def test_a_disabled_one_is_not_fired_and_waits_for_the_next_boot_when_enabled(scene: Scene) -> None:
    """R-14."""
    put(scene, replace(WARM, enabled=False))
    await boot(scene, "first")
    put(scene, WARM)
    await boot(scene, machine_boot())
    assert scene.history("warm") == []
    await boot(scene, "second")
    assert scene.told("warm") == [("COMPLETED", None)]


async def test_an_edit_before_the_scheduler_starts_does_not_lose_the_boot(scene: Scene) -> None:
    """R-06: an edit of anything but the schedule leaves it."""
    put(scene, WARM)
    await boot(scene, "first")
    put(scene, replace(WARM, description="warms the cache"))
    await boot(scene, "second")
    assert len(scene.history("warm")) == 2


async def test_a_job_may_change_between_boot_and_times(scene: Scene) -> None:
    """R-06."""
    put(scene, replace(WARM, schedule=cron("*/5 * * * *")))
    await scene.advance("6m")
    put(scene, WARM)
    assert scene.job("warm").booted == machine_boot()
    await boot(scene, "first")
    put(scene, replace(WARM, schedule=cron("*/5 * * * *")))
    assert scene.job("warm").booted is None
    await scene.advance("5m")
    assert len(scene.history("warm")) == 3


async def test_verify_finds_a_boot_with_two_rows_and_a_job_without_one(unaudited: Scene) -> None:
    """R-05."""
    put(unaudited, WARM)
    await boot(unaudited, "first")
    await boot(unaudited, "second")
    tamper(
        unaudited,
        "DROP INDEX run_fire",
        "UPDATE run SET slot_key = 'first'",
        "UPDATE job SET booted = NULL",
    )
    found = {one.check: one.text for one in audit(unaudited).violations}
    assert "it would never fire" in found[Check.CURSOR]
    assert found[Check.LEDGER] in ("is of boot first, which has its row already", "the fire first has 2 rows (R-05)")
