"""The keeper of one run: holds the gate, starts the command, bounds output and time, leaves no process behind.

Standard library only. The spawner forks it, it outlives the scheduler, and its only result is `outcome.json`.
"""

import copy
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from rota import faults
from rota.runners.redacting import FUNCTION, RESULT, Redactor, redact_file
from rota.runners.tree import LINUX, descendants, groups, send, signal_once
from rota.runners.writer import TAIL, BoundedWriter

SET_CHILD_SUBREAPER = 36
READ_SIZE = 1 << 20
SWEEP_PAUSE = 0.01
SWEEP_LIMIT = 0.5
"""How long a growing process tree is signalled before the keeper reads output again."""
UNKILLABLE_AFTER = 30.0
RETRY_PAUSE = 1.0
OUTCOME = "outcome.json"
ERRORS = "errors"
"""The folder of standard error, if that is kept apart."""
ERRORS_LIMIT = 1_000_000
ORDERS = (signal.SIGTERM, signal.SIGUSR1)
_RESET = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1),
    *(signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ),
)
_NOT_HERE = (FileNotFoundError, NotADirectoryError)
_prctl = ctypes.CDLL(None).prctl if LINUX else None
_orders: list[int] = []


def listen_to_orders() -> None:
    """Set the signal handlers in the spawner; its keepers inherit them at no cost.

    Orders stay blocked until a keeper unblocks them, so that none is lost.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ORDERS)
    for number in ORDERS:
        signal.signal(number, _take_order)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _take_order(number: int, _frame: object) -> None:
    _orders.append(number)


def _take_nothing(_number: int, _frame: object) -> None:
    """Interrupt a wait."""


def wake_on_children() -> int:
    """Return a file that becomes readable with every signal, such as SIGCHLD."""
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    if before >= 0:
        os.close(before)  # the spawner's, in a keeper
    signal.signal(signal.SIGCHLD, _take_nothing)
    return woken


def keep(gate: int, spec_file: int, *, spawner: int = 0) -> NoReturn:
    """Be the keeper of one run: never return."""
    code = 1
    try:
        code = Keeper(gate, spec_file, spawner=spawner).run()
    finally:
        os._exit(code)


def become_subreaper() -> None:
    """Make orphaned descendants children of this process, if the system supports it."""
    if _prctl is not None:
        _prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Keeper:
    """One run from its gate to its outcome file."""

    def __init__(self, gate: int, spec_file: int, *, spawner: int) -> None:
        self.gate = gate
        self.spawner = spawner
        self.spec = json.loads(os.pread(spec_file, os.fstat(spec_file).st_size, 0))
        os.close(spec_file)
        self.folder: str = self.spec["folder"]
        self.output = BoundedWriter(self.folder, self.spec["output"], limit=self.spec["output_limit"])
        self.why = "exited"
        self.status: int | None = None
        self.error: str | None = None
        self.left: list[int] = []
        self.child = 0
        self.pipes: dict[int, BoundedWriter] = {}
        hidden = [self.spec["env"][name] for name in self.spec.get("secret", ())]
        self.redactor = Redactor(hidden) if hidden else None
        self.redactors: dict[int, Redactor] = {}
        self.started_at = time.time()
        self.deadline = self.kill_at = self.give_up_at = float("inf")
        os.setsid()
        become_subreaper()
        self._woken = wake_on_children()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ORDERS)

    @property
    def stops(self) -> int:
        """The number of orders to end the run."""
        return len(_orders)

    @property
    def kill_now(self) -> bool:
        """Whether the order was repeated, or excludes the grace."""
        return len(_orders) > 1 or signal.SIGUSR1 in _orders

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
        out = errors = self._open_pipe(self.output)
        if self.spec.get("errors_apart"):
            errors = self._open_pipe(BoundedWriter(os.path.join(self.folder, ERRORS), TAIL, limit=ERRORS_LIMIT))
        if self.spec["timeout"] is not None:
            self.deadline = time.monotonic() + self.spec["timeout"]
        try:
            self.child = start_command(self.spec, out, errors)
        except StartFailed as error:
            self.why, self.error = "spawn_failed", str(error)
        for end in {out, errors}:
            os.close(end)
        faults.point("keeper.forked")

    def _open_pipe(self, writer: BoundedWriter) -> int:
        """Return the write end of a pipe whose content goes to `writer`."""
        pipe, end = os.pipe()
        os.set_blocking(pipe, False)
        widen(pipe)
        self.pipes[pipe] = writer
        if self.redactor is not None:
            self.redactors[pipe] = copy.copy(self.redactor)
        return end

    def _alive(self) -> bool:
        """Reap ended children; return whether any process is left to wait for."""
        return not self.left if self._reap() else bool(self._strays())

    def _reap(self) -> bool:
        """Reap ended children; return whether any child is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.child:
                    self._ended(os.waitstatus_to_exitcode(status))
        except ChildProcessError:
            return False

    def _ended(self, status: int) -> None:
        self.status = status
        faults.point("keeper.command_ended")
        # Processes that were asked to stop keep the rest of the grace; processes left by an ended command get none.
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
        strays = self._strays()
        for pid in strays:
            send(pid, *signals)
        return self._signal_tree(*signals) + strays

    def _signal_tree(self, *signals: int) -> list[int]:
        """Send `signals` to all descendants, new ones included, within `SWEEP_LIMIT`; return their pids.

        Ended processes are reaped meanwhile: a fork bomb would fill the process table and slow down each look. KILL
        goes to whole process groups, so that no fork escapes. Other signals reach a process once: programs may take a
        second TERM for an order to end at once.
        """
        reached: dict[int, None] = {}
        until = time.monotonic() + SWEEP_LIMIT
        while fresh := signal_once(os.getpid(), *signals, leave_out=reached):
            for group in groups(fresh) if signal.SIGKILL in signals else ():
                send(-group, signal.SIGKILL)
            reached |= dict.fromkeys(fresh)
            self._reap()
            if time.monotonic() >= until:
                break
        return list(reached)

    def _strays(self) -> list[int]:
        """Return processes that left the tree but not the command's group, on systems without a subreaper."""
        return [] if LINUX or not self.child else descendants(self.child)

    def _wait(self, seconds: float | None) -> None:
        ready = readable([self._woken, *self.pipes], seconds)
        for pipe in ready:
            if pipe != self._woken:
                self._read_output(pipe)
        if self._woken in ready:
            os.read(self._woken, 4096)

    def _read_output(self, pipe: int) -> bool:
        try:
            data = os.read(pipe, READ_SIZE)
        except BlockingIOError:
            return False
        if data:
            redactor = self.redactors.get(pipe)
            self.pipes[pipe].write(data if redactor is None else redactor.feed(data))
        else:
            os.close(pipe)
            self._show_rest(pipe)
            self.pipes.pop(pipe).close()
        return bool(data)

    def _show_rest(self, pipe: int) -> None:
        """Write the bytes that were held back as the possible beginning of a secret."""
        if pipe in self.redactors:
            self.pipes[pipe].write(self.redactors[pipe].rest())

    def _drain(self) -> None:
        """Read the rest of the pipes; a process outside the tree may keep the other end open."""
        for pipe, writer in list(self.pipes.items()):
            end = writer.total + 2 * READ_SIZE
            while pipe in self.pipes and writer.total < end and self._read_output(pipe):
                pass
            if pipe in self.pipes:
                self._show_rest(pipe)

    def _outcome(self) -> dict[str, Any]:
        failed = self.why == "spawn_failed"
        code = None if self.status is None or failed else self.status
        return {
            "why": self.why,
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "error": self.redactor.redact(self.error) if self.redactor and self.error else self.error,
            "timeout": self.spec["timeout"],
            "started_at_ms": int(self.started_at * 1000),
            "finished_at_ms": int(time.time() * 1000),
            "output_bytes": self.output.total,
            "output_error": self.output.error,
            "truncated": self.output.truncated,
            "left": self.left,
        }

    def _store(self) -> int:
        """Store the outcome, and retry while the disk is full, until another order to stop."""
        outcome = json.dumps(self._outcome()).encode()
        asked = self.stops
        while True:
            try:
                self._write(outcome)
                return 0
            except OSError:
                if self.stops > asked or not os.path.isdir(self.folder):
                    return 1
            readable([self._woken], RETRY_PAUSE)
            try:
                os.read(self._woken, 4096)
            except BlockingIOError:
                pass

    def _write(self, outcome: bytes) -> None:
        """Write the outcome; with fsync only if no scheduler is there to store it in the database."""
        store = store_whole if os.getppid() == self.spawner else store_durably
        self._redact_files(store)
        store(self.folder, OUTCOME, outcome)

    def _redact_files(self, store: Callable[[str, str, bytes], None]) -> None:
        """Redact the result files before the scheduler reads them."""
        if self.redactor is None:
            return
        for name in (RESULT, FUNCTION):
            shown = redact_file(os.path.join(self.folder, name), self.redactor)
            if shown is not None:
                store(self.folder, name, shown)


