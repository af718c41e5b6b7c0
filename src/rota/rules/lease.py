"""Leases on a shared database: when one is renewed, and when a process may say of others that they are lost (R-22).

How long a lease still lasts is told by the database's clock alone; here elapsed time on this machine counts.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

LEASE = timedelta(seconds=30)
"""How long a process counts as alive after it last said so."""
RENEW_EVERY = timedelta(seconds=10)
LOOK_EVERY = timedelta(seconds=10)
"""How often a process looks for others whose lease is over."""
TRY_AGAIN = timedelta(seconds=1)
"""After how long a renewal that the database refused is tried again."""


@dataclass(frozen=True, slots=True)
class Renewals:
    """An unbroken series of renewals, in seconds since boot: its first and its newest."""

    first: float
    last: float


def renewed(series: Renewals | None, at: float) -> Renewals:
    """Return the series after a renewal; one that comes so late that the lease was over begins a new series.

    >>> renewed(Renewals(0.0, 10.0), 20.0)
    Renewals(first=0.0, last=20.0)
    >>> renewed(Renewals(0.0, 10.0), 50.0)
    Renewals(first=50.0, last=50.0)
    """
    if series is None or at - series.last > LEASE.total_seconds():
        return Renewals(at, at)
    return replace(series, last=at)


def next_renewal(series: Renewals | None, *, refused: bool, at: float) -> float:
    """Return when to renew next, in seconds since boot: at once where none was, soon after a refusal."""
    if refused:
        return at + TRY_AGAIN.total_seconds()
    return at if series is None else series.last + RENEW_EVERY.total_seconds()


def may_judge(series: Renewals | None, at: float) -> bool:
    """Tell whether a process may say of others that they are lost.

    Only who has renewed its own lease without a break for as long as one lasts: after an outage of the database, or
    when the machines slept, every lease is over at once, and nobody is lost.
    """
    if series is None or at - series.last > 2 * RENEW_EVERY.total_seconds():
        return False
    return at - series.first >= LEASE.total_seconds()
