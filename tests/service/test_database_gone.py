"""A scheduler whose PostgreSQL goes away: it stays, says so, and goes on where it was."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.engine.wake import ask
from tests.postgres import lay_postgres
from tests.proxy import Proxy
from tests.service.machines import Machine
from tests.waiting import until

FILE = """
scheduler: {concurrency: 4}
jobs:
  hold: {command: [sh, -c, "while [ ! -e go ]; do sleep 0.1; done; echo done"]}
  short: {command: [echo, hi]}
"""


@pytest.fixture
def way(tmp_path: Path) -> Iterator[Proxy]:
    """A way to the database that can be cut."""
    folder = tmp_path / "w"
    folder.mkdir()
    proxy = Proxy(folder, lay_postgres("gone"))
    yield proxy
    proxy.close()


@pytest.fixture
def machine(tmp_path: Path, way: Proxy) -> Iterator[Machine]:
    made = Machine(tmp_path / "m", way.address, FILE)
    yield made
    made.end()


def test_a_run_that_ends_while_the_database_is_gone_is_recorded_when_it_is_back(machine: Machine, way: Proxy) -> None:
    """DEC-002: nothing exits, nothing is lost, claims go on; and status, health and commands say so meanwhile."""
    server = machine.serve()
    machine.rota("trigger", "hold")
    until(lambda: machine.running_on("hold"), what="the run to start")
    way.refuse()
    until(lambda: "cannot be reached since" in machine.rota("status", check=False).stdout, what="status to say so")
    assert (ask(machine.state, {"ask": "status"}) or {})["gone"]
    assert machine.rota("list", check=False).returncode == 69
    (machine.folder / "go").touch()
    tried = way.connections
    until(lambda: way.connections > tried, what="the scheduler to look for the database")
    os.kill(server.pid, 0)
    way.admit()
    until(lambda: machine.history("hold")[-1]["status"] == "COMPLETED", what="the result to be stored")
    machine.rota("run", "short")
    assert machine.clean() == "[]"
