"""Control between processes: wake socket, package version, memory."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.store.sqlite.store import reachable

if TYPE_CHECKING:
    import socket

NAME = "wake.sock"
LONGEST_PATH = 100
LARGEST = 64 * 1024
WAKE = b"wake"
LOOKS = frozenset({"status", "login"})
"""Questions that change nothing, so the scheduler has nothing to do after them: clients poll the status."""

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class WakeSocket:
    """The scheduler's end: a hint wakes it, a question is answered by the loop itself."""

    def __init__(self, state: Path, *, wake: Callable[[], None], answer: Answer) -> None:
        self._path = state / NAME
        self._wake = wake
        self._answer = answer
        self._socket = _open_socket()
        self._socket.settimeout(0)
        with reachable(self._path), _reachable(self._path) as address:
            self._path.unlink(missing_ok=True)
            self._socket.bind(address)
        from asyncio import get_running_loop

        get_running_loop().add_reader(self._socket.fileno(), self._read)

    def close(self) -> None:
        """Take the socket away."""
        from asyncio import get_running_loop

        get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _read(self) -> None:
        woken = False
        while True:
            try:
                message, sender = self._socket.recvfrom(LARGEST)
            except OSError:
                break
            woken = message == WAKE or not sender or self._reply(message, sender) or woken
        if woken:
            self._wake()

    def _reply(self, message: bytes, sender: Any) -> bool:
        """Answer a question; return whether the loops must look, since it may have changed something."""
        changes = True
        try:
            question = json.loads(message)
            changes = question["ask"] not in LOOKS
            reply = self._answer(question)
        except (ValueError, KeyError, TypeError) as error:
            reply = {"error": str(error)}
        with contextlib.suppress(OSError):  # the caller no longer listens
            self._socket.sendto(json.dumps(reply).encode(), sender)
        return changes


def wake(state: Path) -> None:
    """Wake the scheduler of this state folder; a full socket or no scheduler is fine."""
    if not os.path.exists(state / NAME):
        return
    with _open_socket() as sender, contextlib.suppress(OSError):
        sender.settimeout(0)
        with _reachable(state / NAME) as address:
            sender.sendto(WAKE, address)


def ask(state: Path, question: Mapping[str, Any], *, timeout: float = 1.0) -> dict[str, Any] | None:
    """Ask the scheduler's loop; None when nothing answers in time: it is dead or stalled."""
    if not os.path.exists(state / NAME):
        return None
    with _open_socket() as asker, _own_address(asker):
        asker.settimeout(0)
        try:
            with _reachable(state / NAME) as address:
                asker.sendto(json.dumps(dict(question)).encode(), address)
        except OSError:
            return None
        asker.settimeout(timeout)  # waits by poll(): select() refuses descriptors from 1,024 on
        try:
            reply: dict[str, Any] = json.loads(asker.recv(LARGEST))
        except TimeoutError:
            return None
        return reply


def _open_socket() -> "socket.socket":
    """Return a new socket. The import would cost 3 % of a command that needs none: no scheduler runs."""
    import socket

    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


@contextlib.contextmanager
def _own_address(asker: "socket.socket") -> Iterator[None]:
    """Give the asker an address to answer to: an abstract one on Linux, else a file that is removed again."""
    if os.path.exists("/proc/self/fd"):
        asker.bind("")
        yield
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="rota-") as folder:
        asker.bind(os.path.join(folder, "ask"))
        yield


@contextlib.contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """Yield a name of `path` that fits into a socket address, through the folder's descriptor where it is too long."""
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


PACKAGE, DIST_INFO = "rota", ".dist-info"


@cache
def own_version() -> str:
    """Return the version of this process, as it was when it was first asked: an upgrade leaves running code alone."""
    from importlib.metadata import version

    return version(PACKAGE)


def installed_version() -> str | None:
    """Return the version that lies on the disk now, None while an upgrade is under way.

    It is in the name of a folder: `importlib.metadata` would double the time of `rota status`.
    """
    for folder in sys.path:
        with contextlib.suppress(OSError):
            found = (name for name in os.listdir(folder or ".") if name.startswith(f"{PACKAGE}-"))
            if name := next((name for name in found if name.endswith(DIST_INFO)), None):
                return name.removeprefix(f"{PACKAGE}-").removesuffix(DIST_INFO)
    return None


OBJECTS = 10_000
"""How many more objects there must be before any are looked at: a run makes about thirty, and leaves no cycle."""


def collect_rarely() -> None:
    """Leave what is there now alone for good, and look at the rest less often: that is a tenth of a short run."""
    import gc

    gc.freeze()
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
