"""A real `rota serve` in a project of its own, and what tests need to watch it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
from click.testing import CliRunner

from rota.cli.invocation import Invocation
from rota.cli.main import cli
from rota.engine.membership.control import ask
from tests import forking
from tests.waiting import LONGEST_WAIT, until

Process = subprocess.Popen[bytes] | forking.Forked


class Project:
    """A folder with a rota.yaml, its commands and its schedulers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / ".rota"
        self.apart = False  # True: every command needs a process of its own
        self.servers: list[Process] = []

    def write(self, text: str) -> None:
        """Write the project's file, as an editor does: whole, under a new inode."""
        fresh = self.folder / "rota.yaml.new"
        fresh.write_text(text)
        fresh.rename(self.folder / "rota.yaml")

    def rota(self, *arguments: str, check: bool = True, apart: bool = False) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end: here, or in a process of its own where the test is about that process."""
        run = self._apart if apart or self.apart or arguments[0] == "serve" else self._here
        done = run(*arguments)
        assert not check or done.returncode == 0, (
            f"rota {arguments} ended {done.returncode}: {done.stdout}{done.stderr}"
        )
        return done

    def _apart(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        typed, environment = ("--dir", str(self.folder), *arguments), self.environment()
        if forking.can_fork(environment):
            return forking.run("rota", *typed, environment=environment, folder=self.folder, timeout=LONGEST_WAIT)
        return subprocess.run(
            [sys.executable, "-m", "rota", *typed],
            capture_output=True,
            text=True,
            timeout=LONGEST_WAIT,
            check=False,
            env=environment,
        )

    def _here(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        done = CliRunner().invoke(cli, list(arguments), obj=Invocation(self.environment(), self.folder))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        """Run a command with --json and return what it printed."""
        return json.loads(self.rota(*arguments, "--json").stdout)

    def json_of(self, *arguments: str) -> Any:
        """Return what a command printed with --json, however it ended."""
        return json.loads(self.rota(*arguments, "--json", check=False).stdout)

    def serve(self, *flags: str, ready: bool = True, http: bool = False) -> Process:
        """Start a scheduler and wait until it has recovered, applied its file and begun its rounds."""
        flags = flags if http else (*flags, "--no-http")
        server = self.start("serve", *flags, log=self.folder / f"serve.{len(self.servers)}.log")
        self.servers.append(server)
        if ready:
            until(lambda: self._answers(server), what="the scheduler to serve")
        return server

    def start(self, *arguments: str, log: Path) -> Process:
        """Start a command in a process of its own, which prints into a file."""
        typed, environment = ("--dir", str(self.folder), *arguments), self.environment()
        if forking.can_fork(environment):
            return forking.start("rota", *typed, environment=environment, out=log)
        with log.open("wb") as out:
            command = [sys.executable, "-m", "rota", *typed]
            return subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment)

    def _answers(self, server: Process) -> bool:
        assert server.poll() is None, f"serve ended {server.returncode}: {self.log()}"
        answer = ask(self.state, {"ask": "status"})
        if answer is None or answer.get("pid") != server.pid:
            return False
        return any(loop["name"] == "watch" and loop["rounds"] for loop in answer["loops"])

    def scheduler(self) -> dict[str, Any]:
        """Return what `rota status` tells of a scheduler that lives; a busy one may take more than its second."""
        told: dict[str, Any] = until(self._told_by_its_loop, what="the scheduler to tell how it is")
        return told

    def _told_by_its_loop(self) -> dict[str, Any] | None:
        told: dict[str, Any] = json.loads(self.rota("status", "--json", check=False).stdout)
        return told if told["state"] in ("running", "failing") else None

    def log(self) -> str:
        """Return what the newest scheduler printed."""
        return (self.folder / f"serve.{len(self.servers) - 1}.log").read_text()

    def environment(self) -> dict[str, str]:
        """Return the environment of commands and schedulers."""
        dropped = ("ROTA_", "COVERAGE_")
        found = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        return {**found, "ROTA_TRUST": str(self.folder)}

    def history(self, job: str) -> list[dict[str, Any]]:
        """Return a job's runs, oldest first."""
        runs: list[dict[str, Any]] = self.json("history", job, "--limit", "1000")
        return runs[::-1]

    def told(self, job: str) -> list[tuple[str, str | None]]:
        """Return status and reason of a job's runs, oldest first."""
        return [(run["status"], run["reason"]) for run in self.history(job)]

    def until_told(self, job: str, expected: list[tuple[str, str | None]]) -> None:
        """Wait until a job's runs are as expected."""
        until(lambda: self.told(job) == expected, what=lambda: f"{job} to be {expected}, it is {self.told(job)}")

    def vanish(self) -> None:
        """Take the state folder away, in one step: a scheduler may be writing into it."""
        gone = self.folder / "gone"
        self.state.rename(gone)
        shutil.rmtree(gone)

    def end(self) -> None:
        """Kill what still serves, and the commands that outlived it: a keeper without one leaves by itself."""
        for server in self.servers:
            if server.poll() is None:
                server.kill()
            server.wait()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("ROTA_PROJECT_DIR") == str(self.folder):
                    process.kill()


def ended(server: Process) -> int:
    """Wait until a scheduler has ended; return its exit code."""
    return server.wait(LONGEST_WAIT)


def kill(server: Process) -> None:
    """End a scheduler as a power cut would."""
    server.send_signal(signal.SIGKILL)
    server.wait()


def gone(pid: int) -> bool:
    """Return whether a process has ended; a zombie has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state == "Z"
