"""The session of an agent: what a run of it is charged, what it has cost in all, and when it is lost."""

from dataclasses import replace

from rota.model.agents import AgentProblem, AgentResult, Session


def own_figures(result: AgentResult, before: Session | None) -> AgentResult:
    """Return a result whose figures are those of this run alone: of a total, what came to it since.

    >>> own_figures(AgentResult(usd=0.75, usd_is_total=True), Session("s", usd=0.5)).usd
    0.25
    """
    if before is None:
        return result
    if result.usd_is_total and result.usd is not None:
        result = replace(result, usd=_since(result.usd, before.usd))
    if result.tokens_are_total:
        result = replace(
            result,
            tokens_in=_count(result.tokens_in, before.tokens_in),
            tokens_cached=_count(result.tokens_cached, before.tokens_cached),
            tokens_out=_count(result.tokens_out, before.tokens_out),
        )
    return result


def _since(total: float, before: float) -> float:
    """Return what came to a total; one that is smaller than before was begun anew."""
    return total if total < before else total - before


def _count(total: int | None, before: int) -> int | None:
    return None if total is None else int(_since(total, before))


def session_after(result: AgentResult, before: Session | None) -> Session | None:
    """Return the session to go on with, and its totals; None where the agent told none that can be an argument.

    What a run used that did not come to tell it is in the next total, and so charged to the next run.
    """
    if not result.session_id or result.session_id.lstrip().startswith("-"):
        return None
    earlier = before or Session("")
    own, are_total = own_figures(result, before), result.tokens_are_total
    return Session(
        id=result.session_id,
        usd=_total(result.usd, own.usd, earlier.usd, is_total=result.usd_is_total),
        tokens_in=int(_total(result.tokens_in, own.tokens_in, earlier.tokens_in, is_total=are_total)),
        tokens_cached=int(_total(result.tokens_cached, own.tokens_cached, earlier.tokens_cached, is_total=are_total)),
        tokens_out=int(_total(result.tokens_out, own.tokens_out, earlier.tokens_out, is_total=are_total)),
    )


def _total(told: float | None, own: float | None, before: float, *, is_total: bool) -> float:
    if told is None or own is None:
        return before
    return told if is_total else before + own


def is_lost(result: AgentResult, before: Session | None) -> bool:
    """Tell whether a session cannot be resumed again: the program did not find it, or it has become too long.

    Programs say the first in words of their own, but each names its session first when it goes on with one.
    """
    if before is None or result.problem is not AgentProblem.AGENT_ERROR:
        return False
    return result.session_full or not result.session_id
