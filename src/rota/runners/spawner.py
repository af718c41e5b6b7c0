"""The spawner: a single-threaded process that forks keepers. Standard library only.

Run as `python -I -S spawner.py FD`; it ends when the other end of the socket is closed, the keepers stay. Processes of
a killed keeper become children of the spawner, and are killed.
"""

import gc
import os
import signal
import socket
import struct
import sys
import types
from typing import NoReturn

REPLY = struct.Struct("=qq")
REQUEST = b"k"


def serve(channel: socket.socket) -> NoReturn:
    """Fork a keeper for each request until the scheduler is gone."""
    from rota import faults
    from rota.runners import keeper, tree

    keeper.listen_to_orders()
    keeper.become_subreaper()
    woken = keeper.wake_on_children()
    gc.freeze()  # a collection in a keeper then copies none of the shared pages
    keepers = set[int]()
    while True:
        ready = keeper.readable([channel.fileno(), woken], None)
        if woken in ready:
            os.read(woken, 4096)
            end_orphans(keepers)
        if channel.fileno() not in ready:
            continue
        request, files, _, _ = socket.recv_fds(channel, len(REQUEST), 1)
        if not request:
            os._exit(0)
        try:
            pid = os.fork()
        except OSError as error:
            pid = -(error.errno or 1)
        if pid == 0:
            channel.close()
            os.close(woken)
            own = socket.socket(fileno=files[0])
            own.set_inheritable(inheritable=False)
            keeper.keep(own)
        keepers.add(pid)  # a negative pid is an error number
        faults.point("spawner.forked")
        start = tree.start_ticks(pid) if pid > 0 else None
        channel.send(REPLY.pack(pid, start or 0))
        for file in files:
            os.close(file)


def end_orphans(keepers: set[int]) -> None:
    """Reap ended children, and kill orphans of killed keepers: children that are no keepers."""
    from rota.runners import tree

    try:
        while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            keepers.discard(ended)
    except ChildProcessError:
        return
    for orphan in tree.children(os.getpid()) if tree.LINUX else ():
        if orphan not in keepers:
            tree.send(orphan, signal.SIGKILL)  # its children then become ours, which wakes this process


def stand_in_for_the_package() -> None:
    """Make `rota.runners` importable from this folder, without site-packages and without the package's own code."""
    folder = os.path.dirname(os.path.abspath(__file__))
    for name, path in (("rota", os.path.dirname(folder)), ("rota.runners", folder)):
        package = types.ModuleType(name)
        package.__path__ = [path]
        sys.modules[name] = package


if __name__ == "__main__":
    stand_in_for_the_package()
    serve(socket.socket(fileno=int(sys.argv[1])))
