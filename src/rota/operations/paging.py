"""Pages of runs: a cursor says where the next one begins, and belongs to one query."""

import base64
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime

from rota.model.errors import InvalidValue
from rota.model.ids import created_at, is_id
from rota.model.records import Run
from rota.operations.runs import Asked, history
from rota.operations.searching import runs_saying
from rota.store.driver import Store
from rota.store.finding import Said

LARGEST = 500
LOOKED_AT = 10_000
"""How many runs a page with a text is looked for in; the next page goes on from there."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which runs are meant."""

    job: str | None = None
    statuses: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    agent: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def mark(self) -> str:
        """A short text that differs for other queries; their ends move with the time where they are written `1h`."""
        told = json.dumps([self.job, self.statuses, self.reasons, self.labels, self.triggers, self.agent, self.text])
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Page:
    """Some runs, newest first, and where the rest begins; None: there is no rest."""

    runs: tuple[Run, ...]
    cursor: str | None
    back_to: datetime | None = None
    """When the oldest run was made that a text was looked for in, where older ones are left."""


def page_of_runs(store: Store, query: Query, *, cursor: str | None = None, limit: int = 50) -> Page:
    """Return one page of runs; a run that is made meanwhile neither repeats nor hides another."""
    if not 1 <= limit <= LARGEST:
        raise InvalidValue(f"a page of {limit} is not possible", hint=f"ask for 1 to {LARGEST}")
    if query.text:
        return _page_with(store, query, cursor=cursor, limit=limit)
    found = history(store, limit=limit + 1, **_asked(query, cursor))
    more = len(found) > limit
    return Page(tuple(found[:limit]), _cursor(query, found[limit - 1]) if more else None)


def shorter(page: Page, query: Query, *, count: int) -> Page:
    """Return the first runs of a page; the next page then begins with those that are left out."""
    if count >= len(page.runs):
        return page
    return Page(page.runs[:count], _cursor(query, page.runs[count - 1]) if count else None)


def _page_with(store: Store, query: Query, *, cursor: str | None, limit: int) -> Page:
    """Return the runs among the next ones that hold the text; the page may be short, and then says where it goes on."""
    found = runs_saying(store, query.text, limit=limit, among=LOOKED_AT, **_asked(query, cursor))
    if found.last is None:
        return Page(found.runs, None)
    return Page(found.runs, _cursor(query, found.last), created_at(found.last.id))


def _asked(query: Query, cursor: str | None) -> Asked:
    return {
        "job": query.job,
        "statuses": query.statuses,
        "reasons": query.reasons,
        "labels": query.labels,
        "triggers": query.triggers,
        "agent": query.agent,
        "since": query.since,
        "until": query.until,
        **_position(query, cursor),
    }


def _cursor(query: Query, last: Run | Said) -> str:
    told = f"{query.mark}|{last.number if query.job else last.id}"
    return base64.urlsafe_b64encode(told.encode()).rstrip(b"=").decode()


def _position(query: Query, cursor: str | None) -> Asked:
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
