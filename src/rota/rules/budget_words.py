"""Amounts and windows of budgets as people read them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rota.model.budget import MILLION, Account, Per, Unit
from rota.model.spec import Spend
from rota.rules.timezone import zone

SMALL, TINY = 100_000, 1_000
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
    return f"{amount:,} {unit.value.removesuffix('s') if amount == 1 else unit.value}" if noun else f"{amount:,}"


def say_money(millionths: int) -> str:
    """Return money in cents, a few cents finer.

    >>> say_money(86_307), say_money(12), say_money(50_000)
    ('$0.0863', '$0.000012', '$0.05')
    """
    dollars = millionths / MILLION
    if not 0 < millionths < SMALL:
        return f"${dollars:,.2f}"
    whole, _, rest = f"{dollars:.{6 if millionths < TINY else 4}f}".rstrip("0").partition(".")
    return f"${whole}.{rest:0<2}"


def say_used(used: int, limit: int, unit: Unit) -> str:
    """Return how much of a limit is used.

    >>> say_used(41, 60, Unit.RUNS), say_used(3_100_000, 10_000_000, Unit.USD)
    ('41 of 60 runs', '$3.10 of $10.00')
    """
    return f"{say_amount(used, unit, noun=False)} of {say_amount(limit, unit)}"


def say_account(account: Account) -> str:
    """Return what an account allows.

    >>> say_account(Account("week", Unit.RUNS, 60, Per.WEEK, "Europe/Madrid"))
    '60 runs per week (Europe/Madrid), defer'
    """
    limit, amount = say_amount(account.limit, account.unit), account.estimate
    estimate = "" if amount is None else f", estimate {say_amount(amount, account.unit, noun=False)}"
    return f"{limit} per {account.per} ({account.timezone}), {account.policy}{estimate}"


def say_spend(spend: Spend) -> str:
    """Return what a job is charged to.

    >>> say_spend(Spend("claude-day", 500_000, Unit.USD))
    'claude-day (usd, estimate $0.50)'
    """
    if spend.unit is None:
        return spend.account
    estimate = "" if spend.estimate is None else f", estimate {say_amount(spend.estimate, spend.unit, noun=False)}"
    return f"{spend.account} ({spend.unit}{estimate})"


def say_this(per: Per) -> str:
    """Return the window of now: `today`, `this week`."""
    return _THIS[per]


def say_window(since: datetime, per: Per, tz: str) -> str:
    """Return which window it is, by how it begins in the account's zone.

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
    """Return what a run used; what nobody knows is `?`, never 0.

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
    """Return what the accounts said to a run at its gate, from what was noted there."""
    return "; ".join(_say_account_at_gate(one) for one in told.get("accounts", ())) or "its accounts are forgotten"


def say_estimated(told: Mapping[str, Any], usage: Mapping[str, Any]) -> str:
    """Return which accounts a finished run was charged its estimate, and why; empty where it said what it used.

    >>> account = {"account": "day", "unit": "usd", "estimate": 2_000_000, "origin": "max_usd", "answer": "pass"}
    >>> say_estimated({"accounts": [account]}, {"tokens_in": 5, "model": "sonnet"})
    'day is charged $2.00, the estimate (by max_usd): no price of sonnet is known, add it to `prices`'
    >>> say_estimated({"accounts": [account]}, {"usd_millionths": 5})
    ''
    """
    charged = [one for one in told.get("accounts", ()) if one["answer"] in ("pass", "warn")]
    return "; ".join(_say_estimated(one, usage) for one in charged if _lacks(Unit(one["unit"]), usage))


def _lacks(unit: Unit, usage: Mapping[str, Any]) -> bool:
    """Tell whether a usage says nothing in the unit of an account; a run is always one run."""
    keys = {Unit.USD: ("usd_millionths",), Unit.REQUESTS: ("requests",), Unit.TOKENS: ("tokens_in", "tokens_out")}
    return unit in keys and not any(key in usage for key in keys[unit])


def _say_estimated(one: Mapping[str, Any], usage: Mapping[str, Any]) -> str:
    unit = Unit(one["unit"])
    priced = unit is Unit.USD and "model" in usage and ("tokens_in" in usage or "tokens_out" in usage)
    why = f"no price of {usage['model']} is known, add it to `prices`" if priced else "the run did not say what it used"
    return f"{one['account']} is charged {say_amount(one['estimate'], unit)}, the estimate (by {one['origin']}): {why}"


def _say_account_at_gate(one: Mapping[str, Any]) -> str:
    unit = Unit(one["unit"])
    used = say_used(one["settled"] + one["reserved"], one["limit"], unit)
    verb = "reserved" if one["answer"] in ("pass", "warn") else "needed"
    wanted = f"{say_amount(one['estimate'], unit)} (by {one['origin']})"
    return f"{one['account']}: {used}, {verb} {wanted} → {one['answer']}"
