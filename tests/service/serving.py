"""A real `rota serve` in a project of its own, and what tests need to watch it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from rota.engine.clock import SystemClock
from rota.engine.wake import ask

LONGEST_WAIT = 30.0


def until(condition: Callable[[], Any], *, what: str, timeout: float = LONGEST_WAIT) -> Any:
    """Return the first true value of `condition`, which another process brings about."""
    pause, clock = threading.Event(), SystemClock()
    deadline = clock.monotonic() + timeout
    while clock.monotonic() < deadline:
        found = condition()
        if found:
            return found
        pause.wait(0.02)
    raise AssertionError(f"waited {timeout} s for {what}")


class Project:
    """A folder with a rota.yaml, its commands and its schedulers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / ".rota"
        self.servers: list[subprocess.Popen[bytes]] = []

    def write(self, text: str) -> None:
        """Write the project's file, as an editor does: whole, under a new inode."""
        fresh = self.folder / "rota.yaml.new"
        fresh.write_text(text)
        fresh.rename(self.folder / "rota.yaml")

    def rota(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        command = [sys.executable, "-m", "rota", "--dir", str(self.folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=self.environment())
        assert not check or done.returncode == 0, (
            f"rota {arguments} ended {done.returncode}: {done.stdout}{done.stderr}"
        )
        return done

    def json(self, *arguments: str) -> Any:
        """Run a command with --json and return what it printed."""
        return json.loads(self.rota(*arguments, "--json").stdout)

    def serve(self, *, ready: bool = True) -> "subprocess.Popen[bytes]":
        """Start a scheduler and wait until its loop answers."""
        command = [sys.executable, "-m", "rota", "--dir", str(self.folder), "serve"]
        with open(self.folder / f"serve.{len(self.servers)}.log", "wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment())
        self.servers.append(server)
        if ready:
            until(lambda: self._answers(server), what="the scheduler to answer")
        return server

    def _answers(self, server: "subprocess.Popen[bytes]") -> bool:
        assert server.poll() is None, f"serve ended {server.returncode}: {self.log()}"
        answer = ask(self.state, {"ask": "status"})
        return answer is not None and answer.get("pid") == server.pid

    def log(self) -> str:
        """Return what the newest scheduler printed."""
        return (self.folder / f"serve.{len(self.servers) - 1}.log").read_text()

    def environment(self) -> dict[str, str]:
        """Return the environment of commands and schedulers."""
        dropped = ("ROTA_", "COVERAGE_")
        return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}

    def history(self, job: str) -> list[dict[str, Any]]:
        """Return a job's runs, oldest first."""
        runs: list[dict[str, Any]] = self.json("history", job, "--limit", "1000")
        return runs[::-1]

    def told(self, job: str) -> list[tuple[str, str | None]]:
        """Return status and reason of a job's runs, oldest first."""
        return [(run["status"], run["reason"]) for run in self.history(job)]

    def until_told(self, job: str, expected: list[tuple[str, str | None]]) -> None:
        """Wait until a job's runs are as expected."""
        until(lambda: self.told(job) == expected, what=f"{job} to be {expected}, it is {self.told(job)}")

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


def kill(server: "subprocess.Popen[bytes]") -> None:
    """End a scheduler as a power cut would."""
    server.send_signal(signal.SIGKILL)
    server.wait()


def gone(pid: int) -> bool:
    """Tell whether a process has ended; a zombie has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state == "Z"
