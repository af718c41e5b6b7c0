"""Jobs that agents created: their authors, approvals and started runs."""

from collections.abc import Sequence
from datetime import datetime

from rota.model.errors import NotProvisional, PolicyRefused
from rota.model.proposals import ANYBODY, Author
from rota.model.records import Job
from rota.operations.jobs import find_job
from rota.rules.agents import HOUR, PolicyRefusal, judge_start
from rota.store.driver import Database
from rota.store.tables import jobs
from rota.store.tables.processes import CriticalSection, lock_section


def made_jobs(db: Database, maker: str) -> list[Job]:
    """Return the present jobs of an author; of all authors for `agent`."""
    return [job for job in jobs.all_jobs(db) if job.retired_at is None and made_by(job, maker)]


def made_by(job: Job, maker: str) -> bool:
    """Return whether a job has this author; `agent` stands for all of them."""
    return job.made is not None and (maker in (ANYBODY, job.made.by))


def count_start(db: Database, by: Author, *, now: datetime, force: bool = False) -> dict[str, str]:
    """Count a start by a run, a token or a tool, and return its record; raise PolicyRefused by `agent_policy`."""
    if by.is_agent:
        lock_section(db, CriticalSection.MAKING)
        refuse_start(db, by, now=now, force=force)
        jobs.count_making(db, by.name, "run", now=now, since=now - HOUR)
    return {"maker": by.name, **({"run": by.run} if by.run else {})}


def refuse_start(db: Database, by: Author, *, now: datetime, force: bool = False) -> None:
    """Raise PolicyRefused if `agent_policy` does not allow this author one more run."""
    if not by.is_agent:
        return
    started = jobs.made_since(db, by.name, kind="run", since=now - HOUR)
    verdict = judge_start(jobs.policy(db), started=started, force=force)
    if isinstance(verdict, PolicyRefusal):
        raise PolicyRefused(verdict.text, rule=verdict.rule, hint=verdict.hint)


def waiting(db: Database) -> Sequence[Job]:
    """Return the jobs that wait for approval."""
    return jobs.provisional_jobs(db)


def proposal(db: Database, *, name: str) -> Job:
    """Return a job that waits for approval."""
    job = find_job(db, name)
    if job.provisional_at is None or job.retired_at is not None:
        raise NotProvisional(name)
    return job
