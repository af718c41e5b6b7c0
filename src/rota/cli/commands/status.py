"""`rota status`, `ack` and `touch`."""

import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.output import Column, print_table
from rota.cli.overview import terminal_width
from rota.model.amounts import and_more, counted, listed
from rota.model.clock import say_duration
from rota.model.errors import DatabaseBusy, DatabaseGone, DatabaseReadOnly, StateError
from rota.model.records import cut
from rota.model.store_url import shown
from rota.rules.budgets import say_amount, say_this, say_used
from rota.text.ansi import plain
from rota.text.format import ago, day_time, roughly
from rota.text.jobs import say_abandoned, say_provider_hold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.model.records import Run
    from rota.operations.activity import CadenceView, PollView
    from rota.operations.capacity import HoldView
    from rota.operations.direct_calls import DirectCallsView
    from rota.operations.project.locate import ProjectPaths
    from rota.operations.status.attention import AttentionItem
    from rota.operations.status.heartbeat import Heartbeat
    from rota.operations.status.status import SystemView
    from rota.operations.status.summary import SchedulerSummary
    from rota.store.driver import Store


MAX_NAMES = 5
WIDTH = 1000
WHY = 100
WAITING = (
    "results are kept in memory and stored when the database is back; missed instants follow the `misfire` of each job"
)
LEAST = 16


@click.command("status", cls=RotaCommand)
@click.option("--strict", is_flag=True, help="Also exit 1 if any problem needs attention.")
@click.option("--loops", is_flag=True, help="Also show the scheduler loops: rounds, last round, errors.")
@click.option(
    "--poll", is_flag=True, help="Print only counts, mode and the next poll time; for programs that poll often."
)
@click.option("--worker", metavar="ID", help="With --poll: also report whether this worker (id or name) is registered.")
@click.pass_obj
def status_command(invocation: Invocation, *, strict: bool, loops: bool, poll: bool, worker: str | None) -> int:
    """Show scheduler health, problems that need attention, running runs and next fires.

    Exit codes: 0 alive, or ticks are regular; 1 dead, stalled, stopping, or unable to start runs; with --strict also 1
    if any problem needs attention.
    """
    if poll and (strict or loops):
        raise click.UsageError(f"--poll and {'--strict' if strict else '--loops'} cannot be combined")
    if worker is not None and not poll:
        raise click.UsageError("--worker belongs to --poll")
    return _poll_summary(invocation, worker) if poll else _status(invocation, strict=strict, loops=loops)


def _poll_summary(invocation: Invocation, worker: str | None) -> int:
    from rota.operations.status.summary import summarise, summary_json

    now = invocation.now()
    with invocation.store() as (place, store):
        summary, zone = summarise(store, place.state, now=now, worker=worker), invocation.zone(store)
    if invocation.as_json:
        print_json(summary_json(summary))
    else:
        invocation.tell_whole()
        for line in summary_lines(summary, zone, now=now):
            click.echo(line)
    return 0 if summary.heartbeat.alive else 1


def _status(invocation: Invocation, *, strict: bool, loops: bool) -> int:
    from rota.operations.status.heartbeat import heartbeat
    from rota.operations.status.status import SystemView, look, system_json

    place = invocation.place()
    beat = heartbeat(place.state)
    view, zone, applied = SystemView(beat), "UTC", False
    try:
        if applied := invocation.applied():
            with invocation.store() as (_, store):
                view, zone = look(store, beat, now=invocation.now(), scope=place.scope), invocation.zone(store)
    except StateError as error:
        if not beat.answer or isinstance(error, DatabaseBusy | DatabaseReadOnly):
            raise
        after = WAITING if isinstance(error, DatabaseGone) else error.hint
        return _tell_closed(invocation, view, error, after=after)
    if invocation.as_json:
        print_json({**_place_json(place), "applied": applied, **system_json(view, now=invocation.now())})
    else:
        _show(invocation, view, zone=zone, applied=applied)
        if loops:
            _show_loops(view, zone, now=invocation.now())
    return 0 if view.heartbeat.alive and not (strict and view.attention) else 1


