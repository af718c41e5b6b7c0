"""Processes of rota that need not import it: one that has imported everything forks them; all that they do is theirs.

For tests that need many schedulers and commands in processes of their own. Those that are about how a process begins
execute the interpreter.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from rota.engine.clock import SystemClock

ROOT = Path(__file__).parents[1]
LOOK_AGAIN = 0.005
LOOK_AGAIN_AT_LAST = 0.05
MODULES = ("rota.serve.daemon", "rota.serve.tick", "rota.testing", "pytest", "hypothesis", "anyio", "psutil")
PROGRAMS = ("rota.runners", "rota.__main__")
"""What is executed by itself; the rest imports of it what it needs."""
UNWRITTEN = 120
"""How Python ends when it cannot write what was printed."""
AT_START = ("LD_PRELOAD", "PYTHON")
"""What only a program that is executed looks at."""


class Forked:
    """A forked process, as `subprocess.Popen` shows one."""

    def __init__(self, parent: "Parent", pid: int, args: Sequence[str]) -> None:
        self.pid = pid
        self.args = args
        self.returncode: int | None = None
        self._parent = parent

    def poll(self) -> int | None:
        """Return its exit code once it has ended; that of a signal is negative."""
        if self.returncode is None:
            self.returncode = self._parent.ask({"look": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; return its exit code."""
        clock = SystemClock()
        deadline = None if timeout is None else clock.monotonic() + timeout
        pause = LOOK_AGAIN
        while True:
            late = deadline is not None and clock.monotonic() >= deadline
            code = self.poll()
            if code is not None:
                return code
            if late:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            threading.Event().wait(pause)
            pause = min(1.5 * pause, LOOK_AGAIN_AT_LAST)

    def send_signal(self, number: int) -> None:
        """Send it a signal unless it has ended: nobody else can have its pid before it was looked at."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.send_signal(signal.SIGKILL)


class Parent:
    """Our end of the process that forks."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.forking"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True, env={**os.environ}
        )

    def end(self) -> None:
        """Let it go: it ends when nobody can ask any more, which also counts what its children used as ours."""
        self._process.communicate()

    def ask(self, question: Mapping[str, Any]) -> Any:
        """Have a process forked or looked at."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process that forks has ended"
        return json.loads(answer)


def parent() -> Parent:
    """Return the process that forks, of which each process of the tests has one; it ends with us."""
    return _parent_of(os.getpid())


@cache
def _parent_of(_pid: int) -> Parent:
    made = Parent()
    atexit.register(made.end)
    return made


def can_fork(environment: Mapping[str, str]) -> bool:
    """Return whether a process in this environment may be forked: not where the environment decides how it begins."""
    return all(os.environ.get(name) == value for name, value in environment.items() if name.startswith(AT_START))


def start(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    out: Path,
    err: Path | None = None,
    into: Path = Path(os.devnull),
) -> Forked:
    """Start what `python -m module arguments` would do; it reads `into`, and each of the three may be a named pipe."""
    err = err or out
    for path in (out, err):
        if not path.is_fifo():
            path.write_bytes(b"")
    wanted = {"module": module, "arguments": arguments, "environment": dict(environment)}
    asked = {**wanted, "into": str(into), "out": str(out), "err": str(err)}
    return Forked(parent(), parent().ask({"start": asked}), [module, *arguments])


def run(
    module: str, *arguments: str, environment: Mapping[str, str], folder: Path, timeout: float
) -> "subprocess.CompletedProcess[str]":
    """Run what `python -m module arguments` would do to its end, and return what it printed."""
    out, err = (folder / f"forked.{os.urandom(8).hex()}.{name}" for name in ("out", "err"))
    process = start(module, *arguments, environment=environment, out=out, err=err)
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    printed = [path.read_text(errors="replace") for path in (out, err)]
    for path in (out, err):
        path.unlink()
    return subprocess.CompletedProcess(process.args, code, *printed)


def _fork_what_is_asked() -> dict[str, Any]:
    """Fork until nobody asks any more; return, in each child, what it is to do."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "start" in asked:
            pid = os.fork()
            if pid == 0:
                return dict(asked["start"])
            answer: int | None = pid
        else:
            done, status = os.waitpid(asked["look"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if done else None
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    os._exit(0)


def _become(wanted: Mapping[str, Any]) -> None:
    """Do what was asked for, with streams and an environment of its own; the crash points are read anew."""
    from rota import faults

    os.environ.clear()
    os.environ.update(wanted["environment"])
    time.tzset()
    flags = os.O_WRONLY | os.O_APPEND
    for number, path in ((0, wanted["into"]), (1, wanted["out"]), (2, wanted["err"])):
        opened = os.open(path, flags if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    importlib.reload(faults)
    sys.argv = [wanted["module"], *wanted["arguments"]]
    runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)


def _leave(code: object) -> NoReturn:
    """End as an interpreter does, but for taking everything apart: that would copy all that is shared until then."""
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
    threading._shutdown()  # type: ignore[attr-defined] # the other threads come to their end
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        os._exit(UNWRITTEN)
    os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


def _import_everything() -> None:
    import rota

    for found in pkgutil.walk_packages(rota.__path__, "rota."):
        if not found.name.startswith(PROGRAMS):
            with contextlib.suppress(Exception):  # an extra that is not installed; who needs the module will say so
                importlib.import_module(found.name)
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what all children share is not written to


if __name__ == "__main__":
    _import_everything()
    try:
        _become(_fork_what_is_asked())
    except SystemExit as end:
        _leave(end.code)
    _leave(None)