def readable(files: list[int], seconds: float | None) -> list[int]:
    """Wait until files have data or have ended, and return them. Unlike select(), poll() takes any descriptor."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(None if seconds is None else seconds * 1000)]


def store_durably(folder: str, name: str, data: bytes) -> None:
    """Write a file atomically and with fsync."""
    store_whole(folder, name, data, sync=os.fsync)
    directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def store_whole(folder: str, name: str, data: bytes, *, sync: Callable[[int], None] = lambda _file: None) -> None:
    """Write a file atomically."""
    path = os.path.join(folder, name)
    file = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        sync(file)
    finally:
        os.close(file)
    faults.point("keeper.before_rename")
    os.rename(path + ".tmp", path)
    faults.point("keeper.after_rename")


def widen(pipe: int) -> None:
    """Give a pipe the capacity of one read, if the system supports it."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, READ_SIZE)
    except (AttributeError, OSError):
        pass


class StartFailed(Exception):
    """A command could not be started; the text is for its user."""


def start_command(spec: dict[str, Any], out: int, errors: int) -> int:
    """Start the command in its own session with these pipes for its output; return its pid or raise StartFailed.

    posix_spawn is cheaper than a fork of this process.
    """
    what, before = f"in {spec['cwd']!r}", None
    try:
        os.chdir(spec["cwd"])
        what = repr(spec["argv"][0])
        before = None if spec.get("umask") is None else os.umask(spec["umask"])
        return spawn(spec["argv"], spec["env"], (spec.get("stdin") or os.devnull, out, errors))
    except (OSError, ValueError) as error:
        raise StartFailed(f"cannot start {what}: {explain(error)}"[:4096]) from error
    finally:
        if before is not None:
            os.umask(before)


def spawn(argv: list[str], env: dict[str, str], standard: tuple[str, int, int]) -> int:
    """Start the first program of that name on the PATH of `env` that can be started; return its pid."""
    given, out, errors = standard
    files = [
        (os.POSIX_SPAWN_OPEN, 0, given, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_DUP2, errors, 2),
    ]
    missing = refused = None
    for program in places(argv[0], env):
        try:
            return os.posix_spawn(program, argv, env, file_actions=files, setsid=True, setsigmask=(), setsigdef=_RESET)
        except _NOT_HERE as error:
            missing = error
        except OSError as error:
            refused = refused or error
    raise refused or missing or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def places(program: str, env: dict[str, str]) -> list[str]:
    """Return the possible paths of a program: a name with a slash is a path, other names are on the PATH."""
    if os.sep in program:
        return [program]
    return [os.path.join(folder, program) for folder in os.get_exec_path(env)]


def explain(error: OSError | ValueError) -> str:
    """Return the system's message for a failed start."""
    if isinstance(error, OSError) and error.errno:
        hint = " (a script needs a first line such as #!/bin/sh)" if error.errno == errno.ENOEXEC else ""
        return f"{(error.strerror or str(error)).lower()}{hint}"
    return str(error)
