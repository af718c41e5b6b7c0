"""Budgets in memory, as `engine/budget.py` keeps them in the database: every run costs what is expected (R-19)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rota.model.budget import Account, Unit, Window
from rota.model.spec import JobSpec
from rota.rules.admission import Admission, Go
from rota.rules.budget import Charge, Estimate, estimate_of, judge
from rota.rules.budget_windows import window_of

Largest = Mapping[tuple[str, str], int]
"""The dearest of the last runs of a job, by job and account."""


@dataclass(slots=True, eq=False)
class Filled:
    """A window of an account, and what is used of it."""

    window: Window
    settled: int = 0
    reserved: int = 0

    @property
    def used(self) -> int:
        """What is spent, and what runs under way are expected to spend."""
        return self.settled + self.reserved


@dataclass(slots=True)
class Book:
    """An account and its windows, the present one last."""

    account: Account
    windows: list[Filled] = field(default_factory=list)

    def open(self, now: datetime) -> Filled:
        """Return the window that holds `now`."""
        if not self.windows or now >= self.windows[-1].window.until:
            self.windows.append(Filled(window_of(self.account.per, self.account.timezone, now)))
        return self.windows[-1]


@dataclass(frozen=True, slots=True)
class Held:
    """What a run under way holds of a window."""

    window: Filled
    amount: int


@dataclass(slots=True)
class Accounts:
    """All accounts, and what runs under way hold of them."""

    books: dict[str, Book] = field(default_factory=dict)
    largest: Largest = field(default_factory=dict)
    _held: dict[str, list[Held]] = field(default_factory=dict)

    def reserve(self, run_id: str, spec: JobSpec, *, now: datetime) -> Admission:
        """Reserve what a run is expected to cost in all of its accounts, or in none."""
        found = [
            (filled, Charge(book.account, filled.window, filled.settled, filled.reserved, estimate))
            for book, estimate in self.estimates(spec)
            for filled in [book.open(now)]
        ]
        verdict = judge([charge for _, charge in found])
        if isinstance(verdict, Go):
            self._held[run_id] = [Held(filled, charge.estimate.amount) for filled, charge in found]
            for held in self._held[run_id]:
                held.window.reserved += held.amount
        return verdict

    def settle(self, run_id: str) -> None:
        """Charge a run that ended what it was expected to cost."""
        for held in self._held.pop(run_id, ()):
            held.window.reserved -= held.amount
            held.window.settled += held.amount

    def estimates(self, spec: JobSpec) -> list[tuple[Book, Estimate]]:
        """Return the accounts of a job by name, and what a run of it is expected to cost."""
        spends = {spend.account: spend for spend in spec.budgets if spend.account in self.books}
        return [
            (book, estimate_of(spends[name], book.account, largest=self.largest.get((spec.name, name))))
            for name in sorted(spends)
            for book in [self.books[name]]
        ]

    def requests(self, spec: JobSpec) -> int:
        """Return how many remote requests a run is expected to make; accounts of one unit count the same ones."""
        found = [each.amount for book, each in self.estimates(spec) if book.account.unit is Unit.REQUESTS]
        return max(found, default=0)
