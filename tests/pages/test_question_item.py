"""An open question among the items that need attention, on the overview and in the commands."""

from functools import partial

import pytest

from rota.engine.transactions.chats import new_message
from rota.model.chats import ChatKind, Person
from rota.model.ids import new_id
from rota.model.notifications import Channel, ChatCommands, Target
from rota.model.questions import Subject
from rota.operations.questions.chats import ChatDesk
from rota.rules.chats import Command
from rota.store.driver import Database
from rota.store.tables import jobs, questions
from rota.store.tables.questions import NewQuestion
from tests.pages.conftest import Site

HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(1)> {{ 7 * 7 }}"
ANSWERS = "/ui/questions#question-1"


@pytest.fixture
def asked(site: Site) -> Site:
    """A site on which a run of the job `hello` has asked a person."""
    site.project.ok("trigger", "hello")
    run_id, now = site.project.json("show", "hello:1")["id"], site.clock.now()
    job = site.store.read(partial(jobs.job_by_name, name="hello"))
    assert job is not None
    new = NewQuestion(Subject.JOB, job.id, "Which branch?", "d", "hello:1", now, run_id=run_id)
    assert site.store.write(partial(questions.insert, new=new)) == 1
    return site


def test_the_overview_links_to_the_form_that_answers_a_question_of_a_run(asked: Site) -> None:
    page = asked.get("/")
    assert "question question 1 hello asks: Which branch?" in page.words
    assert ANSWERS in page.links
    assert "/ui/runs/hello:1#why-title" in page.links
    form = asked.get("/ui/questions")
    assert form.all("h2", id="question-1")
    (digest,) = [field["value"] for field in form.all("input", name="digest")]
    asked.post("/ui/questions/1/answer", digest=digest, answer="main")
    page = asked.get("/")
    assert "Nothing needs you" in page.words
    assert ANSWERS not in page.links


def test_a_question_without_a_stored_run_has_the_same_link(asked: Site) -> None:
    job = asked.store.read(partial(jobs.job_by_name, name="hello"))
    assert job is not None
    now = asked.clock.now()
    new = NewQuestion(Subject.JOB, job.id, "And then?", "e", "a direct call", now, run_id=new_id(now))
    asked.store.write(partial(questions.insert, new=new))
    assert "/ui/questions#question-2" in asked.get("/").links


def test_status_and_ack_list_a_question_with_the_command_that_answers_it(asked: Site) -> None:
    project = asked.project
    status = project.rota("status")
    assert "question 1  hello asks: Which branch?" in status.stdout
    assert "hello asks: Which branch?" in project.ok("ack")
    (item,) = [one for one in project.json("ack") if one["kind"] == "question"]
    assert (item["topic"], item["command"], item["about"]) == ("question:question 1", "rota answer 1", "hello:1")
    project.ok("answer", "1", "main")
    assert [one for one in project.json("ack") if one["kind"] == "question"] == []
    assert "Which branch?" not in project.rota("status").stdout


def test_text_from_a_chat_is_never_markup(asked: Site) -> None:
    desk, author, now = ChatDesk(asked.project.state), Person("telegram", "7", HOSTILE), asked.clock.now()
    allowed = ChatCommands(run=("other",), pause=("hello",))
    target = Target("phone", Channel.TELEGRAM, address="7", address_secret="BOT", users=("7",), commands=allowed)
    message = new_message(target, ChatKind.QUESTION, "1", body="d", now=now)

    def act(db: Database) -> None:
        for command in (Command("run", "other"), Command("pause", "hello")):
            desk.command(db, target, command, person=author, now=now)
        desk.reply(db, message, HOSTILE, person=author, now=now)

    asked.store.write(act)
    shown = ("/", "/ui/questions", "/ui/jobs", "/ui/jobs/hello", "/ui/runs/other:1", "/ui/system")
    pages = [asked.get(path) for path in shown]
    assert sum(HOSTILE in page.words for page in pages) >= 3  # the answer, the pause and the start
    for page in pages:
        assert "alert(1)" not in "".join(found.get("onerror", "") for found in page.all("img"))
        assert [found for found in page.all("script") if "src" not in found] == []
