"""Permission of single tool calls: by a standing grant, or by a question to a person."""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from msgspec import Struct

from rota.engine.transactions import questions as transactions
from rota.model.agents import Access
from rota.model.errors import RotaError, ToolsRefused
from rota.model.proposals import Author
from rota.model.questions import ALLOW_ALWAYS, ALLOW_ONCE, DENY, Answer, Question, QuestionState, Subject
from rota.operations.questions.asking import Asker, find_asker
from rota.store.driver import Database, Store
from rota.store.rows import write_json
from rota.store.tables import audit, grants, jobs, questions
from rota.store.tables.questions import NewQuestion

WAIT = timedelta(minutes=10)
"""The time in which a person may permit a call; then it is denied."""
GRANT_LASTS = timedelta(days=30)
LOOKS_APART = 0.5
CALL_LIMIT = 16_000
"""Characters of a call that a person can read; a longer one is denied."""
CHOICES = (ALLOW_ONCE, ALLOW_ALWAYS, DENY)


class CallDecision(Struct, frozen=True):
    """The decision about a call; `question` is set while a person decides."""

    allowed: bool = False
    why: str = ""
    question: int | None = None


def decide(
    store: Store, author: Author, tool: str, given: Mapping[str, Any], *, now: Callable[[], datetime]
) -> CallDecision:
    """Return whether a run may make a tool call; wait for a person if no grant permits it."""
    verdict = store.write(partial(request, author=author, tool=tool, given=given, now=now()))
    pause = threading.Event()
    while verdict.question is not None:
        pause.wait(LOOKS_APART)
        verdict = store.read(partial(look, number=verdict.question, now=now()))
    return verdict


def request(db: Database, *, author: Author, tool: str, given: Mapping[str, Any], now: datetime) -> CallDecision:
    """Return the decision of a standing grant, or ask a person."""
    asker = None if author.run_id is None else find_asker(db, author.run_id, title=author.title)
    if asker is None or asker.run is None or author.limits is None or author.limits.access is not Access.ASK:
        raise ToolsRefused(author.run or author.name)
    call = grants.call_of(tool, given)
    if len(write_json(call)) > CALL_LIMIT:
        return CallDecision(why=f"the call has more than {CALL_LIMIT:,} characters, which no person can check")
    definition = definition_of(db, asker.job_id)
    if definition != jobs.lasting_digest(asker.spec):
        return CallDecision(why="the definition of the job changed after this run started")
    granted = grants.find(db, asker.job_id, digest=definition, call_digest=transactions.digest_of(call))
    if granted is not None and grants.use(db, granted.number, now=now):
        about = {"job_id": asker.job_id, "run_id": asker.id}
        audit.insert_event(db, "grant_used", now=now, **about, number=granted.number, tool=tool)
        return CallDecision(allowed=True, why=f"grant {granted.number}")
    return CallDecision(question=_question(db, asker, call, definition=definition, now=now).number)


def _question(db: Database, asker: Asker, call: Mapping[str, Any], *, definition: str, now: datetime) -> Question:
    digest = digest_of_call(definition, call)
    pending = questions.pending_of_job(db, asker.job_id)
    same = (one for one in pending if one.call and one.run_id == asker.id and one.digest == digest and one.is_open)
    found = next(same, None)
    if found is not None:
        return found
    new = NewQuestion(
        subject=Subject.RUN,
        job_id=asker.job_id,
        run_id=asker.id,
        text=f"Allow {asker.title} to use {str(call['tool'])[:100]}?",
        digest=digest,
        choices=CHOICES,
        asked_by=asker.title,
        asked_at=now,
        expires_at=now + WAIT,
        fallback=DENY,
        call=call,
        allowed=asker.answerers,
    )
    return transactions.ask(db, new, job=asker.spec.name)


def definition_of(db: Database, job_id: str) -> str:
    """Return the digest of the present definition of a job."""
    return jobs.lasting_digest(jobs.job_by_id(db, job_id).spec)


def digest_of_call(definition: str, call: Mapping[str, Any]) -> str:
    """Return the digest of a call under a definition of its job."""
    return transactions.digest_of(definition, call)


def look(db: Database, *, number: int, now: datetime) -> CallDecision:
    """Return the decision of a person; without one in time the call is denied."""
    question = questions.by_number(db, number)
    if question is None or (question.is_open and question.expires_at is not None and question.expires_at <= now):
        return CallDecision(why="no person answered in time")
    if question.is_open:
        return CallDecision(question=number)
    if question.state is not QuestionState.ANSWERED:
        return CallDecision(
            why="no person answered in time" if question.state is QuestionState.EXPIRED else question.why or ""
        )
    allowed = question.answer in (ALLOW_ONCE, ALLOW_ALWAYS)
    return CallDecision(allowed=allowed, why=f"{question.answer}, by {question.answered_by}")


def grant(db: Database, question: Question, given: Answer, *, now: datetime) -> None:
    """Store the standing grant that an answer gives; an expired one of the same call is replaced."""
    if given.text != ALLOW_ALWAYS:
        return
    definition = definition_of(db, question.job_id)
    call_digest = transactions.digest_of(question.call)
    earlier = grants.find(db, question.job_id, digest=definition, call_digest=call_digest)
    if earlier is not None:
        grants.revoke(db, earlier.number, by=given.actor, now=now)
    until = now + GRANT_LASTS
    grants.insert(db, question, digest=definition, call_digest=call_digest, by=given.actor, now=now, until=until)
    audit.insert_event(db, "grant_given", now=now, job_id=question.job_id, question=question.number, by=given.actor)


def say_denied(error: RotaError) -> CallDecision:
    """Return the denial of a call whose request was refused."""
    return CallDecision(why=error.message)
