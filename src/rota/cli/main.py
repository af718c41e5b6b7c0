"""The command `rota`: a table of commands, each imported only when it is used."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rota.cli.errors import FAULT, INTERRUPTED, exit_code, report, report_usage
from rota.cli.invocation import Invocation, RotaCommand, print_json, refuse_empty
from rota.cli.output import HelpContext, clean_streams, give_up, interrupts_noted, is_unwritable, open_closed_streams

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


GROUPS = ("Start", "Define", "See", "Act", "Queue and groups", "Agents and money", "Keep")
ALIASES = {"budget": "budgets"}
"""Other names of commands."""
MODULES = {
    "worker": "serve",
    "open": "serve",
    "stop": "serve",
    "completion": "init",
    "apply": "check",
    "add": "edit_file",
    "import": "edit_file",
    "export": "check",
    "schema": "check",
    "list": "jobs",
    "show": "jobs",
    "logs": "history",
    "explain": "jobs",
    "trigger": "run",
    "direct": "run",
    "retry": "cancel",
    "resume": "pause",
    "ack": "status",
    "touch": "status",
    "move": "queue",
    "edit": "queue",
    "mcp": "agents",
    "deliveries": "notify",
    "doctor": "verify",
    "audit": "verify",
    "restore": "backup",
    "migrate": "backup",
    "budgets": "usage",
    "remove": "approve",
    "token": "serve",
    "trust": "init",
    "help": "rota.cli.main",
}
"""Where a command is defined, if not in the module of its own name in `rota.cli.commands`."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command as the overview shows it."""

    group: str
    summary: str
    shows: str = ""


