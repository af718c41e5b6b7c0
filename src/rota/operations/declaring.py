"""Jobs that Python code declares: the code is the file, and what it adds to keep stays until it is removed."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rota.declare.agents import own_pools
from rota.declare.files import home_of
from rota.declare.including import locate_job
from rota.declare.plan import Change, ChangeKind, Plan, plan
from rota.declare.validate import Declared
from rota.engine.clock import tzdata_version
from rota.model.errors import EmptyApply, JobInFile, Problem
from rota.model.making import MADE
from rota.model.records import Job
from rota.model.spec import JobSpec
from rota.operations.applying import apply_in, carry_out
from rota.operations.jobs import find_job
from rota.store import cadence, jobs, queue
from rota.store.driver import Database

DECLARED = "python"
"""The source of jobs that the code declares each time it starts; what it no longer has is retired, as of a file."""
KEPT = "api"
"""The source of jobs that stay until somebody removes them."""
FILE = "file:"


def apply_declared(
    db: Database, *, declared: Declared, kept: Collection[str], allow_empty: bool, now: datetime
) -> Plan:
    """Make the stored jobs equal to what the code declares; those of `kept` are upserted and never retired."""
    own = tuple(spec for spec in declared.jobs if spec.name not in kept)
    stored = jobs.all_jobs(db)
    gone = [job.name for job in stored if job.source == DECLARED and job.retired_at is None]
    if gone and not own and not allow_empty:
        hint = "declare them before it starts; to retire them all: Scheduler(…, allow_empty=True)"
        raise EmptyApply(f"the code declares no jobs, and {len(gone)} stored ones came from it", hint=hint)
    for spec in declared.jobs:
        if spec.name in kept:
            put_job(db, spec, source=KEPT, now=now)
    taken_over = [job.name for job in stored if job.source == KEPT]
    return apply_in(
        db, declared=replace(declared, jobs=own), now=now, adopt=taken_over, allow_empty=True, source=DECLARED
    )


def put_job(db: Database, spec: JobSpec, *, source: str, now: datetime) -> Change:
    """Store a job, or change the one of its name; one that came from elsewhere than Python code is refused.

    A deleted job does not come back: its name goes to a new job, and its history stays under its identifier (R-14).
    """
    stored = [job for job in _of_that_name(db, spec.name) if not _deleted(db, job)]
    adopt = [job.name for job in stored if job.source in (DECLARED, KEPT)]
    (change,) = plan((spec,), stored, source=source, adopt=adopt).changes
    if change.kind is not ChangeKind.UNCHANGED:
        cadence.touch(db, what="add_job", now=now)
        give_pool(db, spec)
        carry_out(db, change, source=source, tzdata=tzdata_version(), now=now)
    return change


def _deleted(db: Database, job: Job) -> bool:
    """Tell whether a job was deleted for good; its name is free then."""
    if job.retired_at is None or job.source not in (KEPT, MADE):
        return False
    jobs.give_up_name(db, job)
    return True


def give_pool(db: Database, spec: JobSpec) -> None:
    """Declare the pools of a job's agent: nobody may have drawn on them when the settings were stored (R-04)."""
    agent = spec.work.agent
    if agent is not None:
        pools = {pool.name: pool.capacity for pool in queue.pools(db) if pool.declared}
        queue.declare_pools(db, {**pools, **own_pools(agent)})


def _of_that_name(db: Database, name: str) -> list[Job]:
    """Return the job whose name differs at most in case."""
    known = next((one for one in jobs.job_names(db) if one.casefold() == name.casefold()), name)
    found = jobs.job_by_name(db, known)
    return [] if found is None else [found]


def refuse_file(job: Job, *, hint: str = "take it out of that file and apply it") -> None:
    """Refuse to change or remove a job that a file declares: the next apply would undo it."""
    if job.source.startswith(FILE):
        file = job.source.removeprefix(FILE)
        place = locate_job(Path(file), job.name, home=home_of({}))
        raise JobInFile(job.name, place or Problem("declared it", JobInFile.code, file), hint=hint)


def remove_job(db: Database, *, name: str, now: datetime) -> None:
    """Retire a job: no more fires, its runs go on, its history stays; the same name makes a new job."""
    job = find_job(db, name)
    refuse_file(job)
    if job.retired_at is None:
        cadence.touch(db, what="remove_job", now=now)
        change = Change(ChangeKind.RETIRE, job.name, job=job)
        carry_out(db, change, source=job.source, tzdata=tzdata_version(), now=now)
