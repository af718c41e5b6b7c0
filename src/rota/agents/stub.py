"""A stub of the APIs of models on this machine, for `rota agents certify`. It does what the prompt says after `stub:`.

`{"say": "text"}` answers; `{"tool": "Bash", "input": {…}}` asks for a tool first, `"again": true` at every turn;
`{"status": 429, "message": "…", "headers": {…}}` refuses, with `"at": "/v1/messages"` only there; `{"hang": true}`
never answers. `"then": {…}` is the order once the tool has answered.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct

from rota.agents import dialects
from rota.agents.dialects import Dialect, Events, Json

ORDER = re.compile(r"stub:\s*(\{.*)")


class Asked(Struct, frozen=True):
    """One request: its path, its headers, its body."""

    path: str
    headers: dict[str, str]
    body: Json


class Stub(ThreadingHTTPServer):
    """The server; `asked` holds every request for an answer of a model, `reached` the path of every GET."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked: list[Asked] = []
        self.reached: list[str] = []
        self.closing = threading.Event()
        self.waiting = threading.Event()
        """Set when a request hangs."""
        self.calm = False
        """Whether orders to refuse are answered."""

    def handle_error(self, *_: object) -> None:
        """Be silent: an agent that is killed leaves broken connections behind."""


@contextmanager
def serving() -> Iterator[Stub]:
    """Serve for as long as the block lasts."""
    stub = Stub()
    threading.Thread(target=stub.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield stub
    finally:
        stub.closing.set()
        stub.shutdown()
        stub.server_close()


def order_in(texts: list[str]) -> Json:
    """Return the last order among the texts of a conversation."""
    found = [match for text in texts for match in ORDER.findall(text)]
    return dict(json.JSONDecoder().raw_decode(found[-1])[0]) if found else {}


class Handler(BaseHTTPRequestHandler):
    """Answers as the order in the prompt says."""

    protocol_version = "HTTP/1.1"
    server: Stub

    def log_message(self, *_: object) -> None:
        """Be silent."""

    def do_HEAD(self) -> None:
        """Answer nothing."""
        self._json(200, {})

    def do_GET(self) -> None:
        """Answer a list without entries."""
        self.server.reached.append(self.path)
        self._json(200, {"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        """Answer as a model, if one has this address."""
        body = json.loads(self._body() or b"{}")
        dialect = dialects.of(self.path.partition("?")[0])
        if dialect is None:
            self._json(200, {"totalTokens": 5, "input_tokens": 5})
            return
        self.server.asked.append(Asked(self.path, dict(self.headers), body))
        order = order_in(dialect.texts(body))
        order = order.get("then", order) if dialect.has_result(body) else order
        if order.get("hang"):
            self.server.waiting.set()
            self.server.closing.wait()
        elif "status" in order and not self.server.calm and order.get("at", "") in self.path:
            refusal = dialect.refuse(order["status"], order.get("message", "no"))
            if "code" in order:
                refusal["error"]["code"] = order["code"]
            self._json(order["status"], refusal, order.get("headers"))
        else:
            self._answer(dialect, body, order)

    def _answer(self, dialect: Dialect, body: Json, order: Json) -> None:
        again = order.get("again") or not dialect.has_result(body)
        tool = order if "tool" in order and body.get("tools") and again else None
        answer = dialect.answer(body, tool=tool, text=order.get("say", "stub answer"))
        if isinstance(answer, Events):
            self._stream(answer)
        else:
            self._json(200, answer)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, events: Events) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"{name}data: {data}\n\n".encode())