COMMANDS: dict[str, CommandEntry] = {
    "init": CommandEntry("Start", "create a commented rota.yaml in this folder", "[--with cron|python|claude|codex]"),
    "serve": CommandEntry(
        "Start", "run the scheduler in the foreground, with its HTTP API", "[--no-http] [--listen A]"
    ),
    "worker": CommandEntry(
        "Start", "claim and run jobs of a shared database on this machine", "[--name N] [--label k=v] [--only-pools P]"
    ),
    "open": CommandEntry("Start", "open the dashboard in a browser, logged in", "[--print]"),
    "tick": CommandEntry("Start", "run due jobs once, then exit (for cron, launchd, systemd timers)"),
    "stop": CommandEntry("Start", "stop the scheduler", "[--when-idle | --within D | --now | --detach]"),
    "service": CommandEntry(
        "Start",
        "install, remove, restart or inspect the system service",
        "[--user | --system | --tick] [--print]",
    ),
    "completion": CommandEntry("Start", "print a shell completion script", "bash|zsh|fish"),
    "help": CommandEntry("Start", "show this help, or the help of one command", "[COMMAND | --all]"),
    "check": CommandEntry("Define", "check rota.yaml; print all problems with line and column"),
    "apply": CommandEntry("Define", "apply rota.yaml to the stored jobs", "[--dry-run shows the plan]"),
    "trust": CommandEntry("Define", "allow commands to import the Python code of this folder", "[--remove]"),
    "add": CommandEntry(
        "Define", "add a job to rota.yaml from options; keeps comments", "[--cron E | --interval D | --at T]"
    ),
    "next": CommandEntry("Define", "show next fires of all jobs, one job, or --cron / --interval / --at"),
    "simulate": CommandEntry(
        "Define", "simulate coming days: fires, collisions, requests, budgets, cost", "[--days N] [--svg FILE]"
    ),
    "import": CommandEntry("Define", "convert a crontab or a jobs.yaml file to rota.yaml", "crontab|jobs [FILE|-]"),
    "export": CommandEntry("Define", "print stored jobs as rota.yaml, including jobs without a file", "[JOB…]"),
    "schema": CommandEntry("Define", "print the JSON Schema of rota.yaml, for editors"),
    "status": CommandEntry("See", "show scheduler health, problems, running runs and next fires"),
    "list": CommandEntry("See", "list jobs with schedule, recent results and next fire"),
    "show": CommandEntry("See", "show one job or run in full"),
    "history": CommandEntry(
        "See", "list past runs, newest first; collapses equal runs", "[--status --reason --since --grep --all]"
    ),
    "logs": CommandEntry("See", "print the output of a run", "[-f] [--tail N] [--grep TEXT --since 30d across runs]"),
    "explain": CommandEntry("See", "explain why a job ran, did not run, or will run"),
    "usage": CommandEntry(
        "See",
        "show runs, time, tokens and cost by job, agent, model or day",
        "[--by job|agent|model|day] [--since 30d]",
    ),
    "run": CommandEntry("Act", "start a job now and follow it", "[--detach] [--param k=v] [--dry-run] [--next-slot]"),
    "trigger": CommandEntry("Act", "start a job now without waiting: run --detach", "[--each FILE]"),
    "direct": CommandEntry(
        "Act", "execute a job in the next free slot, ahead of the queue: run --next-slot", "[--param k=v]"
    ),
    "retry": CommandEntry("Act", "retry a finished run, as a new run", "RUN… [--again] [--param k=v] [--follow]"),
    "cancel": CommandEntry(
        "Act", "cancel runs, by name or by filter", "[--job J] [--label L] [--queued] [--older-than D]"
    ),
    "backfill": CommandEntry("Act", "create runs for a past time range", "--from T --to T [--dry-run] [--parallel]"),
    "pause": CommandEntry("Act", "pause jobs", "[--all | --label L] [--for 2h | --until T] [--reason TEXT]"),
    "resume": CommandEntry("Act", "resume paused jobs", "[--all | --label L] [--catch-up none|once]"),
    "ack": CommandEntry("Act", "acknowledge problems until something new happens", "[WHAT… | --all] [--undo]"),
    "approve": CommandEntry("Act", "approve a job that an agent proposed", "[JOB] [--yes]"),
    "remove": CommandEntry("Act", "remove jobs that agents or programs created", "JOB… | --made-by agent|MAKER"),
    "touch": CommandEntry("Act", "report activity: jobs with intervals by mode become active"),
    "queue": CommandEntry(
        "Queue and groups", "show the queue in order, and why the first run is blocked", "[--limit N]"
    ),
    "move": CommandEntry("Queue and groups", "move a queued run", "(--first | --last | --before RUN | --to N)"),
    "edit": CommandEntry("Queue and groups", "edit params or priority of a queued run", "[--param k=v] [--priority N]"),
    "groups": CommandEntry(
        "Queue and groups", "list groups; show, cancel, retry or create one", "[show | cancel | retry | run]"
    ),
    "agents": CommandEntry(
        "Agents and money", "list agents: version, login, provider holds, running runs", "[check [NAME] | release NAME]"
    ),
    "budgets": CommandEntry(
        "Agents and money", "show each budget: used, reserved, left, reopening, forecast", "[ACCOUNT]"
    ),
    "mcp": CommandEntry("Agents and money", "serve the tools for agents over MCP on stdio", "[--list]"),
    "workers": CommandEntry("Keep", "list workers; drain, resume or forget one", "[drain | resume | forget NAME]"),
    "notify": CommandEntry("Keep", "list notification targets and their state", "[test NAME | enable NAME]"),
    "deliveries": CommandEntry("Keep", "list sent, pending and failed notifications", "[--failed] [retry ID…]"),
    "verify": CommandEntry("Keep", "verify the database: every due instant, row and process", "[JOB…] [--quick]"),
    "doctor": CommandEntry("Keep", "check this machine: disk, clock, PATH, permissions, agents; prints remedies"),
    "backup": CommandEntry("Keep", "write a consistent backup of the project to one file", "[--with-output]"),
    "restore": CommandEntry("Keep", "restore a backup, with all jobs paused"),
    "migrate": CommandEntry(
        "Keep", "copy all data between SQLite and PostgreSQL", "[--from STORE] --to STORE [--dry-run]"
    ),
    "token": CommandEntry(
        "Keep", "print the HTTP API token, or a token with fewer rights", "[--scope S --name N] [--renew]"
    ),
    "audit": CommandEntry("Keep", "show the audit log of changes, newest first", "[--actor A] [--since T]"),
    "secrets": CommandEntry("Keep", "list, set or remove the secrets of jobs", "[set NAME | remove NAME]"),
}


