"""`rota init`, `completion` and `trust`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.model.errors import StateError
from rota.settings import TAKEOVER_NAME

if TYPE_CHECKING:
    from rota.agents.registry import AgentProbe
    from rota.operations.project.edit import Machine

AGENTS = ("claude", "codex")


@click.command("init", cls=RotaCommand)
@click.option("--with", "kind", type=click.Choice(["cron", "python", *AGENTS]), help="Kind of the example job.")
@dry_run_option
@click.pass_obj
def init_command(invocation: Invocation, *, kind: str | None, dry_run: bool) -> None:
    """Create a commented rota.yaml and the state folder .rota/ here. Never prompts, never overwrites files."""
    from rota.operations.project.edit import inspect_machine, make_project, plan_project

    given = invocation.directory or invocation.environ.get("ROTA_DIR")
    folder = Path(os.path.abspath(invocation.cwd / Path(given).expanduser())) if given else invocation.cwd
    machine = inspect_machine(invocation.environ)
    files = plan_project(folder, machine, kind=kind)
    if not dry_run:
        make_project(folder, files)
    if invocation.as_json:
        print_json(
            {
                "folder": str(folder),
                "dry_run": dry_run,
                "files": [*files, ".rota/"],
                "timezone": machine.timezone,
                "battery": machine.battery,
                "agents": [{"name": agent.name, "version": agent.version} for agent in machine.agents],
            }
        )
        return
    _tell(machine, files, kind=kind, dry_run=dry_run)


def _tell(machine: "Machine", files: dict[str, str], *, kind: str | None, dry_run: bool) -> None:
    wrote = "would write" if dry_run else "wrote"
    origin = "from this machine" if machine.detected_zone else "the zone of this machine has no name"
    rows = [(f"{wrote} rota.yaml", f"1 job, time zone {machine.timezone} ({origin})")]
    rows += [(f"{wrote} {name}", "the functions that the jobs name") for name in files if name.endswith(".py")]
    rows.append((f"{wrote} .rota/", "state, mode 0700, with its own .gitignore, and the schema for your editor"))
    rows += [(f"found {agent.name} {agent.version}".rstrip(), _agent_words(agent)) for agent in machine.agents]
    if kind in AGENTS and kind not in {agent.name for agent in machine.agents}:
        rows.append((f"no {kind} here", "it is not on PATH, and the job needs it   (see rota doctor)"))
    if machine.battery:
        rows.append(("found laptop battery", "jobs missed during sleep run once on wake: defaults.misfire: once"))
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        click.echo(f"{label:{width}}  {text}")
    click.echo(files["rota.yaml"] if dry_run else "next: rota check, then rota serve")
    if dry_run:
        click.echo("nothing was written (--dry-run)")


def _agent_words(found: "AgentProbe") -> str:
    if found.problem:
        return f"{found.problem}   (see rota doctor)"
    words = ["logged in" if found.logged_in else "", "runs headless" if found.headless else ""]
    return f"{', '.join(word for word in words if word) or 'on PATH'}   (see rota doctor)"


VARIABLE = "_ROTA_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=RotaCommand)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, *, shell: str) -> None:
    """Print the shell completion script for SHELL.

    bash: eval "$(rota completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish: rota completion fish |
    source in its config.fish
    """
    from click.shell_completion import get_completion_class

    from rota.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    script = found(cli, {}, "rota", VARIABLE).source()
    if ctx.ensure_object(Invocation).as_json:
        print_json({"shell": shell, "script": script})
        return
    click.echo(script)


@click.command("trust", cls=RotaCommand)
@click.option("--remove", is_flag=True, help="Revoke the trust in this folder.")
@dry_run_option
@click.pass_obj
def trust_command(invocation: Invocation, *, remove: bool, dry_run: bool) -> None:
    """Trust this folder: commands may import the Python modules of its project.

    Without trust, `rota check` and other commands read the source of Python modules and execute none of it.
    """
    from rota.operations.project.load import is_trusted, named_modules, set_trust

    folder, environ = invocation.place().folder, invocation.environ
    before, after = is_trusted(folder, environ), not remove
    if not dry_run:
        try:
            set_trust(folder, environ, trusted=after)
        except OSError as error:
            hint = f"make it writable, or set ROTA_TRUST={folder}"
            raise StateError(f"cannot record the trust: {error}", hint=hint) from None
        after = is_trusted(folder, environ)
    modules, _ = named_modules(folder, environ, now=invocation.now())
    if invocation.as_json:
        print_json({"dry_run": dry_run, "folder": str(folder), "trusted": after, "before": before, "modules": modules})
        return
    _trust_tell(str(folder), modules, before=before, after=after, dry_run=dry_run)


def _trust_tell(folder: str, modules: Sequence[str], *, before: bool, after: bool, dry_run: bool) -> None:
    names = f"; it names {', '.join(modules)}" if modules else ""
    still = "is already" if before == after else "would be" if dry_run else "is now"
    click.echo(f"{folder} {still} {'trusted' if after else 'untrusted'}{names}")


def ensure_trust(invocation: Invocation) -> None:
    """Ask once whether to trust the project; raise FolderUntrusted without a terminal."""
    from rota.operations.project.load import require_trust

    place = invocation.place()

    def ask(modules: Sequence[str]) -> bool:
        if invocation.as_json or invocation.in_run or not sys.stdin.isatty():
            return False
        click.echo(f"{place.folder} names Python modules: {', '.join(modules)}")
        click.echo("Importing them runs their code, also in read-only commands such as `rota check`.")
        return click.confirm("trust this folder?", default=False)

    require_trust(place.folder, invocation.environ, now=invocation.now(), ask=ask)


def ensure_taken_over(invocation: Invocation) -> None:
    """Refuse to schedule beside lines of cron that a takeover gives to this project."""
    if not (invocation.place().state / TAKEOVER_NAME).exists():
        return
    from rota.operations.project.takeover import settle_takeover

    settle_takeover(invocation.place(), environ=invocation.environ, clock=invocation.clock)
