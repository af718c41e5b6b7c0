"""How an agent's run ended: what its process did, and what the agent said about it."""

from dataclasses import replace

from rota.model.agents import AgentResult, Session
from rota.model.budget import MILLION, Usage
from rota.model.records import ERROR_LIMIT, SUMMARY_LIMIT, Outcome, cut
from rota.model.states import Reason, Status
from rota.rules.session import is_lost, own_figures, session_after

DECIDED = (Reason.TIMED_OUT, Reason.SHUTDOWN, Reason.UNKILLABLE, Reason.SPAWN_FAILED, Reason.PROCESS_RESTARTED)
"""Ends that the agent's own words do not change: it did not come to its end."""


def agent_outcome(
    ended: Outcome, result: AgentResult, *, resumed: Session | None = None, resumes: bool = False
) -> Outcome:
    """Return the outcome of an agent's run; `resumed` is the session that it went on with, as it was then.

    `resumes`: the next run of the job goes on with the session of this one.

    >>> agent_outcome(Outcome(Status.COMPLETED), AgentResult(summary="two issues found", tokens_in=9)).summary
    'two issues found'
    """
    told = replace(
        ended,
        usage=_usage(ended, own_figures(result, resumed)),
        session_id=result.session_id,
        session=session_after(result, resumed) if resumes else None,
        denied_tools=result.denied_tools,
        resets_at=result.resets_at,
    )
    if ended.reason in DECIDED:
        return told
    if resumed is not None and is_lost(result, resumed):
        return _without_session(told, result, resumed)
    if result.problem is not None:
        error = cut(result.error or "the agent gave no reason", ERROR_LIMIT)
        return replace(told, status=Status.FAILED, reason=Reason(result.problem.value), error=error, summary=None)
    if ended.status is not Status.COMPLETED:
        return told
    return replace(told, summary=_summary(ended.summary or result.summary.strip(), result.denied_tools))


def _without_session(told: Outcome, result: AgentResult, resumed: Session) -> Outcome:
    """Return the failure of a run whose session its program no longer knows, and the session that is given up."""
    words = f"the session {resumed.id!r} could not be gone on with, the next run begins a new one: {result.error}"
    return replace(
        told,
        status=Status.FAILED,
        reason=Reason.AGENT_ERROR,
        error=cut(words, ERROR_LIMIT),
        summary=None,
        session_lost=resumed.id,
    )


def _summary(text: str, denied: tuple[str, ...]) -> str | None:
    """Return the summary with the tools that were refused: a run that looks green may have done nothing."""
    tools = "tool" if len(denied) == 1 else "tools"
    refused = f"{len(denied)} {tools} denied: {', '.join(dict.fromkeys(denied))}" if denied else ""
    room = SUMMARY_LIMIT - len(refused) - 3
    return " · ".join(part for part in (cut(text, max(room, 100)), refused) if part) or None


def _usage(ended: Outcome, result: AgentResult) -> Usage | None:
    """Return what the run used: what its result file says, else what the agent said; unknown stays unknown."""
    if ended.usage is not None:
        return ended.usage
    found = Usage(
        tokens_in=result.tokens_in,
        tokens_cached=result.tokens_cached,
        tokens_out=result.tokens_out,
        usd=None if result.usd is None else round(result.usd * MILLION),
        model=result.model,
    )
    return None if found == Usage() else found
