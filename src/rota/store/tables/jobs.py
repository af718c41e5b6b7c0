"""Rows of jobs, their versions and provenance."""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from rota.model.clock import from_ms, from_ms_or_none, to_ms, to_ms_or_none
from rota.model.ids import new_id
from rota.model.proposals import AgentPolicy, Provenance
from rota.model.records import Job
from rota.model.serialize import decode, encode
from rota.model.spec import JobSpec
from rota.store.driver import Database
from rota.store.rows import job_of, read_spec, write_json, write_spec


def job_by_id(db: Database, job_id: str) -> Job:
    """Return the job with this identifier; it must exist. A transaction that writes locks its row."""
    found: list[dict[str, Any]] = []
    while not found:  # on PostgreSQL one that got a new version while its row was waited for is found by the next look
        found = db.records("job_by_id", id=job_id)
    return job_of(found[0])


def job_by_name(db: Database, name: str) -> Job | None:
    """Return the job of this name, None for none; held like one by its identifier."""
    found = db.records("job_by_name", name=name) or db.records("job_by_name", name=name)
    return job_of(found[0]) if found else None


def all_jobs(db: Database) -> list[Job]:
    """Return every job, retired ones included, by name."""
    return [job_of(row) for row in db.records("jobs_all")]


def give_up_name(db: Database, job: Job) -> None:
    """Free the name of a deleted job for a new one; its row and runs stay, as `name~` and the end of its identifier."""
    db.execute("job_rename", id=job.id, name=f"{job.name}~{job.id[-8:]}")


def job_names(db: Database) -> list[str]:
    """Return the names of the jobs that are not retired."""
    return [name for (name,) in db.rows("job_names")]


def due_jobs(db: Database, now: datetime, *, limit: int) -> list[str]:
    """Return the identifiers of jobs whose next instant has come, most overdue first."""
    return [job_id for (job_id,) in db.rows("jobs_due", now=to_ms(now), limit=limit)]


def due_name(db: Database, job_id: str, now: datetime) -> str | None:
    """Return the name of a job whose next instant has come, None where it has not, or where another is at it."""
    row = db.row("job_due", id=job_id, now=to_ms(now))
    return None if row is None else str(row[0])


def next_due(db: Database) -> datetime | None:
    """Return the earliest next instant of all jobs."""
    row = db.row("job_next_due")
    return from_ms_or_none(row[0]) if row else None


def next_due_but(db: Database, name: str) -> datetime | None:
    """Return the earliest next instant of all jobs but one."""
    row = db.row("job_next_due_but", name=name)
    return from_ms_or_none(row[0]) if row else None


def not_booted(db: Database, boot: str) -> list[str]:
    """Return the identifiers of jobs at boot that this boot of the machine has not fired."""
    return [job_id for (job_id,) in db.rows("jobs_not_booted", boot=boot)]


def set_booted(db: Database, job_id: str, boot: str | None) -> None:
    """Store the boot that a job at boot has run for, or was made in; none for other jobs."""
    db.execute("job_set_booted", id=job_id, boot=boot)


def version_spec(db: Database, job_id: str, version: int) -> JobSpec:
    """Return the frozen definition of one version of a job."""
    row = db.row("job_version_spec", job_id=job_id, version=version)
    assert row is not None, "a foreign key holds every run's version"
    return read_spec(row[0])


class Version(NamedTuple):
    """One frozen definition of a job, and the span in which it held; `until` None: it holds now."""

    number: int
    spec: JobSpec
    schedules: bool
    paused: bool
    since: datetime
    until: datetime | None


def versions(db: Database, job_id: str, *, below: int, limit: int) -> list[Version]:
    """Return the newest versions of a job under a number, newest first."""
    rows = db.rows("job_versions", job_id=job_id, below=below, limit=limit)
    return [
        Version(number, read_spec(spec), bool(schedules), bool(paused), from_ms(since), from_ms_or_none(until))
        for number, spec, schedules, paused, since, until in rows
    ]


