"""What a Python function that is an agent returned, checked before anything is stored of it."""

import math
from dataclasses import replace
from datetime import datetime
from typing import Any

from rota.model.agents import AgentProblem, AgentResult
from rota.model.errors import InvalidValue
from rota.runners.result import storable

TEXTS = ("model", "session_id", "error")
COUNTS = ("tokens_in", "tokens_cached", "tokens_out", "turns")
HINT = "return rota.AgentResult(summary=…)"


def judge_result(value: Any) -> AgentResult:
    """Return a result that can be stored; raise InvalidValue for what is none."""
    if not isinstance(value, AgentResult):
        raise InvalidValue(f"the agent returned {type(value).__name__}, not rota.AgentResult", hint=HINT)
    if not isinstance(value.summary, str):
        raise _wrong("summary", value.summary, "a text")
    for name in TEXTS:
        if not isinstance(getattr(value, name), str | None):
            raise _wrong(name, getattr(value, name), "a text")
    for name in COUNTS:
        _judge_number(name, getattr(value, name), whole=True)
    _judge_number("usd", value.usd, whole=False)
    return replace(
        value,
        summary=storable(value.summary),
        error=None if value.error is None else storable(value.error),
        denied_tools=_names(value.denied_tools),
        problem=_problem(value.problem),
        resets_at=_instant(value.resets_at),
    )


def _judge_number(name: str, number: Any, *, whole: bool) -> None:
    if number is None:
        return
    fits = isinstance(number, int) if whole else isinstance(number, int | float) and math.isfinite(number)
    if isinstance(number, bool) or not fits or number < 0:
        raise _wrong(name, number, "a whole number from 0 on" if whole else "a number from 0 on")


def _names(denied: Any) -> tuple[str, ...]:
    names = (denied,) if isinstance(denied, str) else denied
    if not isinstance(names, tuple | list | set | frozenset) or not all(isinstance(name, str) for name in names):
        raise _wrong("denied_tools", denied, "names of tools")
    return tuple(storable(name) for name in names)


def _problem(problem: Any) -> AgentProblem | None:
    if problem is None:
        return None
    try:
        return AgentProblem(problem)
    except ValueError:
        raise _wrong("problem", problem, f"one of {', '.join(AgentProblem)}") from None


def _instant(at: Any) -> datetime | None:
    if not isinstance(at, datetime | None):
        raise _wrong("resets_at", at, "a datetime")
    return at.astimezone() if at is not None and at.tzinfo is None else at


def _wrong(name: str, value: Any, wanted: str) -> InvalidValue:
    return InvalidValue(f"{name} of the agent's result is {value!r:.100}, not {wanted}", hint=HINT)
