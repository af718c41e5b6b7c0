"""The console and the log of a scheduler in the foreground."""

import asyncio
import logging
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any

import click

from rota.cli.commands.check import plan_json, show_plan
from rota.cli.errors import error_json, tell_problems
from rota.cli.invocation import UNCHANGED, Invocation
from rota.cli.output import background_streams, coloured, ignore_closed, json_text
from rota.declare.plan import Plan
from rota.engine.membership.shutdown import Stop
from rota.engine.transactions.fire import Fired
from rota.log import LogLine, log
from rota.model.amounts import counted, listed
from rota.model.clock import Clock, iso, say_duration
from rota.model.errors import FileProblems, RotaError
from rota.model.records import Run, cut
from rota.model.serialize import fields_json, run_json
from rota.model.states import Reason, Status
from rota.operations.activity import Pauses, pauses
from rota.operations.dry_run import TickPreview
from rota.operations.jobs import find_job, list_jobs
from rota.operations.output import said_last
from rota.operations.project.locate import ProjectPaths, open_place
from rota.operations.text import everything_words, jobs_paused_words, outcome_words
from rota.rules.schedule.preview import coming_fires
from rota.settings import LogFormat, Settings
from rota.store.driver import Store
from rota.store.tables import run_queries, runs
from rota.store.tables.jobs import job_names
from rota.store.tables.run_queries import retry_of
from rota.text.ansi import plain
from rota.text.format import clock_time, day_time, from_now, say_why, spaced
from rota.text.runs import say_attempt

if TYPE_CHECKING:
    from rota.serve.daemon import Daemon, SchedulerObserver
    from rota.serve.tick import TickReport


BURST_LINES = 10
LINES_PER_SECOND = 3
MAX_NAMES = 3
FIRED = "fired"
MAX_NEXT_FIRES = 6
MAX_TEXT_WIDTH = 90
MIN_TEXT_WIDTH = 20
LINE_HEAD_WIDTH = 45


