"""What `rota tick` prints: a line for what fired and ended, then what the look left."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from rota.cli.console import Console
from rota.cli.words import counted
from rota.declare.plan import Plan
from rota.engine.fire import Fired
from rota.engine.stopping import Stop
from rota.model.clock import Clock
from rota.model.errors import RotaError
from rota.model.records import Run
from rota.operations.project import Place
from rota.operations.tick_preview import TickPreview
from rota.rules.times import day_time
from rota.settings import Settings

if TYPE_CHECKING:
    from rota.ticking import TickReport

NAMED = 5


class TickConsole:
    """Watches a tick; the lines are those of `rota serve`. Problems are told also when it is quiet."""

    def __init__(self, place: Place, clock: Clock, *, quiet: bool) -> None:
        self.quiet = quiet
        self.when_looked: Callable[[TickReport], None] = lambda _report: None
        self._clock = clock
        self._console = Console(place, clock)
        self._zone = "UTC"
        self._told_error: RotaError | None = None

    def time(self) -> str:
        """Return the time of day in the project's zone."""
        return self._console.time()

    def close(self) -> None:
        """Let the database go."""
        self._console.leave()

    def begun(self, settings: Settings) -> None:
        """The tick has its turn and begins to look."""
        self._zone = settings.timezone
        self._console.open(settings)
        if self._told_error is not None:
            self._console.broken(self._told_error)

    def applied(self, plan: Plan) -> None:
        """The file was applied: tell what changed, where something did."""
        if not self.quiet and (plan.changing or plan.settings):
            self._console.applied(plan)

    def broken(self, error: RotaError) -> None:
        """The file cannot be applied; the last good set goes on."""
        self._told_error = error
        self._console.broken(error)

    def fired(self, fired: Fired) -> None:
        """Instants of a job were accounted for."""
        if not self.quiet:
            self._console.fired(fired)

    def finished(self, run: Run) -> None:
        """A run ended, or went back to wait."""
        if not self.quiet:
            self._console.finished(run)

    def looked(self, report: "TickReport") -> None:
        """The look is over."""
        self._console.flush()
        if not self.quiet:
            click.echo(self._summary(report))
        for problem in report.problems:
            click.echo(f"rota: {problem}", err=True)
        self.when_looked(report)

    def stopping(self, stop: Stop, *, running: int) -> None:
        """The tick was asked to stop."""
        if not self.quiet:
            self._console.stopping(stop, running=running)

    def _summary(self, report: "TickReport") -> str:
        if not report.enabled:
            return "the scheduler is switched off by `scheduler.enabled: false`; nothing was fired or started"
        skipped = sum(len(one.skips) for one in report.fired)
        fired = sum(len(one.runs) for one in report.fired)
        done = [(fired, "fired"), (skipped, "skipped"), (report.recovered, "recovered")]
        told = [f"{number:,} {word}" for number, word in done if number] or ["nothing was due"]
        if report.carried:
            told.append(f"{len(report.carried)} running ({_named(report.carried)})")
        if report.ready:
            told.append(f"{counted(report.ready, 'run')} waiting for a slot")
        if report.next_at is not None:
            told.append(f"next {day_time(report.next_at, self._zone, now=self._clock.now(), seconds=True)}")
        return ", ".join(told)


def tell_left(report: "TickReport") -> None:
    """Say to whom the tick left everything."""
    process = f"process {report.pid}" if report.pid else "another process"
    if report.left_to == "serve":
        click.echo(f"{process} serves this project; a tick has nothing to do")
    else:
        click.echo(f"another tick is at it ({process}); nothing was done")


def tell_preview(preview: TickPreview, *, serving: int | None) -> None:
    """Say what a tick would do."""
    if preview.file_problem:
        click.echo(f"rota: {preview.file_problem}; the last good set goes on", err=True)
    if serving is not None:
        click.echo(f"process {serving} serves this project: a tick would leave all of this to it")
    lines = [f"would {change}" for change in preview.changes]
    lines += [f"would look after {handle}, whose process is gone" for handle in preview.recovered]
    for fired in preview.fired:
        lines += [f"would fire {born.handle}" for born in fired.runs]
        lines += [f"would skip {born.handle}: {reason}" for born, reason, _ in fired.skips]
    lines += [f"would start {handle}" for handle in preview.claimed]
    if preview.ready:
        lines.append(f"would leave {counted(preview.ready, 'run')} waiting for a slot")
    for line in lines or ["nothing is due"]:
        click.echo(line)
    click.echo("nothing was changed (--dry-run)")


def preview_json(preview: TickPreview) -> dict[str, Any]:
    """Return what a tick would do as JSON."""
    return {
        "changes": list(preview.changes),
        "recovered": list(preview.recovered),
        **fired_json(preview.fired),
        "claimed": list(preview.claimed),
        "ready": preview.ready,
        "file_problem": preview.file_problem,
    }


def fired_json(fired: Iterable[Fired]) -> dict[str, list[dict[str, Any]]]:
    """Return fires and skips as JSON."""
    rows = list(fired)
    skips = [skip for one in rows for skip in one.skips]
    return {
        "fired": [{"run": born.handle, "id": born.id} for one in rows for born in one.runs],
        "skipped": [
            {"run": born.handle, "id": born.id, "reason": reason.value, "count": count} for born, reason, count in skips
        ],
    }


def _named(handles: tuple[str, ...]) -> str:
    return ", ".join(handles[:NAMED]) + (", …" if len(handles) > NAMED else "")
