"""A Slack app: the Web API for messages, and socket mode for what people send.

Texts are sent as `plain_text`, and the fallback text is escaped, so that nothing in them is markup or a mention.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from socket import create_connection
from typing import Any
from urllib.parse import urlsplit

from rota.chats.web import ChatApi
from rota.model.chats import TEXT_LIMIT, Button, ChatFailure, Incoming, Outgoing
from rota.model.errors import RotaError
from rota.sources.http import pin, trusted

MESSAGE_UNITS = 2900
"""The characters of one section; the service accepts 3,000."""
FILE_BYTES = 49_000_000
BUTTON_TEXT = 70
BUTTONS_A_ROW = 5
CONNECT_SECONDS = 15.0
PATIENCE = 60.0
"""The seconds without a frame after which a connection counts as dead; the service sends a ping more often."""
TRANSIENT = frozenset({"ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"})
UNAUTHORIZED = frozenset({"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"})


class SlackApp:
    """An app by its two tokens; the app token is needed only for the socket."""

    def __init__(self, api: ChatApi, token: str, app_token: str = "") -> None:
        self._api = api
        self._token = token
        self._app_token = app_token

    def me(self) -> str:
        """Return the name of the app's bot and its workspace."""
        found = self._call("auth.test", {})
        return f"{found.get('user', '?')} in {found.get('team', '?')}"

    def send(self, chat: str, message: Outgoing) -> str:
        """Send a message and return its timestamp, which identifies it in its channel."""
        if message.file:
            return self._send_file(chat, message)
        body: dict[str, Any] = {"channel": chat, **_shown(message.text, message.buttons)}
        body |= {"unfurl_links": False, "unfurl_media": False}
        if message.reply_to:
            body["thread_ts"] = message.reply_to
        return str(self._call("chat.postMessage", body).get("ts", ""))

    def _send_file(self, chat: str, message: Outgoing) -> str:
        wanted = {"filename": message.file, "length": str(len(message.data))}
        place = self._call("files.getUploadURLExternal", wanted, form=True)
        url, file = place.get("upload_url"), place.get("file_id")
        if not isinstance(url, str) or not isinstance(file, str):
            raise ChatFailure("files.getUploadURLExternal: no address in the answer")
        sent = self._api.post(url, content=message.data, timeout=4 * self._api.timeout)
        if sent.status != 200:
            raise ChatFailure(f"the upload of a file: {sent.status}", status=sent.status, wait=sent.wait)
        body: dict[str, Any] = {"files": [{"id": file, "title": message.file}], "channel_id": chat}
        if message.reply_to:
            body["thread_ts"] = message.reply_to
        self._call("files.completeUploadExternal", body)
        return f"file {file}"

    def close(self, chat: str, message: str, text: str) -> None:
        """Replace the text of a message and remove its buttons."""
        self._call("chat.update", {"channel": chat, "ts": message, **_shown(text, ())})

    def confirm(self, callback: str, text: str) -> None:
        """Do nothing: the acknowledgement of the envelope has confirmed the press."""

    def open_socket(self) -> str:
        """Return the address of a new socket."""
        found = self._call("apps.connections.open", {}, token=self._app_token)
        url = found.get("url")
        if not isinstance(url, str):
            raise ChatFailure("apps.connections.open: no address in the answer")
        return url

    def listen(
        self, take: Callable[[Incoming], bool], *, over: Callable[[], bool], opened: Callable[[], object] = bool
    ) -> None:
        """Take events from a socket until the service closes it or `over`; an event that was stored is acknowledged.

        The service sends an event again that was not acknowledged. `opened` is called when the socket is ready.
        """
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        url = self.open_socket()
        try:
            place = pin(_as_http(url), allow_private=self._api.allow_private)
            parts = urlsplit(place.url)
            connection = create_connection((parts.hostname or "", parts.port or 443), timeout=CONNECT_SECONDS)
            secure = trusted() if url.startswith("wss:") else None
            name = place.name if secure else None
            with connect(url, sock=connection, ssl=secure, server_hostname=name, max_size=1 << 20) as socket:
                _listen(socket, take, over, opened)
        except (WebSocketException, OSError, EOFError) as error:
            raise ChatFailure(f"the socket: {type(error).__name__}") from None
        except RotaError as error:
            raise ChatFailure(f"the socket: {error.message}") from None

    def _call(
        self, method: str, body: Mapping[str, Any], *, token: str | None = None, form: bool = False
    ) -> Mapping[str, Any]:
        headers = {"authorization": f"Bearer {self._token if token is None else token}"}
        sent: dict[str, Any] = {"form": body} if form else {"body": body}
        answer = self._api.post(method, headers=headers, **sent)
        if answer.status == 200 and answer.data.get("ok") is True:
            return answer.data
        error = answer.data.get("error")
        word = error if isinstance(error, str) else str(answer.status)
        hopeless = answer.status == 200 and word not in TRANSIENT
        status = 401 if word in UNAUTHORIZED else answer.status
        raise ChatFailure(f"{method}: {word}"[:300], status=status, wait=answer.wait, hopeless=hopeless)


