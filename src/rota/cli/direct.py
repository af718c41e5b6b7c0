"""`rota direct`, and `rota run --next-slot`: execute a job in the next free slot, before the whole queue."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from rota.cli.errors import INTERRUPTED
from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json, read_duration
from rota.cli.run import EXIT_CODES, LOOK_AGAIN, STILL_WAITING, param_option, read_params, tell_pause

if TYPE_CHECKING:
    from rota.operations.direct_calls import DirectView
    from rota.operations.project import Place
    from rota.store.driver import Store


@click.command("direct", cls=RotaCommand)
@click.argument("job")
@param_option
@click.option("--wait", "limit", metavar="D", help="Wait at most this long (30s, 5m), then give up; exit 5.")
@dry_run_option
@click.pass_obj
def command(invocation: Invocation, *, job: str, params: tuple[str, ...], limit: str | None, dry_run: bool) -> int:
    """Execute JOB in the next free slot and follow it to its end, without making a run: `rota run --next-slot`.

    It comes before the whole queue and asks for slot, pools and budgets alone; without room in a budget it is refused.
    Ctrl-C gives up the place, or cancels the call.

    Exit codes: 0 COMPLETED, 1 FAILED, 4 CANCELLED, 5 given up at the --wait limit, 69 no scheduler.
    """
    given = read_params(params)
    if dry_run:
        return rehearse_call(invocation, job, given)
    return call(invocation, job, given, bound=read_duration(limit) if limit else None)


def call(invocation: Invocation, job: str, params: dict[str, Any], *, bound: timedelta | None) -> int:
    """Call a job directly and follow it; return the exit code."""
    from rota.operations.direct import ask_direct

    with invocation.store() as (place, store):
        call_id = ask_direct(store, place.state, job, now=invocation.now(), params=params)
        calling = _Calling(invocation, place, store, call_id, job, bound=bound)
        try:
            tell_pause(invocation, store, "the call")
            return calling.to_the_end()
        except KeyboardInterrupt:
            return calling.given_up()
        except BaseException:
            calling.give_up()
            raise


def rehearse_call(invocation: Invocation, job: str, params: dict[str, Any]) -> int:
    """Show what a direct call would do; nothing is asked for."""
    from rota.cli.tables import print_pairs
    from rota.operations.direct import rehearse_direct, require_scheduler
    from rota.operations.spec_words import work_words

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
    click.echo("nothing was changed (--dry-run)")
    return 0


def _behind(ahead: int) -> str:
    from rota.cli.words import counted

    return f", behind {counted(ahead, 'caller')}" if ahead else ""


class _Calling:
    """A person who called a job directly and watches it."""

    def __init__(
        self,
        invocation: Invocation,
        place: "Place",
        store: "Store",
        call_id: str,
        job: str,
        *,
        bound: timedelta | None,
    ) -> None:
        from rota.operations.direct_calls import direct_spec, direct_view
        from rota.operations.output import follow

        asked = direct_view(store, call_id)
        spec = direct_spec(store, asked) if asked is not None else None
        self._invocation = invocation
        self._place = place
        self._store = store
        self._id = call_id
        self._job = job
        self._bound = bound
        self._quiet = invocation.as_json
        self._reader = follow(place.state, call_id, spec=spec)
        self._open = False

    def give_up(self) -> bool:
        """Leave the line, or have the call stopped; tell whether it was not over."""
        from rota.operations.direct import withdraw

        return withdraw(self._store, self._place.state, self._id, now=self._invocation.now())

    def given_up(self) -> int:
        """Do what Ctrl-C means."""
        self.give_up()
        self._end_line()
        click.echo(f"{self._job}  given up   rota show {self._id}", err=self._quiet)
        return INTERRUPTED

    def to_the_end(self) -> int:
        """Show the call until it has ended or the limit is reached."""
        clock = self._invocation.clock
        began = clock.monotonic()
        view = self._look()
        self._begin(view)
        shown_start = False
        while not view.status.final:
            if self._bound is not None and clock.monotonic() - began >= self._bound.total_seconds():
                return self._leave_at_limit(view)
            self._invocation.pause(LOOK_AGAIN)
            view = self._look()
            if view.started_at is not None and not shown_start:
                shown_start = True
                self._started(view)
            self._print(self._reader.lines())
        self._print(self._reader.rest())
        return self._finish(view)

    def _look(self) -> "DirectView":
        from rota.operations.direct import look_at

        return look_at(self._store, self._place.state, self._id, name=self._job)

    def _begin(self, view: "DirectView") -> None:
        if not self._quiet:
            click.echo(f"{self._job}  waits for the next slot{_behind(view.ahead)}{self._held()}", nl=False)
            self._open = True

    def _held(self) -> str:
        """Return until when the provider of the job's agent is held: the caller waits as long."""
        from rota.model.holds import provider_pool
        from rota.operations.holds import hold_of_job
        from rota.operations.jobs import project_timezone
        from rota.rules.hold_words import say_hold

        hold = hold_of_job(self._store, self._job)
        if hold is None:
            return ""
        zone, now = project_timezone(self._store), self._invocation.now()
        return f"; {say_hold(provider_pool(hold.provider), hold.until, zone=zone, now=now)}"

    def _started(self, view: "DirectView") -> None:
        from rota.operations.jobs import project_timezone
        from rota.rules.times import clock_time

        if self._open and view.started_at is not None:
            at = clock_time(view.started_at, project_timezone(self._store))
            click.echo(f" → RUNNING  {at}   (Ctrl-C cancels it)")
            self._open = False

    def _end_line(self) -> None:
        if self._open:
            click.echo("")
            self._open = False

    def _print(self, lines: list[str]) -> None:
        if not self._quiet:
            for line in lines:
                self._end_line()
                click.echo(f"│ {line}")

    def _finish(self, view: "DirectView") -> int:
        from rota.operations.direct_calls import direct_json

        if self._quiet:
            print_json(direct_json(view))
        else:
            self._end_line()
            click.echo(final_line(view))
        return EXIT_CODES[view.status.value]

    def _leave_at_limit(self, view: "DirectView") -> int:
        from rota.operations.direct_calls import direct_json

        self.give_up()
        self._end_line()
        if self._quiet:
            print_json(direct_json(view))
        what = "was still running and is cancelled" if view.started_at else "got no slot and gives up its place"
        click.echo(f"{self._job} {what}   rota show {self._id}", err=self._quiet)
        return STILL_WAITING


def final_line(view: "DirectView") -> str:
    """Return how a direct call ended, on one line."""
    from rota.cli.words import coloured, plain
    from rota.rules.times import briefly

    reason = f" {view.reason}" if view.reason else ""
    took = briefly(view.finished_at - view.started_at) if view.finished_at and view.started_at else ""
    words = " · ".join(part for part in (took, plain(view.error), plain(view.summary)) if part)
    return f"{view.name}  {coloured(view.status)}{reason}  {words}   rota show {view.id}"
