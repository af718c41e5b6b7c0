"""A real scheduler and a stand-in of Telegram: an answer, a reply and a question, over kill -9."""

import json
import os
from collections.abc import Iterator
from functools import partial

import pytest

from rota.engine.clock import SystemClock
from rota.engine.transactions.questions import ask
from rota.faults import VARIABLE
from rota.model.questions import Question, Subject
from rota.operations.admin.secrets import store_secret
from rota.operations.jobs import find_job
from rota.store.migrate import open_store
from rota.store.tables import questions
from rota.store.tables.questions import NewQuestion
from tests.chats.telegram_server import CHAT, TOKEN, USER, TelegramServer, telegram
from tests.scene import tamper_file
from tests.service.serving import Project, kill
from tests.service.test_agent_runs import seen
from tests.service.test_agent_runs import serve as serve_agents
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("service")
POINTS = ("chat.received", "chat.sent", "chat.stored")


@pytest.fixture
def server() -> Iterator[TelegramServer]:
    with telegram(waits=True) as found:
        yield found


def serve(project: Project, server: TelegramServer) -> None:
    """Serve a job whose answers go to the phone."""
    store_secret(project.state, "BOT", TOKEN)
    write = project.write
    chat = f"chat: {CHAT}, token: {{secret: BOT}}, users: [{USER}], commands: {{status: true}}, api_url: '{server.url}'"
    target = f"notify: {{phone: {{telegram: {{{chat}}}, allow_private: ['{server.place}'], on: failed}}}}\n"
    project.write = lambda text: write(target + text)  # type: ignore[method-assign]
    serve_agents(project, talk="prompt: hi, deliver: phone")


def arm(project: Project, point: str) -> None:
    """Let the next scheduler die at a point."""
    faults = project.folder / "faults.json"
    faults.write_text(json.dumps({"crash": {point: 1}}))
    faults.chmod(0o600)
    usual = project.environment
    project.environment = lambda: {**usual(), VARIABLE: str(faults)}  # type: ignore[method-assign]
    project.serve()
    project.environment = usual  # type: ignore[method-assign]


def ask_for(project: Project, text: str) -> Question:
    """Ask a question about the job."""
    store = open_store(project.state / "rota.db", now=SystemClock().now())
    try:
        job = store.read(partial(find_job, name="talk"))
        now = SystemClock().now()
        new = NewQuestion(Subject.JOB, job.id, text, "d", "talk:1", now, job.id, ("yes", "no"))
        return store.write(partial(ask, new=new, job="talk"))
    finally:
        store.close()


def stored(project: Project, number: int) -> Question:
    store = open_store(project.state / "rota.db", now=SystemClock().now())
    try:
        found = store.read(partial(questions.by_number, number=number))
        assert found is not None
        return found
    finally:
        store.close()


def die_and_serve(project: Project) -> None:
    """Wait until the scheduler died at its point, then serve again."""
    until(lambda: project.servers[-1].poll() is not None, what="the scheduler to die")
    project.serve()


@pytest.mark.parametrize("point", POINTS)
def test_a_reply_survives_a_kill_at_each_step_and_starts_one_run(
    project: Project, server: TelegramServer, point: str
) -> None:
    serve(project, server)
    project.rota("trigger", "talk")
    answer = server.wait_for_text("answer 1")
    until(lambda: project.json("deliveries")[0]["status"] == "DELIVERED", what="the answer to be stored as delivered")
    kill(project.servers[-1])
    arm(project, point)
    server.say("go on", reply_to=answer["message_id"])
    die_and_serve(project)
    server.wait_for_text("talk:2 goes on with your reply")
    server.wait_for_text("answer 2")
    assert [run["trigger"] for run in project.history("talk")] == ["manual", "reply"]
    assert [(one["resumed"], one["prompt"].splitlines()[-1]) for one in seen(project)] == [
        (None, "hi"),
        ("s-talk:1", "go on"),
    ]
    count = 2 if point == "chat.sent" else 1
    until(lambda: len([text for text in server.texts() if "goes on" in text]) == count, what=f"{count} notices")
    assert len([text for text in server.texts() if "answer" in text]) == 2
    assert project.json("verify")["violations"] == []


def test_an_answer_is_sent_again_from_the_part_after_which_the_scheduler_died(
    project: Project, server: TelegramServer
) -> None:
    serve(project, server)
    kill(project.servers[-1])
    arm(project, "chat.part_sent")
    project.rota("trigger", "talk")
    until(lambda: project.servers[-1].poll() is not None, what="the scheduler to die")
    tamper_file(project.state / "rota.db", "UPDATE delivery SET next_at = 0")  # the lease of the dead is over
    project.serve()
    until(lambda: sum("answer 1" in text for text in server.texts()) == 2, what="the repeated part")
    assert [run["trigger"] for run in project.history("talk")] == ["manual"]
    assert project.json("verify")["violations"] == []


def test_a_question_that_was_asked_before_a_kill_is_answered_by_a_button_after_it(
    project: Project, server: TelegramServer
) -> None:
    serve(project, server)
    question = ask_for(project, "Deploy?")
    message = server.wait_for_text("Deploy?")
    kill(project.servers[-1])
    server.press(message["message_id"], 1)
    server.say("/status")
    project.serve()
    until(lambda: not stored(project, question.number).is_open, what="the answer")
    server.wait_for_text(f"'no', by telegram:{USER}")
    server.wait_for_text("0 running")
    assert stored(project, question.number).answer == "no"
    loops = project.json_of("status", "--loops")["loops"]
    assert [loop["error"] for loop in loops if loop["name"] == "chats"] == [None]
    assert os.path.exists(project.state / "rota.db")


def test_the_bot_is_checked_by_notify_test_and_doctor(project: Project, server: TelegramServer) -> None:
    serve(project, server)
    assert project.json("notify", "test", "phone") == {"target": "phone", "ok": True, "answer": 200, "error": None}
    assert "phone: @rota_bot answers" in project.rota("doctor", check=False).stdout
    server.token = "999:other"
    told = project.json_of("notify", "test", "phone")
    assert (told["ok"], told["error"]) == (False, "getMe: 401 Unauthorized")
    assert "phone: getMe: 401 Unauthorized" in project.rota("doctor", check=False).stdout
