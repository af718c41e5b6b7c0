"""Claim: take ready runs, in order, into free slots."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field

from rota import faults
from rota.engine.activity import ask_claiming_paused, claiming_paused
from rota.engine.transactions.direct_calls import Alive, anybody_came_after, serve
from rota.engine.transactions.direct_calls import start as start_call
from rota.engine.transactions.finish import end_run
from rota.engine.transactions.notifications import ping_start
from rota.model.agents import NO_BRIEF, Brief
from rota.model.records import Outcome, ProcessIdentity
from rota.model.spec import Draw, JobSpec, OverlapPolicy
from rota.model.states import Status
from rota.rules.admission import Skip, decide
from rota.rules.queue_order import EVERYTHING, Head, PoolFilter, Room, walk
from rota.runners.processes import alive as process_alive
from rota.store.driver import Database
from rota.store.tables import direct_calls, jobs, processes, queue, runs
from rota.store.tables.direct_calls import WaitingCall
from rota.store.tables.processes import lock_worker

Specs = dict[tuple[str, int], JobSpec]
"""Frozen definitions by job and version: they never change."""
MAX_CACHED_SPECS = 1000

FRONT = 4
"""How many runs at the front of the queue are looked at for each free slot before the lanes are."""


class ClaimOwner(Struct, frozen=True):
    """The process that claims: every write of its runs names its epoch. `leased`: other machines claim beside it."""

    worker_id: str
    epoch: int
    identity: ProcessIdentity
    takes: PoolFilter = EVERYTHING
    leased: bool = False

    def elsewhere(self, caller: ProcessIdentity) -> bool:
        """Return whether a process is on another machine: whether it lives is not seen from here."""
        return self.leased and caller.boot_id != self.identity.boot_id


class Launched(Protocol):
    """A process that waits at its gate."""

    @property
    def identity(self) -> ProcessIdentity:
        """Which process it is."""
        ...

    def open(self) -> None:
        """Start it."""
        ...

    def close(self) -> None:
        """Send it away; it never begins."""
        ...


class Claimed(NamedTuple):
    """A run in a slot, with its frozen definition. `started`: nothing stood before its start.

    `call`: a direct call, which has no row of a run. `launched`: the process of a command whose start is stored.
    """

    run: runs.Candidate
    spec: JobSpec
    slot: int
    started: bool
    call: WaitingCall | None = None
    poll_data: Mapping[str, Any] | None = None
    brief: Brief = NO_BRIEF
    launched: Launched | None = None


Launcher = Callable[[Claimed], Launched | None]
"""Returns a process for a command at its gate; None: there is none, or the command needs more before its start."""


def no_launch(_claimed: Claimed) -> None:
    """Launch nothing with a claim."""


class ClaimCache(Struct):
    """State kept between claims: cached specs, and whether the fast path applied last time.

    `passed_over`: the last claim skipped runs that another transaction had locked.
    `alone`: no other process was there to take runs.
    """

    specs: Specs = field(default_factory=dict)
    plain: bool = False
    passed_over: bool = False
    alone: bool = False

    def keep(self, claimed: "Sequence[Claimed]") -> None:
        """Remember the definitions of a claim, once it is committed: before that they may yet be others'."""
        if len(self.specs) > MAX_CACHED_SPECS:
            self.specs.clear()
        self.specs |= {
            (one.run.job_id, one.run.version): one.spec
            for one in claimed
            if one.call is None and (one.spec.work.agent is None or not one.spec.work.agent.choices)
        }


class ClaimCandidate(NamedTuple):
    """A run that comes next, and what it draws on its pools; None: another scheduler took it, or changed it."""

    run: runs.Candidate | None
    draws: tuple[Draw, ...] = ()


def claim(
    db: Database,
    holder: ClaimOwner,
    free: Sequence[int],
    *,
    now: datetime,
    alive: Alive = process_alive,
    until: datetime | None = None,
    known: ClaimCache | None = None,
    launch: Launcher = no_launch,
) -> list[Claimed]:
    """Fill the free slots: with direct calls, then with the runs that come first.

    `until`: take only what was there by then, and nothing that stands behind what came later. `known`: what
    earlier claims of this process met. `launch`: makes the processes of commands that start with their claim.
    """
    known = known or ClaimCache()
    known.passed_over = False
    if claiming_paused(db, now):
        return []
    room = queue.room(db)
    called: list[Claimed] = []
    if direct_calls.anybody_waits(db):
        served = serve(db, holder, free, room=room, alive=alive, now=now, until=until)
        called = [Claimed(call.run, call.spec, call.slot, call.started, call.call) for call in served]
        if until is not None and anybody_came_after(db, until):
            return called
    known.plain = _is_plain(room, holder.takes)
    left = free[len(called) :]
    queued = _claim_queued(db, holder, left, room=room, known=known.specs, now=now, until=until, launch=launch)
    if known.plain and until is None and len(queued) < len(left):
        known.passed_over = runs.passed_over(db)
    return called + queued


