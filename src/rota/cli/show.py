"""`rota show`: one job or run in full."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.model.spec import AgentWork, JobSpec
    from rota.operations.direct import DirectView
    from rota.operations.groups import GroupView
    from rota.operations.jobs import JobView
    from rota.operations.runs import RunView
    from rota.store.driver import Store

Pairs = Iterable[tuple[str, str]]


@click.command("show", cls=RotaCommand)
@click.argument("name")
@click.pass_obj
def command(invocation: Invocation, *, name: str) -> None:
    """Show a job (NAME) or a run (JOB:NUMBER, JOB:-1 for the one before the newest, or its identifier) in full.

    A direct call is shown by its identifier.
    """
    from rota.model.ids import is_id
    from rota.model.records import Run
    from rota.operations.direct import direct_view
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
    from rota.rules.explain import next_fire
    from rota.rules.instants import explain_schedule
    from rota.rules.making_words import say_made
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


def spec_pairs(spec: "JobSpec") -> Pairs:
    """Yield what a job does and under which policies, in the words of the file."""
    from rota.model.durations import say_duration, write_duration
    from rota.model.spec import Kind
    from rota.rules.budget_words import say_spend
    from rota.rules.pool_words import say_draws
    from rota.rules.retry import say_retry

    work, gates = spec.work, spec.gates
    yield from _work_pairs(spec)
    if work.params:
        yield "params", json.dumps(dict(work.params), ensure_ascii=False)
    names = [*(variable.name for variable in work.env), *work.env_pass, *([work.env_file] if work.env_file else [])]
    if names:
        yield "environment", " ".join(names)
    if work.kind is not Kind.GROUP:
        yield "timeout", say_duration(work.timeout) if work.timeout else "never"
    if gates.conditions:
        yield "conditions", f"{', '.join(one.title for one in gates.conditions)}; when false: {gates.when_false}"
    if work.kind is not Kind.GROUP:
        yield "retry", say_retry(spec.retry)
    if spec.on_repeated_failure:
        most = write_duration(spec.on_repeated_failure.backoff_max)
        yield "held back", f"after {spec.on_repeated_failure.after} failures in a row, {most} at most"
    age = f", at most {write_duration(spec.misfire.max_age)} late" if spec.misfire.max_age else ""
    yield "misfire", f"{spec.misfire.policy}{age}"
    yield "overlap", spec.overlap.policy.value
    if spec.pools:
        yield "pools", say_draws(spec.pools)
    if spec.budgets:
        yield "budget", ", ".join(say_spend(spend) for spend in spec.budgets)
    if spec.labels:
        yield "labels", ", ".join(spec.labels)
    if spec.priority:
        yield "priority", str(spec.priority)


def _work_pairs(spec: "JobSpec") -> Pairs:
    from rota.cli.words import plain
    from rota.model.spec import Kind
    from rota.rules.brief_words import say_brief

    yield spec.work.kind.value, work_words(spec)
    if spec.work.kind is not Kind.GROUP:
        yield "folder", spec.work.cwd
    if spec.work.agent is not None:
        yield from ((label, plain(text)) for label, text in say_brief(spec.work.agent))


def work_words(spec: "JobSpec") -> str:
    """Return the work itself on one line."""
    import shlex

    from rota.cli.words import plain

    work = spec.work
    if work.members:
        listed = [f"{member.job}{' (always)' * member.always}" for member in work.members]
        joint = " → " if work.mode == "sequential" else " | "
        return f"{joint.join(listed)}  ({work.mode}, on_failure: {work.on_failure})"
    if work.agent is not None:
        return plain(_agent_words(work.agent))
    return plain(shlex.join(work.command) if work.command else work.shell or work.function or work.url)


def _agent_words(work: "AgentWork") -> str:
    """Return who is asked, with which access, and the beginning of what."""
    from rota.model.records import cut

    model = f", {work.model}" if work.model else ""
    name = work.agent if work.agent == work.adapter else f"{work.agent} ({work.adapter})"
    asked = work.prompt_file or cut(" ".join(work.prompt.split()), 80) or "the default task"
    return f"{name}{model}, access {work.access}: {asked}"


def _show_run(invocation: Invocation, store: "Store", view: "RunView") -> None:
    from rota.operations.groups import group_around, group_json
    from rota.operations.views import run_json, whole_run_json

    group = store.read(lambda db: group_around(db, view.run))
    if invocation.as_json:
        print_json({**run_json(view.run), **whole_run_json(view), "group": group_json(group) if group else None})
        return
    from rota.cli.words import colour_of, outcome_words

    run, now = view.run, invocation.now()
    click.echo(f"{run.handle}  {click.style(outcome_words(run, now=now), fg=colour_of(run))}")
    print_pairs(_run_pairs(view, now))
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
    yield from _chain_pairs(view, when)
    yield "created", when(run.created_at)
    yield "started", when(run.started_at)
    yield "finished", when(run.finished_at)
    yield from _outcome_pairs(view, now)
    yield from _told_pairs(view)
    yield view.spec.work.kind.value, work_words(view.spec)
    yield "definition", f"version {run.version}" + ("" if run.version == view.job.version else " (changed since)")
    if view.execution is not None:
        yield "process", f"pid {view.execution.pid}, slot {view.execution.slot}, epoch {view.execution.epoch}"
    yield "more", f"rota explain {run.handle} · rota logs {run.handle}"


def _chain_pairs(view: "RunView", when: Callable[[datetime | None], str]) -> Pairs:
    from rota.rules.retry_words import say_attempt

    run, chain = view.run, view.chain
    if run.attempt > 1 or len(chain) > 1:
        first, *retries = [one.handle for one in chain]
        handles = [first, *(handle.removeprefix(run.job) for handle in retries)]
        yield "attempt", say_attempt(run, view.spec).removeprefix("attempt ")
        yield "chain", " → ".join(handles)
    pending = chain[-1] if chain else run
    if pending.not_before is not None:
        yield "next try", when(pending.not_before)


def _outcome_pairs(view: "RunView", now: datetime) -> Pairs:
    from rota.cli.words import plain, took
    from rota.model.holds import provider_pool
    from rota.rules.brief_words import say_workspace
    from rota.rules.budget_words import say_usage
    from rota.rules.hold_words import say_hold
    from rota.rules.work_words import say_work

    run = view.run
    if view.hold is not None:
        pool, tz = provider_pool(view.hold.provider), view.spec.schedule.timezone
        yield "held", say_hold(pool, view.hold.until, zone=tz, now=now)
    source = view.spec.work.agent.source if view.spec.work.agent else None
    if source is not None and (worked := say_work(run, source, view.work, tz=view.spec.schedule.timezone)):
        yield "work", plain(worked)
    if run.started_at:
        yield "took", took(run, now=now)
    if run.exit_code is not None:
        yield "exit code", str(run.exit_code)
    if run.error:
        yield "error", plain(run.error)
    if run.result_summary:
        yield "summary", plain(run.result_summary)
    if run.usage:
        yield "used", plain(say_usage(run.usage))
    if run.denied_tools:
        yield "denied", plain(", ".join(run.denied_tools))
    if run.session_id:
        resumed = " (gone on with)" if run.decisions.get("session") == run.session_id else ""
        yield "session", plain(run.session_id) + resumed
    if (place := say_workspace(run, view.worktree)) is not None:
        yield "workspace", plain(place)
    if run.params:
        yield "params", plain(json.dumps(dict(run.params), ensure_ascii=False))


def _told_pairs(view: "RunView") -> Pairs:
    """Yield who was told of what: a state beside that of the run, never in it (DEC-009)."""
    from rota.cli.words import plain

    for one in view.deliveries:
        tries = f", {one.attempts} tries" if one.attempts > 1 else ""
        error = f": {plain(one.error)}" if one.error and one.finished_at else ""
        yield "told", f"{plain(one.target)} of {one.event}: {one.status}{tries}{error}"


def _show_call(invocation: Invocation, store: "Store", view: "DirectView") -> None:
    from rota.cli.words import coloured
    from rota.operations.direct import direct_json

    if invocation.as_json:
        print_json(direct_json(view))
        return
    reason = f" {view.reason}" if view.reason else ""
    click.echo(f"{view.name}  direct call  {coloured(view.status)}{reason}")
    print_pairs(_call_pairs(view, store, now=invocation.now()))


def _call_pairs(view: "DirectView", store: "Store", *, now: datetime) -> Pairs:
    from rota.cli.words import plain
    from rota.operations.direct import direct_spec
    from rota.operations.jobs import project_timezone
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


def print_pairs(pairs: Pairs) -> None:
    """Print labelled lines under a heading."""
    for label, text in pairs:
        click.echo(f"  {label:12} {text}")
