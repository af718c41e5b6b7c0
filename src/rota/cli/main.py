"""The command `rota`: a table of commands, each imported only when it is used."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rota.cli.errors import FAULT, INTERRUPTED, USAGE, exit_code, report, report_usage
from rota.cli.invocation import Invocation, RotaCommand, print_json, refuse_unusable
from rota.cli.output import (
    HelpContext,
    clean_streams,
    give_up,
    ignore_closed,
    interrupts_noted,
    is_unwritable,
    open_closed_streams,
)
from rota.cli.overview import COMMANDS, SUMMARY, overview
from rota.model.errors import OutputUnwritable, ProjectMissing, RotaError, nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


ALIASES = {"budget": "budgets"}
"""Other names of commands."""
_IN_MODULE = {
    "serve": ("demo", "worker", "open", "stop"),
    "init": ("completion", "trust"),
    "check": ("apply", "add", "export", "schema"),
    "transfer": ("import", "takeover"),
    "jobs": ("list", "show", "explain"),
    "history": ("logs",),
    "stats": ("diff", "spans", "digest"),
    "run": ("trigger", "direct"),
    "cancel": ("retry", "backfill"),
    "pause": ("resume",),
    "status": ("ack", "touch"),
    "queue": ("move", "edit"),
    "agents": ("mcp",),
    "sessions": ("attach", "fork", "worktrees"),
    "notify": ("deliveries",),
    "verify": ("doctor", "audit"),
    "backup": ("restore", "migrate"),
    "usage": ("budgets",),
    "questions": ("remove", "approve", "answer", "grants"),
    "secrets": ("token",),
    "rota.cli.main": ("help",),
}
MODULES = {command: module for module, commands in _IN_MODULE.items() for command in commands}
"""Where a command is defined, if not in the module of its own name in `rota.cli.commands`."""


class Root(click.Group):
    """The group `rota`. Its help comes from the table and imports no command."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = load_command(cmd_name)
        if ctx.resilient_parsing:
            from rota.cli.completion import offer_names

            offer_names(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete commands from the table, without importing them, and options."""
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        offered = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return [*offered, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; suggest the nearest name for an unknown one."""
        name = ALIASES.get(args[0], args[0])
        args = [name, *args[1:]]
        if name not in COMMANDS and not name.startswith("-"):
            near = nearest(name.lower(), COMMANDS)
            guess = f"; did you mean `rota {near[0]}`?" if near else ""
            raise click.UsageError(f"there is no command {name!r}{guess}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the overview, which is also printed without this module."""
        formatter.write(overview())

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run a command and exit with its code; print errors without a traceback."""
        arguments = list(sys.argv[1:] if args is None else args)
        extra.pop("standalone_mode", None)
        with clean_streams():
            sys.exit(self._run(arguments, prog_name or "rota", **extra))

    def _run(self, arguments: list[str], prog_name: str, **extra: Any) -> int:
        as_json = _wants_json(arguments)
        try:
            with interrupts_noted():
                code: Any = super().main(arguments, prog_name, standalone_mode=False, **extra)
        except click.UsageError as error:
            code = USAGE
            with ignore_closed(sys.stderr):
                report_usage(error, as_json=as_json)
        except (click.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except Exception as error:
            code = _told(error, as_json=as_json)
        return code if isinstance(code, int) else 0


def _told(error: Exception, *, as_json: bool) -> int:
    if isinstance(error, click.ClickException):
        error = RotaError(error.format_message())
    if is_unwritable(error):
        give_up(sys.stdout)
        error = OutputUnwritable(str(error.args[1]))
    if isinstance(error, OSError):
        error = _refused(error)
    if not isinstance(error, RotaError):
        raise error
    with ignore_closed(sys.stderr):
        report(error, as_json=as_json)
    return exit_code(error)


def _refused(error: OSError) -> Exception:
    """Return an OSError of a file as an error with path and remedy; other errors unchanged."""
    from pathlib import Path

    from rota.store.sqlite.store import FORBIDDEN, NO_SPACE, refusal

    named = isinstance(error.filename, str) and error.errno in FORBIDDEN | NO_SPACE
    return refusal(Path(error.filename), error) if named else error


def load_command(name: str) -> click.Command:
    """Import a command; its function is called `<name>_command`."""
    module = MODULES.get(name, name)
    path = module if module.startswith("rota.") else f"rota.cli.commands.{module}"
    command: click.Command = getattr(import_module(path), f"{name}_command")
    return command


def _wants_json(arguments: Sequence[str]) -> bool:
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before


def _checked(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    refuse_unusable(ctx, param, value)
    return value


@click.group(
    "rota",
    cls=Root,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    help=SUMMARY,
    subcommand_metavar="COMMAND …",
)
@click.option(
    "--dir",
    "directory",
    metavar="PATH",
    callback=_checked,
    help="Project folder; default: ROTA_DIR, or the nearest parent folder with a project.",
)
@click.version_option(package_name="rota", message="rota %(version)s")
@click.pass_context
def cli(ctx: click.Context, directory: str | None) -> Any:
    """Note the project's folder; without a command show its status."""
    invocation = ctx.ensure_object(Invocation)
    invocation.directory = directory or invocation.directory
    if invocation.environ.get("NO_COLOR") or invocation.environ.get("TERM") == "dumb":
        ctx.color = False
    if ctx.invoked_subcommand is None:
        return _alone(ctx, invocation)
    return None


FIRST_STEPS = """\
There is no rota.yaml in this folder or above it.
  rota init      create a commented one here; then `rota serve` runs its jobs
  rota --dir PATH COMMAND    use the project in another folder
  rota --help    show all commands"""


def _alone(ctx: click.Context, invocation: Invocation) -> Any:
    """Run `rota status` inside a project; elsewhere print the first steps."""
    try:
        invocation.place()
    except ProjectMissing:
        if invocation.directory or invocation.environ.get("ROTA_DIR"):
            raise
        click.echo(FIRST_STEPS)
        return 0
    status = cli.get_command(ctx, "status")
    assert status is not None
    with status.make_context("status", [], parent=ctx) as inner:
        return status.invoke(inner)


def main() -> NoReturn:
    """Run the command `rota`; an unexpected exception ends with 70."""
    open_closed_streams()
    try:
        cli.main()
    except Exception as error:
        with clean_streams():
            sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(FAULT)


MAX_SUMMARY_LENGTH = 1000
"""More characters than a sentence of help has."""


class RotaGroup(RotaCommand, click.Group):
    """A command with subcommands."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the subcommands with the first sentence of each."""
        rows = [(name, self.commands[name].get_short_help_str(MAX_SUMMARY_LENGTH)) for name in sorted(self.commands)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def listing_group(name: str, *, metavar: str = "[COMMAND …]") -> Callable[[Callable[..., None]], RotaGroup]:
    """Return a decorator for a command with subcommands; without one, the function lists what they are about."""

    def decorate(listing: Callable[..., None]) -> RotaGroup:
        @wraps(listing)
        def run(ctx: click.Context, /, **params: Any) -> None:
            if ctx.invoked_subcommand is None:
                listing(ctx.ensure_object(Invocation), **params)

        return click.group(name, cls=RotaGroup, invoke_without_command=True, subcommand_metavar=metavar)(
            click.pass_context(run)
        )

    return decorate


@click.command("help", cls=RotaCommand)
@click.argument("name", metavar="[COMMAND]", required=False)
@click.option("--all", "everything", is_flag=True, help="Print the help of every command.")
@click.pass_context
def help_command(ctx: click.Context, *, name: str | None, everything: bool) -> None:
    """Show the overview of commands, or the help of COMMAND."""

    root = ctx.find_root()
    if ctx.obj.as_json:
        print_json([_as_json(each) for each in ([name] if name in COMMANDS else COMMANDS)])
        return
    if name is not None:
        cli.resolve_command(root, [name])
    if name is None and not everything:
        click.echo(cli.get_help(root))
        return
    for each in [name] if name else COMMANDS:
        command = cli.get_command(root, each)
        assert command is not None
        with command.context_class(command, info_name=each, parent=root) as inner:
            click.echo(command.get_help(inner) + ("" if name else "\n"))


def _as_json(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "group": COMMANDS[name][0],
        "summary": load_command(name).get_short_help_str(MAX_SUMMARY_LENGTH),
    }
