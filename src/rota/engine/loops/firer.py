"""The loop that fires due instants; it also detects clock jumps."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from rota import faults
from rota.engine.loops.in_flight import Events
from rota.engine.loops.loop import StorageErrors
from rota.engine.ports import Post
from rota.engine.transactions.claim import ClaimOwner
from rota.engine.transactions.fire import Fired, fire
from rota.log import log
from rota.model.clock import EPOCH, MILLISECOND, Clock
from rota.model.errors import StateError
from rota.model.notifications import Target
from rota.rules.liveness import AMONG_MACHINES, TOLERANCE, Firing, keeps_time, say_skew, skew_of, stepped_back
from rota.rules.schedule.blackouts import has_waits
from rota.rules.schedule.cursor import cursor_of
from rota.store.driver import Database, Store
from rota.store.tables import attention, audit, chats, jobs, notifications, processes, queue

FIRES_A_ROUND = 200
QUARANTINE = timedelta(seconds=60)


class Firer:
    """Fires the due jobs of a process."""

    def __init__(self, store: Store, *, storage_errors: StorageErrors, events: Events) -> None:
        self._store = store
        self._storage_errors = storage_errors
        self._events = events
        self.quarantine: dict[str, datetime] = {}
        """The jobs that could not be fired, and when they are tried again."""

    async def fire_due(self, now: datetime) -> bool:
        """Fire what is due; return whether that made runs."""
        due = self._store.read(partial(jobs.due_jobs, now=now, limit=FIRES_A_ROUND + len(self.quarantine)))
        due = [job_id for job_id in due if self.quarantine.get(job_id, now) <= now]
        with self._storage_errors.reporting("fire"):
            fired = await self._fire_all(due, now)
        if due:
            self._storage_errors.clear("fire")
        return any(one is not None and one.runs for one in fired)

    async def _fire_all(self, due: Sequence[str], now: datetime) -> list[Fired | None]:
        """Fire jobs and claim what they enqueue, as a rule in one commit: a run starts one flush after its instant."""
        firing = [(job_id, self._store.submit(partial(fire, job_id=job_id, now=now))) for job_id in due]
        if firing:
            self._events.enqueued()
        return await asyncio.gather(*(self._fire_one(job_id, future, now=now) for job_id, future in firing))

    async def _fire_one(self, job_id: str, firing: "asyncio.Future[Fired]", *, now: datetime) -> Fired | None:
        """Wait until a job is fired. A job that fails is logged and quarantined, so that it affects no other."""
        try:
            fired = await firing
        except StateError:
            raise  # not this job's fault: the loop retries all jobs; the misfire policy covers late instants
        except Exception as error:
            self.quarantine[job_id] = now + QUARANTINE
            log.exception("job failed to fire", job=job_id, error=str(error))
            return None
        faults.point("fire.committed")
        self.quarantine.pop(job_id, None)
        self._events.fired(fired)
        return fired

    def next_at(self, now: datetime, *, tick: datetime) -> datetime:
        """Return when to look again, at `tick` the latest."""
        due = self._store.read(jobs.next_due)
        if due is None:
            return tick
        if due <= now and self.quarantine:
            return min(tick, *self.quarantine.values())
        return min(due, tick)


COMPARE_EVERY = 10.0
"""After how many seconds the clock is compared with the server's again."""

ServerNow = Callable[[Database], datetime]


def offset(clock: Clock) -> timedelta:
    """Return wall time minus time since boot."""
    return clock.now() - EPOCH - timedelta(seconds=clock.boottime())


