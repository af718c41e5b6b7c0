"""The loop of chats: it reads bots, carries out what allowed people ask for, and sends questions and notices.

Each request to a service is made in a thread of its own: a slow or dead service delays nothing else.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rota import faults
from rota.engine.loops.answers import UNITS, ChatClient, client_of
from rota.engine.loops.firer import offset
from rota.engine.loops.loop import Loop, call_in_thread
from rota.engine.ports import Desk
from rota.engine.transactions.chats import carry_out, refuse
from rota.log import log
from rota.model.chats import ChatFailure, ChatKind, ChatMessage, ChatState, Incoming, Outgoing
from rota.model.clock import Clock
from rota.model.errors import RotaError, StateError
from rota.model.notifications import Channel, Target
from rota.model.spec import SecretOrigin
from rota.rules.chats import FLOODED, Flood, Ignored, Refused, Request, doors, judge, resend_after, shorten
from rota.rules.liveness import stepped_back
from rota.runners.environment import Secrets
from rota.settings import Settings
from rota.store.driver import Database, Store
from rota.store.tables import chats, notifications

T = TypeVar("T")
LEASE = timedelta(seconds=30)
"""For how long a bot is left to its reader after its last sign of life."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=1), timedelta(minutes=5)
NOTED_FAILURES = 3
"""Failed readings in a row that the status shows."""
RESERVED = timedelta(minutes=2)
MESSAGES_A_ROUND = 20
LOGGED_STRANGERS = 20
"""The number of people and chats outside of the file that are logged by name."""
POLL_PATIENCE = 90.0
LISTEN_PATIENCE = 30 * 24 * 3600.0
ANSWER_PATIENCE = 75.0
UNEXPECTED = "it failed unexpectedly; the log of the scheduler has the cause"

ClientOf = Callable[[Target, Callable[[str], str]], ChatClient]


class Bot:
    """A bot under the lease of this process: its targets, what is under way and its failures in a row."""

    def __init__(self, name: str, targets: Sequence[Target], *, now: datetime) -> None:
        self.name = name
        self.targets = list(targets)
        self.renewed_at = now
        self.reading: asyncio.Task[None] | None = None
        self.sending: asyncio.Task[None] | None = None
        self.next_at = now
        self.silent_until = now
        """The service asked for a pause before the next message."""
        self.failures = 0
        self.error: str | None = None
        self.over = False

    @property
    def target(self) -> Target:
        """One of its targets: all of them have the same server and token."""
        return self.targets[0]

    @property
    def problem(self) -> str | None:
        """The problem of a bot that cannot be read; a poll that is cut off now and then is none."""
        return f"{self.name}: {self.error}" if self.failures >= NOTED_FAILURES else None

    def shift(self, back: timedelta) -> None:
        """Move the waits back with the clock."""
        self.renewed_at, self.next_at, self.silent_until = (
            at - back for at in (self.renewed_at, self.next_at, self.silent_until)
        )

    def stop(self) -> None:
        """Stop what is under way."""
        self.over = True
        for task in (self.reading, self.sending):
            if task is not None:
                task.cancel()


class Trial(Struct, frozen=True):
    """A message that was tried: its identifier, or the failure."""

    message: str = ""
    failure: ChatFailure | None = None


