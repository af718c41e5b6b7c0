"""`rota retry`: run finished runs again, as new runs that point at them."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.concluding import conclude
from rota.cli.errors import NO_SCHEDULER
from rota.cli.invocation import Invocation, RotaCommand, dry_run_option
from rota.cli.run import follow_run, force_option, param_option, read_params, start_words, tell_pause

if TYPE_CHECKING:
    from rota.operations.project import Place
    from rota.operations.retrying import Retried
    from rota.store.driver import Store

VERDICTS = {"go": "", "after": ", behind an unfinished run", "replace": ", in the place of what is unfinished"}


@click.command("retry", cls=RotaCommand)
@click.argument("runs", metavar="RUN…", nargs=-1, required=True)
@click.option("--again", is_flag=True, help="Also runs that COMPLETED.")
@param_option
@force_option
@click.option("--follow", is_flag=True, help="Show the new run to its end, as `rota run` does; for one RUN.")
@dry_run_option
@click.pass_obj
def command(
    invocation: Invocation,
    *,
    runs: tuple[str, ...],
    again: bool,
    params: tuple[str, ...],
    force: bool,
    follow: bool,
    dry_run: bool,
) -> int:
    """Run finished RUNs again (JOB:NUMBER; JOB alone is its newest run): with their params, by the job as it is now.

    With --follow the exit codes are those of `rota run`.
    """
    from rota.model.errors import RotaError

    if follow and (len(runs) > 1 or dry_run):
        raise click.UsageError("--follow goes with one RUN, and not with --dry-run")
    wishes: dict[str, Any] = {"again": again, "force": force, "params": read_params(params), "dry_run": dry_run}
    refused: list[RotaError] = []
    told: list[dict[str, Any]] = []
    with invocation.store() as (place, store):
        for handle in runs:
            try:
                retried = _retry(invocation, place, store, handle=handle, wishes=wishes)
            except RotaError as error:
                refused.append(error)  # one that cannot be run again does not keep the others
                continue
            if follow and retried.born is not None:
                return _follow(invocation, place, store, retried)
            told.append(_tell(invocation, place, store, retried))
    conclude(invocation, told, refused, dry_run=dry_run)
    return 0


def _retry(invocation: Invocation, place: "Place", store: "Store", *, handle: str, wishes: dict[str, Any]) -> "Retried":
    from rota.engine.wake import wake
    from rota.operations.retrying import retry_run

    retried = retry_run(store, handle, now=invocation.now(), **wishes)
    if retried.born is not None:
        wake(place.state)
    return retried


def _follow(invocation: Invocation, place: "Place", store: "Store", retried: "Retried") -> int:
    from rota.operations.runs import show_run
    from rota.operations.system import attended

    assert retried.born is not None
    tell_pause(invocation, store, "the run")
    if not attended(store, place.state, now=invocation.now()):
        _tell(invocation, place, store, retried)
        return NO_SCHEDULER
    return follow_run(invocation, place, store, run=show_run(store, retried.born.id).run)


def _tell(invocation: Invocation, place: "Place", store: "Store", retried: "Retried") -> dict[str, Any]:
    """Say what became of one run; return it as JSON: the new run, or what would be run again."""
    from rota.operations.runs import show_run
    from rota.operations.system import attended
    from rota.operations.views import run_json
    from rota.rules.overlap import verdict_word

    run, born = retried.run, retried.born
    first = f" (the first of {run.count or 'more than 10,000'} instants)" if run.covers_to else ""
    if born is None:
        if not invocation.as_json:
            click.echo(f"{run.handle}  would be run again{first}{VERDICTS[verdict_word(retried.verdict)]}")
        return {"retried": run.handle, "params": dict(retried.params), "would": "queue"}
    served = attended(store, place.state, now=invocation.now())
    idle = "" if served else f"; no scheduler is running here. {start_words(invocation)}"
    if not invocation.as_json:
        click.echo(f"{run.handle}{first}  queued again as {born.handle}{idle}   rota logs -f {born.handle}")
    return {**run_json(show_run(store, born.id).run), "retried": run.handle}
