"""`rota serve`, `demo`, `worker`, `stop`, `open` and `token`."""

import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rota.cli.invocation import (
    UNCHANGED,
    Invocation,
    RotaCommand,
    dry_run_option,
    entering_options,
    entrance_of,
    print_json,
    read_duration,
)
from rota.model.amounts import counted
from rota.model.errors import NoScheduler, NotApplied

if TYPE_CHECKING:
    from rota.cli.console import Console
    from rota.http.server import Flags
    from rota.operations.status.status import Carries


@click.command("serve", cls=RotaCommand)
@entering_options
@click.option("--quiet", is_flag=True, help="Print no console lines; keep the log on stderr.")
@click.option("--verbose", is_flag=True, help="Log at level DEBUG, including starts and ends of runs.")
@click.option("--no-http", is_flag=True, help="Disable the HTTP API and the dashboard.")
@click.option(
    "--listen", metavar="ADDR:PORT", help="Address to bind, default 127.0.0.1:7682. Required for remote access."
)
@click.option(
    "--behind-proxy", is_flag=True, help="Trust the X-Forwarded headers of a reverse proxy that terminates TLS."
)
@click.option("--tls-cert", metavar="FILE", help="TLS certificate file (PEM).")
@click.option("--tls-key", metavar="FILE", help="TLS private key, if it is not in the certificate file.")
@click.pass_obj
def serve_command(
    invocation: Invocation,
    /,
    *,
    quiet: bool,
    verbose: bool,
    no_http: bool,
    listen: str | None,
    behind_proxy: bool,
    tls_cert: str | None,
    tls_key: str | None,
    **entering: Any,
) -> int:
    """Run the scheduler in the foreground: apply rota.yaml, then run due jobs until stopped (Ctrl-C, `rota stop`).

    The console on stdout shows fires and results; the log goes to stderr, as JSON if stderr is not a terminal.
    With --json the console prints one JSON object per line.

    The dashboard and the HTTP API bind 127.0.0.1:7682, or the address of `http:` or --listen. If no port is set and
    7682 is in use, rota takes the next free port. `rota open` logs a browser in. `rota token` prints the token for
    other clients.
    """
    http = None if no_http else _flags(invocation, listen, behind_proxy=behind_proxy, cert=tls_cert, key=tls_key)
    entrance = entrance_of(**entering)
    if no_http and (listen or behind_proxy or tls_cert or tls_key):
        raise click.UsageError("--no-http and flags about HTTP cannot be combined")

    from rota.runners.processes import leave_first_place

    leave_first_place()
    from rota.cli.commands.init import ensure_taken_over, ensure_trust
    from rota.cli.console import Console, run_in_foreground
    from rota.operations.project.load import refuse_included
    from rota.serve.daemon import Daemon, SchedulerObserver

    place = invocation.own_place("serve")
    refuse_included(place, invocation.environ, verb="serve")
    ensure_trust(invocation)
    ensure_taken_over(invocation)
    console = Console(place, invocation.clock, zone=_known_zone(invocation), as_json=invocation.as_json)

    def make(observer: SchedulerObserver | None) -> Daemon:
        environ = invocation.environ
        return Daemon(place, invocation.clock, environ=environ, observer=observer, http=http, entrance=entrance)

    return run_in_foreground(invocation, console, make, quiet=quiet, verbose=verbose)


@click.command("demo", cls=RotaCommand)
@click.option("--listen", metavar="ADDR:PORT", help="Address to bind, default 127.0.0.1:7682, or the next free port.")
@click.pass_obj
def demo_command(invocation: Invocation, *, listen: str | None) -> int:
    """Serve an example project from a temporary folder, with its dashboard, until Ctrl-C.

    The project has a command, a function, an agent (a script, no key needed), a group, a budget and a failing job.
    Ctrl-C or SIGTERM ends the demo and removes the folder. If the demo is killed, the next one removes it.
    """
    http = _flags(invocation, listen, behind_proxy=False, cert=None, key=None)

    from rota.runners.processes import leave_first_place

    leave_first_place()
    signal.signal(signal.SIGTERM, _interrupt)  # the folder is removed at any moment; the scheduler takes over later
    from rota.cli.console import run_in_foreground
    from rota.operations.project.demo import demo_environment, demo_folder, remove_dead_demos
    from rota.serve.daemon import Daemon, SchedulerObserver

    for dead in remove_dead_demos():
        click.echo(f"removed {dead}, left by a demo that was killed", err=True)
    with demo_folder() as folder:
        invocation.environ = demo_environment(invocation.environ, folder)
        invocation.directory = str(folder)
        place = invocation.own_place("demo")

        def make(observer: SchedulerObserver | None) -> Daemon:
            return Daemon(place, invocation.clock, environ=invocation.environ, observer=observer, http=http)

        return run_in_foreground(invocation, _demo_console(invocation), make, quiet=False, verbose=False)