def anything_goes(db: Database, *, now: datetime) -> bool:
    """Return whether a free slot would find a run to take."""
    return not claiming_paused(db, now) and bool(_chosen(db, queue.room(db), EVERYTHING, free=1))


def ask_claim(db: Database, holder: ClaimOwner, free: Sequence[int], *, limit: int, known: ClaimCache) -> None:
    """Prefetch everything that a claim reads: a server may be far away.

    Also prefetch candidates if the fast path applied last time. If it no longer applies they are read again; the extra
    row locks are harmless.
    """
    processes.prefetch_may_claim(db, holder.epoch)
    lock_worker(db, holder.worker_id)
    runs.prefetch_taken_slots(db, holder.worker_id)
    ask_claiming_paused(db)
    queue.prefetch_room(db)
    direct_calls.prefetch_anybody_waits(db)
    if known.plain:
        runs.prefetch_candidates(db, free=min(len(free), limit))


def slots_to_fill(
    db: Database, holder: ClaimOwner, free: Sequence[int], *, limit: int, known: ClaimCache
) -> list[int] | None:
    """Return up to `limit` of our free slots that may be filled; None if this process may claim nothing any more."""
    claiming = processes.may_claim(db, holder.epoch)
    if claiming is None:
        return None
    known.alone = claiming.alone
    return _not_taken(db, holder, free)[:limit]


def usable_slots(db: Database, holder: ClaimOwner, free: Sequence[int]) -> list[int]:
    """Return those of our free slots in which no other process of this worker has put anything."""
    lock_worker(db, holder.worker_id)
    return _not_taken(db, holder, free)


def _not_taken(db: Database, holder: ClaimOwner, free: Sequence[int]) -> list[int]:
    taken = runs.taken_slots(db, holder.worker_id)
    return [slot for slot in free if slot not in taken]


def _claim_queued(
    db: Database,
    holder: ClaimOwner,
    free: Sequence[int],
    *,
    room: Room,
    known: Specs,
    now: datetime,
    until: datetime | None,
    launch: Launcher,
) -> list[Claimed]:
    """Claim until the slots are full or the queue is empty; a run that is gone leaves its place to the next."""
    claimed: list[Claimed] = []
    spec_of = partial(_spec, db, known=known, read={})
    slots = iter(free)
    claim_round = partial(
        _claim_round, db, holder, slots, room=room, spec_of=spec_of, now=now, until=until, launch=launch
    )
    while len(claimed) < len(free):
        taken, gone = claim_round(free=len(free) - len(claimed))
        claimed += taken
        if not gone:
            break
    return claimed


def _claim_round(
    db: Database,
    holder: ClaimOwner,
    slots: Iterator[int],
    *,
    free: int,
    room: Room,
    spec_of: Callable[[runs.Candidate], JobSpec],
    now: datetime,
    until: datetime | None,
    launch: Launcher,
) -> tuple[list[Claimed], bool]:
    """Claim the first runs; return whether some of them had expired or were taken by another process."""
    claimed: list[Claimed] = []
    at_once: dict[tuple[int, bool], tuple[bool, bool]] = {}  # by definition: runs of one are many
    gone = False
    for chosen in _chosen(db, room, holder.takes, free=free):
        run = chosen.run
        if run is None:
            gone = True
            room.give_back(chosen.draws)
            continue
        if until is not None and run.created_at > until:
            break  # it comes first and is not ours: no run may overtake it
        spec = spec_of(run)
        late = run.expires_at and decide(
            spec.gates, expires_at=run.expires_at, forced=run.forced, conditions=(), now=now
        )
        if isinstance(late, Skip):
            outcome = Outcome(Status.SKIPPED, late.reason, error=late.why)
            gone = end_run(db, run.id, outcome, expected=Status.QUEUED, epoch=None, now=now) or gone
            room.give_back(chosen.draws)
        elif queue.take(db, chosen.draws):
            kind = (id(spec), run.forced)
            if kind not in at_once:
                starts, here = starts_at_once(spec, forced=run.forced), spec.work.in_process
                at_once[kind] = starts and here, starts and not here
            started, launches = at_once[kind]
            one = Claimed(run, spec, next(slots), started)
            if launches and (launched := launch(one)) is not None:
                one = one._replace(started=True, launched=launched)
            claimed.append(one)
    _take(db, claimed, holder, now=now)
    return claimed, gone


