"""Providers of agents that take no more work for a while, and the pools by which their runs wait (section 8)."""

from dataclasses import dataclass
from datetime import datetime

PROVIDER = "provider:"
PLENTY = 1_000_000
"""The room of a provider's pool: it bounds nothing, but has none at all while the provider is held."""


def provider_pool(provider: str) -> str:
    """Return the pool that every run of a provider draws on.

    >>> provider_pool("anthropic")
    'provider:anthropic'
    """
    return f"{PROVIDER}{provider}"


def provider_of(pool: str) -> str | None:
    """Return the provider whose pool this is, None for any other pool.

    >>> provider_of("provider:anthropic"), provider_of("gpu")
    ('anthropic', None)
    """
    return pool.removeprefix(PROVIDER) if pool.startswith(PROVIDER) else None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A run that its provider refused: when it began and ended, what was said, and until when, where that was said."""

    began_at: datetime
    at: datetime
    why: str
    resets_at: datetime | None = None
    run_id: str | None = None
    outage: bool = False
    """Whether the provider failed instead of refusing: it is probed sooner, and more often."""


@dataclass(frozen=True, slots=True)
class ProviderHold:
    """A provider that took no more work. `until` None: that is over, and only the count of its refusals is left."""

    provider: str
    until: datetime | None
    stated: bool
    """Whether the provider said until when."""
    refusals: int
    """How often in a row nobody could say until when: each time the next wait is twice as long."""
    why: str
    run_id: str | None
    set_at: datetime
