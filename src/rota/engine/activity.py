"""The current mode, pauses and gaps between ticks, read from the store, and the waits that runs choose."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from rota.engine.membership.locks import worker_here
from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, iso, to_ms
from rota.model.errors import InvalidValue
from rota.model.records import Job, NextLook, Run
from rota.model.spec import JobSpec, Mode, QuietPolicy
from rota.model.states import Trigger
from rota.rules.activity import mode_at, next_change
from rota.rules.liveness import Ticks
from rota.rules.schedule.blackouts import quiet_until
from rota.rules.schedule.cursor import Cursor, cursor_after_wait, paced
from rota.store.driver import Database
from rota.store.tables import activity, jobs, processes
from rota.store.tables import activity as activity_table

T = TypeVar("T")

DEPTH = 20
"""How many runs back the start of an agent's run is followed."""


class Outlook(Struct, frozen=True):
    """Whether the mode of some jobs is no longer theirs, and when the next one may change by itself."""

    stale: bool
    changes_at: datetime | None


def touching(operation: Callable[[Database], T], *, what: str, now: datetime) -> Callable[[Database], T]:
    """Return an operation that also counts as activity, in the same transaction."""

    def touched(db: Database) -> T:
        result = operation(db)
        activity_table.touch(db, what=what, now=now)
        return result

    return touched


def note_agents(db: Database, run_ids: Sequence[str], *, now: datetime) -> None:
    """Count the ends of these runs of agents as activity, unless a job that goes by the mode started them.

    Otherwise such a job would keep itself active.
    """
    from rota.store.tables import runs

    for run_id in run_ids:
        run = runs.run_by_id(db, run_id)
        if run is None or run.started_at is None or run.finished_at is None or _begun_by_mode(db, run):
            continue
        last = activity_table.last_activity(db)
        if last is None or last.at < run.finished_at or last.at > now:
            activity_table.touch(db, what=f"{run.handle} ended", now=run.finished_at)


def _begun_by_mode(db: Database, run: Run | None) -> bool:
    """Return whether a run descends from the schedule of a job with intervals by mode."""
    from rota.store.tables import runs

    for _ in range(DEPTH):
        first = None if run is None else runs.run_by_id(db, run.chain_id or run.id)
        if first is None:
            return False
        if first.trigger is Trigger.SCHEDULE:
            return jobs.version_spec(db, first.job_id, first.version).schedule.by_mode is not None
        run = _starter(db, first)
    return True


def _starter(db: Database, run: Run) -> Run | None:
    from rota.store.tables import groups, runs

    if run.group_id is not None:
        group = groups.group_by_id(db, run.group_id)
        return runs.run_by_id(db, group.run_id) if group is not None and group.run_id is not None else None
    handle = run.decisions.get("by", {}).get("run")
    return None if handle is None else runs.run_by_handle(db, handle)


class ProjectMode(Struct, frozen=True):
    """The mode that every view shows, until when quiet hours keep it dormant, and how many jobs go by the mode.

    `apart`: how many of them are dormant by quiet hours of their own while the project is not.
    """

    mode: Mode
    quiet_until: datetime | None
    adaptive: int
    apart: int


def project_mode(db: Database, *, now: datetime) -> ProjectMode:
    """Return the mode of the project now."""
    adaptive = activity_table.adaptive_jobs(db)
    ends = [None if quiet is None else quiet_until(quiet, now) for quiet, _ in adaptive]
    until = _quiet_until(db, ends, now=now)
    mode = Mode.DORMANT if until is not None else mode_at(now, activity=_activity(db, now))
    resting = sum(number for (_, number), end in zip(adaptive, ends, strict=True) if end is not None)
    return ProjectMode(
        mode, until, adaptive=sum(number for _, number in adaptive), apart=0 if mode is Mode.DORMANT else resting
    )


def _quiet_until(db: Database, ends: Sequence[datetime | None], *, now: datetime) -> datetime | None:
    """Return until when the quiet hours of the poll or the file, or those of every job by mode, make it dormant."""
    poll = jobs.job_by_name(db, activity.POLL)
    file = activity_table.quiet_hours(db)
    slows_poll = poll is not None and poll.retired_at is None and poll.mode is not None
    if file is not None and (slows_poll or file.policy is QuietPolicy.DORMANT):
        until = quiet_until(file, now)
        if until is not None:
            return until
    found = [end for end in ends if end is not None]
    return min(found) if found and len(found) == len(ends) else None