def _place_json(place: "ProjectPaths") -> dict[str, str]:
    return {"project": str(place.folder), "scope": place.scope, "store": shown(place.store)}


def _show(invocation: Invocation, view: "SystemView", *, zone: str, applied: bool) -> None:
    place = invocation.place()
    invocation.tell_scope()
    click.echo(f"{place.nearest.name}    {_head(view, zone, start=invocation.spelled('serve'), now=invocation.now())}")
    for line in _lines(view, zone, now=invocation.now()):
        click.echo(line)
    if place.shared:
        click.echo(f"store     {shown(place.store)}")
    if not applied:
        click.echo("nothing is applied yet; `rota serve` applies rota.yaml and runs its jobs")


def _tell_closed(invocation: Invocation, view: "SystemView", error: "StateError", *, after: str) -> int:
    """Print that a scheduler is alive but its database is gone or unreadable."""
    from rota.operations.status.heartbeat import Liveness
    from rota.operations.status.status import system_json

    place, answer = invocation.place(), view.heartbeat.answer
    problem = str(answer.get("storage_problem") or error.message)
    if view.heartbeat.liveness is Liveness.FAILING and not answer.get("gone"):
        problem = error.message  # the head tells why nothing starts
    if invocation.as_json:
        told = {**system_json(view, now=invocation.now()), "storage_problem": problem}
        print_json({**_place_json(place), **told})
        return 1
    click.echo(f"{place.nearest.name}    {_head(view, 'UTC', start=invocation.spelled('serve'), now=invocation.now())}")
    click.echo(f"{click.style('store', fg='red')}     {problem}")
    click.echo(after)
    return 1


def _lines(view: "SystemView", zone: str, *, now: datetime) -> Iterator[str]:
    yield from _attention(view)
    yield from _pauses(view, zone, now=now)
    if view.cadence is not None and view.cadence.project.adaptive:
        yield f"mode      {_mode(view.cadence, zone, now=now)}"
    if view.cadence is not None and view.cadence.poll is not None:
        yield f"poll      {_poll(view.cadence.poll, now=now)}"
    if view.heartbeat.workers:
        yield f"workers   {_workers(view.heartbeat)}"
    yield f"running   {_running(view, now=now)}"
    if view.abandoned:
        yield f"{click.style('abandoned', fg='yellow')} {_abandoned(view, now=now)}"
    if view.direct.waiting or view.direct.running:
        yield f"direct    {direct_words(view.direct)}"
    yield f"queue     {_queue(view, zone, now=now)}"
    for hold in view.holds:
        yield f"{click.style('held', fg='yellow')}      {_hold(hold, zone, now=now)}"
    if view.pools:
        yield f"pools     {_pools(view)}"
    if view.budgets:
        yield f"spent     {_spent(view)}"
    if view.overdue:
        due = " · ".join(f"{fire.job} since {day_time(fire.at, zone, now=now)}" for fire in view.overdue)
        yield f"{click.style('overdue', fg='yellow')}   {due}   ({zone})"
    yield f"next      {_next(view, zone, now=now)}"


def _attention(view: "SystemView") -> Iterator[str]:
    """Print problems, one per line, then the acknowledged ones."""
    columns = terminal_width() if sys.stdout.isatty() else WIDTH
    if view.attention:
        yield click.style("attention", bold=True)
        width = max(len(attention.name) for attention in view.attention[:MAX_NAMES])
        for attention in view.attention[:MAX_NAMES]:
            room = columns - width - len(attention.command) - 7
            yield f"  {attention.name:{width}}  {cut(plain(attention.what), max(room, LEAST))}   {attention.command}"
        if len(view.attention) > MAX_NAMES:
            yield f"  and {len(view.attention) - MAX_NAMES} more   rota ack"
    if view.seen:
        names = ", ".join(dict.fromkeys(need.attention.name for need in view.seen[:MAX_NAMES]))
        yield f"seen      {len(view.seen)} acknowledged: {names}{' …' if len(view.seen) > MAX_NAMES else ''}   rota ack"


