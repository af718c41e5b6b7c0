"""How an agent's run ended: what its process did, and what the agent said about it."""

from dataclasses import replace

from rota.model.agents import AgentResult
from rota.model.budget import MILLION, Usage
from rota.model.records import ERROR_LIMIT, SUMMARY_LIMIT, Outcome, cut
from rota.model.states import Reason, Status

DECIDED = (Reason.TIMED_OUT, Reason.SHUTDOWN, Reason.UNKILLABLE, Reason.SPAWN_FAILED, Reason.PROCESS_RESTARTED)
"""Ends that the agent's own words do not change: it did not come to its end."""


def agent_outcome(ended: Outcome, result: AgentResult, *, spent_before: float = 0.0) -> Outcome:
    """Return the outcome of an agent's run; `spent_before` is what its session had cost already.

    >>> agent_outcome(Outcome(Status.COMPLETED), AgentResult(summary="two issues found", tokens_in=9)).summary
    'two issues found'
    """
    told = replace(
        ended,
        usage=_usage(ended, result, spent_before),
        session_id=result.session_id,
        denied_tools=result.denied_tools,
    )
    if ended.reason in DECIDED:
        return told
    if result.problem is not None:
        error = cut(result.error or "the agent gave no reason", ERROR_LIMIT)
        return replace(told, status=Status.FAILED, reason=Reason(result.problem.value), error=error, summary=None)
    if ended.status is not Status.COMPLETED:
        return told
    return replace(told, summary=_summary(ended.summary or result.summary.strip(), result.denied_tools))


def _summary(text: str, denied: tuple[str, ...]) -> str | None:
    """Return the summary with the tools that were refused: a run that looks green may have done nothing."""
    tools = "tool" if len(denied) == 1 else "tools"
    refused = f"{len(denied)} {tools} denied: {', '.join(dict.fromkeys(denied))}" if denied else ""
    room = SUMMARY_LIMIT - len(refused) - 3
    return " · ".join(part for part in (cut(text, max(room, 100)), refused) if part) or None


def _usage(ended: Outcome, result: AgentResult, spent_before: float) -> Usage | None:
    """Return what the run used: what its result file says, else what the agent said; unknown stays unknown."""
    if ended.usage is not None:
        return ended.usage
    usd = result.usd
    if usd is not None and result.usd_is_total:
        usd = max(usd - spent_before, 0.0)
    found = Usage(
        tokens_in=result.tokens_in,
        tokens_out=result.tokens_out,
        usd=None if usd is None else round(usd * MILLION),
        model=result.model,
    )
    return None if found == Usage() else found
