"""The keeper of one run (R-28): holds the gate, starts the command, bounds output and time, leaves no process behind.

Standard library only. It is forked by the spawner, outlives the scheduler, and its one result is `outcome.json`.
"""

import ctypes
import errno
import fcntl
import gc
import json
import os
import select
import signal
import time
from typing import Any, NoReturn

from rota import faults
from rota.runners.tree import LINUX, descendants, send, signal_all
from rota.runners.writer import BoundedWriter

SET_CHILD_SUBREAPER = 36
READ_SIZE = 1 << 20
SWEEP_PAUSE = 0.01
UNKILLABLE_AFTER = 30.0
RETRY_PAUSE = 1.0
HIGHEST_FILE = 1 << 20
OUTCOME = "outcome.json"
ORDERS = (signal.SIGTERM, signal.SIGUSR1)
_RESET = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)


def keep(gate: int, spec_file: int) -> NoReturn:
    """Be the keeper of one run: never return."""
    code = 1
    try:
        gc.disable()
        code = Keeper(gate, spec_file).run()
    finally:
        os._exit(code)


def become_subreaper() -> None:
    """Make orphans below this process its own children, where the system can."""
    if LINUX and not faults.planted("group_kill_only"):
        ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Keeper:
    """One run from its gate to its outcome file."""

    def __init__(self, gate: int, spec_file: int) -> None:
        self.gate = gate
        self.spec = json.loads(os.pread(spec_file, os.fstat(spec_file).st_size, 0))
        os.close(spec_file)
        self.folder: str = self.spec["folder"]
        self.output = BoundedWriter(self.folder, self.spec["output"], limit=self.spec["output_limit"])
        self.stops = 0
        self.kill_now = False
        self.why = "exited"
        self.status: int | None = None
        self.error: str | None = None
        self.left: list[int] = []
        self.child = 0
        self.pipe = self.failure = -1
        self.started_at = time.time()
        self.deadline = self.kill_at = self.give_up_at = float("inf")
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        self._listen(wake)

    def _listen(self, wake: int) -> None:
        os.setsid()
        become_subreaper()
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGUSR1, self._on_kill)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ORDERS)

    def _on_stop(self, *_: Any) -> None:
        self.stops += 1
        self.kill_now = self.kill_now or self.stops > 1

    def _on_kill(self, *_: Any) -> None:
        self.stops += 1
        self.kill_now = True

    def run(self) -> int:
        """Wait at the gate, run the command to its end, store the outcome; return the exit code."""
        faults.point("keeper.at_gate")
        if os.read(self.gate, 1) != b"g":
            return 125
        os.close(self.gate)
        faults.point("keeper.gate_passed")
        self.started_at = time.time()
        if self.stops:
            self.why = "stopped"
        else:
            self._start()
            while self._alive():
                self._step()
            self._drain()
        self.output.close()
        return self._store()

    def _start(self) -> None:
        self.pipe, out = os.pipe()
        self.failure, report = os.pipe()
        os.set_blocking(self.pipe, False)
        widen(self.pipe)
        if self.spec["timeout"] is not None:
            self.deadline = time.monotonic() + self.spec["timeout"]
        # A signal between fork and exec would run the keeper's handler in the child and be lost to the command.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.child = os.fork()
            if not self.child:
                become_command(self.spec, out, report)
        except OSError as error:
            self.why, self.error = "spawn_failed", f"cannot fork: {error.strerror}"
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.close(out)
        os.close(report)
        faults.point("keeper.forked")

    def _alive(self) -> bool:
        """Reap what has ended; tell whether anything is left that can be waited for."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return not self.left
                if pid == self.child:
                    self._ended(os.waitstatus_to_exitcode(status))
        except ChildProcessError:
            return bool(self._strays())

    def _ended(self, status: int) -> None:
        self.status = status
        faults.point("keeper.command_ended")
        # Whoever was asked to stop keeps the rest of the grace; what a command leaves behind by itself gets none.
        if self.kill_at == float("inf"):
            self.kill_at = time.monotonic()

    def _step(self) -> None:
        now = time.monotonic()
        self._advance(now)
        until = min(self.deadline, self.kill_at) if self.give_up_at == float("inf") else now + SWEEP_PAUSE
        self._wait(None if until == float("inf") else max(0.0, until - now))

    def _advance(self, now: float) -> None:
        if self.kill_at == float("inf") and (self.stops or now >= self.deadline):
            self.why = "stopped" if self.stops else "timed_out"
            self.kill_at = now + self.spec["term_grace"]
            # CONT lets a stopped process see its TERM.
            self._signal(signal.SIGTERM, signal.SIGCONT)
            faults.point("keeper.term_sent")
        self.deadline = float("inf") if self.kill_at != float("inf") else self.deadline
        if self.kill_now:
            self.kill_at = min(self.kill_at, now)
        if now >= self.kill_at:
            self._kill(now)

    def _kill(self, now: float) -> None:
        survivors = self._signal(signal.SIGKILL)
        if self.give_up_at == float("inf"):
            self.give_up_at = now + self.spec.get("unkillable_after", UNKILLABLE_AFTER)
        elif now >= self.give_up_at and survivors:
            self.why, self.left = "unkillable", survivors

    def _signal(self, *signals: int) -> list[int]:
        if faults.planted("group_kill_only") and self.child:
            send(-self.child, *signals)
            return []
        strays = self._strays()
        for pid in strays:
            send(pid, *signals)
        return signal_all(os.getpid(), *signals) + strays

    def _strays(self) -> list[int]:
        """Return what left the tree but not the command's process group: only where there is no subreaper."""
        return [] if LINUX or not self.child else descendants(self.child)

    def _wait(self, seconds: float | None) -> None:
        sources = [fd for fd in (self._woken, self.pipe, self.failure) if fd >= 0]
        ready, _, _ = select.select(sources, [], [], seconds)
        if self.failure in ready:
            self._read_failure()
        if self.pipe in ready:
            self._read_output()
        if self._woken in ready:
            os.read(self._woken, 4096)

    def _read_failure(self) -> None:
        text = os.read(self.failure, 4096)
        os.close(self.failure)
        self.failure = -1
        if text:
            self.why, self.error = "spawn_failed", text.decode("utf-8", "replace")

    def _read_output(self) -> bool:
        try:
            data = os.read(self.pipe, READ_SIZE)
        except BlockingIOError:
            return False
        if data:
            self.output.write(data)
        else:
            os.close(self.pipe)
            self.pipe = -1
        return bool(data)

    def _drain(self) -> None:
        """Take what is in the pipes; a stranger who still holds the other end is not waited for."""
        if self.failure >= 0 and select.select([self.failure], [], [], 0)[0]:
            self._read_failure()
        end = self.output.total + 2 * READ_SIZE
        while self.pipe >= 0 and self.output.total < end and self._read_output():
            pass

    def _outcome(self) -> dict[str, Any]:
        failed = self.why == "spawn_failed"
        code = None if self.status is None or failed else self.status
        return {
            "why": self.why,
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "error": self.error,
            "timeout": self.spec["timeout"],
            "started_at_ms": int(self.started_at * 1000),
            "finished_at_ms": int(time.time() * 1000),
            "output_bytes": self.output.total,
            "output_error": self.output.error,
            "truncated": self.output.truncated,
            "left": self.left,
        }

    def _store(self) -> int:
        """Store the outcome, trying again while the disk is full; a result lives in memory until told to go."""
        outcome = json.dumps(self._outcome()).encode()
        asked = self.stops
        while True:
            try:
                store_durably(self.folder, OUTCOME, outcome)
                return 0
            except OSError:
                if self.stops > asked or not os.path.isdir(self.folder):
                    return 1
            select.select([self._woken], [], [], RETRY_PAUSE)
            try:
                os.read(self._woken, 4096)
            except BlockingIOError:
                pass


