"""How long a provider that refuses is held, and when its refusals are forgotten (section 8)."""

from datetime import datetime, timedelta

from rota.model.holds import ProviderHold, Refusal

FIRST = timedelta(minutes=15)
SHORTLY = timedelta(minutes=1)
JUST_PAST = timedelta(minutes=15)
"""A stated reset that passed so recently is about to come: programs print it to the minute."""
LONGEST = timedelta(hours=6)
LONGEST_OUTAGE = timedelta(hours=1)
FARTHEST = timedelta(days=35)
"""No provider's window is longer than a month: a reset beyond that is a misreading."""


def hold_after(known: ProviderHold | None, refusal: Refusal, *, provider: str) -> ProviderHold:
    """Return how a provider is held after a refusal, given how it is or was.

    The reset that it stated counts. Where it stated none, each refusal in a row doubles the wait, from a minute on
    where the reset has just passed. Runs that had begun before it was held say nothing new, and never
    shorten what is known.
    """
    at, resets_at = refusal.at, _stated(refusal)
    if known is not None and known.until is not None and known.until > at and refusal.began_at <= known.set_at:
        if resets_at is None:
            return known
        resets_at = max(resets_at, known.until) if known.stated else resets_at
    refusals = (known.refusals if known else 0) + (resets_at is None)
    until = at + _pause(refusal, refusals) if resets_at is None else resets_at
    return ProviderHold(provider, until, resets_at is not None, refusals, refusal.why, refusal.run_id, at)


def _stated(refusal: Refusal) -> datetime | None:
    """Return the reset that was stated, within reason; None for one that had passed already."""
    if refusal.resets_at is None or refusal.resets_at <= refusal.at:
        return None
    return min(refusal.resets_at, refusal.at + FARTHEST)


def _pause(refusal: Refusal, refusals: int) -> timedelta:
    if refusal.outage:
        return backoff(refusals, first=SHORTLY, longest=LONGEST_OUTAGE)
    past = refusal.resets_at is not None and refusal.at - refusal.resets_at <= JUST_PAST
    return backoff(refusals, first=SHORTLY if past else FIRST)


def backoff(refusals: int, *, first: timedelta = FIRST, longest: timedelta = LONGEST) -> timedelta:
    """Return how long a provider is held that did not say until when, after so many refusals in a row.

    >>> [str(backoff(refusals)) for refusals in (1, 2, 5, 6, 500)]
    ['0:15:00', '0:30:00', '4:00:00', '6:00:00', '6:00:00']
    """
    return min(first * (1 << min(refusals - 1, 10)), longest)


def forgets(known: ProviderHold, *, began_at: datetime) -> bool:
    """Tell whether a success ends the count: that of a run which had begun before the refusal does not."""
    return began_at > known.set_at
