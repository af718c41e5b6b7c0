"""How a run that is no success is told: its class, its words, and when the provider takes work again."""

import re
from dataclasses import replace
from datetime import datetime

from rota.agents.refusals import is_too_long, problem_of, reset_told
from rota.model.agents import AgentProblem, AgentResult, Ended

LONGEST = 1000
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def failed(
    found: AgentResult, text: str, *, status: int | None = None, at: datetime | None = None, plain: bool = False
) -> AgentResult:
    """Return a result as a failure of the class that its words tell; `plain`: words of ours, which tell none."""
    problem = AgentProblem.AGENT_ERROR if plain else problem_of(text, status)
    resets_at = reset_told(text, at) if problem is AgentProblem.QUOTA else None
    return replace(
        found,
        problem=problem,
        error=ESCAPE.sub("", text)[:LONGEST],
        resets_at=resets_at,
        session_full=problem is AgentProblem.AGENT_ERROR and not plain and is_too_long(text),
    )


def did_nothing(found: AgentResult) -> AgentResult:
    """Return a result as a failure: no answer and no tool used is no success."""
    if found.denied_tools:
        text = f"it did nothing: {', '.join(found.denied_tools)} denied, and no answer came"
        return replace(found, problem=AgentProblem.DENIED, error=text)
    return replace(found, problem=AgentProblem.AGENT_ERROR, error="it did nothing: no answer came and no tool was used")


def end_of(name: str, ended: Ended) -> str:
    """Return the words for an end without a usable result: how it ended, and the last it said."""
    ending = f"ended with exit code {ended.exit_code}" if ended.exit_code else "ended without a result"
    how = f"{name} {'was stopped' if ended.stopped else ending}"
    said = last_words(ended.stderr)  # never its standard output: what a model wrote must not pass for a refusal
    return f"{how}: {said}" if said else how


def last_words(text: str) -> str:
    """Return the last lines of a text that say something, in one line."""
    lines = [line.strip() for line in ESCAPE.sub("", text[-4 * LONGEST :]).splitlines()]
    return "; ".join([line for line in lines if line][-3:])[-LONGEST // 2 :]