def _pauses(view: "SystemView", zone: str, *, now: datetime) -> Iterator[str]:
    """Print the pauses: everything, then single jobs."""
    everything, each = view.pauses.everything, view.pauses.jobs
    if everything is None and not each:
        return
    from rota.operations.text import everything_words, jobs_paused_words

    title = click.style("paused", fg="yellow")
    if everything is not None:
        yield f"{title}    {everything_words(everything, zone=zone, now=now)}"
        each = tuple(pause for pause in each if (pause.until, pause.reason) != (everything.until, everything.reason))
    if each:
        yield f"{title}    {jobs_paused_words(each, zone=zone, now=now)}"


def _head(view: "SystemView", zone: str, *, start: str, now: datetime) -> str:
    from rota.operations.status.heartbeat import Liveness

    beat = view.heartbeat
    if beat.ticks is not None:
        return _ticks(beat, now=now)
    if beat.liveness is Liveness.DEAD:
        return click.style("no scheduler is running", fg="red") + f"; start one with `{start}`"
    if beat.liveness is Liveness.ELSEWHERE:
        return _elsewhere(beat)
    if beat.liveness is Liveness.STALLED:
        told = f"scheduler stalled: pid {beat.pid} holds the lock but did not answer within 1 s"
        return click.style(told, fg="red")
    if beat.liveness is Liveness.STOPPING:
        stopping = click.style("scheduler stopping", fg="yellow")
        return f"{stopping} (pid {beat.pid}) · {_stop(beat.answer, zone, now=now)}"
    up = ago(datetime.fromisoformat(beat.answer["started_at"]), now)
    last = f", last round {ago(beat.last_round, now)} ago" if beat.last_round else ""
    taken, slots = beat.answer["slots_taken"], beat.answer["concurrency"]
    off = "" if beat.answer["enabled"] else click.style(" · switched off by `scheduler.enabled: false`", fg="yellow")
    running = click.style("worker running" if beat.answer.get("kind") == "worker" else "scheduler running", fg="green")
    if beat.liveness is Liveness.FAILING:
        failing = beat.answer["failing"]
        told = f"scheduler failing (pid {beat.pid}, up {up}): {failing['stage']} fails, nothing starts: "
        return click.style(told + plain(failing["error"]), fg="red")
    return f"{running} (pid {beat.pid}, up {up}{last}) · {taken} of {counted(slots, 'slot')} taken{off}"


def _stop(answer: Mapping[str, Any], zone: str, *, now: datetime) -> str:
    """Return what a stopping scheduler waits for: `waits for 2 runs, until 12:30:15`."""
    stop = answer["stopping"]
    told = [counted(stop[key], word) for key, word in (("running", "run"), ("direct", "direct call")) if stop[key]]
    if not told:
        return "all runs have ended"
    what = " and ".join(told) + (f" ({counted(stop['unstored'], 'result')} not stored yet)" if stop["unstored"] else "")
    if stop["ending"]:
        return f"ends {what}"
    at = datetime.fromisoformat(stop["until"]) if stop["until"] else None
    return f"waits for {what}" + (f", until {day_time(at, zone, now=now, seconds=True)} at the latest" if at else "")


def _workers(beat: "Heartbeat") -> str:
    """Return the workers that share the store: alive, dead, drained."""
    told = []
    for presence, colour in (("alive", None), ("draining", "yellow"), ("gone", "red")):
        names = [worker.worker.called for worker in beat.workers if worker.presence == presence]
        shown = f"{', '.join(names[:MAX_NAMES])}{' …' if len(names) > MAX_NAMES else ''}"
        if names:
            told.append(click.style(f"{len(names)} {presence}: {shown}", fg=colour))
    return f"{' · '.join(told)} · {beat.slots_taken} of {counted(beat.slots, 'slot')} taken"


def _elsewhere(beat: "Heartbeat") -> str:
    """Return the other machines; none of them is this folder's scheduler."""
    there = [worker.worker.called for worker in beat.workers if worker.claims]
    running = click.style("schedulers running elsewhere", fg="green")
    return f"{running} ({listed(there, MAX_NAMES)}) · {beat.slots_taken} of {counted(beat.slots, 'slot')} taken"


