"""`rota completion`: the script by which a shell completes commands, options, jobs and runs."""

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

VARIABLE = "_ROTA_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=RotaCommand)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, *, shell: str) -> None:
    """Print the completion script of a SHELL.

    bash: eval "$(rota completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish: rota completion fish |
    source in its config.fish
    """
    from click.shell_completion import get_completion_class

    from rota.cli.root import cli

    found = get_completion_class(shell)
    assert found is not None
    script = found(cli, {}, "rota", VARIABLE).source()
    if ctx.ensure_object(Invocation).as_json:
        print_json({"shell": shell, "script": script})
        return
    click.echo(script)
