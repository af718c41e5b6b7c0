"""`rota simulate`: play days ahead and see what would happen."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.operations.simulating.reporting import Report
    from rota.operations.simulating.simulate import Request

MOST_DAYS = 366.0


@click.command("simulate", cls=RotaCommand)
@click.option(
    "--days",
    type=click.FloatRange(0, MOST_DAYS, min_open=True),
    default=1.0,
    show_default=True,
    help="How many days to play; fractions are allowed.",
)
@click.option("--from", "since", metavar="TIME", help="Begin here, everything as if just applied, instead of now.")
@click.option("--job", "jobs", metavar="JOB", multiple=True, help="Show only this job; may be repeated.")
@click.option(
    "--activity", metavar="WINDOW", multiple=True, help='Hours of activity: "mon-fri 09:00-17:00"; repeatable.'
)
@click.option("--modes", metavar="MODES", help="Force the modes in turn: active=8h,idle=8h,dormant=8h.")
@click.option("--duration", "durations", metavar="JOB=D", multiple=True, help="How long a job's runs take: backup=3m.")
@click.option("--fail", "failures", metavar="JOB=P%", multiple=True, help="How many of a job's runs fail: backup=10%.")
@click.option("--against", metavar="D=N", help="Compare with a single tick every D that makes N remote calls: 60s=16.")
@click.option("--unapplied", is_flag=True, help="Play rota.yaml as it is now, as if it had been applied.")
@click.option(
    "--svg", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Draw a timeline into FILE."
)
@click.pass_obj
def command(
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
    """Play the rules for some days on a virtual clock: fires, collisions, remote calls, budgets, cost.

    Nothing is started or changed. The stored state is played from now on; before a first apply, the file alone.
    """
    from rota.operations.simulating.assuming import read_assumptions, read_tick
    from rota.operations.simulating.simulate import Request
    from rota.operations.simulating.views import report_json

    if activity and modes:
        raise click.UsageError("--activity and --modes do not go together")
    request = Request(
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
    """Return texts that begin with a job's name, under the name by which it is stored."""
    return [invocation.full_name(text) for text in texts]


def _simulated(invocation: Invocation, request: "Request") -> "Report":
    from rota.operations.simulating.simulate import simulate

    place = invocation.place()
    if not invocation.applied():
        return simulate(place, request, store=None, environ=invocation.environ, now=invocation.now())
    with invocation.store() as (_, store):
        return simulate(place, request, store=store, environ=invocation.environ, now=invocation.now())


def _draw(report: "Report", path: Path) -> None:
    from rota.model.errors import StateError
    from rota.operations.simulating.drawing import draw

    try:
        path.write_text(draw(report), "utf-8")
    except OSError as error:
        raise StateError(f"cannot write {path}: {error.strerror}", hint="name a file that can be written") from None


def _show(report: "Report", svg: Path | None) -> None:
    from rota.cli.simulation_words import lines_after, lines_before, table
    from rota.cli.tables import print_table

    for line in lines_before(report):
        click.echo(line)
    columns, rows = table(report)
    if rows:
        print_table(columns, rows)
    for line in lines_after(report):
        click.echo(line)
    if svg is not None:
        click.echo(f"timeline drawn into {svg}")
