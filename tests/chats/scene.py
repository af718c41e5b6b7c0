"""A scene with chats: a real loop and real requests to stand-ins, on a fake clock."""

import asyncio
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rota.engine.loops.notifier import ThreadedPost
from rota.engine.scheduler import Engine
from rota.engine.transactions.claim import ClaimOwner
from rota.model.agents import AgentSession
from rota.model.notifications import Channel, ChatCommands, Target
from rota.model.records import Outcome
from rota.model.spec import Deliver, JobSpec
from rota.model.states import Status
from rota.operations.questions.chats import ChatDesk
from rota.store.tables import chats, notifications
from rota.testing.doubles import Script
from tests.chats import slack_server, telegram_server
from tests.chats.slack_server import SlackServer
from tests.chats.telegram_server import CHAT, USER, TelegramServer
from tests.engine.agent_jobs import agent
from tests.scene import Scene
from tests.waiting import LONGEST_WAIT

ENVIRONMENT = {"BOT": telegram_server.TOKEN, "SLACK_BOT": slack_server.BOT, "SLACK_APP": slack_server.APP}
TURNS = 8


class ChatScene(Scene):
    """A scene whose bots are read by its own loop."""

    def _make_engine(self, holder: ClaimOwner) -> Engine:
        engine = Engine(
            self.store,
            self.clock,
            settings=self.settings,
            holder=holder,
            processes=self.processes,
            functions=self.functions,
            sources=self.sources,
            post=ThreadedPost(self.settings, ENVIRONMENT),
            desk=partial(ChatDesk, self.settings.state),
            environ=ENVIRONMENT,
            logins=self.logins,
            find_items=self._find_items,
            build_digest=self._build_digest,
            server_now=self.server_now,
        )
        engine.attention.pause = timedelta()
        return engine

    async def crash(self) -> None:
        """Crash as by kill -9, with the bots."""
        self.engine.chats.abandon()
        await super().crash()

    def target(self, *targets: Target) -> None:
        """Declare targets, as an apply does."""
        self.clock.advance(timedelta(milliseconds=1))
        declared = {one.name: one for one in targets}
        self.store.write(partial(notifications.declare_targets, declared=declared, now=self.clock.now()))

    async def talk(self, turns: int = TURNS) -> None:
        """Read and send until nothing is left to do."""
        for _ in range(turns):
            await self.settle()
            await self.engine.chats.loop.turn()
            assert self.engine.chats.loop.pulse.error is None, self.engine.chats.loop.pulse.error
            bots = self.engine.chats.bots.values()
            tasks = [task for bot in bots for task in (bot.sending, bot.reading) if task is not None]
            tasks = [task for task in tasks if "slack" not in task.get_name() or "out" in task.get_name()]
            tasks += [*self.engine.chats._asides, *(task for _, task in self.engine.deliveries._sending.values())]
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=LONGEST_WAIT)
                assert not late, late
            await self.quiet()

    async def end(self, job: str, text: str, *, session: str | None = "s-1", **changes: Any) -> None:
        """Let a run of a job end with an answer."""
        totals = AgentSession(session, adapter="claude") if session else None
        summary, result = text[:1000], text if len(text) > 1000 else None
        told = {"summary": summary, "result": result, "session_id": session, "session": totals, **changes}
        ending = Outcome(Status.COMPLETED, exit_code=0, **told)
        self.processes.scripts[job] = Script(ending=ending)
        self.trigger(job)
        await self.settle()

    def messages(self, target: Target, kind: str, subject: str) -> list[chats.ChatMessage]:
        """Return the stored messages about the same."""
        about = partial(chats.about, name=target.bot, chat=target.address, kind=kind, subject=subject)  # type: ignore[arg-type]
        return self.store.read(about)


def phone(server: TelegramServer, **changes: Any) -> Target:
    """Return a target of a Telegram bot whose owner may answer."""
    shared = {"address_secret": "BOT", "api_url": server.url, "allow_private": (server.place,), "users": (str(USER),)}
    return Target("phone", Channel.TELEGRAM, address=str(CHAT), **shared | changes)


def ops(server: SlackServer, **changes: Any) -> Target:
    """Return a target of a Slack app with one person that may answer."""
    shared: dict[str, Any] = {
        "address_secret": "SLACK_BOT",
        "app_secret": "SLACK_APP",
        "api_url": server.url,
        "allow_private": (server.place, server.socket_place),
        "users": (slack_server.USER,),
        "commands": ChatCommands(),
    }
    return Target("ops", Channel.SLACK, address=slack_server.CHANNEL, **shared | changes)


def reviewing(to: str = "phone", **keys: Any) -> JobSpec:
    """Return an agent job that delivers its answers."""
    return agent("review", **{"deliver": Deliver((to,)), **keys})


async def chat_scene(folder: Path, now: Any) -> ChatScene:
    """Return a started scene."""
    made = ChatScene(folder, now)
    await made.start()
    return made
