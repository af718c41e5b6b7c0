"""`rota list`, `show` and `explain`."""

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json
from rota.cli.output import Cell, Column, Pairs, colour_of, coloured, print_pairs, print_table
from rota.cli.overview import terminal_width
from rota.model.amounts import counted, say_money
from rota.model.errors import InvalidValue
from rota.model.ids import is_id
from rota.model.records import Run
from rota.rules.schedule.instants import explain_schedule
from rota.text.ansi import clean_for_terminal, plain
from rota.text.format import full_time, spaced
from rota.text.jobs import say_made
from rota.text.schedule import next_fire

if TYPE_CHECKING:
    from rota.cli.output import Row
    from rota.operations.direct_calls import DirectView
    from rota.operations.groups import GroupView
    from rota.operations.jobs import JobView
    from rota.operations.runs import RunView
    from rota.store.driver import Store
    from rota.text.explain import ExplainLine


@click.command("list", cls=RotaCommand)
@click.option("--label", "labels", metavar="L", multiple=True, help="Only jobs with this label. Repeatable.")
@click.option(
    "--made-by", "maker", metavar="AUTHOR", help="Only jobs of this author; `agent` means all agents and programs."
)
@click.option("--all", "retired", is_flag=True, help="Include retired jobs.")
@click.pass_obj
def list_command(invocation: Invocation, *, labels: tuple[str, ...], maker: str | None, retired: bool) -> None:
    """List jobs: schedule, recent results, next fire."""
    from rota.operations.jobs import list_jobs, made_by
    from rota.operations.text import LEGEND

    with invocation.store() as (_, store):
        views, zone = list_jobs(store, labels=invocation.labels(labels), retired=retired), invocation.zone(store)
    views = [view for view in views if maker is None or made_by(view.job, maker)]
    if invocation.as_json:
        from rota.operations.views import job_json

        print_json([job_json(view) for view in views])
        return
    invocation.tell_scope()
    rows = [_row(view, zone, now=invocation.now()) for view in views]
    if rows:
        print_table(("JOB", Column("SCHEDULE", flexible=True), "LAST", "LAST 10", f"NEXT ({zone})"), rows)
    failing = sum(view.failing for view in views)
    told = " · ".join([counted(len(views), "job"), *([f"{failing} failing"] if failing else [])])
    none = "no jobs; declare some in rota.yaml and apply it" if maker is None else f"no jobs of author {maker}"
    click.echo(_last_lines(f"{told} · {LEGEND}", "rota explain JOB") if rows else none)


def _row(view: "JobView", zone: str, *, now: datetime) -> "Row":
    from rota.operations.text import next_words, outcome_words, schedule_words, ticks

    last = (view.unfinished or view.last)[:1]
    words = Cell(outcome_words(last[0], now=now) + _used(last[0]), colour_of(last[0])) if last else ""
    return [view.job.name, schedule_words(view, zone), words, ticks(view.last), next_words(view, zone, now=now)]


def _last_lines(legend: str, advice: str) -> str:
    """Return one line, or two on a narrow terminal."""
    whole = f"{legend}   {advice}"
    narrow = sys.stdout.isatty() and len(whole) > terminal_width()
    return f"{legend}\n{advice}" if narrow else whole


def _used(run: "Run") -> str:
    """Return the cost of a run, or its tokens if the cost is unknown."""

    if "usd_millionths" in run.usage:
        return f" · {say_money(run.usage['usd_millionths'])}"
    tokens = sum(run.usage.get(key, 0) for key in ("tokens_in", "tokens_out"))
    return f" · {tokens:,} tokens" if tokens else ""


@click.command("show", cls=RotaCommand)
@click.argument("name")
@click.option("--result", is_flag=True, help="Print the whole answer of a run alone; of a job: of its newest run.")
@click.option("--files", is_flag=True, help="List the files that the result of a run names, with their copies.")
@click.pass_obj
def show_command(invocation: Invocation, *, name: str, result: bool, files: bool) -> None:
    """Show a job (NAME) or a run (JOB:NUMBER, JOB:-1 for the run before the newest, or its identifier) in full.

    Show a direct call by its identifier.
    """
    from rota.operations.jobs import job_view
    from rota.operations.runs import find_any, run_view

    with invocation.store() as (place, store):
        if result:
            _print_result(invocation, store, name)
            return
        if files:
            _print_files(invocation, store, place.state, name)
            return
        if is_id(name):
            from rota.operations.direct_calls import direct_view

            call = direct_view(store, name)
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


