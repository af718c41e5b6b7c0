"""The scheduler's side of the spawner: start keepers, hold their gates, wait for their end. One loop, no threads."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import fields

from rota import faults
from rota.model.errors import SpawnerLost, SpawnFailed
from rota.model.records import ProcessIdentity
from rota.model.spec import OutputPolicy
from rota.runners.processes import alive, boot_id, keeps, kill_keeper, send_signal, start_time, stuck
from rota.runners.spawner import REPLY, REQUEST
from rota.runners.tree import LINUX
from rota.runners.writer import OUTPUT_LIMIT

SPAWNER = Path(__file__).with_name("spawner.py")
CONCURRENT_SPAWNS = 32
STOP_WAIT_SECONDS = 5.0
POLL_SECONDS = 0.05
LOOK_SECONDS = 1.0
UNKILLABLE_SECONDS = 30.0
"""After so long a keeper gives up processes that it cannot kill."""


class Launch(Struct, frozen=True):
    """A process that is ready to start: all values are resolved."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    timeout: float | None
    term_grace: float
    output: OutputPolicy = OutputPolicy.FULL
    output_limit: int = OUTPUT_LIMIT
    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Files in the run's folder, mode 0600, written before the start."""
    stdin: str | None = None
    """The file of its standard input."""
    errors_apart: bool = False
    """Whether standard error has a file of its own."""
    secret: tuple[str, ...] = ()
    """The variables whose values are redacted in the output."""


