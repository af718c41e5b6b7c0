"""Rows of bots, messages to chats and replies."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from rota.model.agents import AgentSession
from rota.model.budgets import MILLION
from rota.model.chats import BotState, ChatKind, ChatMessage, Reply
from rota.model.clock import MILLISECOND, to_ms
from rota.store.driver import Database
from rota.store.rows import instant_of, record_or_none, records_of

FORGOTTEN = timedelta(days=6)
"""After a week without updates a bot's updates are numbered anew: an older position counts no longer."""
RECEIVED_RETENTION = timedelta(days=3)
MESSAGE_RETENTION = timedelta(days=90)
MANY_ATTEMPTS = 8
"""After so many attempts, some four minutes, a message that is still tried needs attention."""


def bots(db: Database) -> list[BotState]:
    """Return the states of all bots that were ever read."""
    return records_of(BotState, db.rows("chat_bots"))


def bot(db: Database, name: str) -> BotState | None:
    """Return the state of a bot, None before its first reading."""
    return record_or_none(BotState, db.row("chat_bot_get", bot=name))


def take_bot(db: Database, name: str, *, epoch: int, now: datetime, until: datetime) -> bool:
    """Take or renew the lease of a bot; return False if another process reads it."""
    db.announces = False
    db.execute("chat_bot_insert", bot=name)
    return db.execute("chat_bot_take", bot=name, epoch=epoch, now=to_ms(now), until=to_ms(until)) == 1


def leave_bots(db: Database, epoch: int) -> None:
    """Release the leases of a process."""
    db.execute("chat_bot_leave", epoch=epoch)


def move(db: Database, name: str, cursor: int, *, now: datetime) -> bool:
    """Move the position of a bot; return False if it is there or further already."""
    before = to_ms(now - FORGOTTEN)
    return db.execute("chat_bot_move", bot=name, cursor=cursor, now=to_ms(now), forgotten=before) == 1


def receive(db: Database, name: str, key: str, *, now: datetime) -> bool:
    """Note an event of a bot without a position; return False if it was noted before."""
    return db.execute("chat_received_insert", bot=name, key=key, now=to_ms(now)) == 1


def ignore(db: Database, name: str, count: int) -> None:
    """Count ignored events of a bot."""
    db.execute("chat_bot_insert", bot=name)
    db.execute("chat_bot_ignore", bot=name, count=count)


def insert(db: Database, message: ChatMessage) -> bool:
    """Store a message to send; an existing one about the same is not repeated."""
    return (
        db.execute(
            "chat_message_insert",
            id=message.id,
            bot=message.bot,
            chat=message.chat,
            target=message.target,
            kind=message.kind,
            subject=message.subject,
            part=message.part,
            body=message.body,
            reply_to=message.reply_to,
            now=to_ms(message.created_at),
        )
        == 1
    )


def insert_sent(db: Database, message: ChatMessage) -> None:
    """Store a message that was sent."""
    db.execute(
        "chat_message_sent_insert",
        id=message.id,
        bot=message.bot,
        chat=message.chat,
        target=message.target,
        kind=message.kind,
        subject=message.subject,
        part=message.part,
        body=message.body,
        message=message.message,
        now=to_ms(message.created_at),
    )


def due(db: Database, name: str, *, now: datetime, limit: int) -> list[ChatMessage]:
    """Return the messages of a bot to send or to close, longest due first."""
    return records_of(ChatMessage, db.rows("chat_message_due", bot=name, now=to_ms(now), limit=limit))


def next_due(db: Database, name: str) -> datetime | None:
    """Return the time of the next message of a bot to send or to close."""
    return instant_of(db, "chat_message_next", bot=name)


def message(db: Database, token: str) -> ChatMessage | None:
    """Return the message of a button's token, None for none."""
    return record_or_none(ChatMessage, db.row("chat_message_get", id=token))


def message_of(db: Database, name: str, chat: str, identifier: str) -> ChatMessage | None:
    """Return the stored message of an identifier in a chat, None for none."""
    return record_or_none(ChatMessage, db.row("chat_message_of", bot=name, chat=chat, message=identifier))


def about(db: Database, name: str, chat: str, *, kind: ChatKind, subject: str) -> list[ChatMessage]:
    """Return the messages of a bot to a chat about the same, by part."""
    rows = db.rows("chat_messages_about", bot=name, chat=chat, kind=kind, subject=subject)
    return records_of(ChatMessage, rows)


class UnsentQuestion(Struct, frozen=True):
    """An open question that a chat does not have yet, and the digest that its message shows."""

    number: int
    digest: str


def unsent_questions(db: Database, name: str, chat: str, *, limit: int) -> list[UnsentQuestion]:
    """Return the open questions that a chat does not have yet, oldest first."""
    return records_of(UnsentQuestion, db.rows("chat_questions_unsent", bot=name, chat=chat, limit=limit))