class Console:
    """Observes a serving scheduler and prints its events."""

    def __init__(
        self, place: ProjectPaths, clock: Clock, *, zone: str = "UTC", as_json: bool = False, verb: str = "serves"
    ) -> None:
        self._verb = verb
        self._place = place
        self._clock = clock
        self._as_json = as_json
        self._store: Store | None = None
        self._zone = zone
        self._width = 12
        self._room = BURST_LINES
        self._held: dict[str, Counter[str]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._first_plan: Plan | None = None
        self._first_error: RotaError | None = None
        self._paused = Pauses(None, ())
        self._early: list[Callable[[], None]] = []

    def close(self) -> None:
        """Print pending lines and that the scheduler has stopped; close the database."""
        self._tell_early()
        self.leave()
        if self._store is not None:
            _echo("stopped" if not self._as_json else json_text({"event": "stopped"}))

    def leave(self) -> None:
        """Print pending lines and close the database."""
        self.flush()
        if self._store is not None:
            self._store.close()

    def open(self, settings: Settings) -> None:
        """Open the project's database and use its time zone."""
        self._store = open_place(self._place, self._clock, create=False)
        self._zone = settings.timezone
        names = self._store.read(job_names) if not self._as_json else []
        self._width = max((len(name) + 4 for name in names), default=self._width)

    # output of the scheduler

    def serving(self, settings: Settings, *, recovered: int, going_on: Collection[str] = ()) -> None:
        """Print that the scheduler is up."""
        self.open(settings)
        assert self._store is not None
        if self._as_json:
            self._event("serving", pid=os.getpid(), project=str(settings.folder), recovered=recovered)
        else:
            version, slots = metadata.version("rota"), settings.scheduler.concurrency
            place = f"{settings.folder}, pid {os.getpid()}, {counted(slots, 'slot')}, times in {self._zone}"
            _echo(f"rota {version} {self._verb} {place}")
        if self._first_plan is not None:
            self.applied(self._first_plan)
        if self._first_error is not None:
            self.broken(self._first_error)
        self.paused(pauses(self._store))
        if recovered:
            going = self._going_on(going_on)
            self._say(f"{counted(recovered, 'run')} of an earlier process recovered{going}", recovered=recovered)
        self._tell_early()
        self._tell_next()

    def listening(self, url: str) -> None:
        """Print the address of the HTTP server."""
        if self._as_json:
            self._event("listening", url=url)
        else:
            _echo(f"dashboard and API at {url}   rota open")

    def applied(self, plan: Plan) -> None:
        """Print the plan of an applied file."""
        if self._store is None:
            self._first_plan = plan  # told after the heading
            return
        if self._as_json:
            self._event("applied", **plan_json(plan, dry_run=False))
            return
        with ignore_closed(sys.stdout):
            show_plan(plan)

    def broken(self, error: RotaError) -> None:
        """Print the problems of a file; the last applied jobs stay."""
        if self._store is None:
            self._first_error = error
            return
        if self._as_json:
            self._event("broken", **error_json(error))
        elif isinstance(error, FileProblems):
            with ignore_closed(sys.stderr):
                tell_problems(error)
            _echo("the last good jobs stay active", err=True)
        else:
            _echo(f"rota: {error}; the last good jobs stay active", err=True)

    def paused(self, found: Pauses) -> None:
        """Print the current pauses when they change."""
        told, self._paused = self._paused, found
        if found == told:
            return
        if self._as_json:
            self._event("paused", everything=found.everything is not None, jobs=[pause.job for pause in found.jobs])
        elif found.everything is not None:
            words = everything_words(found.everything, zone=self._zone, now=self._clock.now())
            _echo(f"{click.style('paused', fg='yellow')} {words}")
        elif found.jobs:
            words = jobs_paused_words(found.jobs, zone=self._zone, now=self._clock.now())
            _echo(f"{click.style('paused', fg='yellow')} {words}")
        else:
            _echo("resumed: nothing is paused")

    def fired(self, fired: Fired) -> None:
        """Print fires and skips of a job."""
        if self._store is None:
            self._early.append(partial(self.fired, fired))  # told after the heading
            return
        for born in fired.runs:
            if self._as_json:
                self._event("fired", run=born.handle, id=born.id)
            elif self._admit(fired.job, FIRED):
                self._line(born.handle, click.style(FIRED, dim=True))
        for born, reason, count in fired.skips:
            if self._as_json:
                self._event("skipped", run=born.handle, id=born.id, reason=reason.value, count=count)
            elif self._admit(fired.job, f"SKIPPED {reason}"):
                self._line(born.handle, f"{coloured(Status.SKIPPED)} {_skip_words(reason, count)}")

    def finished(self, run: Run) -> None:
        """Print the end of a run, or that it waits again."""
        if self._store is None:
            self._early.append(partial(self.finished, run))
        elif self._as_json:
            self._event("finished" if run.status.final else "waits", **run_json(run))
        elif self._admit(run.job, f"{run.status.shown}{spaced(run.reason)}"):
            self._line(run.handle, self._ending(run))

    def stopping(self, stop: Stop, *, running: int) -> None:
        """Print that the scheduler stops."""
        self.flush()
        if self._as_json:
            self._event("stopping", mode=stop.mode, running=running)
            return
        _echo(f"stopping{_stop_words(stop, counted(running, 'run')) if running else ''}")

    def _tell_early(self) -> None:
        early, self._early = self._early, []
        for tell in early if self._store is not None else ():
            tell()

    def _going_on(self, run_ids: Collection[str]) -> str:
        assert self._store is not None
        handles = [run.handle for run in self._store.read(run_queries.running_runs) if run.id in run_ids]
        return f"; {listed(handles, MAX_NAMES)} {'continues' if len(handles) == 1 else 'continue'}" if handles else ""

    # how it is printed

    def _ending(self, run: Run) -> str:
        now = self._clock.now()
        status, _, rest = outcome_words(run, now=now).partition(" ")
        text = self._text(run)
        said = text.startswith(rest) or (run.denied_tools and rest in text)
        told = ["" if said else rest, text, self._next_of(run)]
        return f"{coloured(run.status, status.rstrip(','))} " + " · ".join(part for part in told if part)

    def _text(self, run: Run) -> str:
        if not run.status.final:
            return ""
        text = say_why(run, self._zone, now=self._clock.now()) or run.result_summary
        if not text and run.started_at is not None:
            text = self._last_words(run)
        room = shutil.get_terminal_size((MAX_TEXT_WIDTH + LINE_HEAD_WIDTH, 24)).columns - LINE_HEAD_WIDTH - self._width
        return cut(plain(text), max(MIN_TEXT_WIDTH, min(room, MAX_TEXT_WIDTH))) or ""

    def _last_words(self, run: Run) -> str:
        """Return the last line of a run's output; events of an agent become words."""
        job = None if self._store is None else self._store.read(partial(find_job, name=run.job))
        return said_last(self._place.state, run.id, spec=None if job is None else job.spec)

    def _next_of(self, run: Run) -> str:
        if run.not_before is not None:
            return f"checked again {clock_time(run.not_before, self._zone)}"
        if self._store is None:
            return ""
        job = self._store.read(partial(find_job, name=run.job))
        retry = self._store.read(partial(retry_of, run_id=run.id)) if run.status is Status.FAILED else None
        if retry is not None:
            when = f" at {clock_time(retry.not_before, self._zone)}" if retry.not_before else ""
            return f"retrying, {say_attempt(retry, job.spec)}{when}"
        fires = coming_fires(job, n=1)
        return f"next {day_time(fires[0].at, self._zone, now=self._clock.now(), seconds=True)}" if fires else ""

    def _tell_next(self) -> None:
        if self._store is None or self._as_json:
            return
        now = self._clock.now()
        views = list_jobs(self._store)
        found = sorted((fire.at, view.job.name) for view in views for fire in coming_fires(view.job, n=1))
        waiting = sum(self._store.read(runs.counts).get(Status.QUEUED, {}).values())
        if waiting:
            _echo(f"{counted(waiting, 'run waits', 'runs wait')} in the queue   rota queue")
        if not found and not waiting:
            _echo("nothing is due; `rota run JOB` starts one by hand")
        for at, name in found[:MAX_NEXT_FIRES]:
            _echo(f"  next {name:{self._width}} {day_time(at, self._zone, now=now, seconds=True)}, {_away(at, now)}")
        if len(found) > MAX_NEXT_FIRES:
            _echo(f"  and {len(found) - MAX_NEXT_FIRES} more   rota next")

    def time(self) -> str:
        """Return the time of day in the project's zone."""
        return clock_time(self._clock.now(), self._zone)

    def _line(self, name: str, text: str) -> None:
        _echo(f"{self.time()}  {name:{self._width}} {text}")

    def _say(self, text: str, **values: Any) -> None:
        if self._as_json:
            self._event("recovered", **values)
        else:
            _echo(text)

    def _event(self, event: str, **values: Any) -> None:
        told = {"event": event, "at": iso(self._clock.now()), **values}
        _echo(json_text(told))

    # not more than a few lines a second

    def _admit(self, job: str, what: str) -> bool:
        """Return whether a line may be printed now; else count it for the summary a second later."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(1.0, self._tick)
        reserved = BURST_LINES // 2 if what == FIRED else 0  # how things end matters more than that they began
        if self._room > reserved or what.startswith(Status.FAILED):
            self._room -= 1
            return True
        self._held.setdefault(what, Counter())[job] += 1
        return False

    def _tick(self) -> None:
        self._room = min(self._room + LINES_PER_SECOND, BURST_LINES)
        self.flush()
        if self._room < BURST_LINES:
            self._timer = asyncio.get_running_loop().call_later(1.0, self._tick)

    def flush(self) -> None:
        """Print pending lines: one for each kind of result."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        held, self._held = self._held, {}
        for what, jobs in held.items():
            names = [f"{job} ×{count}" if count > 1 else job for job, count in jobs.most_common(MAX_NAMES)]
            more = f" and {counted(len(jobs) - MAX_NAMES, 'more job')}" if len(jobs) > MAX_NAMES else ""
            self._line(f"+{sum(jobs.values()):,}", f"{what}: {', '.join(names)}{more}")


def _stop_words(stop: Stop, runs: str) -> str:
    if stop.mode == "now":
        return f", killing {runs} at once"
    if stop.mode == "detach":
        return f" with {runs}: commands continue for the next scheduler, functions may finish"
    waits = "" if stop.within is None else f" for {say_duration(stop.within)} at most"
    if stop.agents is not None and stop.agents != stop.within:
        waits += f", for agents {say_duration(stop.agents)}"
    return f", waiting for {runs}{waits} (Ctrl-C again kills them)"


def _skip_words(reason: Reason, count: int | None) -> str:
    if count == 1:
        return reason.value
    return f"{reason.value} ×{count:,}" if count else f"{reason.value}, more than 10,000"


def _away(at: Any, now: Any) -> str:
    return "now" if at <= now else from_now(at, now)


def _echo(text: str, *, err: bool = False) -> None:
    with ignore_closed(sys.stderr if err else sys.stdout):
        click.echo(text, err=err)


CONSOLE_EVENTS = frozenset(
    {
        "recovering run of a dead process",
        "run skipped",
        "run failed",
        "run waits",
        "stopping run",
        "file has problems; keeping the last applied jobs",
    }
)
_COLOURS = {logging.DEBUG: "2", logging.INFO: "32", logging.WARNING: "33", logging.ERROR: "31"}


def configure_logging(*, verbose: bool, console: bool, stamp: Callable[[], str]) -> None:
    """Configure the log; with `console`, omit messages that the console prints on the same stream.

    `stamp` gives the time for people; the JSON lines carry UTC.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Chosen(stamp))
    if console and not verbose:
        handler.addFilter(lambda record: _told(record).event not in CONSOLE_EVENTS)
    logger = logging.getLogger("rota")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False


def same_stream() -> bool:
    """Return whether stdout and stderr are the same file, where a line in both would appear twice."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return False


def say_dropped(clock: Clock, *, as_json: bool) -> dict[str, Callable[[int], str]]:
    """Return the functions that report dropped lines on stdout and stderr; `as_json` is for stdout."""

    def in_words(lines: int) -> str:
        return f"rota: dropped {counted(lines, 'line')} because this output was not read"

    def on_console(lines: int) -> str:
        return json_text({"event": "dropped", "at": iso(clock.now()), "lines": lines})

    def in_log(lines: int) -> str:
        at = iso(clock.now())
        return json_text({"event": "lines dropped", "lines": lines, "level": "warning", "timestamp": at})

    def on_stderr(lines: int) -> str:
        return in_log(lines) if _logs_json() else in_words(lines)

    return {"stdout": on_console if as_json else in_words, "stderr": on_stderr}


def _logs_json() -> bool:
    """Return whether log lines are JSON: as the file says, else unless stderr is a terminal."""
    return log.format == LogFormat.JSON or (log.format == LogFormat.AUTO and not sys.stderr.isatty())


class _Chosen(logging.Formatter):
    """Formats each record as the settings say; they are known only after the file is read."""

    def __init__(self, stamp: Callable[[], str]) -> None:
        super().__init__()
        self._json, self._people = _AsJson(), _ForPeople(stamp)

    def format(self, record: logging.LogRecord) -> str:
        return (self._json if _logs_json() else self._people).format(record)


class _AsJson(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        log_line = _told(record)
        at = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        line = {**log_line.fields, "event": log_line.event, "level": record.levelname.lower(), "timestamp": at}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json_text(line)


class _ForPeople(logging.Formatter):
    def __init__(self, stamp: Callable[[], str]) -> None:
        super().__init__()
        self._stamp = stamp

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower():7}"
        if sys.stderr.isatty():
            level = f"\x1b[{_COLOURS.get(record.levelno, '0')}m{level}\x1b[0m"
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{self._stamp()}  {level} {_told(record)}{trace}"


def _told(record: logging.LogRecord) -> LogLine:
    return record.msg if isinstance(record.msg, LogLine) else LogLine(record.getMessage(), {})


def run_in_foreground(
    invocation: Invocation,
    console: Console,
    make: "Callable[[SchedulerObserver | None], Daemon]",
    *,
    quiet: bool,
    verbose: bool,
) -> int:
    """Run the daemon of `make` until it stops; `quiet` prints no console lines."""
    in_one_place = not quiet and not invocation.as_json and same_stream()
    dropped = say_dropped(invocation.clock, as_json=invocation.as_json)
    with background_streams(dropped):
        configure_logging(verbose=verbose, console=in_one_place, stamp=console.time)
        try:
            asyncio.run(make(None if quiet else console).run())
        finally:
            console.close()
    return 0


MAX_RUNNING_NAMES = 5


class TickConsole:
    """Prints the lines of a tick as `rota serve` does; prints problems also with --quiet."""

    def __init__(self, place: ProjectPaths, clock: Clock, *, quiet: bool) -> None:
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
        """Close the database."""
        self._console.leave()

    def begun(self, settings: Settings) -> None:
        """Open the database at the start of the pass."""
        self._zone = settings.timezone
        self._console.open(settings)
        if self._told_error is not None:
            self._console.broken(self._told_error)

    def applied(self, plan: Plan) -> None:
        """Print the changes of an applied file, if any."""
        if not self.quiet and (plan.changing or plan.settings):
            self._console.applied(plan)

    def broken(self, error: RotaError) -> None:
        """Print the problems of a file; the last applied jobs stay."""
        self._told_error = error
        self._console.broken(error)

    def fired(self, fired: Fired) -> None:
        """Print fires and skips of a job."""
        if not self.quiet:
            self._console.fired(fired)

    def finished(self, run: Run) -> None:
        """Print the end of a run, or that it waits again."""
        if not self.quiet:
            self._console.finished(run)

    def looked(self, report: "TickReport") -> None:
        """Print the summary of the pass."""
        self._console.flush()
        if not self.quiet:
            click.echo(self._summary(report))
        for problem in report.problems:
            click.echo(f"rota: {problem}", err=True)
        self.when_looked(report)

    def stopping(self, stop: Stop, *, running: int) -> None:
        """Print that the tick stops."""
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
            names = ", ".join(report.carried[:MAX_RUNNING_NAMES]) + (
                ", …" if len(report.carried) > MAX_RUNNING_NAMES else ""
            )
            told.append(f"{len(report.carried)} running ({names})")
        if report.ready:
            told.append(f"{counted(report.ready, 'run')} waiting for a slot")
        if report.next_at is not None:
            told.append(f"next {day_time(report.next_at, self._zone, now=self._clock.now(), seconds=True)}")
        return ", ".join(told)


def tell_left(report: "TickReport") -> None:
    """Print why the tick did nothing."""
    process = f"process {report.pid}" if report.pid else "another process"
    if report.left_to == "serve":
        click.echo(f"{process} serves this project; the tick did nothing")
    else:
        click.echo(f"another tick is running ({process}); the tick did nothing")


def tell_preview(preview: TickPreview, *, serving: int | None) -> None:
    """Print what a tick would do."""
    if preview.file_problem:
        click.echo(f"rota: {preview.file_problem}; the last good jobs stay active", err=True)
    if serving is not None:
        click.echo(f"process {serving} serves this project and does this; a tick would do nothing")
    lines = [f"would {change}" for change in preview.changes]
    lines += [f"would recover {handle}, whose process is gone" for handle in preview.recovered]
    for fired in preview.fired:
        lines += [f"would fire {born.handle}" for born in fired.runs]
        lines += [f"would skip {born.handle}: {reason}" for born, reason, _ in fired.skips]
    lines += [f"would start {handle}" for handle in preview.claimed]
    if preview.ready:
        lines.append(f"would leave {counted(preview.ready, 'run')} waiting for a slot")
    for line in lines or ["nothing is due"]:
        click.echo(line)
    click.echo(UNCHANGED)


def preview_json(preview: TickPreview) -> dict[str, Any]:
    """Return what a tick would do as JSON."""
    return {
        **fields_json(preview, "changes", "recovered"),
        **fired_json(preview.fired),
        **fields_json(preview, "claimed", "ready", "file_problem"),
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
