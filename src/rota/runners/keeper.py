"""A keeper: carries one run at a time, bounds its output and time, and leaves no process of it behind.

Standard library only. The spawner forks it, and it outlives the scheduler. The order for a run comes over its channel,
which is the gate: it is sent once the keeper's pid is committed. The outcome goes back the same way; once the channel
is closed, it goes into `outcome.json`.
"""

import copy
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import stat
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from rota import faults
from rota.runners.redacting import FUNCTION, PARAMS, RESULT, Redactor, redact_file
from rota.runners.tree import LINUX, descendants, groups, send, signal_once
from rota.runners.writer import NONE, TAIL, BoundedWriter

if TYPE_CHECKING:
    from rota.agents.stream import Stop, StreamGuard

SET_CHILD_SUBREAPER = 36
READ_SIZE = 1 << 20
SWEEP_PAUSE = 0.01
SWEEP_LIMIT = 0.5
"""How long a growing process tree is signalled before the keeper reads output again."""
UNKILLABLE_AFTER = 30.0
RETRY_PAUSE = 1.0
OUTCOME = "outcome.json"
UNCHECKED = "unchecked"
"""The file of an agent's step that failed with exit code 0."""
ERRORS = "errors"
"""The folder of standard error, if that is kept apart."""
ERRORS_LIMIT = 1_000_000
CHECK: dict[str, Any] = {"stdin": None, "errors_apart": False, "idle_timeout": None, "guard": None}
"""The orders of the work that its postcondition does not inherit."""
CLEANUP = "cleanup.json"
"""The file with the command that removes what no signal to the tree ends, such as a container."""
CLEANUP_LIMIT = 20.0
ORDERS = (signal.SIGTERM, signal.SIGUSR1)
ORDER = b"r"
"""Carry the run whose specification follows, or is in the file that comes along; the last outcome is stored."""
MESSAGE_LIMIT = 1 << 16
"""The size of the longest message."""
STORED = b"s"
"""The last outcome is stored."""
ACKNOWLEDGE_SECONDS = 10.0
"""After so long without an answer an outcome goes into its file: another process may follow the run."""
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


def keep(channel: socket.socket) -> NoReturn:
    """Be a keeper: carry run after run until the scheduler closes the channel; never return."""
    code = 1
    try:
        code = _carry_all(channel)
    finally:
        os._exit(code)


def _carry_all(channel: socket.socket) -> int:
    os.setsid()
    become_subreaper()
    woken = wake_on_children()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ORDERS)
    keeper: Keeper | None = None
    fresh = True
    while True:
        faults.point("keeper.at_gate")
        message, file = _next_message(channel, woken, unstored=keeper is not None, fresh=fresh)
        if message == STORED:
            keeper = None
            continue
        spec = _specification(message, file)
        if spec is None:
            return 125 if keeper is None else keeper.store()
        faults.point("keeper.gate_passed")
        keeper, fresh = Keeper(spec, woken), False
        keeper.run()
        if keeper.left or not keeper.tell(channel):
            return keeper.store()


def _next_message(channel: socket.socket, woken: int, *, unstored: bool, fresh: bool) -> tuple[bytes, int | None]:
    """Return the scheduler's next message with its file; without a message this keeper leaves.

    A stop that reaches a fresh keeper is for its run, as the scheduler may know it before the order arrives. One that
    reaches an idle keeper later comes from elsewhere, and ends it.
    """
    until = time.monotonic() + ACKNOWLEDGE_SECONDS if unstored else float("inf")
    while True:
        seconds = None if until == float("inf") else max(0.0, until - time.monotonic())
        ready = readable([channel.fileno(), woken], seconds)
        if channel.fileno() in ready:
            break
        if woken in ready:
            os.read(woken, 4096)
        if not ready or (_orders and not fresh):
            return b"", None
    try:
        message, files, _, _ = socket.recv_fds(channel, MESSAGE_LIMIT, 1)
    except OSError:
        return b"", None
    return message, files[0] if files else None


def _specification(message: bytes, file: int | None) -> dict[str, Any] | None:
    """Return the specification of an order; None for another message, or none."""
    data = message[len(ORDER) :]
    if file is not None:
        data = os.pread(file, os.fstat(file).st_size, 0)
        os.close(file)
    return dict(json.loads(data)) if message.startswith(ORDER) and data else None


