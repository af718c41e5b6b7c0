"""What functions share and may ask: `ctx.scheduler_state` and `ctx.sdk` (document 000)."""

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.engine.transactions.poll import scheduler_state
from rota.model.states import Reason, Status
from rota.operations.activity import current_mode
from tests.engine.calling import call, told
from tests.engine.conftest import ALLOW, NOON, command, function
from tests.scene import Scene
from tests.waiting import LONGEST_WAIT

pytestmark = pytest.mark.anyio

LARGE = "x" * 40_000


@pytest.fixture
async def narrow(tmp_path: Path) -> AsyncIterator[Scene]:
    """A scheduler with one slot: what a function starts waits until it has ended."""
    scene = Scene(tmp_path, NOON, concurrency=1)
    await scene.start()
    yield scene
    await scene.close()


async def play(scene: Scene, *names: str) -> None:
    for name in names:
        scene.trigger(name)
        await scene.settle()
        await scene.engine.until_empty()
        await scene.quiet()


def give(scene: Scene, **functions: Any) -> None:
    """Declare a job for each of the functions."""
    scene.table.functions = functions
    scene.declare(*(function(name, overlap=ALLOW) for name in functions))


def shared(scene: Scene) -> dict[str, Any]:
    return scene.store.read(scheduler_state)


async def test_what_one_job_leaves_another_one_finds(scene: Scene) -> None:
    found = []
    give(
        scene,
        leaves=lambda ctx: ctx.scheduler_state.update(last_run={"leaves": 1}),
        finds=lambda ctx: found.append(ctx.scheduler_state["last_run"]),
    )
    await play(scene, "leaves", "finds")
    assert found == [{"leaves": 1}]


async def test_a_run_that_fails_leaves_nothing(scene: Scene) -> None:
    def fails(ctx: Any) -> None:
        ctx.scheduler_state["x"] = 1
        raise ValueError("no")

    give(scene, fails=fails)
    await play(scene, "fails")
    assert shared(scene) == {}


async def test_runs_at_the_same_time_keep_each_others_keys_and_the_last_one_wins_within_a_key(scene: Scene) -> None:
    both_read, first_ended = threading.Barrier(2), threading.Event()

    def early(ctx: Any) -> None:
        ctx.scheduler_state.update(early=True, both="early")
        both_read.wait(LONGEST_WAIT)

    def late(ctx: Any) -> None:
        ctx.scheduler_state.update(late=True, both="late")
        both_read.wait(LONGEST_WAIT)
        first_ended.wait(LONGEST_WAIT)

    give(scene, early=early, late=late)
    scene.trigger("late")
    scene.trigger("early")
    await scene.settle()
    while scene.told("early") != [("COMPLETED", None)]:
        await scene.quiet()
    first_ended.set()
    await scene.engine.until_empty()
    await scene.quiet()
    assert shared(scene) == {"early": True, "late": True, "both": "late"}


async def test_a_key_that_is_taken_away_is_gone(scene: Scene) -> None:
    give(
        scene,
        makes=lambda ctx: ctx.scheduler_state.update(a=1, b=2),
        drops=lambda ctx: ctx.scheduler_state.pop("a") and None,
    )
    await play(scene, "makes", "drops")
    assert shared(scene) == {"b": 2}


async def test_what_no_longer_fits_fails_the_run_and_changes_nothing(scene: Scene) -> None:
    give(
        scene,
        one=lambda ctx: ctx.scheduler_state.update(one=LARGE),
        two=lambda ctx: ctx.scheduler_state.update(two=LARGE) or ctx.state.update(seen=1),
    )
    await play(scene, "one", "two")
    (run,) = scene.history("two")
    assert (run.status, run.reason) == (Status.FAILED, Reason.RESULT_INVALID)
    assert run.error == "`scheduler_state` would be 80,019 bytes, the limit is 65,536"
    assert shared(scene) == {"one": LARGE}


async def test_a_direct_call_shares_it_too(scene: Scene) -> None:
    """R-13."""
    give(scene, leaves=lambda ctx: ctx.scheduler_state.update(x=1))
    called = call(scene, "leaves")
    await scene.settle()
    await scene.engine.until_empty()
    await scene.quiet()
    assert told(scene, called) == ("COMPLETED", None)
    assert shared(scene) == {"x": 1}


async def test_a_function_starts_another_job_and_looks_at_runs(narrow: Scene) -> None:
    seen: dict[str, Any] = {}

    def asks(ctx: Any) -> None:
        seen["born"] = ctx.sdk.trigger("other")
        seen["run"] = ctx.sdk.run(seen["born"]["run"])
        seen["runs"] = [run["run"] for run in ctx.sdk.runs("other", status="queued")]
        seen["counts"] = ctx.sdk.queue_counts()
        seen["summary"] = ctx.sdk.summary()
        seen["status"] = ctx.sdk.status()

    give(narrow, asks=asks)
    narrow.declare(command("other"))
    await play(narrow, "asks")
    assert narrow.told("asks") == [("COMPLETED", None)], narrow.history("asks")[0].error
    assert (seen["born"]["run"], seen["born"]["status"], seen["run"]["id"]) == ("other:1", "QUEUED", seen["born"]["id"])
    assert seen["runs"] == ["other:1"]
    assert (seen["counts"]["incoming"], seen["counts"]["claimed"]) == (1, 1)
    assert seen["summary"]["suggested_poll_seconds"] == 15
    assert [run["run"] for run in seen["status"]["running"]] == ["asks:1"]


async def test_what_a_function_starts_is_no_activity(scene: Scene) -> None:
    """R-18: else a job that starts another one would keep the project awake for ever."""
    give(scene, asks=lambda ctx: ctx.sdk.trigger("other") and None)
    scene.declare(command("other"))
    scene.trigger("asks")
    scene.clock.advance("2h")
    await scene.settle()
    await scene.engine.until_empty()
    await scene.quiet()
    assert scene.told("other") == [("COMPLETED", None)]
    assert current_mode(scene.store, now=scene.clock.now()) == "dormant"
