"""How accounts stand, in the words of every face: when they reopen, what is expected, what is worth a remark."""

from collections.abc import Iterator
from datetime import datetime

from rota.operations.budgets import WAITING_COUNTED, WAITING_SHOWN, AccountView
from rota.rules.budget_windows import Basis
from rota.rules.budget_words import say_amount
from rota.rules.times import day_time, from_now


def reopens_words(view: AccountView, *, now: datetime) -> str:
    """Return when the next window opens: how far away, and exactly, in the account's zone."""
    zone = view.account.timezone
    return f"{from_now(view.window.until, now)}, {day_time(view.window.until, zone, now=now)} ({zone})"


def forecast_words(view: AccountView) -> str:
    """Return what the window is expected to end with, and from what that follows."""
    found = view.forecast
    if found.amount is None:
        return "too early to say"
    amount = say_amount(found.amount, view.account.unit, noun=False)
    basis = f"by the last {found.windows}" if found.basis is Basis.HISTORY else "if it goes on like this"
    return f"{amount} {basis}{', above the limit' * (found.amount > view.account.limit)}"


def over_words(view: AccountView) -> str:
    """Return by how much an account is above its limit, and why; empty where it is not."""
    if not view.over:
        return ""
    over = say_amount(view.over, view.account.unit)
    why = "it only warns" if view.account.policy == "warn" else "runs cost more than they were expected to"
    return f"{view.account.name} is {over} above its limit: {why}"


def other_remarks(view: AccountView) -> Iterator[str]:
    """Yield who waits for an account, and whether the file still knows it."""
    if view.waiting:
        count = len(view.waiting)
        more = f" and {count - WAITING_SHOWN:,}{'+' * (count == WAITING_COUNTED)} more" if count > WAITING_SHOWN else ""
        yield f"waiting for {view.account.name}: {', '.join(view.waiting[:WAITING_SHOWN])}{more}"
    if not view.declared:
        yield f"{view.account.name} is no longer in the file; runs of older definitions still use it"
