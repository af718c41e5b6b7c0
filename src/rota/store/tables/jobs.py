"""Rows of jobs, their versions and provenance."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none, to_ms, to_ms_or_none
from rota.model.ids import new_id
from rota.model.proposals import AgentPolicy, Provenance
from rota.model.records import Job, NextLook
from rota.model.serialize import decode, encode, encode_changed
from rota.model.spec import JobSpec
from rota.store.driver import Database
from rota.store.rows import (
    instant_of,
    job_of,
    read_object,
    read_spec,
    record_of,
    records_of,
    value_of,
    write_json,
    write_spec,
)

TIMEZONE_KEY = "timezone"


def timezone_of(db: Database) -> str:
    """Return the time zone of the project."""
    return str(value_of(db, "meta_get", key=TIMEZONE_KEY) or "UTC")


def job_by_id(db: Database, job_id: str) -> Job:
    """Return the job with this identifier; it must exist. A transaction that writes locks its row."""
    rows: list[dict[str, Any]] = []
    while not rows:  # on PostgreSQL a job that gets a new version during the wait for its row appears in the next read
        rows = db.records("job_by_id", id=job_id)
    return job_of(rows[0])


def job_by_name(db: Database, name: str) -> Job | None:
    """Return the job of this name, None for none; it is locked as in `job_by_id`."""
    rows = db.records("job_by_name", name=name) or db.records("job_by_name", name=name)
    return job_of(rows[0]) if rows else None


def all_jobs(db: Database) -> list[Job]:
    """Return every job, retired ones included, by name."""
    return [job_of(row) for row in db.records("jobs_all")]


def give_up_name(db: Database, job: Job) -> None:
    """Free the name of a deleted job; its row and runs stay under `name~` and the end of its identifier."""
    db.execute("job_rename", id=job.id, name=f"{job.name}~{job.id[-8:]}")


def job_names(db: Database) -> list[str]:
    """Return the names of the jobs that are not retired."""
    return [name for (name,) in db.rows("job_names")]


def due_jobs(db: Database, now: datetime, *, limit: int) -> list[str]:
    """Return the identifiers of due jobs, most overdue first."""
    return [job_id for (job_id,) in db.rows("jobs_due", now=to_ms(now), limit=limit)]


def due_name(db: Database, job_id: str, now: datetime) -> str | None:
    """Return the name of a due job, None if it is not due or another transaction has locked it."""
    name: str | None = value_of(db, "job_due", id=job_id, now=to_ms(now))
    return name


def next_due(db: Database) -> datetime | None:
    """Return the earliest next instant of all jobs."""
    return instant_of(db, "job_next_due")


def next_wake(db: Database) -> datetime | None:
    """Return the earliest next instant of the jobs that wake the machine."""
    return instant_of(db, "job_next_wake")


def save_look(db: Database, job_id: str, look: NextLook) -> None:
    """Store the next run of a job as a run of it asked for it."""
    db.execute(
        "look_save",
        job_id=job_id,
        run=look.run,
        author=look.author,
        why=look.why,
        after_ms=look.after // MILLISECOND,
        asked_at=to_ms(look.asked_at),
        next_for=to_ms_or_none(look.next_for),
    )


def next_look(db: Database, job_id: str) -> NextLook | None:
    """Return the next run that a run of a job asked for, None for none."""
    row = db.row("look_of", job_id=job_id)
    if row is None:
        return None
    run, author, why, after, asked_at, next_for = row
    return NextLook(run, author, why, after * MILLISECOND, from_ms(asked_at), from_ms_or_none(next_for))


def forget_look(db: Database, job_id: str) -> None:
    """Delete the next run that a run of a job asked for."""
    db.execute("look_forget", job_id=job_id)


def next_due_but(db: Database, name: str) -> datetime | None:
    """Return the earliest next instant of all other jobs."""
    return instant_of(db, "job_next_due_but", name=name)


def not_booted(db: Database, boot: str) -> list[str]:
    """Return the identifiers of jobs at boot that have not fired in this boot of the machine."""
    return [job_id for (job_id,) in db.rows("jobs_not_booted", boot=boot)]


def set_booted(db: Database, job_id: str, boot: str | None) -> None:
    """Store the boot in which a job at boot has fired or was created; None for other jobs."""
    db.execute("job_set_booted", id=job_id, boot=boot)


def version_spec(db: Database, job_id: str, version: int) -> JobSpec:
    """Return the frozen definition of one version of a job."""
    row = db.row("job_version_spec", job_id=job_id, version=version)
    assert row is not None, "a foreign key holds every run's version"
    return read_spec(row[0])


class Version(NamedTuple):
    """A frozen definition of a job and its validity; `until` None: it is the current one."""

    number: int
    spec: JobSpec
    schedules: bool
    paused: bool
    since: datetime
    until: datetime | None


def versions(db: Database, job_id: str, *, below: int, limit: int) -> list[Version]:
    """Return the newest versions of a job below a number, newest first."""
    return records_of(Version, db.rows("job_versions", job_id=job_id, below=below, limit=limit))


def failing_jobs(db: Database) -> set[str]:
    """Return the identifiers of the jobs whose newest executed run failed."""
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
    """Close the job's version and open the next one; return whether `job` was up to date.

    The cursor of a paused job is held back until the pause ends.
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
    """Close the job's version at `now`, or later if its rows reach further, and open the next one."""
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
    """Return the end of the job's accounted calendar; it is after `now` only if the clock was set back."""
    return from_ms(value_of(db, "job_accounted_to", job_id=job.id, version=job.version))


