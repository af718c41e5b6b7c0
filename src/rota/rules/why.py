"""Why a run ended as it did: what is stored, with the instant that rota itself wrote into it told in a zone."""

import re
from datetime import datetime

from rota.model.records import Run
from rota.model.states import Reason
from rota.rules.times import full_time

OURS = frozenset({Reason.OVERLAP, Reason.BACKING_OFF, Reason.QUIET_HOURS, Reason.POLL_FAILED})
"""The reasons whose first words are rota's own; whatever a command or a server said is left as it was said."""
_INSTANT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?Z(?!\w)")


def say_why(run: Run, tz: str, *, now: datetime) -> str | None:
    """Return the error of a run as people in a zone read it, None for none."""
    return in_zone(run.error, tz, now=now) if run.error is not None and run.reason in OURS else run.error


def in_zone(text: str, tz: str, *, now: datetime) -> str:
    """Return a text of ours with its instant in a zone.

    >>> now = datetime.fromisoformat("2026-11-15T19:41:07Z")
    >>> in_zone("held back until 2026-11-15T20:00:00Z", "Europe/Madrid", now=now)
    'held back until Sun 15 Nov 21:00'
    """

    def local(found: re.Match[str]) -> str:
        return full_time(datetime.fromisoformat(found[0]), tz, now=now)

    return _INSTANT.sub(local, text, count=1)
