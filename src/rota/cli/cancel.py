"""`rota cancel`: stop runs, or take them out of the queue; by name, or by filter."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.concluding import conclude
from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, read_duration

if TYPE_CHECKING:
    from rota.model.records import Run
    from rota.operations.bulk import Filter
    from rota.operations.direct_calls import DirectView
    from rota.operations.project import Place
    from rota.operations.stopping import Cancelled
    from rota.store.driver import Store

LOOK_AGAIN = 0.05
LOOKS = 40


@click.command("cancel", cls=RotaCommand)
@click.argument("runs", metavar="[RUN…]", nargs=-1)
@click.option("--job", "jobs", metavar="JOB", multiple=True, help="Runs of this job; may be repeated.")
@click.option(
    "--label", "labels", metavar="L", multiple=True, help="Runs of jobs that carry this label; all must match."
)
@click.option("--queued", is_flag=True, help="Only runs that have not started.")
@click.option("--running", is_flag=True, help="Only runs that have.")
@click.option(
    "--waiting-for", metavar="W", help="Only queued runs that wait for this: backoff, condition, predecessor …"
)
@click.option("--older-than", metavar="D", help="Only runs made longer ago than this: 30m, 2h, 1d.")
@click.option("--all", "everything", is_flag=True, help="Runs of all jobs.")
@click.option("--yes", is_flag=True, help="Do not ask whether that is meant.")
@dry_run_option
@click.pass_obj
def command(
    invocation: Invocation, /, *, runs: tuple[str, ...], everything: bool, yes: bool, dry_run: bool, **chosen: Any
) -> int | None:
    """Cancel RUNs (JOB:NUMBER; JOB alone is its newest unfinished): a queued one at once, a running one by stopping it.

    Without a RUN, every unfinished run that the options name; what that is, is shown and asked first.
    """
    filtered = everything or any(chosen.values())
    if bool(runs) == filtered:
        raise click.UsageError(
            "name runs, or options that choose them" if not runs else "runs and filters do not go together"
        )
    if filtered:
        from rota.cli.sweeping import sweep

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
    from rota.model.states import WaitingFor
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
    from rota.model.errors import RotaError
    from rota.operations.direct_calls import direct_json
    from rota.operations.views import run_json

    told: list[dict[str, Any]] = []
    refused: list[RotaError] = []
    with invocation.store() as (place, store):
        for handle in runs:
            try:
                call = _direct_call(store, handle)
                if call is not None:
                    words = _cancel_call(invocation, place, store, call, dry_run=dry_run)
                    name, shape = call.name, direct_json(call)
                else:
                    run, words = _cancel(invocation, place, store, handle, dry_run=dry_run)
                    name, shape = run.handle, run_json(run)
            except RotaError as error:
                refused.append(error)  # one that cannot be cancelled does not keep the others
                continue
            told.append({**shape, "told": words})
            if not invocation.as_json:
                click.echo(f"{name}  {words}")
    conclude(invocation, told, refused, dry_run=dry_run)


def _direct_call(store: "Store", handle: str) -> "DirectView | None":
    from rota.model.ids import is_id
    from rota.operations.direct_calls import direct_view

    return direct_view(store, handle) if is_id(handle) else None


def _cancel_call(invocation: Invocation, place: "Place", store: "Store", call: "DirectView", *, dry_run: bool) -> str:
    """Take a direct call out of its line, or have it stopped (R-13)."""
    from rota.model.errors import RunIsFinal
    from rota.operations.direct import withdraw

    if call.status.final:
        raise RunIsFinal(call.id, call.status)
    waits = call.started_at is None
    if dry_run:
        return "would be taken out of the line" if waits else "would be stopped"
    withdraw(store, place.state, call.id, now=invocation.now())
    return "taken out of the line, it had not started" if waits else f"is being stopped   rota show {call.id}"


def _cancel(invocation: Invocation, place: "Place", store: "Store", handle: str, *, dry_run: bool) -> tuple["Run", str]:
    from rota.engine.wake import wake
    from rota.operations.stopping import cancel_run

    done = cancel_run(store, handle, now=invocation.now(), dry_run=dry_run)
    if dry_run:
        return done.run, "would be taken out of the queue" if done.final else "would be stopped"
    wake(place.state)
    if done.final:
        return done.run, "CANCELLED, it had not started"
    return _stopping(invocation, place, store, done)


def _stopping(invocation: Invocation, place: "Place", store: "Store", done: "Cancelled") -> tuple["Run", str]:
    """Wait a little for a running run to end; without a scheduler signal its keeper ourselves."""
    from rota.operations.runs import show_run
    from rota.operations.stopping import stop_keeper
    from rota.operations.system import carried, serves

    if not serves(place.state) and not carried(store, place.state, done.run):
        if stop_keeper(store, done.run):
            return done.run, "is being stopped; no scheduler is running here, the next start records its end"
        return done.run, "noted; no scheduler and no process of it is running here, the next start records its end"
    view = show_run(store, done.run.id)
    for _ in range(LOOKS):
        if view.run.status.final:
            break
        invocation.pause(LOOK_AGAIN)
        view = show_run(store, done.run.id)
    if view.run.status.final:
        return view.run, f"{view.run.status}{f' {view.run.reason}' if view.run.reason else ''}"
    grace = view.spec.work.term_grace.total_seconds()
    return view.run, f"is being stopped: TERM was sent, KILL follows after {grace:g} s   rota show {view.run.handle}"
