"""Python functions inside the process, on real threads and a real loop."""

import asyncio
import threading
from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.model.states import Reason, Status
from rota.operations.explain import explain
from rota.operations.run_actions import cancel_run
from rota.operations.status.heartbeat import heartbeat
from rota.operations.status.status import SystemView, look, system_json
from rota.testing.scene import Scene
from tests.engine.conftest import REPLACE, function

pytestmark = pytest.mark.anyio


async def play(scene: Scene) -> None:
    await scene.settle()
    await scene.engine.until_empty()
    await scene.quiet()


async def test_a_returned_text_is_the_summary_and_the_state_is_kept(scene: Scene) -> None:
    def count(context) -> str:
        context.state["seen"] = context.state.get("seen", 0) + 1
        return f"seen {context.state['seen']}"

    scene.table.functions = {"count": count}
    scene.declare(function("count"))
    for _ in range(2):
        scene.trigger("count")
        await play(scene)
    assert [run.result_summary for run in scene.history("count")] == ["seen 1", "seen 2"]


async def test_an_exception_fails_the_run_with_its_text(scene: Scene) -> None:
    scene.table.functions = {"broken": lambda context: {}["missing"]}
    scene.declare(function("broken"))
    scene.trigger("broken")
    await play(scene)
    (run,) = scene.history("broken")
    assert (run.status, run.reason) == (Status.FAILED, Reason.EXCEPTION)
    assert "KeyError" in (run.error or "")


async def test_claim_and_start_are_one_transaction_for_a_function_without_gates(scene: Scene) -> None:
    """R-01."""
    scene.table.functions = {"work": lambda context: None}
    scene.declare(function("work"))
    scene.trigger("work")
    await play(scene)
    (run,) = scene.history("work")
    assert run.first_dispatched_at == run.started_at


async def test_async_functions_run_on_a_loop_of_their_own(scene: Scene) -> None:
    mine = threading.get_ident()
    seen = []

    async def work(context) -> None:
        seen.append(threading.get_ident())

    scene.table.functions = {"work": work}
    scene.declare(function("work"))
    scene.trigger("work")
    await play(scene)
    assert seen
    assert seen[0] != mine


async def test_a_function_that_the_file_no_longer_names_fails_and_says_so(scene: Scene) -> None:
    scene.declare(function("gone"))
    scene.trigger("gone")
    await play(scene)
    (run,) = scene.history("gone")
    assert (run.status, run.reason) == (Status.FAILED, Reason.SPAWN_FAILED)
    assert '"gone"' in (run.error or "")


async def test_a_cancelled_async_function_is_cancelled(scene: Scene) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def forever(context) -> None:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.Event().wait()

    scene.table.functions = {"forever": forever}
    scene.declare(function("forever"))
    handle = scene.trigger("forever")
    await scene.settle()
    await begun.wait()
    cancel_run(scene.store, handle, now=scene.clock.now())
    await scene.engine.cancel_loop.turn()
    await play(scene)
    assert scene.told("forever") == [("CANCELLED", "requested")]


async def test_an_abandoned_thread_keeps_its_slot_until_it_returns(scene: Scene) -> None:
    """R-28: a thread cannot be killed; the run ends at once, the slot does not."""
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def stuck(context) -> None:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait()

    scene.table.functions = {"stuck": stuck}
    scene.declare(function("stuck"))
    handle = scene.trigger("stuck")
    await scene.settle()
    await begun.wait()
    cancel_run(scene.store, handle, now=scene.clock.now())
    await scene.engine.cancel_loop.turn()
    await play(scene)
    assert scene.told("stuck") == [("CANCELLED", "requested")]
    assert scene.engine.slots.taken == 1
    go_on.set()
    while scene.engine.slots.taken:
        await scene.quiet()
    assert scene.engine.slots.free() == list(range(16))


async def test_an_abandoned_thread_is_shown_until_it_returns(scene: Scene) -> None:
    """H8: in status, in what needs somebody, and in the explanations of its run and of one that waits for it."""
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def stuck(context) -> None:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait()

    def status() -> SystemView:
        return look(scene.store, heartbeat(scene.settings.state), now=scene.clock.now())

    def told(name: str) -> dict[str, str]:
        found = explain(scene.store, name, state=scene.settings.state, now=scene.clock.now())
        return {line.label: line.text for line in found.run_lines}

    scene.table.functions = {"stuck": stuck}
    scene.declare(function("stuck", overlap=REPLACE))
    scene.trigger("stuck")
    await scene.settle()
    await begun.wait()
    assert status().abandoned == ()
    scene.trigger("stuck")
    await scene.settle()
    scene.clock.advance(timedelta(minutes=12))

    words = "its function is still running 12 min after the end of the run and keeps slot 0"
    assert system_json(status(), now=scene.clock.now())["abandoned"][0]["run"] == "stuck:1"
    assert [(one.name, one.what) for one in status().attention] == [("stuck", f"abandoned: {words}")]
    assert told("stuck:1")["abandoned"].startswith(f"{words}; a thread cannot be killed")
    assert told("stuck:2")["start"] == "not yet: it waits for the function of stuck:1, which is still running"

    go_on.set()
    while scene.told("stuck")[1] != ("COMPLETED", None):
        await play(scene)
    assert (status().abandoned, status().attention) == ((), ())
    assert "abandoned" not in told("stuck:1")


async def test_an_abandoned_thread_blocks_replace(scene: Scene) -> None:
    """R-12: the new run begins only when the old code is gone."""
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    calls = []

    def stuck(context) -> None:
        calls.append(context.run.number)
        loop.call_soon_threadsafe(begun.set)
        if context.run.number == 1:
            go_on.wait()

    scene.table.functions = {"stuck": stuck}
    scene.declare(function("stuck", overlap=REPLACE))
    scene.trigger("stuck")
    await scene.settle()
    await begun.wait()
    scene.trigger("stuck")
    await scene.settle()
    assert scene.told("stuck")[0] == ("CANCELLED", "replaced")
    assert calls == [1]
    go_on.set()
    while scene.told("stuck")[1] != ("COMPLETED", None):
        await play(scene)
    assert calls == [1, 2]


async def test_a_timeout_of_a_function_is_recorded_at_once(scene: Scene) -> None:
    go_on = threading.Event()
    scene.table.functions = {"slow": lambda context: go_on.wait()}
    spec = function("slow")
    scene.declare(replace(spec, work=replace(spec.work, timeout=timedelta(milliseconds=50))))
    scene.trigger("slow")
    await play(scene)
    go_on.set()
    assert scene.told("slow") == [("FAILED", "timed_out")]


async def test_outcomes_survive_a_storage_that_refuses_for_a_while(scene: Scene) -> None:
    """A result that arrives while the database cannot be written lives in memory."""
    refusals = [1, 1]
    submit = scene.store.submit

    def refusing(operation, *manner):
        if refusals and "_record" in repr(operation):
            refusals.pop()
            return submit(_refuse)
        return submit(operation, *manner)

    def _refuse(db):
        from rota.model.errors import StorageFull

        raise StorageFull("full")

    scene.store.submit = refusing  # type: ignore[method-assign]
    scene.table.functions = {"work": lambda context: "kept"}
    scene.declare(function("work"))
    scene.trigger("work")
    await scene.settle()
    await scene.engine.until_empty()
    assert [run.result_summary for run in scene.history("work")] == ["kept"]
    assert refusals == []
    assert scene.engine.slots.taken == 0
