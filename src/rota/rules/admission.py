"""Admission: whether a run may start now, must wait or is skipped, and how overlap is judged."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from rota.model.spec import Draw, Gates, Overlap, OverlapPolicy, WhenFalse
from rota.model.states import Held, Reason, Status, Trigger, WaitingFor
from rota.rules.queue_order import Room


class ConditionResult(Struct, frozen=True):
    """The answer of a condition and its evidence; `output` is for prompts."""

    title: str
    answer: Literal["pass", "false", "error"]
    detail: str = ""
    took_ms: int = 0
    output: str = ""


class Admit(Struct, frozen=True):
    """The run may start."""


class Defer(Struct, frozen=True):
    """The run waits until `until`; it keeps its row and returns its slot."""

    until: datetime
    waiting_for: WaitingFor


class Skip(Struct, frozen=True):
    """The run ends here."""

    reason: Reason
    why: str


Admission = Admit | Defer | Skip
GO = Admit()


def decide(
    gates: Gates, *, expires_at: datetime | None, forced: bool, conditions: Sequence[ConditionResult], now: datetime
) -> Admission:
    """Return whether a run may start, given the answers of its conditions.

    Without `conditions`, only the age of the run counts.
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
            if gates.when_false is WhenFalse.WAIT:
                return Defer(now + gates.recheck, WaitingFor.CONDITION)
            return Skip(Reason.CONDITION, f"condition {result.title} is false")
    return GO


class Hold(Struct, frozen=True):
    """Why a run waits; `pool`: the full or closed one. `held` None: it starts next."""

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
    """Return why each run at the head of the queue waits, given their pools in order.

    `served`: whether a live worker accepts a run with these pools. `first`: the pools of direct calls, which go before
    the queue. As in a claim, a run without room keeps its pool from all later runs.
    """
    if paused:
        return [Hold(Held.PAUSED)] * len(draws)
    reasons: list[Hold] = []
    for wanted in (*first, *draws):
        hold = _hold(wanted, room, free=free) if served(wanted) else Hold(Held.NO_WORKER)
        free -= hold.held is None
        reasons.append(hold)
    return reasons[len(first) :]


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


class ActiveRun(Struct, frozen=True):
    """An unfinished run of the job."""

    id: str
    handle: str
    status: Status
    waiting_for: WaitingFor | None = None


class PendingRetry(Struct, frozen=True):
    """A retry of the job in backoff, outside of groups."""

    id: str
    handle: str
    params: Mapping[str, Any]
    chain_id: str | None = None


class Allow(Struct, frozen=True):
    """The run may start when there is room."""


class After(Struct, frozen=True):
    """The run waits as `predecessor` until this one is final."""

    predecessor_id: str


class Replace(Struct, frozen=True):
    """The run waits as `replaced_run` until these are cancelled and dead."""

    run_ids: tuple[str, ...]


class Refuse(Struct, frozen=True):
    """No run: `blocking` is unfinished, and its wait determines the reason."""

    blocking: ActiveRun
    reason: Reason = Reason.OVERLAP


class TooMany(Struct, frozen=True):
    """No run of the set: there is room for `room` only."""

    room: int


_WAITS: Mapping[WaitingFor | None, Reason] = {WaitingFor.CONDITION: Reason.CONDITION, WaitingFor.BUDGET: Reason.BUDGET}
"""The reason of refused instants by the wait of the blocking run; the default is overlap."""

Verdict = Allow | After | Replace | Refuse
_GO = Allow()
_WORDS: dict[type, str] = {Allow: "go", After: "after", Replace: "replace", Refuse: "refuse", TooMany: "toomany"}
"""The word of each verdict in stored decisions."""


def verdict_word(verdict: Verdict | TooMany) -> str:
    """Return the stored word of a verdict."""
    return _WORDS[type(verdict)]


def judge(overlap: Overlap, active: Sequence[ActiveRun]) -> Verdict:
    """Return the overlap verdict on a new run while `active`, oldest first, are unfinished.

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
    return Refuse(active[0], _WAITS.get(active[0].waiting_for, Reason.OVERLAP))


def judge_many(overlap: Overlap, active: Sequence[ActiveRun], *, count: int) -> Verdict | TooMany:
    """Return the overlap verdict on `count` runs at once: it applies to the first, each other follows the previous one.

    With `allow`, no run follows another.

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
    """Return the retries in backoff that a manual start with these params replaces.

    Under `queue` and `allow`, runs with other params are other work: only a retry with the same params is replaced.
    `chain_id`: the chain that `rota retry` repeats.

    >>> pending = [PendingRetry("id-7", "mail:7", {"to": "ann"})]
    >>> [one.handle for one in replaced_retries(Overlap(OverlapPolicy.FORBID), pending, params=[{"to": "bob"}])]
    ['mail:7']
    >>> replaced_retries(Overlap(OverlapPolicy.ALLOW), pending, params=[{"to": "bob"}])
    ()
    """
    if overlap.policy in (OverlapPolicy.FORBID, OverlapPolicy.REPLACE):
        return tuple(pending)
    same = chain_id is not None
    return tuple(retry for retry in pending if retry.params in params or (same and retry.chain_id == chain_id))


def waits_for_all(overlap: Overlap, trigger: Trigger) -> bool:
    """Return whether a run waits for every earlier unfinished run of its job, not for its predecessor alone.

    The predecessor may be a run that overlap did not judge, such as a forced start or a member of a group. A backfill,
    or a job with `allow`, waits for its predecessor alone.
    """
    return trigger is not Trigger.BACKFILL and overlap.policy is not OverlapPolicy.ALLOW
