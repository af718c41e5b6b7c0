"""A scene to play on: real engine and database, fake clock, scripted processes."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rota.model.clock import parse_duration
from rota.model.ids import begin_again
from rota.model.spec import JobSpec, Kind, Misfire, MisfirePolicy, Overlap, OverlapPolicy, Retry, Schedule, Work
from rota.operations.verify.report import AuditReport
from rota.operations.verify.verify import verify
from tests.scene import Scene, forget_scenes

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def fresh_ids() -> None:
    """Begin identifiers anew: those of other tests may lie in this one's future."""
    begin_again(os.urandom)
    forget_scenes()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def unaudited(tmp_path: Path) -> AsyncIterator[Scene]:
    """A scheduler that has just started, at noon; for tests that break its database on purpose."""
    made = Scene(tmp_path, NOON)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def scene(unaudited: Scene) -> AsyncIterator[Scene]:
    """A scheduler that has just started, at noon; what the test leaves is audited."""
    yield unaudited
    assert audit(unaudited).violations == ()


def audit(scene: Scene, **changes: Any) -> AuditReport:
    """Return what `rota verify` finds in a scene."""
    return verify(scene.store, scene.settings.state, now=scene.clock.now(), alive=scene.processes.alive, **changes)


def command(name: str, **changes: Any) -> JobSpec:
    """Return a command job without retries; `schedule`, `misfire`, `overlap` and other parts may be given."""
    return replace(JobSpec(name, Work(Kind.COMMAND, command=("true",)), retry=NO_RETRY), **changes)


def function(name: str, *, called: str = "", **changes: Any) -> JobSpec:
    """Return a job of a Python function inside the process, without retries."""
    return replace(JobSpec(name, Work(Kind.FUNCTION, function=called or name), retry=NO_RETRY), **changes)


def every(interval: str, **changes: Any) -> Schedule:
    """Return an interval schedule."""
    return Schedule(interval=parse_duration(interval), **changes)


def cron(text: str, **changes: Any) -> Schedule:
    """Return a cron schedule."""
    return Schedule(cron=(text,), **changes)


NO_RETRY = Retry(max_attempts=1)
ONCE = Misfire(MisfirePolicy.ONCE)
QUEUE = Overlap(OverlapPolicy.QUEUE)
REPLACE = Overlap(OverlapPolicy.REPLACE)
ALLOW = Overlap(OverlapPolicy.ALLOW)
