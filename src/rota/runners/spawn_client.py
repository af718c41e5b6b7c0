"""The scheduler's side of the spawner and its keepers: fork, order, settle and dismiss them. One loop, no threads."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from bisect import insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from rota import faults
from rota.model.errors import SpawnerLost, SpawnFailed
from rota.model.records import ProcessIdentity
from rota.model.spec import OutputPolicy
from rota.runners.keeper import MESSAGE_LIMIT, ORDER, STORED
from rota.runners.processes import boot_id, start_time
from rota.runners.spawner import REPLY, REQUEST
from rota.runners.tree import LINUX
from rota.runners.writer import OUTPUT_LIMIT

SPAWNER = Path(__file__).with_name("spawner.py")
CONCURRENT_SPAWNS = 32
IDLE_SECONDS = 5.0
REPLY_LIMIT = 1 << 16
STOP_WAIT_SECONDS = 5.0


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
    idle_timeout: float | None = None
    guard: Mapping[str, Any] | None = None
    """The guard of an agent: the `stream` of the program, the `limit` of equal calls, `max_turns` and `max_usd`."""
    postcondition: Mapping[str, Any] | None = None
    """The keeper's second command, after the success of the first: `argv`, `cwd` and `timeout`."""


class Channel:
    """Our end of the connection to a keeper."""

    def __init__(self, identity: ProcessIdentity, end: socket.socket, *, closed: "Callable[[Channel], None]") -> None:
        self.identity = identity
        self.idle_since = 0.0
        self.reusable = True
        """Whether it may get another run: a keeper that got a signal may yet meet it."""
        self.answered = False
        """Whether it holds an outcome that is not stored."""
        self.unconfirmed = False
        """Whether it does not know yet that its outcome is stored."""
        self.reserved = False
        """Whether a claim may give it a run."""
        self._end = end
        self._closed = closed
        self._data = b""
        self._loop = asyncio.get_running_loop()
        self._reply: asyncio.Future[bytes | None] = self._loop.create_future()
        end.settimeout(0)
        self._loop.add_reader(end, self._on_readable)

    @property
    def open(self) -> bool:
        """Whether the keeper is there, as far as is known."""
        return self._end.fileno() >= 0

    def there(self) -> bool:
        """Return whether the keeper has not left."""
        try:
            return bool(self._end.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def order(self, order: bytes, file: int | None) -> None:
        """Hand a run over, which says that the outcome before is stored; that a keeper is gone shows in its reply."""
        self.reserved = self.answered = self.unconfirmed = False
        self._reply = self._loop.create_future() if self._reply.done() and self.open else self._reply
        try:
            if file is None:
                self._end.send(order)
            else:
                socket.send_fds(self._end, [order], [file])
        except OSError:
            self.close()

    async def reply(self) -> bytes | None:
        """Wait for the outcome of the run; None: the keeper is gone without one."""
        return await self._reply

    def confirm(self) -> None:
        """Confirm to the keeper that its outcome is stored, once."""
        try:
            if self.unconfirmed:
                self._end.send(STORED)
        except OSError:
            self.close()
        self.unconfirmed = False

    def close(self) -> None:
        """Dismiss the keeper: it leaves, after its run if there is one."""
        if self.open:
            self._loop.remove_reader(self._end)
            self._end.close()
            self._closed(self)
        if not self._reply.done():
            self._reply.set_result(None)

    def _on_readable(self) -> None:
        try:
            data = self._end.recv(REPLY_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._data += data
        if self._data.endswith(b"\n"):
            reply, self._data = self._data, b""
            self.answered = True
            if not self._reply.done():
                self._reply.set_result(reply)


class Spawned:
    """A keeper without its order, which is the gate of a run: it is held back until the keeper's pid is committed."""

    def __init__(self, channel: Channel, order: bytes, file: int | None) -> None:
        self.identity = channel.identity
        self._channel = channel
        self._order = order
        self._file = file

    def open(self) -> None:
        """Start the command; the outcome of a keeper that is gone has the error."""
        if self._order:
            self._channel.order(self._order, self._file)
            self._forget()

    def close(self) -> None:
        """Dismiss the keeper; it never starts the command, unless the gate was opened."""
        self._forget()
        self._channel.close()

    def _forget(self) -> None:
        self._order = b""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Spawner:
    """Runs the spawner process, which forks keepers, and gives each keeper run after run.

    The next spawn replaces a dead spawner process. Keepers without a run leave after a few seconds.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._replies: deque[asyncio.Future[tuple[int, int]]] = deque()
        self._room = asyncio.Semaphore(CONCURRENT_SPAWNS)
        self._keepers: dict[ProcessIdentity, Channel] = {}
        self._idle: list[Channel] = []
        """The keepers without a run, the one that ran last at the end."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the spawner process, None while there is none."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the spawner process by exec: a fork would inherit the scheduler's lock."""
        if self._channel is not None:
            return
        ours, theirs = _socket_pair()
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
        """End the spawner process; keepers stay until their runs have ended."""
        for channel in list(self._keepers.values()):
            channel.close()
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
        for channel in list(self._keepers.values()):
            channel.reusable = False  # no spawner inherits what it leaves behind if it is killed
        for channel in list(self._idle):
            channel.close()
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
        """Return a keeper for `launch` that waits for its order; its files go to `folder`."""
        order, file = _order(launch, folder), None
        if not _fits(order):
            try:
                order, file = ORDER, _unnamed(order[len(ORDER) :])
            except OSError as error:
                raise _not_started(error) from error
        try:
            channel = self._take_idle() or await self._fork()
        except BaseException:
            if file is not None:
                os.close(file)
            raise
        return Spawned(channel, order, file)

    def reserve(self, count: int, ended: Sequence[ProcessIdentity]) -> list[ProcessIdentity]:
        """Reserve up to so many keepers: those that have answered for `ended` runs, then idle ones."""
        answered = [channel for identity in ended if (channel := self._keepers.get(identity)) is not None]
        channels = [channel for channel in answered if channel.answered and channel.reusable and not channel.reserved]
        del channels[count:]
        while len(channels) < count and (idle := self._take_idle()) is not None:
            if idle.idle_since + IDLE_SECONDS > asyncio.get_running_loop().time():
                channels.append(idle)
            else:
                idle.close()  # a claim after the other reserved it, and none used it
        for channel in channels:
            channel.reserved = True
        return [channel.identity for channel in channels]

    def spawn_reserved(self, launch: Launch, folder: Path, keeper: ProcessIdentity) -> Spawned | None:
        """Return a reserved keeper for `launch` that waits for its order, which must be short. Called in any thread."""
        order = _order(launch, folder)
        return Spawned(self._keepers[keeper], order, None) if _fits(order) else None

    def release(self, keepers: Sequence[ProcessIdentity], *, claimed: bool) -> None:
        """Give back reserved keepers that got no run; dismiss them if it is not known what was claimed."""
        for channel in [channel for keeper in keepers if (channel := self._keepers.get(keeper)) is not None]:
            channel.reserved = False
            if not claimed:
                channel.close()
            elif not channel.answered:
                self._rest(channel)

    def channel(self, keeper: ProcessIdentity) -> Channel | None:
        """Return the connection to a keeper, None if it is not ours."""
        return self._keepers.get(keeper)

    def settle(self, keeper: ProcessIdentity) -> None:
        """Give a keeper back whose outcome is stored."""
        channel = self._keepers.get(keeper)
        if channel is None or not channel.answered:
            return
        assert self._loop is not None
        channel.answered, channel.unconfirmed, channel.idle_since = False, True, self._loop.time()
        if not channel.reserved:  # an order says so too
            self._rest(channel)

    def _rest(self, channel: Channel) -> None:
        channel.confirm()
        if not channel.reusable:
            channel.close()
        elif channel.open:
            assert self._loop is not None
            insort(self._idle, channel, key=lambda one: one.idle_since)
            if self._timer is None:
                self._timer = self._loop.call_later(IDLE_SECONDS, self._dismiss_idle)

    def dismiss(self, keeper: ProcessIdentity) -> None:
        """Leave a keeper to itself: it stores the outcome in its file."""
        channel = self._keepers.get(keeper)
        if channel is not None and not channel.reserved:
            channel.close()

    def _take_idle(self) -> Channel | None:
        while self._idle:
            channel = self._idle.pop()
            if channel.there():
                return channel
            channel.close()
        return None

    def _dismiss_idle(self) -> None:
        assert self._loop is not None
        self._timer = None
        past = self._loop.time() - IDLE_SECONDS
        for channel in [one for one in self._idle if one.idle_since <= past]:
            channel.close()
        if self._idle:
            due = self._idle[0].idle_since + IDLE_SECONDS
            self._timer = self._loop.call_at(due, self._dismiss_idle)

    def _on_closed(self, channel: Channel) -> None:
        if self._keepers.get(channel.identity) is channel:
            del self._keepers[channel.identity]
        if channel in self._idle:
            self._idle.remove(channel)

    async def _fork(self) -> Channel:
        async with self._room:
            try:
                try:
                    return await self._fork_once()
                except SpawnerLost:
                    return await self._fork_once()
            except OSError as error:
                raise _not_started(error) from error

    async def _fork_once(self) -> Channel:
        self.start()
        ours, theirs = _socket_pair()
        try:
            with theirs:
                reply = self._ask(theirs.fileno())
            faults.point("spawn.asked")
            pid, start = await reply
            if pid < 0:
                hint = "check the limits on processes and memory"
                raise SpawnFailed(f"no keeper could be forked: {os.strerror(-pid).lower()}", hint=hint)
            identity = ProcessIdentity(boot_id(), pid, start or start_time(pid) or 0)
        except BaseException:
            ours.close()
            raise
        channel = self._keepers[identity] = Channel(identity, ours, closed=self._on_closed)
        return channel

    def _ask(self, end: int) -> "asyncio.Future[tuple[int, int]]":
        assert self._channel is not None
        assert self._loop is not None
        try:
            socket.send_fds(self._channel, [REQUEST], [end])
        except (BrokenPipeError, ConnectionResetError) as error:
            lost = SpawnerLost("the spawner process is gone")
            self._end(lost)
            raise lost from error
        reply: asyncio.Future[tuple[int, int]] = self._loop.create_future()
        self._replies.append(reply)
        return reply


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET if LINUX else socket.SOCK_STREAM)


def _not_started(error: OSError) -> SpawnFailed:
    return SpawnFailed(f"no keeper could be started: {error.strerror}")


def _answer(reply: "asyncio.Future[tuple[int, int]]", answer: tuple[int, ...] | SpawnFailed) -> None:
    if reply.done():
        return  # the caller was cancelled: its gate is closed, and the keeper ends
    if isinstance(answer, SpawnFailed):
        reply.set_exception(answer)
    else:
        reply.set_result((answer[0], answer[1]))


def _order(launch: Launch, folder: Path) -> bytes:
    """Return the message that starts a launch."""
    spec = {name: getattr(launch, name) for name in launch.__struct_fields__ if name != "files"}
    return ORDER + json.dumps({**spec, "env": dict(launch.env), "folder": str(folder)}).encode()


def _fits(order: bytes) -> bool:
    """Return whether an order fits in one message; streams have no messages."""
    return LINUX and len(order) <= MESSAGE_LIMIT


def _unnamed(data: bytes) -> int:
    """Return an open file without a name that holds a specification, which contains secrets."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("rota", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile(buffering=0) as unnamed:
            file = os.dup(unnamed.fileno())
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
    return file