def _interrupt(*_received: object) -> NoReturn:
    raise KeyboardInterrupt


def _demo_console(invocation: Invocation) -> "Console":
    """Return a console that also prints an address which logs a browser in, and what to try."""
    import asyncio

    from rota.cli.console import Console
    from rota.cli.output import json_text
    from rota.operations.admin.access import login_address

    place = invocation.place()

    class DemoConsole(Console):
        def listening(self, url: str) -> None:
            super().listening(url)
            asyncio.get_running_loop().run_in_executor(None, self._greet)

        def _greet(self) -> None:
            url = login_address(place.state)  # answered by the loop that called `listening`
            if invocation.as_json:
                click.echo(json_text({"event": "login", "url": url}))
                return
            click.echo(f"  open {url}   (logs one browser in, within a minute)")
            click.echo(f"  in another terminal: cd {place.folder}, then rota, rota list, rota explain send-newsletter")
            click.echo("  Ctrl-C ends the demo and removes its folder")

    return DemoConsole(place, invocation.clock, as_json=invocation.as_json)


def _flags(
    invocation: Invocation, listen: str | None, *, behind_proxy: bool, cert: str | None, key: str | None
) -> "Flags":
    from rota.declare.problems import BadValue
    from rota.declare.readers.values import read_listen
    from rota.http.server import Flags

    if key is not None and cert is None:
        raise click.UsageError("--tls-key goes with --tls-cert")
    try:
        where = None if listen is None else read_listen(listen)
    except BadValue as error:
        [problem] = error.problems
        raise click.UsageError(f"--listen: {problem.message}; {problem.hint}") from None
    files = [None if file is None else invocation.cwd / file for file in (cert, key)]
    return Flags(where, behind_proxy=behind_proxy, certificate=files[0], key=files[1])


def _known_zone(invocation: Invocation) -> str:
    """Return the stored time zone, for lines before the file is loaded."""

    try:
        with invocation.store() as (_, store):
            return invocation.zone(store)
    except NotApplied:
        return "UTC"


@click.command("worker", cls=RotaCommand)
@entering_options
@click.option("--quiet", is_flag=True, help="Print no console lines; keep the log on stderr.")
@click.option("--verbose", is_flag=True, help="Log at level DEBUG, including starts and ends of runs.")
@click.pass_obj
def worker_command(invocation: Invocation, /, *, quiet: bool, verbose: bool, **entering: Any) -> int:
    """Run a worker: claim runs from a shared database and execute them here, until stopped (Ctrl-C, `rota stop`).

    A worker fires no jobs and applies no file; `rota serve` on at least one machine does. The rota.yaml of the worker
    sets the database (`store: postgresql://…`), the settings and the functions.
    """
    entrance = entrance_of(**entering)

    from rota.runners.processes import leave_first_place

    leave_first_place()
    from rota.cli.commands.init import ensure_trust
    from rota.cli.console import Console, run_in_foreground
    from rota.serve.daemon import Daemon, SchedulerObserver

    place = invocation.own_place("worker")
    ensure_trust(invocation)
    console = Console(place, invocation.clock, as_json=invocation.as_json, verb="works for")

    def make(observer: SchedulerObserver | None) -> Daemon:
        environ = invocation.environ
        return Daemon(place, invocation.clock, environ=environ, observer=observer, kind="worker", entrance=entrance)

    return run_in_foreground(invocation, console, make, quiet=quiet, verbose=verbose)


POLL_SECONDS = 0.05