class Gate:
    """Holds a keeper back until its pid is committed."""

    def __init__(self, file: int) -> None:
        self._file: int | None = file

    def open(self) -> None:
        """Start the command; the outcome of a keeper that is gone has the error."""
        if self._file is None:
            return
        try:
            os.write(self._file, b"g")
        except BrokenPipeError:
            pass
        self.close()

    def close(self) -> None:
        """End the keeper without starting the command, unless the gate was opened."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Spawned(Struct, frozen=True):
    """A keeper that waits at its gate."""

    identity: ProcessIdentity
    gate: Gate


class Spawner:
    """Runs the spawner process, which starts keepers; the next spawn replaces a dead one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._replies: deque[asyncio.Future[tuple[int, int]]] = deque()
        self._room = asyncio.Semaphore(CONCURRENT_SPAWNS)

    @property
    def pid(self) -> int | None:
        """The pid of the spawner process, None while there is none."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the spawner process by exec: a fork would inherit the scheduler's lock."""
        if self._channel is not None:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET if LINUX else socket.SOCK_STREAM)
        ours.settimeout(0)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", str(SPAWNER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd="/",
                env=faults.passed_on(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._channel = ours
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(ours, self._on_reply)

    def stop(self) -> None:
        """End the spawner process; the keepers stay."""
        self._end(SpawnFailed("the spawner process was stopped"))

    def _end(self, answer: SpawnFailed) -> None:
        self._disconnect(answer)
        if self._process is None:
            return
        try:
            self._process.wait(STOP_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _disconnect(self, answer: SpawnFailed) -> None:
        if self._channel is None:
            return
        assert self._loop is not None
        self._loop.remove_reader(self._channel)
        self._channel.close()
        self._channel = None
        while self._replies:
            _answer(self._replies.popleft(), answer)

    def _on_reply(self) -> None:
        assert self._channel is not None
        try:
            data = self._channel.recv(REPLY.size)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if len(data) < REPLY.size:
            self._end(SpawnerLost("the spawner process is gone"))
        else:
            _answer(self._replies.popleft(), REPLY.unpack(data))

    async def spawn(self, launch: Launch, folder: Path) -> Spawned:
        """Return a keeper for `launch` that waits at its gate; its files go to `folder`."""
        async with self._room:
            try:
                try:
                    return await self._spawn_once(launch, folder)
                except SpawnerLost:
                    return await self._spawn_once(launch, folder)
            except OSError as error:
                raise SpawnFailed(f"no keeper could be started: {error.strerror}") from error

    async def _spawn_once(self, launch: Launch, folder: Path) -> Spawned:
        self.start()
        gate, held = os.pipe()
        try:
            reply = self._ask(launch, folder, gate=gate)
            faults.point("spawn.asked")
            pid, start = await reply
            if pid < 0:
                hint = "check the limits on processes and memory"
                raise SpawnFailed(f"no keeper could be forked: {os.strerror(-pid).lower()}", hint=hint)
            return Spawned(ProcessIdentity(boot_id(), pid, start or start_time(pid) or 0), Gate(held))
        except BaseException:
            os.close(held)
            raise
        finally:
            os.close(gate)

    def _ask(self, launch: Launch, folder: Path, *, gate: int) -> "asyncio.Future[tuple[int, int]]":
        assert self._channel is not None
        assert self._loop is not None
        spec = _spec_file(launch, folder)
        try:
            socket.send_fds(self._channel, [REQUEST], [gate, spec])
        except (BrokenPipeError, ConnectionResetError) as error:
            lost = SpawnerLost("the spawner process is gone")
            self._end(lost)
            raise lost from error
        finally:
            os.close(spec)
        reply: asyncio.Future[tuple[int, int]] = self._loop.create_future()
        self._replies.append(reply)
        return reply


def _answer(reply: "asyncio.Future[tuple[int, int]]", answer: tuple[int, ...] | SpawnFailed) -> None:
    if reply.done():
        return  # the caller was cancelled: its gate is closed, and the keeper ends
    if isinstance(answer, SpawnFailed):
        reply.set_exception(answer)
    else:
        reply.set_result((answer[0], answer[1]))


def _spec_file(launch: Launch, folder: Path) -> int:
    """Return an open file without a name that holds the keeper's orders: they contain secrets."""
    spec = {part.name: getattr(launch, part.name) for part in fields(launch) if part.name != "files"}
    data = json.dumps({**spec, "env": dict(launch.env), "folder": str(folder)}).encode()
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("rota", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile(buffering=0) as unnamed:
            file = os.dup(unnamed.fileno())
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
    return file


class Watch:
    """The scheduler's own deadline behind a keeper's, for a run that keeps stopping its keeper.

    After its deadline the keeper gets CONT once a second, which is harmless. A keeper that is still stopped after the
    grace is killed with its process tree, and so is a keeper with running processes after `UNKILLABLE_SECONDS`.
    """

    def __init__(self, keeper: ProcessIdentity, *, timeout: float | None, term_grace: float, slack: float) -> None:
        self.overdue: str | None = None
        """Why the keeper was killed: `timed_out` or `stopped`; None: not killed."""
        self._keeper = keeper
        self._term_grace = term_grace
        self._slack = slack
        self._why = "timed_out"
        self._due = float("inf")
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        if timeout is not None:
            self._expect(timeout)

    def order(self, *, at_once: bool) -> None:
        """Expect the end of the run: the keeper got a signal."""
        if self._due > self._loop.time():
            self._why = "stopped"
        self._term_grace = 0.0 if at_once else self._term_grace
        self._expect(0.0)

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _expect(self, seconds: float) -> None:
        self._due = min(self._due, self._loop.time() + seconds)
        self.close()
        self._timer = self._loop.call_at(self._due + LOOK_SECONDS, self._look)

    def _look(self) -> None:
        late = self._loop.time() - self._due - self._term_grace - self._slack
        given_up = late > UNKILLABLE_SECONDS and keeps(self._keeper)
        if (late > 0 and stuck(self._keeper)) or given_up:
            self.overdue = self._why
            self._loop.run_in_executor(None, kill_keeper, self._keeper)
        else:
            send_signal(self._keeper, signal.SIGCONT)
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)


async def wait_keeper(keeper: ProcessIdentity) -> None:
    """Return when the process is gone; it need not be a child."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        handle = os.pidfd_open(keeper.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
        while alive(keeper):
            loop.call_later(POLL_SECONDS, ready.set)
            await ready.wait()
            ready.clear()
        return
    try:
        if alive(keeper):
            loop.add_reader(handle, ready.set)
            await ready.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
