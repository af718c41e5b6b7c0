"""What the tests of real processes share: a spawner, a marker that every process of a run holds open, and scripts."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rota.model.ids import new_id
from rota.runners.spawn_client import Launch, Spawned, Spawner
from rota.runners.watch import wait_keeper
from tests.waiting import LONGEST_WAIT

RUN_ID = new_id(datetime(2026, 11, 15, tzinfo=UTC))
PYTHON = (sys.executable, "-I", "-S", "-c")
PRELUDE = """
import os, signal, sys
mark = os.open(os.environ["MARK"], os.O_WRONLY)
os.set_inheritable(mark, True)
def ready(): os.write(mark, b"r")
def rest():
    while True: signal.pause()
"""


TIMEOUTS = (0.4, 2.0, 10.0, 50.0)
"""For commands that must have begun before their timeout: a slow machine needs one of the later ones."""


def launch_of(*argv: str, **options: Any) -> Launch:
    env = {"PATH": os.environ["PATH"], "ROTA_RUN_ID": RUN_ID} | options.pop("env", {})
    return Launch(**{"argv": argv, "env": env, "cwd": "/", "timeout": 600.0, "term_grace": 600.0} | options)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask that the spawner and its keepers inherit."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


class Marker:
    """A FIFO that the processes of a run hold open: its end is the proof that none of them is left."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "mark"
        os.mkfifo(self.path)
        self.file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def script(self, text: str, **options: Any) -> Launch:
        options["env"] = {"MARK": str(self.path)} | options.get("env", {})
        return launch_of(*PYTHON, PRELUDE + text, **options)

    async def ready(self, count: int = 1) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(count):
            seen = loop.create_future()
            loop.add_reader(self.file, lambda seen=seen: seen.done() or seen.set_result(None))
            try:
                await asyncio.wait_for(seen, LONGEST_WAIT)
            finally:
                loop.remove_reader(self.file)
            assert os.read(self.file, 1) == b"r"

    def was_ready(self) -> bool:
        """Return whether the script came as far as being ready."""
        try:
            return os.read(self.file, 1) == b"r"
        except BlockingIOError:
            return False

    def held(self) -> bool:
        """Return whether any process still has the marker open."""
        try:
            while os.read(self.file, 4096):
                pass
        except BlockingIOError:
            return True
        return False


@asynccontextmanager
async def spawner() -> AsyncIterator[Spawner]:
    running = Spawner()
    try:
        yield running
    finally:
        running.stop()


Act = Callable[[Spawned], Awaitable[None]]


def start_alone(spawned: Spawned) -> None:
    """Start the command without a scheduler: the keeper leaves its outcome in a file."""
    spawned.open()
    spawned.close()


async def keep(launch: Launch, folder: Path, act: Act | None = None) -> dict[str, Any]:
    """Run `launch` to its end, doing `act` once its gate is open; return the keeper's outcome."""
    async with spawner() as running:
        spawned = await running.spawn(launch, folder)
        start_alone(spawned)
        if act is not None:
            await act(spawned)
        await asyncio.wait_for(wait_keeper(spawned.identity), LONGEST_WAIT)
    return read(folder)


def read(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "outcome.json").read_text())