def become_subreaper() -> None:
    """Make orphaned descendants children of this process, if the system supports it."""
    if _prctl is not None:
        _prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Keeper:
    """One run from its order to its outcome."""

    def __init__(self, spec: dict[str, Any], woken: int) -> None:
        self.spec = spec
        self.folder: str = self.spec["folder"]
        self.output = BoundedWriter(self.folder, self.spec["output"], limit=self.spec["output_limit"])
        self.why = "exited"
        self.status: int | None = None
        self.error: str | None = None
        self.left: list[int] = []
        self.outcome = b""
        self.child = 0
        self.contained = os.path.exists(os.path.join(self.folder, CLEANUP))
        """Whether the command is the client of a container. It passes TERM on; one to its monitor would end that."""
        self.pipes: dict[int, BoundedWriter] = {}
        self.checked_from: int | None = None
        """The offset of the postcondition's output; None: it has not begun."""
        hidden = [self.spec["env"][name] for name in self.spec.get("secret", ())]
        self.redactor = Redactor(hidden) if hidden else None
        self.redactors: dict[int, Redactor] = {}
        self.started_at = time.time()
        self.deadline = self.kill_at = self.give_up_at = float("inf")
        self.idle_timeout: float | None = None
        self.heard_at = float("inf")
        """The time of the last output, on the monotonic clock."""
        self.guard: StreamGuard | None = None
        self.loop: Stop | None = None
        """The message about a loop of tool calls."""
        self._woken = woken

    @property
    def stops(self) -> int:
        """The number of orders to end the run."""
        return len(_orders)

    @property
    def kill_now(self) -> bool:
        """Whether the order was repeated, or excludes the grace."""
        return len(_orders) > 1 or signal.SIGUSR1 in _orders

    def run(self) -> None:
        """Run the command to its end."""
        if self.stops:
            self.why = "stopped"
        else:
            self._carry(self.spec)
            if self.spec.get("postcondition") and self.why == "exited" and self.status == 0 and self._checkable():
                self._check(self.spec["postcondition"])
            self._clean_up()
            if self.why == "exited" and self.status == 0:
                self._keep_files()
        self.output.close()
        os.chdir("/")
        self.outcome = json.dumps(self._outcome()).encode()
        _orders.clear()

    def _carry(self, spec: dict[str, Any]) -> None:
        """Run a command to its end, with everything that it leaves behind."""
        self._start(spec)
        while self._alive():
            self._step()
        self._drain()

    def _checkable(self) -> bool:
        """Return whether the work, by its own judgement, succeeded: an agent may fail with exit code 0."""
        return not os.path.exists(os.path.join(self.folder, UNCHECKED))

    def _check(self, postcondition: dict[str, Any]) -> None:
        """Run the postcondition of a command that succeeded, under the same rules."""
        for pipe in self.pipes:
            os.close(pipe)
        self.pipes.clear()
        self.redactors.clear()
        self.status, self.child = None, 0
        self.deadline = self.kill_at = self.give_up_at = float("inf")
        self.checked_from = self.output.total
        faults.point("keeper.postcondition")
        self._carry({**self.spec, **CHECK, **postcondition})

    def _start(self, spec: dict[str, Any]) -> None:
        out = errors = self._open_pipe(self.output)
        if spec.get("errors_apart"):
            errors = self._open_pipe(BoundedWriter(os.path.join(self.folder, ERRORS), TAIL, limit=ERRORS_LIMIT))
        self.heard_at = time.monotonic()
        self.idle_timeout, self.guard = spec.get("idle_timeout"), guard_of(spec)
        if spec["timeout"] is not None:
            self.deadline = self.heard_at + spec["timeout"]
        try:
            self.child = start_command(spec, out, errors)
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
        until = (
            min(self.deadline, self.kill_at, self._idle_at()) if self.give_up_at == float("inf") else now + SWEEP_PAUSE
        )
        self._wait(None if until == float("inf") else max(0.0, until - now))

    def _idle_at(self) -> float:
        waits = self.idle_timeout is not None and self.kill_at == float("inf")
        return self.heard_at + self.idle_timeout if waits and self.idle_timeout is not None else float("inf")

    def _reason_to_end(self, now: float) -> str | None:
        if self.stops:
            return "stopped"
        if self.loop is not None:
            self.error = self.loop.error
            return self.loop.why
        return "timed_out" if now >= self.deadline else "idle" if now >= self._idle_at() else None

    def _advance(self, now: float) -> None:
        if self.kill_at == float("inf") and (why := self._reason_to_end(now)) is not None:
            self.why = why
            self.kill_at = now + self.spec["term_grace"]
            # CONT lets a stopped process see its TERM.
            if self.contained:
                send(self.child, signal.SIGTERM, signal.SIGCONT)
                signal_once(self.child, signal.SIGTERM, signal.SIGCONT)
            else:
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
            self.heard_at = time.monotonic()
            self._watch(pipe, data)
            redactor = self.redactors.get(pipe)
            self.pipes[pipe].write(data if redactor is None else redactor.feed(data))
        else:
            os.close(pipe)
            self._show_rest(pipe)
            self.pipes.pop(pipe).close()
        return bool(data)

    def _watch(self, pipe: int, data: bytes) -> None:
        """Look for a loop in an agent's stream; a stream that cannot be read is not guarded."""
        if self.guard is None or self.loop is not None or self.pipes[pipe] is not self.output:
            return
        try:
            self.loop = self.guard.feed(data)
        except Exception:  # the run is worth more than its guard
            self.guard = None

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
                self.pipes.pop(pipe).close()
                os.close(pipe)

    def _clean_up(self) -> None:
        """Run the command of the cleanup file, if there is one; without an answer in time the run is unkillable."""
        if not self.contained:
            return
        try:
            with open(os.path.join(self.folder, CLEANUP), "rb") as file:
                argv = json.load(file)
            null = os.open(os.devnull, os.O_RDWR)
        except (OSError, ValueError):
            return
        try:
            pid = start_command({**self.spec, "argv": argv, "cwd": "/", "stdin": None}, null, null)
        except StartFailed:
            return
        finally:
            os.close(null)
        until = time.monotonic() + self.spec.get("cleanup_limit", CLEANUP_LIMIT)
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() >= until:
                self.why, self.error = "unkillable", f"{' '.join(argv)} did not finish"
                send(pid, signal.SIGKILL)
            if readable([self._woken], RETRY_PAUSE):
                os.read(self._woken, 4096)

    def _outcome(self) -> dict[str, Any]:
        failed = self.why == "spawn_failed"
        code = None if self.status is None or failed else self.status
        ended = {
            "why": self.why,
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "error": self.redactor.redact(self.error) if self.redactor and self.error else self.error,
            "timeout": self.spec["timeout"],
            "idle_timeout": self.spec.get("idle_timeout"),
            "started_at_ms": int(self.started_at * 1000),
            "finished_at_ms": int(time.time() * 1000),
            "output_bytes": self.output.total,
            "output_error": self.output.error,
            "truncated": self.output.truncated,
            "left": self.left,
            "bare": is_bare(self.folder),
        }
        if self.checked_from is None or self.why in ("stopped", "unkillable"):
            return ended
        check = {name: ended[name] for name in ("why", "exit_code", "signal", "error")}
        check |= {"from": self.checked_from, "timeout": self.spec["postcondition"]["timeout"]}
        return {**ended, "why": "exited", "exit_code": 0, "signal": None, "error": None, "postcondition": check}

    def _keep_files(self) -> None:
        """Copy the files that the result names, while the folder of the work is still there."""
        result = os.path.join(self.folder, RESULT)
        if self.spec["output"] == NONE or not os.path.lexists(result):
            return
        from rota.runners.files import keep_files, named_files

        names = named_files(result)
        redact = None if self.redactor is None else self.redactor.redact_bytes
        try:
            if names:
                keep_files(names, cwd=self.spec["cwd"], folder=self.folder, redact=redact)
        except OSError:
            pass  # the disk is full: the run counts more than copies of its files

    def tell(self, channel: socket.socket) -> bool:
        """Send the outcome to the scheduler; return whether that was possible."""
        try:
            self._redact_files(store_whole)
            channel.sendall(self.outcome + b"\n")
        except OSError:
            return False
        faults.point("keeper.told")
        return True

    def store(self) -> int:
        """Store the outcome, and retry while the disk is full, until another order to stop; return the exit code."""
        asked = self.stops
        while True:
            try:
                self._redact_files(store_durably)
                store_durably(self.folder, OUTCOME, self.outcome)
                return 0
            except OSError:
                if self.stops > asked or not os.path.isdir(self.folder):
                    return 1
            readable([self._woken], RETRY_PAUSE)
            try:
                os.read(self._woken, 4096)
            except BlockingIOError:
                pass

    def _redact_files(self, store: Callable[[str, str, bytes], None]) -> None:
        """Redact the result files before the scheduler reads them."""
        if self.redactor is None:
            return
        for name in (RESULT, FUNCTION):
            shown = redact_file(os.path.join(self.folder, name), self.redactor)
            if shown is not None:
                store(self.folder, name, shown)


def is_bare(folder: str) -> bool:
    """Return whether a folder has nothing but the file of the params, as the scheduler made them."""
    try:
        if os.listdir(folder) != [PARAMS]:
            return False
        stat_result, params = os.lstat(folder), os.lstat(os.path.join(folder, PARAMS))
    except OSError:
        return False
    return (stat_result.st_mode, params.st_mode, params.st_nlink) == (stat.S_IFDIR | 0o700, stat.S_IFREG | 0o600, 1)


def guard_of(spec: dict[str, Any]) -> "StreamGuard | None":
    """Return the guard of an agent's stream."""
    if spec.get("guard") is None:
        return None
    from rota.agents.stream import StreamGuard

    guard = spec["guard"]
    limits = {name: guard.get(name) for name in ("max_turns", "max_usd")}
    return StreamGuard(guard["stream"], guard["limit"], **limits)


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
