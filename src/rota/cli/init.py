"""`rota init`: write a first rota.yaml here."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json

if TYPE_CHECKING:
    from rota.agents.probing import Found
    from rota.operations.setup import Machine

AGENTS = ("claude", "codex")


@click.command("init", cls=RotaCommand)
@click.option("--with", "kind", type=click.Choice(["cron", "python", *AGENTS]), help="What the first job shows.")
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, kind: str | None, dry_run: bool) -> None:
    """Write a first, commented rota.yaml here and the state folder .rota/. Asks nothing and overwrites nothing."""
    from rota.operations.setup import inspect_machine, make_project, plan_project

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
    origin = "from this machine" if machine.detected_zone else "this machine's own cannot be found by name"
    rows = [(f"{wrote} rota.yaml", f"1 job, time zone {machine.timezone} ({origin})")]
    rows += [(f"{wrote} {name}", "the functions that the jobs name") for name in files if name.endswith(".py")]
    rows.append((f"{wrote} .rota/", "state, mode 0700, with its own .gitignore, and the schema for your editor"))
    rows += [(f"found {agent.name} {agent.version}".rstrip(), _agent_words(agent)) for agent in machine.agents]
    if kind in AGENTS and kind not in {agent.name for agent in machine.agents}:
        rows.append((f"no {kind} here", "it is not on PATH, and the job needs it   (rota doctor repeats this)"))
    if machine.battery:
        rows.append(("found laptop battery", "jobs missed during sleep run once on wake: defaults.misfire: once"))
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        click.echo(f"{label:{width}}  {text}")
    click.echo(files["rota.yaml"] if dry_run else "next: rota check, then rota serve")
    if dry_run:
        click.echo("nothing was written (--dry-run)")


def _agent_words(found: "Found") -> str:
    """Return whether an agent can work: `logged in, runs headless`."""
    if found.problem:
        return f"{found.problem}   (rota doctor says what to do)"
    words = ["logged in" if found.logged_in else "", "runs headless" if found.headless else ""]
    return f"{', '.join(word for word in words if word) or 'on PATH'}   (rota doctor repeats this)"
