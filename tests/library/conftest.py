"""A scheduler inside the process of the tests, with real threads and a real database."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from rota.model.records import Run
from tests.waiting import until

LONG = 150.0
"""Seconds after which nothing is expected any more; no test comes near it."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "state" / "rota.db"


@pytest.fixture
def scheduler(store: Path) -> Iterator[rota.Scheduler]:
    """A scheduler that has not started; whatever a test leaves running is ended."""
    made = rota.Scheduler(store, stop_timeout=LONG)
    yield made
    made.stop(wait=False)


class Held:
    """A function that stays inside until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, context: rota.JobContext) -> None:
        self.begun.set()
        assert self.go_on.wait(LONG)

    def enter(self) -> None:
        """Wait until it has begun."""
        assert self.begun.wait(LONG)


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    made.go_on.set()


def first_run(scheduler: rota.Scheduler, job: str) -> Run:
    """Wait until the first run of a job is born and final."""
    until(lambda: scheduler.history(job), what=f"{job} to fire")
    return scheduler.sync.wait(f"{job}:1", timeout=LONG)


def run_now(scheduler: rota.Scheduler, job: str) -> Run:
    """Trigger a job and wait for its end."""
    made = scheduler.sync.trigger(job)
    assert made.success, made.error
    return scheduler.sync.wait(made.run_id or "", timeout=LONG)
