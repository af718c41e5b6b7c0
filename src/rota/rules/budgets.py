"""Budgets: calendar windows, what fits, and the sentences about them."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct

from rota.model.amounts import counted, say_money
from rota.model.budgets import MILLION, Account, Exceeded, Per, Price, Unit, Usage, Window
from rota.model.clock import MILLISECOND
from rota.model.spec import Spend
from rota.model.states import Reason, WaitingFor
from rota.rules.admission import Admission, Admit, Defer, Skip
from rota.rules.schedule.timezone import end_of_gap, instants_of_wall, zone

_THIS = {
    Per.MINUTE: "this minute",
    Per.HOUR: "this hour",
    Per.DAY: "today",
    Per.WEEK: "this week",
    Per.MONTH: "this month",
}


def say_amount(amount: int, unit: Unit, *, noun: bool = True) -> str:
    """Return an amount of a unit.

    >>> say_amount(3_104_000, Unit.USD), say_amount(4_200, Unit.USD), say_amount(1, Unit.RUNS)
    ('$3.10', '$0.0042', '1 run')
    """
    if unit is Unit.USD:
        return say_money(amount)
    return counted(amount, unit.value.removesuffix("s"), unit.value) if noun else f"{amount:,}"


def say_used(used: int, limit: int, unit: Unit) -> str:
    """Return the used share of a limit.

    >>> say_used(41, 60, Unit.RUNS), say_used(3_100_000, 10_000_000, Unit.USD)
    ('41 of 60 runs', '$3.10 of $10.00')
    """
    return f"{say_amount(used, unit, noun=False)} of {say_amount(limit, unit)}"


def say_account(account: Account) -> str:
    """Return an account in words.

    >>> say_account(Account("week", Unit.RUNS, 60, Per.WEEK, "Europe/Madrid"))
    '60 runs per week (Europe/Madrid), defer'
    """
    limit, amount = say_amount(account.limit, account.unit), account.estimate
    estimate = "" if amount is None else f", estimate {say_amount(amount, account.unit, noun=False)}"
    return f"{limit} per {account.per} ({account.timezone}), {account.policy}{estimate}"


def say_spend(spend: Spend) -> str:
    """Return the account of a job in words.

    >>> say_spend(Spend("claude-day", 500_000, Unit.USD))
    'claude-day (usd, estimate $0.50)'
    """
    if spend.unit is None:
        return spend.account
    estimate = "" if spend.estimate is None else f", estimate {say_amount(spend.estimate, spend.unit, noun=False)}"
    return f"{spend.account} ({spend.unit}{estimate})"


def say_this(per: Per) -> str:
    """Return the current window in words: `today`, `this week`."""
    return _THIS[per]


def say_window(since: datetime, per: Per, tz: str) -> str:
    """Return a window by its start in the account's zone.

    >>> say_window(datetime.fromisoformat("2026-11-14T23:00:00Z"), Per.DAY, "Europe/Madrid")
    'Sun 15 Nov 2026'
    """
    local = since.astimezone(zone(tz))
    if per is Per.MONTH:
        return f"{local:%B %Y}"
    day = f"{local:%a} {local.day} {local:%b %Y}"
    if per is Per.WEEK:
        return f"week of {day}"
    return day if per is Per.DAY else f"{day} {local:%H:%M}"


def say_usage(usage: Mapping[str, Any]) -> str:
    """Return the usage of a run; an unknown figure is `?`, never 0.

    >>> say_usage({"tokens_in": 18204, "tokens_out": 2113, "usd_millionths": 410000})
    '$0.41 · 18,204 in / 2,113 out tokens'
    >>> say_usage({"tokens_in": 5, "model": "sonnet"})
    '$? · 5 in / ? out tokens · sonnet'
    """
    parts = []
    tokens = "tokens_in" in usage or "tokens_out" in usage
    if "usd_millionths" in usage:
        parts.append(say_money(usage["usd_millionths"]))
    elif tokens:
        parts.append("$?")
    if tokens:
        told_in, told_out = (f"{usage[key]:,}" if key in usage else "?" for key in ("tokens_in", "tokens_out"))
        parts.append(f"{told_in} in / {told_out} out tokens")
    if "requests" in usage:
        parts.append(say_amount(usage["requests"], Unit.REQUESTS))
    if "model" in usage:
        parts.append(str(usage["model"]))
    return " · ".join(parts)


def say_gate(told: Mapping[str, Any]) -> str:
    """Return the decisions of the accounts about a run, as recorded at its gate."""
    return "; ".join(_say_account_at_gate(one) for one in told.get("accounts", ())) or "its accounts no longer exist"


def say_estimated(told: Mapping[str, Any], usage: Mapping[str, Any]) -> str:
    """Return the accounts that charge a finished run its estimate, and why; empty if it reported its usage.

    >>> account = {"account": "day", "unit": "usd", "estimate": 2_000_000, "origin": "max_usd", "answer": "pass"}
    >>> say_estimated({"accounts": [account]}, {"tokens_in": 5, "model": "sonnet"})
    'day is charged $2.00, the estimate (by max_usd): `prices` has no entry for sonnet'
    >>> say_estimated({"accounts": [account]}, {"usd_millionths": 5})
    ''
    """
    charged = [one for one in told.get("accounts", ()) if one["answer"] in ("pass", "warn")]
    return "; ".join(_say_estimated(one, usage) for one in charged if _lacks(Unit(one["unit"]), usage))


def _lacks(unit: Unit, usage: Mapping[str, Any]) -> bool:
    """Return whether a usage has no figure in the unit of an account; a run is always one run."""
    keys = {Unit.USD: ("usd_millionths",), Unit.REQUESTS: ("requests",), Unit.TOKENS: ("tokens_in", "tokens_out")}
    return unit in keys and not any(key in usage for key in keys[unit])


def _say_estimated(one: Mapping[str, Any], usage: Mapping[str, Any]) -> str:
    unit = Unit(one["unit"])
    priced = unit is Unit.USD and "model" in usage and ("tokens_in" in usage or "tokens_out" in usage)
    why = f"`prices` has no entry for {usage['model']}" if priced else "the run reported no usage"
    return f"{one['account']} is charged {say_amount(one['estimate'], unit)}, the estimate (by {one['origin']}): {why}"


def _say_account_at_gate(one: Mapping[str, Any]) -> str:
    unit = Unit(one["unit"])
    used = say_used(one["settled"] + one["reserved"], one["limit"], unit)
    verb = "reserved" if one["answer"] in ("pass", "warn") else "needed"
    wanted = f"{say_amount(one['estimate'], unit)} (by {one['origin']})"
    return f"{one['account']}: {used}, {verb} {wanted} → {one['answer']}"


RECENT = 10
"""The number of settled runs that an estimate considers."""


class EstimateOrigin(StrEnum):
    """The origin of an estimate."""

    JOB = "the job"
    HISTORY = "its last runs"
    AGENT = "the agent's limit"
    ACCOUNT = "the account"
    UNIT = "one a run"


class Estimate(Struct, frozen=True):
    """The expected cost of a run in the account's unit, and its origin."""

    amount: int
    origin: EstimateOrigin


