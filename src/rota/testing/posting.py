"""A post for tests that sends nothing: it keeps the letters, and answers as it is told."""

import asyncio
from collections.abc import Callable

from rota.engine.ports import Letter
from rota.model.notify import Receipt, Target

DELIVERED = Receipt(ok=True, answer=200)


class ScriptedPost:
    """Keeps what was sent. `answer` decides what becomes of a letter; attempts to targets in `held` never end."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.pings: list[Target] = []
        self.answer: Callable[[Letter], Receipt] = lambda _letter: DELIVERED
        self.held: set[str] = set()

    async def send(self, letter: Letter) -> Receipt:
        """Keep a letter."""
        self.letters.append(letter)
        if letter.target.name in self.held:
            await asyncio.Event().wait()
        return self.answer(letter)

    async def ping(self, target: Target) -> Receipt:
        """Keep a ping."""
        self.pings.append(target)
        return DELIVERED

    def told(self) -> list[tuple[str, str, str]]:
        """Return who was told of what: target, event and run of each letter."""
        return [(one.target.name, one.payload["event"], one.payload["run"]) for one in self.letters]