def _mode(view: "CadenceView", zone: str, *, now: datetime) -> str:
    activity, project = view.activity, view.project
    quiet = f"quiet hours until {day_time(project.quiet_until, zone, now=now)}, " if project.quiet_until else ""
    last = f"{ago(activity.at, now)} ago: {activity.what}" if activity else "never"
    jobs = f"{counted(project.apart, 'job')} dormant by own quiet hours"
    return f"{project.mode} ({quiet}last activity {last})" + (f"; {jobs}" if project.apart else "")


def _poll(view: "PollView", *, now: datetime) -> str:
    """Return interval and last result of the poll: `every 15 s, last 200 OK 4 s ago`."""
    often = f"every {say_duration(view.interval)}" if view.interval else "only when a run needs it"
    waiting = f", {view.waiting} waiting for it" if view.waiting else ""
    if view.last is None:
        return f"{often}, none yet{waiting}"
    told = plain(view.last.detail) if view.last.ok else click.style(f"failed: {plain(view.last.detail)}", fg="red")
    return f"{often}, last {told} {ago(view.last.at, now)} ago{waiting}"


def _ticks(beat: "Heartbeat", *, now: datetime) -> str:
    """Return the last tick: `ticks: last 8 s ago, usually every 10 s · 1 of 16 slots taken`."""
    ticks = beat.ticks
    assert ticks is not None
    assert ticks.last is not None
    told = f"last {ago(ticks.last, now)} ago, usually every {roughly(ticks.usual)}"
    if not beat.alive:
        return (
            click.style(f"ticks have stopped: {told}", fg="red")
            + "; check the timer or crontab that starts `rota tick`"
        )
    taken, slots = beat.answer["slots_taken"], beat.answer["concurrency"]
    return f"{click.style('ticks', fg='green')}: {told} · {taken} of {counted(slots, 'slot')} taken"


def _running(view: "SystemView", *, now: datetime) -> str:
    from rota.operations.text import took

    if not view.running:
        return "none"
    told = [f"{run.handle} {took(run, now=now)}".strip() for run in view.running[:MAX_NAMES]]
    return " · ".join(told) + and_more(view.running, MAX_NAMES)


def _abandoned(view: "SystemView", *, now: datetime) -> str:
    told = [f"{one.handle} {say_abandoned(one, now=now)}" for one in view.abandoned[:MAX_NAMES]]
    return " · ".join(told) + and_more(view.abandoned, MAX_NAMES)


def direct_words(calls: "DirectCallsView") -> str:
    """Return the direct calls in a few words: `2 waiting, 1 running (extract, pid 4121)`."""
    parts = [f"{len(calls.waiting)} waiting"] if calls.waiting else []
    if calls.running:
        named = ", ".join(f"{view.name}, pid {(view.process or view.caller).pid}" for view in calls.running[:MAX_NAMES])
        more = ", …" if len(calls.running) > MAX_NAMES else ""
        parts.append(f"{len(calls.running)} running ({named}{more})")
    return ", ".join(parts)


def _hold(view: "HoldView", zone: str, *, now: datetime) -> str:
    """Return a provider hold: `provider anthropic held until 11:00, 1 waiting: usage limit reached (fix:8)`."""
    hold = view.hold
    by = f" ({view.run})" if view.run else ""
    why = f"{cut(plain(hold.why), WHY)}{by}   rota agents release {hold.provider}"
    held = say_provider_hold(hold, zone=zone, now=now)
    return f"{held}, {view.waiting} waiting: {why}"


def _waits(view: "SystemView", run: "Run", zone: str, *, now: datetime) -> str:
    hold = view.held.get(run.id)
    if hold is not None and hold.until is not None:
        return f" (provider hold until {day_time(hold.until, zone, now=now)})"
    return f" (waits for {run.waiting_for})" if run.waiting_for else ""


