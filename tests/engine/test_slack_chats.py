"""Chats in Slack: questions by buttons, replies in threads and commands over one socket."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rota.engine.clock import SystemClock
from rota.engine.transactions.questions import ask
from rota.model.notifications import ChatCommands
from rota.model.questions import Subject
from rota.model.states import Trigger
from rota.rules.chats import ACTIONS, FLOODED
from rota.store.tables import chats, questions
from rota.store.tables.questions import NewQuestion
from tests.chats.scene import ChatScene, chat_scene, ops, reviewing
from tests.chats.slack_server import SlackServer, slack
from tests.engine.conftest import NOON, audit, command
from tests.waiting import LONGEST_WAIT

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Iterator[SlackServer]:
    with slack() as found:
        yield found


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[ChatScene]:
    made = await chat_scene(tmp_path, NOON)
    try:
        yield made
        assert audit(made).violations == ()
    finally:
        await made.close()


async def until(scene: ChatScene, server: SlackServer, condition: Callable[[SlackServer], Any]) -> None:
    """Talk until the stand-in has seen something; its threads and the loop's work meanwhile."""
    clock = SystemClock()
    last = clock.monotonic() + LONGEST_WAIT
    while clock.monotonic() < last:
        await scene.talk(turns=2)
        if condition(server):
            return
        await asyncio.to_thread(server.pause)
    raise AssertionError((server.texts(), server.unacknowledged))


def quiet(server: SlackServer) -> bool:
    return not server.unacknowledged and server.connections > 0


async def test_a_question_is_answered_by_a_button_and_the_message_closes(scene: ChatScene, server: SlackServer) -> None:
    scene.target(ops(server))
    scene.declare(reviewing("ops"))
    job = scene.job("review").id
    new = NewQuestion(Subject.JOB, job, "Deploy *now*?", "d", "review:1", scene.clock.now(), job, ("yes", "no"))
    number = scene.store.write(partial(ask, new=new, job="review")).number
    await until(scene, server, lambda there: there.messages)
    [stamp] = server.messages
    assert server.messages[stamp]["blocks"][0]["text"]["type"] == "plain_text"
    server.press(stamp, 1, user="U9999999999")
    server.press(stamp, 1)
    server.press(stamp, 0)
    await until(scene, server, lambda there: quiet(there) and len(there.messages[stamp]["blocks"]) == 1)
    found = scene.store.read(partial(questions.by_number, number=number))
    assert found is not None
    assert (found.answer, found.answered_by, found.door) == ("no", "slack:U0123456789", "slack")
    assert "'no', by slack:U0123456789" in server.messages[stamp]["text"]


async def test_a_reply_in_the_thread_goes_on_in_the_session(scene: ChatScene, server: SlackServer) -> None:
    scene.target(ops(server))
    scene.declare(reviewing("ops"))
    await scene.end("review", "Two PRs are stale.\n" * 1000)
    await until(scene, server, lambda there: there.files)
    [stamp] = server.messages
    server.say("Close &lt;them&gt;", thread=stamp)
    server.say("no reply")
    await until(scene, server, lambda there: quiet(there) and any("goes on" in text for text in there.texts()))
    run = scene.history("review")[1]
    assert run.trigger is Trigger.REPLY
    brief = scene.processes.given[run.handle].brief
    assert brief.session is not None
    assert (brief.session.id, brief.reply) == ("s-1", "Close <them>")
    assert next(body for body in server.messages.values() if "goes on" in body["text"])["thread_ts"] == stamp


async def test_commands_come_by_slash_and_events_that_come_again_count_once(
    scene: ChatScene, server: SlackServer
) -> None:
    scene.target(ops(server, commands=ChatCommands(run=("backup",), status=True)))
    scene.declare(command("backup"))
    server.command("run backup")
    await until(scene, server, quiet)
    assert len(server.acknowledged) == 1
    bot = next(iter(scene.engine.chats.bots.values()))
    server.command("status")
    server.command("pause backup", user="U9999999999")
    await until(scene, server, lambda there: quiet(there) and len(there.texts()) == 2)
    assert "queued" in server.texts()[0]
    assert [run.trigger for run in scene.history("backup")] == [Trigger.MANUAL]
    assert bot.failures == 0


async def test_a_closed_socket_is_opened_again_and_loses_nothing(scene: ChatScene, server: SlackServer) -> None:
    scene.target(ops(server, commands=ChatCommands(run=("backup",))))
    scene.declare(command("backup"))
    await until(scene, server, lambda there: there.connections == 1)
    await asyncio.to_thread(server.disconnect)
    server.command("run backup")
    await until(scene, server, lambda there: quiet(there) and there.connections == 2)
    assert len(scene.history("backup")) == 1


async def test_an_open_socket_ends_the_count_of_failures(scene: ChatScene, server: SlackServer) -> None:
    """In a quiet channel no event comes for days, and each cut connection would count."""
    scene.target(ops(server))
    server.failures += [("apps.connections.open", 502, {"error": "bad_gateway"})] * 2
    await scene.talk(turns=1)
    [bot] = scene.engine.chats.bots.values()
    for count in (1, 2):
        await until(scene, server, lambda _there, count=count: (bot.failures, bot.reading) == (count, None))
        scene.clock.advance(timedelta(seconds=5))
    await until(scene, server, lambda there: there.connections == 1 and bot.failures == 0)
    assert (bot.error, bot.reading is not None) == (None, True)


async def test_an_event_that_was_stored_before_a_crash_is_only_acknowledged_after_it(
    scene: ChatScene, server: SlackServer
) -> None:
    scene.target(ops(server, commands=ChatCommands(run=("backup",))))
    scene.declare(command("backup"))
    server.command("run backup")
    await until(scene, server, quiet)
    again = {"type": "slash_commands", "payload": server.last_payload}
    await scene.crash()
    await scene.start()
    server.push(again)
    await until(scene, server, lambda there: quiet(there) and len(there.acknowledged) == 2)
    assert len(scene.history("backup")) == 1


async def test_a_flood_is_bounded(scene: ChatScene, server: SlackServer) -> None:
    scene.target(ops(server, commands=ChatCommands(status=True)))
    for _ in range(200):
        server.command("status")
    await until(scene, server, quiet)
    assert len(server.acknowledged) == 200
    await scene.talk()
    assert len(server.texts()) == ACTIONS + 1
    assert server.texts()[-1] == FLOODED
    scene.clock.advance(timedelta(seconds=20))
    await scene.talk(turns=2)
    [bot] = scene.store.read(chats.bots)
    assert bot.ignored == 200 - ACTIONS - 1
