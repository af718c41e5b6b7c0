"""A look at a work source for a dry run: what it would give, and who holds what; nothing is claimed."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from rota.engine.functions import FunctionTable
from rota.engine.sources import ThreadedSources
from rota.model.errors import RotaError, SecretMissing
from rota.model.spec import JobSpec, WorkSource
from rota.model.work import WorkAhead, WorkItem, WorkRequest
from rota.rules.work_words import say_ahead, say_source
from rota.settings import Settings
from rota.store import work
from rota.store.driver import Store

SKIPPED = "it would be SKIPPED source_error"
NOTHING_KNOWN = WorkAhead()
NO_ITEM = WorkItem("none", "no item")
"""What stands in the place of an item where there is none to show."""


@dataclass(frozen=True, slots=True)
class Peeked:
    """What a source has to offer; `problem`: it could not be asked."""

    source: WorkSource
    ahead: WorkAhead = NOTHING_KNOWN
    holders: tuple[str, ...] = ()
    problem: str | None = None
    fails: bool = False
    """Whether that problem fails a run, and does not skip it."""

    @property
    def item(self) -> WorkItem:
        """What a run would get, or what stands in its place."""
        return self.ahead.next or NO_ITEM

    @property
    def text(self) -> str:
        """What was seen, in a line."""
        if self.problem is not None:
            return f"{say_source(self.source)} could not be asked: {self.problem}"
        return say_ahead(self.source, self.ahead, holders=list(self.holders))

    @property
    def obstacle(self) -> str | None:
        """Why a run would be skipped, None where it would not."""
        if self.problem is not None:
            return "it would fail at once, as its source has no secret" if self.fails else SKIPPED
        return "it would be SKIPPED no_work" if self.ahead.open == 0 else None


def peek(
    spec: JobSpec,
    *,
    store: Store | None,
    settings: Settings,
    table: FunctionTable,
    environ: Mapping[str, str],
    now: datetime,
) -> Peeked | None:
    """Look at the source of a job, None where it has none."""
    source = spec.work.agent.source if spec.work.agent is not None else None
    if source is None:
        return None
    holders = () if store is None else tuple(store.read(partial(work.holders, source=source)))
    sources = ThreadedSources(settings, environ, lambda: table.sources)
    request = WorkRequest("dry-run", spec.name, f"{spec.name}:0", now, spec.work.params)
    try:
        look = partial(sources.find(source).peek, request)
        ahead = asyncio.run(sources.ask(look, within=source.timeout.total_seconds()))
    except RotaError as error:
        return Peeked(source, holders=holders, problem=str(error), fails=isinstance(error, SecretMissing))
    return Peeked(source, ahead, holders)


def peeked_json(found: Peeked | None) -> dict[str, Any] | None:
    """Return what a source has to offer as JSON."""
    if found is None:
        return None
    item = found.ahead.next
    return {
        "source": found.source.title,
        "open": found.ahead.open,
        "held_by": list(found.holders),
        "next": None if item is None else {"id": item.id, "title": item.title, "url": item.url},
        "problem": found.problem,
    }
