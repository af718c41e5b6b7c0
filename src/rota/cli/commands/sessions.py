"""`rota attach`, `fork`, `sessions` and `worktrees`."""

import os
import shutil
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

from rota.cli.commands.run import follow_run, force_option, start_words, tell_pause
from rota.cli.errors import NO_SCHEDULER
from rota.cli.invocation import UNCHANGED, Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.main import listing_group
from rota.cli.output import Cell, Column, print_table
from rota.model.amounts import counted, say_dollars
from rota.model.errors import SpawnFailed, WorktreeRefused
from rota.model.questions import Door
from rota.model.serialize import run_json
from rota.text.ansi import plain
from rota.text.format import ago

if TYPE_CHECKING:
    from rota.operations.agents.worktrees import KeptWorktree
    from rota.runners.worktree import WorktreeContent

GONE = "`rota worktrees discard` removes it from the list"


@click.command("attach", cls=RotaCommand)
@click.argument("run")
@click.option("--print", "printed", is_flag=True, help="Print the command for a shell and open nothing.")
@click.pass_obj
def attach_command(invocation: Invocation, *, run: str, printed: bool) -> None:
    """Open the session of RUN (JOB:NUMBER; JOB means its newest run) in the program of its agent, in the kept folder.

    The program replaces this command. It runs with your rights and asks you before it acts: the `access` of the job
    does not apply. The next run of a job with `session: resume` goes on after what you did.
    """
    from rota.operations.agents.sessions import note_attached, open_session, session_json

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
    from rota.operations.admin.audit import person
    from rota.operations.agents.sessions import fork_run
    from rota.operations.runs import show_run
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
                click.echo(f"{of}  would be forked\n{UNCHANGED}")
            return 0
        invocation.wake()
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


@listing_group("sessions")
def sessions_command(invocation: Invocation) -> None:
    """List the sessions that the next runs of jobs with `session: resume` continue."""
    from rota.operations.agents.sessions import stored_session_json
    from rota.operations.project.locate import in_scope
    from rota.store.tables.work_items import sessions

    with invocation.store() as (place, store):
        stored_sessions = [session for session in store.read(sessions) if in_scope(session.job, place.scope)]
    if invocation.listed(stored_sessions, stored_session_json, none="no sessions", scoped=True):
        return
    now = invocation.now()
    rows: list[list[Cell | str]] = [
        [
            plain(session.job),
            session.adapter,
            plain(session.session),
            str(session.turns),
            say_dollars(session.usd),
            ago(session.began_at, now),
            f"{session.run or 'a direct call'}, {ago(session.used_at, now)} ago",
        ]
        for session in stored_sessions
    ]
    print_table(("JOB", "PROGRAM", "SESSION", "TURNS", "COST", "AGE", "LAST RUN"), rows)
    click.echo("rota sessions reset JOB")


@sessions_command.command("reset", cls=RotaCommand)
@click.argument("job")
@dry_run_option
@click.pass_obj
def reset(invocation: Invocation, *, job: str, dry_run: bool) -> None:
    """Forget the session of JOB: its next run starts a new one. The program keeps the conversation."""
    from rota.operations.agents.sessions import reset_session, stored_session_json

    with invocation.store() as (_, store):
        done = reset_session(store, job, now=invocation.now(), dry_run=dry_run)
    if invocation.as_json:
        print_json({**stored_session_json(done), "dry_run": dry_run})
        return
    would = "would start" if dry_run else "starts"
    click.echo(f"{plain(done.job)}  the next run {would} a new session, in the place of {plain(done.session)}")


@listing_group("worktrees")
def worktrees_command(invocation: Invocation) -> None:
    """List the kept worktrees of agents' runs with their work, oldest first."""
    from rota.operations.agents.worktrees import list_worktrees, worktree_json

    with invocation.store() as (place, store):
        worktrees = list_worktrees(store, scope=place.scope)
    if invocation.listed(worktrees, worktree_json, none="no kept worktrees", scoped=True):
        return
    titles = ("RUN", "BRANCH", "COMMITS", "DIFF", "UNCOMMITTED", "AGE", Column("KEPT", flexible=True))
    print_table(titles, [_row(worktree, now=invocation.now()) for worktree in worktrees])
    click.echo("rota worktrees merge RUN   rota worktrees discard RUN   rota worktrees open RUN")


