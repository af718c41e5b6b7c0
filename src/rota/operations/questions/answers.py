"""Answers to questions: the one operation behind every door, with its effect."""

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from rota.engine.transactions import questions as transactions
from rota.engine.transactions.finish import end_runs
from rota.model.errors import ApprovalVoid, NotProvisional, QuestionChanged, QuestionClosed
from rota.model.questions import APPROVE, REJECT, Answer, Door, Question, Subject
from rota.model.records import Job
from rota.operations.agents.proposals import approve_proposed, remove
from rota.operations.jobs import proposal
from rota.operations.questions.permissions import definition_of, digest_of_call, grant
from rota.operations.questions.views import find_question
from rota.rules.questions import judge_answer
from rota.store.driver import Database
from rota.store.tables import activity, jobs, questions


class Answerer(Struct, frozen=True):
    """The actor of an answer, as the audit log names it, and its interface."""

    actor: str
    door: Door


def answer(db: Database, number: int, text: str, *, digest: str, by: Answerer, now: datetime) -> Question:
    """Answer a question and do what follows from the answer, in one transaction.

    `digest` is that of the question that the actor saw. The first answer wins; a later one raises QuestionClosed.
    """
    question = find_question(db, number)
    given = Answer(text, by.actor, by.door, digest)
    given = replace(given, text=judge_answer(question, given, current=current_digest(db, question), now=now))
    if not transactions.answer(db, question, given, now=now):
        raise QuestionClosed(number, find_question(db, number).state)
    _carry_out(db, question, given, now=now)
    activity.touch(db, what="answer", now=now)
    return find_question(db, number)


def current_digest(db: Database, question: Question) -> str:
    """Return the present digest of what a question concerns."""
    if question.subject is Subject.PROPOSAL:
        return jobs.stored_digest(db, jobs.job_by_id(db, question.job_id))
    if question.call:
        return digest_of_call(definition_of(db, question.job_id), question.call)
    return question.digest


def _carry_out(db: Database, question: Question, given: Answer, *, now: datetime) -> None:
    if question.call:
        grant(db, question, given, now=now)
    if question.subject is Subject.PROPOSAL:
        job = jobs.job_by_id(db, question.job_id)
        if given.text == APPROVE:
            approve_proposed(db, job, now=now)
        else:
            remove(db, job, now=now)


def withdraw(db: Database, number: int, *, by: Answerer, now: datetime) -> Question:
    """Withdraw an open question that no person will answer; a proposal is rejected instead."""
    question = find_question(db, number)
    if question.subject is Subject.PROPOSAL:
        raise QuestionClosed(number, "a proposal: answer it with reject")
    run_ends = transactions.withdraw(db, question, why=f"{by.actor} withdrew it", now=now)
    if run_ends is None:
        raise QuestionClosed(number, question.state)
    end_runs(db, run_ends, epoch=None, now=now)
    activity.touch(db, what="answer", now=now)
    return find_question(db, number)


def approve(db: Database, *, name: str, digest: str, by: Answerer, now: datetime) -> Job:
    """Approve a provisional job; `digest` is that of the definition that the person saw."""
    return _decide(db, name, APPROVE, digest=digest, by=by, now=now)


def _decide(db: Database, name: str, choice: str, *, digest: str, by: Answerer, now: datetime) -> Job:
    job = proposal(db, name=name)
    question = proposal_question(db, job.id)
    if question is None:
        raise NotProvisional(name)
    seen = jobs.stored_digest(db, job) if digest == jobs.digest_of(job.spec) else digest
    try:
        answer(db, question.number, choice, digest=seen, by=by, now=now)
    except QuestionChanged:
        raise ApprovalVoid(name) from None
    return jobs.job_by_id(db, job.id)


def proposal_question(db: Database, job_id: str) -> Question | None:
    """Return the open question about a proposed job."""
    question_list = questions.pending_of_job(db, job_id)
    return next(
        (question for question in question_list if question.subject is Subject.PROPOSAL and question.is_open), None
    )


def reject(db: Database, *, name: str, by: Answerer, now: datetime) -> Job:
    """Reject a provisional job: it is removed."""
    digest = jobs.digest_of(proposal(db, name=name).spec)
    return _decide(db, name, REJECT, digest=digest, by=by, now=now)
