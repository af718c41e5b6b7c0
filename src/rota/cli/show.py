"""`rota show`: one job or run in full."""

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json
from rota.cli.tables import Pairs, print_pairs

if TYPE_CHECKING:
    from rota.operations.direct_calls import DirectView
    from rota.operations.groups import GroupView
    from rota.operations.jobs import JobView
    from rota.operations.runs import RunView
    from rota.store.driver import Store


@click.command("show", cls=RotaCommand)
@click.argument("name")
@click.pass_obj
def command(invocation: Invocation, *, name: str) -> None:
    """Show a job (NAME) or a run (JOB:NUMBER, JOB:-1 for the one before the newest, or its identifier) in full.

    A direct call is shown by its identifier.
    """
    from rota.model.ids import is_id
    from rota.model.records import Run
    from rota.operations.direct_calls import direct_view
    from rota.operations.jobs import job_view
    from rota.operations.runs import find_any, run_view

    with invocation.store() as (_, store):
        call = direct_view(store, name) if is_id(name) else None
        if call is not None:
            _show_call(invocation, store, call)
            return
        found = store.read(lambda db: find_any(db, name))
        if isinstance(found, Run):
            run = found
            _show_run(invocation, store, store.read(lambda db: run_view(db, run)))
        else:
            job = found
            _show_job(invocation, store, store.read(lambda db: job_view(db, job)))


def _show_job(invocation: Invocation, store: "Store", view: "JobView") -> None:
    from rota.operations.views import job_json, spec_json
    from rota.store import jobs

    state = store.read(lambda db: jobs.job_state(db, view.job.id))
    if invocation.as_json:
        print_json({**job_json(view), "spec": spec_json(view.job.spec), "data": state})
        return
    now = invocation.now()
    click.echo(f"{view.job.name}  {view.state}")
    print_pairs(_job_pairs(view, state, now))


def _job_pairs(view: "JobView", state: dict[str, Any], now: datetime) -> Pairs:
    from rota.cli.words import outcome_words, plain, ticks
    from rota.operations.spec_words import spec_pairs
    from rota.rules.instants import explain_schedule
    from rota.rules.making_words import say_made
    from rota.rules.next_words import next_fire
    from rota.rules.times import full_time

    job, tz = view.job, view.job.spec.schedule.timezone
    if job.spec.description:
        yield "about", plain(job.spec.description)
    yield "schedule", explain_schedule(job.spec.schedule)
    yield "next", next_fire(job, now=now, unfinished=view.unfinished).removeprefix("next ")
    yield from spec_pairs(job.spec)
    if state:
        yield "data", plain(json.dumps(state, ensure_ascii=False))
    made = say_made(job, now=now)
    if made is not None:
        yield "made", plain(made)
    yield "source", f"{job.source}, version {job.version} since {full_time(job.updated_at, tz, now=now)}"
    for run in view.unfinished:
        yield "unfinished", f"{run.handle}  {outcome_words(run, now=now)}"
    if view.last:
        yield "last 10", ticks(view.last)
    for run in view.last[:3]:
        yield "run", f"{run.handle}  {outcome_words(run, now=now)}  {full_time(run.nominal, tz, now=now, seconds=True)}"


def _show_run(invocation: Invocation, store: "Store", view: "RunView") -> None:
    from rota.operations.groups import group_around, group_json
    from rota.operations.views import run_json, whole_run_json

    group = store.read(lambda db: group_around(db, view.run))
    if invocation.as_json:
        print_json({**run_json(view.run), **whole_run_json(view), "group": group_json(group) if group else None})
        return
    from rota.cli.words import colour_of, outcome_words
    from rota.operations.run_words import run_pairs

    run, now = view.run, invocation.now()
    click.echo(f"{run.handle}  {click.style(outcome_words(run, now=now), fg=colour_of(run))}")
    print_pairs(run_pairs(view, zone=view.spec.schedule.timezone, now=now))
    print_pairs([("more", f"rota explain {run.handle} · rota logs {run.handle}")])
    _show_group(view, group, now=now)


def _show_group(view: "RunView", group: "GroupView | None", *, now: datetime) -> None:
    """Print the members of a group under its run, or the group under a member."""
    from rota.cli.group_words import member_lines

    if group is None:
        return
    if view.run.place is not None:
        place = f"member {view.run.place} of {group.group.size} of {group.group.handle}"
        print_pairs([("group", f"{place}   rota groups show {group.group.handle}")])
        return
    for line in member_lines(group, view.spec.schedule.timezone, now=now):
        click.echo(line)


def _show_call(invocation: Invocation, store: "Store", view: "DirectView") -> None:
    from rota.cli.words import coloured
    from rota.operations.direct_calls import direct_json

    if invocation.as_json:
        print_json(direct_json(view))
        return
    reason = f" {view.reason}" if view.reason else ""
    click.echo(f"{view.name}  direct call  {coloured(view.status)}{reason}")
    print_pairs(_call_pairs(view, store, now=invocation.now()))


def _call_pairs(view: "DirectView", store: "Store", *, now: datetime) -> Pairs:
    from rota.cli.words import plain
    from rota.operations.direct_calls import direct_spec
    from rota.operations.jobs import project_timezone
    from rota.operations.spec_words import work_words
    from rota.rules.times import full_time

    zone = project_timezone(store)
    yield "id", view.id
    for label, at in (("asked", view.asked_at), ("started", view.started_at), ("finished", view.finished_at)):
        yield label, f"{full_time(at, zone, now=now, seconds=True)} ({zone})" if at else "–"
    if view.started_at is None:
        yield "ahead", str(view.ahead)
    if view.exit_code is not None:
        yield "exit code", str(view.exit_code)
    for label, text in (("error", view.error), ("summary", view.summary)):
        if text:
            yield label, plain(text)
    if view.params:
        yield "params", plain(json.dumps(dict(view.params), ensure_ascii=False))
    spec = direct_spec(store, view)
    if spec is not None:
        yield spec.work.kind.value, work_words(spec)
    yield "caller", f"pid {view.caller.pid}"
    if view.process is not None:
        yield "process", f"pid {view.process.pid}, slot {view.slot}"
    yield "more", f"rota logs {view.id}"
