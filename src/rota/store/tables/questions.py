"""Rows of questions to people."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from rota.model.clock import to_ms, to_ms_or_none
from rota.model.questions import Answer, Question, QuestionState, Subject
from rota.store.driver import Database
from rota.store.rows import instant_of, record_by_name, value_of, write_json

QUESTION_RETENTION = timedelta(days=90)
LAST_NUMBER = 2**62


class NewQuestion(Struct, frozen=True):
    """A question to store."""

    subject: Subject
    job_id: str
    text: str
    digest: str
    asked_by: str
    asked_at: datetime
    run_id: str | None = None
    choices: Sequence[str] = ()
    allowed: Sequence[str] = ()
    expires_at: datetime | None = None
    fallback: str | None = None
    call: Mapping[str, Any] | None = None
    waits: bool = False


class OpenCount(Struct, frozen=True):
    """The number of open questions, of all jobs and of one job."""

    total: int
    of_job: int


def insert(db: Database, new: NewQuestion) -> int:
    """Store a question and return its number."""
    number = value_of(
        db,
        "question_insert",
        subject=new.subject,
        job_id=new.job_id,
        run_id=new.run_id,
        text=new.text,
        digest=new.digest,
        choices=write_json(list(new.choices)),
        allowed=write_json(list(new.allowed)),
        asked_by=new.asked_by,
        asked_at=to_ms(new.asked_at),
        expires_at=to_ms_or_none(new.expires_at),
        fallback=new.fallback,
        call=None if new.call is None else write_json(new.call),
        waits=int(new.waits),
    )
    return int(number)


def by_number(db: Database, number: int) -> Question | None:
    """Return a question, None for none."""
    return next(iter(_found(db, "question_by_number", number=number)), None)


def newest(
    db: Database, *, state: QuestionState | None, job_id: str | None, below: int | None, limit: int
) -> list[Question]:
    """Return questions, newest first."""
    last = LAST_NUMBER if below is None else below
    return _found(db, "questions_newest", state=state, job_id=job_id, below=last, limit=limit)


def open_questions(db: Database, *, limit: int) -> list[Question]:
    """Return the open questions, oldest first."""
    return _found(db, "questions_open", limit=limit)


def count_open(db: Database, job_id: str) -> OpenCount:
    """Count the open questions."""
    row = db.row("questions_open_count", job_id=job_id)
    assert row is not None
    return OpenCount(*row)


def pending_of_job(db: Database, job_id: str) -> list[Question]:
    """Return the open questions of a job, and the ended ones whose run has not ended."""
    return _found(db, "questions_of_job", job_id=job_id)


def of_run(db: Database, run_id: str) -> list[Question]:
    """Return the questions that a run asked."""
    return _found(db, "questions_of_run", run_id=run_id)


def for_run(db: Database, run_id: str) -> list[Question]:
    """Return the questions whose answers a run gets."""
    return _found(db, "questions_for_run", run_id=run_id)


def unread(db: Database, job_id: str) -> list[Question]:
    """Return the answered questions of a job whose answers no run has got."""
    return _found(db, "questions_unread", job_id=job_id)


def end(
    db: Database,
    number: int,
    state: QuestionState,
    *,
    now: datetime,
    answer: Answer | None = None,
    text: str | None = None,
    why: str | None = None,
) -> bool:
    """End an open question; return False if it had ended. `text` is the default of an expired question."""
    changed = db.execute(
        "question_end",
        number=number,
        state=state,
        answer=text if answer is None else answer.text,
        answered_by=answer and answer.actor,
        door=answer and answer.door,
        now=to_ms(now),
        why=why,
    )
    return changed == 1


def pass_on(db: Database, number: int, run_id: str) -> bool:
    """Give the answer of a question to a run; return False if another run has it."""
    return db.execute("question_pass_on", number=number, run_id=run_id) == 1


def leave(db: Database, number: int) -> None:
    """Note that no run continues with the answer."""
    db.execute("question_leave", number=number)


def due(db: Database, *, now: datetime, limit: int) -> list[Question]:
    """Return the open questions whose time is over."""
    return _found(db, "questions_due", now=to_ms(now), limit=limit)


def next_due(db: Database) -> datetime | None:
    """Return the end of the first open question that expires."""
    return instant_of(db, "question_next_due")


def old(db: Database, before: datetime) -> bool:
    """Return whether questions ended before an instant."""
    return db.row("questions_old", before=to_ms(before)) is not None


def prune(db: Database, before: datetime, *, limit: int) -> int:
    """Delete questions that ended before an instant; return the number."""
    return db.execute("questions_prune", before=to_ms(before), limit=limit)


def _found(db: Database, query: str, **params: Any) -> list[Question]:
    return [record_by_name(Question, row) for row in db.records(query, **params)]
