"""Insert: the one place where a run enters the database. The callers decide whether it may."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from rota import faults
from rota.engine.transactions import notifications, poll
from rota.model.ids import created_ms
from rota.model.records import Job
from rota.model.spec import Kind
from rota.model.states import WaitingFor
from rota.rules.agents import choose
from rota.rules.queue_order import GROUP_LANE, NO_POOLS, place_of
from rota.store.driver import Database
from rota.store.tables import jobs, queue, runs


class RunRef(Struct, frozen=True):
    """A run that was just stored."""

    id: str
    job: str
    number: int

    @property
    def handle(self) -> str:
        """The run as people write it: `backup:112`."""
        return f"{self.job}:{self.number}"


def create_run(db: Database, run: runs.NewRun) -> RunRef:
    """Store a newborn run under the job's next number."""
    number = jobs.next_number(db, run.job.id)
    run = settled(db, run)
    runs.insert_run(db, run, number=number)
    faults.point("enqueue.inserted")
    if run.waiting_for is WaitingFor.POLL:
        demand_poll(db, now=run.created_at)
    born = RunRef(run.id, run.job.name, number)
    if run.job.spec.notifies:
        notifications.run_born(db, run, born.handle, now=run.created_at)
    return born


def demand_poll(db: Database, *, now: datetime) -> None:
    """Insert a poll for runs that wait for one, where none is scheduled."""
    needed = poll.on_demand(db, now=now)
    if needed is not None:
        create_run(db, needed)


def create_runs(db: Database, shared: runs.NewRun, siblings: Sequence[runs.NewRunVariant]) -> list[RunRef]:
    """Store many runs of one job, in their order, by one statement and one count; `shared` is what they have alike."""
    first = jobs.next_numbers(db, shared.job.id, len(siblings))
    runs.insert_runs(db, settled(db, shared), siblings, first=first)
    faults.point("enqueue.many_inserted")
    return [RunRef(variant.id, shared.job.name, first + index) for index, variant in enumerate(siblings)]


def settled(db: Database, run: runs.NewRun) -> runs.NewRun:
    """Return a new run with its lane and its place in the queue, where the caller chose none."""
    if run.reason is not None:
        return run  # it never stands in the queue
    if run.waiting_for is None and _awaits_poll(db, run):
        run = replace(run, waiting_for=WaitingFor.POLL)
    if run.lane_id is None:
        run = in_its_lane(db, run)
    priority = run.job.spec.priority if run.priority is None else run.priority
    place = place_of(priority, created_ms=created_ms(run.id), aging=queue.aging(db))
    return replace(
        run,
        priority=priority,
        rank=place.rank if run.rank is None else run.rank,
        position=place.position if run.position is None else run.position,
    )


def in_its_lane(db: Database, run: runs.NewRun, *, refused: Sequence[str] = ()) -> runs.NewRun:
    """Return a new run with its lane; of several agents the first whose provider is not held does the work.

    `refused`: the agents that refused earlier runs of its chain. If all have, the choice starts over.
    """
    work = run.job.spec.work.agent
    if work is None or not work.choices:
        return replace(run, lane_id=lane_of_job(db, run.job))
    held = {hold.provider: hold.until for hold in queue.holds(db) if hold.until is not None}
    choice = choose(work.choices, held, refused=refused) or choose(work.choices, held)
    assert choice is not None, "there are choices"
    decisions = {**(run.decisions or {}), "agent": choice.decision}
    return replace(run, lane_id=queue.lane_of(db, choice.chosen.pools), decisions=decisions)


def _awaits_poll(db: Database, run: runs.NewRun) -> bool:
    needs = run.job.spec.gates.needs_poll
    return needs and not poll.look(db, born=run.created_at, now=run.created_at).fresh


def lane_of_job(db: Database, job: Job) -> int:
    """Return the lane that a job's runs stand in."""
    spec = job.spec
    if spec.work.kind is Kind.GROUP:
        return GROUP_LANE
    return queue.lane_of(db, spec.pools) if spec.pools else NO_POOLS
