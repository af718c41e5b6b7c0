"""Ticks on a fake clock: each is an engine of its own on the same database, with scripted processes in common."""

from functools import partial
from pathlib import Path

from rota.engine.activity import note_look
from rota.engine.membership.session import close_session
from rota.engine.scheduler import run_once
from tests.scene import Scene


class TickScene(Scene):
    """One tick after another, or one beside another."""

    kind = "tick"

    def __init__(self, folder: Path, like: Scene) -> None:
        super().__init__(folder, like.clock.now(), concurrency=like.settings.scheduler.concurrency)
        self.clock, self.processes, self.table = like.clock, like.processes, like.table
        self.left = True

    async def look(self) -> int:
        """Enter and look, as `rota tick` does; return how many runs were recovered."""
        recovered = await self.start()
        self.left = False
        looked_at = await run_once(self.engine, self.clock)
        await self.quiet()
        for loop in self.engine.loops:
            assert loop.pulse.error is None, f"the {loop.name} loop failed: {loop.pulse.error}"
        self.note = partial(note_look, slots=self.settings.scheduler.concurrency, now=looked_at)
        if not self.engine.executor.idle:
            self.store.write(self.note)
        return recovered

    @property
    def carries(self) -> bool:
        """Whether something that the tick started has not ended."""
        return self.engine.busy

    async def carry(self) -> None:
        """Let what has ended by the clock be recorded, and what is wished be done."""
        self.processes.end_due()
        await self.quiet()
        await self.engine.cancel_loop.turn()
        await self.quiet()

    async def leave(self) -> None:
        """Go, as a tick does that carries nothing any more."""
        assert not self.carries
        idle = self.engine.executor.idle
        holder = self.session.holder
        close_session(
            self.store,
            self.session,
            self.clock,
            ending="clean",
            last_words=partial(self.note, unused={holder.worker_id: holder.epoch}) if idle else lambda _db: None,
        )
        self.functions.close()
        self.left = True

    async def crash(self) -> None:
        """Vanish as by kill -9."""
        self.left = True
        await super().crash()

    async def tick(self) -> None:
        """Look, carry what takes no time, and go."""
        await self.look()
        await self.carry()
        await self.leave()

    async def end(self) -> None:
        """Vanish and let the database go."""
        if not self.left:
            await self.crash()
        self.store.close()
