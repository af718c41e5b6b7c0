"""A way to a PostgreSQL server that can be cut, refused and swallowed: a socket that passes on what it is told to."""

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

NAME = ".s.PGSQL.5432"
CHUNK = 65_536


class Proxy:
    """Listens where a server would; `address` leads through it to the database of another address."""

    def __init__(self, folder: Path, address: str) -> None:
        parts = urlsplit(address)
        self._server = Path(parse_qs(parts.query)["host"][0]) / NAME
        self.address = parts._replace(query=f"host={folder}").geturl()
        self._path = folder / NAME
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._refuses = False
        self._closed = False
        self.connections = 0
        self.on_answer: Callable[[bytes], bool] | None = None
        """Called with what the server answers, as it comes; true: it does not arrive, the connection is cut instead."""
        self.on_question: Callable[[bytes], bool] | None = None
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(50)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Cut every connection."""
        for pair in list(self._pairs):
            self._end(pair)

    def refuse(self) -> None:
        """Cut every connection and let nobody in."""
        self._refuses = True
        self.cut()

    def admit(self) -> None:
        """Let everybody in again."""
        self._refuses = False

    def close(self) -> None:
        """Take the way away."""
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._closed:
                client, _ = self._listener.accept()
                self._admit(client)

    def _admit(self, client: socket.socket) -> None:
        self.connections += 1
        if self._refuses:
            client.close()
            return
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(str(self._server))
        except OSError:  # the server itself is down
            client.close()
            server.close()
            return
        pair = (client, server)
        self._pairs.add(pair)
        threading.Thread(target=self._pass, args=(pair, client, server, "on_question"), daemon=True).start()
        threading.Thread(target=self._pass, args=(pair, server, client, "on_answer"), daemon=True).start()

    def _pass(
        self, pair: tuple[socket.socket, socket.socket], source: socket.socket, to: socket.socket, ask: str
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                swallows = getattr(self, ask)
                if swallows is not None and swallows(data):
                    break
                to.sendall(data)
        self._end(pair)

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        self._pairs.discard(pair)
        for one in pair:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
