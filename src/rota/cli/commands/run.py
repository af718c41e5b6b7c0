"""`rota run`, `trigger` and `direct`."""

import json
import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota import faults
from rota.cli.errors import INTERRUPTED, NO_SCHEDULER
from rota.cli.invocation import (
    UNCHANGED,
    Invocation,
    RotaCommand,
    dry_run_option,
    print_json,
    read_duration,
    tell_unchanged,
)
from rota.cli.output import coloured, print_pairs
from rota.model.amounts import counted
from rota.model.errors import InvalidValue
from rota.model.serialize import run_json
from rota.rules.budgets import say_usage
from rota.text.ansi import plain
from rota.text.format import briefly, clock_time, spaced
from rota.text.jobs import say_provider_hold
from rota.text.runs import say_retrying

if TYPE_CHECKING:
    from rota.engine.transactions.insert import RunRef
    from rota.model.records import Run
    from rota.operations.direct_calls import DirectView
    from rota.operations.project.locate import ProjectPaths
    from rota.store.driver import Store


POLL_SECONDS = 0.05
WAIT_REASON_SECONDS = 1.0
"""After how many seconds it is said why a run does not start."""
STILL_WAITING = 5
EXIT_CODES = {"COMPLETED": 0, "FAILED": 1, "SKIPPED": 3, "CANCELLED": 4}

param_option = click.option(
    "--param",
    "params",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set a param (without a kind: JSON, otherwise text). Repeatable.",
)
force_option = click.option(
    "--force", is_flag=True, help="Ignore the overlap policy and conditions. The override is recorded."
)


