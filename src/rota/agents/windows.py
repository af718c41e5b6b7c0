"""The windows of subscriptions and rate limits, as programs and APIs report them."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from rota.agents import adapter
from rota.model.agents import SubscriptionWindow

NAMES = {300: "five_hour", 10_080: "seven_day", 1_440: "day", 60: "hour", 43_200: "month"}
"""The names of windows by their minutes, as Claude Code writes them."""
UNIFIED = {"5h": "five_hour", "7d": "seven_day"}
_UNIFIED = r"anthropic-ratelimit-unified-(\w+)-utilization"
_AMOUNTS = (
    (r"anthropic-ratelimit-([a-z-]+)-limit", "anthropic-ratelimit-{}-remaining", "anthropic-ratelimit-{}-reset"),
    (r"x-ratelimit-limit-([a-z-]+)", "x-ratelimit-remaining-{}", "x-ratelimit-reset-{}"),
)
"""Headers with an amount and the rest of it: that of the limit, the rest and the reset."""


def claude_windows(events: Iterable[adapter.Event]) -> tuple[SubscriptionWindow, ...]:
    """Return the windows in the events `rate_limit_event` of Claude Code; the last report of each counts."""
    found: dict[str, SubscriptionWindow] = {}
    for event in events:
        if event.get("type") != "rate_limit_event":
            continue
        info = adapter.part(event, "rate_limit_info")
        name = adapter.text_at(info, "rateLimitType")
        used = adapter.number(info.get("utilization"))
        if info.get("status") == "rejected":
            used = 1.0
        if name:
            found[name] = _window(name, used, adapter.from_epoch(adapter.number(info.get("resetsAt"))))
        for each, value in adapter.part(info, "unifiedWindows").items():
            resets_at = adapter.from_epoch(adapter.number(adapter.look_up(value, "resetsAt")))
            part = adapter.number(adapter.look_up(value, "utilization"))
            full = used == 1.0 and each == name
            found[each] = _window(each, used if full else part, resets_at)
    return tuple(found.values())


def codex_windows(limits: adapter.Event, ended_at: datetime | None) -> tuple[SubscriptionWindow, ...]:
    """Return the windows in the `rate_limits` of a session of Codex, named after their length."""
    windows = []
    for slot in ("primary", "secondary"):
        window = adapter.part(limits, slot)
        percent = adapter.number(window.get("used_percent"))
        if percent is None:
            continue
        resets_at = adapter.from_epoch(adapter.number(window.get("resets_at")))
        seconds = adapter.number(window.get("resets_in_seconds"))
        if resets_at is None and seconds is not None and ended_at is not None:
            resets_at = _after(ended_at, seconds)
        windows.append(_window(_named(adapter.count_at(window, "window_minutes"), slot), percent / 100, resets_at))
    return tuple(windows)


def header_windows(headers: Mapping[str, Any]) -> tuple[SubscriptionWindow, ...]:
    """Return the windows in the headers of an API: those of Anthropic, of Codex, and of OpenAI and its likes.

    A relative reset counts from the header `date`.

    >>> header_windows({"x-ratelimit-limit-requests": "50", "x-ratelimit-remaining-requests": "5"})
    (SubscriptionWindow(name='requests', used=0.9, resets_at=None),)
    """
    told = {str(name).lower(): str(value) for name, value in headers.items()}
    try:
        at = parsedate_to_datetime(told["date"])
    except (KeyError, ValueError):
        at = None
    return (*_unified(told), *_codex(told), *_amounts(told, at))


def _unified(told: Mapping[str, str]) -> Iterable[SubscriptionWindow]:
    for header, value in told.items():
        match = re.fullmatch(_UNIFIED, header)
        if match is not None and (used := _number(value)) is not None:
            reset = _number(told.get(f"anthropic-ratelimit-unified-{match[1]}-reset"))
            yield _window(UNIFIED.get(match[1], match[1]), used, adapter.from_epoch(reset))


def _codex(told: Mapping[str, str]) -> Iterable[SubscriptionWindow]:
    for slot in ("primary", "secondary"):
        percent = _number(told.get(f"x-codex-{slot}-used-percent"))
        if percent is not None:
            minutes = _number(told.get(f"x-codex-{slot}-window-minutes"))
            reset = _number(told.get(f"x-codex-{slot}-reset-at"))
            name = _named(None if minutes is None else int(minutes), slot)
            yield _window(name, percent / 100, adapter.from_epoch(reset))


def _amounts(told: Mapping[str, str], at: datetime | None) -> Iterable[SubscriptionWindow]:
    for limit, rest, reset in _AMOUNTS:
        for header, value in told.items():
            match = re.fullmatch(limit, header)
            most = _number(value) if match is not None else None
            left = _number(told.get(rest.format(match[1]))) if match is not None else None
            if match is not None and most and left is not None:
                resets = told.get(reset.format(match[1]), "")
                resets_at = adapter.reset_told(resets, at) or adapter.reset_told(f"resets in {resets}", at)
                yield _window(match[1], 1 - left / most, resets_at)


def _window(name: str, used: float | None, resets_at: datetime | None) -> SubscriptionWindow:
    """Return a window with a part from 0 to 1: some programs report more than all."""
    return SubscriptionWindow(name, None if used is None else round(min(max(used, 0.0), 1.0), 6), resets_at)


def _named(minutes: int | None, slot: str) -> str:
    return slot if minutes is None else NAMES.get(minutes, f"{minutes}_minutes")


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else adapter.number(float(text))
    except ValueError:
        return None


def _after(at: datetime, seconds: float) -> datetime | None:
    try:
        return at + timedelta(seconds=seconds)
    except OverflowError:
        return None