def failing_jobs(db: Database) -> set[str]:
    """Return the identifiers of the jobs whose newest run that did its work failed."""
    return {job_id for (job_id,) in db.rows("jobs_failing")}


def insert_job(
    db: Database,
    spec: JobSpec,
    *,
    job_id: str,
    source: str,
    next_for: datetime | None,
    next_at: datetime | None,
    tzdata: str,
    now: datetime,
    provisional: bool = False,
) -> None:
    """Store a new job with its first version; a provisional one has no due instants."""
    db.execute(
        "job_insert",
        id=job_id,
        name=spec.name,
        source=source,
        enabled=int(spec.enabled),
        next_for=to_ms_or_none(next_for),
        next_at=to_ms_or_none(next_at),
        now=to_ms(now),
    )
    schedules = spec.enabled and not provisional
    _insert_version(db, spec, job_id=job_id, version=1, schedules=schedules, tzdata=tzdata, now=now)


def change_job(
    db: Database,
    job: Job,
    spec: JobSpec,
    *,
    source: str,
    retired_at: datetime | None,
    used_up_at: datetime | None,
    next_for: datetime | None,
    next_at: datetime | None,
    tzdata: str,
    now: datetime,
) -> bool:
    """Close the job's span and open the next one; tell whether the job was still as `job` shows it.

    The cursor of a paused job is held back until the pause ends (R-20).
    """
    paused = job.paused_at is not None
    schedules = spec.enabled and retired_at is None and used_up_at is None and job.provisional_at is None
    changed = db.execute(
        "job_change",
        id=job.id,
        expected=job.version,
        version=job.version + 1,
        source=source,
        enabled=int(spec.enabled),
        retired_at=to_ms_or_none(retired_at),
        used_up_at=to_ms_or_none(used_up_at),
        next_for=None if paused else to_ms_or_none(next_for),
        next_at=None if paused else to_ms_or_none(next_at),
        held_for=to_ms_or_none(next_for) if paused else None,
        now=to_ms(now),
    )
    if changed == 1:
        _open_version(db, job, spec, schedules=schedules, paused=paused, tzdata=tzdata, now=now)
    return changed == 1


def _open_version(
    db: Database, job: Job, spec: JobSpec, *, schedules: bool, paused: bool, tzdata: str, now: datetime
) -> None:
    """Close the job's span at `now`, or later where its rows reach further, and open the next one."""
    accounted_to = to_ms(accounted_until(db, job))
    db.execute("job_version_close", job_id=job.id, version=job.version, now=to_ms(now), accounted_to=accounted_to)
    _insert_version(
        db,
        spec,
        job_id=job.id,
        version=job.version + 1,
        schedules=schedules and not paused,
        paused=schedules and paused,
        tzdata=tzdata,
        now=now,
    )


def accounted_until(db: Database, job: Job) -> datetime:
    """Return up to where the job's calendar is accounted for; beyond `now` only if the clock was set back (R-26)."""
    row = db.row("job_accounted_to", job_id=job.id, version=job.version)
    assert row is not None, "every job has its version"
    return from_ms(row[0])


def store_pause(db: Database, job: Job, *, until: datetime | None, reason: str, tzdata: str, now: datetime) -> bool:
    """Mark a job paused and hold its cursor back; tell whether it was still as `job` shows it."""
    changed = db.execute(
        "job_pause",
        id=job.id,
        expected=job.version,
        version=job.version + 1,
        until=to_ms_or_none(until),
        reason=reason,
        now=to_ms(now),
    )
    if changed == 1:
        _open_version(db, job, job.spec, schedules=job.schedules, paused=True, tzdata=tzdata, now=now)
    return changed == 1


