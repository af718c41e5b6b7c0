"""Questions to people: ask, answer, withdraw and expire, each with its effect on the run that waits."""

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from rota import faults
from rota.engine.transactions.insert import create_run
from rota.model.budgets import MILLION, Usage
from rota.model.ids import new_id
from rota.model.questions import APPROVE, REJECT, Answer, Question, QuestionState, Subject
from rota.model.records import Job, Outcome, Run
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.outcome import ONE_ATTEMPT
from rota.rules.questions import EDITED, check_room
from rota.store.driver import Database
from rota.store.rows import write_json
from rota.store.tables import audit, jobs, questions, run_queries, runs
from rota.store.tables.processes import CriticalSection, lock_jobs_of_runs, lock_section
from rota.store.tables.questions import NewQuestion
from rota.text.runs import outages_before

EXPIRIES_A_ROUND = 200


def digest_of(*parts: object) -> str:
    """Return the digest of what a question concerns."""
    return hashlib.sha256(write_json(list(parts)).encode()).hexdigest()


def ask(db: Database, new: NewQuestion, *, job: str) -> Question:
    """Store a question unless its job or the project has too many open ones."""
    lock_section(db, CriticalSection.DECLARE)
    count = questions.count_open(db, new.job_id)
    check_room(count.total, count.of_job, job=job)
    number = questions.insert(db, new)
    audit.insert_event(
        db, "question_asked", now=new.asked_at, job_id=new.job_id, run_id=new.run_id, number=number, by=new.asked_by
    )
    question = questions.by_number(db, number)
    assert question is not None
    return question


def propose(db: Database, job: Job, *, now: datetime) -> None:
    """Ask for the approval of a proposed job; a question about an earlier definition is withdrawn."""
    digest = jobs.stored_digest(db, job)
    earlier = [question for question in questions.pending_of_job(db, job.id) if question.subject is Subject.PROPOSAL]
    if any(question.digest == digest for question in earlier):
        return
    for question in earlier:
        withdraw(db, question, why=EDITED, now=now)
    new = NewQuestion(
        subject=Subject.PROPOSAL,
        job_id=job.id,
        text=f"Approve the job {job.name}?",
        digest=digest,
        asked_by=job.made.by if job.made else job.source,
        asked_at=now,
        choices=(APPROVE, REJECT),
    )
    ask(db, new, job=job.name)


def withdraw_of_job(
    db: Database,
    job_id: str,
    *,
    why: str,
    now: datetime,
    subjects: Collection[Subject] = (Subject.JOB, Subject.PROPOSAL),
) -> None:
    """Withdraw the open questions about a job or proposal; those of runs end with their runs."""
    for question in questions.pending_of_job(db, job_id):
        if question.subject in subjects:
            withdraw(db, question, why=why, now=now)


def answer(db: Database, question: Question, given: Answer, *, now: datetime) -> bool:
    """Store an answer and release the run that waits for it; return False if the question had ended."""
    _lock_waiting(db, question)
    if not questions.end(db, question.number, QuestionState.ANSWERED, now=now, answer=given):
        return False
    faults.point("question.answered")
    _note(db, "question_answered", question, now=now, by=given.actor, door=given.door)
    _settle(db, question.number, now=now)
    return True


def withdraw(db: Database, question: Question, *, why: str, now: datetime) -> list[runs.RunEnd] | None:
    """Withdraw an open question; return the runs that must end because of that, None if the question had ended."""
    _lock_waiting(db, question)
    if not questions.end(db, question.number, QuestionState.WITHDRAWN, now=now, why=why):
        return None
    _note(db, "question_withdrawn", question, now=now, why=why)
    return _settle(db, question.number, now=now)


def expire(db: Database, *, now: datetime, limit: int = EXPIRIES_A_ROUND) -> list[runs.RunEnd]:
    """Expire the questions whose time is over, with their defaults; return the runs that must end without an answer."""
    run_ends: list[runs.RunEnd] = []
    for question in questions.due(db, now=now, limit=limit):
        _lock_waiting(db, question)
        if questions.end(db, question.number, QuestionState.EXPIRED, now=now, text=question.fallback):
            _note(db, "question_expired", question, now=now)
            run_ends += _settle(db, question.number, now=now)
    return run_ends


def _note(db: Database, kind: str, question: Question, *, now: datetime, **data: str) -> None:
    about = {"job_id": question.job_id, "run_id": question.run_id}
    audit.insert_event(db, kind, now=now, **about, number=question.number, **data)


def _lock_waiting(db: Database, question: Question) -> None:
    if question.used_by is not None:
        lock_jobs_of_runs(db, [question.used_by])


def _settle(db: Database, number: int, *, now: datetime) -> list[runs.RunEnd]:
    """Release the run that waits for a question that ended; return its end if no answer came."""
    question = questions.by_number(db, number)  # read again: its run may have ended meanwhile
    return [] if question is None or question.used_by is None else settle_run(db, question.used_by, now=now)


def settle_run(db: Database, run_id: str, *, now: datetime) -> list[runs.RunEnd]:
    """Release a run whose questions have all ended; return its end if none of them has an answer."""
    run = runs.run_by_id(db, run_id)
    question_list = questions.for_run(db, run_id)
    if run is None or run.waiting_for is not WaitingFor.ANSWER or any(question.is_open for question in question_list):
        return []
    if any(question.answer is not None for question in question_list):
        run_queries.release(db, run_id)
        return []
    error = f"no answer came to question {question_list[-1].number}" if question_list else "its question was deleted"
    return [runs.RunEnd(run_id, Outcome(Status.SKIPPED, Reason.NO_ANSWER, error=error), Status.QUEUED, now)]


