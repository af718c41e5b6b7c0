"""`rota doctor`: check this machine, the file and the scheduler; each finding with a remedy."""

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "red"}


@click.command("doctor", cls=RotaCommand)
@click.option("--quiet", is_flag=True, help="Leave out what is well.")
@click.pass_obj
def command(invocation: Invocation, *, quiet: bool) -> int:
    """Check SQLite, disk, clock, PATH, permissions, limits, the file, the scheduler, the database and the agents.

    Exit codes: 0 when there is no problem (warnings and notes are none), else 1.
    """
    from rota.cli.words import counted, plain
    from rota.model.errors import ProjectMissing
    from rota.operations.doctor import examine, findings_json
    from rota.rules.machine import Level, worst

    try:
        place = invocation.place()
    except ProjectMissing:
        if invocation.directory or invocation.environ.get("ROTA_DIR"):
            raise
        place = None
    found = examine(place, invocation.environ, clock=invocation.clock)
    code = 1 if worst(found) is Level.PROBLEM else 0
    if invocation.as_json:
        print_json({"ok": not code, "findings": findings_json(found)})
        return code
    for finding in found:
        if quiet and finding.level is Level.OK:
            continue
        level = click.style(f"{finding.level.value:8}", fg=COLOURS[finding.level.value])
        click.echo(f"{level} {finding.topic:12} {plain(finding.text)}")
        if finding.remedy:
            click.echo(f"{'':21} → {finding.remedy}")
    problems, warnings = (sum(one.level is level for one in found) for level in (Level.PROBLEM, Level.WARNING))
    click.echo(f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}")
    return code
