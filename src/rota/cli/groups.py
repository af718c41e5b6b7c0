"""`rota groups`: groups of runs; show, cancel or repeat one, or make one at run time."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.subcommands import RotaGroup

if TYPE_CHECKING:
    from rota.model.spec import Member
    from rota.operations.groups import GroupView

NOTHING = "nothing was changed (--dry-run)"


@click.group("groups", cls=RotaGroup, invoke_without_command=True, subcommand_metavar="[COMMAND …]")
@click.pass_context
def command(ctx: click.Context) -> None:
    """List the groups: what became of their newest run, and of its members. See `rota groups show --help` and so on."""
    if ctx.invoked_subcommand is None:
        _list(ctx.ensure_object(Invocation))


def _list(invocation: Invocation) -> None:
    from rota.cli.group_words import line_cells
    from rota.cli.tables import Column, print_table
    from rota.operations.groups import line_json, list_groups
    from rota.operations.jobs import project_timezone

    with invocation.store() as (_, store):
        lines = [line for line in list_groups(store) if invocation.covers(line.name)]
        zone = project_timezone(store)
    if invocation.as_json:
        print_json([line_json(line) for line in lines])
        return
    invocation.tell_scope()
    if not lines:
        click.echo("no groups; declare some under `groups:` in rota.yaml and apply it")
        return
    titles = ("GROUP", "STATUS", f"BEGAN ({zone})", "TOOK", "MEMBERS")
    columns = [*(Column(title) for title in titles), Column("SCHEDULE", flexible=True)]
    print_table(columns, [line_cells(line, zone, now=invocation.now()) for line in lines])


@command.command("show", cls=RotaCommand)
@click.argument("group")
@click.pass_obj
def show(invocation: Invocation, *, group: str) -> None:
    """Show GROUP (NAME:NUMBER; NAME alone is its newest) with each member, its attempts and why it ended so."""
    from rota.operations.groups import show_group

    with invocation.store() as (_, store):
        view = show_group(store, group)
        _tell(invocation, view)


@command.command("cancel", cls=RotaCommand)
@click.argument("group")
@dry_run_option
@click.pass_obj
def cancel(invocation: Invocation, *, group: str, dry_run: bool) -> None:
    """Cancel GROUP: queued members at once, running ones by stopping them. Members that always run do not any more."""
    from rota.engine.wake import wake
    from rota.operations.grouping import cancel as cancel_group
    from rota.operations.groups import running_members
    from rota.operations.stopping import stop_keeper
    from rota.operations.system import serves

    with invocation.store() as (place, store):
        view = cancel_group(store, group, now=invocation.now(), dry_run=dry_run)
        running = running_members(view)
        if not dry_run:
            wake(place.state)
            if not serves(place.state):
                for run in running:
                    stop_keeper(store, run)
    _tell(invocation, view)
    if not invocation.as_json:
        stopping = f"{', '.join(run.handle for run in running)} {'would be' if dry_run else 'is being'} stopped"
        for text in ([stopping] if running else []) + ([NOTHING] if dry_run else []):
            click.echo(text)


@command.command("retry", cls=RotaCommand)
@click.argument("group")
@click.option("--force", is_flag=True, help="Pass overlap; it is recorded.")
@dry_run_option
@click.pass_obj
def retry(invocation: Invocation, *, group: str, force: bool, dry_run: bool) -> None:
    """Make a new group of what failed in GROUP: of a sequence from the first failed member on, with the same params.

    GROUP itself is final and does not change.
    """
    from rota.engine.wake import wake
    from rota.operations.grouping import retry as retry_group
    from rota.operations.groups import group_json
    from rota.operations.views import run_json

    with invocation.store() as (place, store):
        made = retry_group(store, group, now=invocation.now(), force=force, dry_run=dry_run)
        if not dry_run:
            wake(place.state)
    if invocation.as_json:
        told: dict[str, Any] = {"retry_of": made.of.handle, "run": run_json(made.run) if made.run else None}
        print_json({**told, "group": group_json(made.view) if made.view else None})
        return
    if made.view is not None:
        _tell(invocation, made.view)
    elif made.run is not None:
        click.echo(f"{made.run.handle}  {made.run.status.shown}, waits for {made.run.waiting_for}")
    if dry_run:
        click.echo(NOTHING)


@command.command("run", cls=RotaCommand)
@click.argument("name")
@click.argument("members", metavar="MEMBER…", nargs=-1)
@click.option("--parallel", is_flag=True, help="Run the members side by side, not one after another.")
@click.option("--continue", "goes_on", is_flag=True, help="Go on after a member that failed (on_failure: continue).")
@click.option("--always", "always", metavar="JOB", multiple=True, help="Run JOB last, whatever became of the others.")
@dry_run_option
@click.pass_obj
def run(
    invocation: Invocation,
    *,
    name: str,
    members: tuple[str, ...],
    parallel: bool,
    goes_on: bool,
    always: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Make a group NAME of jobs at run time, all of them or none. MEMBER is JOB, or JOB:PARAM=VALUE,PARAM=VALUE."""
    from rota.engine.wake import wake
    from rota.model.spec import GroupMode, Member, OnFailure
    from rota.operations.grouping import create

    if not members:
        raise click.UsageError(f"no members are named; a group of the file is started with `rota run {name}`")
    chosen = [*(_member(text) for text in members), *(Member(job, always=True) for job in always)]
    with invocation.store() as (place, store):
        view = create(
            store,
            name,
            chosen,
            mode=GroupMode.PARALLEL if parallel else GroupMode.SEQUENTIAL,
            on_failure=OnFailure.CONTINUE if goes_on else OnFailure.STOP,
            now=invocation.now(),
            dry_run=dry_run,
        )
        if not dry_run:
            wake(place.state)
    _tell(invocation, view)
    if dry_run and not invocation.as_json:
        click.echo(NOTHING)


def _member(text: str) -> "Member":
    from rota.cli.run import read_params
    from rota.model.spec import Member

    job, _, params = text.partition(":")
    return Member(job, read_params(params.split(",")) if params else {})


def _tell(invocation: Invocation, view: "GroupView") -> None:
    from rota.cli.group_words import group_lines
    from rota.operations.groups import group_json

    if invocation.as_json:
        print_json(group_json(view))
        return
    zone = _zone(invocation)
    for line in group_lines(view, zone, now=invocation.now()):
        click.echo(line)


def _zone(invocation: Invocation) -> str:
    from rota.operations.jobs import project_timezone

    with invocation.store() as (_, store):
        return project_timezone(store)
