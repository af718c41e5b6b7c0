"""Answers of agents in chats: sent part by part, each stored before the next."""

import os
import stat
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from rota import faults
from rota.engine.ports import Message, Post
from rota.model.chats import ChatFailure, ChatKind, ChatMessage, ChatState, Outgoing
from rota.model.clock import Clock
from rota.model.ids import new_id
from rota.model.notifications import Channel, Delivery, DeliveryResult, Target
from rota.rules.chats import Part, parts_of, shorten
from rota.store.driver import Database, Store
from rota.store.tables import chats
from rota.text.chats import answer_head, answer_text, cost_line, file_name

MAX_FILES = 10
LEASE = timedelta(minutes=2)
"""For how long a delivery is reserved after each part."""
UNITS = {Channel.TELEGRAM: 4000, Channel.SLACK: 2900}
FILE_BYTES = 49_000_000


class ChatClient(Protocol):
    """A client of a chat service."""

    def me(self) -> str:
        """Return the name of the bot."""
        ...

    def send(self, chat: str, message: Outgoing) -> str:
        """Send a message and return its identifier."""
        ...

    def close(self, chat: str, message: str, text: str) -> None:
        """Replace the text of a message and remove its buttons."""
        ...

    def confirm(self, callback: str, text: str) -> None:
        """Confirm a pressed button."""
        ...


def client_of(target: Target, secret: Callable[[str], str]) -> ChatClient:
    """Return the client of a target's bot; raises SecretMissing."""
    from rota.chats.web import ChatApi

    api = ChatApi(target.api, allow_private=target.allow_private, timeout=target.timeout.total_seconds())
    token = secret(target.address_secret).strip()
    if target.channel is Channel.TELEGRAM:
        from rota.chats.telegram import TelegramBot

        return TelegramBot(api, token)
    from rota.chats.slack import SlackApp

    return SlackApp(api, token, secret(target.app_secret).strip() if target.app_secret else "")


def chat_sent(client: ChatClient, target: Target, out: Outgoing) -> DeliveryResult:
    """Send a message to the chat of a target. Blocks."""
    text = shorten(out.text, UNITS[target.channel])
    try:
        return DeliveryResult(ok=True, answer=200, message=client.send(target.address, replace(out, text=text)))
    except ChatFailure as error:
        return DeliveryResult(ok=False, answer=error.status, error=str(error), wait=error.wait, hopeless=error.hopeless)


def chat_checked(client: Any, target: Target) -> DeliveryResult:
    """Return the name of the bot as `message`, or why its service refuses it. Blocks."""
    try:
        name = client.me()
        if target.app_secret:
            client.open_socket()
    except ChatFailure as error:
        return DeliveryResult(ok=False, answer=error.status, error=str(error), hopeless=error.hopeless)
    return DeliveryResult(ok=True, answer=200, message=name)


class Answers:
    """Sends answers in parts. A crash repeats at most the part that was under way."""

    def __init__(self, store: Store, clock: Clock, post: Post) -> None:
        self._store = store
        self._clock = clock
        self._post = post

    async def send(self, delivery: Delivery, letter: Message) -> DeliveryResult:
        """Send the parts of an answer that were not sent yet; a delivery that was restarted begins anew."""
        target, payload = letter.target, letter.payload
        text, files = answer_text(payload, payload.get("result")), list(payload.get("files") or ())[:MAX_FILES]
        name, tail = file_name(delivery.handle), cost_line(payload)
        parts = parts_of(answer_head(payload), text, tail, units=UNITS[target.channel], name=name, files=files)
        sent = self._sent(delivery, target) if delivery.attempts else {}
        receipt = DeliveryResult(ok=True, answer=200)
        for number, part in enumerate(parts):
            if number in sent:
                continue
            receipt = await self._post.send(replace(letter, part=part, reply_to=sent.get(0, "")))
            if not receipt.ok:
                return receipt
            faults.point("chat.part_sent")
            sent[number] = receipt.message
            row = self._row(delivery, target, number, receipt.message)
            await self._store.submit(partial(_record, delivery=delivery.id, row=row, until=row.created_at + LEASE))
        return receipt

    def _sent(self, delivery: Delivery, target: Target) -> dict[int, str]:
        subject = delivery.run_id or ""
        found = partial(chats.about, name=target.bot, chat=target.address, kind=ChatKind.RESULT, subject=subject)
        return {row.part: row.message or "" for row in self._store.read(found)}

    def _row(self, delivery: Delivery, target: Target, number: int, message: str) -> ChatMessage:
        now = self._clock.now()
        return ChatMessage(
            id=new_id(now),
            bot=target.bot,
            chat=target.address,
            target=target.name,
            kind=ChatKind.RESULT,
            subject=delivery.run_id or "",
            part=number,
            body="",
            reply_to="",
            message=message,
            state=ChatState.SENT,
            attempts=1,
            next_at=None,
            created_at=now,
            sent_at=now,
            error=None,
        )


def _record(db: Database, *, delivery: str, row: ChatMessage, until: datetime) -> None:
    chats.insert_sent(db, row)
    chats.extend_delivery(db, delivery, until=until)


def outgoing(letter: Message, folders: Sequence[str]) -> Outgoing:
    """Return the message of a part of an answer; a file of the run is read from one of `folders`. Blocks."""
    part, payload = letter.part or Part(), letter.payload
    if part.file:
        text = answer_text(payload, payload.get("result"))
        return Outgoing(file=part.file, data=text.encode(), reply_to=letter.reply_to)
    if not part.path:
        return Outgoing(text=part.text, reply_to=letter.reply_to)
    name = os.path.basename(part.path.rstrip("/"))[:100] or "file"
    try:
        return Outgoing(file=name, data=read_file(part.path, folders), reply_to=letter.reply_to)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return Outgoing(text=f"The file {part.path[:200]} is not sent: {why}.", reply_to=letter.reply_to)


def read_file(path: str, folders: Sequence[str]) -> bytes:
    """Return the content of a regular file in one of the folders of a run; raise OSError for any other one."""
    roots = [os.path.realpath(folder) for folder in folders]
    for root in roots:
        found = Path(os.path.realpath(os.path.join(root, path)))
        if not found.is_relative_to(root) or not found.exists():
            continue
        descriptor = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError("it is not a file")
            if status.st_size > FILE_BYTES:
                raise OSError(f"it is larger than {FILE_BYTES:,} bytes")
            return file.read(FILE_BYTES)
    raise OSError("it is not in the folder of the run")