def mode_of(db: Database, spec: JobSpec, *, now: datetime) -> Mode:
    """Return the mode that holds for a job of this definition now."""
    return mode_at(now, activity=_activity(db, now), quiet=activity_table.dormant_hours(spec))


def outlook(db: Database, *, now: datetime) -> Outlook:
    """Look whether jobs must be re-planned, and when to look again."""
    planned = activity_table.planned_modes(db)
    if not planned:
        return Outlook(stale=False, changes_at=None)
    activity = _activity(db, now)
    stale = any(mode_at(now, activity=activity, quiet=one.quiet) is not one.mode for one in planned)
    changes = [next_change(now, activity=activity, quiet=one.quiet) for one in planned]
    return Outlook(stale, min((at for at in changes if at is not None), default=None))


def _activity(db: Database, now: datetime) -> datetime | None:
    """Return when the last activity was; one that a clock set back left in the future counts as now."""
    found = activity_table.last_activity(db)
    return None if found is None else min(found.at, now)


ALL_KEY = "paused_all"


class PauseState(Struct, frozen=True):
    """A pause: job, start, end and reason. `job` None: everything, claiming included."""

    job: str | None
    since: datetime
    until: datetime | None
    reason: str


def everything_paused(db: Database) -> PauseState | None:
    """Return the pause of everything, None if there is none."""
    row = db.row("meta_get", key=ALL_KEY)
    if row is None:
        return None
    value = json.loads(row[0])
    return PauseState(None, from_ms(value["since"]), from_ms_or_none(value["until"]), value["reason"])


def ask_claiming_paused(db: Database) -> None:
    """Ask ahead what `claiming_paused` looks at."""
    db.prefetch("meta_get", key=ALL_KEY)


def claiming_paused(db: Database, now: datetime) -> bool:
    """Return whether nothing may be claimed now."""
    pause = everything_paused(db)
    return pause is not None and (pause.until is None or now < pause.until)


def paused_jobs(db: Database) -> list[PauseState]:
    """Return the jobs that are paused, by name."""
    return [
        PauseState(name, from_ms(since), from_ms_or_none(until), reason or "")
        for name, since, until, reason in db.rows("jobs_paused")
    ]


def is_over(pause: PauseState | None, now: datetime) -> bool:
    """Return whether a timed pause has come to its end."""
    return pause is not None and pause.until is not None and pause.until <= now


def next_pause_end(db: Database) -> datetime | None:
    """Return when the next timed pause is over."""
    row = db.row("job_next_pause_end")
    found = [from_ms_or_none(row[0]) if row else None]
    everything = everything_paused(db)
    found.append(everything.until if everything else None)
    return min((at for at in found if at is not None), default=None)


def next_release(db: Database) -> datetime | None:
    """Return when the next waiting run is released or expires, or a timed pause or provider hold ends."""
    from rota.store.tables import questions, queue

    found = [db.row("run_next_release"), db.row("run_next_expiry")]
    due = [from_ms_or_none(row[0]) for row in found if row and row[0] is not None]
    due += [next_pause_end(db), queue.next_end(db), questions.next_due(db)]
    return min((at for at in due if at is not None), default=None)


KEY = "ticks"
KIND = "tick"
NONE: Mapping[str, int] = {}


def read_ticks(db: Database) -> Ticks:
    """Return when the last ticks looked."""
    row = db.row("meta_get", key=KEY)
    if row is None:
        return Ticks()
    found = json.loads(row[0])
    return Ticks(tuple(from_ms(look) for look in found["looks"]), found["slots"])


def note_look(db: Database, *, slots: int, now: datetime, unused: Mapping[str, int] = NONE) -> None:
    """Store that a tick looked; `unused` is its epoch, by its worker, if it did nothing under it."""
    looks = [to_ms(look) for look in read_ticks(db).looked(now, slots=slots).looks]
    epochs = {**_unused_epochs(db), **unused}
    db.execute("meta_set", key=KEY, value=json.dumps({"looks": looks, "slots": slots, "unused": epochs}))


def unused_epoch(db: Database, worker_id: str) -> int | None:
    """Return the epoch that a worker's last tick took and did not use: no row names it, the next one may have it."""
    return _unused_epochs(db).get(worker_id)


def _unused_epochs(db: Database) -> dict[str, int]:
    """Return them by worker; a note of an older rota, which knew only one worker, is given up with its row."""
    row = db.row("meta_get", key=KEY)
    found = json.loads(row[0])["unused"] if row is not None else None
    return found if isinstance(found, dict) else {}


