"""Two answers to one question at the same time: one counts, and the other is refused."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from rota.engine.transactions.questions import ask
from rota.model.errors import QuestionClosed
from rota.model.questions import Door, Question, QuestionState, Subject
from rota.operations.admin.audit import AuditedAct, AuditedStore
from rota.operations.questions import answers
from rota.operations.questions.answers import Answerer
from rota.operations.questions.views import find_question
from rota.store.driver import Store
from rota.store.migrate import open_store
from rota.store.postgres.setup import open_postgres
from rota.store.tables import audit
from rota.store.tables.questions import NewQuestion
from rota.testing.doubles import FakeClock
from tests.postgres import lay_postgres
from tests.store.making import NOW, add_job
from tests.template import lay_database
from tests.waiting import LONGEST_WAIT

ROUNDS = 30
GIVEN = {"yes": Answerer("user:anna", Door.CLI), "no": Answerer("telegram:7", Door.TELEGRAM)}


@pytest.fixture(params=["postgres", "sqlite"])
def stores(request, tmp_path) -> Iterator[list[Store]]:
    """Two stores of one database."""
    if request.param == "sqlite":
        path = lay_database(tmp_path)
        opened: list[Store] = [open_store(path, now=NOW) for _ in GIVEN]
    else:
        address = lay_postgres("together")
        opened = [open_postgres(address, now=lambda: NOW) for _ in GIVEN]
    yield opened
    for store in opened:
        store.close()


def give(store: Store, question: Question, text: str, *, together: threading.Barrier) -> bool:
    """Answer a question at the same moment as another thread; return whether the answer counted."""
    by = GIVEN[text]
    wanted = partial(answers.answer, number=question.number, text=text, digest=question.digest, by=by, now=NOW)
    act = AuditedAct(by.actor, by.door, "answer", str(question.number))
    audited = AuditedStore(store, act, FakeClock(NOW))
    together.wait()
    try:
        return audited.write(wanted).answer == text
    except QuestionClosed:
        return False


def test_exactly_one_of_two_answers_counts(stores: list[Store]) -> None:
    job, together = add_job(stores[0]), threading.Barrier(len(stores), timeout=LONGEST_WAIT)
    new = NewQuestion(Subject.JOB, job.id, "Deploy?", "d", "backup:1", NOW, run_id="r", choices=tuple(GIVEN))
    with ThreadPoolExecutor(len(stores)) as threads:
        for number in range(1, ROUNDS + 1):
            question = stores[0].write(partial(ask, new=new, job=job.name))
            given = [
                threads.submit(give, store, question, text, together=together)
                for store, text in zip(stores, GIVEN, strict=True)
            ]
            (text,) = [text for text, one in zip(GIVEN, given, strict=True) if one.result()]
            after = stores[number % 2].read(partial(find_question, number=question.number))
            assert (after.state, after.answer) == (QuestionState.ANSWERED, text)
            assert (after.answered_by, after.door) == (GIVEN[text].actor, GIVEN[text].door)
            (entry,) = [one for one in trail(stores[0]) if one.target == str(question.number)]
            assert (entry.actor, entry.action) == (GIVEN[text].actor, "answer")
    answered = [one for one in happened(stores[0]) if one.kind == "question_answered"]
    assert len(answered) == len(trail(stores[0])) == ROUNDS


def trail(store: Store) -> list[audit.AuditEntry]:
    return store.read(partial(audit.entries, limit=2 * ROUNDS))


def happened(store: Store) -> list[audit.Happening]:
    return store.read(partial(audit.newest, since=NOW, limit=4 * ROUNDS))
