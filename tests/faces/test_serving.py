"""A real `rota serve` in a process of its own, and the commands that talk to it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from rota.cli.invocation import Invocation
from rota.cli.main import cli
from rota.operations.project.demo import LOCK, PREFIX, demo_folder, remove_dead_demos
from tests import forking
from tests.waiting import LONGEST_WAIT, until

JOBS = """timezone: Europe/Madrid
scheduler: {shutdown_grace: 2s}
defaults: {retry: false}
jobs:
  hello: {command: [echo, "hello {{ params.who }}"], params: {who: you}}
  bad: {shell: "echo oh no; exit 3"}
  twice: {shell: "exit 3", retry: {max_attempts: 2, backoff: 1h}}
  shut: {command: [echo, hi], conditions: [{command: [sh, -c, "exit 10"]}]}
  long: {command: [sleep, "300"], term_grace: 1s}
  often: {interval: 1s, command: [echo, often]}
"""


class Server:
    """A serving scheduler and its project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        printed, self.errors = folder / "console.out", folder / "console.err"
        self.process = forking.start(
            "rota",
            "--dir",
            str(folder),
            "serve",
            "--no-http",
            environment=self.environment,
            out=printed,
            err=self.errors,
        )
        self._console = printed.open()
        self._begun = ""
        self.heading = self.line()

    def line(self) -> str:
        """Wait for the next line of the console; an empty one is its end."""
        found: list[str] = until(self._look, what="a line of the console")
        return found[0]

    def _look(self) -> list[str] | None:
        over = self.process.poll() is not None
        self._begun += self._console.readline()
        if not self._begun.endswith("\n") and not over:
            return None
        line, self._begun = self._begun, ""
        return [line]

    def until(self, text: str) -> str:
        """Wait for a console line with `text`."""
        while text not in (line := self.line()):
            assert line, f"the console ended without {text!r}"
        return line

    def apart(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in a process of its own."""
        typed = ("--dir", str(self.folder), *arguments)
        return forking.run("rota", *typed, environment=self.environment, folder=self.folder, timeout=LONGEST_WAIT)

    def rota(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in this process."""
        invocation = Invocation(self.environment, self.folder)
        done = CliRunner().invoke(cli, list(arguments), obj=invocation)
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        """Return the JSON answer of a command, asked in this process."""
        return json.loads(self.rota(*arguments, "--json").stdout)

    def status(self) -> dict[str, Any]:
        """Wait until the loop tells how it is; a busy one may take more than its second."""
        told: dict[str, Any] = until(self._status, what="the scheduler to tell how it is")
        return told

    def _status(self) -> dict[str, Any] | None:
        told: dict[str, Any] = self.json("status")
        return told if told["state"] == "running" else None

    def start_long(self) -> None:
        """Start the long job and wait until its process runs."""
        self.until("  next ")
        self.rota("trigger", "long")
        started = until(lambda: self.json("show", "long:1")["execution"], what="the long job to start")
        until(lambda: psutil.Process(started["pid"]).children(), what="its keeper to open the gate")

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(LONGEST_WAIT)
        self._console.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A scheduler that serves, with its console in a file."""
    (tmp_path / "rota.yaml").write_text(JOBS)
    server = Server(tmp_path)
    yield server
    server.end()


def test_the_console_shows_what_was_applied_what_fires_and_how_it_ends(server: Server) -> None:
    assert f"serves {server.folder}, pid {server.process.pid}" in server.heading
    assert server.line() == "+ hello  created, by hand\n"
    assert "often" in server.until("  next ")
    server.until("fired")
    assert "COMPLETED" in server.until("often:1")
    server.process.send_signal(signal.SIGINT)
    server.until("stopped")
    assert server.process.wait(LONGEST_WAIT) == 0


def test_run_follows_a_command_to_its_end(server: Server) -> None:
    server.until("next")
    done = server.apart("run", "hello", "--param", "who=me")
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[1] == "│ hello me"
    failed = server.rota("run", "bad")
    assert failed.returncode == 1
    assert "FAILED exit_code" in failed.stdout
    assert "exit 3: oh no" in failed.stdout
    skipped = server.rota("run", "shut")
    assert skipped.returncode == 3
    assert "condition sh -c exit 10 is false" in skipped.stdout
    explained = server.rota("explain", "shut")
    assert "sh -c exit 10 → false (exit 10," in explained.stdout
    assert server.rota("logs", "hello").stdout == "hello me\n"


def test_run_says_that_a_failure_is_tried_again_and_retry_follows_a_run(server: Server) -> None:
    server.until("next")
    failed = server.rota("run", "twice", "--retry")
    assert failed.returncode == 1
    assert "twice:2  retrying, attempt 2 of 2 at " in failed.stdout
    assert failed.stdout.endswith("to cancel the retry: rota cancel twice:2\n")
    server.rota("cancel", "twice:2")
    again = server.rota("retry", "twice:1", "--follow")
    assert (again.returncode, "twice:3  FAILED exit_code" in again.stdout) == (1, True)


def test_status_is_told_by_the_loop_itself_r_22(server: Server) -> None:
    """R-22."""
    server.until("next")
    assert server.status()["pid"] == server.process.pid
    shown = until(lambda: not (ran := server.rota("status", "--loops")).returncode and ran, what="status to be well")
    assert f"scheduler running (pid {server.process.pid}, up " in shown.stdout
    assert "fire" in shown.stdout
    server.rota("run", "bad")
    assert server.status()["attention"]
    assert server.rota("status", "--strict").returncode == 1


def test_a_worker_that_serves_is_registered_with_its_counts(server: Server) -> None:
    server.start_long()
    (worker,) = server.json("status", "--poll")["workers"]
    told = server.json("status", "--poll", "--worker", worker["id"])
    assert told["orchestrator_registered"]
    assert told["workers"][0]["counts"]["claimed"] >= 1


def test_cancel_stops_a_running_command(server: Server) -> None:
    server.start_long()
    blocked = server.rota("run", "long")
    assert blocked.returncode == 6
    assert "long:1 is not finished" in blocked.stderr
    told = server.rota("cancel", "long").stdout
    assert told.startswith(("long:1  CANCELLED requested\n", "long:1  is being stopped: TERM was sent"))
    until(lambda: server.json("show", "long:1")["status"] != "RUNNING", what="the end")
    run = server.json("show", "long:1")
    assert (run["status"], run["reason"]) == ("CANCELLED", "requested")


def test_a_second_serve_names_the_first_one_s_pid(server: Server) -> None:
    server.until("next")
    second = server.apart("serve")
    assert second.returncode == 73
    assert f"process {server.process.pid} already serves" in second.stderr
    assert second.stdout == ""


def test_stop_waits_until_the_scheduler_is_gone(server: Server) -> None:
    server.start_long()
    dry = server.rota("stop", "--dry-run")
    assert f"would stop pid {server.process.pid}" in dry.stdout
    assert server.process.poll() is None
    stopped = server.apart("stop", "--now")
    assert stopped.returncode == 0, stopped
    assert stopped.stdout.splitlines()[-1] == f"stopped pid {server.process.pid}"
    server.until("stopped")
    assert server.process.wait(LONGEST_WAIT) == 0
    run = server.json("show", "long:1")
    assert (run["status"], run["reason"]) == ("FAILED", "shutdown")


def test_a_detached_command_goes_on_and_can_be_cancelled_without_a_scheduler_r_23(server: Server) -> None:
    """R-23."""
    server.start_long()
    assert server.rota("stop", "--detach").returncode == 0
    assert server.json("show", "long:1")["status"] == "RUNNING"
    told = server.rota("cancel", "long").stdout
    assert "no scheduler is running here, the next start records its end" in told


def test_a_broken_file_is_refused_at_the_first_start_with_65(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("jobs:\n  a: {every: 5m, command: [x]}\n")
    server = Server(tmp_path)
    assert server.process.wait(LONGEST_WAIT) == 65
    server.end()
    assert server.errors.read_text().splitlines()[0].startswith("rota.yaml:2:7: jobs.a.every: unknown key")


def test_a_file_that_breaks_later_leaves_the_last_good_set_and_shows_in_status(server: Server) -> None:
    server.until("next")
    (server.folder / "rota.yaml").write_text("jobs:\n  a: {every: 5m, command: [x]}\n")
    server.process.send_signal(signal.SIGHUP)
    told = until(lambda: (told := server.status())["file_problem"] and told, what="the problem in status")
    assert told["attention"][0]["command"] == "rota check"
    assert server.rota("run", "hello").returncode == 0


def test_the_example_project_passes_check(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "first"
    typed = ("--dir", str(example), "check", "--json")
    ran = forking.run("rota", *typed, environment=os.environ, folder=tmp_path, timeout=LONGEST_WAIT)
    assert [job["kind"] for job in json.loads(ran.stdout)["jobs"]] == [
        "command",
        "function",
        "shell",
        "command",
        "command",
    ]


def test_the_next_demo_removes_the_folder_of_a_killed_one_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, fresh, aside = (tmp_path / f"{PREFIX}{name}" for name in ("dead", "fresh", "aside"))
    for folder in (dead, fresh):
        folder.mkdir()
    (dead / LOCK).touch()
    aside.symlink_to(dead)
    with demo_folder() as alive:
        assert remove_dead_demos() == [dead]
        assert sorted(tmp_path.iterdir()) == sorted([alive, fresh, aside])
    assert not alive.exists()


def test_make_run_serves_the_demo_without_a_terminal_and_leaves_nothing(tmp_path: Path) -> None:
    """The first command of the README, on a machine that has never seen rota."""
    root = Path(__file__).parents[2]
    shutil.copy(root / "Makefile", tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = ["make", "--assume-old=setup", "run", f"BIN={Path(sys.executable).parent}"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(temporary)}
    printed = tmp_path / "printed"
    with printed.open("wb") as out:
        made = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0
        )
    try:
        until(lambda: "next " in printed.read_text() or made.poll(), what=printed.read_text)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(made.pid, signal.SIGINT)
        made.wait(LONGEST_WAIT)
    assert "next " in printed.read_text()
    assert until(lambda: not any(temporary.iterdir()), what="the end of the demo's folder")
