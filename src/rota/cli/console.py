"""The console of `rota serve`: one short line for what fires, ends and changes; dense jobs are collapsed."""

import asyncio
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from importlib import metadata
from typing import Any

import click

from rota.cli.apply import plan_json, show_plan
from rota.cli.errors import error_json, tell_problems
from rota.cli.streams import json_text, telling
from rota.cli.words import coloured, counted, everything_words, jobs_paused_words, outcome_words, plain
from rota.declare.plan import Plan
from rota.engine.fire import Fired
from rota.engine.stopping import Stop
from rota.model.clock import Clock, iso
from rota.model.durations import say_duration
from rota.model.errors import FileProblems, RotaError
from rota.model.records import Run, cut
from rota.model.states import Reason, Status
from rota.operations.jobs import find_job, list_jobs
from rota.operations.output import said_last
from rota.operations.pauses import Pauses, pauses
from rota.operations.project import Place, open_place
from rota.operations.views import run_json
from rota.rules.coming import coming_fires
from rota.rules.retry_words import say_attempt
from rota.rules.times import clock_time, day_time, from_now
from rota.rules.why import say_why
from rota.settings import Settings
from rota.store import counters, finding
from rota.store.chains import retry_of
from rota.store.driver import Store
from rota.store.jobs import job_names

LINES_AT_ONCE = 10
LINES_A_SECOND = 3
NAMES_SHOWN = 3
FIRED = "fired"
NEXT_SHOWN = 6
TEXT_SHOWN = 90
TEXT_LEAST = 20
LINE_HEAD = 45


