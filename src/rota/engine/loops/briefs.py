"""The briefs of agent runs: session, answers, reply, carried text, results, work item and workspace."""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rota.agents.registry import adapter
from rota.engine.agents import named_results
from rota.engine.loops.work_sources import Items
from rota.engine.loops.workspaces import Workspaces
from rota.engine.processes import run_facts
from rota.engine.transactions import questions as questions_transactions
from rota.engine.transactions.claim import Claimed, ClaimOwner
from rota.model.agents import AgentSession, Brief, PersonAnswer
from rota.model.chats import Reply
from rota.model.clock import Clock
from rota.model.questions import Question
from rota.model.records import POSTCONDITION, Run
from rota.model.spec import AgentWork, Carry, OnQuota, SessionMode
from rota.model.states import Reason, Trigger
from rota.rules.admission import Skip
from rota.rules.agents import session_over
from rota.rules.chats import reply_text
from rota.rules.prompts import has_placeholders
from rota.settings import Settings
from rota.store.driver import Database, Store
from rota.store.tables import chats, questions, run_queries, runs, work_items
from rota.text.jobs import workspace_of


class Briefing:
    """Takes the steps one after the other; each makes the brief fuller, or ends the run."""

    def __init__(self, store: Store, clock: Clock, *, settings: Settings, items: Items, holder: ClaimOwner) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self.items = items
        self.workspaces = Workspaces(store, clock, settings, shared=holder.leased)
        self._worker_id = holder.worker_id

    async def give(self, claimed: Claimed) -> Claimed | Skip:
        """Return the run with its whole brief, or why there is nothing to do."""
        reply = self._store.read(partial(_reply_of, run_id=claimed.run.id)) if _may_reply(claimed) else None
        if reply is not None:
            return await self.workspaces.give(await self._continue(claimed, reply))
        given = await self.items.give(await self._remember(claimed))
        return given if isinstance(given, Skip) else await self.workspaces.give(given)

    async def _remember(self, claimed: Claimed) -> Claimed:
        work = claimed.spec.work.agent
        reads = {Carry.LAST_SUMMARY, Carry.POSTCONDITION}
        if work is None:
            return claimed
        jobs = result_jobs_of(claimed, self._settings)
        continues = work.on_quota is OnQuota.CONTINUE and claimed.run.attempt > 1
        plain = work.session is SessionMode.FRESH and reads.isdisjoint(work.carry) and not jobs and not continues
        if plain and not self._store.read(partial(_is_answered, claimed=claimed)):
            return claimed
        recall = partial(remembered, claimed=claimed, work=work, worker_id=self._worker_id, jobs=jobs)
        brief = self._store.read(recall)
        over = _session_over(brief, work, now=self._clock.now())
        told: dict[str, Any] = {} if brief.session is None else {"session": brief.session.id}
        if over:
            told = {"session_over": over}
            brief = replace(brief, session=None)
        if brief.answers:
            told |= {questions_transactions.READ: [answer.number for answer in brief.answers]}
        if told:
            await self._store.submit(partial(runs.note_decisions, run_id=claimed.run.id, decisions=told))
        return claimed._replace(brief=brief)

    async def _continue(self, claimed: Claimed, reply: Reply) -> Claimed:
        """Return the run of a reply with its session and its text; it gets no item of a work source."""
        brief = self._store.read(partial(continued, claimed=claimed, reply=reply, worker_id=self._worker_id))
        if brief.session is not None:
            told = {"session": brief.session.id}
            await self._store.submit(partial(runs.note_decisions, run_id=claimed.run.id, decisions=told))
        return claimed._replace(brief=brief)


def _reply_of(db: Database, *, run_id: str) -> Reply | None:
    """Return the reply that started a run or its chain; a run that goes on with an answer has its answer instead."""
    run = runs.run_by_id(db, run_id)
    goes_on = run is not None and questions_transactions.origin(db, run) is not None
    return None if goes_on else chats.reply_of(db, run_id)


