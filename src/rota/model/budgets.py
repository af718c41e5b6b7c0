"""Budget accounts, windows, prices and usage. Money is in millionths of a dollar."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

MILLION = 1_000_000


class Unit(StrEnum):
    """The unit of an account."""

    REQUESTS = "requests"
    RUNS = "runs"
    TOKENS = "tokens"
    USD = "usd"


class Per(StrEnum):
    """The length of an account's window."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class Exceeded(StrEnum):
    """The policy for a run without room in an account."""

    DEFER = "defer"
    SKIP = "skip"
    WARN = "warn"


class Account(Struct, frozen=True):
    """A limit per calendar window; amounts in its unit, money in millionths."""

    name: str
    unit: Unit
    limit: int
    per: Per
    timezone: str = "UTC"
    policy: Exceeded = Exceeded.DEFER
    estimate: int | None = None


class Subscription(Struct, frozen=True):
    """A budget that leaves the part `keep` of each window of a subscription to people, in millionths.

    `provider`: that of the runs, with an account or without; empty for all.
    """

    name: str
    keep: int
    provider: str = ""


class StoredWindow(Struct, frozen=True):
    """A window of a provider's subscription as last reported; `used` in millionths, None if only the reset is known."""

    provider: str
    name: str
    used: int | None
    resets_at: datetime | None
    at: datetime


class Window(Struct, frozen=True):
    """A period of the calendar: since ≤ instant < until."""

    since: datetime
    until: datetime


class Price(Struct, frozen=True):
    """The price of a million tokens of a model, in millionths of a dollar."""

    input: int
    output: int
    cached_input: int | None = None
    """The price of input from the provider's cache; None: that of all input."""


class Usage(Struct, frozen=True):
    """The known usage of a run: None is unknown, never nothing.

    `tokens_cached`: the part of `tokens_in` from the provider's cache. `counted`: the requests that were charged one by
    one when they were sent.
    """

    requests: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    usd: int | None = None
    model: str | None = None
    counted: int = 0
    tokens_cached: int | None = None

    @property
    def tokens(self) -> int | None:
        """The sum of both kinds of tokens, None if neither is known."""
        if self.tokens_in is None and self.tokens_out is None:
            return None
        return (self.tokens_in or 0) + (self.tokens_out or 0)


def usage_json(usage: Usage | None) -> dict[str, Any]:
    """Return the known figures of a usage, as an execution stores them.

    >>> usage_json(Usage(requests=3))
    {'requests': 3}
    """
    if usage is None:
        return {}
    figures = {
        "requests": usage.requests,
        "tokens_in": usage.tokens_in,
        "tokens_cached": usage.tokens_cached,
        "tokens_out": usage.tokens_out,
        "usd_millionths": usage.usd,
        "model": usage.model,
    }
    return {key: value for key, value in figures.items() if value is not None}
