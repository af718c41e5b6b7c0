"""A scheduler whose PostgreSQL goes away: it stays, says so, and goes on where it was."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from rota.engine.clock import SystemClock
from rota.engine.loops.leases import lose
from rota.engine.membership.control import ask
from rota.store.postgres.setup import open_postgres
from rota.store.tables import processes
from tests.postgres import lay_postgres, spoil_postgres
from tests.proxy import Proxy
from tests.service.machines import Machine
from tests.service.serving import ended, gone
from tests.waiting import until

FILE = """
scheduler: {concurrency: 4, shutdown_grace: "0"}
jobs:
  hold: {command: [sh, -c, "while [ ! -e go ]; do sleep 0.1; done; echo done"]}
  short: {command: [echo, hi]}
"""


@pytest.fixture
def straight() -> str:
    """The address of the database that nobody cuts off."""
    return lay_postgres("gone")


@pytest.fixture
def way(tmp_path: Path, straight: str) -> Iterator[Proxy]:
    """A way to the database that can be cut."""
    folder = tmp_path / "w"
    folder.mkdir()
    proxy = Proxy(folder, straight)
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


def declare_lost(address: str) -> None:
    """Say of whoever serves that it is lost, as another machine does."""
    clock = SystemClock()
    store = open_postgres(address, now=clock.now)
    try:
        (served,) = store.read(processes.open_processes)
        store.write(partial(lose, epoch=served.epoch, worker="here", now=clock.now(), forced=True))
    finally:
        store.close()


def test_who_was_declared_lost_begins_anew_whatever_keeps_it_from_that(
    machine: Machine, way: Proxy, straight: str
) -> None:
    """R-22: it ends its tree, waits for held rows and for the database, and does not exit."""
    server = machine.serve("--name", "here")
    machine.rota("trigger", "hold")
    until(lambda: machine.running_on("hold"), what="the run to start")
    tree = machine.processes()
    assert tree
    way.refuse()
    declare_lost(straight)
    with psycopg.connect(straight) as held:
        held.execute("SELECT 1 FROM worker FOR UPDATE")
        way.admit()
        until(lambda: all(gone(pid) for pid in tree), what="its tree to end")
        until(lambda: "database not ready at startup" in machine.log(), what="it to meet the row that is held")
        way.refuse()
        until(lambda: machine.log().count("database unreachable") > 1, what="it to miss the database")
        assert (ask(machine.state, {"ask": "status"}) or {})["gone"]
    (machine.folder / "go").touch()
    way.admit()
    until(lambda: machine.history("hold")[-1]["status"] == "COMPLETED", what="the next attempt")
    assert machine.told("hold") == [("FAILED", "worker_lost"), ("COMPLETED", None)]
    assert machine.workers()["here"]["state"] == "alive"
    assert machine.clean() == "[]"
    server.terminate()
    assert ended(server) == 0


def test_a_stop_while_the_database_is_gone_ends_and_the_next_start_records_what_was_left(
    machine: Machine, way: Proxy
) -> None:
    """R-08, R-23: nobody waits for the database without end, and nothing is lost with that."""
    server = machine.serve()
    machine.rota("trigger", "hold")
    until(lambda: machine.running_on("hold"), what="the run to start")
    tree = machine.processes()
    way.refuse()
    until(lambda: "database unreachable" in machine.log(), what="it to miss the database")
    server.terminate()
    assert ended(server) == 69
    until(lambda: all(gone(pid) for pid in tree), what="its tree to end")
    assert "a result could not be stored" in machine.log()
    way.admit()
    (machine.folder / "go").touch()
    machine.serve()
    until(lambda: machine.history("hold")[-1]["status"] == "COMPLETED", what="the next attempt")
    assert [status for status, _ in machine.told("hold")] == ["FAILED", "COMPLETED"]
    assert machine.clean() == "[]"


def _emptied(straight: str) -> bool:
    """Drop the schema; a scheduler that reads it meanwhile may make that a deadlock."""
    try:
        with psycopg.connect(straight, autocommit=True) as server:
            server.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    except psycopg.errors.DeadlockDetected:
        return False
    return True


def test_a_scheduler_whose_server_is_empty_is_unhealthy(machine: Machine, straight: str) -> None:
    """Fire and claim fail round after round: status and health say so, with the error."""
    machine.serve()
    until(lambda: _emptied(straight), what="the schema to be dropped")
    spoil_postgres(straight)
    told = until(lambda: (ask(machine.state, {"ask": "status"}) or {}).get("failing"), what="the failure to be told")
    assert told["code"] == "database_corrupt"
    found = machine.rota("status", check=False)
    assert found.returncode == 1
    assert "nothing starts" in found.stdout