class Chats:
    """Reads the bots of the file whose chats have people that may answer. Without any it does nothing."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        settings: Settings,
        environ: Mapping[str, str],
        epoch: int,
        desk: Callable[[], Desk] | None,
        server_now: Callable[[Database], datetime],
        changed: Callable[[], None],
        client_of: ClientOf = client_of,
        origins: Callable[[], Mapping[str, SecretOrigin]] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._tick = settings.scheduler.tick
        self._secrets = Secrets(settings.state, environ, origins or (lambda: settings.secrets))
        self._epoch = epoch
        self._make_desk = desk
        self._server_now = server_now
        self._changed = changed
        self._client_of = client_of
        self._desk: Desk | None = None
        self._doors: dict[str, list[Target]] = {}
        self._declared_at: str | None = None
        self._flood = Flood()
        self._offset = offset(clock)
        self._strangers: set[str] = set()
        self._ignored: dict[str, int] = {}
        self._asides: set[asyncio.Task[None]] = set()
        self.bots: dict[str, Bot] = {}
        self.loop = Loop("chats", self.round, clock=clock)

    async def round(self) -> datetime | None:
        """Take the bots without a reader, read them, and send due messages."""
        if self._make_desk is None:
            return None
        self._follow_clock()
        now = self._clock.now()
        self._look()
        if not self._doors and not self.bots:
            return now + self._tick
        desk = self._desk = self._desk or self._make_desk()
        await self._keep(now)
        if self.bots:
            targets = [target for bot in self.bots.values() for target in bot.targets]
            if self._store.read(partial(desk.lacking, targets=targets)):
                await self._store.submit(partial(desk.plan, targets=targets, now=now))
        for bot in self.bots.values():
            self._begin(bot, now)
        self.loop.note = next((bot.problem for bot in self.bots.values() if bot.problem), None)
        return min([now + min(LEASE / 3, self._tick), *(at for bot in self.bots.values() for at in self._dues(bot))])

    def _follow_clock(self) -> None:
        """Keep the waits of bots as long as they were when the clock was set back."""
        before, self._offset = self._offset, offset(self._clock)
        if (back := stepped_back(before, self._offset)) is not None:
            self._flood = Flood()
            for bot in self.bots.values():
                bot.shift(back)

    def _look(self) -> None:
        """Read the targets again if they were declared anew."""
        declared_at = self._store.read(notifications.declared_at)
        if declared_at != self._declared_at:
            self._doors = doors(self._store.read(notifications.targets))
            self._declared_at = declared_at

    async def _keep(self, now: datetime) -> None:
        """Renew the leases of the bots, take free ones, and leave those that are not declared any more."""
        for name in [name for name in self.bots if name not in self._doors]:
            self.bots.pop(name).stop()
        for name, targets in self._doors.items():
            bot = self.bots.get(name)
            if bot is not None and (bot.targets != targets):
                bot.targets = list(targets)
            if bot is not None and now < bot.renewed_at + LEASE / 3:
                continue
            if not await self._store.submit(partial(self._take, name=name, anew=bot is None)):
                if bot is not None:
                    self.bots.pop(name).stop()
                continue
            if bot is None:
                self.bots[name] = Bot(name, targets, now=now)
            else:
                bot.renewed_at = now

    def _take(self, db: Database, *, name: str, anew: bool) -> bool:
        now = self._server_now(db)
        if count := self._ignored.pop(name, 0):
            chats.ignore(db, name, count)
        taken = chats.take_bot(db, name, epoch=self._epoch, now=now, until=now + LEASE)
        if taken and anew:
            chats.reclaim(db, name, now=self._clock.now())
        return taken

    def _begin(self, bot: Bot, now: datetime) -> None:
        create = asyncio.get_running_loop().create_task
        if bot.reading is None and bot.next_at <= now:
            bot.reading = create(self._read(bot), name=f"rota-chat-{bot.target.channel}")
        if bot.sending is None and bot.silent_until <= now:
            due = self._store.read(partial(chats.due, name=bot.name, now=now, limit=MESSAGES_A_ROUND))
            if due:
                bot.sending = create(self._send_all(bot, due), name=f"rota-chat-out-{bot.target.channel}")

    def _dues(self, bot: Bot) -> list[datetime]:
        found = [] if bot.reading is not None else [bot.next_at]
        due = self._store.read(partial(chats.next_due, name=bot.name)) if bot.sending is None else None
        return found if due is None else [*found, max(due, bot.silent_until)]

    # read

    async def _read(self, bot: Bot) -> None:
        try:
            await (self._listen(bot) if bot.target.channel is Channel.SLACK else self._poll(bot))
        except (ChatFailure, RotaError) as error:
            self._failed(bot, error)
        except Exception as error:
            log.exception("reading a chat failed unexpectedly", bot=bot.name)
            self._failed(bot, error)
        else:
            self._works(bot)
        finally:
            bot.reading = None
            self.loop.wake()

    async def _poll(self, bot: Bot) -> None:
        state = self._store.read(partial(chats.bot, name=bot.name))
        cursor = None if state is None or state.cursor_at is None else state.cursor
        if state is not None and state.cursor_at is not None and state.cursor_at < self._clock.now() - chats.FORGOTTEN:
            cursor = None
        events: list[Incoming] = await self._ask(bot, lambda client: client.poll(cursor), within=POLL_PATIENCE)
        self._works(bot)
        await self.receive(bot, events)

    async def _listen(self, bot: Bot) -> None:
        loop = asyncio.get_running_loop()

        def opened() -> None:
            loop.call_soon_threadsafe(self._works, bot)

        def take(event: Incoming) -> bool:
            stored = asyncio.run_coroutine_threadsafe(self.receive(bot, [event]), loop)
            try:
                stored.result(timeout=ANSWER_PATIENCE)
            except Exception as error:
                log.warning("could not store an event of a chat; the service sends it again", error=str(error))
                return False
            return True

        listening: Callable[[Any], None] = lambda client: client.listen(take, over=lambda: bot.over, opened=opened)  # noqa: E731
        await self._ask(bot, listening, within=LISTEN_PATIENCE)

    def _works(self, bot: Bot) -> None:
        if bot.failures:
            log.info("chat recovered", bot=bot.name, failures=bot.failures)
        bot.failures, bot.error, bot.next_at = 0, None, self._clock.now()

    def _failed(self, bot: Bot, error: Exception) -> None:
        text = self._secrets.hide(error.message if isinstance(error, RotaError) else str(error))
        if bot.error != text:
            log.warning("reading a chat failed, retrying", bot=bot.name, error=text)
        bot.error = text
        bot.failures += 1
        pause: timedelta = min(FIRST_PAUSE * 2 ** min(bot.failures - 1, 12), LONGEST_PAUSE)
        wished = timedelta(seconds=min(getattr(error, "wait", None) or 0.0, 3600.0))
        bot.next_at = self._clock.now() + max(pause, wished)

    async def receive(self, bot: Bot, events: Sequence[Incoming]) -> None:
        """Carry out events in their order; those that are ignored only move the position, all by one transaction."""
        passed: list[Incoming] = []
        for event in events:
            request = self._bounded(judge(event, bot.targets))
            if isinstance(request, Ignored):
                self._ignore(bot, event, request.why)
                passed.append(event)
                continue
            await self._pass(bot, passed)
            passed = []
            await self._act(bot, event, request)
        await self._pass(bot, passed)

    async def _pass(self, bot: Bot, events: Sequence[Incoming]) -> None:
        cursor = max((event.cursor for event in events if event.cursor is not None), default=None)
        if cursor is not None:
            await self._store.submit(partial(chats.move, name=bot.name, cursor=cursor, now=self._clock.now()))

    def _bounded(self, request: Request | Ignored) -> Request | Ignored:
        """Return a request, unless its person has asked for too much: that is said once a minute, then ignored."""
        now = self._clock.now()
        if isinstance(request, Ignored) or not self._flood.refuses(request.person.actor, now=now):
            return request
        if self._flood.warns(request.person.actor, now=now):
            return replace(request, action=Refused(FLOODED))
        return Ignored("too many messages in a minute")

    def _ignore(self, bot: Bot, event: Incoming, why: str) -> None:
        if not why:
            return
        self._ignored[bot.name] = self._ignored.get(bot.name, 0) + 1
        sign = f"{bot.name} {event.chat} {event.user} {why}"
        if sign not in self._strangers and len(self._strangers) < LOGGED_STRANGERS:
            self._strangers.add(sign)
            log.warning("ignored a message of a chat", bot=bot.name, chat=event.chat, user=event.user, why=why)

    async def _act(self, bot: Bot, event: Incoming, request: Request) -> None:
        desk, now = self._desk, self._clock.now()
        assert desk is not None, "a bot is read only by a desk"
        try:
            said = await self._store.submit(partial(carry_out, desk=desk, event=event, request=request, now=now))
        except StateError:
            raise
        except RotaError as error:
            said = await self._refuse(event, request, error.message)
        except Exception:
            log.exception("an event of a chat failed unexpectedly", bot=bot.name)
            said = await self._refuse(event, request, UNEXPECTED)
        faults.point("chat.received")
        if said is None:
            return
        log.info("chat", bot=bot.name, person=request.person.title, did=said.splitlines()[0][:200] if said else "")
        if event.callback:
            self._aside(self._confirm(bot, event.callback, said))
        self._changed()
        self.loop.wake()

    async def _refuse(self, event: Incoming, request: Request, text: str) -> str | None:
        operation = partial(refuse, event=event, request=request, text=text, now=self._clock.now())
        return await self._store.submit(operation)

    async def _confirm(self, bot: Bot, callback: str, text: str) -> None:
        """Confirm a press. The press is stored; a failure here only leaves the button turning for a while."""
        try:
            await self._ask(bot, lambda client: client.confirm(callback, text), within=ANSWER_PATIENCE)
        except (ChatFailure, RotaError) as error:
            log.debug("a pressed button was not confirmed", bot=bot.name, error=str(error))

    def _aside(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    # send

    async def _send_all(self, bot: Bot, due: Sequence[ChatMessage]) -> None:
        try:
            for message in due:
                now = self._clock.now()
                taken = partial(chats.take, token=message.id, now=now, until=now + RESERVED)
                if bot.silent_until > now or not await self._store.submit(taken):
                    continue
                await (self._send(bot, message) if message.state is ChatState.PENDING else self._close(bot, message))
        except RotaError as error:
            log.warning("could not store a message to a chat", bot=bot.name, error=str(error))
        except Exception:
            log.exception("sending to a chat failed unexpectedly", bot=bot.name)
        finally:
            bot.sending = None
            self.loop.wake()

    async def _send(self, bot: Bot, message: ChatMessage) -> None:
        assert self._desk is not None
        if all(target.address != message.chat for target in bot.targets):
            await self._store.submit(partial(chats.drop, token=message.id))  # the file names the chat no more
            return
        out = (
            self._store.read(partial(self._desk.shown, message=message)) if message.kind is ChatKind.QUESTION else None
        )
        if message.kind is ChatKind.NOTICE:
            out = Outgoing(shorten(message.body, UNITS[bot.target.channel]), reply_to=message.reply_to)
        if out is None:
            await self._store.submit(partial(chats.closed, token=message.id))
            return
        tried = await self._try(bot, lambda client: client.send(message.chat, out))
        if tried.failure is not None:
            await self._put_off(bot, message, tried.failure)
            return
        faults.point("chat.sent")
        identifier = tried.message or message.id
        await self._store.submit(partial(chats.sent, token=message.id, identifier=identifier, now=self._clock.now()))
        faults.point("chat.stored")

    async def _close(self, bot: Bot, message: ChatMessage) -> None:
        assert self._desk is not None
        text = shorten(self._store.read(partial(self._desk.ending, message=message)), UNITS[bot.target.channel])
        tried = await self._try(bot, lambda client: client.close(message.chat, message.message or "", text) or "")
        failure = tried.failure
        if failure is not None and resend_after(message.attempts + 1, failure) is not None:
            await self._put_off(bot, message, failure)
        else:
            error = None if failure is None else self._secrets.hide(str(failure))
            await self._store.submit(partial(chats.closed, token=message.id, error=error))

    async def _try(self, bot: Bot, call: Callable[[Any], str]) -> Trial:
        try:
            return Trial(await self._ask(bot, call, within=ANSWER_PATIENCE))
        except ChatFailure as error:
            return Trial(failure=error)
        except StateError:
            raise
        except RotaError as error:
            return Trial(failure=ChatFailure(error.message))

    async def _put_off(self, bot: Bot, message: ChatMessage, failure: ChatFailure) -> None:
        """Plan the next attempt. An open question is tried until it is over: a person waits for it elsewhere."""
        text, now = self._secrets.hide(str(failure)), self._clock.now()
        pause = resend_after(message.attempts + 1, failure, forever=message.kind is ChatKind.QUESTION)
        if pause is None:
            log.warning("a message to a chat failed permanently", bot=bot.name, kind=message.kind.value, error=text)
            await self._store.submit(partial(chats.failed, token=message.id, error=text))
            return
        if failure.wait:
            bot.silent_until = now + timedelta(seconds=failure.wait)
        await self._store.submit(partial(chats.again, token=message.id, error=text, at=now + pause))

    async def _ask(self, bot: Bot, call: Callable[[Any], T], *, within: float) -> T:
        """Return the answer of a service, asked in a thread of its own."""

        def ask() -> T | ChatFailure:
            try:
                return call(self._client_of(bot.target, self._secrets.find))
            except ChatFailure as error:
                return error

        found = await call_in_thread(ask, within=within, hide=self._secrets.hide_in)
        if isinstance(found, ChatFailure):
            raise found
        return found

    # end

    def abandon(self) -> None:
        """Stop what is under way; what was not stored is read and sent again."""
        for bot in self.bots.values():
            bot.stop()
        for task in list(self._asides):
            task.cancel()
        self.bots = {}

    async def finish(self) -> None:
        """Stop, and leave the bots to other processes."""
        had = bool(self.bots)
        self.abandon()
        if had:
            try:
                await self._store.submit(partial(chats.leave_bots, epoch=self._epoch))
            except RotaError as error:
                log.warning("the bots of chats are left when their leases end", error=str(error))
