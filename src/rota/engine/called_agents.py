"""Agents inside the scheduler's process: a claimed run becomes a task, what the call returned an outcome."""

from dataclasses import replace
from typing import Any

from rota.engine.agents import agent_task
from rota.engine.claim import Claimed
from rota.engine.processes import run_facts, surroundings_of
from rota.model.agents import AgentResult, AgentTask
from rota.model.errors import InvalidValue, SpawnFailed
from rota.model.records import ERROR_LIMIT, Outcome, cut
from rota.model.spec import SessionMode
from rota.model.states import Reason, Status
from rota.rules.agent_outcome import agent_outcome
from rota.runners.agent_results import judge_result
from rota.runners.context import JobContext
from rota.runners.output import folder_of
from rota.settings import Settings


def called_task(claimed: Claimed, context: JobContext, *, settings: Settings) -> AgentTask:
    """Return the task of a run, with a folder of its own to write into; raise SpawnFailed where there is none."""
    folder = folder_of(settings.state, claimed.run.id)
    around = surroundings_of(claimed.spec.work, settings, folder=folder, environ={})
    task = agent_task(claimed, run_facts(claimed), around)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SpawnFailed(f"{folder} cannot be made: {error.strerror}", hint="look at the state folder") from error
    return replace(task, cancelled=lambda: context.cancelled)


def read_result(context: JobContext, value: Any, *, claimed: Claimed) -> Outcome:
    """Return the outcome of an agent that returned; its whole answer goes into the run's output."""
    work = claimed.spec.work.agent
    assert work is not None, "only agents come here"
    try:
        result = judge_result(value)
    except InvalidValue as error:
        return Outcome(Status.FAILED, Reason.RESULT_INVALID, error=cut(str(error), ERROR_LIMIT))
    _keep_answer(context, result)
    ended = Outcome(Status.COMPLETED, output_bytes=context.log.total)
    outcome = agent_outcome(ended, result, resumed=claimed.brief.session, resumes=work.session is SessionMode.RESUME)
    if outcome.session is not None:
        outcome = replace(outcome, session=replace(outcome.session, adapter=work.adapter))
    return replace(outcome, provider=work.provider)


def _keep_answer(context: JobContext, result: AgentResult) -> None:
    for text in (result.summary, result.error or ""):
        if text.strip():
            context.log.write(text.rstrip("\n") + "\n")
