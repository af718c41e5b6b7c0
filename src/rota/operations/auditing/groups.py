"""Groups by their members, counted anew: a final group is what R-15 makes of them, an open one has one on its way."""

from collections.abc import Iterator
from dataclasses import dataclass

from rota.operations.auditing.report import Check, Findings
from rota.store.driver import Database

MOST = 1_000
ENDS: dict[str, set[tuple[str | None, str | None]]] = {
    "RUNNING": {("RUNNING", None)},
    "COMPLETED": {("COMPLETED", None)},
    "PARTIAL": {("FAILED", "members_failed")},
    "CANCELLED": {("CANCELLED", "requested"), ("CANCELLED", "replaced"), ("CANCELLED", "retired")},
}
"""How the run of a group stands, by the status of the group (R-15)."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group with its members counted."""

    name: str
    number: int
    status: str
    size: int
    asked: int
    final: int
    declared: int
    run_status: str | None
    run_reason: str | None
    places: int
    highest: int
    unfinished: int
    completed: int
    failed: int
    cancelled: int

    @property
    def handle(self) -> str:
        """The group as people write it."""
        return f"{self.name}:{self.number}"


def check_groups(db: Database, findings: Findings, *, jobs: str | None) -> None:
    """INV-006 and R-15: places complete, final exactly with the last member, the status that the members give."""
    for row in db.rows("audit_groups", jobs=jobs):
        group = GroupRow(*row)
        for text in _wrong(group):
            findings.violation(Check.GROUP, text, job=group.name if group.declared else None, run=group.handle)
    for job, number in db.rows("audit_groupless", jobs=jobs, limit=MOST):
        text = "is RUNNING, but its group was never made: it would run for ever (R-15)"
        findings.violation(Check.GROUP, text, job=job, run=f"{job}:{number}")


def _wrong(group: GroupRow) -> Iterator[str]:
    whole = group.places == group.size
    if group.highest > group.size:
        yield f"has a member at place {group.highest} of {group.size} (INV-006)"
    if not group.final and not whole:
        yield f"has members at {group.places} of its {group.size} places (INV-006)"
    if group.final and group.unfinished:
        yield f"is {group.status}, but {group.unfinished} of its members are not final (INV-006)"
    if not group.final and whole and not group.unfinished:
        yield "is RUNNING, but all of its members are final (INV-006)"
    if group.final and whole and not group.unfinished and group.status != _counted(group):
        yield f"is {group.status}, but its members make it {_counted(group)} (R-15)"
    if group.declared and (group.run_status, group.run_reason) not in ENDS[group.status]:
        run = f"{group.run_status}/{group.run_reason}" if group.run_reason else group.run_status
        yield f"is {group.status}, but its run is {run} (R-15)"


def _counted(group: GroupRow) -> str:
    if not group.failed and not group.cancelled:
        return "COMPLETED"
    by_request = group.asked and not group.completed and not group.failed
    return "CANCELLED" if by_request else "PARTIAL"
