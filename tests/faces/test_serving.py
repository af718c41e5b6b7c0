"""A real `rota serve` in a process of its own, and the commands that talk to it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE = 20
JOBS = """timezone: Europe/Madrid
scheduler: {shutdown_grace: 2s}
jobs:
  hello: {command: [echo, "hello {{ params.who }}"], params: {who: you}}
  bad: {shell: "echo oh no; exit 3"}
  shut: {command: [echo, hi], conditions: [{command: [sh, -c, "exit 10"]}]}
  long: {command: [sleep, "300"], term_grace: 1s}
  often: {interval: 1s, command: [echo, often]}
"""


class Server:
    """A serving scheduler and its project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = self.command("serve")
        self.heading = self.line()

    def command(self, *arguments: str) -> "subprocess.Popen[str]":
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        return subprocess.Popen(
            [sys.executable, "-m", "rota", *arguments],
            cwd=self.folder,
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def line(self) -> str:
        """Wait for the next line of the console."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def until(self, text: str) -> str:
        """Wait for a console line with `text`."""
        while text not in (line := self.line()):
            assert line, f"the console ended without {text!r}"
        return line

    def rota(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        process = self.command(*arguments)
        stdout, stderr = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def start_long(self) -> None:
        """Start the long job and wait until its process runs."""
        self.rota("trigger", "long")
        while json.loads(self.rota("show", "long:1", "--json").stdout)["execution"] is None:
            assert self.process.poll() is None

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A scheduler that serves, with its console on a pipe."""
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
    assert server.process.wait(PATIENCE) == 0


def test_run_follows_a_command_to_its_end(server: Server) -> None:
    done = server.rota("run", "hello", "--param", "who=me")
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


def test_status_is_told_by_the_loop_itself_r_22(server: Server) -> None:
    """R-22."""
    server.until("next")
    told = json.loads(server.rota("status", "--json").stdout)
    assert (told["state"], told["pid"]) == ("running", server.process.pid)
    shown = server.rota("status", "--loops")
    assert shown.returncode == 0
    assert f"scheduler running (pid {server.process.pid}, up " in shown.stdout
    assert "fire" in shown.stdout
    server.rota("run", "bad")
    assert server.rota("status").returncode == 0
    assert server.rota("status", "--strict").returncode == 1


def test_cancel_stops_a_running_command(server: Server) -> None:
    assert server.rota("trigger", "long").returncode == 0
    blocked = server.rota("run", "long")
    assert blocked.returncode == 6
    assert "long:1 is not finished" in blocked.stderr
    stopped = server.rota("cancel", "long")
    assert stopped.stdout == "long:1  CANCELLED requested\n"


def test_a_second_serve_names_the_first_one_s_pid(server: Server) -> None:
    server.until("next")
    second = server.rota("serve")
    assert second.returncode == 73
    assert f"process {server.process.pid} serves" in second.stderr
    assert second.stdout == ""


def test_stop_waits_until_the_scheduler_is_gone(server: Server) -> None:
    server.until("next")
    dry = server.rota("stop", "--dry-run")
    assert f"would stop pid {server.process.pid}" in dry.stdout
    assert server.process.poll() is None
    server.start_long()
    stopped = server.rota("stop", "--now")
    assert stopped.returncode == 0, stopped
    assert stopped.stdout.splitlines()[-1] == f"stopped pid {server.process.pid}"
    server.until("stopped")
    assert server.process.wait(PATIENCE) == 0
    run = json.loads(server.rota("show", "long:1", "--json").stdout)
    assert (run["status"], run["reason"]) == ("FAILED", "shutdown")


def test_a_detached_command_goes_on_and_can_be_cancelled_without_a_scheduler_r_23(server: Server) -> None:
    """R-23."""
    server.start_long()
    assert server.rota("stop", "--detach").returncode == 0
    assert json.loads(server.rota("show", "long:1", "--json").stdout)["status"] == "RUNNING"
    told = server.rota("cancel", "long").stdout
    assert "no scheduler is running here, the next start records its end" in told


def test_a_broken_file_is_refused_at_the_first_start_with_65(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("jobs:\n  a: {every: 5m, command: [x]}\n")
    server = Server(tmp_path)
    _, stderr = server.process.communicate(timeout=PATIENCE)
    assert server.process.returncode == 65
    assert stderr.splitlines()[0].startswith("rota.yaml:2:7: jobs.a.every: unknown key")


def test_a_file_that_breaks_later_leaves_the_last_good_set_and_shows_in_status(server: Server) -> None:
    server.until("next")
    (server.folder / "rota.yaml").write_text("jobs:\n  a: {every: 5m, command: [x]}\n")
    server.process.send_signal(signal.SIGHUP)
    while not (told := json.loads(server.rota("status", "--json").stdout))["file_problem"]:
        pass
    assert told["attention"][0]["command"] == "rota check"
    assert server.rota("run", "hello").returncode == 0


def test_the_example_project_passes_check() -> None:
    example = Path(__file__).parents[2] / "examples" / "first"
    ran = subprocess.run(
        [sys.executable, "-m", "rota", "--dir", str(example), "check", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [job["kind"] for job in json.loads(ran.stdout)["jobs"]] == [
        "command",
        "function",
        "shell",
        "command",
        "command",
    ]