class ServerClock:
    """Compares the clock of this machine with the server's; on a database of one machine there is nothing to compare.

    Between two comparisons a step of the clock counts at once: elapsed time does not step.
    """

    def __init__(self, store: Store, clock: Clock, *, holder: ClaimOwner, server_now: ServerNow) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._server_now = server_now
        self._compared_at: float | None = None
        self._skew, self._offset = timedelta(), offset(clock)
        self.agrees = True
        """Whether it agreed at the last look."""

    @property
    def skew(self) -> timedelta:
        """By how much this machine's clock is ahead of the server's; negative: behind."""
        moved = offset(self._clock) - self._offset
        return self._skew + (moved if abs(moved) > TOLERANCE else timedelta())

    @property
    def trusted(self) -> bool:
        """Whether what is due by this machine's clock may be done."""
        if not self._holder.leased:
            return True
        return self._compared_at is not None and abs(self.skew) <= AMONG_MACHINES

    async def look(self) -> bool:
        """Compare the clocks where that is due; return whether this machine's may be followed."""
        if not self._holder.leased:
            return True
        if self._is_due():
            self._compare()
        if self.trusted is not self.agrees:
            self.agrees = self.trusted
            await self._note()
        return self.agrees

    def _is_due(self) -> bool:
        if self._compared_at is None or abs(offset(self._clock) - self._offset) > TOLERANCE:
            return True
        return self._clock.boottime() - self._compared_at >= COMPARE_EVERY

    def _compare(self) -> None:
        before = self._clock.now()
        server = self._store.read(self._server_now)
        self._skew = skew_of(server, before=before, after=self._clock.now())
        self._offset, self._compared_at = offset(self._clock), self._clock.boottime()

    async def _note(self) -> None:
        if self.agrees:
            log.info("clock agrees with the database server: firing and claiming resumed")
        else:
            hint = "set the clock; rota resumes automatically"
            log.error("clock is wrong: firing and claiming stopped", clock=say_skew(self.skew), hint=hint)
        skew = None if self.agrees else self.skew
        await self._store.submit(partial(processes.note_skew, worker_id=self._holder.worker_id, skew=skew))


class ClockJumpDetector:
    """Looks for a step back at each fire round, and moves what waits for elapsed time."""

    def __init__(self, store: Store, clock: Clock, *, holder: ClaimOwner) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._offset = self._stored = offset(clock)
        self._trusted = True
        """Whether the clock was trusted at the last look."""

    async def look(self, *, trusted: bool = True) -> bool:
        """Handle a clock jump back; return whether times moved. Only a step between two trusted times moves any."""
        moves, self._trusted = trusted and self._trusted, trusted
        now_offset = offset(self._clock)
        back = stepped_back(self._offset, now_offset)
        self._offset = now_offset
        if back is not None:
            await self._move(back, allowed=moves)
        if back is not None or stepped_back(now_offset, self._stored) is not None:
            await self._remember(now_offset)
        return back is not None and moves

    async def _move(self, back: timedelta, *, allowed: bool) -> None:
        follow = partial(_follow, back=back, holder=self._holder, allowed=allowed, now=self._clock.now())
        moved = await self._store.submit(follow)
        told = (
            {}
            if moved
            else {"hint": "stored times are unchanged: the database server and other machines have their own clocks"}
        )
        log.warning("clock jumped back", seconds=back.total_seconds(), **told)

    async def _remember(self, clock_offset: timedelta) -> None:
        """Store where the clock stands, steps forward too: the next process tells by it whether it was set back."""
        await self._store.submit(partial(_remember, epoch=self._holder.epoch, clock_offset=clock_offset))
        self._stored = clock_offset