def store_resume(
    db: Database,
    job: Job,
    *,
    next_for: datetime | None,
    next_at: datetime | None,
    anchored_at: datetime | None,
    fire_number: int,
    tzdata: str,
    end: datetime,
    now: datetime,
) -> bool:
    """Take the pause away as of `end` and give the job its cursor back; tell whether it was still as `job` shows it."""
    changed = db.execute(
        "job_resume",
        id=job.id,
        expected=job.version,
        version=job.version + 1,
        next_for=to_ms_or_none(next_for),
        next_at=to_ms_or_none(next_at),
        anchored_at=to_ms_or_none(anchored_at),
        fire_number=fire_number,
        now=to_ms(now),
    )
    if changed == 1:
        _open_version(db, job, job.spec, schedules=job.schedules, paused=False, tzdata=tzdata, now=end)
    return changed == 1


def _insert_version(
    db: Database,
    spec: JobSpec,
    *,
    job_id: str,
    version: int,
    schedules: bool,
    paused: bool = False,
    tzdata: str,
    now: datetime,
) -> None:
    text = write_spec(spec)
    db.execute(
        "job_version_insert",
        job_id=job_id,
        version=version,
        spec=text,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        schedules=int(schedules),
        paused=int(paused),
        tzdata=tzdata,
        now=to_ms(now),
    )


def move_cursor(
    db: Database,
    job: Job,
    *,
    next_for: datetime | None,
    next_at: datetime | None,
    anchored_at: datetime | None,
    used_up_at: datetime | None = None,
    fire_number: int,
) -> bool:
    """Move the job's cursor; tell whether it still stood where `job` shows it. That of a paused job is held back."""
    if job.paused_at is not None:
        return _hold_cursor(db, job, held_for=next_for, anchored_at=anchored_at, used_up_at=used_up_at)
    changed = db.execute(
        "job_move_cursor",
        id=job.id,
        version=job.version,
        expected=to_ms_or_none(job.next_for),
        next_for=to_ms_or_none(next_for),
        next_at=to_ms_or_none(next_at),
        anchored_at=to_ms_or_none(anchored_at),
        used_up_at=to_ms_or_none(used_up_at),
        fire_number=fire_number,
    )
    return changed == 1


def wait_until(db: Database, job: Job, next_at: datetime | None) -> bool:
    """Change when the job's next instant fires, not the instant; tell whether its cursor still stood there."""
    return move_cursor(
        db,
        job,
        next_for=job.next_for,
        next_at=next_at,
        anchored_at=job.anchored_at,
        used_up_at=job.used_up_at,
        fire_number=job.fire_number,
    )


def _hold_cursor(
    db: Database, job: Job, *, held_for: datetime | None, anchored_at: datetime | None, used_up_at: datetime | None
) -> bool:
    changed = db.execute(
        "job_hold",
        id=job.id,
        version=job.version,
        held_for=to_ms_or_none(held_for),
        anchored_at=to_ms_or_none(anchored_at),
        used_up_at=to_ms_or_none(used_up_at),
        fire_number=job.fire_number,
    )
    return changed == 1


class JobState(NamedTuple):
    """What the end of a run looks after: chains of its job that failed in a row, runs that wait, somebody to tell."""

    failures: int
    waited_for: bool
    notifies: bool


def prefetch_standing(db: Database, job_id: str) -> None:
    """Ask `standing` ahead."""
    db.prefetch("job_standing", id=job_id)


def standing(db: Database, job_id: str) -> JobState:
    """Return what the end of a run must look after in its job."""
    row = db.row("job_standing", id=job_id)
    assert row is not None, "a foreign key holds every run's job"
    return JobState(row[0], bool(row[1]), bool(row[2]))


def count_failures(db: Database, job_id: str, failures: int, *, backing_off_until: datetime | None) -> None:
    """Store how many chains of a job failed in a row, and until when its instants are held back."""
    until = to_ms_or_none(backing_off_until)
    db.execute("job_count_failure", id=job_id, failures=failures, backing_off_until=until)


