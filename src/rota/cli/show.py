"""`rota show`: one job or run in full."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.model.spec import JobSpec
    from rota.operations.jobs import JobView
    from rota.operations.runs import RunView
    from rota.store.driver import Store

Pairs = Iterable[tuple[str, str]]


@click.command("show", cls=RotaCommand)
@click.argument("name")
@click.pass_obj
def command(invocation: Invocation, *, name: str) -> None:
    """Show a job (NAME) or a run (JOB:NUMBER, JOB:-1 for the one before the newest, or its identifier) in full."""
    from rota.model.records import Run
    from rota.operations.jobs import job_view
    from rota.operations.runs import find_any, run_view

    with invocation.store() as (_, store):
        found = store.read(lambda db: find_any(db, name))
        if isinstance(found, Run):
            run = found
            _show_run(invocation, store.read(lambda db: run_view(db, run)))
        else:
            job = found
            _show_job(invocation, store, store.read(lambda db: job_view(db, job)))


def _show_job(invocation: Invocation, store: "Store", view: "JobView") -> None:
    from rota.model.codec import encode
    from rota.operations.views import job_json
    from rota.store import jobs

    state = store.read(lambda db: jobs.job_state(db, view.job.id))
    if invocation.as_json:
        print_json({**job_json(view), "spec": _without_values(encode(view.job.spec)), "data": state})
        return
    now = invocation.now()
    click.echo(f"{view.job.name}  {view.state}")
    print_pairs(_job_pairs(view, state, now))


def _job_pairs(view: "JobView", state: dict[str, Any], now: datetime) -> Pairs:
    from rota.cli.words import outcome_words, plain, ticks
    from rota.rules.explain import next_fire
    from rota.rules.instants import explain_schedule
    from rota.rules.times import full_time

    job, tz = view.job, view.job.spec.schedule.timezone
    if job.spec.description:
        yield "about", plain(job.spec.description)
    yield "schedule", explain_schedule(job.spec.schedule)
    yield "next", next_fire(job, now=now, unfinished=view.unfinished).removeprefix("next ")
    yield from spec_pairs(job.spec)
    if state:
        yield "data", plain(json.dumps(state, ensure_ascii=False))
    yield "source", f"{job.source}, version {job.version} since {full_time(job.updated_at, tz, now=now)}"
    for run in view.unfinished:
        yield "unfinished", f"{run.handle}  {outcome_words(run, now=now)}"
    if view.last:
        yield "last 10", ticks(view.last)
    for run in view.last[:3]:
        yield "run", f"{run.handle}  {outcome_words(run, now=now)}  {full_time(run.nominal, tz, now=now, seconds=True)}"


def spec_pairs(spec: "JobSpec") -> Pairs:
    """Yield what a job does and under which policies, in the words of the file."""
    from rota.model.durations import say_duration, write_duration

    work, gates = spec.work, spec.gates
    yield work.kind.value, work_words(spec)
    yield "folder", work.cwd
    if work.params:
        yield "params", json.dumps(dict(work.params), ensure_ascii=False)
    names = [*(variable.name for variable in work.env), *work.env_pass, *([work.env_file] if work.env_file else [])]
    if names:
        yield "environment", " ".join(names)
    yield "timeout", say_duration(work.timeout) if work.timeout else "never"
    if gates.conditions:
        yield "conditions", f"{', '.join(one.title for one in gates.conditions)}; when false: {gates.when_false}"
    age = f", at most {write_duration(spec.misfire.max_age)} late" if spec.misfire.max_age else ""
    yield "misfire", f"{spec.misfire.policy}{age}"
    yield "overlap", spec.overlap.policy.value
    if spec.labels:
        yield "labels", ", ".join(spec.labels)
    if spec.priority:
        yield "priority", str(spec.priority)


def work_words(spec: "JobSpec") -> str:
    """Return the work itself on one line."""
    import shlex

    from rota.cli.words import plain

    work = spec.work
    return plain(shlex.join(work.command) if work.command else work.shell or work.function)


def _show_run(invocation: Invocation, view: "RunView") -> None:
    from rota.operations.views import run_json, whole_run_json

    if invocation.as_json:
        print_json({**run_json(view.run), **whole_run_json(view)})
        return
    from rota.cli.words import coloured, outcome_words

    run, now = view.run, invocation.now()
    click.echo(f"{run.handle}  {coloured(run.status, outcome_words(run, now=now))}")
    print_pairs(_run_pairs(view, now))


def _run_pairs(view: "RunView", now: datetime) -> Pairs:
    from rota.rules.times import full_time

    run, tz = view.run, view.spec.schedule.timezone

    def when(at: datetime | None) -> str:
        return f"{full_time(at, tz, now=now, seconds=True)} ({tz})" if at else "–"

    yield "id", run.id
    yield "trigger", run.trigger.value + (", forced" if run.forced else "")
    if run.scheduled_for:
        yield "due", when(run.scheduled_for)
    if run.covers_to and run.covers_to != run.scheduled_for:
        yield "to", f"{when(run.covers_to)}, {run.count or 'more than 10,000'} instants"
    yield "created", when(run.created_at)
    yield "started", when(run.started_at)
    yield "finished", when(run.finished_at)
    yield from _outcome_pairs(view, now)
    yield view.spec.work.kind.value, work_words(view.spec)
    yield "definition", f"version {run.version}" + ("" if run.version == view.job.version else " (changed since)")
    if view.execution is not None:
        yield "process", f"pid {view.execution.pid}, slot {view.execution.slot}, epoch {view.execution.epoch}"
    yield "more", f"rota explain {run.handle} · rota logs {run.handle}"


def _outcome_pairs(view: "RunView", now: datetime) -> Pairs:
    from rota.cli.words import plain, took

    run = view.run
    if run.started_at:
        yield "took", took(run, now=now)
    if run.exit_code is not None:
        yield "exit code", str(run.exit_code)
    if run.error:
        yield "error", plain(run.error)
    if run.result_summary:
        yield "summary", plain(run.result_summary)
    if run.params:
        yield "params", plain(json.dumps(dict(run.params), ensure_ascii=False))


def print_pairs(pairs: Pairs) -> None:
    """Print labelled lines under a heading."""
    for label, text in pairs:
        click.echo(f"  {label:12} {text}")


def _without_values(spec: dict[str, Any]) -> dict[str, Any]:
    """Leave the values of `env` out: they may be private."""
    spec["work"]["env"] = [variable["name"] for variable in spec["work"]["env"]]
    return spec
