"""The clients of chat services against hostile and damaged shapes."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.chats.slack import SlackApp, read_envelope
from rota.chats.telegram import TelegramBot, read_update
from rota.chats.web import ChatApi
from rota.engine.loops.answers import chat_sent
from rota.model.chats import ChatFailure, Incoming, Outgoing
from rota.model.notifications import Channel, Target
from rota.rules.chats import Ignored, judge, parts_of, split
from tests.chats.slack_server import APP, BOT, CHANNEL, slack
from tests.chats.telegram_server import CHAT, TOKEN, telegram
from tests.stub_server import Reply, serving

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = (
    "message",
    "callback_query",
    "from",
    "chat",
    "id",
    "text",
    "data",
    "reply_to_message",
    "message_id",
    "update_id",
)
SHAPED = st.recursive(JSON, lambda inner: st.dictionaries(st.sampled_from(KEYS), inner, max_size=4), max_leaves=8)


@given(st.dictionaries(st.sampled_from(KEYS), SHAPED, max_size=4))
def test_no_update_raises_and_none_of_a_stranger_has_an_effect(update: dict[str, Any]) -> None:
    assert isinstance(judge(read_update(update), []), Ignored)


def test_a_message_of_a_topic_is_no_reply() -> None:
    """The service shows each message of a topic as a reply to the message that opened it."""
    opened = {"message_id": 3, "forum_topic_created": {"name": "ops"}}
    message = {"message_id": 9, "chat": {"id": 5}, "from": {"id": 6}, "text": "/status", "reply_to_message": opened}
    found = read_update({"update_id": 1, "message": message})
    assert (found.text, found.reply_to) == ("/status", "")


ENVELOPE = ("type", "payload", "event", "channel", "user", "text", "ts", "thread_ts", "actions", "value", "container")


@given(st.dictionaries(st.sampled_from(ENVELOPE), SHAPED, max_size=4))
def test_no_envelope_raises(payload: dict[str, Any]) -> None:
    for kind in ("events_api", "interactive", "slash_commands", "hello"):
        found = read_envelope({"type": kind, "payload": payload})
        assert found is None or isinstance(judge(found, []), Ignored)


@given(st.text(max_size=300), st.integers(min_value=2, max_value=50))
def test_a_text_is_split_without_loss_into_pieces_that_fit(text: str, units: int) -> None:
    pieces = split(text, units)
    assert all(len(piece.encode("utf-16-le", "surrogatepass")) <= 2 * units for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_an_answer_of_many_messages_is_a_beginning_and_a_file() -> None:
    parts = parts_of("a:1", "word " * 5000, "$1", units=4000, name="a-1.txt", files=["x.csv"])
    assert [bool(part.text) for part in parts] == [True, False, False]
    assert (parts[1].file, parts[2].path) == ("a-1.txt", "x.csv")


def test_a_telegram_bot_tells_why_it_is_refused() -> None:
    with telegram() as server:
        bot = TelegramBot(ChatApi(server.url, allow_private=[server.place]), TOKEN)
        assert bot.me() == "@rota_bot"
        server.failures.append(("sendMessage", 403, {"description": "Forbidden: bot was blocked by the user"}))
        with pytest.raises(ChatFailure, match="blocked") as caught:
            bot.send(str(CHAT), Outgoing("hello"))
        assert caught.value.hopeless
        with pytest.raises(ChatFailure, match="private address"):
            TelegramBot(ChatApi("https://127.0.0.1"), TOKEN).me()


@pytest.mark.parametrize(
    "reply", [Reply(b"not json"), Reply(b"[]"), Reply(b"{}", 302), Reply(b'{"ok": 1}'), Reply(silent=True)]
)
def test_an_answer_that_is_none_names_neither_token_nor_address(reply: Reply) -> None:
    with serving(reply) as server:
        bot = TelegramBot(ChatApi(server.url, allow_private=[server.url.removeprefix("http://")], timeout=0.3), TOKEN)
        with pytest.raises(ChatFailure) as caught:
            bot.me()
        assert TOKEN not in str(caught.value)


def test_a_closed_message_that_is_gone_is_refused_for_good() -> None:
    with telegram() as server, pytest.raises(ChatFailure) as caught:
        TelegramBot(ChatApi(server.url, allow_private=[server.place]), TOKEN).close(str(CHAT), "9", "over")
    assert caught.value.status == 400


def test_a_slack_app_sends_plain_text_and_files() -> None:
    with slack() as server:
        app = SlackApp(ChatApi(server.url, allow_private=[server.place]), BOT, APP)
        assert app.me() == "rota in Team"
        stamp = app.send(CHANNEL, Outgoing("<!channel> *bold* & <@U1>"))
        sent = server.messages[stamp]
        assert sent["text"] == "&lt;!channel&gt; *bold* &amp; &lt;@U1&gt;"
        assert sent["blocks"][0]["text"] == {"type": "plain_text", "text": "<!channel> *bold* & <@U1>", "emoji": False}
        app.send(CHANNEL, Outgoing(file="report.txt", data=b"a,b", reply_to=stamp))
        assert list(server.files.values()) == [("report.txt", b"a,b")]
        method, body = server.calls[-1]
        assert (method, body["channel_id"], body["thread_ts"]) == ("files.completeUploadExternal", CHANNEL, stamp)
        server.failures.append(("chat.postMessage", 429, {"error": "ratelimited"}))
        with pytest.raises(ChatFailure) as caught:
            app.send(CHANNEL, Outgoing("x"))
        assert (caught.value.wait, caught.value.hopeless) == (7.0, False)
        with pytest.raises(ChatFailure, match="invalid_auth"):
            SlackApp(ChatApi(server.url, allow_private=[server.place]), "xoxb-other").me()


def test_an_envelope_is_acknowledged_only_after_it_was_taken() -> None:
    with slack() as server:
        app = SlackApp(ChatApi(server.url, allow_private=[server.place, server.socket_place]), BOT, APP)
        taken: list[Incoming] = []

        def take(event: Incoming) -> bool:
            taken.append(event)
            return len(taken) > 1

        server.say("one &lt;b&gt;", thread="1.1")
        server.push({"type": "hello"})

        async def listen() -> None:
            listening = asyncio.create_task(asyncio.to_thread(app.listen, take, over=lambda: False))
            await asyncio.to_thread(server.wait, lambda there: len(there.acknowledged) == 1)
            server.disconnect()
            await listening
            again = asyncio.create_task(asyncio.to_thread(app.listen, take, over=lambda: len(taken) > 1))
            await asyncio.to_thread(server.wait, lambda there: not there.unacknowledged)
            await again

        asyncio.run(listen())
        assert [(event.text, event.reply_to) for event in taken] == 2 * [("one <b>", "1.1")]
        assert taken[0].key == taken[1].key
        assert server.connections == 2


def test_a_notification_of_wide_characters_is_cut_to_what_the_service_accepts() -> None:
    with telegram() as server:
        bot = TelegramBot(ChatApi(server.url, allow_private=(server.place,)), TOKEN)
        target = Target("phone", Channel.TELEGRAM, address=str(CHAT))
        assert chat_sent(bot, target, Outgoing("\N{GRINNING FACE}" * 4000)).ok
        assert [len(text.encode("utf-16-le")) // 2 for text in server.texts()] == [3999]
