"""A Telegram bot: the Bot API by long poll.

Texts are sent without `parse_mode`, so that nothing in them is markup. A button carries a token, never a command.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rota.chats.web import ApiAnswer, ChatApi
from rota.model.chats import TEXT_LIMIT, Button, ChatFailure, Incoming, Outgoing

MESSAGE_UNITS = 4000
"""The UTF-16 units of one message; the service accepts 4,096."""
FILE_BYTES = 49_000_000
BUTTON_TEXT = 60
TOAST_TEXT = 190
POLL_SECONDS = 50
BATCH = 100
ANSWER_SECONDS = 15.0
HOPELESS = (400, 403)
"""The message itself is refused, or the chat does not want the bot."""
WANTED = ("message", "callback_query")


class TelegramBot:
    """A bot by its token."""

    def __init__(self, api: ChatApi, token: str) -> None:
        self._api = api
        self._token = token

    def poll(self, cursor: int | None, *, seconds: int = POLL_SECONDS) -> list[Incoming]:
        """Return the next updates, waiting for the first; `cursor` confirms all earlier ones."""
        body: dict[str, Any] = {"timeout": seconds, "limit": BATCH, "allowed_updates": WANTED}
        if cursor is not None:
            body["offset"] = cursor
        found = self._call("getUpdates", body, timeout=seconds + ANSWER_SECONDS)
        return [read_update(update) for update in found if isinstance(update, dict)] if isinstance(found, list) else []

    def me(self) -> str:
        """Return the name of the bot."""
        found = self._call("getMe", {})
        return f"@{found.get('username', '?')}" if isinstance(found, dict) else "?"

    def send(self, chat: str, message: Outgoing) -> str:
        """Send a message and return its identifier."""
        form: dict[str, Any] = {"chat_id": chat}
        if message.reply_to.isdecimal():
            told = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
            form["reply_parameters"] = told
        if message.file:
            return self._send_file(form, message)
        form |= {"text": message.text, "link_preview_options": {"is_disabled": True}}
        if message.buttons:
            form["reply_markup"] = _keyboard(message.buttons)
        elif message.asks:
            form["reply_markup"] = {"force_reply": True, "selective": True}
        return _message_id(self._call("sendMessage", form))

    def _send_file(self, form: Mapping[str, Any], message: Outgoing) -> str:
        from json import dumps

        fields = {key: value if isinstance(value, str) else dumps(value) for key, value in form.items()}
        files = {"document": (message.file, message.data)}
        return _message_id(self._call("sendDocument", fields, files=files, timeout=4 * self._api.timeout))

    def close(self, chat: str, message: str, text: str) -> None:
        """Replace the text of a message and remove its buttons."""
        body = {"chat_id": chat, "message_id": _number(message)}
        try:
            self._call("editMessageText", {**body, "text": text})
        except ChatFailure as error:
            if error.status != 400:
                raise
            if "not modified" not in str(error):  # older than the service lets a bot edit: only the buttons go
                self._call("editMessageReplyMarkup", {**body, "reply_markup": {"inline_keyboard": []}})

    def confirm(self, callback: str, text: str) -> None:
        """Confirm a pressed button with a short text."""
        self._call("answerCallbackQuery", {"callback_query_id": callback, "text": text[:TOAST_TEXT]})

    def _call(
        self,
        method: str,
        body: Mapping[str, Any],
        *,
        files: Mapping[str, tuple[str, bytes]] | None = None,
        timeout: float | None = None,
    ) -> Any:
        path = f"bot{self._token}/{method}"
        sent: dict[str, Any] = {"body": body} if files is None else {"form": body, "files": files}
        answer = self._api.post(path, **sent, timeout=timeout)
        if answer.status == 200 and answer.data.get("ok") is True:
            return answer.data.get("result")
        raise _failure(method, answer)


def _failure(method: str, answer: ApiAnswer) -> ChatFailure:
    words = answer.data.get("description")
    text = f"{method}: {answer.status} {words if isinstance(words, str) else ''}".rstrip()[:300]
    parameters = answer.data.get("parameters")
    wait = parameters.get("retry_after") if isinstance(parameters, dict) else answer.wait
    told = float(wait) if isinstance(wait, int | float) and not isinstance(wait, bool) else None
    return ChatFailure(text, status=answer.status, wait=told, hopeless=answer.status in HOPELESS)


def _keyboard(buttons: Sequence[Button]) -> dict[str, Any]:
    rows = [[{"text": button.text[:BUTTON_TEXT], "callback_data": button.data}] for button in buttons]
    return {"inline_keyboard": rows}


def _message_id(found: Any) -> str:
    return str(found.get("message_id", "")) if isinstance(found, dict) else ""


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def read_update(update: Mapping[str, Any]) -> Incoming:
    """Return an update; other kinds than texts and presses, and damaged ones, have no chat."""
    number = update.get("update_id")
    cursor = number + 1 if isinstance(number, int) and not isinstance(number, bool) else None
    key = f"update {number}"
    pressed, message = update.get("callback_query"), update.get("message")
    if isinstance(pressed, dict):
        return _pressed(pressed, key, cursor)
    if isinstance(message, dict):
        return _written(message, key, cursor)
    return Incoming(key, cursor=cursor)


def _written(message: Mapping[str, Any], key: str, cursor: int | None) -> Incoming:
    sender, replied = _map(message.get("from")), _map(message.get("reply_to_message"))
    if "forum_topic_created" in replied:
        replied = {}  # each message of a topic replies to its first one
    return Incoming(
        key,
        chat=_id(_map(message.get("chat"))),
        user=_id(sender),
        name=_name(sender),
        text=_text(message.get("text")),
        message=str(message.get("message_id", "")),
        reply_to=str(replied.get("message_id", "")),
        quote=_text(replied.get("text")).partition("\n")[0] if _map(replied.get("from")).get("is_bot") is True else "",
        cursor=cursor,
    )


def _pressed(pressed: Mapping[str, Any], key: str, cursor: int | None) -> Incoming:
    sender, message = _map(pressed.get("from")), _map(pressed.get("message"))
    return Incoming(
        key,
        chat=_id(_map(message.get("chat"))),
        user=_id(sender),
        name=_name(sender),
        message=str(message.get("message_id", "")),
        press=_text(pressed.get("data")),
        callback=_text(pressed.get("id")),
        cursor=cursor,
    )


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _id(value: Mapping[str, Any]) -> str:
    found = value.get("id")
    return str(found) if isinstance(found, int) and not isinstance(found, bool) else ""


def _name(sender: Mapping[str, Any]) -> str:
    return " ".join(_text(sender.get(part)) for part in ("first_name", "last_name") if sender.get(part))


def _text(value: Any) -> str:
    return value[: TEXT_LIMIT + 1] if isinstance(value, str) else ""
