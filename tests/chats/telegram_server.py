"""A stand-in of the Bot API of Telegram: shapes as the service sends them, updates by long poll.

`python -m tests.chats.telegram_server 8081` serves one by hand: lines of standard input are written by a person.
"""

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.waiting import LONGEST_WAIT

TOKEN = "123456:stand-in"
CHAT, USER = 5001, 5001


class TelegramServer:
    """Keeps the messages of one bot, and the updates until they are confirmed."""

    def __init__(self, *, token: str = TOKEN, waits: bool = False, port: int = 0) -> None:
        self.token = token
        self.waits = waits
        """Whether a poll waits for an update, as the service does."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.messages: dict[int, dict[str, Any]] = {}
        self.documents: dict[int, tuple[str, bytes]] = {}
        self.updates: list[dict[str, Any]] = []
        self.failures: list[tuple[str, int, dict[str, Any]]] = []
        """The next answers to methods that fail: method, status, further keys."""
        self.polls: list[int] = []
        self._next_update, self._next_message = 700, 10
        self._changed = threading.Condition()
        self._closing = False
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self.place = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.place}"

    def start(self) -> None:
        """Serve in a thread."""
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Stop, and end waiting polls."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    # what a person does

    def say(self, text: str, *, user: int = USER, chat: int = CHAT, reply_to: int | None = None) -> int:
        """Write a text; return the identifier of the message."""
        message = {
            "message_id": self._message_id(),
            "from": {"id": user, "is_bot": False, "first_name": "Ada", "last_name": "L", "username": "ada"},
            "chat": {"id": chat, "first_name": "Ada", "type": "private"},
            "date": 1_700_000_000,
            "text": text,
        }
        if reply_to is not None:
            message["reply_to_message"] = self.messages.get(reply_to, {"message_id": reply_to, "date": 0})
        self.push({"message": message})
        return int(message["message_id"])

    def press(
        self, message: int, index: int = 0, *, user: int = USER, chat: int = CHAT, data: str | None = None
    ) -> None:
        """Press a button of a message, or send other data as a changed client can."""
        shown = self.messages.get(message, {"message_id": message})
        keyboard = shown.get("reply_markup", {}).get("inline_keyboard", [])
        found = keyboard[index][0]["callback_data"] if data is None else data
        pressed = {
            "id": f"callback-{self._next_update}",
            "from": {"id": user, "is_bot": False, "first_name": "Ada"},
            "message": {"message_id": message, "chat": {"id": chat, "type": "private"}, "date": 1, "text": "…"},
            "chat_instance": "1",
            "data": found,
        }
        self.push({"callback_query": pressed})

    def push(self, update: dict[str, Any]) -> None:
        """Add an update."""
        with self._changed:
            self.updates.append({"update_id": self._next_update, **update})
            self._next_update += 1
            self._changed.notify_all()

    # what the bot did

    def sent(self) -> list[dict[str, Any]]:
        """Return the messages of the bot, oldest first."""
        return [self.messages[key] for key in sorted(self.messages)]

    def texts(self) -> list[str]:
        """Return the texts of the bot's messages."""
        return [message["text"] for message in self.sent() if "text" in message]

    def wait_for_text(self, part: str, *, seconds: float = LONGEST_WAIT) -> dict[str, Any]:
        """Wait for a message of the bot with this part of a text."""
        with self._changed:
            found = self._changed.wait_for(lambda: self._with(part), timeout=seconds)
        assert found, f"no message with {part!r}: {self.texts()}"
        return found

    def _with(self, part: str) -> dict[str, Any] | None:
        return next((message for message in self.sent() if part in message.get("text", "")), None)

    def answered(self) -> list[str]:
        """Return the texts that confirmed pressed buttons."""
        return [str(body.get("text")) for method, body in self.calls if method == "answerCallbackQuery"]

    def _message_id(self) -> int:
        self._next_message += 1
        return self._next_message

    # the methods

    def call(
        self, method: str, body: dict[str, Any], files: dict[str, tuple[str, bytes]]
    ) -> tuple[int, dict[str, Any]]:
        """Return the status and the answer of a method."""
        with self._changed:
            self.calls.append((method, body))
            for index, (failing, status, further) in enumerate(self.failures):
                if failing == method:
                    del self.failures[index]
                    return status, {"ok": False, "error_code": status, **further}
            method_of = getattr(self, f"_{_snake(method)}", None)
            if method_of is None:
                return 404, {"ok": False, "error_code": 404, "description": "Not Found"}
            try:
                result = method_of(body, files)
            except LookupError:
                return 400, {"ok": False, "error_code": 400, "description": "Bad Request: message to edit not found"}
            finally:
                self._changed.notify_all()
            return 200, {"ok": True, "result": result}

    def _get_me(self, _body: Any, _files: Any) -> Any:
        return {"id": 123456, "is_bot": True, "first_name": "rota", "username": "rota_bot"}

    def _get_updates(self, body: dict[str, Any], _files: Any) -> Any:
        offset = body.get("offset", 0)
        self.polls.append(offset)
        self.updates = [update for update in self.updates if update["update_id"] >= offset]
        if self.waits and not self.updates:
            self._changed.wait_for(lambda: self.updates or self._closing, timeout=body.get("timeout", 0))
        return self.updates[: body.get("limit", 100)]

    def _send_message(self, body: dict[str, Any], _files: Any) -> Any:
        message = {"message_id": self._message_id(), "from": self._get_me(None, None), "date": 1, "text": body["text"]}
        message["chat"] = {"id": int(body["chat_id"]), "type": "private"}
        for key in ("reply_markup", "reply_parameters", "parse_mode"):
            if key in body:
                message[key] = body[key]
        self.messages[message["message_id"]] = message
        return message

    def _send_document(self, body: dict[str, Any], files: dict[str, tuple[str, bytes]]) -> Any:
        message = {"message_id": self._message_id(), "date": 1, "chat": {"id": int(body["chat_id"])}}
        message["document"] = {"file_name": files["document"][0]}
        self.documents[message["message_id"]] = files["document"]
        self.messages[message["message_id"]] = message
        return message

    def _answer_callback_query(self, _body: Any, _files: Any) -> Any:
        return True

    def _edit_message_text(self, body: dict[str, Any], _files: Any) -> Any:
        message = self.messages[body["message_id"]]
        message["text"] = body["text"]
        message.pop("reply_markup", None)
        return message

    def _edit_message_reply_markup(self, body: dict[str, Any], _files: Any) -> Any:
        self.messages[body["message_id"]].pop("reply_markup", None)
        return True

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                kind = self.headers.get("Content-Type", "")
                _, bot, method = [*self.path.split("/"), "", ""][:3]
                body, files = _read(content, kind)
                if bot != f"bot{stand_in.token}":
                    status, answer = 401, {"ok": False, "error_code": 401, "description": "Unauthorized"}
                else:
                    status, answer = stand_in.call(method, body, files)
                data = json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # the client did not wait

            def log_message(self, *_arguments: Any) -> None:
                """Say nothing."""

        return Handler