def store_pause(db: Database, job: Job, *, until: datetime | None, reason: str, tzdata: str, now: datetime) -> bool:
    """Mark a job paused and hold its cursor back; return whether `job` was up to date."""
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
    """End the pause at `end` and restore the job's cursor; return whether `job` was up to date."""
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
    import hashlib

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
    """Move the job's cursor; return whether it was still that of `job`. The cursor of a paused job is held back."""
    shared = {
        "id": job.id,
        "version": job.version,
        "anchored_at": to_ms_or_none(anchored_at),
        "used_up_at": to_ms_or_none(used_up_at),
    }
    if job.paused_at is not None:
        held_for = to_ms_or_none(next_for)
        return db.execute("job_hold", held_for=held_for, fire_number=job.fire_number, **shared) == 1
    changed = db.execute(
        "job_move_cursor",
        expected=to_ms_or_none(job.next_for),
        next_for=to_ms_or_none(next_for),
        next_at=to_ms_or_none(next_at),
        fire_number=fire_number,
        **shared,
    )
    return changed == 1


def wait_until(db: Database, job: Job, next_at: datetime | None) -> bool:
    """Change the time at which the job's next instant fires; return whether its cursor was still that of `job`."""
    return move_cursor(
        db,
        job,
        next_for=job.next_for,
        next_at=next_at,
        anchored_at=job.anchored_at,
        used_up_at=job.used_up_at,
        fire_number=job.fire_number,
    )


class JobState(NamedTuple):
    """The parts of a job that the end of a run affects: failures, waiting runs, notifications, poll and questions."""

    failures: int
    waited_for: bool
    notifies: bool
    polls: bool
    asks: bool


def prefetch_standing(db: Database, job_id: str) -> None:
    """Prefetch `standing`."""
    db.prefetch("job_standing", id=job_id)


def standing(db: Database, job_id: str) -> JobState:
    """Return the state of a job at the end of a run."""
    row = db.row("job_standing", id=job_id)
    assert row is not None, "a foreign key holds every run's job"
    return record_of(JobState, row)


def count_failures(db: Database, job_id: str, failures: int, *, backing_off_until: datetime | None) -> None:
    """Store the number of failed chains in a row of a job, and the end of its backoff."""
    until = to_ms_or_none(backing_off_until)
    db.execute("job_count_failure", id=job_id, failures=failures, backing_off_until=until)


def next_number(db: Database, job_id: str) -> int:
    """Count the job's next run and return its number."""
    return int(value_of(db, "job_count_run", id=job_id))


