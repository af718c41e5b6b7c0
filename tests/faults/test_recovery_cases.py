"""R-23 on real processes: a reused pid, another boot, another pid namespace, a zombie keeper, recovery twice."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from rota.model.records import ProcessIdentity
from rota.runners.processes import identity, tagged
from tests.service.serving import Project, gone, kill
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

FILE = """
scheduler: {{crash_guard: false}}
defaults: {{retry: false}}
jobs:
  long: {{command: [sh, -c, "echo $$ > pid; exec sleep 1000"], term_grace: 1s, on_restart: {on_restart}}}
"""
EXECUTION = "SELECT run_id, boot_id, pid, pid_start FROM execution"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.end()


@pytest.fixture
def innocent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has no items with rota."""
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def killed_while_it_ran(project: Project, *, on_restart: str = "adopt", keeper_too: bool = True) -> int:
    """Serve until a command runs, then kill the scheduler and its keeper; return the command's pid."""
    project.write(FILE.format(on_restart=on_restart))
    server = project.serve()
    project.rota("trigger", "long")
    return _killed(project, server, keeper_too=keeper_too)


def _killed(project: Project, server: "subprocess.Popen[bytes]", *, keeper_too: bool) -> int:
    written = project.folder / "pid"
    until(lambda: written.exists() and written.read_text().strip(), what="a start")
    kill(server)
    if keeper_too:
        os.kill(execution(project)[1].pid, signal.SIGKILL)
        until(lambda: gone(execution(project)[1].pid), what="the keeper to be dead")
    return int(written.read_text())


def execution(project: Project) -> tuple[str, ProcessIdentity]:
    """Return the run and the keeper that is stored as its owner."""
    connection = apsw.Connection(str(project.state / "rota.db"))
    try:
        ((run_id, *found),) = connection.execute(EXECUTION).fetchall()
        return run_id, ProcessIdentity(*found)
    finally:
        connection.close()


def pretend(project: Project, **values: object) -> None:
    """Store another owner of the execution than the one that was there: the guard against that is lifted meanwhile."""
    connection = apsw.Connection(str(project.state / "rota.db"))
    try:
        ((guard,),) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'live_moves'").fetchall()
        connection.execute("DROP TRIGGER live_moves")
        for column, value in values.items():
            connection.execute(f"UPDATE live SET {column} = ?", (value,))
        connection.execute(guard)
    finally:
        connection.close()


@pytest.mark.parametrize("on_restart", ["adopt", "kill"])
def test_r23_an_innocent_process_with_the_keepers_old_pid_is_left_alone(
    on_restart: str, project: Project, innocent: "subprocess.Popen[bytes]"
) -> None:
    pid = killed_while_it_ran(project, on_restart=on_restart)
    pretend(project, pid=innocent.pid)
    project.serve()
    project.until_told("long", [("FAILED", "process_restarted")])
    until(lambda: gone(pid), what="the tree to be dead")
    assert innocent.poll() is None


def test_r23_a_cancel_never_signals_an_innocent_process_with_the_keepers_old_pid(
    project: Project, innocent: "subprocess.Popen[bytes]"
) -> None:
    killed_while_it_ran(project)
    pretend(project, pid=innocent.pid)
    assert "nor the process runs here" in project.rota("cancel", "long:1").stdout
    assert innocent.poll() is None
    project.serve()
    until(lambda: project.told("long")[0][0] in ("CANCELLED", "FAILED"), what="the end")
    assert innocent.poll() is None


def test_r23_after_a_reboot_the_run_is_failed_and_nothing_with_its_old_pid_is_touched(
    project: Project, innocent: "subprocess.Popen[bytes]"
) -> None:
    killed_while_it_ran(project)
    same = identity(innocent.pid)
    pretend(project, boot_id="another boot", pid=same.pid, pid_start=same.start)
    project.serve()
    project.until_told("long", [("FAILED", "process_restarted")])
    assert innocent.poll() is None


def test_r23_a_zombie_keeper_is_dead(project: Project) -> None:
    killed_while_it_ran(project)
    with subprocess.Popen(["true"]) as zombie:
        until(lambda: gone(zombie.pid), what="the child to be a zombie")
        pretend(project, pid=zombie.pid, pid_start=identity(zombie.pid).start)
        project.serve()
        project.until_told("long", [("FAILED", "process_restarted")])


def test_r23_recovery_twice_equals_once(project: Project) -> None:
    """The second scheduler dies too, after it has adopted: the third adopts once more, and nothing else changed."""
    pid = killed_while_it_ran(project, keeper_too=False)
    for _ in range(2):
        kill(project.serve())
        assert not gone(pid)
    project.serve()
    assert project.told("long") == [("RUNNING", None)]
    project.rota("cancel", "long:1")
    project.until_told("long", [("CANCELLED", "requested")])
    assert gone(pid)


INSIDE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def namespaces() -> bool:
    """Return whether this system lets us have a pid namespace of our own."""
    found = shutil.which("unshare")
    return found is not None and subprocess.run([*INSIDE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not namespaces(), reason="this system allows no pid namespace")
def test_r23_runs_of_a_pid_namespace_that_is_gone_are_failed(project: Project) -> None:
    """A container that was stopped: the same boot, the same folder, pids that mean something else now."""
    project.write(FILE.format(on_restart="adopt"))
    inside = [*INSIDE, sys.executable, "-m", "rota"]
    with open(project.folder / "inside.log", "wb") as log:
        container = subprocess.Popen(
            [*inside, "--dir", str(project.folder), "serve", "--no-http"],
            stdout=log,
            stderr=log,
            env=project.environment(),
        )
    until((project.state / "wake.sock").exists, what="the scheduler inside")
    until(lambda: project.rota("trigger", "long", check=False).returncode == 0, what="the file to be applied")
    _killed(project, container, keeper_too=False)
    run_id, _ = execution(project)
    until(lambda: not tagged(run_id), what="the namespace to be gone")
    project.serve()
    project.until_told("long", [("FAILED", "process_restarted")])
