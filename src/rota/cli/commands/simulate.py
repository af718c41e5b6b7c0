"""`rota simulate`."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json
from rota.cli.output import Cell, Column, Row, print_table
from rota.model.amounts import counted, listed
from rota.model.budgets import Unit
from rota.model.errors import StateError
from rota.operations.simulate.player import span_words
from rota.operations.simulate.report import AccountReport, LevelReport, SimulationReport, summed_cost
from rota.operations.simulate.tally import JobReport
from rota.rules.budgets import say_amount, say_used, say_window
from rota.rules.schedule.timezone import zone
from rota.text.ansi import plain
from rota.text.format import briefly, full_time, roughly

if TYPE_CHECKING:
    from rota.operations.simulate.player import SimulationRequest


MOST_DAYS = 366.0


@click.command("simulate", cls=RotaCommand)
@click.option(
    "--days",
    type=click.FloatRange(0, MOST_DAYS, min_open=True),
    default=1.0,
    show_default=True,
    help="Number of days to simulate; fractions are allowed.",
)
@click.option(
    "--from", "since", metavar="TIME", help="Start at this time, as if the file had just been applied; default: now."
)
@click.option("--job", "jobs", metavar="JOB", multiple=True, help="Show only this job. Repeatable.")
@click.option(
    "--activity",
    metavar="WINDOW",
    multiple=True,
    help='Assume activity in these hours: "mon-fri 09:00-17:00". Repeatable.',
)
@click.option("--modes", metavar="MODES", help="Cycle through these modes: active=8h,idle=8h,dormant=8h.")
@click.option(
    "--duration", "durations", metavar="JOB=D", multiple=True, help="Assume this run duration for a job: backup=3m."
)
@click.option(
    "--fail", "failures", metavar="JOB=P%", multiple=True, help="Assume this failure rate for a job: backup=10%."
)
@click.option("--against", metavar="D=N", help="Compare with one tick every D that makes N remote calls: 60s=16.")
@click.option("--unapplied", is_flag=True, help="Simulate the current rota.yaml, as if it had been applied.")
@click.option(
    "--svg", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write a timeline as SVG to FILE."
)
@click.pass_obj
def simulate_command(
    invocation: Invocation,
    *,
    days: float,
    since: str | None,
    jobs: tuple[str, ...],
    activity: tuple[str, ...],
    modes: str | None,
    durations: tuple[str, ...],
    failures: tuple[str, ...],
    against: str | None,
    unapplied: bool,
    svg: Path | None,
) -> None:
    """Simulate some days on a virtual clock: fires, collisions, remote calls, budgets, cost.

    The simulation starts and changes nothing. It begins with the stored state, or before a first apply with the file.
    """
    from rota.operations.simulate.player import SimulationRequest, read_assumptions, read_tick
    from rota.operations.simulate.report import report_json

    if activity and modes:
        raise click.UsageError("--activity and --modes cannot be combined")
    request = SimulationRequest(
        days,
        since=since,
        activity=activity,
        modes=modes,
        assumptions=read_assumptions(_full(invocation, durations), _full(invocation, failures)),
        unapplied=unapplied,
        against=None if against is None else read_tick(against),
        jobs=jobs,
    )
    report = _simulated(invocation, request)
    if svg is not None:
        _draw(report, svg)
    if invocation.as_json:
        print_json(report_json(report))
    else:
        invocation.tell_scope()
        _show(report, svg)


def _full(invocation: Invocation, texts: tuple[str, ...]) -> list[str]:
    """Return texts that start with a job name, with its stored name."""
    return [invocation.full_name(text) for text in texts]


def _simulated(invocation: Invocation, request: "SimulationRequest") -> "SimulationReport":
    from rota.operations.simulate.player import simulate

    with invocation.store_if_applied() as store:
        return simulate(invocation.place(), request, store=store, environ=invocation.environ, now=invocation.now())


def _draw(report: "SimulationReport", path: Path) -> None:
    from rota.operations.simulate.svg import draw

    try:
        path.write_text(draw(report), "utf-8")
    except OSError as error:
        raise StateError(f"cannot write {path}: {error.strerror}", hint="name a file that can be written") from None


def _show(report: "SimulationReport", svg: Path | None) -> None:
    for line in lines_before(report):
        click.echo(line)
    columns, rows = table(report)
    if rows:
        print_table(columns, rows)
    for line in lines_after(report):
        click.echo(line)
    if svg is not None:
        click.echo(f"timeline drawn into {svg}")


BARS = "▁▂▃▄▅▆▇█"
NOTHING = "·"
NAMES = 4
DAY_HOURS = 24


def lines_before(report: SimulationReport) -> Iterator[str]:
    """Yield the simulated range and its totals."""
    jobs = report.shown
    fires, runs = sum(job.fires for job in jobs), sum(job.runs for job in jobs)
    skipped = sum(sum(job.skipped.values()) for job in jobs)
    days = f"{report.days:g} {'day' if report.days == 1 else 'days'}"
    yield f"{days}, {span_words(report)}: {counted(fires, 'fire')}, {counted(runs, 'run')}, {skipped:,} skipped"
    for note in report.notes:
        yield f"note: {plain(note)}"


def table(report: SimulationReport) -> tuple[list[Column | str], list[Row]]:
    """Return one row per job that fires or runs."""
    busy = [job for job in report.shown if job.fires or job.runs]
    calls, costs = any(job.calls for job in busy), any(job.cost for job in busy)
    titles = ["JOB", "FIRES", "RUNS", *(["CALLS"] if calls else []), *(["COST"] if costs else []), "BUSIEST HOUR"]
    columns: list[Column | str] = [*titles, "00–23 H", Column("SKIPPED AND WAITED", flexible=True)]
    return columns, [_row(report, job, calls=calls, costs=costs) for job in busy]


def _row(report: SimulationReport, job: JobReport, *, calls: bool, costs: bool) -> Row:
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


def hour_bars(report: SimulationReport, hours: Sequence[int]) -> str:
    """Return a bar for each hour of the day in the project's time zone; a dot for none."""
    place = zone(report.timezone)
    sums = [0] * DAY_HOURS
    for index, count in enumerate(hours):
        sums[report.hour(index).astimezone(place).hour] += count
    most = max(sums)
    return "".join(BARS[(count * len(BARS) - 1) // most] if count else NOTHING for count in sums)


def _trouble(job: JobReport) -> str:
    """Return skips by reason, failures, retries and waits."""
    told = [f"{reason} {count:,}" for reason, count in job.skipped.items()]
    told += [f"{status.lower()} {job.ends[status]:,}" for status in ("FAILED", "CANCELLED") if status in job.ends]
    told += [f"retried {job.retries:,}"] if job.retries else []
    told += [f"waited for {waiting_for} {count:,}" for waiting_for, count in job.waits.items()]
    if job.longest_wait > timedelta(seconds=1):
        told.append(f"queued up to {roughly(job.longest_wait)}")
    return ", ".join(told)


def lines_after(report: SimulationReport) -> Iterator[str]:
    """Yield the lines about all jobs together, and the assumptions."""
    idle = [job.name for job in report.shown if not (job.fires or job.runs)]
    if idle:
        yield f"never due: {listed(idle, NAMES)}"
    yield from _call_lines(report)
    cost = summed_cost(report)
    if cost:
        yield f"cost by estimates: {cost_words(cost)}"
    yield from (_account_line(account) for account in report.accounts)
    yield _level_line(report.slots)
    yield from (_level_line(level) for level in report.pools)
    yield from _collision_lines(report)
    for assumption in report.assumptions:
        yield click.style(f"assumed: {plain(assumption)}", dim=True)


def _call_lines(report: SimulationReport) -> Iterator[str]:
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
    when = say_window(fullest.window.since, account.per, account.timezone)
    return f"budget {account.name}: at most {used} a {account.per} ({share}), {when}"


def _level_line(one: LevelReport) -> str:
    name = one.name if one.name == "slots" else f"pool {one.name}"
    full = f"full {one.share_full:.1%} of the time" if one.share_full else "never full"
    wait = f", longest wait {roughly(one.longest_wait)}" if one.longest_wait else ""
    return f"{name}: at most {one.peak} of {one.capacity} in use, {one.mean:.2f} on average, {full}{wait}"


def _collision_lines(report: SimulationReport) -> Iterator[str]:
    if not report.collided:
        return
    yield f"collisions: in {counted(report.collided, 'second')} two or more jobs fire together"
    for one in report.collisions[:NAMES]:
        at = full_time(one.at, report.timezone, now=report.since, seconds=True)
        yield f"  {at} {listed(one.jobs, NAMES)}{f', ×{one.times:,} in all' if one.times > 1 else ''}"


def cost_words(cost: Mapping[str, int]) -> str:
    """Return the cost of runs: `$3.10, 12,000 tokens`."""
    return ", ".join(say_amount(amount, Unit(unit)) for unit, amount in cost.items())
