"""Sleep and power: the inhibitor while runs are in slots, the alarm for jobs with `wake`, and the conditions."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.model.spec import Condition, Gates, JobSpec, KeepAwake, WhenFalse
from rota.rules.power import BATTERY, Power
from rota.testing.doubles import COMPLETED, Script
from rota.testing.scene import Scene
from tests.engine.conftest import NOON, command, cron, every

pytestmark = pytest.mark.anyio

ON_BATTERY = Power(plugged=False, percent=40.0)


async def restarted(scene: Scene, policy: KeepAwake) -> None:
    """Start the scheduler again with a policy."""
    await scene.crash()
    scene.settings = replace(scene.settings, scheduler=replace(scene.settings.scheduler, keep_awake=policy))
    await scene.start()


def lasting(scene: Scene, name: str, **changes: object) -> None:
    scene.declare(command(name, **changes))
    scene.processes.scripts[name] = Script(timedelta(minutes=10), COMPLETED)


async def test_the_machine_is_kept_awake_while_a_run_has_a_slot(scene: Scene) -> None:
    await restarted(scene, KeepAwake.ALWAYS)
    scene.power.power = ON_BATTERY
    lasting(scene, "long", schedule=cron("5 12 * * *"))
    await scene.advance("4m")
    assert not scene.power.held
    await scene.advance("2m")
    assert scene.power.held == "1 run in progress"
    await scene.advance("10m")
    assert not scene.power.held


async def test_it_is_kept_awake_between_runs_that_follow_each_other(scene: Scene) -> None:
    await restarted(scene, KeepAwake.ALWAYS)
    scene.declare(command("often", schedule=every("8s")))
    scene.processes.scripts["often"] = Script(timedelta(seconds=1), COMPLETED)
    await scene.advance("1m")
    for _ in range(20):
        await scene.advance("1s")
        assert scene.power.held


async def test_on_mains_power_alone_it_sleeps_when_the_plug_is_pulled(scene: Scene) -> None:
    await restarted(scene, KeepAwake.ON_AC)
    lasting(scene, "long", schedule=cron("5 12 * * *"))
    scene.power.power = Power(plugged=True, percent=90.0)
    await scene.advance("6m")
    assert scene.power.held
    scene.power.power = ON_BATTERY
    await scene.advance("2m")
    assert not scene.power.held
    assert scene.job("long").name == "long"


async def test_without_the_setting_no_inhibitor_is_held(scene: Scene) -> None:
    lasting(scene, "long", schedule=every("1h"))
    await scene.advance("2m")
    assert not scene.power.held


async def test_a_refused_inhibitor_is_shown_and_tried_again(scene: Scene) -> None:
    await restarted(scene, KeepAwake.ALWAYS)
    scene.power.refusal = "Access denied"
    lasting(scene, "long", schedule=every("1h"))
    await scene.advance("1m")
    assert scene.engine.awake.loop.note == "the machine may sleep: Access denied"
    assert [run.status.value for run in scene.history("long")] == ["RUNNING"]
    scene.power.refusal = ""
    await scene.advance("2m")
    assert scene.power.held
    assert scene.engine.awake.loop.note is None


async def test_the_alarm_is_set_for_the_next_instant_of_a_job_that_wakes(scene: Scene) -> None:
    scene.declare(command("soon", schedule=cron("10 12 * * *")), waking("night", "30 14 * * *"))
    await scene.advance("1m")
    assert scene.power.alarm == NOON + timedelta(hours=2, minutes=29, seconds=30)
    await scene.advance("3h")
    assert scene.power.alarm == NOON + timedelta(days=1, hours=2, minutes=29, seconds=30)


async def test_the_alarm_is_cleared_when_no_job_wakes_any_more(scene: Scene) -> None:
    scene.declare(waking("once", "30 14 * * *", run_once=True))
    await scene.advance("1m")
    assert scene.power.alarm is not None
    await scene.advance("3h")
    assert scene.power.alarm is None


def waking(name: str, expression: str, **schedule: object) -> JobSpec:
    return command(name, schedule=replace(cron(expression), **schedule), wake=True)


@pytest.mark.parametrize(
    ("power", "ran"),
    [
        (Power(), ["COMPLETED", "COMPLETED"]),
        (Power(plugged=True, percent=20.0), ["COMPLETED", "SKIPPED"]),
        (Power(plugged=False, percent=40.0), ["SKIPPED", "COMPLETED"]),
        (Power(plugged=None, percent=20.0), ["SKIPPED", "SKIPPED"]),
    ],
)
async def test_conditions_ask_for_mains_power_and_for_the_battery(scene: Scene, power: Power, ran: list[str]) -> None:
    scene.power.power = power
    for name, condition in (("mains", Condition("on_ac_power")), ("charged", Condition(BATTERY, percent=30.0))):
        gates = Gates((condition,), when_false=WhenFalse.SKIP)
        scene.declare(command(name, schedule=cron("5 12 * * *"), gates=gates))
    await scene.advance("6m")
    assert [scene.history(name)[0].status.value for name in ("mains", "charged")] == ran
    told = scene.history("charged")[0].decisions["conditions"][0]
    assert told["title"] == "battery_above(30%)"


async def test_a_run_waits_until_the_battery_is_charged(scene: Scene) -> None:
    scene.power.power = Power(plugged=True, percent=10.0)
    gates = Gates((Condition(BATTERY, percent=30.0),), when_false=WhenFalse.WAIT, recheck=timedelta(minutes=1))
    scene.declare(command("build", schedule=every("1h"), gates=gates))
    await scene.advance("5m")
    assert scene.history("build")[0].waiting_for == "condition"
    scene.power.power = Power(plugged=True, percent=31.0)
    await scene.advance("2m")
    assert scene.told("build") == [("COMPLETED", None)]