def _row(kept: "KeptWorktree", *, now: datetime) -> "list[Cell | str]":
    tree, content = kept.tree, kept.content
    age = ago(tree.made_at, now)
    if content is None:
        return [tree.handle, tree.branch, "", "", "", age, Cell(plain(kept.problem), "yellow")]
    uncommitted = Cell(counted(content.uncommitted, "file"), "yellow") if content.uncommitted else "none"
    return [tree.handle, tree.branch, str(content.commits), _diff(content), uncommitted, age, plain(tree.kept_why)]


def _diff(content: "WorktreeContent") -> str:
    return f"+{content.insertions:,} -{content.deletions:,} in {counted(content.files, 'file')}"


@worktrees_command.command("merge", cls=RotaCommand)
@click.argument("run")
@click.option("--commit", "message", metavar="MESSAGE", default="", help="Commit changes in the worktree first.")
@click.option("--yes", is_flag=True, help="Also merge changes of rota.yaml and the files that it includes.")
@dry_run_option
@click.pass_obj
def merge(invocation: Invocation, *, run: str, message: str, yes: bool, dry_run: bool) -> None:
    """Merge the branch of RUN into the branch that its repository has checked out; then remove worktree and branch.

    Refused, and nothing changed: a merge that would conflict, a repository with changes that no commit has, changes in
    the worktree without --commit, and a worktree in which a run works. No hook of git runs.
    """
    from rota.operations.agents.worktrees import merge_worktree, worktree_json

    with invocation.store() as (place, store):
        done = merge_worktree(store, place, run, now=invocation.now(), message=message, yes=yes, dry_run=dry_run)
    tree = done.kept.tree
    if invocation.as_json:
        print_json({**worktree_json(done.kept), "into": done.into, "commit": done.commit, "dry_run": dry_run})
    elif done.commit is None:
        click.echo(f"{tree.handle}  {tree.branch} would be merged into {done.into} in {tree.repository}")
        click.echo(UNCHANGED)
    else:
        click.echo(f"{tree.handle}  merged {tree.branch} into {done.into} as {done.commit[:7]} in {tree.repository}")


@worktrees_command.command("discard", cls=RotaCommand)
@click.argument("run")
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
@dry_run_option
@click.pass_obj
def discard(invocation: Invocation, *, run: str, yes: bool, dry_run: bool) -> int:
    """Remove the kept worktree of RUN and its branch, with all work in it, after a confirmation prompt.

    Changes that no commit has are lost. The audit log keeps the last commit of the branch.
    """
    from rota.operations.agents.worktrees import discard_worktree, show_worktree, worktree_json

    with invocation.store() as (place, store):
        worktree = show_worktree(store, run)
        if not invocation.as_json:
            click.echo(f"{worktree.tree.handle}  {worktree.tree.branch}  {_loss(worktree)}  {worktree.tree.path}")
        needs = "discarding needs confirmation: pass --yes, or try --dry-run first"
        if not dry_run and not yes and not invocation.confirm("remove all of it?", needs=needs):
            click.echo("nothing was removed", err=True)
            return 1
        if not dry_run:
            discard_worktree(store, place, worktree.tree.run_id, now=invocation.now())
    if invocation.as_json:
        print_json({**worktree_json(worktree), "dry_run": dry_run})
    else:
        click.echo(UNCHANGED if dry_run else "removed")
    return 0


def _loss(kept: "KeptWorktree") -> str:
    """Return the work in a worktree in words."""
    content = kept.content
    if content is None:
        return plain(kept.problem)
    return f"{counted(content.commits, 'commit')}, {_diff(content)}, {counted(content.uncommitted, 'file')} uncommitted"


@worktrees_command.command("open", cls=RotaCommand)
@click.argument("run")
@click.option("--print", "only_print", is_flag=True, help="Print the folder and open nothing.")
@click.pass_obj
def open_folder(invocation: Invocation, *, run: str, only_print: bool) -> None:
    """Open the folder of the kept worktree of RUN in the file manager, and print it."""
    from rota.operations.agents.worktrees import show_worktree, worktree_json

    with invocation.store() as (_, store):
        worktree = show_worktree(store, run)
        if not os.path.isdir(worktree.tree.path):
            raise WorktreeRefused(worktree.tree.handle, f"has a worktree that is gone: {worktree.tree.path}", hint=GONE)
        if not only_print and not invocation.as_json:
            store.write(lambda _db: None)  # recorded in the audit log
    if invocation.as_json:
        print_json(worktree_json(worktree))
        return
    click.echo(worktree.tree.path)
    if not only_print:
        click.launch(worktree.tree.path)
