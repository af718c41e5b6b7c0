"""The report of a simulation, as records and as JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from rota.model.agents import provider_of
from rota.model.budgets import Account, Unit
from rota.model.clock import MILLISECOND, from_ms, iso
from rota.model.spec import Kind, Mode, QuietHours
from rota.model.states import Status
from rota.operations.project.locate import in_scope
from rota.operations.simulate.model import CapacityLevel, PlayedJob, Stage
from rota.operations.simulate.state import RunDuration
from rota.operations.simulate.tally import PARTS, JobTally, Tally
from rota.rules.schedule.timezone import zone

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MOST_COLLISIONS = 10


@dataclass(frozen=True, slots=True)
class ModeFrom:
    """A mode, and since when it holds."""

    at: datetime
    mode: Mode


@dataclass(frozen=True, slots=True)
class JobReport:
    """What became of one job. `hours`: its instants in each hour; `parts`: in equal parts of the span, for drawings."""

    name: str
    is_group: bool
    is_poll: bool
    takes: RunDuration
    fires: int
    runs: int
    retries: int
    ends: Mapping[str, int]
    skipped: Mapping[str, int]
    waits: Mapping[str, int]
    unfinished: int
    running: timedelta
    longest_wait: timedelta
    calls: int
    cost: Mapping[str, int]
    hours: tuple[int, ...]
    skipped_hours: tuple[int, ...]
    parts: tuple[int, ...]
    skipped_parts: tuple[int, ...]
    modes: tuple[ModeFrom, ...] = ()
    quiet: QuietHours | None = None
    paused: bool = False

    @property
    def busiest(self) -> int:
        """The index of the hour with most instants, the first of them."""
        return max(range(len(self.hours)), key=lambda index: self.hours[index])


@dataclass(frozen=True, slots=True)
class LevelReport:
    """How full slots or a pool were."""

    name: str
    capacity: int
    peak: int
    mean: float
    share_full: float
    longest_wait: timedelta
    parts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class WindowReport:
    """A window of an account, and what was used of it by its end or by that of the span."""

    since: datetime
    until: datetime
    used: int


@dataclass(frozen=True, slots=True)
class AccountReport:
    """What was used of an account, window by window."""

    account: Account
    windows: tuple[WindowReport, ...]
    parts: tuple[float, ...]

    @property
    def most(self) -> int:
        """What the fullest window used."""
        return max((window.used for window in self.windows), default=0)


@dataclass(frozen=True, slots=True)
class CollisionReport:
    """Jobs that fire in the same second: when first, and how often."""

    at: datetime
    jobs: tuple[str, ...]
    times: int


@dataclass(frozen=True, slots=True)
class DayCalls:
    """How many remote calls a day of the calendar had."""

    date: str
    calls: int


@dataclass(frozen=True, slots=True)
class SharedTick:
    """The old way: everything on one tick, each with so many remote calls (document 001)."""

    interval: timedelta
    calls: int

    @property
    def a_day(self) -> float:
        """Remote calls a day."""
        return DAY / self.interval * self.calls


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """What a simulation found."""

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
        """How long the span is."""
        return (self.until - self.since) / DAY

    @property
    def calls(self) -> int:
        """All remote calls."""
        return sum(job.calls for job in self.jobs)

    @property
    def shown(self) -> tuple[JobReport, ...]:
        """The jobs that were asked for; when none was named, all of the project that the person is in."""
        chosen = self.chosen
        return tuple(job for job in self.jobs if (job.name in chosen if chosen else in_scope(job.name, self.scope)))

    def hour(self, index: int) -> datetime:
        """Return when an hour of the counts begins."""
        return self.hours_from + index * HOUR


def make_report(
    stage: Stage,
    tally: Tally,
    takes: Mapping[str, RunDuration],
    *,
    timezone: str,
    assumptions: Sequence[str],
    notes: Sequence[str],
) -> SimulationReport:
    """Return what a play that has come to its end amounts to."""
    played = stage.jobs.values()
    tally.close(run for one in played for run in one.unfinished)
    hours_from = from_ms(tally.hours_from)
    return SimulationReport(
        from_ms(tally.since),
        from_ms(tally.until),
        timezone,
        hours_from,
        jobs=tuple(_job(stage, one, tally.jobs[one.name], takes[one.name]) for one in played),
        slots=_level("slots", stage, stage.waiting.slots, parts=tally.slot_parts, longest_wait=tally.longest_wait_ms),
        pools=tuple(_pool(stage, tally, name) for name in _drawn(stage)),
        accounts=tuple(_account(stage, tally, name) for name in stage.accounts.books),
        collided=tally.collided,
        collisions=_collisions(tally),
        calls_by_day=_by_day(tally.call_hours, hours_from, timezone),
        assumptions=tuple(assumptions),
        notes=tuple(notes),
    )


def _job(stage: Stage, played: PlayedJob, tally: JobTally, takes: RunDuration) -> JobReport:
    spec = played.job.spec
    return JobReport(
        played.name,
        is_group=played.is_group,
        is_poll=spec.work.kind is Kind.POLL,
        takes=takes,
        fires=tally.fires,
        runs=tally.runs,
        retries=tally.retries,
        ends=_ends(tally),
        skipped={reason.value: count for reason, count in tally.skipped.most_common()},
        waits={waiting_for.value: count for waiting_for, count in tally.waits.most_common()},
        unfinished=len(played.unfinished),
        running=tally.running_ms * MILLISECOND,
        longest_wait=tally.longest_wait_ms * MILLISECOND,
        calls=tally.runs * played.calls,
        cost=_cost(stage, played, tally.runs),
        hours=tuple(tally.hours),
        skipped_hours=tuple(tally.skipped_hours),
        parts=tuple(tally.parts),
        skipped_parts=tuple(tally.skipped_parts),
        modes=tuple(ModeFrom(from_ms(at), mode) for at, mode in tally.modes),
        quiet=spec.schedule.quiet,
        paused=played.job.paused_at is not None,
    )


def _ends(tally: JobTally) -> dict[str, int]:
    counted = {Status.COMPLETED: tally.completed, **tally.ends}
    return {status.value: counted[status] for status in Status if counted.get(status)}


def _cost(stage: Stage, played: PlayedJob, runs: int) -> dict[str, int]:
    """Return what the runs of a job are expected to use of tokens and money; accounts of one unit count the same."""
    each: Counter[str] = Counter()
    for book, estimate in stage.accounts.estimates(played.job.spec):
        unit = book.account.unit
        if unit in (Unit.TOKENS, Unit.USD):
            each[unit.value] = max(each[unit.value], estimate.amount)
    return {unit: amount * runs for unit, amount in each.items()}


def _drawn(stage: Stage) -> list[str]:
    """Return the pools that some job draws on; those of providers bound nothing."""
    drawn = {draw.pool for played in stage.jobs.values() for draw in played.job.spec.pools}
    return [name for name in stage.waiting.pools if name in drawn and provider_of(name) is None]


def _pool(stage: Stage, tally: Tally, name: str) -> LevelReport:
    parts = tally.pool_parts.get(name, [0.0] * PARTS)
    return _level(name, stage, stage.waiting.pools[name], parts=parts, longest_wait=tally.pool_waits[name])


def _level(name: str, stage: Stage, level: CapacityLevel, *, parts: Sequence[float], longest_wait: int) -> LevelReport:
    return LevelReport(
        name,
        capacity=level.capacity,
        peak=level.peak,
        mean=sum(parts) / len(parts),
        share_full=level.full_until(stage.now) / (stage.now - stage.began),
        longest_wait=longest_wait * MILLISECOND,
        parts=tuple(parts),
    )


def _account(stage: Stage, tally: Tally, name: str) -> AccountReport:
    book, gauge = stage.accounts.books[name], tally.accounts.get(name)
    windows = tuple(WindowReport(one.window.since, one.window.until, one.used) for one in book.windows)
    return AccountReport(book.account, windows, gauge.parts if gauge else (0.0,) * PARTS)


def _collisions(tally: Tally) -> tuple[CollisionReport, ...]:
    found = sorted(tally.collisions.items(), key=lambda item: (-len(item[0]), -item[1].times, item[1].first))
    return tuple(
        CollisionReport(from_ms(one.first), tuple(sorted(jobs)), one.times) for jobs, one in found[:MOST_COLLISIONS]
    )


def _by_day(hours: Sequence[int], hours_from: datetime, timezone: str) -> tuple[DayCalls, ...]:
    place = zone(timezone)
    dated = [((hours_from + index * HOUR).astimezone(place).date(), count) for index, count in enumerate(hours)]
    return tuple(
        DayCalls(day.isoformat(), sum(count for _, count in found))
        for day, found in groupby(dated, key=lambda one: one[0])
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
        "budgets": [_account_view(one) for one in report.accounts],
        "slots": _level_view(report.slots),
        "pools": [_level_view(one) for one in report.pools],
        "collisions": {
            "seconds": report.collided,
            "most": [{"at": iso(one.at), "jobs": list(one.jobs), "times": one.times} for one in report.collisions],
        },
        "assumptions": list(report.assumptions),
        "notes": list(report.notes),
    }


def _totals(report: SimulationReport) -> dict[str, Any]:
    shown = report.shown
    return {
        "fires": sum(job.fires for job in shown),
        "runs": sum(job.runs for job in shown),
        "skipped": sum(sum(job.skipped.values()) for job in shown),
        "retries": sum(job.retries for job in shown),
        "cost": summed_cost(report),
    }


def summed_cost(report: SimulationReport) -> dict[str, int]:
    """Return what all runs are expected to use of tokens and of millionths of a dollar."""
    units = dict.fromkeys(unit for job in report.shown for unit in job.cost)
    return {unit: sum(job.cost.get(unit, 0) for job in report.shown) for unit in units}


def _job_view(report: SimulationReport, job: JobReport) -> dict[str, Any]:
    return {
        "name": job.name,
        "fires": job.fires,
        "runs": job.runs,
        "retries": job.retries,
        "ends": dict(job.ends),
        "skipped": dict(job.skipped),
        "waits": dict(job.waits),
        "unfinished": job.unfinished,
        "paused": job.paused,
        "takes_seconds": job.takes.duration.total_seconds(),
        "takes_known": job.takes.known,
        "running_seconds": job.running.total_seconds(),
        "longest_wait_seconds": job.longest_wait.total_seconds(),
        "remote_calls": job.calls,
        "cost": dict(job.cost),
        "busiest_hour": {"at": iso(report.hour(job.busiest)), "fires": job.hours[job.busiest]} if job.fires else None,
        "hours": list(job.hours),
        "skipped_hours": list(job.skipped_hours),
        "modes": [{"at": iso(one.at), "mode": one.mode.value} for one in job.modes],
    }


def _calls(report: SimulationReport) -> dict[str, Any]:
    polls = sum(job.calls for job in report.jobs if job.is_poll)
    against = report.against
    return {
        "total": report.calls,
        "a_day": report.calls / report.days,
        "polls": polls,
        "jobs": report.calls - polls,
        "by_day": [{"date": one.date, "calls": one.calls} for one in report.calls_by_day],
        "single_tick": None
        if against is None
        else {
            "interval_seconds": against.interval.total_seconds(),
            "calls": against.calls,
            "a_day": against.a_day,
            "total": against.a_day * report.days,
        },
    }


def _account_view(one: AccountReport) -> dict[str, Any]:
    account = one.account
    return {
        "name": account.name,
        "unit": account.unit.value,
        "limit": account.limit,
        "per": account.per.value,
        "policy": account.policy.value,
        "most": one.most,
        "windows": [
            {"since": iso(window.since), "until": iso(window.until), "used": window.used} for window in one.windows
        ],
    }


def _level_view(one: LevelReport) -> dict[str, Any]:
    return {
        "name": one.name,
        "capacity": one.capacity,
        "peak": one.peak,
        "mean": round(one.mean, 3),
        "share_full": round(one.share_full, 5),
        "longest_wait_seconds": one.longest_wait.total_seconds(),
    }
