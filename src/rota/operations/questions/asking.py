"""Questions of runs: `ask_person` of agents, and `ctx.ask` of functions."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from rota.agents.registry import adapter
from rota.engine.transactions import questions as transactions
from rota.model.errors import InvalidValue
from rota.model.proposals import Author
from rota.model.questions import DEFAULT_TIMEOUT, Question, Subject
from rota.model.records import Run
from rota.model.spec import JobSpec
from rota.rules.questions import can_wait, check_chain, check_question, clean
from rota.store.driver import Database
from rota.store.tables import direct_calls, jobs, questions, runs
from rota.store.tables.questions import NewQuestion
from rota.text.runs import outages_before

END_TURN = "end your turn now, without the work that needs the answer; you continue in this session with the answer"
NEXT_RUN = "continue without the answer: the next run of this job gets it with its task"
HERE = "continue with this answer"


class Asking(Struct, frozen=True):
    """A question that a run wants to ask."""

    text: str
    choices: Sequence[str] = ()
    timeout: timedelta = DEFAULT_TIMEOUT
    fallback: str | None = None


class StoredQuestion(Struct, frozen=True):
    """A stored question, and what its run does next."""

    question: Question
    next: str


class Asker(Struct, frozen=True):
    """The run or direct call that asks, with its job and definition."""

    id: str
    job_id: str
    spec: JobSpec
    title: str
    run: Run | None

    @property
    def answerers(self) -> tuple[str, ...]:
        """The actors that may answer; empty: any with the right to answer."""
        return () if self.spec.work.agent is None else self.spec.work.agent.answered_by


def ask_person(db: Database, *, author: Author, wanted: Asking, now: datetime) -> StoredQuestion:
    """Ask a question for the run of an author; the same question again returns the stored one, or its answer."""
    asker = None if author.run_id is None else find_asker(db, author.run_id, title=author.title)
    if asker is None:
        raise InvalidValue("only a run can ask a person", hint="ask the person who talks to you")
    return ask(db, asker, wanted, now=now)


def find_asker(db: Database, run_id: str, *, title: str) -> Asker | None:
    """Return a run or a started direct call as an asker."""
    run = runs.run_by_id(db, run_id)
    if run is not None:
        return Asker(run.id, run.job_id, jobs.version_spec(db, run.job_id, run.version), title, run)
    call = direct_calls.direct_by_id(db, run_id)
    if call is None or call.execution.job_id is None or call.execution.version is None:
        return None
    job_id = call.execution.job_id
    return Asker(run_id, job_id, jobs.version_spec(db, job_id, call.execution.version), title, None)


def ask(db: Database, asker: Asker, wanted: Asking, *, now: datetime) -> StoredQuestion:
    """Return the answer to a question of a job, or its open question; ask it if there is none."""
    text, choices = clean(wanted.text), [clean(choice) for choice in wanted.choices]
    fallback = None if wanted.fallback is None else clean(wanted.fallback)
    check_question(text, choices, fallback=fallback, timeout=wanted.timeout)
    digest = transactions.digest_of(asker.job_id, text, choices)
    earlier = [one for one in questions.unread(db, asker.job_id) if one.digest == digest]
    earlier += [one for one in questions.pending_of_job(db, asker.job_id) if one.digest == digest and not one.call]
    found = next((one for one in earlier if not one.waits or one.run_id == asker.id), None)
    if found is not None:
        return _found(db, asker, found)
    waits = asker.run is not None and can_wait(asker.spec, resumes=_resumes(asker.spec))
    if waits and asker.run is not None:
        check_chain(outages_before(asker.run), run=asker.run.handle)
    new = NewQuestion(
        subject=Subject.RUN if waits else Subject.JOB,
        job_id=asker.job_id,
        run_id=asker.id,
        text=text,
        digest=digest,
        choices=choices,
        asked_by=asker.title,
        asked_at=now,
        expires_at=now + wanted.timeout,
        fallback=fallback,
        waits=waits,
        allowed=asker.answerers,
    )
    return StoredQuestion(transactions.ask(db, new, job=asker.spec.name), END_TURN if waits else NEXT_RUN)


def _found(db: Database, asker: Asker, found: Question) -> StoredQuestion:
    if found.is_open:
        return StoredQuestion(found, END_TURN if found.waits else NEXT_RUN)
    questions.leave(db, found.number)  # it has its answer: no run has to go on with it
    if asker.run is not None:
        transactions.note_read(db, asker.run.id, found.number)
    return StoredQuestion(found, HERE)


def _resumes(spec: JobSpec) -> bool:
    work = spec.work.agent
    return work is not None and adapter(work.adapter, work.options).capabilities.resume
