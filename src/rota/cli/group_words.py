"""The words in which groups and their members are shown on a terminal."""

from collections.abc import Iterator
from datetime import datetime

import click

from rota.cli.tables import Cell
from rota.cli.words import COLOURS, coloured, plain, took
from rota.model.states import GroupStatus, Reason, Status, WaitingFor
from rota.operations.groups import GroupLine, GroupView, SeatView, counts
from rota.rules.instants import explain_schedule
from rota.rules.times import briefly, day_time, full_time

GROUP_COLOURS = {
    GroupStatus.COMPLETED: COLOURS[Status.COMPLETED],
    GroupStatus.PARTIAL: COLOURS[Status.FAILED],
    GroupStatus.CANCELLED: COLOURS[Status.CANCELLED],
    GroupStatus.RUNNING: COLOURS[Status.RUNNING],
}


def group_lines(view: GroupView, zone: str, *, now: datetime) -> Iterator[str]:
    """Yield a group as `rota groups show` prints it: its status and times, a line a member, and what can be done."""
    group = view.group
    status = click.style(group.status.value, fg=GROUP_COLOURS[group.status])
    repeats = f"  repeats {view.repeated}" if view.repeated else ""
    yield f"{group.handle}  {status}  {_times(view, zone, now=now)}  ({summary(view)}){repeats}"
    yield from member_lines(view, zone, now=now)
    if view.retryable:
        yield f"again from the failed member: rota groups retry {group.handle}"


def _times(view: GroupView, zone: str, *, now: datetime) -> str:
    group = view.group
    began = full_time(group.created_at, zone, now=now)
    if group.finished_at is None:
        stopping = ", being cancelled" if group.cancel_requested_at else ""
        return f"{began} → now{stopping}"
    return f"{began} → {day_time(group.finished_at, zone, now=group.created_at, seconds=group.created_at.second != 0)}"


def summary(view: GroupView) -> str:
    """Return how many members stand where: `1 completed, 1 failed, 1 cancelled, 1 always`."""
    return ", ".join(f"{count} {word}" for word, count in counts(view).items())


def member_lines(view: GroupView, zone: str, *, now: datetime) -> Iterator[str]:
    """Yield a line a member: place, run, status, and why or how long."""
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
    before = next((one.run.handle for one in view.seats if one.run.id == run.predecessor_id), "those before it")
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