def _may_reply(claimed: Claimed) -> bool:
    may = claimed.run.trigger in (Trigger.REPLY, Trigger.FORK, Trigger.RETRY)
    return may and claimed.spec.work.agent is not None


def continued(db: Database, *, claimed: Claimed, reply: Reply, worker_id: str) -> Brief:
    """Return the brief of a reply or fork: the session of the answer, or the answer itself if its session is elsewhere.

    A fork also works in the folder of the session, where that is the workspace of the earlier run.
    """
    work, run = claimed.spec.work.agent, runs.run_by_id(db, reply.replied_id)
    assert work is not None, "only agents get replies"
    if work.on_quota is OnQuota.CONTINUE and claimed.run.attempt > 1:
        brief = _continued(db, claimed, claimed.brief, worker_id=worker_id)
        if brief.continues is not None:
            return brief
    folder = None if run is None else _folder_of(db, reply, run)
    gone = folder is not None and not os.path.lexists(folder["path"])
    if reply.session and run is not None and run.worker_id == worker_id and not gone:
        newest = work_items.session_of(db, claimed.run.job_id, adapter=work.adapter, worker_id=worker_id)
        own = newest is not None and newest.id == reply.session
        if newest is None or not own:
            newest = chats.session_spent(db, claimed.run.job_id, reply.session, adapter=work.adapter)
        apart = _is_fork(db, reply) and not (own and not adapter(work.adapter, work.options).capabilities.fork)
        return replace(claimed.brief, session=newest, reply=reply.text, continues=folder, apart=apart)
    answer = None if run is None else run_queries.result_of(db, run)
    return replace(claimed.brief, reply=reply_text(reply.text, answer))


def _is_fork(db: Database, reply: Reply) -> bool:
    first = runs.run_by_id(db, reply.run_id)
    return first is not None and first.trigger is Trigger.FORK


def _folder_of(db: Database, reply: Reply, run: Run) -> Mapping[str, Any] | None:
    """Return the workspace of the run that a fork goes on from; None: the folder of the job, or no fork."""
    return workspace_of(run) if _is_fork(db, reply) else None


def result_jobs_of(claimed: Claimed, settings: Settings) -> tuple[str, ...]:
    """Return the jobs whose results the prompt of a run has; raise SpawnFailed for a prompt file that is missing."""
    work = claimed.spec.work
    if work.agent is None or not (work.agent.prompt_file or has_placeholders(work.agent.prompt)):
        return ()
    project = Path(work.project) if work.project else settings.folder
    return named_results(work.agent, run_facts(claimed), project)


def remembered(db: Database, *, claimed: Claimed, work: AgentWork, worker_id: str, jobs: Sequence[str] = ()) -> Brief:
    """Return a brief with the session to resume, the last summary and the results of other jobs, as the job asks."""
    brief, job_id = _answered(db, claimed, work=work, worker_id=worker_id), claimed.run.job_id
    limited = work.on_quota is OnQuota.CONTINUE and claimed.run.attempt > 1
    if brief.answered:
        return _continued(db, claimed, brief, worker_id=worker_id) if limited else brief
    if work.session is SessionMode.RESUME:
        session = work_items.session_of(db, job_id, adapter=work.adapter, worker_id=worker_id)
        brief = replace(brief, session=session)
        if session is None and work.session_of:
            brief = _inherited(db, brief, work, worker_id=worker_id)
    if Carry.LAST_SUMMARY in work.carry:
        last = work_items.last_completed(db, job_id)
        brief = replace(brief, last_summary=last.summary if last else None)
    if Carry.POSTCONDITION in work.carry:
        brief = replace(brief, postcondition=_rejection_before(db, claimed.run.id))
    if limited:
        brief = _continued(db, claimed, brief, worker_id=worker_id)
    return replace(brief, results=_results(db, claimed, jobs)) if jobs else brief


