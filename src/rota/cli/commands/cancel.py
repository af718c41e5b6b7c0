"""`rota cancel`, `retry` and `backfill`."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from rota.cli.commands.run import follow_run, force_option, param_option, read_params, start_words, tell_pause
from rota.cli.errors import NO_SCHEDULER
from rota.cli.invocation import UNCHANGED, Invocation, RotaCommand, conclude, dry_run_option, print_json, read_duration
from rota.cli.output import print_table
from rota.model.amounts import counted
from rota.model.clock import cut_to_ms
from rota.model.errors import RotaError, RunIsFinal
from rota.model.ids import is_id
from rota.model.serialize import run_json
from rota.model.states import WaitingFor
from rota.rules.admission import verdict_word
from rota.text.format import full_time, read_instant, roughly, spaced

if TYPE_CHECKING:
    from rota.model.records import Run
    from rota.operations.bulk import Backfilled, Filter, Matched, Range, Swept
    from rota.operations.direct_calls import DirectView
    from rota.operations.project.locate import ProjectPaths
    from rota.operations.run_actions import Cancelled, Retried
    from rota.store.driver import Store


POLL_SECONDS = 0.05
MAX_POLLS = 40
DATE = re.compile(r"\d{4}-\d\d-\d\d")
MAX_INSTANTS = 3


@click.command("cancel", cls=RotaCommand)
@click.argument("runs", metavar="[RUN…]", nargs=-1)
@click.option("--job", "jobs", metavar="JOB", multiple=True, help="Runs of this job. Repeatable.")
@click.option(
    "--label",
    "labels",
    metavar="L",
    multiple=True,
    help="Runs of jobs with this label. Repeatable; all labels must match.",
)
@click.option("--queued", is_flag=True, help="Only queued runs.")
@click.option("--running", is_flag=True, help="Only running runs.")
@click.option("--waiting-for", metavar="W", help="Only queued runs blocked by this: backoff, condition, predecessor …")
@click.option("--older-than", metavar="D", help="Only runs created longer ago than this: 30m, 2h, 1d.")
@click.option("--all", "everything", is_flag=True, help="Runs of all jobs.")
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
@dry_run_option
@click.pass_obj
def cancel_command(
    invocation: Invocation, /, *, runs: tuple[str, ...], everything: bool, yes: bool, dry_run: bool, **chosen: Any
) -> int | None:
    """Cancel RUNs (JOB:NUMBER; JOB means its newest unfinished run). Queued runs end at once, running ones are stopped.

    Without a RUN, cancel all unfinished runs that match the options, after a confirmation prompt.
    """
    filtered = everything or any(chosen.values())
    if bool(runs) == filtered:
        raise click.UsageError(
            "name runs, or options that select them" if not runs else "give runs or filters, not both"
        )
    if filtered:
        if not chosen["jobs"]:
            chosen["labels"] = invocation.labels(chosen["labels"])
        return sweep(invocation, _filter(**chosen), yes=yes, dry_run=dry_run)
    _cancel_each(invocation, runs, dry_run=dry_run)
    return None


def _filter(
    *,
    jobs: tuple[str, ...],
    labels: tuple[str, ...],
    queued: bool,
    running: bool,
    waiting_for: str | None,
    older_than: str | None,
) -> "Filter":
    from rota.operations.bulk import Filter

    if waiting_for is not None and (running or waiting_for not in set(WaitingFor)):
        raise click.UsageError(f"--waiting-for is for queued runs, one of {', '.join(WaitingFor)}")
    return Filter(
        jobs=jobs,
        labels=labels,
        queued=queued,
        running=running,
        waiting_for=WaitingFor(waiting_for) if waiting_for else None,
        older_than=read_duration(older_than) if older_than else None,
    )


def _cancel_each(invocation: Invocation, runs: tuple[str, ...], *, dry_run: bool) -> None:
    from rota.operations.direct_calls import direct_json, direct_view

    told: list[dict[str, Any]] = []
    refused: list[RotaError] = []
    with invocation.store() as (place, store):
        for handle in runs:
            try:
                call = direct_view(store, handle) if is_id(handle) else None
                if call is not None:
                    words = _cancel_call(invocation, place, store, call, dry_run=dry_run)
                    name, shape = call.name, dict(direct_json(call))
                else:
                    run, words = _cancel(invocation, place, store, handle, dry_run=dry_run)
                    name, shape = run.handle, dict(run_json(run))
            except RotaError as error:
                refused.append(error)  # a failure does not stop the other cancellations
                continue
            told.append({**shape, "told": words})
            if not invocation.as_json:
                click.echo(f"{name}  {words}")
    conclude(invocation, told, refused, dry_run=dry_run)


def _cancel_call(
    invocation: Invocation, place: "ProjectPaths", store: "Store", call: "DirectView", *, dry_run: bool
) -> str:
    """Withdraw a waiting direct call, or stop it."""
    from rota.operations.direct_actions import withdraw

    if call.status.final:
        raise RunIsFinal(call.id, call.status)
    waits = call.started_at is None
    if dry_run:
        return "would be removed from the queue" if waits else "would be stopped"
    withdraw(store, place.state, call.id, now=invocation.now())
    return "removed from the queue, it had not started" if waits else f"is being stopped   rota show {call.id}"


def _cancel(
    invocation: Invocation, place: "ProjectPaths", store: "Store", handle: str, *, dry_run: bool
) -> tuple["Run", str]:
    from rota.operations.run_actions import cancel_run

    done = cancel_run(store, handle, now=invocation.now(), dry_run=dry_run)
    if dry_run:
        return done.run, "would be removed from the queue" if done.final else "would be stopped"
    invocation.wake()
    if done.final:
        return done.run, "CANCELLED, it had not started"
    return _stopping(invocation, place, store, done)


def _stopping(invocation: Invocation, place: "ProjectPaths", store: "Store", done: "Cancelled") -> tuple["Run", str]:
    """Wait a moment for a running run to end; without a scheduler signal its keeper."""
    from rota.operations.run_actions import stop_keeper
    from rota.operations.runs import show_run
    from rota.operations.status.heartbeat import carried, serves

    if not serves(place.state) and not carried(store, place.state, done.run):
        if stop_keeper(store, done.run):
            return done.run, "is being stopped; no scheduler is running here, the next start records its end"
        return done.run, "recorded; neither a scheduler nor the process runs here, the next start records the end"
    view = show_run(store, done.run.id)
    for _ in range(MAX_POLLS):
        if view.run.status.final:
            break
        invocation.pause(POLL_SECONDS)
        view = show_run(store, done.run.id)
    if view.run.status.final:
        return view.run, f"{view.run.status}{spaced(view.run.reason)}"
    grace = view.spec.work.term_grace.total_seconds()
    return view.run, f"is being stopped: SIGTERM sent, SIGKILL after {grace:g} s   rota show {view.run.handle}"


MAX_JOBS = 20


def sweep(invocation: Invocation, chosen: "Filter", *, yes: bool, dry_run: bool) -> int:
    """Print the runs that match, confirm, and cancel them; return the exit code."""
    from rota.operations.bulk import cancel_matching, match_runs
    from rota.operations.run_actions import stop_keeper
    from rota.operations.runs import show_run
    from rota.operations.status.heartbeat import serves

    now = invocation.now()
    with invocation.store() as (place, store):
        found = match_runs(store, chosen, now=now)
        if not invocation.as_json:
            _preview(found)
        if not found or dry_run:
            _tell(invocation, found, None, dry_run=dry_run)
            return 0
        needs = "cancelling by filter needs confirmation: pass --yes, or try --dry-run first"
        if not yes and not invocation.confirm("cancel them?", needs=needs):
            click.echo("nothing was cancelled", err=True)
            return 1
        swept = cancel_matching(store, chosen, now=now)
        invocation.wake()
        if not serves(place.state):  # the keepers stop without it
            for run_id in swept.asked:
                stop_keeper(store, show_run(store, run_id).run)
    _tell(invocation, found, swept, dry_run=False)
    return 0


def _preview(found: "Sequence[Matched]") -> None:
    if not found:
        click.echo("no unfinished run matches")
        return
    rows = [[one.job, f"{one.queued:,}", f"{one.running:,}"] for one in found[:MAX_JOBS]]
    print_table(("JOB", "QUEUED", "RUNNING"), rows)
    if len(found) > MAX_JOBS:
        click.echo(f"and of {counted(len(found) - MAX_JOBS, 'more job')}")


def _tell(invocation: Invocation, found: "Sequence[Matched]", swept: "Swept | None", *, dry_run: bool) -> None:
    if invocation.as_json:
        print_json(
            {
                "dry_run": dry_run,
                "jobs": [{"job": one.job, "queued": one.queued, "running": one.running} for one in found],
                "cancelled": swept.cancelled if swept else 0,
                "stopping": len(swept.asked) if swept else 0,
            }
        )
    elif swept is not None:
        stopping = f"; {counted(len(swept.asked), 'running run')} being stopped" if swept.asked else ""
        click.echo(f"{counted(swept.cancelled, 'queued run')} CANCELLED{stopping}")
    elif dry_run:
        click.echo(UNCHANGED)


VERDICTS = {"go": "", "after": ", behind an unfinished run", "replace": ", replacing the unfinished run"}


@click.command("retry", cls=RotaCommand)
@click.argument("runs", metavar="RUN…", nargs=-1, required=True)
@click.option("--again", is_flag=True, help="Also retry COMPLETED runs.")
@param_option
@force_option
@click.option(
    "--follow", is_flag=True, help="Follow the new run until it ends, as `rota run` does. Needs exactly one RUN."
)
@dry_run_option
@click.pass_obj
def retry_command(
    invocation: Invocation,
    *,
    runs: tuple[str, ...],
    again: bool,
    params: tuple[str, ...],
    force: bool,
    follow: bool,
    dry_run: bool,
) -> int:
    """Retry finished RUNs (JOB:NUMBER; JOB means its newest run) with the same params and the current job definition.

    With --follow the exit codes are those of `rota run`.
    """
    from rota.operations.run_actions import retry_run

    if follow and (len(runs) > 1 or dry_run):
        raise click.UsageError("--follow goes with one RUN, and not with --dry-run")
    wishes: dict[str, Any] = {"again": again, "force": force, "params": read_params(params), "dry_run": dry_run}
    refused: list[RotaError] = []
    told: list[dict[str, Any]] = []
    with invocation.store() as (place, store):
        for handle in runs:
            try:
                retried = retry_run(store, handle, now=invocation.now(), **wishes)
            except RotaError as error:
                refused.append(error)  # a failure does not stop the other retries
                continue
            if retried.born is not None:
                invocation.wake()
            if follow and retried.born is not None:
                return _follow(invocation, place, store, retried)
            told.append(_print_retried(invocation, place, store, retried))
    conclude(invocation, told, refused, dry_run=dry_run)
    return 0


def _follow(invocation: Invocation, place: "ProjectPaths", store: "Store", retried: "Retried") -> int:
    from rota.operations.runs import show_run
    from rota.operations.status.heartbeat import attended

    assert retried.born is not None
    tell_pause(invocation, store, "the run")
    if not attended(store, place.state, now=invocation.now()):
        _print_retried(invocation, place, store, retried)
        return NO_SCHEDULER
    return follow_run(invocation, place, store, run=show_run(store, retried.born.id).run)


def _print_retried(invocation: Invocation, place: "ProjectPaths", store: "Store", retried: "Retried") -> dict[str, Any]:
    """Print one retry; return it as JSON."""
    from rota.operations.runs import show_run
    from rota.operations.status.heartbeat import attended

    run, born = retried.run, retried.born
    first = f" (the first of {run.count or 'more than 10,000'} instants)" if run.covers_to else ""
    if born is None:
        if not invocation.as_json:
            click.echo(f"{run.handle}  would be retried{first}{VERDICTS[verdict_word(retried.verdict)]}")
        return {"retried": run.handle, "params": dict(retried.params), "would": "queue"}
    served = attended(store, place.state, now=invocation.now())
    idle = "" if served else f"; no scheduler is running here. {start_words(invocation)}"
    if not invocation.as_json:
        click.echo(f"{run.handle}{first}  retried as {born.handle}{idle}   rota logs -f {born.handle}")
    return {**run_json(show_run(store, born.id).run), "retried": run.handle}


@click.command("backfill", cls=RotaCommand)
@click.argument("job")
@click.option(
    "--from",
    "since",
    metavar="TIME",
    required=True,
    help="Start of the range, included: 30d, 2026-11-01, 2026-11-01T06:00.",
)
@click.option(
    "--to", "until", metavar="TIME", required=True, help="End of the range, excluded; a date includes its whole day."
)
@click.option("--parallel", is_flag=True, help="Allow the runs to overlap; by default each waits for the previous one.")
@click.option("--only-missed", is_flag=True, help="Skip instants that already ran on time.")
@dry_run_option
@click.pass_obj
def backfill_command(
    invocation: Invocation, *, job: str, since: str, until: str, parallel: bool, only_missed: bool, dry_run: bool
) -> None:
    """Create a run of JOB for each instant of a past range; they run in sequence unless --parallel is set."""
    from rota.operations.bulk import backfill, backfilled_json
    from rota.operations.jobs import show_job

    now = invocation.now()
    with invocation.changing(dry_run=dry_run) as store:
        zone = show_job(store, job).job.spec.schedule.timezone
        wanted = _range(since, until, zone, now=now, parallel=parallel, only_missed=only_missed)
        done = backfill(store, job, wanted, now=now, dry_run=dry_run)
    if invocation.as_json:
        print_json(backfilled_json(done, parallel=parallel, dry_run=dry_run))
        return
    for line in _lines(done, zone, parallel=parallel, dry_run=dry_run, now=now):
        click.echo(line)


def _range(since: str, until: str, zone: str, *, now: datetime, parallel: bool, only_missed: bool) -> "Range":
    from rota.operations.bulk import Range

    begin = cut_to_ms(read_instant(since, zone, now=now))
    if DATE.fullmatch(until.strip()):
        following = datetime.fromisoformat(until.strip()) + timedelta(days=1)
        end = min(now, read_instant(f"{following:%Y-%m-%d}", zone, now=now))
    else:
        end = read_instant(until, zone, now=now)
    return Range(begin, cut_to_ms(end), parallel=parallel, only_missed=only_missed)


def _lines(done: "Backfilled", zone: str, *, parallel: bool, dry_run: bool, now: datetime) -> list[str]:
    left_out = [
        *([f"{counted(done.existing, 'instant')} with a run of an earlier backfill"] if done.existing else []),
        *([f"{counted(done.ran, 'instant')} that ran when due"] if done.ran else []),
    ]
    told = f"{_amount(done)}{_manner(done, parallel=parallel)}" if done.born else "no instant to backfill"
    lines = [f"{told}. {'Nothing was created.' if dry_run else _named(done)}".rstrip()]
    if done.instants:
        shown = [full_time(at, zone, now=now) for at in done.instants[:MAX_INSTANTS]]
        more = f" … {full_time(done.instants[-1], zone, now=now)}" if len(done.instants) > MAX_INSTANTS else ""
        lines.append(f"for {', '.join(shown)}{more} ({zone})")
    return [*lines, *([f"skipped: {', '.join(left_out)}"] if left_out else [])]


def _amount(done: "Backfilled") -> str:
    from rota.operations.bulk import is_group

    if is_group(done):
        return f"{counted(len(done.born), 'group')}, {counted(done.members, 'run')}"
    return counted(len(done.born), "run")


def _manner(done: "Backfilled", *, parallel: bool) -> str:
    from rota.operations.bulk import is_group

    manner = "all at once" if parallel else f"one {'group' if is_group(done) else 'run'} at a time"
    if done.each is None:
        return f", {manner}"
    whole = f"about {roughly(done.each)} each" if parallel else f"about {roughly(done.each * len(done.born))}"
    return f", {manner}, {whole} (median of the last 30)"


def _named(done: "Backfilled") -> str:
    if not done.born:
        return ""
    first, last = done.born[0].handle, done.born[-1].handle
    return f"Queued as {first if first == last else f'{first} … {last}'}."
