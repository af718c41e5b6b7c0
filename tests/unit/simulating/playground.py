"""A small play for tests: jobs in one line, a ledger of what became of them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from rota.model.budgets import Account
from rota.model.spec import JobSpec, Kind, Retry, Schedule, Work
from rota.operations.simulate.model import SimEngine
from rota.operations.simulate.player import AtWork, Person, Simulator
from rota.operations.simulate.report import SimulationReport, make_report
from rota.operations.simulate.state import Assumptions, State, fresh_state, make_engine, takes
from rota.operations.simulate.tally import Tally
from rota.settings import Settings

BEGIN = datetime(2026, 11, 16, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
AWAY = AtWork()


def job(name: str, schedule: Schedule | None = None, **changes: Any) -> JobSpec:
    """Return a command job without retries."""
    policies = {"retry": Retry(max_attempts=1), **changes}
    return JobSpec(name, Work(Kind.COMMAND, command=("true",)), schedule or Schedule(), **policies)


def cron(text: str, **changes: Any) -> Schedule:
    return Schedule(cron=(text,), **changes)


class Play(Struct):
    """What is to be played."""

    specs: list[JobSpec]
    days: float = 1
    pools: dict[str, int] = field(default_factory=dict)
    accounts: tuple[Account, ...] = ()
    concurrency: int = 16
    durations: dict[str, timedelta] = field(default_factory=dict)
    failures: dict[str, float] = field(default_factory=dict)
    person: Person = AWAY
    timezone: str = "UTC"
    since: datetime = BEGIN

    def state(self) -> State:
        settings = Settings(Path(), Path(), pools=self.pools, budgets={one.name: one for one in self.accounts})
        return fresh_state(self.specs, settings, now=self.since)

    def report(self, state: State | None = None) -> SimulationReport:
        """Play it and return the report."""
        state = state or self.state()
        until = self.since + timedelta(days=self.days)
        assumptions = Assumptions(self.durations, self.failures)
        tally = Tally(self.since, until, hours_from=self.since)
        engine: SimEngine = make_engine(
            state, assumptions, concurrency=self.concurrency, observer=tally, now=self.since
        )
        Simulator(engine, self.person).run_until(until)
        known = {one.name: takes(one, state, assumptions) for one in state.jobs}
        return make_report(engine, tally, known, timezone=self.timezone, assumptions=(), notes=())


def of(report: SimulationReport, name: str) -> Any:
    """Return what became of a job."""
    return next(one for one in report.jobs if one.name == name)
