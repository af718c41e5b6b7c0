"""The report of an audit: coverage, violations and notes."""

from collections import Counter
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from rota.model.serialize import fields_json

MAX_LISTED = 200


class Check(StrEnum):
    """The checks; each violation names one."""

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
    QUESTION = "question"
    CHAT = "chat"
    TOKEN = "token"
    ORDER = "order"
    COUNTER = "counter"
    STATS = "stats"
    PROCESS = "process"
    SCHEMA = "schema"
    INTEGRITY = "integrity"


class Violation(Struct, frozen=True):
    """A broken invariant and its place."""

    check: Check
    text: str
    job: str | None = None
    run: str | None = None

    @property
    def where(self) -> str:
        """The run, else the job, else the database."""
        return self.run or self.job or "database"


class AuditCoverage(Struct, frozen=True):
    """The numbers of audited objects."""

    jobs: int = 0
    spans: int = 0
    spans_left_out: int = 0
    instants: int = 0
    rows: int = 0
    processes: int = 0


class AuditReport(Struct, frozen=True):
    """The result of an audit."""

    checked: AuditCoverage
    violations: tuple[Violation, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether there are no violations."""
        return not self.violations


class AuditFindings(Struct):
    """A report under construction. Each check lists its first violations and counts the rest."""

    violations: list[Violation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _totals: Counter[Check] = field(default_factory=Counter)

    def violation(self, check: Check, text: str, *, job: str | None = None, run: str | None = None) -> None:
        """Add a violation."""
        self._totals[check] += 1
        if self._totals[check] <= MAX_LISTED:
            self.violations.append(Violation(check, text, job, run))

    def count(self, **amounts: int) -> None:
        """Add to the coverage."""
        self.counts.update(amounts)

    def report(self) -> AuditReport:
        """Return the report."""
        more = [
            f"{total - MAX_LISTED:,} more violations of {check} are not listed"
            for check, total in self._totals.items()
            if total > MAX_LISTED
        ]
        return AuditReport(AuditCoverage(**self.counts), tuple(self.violations), (*self.notes, *more))


def report_json(report: AuditReport) -> dict[str, Any]:
    """Return a report as JSON."""
    return {
        "clean": report.clean,
        "checked": asdict(report.checked),
        "violations": [fields_json(each, "check", "job", "run", "text") for each in report.violations],
        "notes": list(report.notes),
    }