def taken_by_all(db: Database, state: Path) -> int:
    """Return how many slots of this state folder's worker hold something, for whichever process."""
    from rota.store.tables import runs

    worker_id = worker_here(db, state)
    return len(runs.taken_slots(db, worker_id)) if worker_id is not None else 0


def in_tick_mode(db: Database) -> bool:
    """Return whether the newest process that scheduled here is a tick."""
    row = db.row("process_last", limit=1)
    return row is not None and row[1] == KIND and not _served_elsewhere(db)


def _served_elsewhere(db: Database) -> bool:
    """Return whether a machine beside those that tick has a scheduler that stays."""
    leased = [
        process for process in processes.open_processes(db) if process.lease_until is not None and process.kind != KIND
    ]
    now = processes.server_now(db) if leased else None
    return any(process.lease_until >= now for process in leased if process.lease_until is not None and now is not None)


def unseen(db: Database, *, now: datetime) -> timedelta:
    """Return how long no tick looked, nothing where a serving process is the newest."""
    return read_ticks(db).unseen(now) if in_tick_mode(db) else timedelta()


LOOK = "look_again"
"""The key of the decisions of a run that asked for the next one."""
MOVED = "moved"
"""The key of the decisions of the run that was asked for."""


def look_again(db: Database, run: Run, after: timedelta, why: str, *, author: str, now: datetime) -> NextLook:
    """Move the next instant of a run's job; while a scheduled chain of the job is unfinished, its end does."""
    job = jobs.job_by_id(db, run.job_id)
    if job.spec.pace is None:
        hint = "end this run with a report; a person can add `pace: {min: 5m, max: 1d}` to the job"
        raise InvalidValue(f"{job.name} has no `pace`, so its runs cannot choose the next one", hint=hint)
    if not job.schedules:
        raise InvalidValue(f"{job.name} has no next run: it is disabled or over", hint="end this run with a report")
    look = NextLook(run.handle, author, why, paced(job.spec.pace, after), now)
    if not job.spec.schedule.follows_runs:
        raise InvalidValue(f"the runs of {job.name} do not decide when the next one is: it has a fixed schedule")
    if (job.next_for or job.held_for) is not None:
        look = _move_now(db, job, look, now=now)
    from rota.store.tables import runs

    jobs.save_look(db, job.id, look)
    runs.note_decisions(db, run.id, {LOOK: _told_of(look)})
    return look


def _move_now(db: Database, job: Job, look: NextLook, *, now: datetime) -> NextLook:
    cursor = cursor_after_wait(job, look.after, now=now)
    jobs.move_cursor(
        db,
        job,
        next_for=cursor.next_for,
        next_at=cursor.next_at,
        anchored_at=job.anchored_at,
        fire_number=job.fire_number,
    )
    return NextLook(look.run, look.author, look.why, look.after, look.asked_at, cursor.next_for)


def wanted_wait(db: Database, job: Job) -> timedelta | None:
    """Return the wait that a run of the unfinished chain of a job asked for; None for none."""
    look = jobs.next_look(db, job.id) if job.spec.pace is not None else None
    if look is None or look.next_for is not None or job.spec.pace is None:
        return None
    return paced(job.spec.pace, look.after)


def plan_look(db: Database, job: Job, cursor: Cursor) -> None:
    """Store the instant that the end of a chain gave to the next run that was asked for."""
    look = jobs.next_look(db, job.id)
    if look is not None and cursor.next_for is not None:
        moved = NextLook(look.run, look.author, look.why, look.after, look.asked_at, cursor.next_for)
        jobs.save_look(db, job.id, moved)
    else:
        jobs.forget_look(db, job.id)


def take_look(db: Database, job: Job) -> dict[str, Any] | None:
    """Return, for the run of a job that fires, which run asked for it; forget the request."""
    look = jobs.next_look(db, job.id) if job.spec.pace is not None else None
    if look is None or look.next_for is None:
        return None
    jobs.forget_look(db, job.id)
    return _told_of(look) if look.next_for == job.next_for else None


def _told_of(look: NextLook) -> dict[str, Any]:
    told = {"run": look.run, "by": look.author, "why": look.why, "after_ms": look.after // MILLISECOND}
    return told if look.next_for is None else {**told, "next_for": iso(look.next_for)}
