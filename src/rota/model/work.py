"""What a work source gives to an agent, and what it is told about the end of it (document 003)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A piece of work that one run has claimed. `claim` is the source's own note of how it holds it."""

    id: str
    title: str
    description: str = ""
    url: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    claim: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkReport:
    """How the run that held an item ended, as its source is told."""

    success: bool
    run: str
    summary: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """Who asks a source for an item: `claim` names this one request for good, also after a crash."""

    claim: str
    job: str
    run: str
    asked_at: datetime
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkAhead:
    """What a source has to offer, seen without claiming; `open` None: it does not say how many."""

    open: int | None = None
    next: WorkItem | None = None


class Source(Protocol):
    """A work source. Every call may be made again with the same claim, after a crash or a lost answer."""

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the next item, None where there is none; raises SourceError."""
        ...

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        """Tell how the work on a claimed item ended; the claim is over then."""
        ...

    def release(self, item: WorkItem, /) -> None:
        """Give a claimed item back, so that it can be claimed again."""
        ...

    def release_claim(self, request: WorkRequest, /) -> None:
        """Give back whatever this request may have claimed: nobody noted what it was."""
        ...

    def peek(self, request: WorkRequest, /) -> WorkAhead:
        """Return what there is, and claim nothing."""
        ...
