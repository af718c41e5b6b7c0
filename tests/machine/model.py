"""What rota should do, in plain lists and dicts: written from the rulings, sharing no code with what it predicts.

Times are milliseconds, runs are named by their handles. Whoever plays it calls what happens, in the order in which it
happens, and compares; `settle` is one round of all loops.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

QUEUED, RUNNING = "QUEUED", "RUNNING"
COMPLETED, FAILED, SKIPPED, CANCELLED = "COMPLETED", "FAILED", "SKIPPED", "CANCELLED"
FINAL = (COMPLETED, FAILED, SKIPPED, CANCELLED)
STEP_NOTICED = 1000


class Job(Struct):
    """A definition: what overlap, retries and pools say of its runs; `members` makes it a group."""

    name: str
    overlap: str = "allow"
    depth: int = 1
    attempts: int = 1
    backoff: int = 10_000
    draws: dict[str, int] = field(default_factory=dict)
    priority: int = 0
    expires: int | None = None
    stubborn: bool = False
    members: tuple[tuple[str, bool], ...] = ()
    mode: str = "sequential"
    on_failure: str = "stop"
    born: int = 0


class Run(Struct):
    """A run as it must be stored, and its process: alive, or how and when it ended while nobody looked."""

    handle: str
    job: Job
    turn: float
    trigger: str
    priority: int
    value: int = 0
    status: str = QUEUED
    reason: str | None = None
    waiting: str | None = None
    not_before: int | None = None
    expires: int | None = None
    predecessor: str | None = None
    replaces: tuple[str, ...] = ()
    attempt: int = 1
    retry_of: str | None = None
    first: str = ""
    instant: int | None = None
    group: "Group | None" = None
    place: int = 0
    always: bool = False
    asked: str | None = None
    stopping: bool = False
    ended: "Ending | None" = None
    dispatched: bool = False
    created: int = 0

    @property
    def final(self) -> bool:
        return self.status in FINAL

    @property
    def fails(self) -> bool:
        return self.status in (FAILED, CANCELLED)


class Ending(Struct):
    """How a process ended, and when."""

    status: str
    reason: str | None
    at: int | None = None


class Group(Struct):
    """A group: the newest attempt of each place, in order."""

    name: str
    number: int
    mode: str
    on_failure: str
    places: list[str] = field(default_factory=list)
    run: str | None = None
    retry_of: "Group | None" = None
    cancelled: bool = False
    status: str = RUNNING


class Call(Struct):
    """A direct call: of a job's work, or of a slot for the caller's own code (`job` None)."""

    name: str
    job: Job | None
    draws: dict[str, int]
    status: str = QUEUED
    reason: str | None = None
    here: bool = True
    asked: bool = False
    stopping: bool = False
    handed_back: bool = False
    ended: Ending | None = None


class Refused(Exception):
    """The rulings say that this is not allowed."""


class Model:
    """All jobs, runs, groups and calls, and the one scheduler that serves them."""

    def __init__(self, *, slots: int, pools: dict[str, int]) -> None:
        self.now = 0
        self.slots = slots
        self.pools = pools
        self.jobs: dict[str, Job] = {}
        self.runs: dict[str, Run] = {}
        self.groups: list[Group] = []
        self.calls: list[Call] = []
        self.lines: dict[int, list[str]] = {}
        self.begun: list[str] = []
        self.up = True
        self.paused = False
        self.paused_until: int | None = None
        self.drift = 0
        self.holding: set[str] = set()
        self._changes = 0

    # births

    def bear(self, job: Job, trigger: str, **given: object) -> Run:
        """Store a run at the end of its priority."""
        job.born += 1
        self._changes += 1
        handle = f"{job.name}:{job.born}"
        run = Run(handle, job, len(self.runs), trigger, job.priority, **given)  # type: ignore[arg-type]
        run.first, run.created = run.first or handle, self.now
        self.runs[handle] = run
        if not job.members:
            self.lines.setdefault(run.priority, []).append(handle)
        return run

    def active(self, job: Job) -> list[Run]:
        """Return a job's unfinished runs, a retry as old as its chain."""
        found = [run for run in self.runs.values() if run.job is job and not run.final]
        return sorted(found, key=lambda run: (self.runs[run.first].turn, run.turn))

    def trigger(self, job: Job, *, value: int = 0, force: bool = False, retry_of: Run | None = None) -> Run:
        """Start a job by hand (R-29, R-31)."""
        replaced = self._replaced_retries(job, [value], chain=None if retry_of is None else retry_of.first)
        run = self._judged(job, "manual", force=force, value=value, retry_of=retry_of, replaced=replaced)
        for retry in replaced:
            self.cancel(retry, "replaced")
        return run

    def trigger_many(self, job: Job, values: Sequence[int], *, force: bool = False) -> list[Run]:
        """Start a job by hand many times, all or none."""
        limited = job.overlap != "allow" and not force
        depth = job.depth if job.overlap == "queue" else 0
        replaced = self._replaced_retries(job, values)
        if limited and len(values) > 1 and len(values) > 1 + depth - (len(self.active(job)) - len(replaced)):
            raise Refused
        born = [self._judged(job, "manual", force=force, value=value, replaced=replaced) for value in values]
        for retry in replaced:
            self.cancel(retry, "replaced")
        return born

    def _judged(
        self,
        job: Job,
        trigger: str,
        *,
        force: bool,
        value: int = 0,
        retry_of: Run | None = None,
        replaced: Sequence[Run] = (),
    ) -> Run:
        active = [] if force or job.overlap == "allow" else [run for run in self.active(job) if run not in replaced]
        expires = None if job.expires is None else self.now + job.expires
        again = None if retry_of is None else retry_of.handle
        instant = None if retry_of is None else retry_of.instant
        given = {"value": value, "expires": expires, "retry_of": again, "instant": instant}
        if active and (job.overlap == "forbid" or (job.overlap == "queue" and len(active) > job.depth)):
            raise Refused
        if active and job.overlap == "queue":
            given |= {"waiting": "predecessor", "predecessor": active[-1].handle}
        turn, line = len(self.runs), len(self.lines.get(job.priority, []))
        if active and job.overlap == "replace":
            for run in active:
                self.cancel(run, "replaced")
            left = tuple(run.handle for run in active if not run.final)
            given |= {"waiting": "replaced_run", "replaces": left} if left else {}
        run = self.bear(job, trigger, **given)
        if active and not job.members:  # it comes before those that were born of what it cancelled
            self.lines[job.priority].insert(line, self.lines[job.priority].pop())
            run.turn = turn - 0.5
        return self._enter(run)

    def _replaced_retries(self, job: Job, values: Sequence[int], *, chain: str | None = None) -> list[Run]:
        """Return the retries in backoff that a start by hand replaces; of `queue` and `allow` the same work (R-31)."""
        waiting = [run for run in self.active(job) if run.waiting == "backoff" and run.group is None]
        return [
            run for run in waiting if job.overlap in ("forbid", "replace") or run.value in values or run.first == chain
        ]

    def _enter(self, run: Run) -> Run:
        """A group's run needs no slot: unless it waits it begins at once."""
        if run.job.members and run.waiting is None:
            self._begin(run)
        return run

    def backfill(self, job: Job, instants: Iterable[int], *, parallel: bool) -> list[Run]:
        """Make a run for each past instant that no backfill made one for; each waits for the one before it (R-05)."""
        made = {run.instant for run in self.runs.values() if run.job is job and run.trigger == "backfill"}
        born: list[Run] = []
        chains = [run for run in self.active(job) if self.runs[run.first].trigger == "backfill"]
        before = None if parallel or not chains else chains[-1]
        for instant in instants:
            if instant in made:
                continue
            behind = before is not None and not before.final
            given = {"waiting": "predecessor", "predecessor": before.handle} if before is not None and behind else {}
            expires = None if job.expires is None else self.now + job.expires
            born.append(self._enter(self.bear(job, "backfill", instant=instant, expires=expires, **given)))
            before = None if parallel else born[-1]
        return born

    # ends

    def cancel(self, run: Run, reason: str = "requested") -> None:
        """Cancel a run: now if it has not started, else when its process is gone."""
        if run.final:
            return
        self._changes += 1
        if run.status == QUEUED:
            self.finish([(run, CANCELLED, reason)])
        elif run.job.members:
            run.asked = run.asked or reason
            self.cancel_group(next(group for group in self.groups if group.run == run.handle))
        else:
            run.asked = run.asked or reason

    def sweep(self, job: Job, *, queued: bool) -> None:
        """Cancel all unfinished runs of a job, or those that are queued: these together, the newest first."""
        found = [run for run in self.runs.values() if run.job is job and not run.final and run.created <= self.now]
        found.sort(key=lambda run: -run.turn)
        others = [run for run in found if run.status != QUEUED and not queued]
        self.finish([(run, CANCELLED, "requested") for run in found if run.status == QUEUED])
        for run in others:
            self.cancel(run)

    def cancel_group(self, group: Group) -> None:
        """Cancel a group: members that run are asked to stop, the others end."""
        self._changes += 1
        group.cancelled = True
        if group.run is not None:
            self.runs[group.run].asked = self.runs[group.run].asked or "requested"
        for run in self._members(group):
            if run.status == RUNNING:
                run.asked = run.asked or "group_cancelled"
        self.finish(self._step(group))

    def finish(self, ends: Sequence[tuple[Run, str, str | None]], *, at: int | None = None) -> None:
        """End runs and do all that follows, as one transaction."""
        further = list(ends)
        while further:
            self._changes += 1
            for run, status, reason in further:
                run.status, run.reason, run.waiting, run.not_before = status, reason, None, None
            further = self._follow([run for run, _, _ in further], self.now if at is None else at)

    def _follow(self, ended: Sequence[Run], at: int) -> list[tuple[Run, str, str | None]]:
        further: list[tuple[Run, str, str | None]] = []
        for run in [run for run in ended if not self._retry(run, at)]:
            further += self._let_go_behind(run)
        for group in {id(run.group): run.group for run in ended if run.group is not None}.values():
            further += self._step(group)
        return further

    def _retry(self, run: Run, at: int) -> bool:
        """A failure is tried again after its backoff, unless somebody wanted it stopped (DEC-007)."""
        job = run.job
        if run.status != FAILED or job.members or run.asked is not None or run.attempt >= job.attempts:
            return False
        due = at + job.backoff * 2 ** (run.attempt - 1)
        waits = due > self.now
        again = self.bear(
            job,
            "retry",
            value=run.value,
            waiting="backoff" if waits else None,
            not_before=due if waits else None,
            expires=None if job.expires is None else max(due, self.now) + job.expires,
            attempt=run.attempt + 1,
            retry_of=run.handle,
            first=run.first,
            instant=run.instant,
            group=run.group,
            place=run.place,
            always=run.always,
        )
        self._reprioritise(again, run.priority)
        for other in self.runs.values():
            if other.status == QUEUED and other.predecessor == run.handle:
                other.predecessor = again.handle
        if run.group is not None:
            run.group.places[run.place - 1] = again.handle
        return True

    def _reprioritise(self, run: Run, priority: int) -> None:
        self.lines[run.priority].remove(run.handle)
        run.priority = priority
        self.lines.setdefault(priority, []).append(run.handle)

    def _let_go_behind(self, run: Run) -> list[tuple[Run, str, str | None]]:
        """Release who waited for the end of this chain."""
        waiting = [other for other in self.runs.values() if other.status == QUEUED and other.group is None]
        for other in waiting:
            if other.waiting == "predecessor" and other.trigger != "backfill":
                if other.job is run.job and not self._ahead(other):
                    self._release(other)
            elif other.waiting == "predecessor" and other.predecessor == run.handle:
                before = self.runs[run.predecessor] if run.predecessor else None
                if before is not None and not before.final:
                    other.predecessor = before.handle
                else:
                    self._release(other)
            if other.waiting == "replaced_run" and all(self.runs[one].final for one in other.replaces):
                self._release(other)
        return []

    def _ahead(self, run: Run) -> list[Run]:
        """Return the unfinished chains of a job that came before a run in line: it waits for all of them (R-11)."""
        return [other for other in self.active(run.job) if self.runs[other.first].turn < run.turn]

    def _release(self, run: Run) -> None:
        self._changes += 1
        run.waiting = run.not_before = None
        if run.job.members:
            self._begin(run)

    # groups

    def found(self, name: str, members: Sequence[tuple[str, bool, int]], *, mode: str, on_failure: str) -> Group:
        """Make a group at run time."""
        numbers = [group.number for group in self.groups if group.name == name]
        group = Group(name, max(numbers, default=0) + 1, mode, on_failure)
        self._seat(group, members)
        return group

    def _begin(self, run: Run) -> None:
        """Give the run of a declared group its members."""
        run.status, run.waiting, run.dispatched = RUNNING, None, True
        job = run.job
        repeated = next((group for group in self.groups if run.retry_of and group.run == run.retry_of), None)
        if repeated is None:
            members = [(name, always, 0) for name, always in job.members]
            mode, on_failure = job.mode, job.on_failure
        else:
            members, mode, on_failure = self.to_repeat(repeated), repeated.mode, repeated.on_failure
        group = Group(job.name, int(run.handle.rpartition(":")[2]), mode, on_failure, run=run.handle)
        group.retry_of = repeated
        self._seat(group, members, instant=run.instant)

    def _seat(self, group: Group, members: Sequence[tuple[str, bool, int]], *, instant: int | None = None) -> None:
        self.groups.append(group)
        for place, (name, always, value) in enumerate(members, start=1):
            given = {"place": place, "always": always, "value": value, "group": group, "instant": instant}
            run = self.bear(self.jobs[name], "group", waiting="predecessor", **given)
            group.places.append(run.handle)
        self.finish(self._step(group))

    def to_repeat(self, group: Group) -> list[tuple[str, bool, int]]:
        """Return what a retry of a group runs: from the first that failed on, or in parallel those that failed."""
        members = self._members(group)
        first = next((run.place for run in members if run.fails), None)
        if first is None:
            raise Refused
        again = [
            run for run in members if run.fails or run.always or (group.mode == "sequential" and run.place >= first)
        ]
        return [(run.job.name, run.always, run.value) for run in again]

    def repeat(self, group: Group, *, name: str) -> Group | Run:
        """Repeat what failed of a final group."""
        members = self.to_repeat(group)
        if group.run is not None:
            job = self.runs[group.run].job
            return self.trigger(job, retry_of=self.runs[group.run])
        made = self.found(name, members, mode=group.mode, on_failure=group.on_failure)
        made.retry_of = group
        return made

    def _members(self, group: Group) -> list[Run]:
        return [self.runs[handle] for handle in group.places]

    def _step(self, group: Group) -> list[tuple[Run, str, str | None]]:
        """Move a group on; return what must end because of it (R-15)."""
        if group.status != RUNNING:
            return []
        members = self._members(group)
        left = [run for run in members if not run.final]
        if not left:
            return self._end_group(group, members)
        if group.cancelled:
            return [(run, CANCELLED, "group_cancelled") for run in left if run.status == QUEUED]
        failed = [run.place for run in members if run.fails and not run.always]
        if failed and group.on_failure == "stop":
            doomed = [
                run
                for run in left
                if run.status == QUEUED and not run.always and run.attempt == 1
                if group.mode == "parallel" or run.place > failed[0]
            ]
            if doomed:
                return [(run, CANCELLED, "predecessor_failed") for run in doomed]
        stage = [run for run in left if not run.always] or left
        for run in stage if group.mode == "parallel" else stage[:1]:
            if run.waiting == "predecessor":
                run.expires = None if run.job.expires is None else self.now + run.job.expires
                self._release(run)
        return []

    def _end_group(self, group: Group, members: Sequence[Run]) -> list[tuple[Run, str, str | None]]:
        statuses = {run.status for run in members}
        if statuses <= {COMPLETED, SKIPPED}:
            group.status = COMPLETED
        elif group.cancelled and not statuses & {COMPLETED, FAILED}:
            group.status = CANCELLED
        else:
            group.status = "PARTIAL"
        if group.run is None:
            return []
        run = self.runs[group.run]
        ends = {COMPLETED: (COMPLETED, None), CANCELLED: (CANCELLED, run.asked or "requested")}
        return [(run, *ends.get(group.status, (FAILED, "members_failed")))]

    # the order of the queue

    def queue(self) -> list[Run]:
        """Return every queued run in order (INV-004), those that wait too."""
        found = [self.runs[handle] for rank in sorted(self.lines, reverse=True) for handle in self.lines[rank]]
        return [run for run in found if run.status == QUEUED]

    def ready(self) -> list[Run]:
        """Return the queued runs that may be claimed, in order."""
        return [run for run in self.queue() if run.waiting is None]

    def move(self, moved: Sequence[Run], where: str, *, other: Run | None = None, place: int = 0) -> None:
        """Move queued runs within their priority, in their given order."""
        for priority in {run.priority for run in moved}:
            self._move(priority, [run for run in moved if run.priority == priority], where, other=other, place=place)

    def _move(self, priority: int, moved: Sequence[Run], where: str, *, other: Run | None, place: int) -> None:
        handles = [run.handle for run in moved]
        others = [run for run in self.queue() if run.handle not in handles]
        line = [run.handle for run in others if run.priority == priority]
        at = {"first": 0, "last": len(line)}.get(where, 0)
        if other is not None:
            at = line.index(other.handle)
        elif where == "to":
            ahead = [run for run in others if run.waiting is None]
            behind = ahead[place - 1] if place <= len(ahead) else None
            if behind is None or behind.priority < priority:
                at = len(line)
            else:
                at = line.index(behind.handle) if behind.priority == priority else 0
        self.lines[priority] = [*line[:at], *handles, *line[at:]]

    # claim

    def used(self) -> dict[str, int]:
        """Return what of each pool is drawn: by runs that run and calls that have a slot."""
        drawn = [run.job.draws for run in self.runs.values() if run.status == RUNNING]
        drawn += [call.draws for call in self.calls if call.status == RUNNING]
        return {pool: sum(draws.get(pool, 0) for draws in drawn) for pool in self.pools}

    def claim(self) -> None:
        """Fill the free slots: direct calls as they came, then the queue in order; a full pool is held (R-03, R-13)."""
        if not self.up or (self.paused and (self.paused_until is None or self.now < self.paused_until)):
            return
        while self._claim_once():
            pass

    def _claim_once(self) -> bool:
        """Claim; tell whether to look again, since a run had expired that could have gone."""
        free = self.slots - len(self.holding)
        left = {pool: capacity - self.used()[pool] for pool, capacity in self.pools.items()}
        held: set[str] = set()

        def goes(draws: dict[str, int]) -> bool:
            if all(pool not in held and left[pool] >= cost for pool, cost in draws.items()):
                for pool, cost in draws.items():
                    left[pool] -= cost
                return True
            held.update(pool for pool, cost in draws.items() if left[pool] < cost <= self.pools[pool])
            return False

        if free <= 0:
            return False
        for call in [call for call in self.calls if call.status == QUEUED]:
            if not call.here:
                self._forget(call)
            elif free and goes(call.draws):
                free -= 1
                self._serve(call)
        expired = False
        for run in self.ready():
            if free and goes(run.job.draws):
                free -= 1
                if run.expires is not None and self.now >= run.expires:
                    self.finish([(run, SKIPPED, "expired")])
                    expired = True
                elif run.status == QUEUED and run.waiting is None:
                    self._start(run)
        return expired

    def _start(self, run: Run) -> None:
        self._changes += 1
        run.status, run.dispatched = RUNNING, True
        self.holding.add(run.handle)
        self.begun.append(run.handle)

    # direct calls

    def ask(self, name: str, job: Job | None, draws: dict[str, int]) -> Call:
        """Put a caller in the line."""
        call = Call(name, job, draws)
        self.calls.append(call)
        return call

    def _serve(self, call: Call) -> None:
        self._changes += 1
        call.status = RUNNING
        self.holding.add(call.name)
        if call.job is not None:
            self.begun.append(f"{call.job.name}:direct")

    def _forget(self, call: Call) -> None:
        self._changes += 1
        self.calls.remove(call)

    def withdraw(self, call: Call) -> None:
        """Give a call up: its place, its reserved slot, or its process, which is then stopped."""
        if call.status == QUEUED:
            self._forget(call)
        elif call.job is None:
            self.end_call(call, CANCELLED, "requested", handed_back=True)
        else:
            call.asked = True

    def end_call(self, call: Call, status: str, reason: str | None, *, handed_back: bool = False) -> None:
        """End a call; its pools are free, its slot when the scheduler has seen it."""
        self._changes += 1
        if call.asked and (status, reason) == (FAILED, "shutdown"):
            status, reason = CANCELLED, "requested"
        call.status, call.reason, call.handed_back = status, reason, handed_back
        if not handed_back:
            self.holding.discard(call.name)

    def leave(self, call: Call) -> None:
        """The caller's process ends, while a scheduler watches it."""
        call.here = False
        if not self.up:
            return
        self._mourn(call)

    def _mourn(self, call: Call) -> None:
        if call.status == QUEUED:
            self._forget(call)
        elif call.status == RUNNING and call.job is None:
            self.end_call(call, FAILED, "worker_lost", handed_back=True)
        elif call.status == RUNNING:
            call.asked = True
            self.claim()
            self._stop_calls([call])
            return
        self.claim()

    def _stop_calls(self, calls: Sequence[Call]) -> None:
        asked = [call for call in calls if call.asked and call.status == RUNNING and not call.stopping]
        for call in asked:
            call.stopping = True
            if call.job is not None and not call.job.stubborn:
                self.end_call(call, FAILED, "shutdown")
        if asked:
            self.claim()

    # rounds

    def record(self, ends: Sequence[tuple[Run, Ending]]) -> None:
        """Store how runs ended, and claim for their slots; one that was stopped as asked is CANCELLED (R-08)."""
        for run, _ in ends:
            self.holding.discard(run.handle)
        at = next((ending.at for _, ending in ends if ending.at is not None), self.now)
        self.finish([(run, *self._settled(run, ending)) for run, ending in ends], at=min(at, self.now))

    def _settled(self, run: Run, ending: Ending) -> tuple[str, str | None]:
        if run.asked is not None and (ending.status, ending.reason) == (FAILED, "shutdown"):
            return CANCELLED, run.asked
        return ending.status, ending.reason

    def settle(self) -> None:
        """Do all that is due now, as rounds of the loops do."""
        while True:
            before = self._changes
            self._see_step()
            self._release_round()
            self._cancel_round()
            self._direct_round()
            self.claim()
            if self._changes == before:
                return

    def _see_step(self) -> None:
        """After a step back, what counts elapsed time moves back by as much (R-26)."""
        if -self.drift > STEP_NOTICED:
            for run in self.runs.values():
                if run.status == QUEUED:
                    run.not_before = None if run.not_before is None else run.not_before + self.drift
                    run.expires = None if run.expires is None else run.expires + self.drift
        self.drift = 0

    def next_due(self) -> int | None:
        """Return when a wait or a timed pause is over next."""
        queued = [run for run in self.runs.values() if run.status == QUEUED]
        found = [run.not_before for run in queued] + [run.expires for run in queued]
        found.append(self.paused_until if self.paused else None)
        return min((at for at in found if at is not None), default=None)

    def _release_round(self) -> None:
        due = self.next_due()
        if due is None or due > self.now:
            return
        queued = [run for run in self.runs.values() if run.status == QUEUED]
        expired = [run for run in queued if run.expires is not None and run.expires <= self.now]
        for run in sorted(expired, key=lambda run: run.expires or 0):
            if run.status == QUEUED:
                self.finish([(run, SKIPPED, "expired")])
        for run in queued:
            if run.status == QUEUED and run.not_before is not None and run.not_before <= self.now:
                self._release(run)
        if self.paused and self.paused_until is not None and self.paused_until <= self.now:
            self.resume()
        self.claim()

    def pause(self, until: int | None) -> None:
        """Hold everything back."""
        self.paused, self.paused_until = True, until

    def resume(self) -> None:
        """Let everything go."""
        self._changes += 1
        self.paused, self.paused_until = False, None

    def _cancel_round(self) -> None:
        asked = [run for run in self.runs.values() if run.status == RUNNING and run.asked and not run.job.members]
        ending: list[tuple[Run, Ending]] = []
        for run in asked:
            if not run.stopping and not run.job.stubborn:
                ending.append((run, Ending(FAILED, "shutdown")))
            run.stopping = True
        if ending:
            self.record(ending)
            self.claim()

    def _direct_round(self) -> None:
        back = [call for call in self.calls if call.handed_back]
        for call in back:
            self._changes += 1
            call.handed_back = False
            self.holding.discard(call.name)
        if back:
            self.claim()
        self._stop_calls(self.calls)
        for call in [call for call in self.calls if not call.here and not call.asked]:
            self._mourn(call)

    # the scheduler dies, and another one begins

    def crash(self) -> None:
        """The scheduler vanishes; processes go on."""
        self.up = False
        self.holding.clear()
        for run in self.runs.values():
            run.stopping = False
        for call in self.calls:
            call.stopping = call.handed_back = False

    def restart(self) -> None:
        """Begin anew: what ended meanwhile is recorded as it ended, what lives is adopted (R-23)."""
        self.up = True
        self._see_step()
        running = [run for run in self.runs.values() if run.status == RUNNING and not run.job.members]
        self.holding |= {run.handle for run in running if run.ended is None}
        for run in running:
            if run.ended is not None:
                self.record([(run, run.ended)])
        for call in list(self.calls):
            self._recover_call(call)

    def _recover_call(self, call: Call) -> None:
        if call.status == QUEUED and not call.here:
            self._forget(call)
        elif call.status == RUNNING and call.ended is not None:
            self.end_call(call, call.ended.status, call.ended.reason)
        elif call.status == RUNNING and call.job is None and not call.here:
            self.end_call(call, FAILED, "worker_lost")
        elif call.status == RUNNING:
            self.holding.add(call.name)
