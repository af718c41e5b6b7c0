"""`rota verify`: audit the database for everything that rota promises."""

from itertools import groupby
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.operations.auditing.report import Report


@click.command("verify", cls=RotaCommand)
@click.argument("jobs", metavar="[JOB…]", nargs=-1)
@click.option("--quick", is_flag=True, help="Leave out the check of every page, and instants older than 30 days.")
@click.pass_obj
def command(invocation: Invocation, *, jobs: tuple[str, ...], quick: bool) -> int:
    """Check that every due instant has exactly one row, and everything else that rota promises; of JOBs, or of all.

    Reads only, also while the scheduler works. Exit codes: 0 clean, 1 something is wrong.
    """
    from rota.operations.auditing.report import report_json
    from rota.operations.verify import verify

    with invocation.store() as (place, store):
        report = verify(store, place.state, now=invocation.now(), jobs=jobs, quick=quick)
    if invocation.as_json:
        print_json(report_json(report))
    else:
        if not jobs:
            invocation.tell_whole()
        _show(report)
    return 0 if report.clean else 1


def _show(report: "Report") -> None:
    from rota.cli.words import counted, plain

    checked = report.checked
    amounts = ((checked.jobs, "job"), (checked.spans, "span"), (checked.instants, "instant"), (checked.rows, "row"))
    click.echo(f"checked {', '.join(counted(amount, noun) for amount, noun in amounts)}")
    for note in report.notes:
        click.echo(f"note: {plain(note)}")
    found = sorted(report.violations, key=lambda one: one.check)
    for check, violations in groupby(found, key=lambda one: one.check):
        click.echo(click.style(check.value, bold=True))
        for one in violations:
            click.echo(f"  {one.where}  {plain(one.text)}")
    if report.clean:
        click.echo(click.style("clean", fg="green") + ": every due instant is accounted for exactly once")
    else:
        click.echo(click.style(counted(len(found), "violation"), fg="red"))
