"""Process trees of every shape under a real scheduler: nothing of them is left, however they are ended (F-28, R-28)."""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rota.engine.clock import SystemClock
from rota.operations.project.locate import open_state
from rota.operations.run_actions import trigger
from rota.operations.runs import show_run
from tests.service.keeping import PRELUDE
from tests.service.serving import Project, ended, kill
from tests.service.test_process_trees import SHAPES
from tests.waiting import until

SETTINGS = {"crash_guard": False, "shutdown_grace": "0", "concurrency": 64, "tick": "1s"}


class Mark:
    """A FIFO that every process of a tree holds open: its end is the proof that none of them is left."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def ready(self) -> bool:
        """Return whether the tree has grown."""
        try:
            return os.read(self._file, 1) == b"r"
        except BlockingIOError:
            return False

    def held(self) -> bool:
        """Return whether any process still has the marker open."""
        try:
            while os.read(self._file, 4096):
                pass
        except BlockingIOError:
            return True
        return False

    def close(self) -> None:
        """Let go of our end."""
        os.close(self._file)


class Forest(Project):
    """A project with one job for each shape."""

    def __init__(self, folder: Path, shapes: Sequence[str]) -> None:
        super().__init__(folder)
        names = {f"tree-{number}": shape for number, shape in enumerate(shapes)}
        self.marks = {name: Mark(folder / name) for name in names}
        self.shapes = names
        self.runs: dict[str, str] = {}
        jobs = {name: self._job(name, SHAPES[shape]) for name, shape in names.items()}
        self.write(json.dumps({"scheduler": SETTINGS, "jobs": jobs}))

    def _job(self, name: str, script: str) -> dict[str, object]:
        return {
            "command": [sys.executable, "-I", "-S", "-c", PRELUDE + script],
            "env": {"MARK": str(self.folder / name)},
            "term_grace": "1s",
            "on_restart": "kill",
        }

    def grow(self) -> None:
        """Serve, start every tree and wait until it has its shape."""
        self.rota("apply")
        self.serve()
        clock = SystemClock()
        store = open_state(self.state, clock, create=False)
        try:
            self.runs = {name: trigger(store, name, now=clock.now()).id for name in self.marks}
        finally:
            store.close()
        for name, mark in self.marks.items():
            until(mark.ready, what=f"the tree {self.shapes[name]!r} to grow")

    def until_ended(self) -> None:
        """Wait until every run is final."""
        store = open_state(self.state, SystemClock(), create=False)
        try:
            for run_id in self.runs.values():
                until(lambda run_id=run_id: show_run(store, run_id).run.status.final, what="the end")
        finally:
            store.close()

    def survivors(self) -> list[str]:
        """Return the shapes of which a process is left."""
        return [self.shapes[name] for name, mark in self.marks.items() if mark.held()]

    def close(self) -> None:
        """Kill what still serves, and let the marks go."""
        self.end()
        for mark in self.marks.values():
            mark.close()


def cancel(forest: Forest) -> None:
    """Cancel every tree from the command line."""
    forest.rota("cancel", *forest.runs.values())


def shut_down(forest: Forest) -> None:
    """End the scheduler by a signal."""
    forest.servers[-1].send_signal(signal.SIGTERM)
    assert ended(forest.servers[-1]) == 0


def die(forest: Forest) -> None:
    """Kill the scheduler and start another; the jobs say `on_restart: kill`."""
    kill(forest.servers[-1])
    forest.serve()


ENDINGS: dict[str, Callable[[Forest], None]] = {"cancel": cancel, "shutdown": shut_down, "death": die}


def fell(ending: str, shapes: Sequence[str], folder: Path) -> list[str]:
    """Grow trees of these shapes, end them, and return the shapes of which something is left."""
    forest = Forest(folder, shapes)
    try:
        forest.grow()
        ENDINGS[ending](forest)
        forest.until_ended()
        return forest.survivors()
    finally:
        forest.close()
