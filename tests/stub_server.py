"""A small HTTP server on this machine that answers as a test says, and keeps what it was asked."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct, field


class Reply(Struct, frozen=True):
    """One answer; `silent`: none comes before the server closes; `drips`: a head without an end, byte by byte."""

    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False
    drips: bool = False


def reply_json(value: Any, **changes: Any) -> Reply:
    """Return an answer that holds a JSON value."""
    return Reply(json.dumps(value).encode(), **changes)


class StubServer:
    """Answers every GET and POST with `reply`; keeps what was posted."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.bodies: list[bytes] = []
        self.hung_up = threading.Event()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def drip(self, connection: socket.socket) -> None:
        """Send a byte of a header again and again; set `hung_up` when the client is gone."""
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        try:
            while not self._closing.wait(0.02):
                connection.sendall(b"x")
        except OSError:
            self.hung_up.set()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                stub.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.do_GET()

            def do_GET(self) -> None:
                stub.asked.append((self.path, dict(self.headers)))
                reply = stub.reply
                if reply.silent:
                    stub._closing.wait()
                    return
                if reply.drips:
                    stub.drip(self.connection)
                    return
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, *_arguments: Any) -> None:
                """Say nothing."""

        return Handler


@contextmanager
def serving(reply: Reply | None = None) -> Iterator[StubServer]:
    """Serve until the end of the block."""
    server = StubServer(reply or Reply())
    server.start()
    try:
        yield server
    finally:
        server.close()
