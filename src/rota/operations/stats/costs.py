"""Costs of runs by day and by model, agent or job, with the most expensive runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial

from msgspec import Struct

from rota.model.budgets import Unit
from rota.model.clock import to_ms
from rota.model.records import Job, Run
from rota.operations.budgets import AccountView, account_views
from rota.operations.jobs import find_job
from rota.operations.stats.ranges import Point, StatRange, Step, points
from rota.rules.stats import DAY, HOUR, Figures, Tally, figures, spent, sum_of
from rota.store.driver import Database, Store
from rota.store.tables import jobs, runs, stats

PARTS = 7
"""The parts that are told apart; smaller ones are added up."""
OTHERS = "others"
EXPENSIVE = 10


class CostBy(StrEnum):
    """The division of a cost."""

    MODEL = "model"
    AGENT = "agent"
    JOB = "job"


class CostUnit(StrEnum):
    """The unit of an amount."""

    USD = "usd"
    TOKENS = "tokens"


class CostPart(Struct, frozen=True):
    """The amount of a model, agent or job in each step: millionths of a dollar, or tokens. `name` empty: unknown."""

    name: str
    total: int
    amounts: tuple[int, ...]


class ExpensiveRun(Struct, frozen=True):
    """A run and its cost in millionths of a dollar."""

    run: Run
    usd: int


class CostStats(Struct, frozen=True):
    """The costs of a time by step and part, largest part first. `per_completed`: the cost of a completed run."""

    range: StatRange
    by: CostBy
    unit: CostUnit
    figures: Figures
    points: tuple[Point, ...]
    parts: tuple[CostPart, ...]
    per_completed: int | None
    expensive: tuple[ExpensiveRun, ...]
    accounts: tuple[AccountView, ...]

    @property
    def totals(self) -> tuple[int, ...]:
        """The amount of each step."""
        return tuple(sum(amounts) for amounts in zip(*(part.amounts for part in self.parts), strict=True))


def costs(
    store: Store,
    asked: StatRange,
    *,
    by: CostBy = CostBy.MODEL,
    unit: CostUnit = CostUnit.USD,
    job: str | None = None,
    now: datetime,
) -> CostStats:
    """Return the costs of a time, of one job or of all; UnknownJob names the nearest."""
    return store.read(partial(_costs, asked=asked, by=by, unit=unit, name=job, now=now))


def _costs(db: Database, *, asked: StatRange, by: CostBy, unit: CostUnit, name: str | None, now: datetime) -> CostStats:
    job = None if name is None else find_job(db, name)
    steps = points(db, job.id if job else None, asked, now=now)
    if by is CostBy.JOB:
        parts = _by_job(db, steps, asked, unit=unit, job=job)
    else:
        parts = _divided([_amounts(point.tally, by, unit) for point in steps])
    whole = figures(sum_of(point.tally for point in steps))
    accounts = [view for view in account_views(db, now=now) if view.account.unit is _UNITS[unit]]
    paid_completed = whole.completed if whole.usd else 0
    return CostStats(
        range=asked,
        by=by,
        unit=unit,
        figures=whole,
        points=tuple(steps),
        parts=tuple(parts),
        per_completed=whole.usd // paid_completed if paid_completed and _pays_alone(whole) else None,
        expensive=tuple(_expensive(db, asked, job)),
        accounts=tuple(accounts),
    )


_UNITS = {CostUnit.USD: Unit.USD, CostUnit.TOKENS: Unit.TOKENS}


def _pays_alone(whole: Figures) -> bool:
    """Return whether the runs of the time are those that cost: else the mean would count runs that cannot cost."""
    return whole.paid_runs >= whole.completed


def _amounts(tally: Tally, by: CostBy, unit: CostUnit) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in spent(tally):
        name = one.model if by is CostBy.MODEL else one.agent
        found[name] += one.usd if unit is CostUnit.USD else one.tokens_in + one.tokens_out
    return found


def _by_job(
    db: Database, steps: Sequence[Point], asked: StatRange, *, unit: CostUnit, job: Job | None
) -> list[CostPart]:
    """Return the amounts of each job; days by job are those of UTC."""
    chosen = [job] if job else list(jobs.all_jobs(db))
    names = {one.id: one.name for one in chosen}
    span = HOUR if asked.step is Step.HOUR else DAY
    if not steps:
        return []
    first, last = to_ms(steps[0].at) // span * span, to_ms(asked.until)
    cells = stats.series_by_job(db, list(names), span=span, since=first, until=last)
    amounts: list[Counter[str]] = [Counter() for _ in steps]
    for job_id, series in cells.items():
        for at, tally in series.items():
            found = figures(tally)
            amount = found.usd if unit is CostUnit.USD else found.tokens
            if amount:
                amounts[min((at - first) // span, len(steps) - 1)][names[job_id]] += amount
    return _divided(amounts)


def _divided(steps: Sequence[Mapping[str, int]]) -> list[CostPart]:
    totals: Counter[str] = Counter()
    for amounts in steps:
        totals.update(amounts)
    named = [name for name, total in totals.most_common(PARTS) if total]
    parts = [CostPart(name, totals[name], tuple(step.get(name, 0) for step in steps)) for name in named]
    rest = tuple(sum(step.values()) - sum(step.get(name, 0) for name in named) for step in steps)
    return [*parts, CostPart(OTHERS, sum(rest), rest)] if any(rest) else parts


def _expensive(db: Database, asked: StatRange, job: Job | None) -> list[ExpensiveRun]:
    since, until = to_ms(asked.since), to_ms(asked.until)
    found = stats.expensive_runs(db, job.id if job else None, since=since, until=until, limit=EXPENSIVE)
    return [ExpensiveRun(run, usd) for run_id, usd in found if (run := runs.run_by_id(db, run_id)) is not None]
