"""`rota trigger`: start a job now and do not wait."""

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option
from rota.cli.run import force_option, param_option, read_params, rehearse_run, start


@click.command("trigger", cls=RotaCommand)
@click.argument("job")
@param_option
@force_option
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, job: str, params: tuple[str, ...], force: bool, dry_run: bool) -> int:
    """Start JOB now and do not wait for it: `rota run --detach`."""
    given = read_params(params)
    if dry_run:
        return rehearse_run(invocation, job, given, force=force)
    return start(invocation, job, given, force=force, detach=True)
