"""A stand-in of Slack: the Web API and socket mode, with shapes as the service sends them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from tests.waiting import LONGEST_WAIT

BOT, APP = "xoxb-stand-in", "xapp-stand-in"
CHANNEL, USER = "C0123456789", "U0123456789"


class SlackServer:
    """Keeps the messages of one app, and the envelopes until they are acknowledged."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.messages: dict[str, dict[str, Any]] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.failures: list[tuple[str, int, dict[str, Any]]] = []
        self.unacknowledged: dict[str, dict[str, Any]] = {}
        self.acknowledged: list[str] = []
        self.connections = 0
        self.last_payload: dict[str, Any] = {}
        self._number = 0
        self._changed = threading.Condition()
        self._sockets: list[ServerConnection] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._socket: Server = serve(self._serve, "127.0.0.1", 0)
        self.place = f"127.0.0.1:{self._http.server_port}"
        self.socket_place = f"127.0.0.1:{self._socket.socket.getsockname()[1]}"
        self.url = f"http://{self.place}/api"

    def start(self) -> None:
        """Serve in threads."""
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        threading.Thread(target=self._socket.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop, and close the sockets."""
        self.disconnect()
        self._http.shutdown()
        self._http.server_close()
        self._socket.shutdown()

    def disconnect(self) -> None:
        """Close the sockets, as the service does now and then."""
        with self._changed:
            sockets, self._sockets = self._sockets, []
        for socket in sockets:
            try:
                socket.send(json.dumps({"type": "disconnect", "reason": "refresh_requested", "debug_info": {}}))
                socket.close()
            except ConnectionClosed:
                pass

    # what a person does

    def say(self, text: str, *, thread: str = "", user: str = USER, channel: str = CHANNEL) -> str:
        """Write a text; return the timestamp of the message."""
        stamp = self._stamp()
        event = {
            "type": "message",
            "channel": channel,
            "user": user,
            "text": text,
            "ts": stamp,
            "channel_type": "channel",
        }
        if thread:
            event["thread_ts"] = thread
        payload = {"type": "event_callback", "team_id": "T1", "event": event, "event_id": f"Ev{stamp}"}
        self.push({"type": "events_api", "payload": payload, "accepts_response_payload": False})
        return stamp

    def press(self, message: str, index: int = 0, *, user: str = USER, channel: str = CHANNEL, value: str = "") -> None:
        """Press a button of a message."""
        buttons = [
            one for block in self.messages.get(message, {}).get("blocks", ()) for one in block.get("elements", ())
        ]
        action = {"type": "button", "action_id": f"b{index}", "action_ts": self._stamp()}
        action["value"] = value or buttons[index]["value"]
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": "ada", "name": "ada", "team_id": "T1"},
            "container": {"type": "message", "message_ts": message, "channel_id": channel},
            "channel": {"id": channel, "name": "ops"},
            "actions": [action],
        }
        self.push({"type": "interactive", "payload": payload, "accepts_response_payload": False})

    def command(self, text: str, *, user: str = USER, channel: str = CHANNEL) -> None:
        """Send `/rota TEXT`."""
        payload = {"command": "/rota", "text": text, "user_id": user, "user_name": "ada", "channel_id": channel}
        payload["trigger_id"] = self._stamp()
        self.push({"type": "slash_commands", "payload": payload, "accepts_response_payload": True})

    def push(self, envelope: dict[str, Any]) -> str:
        """Send an envelope to one socket, now or when one is there."""
        with self._changed:
            self._number += 1
            self.last_payload = envelope.get("payload", {})
            identifier = f"envelope-{self._number}"
            self.unacknowledged[identifier] = {"envelope_id": identifier, **envelope}
            if self._sockets:
                with suppress(ConnectionClosed):  # the next socket gets it
                    self._sockets[-1].send(json.dumps(self.unacknowledged[identifier]))
        return identifier

    # what the app did

    def texts(self) -> list[str]:
        """Return the texts of the app's messages."""
        return [message["text"] for message in self.messages.values()]

    def pause(self, seconds: float = 0.05) -> None:
        """Wait for the next thing that happens, at most so long."""
        with self._changed:
            self._changed.wait(seconds)

    def wait(self, until: Any, *, seconds: float = LONGEST_WAIT) -> Any:
        """Wait for a condition."""
        with self._changed:
            found = self._changed.wait_for(lambda: until(self), timeout=seconds)
        assert found, (self.calls, self.unacknowledged)
        return found

    def _stamp(self) -> str:
        self._number += 1
        return f"1700000000.{self._number:06}"

    def _serve(self, socket: ServerConnection) -> None:
        with self._changed:
            self.connections += 1
            self._sockets.append(socket)
            socket.send(json.dumps({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}}))
            for envelope in self.unacknowledged.values():
                socket.send(json.dumps(envelope))
            self._changed.notify_all()
        try:
            for frame in socket:
                identifier = json.loads(frame)["envelope_id"]
                with self._changed:
                    self.unacknowledged.pop(identifier, None)
                    self.acknowledged.append(identifier)
                    self._changed.notify_all()
        except ConnectionClosed:
            pass
        finally:
            with self._changed:
                if socket in self._sockets:
                    self._sockets.remove(socket)

    def call(self, method: str, token: str, body: dict[str, Any]) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Return the status, the answer and the headers of a method."""
        with self._changed:
            self.calls.append((method, body))
            for index, (failing, status, further) in enumerate(self.failures):
                if failing == method:
                    del self.failures[index]
                    return status, {"ok": False, **further}, {"Retry-After": "7"} if status == 429 else {}
            wanted = APP if method == "apps.connections.open" else BOT
            if token != f"Bearer {wanted}":
                return 200, {"ok": False, "error": "invalid_auth"}, {}
            try:
                return 200, {"ok": True, **self._answer(method, body)}, {}
            except LookupError as error:
                return 200, {"ok": False, "error": str(error.args[0])}, {}
            finally:
                self._changed.notify_all()

    def _answer(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "auth.test":
                return {"user": "rota", "team": "Team", "user_id": "UBOT", "bot_id": "B1"}
            case "apps.connections.open":
                return {"url": f"ws://{self.socket_place}/link/?ticket=1"}
            case "chat.postMessage":
                stamp = self._stamp()
                self.messages[stamp] = dict(body)
                return {"channel": body["channel"], "ts": stamp, "message": {"text": body["text"]}}
            case "chat.update":
                if body["ts"] not in self.messages:
                    raise LookupError("message_not_found")
                self.messages[body["ts"]] |= {"text": body["text"], "blocks": body["blocks"]}
                return {"ts": body["ts"], "text": body["text"]}
            case "files.getUploadURLExternal":
                identifier = f"F{self._stamp()[-6:]}"
                self.files[identifier] = (body["filename"], b"")
                return {"upload_url": f"http://{self.place}/upload/{identifier}", "file_id": identifier}
            case "files.completeUploadExternal":
                return {"files": [{"id": file["id"], "title": file["title"]} for file in body["files"]]}
        raise LookupError("unknown_method")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, answer, headers = 200, {}, {}
                if self.path.startswith("/upload/"):
                    identifier = self.path.rpartition("/")[2]
                    stand_in.files[identifier] = (stand_in.files[identifier][0], content)
                else:
                    form = "json" not in self.headers.get("Content-Type", "")
                    body = dict(parse_qsl(content.decode())) if form else json.loads(content)
                    method, token = self.path.rpartition("/")[2], self.headers.get("Authorization", "")
                    status, answer, headers = stand_in.call(method, token, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {
                    "Content-Type": "application/json",
                    "Content-Length": str(len(data)),
                    **headers,
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_arguments: Any) -> None:
                """Say nothing."""

        return Handler


@contextmanager
def slack() -> Iterator[SlackServer]:
    """Serve until the end of the block."""
    server = SlackServer()
    server.start()
    try:
        yield server
    finally:
        server.close()