def estimate_of(spend: Spend, account: Account, *, largest: int | None) -> Estimate:
    """Return the expected cost of a run; `largest`: the most expensive of the job's last ten settled runs.

    For money, the agent's limit of one run counts. A run always counts as one run.
    """
    if account.unit is Unit.RUNS:
        return Estimate(1, EstimateOrigin.UNIT)
    if spend.estimate is not None and spend.unit in (None, account.unit):
        return Estimate(spend.estimate, EstimateOrigin.JOB)
    if largest is not None:
        return Estimate(max(largest, 1), EstimateOrigin.HISTORY)  # an exhausted account admits no run, even a free one
    if account.unit is Unit.USD and spend.most is not None:
        return Estimate(spend.most, EstimateOrigin.AGENT)
    if account.estimate is not None:
        return Estimate(account.estimate, EstimateOrigin.ACCOUNT)
    return Estimate(1, EstimateOrigin.UNIT)


class Charge(Struct, frozen=True):
    """The current window of an account, its usage, and the reservation that a run would make."""

    account: Account
    window: Window
    settled: int
    reserved: int
    estimate: Estimate

    @property
    def used(self) -> int:
        """The settled amount plus the reservations of running runs."""
        return self.settled + self.reserved

    @property
    def fits(self) -> bool:
        """Whether there is room for the run."""
        return self.used + self.estimate.amount <= self.account.limit

    @property
    def never_fits(self) -> bool:
        """Whether the run would not fit into an empty window either."""
        return self.estimate.amount > self.account.limit

    @property
    def answer(self) -> str:
        """The decision of the account: pass, warn, wait or skip."""
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
    return Defer(max(waits), WaitingFor.BUDGET) if waits else Admit()


def lacks(charge: Charge) -> str:
    """Return why a run does not fit."""
    return f"{charge.account.name} {no_room(charge)}"