class Console:
    """Watches a serving scheduler and prints what a person wants to see of it."""

    def __init__(
        self, place: Place, clock: Clock, *, zone: str = "UTC", as_json: bool = False, verb: str = "serves"
    ) -> None:
        self._verb = verb
        self._place = place
        self._clock = clock
        self._as_json = as_json
        self._store: Store | None = None
        self._zone = zone
        self._width = 12
        self._room = LINES_AT_ONCE
        self._held: dict[str, Counter[str]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._first_plan: Plan | None = None
        self._first_error: RotaError | None = None
        self._paused = Pauses(None, ())
        self._early: list[Callable[[], None]] = []

    def close(self) -> None:
        """Print what was held back and that the scheduler has stopped; let the database go."""
        self._tell_early()
        self.leave()
        if self._store is not None:
            _echo("stopped" if not self._as_json else json_text({"event": "stopped"}))

    def leave(self) -> None:
        """Print what was held back and let the database go."""
        self.flush()
        if self._store is not None:
            self._store.close()

    def open(self, settings: Settings) -> None:
        """Read what is told from the project's database, in its zone."""
        self._store = open_place(self._place, self._clock, create=False)
        self._zone = settings.timezone
        names = self._store.read(job_names) if not self._as_json else []
        self._width = max((len(name) + 4 for name in names), default=self._width)

    # what the scheduler tells

    def serving(self, settings: Settings, *, recovered: int, going_on: Collection[str] = ()) -> None:
        """The scheduler is up."""
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
        """HTTP is served at this address."""
        if self._as_json:
            self._event("listening", url=url)
        else:
            _echo(f"dashboard and API at {url}   rota open")

    def applied(self, plan: Plan) -> None:
        """The file was applied."""
        if self._store is None:
            self._first_plan = plan  # told after the heading
            return
        if self._as_json:
            self._event("applied", **plan_json(plan, dry_run=False))
            return
        with telling(sys.stdout):
            show_plan(plan)

    def broken(self, error: RotaError) -> None:
        """The file cannot be applied; the last good set goes on."""
        if self._store is None:
            self._first_error = error
            return
        if self._as_json:
            self._event("broken", **error_json(error))
        elif isinstance(error, FileProblems):
            with telling(sys.stderr):
                tell_problems(error)
            _echo("the last good set goes on", err=True)
        else:
            _echo(f"rota: {error}; the last good set goes on", err=True)

    def paused(self, found: Pauses) -> None:
        """Pauses changed: tell what is paused now, or that nothing is any more."""
        told, self._paused = self._paused, found
        if found == told:
            return
        if self._as_json:
            self._event("paused", everything=found.everything is not None, jobs=[one.job for one in found.jobs])
        elif found.everything is not None:
            words = everything_words(found.everything, zone=self._zone, now=self._clock.now())
            _echo(f"{click.style('paused', fg='yellow')} {words}")
        elif found.jobs:
            words = jobs_paused_words(found.jobs, zone=self._zone, now=self._clock.now())
            _echo(f"{click.style('paused', fg='yellow')} {words}")
        else:
            _echo("resumed: nothing is paused any more")

    def fired(self, fired: Fired) -> None:
        """Instants of a job were accounted for."""
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
        """A run ended, or went back to wait."""
        if self._store is None:
            self._early.append(partial(self.finished, run))
        elif self._as_json:
            self._event("finished" if run.status.final else "waits", **run_json(run))
        elif self._admit(run.job, f"{run.status.shown}{f' {run.reason}' if run.reason else ''}"):
            self._line(run.handle, self._ending(run))

    def stopping(self, stop: Stop, *, running: int) -> None:
        """The scheduler was asked to stop."""
        self.flush()
        if self._as_json:
            self._event("stopping", mode=stop.mode, running=running)
            return
        _echo(f"stopping{_stop_words(stop, counted(running, 'run')) if running else ''}")

    def _tell_early(self) -> None:
        """Tell what recovery brought before the heading."""
        early, self._early = self._early, []
        for tell in early if self._store is not None else ():
            tell()

    def _going_on(self, run_ids: Collection[str]) -> str:
        """Return which runs were taken over."""
        assert self._store is not None
        handles = [run.handle for run in self._store.read(finding.running_runs) if run.id in run_ids]
        more = f" and {len(handles) - NAMES_SHOWN} more" if len(handles) > NAMES_SHOWN else ""
        told = f"{', '.join(handles[:NAMES_SHOWN])}{more}"
        return f"; {told} {'goes' if len(handles) == 1 else 'go'} on" if handles else ""

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
        room = shutil.get_terminal_size((TEXT_SHOWN + LINE_HEAD, 24)).columns - LINE_HEAD - self._width
        return cut(plain(text), max(TEXT_LEAST, min(room, TEXT_SHOWN))) or ""

    def _last_words(self, run: Run) -> str:
        """Return the last line of a run's output; the events of an agent are told in words."""
        job = None if self._store is None else self._store.read(partial(find_job, name=run.job))
        return said_last(self._place.state, run.id, spec=None if job is None else job.spec)

    def _next_of(self, run: Run) -> str:
        if run.not_before is not None:
            return f"looked at again {clock_time(run.not_before, self._zone)}"
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
        waiting = sum(self._store.read(counters.counts).get(Status.QUEUED, {}).values())
        if waiting:
            _echo(f"{counted(waiting, 'run')} {'waits' if waiting == 1 else 'wait'} in the queue   rota queue")
        if not found and not waiting:
            _echo("nothing is due; `rota run JOB` starts one by hand")
        for at, name in found[:NEXT_SHOWN]:
            _echo(f"  next {name:{self._width}} {day_time(at, self._zone, now=now, seconds=True)}, {_away(at, now)}")
        if len(found) > NEXT_SHOWN:
            _echo(f"  and {len(found) - NEXT_SHOWN} more   rota next")

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
        """Tell whether a line may be printed now; else it is counted and told with others a second later."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(1.0, self._tick)
        reserved = LINES_AT_ONCE // 2 if what == FIRED else 0  # how things end matters more than that they began
        if self._room > reserved or what.startswith(Status.FAILED):
            self._room -= 1
            return True
        self._held.setdefault(what, Counter())[job] += 1
        return False

    def _tick(self) -> None:
        self._room = min(self._room + LINES_A_SECOND, LINES_AT_ONCE)
        self.flush()
        if self._room < LINES_AT_ONCE:
            self._timer = asyncio.get_running_loop().call_later(1.0, self._tick)

    def flush(self) -> None:
        """Print what was held back: one line for each kind of ending."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        held, self._held = self._held, {}
        for what, jobs in held.items():
            names = [f"{job} ×{count}" if count > 1 else job for job, count in jobs.most_common(NAMES_SHOWN)]
            more = f" and {counted(len(jobs) - NAMES_SHOWN, 'more job')}" if len(jobs) > NAMES_SHOWN else ""
            self._line(f"+{sum(jobs.values()):,}", f"{what}: {', '.join(names)}{more}")


def _stop_words(stop: Stop, runs: str) -> str:
    """Return what becomes of what still runs."""
    if stop.mode == "now":
        return f", ending {runs} at once"
    if stop.mode == "detach":
        return f" with {runs}: commands go on for the next scheduler, functions may finish"
    waits = "" if stop.within is None else f" for {say_duration(stop.within)} at most"
    if stop.agents is not None and stop.agents != stop.within:
        waits += f", for agents {say_duration(stop.agents)}"
    return f", waiting for {runs}{waits} (Ctrl-C again ends them)"


def _skip_words(reason: Reason, count: int | None) -> str:
    if count == 1:
        return reason.value
    return f"{reason.value} ×{count:,}" if count else f"{reason.value}, more than 10,000"


def _away(at: Any, now: Any) -> str:
    return "now" if at <= now else from_now(at, now)


def _echo(text: str, *, err: bool = False) -> None:
    with telling(sys.stderr if err else sys.stdout):
        click.echo(text, err=err)
