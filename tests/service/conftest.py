"""Projects for tests with real schedulers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.serving import Project


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.end()
