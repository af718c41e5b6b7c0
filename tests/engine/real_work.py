"""Playing a scene whose functions and polls are real: they are waited for, at every instant of the fake clock."""

import asyncio
from datetime import timedelta

from rota.testing.scene import Scene
from tests.waiting import LONGEST_WAIT


async def play(scene: Scene) -> None:
    """Do all that is due now; no scripted process may be in progress."""
    for _ in range(3):  # the poll, then those who waited for it, then nothing
        await scene.settle()
        await scene.engine.until_empty()
        await scene.quiet()


async def play_runs(scene: Scene, name: str, *, runs: int) -> None:
    """Start a job so many times by hand, and wait until nothing of it is carried; what was refused may still wait."""
    for _ in range(runs):
        scene.trigger(name)
    async with asyncio.timeout(LONGEST_WAIT):
        await scene.settle()
        await scene.engine.until_empty()
        await scene.quiet()


async def pass_time(scene: Scene, duration: timedelta) -> None:
    """Let time pass, stopping at every instant at which something is due."""
    until = scene.clock.now() + duration
    while (due := scene.next_due()) is not None and due <= until:
        scene.clock.advance(due - scene.clock.now())
        await play(scene)
    scene.clock.advance(until - scene.clock.now())
    await play(scene)