def next_number(db: Database, job_id: str) -> int:
    """Return the number of the job's next run, counted."""
    row = db.row("job_count_run", id=job_id)
    assert row is not None
    number: int = row[0]
    return number


def next_numbers(db: Database, job_id: str, count: int) -> int:
    """Return the number of the first of the job's next `count` runs, all counted."""
    row = db.row("job_count_runs", id=job_id, count=count)
    assert row is not None
    last: int = row[0]
    return last - count + 1


def job_state(db: Database, job_id: str) -> dict[str, Any]:
    """Return what the job's functions keep between runs."""
    row = db.row("job_state", id=job_id)
    state: dict[str, Any] = json.loads(row[0]) if row else {}
    return state


def save_job_state(db: Database, job_id: str, state: Mapping[str, Any]) -> None:
    """Keep what the job's function left for its next run."""
    db.execute("job_save_state", id=job_id, state=write_json(state))


POLICY_KEY = "agent_policy"

Kind = Literal["job", "run"]


def digest_of(spec: JobSpec) -> str:
    """Return the digest of a definition: any change of it is another one."""
    return hashlib.sha256(write_spec(spec).encode()).hexdigest()


def set_made(db: Database, job_id: str, made: Provenance | None) -> None:
    """Store who made a job; None: nobody but a file does from now on."""
    db.execute(
        "job_set_made",
        id=job_id,
        made_by=None if made is None else made.by,
        made_at=None if made is None else to_ms(made.at),
        run_id=None if made is None else made.run_id,
        depth=0 if made is None else made.depth,
        expires_at=None if made is None else to_ms_or_none(made.expires_at),
    )


def set_provisional(db: Database, job_id: str, since: datetime | None) -> None:
    """Store since when a job waits for approval, None: it does not."""
    db.execute("job_set_provisional", id=job_id, provisional_at=to_ms_or_none(since))


def set_approved(db: Database, job_id: str, digest: str | None, *, now: datetime) -> None:
    """Store what a person approved, None: nothing."""
    db.execute("job_set_approved", id=job_id, approved=digest, approved_at=None if digest is None else to_ms(now))


def count_making(db: Database, maker: str, kind: Kind, *, now: datetime, since: datetime) -> None:
    """Count something that a maker made now; what was made before `since` is forgotten."""
    db.execute("making_forget", maker=maker, kind=kind, before=to_ms(since))
    db.execute("making_insert", id=new_id(now), maker=maker, kind=kind, at=to_ms(now))


def made_since(db: Database, maker: str, *, kind: Kind, since: datetime) -> int:
    """Return how much a maker made since then."""
    row = db.row("making_count", maker=maker, kind=kind, since=to_ms(since))
    return int(row[0]) if row else 0


def active_count(db: Database, maker: str, *, but: str | None, now: datetime) -> int:
    """Return how many jobs of a maker are active or wait for approval, one of them not counted."""
    row = db.row("jobs_made_active", maker=maker, but=but, now=to_ms(now))
    return int(row[0]) if row else 0


def expired_jobs(db: Database, now: datetime) -> list[str]:
    """Return the identifiers of jobs whose time is over and that are not retired yet."""
    return [job_id for (job_id,) in db.rows("jobs_expired", now=to_ms(now))]


def policy(db: Database) -> AgentPolicy:
    """Return what may be made with the tools, as it was applied last."""
    row = db.row("meta_get", key=POLICY_KEY)
    return decode(AgentPolicy, json.loads(row[0])) if row else AgentPolicy()


def set_policy(db: Database, wanted: AgentPolicy) -> None:
    """Store what may be made with the tools."""
    if policy(db) != wanted:
        db.execute("meta_set", key=POLICY_KEY, value=write_json(encode(wanted)))


def provisional_jobs(db: Database) -> list[Job]:
    """Return the jobs that wait for approval, the longest first."""
    return [job_of(row) for row in db.records("jobs_provisional")]
