"""Work sources that were never told how runs ended: told so often in vain that it was given up (003)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from rota.model.claims import Claim
from rota.store import work
from rota.store.driver import Database

LOOKED_AT = 1000
"""How many claims are counted at most."""


@dataclass(frozen=True, slots=True)
class Untold:
    """A work source, how many ends of work it was not told, and the newest of them."""

    source: str
    count: int
    newest: Claim

    @property
    def text(self) -> str:
        """What is wrong, in words."""
        what = "report or release was" if self.count == 1 else "reports or releases were"
        return f"{self.count} {what} given up: {self.newest.error or 'it did not answer'}"


def given_up(db: Database, since: datetime, *, prefix: str = "") -> list[Untold]:
    """Return the sources that were not told, by name; `prefix` begins the names of the jobs that are meant."""
    found = work.given_up(db, since, prefix=prefix, limit=LOOKED_AT)
    return list(_by_source(sorted(found, key=lambda claim: claim.source.title)))


def _by_source(found: list[Claim]) -> Iterator[Untold]:
    for title, group in groupby(found, key=lambda claim: claim.source.title):
        claims = list(group)
        yield Untold(title, len(claims), claims[0])
