"""When a server wants to be asked again: its Retry-After, which is a number of seconds or a date."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after(header: str | None, *, date: str | None) -> float | None:
    """Return after how many seconds a server wants to be asked again, None where it does not say.

    A date counts from `date`, the answer's own Date: only the server's clock knows what it means.

    >>> retry_after("120", date=None)
    120.0
    >>> retry_after("Wed, 21 Oct 2026 07:28:00 GMT", date="Wed, 21 Oct 2026 07:27:30 GMT")
    30.0
    """
    text = (header or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:12])
    until, since = _instant(text), _instant(date)
    return None if until is None or since is None else max((until - since).total_seconds(), 0.0)


def _instant(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text) if text else None
    except (TypeError, ValueError):
        return None
    return None if found is None else found.replace(tzinfo=found.tzinfo or UTC)
