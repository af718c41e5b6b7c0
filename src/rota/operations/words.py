"""The words in which runs and jobs are shown to people, the same on a terminal and on a page."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rota.engine.pauses import Pause
from rota.model.durations import say_duration
from rota.model.records import Run, cut
from rota.model.states import Reason, Status, WaitingFor
from rota.operations.jobs import JobView
from rota.rules.ansi import plain as plain
from rota.rules.coming import NOTICED, coming_fires
from rota.rules.guard import REASON
from rota.rules.instants import explain_schedule
from rota.rules.times import briefly, day_time, roughly

TICKS = {Status.COMPLETED: "▪", Status.FAILED: "✗", Status.SKIPPED: "·", Status.CANCELLED: "–"}
MISSED = "○"
PARTIAL = "PARTIAL"
NAMED = 5
SESSION_SHOWN = 9
LEGEND = "▪ completed  ✗ failed  · skipped  ○ missed  – cancelled"


def shown_status(run: Run) -> str:
    """Return a run's status as people read it: a group of which members failed is PARTIAL (R-15)."""
    return PARTIAL if run.reason is Reason.MEMBERS_FAILED else run.status.shown.value


def took(run: Run, *, now: datetime) -> str:
    """Return how long a run took, or runs so far; empty when it never started."""
    if run.started_at is None:
        return ""
    return briefly(max((run.finished_at or now) - run.started_at, timedelta()))


def outcome_words(run: Run, *, now: datetime) -> str:
    """Return a run's outcome in a few words: `COMPLETED 11 min`, `FAILED exit 3`, `SKIPPED overlap`."""
    status = run.status.shown.value
    if run.status is Status.FAILED and run.reason is Reason.EXIT_CODE and run.exit_code is not None:
        return f"{status} exit {run.exit_code}"
    if run.denied_tools:
        return f"{status}{f' {run.reason}' if run.reason else ''}, {denied_words(run)}"
    if run.reason is Reason.MEMBERS_FAILED:
        return f"{PARTIAL} {took(run, now=now)}"
    if run.reason is not None:
        return f"{status} {run.reason}"
    if run.waiting_for is WaitingFor.BACKOFF and run.not_before is not None:
        return f"{status}, attempt {run.attempt} in {roughly(max(run.not_before - now, timedelta()))}"
    if run.waiting_for is not None:
        return f"{status}, waits for {run.waiting_for}"
    late = run.decisions.get("late_ms", 0)
    if "made_up" in run.decisions and run.status is Status.COMPLETED:
        return f"{status}, {roughly(timedelta(milliseconds=late))} late"
    return " ".join(part for part in (status, took(run, now=now)) if part)


def denied_words(run: Run) -> str:
    """Return how many tools a run was refused; empty for none."""
    return f"{counted(len(run.denied_tools), 'tool')} denied" if run.denied_tools else ""


def session_words(run: Run) -> str:
    """Return the beginning of an agent's session: `session 7f3a91c0…`; empty for none."""
    session = plain(run.session_id)
    return f"session {cut(session, SESSION_SHOWN)}" if session else ""


def ticks(runs: Sequence[Run]) -> str:
    """Return one mark a finished run, oldest first; `runs` are newest first."""
    return "".join(_tick(run) for run in reversed(runs) if run.status.final)


def _tick(run: Run) -> str:
    return MISSED if run.reason is Reason.MISSED else TICKS[run.status]


def schedule_words(view: JobView, zone: str) -> str:
    """Return a job's schedule; the zone is left out where the table's heading names it."""
    return explain_schedule(view.job.spec.schedule).replace(f" ({zone})", "")


def next_words(view: JobView, zone: str, *, now: datetime) -> str:
    """Return when a job fires next, in the zone of the table, or why it does not."""
    job = view.job
    if view.state == "paused":
        return f"paused{pause_words(job.paused_until, job.pause_reason, zone=zone, now=now)}"
    if job.next_at is None:
        return _no_next(view)
    fire = next(iter(coming_fires(job, n=1)), None)
    if fire is None:
        return "never, by quiet hours"
    away = fire.at - now
    when = "overdue" if -away > NOTICED else "now" if away < timedelta(seconds=1) else f"in {roughly(away)}"
    seconds = away < timedelta(minutes=2)
    words = f"{day_time(fire.at, zone, now=now, seconds=seconds)}  {when}"
    if fire.deferred:
        words += f"  deferred from {day_time(fire.nominal, zone, now=now)}"
    elif fire.at > fire.nominal:
        words += f"  jitter +{roughly(fire.at - fire.nominal)}"
    return words


def _no_next(view: JobView) -> str:
    schedule = view.job.spec.schedule
    if view.state not in ("running", "idle"):
        return view.state
    if schedule.manual:
        return "by hand"
    if schedule.reboot:
        return "next boot"
    interval = view.job.interval
    if schedule.follows_runs and interval is not None and view.unfinished:
        return f"when done + {say_duration(interval)}"
    if schedule.by_mode is not None and interval is None:
        return f"not while {view.job.mode}"
    return "when done" if view.unfinished else "no more"


def pause_words(until: datetime | None, reason: str | None, *, zone: str, now: datetime) -> str:
    """Return how long a pause lasts and why: ` until 22:43 (kernel upgrade)`; empty when neither is said."""
    over = ", which is over" if until is not None and until <= now else ""
    end = f" until {day_time(until, zone, now=now, seconds=bool(until.second))}{over}" if until else ""
    return f"{end} ({plain(reason)})" if reason else end


def everything_words(pause: Pause, *, zone: str, now: datetime) -> str:
    """Return that everything is paused, how long and why, and how to go on."""
    told = pause_words(pause.until, pause.reason, zone=zone, now=now)
    cause = "the scheduler crashed again and again: find the cause in its log, then " if pause.reason == REASON else ""
    return f"everything{told}: nothing fires or starts; {cause}go on with `rota resume --all`"


def jobs_paused_words(pauses: Sequence[Pause], *, zone: str, now: datetime) -> str:
    """Return which jobs are paused, how long and why."""
    named = [f"{one.job}{pause_words(one.until, one.reason, zone=zone, now=now)}" for one in pauses[:NAMED]]
    more = f" and {len(pauses) - NAMED} more" if len(pauses) > NAMED else ""
    return f"{counted(len(pauses), 'job')}: {', '.join(named)}{more}   rota resume JOB"


def sized(count: int) -> str:
    """Return a number of bytes for reading.

    >>> sized(2_450_000)
    '2.5 MB'
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 job`, `2 jobs`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def kind_of(run: Run) -> str:
    """Return the word that styles use for how a run stands: its status, or `missed`, or `partial`."""
    return "missed" if run.reason is Reason.MISSED else shown_status(run).lower()