class Continued(Struct, frozen=True):
    """The run that goes on with the answer, None for none; and the runs that must end because of it."""

    run_id: str | None = None
    further: tuple[runs.RunEnd, ...] = ()


NOT_CONTINUED = Continued()
CONTINUES = "continues"
"""The key of the decisions of a run that goes on with an answer: the run before, its questions and its session."""
READ = "answers"
"""The key of the decisions of a run with the numbers of the answers that it got."""


def follow(db: Database, ended: runs.FinishedRun, *, now: datetime) -> Continued:
    """Do what follows for questions from the end of a run.

    A completed run with a session that asked goes on as another run of its chain, which waits for the answer. The
    questions of any other run that waited are withdrawn. Answers that a completed run got are used up.
    """
    pending = questions.pending_of_job(db, ended.job_id)
    own = [question for question in pending if question.run_id == ended.id]
    for question in pending:
        if question.is_open and (question.used_by == ended.id or (question.call and question.run_id == ended.id)):
            withdraw(db, question, why="its run has ended", now=now)
    if ended.status is Status.COMPLETED:
        _use_up(db, ended.id)
    waiting = [question for question in own if question.waits]
    if not waiting:
        return NOT_CONTINUED
    run = runs.run_by_id(db, ended.id)
    session = None if run is None else _session(run, ended.outcome)
    if run is None or session is None or ended.status is not Status.COMPLETED:
        _leave(db, waiting, ended, now=now)
        return NOT_CONTINUED
    born = create_run(db, _continuation(db, run, waiting, session=session, now=now))
    for question in waiting:
        questions.pass_on(db, question.number, born.id)
    run_queries.relink_followers(db, run.id, born.id)
    return Continued(born.id, tuple(settle_run(db, born.id, now=now)))


def _use_up(db: Database, run_id: str) -> None:
    run = runs.run_by_id(db, run_id)
    for number in run.decisions.get(READ, ()) if run is not None else ():
        questions.pass_on(db, number, run_id)


def note_read(db: Database, run_id: str, number: int) -> None:
    """Note that a run got an answer: it is used up when the run completes."""
    run = runs.run_by_id(db, run_id)
    numbers = [] if run is None else list(run.decisions.get(READ, ()))
    runs.note_decisions(db, run_id, {READ: sorted({*numbers, number})})


def _leave(db: Database, waiting: Sequence[Question], ended: runs.FinishedRun, *, now: datetime) -> None:
    """Withdraw the questions of a failed run; of any other run, leave the answers to the next run of the job."""
    for question in waiting:
        questions.leave(db, question.number)
        if question.is_open and ended.status is not Status.COMPLETED:
            withdraw(db, question, why=f"its run ended {ended.status}", now=now)


def _session(asked: Run, outcome: Outcome) -> dict[str, Any] | None:
    """Return the session of a run with its totals, None if the agent named none."""
    if outcome.session is not None:
        return asdict(outcome.session)
    if not outcome.session_id or outcome.session_id.lstrip().startswith("-"):
        return None
    usage = outcome.usage or Usage()
    before = asked.decisions.get(CONTINUES, {}).get("session") or {}
    return {
        "id": outcome.session_id,
        "usd": before.get("usd", 0.0) + (usage.usd or 0) / MILLION,
        "tokens_in": before.get("tokens_in", 0) + (usage.tokens_in or 0),
        "tokens_out": before.get("tokens_out", 0) + (usage.tokens_out or 0),
        "tokens_cached": before.get("tokens_cached", 0) + (usage.tokens_cached or 0),
    }


def _continuation(
    db: Database, asked: Run, waiting: Sequence[Question], *, session: dict[str, Any], now: datetime
) -> runs.NewRun:
    """Return the run that goes on in the session of another one. It costs no attempt."""
    spec = jobs.version_spec(db, asked.job_id, asked.version)
    work = spec.work.agent
    assert work is not None, "only an agent has a session"
    told = {"after": asked.handle, "questions": [question.number for question in waiting]}
    free = {"retry": {"outages": outages_before(asked) + 1}}
    once = {ONE_ATTEMPT: asked.decisions[ONE_ATTEMPT]} if ONE_ATTEMPT in asked.decisions else {}
    return runs.NewRun(
        id=new_id(now),
        job=replace(jobs.job_by_id(db, asked.job_id), version=asked.version, spec=spec),
        trigger=Trigger.ANSWER,
        created_at=now,
        scheduled_for=asked.scheduled_for,
        waiting_for=WaitingFor.ANSWER,
        lane_id=asked.lane_id,
        priority=asked.priority,
        params=asked.params,
        attempt=asked.attempt + 1,
        retry_of=asked.id,
        chain_id=asked.chain_id or asked.id,
        group_id=asked.group_id,
        place=asked.place,
        always=asked.always,
        forced=asked.forced,
        decisions={CONTINUES: {**told, "session": {"adapter": work.adapter, **session}}, **free, **once},
    )


def asked_by(db: Database, run_id: str) -> list[int]:
    """Return the numbers of the questions for whose answers a run ends its turn."""
    return [question.number for question in questions.of_run(db, run_id) if question.waits]


def origin(db: Database, run: Run) -> Run | None:
    """Return the run that goes on with an answer, for itself and for its retries; None for any other run."""
    while run.trigger is Trigger.RETRY and run.retry_of is not None:
        before = runs.run_by_id(db, run.retry_of)
        if before is None:
            return None
        run = before
    return run if run.trigger is Trigger.ANSWER else None
