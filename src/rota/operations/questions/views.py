"""Questions as lists and JSON."""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypedDict

from msgspec import Struct

from rota.model.errors import UnknownQuestion
from rota.model.questions import Question, QuestionState, Subject
from rota.model.records import Job
from rota.model.serialize import to_shape
from rota.operations.jobs import find_job
from rota.store.driver import Database, Store
from rota.store.tables import jobs, questions

LISTED = 100


class QuestionView(Struct, frozen=True):
    """A question, and the proposed job that it is about."""

    question: Question
    proposal: Job | None = None


class QuestionJson(TypedDict):
    question: int
    state: str
    subject: str
    job: str
    run: str | None
    text: str
    choices: list[str]
    default: str | None
    call: dict[str, Any] | None
    digest: str
    answerers: list[str]
    asked_by: str
    asked_at: str
    expires_at: str | None
    answer: str | None
    answered_by: str | None
    door: str | None
    ended_at: str | None
    why: str | None
    continues: str | None


"""A question to people, and its answer."""


def question_json(question: Question) -> QuestionJson:
    """Return a question as JSON."""
    return to_shape(
        QuestionJson,
        question,
        question=question.number,
        default=question.fallback,
        call=dict(question.call) or None,
        answerers=question.allowed,
    )


def find_question(db: Database, number: int) -> Question:
    """Return a question; raise UnknownQuestion."""
    question = questions.by_number(db, number)
    if question is None:
        raise UnknownQuestion(number)
    return question


def list_questions(
    store: Store,
    *,
    state: QuestionState | None = QuestionState.OPEN,
    job: str | None = None,
    before: int | None = None,
    limit: int = LISTED,
) -> Sequence[Question]:
    """Return questions, newest first; `state` None means all, `before` is the last number of the previous page."""

    def read(db: Database) -> Sequence[Question]:
        job_id = None if job is None else find_job(db, job).id
        return questions.newest(db, state=state, job_id=job_id, below=before, limit=limit)

    return store.read(read)


def open_questions(db: Database, *, limit: int = LISTED) -> Sequence[Question]:
    """Return the open questions, oldest first."""
    return questions.open_questions(db, limit=limit)


def show_question(store: Store, number: int) -> QuestionView:
    """Return a question, with the job if it is an open proposal."""
    return store.read(partial(_show, number=number))


def _show(db: Database, *, number: int) -> QuestionView:
    question = find_question(db, number)
    proposed = question.subject is Subject.PROPOSAL and question.is_open
    return QuestionView(question, jobs.job_by_id(db, question.job_id) if proposed else None)
