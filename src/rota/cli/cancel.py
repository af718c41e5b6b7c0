"""`rota cancel`: stop runs, or take them out of the queue."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json

if TYPE_CHECKING:
    from rota.model.errors import RotaError
    from rota.model.records import Run
    from rota.operations.project import Place
    from rota.operations.runs import Cancelled
    from rota.store.driver import Store

LOOK_AGAIN = 0.05
LOOKS = 40


@click.command("cancel", cls=RotaCommand)
@click.argument("runs", metavar="RUN…", nargs=-1, required=True)
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, runs: tuple[str, ...], dry_run: bool) -> None:
    """Cancel RUNs (JOB:NUMBER; JOB alone is its newest run): a queued one at once, a running one by stopping it."""
    from rota.model.errors import RotaError
    from rota.operations.views import run_json

    told: list[dict[str, Any]] = []
    refused: list[RotaError] = []
    with invocation.store() as (place, store):
        for handle in runs:
            try:
                run, words = _cancel(invocation, place, store, handle, dry_run=dry_run)
            except RotaError as error:
                refused.append(error)  # one that cannot be cancelled does not keep the others
                continue
            told.append({**run_json(run), "told": words})
            if not invocation.as_json:
                click.echo(f"{run.handle}  {words}")
    _conclude(invocation, told, refused, dry_run=dry_run)


def _conclude(invocation: Invocation, told: list[dict[str, Any]], refused: "list[RotaError]", *, dry_run: bool) -> None:
    from rota.cli.errors import report

    if invocation.as_json:
        print_json(told)
    elif dry_run:
        click.echo("nothing was changed (--dry-run)")
    for error in refused[:-1]:
        report(error, as_json=invocation.as_json)
    if refused:
        raise refused[-1]


def _cancel(invocation: Invocation, place: "Place", store: "Store", handle: str, *, dry_run: bool) -> tuple["Run", str]:
    from rota.engine.wake import wake
    from rota.operations.runs import cancel_run

    done = cancel_run(store, handle, now=invocation.now(), dry_run=dry_run)
    if dry_run:
        return done.run, "would be taken out of the queue" if done.final else "would be stopped"
    wake(place.state)
    if done.final:
        return done.run, "CANCELLED, it had not started"
    return _stopping(invocation, place, store, done)


def _stopping(invocation: Invocation, place: "Place", store: "Store", done: "Cancelled") -> tuple["Run", str]:
    """Wait a little for a running run to end; without a scheduler signal its keeper ourselves."""
    from rota.operations.runs import show_run, stop_keeper
    from rota.operations.system import serves

    if not serves(place.state):
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
