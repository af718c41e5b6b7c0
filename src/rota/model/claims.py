"""What a run has asked of its work source, and what that is still to be told (003)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rota.model.spec import WorkSource
from rota.model.work import WorkItem, WorkReport, WorkRequest


class ClaimState(StrEnum):
    """Where a claim stands: with its run (the first two), on its way back to its source, or over."""

    ASKING = "asking"
    HELD = "held"
    REPORTING = "reporting"
    RELEASING = "releasing"
    REPORTED = "reported"
    RELEASED = "released"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class Claim:
    """One request of a run to its source: `item` is what it got, `not_before` when the source is told next."""

    claim: str
    run_id: str
    handle: str
    source: WorkSource
    asked_at: datetime
    item: WorkItem | None
    claimed_at: datetime | None
    state: ClaimState
    ended_at: datetime | None
    report: WorkReport | None
    attempts: int
    not_before: datetime | None
    told_at: datetime | None
    error: str | None

    @property
    def request(self) -> WorkRequest:
        """The request as its source knows it."""
        return WorkRequest(self.claim, self.handle.rpartition(":")[0], self.handle, self.asked_at)