def _read(content: bytes, kind: str) -> tuple[dict[str, Any], dict[str, tuple[str, bytes]]]:
    if not kind.startswith("multipart/"):
        return (json.loads(content) if content else {}), {}
    parsed = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + content)
    body: dict[str, Any] = {}
    files: dict[str, tuple[str, bytes]] = {}
    for part in parsed.get_payload():
        name = part.get_param("name", header="content-disposition")  # type: ignore[union-attr]
        data = part.get_payload(decode=True)  # type: ignore[union-attr]
        if part.get_filename():  # type: ignore[union-attr]
            files[str(name)] = (str(part.get_filename()), data)  # type: ignore[union-attr, assignment]
        else:
            body[str(name)] = data.decode()  # type: ignore[union-attr]
    return body, files


def _snake(method: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", method).lower()


@contextmanager
def telegram(**changes: Any) -> Iterator[TelegramServer]:
    """Serve until the end of the block."""
    server = TelegramServer(**changes)
    server.start()
    try:
        yield server
    finally:
        server.close()


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(port: int) -> None:
    """Serve by hand: `TEXT`, `reply ID TEXT` and `press ID INDEX` are what the person does."""
    with telegram(waits=True, port=port) as server:
        _show(f"{server.url}, token {TOKEN}, chat and user {CHAT}")
        seen = 0
        for line in sys.stdin:
            words = line.strip().split(" ", 2)
            match words:
                case ["reply", message, text]:
                    server.say(text, reply_to=int(message))
                case ["press", message, index]:
                    server.press(int(message), int(index))
                case [""]:
                    pass
                case _:
                    server.say(line.strip())
            for number, message in enumerate(server.sent()):
                if number >= seen:
                    _show(json.dumps(message, ensure_ascii=False))
            seen = len(server.messages)


if __name__ == "__main__":
    main(int(sys.argv[1]))
