"""`rota groups`."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from rota.cli.invocation import UNCHANGED, Invocation, RotaCommand, dry_run_option, print_json, tell_unchanged
from rota.cli.main import listing_group
from rota.cli.output import COLOURS, Cell, Column, coloured, print_table
from rota.model.serialize import run_json
from rota.model.spec import GroupMode, Member, OnFailure
from rota.model.states import GroupStatus, Reason, Status, WaitingFor
from rota.operations.groups import GroupLine, GroupView, SeatView, counts
from rota.operations.text import took
from rota.rules.schedule.instants import explain_schedule
from rota.text.ansi import plain
from rota.text.format import briefly, day_time, full_time


@listing_group("groups")
def groups_command(invocation: Invocation) -> None:
    """List groups with the status of their newest run and its members."""
    from rota.operations.groups import line_json, list_groups

    with invocation.store() as (_, store):
        lines = [line for line in list_groups(store) if invocation.covers(line.name)]
        zone = invocation.zone(store)
    none = "no groups; declare some under `groups:` in rota.yaml and apply it"
    if invocation.listed(lines, line_json, none=none, scoped=True):
        return
    columns = ("GROUP", "STATUS", f"BEGAN ({zone})", "TOOK", "MEMBERS", Column("SCHEDULE", flexible=True))
    print_table(columns, [line_cells(line, zone, now=invocation.now()) for line in lines])


@groups_command.command("show", cls=RotaCommand)
@click.argument("group")
@click.pass_obj
def show(invocation: Invocation, *, group: str) -> None:
    """Show GROUP (NAME:NUMBER; NAME means its newest) with each member, its attempts and its reason."""
    from rota.operations.groups import show_group

    with invocation.store() as (_, store):
        view = show_group(store, group)
        _tell(invocation, view)


@groups_command.command("cancel", cls=RotaCommand)
@click.argument("group")
@dry_run_option
@click.pass_obj
def cancel(invocation: Invocation, *, group: str, dry_run: bool) -> None:
    """Cancel GROUP: queued members end at once, running ones are stopped. `always` members do not run either."""
    from rota.operations.group_actions import cancel as cancel_group
    from rota.operations.groups import running_members
    from rota.operations.run_actions import stop_keeper
    from rota.operations.status.heartbeat import serves

    with invocation.store() as (place, store):
        view = cancel_group(store, group, now=invocation.now(), dry_run=dry_run)
        running = running_members(view)
        if not dry_run:
            invocation.wake()
            if not serves(place.state):
                for run in running:
                    stop_keeper(store, run)
    _tell(invocation, view)
    if not invocation.as_json:
        stopping = f"{', '.join(run.handle for run in running)} {'would be' if dry_run else 'is being'} stopped"
        for text in ([stopping] if running else []) + ([UNCHANGED] if dry_run else []):
            click.echo(text)


@groups_command.command("retry", cls=RotaCommand)
@click.argument("group")
@click.option("--force", is_flag=True, help="Ignore the overlap policy. The override is recorded.")
@dry_run_option
@click.pass_obj
def retry(invocation: Invocation, *, group: str, force: bool, dry_run: bool) -> None:
    """Create a new group from the failed members of GROUP; a sequence restarts at its first failed member, same params.

    GROUP itself is final and does not change.
    """
    from rota.operations.group_actions import retry as retry_group
    from rota.operations.groups import group_json

    with invocation.changing(dry_run=dry_run) as store:
        made = retry_group(store, group, now=invocation.now(), force=force, dry_run=dry_run)
    if invocation.as_json:
        told: dict[str, Any] = {"retry_of": made.of.handle, "run": run_json(made.run) if made.run else None}
        print_json({**told, "group": group_json(made.view) if made.view else None})
        return
    if made.view is not None:
        _tell(invocation, made.view)
    elif made.run is not None:
        click.echo(f"{made.run.handle}  {made.run.status.shown}, waits for {made.run.waiting_for}")
    tell_unchanged(dry_run=dry_run)


@groups_command.command("run", cls=RotaCommand)
@click.argument("name")
@click.argument("members", metavar="MEMBER…", nargs=-1)
@click.option("--parallel", is_flag=True, help="Run the members in parallel instead of in sequence.")
@click.option("--continue", "goes_on", is_flag=True, help="Continue after a failed member (on_failure: continue).")
@click.option("--always", "always", metavar="JOB", multiple=True, help="Run JOB last, even if other members fail.")
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
    """Create a group NAME of jobs, all or none. MEMBER is JOB, or JOB:PARAM=VALUE,PARAM=VALUE."""
    from rota.operations.group_actions import create

    if not members:
        raise click.UsageError(f"no members are named; a group of the file is started with `rota run {name}`")
    chosen = [*(_member(text) for text in members), *(Member(job, always=True) for job in always)]
    with invocation.changing(dry_run=dry_run) as store:
        view = create(
            store,
            name,
            chosen,
            mode=GroupMode.PARALLEL if parallel else GroupMode.SEQUENTIAL,
            on_failure=OnFailure.CONTINUE if goes_on else OnFailure.STOP,
            now=invocation.now(),
            dry_run=dry_run,
        )
    _tell(invocation, view)
    if dry_run and not invocation.as_json:
        click.echo(UNCHANGED)


def _member(text: str) -> "Member":
    from rota.cli.commands.run import read_params

    job, _, params = text.partition(":")
    return Member(job, read_params(params.split(",")) if params else {})


def _tell(invocation: Invocation, view: "GroupView") -> None:
    from rota.operations.groups import group_json

    if invocation.as_json:
        print_json(group_json(view))
        return
    with invocation.store() as (_, store):
        zone = invocation.zone(store)
    for line in group_lines(view, zone, now=invocation.now()):
        click.echo(line)


GROUP_COLOURS = {
    GroupStatus.COMPLETED: COLOURS[Status.COMPLETED],
    GroupStatus.PARTIAL: COLOURS[Status.FAILED],
    GroupStatus.CANCELLED: COLOURS[Status.CANCELLED],
    GroupStatus.RUNNING: COLOURS[Status.RUNNING],
}


def group_lines(view: GroupView, zone: str, *, now: datetime) -> Iterator[str]:
    """Yield a group as `rota groups show` prints it: status and times, members, and next commands."""
    group = view.group
    status = click.style(group.status.value, fg=GROUP_COLOURS[group.status])
    repeats = f"  repeats {view.repeated}" if view.repeated else ""
    yield f"{group.handle}  {status}  {_times(view, zone, now=now)}  ({summary(view)}){repeats}"
    yield from member_lines(view, zone, now=now)
    if view.retryable:
        yield f"retry from the failed member: rota groups retry {group.handle}"


def _times(view: GroupView, zone: str, *, now: datetime) -> str:
    group = view.group
    began = full_time(group.created_at, zone, now=now)
    if group.finished_at is None:
        stopping = ", being cancelled" if group.cancel_requested_at else ""
        return f"{began} → now{stopping}"
    return f"{began} → {day_time(group.finished_at, zone, now=group.created_at, seconds=group.created_at.second != 0)}"


def summary(view: GroupView) -> str:
    """Return members by status: `1 completed, 1 failed, 1 cancelled, 1 always`."""
    return ", ".join(f"{count} {word}" for word, count in counts(view).items())


def member_lines(view: GroupView, zone: str, *, now: datetime) -> Iterator[str]:
    """Yield one line per member: place, run, status, and reason or duration."""
    names = max((len(seat.run.handle) for seat in view.seats), default=0)
    digits = len(str(len(view.seats)))
    for seat in view.seats:
        run = seat.run
        status = coloured(run.status, f"{run.status.shown.value:10}")
        detail = _detail(view, seat, zone, now=now)
        always = " (always)" if run.always else ""
        logs = f"   rota logs {run.handle}" if run.status is Status.FAILED else ""
        yield f"  {run.place:{digits}} {run.handle:{names}}  {status}  {detail}{always}{logs}".rstrip()


def _detail(view: GroupView, seat: SeatView, zone: str, *, now: datetime) -> str:
    run = seat.run
    parts = {
        Status.FAILED: _failure(seat),
        Status.QUEUED: _waits(view, seat, zone, now=now),
        Status.CANCELLED: _reason(seat),
        Status.SKIPPED: _reason(seat),
    }
    return parts.get(run.status, took(run, now=now))


def _failure(seat: SeatView) -> str:
    run = seat.run
    code = f" {run.exit_code}" if run.reason is Reason.EXIT_CODE and run.exit_code is not None else ""
    tried = f", attempt {run.attempt} of {seat.attempts}" if seat.attempts > 1 else ""
    chain = " → ".join([*(one.handle for one in seat.earlier[:1]), *(f":{one.number}" for one in seat.earlier[1:])])
    return f"{run.reason}{code}{tried}" + (f"   ({chain} → :{run.number})" if chain else "")


def _reason(seat: SeatView) -> str:
    reason = str(seat.run.reason).replace("_", " ")
    return f"{reason}: {plain(seat.run.error)}" if seat.run.error else reason


def _waits(view: GroupView, seat: SeatView, zone: str, *, now: datetime) -> str:
    run = seat.run
    if run.waiting_for is WaitingFor.BACKOFF and run.not_before is not None:
        again = day_time(run.not_before, zone, now=now, seconds=True)
        return f"attempt {run.attempt} of {seat.attempts} at {again}"
    if run.waiting_for is not WaitingFor.PREDECESSOR:
        return f"waits for {run.waiting_for}" if run.waiting_for else "in the queue"
    if run.always:
        return "waits for all others"
    before = next(
        (seat_view.run.handle for seat_view in view.seats if seat_view.run.id == run.predecessor_id), "those before it"
    )
    return f"waits for {before}"


def line_cells(line: GroupLine, zone: str, *, now: datetime) -> list[Cell | str]:
    """Return a group as a row of `rota groups`."""
    schedule = explain_schedule(line.job.spec.schedule).replace(f" ({zone})", "") if line.job else "made at run time"
    if line.newest is None:
        return [line.name, "–", "", "", "", schedule]
    group = line.newest.group
    return [
        group.handle,
        Cell(group.status.value, GROUP_COLOURS[group.status]),
        day_time(group.created_at, zone, now=now),
        briefly((group.finished_at or now) - group.created_at),
        summary(line.newest),
        schedule,
    ]
