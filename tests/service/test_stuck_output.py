"""A scheduler whose stdout or stderr is not read: a stuck pager, Ctrl-S, a log shipper that hangs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.service.serving import Project, ended
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("service")

JOBS = """
defaults: {retry: false}
jobs:
  beat: {interval: 1s, first_run: now, command: ["true"]}
"""


@pytest.fixture
def stuck() -> Iterator[int]:
    """Return the end of a pipe that takes nothing more, since its reader does not read."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (1 << 16, 1):
        try:
            while True:
                os.write(writer, b"-" * size)
        except BlockingIOError:
            pass
    os.set_blocking(writer, True)
    yield writer
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("streams", [("stdout",), ("stderr",), ("stdout", "stderr")], ids="+".join)
def test_a_scheduler_fires_records_and_stops_while_its_output_is_stuck(
    project: Project, stuck: int, streams: tuple[str, ...]
) -> None:
    project.write(JOBS)
    project.rota("apply")
    into = {name: stuck if name in streams else subprocess.DEVNULL for name in ("stdout", "stderr")}
    command = [sys.executable, "-m", "rota", "--dir", str(project.folder), "serve", "--no-http", "--verbose"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=project.environment(), **into)
    project.servers.append(server)
    until(lambda: project.told("beat").count(("COMPLETED", None)) >= 2, what="two runs that have ended")
    server.send_signal(signal.SIGTERM)
    assert ended(server) == 0
