"""Conditions: what they answer, and what becomes of the run (R-09)."""

import asyncio
import threading
from datetime import timedelta

import pytest

from rota.engine.transactions.claim import claim
from rota.model.spec import Condition, Gates, WhenFalse
from rota.model.states import Status
from rota.operations.run_actions import cancel_run
from rota.rules.spans import spans_of, totals
from rota.testing.scene import Scene
from tests.engine.conftest import NOON, command, cron, every, function
from tests.waiting import LONGEST_WAIT

pytestmark = pytest.mark.anyio

LOOK = Condition(command=("./look",))


def gates(**changes) -> Gates:
    return Gates((LOOK,), **changes)


async def test_a_false_condition_skips_a_run_and_nothing_is_started(scene: Scene) -> None:
    """R-09: when_false skip."""
    scene.processes.conditions["./look"] = "false"
    scene.declare(command("gated", schedule=cron("0 13 * * *"), gates=gates(when_false=WhenFalse.SKIP)))
    await scene.advance("1h")
    assert scene.told("gated") == [("SKIPPED", "condition")]
    assert scene.processes.begun == []
    assert scene.history("gated")[0].decisions["conditions"][0]["answer"] == "false"


async def test_a_waiting_run_keeps_its_row_and_passes_later(scene: Scene) -> None:
    """R-09: when_false wait; the same row is checked again every recheck."""
    scene.processes.conditions["./look"] = "false"
    scene.declare(command("gated", schedule=every("10m"), gates=gates(when_false=WhenFalse.WAIT)))
    await scene.settle()
    (run,) = scene.history("gated")
    assert (run.status, run.waiting_for, run.not_before) == (
        Status.QUEUED,
        "condition",
        NOON + timedelta(seconds=60),
    )
    assert scene.engine.slots.taken == 0
    await scene.advance("2m")
    scene.processes.conditions["./look"] = "pass"
    await scene.advance("1m")
    (again,) = scene.history("gated")
    assert (again.id, again.status) == (run.id, Status.COMPLETED)
    lengths = totals(spans_of(again, now=NOON))
    assert timedelta(minutes=2) <= lengths["condition"] <= timedelta(minutes=3)


async def test_a_waiting_run_expires_where_the_file_says_so(scene: Scene) -> None:
    """R-09: expires_after counts from enqueue."""
    scene.processes.conditions["./look"] = "false"
    expiring = gates(when_false=WhenFalse.WAIT, expires_after=timedelta(seconds=150))
    scene.declare(command("gated", schedule=every("1h"), gates=expiring))
    await scene.advance("3m")
    (run,) = scene.history("gated")
    assert (run.status, run.reason) == (Status.SKIPPED, "expired")
    assert run.finished_at == NOON + timedelta(seconds=150)


async def test_an_error_ends_the_run_also_under_wait(scene: Scene) -> None:
    """R-09: condition_error, never an open gate."""
    scene.processes.conditions["./look"] = "error"
    scene.declare(command("gated", schedule=every("1h"), gates=gates(when_false=WhenFalse.WAIT)))
    await scene.settle()
    assert scene.told("gated") == [("SKIPPED", "condition_error")]
    assert scene.processes.begun == []


async def test_an_instant_refused_because_of_a_run_that_waits_for_a_condition_takes_that_reason(scene: Scene) -> None:
    """R-11: the reason of the refusal is the condition, not overlap."""
    scene.processes.conditions["./look"] = "false"
    scene.declare(command("gated", schedule=cron("*/5 * * * *"), gates=gates(when_false=WhenFalse.WAIT)))
    await scene.advance("10m")
    assert scene.told("gated") == [("QUEUED", None), ("SKIPPED", "condition")]


async def test_force_passes_conditions_and_is_recorded(scene: Scene) -> None:
    """R-29: --force passes overlap and conditions only."""
    scene.processes.conditions["./look"] = "false"
    scene.declare(command("gated", gates=gates()))
    scene.trigger("gated", force=True)
    await scene.settle()
    (run,) = scene.history("gated")
    assert (run.status, run.forced) == (Status.COMPLETED, True)


async def test_a_registered_condition_is_asked_in_this_process(scene: Scene) -> None:
    asked = []
    scene.table.conditions = {"has_mail": lambda context: asked.append(context.run.handle) or True}
    scene.declare(command("digest", gates=Gates((Condition(name="has_mail"),))))
    scene.trigger("digest")
    await scene.advance("1s")
    await scene.engine.until_empty()
    assert asked == ["digest:1"]
    assert scene.told("digest") == [("COMPLETED", None)]


async def test_a_condition_that_raises_or_returns_no_bool_is_an_error(scene: Scene) -> None:
    """R-09: an exception never opens the gate."""
    scene.table.conditions = {"broken": lambda context: 1 / 0, "vague": lambda context: "yes"}
    scene.declare(
        command("one", gates=Gates((Condition(name="broken"),))),
        command("two", gates=Gates((Condition(name="vague"),))),
    )
    scene.trigger("one")
    scene.trigger("two")
    await scene.settle()
    await scene.engine.until_empty()
    assert scene.told("one") == scene.told("two") == [("SKIPPED", "condition_error")]
    assert "ZeroDivisionError" in (scene.history("one")[0].error or "")


