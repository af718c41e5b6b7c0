"""Another process changed something: all loops look again, and what is claimed does not wait for what they read."""

import asyncio
from pathlib import Path

import pytest

from rota.engine.loops.loop import Loop
from rota.engine.membership.control import WakeSocket, ask
from rota.engine.transactions.claim import Claimed
from tests.engine.conftest import command
from tests.scene import Scene
from tests.waiting import LONGEST_WAIT

pytestmark = pytest.mark.anyio


class NoAlarm:
    """An alarm that never rings: only who is woken looks."""

    def __init__(self, _woken: asyncio.Event) -> None:
        pass

    def set(self, _due: object) -> None:
        pass

    def close(self) -> None:
        pass


async def test_what_another_process_enqueued_begins_before_the_other_loops_look(scene: Scene) -> None:
    events: list[str] = []
    begin, looked = scene.engine.executor.begin, asyncio.Event()

    def note_begin(claimed: Claimed) -> None:
        events.append(claimed.run.handle)
        begin(claimed)

    async def look() -> None:
        events.append("looks")
        looked.set()

    scene.engine.executor.begin = note_begin
    scene.engine.fire_loop = Loop("fire", look, clock=scene.clock)
    scene.engine.start(NoAlarm)
    async with asyncio.timeout(LONGEST_WAIT):
        await looked.wait()
        await scene.quiet()
        events.clear()
        looked.clear()
        scene.declare(command("backup"))
        scene.trigger("backup")
        loop = asyncio.get_running_loop()
        at = loop.time()
        loop.time = lambda: at  # a claim that takes long does not hold the others up for ever
        try:
            scene.engine.wake()
            await looked.wait()
        finally:
            del loop.time
    await scene.engine.end()
    assert events == ["backup:1", "looks"]


async def test_who_claims_nothing_looks_all_the_same(scene: Scene) -> None:
    looked = asyncio.Event()

    async def look() -> None:
        looked.set()

    scene.engine.fire_loop = Loop("fire", look, clock=scene.clock)
    scene.engine.claimer.allowed = False
    scene.engine.start(NoAlarm)
    async with asyncio.timeout(LONGEST_WAIT):
        await looked.wait()
        looked.clear()
        scene.engine.wake()
        await looked.wait()
    await scene.engine.end()


@pytest.mark.parametrize(
    ("question", "wakes"), [("status", False), ("login", False), ("pauses", True), ("nonsense", True)]
)
async def test_a_look_at_the_scheduler_wakes_no_loop_and_a_change_does(
    tmp_path: Path, question: str, *, wakes: bool
) -> None:
    """A client that polls the status would otherwise keep all loops busy."""
    woken: list[str] = []
    wake_socket = WakeSocket(tmp_path, wake=lambda: woken.append(question), answer=lambda asked: {"pid": asked["ask"]})
    try:
        told = await asyncio.to_thread(ask, tmp_path, {"ask": question}, timeout=LONGEST_WAIT)
    finally:
        wake_socket.close()
    assert told == {"pid": question}
    assert bool(woken) is wakes


async def test_a_message_that_cannot_be_read_wakes_the_loops(tmp_path: Path) -> None:
    woken = asyncio.Event()
    wake_socket = WakeSocket(tmp_path, wake=woken.set, answer=lambda _asked: {})
    try:
        told = await asyncio.to_thread(ask, tmp_path, {"what": 1}, timeout=LONGEST_WAIT)
        async with asyncio.timeout(LONGEST_WAIT):
            await woken.wait()
    finally:
        wake_socket.close()
    assert told == {"error": "'ask'"}
