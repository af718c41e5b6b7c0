"""Real ticks: they come and go, share their slots, are killed, and every run is accounted for (R-24)."""

import os
import signal
import subprocess
import sys

import pytest

from rota.cli.commands.tick import TELLS
from tests.service.serving import Process, Project, ended, gone, kill
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("service")

JOBS = """
scheduler: {concurrency: 2, shutdown_grace: 0s}
defaults: {retry: false}
jobs:
  long:
    command: [sh, -c, "echo $$ > pid; read line < gate; exit 7"]
    term_grace: 1s
  short: {command: [echo, hi there]}
"""


def tick(project: Project, *arguments: str) -> Process:
    """Start a tick and let it go on by itself; the project ends it if it is left."""
    started = project.start("tick", *arguments, log=project.folder / f"serve.{len(project.servers)}.log")
    project.servers.append(started)
    return started


def carrying(project: Project, *arguments: str) -> tuple[Process, int]:
    """Start a tick that carries a command which waits at a fifo; return it and the pid of the command."""
    os.mkfifo(project.folder / "gate")
    project.write(JOBS)
    project.rota("apply")
    project.rota("trigger", "long")
    started = tick(project, *arguments)
    until(lambda: _pid(project) or (not arguments and started.poll() is not None), what="the command to start")
    assert _pid(project), f"the tick ended {started.returncode} and started nothing: {project.log()}"
    return started, int(_pid(project))


def _pid(project: Project) -> str:
    path = project.folder / "pid"
    return path.read_text().strip() if path.exists() else ""


def open_gate(project: Project) -> None:
    (project.folder / "gate").write_text("go\n")


def test_a_tick_beside_one_that_carries_a_run_does_what_is_due(project: Project) -> None:
    """Long runs take a slot, not the clock; the tick that began one records its end."""
    first, _ = carrying(project)
    project.rota("trigger", "short")
    told = project.rota("tick", apart=True).stdout
    assert "short:1" in told
    assert (project.told("short"), project.told("long")) == ([("COMPLETED", None)], [("RUNNING", None)])
    assert first.poll() is None
    open_gate(project)
    assert ended(first) == 0
    assert project.told("long") == [("FAILED", "exit_code")]
    assert project.rota("verify").returncode == 0


def test_a_command_whose_tick_was_killed_is_adopted_by_the_next(project: Project) -> None:
    """R-23: kill -9 loses neither the run nor its exit code."""
    first, pid = carrying(project)
    kill(first)
    assert not gone(pid)
    second = tick(project)
    until(lambda: "1 recovered" in project.log(), what="the run to be adopted")
    open_gate(project)
    assert ended(second) == 0
    assert project.told("long") == [("FAILED", "exit_code")]
    assert project.history("long")[0]["exit_code"] == 7


def test_while_a_scheduler_serves_a_tick_does_nothing_and_says_so(project: Project) -> None:
    project.write(JOBS)
    server = project.serve()
    done = project.rota("tick", apart=True)
    assert f"process {server.pid} serves this project" in done.stdout
    assert project.json("tick")["left_to"] == "serve"


def test_a_detached_tick_returns_and_its_runs_are_carried_in_the_background(project: Project) -> None:
    """The manager of a timer starts no second tick while the first one stays."""
    first, _ = carrying(project, "--detach")
    assert ended(first) == 0
    assert "1 running (long:1)" in project.log()
    assert project.json("status")["state"] == "ticking"
    open_gate(project)
    project.until_told("long", [("FAILED", "exit_code")])


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["console", "json"])
def test_a_tick_in_the_background_goes_on_when_its_starter_is_gone_before_its_look_is_over(
    project: Project, flags: tuple[str, ...]
) -> None:
    """Its answer is optional: no reader of its streams and of its exit code is left."""
    project.write(
        "scheduler: {concurrency: 2}\ndefaults: {retry: false}\njobs:\n  short: {command: [echo, hi], overlap: allow}\n"
    )
    project.rota("apply")
    for _ in range(6):
        project.rota("trigger", "short")
    reader, writer = os.pipe()
    os.close(reader)
    tick_here = subprocess.Popen(
        [sys.executable, "-m", "rota", "--dir", str(project.folder), "tick", *flags],
        stdout=writer,
        stderr=writer,
        pass_fds=[writer],
        env={**project.environment(), TELLS: str(writer)},
        start_new_session=True,
    )
    project.servers.append(tick_here)
    os.close(writer)
    assert ended(tick_here) == 0
    assert project.told("short") == [("COMPLETED", None)] * 6


def test_an_interrupted_tick_ends_what_it_carries(project: Project) -> None:
    """R-08: as `rota serve` does."""
    first, pid = carrying(project)
    first.send_signal(signal.SIGINT)
    assert ended(first) == 0
    assert project.told("long") == [("FAILED", "shutdown")]
    assert gone(pid)


def test_a_scheduler_takes_over_from_a_tick_that_is_killed_beside_it(project: Project) -> None:
    """R-23: also a tick that began before it served, and carried a run in one of its slots."""
    first, _ = carrying(project)
    project.serve()
    project.rota("run", "short")
    assert project.told("long") == [("RUNNING", None)]
    kill(first)
    open_gate(project)
    project.until_told("long", [("FAILED", "exit_code")])
    assert project.history("short")[0]["status"] == "COMPLETED"


def test_a_wish_to_cancel_reaches_the_tick_that_carries_the_run(project: Project) -> None:
    first, pid = carrying(project)
    project.rota("cancel", "long:1")
    assert ended(first) == 0
    assert project.told("long") == [("CANCELLED", "requested")]
    assert gone(pid)
