"""Pages of runs: a cursor says where the next one begins, and belongs to one query."""

import base64
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.clock import iso
from rota.model.errors import InvalidValue
from rota.model.ids import is_id
from rota.model.records import Run
from rota.operations.runs import history
from rota.store.driver import Store

LARGEST = 500


@dataclass(frozen=True, slots=True)
class Query:
    """Which runs are meant."""

    job: str | None = None
    statuses: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    @property
    def mark(self) -> str:
        """A short text that differs for other queries."""
        ends = [iso(at) if at else None for at in (self.since, self.until)]
        told = json.dumps([self.job, self.statuses, self.reasons, self.labels, ends])
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Page:
    """Some runs, newest first, and where the rest begins; None: there is no rest."""

    runs: tuple[Run, ...]
    cursor: str | None


def page_of_runs(store: Store, query: Query, *, cursor: str | None = None, limit: int = 50) -> Page:
    """Return one page of runs; a run that is made meanwhile neither repeats nor hides another."""
    if not 1 <= limit <= LARGEST:
        raise InvalidValue(f"a page of {limit} is not possible", hint=f"ask for 1 to {LARGEST}")
    found = history(
        store,
        job=query.job,
        statuses=query.statuses,
        reasons=query.reasons,
        labels=query.labels,
        since=query.since,
        until=query.until,
        limit=limit + 1,
        **_position(query, cursor),
    )
    more = len(found) > limit
    return Page(tuple(found[:limit]), _cursor(query, found[limit - 1]) if more else None)


def _cursor(query: Query, last: Run) -> str:
    told = f"{query.mark}|{last.number if query.job else last.id}"
    return base64.urlsafe_b64encode(told.encode()).rstrip(b"=").decode()


def _position(query: Query, cursor: str | None) -> dict[str, Any]:
    if cursor is None:
        return {}
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        mark, _, place = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").partition("|")
    except ValueError:
        raise _wrong() from None
    if mark != query.mark:
        raise InvalidValue("the cursor belongs to another query", hint="begin again without a cursor")
    if query.job:
        if not place.isdecimal() or len(place) > 18:
            raise _wrong()
        return {"before_number": int(place)}
    if not is_id(place):
        raise _wrong()
    return {"before_id": place}


def _wrong() -> InvalidValue:
    return InvalidValue("that is no cursor", hint="pass `next` of the page before, or begin without one")