def no_room(charge: Charge) -> str:
    """Return why a run does not fit, without the name of the account."""
    account, estimate = charge.account, charge.estimate
    amount = say_amount(estimate.amount, account.unit)
    if charge.never_fits:
        limit = say_amount(account.limit, account.unit)
        needed = f"it needs {amount} (by {estimate.origin}), more than its whole limit of {limit}"
        return f"never has room: {needed}; set `estimate`, or raise the limit"
    used = say_used(charge.used, account.limit, account.unit)
    return f"has no room for {amount} more: {used} used or reserved"


def cost_of(usage: Usage, prices: Mapping[str, Price]) -> int | None:
    """Return the cost of a run: as reported, else by the price of its model, rounded up; None if unknown."""
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
    """Return the usage of a run in an account's unit, without requests counted one by one; None if unknown."""
    if unit is Unit.RUNS:
        return 1
    if usage is None:
        return None
    if unit is Unit.REQUESTS:
        return None if usage.requests is None else max(usage.requests - usage.counted, 0)
    return usage.tokens if unit is Unit.TOKENS else usage.usd


class Settlement(Struct, frozen=True):
    """The final charge of a run; `measured`: by its reported usage, else by its estimate."""

    amount: int
    measured: bool


def settle_at(unit: Unit, usage: Usage | None, *, estimate: int | None, reserved: int, spent: int) -> Settlement:
    """Return the charge of a run to a window: its usage, else its reservation.

    Without an estimate it did not start in this window: only its counted requests are charged.
    """
    if estimate is None:
        return Settlement(spent, measured=True)
    used = used_of(unit, usage)
    return Settlement(reserved, measured=False) if used is None else Settlement(spent + used, measured=True)


DAY = timedelta(days=1)
MIN_WINDOWS = 2
MIN_ELAPSED_SHARE = 0.05
_SHORT = {Per.MINUTE: timedelta(minutes=1), Per.HOUR: timedelta(hours=1)}


def window_of(per: Per, tz: str, at: datetime) -> Window:
    """Return the calendar window that holds an instant; hours and minutes count from midnight.

    >>> window_of(Per.DAY, "Europe/Madrid", datetime.fromisoformat("2026-11-15T20:00:00Z")).until.isoformat()
    '2026-11-15T23:00:00+00:00'
    """
    if per in _SHORT:
        return _short_window(_SHORT[per], tz, at)
    first = _first_day(per, at.astimezone(zone(tz)).date())
    while at < _midnight(first, tz):
        first = _first_day(per, first - DAY)
    while at >= (until := _midnight(_next_first(per, first), tz)):
        first = _next_first(per, first)
    return Window(_midnight(first, tz), until)


def window_before(per: Per, tz: str, window: Window) -> Window:
    """Return the window that ends where this one begins."""
    return window_of(per, tz, window.since - MILLISECOND)


def _short_window(length: timedelta, tz: str, at: datetime) -> Window:
    day = window_of(Per.DAY, tz, at)
    since = day.since + (at - day.since) // length * length
    return Window(since, min(since + length, day.until))


def _first_day(per: Per, day: date) -> date:
    if per is Per.WEEK:
        return day - day.weekday() * DAY
    return day.replace(day=1) if per is Per.MONTH else day


def _next_first(per: Per, first: date) -> date:
    if per is Per.WEEK:
        return first + 7 * DAY
    return (first + 32 * DAY).replace(day=1) if per is Per.MONTH else first + DAY


def _midnight(day: date, tz: str) -> datetime:
    """Return the start of a day: its first midnight, or the end of the gap that skips it."""
    wall, place = datetime.combine(day, time()), zone(tz)
    midnights = instants_of_wall(wall, place)
    return midnights[0] if midnights else end_of_gap(wall, place)


class Basis(StrEnum):
    """The basis of a forecast."""

    HISTORY = "history"
    LINEAR = "so far"
    NONE = "too early"


class Forecast(Struct, frozen=True):
    """The usage at the end of a window, None if it is too early; `windows`: the number of earlier ones used."""

    amount: int | None
    basis: Basis
    windows: int = 0


def forecast(settled: int, reserved: int, *, window: Window, rests: Sequence[int], now: datetime) -> Forecast:
    """Return the expected usage at the end of a window.

    `rests`: the usage of each earlier window after the current point of this one. With too few of them, the forecast
    is linear.
    """
    at_least = settled + reserved
    if len(rests) >= MIN_WINDOWS:
        expected = settled + round(sum(rests) / len(rests))
        return Forecast(max(expected, at_least), Basis.HISTORY, len(rests))
    elapsed = (now - window.since) / (window.until - window.since)
    if elapsed < MIN_ELAPSED_SHARE:
        return Forecast(None, Basis.NONE)
    return Forecast(max(round(settled / elapsed), at_least), Basis.LINEAR)