@click.command("run", cls=RotaCommand)
@click.argument("job")
@click.option("--detach", is_flag=True, help="Print the queued run and exit without waiting.")
@param_option
@force_option
@click.option("--retry", is_flag=True, help="Retry failures by the retry policy of the job; default: one attempt.")
@click.option(
    "--wait", "limit", metavar="D", help="Wait at most this long (30s, 5m); exit 5 if the run is not finished."
)
@click.option(
    "--next-slot", is_flag=True, help="Make a direct call, ahead of the queue and without a run: `rota direct`."
)
@dry_run_option
@click.option("--full", is_flag=True, help="With --dry-run: also print the full agent prompt.")
@click.pass_obj
def run_command(
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
    """Start JOB now and follow the run until it ends: one attempt. Ctrl-C stops following; the run continues.

    The run replaces a retry of JOB that waits for its backoff.

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
        return rehearse_call(invocation, job, given) if dry_run else call(invocation, job, given, bound=bound)
    if dry_run:
        return rehearse_run(invocation, job, given, force=force, full=full, retry=retry)
    return start(invocation, job, given, force=force, detach=detach, bound=bound, retry=retry)


def read_params(params: Sequence[str]) -> dict[str, Any]:
    """Return the params of a command line as typed; the kind of each decides how its value is read."""
    from rota.model.params import TypedText

    found: dict[str, Any] = {}
    for param in params:
        name, equals, value = param.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--param {param!r} is not NAME=VALUE")
        found[name] = TypedText(value)
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
    from rota.operations.run_actions import trigger
    from rota.operations.runs import show_run
    from rota.operations.status.heartbeat import attended, heartbeat, switched_off

    with invocation.store() as (place, store):
        by = invocation.maker() if invocation.maker().run else None
        born = trigger(store, job, now=invocation.now(), params=params, force=force, by=by, one_attempt=not retry)
        invocation.wake()
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
    invocation: Invocation, place: "ProjectPaths", store: "Store", *, run: "Run", bound: timedelta | None = None
) -> int:
    """Follow a run to its end, the limit or Ctrl-C; return the exit code."""
    return _RunFollower(invocation, place, store, run, bound=bound).to_the_end()


def tell_pause(invocation: Invocation, store: "Store", what: str) -> None:
    """Print that a run or call waits because everything is paused."""
    from rota.operations.activity import pauses
    from rota.operations.text import pause_words

    everything, now = pauses(store).everything, invocation.now()
    if everything is not None and (everything.until is None or everything.until > now):
        told = pause_words(everything.until, everything.reason, zone=invocation.zone(store), now=now)
        click.echo(f"{what} waits: everything is paused{told}; `rota resume --all` continues", err=True)


def start_words(invocation: Invocation) -> str:
    """Return the hint for a project without a scheduler."""
    return f"Start one with {invocation.spelled('serve')}, or run it now with {invocation.spelled('tick')}"


def _tell_queued(invocation: Invocation, run: "Run", *, served: bool, off: bool) -> None:
    from rota.operations.status.heartbeat import SWITCHED_OFF

    if invocation.as_json:
        print_json(run_json(run))
    if served:
        if not invocation.as_json:
            click.echo(f"queued as {run.handle}   rota logs -f {run.handle}")
        return
    idle = f"no scheduler is running here. {start_words(invocation)}"
    told = f"queued as {run.handle}; {f'it waits: {SWITCHED_OFF}' if off else idle}"
    click.echo(told, err=invocation.as_json)


class _Follower:
    def __init__(
        self, invocation: Invocation, place: "ProjectPaths", store: "Store", *, bound: timedelta | None
    ) -> None:
        self._invocation = invocation
        self._place = place
        self._store = store
        self._deadline = None if bound is None else invocation.clock.monotonic() + bound.total_seconds()
        self._quiet = invocation.as_json
        self._open = False

    def _expired(self) -> bool:
        return self._deadline is not None and self._invocation.clock.monotonic() >= self._deadline

    def _say(self, text: str, *, end_line: bool) -> None:
        if self._open and not self._quiet:
            click.echo(text, nl=end_line)
            self._open = not end_line

    def _print(self, lines: list[str]) -> None:
        if not self._quiet:
            for line in lines:
                self._say("", end_line=True)
                click.echo(f"│ {line}")


class _RunFollower(_Follower):
    def __init__(
        self, invocation: Invocation, place: "ProjectPaths", store: "Store", run: "Run", *, bound: timedelta | None
    ) -> None:
        from rota.operations.groups import follow_members
        from rota.operations.output import follow
        from rota.operations.runs import show_run

        super().__init__(invocation, place, store, bound=bound)
        self._run = run
        spec = show_run(store, run.id).spec
        self._reader = follow_members(store, run) or follow(place.state, run.id, spec=spec)
        self._told: set[str | None] = set()

    def to_the_end(self) -> int:
        """Follow the run until it ends, the limit expires, or Ctrl-C."""
        try:
            return self._watch()
        except KeyboardInterrupt:
            self._say("", end_line=True)
            left = "running" if self._run.started_at is not None else "waiting"
            click.echo(f"left {left}; stop it with: rota cancel {self._run.handle}", err=self._quiet)
            return 0

    def _watch(self) -> int:
        from rota.operations.runs import show_run
        from rota.operations.status.heartbeat import attended

        clock = self._invocation.clock
        began = clock.monotonic()
        self._begin()
        shown_start = False
        while not self._run.status.final:
            if self._expired():
                return self._leave_at_limit()
            if not attended(self._store, self._place.state, now=self._invocation.now(), run=self._run):
                return self._leave_alone()
            self._invocation.pause(POLL_SECONDS)
            self._run = show_run(self._store, self._run.id).run
            if self._run.started_at is not None and not shown_start:
                shown_start = True
                self._started()
            elif clock.monotonic() - began >= WAIT_REASON_SECONDS:
                self._tell_wait()
            self._print(self._reader.lines())
        self._print(self._reader.rest())
        return self._finish()

    def _begin(self) -> None:
        if not self._quiet and not self._open:
            click.echo(f"{self._run.handle}  QUEUED", nl=False)
            self._open = True

    def _started(self) -> None:
        if self._quiet or self._run.started_at is None:
            return
        at = clock_time(self._run.started_at, self._invocation.zone(self._store))
        hint = f"(Ctrl-C leaves it running; stop it with: rota cancel {self._run.handle})"
        self._begin()  # anew, where it was said why it waits
        self._say(f" → RUNNING  {at}   {hint}", end_line=True)

    def _tell_wait(self) -> None:
        """Print why a run does not start, once per cause."""
        from rota.operations.explain import explain

        cause = self._run.waiting_for
        if self._quiet or self._run.status.shown != "QUEUED" or cause in self._told:
            return
        self._told.add(cause)
        explanation = explain(self._store, self._run.handle, state=self._place.state, now=self._invocation.now())
        why = next((line.text for line in explanation.run_lines if line.label == "waits"), "")
        if why:
            self._begin()
            self._say(f", waits {why}", end_line=True)

    def _finish(self) -> int:
        if self._quiet:
            print_json(run_json(self._run))
        else:
            self._say("", end_line=True)
            click.echo(self._final_line())
            self._tell_retry()
        return EXIT_CODES[self._run.status.value]

    def _tell_retry(self) -> None:
        """Print that a failed run is retried, which a manual start may not expect."""
        from rota.operations.runs import show_run

        view = show_run(self._store, self._run.id)
        retry = next((run for run in view.chain if run.retry_of == self._run.id), None)
        if retry is not None:
            click.echo(
                f"{retry.handle}  {say_retrying(retry, view.spec)}; to cancel the retry: rota cancel {retry.handle}"
            )

    def _final_line(self) -> str:
        from rota.operations.text import session_words, shown_status, took

        run = self._run
        reason = f" {run.reason}" if run.reason else ""
        used = [took(run, now=self._invocation.now()), plain(say_usage(run.usage)), session_words(run)]
        told = [*used, plain(run.error), plain(run.result_summary)]
        words = " · ".join(part for part in told if part)
        return f"{run.handle}  {coloured(run.status, shown_status(run))}{reason}  {words}   rota show {run.handle}"

    def _leave_at_limit(self) -> int:
        self._say("", end_line=True)
        if self._quiet:
            print_json(run_json(self._run))
        waits = f", waiting for {self._run.waiting_for}" if self._run.waiting_for else ""
        run = self._run.handle
        click.echo(
            f"{run} is still {self._run.status.shown}{waits}; it continues   rota explain {run}", err=self._quiet
        )
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
    """Print what a start would do; evaluate the conditions, start nothing."""
    from rota.cli.commands.dry_run import show_rehearsal

    return show_rehearsal(invocation, job, params, force=force, full=full, retry=retry)


@click.command("trigger", cls=RotaCommand)
@click.argument("job")
@param_option
@force_option
@click.option(
    "--each",
    "file",
    metavar="FILE|-",
    help="Enqueue one run per line of this file; each line is a JSON object of params. All or none.",
)
@dry_run_option
@click.pass_obj
def trigger_command(
    invocation: Invocation, *, job: str, params: tuple[str, ...], force: bool, file: str | None, dry_run: bool
) -> int:
    """Start JOB now without waiting; failures are retried by the policy of the job. With --each, once per line."""
    given = read_params(params)
    if file is not None:
        return _start_each(invocation, job, read_lines(_text(invocation, file)), given, force=force, dry_run=dry_run)
    if dry_run:
        return rehearse_run(invocation, job, given, force=force, retry=True)
    return start(invocation, job, given, force=force, detach=True, retry=True)


def _text(invocation: Invocation, file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return (invocation.cwd / Path(file)).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(
            f"{file} cannot be read: {error}", hint="name a file of JSON lines, or - for stdin"
        ) from None


def read_lines(text: str) -> dict[int, dict[str, Any]]:
    """Return the params of each line by its number; skip empty lines."""
    return {number: _params(line, number) for number, line in enumerate(text.split("\n"), start=1) if line.strip()}


def _params(line: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line, parse_constant=_refuse_constant)
    except ValueError as error:
        raise InvalidValue(
            f"line {number} is not JSON: {error}", hint='write one object a line: {"name": "x"}'
        ) from None
    if not isinstance(found, dict):
        raise InvalidValue(f"line {number} is not a JSON object", hint='write one object a line: {"name": "x"}')
    return found


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not a number in JSON")


def _start_each(
    invocation: Invocation,
    job: str,
    lines: dict[int, dict[str, Any]],
    params: dict[str, Any],
    *,
    force: bool,
    dry_run: bool,
) -> int:
    from rota.operations.bulk import trigger_many

    wanted = [{**params, **line} for line in lines.values()]
    titles = [f"line {number}" for number in lines]
    with invocation.changing(dry_run=dry_run) as store:
        born = trigger_many(store, job, wanted, now=invocation.now(), force=force, titles=titles, dry_run=dry_run)
    _tell(invocation, job, born, dry_run=dry_run)
    return 0


def _tell(invocation: Invocation, job: str, born: "list[RunRef]", *, dry_run: bool) -> None:
    first, last = born[0].handle, born[-1].handle
    if invocation.as_json:
        runs = [{"id": ref.id, "run": ref.handle} for ref in born]
        print_json({"dry_run": dry_run, "job": job, "count": len(born), "first": first, "last": last, "runs": runs})
        return

    named = first if len(born) == 1 else f"{first} … {last}"
    click.echo(f"{'would queue' if dry_run else 'queued'} {counted(len(born), 'run')}: {named}   rota queue")
    tell_unchanged(dry_run=dry_run)


@click.command("direct", cls=RotaCommand)
@click.argument("job")
@param_option
@click.option("--wait", "limit", metavar="D", help="Wait at most this long (30s, 5m), then give up and exit 5.")
@dry_run_option
@click.pass_obj
def direct_command(
    invocation: Invocation, *, job: str, params: tuple[str, ...], limit: str | None, dry_run: bool
) -> int:
    """Execute JOB in the next free slot and follow it until it ends, without creating a run: `rota run --next-slot`.

    A direct call is ahead of the whole queue and needs only a slot, pools and budgets; an exhausted budget refuses it.
    Ctrl-C gives up the place, or cancels the call.

    Exit codes: 0 COMPLETED, 1 FAILED, 4 CANCELLED, 5 given up at the --wait limit, 69 no scheduler.
    """
    given = read_params(params)
    if dry_run:
        return rehearse_call(invocation, job, given)
    return call(invocation, job, given, bound=read_duration(limit) if limit else None)


def call(invocation: Invocation, job: str, params: dict[str, Any], *, bound: timedelta | None) -> int:
    """Call a job directly and follow it; return the exit code."""
    from rota.operations.direct_actions import ask_direct

    with invocation.store() as (place, store):
        call_id = ask_direct(store, place.state, job, now=invocation.now(), params=params)
        calling = _CallFollower(invocation, place, store, call=(call_id, job), bound=bound)
        try:
            tell_pause(invocation, store, "the call")
            return calling.to_the_end()
        except KeyboardInterrupt:
            return calling.given_up()
        except BaseException:
            calling.give_up()
            raise


def rehearse_call(invocation: Invocation, job: str, params: dict[str, Any]) -> int:
    """Print what a direct call would do; call nothing."""
    from rota.operations.direct_actions import rehearse_direct, require_scheduler
    from rota.operations.text import work_words

    with invocation.store() as (place, store):
        require_scheduler(place.state)
        found = rehearse_direct(store, job, params=params)
    spec, pools = found.job.spec, {draw.pool: draw.cost for draw in found.job.spec.pools}
    if invocation.as_json:
        print_json({"job": job, "params": dict(found.params), "pools": pools, "ahead": found.ahead})
        return 0
    click.echo(f"would call {job} in the next free slot{_behind(found.ahead)}, before the whole queue")
    drawn = " ".join(f"{pool}={cost}" for pool, cost in pools.items()) or "none"
    print_pairs([(spec.work.kind.value, work_words(spec)), ("pools", drawn)])
    click.echo(UNCHANGED)
    return 0


def _behind(ahead: int) -> str:
    return f", behind {counted(ahead, 'caller')}" if ahead else ""


class _CallFollower(_Follower):
    def __init__(
        self,
        invocation: Invocation,
        place: "ProjectPaths",
        store: "Store",
        *,
        call: tuple[str, str],
        bound: timedelta | None,
    ) -> None:
        from rota.operations.direct_calls import direct_spec, direct_view
        from rota.operations.output import follow

        super().__init__(invocation, place, store, bound=bound)
        self._id, self._job = call
        view = direct_view(store, self._id)
        spec = direct_spec(store, view) if view is not None else None
        self._reader = follow(place.state, self._id, spec=spec)

    def give_up(self) -> bool:
        """Leave the queue, or stop the call; return whether it was unfinished."""
        from rota.operations.direct_actions import withdraw

        return withdraw(self._store, self._place.state, self._id, now=self._invocation.now())

    def given_up(self) -> int:
        """Handle Ctrl-C."""
        self.give_up()
        self._say("", end_line=True)
        click.echo(f"{self._job}  cancelled   rota show {self._id}", err=self._quiet)
        return INTERRUPTED

    def to_the_end(self) -> int:
        """Follow the call until it ends or the limit expires."""
        view = self._look()
        self._begin(view)
        shown_start = False
        while not view.status.final:
            if self._expired():
                return self._leave_at_limit(view)
            self._invocation.pause(POLL_SECONDS)
            view = self._look()
            if view.started_at is not None and not shown_start:
                shown_start = True
                self._started(view)
            self._print(self._reader.lines())
        self._print(self._reader.rest())
        return self._finish(view)

    def _look(self) -> "DirectView":
        from rota.operations.direct_actions import look_at

        return look_at(self._store, self._place.state, self._id, name=self._job)

    def _begin(self, view: "DirectView") -> None:
        if not self._quiet:
            click.echo(f"{self._job}  waits for the next slot{_behind(view.ahead)}{self._held()}", nl=False)
            self._open = True

    def _held(self) -> str:
        """Return the end of the provider hold of the job's agent."""
        from rota.operations.capacity import hold_of_job

        hold = hold_of_job(self._store, self._job)
        if hold is None:
            return ""
        zone, now = self._invocation.zone(self._store), self._invocation.now()
        return f"; {say_provider_hold(hold, zone=zone, now=now)}"

    def _started(self, view: "DirectView") -> None:
        if view.started_at is not None:
            at = clock_time(view.started_at, self._invocation.zone(self._store))
            self._say(f" → RUNNING  {at}   (Ctrl-C cancels it)", end_line=True)

    def _finish(self, view: "DirectView") -> int:
        from rota.operations.direct_calls import direct_json

        if self._quiet:
            print_json(direct_json(view))
        else:
            self._say("", end_line=True)
            click.echo(final_line(view))
        return EXIT_CODES[view.status.value]

    def _leave_at_limit(self, view: "DirectView") -> int:
        from rota.operations.direct_calls import direct_json

        self.give_up()
        self._say("", end_line=True)
        if self._quiet:
            print_json(direct_json(view))
        what = "was still running and is cancelled" if view.started_at else "got no slot and left the queue"
        click.echo(f"{self._job} {what}   rota show {self._id}", err=self._quiet)
        return STILL_WAITING


def final_line(view: "DirectView") -> str:
    """Return the result of a direct call on one line."""
    took = briefly(view.finished_at - view.started_at) if view.finished_at and view.started_at else ""
    words = " · ".join(part for part in (took, plain(view.error), plain(view.summary)) if part)
    return f"{view.name}  {coloured(view.status)}{spaced(view.reason)}  {words}   rota show {view.id}"