def _listen(
    socket: Any, take: Callable[[Incoming], bool], over: Callable[[], bool], opened: Callable[[], object]
) -> None:
    quiet = 0.0
    while not over():
        try:
            frame = socket.recv(timeout=1.0)
        except TimeoutError:
            quiet += 1.0
            if quiet >= PATIENCE:
                socket.ping().wait(timeout=10.0)
                quiet = 0.0
            continue
        quiet = 0.0
        envelope = _object(frame)
        if envelope.get("type") == "disconnect":
            return
        if envelope.get("type") == "hello":
            opened()
        found = read_envelope(envelope)
        identifier = envelope.get("envelope_id")
        if identifier and (found is None or take(found)):
            socket.send(json.dumps({"envelope_id": identifier}))


def _as_http(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{ {'wss': 'https', 'ws': 'http'}.get(scheme, scheme) }://{rest}"


def _object(frame: Any) -> Mapping[str, Any]:
    try:
        found = json.loads(frame)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def escape(text: str) -> str:
    """Return a text in which nothing is a mention or a link.

    >>> escape("<!channel> a & b")
    '&lt;!channel&gt; a &amp; b'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    """Return the text that a person wrote."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _shown(text: str, buttons: Sequence[Button]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "section", "text": _plain(text)}]
    for first in range(0, len(buttons), BUTTONS_A_ROW):
        row = [
            {
                "type": "button",
                "text": _plain(button.text[:BUTTON_TEXT]),
                "value": button.data,
                "action_id": f"b{index}",
            }
            for index, button in enumerate(buttons[first : first + BUTTONS_A_ROW], first)
        ]
        blocks.append({"type": "actions", "elements": row})
    return {"text": escape(text), "mrkdwn": False, "blocks": blocks}


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def read_envelope(envelope: Mapping[str, Any]) -> Incoming | None:
    """Return the event of an envelope of socket mode; None for everything that needs only an acknowledgement."""
    payload, kind = _map(envelope.get("payload")), envelope.get("type")
    if kind == "events_api":
        return _written(payload)
    if kind == "interactive":
        return _pressed(payload)
    return _commanded(payload) if kind == "slash_commands" else None


def _written(payload: Mapping[str, Any]) -> Incoming | None:
    event = _map(payload.get("event"))
    if event.get("type") != "message" or event.get("subtype") or event.get("bot_id"):
        return None
    stamp, thread = _text(event.get("ts")), _text(event.get("thread_ts"))
    return Incoming(
        f"message {_text(event.get('channel'))} {stamp}",
        chat=_text(event.get("channel")),
        user=_text(event.get("user")),
        text=unescape(_text(event.get("text"))),
        message=thread or stamp,
        reply_to=thread if thread != stamp else "",
    )


def _pressed(payload: Mapping[str, Any]) -> Incoming | None:
    actions = payload.get("actions")
    action = _map(actions[0]) if isinstance(actions, list) and actions else {}
    if payload.get("type") != "block_actions" or not action:
        return None
    user, container = _map(payload.get("user")), _map(payload.get("container"))
    message = _text(container.get("message_ts"))
    return Incoming(
        f"press {message} {_text(user.get('id'))} {_text(action.get('action_ts'))}",
        chat=_text(_map(payload.get("channel")).get("id")) or _text(container.get("channel_id")),
        user=_text(user.get("id")),
        name=_text(user.get("name")) or _text(user.get("username")),
        message=message,
        press=_text(action.get("value")),
    )


def _commanded(payload: Mapping[str, Any]) -> Incoming:
    """Return `/rota run backup` as `/run backup`."""
    return Incoming(
        f"command {_text(payload.get('trigger_id'))}",
        chat=_text(payload.get("channel_id")),
        user=_text(payload.get("user_id")),
        name=_text(payload.get("user_name")),
        text=f"/{unescape(_text(payload.get('text'))).strip()}",
    )


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value[: TEXT_LIMIT + 1] if isinstance(value, str) else ""
