"""What the tests of the runners share."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from rota.model.states import Trigger
from rota.runners.environment import RunFacts, RunSurroundings

NOW = datetime(2026, 11, 15, 23, 30, 7, tzinfo=UTC)
RUN_ID = "019a8a2d-1000-7000-8000-00000000000a"


@pytest.fixture
def clock_now():
    return NOW


@pytest.fixture
def facts():
    return RunFacts(
        run_id=RUN_ID,
        handle="backup:7",
        job="backup",
        number=7,
        attempt=1,
        trigger=Trigger.SCHEDULE,
        scheduled_for=NOW,
        timezone="Europe/Paris",
        params={"full": False, "name": "a b", "depth": 3, "ratio": 0.5, "tags": ["x"], "none": None},
    )


@pytest.fixture
def around(tmp_path: Path):
    state = tmp_path / ".rota"
    state.mkdir()
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/home/d", "USER": "d", "LOGNAME": "d", "SHELL": "/bin/sh"}
    return RunSurroundings(project=tmp_path, state=state, folder=state / "run", environ=environ)
