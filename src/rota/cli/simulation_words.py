"""The words and the table of a simulation."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

import click

from rota.cli.tables import Cell, Column, Row
from rota.cli.words import counted, plain
from rota.model.budget import Unit
from rota.operations.simulating.reporting import AccountReport, JobReport, LevelReport, Report
from rota.operations.simulating.simulate import span_words
from rota.operations.simulating.views import summed_cost
from rota.rules.budget_words import say_amount, say_used, say_window
from rota.rules.times import briefly, full_time, roughly
from rota.rules.timezone import zone

BARS = "▁▂▃▄▅▆▇█"
NOTHING = "·"
NAMES = 4
DAY_HOURS = 24


def lines_before(report: Report) -> Iterator[str]:
    """Yield what was played, and how much happened in all."""
    shown = report.shown
    fires, runs = sum(job.fires for job in shown), sum(job.runs for job in shown)
    skipped = sum(sum(job.skipped.values()) for job in shown)
    days = f"{report.days:g} {'day' if report.days == 1 else 'days'}"
    yield f"{days}, {span_words(report)}: {counted(fires, 'fire')}, {counted(runs, 'run')}, {skipped:,} skipped"
    for note in report.notes:
        yield f"note: {plain(note)}"


def table(report: Report) -> tuple[list[Column], list[Row]]:
    """Return one line a job: those that never fire and never run are told below."""
    busy = [job for job in report.shown if job.fires or job.runs]
    calls, costs = any(job.calls for job in busy), any(job.cost for job in busy)
    titles = ["JOB", "FIRES", "RUNS", *(["CALLS"] if calls else []), *(["COST"] if costs else []), "BUSIEST HOUR"]
    columns = [*map(Column, titles), Column("00–23 H"), Column("SKIPPED AND WAITED", flexible=True)]
    return columns, [_row(report, job, calls=calls, costs=costs) for job in busy]


def _row(report: Report, job: JobReport, *, calls: bool, costs: bool) -> Row:
    return [
        job.name,
        f"{job.fires:,}",
        f"{job.runs:,}" if not job.is_group else "",
        *([f"{job.calls:,}" if job.calls else ""] if calls else []),
        *([cost_words(job.cost)] if costs else []),
        f"{full_time(report.hour(job.busiest), report.timezone, now=report.since)} ×{job.hours[job.busiest]:,}"
        if job.fires
        else "",
        hour_bars(report, job.hours),
        Cell(_trouble(job), "yellow" if job.skipped or job.ends.get("FAILED") else None),
    ]


def hour_bars(report: Report, hours: Sequence[int]) -> str:
    """Return a mark for each hour of the day in the project's zone: the higher, the more; a dot for nothing."""
    place = zone(report.timezone)
    sums = [0] * DAY_HOURS
    for index, count in enumerate(hours):
        sums[report.hour(index).astimezone(place).hour] += count
    most = max(sums)
    return "".join(BARS[(count * len(BARS) - 1) // most] if count else NOTHING for count in sums)


def _trouble(job: JobReport) -> str:
    """Return what did not go straight: skips by reason, failures, retries, waits."""
    told = [f"{reason} {count:,}" for reason, count in job.skipped.items()]
    told += [f"{status.lower()} {job.ends[status]:,}" for status in ("FAILED", "CANCELLED") if status in job.ends]
    told += [f"retried {job.retries:,}"] if job.retries else []
    told += [f"waited for {waiting_for} {count:,}" for waiting_for, count in job.waits.items()]
    if job.longest_wait > timedelta(seconds=1):
        told.append(f"queued up to {roughly(job.longest_wait)}")
    return ", ".join(told)


def lines_after(report: Report) -> Iterator[str]:
    """Yield what concerns all jobs together, and what the figures rest on."""
    idle = [job.name for job in report.shown if not (job.fires or job.runs)]
    if idle:
        yield f"never due: {_names(idle)}"
    yield from _call_lines(report)
    cost = summed_cost(report)
    if cost:
        yield f"cost by estimates: {cost_words(cost)}"
    yield from (_account_line(one) for one in report.accounts)
    yield _level_line(report.slots)
    yield from (_level_line(one) for one in report.pools)
    yield from _collision_lines(report)
    for assumption in report.assumptions:
        yield click.style(f"assumed: {plain(assumption)}", dim=True)


def _call_lines(report: Report) -> Iterator[str]:
    if not report.calls and report.against is None:
        return
    a_day = report.calls / report.days
    polls = sum(job.calls for job in report.jobs if job.is_poll)
    shares = f" (the poll {polls:,}, jobs {report.calls - polls:,})" if polls and polls < report.calls else ""
    daily = f", {a_day:,.0f} a day" if report.days != 1 else ""
    yield f"remote calls: {report.calls:,}{shares}{daily}"
    if report.against is not None:
        tick = report.against
        less = f", {tick.a_day / a_day:.1f} times as many" if a_day else ""
        every = f"a single tick every {briefly(tick.interval)} with {counted(tick.calls, 'call')}"
        yield f"  {every}: {tick.a_day:,.0f} a day{less}"


def _account_line(one: AccountReport) -> str:
    account = one.account
    fullest = max(one.windows, key=lambda window: window.used)
    used = say_used(one.most, account.limit, account.unit)
    share = f"{one.most / account.limit:.0%}" if account.limit else "no room"
    when = say_window(fullest.since, account.per, account.timezone)
    return f"budget {account.name}: at most {used} a {account.per} ({share}), {when}"


def _level_line(one: LevelReport) -> str:
    name = one.name if one.name == "slots" else f"pool {one.name}"
    full = f"full {one.share_full:.1%} of the time" if one.share_full else "never full"
    wait = f", longest wait {roughly(one.longest_wait)}" if one.longest_wait else ""
    return f"{name}: at most {one.peak} of {one.capacity} in use, {one.mean:.2f} on average, {full}{wait}"


def _collision_lines(report: Report) -> Iterator[str]:
    if not report.collided:
        return
    yield f"collisions: in {counted(report.collided, 'second')} two or more jobs fire together"
    for one in report.collisions[:NAMES]:
        at = full_time(one.at, report.timezone, now=report.since, seconds=True)
        yield f"  {at} {_names(list(one.jobs))}{f', ×{one.times:,} in all' if one.times > 1 else ''}"


def cost_words(cost: Mapping[str, int]) -> str:
    """Return what runs cost: `$3.10, 12,000 tokens`."""
    return ", ".join(say_amount(amount, Unit(unit)) for unit, amount in cost.items())


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES])
    return shown if len(names) <= NAMES else f"{shown} and {len(names) - NAMES} more"
