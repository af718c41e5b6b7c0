"""Pages of runs: a cursor says where the next one begins, and belongs to one query."""

import base64
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.errors import InvalidValue
from rota.model.ids import is_id
from rota.model.records import Run
from rota.operations.runs import history
from rota.store.driver import Store

LARGEST = 500
AT_ONCE = 500
LOOKED_AT = 3_000
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


def page_of_runs(store: Store, query: Query, *, cursor: str | None = None, limit: int = 50) -> Page:
    """Return one page of runs; a run that is made meanwhile neither repeats nor hides another."""
    if not 1 <= limit <= LARGEST:
        raise InvalidValue(f"a page of {limit} is not possible", hint=f"ask for 1 to {LARGEST}")
    if query.text:
        return _page_with(store, query, cursor=cursor, limit=limit)
    found = _history(store, query, limit=limit + 1, **_position(query, cursor))
    more = len(found) > limit
    return Page(tuple(found[:limit]), _cursor(query, found[limit - 1]) if more else None)


def shorter(page: Page, query: Query, *, count: int) -> Page:
    """Return the first runs of a page; the next page then begins with those that are left out."""
    if count >= len(page.runs):
        return page
    return Page(page.runs[:count], _cursor(query, page.runs[count - 1]) if count else None)


def _page_with(store: Store, query: Query, *, cursor: str | None, limit: int) -> Page:
    """Return the runs among the next ones that hold the text; the page may be short, and then says where it goes on."""
    position = _position(query, cursor)
    found: list[Run] = []
    for _ in range(LOOKED_AT // AT_ONCE):
        looked = _history(store, query, limit=AT_ONCE, **position)
        for run in looked:
            if holds_text(run, query.text):
                found.append(run)
            if len(found) == limit:
                return Page(tuple(found), _cursor(query, run))
        if len(looked) < AT_ONCE:
            return Page(tuple(found), None)
        cursor = _cursor(query, looked[-1])
        position = _position(query, cursor)
    return Page(tuple(found), cursor)


def _history(store: Store, query: Query, *, limit: int, **position: Any) -> list[Run]:
    return history(
        store,
        job=query.job,
        statuses=query.statuses,
        reasons=query.reasons,
        labels=query.labels,
        triggers=query.triggers,
        agent=query.agent,
        since=query.since,
        until=query.until,
        limit=limit,
        **position,
    )


def holds_text(run: Run, text: str) -> bool:
    """Tell whether the error or the summary of a run holds a text, whatever its case."""
    return text.casefold() in f"{run.error or ''}\n{run.result_summary or ''}".casefold()


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
