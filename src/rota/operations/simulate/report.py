"""The report of a simulation, as records and as JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from msgspec import Struct

from rota.model.agents import provider_of
from rota.model.budgets import Account, Unit
from rota.model.clock import MILLISECOND, from_ms, iso
from rota.model.serialize import fields_json
from rota.model.spec import Kind
from rota.operations.project.locate import in_scope
from rota.operations.simulate.model import CapacityLevel, SimEngine, SimJob, SimWindow
from rota.operations.simulate.state import RunDuration
from rota.operations.simulate.tally import PARTS, CollisionReport, JobReport, Tally
from rota.rules.schedule.timezone import zone

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MAX_COLLISIONS = 10


class LevelReport(Struct, frozen=True):
    """The usage of the slots or of a pool."""

    name: str
    capacity: int
    peak: int
    mean: float
    share_full: float
    longest_wait: timedelta
    parts: tuple[float, ...]


class AccountReport(Struct, frozen=True):
    """The usage of an account by window."""

    account: Account
    windows: tuple[SimWindow, ...]
    parts: tuple[float, ...]

    @property
    def most(self) -> int:
        """The usage of the fullest window."""
        return max((window.used for window in self.windows), default=0)


class DayCalls(Struct, frozen=True):
    """The remote calls of a calendar day."""

    date: str
    calls: int


class SharedTick(Struct, frozen=True):
    """A single tick for all jobs, for comparison: each tick makes this many remote calls."""

    interval: timedelta
    calls: int

    @property
    def a_day(self) -> float:
        """Remote calls a day."""
        return DAY / self.interval * self.calls


class SimulationReport(Struct, frozen=True):
    """The results of a simulation."""

    since: datetime
    until: datetime
    timezone: str
    hours_from: datetime
    jobs: tuple[JobReport, ...]
    slots: LevelReport
    pools: tuple[LevelReport, ...]
    accounts: tuple[AccountReport, ...]
    collided: int
    collisions: tuple[CollisionReport, ...]
    calls_by_day: tuple[DayCalls, ...]
    against: SharedTick | None = None
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    scope: str = ""

    @property
    def days(self) -> float:
        """The length of the span."""
        return (self.until - self.since) / DAY

    @property
    def calls(self) -> int:
        """All remote calls."""
        return sum(job.calls for job in self.jobs)

    @property
    def shown(self) -> tuple[JobReport, ...]:
        """The chosen jobs, or all jobs of the current project if none was chosen."""
        chosen = self.chosen
        return tuple(job for job in self.jobs if (job.name in chosen if chosen else in_scope(job.name, self.scope)))

    def hour(self, index: int) -> datetime:
        """Return the start of an hour of the counts."""
        return self.hours_from + index * HOUR


def make_report(
    engine: SimEngine,
    tally: Tally,
    takes: Mapping[str, RunDuration],
    *,
    timezone: str,
    assumptions: Sequence[str],
    notes: Sequence[str],
) -> SimulationReport:
    """Return the report of a finished simulation."""
    sim_jobs = engine.jobs.values()
    tally.close(run for sim_job in sim_jobs for run in sim_job.unfinished)
    drawn = {draw.pool for sim_job in sim_jobs for draw in sim_job.job.spec.pools}
    pools = [name for name in engine.queue.pools if name in drawn and provider_of(name) is None]
    collisions = sorted(tally.collisions.values(), key=lambda each: (-len(each.jobs), -each.times, each.at))
    hours_from = from_ms(tally.hours_from)
    return SimulationReport(
        from_ms(tally.since),
        from_ms(tally.until),
        timezone,
        hours_from,
        jobs=tuple(_complete(tally.jobs[each.name], engine, each, takes[each.name]) for each in sim_jobs),
        slots=_level("slots", engine, engine.queue.slots, parts=tally.slot_parts, longest_wait=tally.longest_wait_ms),
        pools=tuple(
            _level(
                name,
                engine,
                engine.queue.pools[name],
                parts=tally.pool_parts.get(name, [0.0] * PARTS),
                longest_wait=tally.pool_waits[name],
            )
            for name in pools
        ),
        accounts=tuple(
            AccountReport(book.account, tuple(book.windows), gauge.parts if gauge else (0.0,) * PARTS)
            for name, book in engine.accounts.books.items()
            for gauge in [tally.accounts.get(name)]
        ),
        collided=tally.collided,
        collisions=tuple(collisions[:MAX_COLLISIONS]),
        calls_by_day=_by_day(tally.call_hours, hours_from, timezone),
        assumptions=tuple(assumptions),
        notes=tuple(notes),
    )


def _complete(report: JobReport, engine: SimEngine, sim_job: SimJob, takes: RunDuration) -> JobReport:
    spec = sim_job.job.spec
    report.takes, report.calls, report.unfinished = takes, report.runs * sim_job.calls, len(sim_job.unfinished)
    report.is_poll, report.paused = spec.work.kind is Kind.POLL, sim_job.job.paused_at is not None
    report.is_group, report.quiet = sim_job.is_group, spec.schedule.quiet
    each: Counter[str] = Counter()  # accounts of each unit count the same tokens or money
    for book, estimate in engine.accounts.estimates(spec):
        unit = book.account.unit
        if unit in (Unit.TOKENS, Unit.USD):
            each[unit.value] = max(each[unit.value], estimate.amount)
    report.cost = {unit: amount * report.runs for unit, amount in each.items()}
    return report


def _level(
    name: str, engine: SimEngine, level: CapacityLevel, *, parts: Sequence[float], longest_wait: int
) -> LevelReport:
    full_for = level.full_for + (engine.now - level.full_since if level.full_since else timedelta())
    return LevelReport(
        name,
        capacity=level.capacity,
        peak=level.peak,
        mean=sum(parts) / len(parts),
        share_full=full_for / (engine.now - engine.began),
        longest_wait=longest_wait * MILLISECOND,
        parts=tuple(parts),
    )


def _by_day(hours: Sequence[int], hours_from: datetime, timezone: str) -> tuple[DayCalls, ...]:
    place = zone(timezone)
    dated = [((hours_from + index * HOUR).astimezone(place).date(), count) for index, count in enumerate(hours)]
    return tuple(
        DayCalls(day.isoformat(), sum(count for _, count in found))
        for day, found in groupby(dated, key=lambda each: each[0])
    )


def report_json(report: SimulationReport) -> dict[str, Any]:
    """Return all figures of a simulation; counts by hour begin at `hours_from`."""
    return {
        "from": iso(report.since),
        "until": iso(report.until),
        "days": report.days,
        "timezone": report.timezone,
        "hours_from": iso(report.hours_from),
        "totals": _totals(report),
        "jobs": [_job_view(report, job) for job in report.shown],
        "remote_calls": _calls(report),
        "budgets": [_account_view(each) for each in report.accounts],
        "slots": _level_view(report.slots),
        "pools": [_level_view(each) for each in report.pools],
        "collisions": {
            "seconds": report.collided,
            "most": [{"at": iso(each.at), "jobs": list(each.jobs), "times": each.times} for each in report.collisions],
        },
        "assumptions": list(report.assumptions),
        "notes": list(report.notes),
    }


def _totals(report: SimulationReport) -> dict[str, Any]:
    jobs = report.shown
    return {
        "fires": sum(job.fires for job in jobs),
        "runs": sum(job.runs for job in jobs),
        "skipped": sum(sum(job.skipped.values()) for job in jobs),
        "retries": sum(job.retries for job in jobs),
        "cost": summed_cost(report),
    }


def summed_cost(report: SimulationReport) -> dict[str, int]:
    """Return the estimated cost of all runs in tokens and in millionths of a dollar."""
    units = dict.fromkeys(unit for job in report.shown for unit in job.cost)
    return {unit: sum(job.cost.get(unit, 0) for job in report.shown) for unit in units}


def _job_view(report: SimulationReport, job: JobReport) -> dict[str, Any]:
    counts = ("name", "fires", "runs", "retries", "ends", "skipped", "waits", "unfinished", "paused")
    return {
        **fields_json(job, *counts),
        "takes_seconds": job.takes.duration.total_seconds(),
        "takes_known": job.takes.known,
        "running_seconds": job.running.total_seconds(),
        "longest_wait_seconds": job.longest_wait.total_seconds(),
        "remote_calls": job.calls,
        "cost": job.cost,
        "busiest_hour": {"at": iso(report.hour(job.busiest)), "fires": job.hours[job.busiest]} if job.fires else None,
        "hours": job.hours,
        "skipped_hours": job.skipped_hours,
        "modes": [{"at": iso(each.at), "mode": each.mode.value} for each in job.modes],
    }


def _calls(report: SimulationReport) -> dict[str, Any]:
    polls = sum(job.calls for job in report.jobs if job.is_poll)
    against = report.against
    return {
        "total": report.calls,
        "a_day": report.calls / report.days,
        "polls": polls,
        "jobs": report.calls - polls,
        "by_day": [{"date": each.date, "calls": each.calls} for each in report.calls_by_day],
        "single_tick": None
        if against is None
        else {
            "interval_seconds": against.interval.total_seconds(),
            **fields_json(against, "calls", "a_day"),
            "total": against.a_day * report.days,
        },
    }


def _account_view(report: AccountReport) -> dict[str, Any]:
    return {
        **fields_json(report.account, "name", "unit", "limit", "per", "policy"),
        "most": report.most,
        "windows": [{**fields_json(each.window, "since", "until"), "used": each.used} for each in report.windows],
    }


def _level_view(level: LevelReport) -> dict[str, Any]:
    return {
        **fields_json(level, "name", "capacity", "peak"),
        "mean": round(level.mean, 3),
        "share_full": round(level.share_full, 5),
        "longest_wait_seconds": level.longest_wait.total_seconds(),
    }