def _session_over(brief: Brief, work: AgentWork, *, now: datetime) -> str:
    """Return why the session of a brief is not resumed; one that a run waits to continue always is."""
    if brief.session is None or brief.answered or brief.continues is not None:
        return ""
    return session_over(brief.session, max_age=work.session_max_age, max_turns=work.session_max_turns, now=now)


def _inherited(db: Database, brief: Brief, work: AgentWork, *, worker_id: str) -> Brief:
    """Return a brief with the session of the run that created the job, once it has ended here: a copy if possible."""
    run = runs.run_by_handle(db, work.session_of)
    if run is None or not run.status.final or not run.session_id or run.worker_id != worker_id:
        return brief
    session = chats.session_spent(db, run.job_id, run.session_id, adapter=work.adapter)
    return replace(brief, session=session, apart=adapter(work.adapter, work.options).capabilities.fork)


def _continued(db: Database, claimed: Claimed, brief: Brief, *, worker_id: str) -> Brief:
    """Return the brief of a continuation after a rate limit; the session of another machine is not here."""
    run = runs.run_by_id(db, claimed.run.id)
    note = {} if run is None else run.decisions.get("retry", {})
    refused = None if run is None or run.retry_of is None else runs.run_by_id(db, run.retry_of)
    if note.get("session") is None or refused is None or refused.worker_id != worker_id:
        return brief
    return replace(brief, session=AgentSession(**note["session"]), continues=note.get("continues") or {})


def _is_answered(db: Database, *, claimed: Claimed) -> bool:
    """Return whether a run goes on with an answer, or answers to earlier runs wait for it."""
    return claimed.run.trigger in (Trigger.ANSWER, Trigger.RETRY) or bool(questions.unread(db, claimed.run.job_id))


def _answered(db: Database, claimed: Claimed, *, work: AgentWork, worker_id: str) -> Brief:
    """Return a brief with the answers of people: in the session that asked, or beside the task."""
    run = runs.run_by_id(db, claimed.run.id)
    continued = None if run is None else questions_transactions.origin(db, run)
    if run is None or continued is None:
        question_list = questions.unread(db, claimed.run.job_id)
        return replace(claimed.brief, answers=tuple(map(_person_answer, question_list)))
    answers = tuple(map(_person_answer, questions.for_run(db, continued.id)))
    brief = replace(claimed.brief, answers=answers)
    session = AgentSession(**continued.decisions[questions_transactions.CONTINUES]["session"])
    asking = None if continued.retry_of is None else runs.run_by_id(db, continued.retry_of)
    here = asking is not None and asking.worker_id == worker_id and session.adapter == work.adapter
    failed = None if run.retry_of is None or run.id == continued.id else runs.run_by_id(db, run.retry_of)
    if not here or (failed is not None and failed.reason is Reason.AGENT_ERROR):
        return brief  # the session is elsewhere or may be lost: a new one gets the task and the answers
    return replace(brief, session=session, answered=True)


def _person_answer(question: Question) -> PersonAnswer:
    return PersonAnswer(question.number, question.text, question.answer)


def _results(db: Database, claimed: Claimed, jobs: Sequence[str]) -> dict[str, str]:
    """Return the answers of jobs, those of the same project and group first; empty texts for jobs without one."""
    run = runs.run_by_id(db, claimed.run.id)
    project, slash, _ = claimed.run.job.rpartition("/")
    answers = {}
    for job in jobs:
        found = run_queries.result_of_job(db, f"{project}{slash}{job}", group_id=run.group_id if run else None)
        answers[job] = found or ""
    return answers


def _rejection_before(db: Database, run_id: str) -> str | None:
    run = runs.run_by_id(db, run_id)
    failed = None if run is None or run.retry_of is None else runs.run_by_id(db, run.retry_of)
    return None if failed is None else rejection(failed)


def rejection(failed: Run) -> str | None:
    """Return the error and the output of the postcondition that failed a run, None if none did."""
    if failed.reason is not Reason.POSTCONDITION_FAILED:
        return None
    output = failed.decisions.get(POSTCONDITION, {}).get("output")
    return "\n".join(part for part in (failed.error, output) if part)