def _remember(db: Database, *, epoch: int, clock_offset: timedelta) -> None:
    db.execute("process_set_offset", epoch=epoch, clock_offset=clock_offset // MILLISECOND)


def _follow(db: Database, *, back: timedelta, holder: ClaimOwner, allowed: bool, now: datetime) -> bool:
    """Move waiting times unless other machines fire by their own clocks; return whether it did."""
    moves = allowed and (not holder.leased or _keeps_time(db, holder))
    if moves:
        move_back(db, back=back, now=now)
    else:
        _note(db, back, now=now)
    return moves


def _keeps_time(db: Database, holder: ClaimOwner) -> bool:
    open_processes = processes.others_that_fire(db, worker_id=holder.worker_id)
    others = [Firing(process.epoch, process.identity.boot_id) for process in open_processes]
    return keeps_time(Firing(holder.epoch, holder.identity.boot_id), others)


def _note(db: Database, back: timedelta, *, now: datetime) -> None:
    audit.insert_event(db, "clock_set_back", now=now, seconds=back.total_seconds())


def move_back(db: Database, *, back: timedelta, now: datetime) -> None:
    """Move next instants of completion and start anchors, and the ends of waits, back by as much."""
    by = back // MILLISECOND
    for job_id, *_ in db.rows("jobs_following"):
        db.execute("job_shift", id=job_id, back=by)
        _wait_anew(db, job_id)
    db.execute("runs_shift", back=by)
    db.execute("jobs_backing_off_shift", back=by)
    queue.shift(db, back)
    notifications.shift(db, back)
    attention.shift(db, back)
    chats.shift(db, back)
    _note(db, back, now=now)


def _wait_anew(db: Database, job_id: str) -> None:
    """Defer a moved instant to the end of its present quiet hours, by the calendar."""
    job = jobs.job_by_id(db, job_id)
    if job.next_for is not None and has_waits(job.spec.schedule):
        jobs.wait_until(db, job, cursor_of(job, job.next_for).next_at)


def catch_up_with_step(
    db: Database, *, boot_id: str, clock_offset: timedelta, now: datetime, shared: bool = False
) -> timedelta | None:
    """At a start: find out whether the clock was set back since the last process, and move if so."""
    row = db.row("process_last_offset", boot_id=boot_id)
    back = stepped_back(timedelta(milliseconds=row[0]), clock_offset) if row else _behind_rows(db, now, shared=shared)
    if back is not None:
        move_back(db, back=back, now=now)
    return back


def may_catch_up(db: Database, *, worker_id: str, boot_id: str) -> bool:
    """Return whether no other machine fires now or has fired since this one did.

    Rows of another machine say nothing about this clock: after a reboot only the last machine that fired compares them.
    """
    if processes.others_that_fire(db, worker_id=worker_id):
        return False
    last = db.row("process_last_firing")
    return last is not None and (last[0] == boot_id or last[1] == worker_id)


def _behind_rows(db: Database, now: datetime, *, shared: bool) -> timedelta | None:
    """Return how far the clock is behind what was written before this boot: it went back at least as much."""
    known = [at for at in db.row("clock_newest_times") or () if at is not None]
    tolerance = AMONG_MACHINES if shared else TOLERANCE
    return stepped_back(timedelta(milliseconds=max(known)), now - EPOCH, tolerance=tolerance) if known else None


EVERY = timedelta(seconds=60)
SLACK = timedelta(seconds=5)
"""A round that comes a little early pings too: the rounds of an idle loop are a minute apart."""


class Pinger:
    """Pings `scheduler.ping_url` with rounds of the loop, never waiting for an answer."""

    def __init__(self, post: Post, target: Target | None) -> None:
        self._post = post
        self._target = target
        self._last: datetime | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: str | None = None

    def beat(self, now: datetime) -> None:
        """Ping, unless the last time was less than a minute ago or is not over."""
        if self._target is None or (self._task is not None and not self._task.done()):
            return
        if self._last is not None and abs(now - self._last) < EVERY - SLACK:
            return
        self._last = now
        self._task = asyncio.get_running_loop().create_task(self._ping(self._target), name="rota-ping")

    async def _ping(self, target: Target) -> None:
        receipt = await self._post.ping(target)
        error = None if receipt.ok else receipt.error or "it failed"
        if error is not None and error != self._error:
            log.warning("ping to `scheduler.ping_url` failed", error=error)
        elif error is None and self._error is not None:
            log.info("ping to `scheduler.ping_url` succeeded again")
        self._error = error