def _chosen(db: Database, room: Room, takes: PoolFilter, *, free: int) -> list[ClaimCandidate]:
    """Return the runs that come first and have room in their pools, in order; only those that are taken."""
    if _is_plain(room, takes):
        return [ClaimCandidate(run) for run in runs.candidates(db, free=free)]
    going = _from_the_front(db, room, free=free) if takes.everything else None
    if going is None:
        going = _over_the_lanes(db, room, takes, free=free)
    found = {run.seq: run for run in runs.chosen(db, [head.seq for head in going])}
    return [ClaimCandidate(found.get(head.seq), head.draws) for head in going]


def _is_plain(room: Room, takes: PoolFilter) -> bool:
    """Return whether no pool is limited: then the first runs without pools are next."""
    return not room.left and takes.everything


def _from_the_front(db: Database, room: Room, *, free: int) -> list[Head] | None:
    """Select runs from the front of the queue; return None if they do not fill the slots."""
    left, held = dict(room.left), set(room.held)
    limit = free * FRONT
    front = queue.front(db, limit=limit)
    going = walk(front, room, free=free, following=lambda _: None)
    if len(going) == free or len(front) < limit:
        return going
    room.left, room.held = left, held
    return None


def _over_the_lanes(db: Database, room: Room, takes: PoolFilter, *, free: int) -> list[Head]:
    """Walk the heads of the lanes, so that runs blocked on a full pool are never scanned.

    A lane that is not taken keeps nothing from the others: another worker takes it.
    """
    lanes: dict[int, Iterator[Head]] = {}

    def following(head: Head) -> Head | None:
        if head.lane_id not in lanes:
            lanes[head.lane_id] = iter(queue.behind(db, head, limit=free - 1))
        return next(lanes[head.lane_id], None)

    heads = (head for head in queue.heads(db) if takes.fits(head.draws))
    return walk(heads, room, free=free, following=following)


def _spec(db: Database, run: runs.Candidate, *, known: Specs, read: Specs) -> JobSpec:
    key = (run.job_id, run.version)
    spec = known.get(key) or read.get(key)
    if spec is None:
        spec = read[key] = jobs.version_spec(db, *key)
    if spec.work.agent is not None and spec.work.agent.choices:
        whole = runs.run_by_id(db, run.id)
        return spec if whole is None else queue.with_agent(db, spec, whole.lane_id)
    return spec


def _take(db: Database, claimed: Sequence[Claimed], holder: ClaimOwner, *, now: datetime) -> None:
    """Move the runs into their slots, all by one statement: one each costs more than the work itself."""
    if not claimed:
        return
    slots = [
        runs.ClaimedSlot(one.run.seq, one.slot, one.started, None if one.launched is None else one.launched.identity)
        for one in claimed
    ]
    runs.claim_runs(db, slots, worker_id=holder.worker_id, epoch=holder.epoch, now=now)
    faults.point("claim.updated")
    if any(one.launched is not None for one in claimed):
        faults.point("claim.launched")


def starts_at_once(spec: JobSpec, *, forced: bool) -> bool:
    """Return whether nothing stands between claim and start: a run without gates that replaces no other.

    An agent is given its brief in between.
    """
    gated = (spec.gates.conditions and not forced) or spec.gates.needs_poll or spec.budgets or spec.work.agent
    return not (gated or spec.ping) and spec.overlap.policy is not OverlapPolicy.REPLACE


def start(db: Database, claimed: Claimed, holder: ClaimOwner, *, process: ProcessIdentity, now: datetime) -> bool:
    """Move a dispatched run to RUNNING with its execution; return whether it was still ours and wanted."""
    if claimed.call is not None:
        return start_call(db, claimed.call, holder, slot=claimed.slot, process=process, now=now)
    row = db.row("run_ending", id=claimed.run.id)
    if row is None or row[1] is not None:
        return False
    if not runs.start_run(db, claimed.run.id, epoch=holder.epoch, process=process, now=now):
        return False
    if claimed.spec.ping is not None:
        ping_start(db, claimed.spec.ping, run_id=claimed.run.id, handle=claimed.run.handle, now=now)
    faults.point("execute.start_written")
    return True
