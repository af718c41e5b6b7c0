"""May a run go on now? The one function that delays or skips a run that was born."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rota import faults
from rota.model.spec import Gates, WhenFalse
from rota.model.states import Reason, WaitingFor


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """What a condition answered, and the evidence for `explain`."""

    title: str
    answer: Literal["pass", "false", "error"]
    detail: str = ""
    took_ms: int = 0
    output: str = ""
    """What it wrote, for prompts."""


@dataclass(frozen=True, slots=True)
class Go:
    """Nothing stands in the way."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again at `until`; the run keeps its row and gives its slot back."""

    until: datetime
    waiting_for: WaitingFor


@dataclass(frozen=True, slots=True)
class Skip:
    """The run ends here."""

    reason: Reason
    why: str


Admission = Go | Wait | Skip
GO = Go()


def decide(
    gates: Gates,
    *,
    expires_at: datetime | None,
    forced: bool,
    conditions: Sequence[ConditionResult],
    now: datetime,
) -> Admission:
    """Return whether a run goes on, given what its conditions answered so far (R-09).

    `conditions` may be empty: then only the age of the run is judged.
    """
    if expires_at is not None and now >= expires_at:
        return Skip(Reason.EXPIRED, "it waited longer than `expires_after`")
    if forced:
        return GO
    for result in conditions:
        if result.answer == "error" and not faults.planted("condition_error_opens"):
            return Skip(Reason.CONDITION_ERROR, f"condition {result.title} failed: {result.detail}")
    for result in conditions:
        if result.answer == "false":
            return _refused(gates, result, now)
    return GO


def _refused(gates: Gates, result: ConditionResult, now: datetime) -> Admission:
    if gates.when_false is WhenFalse.WAIT:
        return Wait(now + gates.recheck, WaitingFor.CONDITION)
    return Skip(Reason.CONDITION, f"condition {result.title} is false")
