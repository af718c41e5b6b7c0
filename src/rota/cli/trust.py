"""`rota trust`: let commands that only look at this project import its Python modules; also asked before it acts."""

import sys
from collections.abc import Sequence

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json


@click.command("trust", cls=RotaCommand)
@click.option("--remove", is_flag=True, help="Trust this folder no longer.")
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, remove: bool, dry_run: bool) -> None:
    """Trust the project in this folder: commands that look at it may run its code.

    Without trust `rota check` and others read the source of Python modules and run nothing of them.
    """
    from rota.model.errors import StateError
    from rota.operations.trust import is_trusted, named_modules, set_trust

    folder, environ = invocation.place().folder, invocation.environ
    before, after = is_trusted(folder, environ), not remove
    if not dry_run:
        try:
            set_trust(folder, environ, trusted=after)
        except OSError as error:
            hint = f"make it writable, or set ROTA_TRUST={folder}"
            raise StateError(f"the trust cannot be recorded: {error}", hint=hint) from None
        after = is_trusted(folder, environ)
    modules, _ = named_modules(folder, environ, now=invocation.now())
    if invocation.as_json:
        print_json({"dry_run": dry_run, "folder": str(folder), "trusted": after, "before": before, "modules": modules})
        return
    _tell(str(folder), modules, before=before, after=after, dry_run=dry_run)


def _tell(folder: str, modules: Sequence[str], *, before: bool, after: bool, dry_run: bool) -> None:
    names = f"; it names {', '.join(modules)}" if modules else ""
    still = "is already" if before == after else "would be" if dry_run else "is now"
    click.echo(f"{folder} {still} {'trusted' if after else 'untrusted'}{names}")


def ensure_trust(invocation: Invocation) -> None:
    """Ask once whether a project that a person acts on is trusted; where nobody can be asked, FolderUntrusted."""
    from rota.operations.trust import require_trust

    place = invocation.place()

    def ask(modules: Sequence[str]) -> bool:
        if invocation.as_json or invocation.in_run or not sys.stdin.isatty():
            return False
        click.echo(f"{place.folder} names Python modules: {', '.join(modules)}")
        click.echo("Importing them runs their code, also in commands that only look, such as `rota check`.")
        return click.confirm("trust this folder?", default=False)

    require_trust(place.folder, invocation.environ, now=invocation.now(), ask=ask)
