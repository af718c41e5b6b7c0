"""Admission: whether a run may start now, must wait or is skipped, and how overlap is judged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rota.model.spec import Draw, Gates, Overlap, OverlapPolicy, WhenFalse
from rota.model.states import Held, Reason, Status, Trigger, WaitingFor
from rota.rules.queue_order import Room


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
class Admit:
    """Nothing stands in the way."""


@dataclass(frozen=True, slots=True)
class Defer:
    """Look again at `until`; the run keeps its row and gives its slot back."""

    until: datetime
    waiting_for: WaitingFor


@dataclass(frozen=True, slots=True)
class Skip:
    """The run ends here."""

    reason: Reason
    why: str


Admission = Admit | Defer | Skip
GO = Admit()


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
        if result.answer == "error":
            return Skip(Reason.CONDITION_ERROR, f"condition {result.title} failed: {result.detail}")
    for result in conditions:
        if result.answer == "false":
            return _refused(gates, result, now)
    return GO


def _refused(gates: Gates, result: ConditionResult, now: datetime) -> Admission:
    if gates.when_false is WhenFalse.WAIT:
        return Defer(now + gates.recheck, WaitingFor.CONDITION)
    return Skip(Reason.CONDITION, f"condition {result.title} is false")


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps a run; `pool`: the one it lacks room in, or that is held. None at all: it is the next to start."""

    held: Held | None = None
    pool: str | None = None


def holds(
    draws: Sequence[Sequence[Draw]],
    room: Room,
    *,
    paused: bool,
    served: Callable[[Sequence[Draw]], bool],
    free: int,
    first: Sequence[Sequence[Draw]] = (),
) -> list[Hold]:
    """Return what keeps each of the runs at the head of the queue, given what they draw, in their order.

    `served`: whether a worker is there who may take a run that draws so. `first` is what those draw who are served
    before the whole queue (R-13). As in a claim, who lacks room in a pool keeps that pool from all behind (R-03).
    """
    if paused:
        return [Hold(Held.PAUSED)] * len(draws)
    found: list[Hold] = []
    for wanted in (*first, *draws):
        hold = _hold(wanted, room, free=free) if served(wanted) else Hold(Held.NO_WORKER)
        free -= hold.held is None
        found.append(hold)
    return found[len(first) :]


def _hold(wanted: Sequence[Draw], room: Room, *, free: int) -> Hold:
    closed = room.closes(wanted)
    if closed is not None:
        return Hold(Held.PROVIDER_HOLD, closed)
    lacking = room.lacks(wanted)
    if lacking is not None:
        room.hold(wanted)
        return Hold(Held.POOL, lacking)
    if free <= 0:
        return Hold(Held.SLOT)
    room.take(wanted)
    return Hold()


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """An unfinished run of the job."""

    id: str
    handle: str
    status: Status
    waiting_for: WaitingFor | None = None


@dataclass(frozen=True, slots=True)
class PendingRetry:
    """A retry of the job that waits for its backoff and belongs to no group."""

    id: str
    handle: str
    params: Mapping[str, Any]
    chain_id: str | None = None


@dataclass(frozen=True, slots=True)
class Allow:
    """The run may start as soon as there is room."""


@dataclass(frozen=True, slots=True)
class After:
    """The run waits for this one to be final, as `predecessor`."""

    predecessor_id: str


@dataclass(frozen=True, slots=True)
class Replace:
    """The run waits, as `replaced_run`, until these are cancelled and dead (R-12)."""

    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """No run: `blocking` is in the way, and why it is not finished gives the reason."""

    blocking: ActiveRun
    reason: Reason = Reason.OVERLAP


@dataclass(frozen=True, slots=True)
class TooMany:
    """No run of the set: only `room` of them would fit."""

    room: int


_WAITS = {WaitingFor.CONDITION: Reason.CONDITION, WaitingFor.BUDGET: Reason.BUDGET}
"""What the instants behind a waiting run are refused for, where that is not overlap (R-11)."""

Verdict = Allow | After | Replace | Refuse
_GO = Allow()
_WORDS: dict[type, str] = {Allow: "go", After: "after", Replace: "replace", Refuse: "refuse", TooMany: "toomany"}
"""The word of each verdict in the stored decisions; it outlives the names of the classes."""


def verdict_word(verdict: Verdict | TooMany) -> str:
    """Return the stored word of a verdict."""
    return _WORDS[type(verdict)]


def judge(overlap: Overlap, active: Sequence[ActiveRun]) -> Verdict:
    """Return what becomes of a new run while `active`, oldest first, are not finished.

    >>> judge(Overlap(OverlapPolicy.FORBID), [])
    Allow()
    >>> judge(Overlap(OverlapPolicy.QUEUE), [ActiveRun("id-7", "backup:7", Status.RUNNING)])
    After(predecessor_id='id-7')
    """
    if not active or overlap.policy is OverlapPolicy.ALLOW:
        return _GO
    if overlap.policy is OverlapPolicy.REPLACE:
        return Replace(tuple(run.id for run in active))
    if overlap.policy is OverlapPolicy.QUEUE and len(active) <= overlap.queue_depth:
        return After(active[-1].id)
    return _refuse(active[0])


def judge_many(overlap: Overlap, active: Sequence[ActiveRun], *, count: int) -> Verdict | TooMany:
    """Return what becomes of `count` runs made at once: the first as it is told, each other behind the one before it.

    Only where any number may run is none behind another.

    >>> judge_many(Overlap(OverlapPolicy.QUEUE, queue_depth=1), [], count=3)
    TooMany(room=2)
    """
    if overlap.policy is OverlapPolicy.ALLOW or count == 1:
        return judge(overlap, active)
    depth = overlap.queue_depth if overlap.policy is OverlapPolicy.QUEUE else 0
    room = max(1 + depth - len(active), 0)
    return judge(overlap, active) if count <= room else TooMany(room)


def replaced_retries(
    overlap: Overlap,
    pending: Sequence[PendingRetry],
    *,
    params: Sequence[Mapping[str, Any]],
    chain_id: str | None = None,
) -> tuple[PendingRetry, ...]:
    """Return the retries in backoff whose place a manual start with these params takes (R-31).

    `queue` and `allow` let runs with other params exist side by side: there only a retry with the same params is
    replaced, since the others are other work. `chain_id`: the chain that `rota retry` repeats.

    >>> pending = [PendingRetry("id-7", "mail:7", {"to": "ann"})]
    >>> [one.handle for one in replaced_retries(Overlap(OverlapPolicy.FORBID), pending, params=[{"to": "bob"}])]
    ['mail:7']
    >>> replaced_retries(Overlap(OverlapPolicy.ALLOW), pending, params=[{"to": "bob"}])
    ()
    """
    if overlap.policy in (OverlapPolicy.FORBID, OverlapPolicy.REPLACE):
        return tuple(pending)
    same = chain_id is not None
    return tuple(one for one in pending if one.params in params or (same and one.chain_id == chain_id))


def waits_for_all(overlap: Overlap, trigger: Trigger) -> bool:
    """Tell whether a run in line waits for every unfinished run of its job that came before, not for the last alone.

    The last may be one that overlap did not stop: a start that was forced, a member of a group. What overlap does not
    judge, a backfill or a job of which any number may run, waits for nobody but its predecessor.
    """
    return trigger is not Trigger.BACKFILL and overlap.policy is not OverlapPolicy.ALLOW


def _refuse(blocking: ActiveRun) -> Refuse:
    if blocking.waiting_for is None:
        return Refuse(blocking)
    return Refuse(blocking, _WAITS.get(blocking.waiting_for, Reason.OVERLAP))
