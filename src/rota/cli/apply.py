"""`rota apply`: make the stored jobs equal to the file."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json

if TYPE_CHECKING:
    from rota.declare.plan import Change, Plan
    from rota.declare.validate import Declared


@click.command("apply", cls=RotaCommand)
@click.option("--adopt", metavar="NAME", multiple=True, help="Take over a job of this name that has another source.")
@click.option("--allow-empty", is_flag=True, help="Allow a file without jobs to retire all that came from it.")
@click.option("--cancel-queued", is_flag=True, help="Also cancel queued runs of jobs that change or are retired.")
@dry_run_option
@click.pass_obj
def command(
    invocation: Invocation, *, adopt: tuple[str, ...], allow_empty: bool, cancel_queued: bool, dry_run: bool
) -> None:
    """Make the stored jobs equal to rota.yaml and print what changed; a running scheduler sees it at once."""
    options = {"adopt": adopt, "allow_empty": allow_empty, "cancel_queued": cancel_queued}
    plan = _apply(invocation, dry_run=dry_run, options=options)
    if invocation.as_json:
        print_json(plan_json(plan, dry_run=dry_run))
        return
    show_plan(plan)
    if dry_run:
        click.echo("nothing was changed (--dry-run)")


def _apply(invocation: Invocation, *, dry_run: bool, options: dict[str, Any]) -> "Plan":
    from rota.cli.trust import ensure_trust
    from rota.engine.wake import wake
    from rota.operations.applying import apply, first_plan
    from rota.operations.hosting import refuse_served
    from rota.operations.loading import load_project

    place, now = invocation.place(), invocation.now()
    if not dry_run:
        ensure_trust(invocation)
    acts = not dry_run
    declared = load_project(place.folder, invocation.environ, state=place.state, now=now, acts=acts).declared
    refuse_served(declared.projects, place.state)
    if dry_run and not invocation.applied():
        return first_plan(declared)
    with invocation.store(create=True) as (_, store):
        plan = apply(store, declared, now=now, dry_run=dry_run, **options)
    if not dry_run:
        wake(place.state)
        _remember(invocation, declared)
    return plan


def _remember(invocation: Invocation, declared: "Declared") -> None:
    """Let commands inside included projects find this one; that is a convenience, nothing is lost without it."""
    from rota.operations.including import remember_host

    try:
        remember_host(declared.settings.folder, invocation.environ, includes=bool(declared.projects))
    except OSError as error:
        click.echo(f"rota: commands inside included projects may not find this one: {error}", err=True)


def show_plan(plan: "Plan") -> None:
    """Print a plan: one line a change, with what differs below it."""
    from rota.cli.words import counted
    from rota.declare.plan import ChangeKind

    for change in plan.changing:
        mark, colour, words = _MARKS[change.kind.value]
        click.echo(click.style(f"{mark} {change.name}", fg=colour) + f"  {words}{_reading(change)}")
        for difference in change.differences if change.kind is not ChangeKind.CREATE else ():
            click.echo(f"    {difference.replace(' -> ', ' → ')}")
    for difference in plan.settings:
        click.echo(click.style(f"~ {difference.replace(' -> ', ' → ')}", fg="yellow"))
    same = len(plan.changes) - len(plan.changing)
    if same or not plan.changes:
        click.echo(f"= {counted(same, 'job')} unchanged" if plan.changes else "= no jobs")


_MARKS = {
    "create": ("+", "green", "created"),
    "update": ("~", "yellow", "changed"),
    "revive": ("+", "green", "revived, its history goes on"),
    "retire": ("-", "red", "retired: the file no longer has it; its history stays"),
    "adopt": ("~", "yellow", "adopted"),
}


def _reading(change: "Change") -> str:
    from rota.rules.instants import explain_schedule

    if change.kind.value not in ("create", "revive") or change.spec is None:
        return ""
    return f", {explain_schedule(change.spec.schedule)}" + ("" if change.spec.enabled else ", disabled")


def plan_json(plan: "Plan", *, dry_run: bool) -> dict[str, Any]:
    """Return a plan as JSON."""
    return {
        "dry_run": dry_run,
        "changed": len(plan.changing),
        "settings": list(plan.settings),
        "changes": [
            {"kind": change.kind.value, "name": change.name, "differences": list(change.differences)}
            for change in plan.changes
        ],
    }