def over_questions(db: Database, name: str, *, limit: int) -> list[str]:
    """Return the sent messages of a bot whose question has ended."""
    return [token for (token,) in db.rows("chat_questions_over", bot=name, limit=limit)]


def end(db: Database, token: str, *, now: datetime) -> None:
    """Plan to remove the buttons of a sent message."""
    db.execute("chat_message_end", id=token, now=to_ms(now))


def take(db: Database, token: str, *, now: datetime, until: datetime) -> bool:
    """Count an attempt and reserve the message; if the process dies, the next attempt comes at `until`."""
    return db.execute("chat_message_take", id=token, now=to_ms(now), until=to_ms(until)) == 1


def sent(db: Database, token: str, identifier: str, *, now: datetime) -> None:
    """Store the identifier of a sent message."""
    db.execute("chat_message_sent", id=token, message=identifier, now=to_ms(now))


def closed(db: Database, token: str, *, error: str | None = None) -> None:
    """Store that a message has no buttons any more, or was not sent because its subject is over."""
    db.execute("chat_message_closed", id=token, error=error)


def again(db: Database, token: str, *, error: str, at: datetime) -> None:
    """Store a failed attempt and the time of the next one."""
    db.execute("chat_message_again", id=token, error=error, next_at=to_ms(at))


def drop(db: Database, token: str) -> None:
    """Delete a message that was not sent: a question is planned again for a chat that comes back."""
    db.execute("chat_message_drop", id=token)


def failed(db: Database, token: str, *, error: str) -> None:
    """Store that a message cannot be sent."""
    db.execute("chat_message_failed", id=token, error=error)


class FailedMessages(Struct, frozen=True):
    """The number of messages to a target that were not sent, the error of one, and the time of the newest."""

    target: str
    count: int
    error: str
    newest: datetime


def failed_since(db: Database, since: datetime) -> list[FailedMessages]:
    """Return the questions and notices that failed since an instant or are tried for long, by target."""
    rows = db.rows("chat_messages_failed", since=to_ms(since), attempts=MANY_ATTEMPTS)
    return records_of(FailedMessages, rows)


def reclaim(db: Database, name: str, *, now: datetime) -> None:
    """Make the messages due that an earlier reader of a bot was sending."""
    db.execute("chat_messages_reclaim", bot=name, now=to_ms(now))


def shift(db: Database, back: timedelta) -> None:
    """Move the waits of messages back with the clock."""
    db.execute("chat_messages_shift", back=back // MILLISECOND)


def leave_all(db: Database, why: str) -> None:
    """Drop pending messages in a copy of the database: the original sends them."""
    db.execute("chat_messages_leave", error=why)


def old(db: Database, now: datetime) -> bool:
    """Return whether there are messages or notes of events to prune."""
    received = to_ms(now - RECEIVED_RETENTION)
    row = db.row("chat_messages_old", before=to_ms(now - MESSAGE_RETENTION), received=received)
    return row is not None and bool(row[0])


def prune(db: Database, now: datetime, *, limit: int) -> int:
    """Delete old messages and notes of events; return the number of messages."""
    db.execute("chat_received_prune", before=to_ms(now - RECEIVED_RETENTION))
    return db.execute("chat_message_prune", before=to_ms(now - MESSAGE_RETENTION), limit=limit)


def extend_delivery(db: Database, delivery: str, *, until: datetime) -> None:
    """Reserve a delivery of several parts for longer."""
    db.execute("delivery_extend", id=delivery, until=to_ms(until))


def save_reply(db: Database, reply: Reply) -> None:
    """Store the text that is the prompt of a run."""
    db.execute(
        "reply_insert",
        run_id=reply.run_id,
        replied_id=reply.replied_id,
        replied=reply.replied,
        session=reply.session,
        text=reply.text,
        door=reply.door,
        user=reply.user,
        name=reply.name,
        created_at=to_ms(reply.created_at),
    )


def reply_of(db: Database, run_id: str) -> Reply | None:
    """Return the reply that a run has as its prompt, also of a retry; None for any other run."""
    return record_or_none(Reply, db.row("reply_of", run_id=run_id))


def session_spent(db: Database, job_id: str, session: str, *, adapter: str) -> AgentSession:
    """Return a session with the totals of all runs of a job in it: the figures of some programs are totals."""
    row: Sequence[int | None] | None = db.row("session_spent", job_id=job_id, session=session)
    usd, tokens_in, tokens_out, cached = (value or 0 for value in row or (0, 0, 0, 0))
    return AgentSession(session, usd / MILLION, tokens_in, tokens_out, cached, adapter)
