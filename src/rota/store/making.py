"""What was made with the tools: makers, expiry, approval, and how much was made within an hour."""

import hashlib
import json
from datetime import datetime
from typing import Literal

from rota.model.clock import to_ms, to_ms_or_none
from rota.model.codec import decode, encode
from rota.model.ids import new_id
from rota.model.making import AgentPolicy, Made
from rota.model.records import Job
from rota.model.spec import JobSpec
from rota.store.driver import Database
from rota.store.rows import job_of, write_json, write_spec

POLICY_KEY = "agent_policy"

Kind = Literal["job", "run"]


def digest_of(spec: JobSpec) -> str:
    """Return the digest of a definition: any change of it is another one."""
    return hashlib.sha256(write_spec(spec).encode()).hexdigest()


def set_made(db: Database, job_id: str, made: Made | None) -> None:
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