class Root(click.Group):
    """The group behind `rota`. Its help is printed from the table, so that no command is imported for it."""

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
        """Offer the commands from the table, so that none is imported for it, and the options."""
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        offered = [CompletionItem(name, help=COMMANDS[name].summary) for name in names]
        return [*offered, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was asked for; an unknown one is answered with the nearest name."""
        name = ALIASES.get(args[0], args[0])
        args = [name, *args[1:]]
        if name not in COMMANDS and not name.startswith("-"):
            near = get_close_matches(name.lower(), COMMANDS, n=1)
            guess = f"; did you mean `rota {near[0]}`?" if near else ""
            raise click.UsageError(f"there is no command {name!r}{guess}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the commands by group, from the table."""
        for group in GROUPS:
            with formatter.section(group):
                formatter.write_dl(
                    [(name, _summary(entry)) for name, entry in COMMANDS.items() if entry.group == group]
                )

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run a command and end the process with its exit code; errors are told here, without a traceback."""
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
            code = report_usage(error, as_json=as_json)
        except (click.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except Exception as error:
            code = _told(error, as_json=as_json)
        return code if isinstance(code, int) else 0


def _told(error: Exception, *, as_json: bool) -> int:
    from rota.model.errors import OutputUnwritable, RotaError

    if isinstance(error, click.ClickException):
        error = RotaError(error.format_message())
    if is_unwritable(error):
        give_up(sys.stdout)
        error = OutputUnwritable(str(error.args[1]))
    if isinstance(error, OSError):
        error = _refused(error)
    if not isinstance(error, RotaError):
        raise error
    report(error, as_json=as_json)
    return exit_code(error)


def _refused(error: OSError) -> Exception:
    """Return the system's refusal of a file as an error with path and remedy; any other one is a fault of rota."""
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


def _summary(entry: CommandEntry) -> str:
    return f"{entry.summary}  {entry.shows}" if entry.shows else entry.summary


def _wants_json(arguments: Sequence[str]) -> bool:
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before


def _checked(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    refuse_empty(ctx, param, value)
    return value


@click.group(
    "rota",
    cls=Root,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    subcommand_metavar="COMMAND …",
    epilog="Inside a project, `rota` without a command runs `rota status`. Every command has --help and --json.",
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
    """Schedule AI agents and scripts, run them safely, and explain every decision."""
    invocation = ctx.ensure_object(Invocation)
    invocation.directory = directory or invocation.directory
    if invocation.environ.get("NO_COLOR") or invocation.environ.get("TERM") == "dumb":
        ctx.color = False
    if ctx.invoked_subcommand is None:
        return _alone(ctx, invocation)
    return None


def _alone(ctx: click.Context, invocation: Invocation) -> Any:
    """Inside a project `rota` is `rota status`, elsewhere its help."""
    from rota.model.errors import ProjectMissing

    try:
        invocation.place()
    except ProjectMissing:
        if invocation.directory or invocation.environ.get("ROTA_DIR"):
            raise
        click.echo(ctx.get_help())
        return 0
    status = cli.get_command(ctx, "status")
    assert status is not None
    with status.make_context("status", [], parent=ctx) as inner:
        return status.invoke(inner)


def main() -> NoReturn:
    """Run the command `rota`; what nobody foresaw is a fault in rota itself and ends with 70."""
    open_closed_streams()
    try:
        cli.main()
    except Exception as error:
        with clean_streams():
            sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(FAULT)


WHOLE = 1000
"""More characters than a sentence of help has."""


class RotaGroup(RotaCommand, click.Group):
    """A command that has commands below it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the commands with the first sentence of each, whole."""
        rows = [(name, self.commands[name].get_short_help_str(WHOLE)) for name in sorted(self.commands)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.command("help", cls=RotaCommand)
@click.argument("name", metavar="[COMMAND]", required=False)
@click.option("--all", "everything", is_flag=True, help="Print the help of every command.")
@click.pass_context
def help_command(ctx: click.Context, *, name: str | None, everything: bool) -> None:
    """Show all commands, one COMMAND, or the help of --all."""

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
        found = cli.get_command(root, each)
        assert found is not None
        with found.context_class(found, info_name=each, parent=root) as inner:
            click.echo(found.get_help(inner) + ("" if name else "\n"))


def _as_json(name: str | None) -> dict[str, Any]:

    assert name is not None
    return {"name": name, "group": COMMANDS[name].group, "summary": COMMANDS[name].summary}
