"""Chats: answers that are delivered, replies that go on, commands and questions; strangers, crashes and floods."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rota.engine.transactions import questions as transactions
from rota.engine.transactions.questions import ask
from rota.model.attention import ItemKind
from rota.model.chats import ChatKind, ChatState
from rota.model.notifications import ChatCommands, Event
from rota.model.questions import Door, Question, QuestionState, Subject
from rota.model.records import Outcome, Run
from rota.model.spec import Deliver, DeliverWhen, Overlap, OverlapPolicy, SessionMode, Workspace
from rota.model.states import Reason, Status, Trigger
from rota.operations.explain import explain
from rota.operations.questions import answers
from rota.operations.questions.answers import Answerer
from rota.rules.chats import ACTIONS, FLOODED, NOTHING, PER
from rota.store.tables import audit as audit_table
from rota.store.tables import chats, notifications, questions
from rota.store.tables.questions import NewQuestion
from rota.testing.doubles import Script
from tests.chats.scene import ChatScene, chat_scene, phone, reviewing
from tests.chats.telegram_server import CHAT, USER, TelegramServer, telegram
from tests.engine.conftest import NOON, audit, command
from tests.engine.test_attention_events import needs
from tests.engine.test_making import WAITS, asking, put

pytestmark = pytest.mark.anyio
STRANGER = 666


@pytest.fixture
def server() -> Iterator[TelegramServer]:
    with telegram() as found:
        yield found


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[ChatScene]:
    made = await chat_scene(tmp_path, NOON)
    try:
        yield made
        assert audit(made).violations == ()
    finally:
        await made.close()


async def answered(scene: ChatScene, server: TelegramServer, text: str = "Two PRs are stale.", **keys: Any) -> int:
    """Let the job deliver an answer; return the message in the chat."""
    scene.target(phone(server))
    scene.declare(reviewing(**keys))
    await scene.end("review", text)
    await scene.talk()
    return int(server.sent()[0]["message_id"])


def runs_of(scene: ChatScene) -> list[tuple[Trigger, Status]]:
    return [(run.trigger, run.status) for run in scene.history("review")]


def prompt_of(scene: ChatScene, run: Run) -> str | None:
    return scene.processes.given[run.handle].brief.reply


# the answer


async def test_the_whole_answer_is_sent_with_its_cost_and_without_markup(
    scene: ChatScene, server: TelegramServer
) -> None:
    await answered(scene, server, "Two PRs are stale: *#12* and <b>#14</b>.")
    [message] = server.sent()
    assert message["text"] == "review:1\n\nTwo PRs are stale: *#12* and <b>#14</b>.\n\n0 s"
    assert "parse_mode" not in message


async def test_an_agent_that_has_nothing_to_report_is_silent(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    await scene.end("review", f"{NOTHING}\n")
    await scene.end("review", "")
    await scene.talk()
    assert server.sent() == []


async def test_with_always_it_says_that_there_is_nothing(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing(deliver=Deliver(("phone",), DeliverWhen.ALWAYS)))
    await scene.end("review", "")
    await scene.talk()
    assert server.texts() == ["review:1\n\nnothing to report\n\n0 s"]


@pytest.mark.parametrize("when", DeliverWhen)
async def test_a_failure_always_speaks_and_once(scene: ChatScene, server: TelegramServer, when: DeliverWhen) -> None:
    scene.target(phone(server, on=(Event.FAILED, Event.RECOVERED)))
    scene.declare(replace(reviewing(deliver=Deliver(("phone",), when)), notify=("phone",)))
    failed = Outcome(Status.FAILED, Reason.AGENT_ERROR, error="the model gave up")
    scene.processes.scripts["review"] = Script(ending=failed)
    scene.trigger("review")
    await scene.talk()
    assert server.texts() == ["review:1 failed (agent_error)\n\nthe model gave up\n\n0 s"]


async def test_a_long_answer_is_split_and_a_very_long_one_is_a_file(scene: ChatScene, server: TelegramServer) -> None:
    await answered(scene, server, "one paragraph 🙂\n\n" * 600)
    assert len(server.texts()) == 3
    assert all(len(text.encode("utf-16-le")) <= 2 * 4096 for text in server.texts())
    whole = "line\n" * 10_000
    await scene.end("review", whole)
    await scene.talk()
    head, (name, data) = server.texts()[3], next(iter(server.documents.values()))
    assert "The whole text is in the file review-2.txt." in head
    assert (name, data.decode()) == ("review-2.txt", whole)
    assert server.sent()[4]["document"]["file_name"] == "review-2.txt"


async def test_the_files_of_a_result_are_sent_from_the_folder_of_the_run_alone(
    scene: ChatScene, server: TelegramServer, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "report.csv").write_text("a,b")
    (tmp_path / "secrets.env").write_text("KEY=1")
    (tmp_path / "work" / "link").symlink_to(tmp_path / "secrets.env")
    scene.target(phone(server))
    scene.declare(reviewing(cwd="work"))
    await scene.end("review", "done", files=("report.csv", "../secrets.env", "link", str(tmp_path / "secrets.env")))
    await scene.talk()
    assert list(server.documents.values()) == [("report.csv", b"a,b")]
    assert [text.rpartition(": ")[2] for text in server.texts()[1:]] == 3 * ["it is not in the folder of the run."]


async def test_what_was_sent_before_a_failure_is_not_sent_again(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    server.failures.append(("sendDocument", 502, {}))
    await scene.end("review", "line\n" * 10_000)
    await scene.talk()
    assert (len(server.texts()), len(server.documents)) == (1, 0)
    await scene.advance("10s")
    await scene.talk()
    assert (len(server.texts()), len(server.documents)) == (1, 1)
    [delivery] = scene.store.read(partial(notifications.listed, limit=9))
    assert (delivery.event, delivery.status) == (Event.RESULT, "DELIVERED")


async def test_the_pause_that_the_service_asks_for_is_kept(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    server.failures.append(
        ("sendMessage", 429, {"description": "Too Many Requests", "parameters": {"retry_after": 90}})
    )
    await scene.end("review", "hello")
    await scene.talk()
    await scene.advance("80s")
    await scene.talk()
    assert server.texts() == []
    await scene.advance("20s")
    await scene.talk()
    assert len(server.texts()) == 1


# the reply


async def test_a_reply_is_a_run_of_the_job_in_the_session_of_the_answer(
    scene: ChatScene, server: TelegramServer
) -> None:
    message = await answered(scene, server)
    server.say("Close them. {{ date }} $(rm -rf /)", reply_to=message)
    await scene.talk()
    first, second = scene.history("review")
    assert (second.trigger, second.status) == (Trigger.REPLY, Status.COMPLETED)
    brief = scene.processes.given[second.handle].brief
    assert brief.session is not None
    assert (brief.session.id, brief.reply) == ("s-1", "Close them. {{ date }} $(rm -rf /)")
    told = str(explain(scene.store, second.handle, state=scene.settings.state, now=scene.clock.now()))
    assert "Ada L (telegram 5001) replied to review:1" in told
    assert (
        server.wait_for_text("review:2 goes on with your reply", seconds=0)["reply_parameters"]["message_id"] > message
    )
    assert first.params == second.params


async def test_the_answer_to_a_reply_can_be_replied_to(scene: ChatScene, server: TelegramServer) -> None:
    server.say("go on", reply_to=await answered(scene, server))
    await scene.talk()
    server.say("and on", reply_to=server.wait_for_text("review:2\n\n", seconds=0)["message_id"])
    await scene.talk()
    assert [prompt_of(scene, run) for run in scene.history("review")] == [None, "go on", "and on"]


async def test_a_retry_of_a_reply_has_its_text_and_session(scene: ChatScene, server: TelegramServer) -> None:
    message = await answered(scene, server)
    failed = Outcome(Status.FAILED, Reason.AGENT_ERROR, error="x", session_id="s-1")
    scene.processes.scripts["review"] = Script(ending=failed)
    server.say("go on", reply_to=message)
    await scene.talk()
    run = scene.history("review")[1]
    assert (run.status, prompt_of(scene, run)) == (Status.FAILED, "go on")


async def test_a_session_that_cannot_be_resumed_is_replaced_by_the_answer_itself(
    scene: ChatScene, server: TelegramServer
) -> None:
    server.say("Close them.", reply_to=await answered(scene, server, workspace=Workspace.SCRATCH))
    await scene.talk()
    run = scene.history("review")[1]
    assert scene.processes.given[run.handle].brief.session is None
    assert "Close them." in (prompt_of(scene, run) or "")
    assert "Two PRs are stale." in (prompt_of(scene, run) or "")


async def test_overlap_holds_for_a_reply_and_the_person_hears_it(scene: ChatScene, server: TelegramServer) -> None:
    message = await answered(scene, server)
    scene.processes.scripts["review"] = Script(takes=timedelta(hours=1))
    scene.trigger("review")
    server.say("go on", reply_to=message)
    await scene.talk()
    assert len(scene.history("review")) == 2
    assert "review:2" in server.texts()[-1]
    assert "overlap" in server.texts()[-1]


async def test_a_reply_to_an_unknown_message_or_a_pruned_run_says_so(scene: ChatScene, server: TelegramServer) -> None:
    message = await answered(scene, server)
    server.say("go on", reply_to=99_999)
    await scene.talk()
    assert "not stored any more" in server.texts()[-1]
    server.say("again", reply_to=server.sent()[-1]["message_id"])
    await scene.talk()
    assert "has no effect" in server.texts()[-1]
    assert runs_of(scene) == [(Trigger.MANUAL, Status.COMPLETED)]
    assert message


# commands


async def test_a_chat_starts_pauses_and_looks_only_as_the_file_allows(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server, commands=ChatCommands(run=("backup",), pause=("backup",), status=True)))
    scene.declare(command("backup"), command("secret"))
    for text in (
        "/run backup",
        "/run@rota_bot secret",
        "/pause backup",
        "/pause secret",
        "/status",
        "/run backup; rm -rf /",
    ):
        server.say(text)
    await scene.talk()
    assert [run.trigger for run in scene.history("backup")] == [Trigger.MANUAL]
    assert scene.history("secret") == []
    assert scene.job("backup").pause_reason == "paused by Ada L (telegram 5001)"
    assert scene.job("secret").paused_at is None
    texts = server.texts()
    assert texts[0] == "backup:1 is queued"
    assert texts[1] == texts[5] == "/run is allowed here for backup; write /run backup"
    assert texts[2].startswith("backup is paused")
    assert "paused: backup" in texts[4]


async def test_without_commands_a_chat_gets_only_the_help(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(command("backup"))
    server.say("/run backup")
    await scene.talk()
    assert scene.history("backup") == []
    assert server.texts()[0].startswith("No commands are allowed here.")


# questions


def asked(
    scene: ChatScene, text: str = "Deploy?", *, choices: tuple[str, ...] = ("yes", "no"), **more: Any
) -> Question:
    job = scene.job("review")
    new = NewQuestion(Subject.JOB, job.id, text, "digest", "review:1", scene.clock.now(), job.id, choices, **more)
    return scene.store.write(partial(ask, new=new, job="review"))


def stored(scene: ChatScene, question: Question) -> Question:
    found = scene.store.read(partial(questions.by_number, number=question.number))
    assert found is not None
    return found


async def test_a_question_is_answered_by_a_button_once(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    question = asked(scene)
    await scene.talk()
    [message] = server.sent()
    assert "Deploy?" in message["text"]
    assert [row[0]["text"] for row in message["reply_markup"]["inline_keyboard"]] == ["yes", "no"]
    pressed = message["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
    server.press(message["message_id"], 0)
    server.press(message["message_id"], 1)
    await scene.talk()
    found = stored(scene, question)
    assert (found.state, found.answer, found.answered_by, found.door) == (
        QuestionState.ANSWERED,
        "yes",
        "telegram:5001",
        Door.TELEGRAM,
    )
    assert "reply_markup" not in server.sent()[0]
    assert "'yes', by telegram:5001" in server.sent()[0]["text"]
    said = f"question {question.number} is answered"
    assert sorted(server.answered()) == [said, f"{said}: yes"]  # the two confirmations are sent beside each other
    server.press(message["message_id"], data=pressed)  # replayed after the end
    await scene.talk()
    assert "answered" in server.answered()[-1]
    assert stored(scene, question).answer == "yes"
    assert len(server.sent()) == 1


async def test_free_text_is_given_by_a_reply(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    question = asked(scene, "Which branch?", choices=())
    await scene.talk()
    assert server.sent()[0]["reply_markup"] == {"force_reply": True, "selective": True}
    server.say("<b>main</b>; rm -rf /", reply_to=server.sent()[0]["message_id"])
    await scene.talk()
    assert stored(scene, question).answer == "<b>main</b>; rm -rf /"


async def test_an_answer_elsewhere_and_an_end_in_time_close_the_message(
    scene: ChatScene, server: TelegramServer
) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    first = asked(scene, "First?")
    second = asked(scene, "Second?", expires_at=scene.clock.now() + timedelta(minutes=2), fallback="no")
    await scene.talk()
    by = Answerer("user:anna", Door.CLI)
    act = partial(answers.answer, number=first.number, text="no", digest="digest", by=by, now=scene.clock.now())
    scene.store.write(act)
    await scene.advance("3m")
    await scene.talk()
    assert [("reply_markup" in message, message["text"].splitlines()[-1]) for message in server.sent()] == [
        (False, "'no', by user:anna (cli)"),
        (False, "the default 'no', because no answer came in time"),
    ]
    assert stored(scene, second).state is QuestionState.EXPIRED


async def test_a_proposal_is_approved_by_a_button_that_shows_what_it_does(
    scene: ChatScene, server: TelegramServer
) -> None:
    scene.target(phone(server))
    put(scene, asking("watch"), policy=WAITS)
    await scene.talk()
    [message] = server.sent()
    assert all(word in message["text"] for word in ("Approve the job watch?", "schedule:", "access:", "prompt:"))
    server.press(message["message_id"], 0)
    await scene.talk()
    assert scene.job("watch").provisional_at is None


async def test_forged_and_foreign_presses_change_nothing(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    question = asked(scene)
    await scene.talk()
    message = server.sent()[0]["message_id"]
    token = server.sent()[0]["reply_markup"]["inline_keyboard"][0][0]["callback_data"].partition(":")[0]
    server.press(message, 0, user=STRANGER)
    server.press(message, 0, chat=STRANGER)
    for data in (f"{token}:9", f"{36 * '0'}:0", "approve", f"{token}:0:1", "x" * 4000, f"{token}:-1"):
        server.press(message, data=data)
    await scene.talk()
    assert stored(scene, question).is_open
    assert server.answered() == ["this button is not known"] * 6


async def test_a_question_that_does_not_fit_has_no_buttons(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    question = asked(scene, "y" * 3990)
    await scene.talk()
    [message] = server.sent()
    assert "reply_markup" not in message
    assert f"rota answer {question.number}" in message["text"]
    server.say("yes", reply_to=message["message_id"])
    await scene.talk()
    assert stored(scene, question).is_open


async def test_a_question_that_cannot_be_sent_needs_attention(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    server.failures.append(("sendMessage", 403, {"description": "Forbidden: bot was blocked by the user"}))
    asked(scene)
    await scene.talk()
    (item,) = (one for one in needs(scene) if one.kind is ItemKind.DELIVERIES)
    assert (item.name, item.command) == ("phone", "rota notify test phone")
    assert item.what == "1 message failed: sendMessage: 403 Forbidden: bot was blocked by the user"
    await scene.advance("25h")
    assert [one for one in needs(scene) if one.kind is ItemKind.DELIVERIES] == []


async def test_an_outage_of_hours_loses_no_question(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    server.failures += [("sendMessage", 502, {"description": "Bad Gateway"})] * 30
    question = asked(scene)
    for _ in range(20):
        scene.clock.advance(timedelta(minutes=6))
        await scene.talk(turns=2)
    (item,) = (one for one in needs(scene) if one.kind is ItemKind.DELIVERIES)
    assert item.what == "1 message failed: sendMessage: 502 Bad Gateway"
    for _ in range(20):
        scene.clock.advance(timedelta(minutes=6))
        await scene.talk(turns=2)
    [message] = server.sent()
    assert [one for one in needs(scene) if one.kind is ItemKind.DELIVERIES] == []
    server.press(message["message_id"])
    await scene.talk()
    assert stored(scene, question).answer == "yes"


async def test_a_chat_that_left_the_file_gets_nothing_more_and_loses_nothing_when_it_returns(
    scene: ChatScene, server: TelegramServer
) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    server.failures.append(("sendMessage", 502, {"description": "Bad Gateway"}))
    asked(scene)
    await scene.talk()
    scene.target(replace(phone(server), address="77"))
    scene.clock.advance(timedelta(minutes=1))
    await scene.talk()
    assert [message["chat"]["id"] for message in server.sent()] == [77]
    scene.target(phone(server))
    await scene.talk()
    assert [message["chat"]["id"] for message in server.sent()] == [77, CHAT]


async def test_a_target_may_leave_questions_to_others(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server, questions=False))
    scene.declare(reviewing())
    asked(scene)
    await scene.talk()
    assert server.sent() == []


async def test_a_button_that_is_pressed_too_late_is_refused(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    ended = asked(scene, "Of a run that ends?")
    late = asked(scene, "Until when?", expires_at=scene.clock.now() + timedelta(minutes=2))
    await scene.talk()
    why = "its run has ended"
    scene.store.write(partial(transactions.withdraw, question=ended, why=why, now=scene.clock.now()))
    scene.clock.advance(timedelta(minutes=3))
    for part in ("Of a run", "Until when"):
        server.press(server.wait_for_text(part, seconds=0)["message_id"])
    await scene.talk()
    assert sorted(server.answered()) == [
        f"question {ended.number} is withdrawn",
        f"question {late.number} is expired",
    ]
    assert (stored(scene, ended).answer, stored(scene, late).answer) == (None, None)


async def test_what_people_do_in_a_chat_is_in_the_audit_log(scene: ChatScene, server: TelegramServer) -> None:
    message = await answered(scene, server)
    scene.target(phone(server, commands=ChatCommands(run=("review",), pause=("review",), status=True)))
    question = asked(scene)
    server.say("/run review")
    await scene.talk()
    server.say("go on", reply_to=message)
    server.press(server.wait_for_text("Deploy?", seconds=0)["message_id"])
    server.press(server.wait_for_text("Deploy?", seconds=0)["message_id"], data=f"{36 * '0'}:0")
    for text in ("/run backup", "/status", "/pause review"):
        server.say(text)
    await scene.talk()
    entries = scene.store.read(partial(audit_table.entries, limit=20))
    assert {(one.actor, one.face) for one in entries} == {("telegram:5001", "telegram")}
    assert [(one.action, one.target) for one in reversed(entries)] == [
        ("run", "review:2"),
        ("reply", "review:1"),
        ("answer", str(question.number)),
        ("pause", "review"),
    ]


# attention


async def needing(scene: ChatScene, server: TelegramServer) -> dict[str, Any]:
    """Let a job fail; return the message about it."""
    scene.target(phone(server, on=(Event.ATTENTION, Event.RESOLVED)))
    scene.declare(command("backup"))
    scene.processes.scripts["backup"] = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3))
    scene.trigger("backup")
    await scene.advance("5m")
    await scene.talk()
    return server.wait_for_text("backup needs attention", seconds=0)


async def test_what_needs_attention_is_acknowledged_by_a_button(scene: ChatScene, server: TelegramServer) -> None:
    message = await needing(scene, server)
    [[button]] = message["reply_markup"]["inline_keyboard"]
    assert button["text"] == "Acknowledge"
    server.press(message["message_id"], user=STRANGER)
    server.press(message["message_id"])
    server.press(message["message_id"])
    await scene.talk()
    assert [seen.actor for seen in scene.store.read(audit_table.acknowledgements).values()] == ["telegram:5001"]
    [entry] = scene.store.read(partial(audit_table.entries, limit=2))
    assert (entry.actor, entry.face, entry.action, entry.target) == ("telegram:5001", "telegram", "ack", "backup")
    assert sorted(server.answered()) == [
        "acknowledged by Ada (telegram 5001): backup",
        "this is acknowledged already",
    ]
    assert "reply_markup" not in server.messages[message["message_id"]]
    assert server.messages[message["message_id"]]["text"].endswith("acknowledged by Ada (telegram 5001): backup")


async def test_news_since_the_message_are_not_acknowledged(scene: ChatScene, server: TelegramServer) -> None:
    message = await needing(scene, server)
    scene.trigger("backup")
    await scene.advance("5m")
    server.press(message["message_id"])
    await scene.talk()
    assert scene.store.read(audit_table.acknowledgements) == {}
    assert "something new happened since" in server.answered()[0]


async def test_two_targets_of_a_chat_both_have_buttons_that_acknowledge(
    scene: ChatScene, server: TelegramServer
) -> None:
    scene.target(
        phone(server, on=(Event.ATTENTION,)), replace(phone(server, on=(Event.FAILED,)), name="first", questions=False)
    )
    scene.declare(command("backup"))
    scene.processes.scripts["backup"] = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3))
    scene.trigger("backup")
    await scene.advance("5m")
    await scene.talk()
    server.press(server.wait_for_text("backup needs attention", seconds=0)["message_id"])
    await scene.talk()
    assert server.answered() == ["acknowledged by Ada (telegram 5001): backup"]


async def test_a_question_is_not_sent_as_an_item_too(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server, on=(Event.ATTENTION,)))
    scene.declare(reviewing())
    asked(scene)
    await scene.talk()
    await scene.advance("5m")
    await scene.talk()
    assert len(server.sent()) == 1
    assert "Deploy?" in server.texts()[0]


# strangers, floods, faults


async def test_strangers_are_ignored_and_counted(scene: ChatScene, server: TelegramServer) -> None:
    message = await answered(scene, server)
    server.say("/status", user=STRANGER)
    server.say("go on", user=STRANGER, reply_to=message)
    server.say("go on", chat=STRANGER, reply_to=message)
    server.push({"my_chat_member": {"chat": {"id": CHAT}}})
    server.push({"message": {"chat": {"id": "x"}, "from": None, "text": {"a": 1}}})
    await scene.talk()
    assert len(server.sent()) == 1
    assert len(scene.history("review")) == 1
    assert len(server.updates) == 0
    scene.clock.advance(timedelta(seconds=20))
    await scene.talk()
    [bot] = scene.store.read(chats.bots)
    assert (bot.ignored, bot.cursor) == (3, 705)


async def test_ten_thousand_messages_are_bounded(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server, commands=ChatCommands(run=("backup",))))
    scene.declare(command("backup", overlap=Overlap(OverlapPolicy.ALLOW)))
    for number in range(10_000):
        server.say("/run backup", user=USER if number % 2 else STRANGER)
    before = scene.store.changes
    await scene.talk(turns=110)
    assert len(scene.history("backup")) == ACTIONS
    assert len(server.texts()) == ACTIONS + 1
    assert server.texts()[-1] == FLOODED
    assert server.updates == []
    assert scene.store.changes - before < 1000
    scene.clock.advance(PER)
    server.say("/run backup")
    await scene.talk()
    assert len(scene.history("backup")) == ACTIONS + 1


async def test_a_crash_between_reading_and_confirming_repeats_nothing(scene: ChatScene, server: TelegramServer) -> None:
    message = await answered(scene, server)
    server.say("go on", reply_to=message)
    await scene.talk(turns=1)
    await scene.crash()
    unconfirmed = [update["update_id"] for update in server.updates]
    await scene.start()
    await scene.talk()
    assert unconfirmed
    assert len(scene.history("review")) == 2
    assert [text for text in server.texts() if "goes on" in text] == ["review:2 goes on with your reply"]


async def test_an_update_that_is_sent_twice_counts_once(scene: ChatScene, server: TelegramServer) -> None:
    message = await answered(scene, server)
    bot = next(iter(scene.engine.chats.bots.values()))
    client = scene.engine.chats._client_of(bot.target, lambda _name: server.token)
    server.say("go on", reply_to=message)
    events = await asyncio.to_thread(client.poll, None, seconds=0)
    for _ in range(3):
        await scene.engine.chats.receive(bot, events)
    await scene.talk()
    assert len(scene.history("review")) == 2


async def test_a_message_whose_sending_was_cut_short_is_sent_again_and_its_first_copy_works(
    scene: ChatScene, server: TelegramServer
) -> None:
    scene.target(phone(server))
    scene.declare(reviewing())
    question = asked(scene)
    await scene.talk(turns=1)
    [copy] = server.sent()
    [row] = scene.messages(phone(server), ChatKind.QUESTION, str(question.number))
    assert row.state in (ChatState.PENDING, ChatState.SENT)
    server.press(copy["message_id"], 1)
    await scene.talk()
    assert stored(scene, question).answer == "no"


async def test_the_buttons_of_a_copy_are_removed_too(scene: ChatScene, server: TelegramServer) -> None:
    """A crash came between the sending of the first copy and its record."""
    scene.target(phone(server))
    scene.declare(reviewing())
    question = asked(scene)
    await scene.talk()
    [message] = server.sent()
    copy = {**message, "message_id": 5}
    server.messages[5] = copy
    server.press(5, 0)
    await scene.talk()
    assert stored(scene, question).answer == "yes"
    assert ["reply_markup" in one for one in server.sent()] == [False, False]


async def test_a_reply_to_a_message_that_was_not_recorded_finds_its_run(
    scene: ChatScene, server: TelegramServer
) -> None:
    """A crash came between the sending and the record."""
    await answered(scene, server)
    bot = {"id": 123456, "is_bot": True}
    quoted = {"message_id": 9000, "text": "review:1\n\nTwo PRs", "from": bot}
    message = {"message_id": 9001, "from": {"id": USER}, "chat": {"id": CHAT}, "text": "go on"}
    forged = {**quoted, "from": {"id": USER, "is_bot": False}}
    for replied in (quoted, forged, {**quoted, "text": "backup:1"}, {**quoted, "text": "Question 99999 of"}):
        server.push({"message": {**message, "reply_to_message": replied}})
    await scene.talk()
    assert [prompt_of(scene, run) for run in scene.history("review")] == [None, "go on"]
    assert len([text for text in server.texts() if "not stored any more" in text]) == 3


async def test_one_process_reads_a_bot_at_a_time(scene: ChatScene, server: TelegramServer) -> None:
    await answered(scene, server)
    bot = phone(server).bot
    now = scene.clock.now()
    later = now + timedelta(hours=1)
    taken = scene.store.write(partial(chats.take_bot, name=bot, epoch=999, now=now, until=later))
    own = scene.store.write(partial(chats.take_bot, name=bot, epoch=scene.session.holder.epoch, now=now, until=later))
    assert (taken, own) == (False, True)
    scene.store.write(partial(chats.leave_bots, epoch=scene.session.holder.epoch))
    assert scene.store.write(partial(chats.take_bot, name=bot, epoch=999, now=now, until=later))


async def test_a_dead_service_delays_nothing_and_shows_in_the_status(scene: ChatScene, server: TelegramServer) -> None:
    scene.target(phone(server))
    scene.declare(reviewing(), command("backup"))
    server.failures += [("getUpdates", 502, {"description": "Bad Gateway"})] * 4
    await scene.talk(turns=1)
    scene.trigger("backup")
    await scene.settle()
    assert scene.told("backup") == [("COMPLETED", None)]
    bot = next(iter(scene.engine.chats.bots.values()))
    assert (bot.failures, bot.error) == (1, "getUpdates: 502 Bad Gateway")
    assert scene.engine.chats.loop.note is None  # a poll that is cut off now and then needs no person
    assert bot.next_at > scene.clock.now()
    for _ in range(2):
        scene.clock.advance(timedelta(seconds=10))
        await scene.talk(turns=1)
    await scene.engine.chats.round()
    assert (bot.failures, "502" in (scene.engine.chats.loop.note or "")) == (3, True)
    for _ in range(3):
        scene.clock.advance(timedelta(seconds=10))
        await scene.talk(turns=2)
    assert (bot.failures, bot.error, scene.engine.chats.loop.note) == (0, None, None)


async def test_a_clock_that_is_set_back_delays_no_chat(scene: ChatScene, server: TelegramServer) -> None:
    message = await answered(scene, server)
    scene.clock.step(-timedelta(hours=2))
    server.say("go on", reply_to=message)
    await scene.talk()
    assert runs_of(scene) == [(Trigger.MANUAL, Status.COMPLETED), (Trigger.REPLY, Status.COMPLETED)]
    assert "review:2 goes on with your reply" in server.texts()


async def test_a_wrong_token_is_told_without_the_token(scene: ChatScene) -> None:
    with telegram(token="another") as server:
        scene.target(phone(server))
        await scene.talk(turns=1)
        bot = next(iter(scene.engine.chats.bots.values()))
        assert bot.error == "getUpdates: 401 Unauthorized"


async def test_a_target_that_is_removed_is_read_no_more(scene: ChatScene, server: TelegramServer) -> None:
    message = await answered(scene, server)
    scene.target()
    await scene.talk(turns=2)
    polls = len(server.polls)
    server.say("go on", reply_to=message)
    await scene.talk()
    assert (scene.engine.chats.bots, len(server.polls)) == ({}, polls)


async def test_without_chats_nothing_is_read_or_written(scene: ChatScene) -> None:
    scene.declare(command("backup"))
    before = scene.store.changes
    await scene.engine.chats.round()
    assert (scene.store.changes, scene.engine.chats.bots, scene.store.read(chats.bots)) == (before, {}, [])


async def test_a_job_that_resumes_goes_on_in_the_session_that_was_replied_to(
    scene: ChatScene, server: TelegramServer
) -> None:
    message = await answered(scene, server, session=SessionMode.RESUME)
    await scene.end("review", "Three now.", session="s-2")
    server.say("about the first", reply_to=message)
    await scene.talk()
    brief = scene.processes.given["review:3"].brief
    assert brief.session is not None
    assert brief.session.id == "s-1"
