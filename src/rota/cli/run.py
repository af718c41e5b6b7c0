"""`rota run`: start a job now and follow it; with --detach, or as `rota trigger`, only start it."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rota import faults
from rota.cli.errors import NO_SCHEDULER
from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json, read_duration

if TYPE_CHECKING:
    from rota.model.records import Run
    from rota.operations.project import Place
    from rota.store.driver import Store

LOOK_AGAIN = 0.05
WAIT_TOLD = 1.0
"""After how many seconds it is said why a run does not start."""
STILL_WAITING = 5
EXIT_CODES = {"COMPLETED": 0, "FAILED": 1, "SKIPPED": 3, "CANCELLED": 4}

param_option = click.option(
    "--param", "params", metavar="NAME=VALUE", multiple=True, help="A param of this run: JSON, else text. Repeatable."
)
force_option = click.option("--force", is_flag=True, help="Pass overlap and conditions; it is recorded.")


@click.command("run", cls=RotaCommand)
@click.argument("job")
@click.option("--detach", is_flag=True, help="Do not wait: print the queued run and end.")
@param_option
@force_option
@click.option("--retry", is_flag=True, help="Retry a failure as the job's policy says; without it: one attempt.")
@click.option("--wait", "limit", metavar="D", help="Wait at most this long (30s, 5m); exit 5 if it is not finished.")
@click.option("--next-slot", is_flag=True, help="Before the whole queue and without a run: `rota direct`.")
@dry_run_option
@click.option("--full", is_flag=True, help="With --dry-run: print the whole prompt of an agent too.")
@click.pass_obj
def command(
    invocation: Invocation,
    *,
    job: str,
    detach: bool,
    params: tuple[str, ...],
    force: bool,
    retry: bool,
    limit: str | None,
    next_slot: bool,
    dry_run: bool,
    full: bool,
) -> int:
    """Start JOB now and follow it to its end: one attempt. Ctrl-C leaves it running.

    It takes the place of a retry of JOB that waits for its backoff.

    Exit codes: 0 COMPLETED, 1 FAILED, 3 SKIPPED, 4 CANCELLED, 5 not finished at the --wait limit, 69 no scheduler.
    """
    if full and (not dry_run or next_slot):
        raise click.UsageError("--full belongs to --dry-run, without --next-slot")
    given = read_params(params)
    bound = read_duration(limit) if limit else None
    if next_slot:
        if detach or force or retry:
            raise click.UsageError(
                "--next-slot goes with none of --detach, --force and --retry: "
                "its caller waits, no gate is asked, it is never retried"
            )
        return _call(invocation, job, given, bound=bound, dry_run=dry_run)
    if dry_run:
        return rehearse_run(invocation, job, given, force=force, full=full, retry=retry)
    return start(invocation, job, given, force=force, detach=detach, bound=bound, retry=retry)


def _call(invocation: Invocation, job: str, params: dict[str, Any], *, bound: timedelta | None, dry_run: bool) -> int:
    from rota.cli.direct import call, rehearse_call

    return rehearse_call(invocation, job, params) if dry_run else call(invocation, job, params, bound=bound)


def read_params(params: Sequence[str]) -> dict[str, Any]:
    """Return the params of a command line: JSON where a value is JSON, else text."""
    from rota.operations.params import read_value

    found: dict[str, Any] = {}
    for param in params:
        name, equals, value = param.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--param {param!r} is not NAME=VALUE")
        found[name] = read_value(value)
    return found


def start(
    invocation: Invocation,
    job: str,
    params: dict[str, Any],
    *,
    force: bool,
    detach: bool,
    bound: timedelta | None = None,
    retry: bool = False,
) -> int:
    """Enqueue a run and follow it, unless detached; `retry`: by the job's policy. Return the exit code."""
    from rota.engine.wake import wake
    from rota.operations.runs import show_run
    from rota.operations.starting import trigger
    from rota.operations.system import attended, heartbeat, switched_off

    with invocation.store() as (place, store):
        by = invocation.maker() if invocation.maker().run else None
        born = trigger(store, job, now=invocation.now(), params=params, force=force, by=by, one_attempt=not retry)
        wake(place.state)
        faults.point("trigger.woken")
        tell_pause(invocation, store, "the run")
        off = store.read(partial(switched_off, beat=heartbeat(place.state)))
        served = attended(store, place.state, now=invocation.now()) and not off
        run = show_run(store, born.id).run
        if detach or not served:
            _tell_queued(invocation, run, served=served, off=off)
            return 0 if detach else NO_SCHEDULER
        return follow_run(invocation, place, store, run=run, bound=bound)


