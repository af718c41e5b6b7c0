"""Jobs, runs and holders for the tests of the store, made through the store's own functions."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from rota.engine.transactions.claim import ClaimOwner
from rota.engine.transactions.finish import end_run
from rota.model.ids import new_id
from rota.model.records import Job, Outcome, ProcessIdentity, Run
from rota.model.spec import JobSpec, Kind, Retry, Schedule, Work
from rota.model.states import Reason, Status, Trigger
from rota.store.driver import Database, Store
from rota.store.tables import jobs, processes, runs
from tests.workers import ensure_worker

NOW = datetime(2026, 11, 15, 20, 41, 7, 250_000, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TZDATA = "2026c"
PROCESS = ProcessIdentity("boot", 4321, 99)
DONE = Outcome(Status.COMPLETED)
FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="it left with 3")
CANCELLED = Outcome(Status.CANCELLED, Reason.REQUESTED)
NO_RETRY = Retry(max_attempts=1)


def spec_of(name: str = "backup", **changes: Any) -> JobSpec:
    work = Work(Kind.COMMAND, command=("restic", "backup"), params={"full": True, "name": "é"})
    return replace(JobSpec(name, work, Schedule(cron=("0 * * * *",)), retry=NO_RETRY), **changes)


def insert_job(db: Database, spec: JobSpec, *, next_at: datetime | None = NOW + HOUR) -> Job:
    job_id = new_id(NOW)
    jobs.insert_job(db, spec, job_id=job_id, source="file", next_for=next_at, next_at=next_at, tzdata=TZDATA, now=NOW)
    return jobs.job_by_id(db, job_id)


def add_job(store: Store, name: str = "backup", *, next_at: datetime | None = NOW + HOUR, **changes: Any) -> Job:
    return store.write(lambda db: insert_job(db, spec_of(name, **changes), next_at=next_at))


def insert_run(db: Database, job: Job, *, at: datetime = NOW, **changes: Any) -> Run:
    newborn = runs.NewRun(id=new_id(at), job=job, trigger=Trigger.MANUAL, created_at=at)
    newborn = replace(newborn, **changes)
    runs.insert_run(db, newborn, number=jobs.next_number(db, job.id))
    return seen(db, newborn.id)


def add_run(store: Store, job: Job, **changes: Any) -> Run:
    return store.write(lambda db: insert_run(db, job, **changes))


def seen(db: Database, run_id: str) -> Run:
    run = runs.run_by_id(db, run_id)
    assert run is not None
    return run


def look(store: Store, run: Run) -> Run:
    return store.read(lambda db: seen(db, run.id))


def enter(db: Database, *, pid: int = 4321) -> ClaimOwner:
    worker_id = ensure_worker(db, name="host", now=NOW)
    identity = replace(PROCESS, pid=pid)
    epoch = processes.open_process(
        db,
        worker_id=worker_id,
        kind="serve",
        identity=identity,
        lock=f"{pid}.lock",
        version="0.1.0",
        clock_offset=timedelta(0),
        now=NOW,
    )
    return ClaimOwner(worker_id, epoch, identity)


def add_holder(store: Store, *, pid: int = 4321) -> ClaimOwner:
    return store.write(lambda db: enter(db, pid=pid))


def dispatch(db: Database, run: Run, holder: ClaimOwner, *, slot: int = 0, started: bool = False) -> bool:
    taken = runs.ClaimedSlot(run.seq, slot, started)
    return runs.claim_runs(db, [taken], worker_id=holder.worker_id, epoch=holder.epoch, now=NOW) == 1


def begin(db: Database, run: Run, holder: ClaimOwner, *, slot: int = 0, at: datetime = NOW) -> bool:
    """Claim a run and start it, with its execution."""
    return dispatch(db, run, holder, slot=slot) and runs.start_run(
        db, run.id, epoch=holder.epoch, process=PROCESS, now=at
    )


def end(db: Database, run: Run, holder: ClaimOwner, outcome: Outcome = DONE, *, at: datetime = NOW + MINUTE) -> bool:
    return end_run(db, run.id, outcome, expected=Status.RUNNING, epoch=holder.epoch, now=at)


def run_in(store: Store, status: Status, job: Job, *, holder: ClaimOwner, slot: int = 0) -> Run:
    """Return a new run that reached `status` on a legal way."""
    run = add_run(store, job)

    def move(db: Database) -> None:
        if status is Status.QUEUED:
            return
        if status is Status.SKIPPED:
            outcome = Outcome(Status.SKIPPED, Reason.EXPIRED)
            end_run(db, run.id, outcome, expected=Status.QUEUED, epoch=None, now=NOW)
        elif status is Status.DISPATCHED:
            dispatch(db, run, holder, slot=slot)
        else:
            begin(db, run, holder, slot=slot)
            outcomes = {Status.COMPLETED: DONE, Status.FAILED: FAILED, Status.CANCELLED: CANCELLED}
            if status in outcomes:
                end(db, run, holder, outcomes[status])

    store.write(move)
    found = look(store, run)
    assert found.status is status
    return found
