"""The words of budgets (R-19): accounts, windows, prices, and what a run used. Money in millionths of a dollar."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

MILLION = 1_000_000


class Unit(StrEnum):
    """What an account counts."""

    REQUESTS = "requests"
    RUNS = "runs"
    TOKENS = "tokens"
    USD = "usd"


class Per(StrEnum):
    """How long a window of an account is."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class Exceeded(StrEnum):
    """What becomes of a run for which an account has no room."""

    DEFER = "defer"
    SKIP = "skip"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Account:
    """A limit per calendar window; amounts in its unit, money in millionths."""

    name: str
    unit: Unit
    limit: int
    per: Per
    timezone: str = "UTC"
    policy: Exceeded = Exceeded.DEFER
    estimate: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of the calendar: since ≤ instant < until."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens of a model cost, in millionths of a dollar."""

    input: int
    output: int
    cached_input: int | None = None
    """The rate of input that the provider read from its cache; None: that of all input."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run used, as far as it is known: None is unknown, never nothing.

    `tokens_cached`: how many of `tokens_in` the provider read from its cache. `counted`: how many of the requests were
    charged one by one, when they were made.
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
        """Both kinds of tokens together, None where neither is known."""
        if self.tokens_in is None and self.tokens_out is None:
            return None
        return (self.tokens_in or 0) + (self.tokens_out or 0)


def usage_json(usage: Usage | None) -> dict[str, Any]:
    """Return what is known of a usage, as an execution keeps it.

    >>> usage_json(Usage(requests=3))
    {'requests': 3}
    """
    if usage is None:
        return {}
    told = {
        "requests": usage.requests,
        "tokens_in": usage.tokens_in,
        "tokens_cached": usage.tokens_cached,
        "tokens_out": usage.tokens_out,
        "usd_millionths": usage.usd,
        "model": usage.model,
    }
    return {key: value for key, value in told.items() if value is not None}