def _queue(view: "SystemView", zone: str, *, now: datetime) -> str:
    if not view.queued:
        return "empty"
    told = [f"{run.handle}{_waits(view, run, zone, now=now)}" for run in view.queued[:3]]
    more = ", …" if len(view.queued) > 3 else ""
    return f"{len(view.queued)} waiting: {', '.join(told)}{more}"


def _pools(view: "SystemView") -> str:
    told = []
    for pool in view.pools:
        holders = f" ({', '.join(pool.holders)})" if pool.holders else ""
        told.append(f"{pool.pool.name} {pool.pool.used:,} of {pool.pool.capacity:,}{holders}")
    return " · ".join(told)


def _spent(view: "SystemView") -> str:
    """Return used budgets: `today $1.92 of $10.00 (claude-day)`, and exhausted ones."""
    told = []
    for account_view in view.budgets[:MAX_NAMES]:
        account = account_view.account
        over = (
            click.style(f", {say_amount(account_view.over, account.unit)} above it", fg="red")
            if account_view.over
            else ""
        )
        waiting = click.style(f", {len(account_view.waiting)} waiting", fg="yellow") if account_view.waiting else ""
        used = say_used(account_view.settled, account.limit, account.unit)
        told.append(f"{say_this(account.per)} {used}{over} ({account.name}{waiting})")
    return " · ".join(told) + and_more(view.budgets, MAX_NAMES)


def _next(view: "SystemView", zone: str, *, now: datetime) -> str:
    if not view.heartbeat.fires:
        return "nothing: the scheduler is stopping"
    if not view.next:
        return "nothing" if view.overdue else "nothing is due"
    near = timedelta(minutes=2)
    told = [f"{day_time(fire.at, zone, now=now, seconds=fire.at - now < near)} {fire.job}" for fire in view.next]
    return " · ".join(told) + f"   ({zone})"


def _show_loops(view: "SystemView", zone: str, *, now: datetime) -> None:
    rows = [
        [
            loop["name"],
            f"{loop['rounds']:,}",
            day_time(datetime.fromisoformat(loop["last_at"]), zone, now=now, seconds=True) if loop["last_at"] else "–",
            loop["error"] or "",
        ]
        for loop in view.heartbeat.answer.get("loops", [])
    ]
    if rows:
        print_table(("LOOP", "ROUNDS", "LAST ROUND", Column("ERROR", flexible=True)), rows)


ORDER = ("incoming", "claimed", "provisional", "done", "failed", "skipped", "cancelled")


def summary_lines(found: "SchedulerSummary", zone: str, *, now: datetime) -> Iterator[str]:
    """Return the summary in a few lines."""
    from rota.operations.status.summary import summary_json

    told = summary_json(found)
    yield f"queue     {_counts(told['queue_counts'])}"
    yield f"claimable {'yes' if found.claimable else 'no'}"
    for worker, counts in zip(found.workers, (one["counts"] for one in told["workers"]), strict=True):
        registered = "registered" if worker.registered else "not registered"
        yield f"worker    {worker.name} ({worker.id}), {registered}: {_counts(counts)}"
    if found.registered is False:
        yield "          the worker that you named is not registered"
    yield f"mode      {found.mode}"
    due = day_time(found.next_due_at, zone, now=now, seconds=True) + f"   ({zone})" if found.next_due_at else "nothing"
    yield f"next due  {due}"
    yield f"poll again in {found.suggested_poll_seconds} s"


def _counts(counts: Mapping[str, Any]) -> str:
    return " · ".join(f"{name} {counts[name]:,}" for name in ORDER if name in counts)


@click.command("ack", cls=RotaCommand)
@click.argument("what", metavar="[WHAT…]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Acknowledge all current problems.")
@click.option("--undo", is_flag=True, help="Remove the acknowledgement.")
@dry_run_option
@click.pass_obj
def ack_command(invocation: Invocation, *, what: tuple[str, ...], everything: bool, undo: bool, dry_run: bool) -> None:
    """Acknowledge a problem: WHAT is a job, a run or another name that `rota status` shows.

    The problem stays hidden, here and on the dashboard, until something new happens, such as the next failure.
    Without WHAT, list current and acknowledged problems.
    """
    if what and everything:
        raise click.UsageError("give names or --all, not both")
    if undo and not what and not everything:
        raise click.UsageError("--undo needs a name, or --all")
    with invocation.store() as (place, store):
        needs = _needs(invocation, place, store)
        if what or everything:
            _change(invocation, store, needs, what=what, undo=undo, dry_run=dry_run)
        else:
            _list(invocation, needs)


