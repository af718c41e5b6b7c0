"""Windows of subscriptions: stored with the end of a run, and what a budget keeps of them for people (R-19)."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from rota.model.agents import SubscriptionWindow
from rota.model.budgets import StoredWindow, Subscription
from rota.model.errors import BudgetExceeded
from rota.model.records import Outcome
from rota.model.spec import JobSpec
from rota.model.states import Status
from rota.operations.explain import explain
from rota.operations.project.apply import apply
from rota.store.tables import budgets
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.agent_jobs import agent
from tests.engine.calling import call
from tests.engine.conftest import ALLOW, NOON
from tests.engine.test_apply import declared

pytestmark = pytest.mark.anyio

THREE = NOON + timedelta(hours=3)
KEEP = Subscription("claude-window", 300_000, "anthropic")


def put(scene: Scene, *specs: JobSpec, kept: tuple[Subscription, ...] = (KEEP,)) -> None:
    """Apply these jobs and budgets of subscriptions as the whole file."""
    file = declared(scene, *specs)
    file.settings = replace(file.settings, subscriptions={one.name: one for one in kept})
    apply(scene.store, file, now=scene.clock.now())


def job(name: str = "fix", **keys: Any) -> JobSpec:
    return replace(agent(name, **keys), overlap=ALLOW)


async def tell(
    scene: Scene, used: float | None, *, resets_at: Any = THREE, name: str = "five_hour", **more: Any
) -> None:
    """End a run that reports a window."""
    windows = (SubscriptionWindow(name, used, resets_at),)
    ending = Outcome(Status.COMPLETED, exit_code=0, windows=windows, **{"provider": "anthropic", **more})
    scene.processes.scripts["tell"] = Script(ending=ending)
    scene.trigger("tell")
    await scene.settle()


def windows(scene: Scene) -> list[StoredWindow]:
    return scene.store.read(budgets.subscription_windows)


def waits(scene: Scene, name: str = "fix") -> tuple[Any, ...]:
    run = scene.history(name)[-1]
    return run.status, run.waiting_for, run.not_before


async def test_the_last_report_of_a_window_is_stored(scene: Scene) -> None:
    put(scene, job("tell"), kept=())
    await tell(scene, 0.25)
    await tell(scene, 0.5, provider="anthropic/work:opus")
    assert windows(scene) == [
        StoredWindow("anthropic", "five_hour", 250_000, THREE, NOON),
        StoredWindow("anthropic/work", "five_hour", 500_000, THREE, NOON),
    ]
    await tell(scene, None)
    assert windows(scene)[0].used == 250_000, "the same window is at least as full"
    await tell(scene, None, resets_at=THREE + timedelta(hours=5))
    assert windows(scene)[0].used is None


async def test_a_run_waits_for_the_reset_of_a_window_that_is_kept_for_people(scene: Scene) -> None:
    put(scene, job("tell", provider="other"), job())
    await tell(scene, 0.75)
    scene.trigger("fix")
    await scene.settle()
    assert waits(scene) == (Status.QUEUED, "budget", THREE)
    assert scene.engine.slots.taken == 0
    told = explain(scene.store, "fix:1", state=scene.settings.state, now=scene.clock.now())
    [line] = [line.text for line in told.run_lines if line.label == "waits"]
    assert "five_hour of anthropic is 75 % used, and claude-window keeps 30 %; it resets at 15:00:00" in line
    await scene.advance("3h")
    assert scene.history("fix")[0].started_at == THREE
    told = explain(scene.store, "fix:1", state=scene.settings.state, now=scene.clock.now())
    assert "the windows of anthropic have room" in [line.text for line in told.run_lines if line.label == "budget"]


@pytest.mark.parametrize(
    ("used", "report", "keys", "kept"),
    [
        (0.7, {}, {}, KEEP),
        (None, {}, {}, KEEP),
        (0.9, {"resets_at": None}, {}, KEEP),
        (0.9, {"resets_at": NOON - timedelta(hours=1)}, {}, KEEP),
        (0.9, {"provider": "openai"}, {}, KEEP),
        (0.9, {}, {"provider": "anthropic/work"}, KEEP),
        (0.9, {}, {}, replace(KEEP, provider="openai")),
        (0.9, {"name": "seven_day_opus"}, {"model": "claude-sonnet-4"}, KEEP),
    ],
)
async def test_what_is_not_full_or_not_known_holds_nothing(
    scene: Scene, used: float | None, report: dict[str, Any], keys: dict[str, Any], kept: Subscription
) -> None:
    put(scene, job("tell", provider="other"), job(**keys), kept=(kept,))
    await tell(scene, used, **report)
    scene.trigger("fix")
    await scene.settle()
    assert scene.told("fix") == [("COMPLETED", None)]


@pytest.mark.parametrize("keys", [{"model": "opus"}, {}])
async def test_a_window_of_a_model_holds_the_runs_of_that_model(scene: Scene, keys: dict[str, Any]) -> None:
    put(scene, job("tell", provider="other"), job(**keys), kept=(replace(KEEP, provider=""),))
    await tell(scene, 0.9, name="seven_day_opus")
    scene.trigger("fix")
    await scene.settle()
    assert waits(scene) == (Status.QUEUED, "budget", THREE)


async def test_of_two_full_windows_the_last_reset_counts(scene: Scene) -> None:
    put(scene, job("tell", provider="other"), job())
    await tell(scene, 0.9)
    await tell(scene, 0.8, name="seven_day", resets_at=THREE + timedelta(days=2))
    scene.trigger("fix")
    await scene.settle()
    assert waits(scene) == (Status.QUEUED, "budget", THREE + timedelta(days=2))


async def test_a_report_with_more_room_releases_the_waiting_runs(scene: Scene) -> None:
    put(scene, job("tell", provider="other"), job())
    await tell(scene, 0.9)
    scene.trigger("fix")
    await scene.settle()
    assert waits(scene)[1] == "budget"
    await tell(scene, 0.95)
    assert waits(scene)[1] == "budget"
    await tell(scene, 0.1)
    assert scene.told("fix") == [("COMPLETED", None)]


async def test_a_change_of_the_file_releases_the_waiting_runs(scene: Scene) -> None:
    put(scene, job("tell", provider="other"), job())
    await tell(scene, 0.9)
    scene.trigger("fix")
    await scene.settle()
    put(scene, job("tell", provider="other"), job(), kept=(replace(KEEP, keep=50_000),))
    await scene.settle()
    assert scene.told("fix") == [("COMPLETED", None)]


async def test_an_older_report_does_not_replace_a_newer_one(scene: Scene) -> None:
    newer = StoredWindow("anthropic", "five_hour", 900_000, THREE, NOON)
    older = replace(newer, used=100_000, at=NOON - timedelta(minutes=1))
    for window in (newer, older):
        scene.store.write(lambda db, window=window: budgets.put_subscription_window(db, window))
    assert windows(scene) == [newer]


async def test_a_direct_call_is_refused_at_once(scene: Scene) -> None:
    put(scene, job("tell", provider="other"), job())
    await tell(scene, 0.9)
    with pytest.raises(BudgetExceeded, match="claude-window has no room: five_hour of anthropic is 90 % used"):
        call(scene, "fix")
