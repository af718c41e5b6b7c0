"""`rota tick`: do what is due, then exit."""

import contextlib
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click

from rota.cli.errors import FILE
from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.output import background_streams, release_stream
from rota.model.serialize import fields_json, run_json
from rota.operations.admin.service import own_program

if TYPE_CHECKING:
    from rota.cli.console import TickConsole
    from rota.operations.project.locate import ProjectPaths
    from rota.serve.tick import TickReport

BY_SIGNAL = 128
TELLS = "ROTA_TICK_TELLS"
"""Variable of a background tick: the pipe to which it writes its exit code after the pass."""


@click.command("tick", cls=RotaCommand)
@click.option("--detach", is_flag=True, help="Return after the pass; runs continue in the background.")
@click.option("--quiet", is_flag=True, help="Print no report; keep the log on stderr.")
@click.option("--verbose", is_flag=True, help="Log at level DEBUG, including starts and ends of runs.")
@dry_run_option
@click.pass_obj
def tick_command(invocation: Invocation, *, detach: bool, quiet: bool, verbose: bool, dry_run: bool) -> int:
    """Fire due jobs, run them until they end, and exit: for cron, launchd and systemd timers.

    Other ticks may run at the same time and use free slots. While `rota serve` runs, a tick does nothing.

    Exit codes: 0 done, or skipped because another process schedules; 65 file has problems, used the last applied jobs;
    1 a part failed.
    """
    place = invocation.own_place("tick")
    if dry_run:
        return _preview(invocation, place)
    from rota.cli.commands.init import ensure_taken_over, ensure_trust

    ensure_trust(invocation)
    ensure_taken_over(invocation)
    if detach:
        flags = [flag for flag, given in (("--quiet", quiet), ("--verbose", verbose)) if given]
        return _in_background(invocation, place, flags)
    return _tick(invocation, place, quiet=quiet, verbose=verbose)


def _tick(invocation: Invocation, place: "ProjectPaths", *, quiet: bool, verbose: bool) -> int:
    import asyncio

    from rota.runners.processes import leave_first_place

    leave_first_place()
    from rota.cli.console import TickConsole, configure_logging, same_stream, say_dropped, tell_left
    from rota.operations.project.load import refuse_included
    from rota.serve.tick import Tick

    refuse_included(place, invocation.environ, verb="tick")
    console = TickConsole(place, invocation.clock, quiet=quiet or invocation.as_json)
    if TELLS in invocation.environ:
        console.when_looked = lambda report: _looked(invocation, report, console)
    in_one_place = not console.quiet and same_stream()
    with background_streams(say_dropped(invocation.clock, as_json=invocation.as_json)):
        configure_logging(verbose=verbose, console=in_one_place, stamp=console.time)
        try:
            report = asyncio.run(Tick(place, invocation.clock, environ=invocation.environ, observer=console).run())
        finally:
            console.close()
    if invocation.as_json and (TELLS not in invocation.environ or report.left_to):
        print_json(report_json(report))
    elif report.left_to and not quiet:
        tell_left(report)
    return code_of(report)


def _looked(invocation: Invocation, report: "TickReport", console: "TickConsole") -> None:
    """In the background, answer the starter that the look is over, and let go of its streams.

    The answer is optional: a starter that was killed meanwhile costs the runs nothing.
    """
    if invocation.as_json:
        print_json(report_json(report))
    console.quiet = True
    release_stream(sys.stdout)
    if stat.S_ISFIFO(os.fstat(sys.stderr.fileno()).st_mode):  # its reader waits for the end of the pipe
        release_stream(sys.stderr)
    pipe = int(invocation.environ[TELLS])
    with contextlib.suppress(BrokenPipeError):
        os.write(pipe, bytes([code_of(report)]))
    os.close(pipe)


def _in_background(invocation: Invocation, place: "ProjectPaths", flags: list[str]) -> int:
    """Start a tick in its own session and wait for its pass; return its exit code."""
    read, write = os.pipe()
    json_flag = ["--json"] if invocation.as_json else []
    child = subprocess.Popen(
        [*own_program(), "--dir", str(place.folder), "tick", *flags, *json_flag],
        env={**invocation.environ, TELLS: str(write)},
        stdin=subprocess.DEVNULL,
        pass_fds=[write],
        start_new_session=True,
    )
    os.close(write)
    try:
        with os.fdopen(read, "rb") as pipe:
            told = pipe.read()
    except KeyboardInterrupt:
        child.terminate()
        told = b""
    code = told[0] if told else child.wait()
    return code if code >= 0 else BY_SIGNAL - code


def _preview(invocation: Invocation, place: "ProjectPaths") -> int:
    from rota.cli.console import preview_json, tell_preview
    from rota.engine.membership.locks import SERVE_LOCK, serving_pid
    from rota.operations.dry_run import preview_tick
    from rota.store.sqlite.store import is_held

    served = is_held(place.state / SERVE_LOCK)
    with invocation.store() as (_, store):
        preview = preview_tick(store, place, clock=invocation.clock, environ=invocation.environ)
    if invocation.as_json:
        print_json({"dry_run": True, "left_to": "serve" if served else None, **preview_json(preview)})
    else:
        tell_preview(preview, serving=serving_pid(place.state) if served else None)
    return FILE if preview.file_problem else 0


def report_json(report: "TickReport") -> dict[str, Any]:
    """Return the report of a tick as JSON."""
    from rota.cli.console import fired_json

    return {
        "dry_run": False,
        **fields_json(report, "left_to", "pid", "enabled", "recovered"),
        **fired_json(report.fired),
        "finished": [run_json(run) for run in report.finished],
        **fields_json(report, "carried", "ready", "next_at", "problems", "file_problem"),
    }


def code_of(report: "TickReport") -> int:
    """Return the exit code of a tick."""
    if report.file_problem:
        return FILE
    return 1 if report.problems else 0
