"""Actions on jobs that the tools create: creation within `agent_policy`, approval and removal."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rota.engine.clock import tzdata_version
from rota.engine.transactions.pause import retire
from rota.model.errors import DuplicateJob, NotYours, PolicyRefused
from rota.model.proposals import MADE, AgentPolicy, Author, Provenance
from rota.model.records import Job
from rota.model.spec import JobSpec
from rota.operations.jobs import find_job, made_jobs
from rota.operations.project.apply import FILE, cancel_waiting, change_to, create, give_pool, refuse_file
from rota.rules.agents import CHECKED_FIRES, HOUR, MakerFacts, PolicyRefusal, Provisional, judge
from rota.rules.schedule.preview import next_fires
from rota.store.driver import Database
from rota.store.tables import activity, audit, jobs
from rota.store.tables.processes import CriticalSection, lock_section

Done = Literal["created", "changed", "unchanged"]


class Put(Struct, frozen=True):
    """A requested job, and the effect of the request."""

    job: Job
    done: Done


def put_made(db: Database, wanted: JobSpec, *, maker: Author, now: datetime, policy: AgentPolicy | None = None) -> Put:
    """Create a job, or change the one of this name; refuse by policy, by owner, or as a duplicate.

    The name of a stored job may differ in case, and the job may be retired.
    """
    lock_section(db, CriticalSection.DECLARE)
    policy = jobs.policy(db) if policy is None else policy
    name = next((name for name in jobs.job_names(db) if name.casefold() == wanted.name.casefold()), wanted.name)
    stored = jobs.job_by_name(db, name)
    if stored is not None:
        refuse_others(stored, maker)
    alive = stored if stored is not None and lives(stored, now) else None
    expires_at = alive.made.expires_at if alive and alive.made else now + policy.expires_after
    spec = replace(wanted, schedule=replace(wanted.schedule, end_at=expires_at))
    provisional = _judge(db, spec, alive, maker=maker, policy=policy, now=now)
    _refuse_double(db, spec, maker=maker, now=now)
    if alive is not None and alive.spec == spec and (alive.provisional_at is not None) is provisional:
        return Put(alive, "unchanged")
    provenance = Provenance(maker.name, now, maker.run_id, maker.depth + 1, expires_at)
    provenance = alive.made if alive is not None and alive.made is not None else provenance
    job_id = _store(db, spec, stored, made=provenance, provisional=provisional, now=now)
    if alive is None:
        jobs.count_making(db, maker.name, "job", now=now, since=now - HOUR)
    done: Done = "created" if alive is None else "changed"
    audit.insert_event(db, f"job_{done}", now=now, job_id=job_id, made_by=maker.name, by_run=maker.run_id)
    activity.touch(db, what="schedule_job", now=now)
    return Put(jobs.job_by_id(db, job_id), done)


def lives(job: Job, now: datetime) -> bool:
    """Return whether a job may still run: not retired, not used up, not expired."""
    return job.retired_at is None and job.used_up_at is None and not job.expired(now)


def refuse_others(job: Job, maker: Author) -> None:
    """Refuse to change a job of another author, or of a file."""
    if job.made is None:
        from_file = job.source.startswith(FILE)
        raise NotYours(job.name, "comes from rota.yaml" if from_file else "was not created with the tools")
    if job.made.by != maker.name:
        raise NotYours(job.name, f"was created by {job.made.by}")


def _judge(
    db: Database, spec: JobSpec, alive: Job | None, *, maker: Author, policy: AgentPolicy, now: datetime
) -> bool:
    """Return whether a job must wait for approval; raise PolicyRefused if the policy forbids it."""
    active = jobs.active_count(db, maker.name, but=alive.id if alive else None, now=now) if spec.enabled else 0
    created = jobs.made_since(db, maker.name, kind="job", since=now - HOUR)
    facts = MakerFacts(maker, active=active, created=created, new=alive is None)
    fires = next_fires(spec.schedule, now, CHECKED_FIRES, created_at=now, name=spec.name)
    verdict = judge(policy, facts, spec, fires=[fire.nominal for fire in fires], now=now)
    if isinstance(verdict, PolicyRefusal):
        raise PolicyRefused(verdict.text, rule=verdict.rule, hint=verdict.hint)
    seen = alive is not None and alive.approved == jobs.digest_of(spec)
    return isinstance(verdict, Provisional) and not seen


def _refuse_double(db: Database, spec: JobSpec, *, maker: Author, now: datetime) -> None:
    """Raise DuplicateJob if the same author has an equal enabled job."""
    wanted = _fingerprint(spec)
    if wanted is None or not spec.enabled:
        return
    for job in jobs.all_jobs(db):
        theirs = job.made is not None and job.made.by == maker.name and job.enabled
        if theirs and job.name != spec.name and lives(job, now) and _fingerprint(job.spec) == wanted:
            raise DuplicateJob(spec.name, job.name)


def _fingerprint(spec: JobSpec) -> tuple[object, ...] | None:
    """Return the identity of a job for its author; None if the work is not an agent's.

    The task with case and blanks folded, the schedule without its bounds, `run_once`, and the target: agent, model and
    the chats or endpoints that are notified.
    """
    work, schedule = spec.work.agent, spec.schedule
    if work is None or not work.prompt:
        return None
    task = " ".join(work.prompt.casefold().split())
    when = (schedule.cron, schedule.interval, schedule.by_mode, schedule.at, schedule.timezone, schedule.run_once)
    chats = tuple(replace(target, name="") for target in spec.notify_own)
    return task, when, work.agent, work.adapter, work.model, spec.notify, chats


def _store(
    db: Database, spec: JobSpec, stored: Job | None, *, made: Provenance, provisional: bool, now: datetime
) -> str:
    tzdata = tzdata_version()
    give_pool(db, spec)
    if stored is not None and stored.retired_at is not None:
        jobs.give_up_name(db, stored)  # deleted or expired: a new job gets the name
        stored = None
    if stored is None:
        return create(db, spec, source=MADE, tzdata=tzdata, now=now, made=made, provisional=provisional)
    jobs.set_made(db, stored.id, made)
    spec = replace(spec, name=stored.name)
    change_to(db, stored, spec, source=MADE, tzdata=tzdata, now=now, provisional_at=now if provisional else None)
    return stored.id


def switch_off(db: Database, job: Job, *, now: datetime) -> Job:
    """Disable a job that the tools created; its approval stays."""
    spec = replace(job.spec, enabled=False)
    change_to(db, job, spec, source=MADE, tzdata=tzdata_version(), now=now, provisional_at=job.provisional_at)
    audit.insert_event(db, "job_disabled", now=now, job_id=job.id)
    return jobs.job_by_id(db, job.id)


def remove(db: Database, job: Job, *, now: datetime) -> None:
    """Retire a job that the tools created; its history stays."""
    retire(db, job.id, now=now)
    jobs.set_approved(db, job.id, None, now=now)
    audit.insert_event(db, "job_removed", now=now, job_id=job.id)


def approve_proposed(db: Database, job: Job, *, now: datetime) -> None:
    """Give a provisional job its due instants; the question about it is answered."""
    digest = jobs.digest_of(job.spec)
    jobs.set_approved(db, job.id, digest, now=now)
    change_to(db, job, job.spec, source=MADE, tzdata=tzdata_version(), now=now)
    audit.insert_event(db, "job_approved", now=now, job_id=job.id, digest=digest)
    activity.touch(db, what="approve", now=now)


def removable(db: Database, *, names: Sequence[str], maker: str | None, covers: Callable[[str], bool]) -> list[Job]:
    """Return the removable jobs of these names, or of an author; refuse a job of a file."""
    if maker is not None:
        return [job for job in made_jobs(db, maker) if covers(job.name)]
    named = [find_job(db, name) for name in dict.fromkeys(names)]
    for job in named:
        refuse_file(job)
    return [job for job in named if job.retired_at is None]


def remove_all(db: Database, names: Sequence[str], *, now: datetime, cancel_queued: bool = False) -> None:
    """Retire jobs that no file declares."""
    for name in names:
        job = find_job(db, name)
        refuse_file(job)
        if job.retired_at is None:
            remove(db, job, now=now)
            if cancel_queued:
                cancel_waiting(db, job.id, now)
    activity.touch(db, what="remove", now=now)