def follow_run(
    invocation: Invocation, place: "Place", store: "Store", *, run: "Run", bound: timedelta | None = None
) -> int:
    """Show a run to its end, or until the limit is reached or the person leaves; return the exit code."""
    return _Following(invocation, place, store, run, bound=bound).to_the_end()


def tell_pause(invocation: Invocation, store: "Store", what: str) -> None:
    """Say that a run or a call waits where everything is paused."""
    from rota.cli.words import pause_words
    from rota.operations.jobs import project_timezone
    from rota.operations.pauses import pauses

    everything, now = pauses(store).everything, invocation.now()
    if everything is not None and (everything.until is None or everything.until > now):
        told = pause_words(everything.until, everything.reason, zone=project_timezone(store), now=now)
        click.echo(f"{what} waits: everything is paused{told}; `rota resume --all` goes on", err=True)


def start_words(invocation: Invocation) -> str:
    """Return what to do where no scheduler runs."""
    return f"Start one with {invocation.spelled('serve')}, or run it now with {invocation.spelled('tick')}"


def _tell_queued(invocation: Invocation, run: "Run", *, served: bool, off: bool) -> None:
    from rota.operations.system import SWITCHED_OFF
    from rota.operations.views import run_json

    if invocation.as_json:
        print_json(run_json(run))
    if served:
        if not invocation.as_json:
            click.echo(f"queued as {run.handle}   rota logs -f {run.handle}")
        return
    nobody = f"no scheduler is running here. {start_words(invocation)}"
    told = f"queued as {run.handle}; {f'it waits: {SWITCHED_OFF}' if off else nobody}"
    click.echo(told, err=invocation.as_json)


