"""Clocks that are set: what counts elapsed time moves back with the clock, instants of the calendar never do (R-26).

On a shared database a machine follows its clock only while that agrees with the server's (R-41).
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from rota import faults
from rota.engine.claim import Holder
from rota.log import log
from rota.model.clock import EPOCH, MILLISECOND, Clock
from rota.rules.clock import AMONG_MACHINES, TOLERANCE, Firing, keeps_time, say_skew, skew_of, stepped_back
from rota.rules.cursor import cursor_of
from rota.rules.lull import has_waits
from rota.store import deliveries, events, holds, jobs, processes, workers
from rota.store.driver import Database, Store

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

    def __init__(self, store: Store, clock: Clock, *, holder: Holder, server_now: ServerNow) -> None:
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
        """Compare the clocks where that is due; tell whether this machine's may be followed."""
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
        """Say so where people look: in the log, and in the database for the other machines."""
        if self.agrees:
            log.info("the clock agrees with the database server's again: firing and claiming")
        else:
            hint = "set the clock; rota begins by itself when it is right"
            log.error("nothing is fired or claimed: the clock is wrong", clock=say_skew(self.skew), hint=hint)
        skew = None if self.agrees else self.skew
        await self._store.submit(partial(workers.note_skew, worker_id=self._holder.worker_id, skew=skew))


class StepWatch:
    """Looks for a step back at each fire round, and moves what waits for elapsed time."""

    def __init__(self, store: Store, clock: Clock, *, holder: Holder) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._offset = self._stored = offset(clock)
        self._trusted = True
        """Whether the clock was trusted at the last look."""

    async def look(self, *, trusted: bool = True) -> bool:
        """Move what must move; tell whether. Only a step from one trusted time to another moves anything (R-41)."""
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
            else {"hint": "nothing is moved: the database server and other machines have clocks of their own"}
        )
        log.warning("the clock was set back", seconds=back.total_seconds(), **told)

    async def _remember(self, clock_offset: timedelta) -> None:
        """Store where the clock stands, steps forward too: the next process tells by it whether it was set back."""
        await self._store.submit(partial(_remember, epoch=self._holder.epoch, clock_offset=clock_offset))
        self._stored = clock_offset


def _remember(db: Database, *, epoch: int, clock_offset: timedelta) -> None:
    db.execute("process_set_offset", epoch=epoch, clock_offset=clock_offset // MILLISECOND)


def _follow(db: Database, *, back: timedelta, holder: Holder, allowed: bool, now: datetime) -> bool:
    """Move what waits, unless others fire by clocks that did not move; tell whether. The step is noted in any case."""
    moves = allowed and (not holder.leased or _keeps_time(db, holder))
    if moves:
        move_back(db, back=back, now=now)
    else:
        _note(db, back, now=now)
    return moves


def _keeps_time(db: Database, holder: Holder) -> bool:
    found = processes.others_that_fire(db, worker_id=holder.worker_id)
    others = [Firing(one.epoch, one.identity.boot_id) for one in found]
    return keeps_time(Firing(holder.epoch, holder.identity.boot_id), others)


def _note(db: Database, back: timedelta, *, now: datetime) -> None:
    events.note(db, "clock_set_back", now=now, seconds=back.total_seconds())


def move_back(db: Database, *, back: timedelta, now: datetime) -> None:
    """Move next instants of completion and start anchors, and the ends of waits, back by as much."""
    by = back // MILLISECOND
    moving = db.rows("jobs_all") if faults.planted("refire_on_step_back") else db.rows("jobs_following")
    for job_id, *_ in moving:
        db.execute("job_shift", id=job_id, back=by)
        _wait_anew(db, job_id)
    db.execute("runs_shift", back=by)
    db.execute("jobs_backing_off_shift", back=by)
    holds.shift(db, back)
    deliveries.shift(db, back)
    _note(db, back, now=now)


def _wait_anew(db: Database, job_id: str) -> None:
    """Let an instant that was moved wait for the quiet hours it lies in now: their end is of the calendar (R-17)."""
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
    """Tell whether a shared database is found as this machine left it: nobody else fires, nobody else fired since.

    What another machine's clock wrote tells nothing about ours: so after a reboot only the last one to fire looks.
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