async def test_a_condition_that_nobody_registered_is_an_error_not_an_open_gate(scene: Scene) -> None:
    scene.declare(command("one", gates=Gates((Condition(name="nobody"),))))
    scene.trigger("one")
    await scene.settle()
    assert scene.told("one") == [("SKIPPED", "condition_error")]


async def test_all_conditions_must_pass_and_the_first_false_one_ends_the_asking(scene: Scene) -> None:
    scene.processes.conditions |= {"./look": "false"}
    second = Condition(command=("./second",))
    scene.declare(command("gated", gates=Gates((LOOK, second))))
    scene.trigger("gated")
    await scene.settle()
    assert [one["title"] for one in scene.history("gated")[0].decisions["conditions"]] == ["./look"]


async def test_cancel_while_a_condition_is_asked_ends_the_run(scene: Scene) -> None:
    asked = asyncio.Event()

    async def forever(context) -> bool:
        scene_loop.call_soon_threadsafe(asked.set)
        await asyncio.Event().wait()
        return True

    scene_loop = asyncio.get_running_loop()
    scene.table.conditions = {"forever": forever}
    scene.declare(command("gated", gates=Gates((Condition(name="forever"),))))
    scene.trigger("gated")
    await scene.settle()
    await asked.wait()
    assert not cancel_run(scene.store, "gated:1", now=scene.clock.now()).final
    await scene.engine.cancel_loop.turn()
    await scene.engine.until_empty()
    assert scene.told("gated") == [("CANCELLED", "requested")]


async def test_a_function_job_with_a_condition_is_dispatched_first(scene: Scene) -> None:
    """R-01: gates run in DISPATCHED; the execution begins with the start."""
    scene.table.functions = {"work": lambda context: "done"}
    scene.processes.conditions["./look"] = "pass"
    scene.declare(function("work", gates=gates()))
    scene.trigger("work")
    await scene.settle()
    await scene.engine.until_empty()
    (run,) = scene.history("work")
    assert (run.status, run.result_summary) == (Status.COMPLETED, "done")


async def test_a_waiting_run_survives_a_crash_with_its_reason_and_time(scene: Scene) -> None:
    """R-02: waiting_for and not_before are stored."""
    scene.processes.conditions["./look"] = "false"
    scene.declare(command("gated", schedule=every("10m"), gates=gates(when_false=WhenFalse.WAIT)))
    await scene.settle()
    await scene.crash()
    await scene.start()
    scene.processes.conditions["./look"] = "pass"
    await scene.advance("30s")
    assert scene.told("gated") == [("QUEUED", None)]
    await scene.advance("30s")
    assert scene.told("gated") == [("COMPLETED", None)]


async def test_a_run_that_expired_leaves_its_place_in_the_round_to_the_next(tmp_path):
    """R-09: the one behind it starts in the same claim, not at the next tick."""
    scene = Scene(tmp_path, NOON, concurrency=1)
    await scene.start()
    scene.declare(command("stale", gates=Gates(expires_after=timedelta(minutes=1))), command("fresh"))
    scene.trigger("stale")
    scene.trigger("fresh")
    scene.clock.advance("2m")
    holder = scene.session.holder
    claimed = scene.store.write(lambda db: claim(db, holder, [0], now=scene.clock.now(), alive=scene.processes.alive))
    assert [one.run.handle for one in claimed] == ["fresh:1"]
    assert scene.told("stale") == [("SKIPPED", "expired")]
    await scene.close()


async def test_the_deadline_of_a_condition_that_answered_does_not_end_it_when_it_is_asked_again(scene: Scene) -> None:
    """R-09: checked again every recheck, which may come before the first look would have timed out."""
    loop, again, go, asked = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), []

    def slow_at_last() -> bool:
        asked.append(None)
        if len(asked) == 1:
            return False
        loop.call_soon_threadsafe(again.set)
        return go.wait(LONGEST_WAIT)

    scene.table.conditions = {"slow": slow_at_last}
    slow = Gates((Condition(name="slow", timeout=timedelta(seconds=90)),), when_false=WhenFalse.WAIT)
    scene.declare(command("gated", schedule=every("10m"), gates=slow))
    await scene.settle()
    await scene.engine.until_empty()
    assert scene.history("gated")[0].waiting_for == "condition"
    began = loop.time()
    try:
        loop.time = lambda: began + 60
        await scene.advance("1m")
        await again.wait()
        loop.time = lambda: began + 100
        await scene.quiet()
    finally:
        del loop.time
        go.set()
    await scene.engine.until_empty()
    await scene.settle()
    assert scene.told("gated") == [("COMPLETED", None)]
