"""`rota service`: the scheduler as a service of systemd or launchd."""

from datetime import timedelta
from typing import Any

import click

from rota.cli.invocation import UNCHANGED, Invocation, RotaCommand, dry_run_option, print_json, read_duration
from rota.model.errors import ServiceUnavailable
from rota.model.store_url import has_password
from rota.operations.admin.service import (
    Service,
    ServiceFacts,
    find_manager,
    lingers,
    no_manager,
    output_of_service,
    own_program,
)
from rota.text.ansi import clean_for_terminal

ACTIONS = ("install", "remove", "restart", "status", "logs")
ME = "-"
TICK_EVERY = timedelta(seconds=10)


@click.command("service", cls=RotaCommand)
@click.argument("action", type=click.Choice(ACTIONS))
@click.option(
    "--user",
    "user",
    metavar="[NAME]",
    is_flag=False,
    flag_value=ME,
    help="Install a user service (default); with --system: the user account of the service.",
)
@click.option("--system", is_flag=True, help="Install a system service that starts at boot; requires root.")
@click.option("--tick", is_flag=True, help="Run `rota tick` periodically instead of a resident scheduler.")
@click.option("--every", metavar="D", help="With --tick: time between ticks (10s).")
@click.option("--print", "only_print", is_flag=True, help="Print the unit file or property list; write nothing.")
@click.option("--tail", "lines", metavar="N", type=click.IntRange(1), default=100, help="With logs: number of lines.")
@dry_run_option
@click.pass_obj
def service_command(
    invocation: Invocation,
    *,
    action: str,
    user: str | None,
    system: bool,
    tick: bool,
    every: str | None,
    only_print: bool,
    lines: int,
    dry_run: bool,
) -> int:
    """Manage the system service of this project: install, remove, restart, status, logs.

    Running commands survive a stop or restart of the service; the next start adopts them.
    """
    from rota.cli.commands.init import ensure_trust

    if user not in (None, ME) and not system:
        raise click.UsageError("--user NAME belongs to --system; a service of your own login is yours already")
    distance = _distance(every, tick=tick)
    as_user = None if user in (None, ME) else user
    service = _service(invocation, system=system, user=as_user, every=distance, only_text=only_print)
    if action == "install" and not only_print and not dry_run:
        ensure_trust(invocation)
    if only_print:
        if invocation.as_json:
            print_json({"name": service.facts.name, "manager": service.manager, "text": service.text})
        else:
            click.echo(service.text, nl=False)
    elif dry_run and action in ("install", "remove", "restart"):
        _answer(invocation, service, action, dry_run=True)
    elif action == "status":
        return _status(invocation, service)
    elif action == "logs":
        _logs(invocation, service, lines)
    else:
        _carry_out(service, action)
        _answer(invocation, service, action, dry_run=False)
    return 0


def _distance(every: str | None, *, tick: bool) -> timedelta | None:
    if every is not None and not tick:
        raise click.UsageError("--every belongs to --tick")
    distance = read_duration(every) if every else TICK_EVERY
    return distance if tick else None


def _service(
    invocation: Invocation, *, system: bool, user: str | None, every: timedelta | None, only_text: bool
) -> "Service":
    from rota.operations.project.load import load_project

    place = invocation.own_place("service install")
    manager = find_manager()
    if manager is None and not only_text:
        raise no_manager()
    settings = load_project(place.folder, invocation.environ, state=place.state, now=invocation.now()).declared.settings
    facts = ServiceFacts(
        program=own_program(),
        folder=place.folder,
        state=place.state,
        search_path=invocation.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        shutdown_grace=settings.scheduler.shutdown_grace,
        system=system,
        user=user,
        every=every,
        agent_shutdown_grace=settings.scheduler.agent_shutdown_grace,
        store=_told_store(invocation),
    )
    return Service(facts, manager or "systemd", invocation.environ)


def _told_store(invocation: Invocation) -> str:
    """Return ROTA_STORE; refuse a password, since a service file is world-readable."""
    store = invocation.environ.get("ROTA_STORE", "")
    if has_password(store):
        hint = "write `store: postgresql://user:${secret:NAME}@host/database` into rota.yaml, or use ~/.pgpass"
        raise ServiceUnavailable("ROTA_STORE holds a password, and the service's file would show it", hint=hint)
    return store


def _carry_out(service: "Service", action: str) -> None:
    if action == "install":
        service.install()
    elif action == "remove":
        service.remove()
    else:
        service.must_be_installed()
        service.carry_out(action)


def _answer(invocation: Invocation, service: "Service", action: str, *, dry_run: bool) -> None:
    steps = [" ".join(step) for step in service.steps(action)]
    if invocation.as_json:
        shown = {"name": service.facts.name, "manager": service.manager, "file": str(service.file)}
        print_json({"dry_run": dry_run, "action": action, **shown, "steps": steps})
        return
    if dry_run:
        what = {"install": "write", "remove": "remove", "restart": "leave"}[action]
        for file in service.texts:
            click.echo(f"would {what} {file}")
        for step in steps:
            click.echo(f"would run {step}")
        click.echo(UNCHANGED)
        return
    click.echo({"install": "installed and started", "remove": "removed", "restart": "restarted"}[action], nl=False)
    click.echo(f" {service.facts.name} ({service.file})")
    if action == "install":
        _tell_lingering(invocation, service)


def _tell_lingering(invocation: Invocation, service: "Service") -> None:
    if service.manager == "systemd" and not service.facts.system and not lingers(invocation.environ):
        click.echo("the service stops when you log out; to keep it running: loginctl enable-linger")
    click.echo("see rota status, rota service logs")


def _status(invocation: Invocation, service: "Service") -> int:
    standing = service.standing()
    shown: dict[str, Any] = {"installed": standing.installed, "active": standing.active, "enabled": standing.enabled}
    if invocation.as_json:
        print_json({"name": service.facts.name, "manager": service.manager, "file": str(service.file), **shown})
    else:
        words = [word if yes else f"not {word}" for word, yes in shown.items()]
        click.echo(f"{service.facts.name}: {', '.join(words)}   {service.file}")
    return 0 if standing.active else 1


def _logs(invocation: Invocation, service: "Service", lines: int) -> None:
    text = output_of_service(service, lines=lines)
    if invocation.as_json:
        print_json({"name": service.facts.name, "output": text})
    else:
        click.echo(clean_for_terminal(text), nl=False)
