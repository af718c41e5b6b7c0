"""What an audit found: how much it looked at, what is wrong, and what is only worth knowing."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MOST_LISTED = 200


class Check(StrEnum):
    """What is checked; each violation names one."""

    LEDGER = "ledger"
    CURSOR = "cursor"
    OWNER = "owner"
    VERSION = "version"
    EXECUTION = "execution"
    STATE = "state"
    TIME = "time"
    NUMBER = "number"
    CHAIN = "chain"
    GROUP = "group"
    WAITING = "waiting"
    POOL = "pool"
    BUDGET = "budget"
    WORK = "work"
    DELIVERY = "delivery"
    ORDER = "order"
    COUNTER = "counter"
    PROCESS = "process"
    SCHEMA = "schema"
    INTEGRITY = "integrity"


@dataclass(frozen=True, slots=True)
class Violation:
    """One promise that does not hold, and where."""

    check: Check
    text: str
    job: str | None = None
    run: str | None = None

    @property
    def where(self) -> str:
        """The run, else the job, else the whole database."""
        return self.run or self.job or "database"


@dataclass(frozen=True, slots=True)
class AuditCoverage:
    """How much an audit looked at."""

    jobs: int = 0
    spans: int = 0
    instants: int = 0
    rows: int = 0
    spans_left_out: int = 0
    processes: int = 0


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of an audit."""

    checked: AuditCoverage
    violations: tuple[Violation, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether every promise holds."""
        return not self.violations


@dataclass(slots=True)
class AuditFindings:
    """A report as it grows. A check that finds very much lists only the first ones and counts the rest."""

    violations: list[Violation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _found: Counter[Check] = field(default_factory=Counter)

    def violation(self, check: Check, text: str, *, job: str | None = None, run: str | None = None) -> None:
        """Add a violation."""
        self._found[check] += 1
        if self._found[check] <= MOST_LISTED:
            self.violations.append(Violation(check, text, job, run))

    def count(self, **amounts: int) -> None:
        """Add to what was looked at."""
        self.counts.update(amounts)

    def report(self) -> AuditReport:
        """Return what was found."""
        more = [
            f"{found - MOST_LISTED:,} more violations of {check} are not listed"
            for check, found in self._found.items()
            if found > MOST_LISTED
        ]
        return AuditReport(AuditCoverage(**self.counts), tuple(self.violations), (*self.notes, *more))


def report_json(report: AuditReport) -> dict[str, Any]:
    """Return a report as JSON."""
    checked = report.checked
    return {
        "clean": report.clean,
        "checked": {
            "jobs": checked.jobs,
            "spans": checked.spans,
            "spans_left_out": checked.spans_left_out,
            "instants": checked.instants,
            "rows": checked.rows,
            "processes": checked.processes,
        },
        "violations": [
            {"check": one.check.value, "job": one.job, "run": one.run, "text": one.text} for one in report.violations
        ],
        "notes": list(report.notes),
    }