def next_numbers(db: Database, job_id: str, count: int) -> int:
    """Count the job's next `count` runs and return the number of the first."""
    return int(value_of(db, "job_count_runs", id=job_id, count=count)) - count + 1


def job_state(db: Database, job_id: str) -> dict[str, Any]:
    """Return the state that the job's functions keep between runs."""
    return read_object(value_of(db, "job_state", id=job_id))


def save_job_state(db: Database, job_id: str, state: Mapping[str, Any]) -> None:
    """Store the state of the job's function for its next run."""
    db.execute("job_save_state", id=job_id, state=write_json(state))


POLICY_KEY = "agent_policy"

Kind = Literal["job", "run"]


def digest_of(spec: JobSpec) -> str:
    """Return the digest of a definition."""
    import hashlib

    return hashlib.sha256(write_spec(spec).encode()).hexdigest()


def lasting_digest(spec: JobSpec) -> str:
    """Return the digest of what a definition sets: an upgrade of rota that adds keys does not change it."""
    import hashlib

    return hashlib.sha256(write_json(encode_changed(spec)).encode()).hexdigest()


def stored_digest(db: Database, job: Job) -> str:
    """Return the digest of the definition of a job as it was stored.

    It differs from `digest_of` for a definition that an earlier version of rota stored with fewer keys.
    """
    return str(value_of(db, "job_version_digest", job_id=job.id, version=job.version))


def set_made(db: Database, job_id: str, made: Provenance | None) -> None:
    """Store the provenance of a job; None: a file declares it."""
    db.execute(
        "job_set_made",
        id=job_id,
        made_by=made and made.by,
        made_at=made and to_ms(made.at),
        run_id=made and made.run_id,
        depth=made.depth if made else 0,
        expires_at=made and to_ms_or_none(made.expires_at),
    )


def set_provisional(db: Database, job_id: str, since: datetime | None) -> None:
    """Store the start of the wait for approval, None for none."""
    db.execute("job_set_provisional", id=job_id, provisional_at=to_ms_or_none(since))


def set_approved(db: Database, job_id: str, digest: str | None, *, now: datetime) -> None:
    """Store the digest that a person approved, None for none."""
    db.execute("job_set_approved", id=job_id, approved=digest, approved_at=None if digest is None else to_ms(now))


def count_making(db: Database, maker: str, kind: Kind, *, now: datetime, since: datetime) -> None:
    """Count a creation of an author and drop those before `since`."""
    db.execute("making_forget", maker=maker, kind=kind, before=to_ms(since))
    db.execute("making_insert", id=new_id(now), maker=maker, kind=kind, at=to_ms(now))


def made_since(db: Database, maker: str, *, kind: Kind, since: datetime) -> int:
    """Return the number of an author's creations since an instant."""
    return int(value_of(db, "making_count", maker=maker, kind=kind, since=to_ms(since)) or 0)


def active_count(db: Database, maker: str, *, but: str | None, now: datetime) -> int:
    """Return the number of an author's other jobs that are active or wait for approval."""
    return int(value_of(db, "jobs_made_active", maker=maker, but=but, now=to_ms(now)) or 0)


def expired_jobs(db: Database, now: datetime) -> list[str]:
    """Return the identifiers of expired jobs that are not retired."""
    return [job_id for (job_id,) in db.rows("jobs_expired", now=to_ms(now))]


def policy(db: Database) -> AgentPolicy:
    """Return the applied `agent_policy`."""
    stored = value_of(db, "meta_get", key=POLICY_KEY)
    return decode(AgentPolicy, json.loads(stored)) if stored else AgentPolicy()


def set_policy(db: Database, wanted: AgentPolicy) -> None:
    """Store the `agent_policy`."""
    if policy(db) != wanted:
        db.execute("meta_set", key=POLICY_KEY, value=write_json(encode(wanted)))


def provisional_jobs(db: Database) -> list[Job]:
    """Return the jobs that wait for approval, longest wait first."""
    return [job_of(row) for row in db.records("jobs_provisional")]
