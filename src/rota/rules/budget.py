"""Budgets (R-19): what a run is expected to cost, whether that fits, and what it did cost. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rota.model.budget import MILLION, Account, Exceeded, Price, Unit, Usage, Window
from rota.model.spec import Spend
from rota.model.states import Reason, WaitingFor
from rota.rules.admission import Admission, Go, Skip, Wait
from rota.rules.budget_words import say_amount, say_used

RECENT = 10
"""How many settled runs of a job its estimate looks back at."""


class Origin(StrEnum):
    """Where an estimate comes from."""

    JOB = "the job"
    HISTORY = "its last runs"
    AGENT = "the agent's limit"
    ACCOUNT = "the account"
    UNIT = "one a run"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run is expected to cost, in the account's unit, and who says so."""

    amount: int
    origin: Origin


def estimate_of(spend: Spend, account: Account, *, largest: int | None) -> Estimate:
    """Return what a run is expected to cost; `largest`: the dearest of the job's last ten settled runs.

    What the agent may spend on one run at most counts for money. A run always counts as one run.
    """
    if account.unit is Unit.RUNS:
        return Estimate(1, Origin.UNIT)
    if spend.estimate is not None and spend.unit in (None, account.unit):
        return Estimate(spend.estimate, Origin.JOB)
    if largest is not None:
        return Estimate(max(largest, 1), Origin.HISTORY)  # an account that is used up lets nobody in for nothing
    if account.unit is Unit.USD and spend.most is not None:
        return Estimate(spend.most, Origin.AGENT)
    if account.estimate is not None:
        return Estimate(account.estimate, Origin.ACCOUNT)
    return Estimate(1, Origin.UNIT)


@dataclass(frozen=True, slots=True)
class Charge:
    """An account as a run meets it: the window of now, what is used of it, and what the run would reserve."""

    account: Account
    window: Window
    settled: int
    reserved: int
    estimate: Estimate

    @property
    def used(self) -> int:
        """What is spent, and what runs under way are expected to spend."""
        return self.settled + self.reserved

    @property
    def fits(self) -> bool:
        """Whether the run fits into what is left."""
        return self.used + self.estimate.amount <= self.account.limit

    @property
    def never_fits(self) -> bool:
        """Whether the run would not fit into an empty window either."""
        return self.estimate.amount > self.account.limit

    @property
    def answer(self) -> str:
        """What the account says: pass, warn, wait or skip."""
        if self.fits:
            return "pass"
        if self.account.policy is Exceeded.WARN:
            return "warn"
        return "skip" if self.never_fits or self.account.policy is Exceeded.SKIP else "wait"


def judge(charges: Sequence[Charge]) -> Admission:
    """Return whether a run may start, waits for the next window, or is skipped: each of its accounts must have room."""
    for charge in charges:
        if charge.answer == "skip":
            return Skip(Reason.BUDGET, lacks(charge))
    waits = [charge.window.until for charge in charges if charge.answer == "wait"]
    return Wait(max(waits), WaitingFor.BUDGET) if waits else Go()


def lacks(charge: Charge) -> str:
    """Return why a run does not fit."""
    return f"{charge.account.name} {no_room(charge)}"


def no_room(charge: Charge) -> str:
    """Return what an account lacks for a run, without its name."""
    account, wanted = charge.account, charge.estimate
    amount = say_amount(wanted.amount, account.unit)
    if charge.never_fits:
        limit = say_amount(account.limit, account.unit)
        needed = f"it would need {amount} (by {wanted.origin}), more than its whole limit of {limit}"
        return f"can never have room: {needed}; set `estimate`, or raise the limit"
    used = say_used(charge.used, account.limit, account.unit)
    return f"has no room for {amount} more: {used} used or reserved"


def cost_of(usage: Usage, prices: Mapping[str, Price]) -> int | None:
    """Return what a run cost: as reported, else by the price of its model, rounded up; None: nobody knows."""
    if usage.usd is not None:
        return usage.usd
    price = prices.get(usage.model or "")
    if price is None or usage.tokens is None:
        return None
    sent = usage.tokens_in or 0
    cached = min(usage.tokens_cached or 0, sent) if price.cached_input is not None else 0
    cost = (sent - cached) * price.input + cached * (price.cached_input or 0) + (usage.tokens_out or 0) * price.output
    return -(-cost // MILLION)


def used_of(unit: Unit, usage: Usage | None) -> int | None:
    """Return what a run used in an account's unit, without what was counted one by one; None: nobody knows."""
    if unit is Unit.RUNS:
        return 1
    if usage is None:
        return None
    if unit is Unit.REQUESTS:
        return None if usage.requests is None else max(usage.requests - usage.counted, 0)
    return usage.tokens if unit is Unit.TOKENS else usage.usd


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a run is charged in the end; `measured`: it said what it used, else its estimate stands for that."""

    amount: int
    measured: bool


def settle_at(unit: Unit, usage: Usage | None, *, estimate: int | None, reserved: int, spent: int) -> Settlement:
    """Return what a run is charged to a window: what it used, else what was reserved.

    Without an estimate it did not start in this window: only what it had spent counts.
    """
    if estimate is None:
        return Settlement(spent, measured=True)
    used = used_of(unit, usage)
    return Settlement(reserved, measured=False) if used is None else Settlement(spent + used, measured=True)