class _Following:
    """A person who watches a run."""

    def __init__(
        self, invocation: Invocation, place: "Place", store: "Store", run: "Run", *, bound: timedelta | None
    ) -> None:
        from rota.operations.groups import follow_members
        from rota.operations.output import follow
        from rota.operations.runs import show_run

        self._invocation = invocation
        self._place = place
        self._store = store
        self._run = run
        self._bound = bound
        self._quiet = invocation.as_json
        spec = show_run(store, run.id).spec
        self._reader = follow_members(store, run) or follow(place.state, run.id, spec=spec)
        self._open = False
        self._told: set[str | None] = set()

    def to_the_end(self) -> int:
        """Show the run until it is finished, the limit is reached, or the person leaves."""
        try:
            return self._watch()
        except KeyboardInterrupt:
            self._say("", end_line=True)
            left = "running" if self._run.started_at is not None else "waiting"
            click.echo(f"left {left}; stop it with: rota cancel {self._run.handle}", err=self._quiet)
            return 0

    def _watch(self) -> int:
        from rota.operations.runs import show_run
        from rota.operations.system import attended

        clock = self._invocation.clock
        began = clock.monotonic()
        self._begin()
        shown_start = False
        while not self._run.status.final:
            if self._bound is not None and clock.monotonic() - began >= self._bound.total_seconds():
                return self._leave_at_limit()
            if not attended(self._store, self._place.state, now=self._invocation.now(), run=self._run):
                return self._leave_alone()
            self._invocation.pause(LOOK_AGAIN)
            self._run = show_run(self._store, self._run.id).run
            if self._run.started_at is not None and not shown_start:
                shown_start = True
                self._started()
            elif clock.monotonic() - began >= WAIT_TOLD:
                self._tell_wait()
            self._print(self._reader.lines())
        self._print(self._reader.rest())
        return self._finish()

    def _begin(self) -> None:
        if not self._quiet and not self._open:
            click.echo(f"{self._run.handle}  QUEUED", nl=False)
            self._open = True

    def _started(self) -> None:
        from rota.operations.jobs import project_timezone
        from rota.rules.times import clock_time

        if self._quiet or self._run.started_at is None:
            return
        at = clock_time(self._run.started_at, project_timezone(self._store))
        hint = f"(Ctrl-C leaves it running; stop it with: rota cancel {self._run.handle})"
        self._begin()  # anew, where it was said why it waits
        self._say(f" → RUNNING  {at}   {hint}", end_line=True)

    def _tell_wait(self) -> None:
        """Say why a run does not start, once for each cause: a line that only says QUEUED looks hung."""
        from rota.operations.explaining import explain

        cause = self._run.waiting_for
        if self._quiet or self._run.status.shown != "QUEUED" or cause in self._told:
            return
        self._told.add(cause)
        found = explain(self._store, self._run.handle, state=self._place.state, now=self._invocation.now())
        why = next((line.text for line in found.run_lines if line.label == "waits"), "")
        if why:
            self._begin()
            self._say(f", waits {why}", end_line=True)

    def _say(self, text: str, *, end_line: bool) -> None:
        if self._open and not self._quiet:
            click.echo(text, nl=end_line)
            self._open = not end_line

    def _print(self, lines: list[str]) -> None:
        if not self._quiet:
            for line in lines:
                self._say("", end_line=True)
                click.echo(f"│ {line}")

    def _finish(self) -> int:
        from rota.operations.views import run_json

        if self._quiet:
            print_json(run_json(self._run))
        else:
            self._say("", end_line=True)
            click.echo(self._final_line())
            self._tell_retry()
        return EXIT_CODES[self._run.status.value]

    def _tell_retry(self) -> None:
        """Say that a failure is tried again: whoever started it by hand would not expect that."""
        from rota.operations.runs import show_run
        from rota.rules.retry_words import say_retrying

        view = show_run(self._store, self._run.id)
        retry = next((one for one in view.chain if one.retry_of == self._run.id), None)
        if retry is not None:
            click.echo(
                f"{retry.handle}  {say_retrying(retry, view.spec)}; give that up with: rota cancel {retry.handle}"
            )

    def _final_line(self) -> str:
        from rota.cli.words import coloured, plain, session_words, shown_status, took
        from rota.rules.budget_words import say_usage

        run = self._run
        reason = f" {run.reason}" if run.reason else ""
        used = [took(run, now=self._invocation.now()), plain(say_usage(run.usage)), session_words(run)]
        told = [*used, plain(run.error), plain(run.result_summary)]
        words = " · ".join(part for part in told if part)
        return f"{run.handle}  {coloured(run.status, shown_status(run))}{reason}  {words}   rota show {run.handle}"

    def _leave_at_limit(self) -> int:
        from rota.operations.views import run_json

        self._say("", end_line=True)
        if self._quiet:
            print_json(run_json(self._run))
        waits = f", waiting for {self._run.waiting_for}" if self._run.waiting_for else ""
        told = (
            f"{self._run.handle} is still {self._run.status.shown}{waits}; it goes on   rota explain {self._run.handle}"
        )
        click.echo(told, err=self._quiet)
        return STILL_WAITING

    def _leave_alone(self) -> int:
        self._say("", end_line=True)
        handle = self._run.handle
        told = f"{handle} is {self._run.status.shown}; the scheduler has stopped. {start_words(self._invocation)}"
        click.echo(told, err=self._quiet)
        return NO_SCHEDULER


def rehearse_run(
    invocation: Invocation, job: str, params: dict[str, Any], *, force: bool, full: bool = False, retry: bool = False
) -> int:
    """Show what a start would do, with the conditions really asked; nothing is started."""
    from rota.cli.rehearsal import show_rehearsal

    return show_rehearsal(invocation, job, params, force=force, full=full, retry=retry)
