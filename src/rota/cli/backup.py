"""`rota backup`: a consistent copy of the project's state in one file."""

from pathlib import Path

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json


@click.command("backup", cls=RotaCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--with-output", is_flag=True, help="Also the output of runs.")
@click.pass_obj
def command(invocation: Invocation, *, file: Path, with_output: bool) -> None:
    """Write the database and rota.yaml to FILE (.tar.gz; .tar is not compressed), also while the scheduler works.

    Secrets are never in it. `rota restore` puts it back, here or on another machine, with everything paused.
    """
    from rota.cli.words import counted, sized
    from rota.model.errors import NotApplied
    from rota.operations.backup import back_up

    place = invocation.place()
    if not place.shared and not invocation.applied():
        raise NotApplied(str(place.folder))
    target = (invocation.cwd / file.expanduser()).absolute()
    made = back_up(place, target, clock=invocation.clock, with_output=with_output)
    if invocation.as_json:
        told = {"host": made.manifest.host, "made_at": made.manifest.made_at, "outputs": made.outputs}
        print_json({"file": str(made.path), "size": made.size, **told})
        return
    outputs = f", {counted(made.outputs, 'output file')}" if with_output else ", without output (--with-output)"
    click.echo(f"wrote {made.path}  {sized(made.size)}: the database and rota.yaml{outputs}; secrets are not in it")
    if made.scheduler:
        click.echo("a scheduler runs here: before you move to another machine stop it, then back up once more")
