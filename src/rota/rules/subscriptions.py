"""Subscriptions: which windows are so full that the rest is kept for people, and the sentences about them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from rota.model.budgets import MILLION, StoredWindow, Subscription
from rota.model.clock import iso
from rota.model.states import WaitingFor
from rota.rules.admission import Admission, Admit, Defer

MODELS = ("opus", "sonnet", "haiku")
"""Models with windows of their own: the name of such a window ends with that of the model."""


class FullWindow(Struct, frozen=True):
    """A window that has no more left than a budget keeps, and its reset."""

    budget: Subscription
    window: StoredWindow
    resets_at: datetime


def subscription_of(provider: str) -> str:
    """Return the subscription of a provider; a list of models has one provider for each model.

    >>> subscription_of("anthropic/work:opus"), subscription_of("openai")
    ('anthropic/work', 'openai')
    """
    return provider.partition(":")[0]


def concerns(budget: Subscription, provider: str) -> bool:
    """Return whether a budget is about a subscription: about all, those of a provider, or that of one account.

    >>> concerns(Subscription("a", 0, "anthropic"), "anthropic/work"), concerns(Subscription("a", 0, "openai"), "x")
    (True, False)
    """
    return not budget.provider or provider == budget.provider or provider.startswith(f"{budget.provider}/")


def full_windows(
    budgets: Iterable[Subscription], windows: Sequence[StoredWindow], *, provider: str, model: str | None, now: datetime
) -> list[FullWindow]:
    """Return the windows for which a run of a provider waits. One that is not reported, or has reset, holds nothing."""
    subscription = subscription_of(provider)
    mine = [window for window in windows if window.provider == subscription and _is_of(window.name, model)]
    return [
        FullWindow(budget, window, window.resets_at)
        for budget in budgets
        if concerns(budget, subscription)
        for window in mine
        if window.used is not None and window.used > MILLION - budget.keep
        if window.resets_at is not None and window.resets_at > now
    ]


def _is_of(window: str, model: str | None) -> bool:
    """Return whether a window counts runs of a model; of an unknown model all count."""
    of = next((name for name in MODELS if window.endswith(f"_{name}")), None)
    return of is None or model is None or of in model.lower()


def judge(found: Sequence[FullWindow]) -> Admission:
    """Return whether a run may start, or waits for the last reset of its full windows."""
    return Defer(max(window.resets_at for window in found), WaitingFor.BUDGET) if found else Admit()


def decision(found: Sequence[FullWindow], provider: str, *, now: datetime) -> dict[str, Any]:
    """Return the decision about a run as it is stored with it."""
    windows = [
        {
            "budget": window.budget.name,
            "window": window.window.name,
            "used": window.window.used,
            "keep": window.budget.keep,
            "resets_at": iso(window.resets_at),
        }
        for window in found
    ]
    verdict = "wait" if found else "go"
    return {"at": iso(now), "provider": subscription_of(provider), "verdict": verdict, "windows": windows}


def say_decision(told: Mapping[str, Any]) -> str:
    """Return the stored decision about a run in words, without its resets."""
    provider = told.get("provider", "?")
    if told.get("verdict") != "wait":
        return f"the windows of {provider} have room"
    return "; ".join(
        f"{one['window']} of {provider} is {say_part(one['used'])} used, and {one['budget']} keeps "
        f"{say_part(one['keep'])}"
        for one in told.get("windows", ())
    )


def say_full(found: FullWindow) -> str:
    """Return a full window in words."""
    return say_decision(decision([found], found.window.provider, now=found.resets_at))


def say_part(millionths: int | None) -> str:
    """Return a part of a window.

    >>> say_part(825_000), say_part(None), say_part(1_000_000)
    ('82.5 %', '?', '100 %')
    """
    return "?" if millionths is None else f"{round(millionths / 10_000, 1):g} %"


def say_subscription(budget: Subscription) -> str:
    """Return a budget in words.

    >>> say_subscription(Subscription("claude-window", 300_000, "anthropic"))
    'keeps 30 % of each window of anthropic'
    """
    return f"keeps {say_part(budget.keep)} of each window of {budget.provider or 'every subscription'}"


def is_reset(window: StoredWindow, now: datetime) -> bool:
    """Return whether a window was reset after its report, so that nothing is known of the present one."""
    return window.resets_at is not None and window.resets_at <= now


def relieves(before: StoredWindow | None, after: StoredWindow) -> bool:
    """Return whether a new report may release runs: the window is less full, or resets at another time."""
    if before is None or before.used is None:
        return False
    return after.used is None or after.used < before.used or after.resets_at != before.resets_at
