"""`rota attach` and `fork`."""

import os
import shutil
import sys

import click

from rota.cli.commands.run import follow_run, force_option, start_words, tell_pause
from rota.cli.errors import NO_SCHEDULER
from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.model.errors import SpawnFailed
from rota.model.questions import Door
from rota.model.serialize import run_json


@click.command("attach", cls=RotaCommand)
@click.argument("run")
@click.option("--print", "printed", is_flag=True, help="Print the command for a shell and open nothing.")
@click.pass_obj
def attach_command(invocation: Invocation, *, run: str, printed: bool) -> None:
    """Open the session of RUN (JOB:NUMBER; JOB means its newest run) in the program of its agent, in the kept folder.

    The program replaces this command. It runs with your rights and asks you before it acts: the `access` of the job
    does not apply. The next run of a job with `session: resume` goes on after what you did.
    """
    from rota.operations.sessions import note_attached, open_session, session_json

    with invocation.store() as (place, store):
        opened = open_session(store, place, run, invocation.environ)
        env = {**invocation.environ, **opened.env}
        if invocation.as_json or printed:
            print_json(session_json(opened)) if invocation.as_json else click.echo(opened.command)
            return
        program = shutil.which(opened.argv[0], path=env.get("PATH"))
        if program is None:
            hint = f"install it, or add it to PATH; the command is: {opened.command}"
            raise SpawnFailed(f"{opened.argv[0]!r} was not found on your PATH", hint=hint)
        note_attached(store, opened, now=invocation.now())
    click.echo(f"{opened.run.handle}  session {opened.session} in {opened.folder}", err=True)
    sys.stdout.flush()
    os.chdir(opened.folder)
    os.execve(program, list(opened.argv), env)  # noqa: S606


@click.command("fork", cls=RotaCommand)
@click.argument("run")
@click.option("--prompt", metavar="TEXT|-", required=True, help="The task of the new run; - reads it from stdin.")
@click.option("--follow", is_flag=True, help="Follow the new run until it ends, as `rota run` does.")
@force_option
@dry_run_option
@click.pass_obj
def fork_command(invocation: Invocation, *, run: str, prompt: str, follow: bool, force: bool, dry_run: bool) -> int:
    """Start a run of the same job that goes on from the session of RUN with another task, in its kept folder.

    Where the program can, a copy of the session goes on, so that RUN can be forked again. With --follow the exit codes
    are those of `rota run`.
    """
    from rota.engine.membership.control import wake
    from rota.operations.admin.audit import person
    from rota.operations.runs import show_run
    from rota.operations.sessions import fork_run
    from rota.operations.status.heartbeat import attended

    if follow and dry_run:
        raise click.UsageError("--follow does not go with --dry-run")
    text = sys.stdin.read() if prompt == "-" else prompt
    with invocation.store() as (place, store):
        forked = fork_run(
            store,
            run,
            text,
            state=place.state,
            by=person(),
            door=Door.CLI,
            now=invocation.now(),
            force=force,
            dry_run=dry_run,
        )
        of, born = forked.of.handle, forked.born
        if dry_run:
            if invocation.as_json:
                print_json({"forked": of, "would": "queue"})
            else:
                click.echo(f"{of}  would be forked\nnothing was changed (--dry-run)")
            return 0
        wake(place.state)
        made = show_run(store, born.id).run
        served = attended(store, place.state, now=invocation.now())
        if follow and served:
            tell_pause(invocation, store, "the run")
            return follow_run(invocation, place, store, run=made)
    if invocation.as_json:
        print_json({**run_json(made), "forked": of})
    else:
        idle = "" if served else f"; no scheduler is running here. {start_words(invocation)}"
        click.echo(f"{of}  forked as {born.handle}{idle}   rota logs -f {born.handle}")
    return NO_SCHEDULER if follow else 0