def store_durably(folder: str, name: str, data: bytes) -> None:
    """Write a file so that after a power cut it is either whole or not there."""
    path = os.path.join(folder, name)
    file = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    finally:
        os.close(file)
    faults.point("keeper.before_rename")
    os.rename(path + ".tmp", path)
    faults.point("keeper.after_rename")
    directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def widen(pipe: int) -> None:
    """Give a pipe as much room as one read takes, where the system can."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, READ_SIZE)
    except (AttributeError, OSError):
        pass


def become_command(spec: dict[str, Any], out: int, report: int) -> NoReturn:
    """Turn this forked process into the command; a failure travels back through `report`."""
    what = f"in {spec['cwd']!r}"
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(spec["cwd"])
        if spec.get("umask") is not None:
            os.umask(spec["umask"])
        os.closerange(3, report)
        os.closerange(report + 1, max(report + 1, min(os.sysconf("SC_OPEN_MAX"), HIGHEST_FILE)))
        signal.set_wakeup_fd(-1)
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        what = repr(spec["argv"][0])
        faults.point("keeper.before_exec")
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606
    except (OSError, ValueError) as error:
        os.write(report, f"cannot start {what}: {explain(error)}".encode("utf-8", "replace")[:4096])
    os._exit(127)


def explain(error: OSError | ValueError) -> str:
    """Return the system's words for a failed start."""
    if isinstance(error, OSError) and error.errno:
        hint = " (a script needs a first line such as #!/bin/sh)" if error.errno == errno.ENOEXEC else ""
        return f"{(error.strerror or str(error)).lower()}{hint}"
    return str(error)