def _print_result(invocation: Invocation, store: "Store", name: str) -> None:
    from rota.operations.runs import show_run

    view = show_run(store, name)
    if invocation.as_json:
        print_json({"run": view.run.handle, "result": view.result})
    elif view.result is None:
        raise InvalidValue(
            f"{view.run.handle} has no result", hint=f"see its output with `rota logs {view.run.handle}`"
        )
    else:
        click.echo(clean_for_terminal(view.result))


def _print_files(invocation: Invocation, store: "Store", state: Path, name: str) -> None:
    from rota.operations.output import files_json, files_of
    from rota.operations.runs import show_run

    view = show_run(store, name)
    run_files = files_of(state, view)
    if invocation.as_json:
        print_json(files_json(view, run_files))
    elif not run_files:
        click.echo(f"{view.run.handle} has no files: its result names none, or `retention.output` has deleted them")
    else:
        rows = [
            [
                plain(file.name),
                "–" if file.size is None else f"{file.size:,}",
                file.path if file.kept else str(file.why),
            ]
            for file in run_files
        ]
        print_table(("FILE", "BYTES", Column("COPY", flexible=True)), rows)


def _show_job(invocation: Invocation, store: "Store", view: "JobView") -> None:
    from rota.store.tables import jobs

    state = store.read(lambda db: jobs.job_state(db, view.job.id))
    if invocation.as_json:
        from rota.operations.views import whole_job_json

        print_json(whole_job_json(view, data=state))
        return
    now = invocation.now()
    click.echo(f"{view.job.name}  {view.state}")
    print_pairs(_job_pairs(view, state, now))


def _job_pairs(view: "JobView", state: dict[str, Any], now: datetime) -> Pairs:
    from rota.operations.text import outcome_words, spec_pairs, ticks

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
    from rota.operations.groups import group_around

    group = store.read(lambda db: group_around(db, view.run))
    if invocation.as_json:
        from rota.operations.views import whole_run_json

        print_json(whole_run_json(view, group))
        return
    from rota.operations.text import outcome_words, run_pairs

    run, now = view.run, invocation.now()
    click.echo(f"{run.handle}  {click.style(outcome_words(run, now=now), fg=colour_of(run))}")
    print_pairs(run_pairs(view, zone=view.spec.schedule.timezone, now=now))
    print_pairs([("more", f"rota explain {run.handle} · rota logs {run.handle}")])
    _show_group(view, group, now=now)


def _show_group(view: "RunView", group: "GroupView | None", *, now: datetime) -> None:
    if group is None:
        return
    from rota.cli.commands.groups import member_lines

    if view.run.place is not None:
        place = f"member {view.run.place} of {group.group.size} of {group.group.handle}"
        print_pairs([("group", f"{place}   rota groups show {group.group.handle}")])
        return
    for line in member_lines(group, view.spec.schedule.timezone, now=now):
        click.echo(line)


def _show_call(invocation: Invocation, store: "Store", view: "DirectView") -> None:
    from rota.operations.direct_calls import direct_json

    if invocation.as_json:
        print_json(direct_json(view))
        return
    click.echo(f"{view.name}  direct call  {coloured(view.status)}{spaced(view.reason)}")
    print_pairs(_call_pairs(view, store, zone=invocation.zone(store), now=invocation.now()))


def _call_pairs(view: "DirectView", store: "Store", *, zone: str, now: datetime) -> Pairs:
    from rota.operations.direct_calls import direct_spec
    from rota.operations.text import work_words

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


@click.command("explain", cls=RotaCommand)
@click.argument("name", metavar="JOB|RUN")
@click.pass_obj
def explain_command(invocation: Invocation, *, name: str) -> None:
    """Explain a run, or a job and its newest run: print the stored decisions as sentences."""
    from rota.operations.explain import explain, explanation_json

    with invocation.store() as (place, store):
        explanation = explain(store, name, state=place.state, now=invocation.now())
    if invocation.as_json:
        print_json(explanation_json(explanation))
        return
    if explanation.job_lines:
        click.echo(explanation.job.job.name)
        _lines(explanation.job_lines)
    if explanation.run is None:
        click.echo("it has no runs yet")
        return

    head, status, rest = explanation.title.partition(explanation.run.status.shown.value)
    click.echo(f"{head}{coloured(explanation.run.status, status)}{rest}")
    _lines(explanation.run_lines)


def _lines(lines: "Sequence[ExplainLine]") -> None:
    for line in lines:
        click.echo(f"  {line.label:12} {plain(line.text)}")
