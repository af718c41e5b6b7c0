"""`rota stop`: stop the scheduler, and wait until it is gone."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json, read_duration

if TYPE_CHECKING:
    from rota.operations.system import Carries

LOOK_AGAIN = 0.05


@click.command("stop", cls=RotaCommand)
@click.option("--when-idle", is_flag=True, help="Start nothing more and wait for the runs, however long they take.")
@click.option("--within", metavar="D", help="Wait at most this long for the runs (30s, 5m), then end them.")
@click.option("--now", "at_once", is_flag=True, help="End the runs at once, without grace.")
@click.option("--detach", is_flag=True, help="Leave running commands to the next scheduler; nothing is interrupted.")
@dry_run_option
@click.pass_obj
def command(
    invocation: Invocation, *, when_idle: bool, within: str | None, at_once: bool, detach: bool, dry_run: bool
) -> None:
    """Stop the scheduler: nothing more starts; runs get `shutdown_grace` (30 s), agents 10 min, unless said otherwise.

    What is queued stays queued for the next start; who waits for a direct call is told and sent away.
    """
    chosen = {"idle": when_idle, "within": bool(within), "now": at_once, "detach": detach}
    modes = [mode for mode, given in chosen.items() if given]
    if len(modes) > 1:
        raise click.UsageError("only one of --when-idle, --within, --now and --detach makes sense")
    _stop(invocation, modes[0] if modes else "grace", _bound(within, at_once=at_once), dry_run=dry_run)


def _bound(within: str | None, *, at_once: bool) -> timedelta | None:
    if at_once:
        return timedelta()
    return read_duration(within) if within else None


def _stop(invocation: Invocation, mode: str, within: timedelta | None, *, dry_run: bool) -> None:
    from rota.engine.lock import serving_pid
    from rota.model.errors import NoScheduler
    from rota.operations.system import Carries, ask_to_stop, heartbeat, serves

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
            invocation.pause(LOOK_AGAIN)
    except KeyboardInterrupt:
        click.echo(f"not waiting any more; pid {pid} goes on stopping", err=True)
        raise
    _answer(invocation, pid, carries, mode=mode, stopped=True)


_WAITING = {
    "grace": "{runs} may finish within `shutdown_grace` (agents: `agent_shutdown_grace`), what is left is ended then",
    "idle": "{runs} may finish",
    "within": "{runs} may finish in that time, what is left is ended then",
    "now": "ending {runs} at once",
    "detach": "{runs}; commands go on for the next scheduler, functions may finish within `shutdown_grace`",
}


def _runs(carries: "Carries") -> str:
    from rota.cli.words import counted

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
        click.echo("nothing was changed (--dry-run)")
