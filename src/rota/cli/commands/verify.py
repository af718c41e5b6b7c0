"""`rota verify`, `doctor` and `audit`."""

from itertools import groupby
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json
from rota.cli.output import Column, print_table
from rota.model.amounts import counted
from rota.model.errors import ProjectMissing
from rota.operations.verify.report import report_json
from rota.rules.health_checks import Severity, worst
from rota.text.ansi import plain
from rota.text.format import full_time, read_instant

if TYPE_CHECKING:
    from rota.operations.verify.report import AuditReport


@click.command("verify", cls=RotaCommand)
@click.argument("jobs", metavar="[JOB…]", nargs=-1)
@click.option("--quick", is_flag=True, help="Skip the page-by-page database check and instants older than 30 days.")
@click.pass_obj
def verify_command(invocation: Invocation, *, jobs: tuple[str, ...], quick: bool) -> int:
    """Verify that every due instant has exactly one row, and all other invariants; for JOBs, or for all jobs.

    Read-only; the scheduler may keep running. Exit codes: 0 clean, 1 violations found.
    """
    from rota.operations.verify.verify import verify

    with invocation.store() as (place, store):
        report = verify(store, place.state, now=invocation.now(), jobs=jobs, quick=quick)
    if invocation.as_json:
        print_json(report_json(report))
    else:
        if not jobs:
            invocation.tell_whole()
        _show(report)
    return 0 if report.clean else 1


def _show(report: "AuditReport") -> None:
    checked = report.checked
    amounts = ((checked.jobs, "job"), (checked.spans, "span"), (checked.instants, "instant"), (checked.rows, "row"))
    click.echo(f"checked {', '.join(counted(amount, noun) for amount, noun in amounts)}")
    for note in report.notes:
        click.echo(f"note: {plain(note)}")
    found = sorted(report.violations, key=lambda violation: violation.check)
    for check, violations in groupby(found, key=lambda violation: violation.check):
        click.echo(click.style(check.value, bold=True))
        for violation in violations:
            click.echo(f"  {violation.where}  {plain(violation.text)}")
    if report.clean:
        click.echo(click.style("clean", fg="green") + ": every due instant is accounted for exactly once")
    else:
        click.echo(click.style(counted(len(found), "violation"), fg="red"))


COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "red"}


@click.command("doctor", cls=RotaCommand)
@click.option("--quiet", is_flag=True, help="Print only findings; hide passed checks.")
@click.pass_obj
def doctor_command(invocation: Invocation, *, quiet: bool) -> int:
    """Check SQLite, disk, clock, PATH, permissions, limits, the file, the scheduler, the database and the agents.

    Exit codes: 0 if there is no problem (warnings and notes do not count), else 1.
    """
    from rota.operations.admin.doctor import examine, findings_json

    try:
        place = invocation.place()
    except ProjectMissing:
        if invocation.directory or invocation.environ.get("ROTA_DIR"):
            raise
        place = None
    findings = examine(place, invocation.environ, clock=invocation.clock)
    code = 1 if worst(findings) is Severity.PROBLEM else 0
    if invocation.as_json:
        print_json({"ok": not code, "findings": findings_json(findings)})
        return code
    for finding in findings:
        if quiet and finding.level is Severity.OK:
            continue
        level = click.style(f"{finding.level.value:8}", fg=COLOURS[finding.level.value])
        click.echo(f"{level} {finding.topic:12} {plain(finding.text)}")
        if finding.remedy:
            click.echo(f"{'':21} → {finding.remedy}")
    problems, warnings = (sum(one.level is level for one in findings) for level in (Severity.PROBLEM, Severity.WARNING))
    click.echo(f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}")
    return code


@click.command("audit", cls=RotaCommand)
@click.option("--actor", metavar="A", help="Only changes by this actor (column ACTOR).")
@click.option("--since", metavar="TIME", help="Only changes since this time: 2h, yesterday, 2026-11-15.")
@click.option(
    "--limit", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Maximum number of lines."
)
@click.pass_obj
def audit_command(invocation: Invocation, *, actor: str | None, since: str | None, limit: int) -> None:
    """Show the audit log of changes by commands, HTTP and tools, newest first. It is append-only."""
    from rota.operations.admin.audit import entry_json, read_trail

    now = invocation.now()
    with invocation.store() as (_, store):
        zone = invocation.zone(store)
        begin = read_instant(since, zone, now=now) if since else None
        entries = read_trail(store, limit=limit, since=begin, actor=actor)
    if invocation.listed(entries, entry_json, none="no changes yet"):
        return
    rows = [
        [
            full_time(audit_entry.at, zone, now=now, seconds=True),
            audit_entry.actor,
            audit_entry.face,
            audit_entry.action,
            plain(audit_entry.target),
        ]
        for audit_entry in entries
    ]
    print_table((f"WHEN ({zone})", "ACTOR", "INTERFACE", "ACTION", Column("TARGET", flexible=True)), rows)