@click.command("stop", cls=RotaCommand)
@click.option("--when-idle", is_flag=True, help="Start no new runs and wait for running ones without a limit.")
@click.option("--within", metavar="D", help="Wait at most this long for running runs (30s, 5m), then kill them.")
@click.option("--now", "at_once", is_flag=True, help="Kill running runs immediately, without grace.")
@click.option("--detach", is_flag=True, help="Keep commands running; the next scheduler adopts them.")
@dry_run_option
@click.pass_obj
def stop_command(
    invocation: Invocation, *, when_idle: bool, within: str | None, at_once: bool, detach: bool, dry_run: bool
) -> None:
    """Stop the scheduler: no new runs start; running ones get `shutdown_grace` (30 s), agents 10 min, by default.

    Queued runs stay queued for the next start. Waiting direct calls are refused.
    """
    chosen = {"idle": when_idle, "within": bool(within), "now": at_once, "detach": detach}
    modes = [mode for mode, given in chosen.items() if given]
    if len(modes) > 1:
        raise click.UsageError("use only one of --when-idle, --within, --now and --detach")
    bound = timedelta() if at_once else read_duration(within) if within else None
    _stop(invocation, modes[0] if modes else "grace", bound, dry_run=dry_run)


def _stop(invocation: Invocation, mode: str, within: timedelta | None, *, dry_run: bool) -> None:
    from rota.engine.membership.locks import serving_pid
    from rota.operations.status.heartbeat import heartbeat, serves
    from rota.operations.status.status import Carries, ask_to_stop

    state = invocation.own_place("stop").state
    pid = serving_pid(state)
    if dry_run:
        if not serves(state):
            raise NoScheduler(str(state))
        carries = Carries(**heartbeat(state).answer.get("carries", {"running": 0}))
        _answer(invocation, pid, carries, mode=mode, stopped=False)
        return
    carries = ask_to_stop(state, mode=mode, within=within)
    if (carries.running or carries.direct) and not invocation.as_json:
        click.echo(f"stopping pid {pid}: {_WAITING[mode].format(runs=_runs(carries))}")
    try:
        while serves(state):
            invocation.pause(POLL_SECONDS)
    except KeyboardInterrupt:
        click.echo(f"no longer waiting; pid {pid} is still stopping", err=True)
        raise
    _answer(invocation, pid, carries, mode=mode, stopped=True)


_WAITING = {
    "grace": "{runs} may finish within `shutdown_grace` (agents: `agent_shutdown_grace`), then they are stopped",
    "idle": "{runs} may finish",
    "within": "{runs} may finish in that time, then they are stopped",
    "now": "killing {runs} at once",
    "detach": "{runs}; commands continue for the next scheduler, functions may finish within `shutdown_grace`",
}


def _runs(carries: "Carries") -> str:
    calls = counted(carries.direct, "direct call") if carries.direct else ""
    runs = counted(carries.running, "run") if carries.running or not calls else ""
    return " and ".join(part for part in (runs, calls) if part)


def _answer(invocation: Invocation, pid: int | None, carries: "Carries", *, mode: str, stopped: bool) -> None:
    if invocation.as_json:
        told = {"pid": pid, "running": carries.running, "direct": carries.direct, "mode": mode, "stopped": stopped}
        print_json(told)
    elif stopped:
        click.echo(f"stopped pid {pid}")
    else:
        click.echo(f"would stop pid {pid}: {_WAITING[mode].format(runs=_runs(carries))}")
        click.echo(UNCHANGED)


@click.command("open", cls=RotaCommand)
@click.option("--print", "only_print", is_flag=True, help="Print the URL instead of opening a browser.")
@click.pass_obj
def open_command(invocation: Invocation, *, only_print: bool) -> None:
    """Open the dashboard in a browser, logged in by a one-time code that expires after a minute."""
    from rota.operations.admin.access import login_address

    url = login_address(invocation.place().state)
    if invocation.as_json:
        print_json({"url": url})
    elif only_print or click.launch(url) != 0:
        click.echo(url)
        click.echo("this URL logs in one browser, within a minute", err=True)
    else:
        click.echo(f"opened {url.partition('?')[0].removesuffix('/login')}")