def _needs(invocation: Invocation, place: "ProjectPaths", store: "Store") -> "tuple[AttentionItem, ...]":
    from rota.operations.status.heartbeat import heartbeat
    from rota.operations.status.status import needs_of

    beat, zone = heartbeat(place.state), invocation.zone(store)
    return needs_of(store, beat=beat, zone=zone, now=invocation.now(), scope=place.scope)


def _change(
    invocation: Invocation,
    store: "Store",
    needs: "Sequence[AttentionItem]",
    *,
    what: tuple[str, ...],
    undo: bool,
    dry_run: bool,
) -> None:
    from rota.operations.admin.audit import person
    from rota.operations.status.attention import acknowledge, chosen_among, need_json, point_out

    scope = invocation.place().scope
    known = {name for attention in needs for name in (attention.attention.name, attention.attention.subject)}
    names = [f"{scope}/{name}" if scope and f"{scope}/{name}" in known else name for name in what]
    chosen = [
        attention
        for attention in chosen_among(needs, names, everything=not what)
        if (attention.seen is not None) == undo
    ]
    if chosen and not dry_run and undo:
        point_out(store, [attention.attention.topic for attention in chosen])
    elif chosen and not dry_run:
        chosen = list(acknowledge(store, chosen, needs=needs, actor=person(), now=invocation.now()))
    if invocation.as_json:
        print_json({"items": [need_json(attention) for attention in chosen], "dry_run": dry_run})
        return
    for attention in chosen:
        click.echo(_told(attention, undo=undo, dry_run=dry_run))
    if not chosen:
        click.echo(f"nothing to change: {'none was' if undo else 'all were already'} acknowledged")


def _told(need: "AttentionItem", *, undo: bool, dry_run: bool) -> str:
    would = "would be" if dry_run else "is"
    done = "shown again" if undo else "acknowledged until something new happens"
    return f"{need.attention.name} {would} {done} ({need.attention.kind}: {plain(need.attention.what)})"


def _list(invocation: Invocation, needs: "Sequence[AttentionItem]") -> None:
    from rota.operations.status.attention import need_json

    if invocation.listed(needs, need_json, none="nothing needs attention", scoped=True):
        return
    rows = []
    for attention in needs:
        seen = f"{ago(attention.seen.at, invocation.now())} ago by {attention.seen.actor}" if attention.seen else ""
        rows.append([attention.attention.name, attention.attention.kind, seen, plain(attention.attention.what)])
    print_table(("NAME", "KIND", "ACKNOWLEDGED", Column("WHAT", flexible=True)), rows)
    click.echo("acknowledge one: rota ack NAME   undo: rota ack --undo NAME")


@click.command("touch", cls=RotaCommand)
@dry_run_option
@click.pass_obj
def touch_command(invocation: Invocation, *, dry_run: bool) -> None:
    """Report activity: jobs with intervals by mode become active at once."""
    from rota.operations.activity import current_mode, touch

    now = invocation.now()
    with invocation.store() as (_, store):
        before = current_mode(store, now=now)
        if not dry_run:
            touch(store, now=now)
            invocation.wake()
        after = current_mode(store, now=now)
    if invocation.as_json:
        print_json({"before": before, "mode": after, "dry_run": dry_run})
    elif dry_run:
        click.echo(f"mode is {before}; a touch makes it active, outside of quiet hours. Nothing was changed.")
    elif before == after:
        click.echo(f"mode stays {after}{', as it is in quiet hours' if after == 'dormant' else ''}")
    else:
        click.echo(f"mode {before} → {after}")
