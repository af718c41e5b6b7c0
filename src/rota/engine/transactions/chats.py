"""Events of chats: each is noted in the transaction of what it brings, so that it counts once."""

from datetime import datetime

from msgspec.structs import replace

from rota.engine.ports import Desk
from rota.model.chats import NOTICE_LIMIT, ChatKind, ChatMessage, ChatState, Incoming
from rota.model.errors import InvalidValue
from rota.model.ids import new_id
from rota.model.notifications import Target
from rota.model.records import cut
from rota.rules.chats import Command, Press, Refused, ReplyTo, Request
from rota.store.driver import Database
from rota.store.tables import chats
from rota.text.chats import UNKNOWN_BUTTON, UNKNOWN_MESSAGE

COPY = 1
"""The part of a copy of a question."""


def note(db: Database, bot: str, event: Incoming, *, now: datetime) -> bool:
    """Note an event; return False if it was noted before."""
    if event.cursor is not None:
        return chats.move(db, bot, event.cursor, now=now)
    return chats.receive(db, bot, event.key, now=now)


def carry_out(db: Database, desk: Desk, event: Incoming, request: Request, *, now: datetime) -> str | None:
    """Note an event and carry it out; return what it did, None if that was done before."""
    bot = request.target.bot
    if not note(db, bot, event, now=now):
        return None
    _adopt(db, event, request, now=now)
    text = _done(db, desk, event, request, now=now)
    if not event.press:
        insert_notice(db, request.target, event, text, now=now)
    return text


def _adopt(db: Database, event: Incoming, request: Request, *, now: datetime) -> None:
    """Record a copy of a question whose sending was not recorded, so that its buttons are removed at the end too."""
    action = request.action
    pressed = chats.message(db, action.token) if isinstance(action, Press) and event.message else None
    if pressed is None or pressed.kind is not ChatKind.QUESTION or pressed.message == event.message:
        return
    if (pressed.bot, pressed.chat) == (request.target.bot, event.chat):
        chats.insert_sent(db, replace(pressed, id=new_id(now), part=COPY, message=event.message, created_at=now))


def _done(db: Database, desk: Desk, event: Incoming, request: Request, *, now: datetime) -> str:
    target, person, action = request.target, request.person, request.action
    match action:
        case Refused(text):
            raise InvalidValue(text)
        case Command():
            return desk.command(db, target, action, person=person, now=now)
        case Press(token, index):
            pressed = chats.message(db, token)
            if pressed is None and index == 0:
                return desk.acknowledge(db, target, f"msg_{token}", message=event.message, person=person, now=now)
            if pressed is None or (pressed.bot, pressed.chat) != (target.bot, event.chat):
                raise InvalidValue(UNKNOWN_BUTTON)
            return desk.press(db, pressed, index, person=person, now=now)
        case ReplyTo(message, text):
            chat_message = chats.message_of(db, target.bot, event.chat, message) or desk.quoted(db, target, event.quote)
            if chat_message is None:
                raise InvalidValue(UNKNOWN_MESSAGE)
            return desk.reply(db, chat_message, text, person=person, now=now)


def refuse(db: Database, event: Incoming, request: Request, text: str, *, now: datetime) -> str | None:
    """Note an event that was refused, and store the answer to it."""
    if not note(db, request.target.bot, event, now=now):
        return None
    _adopt(db, event, request, now=now)
    if not event.callback:
        insert_notice(db, request.target, event, text, now=now)
    return text


def insert_notice(db: Database, target: Target, event: Incoming, text: str, *, now: datetime) -> None:
    """Store a message that answers an event."""
    chats.insert(db, new_message(target, ChatKind.NOTICE, event.key, body=text, reply_to=event.message, now=now))


def new_message(
    target: Target, kind: ChatKind, subject: str, *, body: str = "", reply_to: str = "", now: datetime
) -> ChatMessage:
    """Return a message to send."""
    return ChatMessage(
        id=new_id(now),
        bot=target.bot,
        chat=target.address,
        target=target.name,
        kind=kind,
        subject=subject,
        part=0,
        body=cut(body, NOTICE_LIMIT),
        reply_to=reply_to,
        message=None,
        state=ChatState.PENDING,
        attempts=0,
        next_at=now,
        created_at=now,
        sent_at=None,
        error=None,
    )
