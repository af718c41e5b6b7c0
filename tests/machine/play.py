"""The machine: whatever is done to rota, in whatever order, it stands as the model says, and `verify` is content.

Real engine and store on a fake clock, with scripted processes that end when told. Nothing is settled by itself: what is
asked lies in the queue until a rule lets the loops turn, so orders, moves and cancels meet full and empty slots alike.
"""

import asyncio
import random
import tempfile
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from rota.engine.transactions.enqueue import Where
from rota.model.errors import RotaError
from rota.model.ids import begin_again
from rota.model.records import Outcome
from rota.model.spec import (
    Draw,
    Gates,
    GroupMode,
    JobSpec,
    Kind,
    Member,
    OnFailure,
    Overlap,
    OverlapPolicy,
    Retry,
    Schedule,
    Work,
)
from rota.model.states import Reason, Status
from rota.operations import bulk, group_actions
from rota.operations.bulk import Range, backfill
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.run_actions import Destination, cancel_run, edit_run, move_runs, retry_run, trigger
from rota.operations.runs import find_run
from rota.store.tables import queue
from rota.testing.doubles import CountingStore, Script
from tests.engine.calling import call as ask_call
from tests.engine.calling import reserve, withdraw
from tests.machine.model import QUEUED, Call, Ending, Group, Job, Model, Refused, Run
from tests.machine.standing import MS, NOON, Standing
from tests.memory import in_memory
from tests.scene import Scene, forget_scenes

FOR_EVER = timedelta(days=1000)
POOLS = {"disk": 2, "gpu": 1}
DRAWS: list[dict[str, int]] = [{}, {}, {"gpu": 1}, {"disk": 1}, {"disk": 2}, {"disk": 1, "gpu": 1}, {"disk": 3}]
ENDINGS = [("FAILED", "exit_code"), ("COMPLETED", None), ("FAILED", "timed_out")]
MOST_JOBS, MOST_QUEUED, MOST_CALLS = 6, 12, 2
PICK = st.integers(0, 99)
SELDOM = st.integers(0, 3).map(lambda number: number == 0)

JOBS = st.builds(
    Job,
    name=st.just(""),
    overlap=st.sampled_from(["queue", "allow", "replace", "queue", "forbid"]),
    depth=st.integers(1, 2),
    attempts=st.sampled_from([3, 2, 2, 1]),
    backoff=st.sampled_from([0, 10_000, 25_000]),
    draws=st.sampled_from(DRAWS),
    priority=st.integers(0, 2),
    expires=st.sampled_from([None, None, 30_000]),
    stubborn=SELDOM,
)
MEMBERS = st.lists(st.tuples(PICK, st.booleans(), st.integers(0, 9)), min_size=1, max_size=3)
MODE = st.sampled_from(["sequential", "parallel"])
ON_FAILURE = st.sampled_from(["stop", "continue"])


def spec_of(job: Job) -> JobSpec:
    """Return the definition of which the model's job is the short form; its daily instant never comes in a play."""
    work = Work(Kind.COMMAND, command=("true",), params={"value": 0})
    if job.members:
        members = tuple(Member(name, {"value": 0}, always=always) for name, always in job.members)
        work = Work(Kind.GROUP, members=members, mode=GroupMode(job.mode), on_failure=OnFailure(job.on_failure))
    expires = None if job.expires is None else job.expires * MS
    return JobSpec(
        job.name,
        work,
        schedule=Schedule(cron=("0 11 * * *",)),
        overlap=Overlap(OverlapPolicy(job.overlap), queue_depth=job.depth),
        gates=Gates(expires_after=expires),
        retry=Retry(max_attempts=job.attempts, backoff=job.backoff * MS, factor=2.0),
        pools=tuple(Draw(pool, cost) for pool, cost in sorted(job.draws.items())),
        priority=job.priority,
    )


class Machine(Standing):
    """One scheduler, and everybody who uses it."""

    @initialize(slots=st.integers(1, 3), jobs=st.lists(JOBS, min_size=2, max_size=4), eager=st.booleans())
    def begin(self, slots: int, jobs: list[Job], eager: bool) -> None:
        """Start a scheduler on a project with some jobs; an eager one looks after every change, as when it is woken."""
        self.eager = eager
        forget_scenes()
        self.folder = tempfile.TemporaryDirectory(prefix="rota-machine-", dir=in_memory(), ignore_cleanup_errors=True)
        self.runner = asyncio.Runner()
        self.ids = random.Random(1)
        begin_again(self.ids.randbytes)
        self.scene = self.do(self._scene(slots))
        self.model = Model(slots=slots, pools=dict(POOLS))
        self.callers: dict[str, Any] = {}
        self.open()
        self.write(queue.declare_pools, capacities=POOLS)
        for job in jobs:
            self._declare(job)

    async def _scene(self, slots: int) -> Scene:
        scene = Scene(Path(self.folder.name), NOON, concurrency=slots)
        await scene.start()
        return scene

    def teardown(self) -> None:
        """End the scheduler; the whole file is audited once."""
        if hasattr(self, "scene"):
            if not self.model.up:
                self.restart()
            self.audit(quick=False)
            self.do(self.scene.crash())
            self.beside.close()
            self.scene.store.close()
            self.runner.close()
            self.folder.cleanup()

    def do(self, doing: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(doing)

    def write(self, operation: Callable[..., Any], **given: Any) -> Any:
        return self.scene.store.write(partial(operation, **given))

    # jobs

    @precondition(lambda self: len(self.model.jobs) < MOST_JOBS)
    @rule(job=JOBS)
    def declare(self, job: Job) -> None:
        """Make a job."""
        self._declare(job)

    def _declare(self, job: Job) -> None:
        job.name = f"j{len(self.model.jobs)}"
        self.model.jobs[job.name] = job
        self.scene.processes.scripts[job.name] = Script(FOR_EVER, stops=not job.stubborn)
        self.scene.declare(spec_of(job))

    @precondition(lambda self: self.plain() and len(self.model.jobs) < MOST_JOBS)
    @rule(job=JOBS, members=MEMBERS, mode=MODE, on_failure=ON_FAILURE)
    def declare_group(self, job: Job, members: list[tuple[int, bool, int]], mode: str, on_failure: str) -> None:
        """Make a group that is declared."""
        job.members = tuple((name, always) for name, always, _ in self.seats(members))
        job.draws, job.expires, job.attempts, job.mode, job.on_failure = {}, None, 1, mode, on_failure
        self._declare(job)

    def plain(self) -> list[Job]:
        return [job for job in self.model.jobs.values() if not job.members]

    def seats(self, members: list[tuple[int, bool, int]]) -> list[tuple[str, bool, int]]:
        jobs = self.plain()
        found = [(jobs[pick % len(jobs)].name, always, value) for pick, always, value in members]
        return found if not all(always for _, always, _ in found) else [(found[0][0], False, found[0][2]), *found[1:]]

    @rule(pool=st.sampled_from(sorted(POOLS)), capacity=st.sampled_from([0, 1, 2, 2, 3, 3]))
    def resize(self, pool: str, capacity: int) -> None:
        """Change what a pool holds, also to less than is drawn."""
        self.model.pools[pool] = capacity
        self.write(queue.declare_pools, capacities=self.model.pools)

    # the queue

    def allowed(self, expected: Callable[[], Any], real: Callable[[], Any]) -> None:
        """Do the same to model and rota: both do it, or both refuse."""
        try:
            expected()
        except Refused:
            try:
                real()
            except RotaError:
                return
            raise AssertionError("rota allowed what the model refuses") from None
        real()

    def has_room(self) -> bool:
        return bool(self.model.jobs) and len(self.model.queue()) < MOST_QUEUED

    def job_at(self, pick: int) -> Job:
        return list(self.model.jobs.values())[pick % len(self.model.jobs)]

    @precondition(lambda self: self.has_room())
    @rule(pick=PICK, value=st.integers(0, 9), force=SELDOM)
    def enqueue(self, pick: int, value: int, force: bool) -> None:
        """Start a job by hand."""
        job = self.job_at(pick)
        params = None if job.members else {"value": value}
        value = 0 if job.members else value
        real = partial(trigger, self.scene.store, job.name, now=self.now, params=params, force=force)
        self.allowed(lambda: self.model.trigger(job, value=value, force=force), real)

    @precondition(lambda self: self.has_room())
    @rule(pick=PICK, values=st.lists(st.integers(0, 9), min_size=1, max_size=4), force=st.booleans())
    def enqueue_many(self, pick: int, values: list[int], force: bool) -> None:
        """Start a job by hand many times at once."""
        job = self.job_at(pick)
        params = [{} if job.members else {"value": value} for value in values]
        values = [0 if job.members else value for value in values]
        real = partial(bulk.trigger_many, self.scene.store, job.name, params, now=self.now, force=force)
        self.allowed(lambda: self.model.trigger_many(job, values, force=force), real)
        self.tick()

    @precondition(lambda self: self.has_room())
    @rule(pick=PICK, days=st.integers(1, 3), back=st.integers(0, 3), parallel=st.booleans())
    def backfill(self, pick: int, days: int, back: int, parallel: bool) -> None:
        """Make the runs of past days."""
        job = self.job_at(pick)
        noon = (self.now - timedelta(days=back)).replace(hour=12, minute=0, second=0, microsecond=0)
        until = min(noon, self.now)
        instants = [int((noon - timedelta(days=day, hours=1) - NOON) / MS) for day in reversed(range(days))]
        instants = [instant for instant in instants if instant < int((until - NOON) / MS)]
        wanted = Range(until - timedelta(days=days), until, parallel=parallel)
        real = partial(backfill, self.scene.store, job.name, wanted, now=self.now)
        self.allowed(lambda: self.model.backfill(job, instants, parallel=parallel), real)
        self.tick()

    def queued_at(self, pick: int) -> Run:
        found = self.model.queue()
        return found[pick % len(found)]

    @precondition(lambda self: self.model.queue())
    @rule(
        picks=st.lists(PICK, min_size=1, max_size=3),
        where=st.sampled_from(list(Where)),
        other=PICK,
        place=st.integers(1, 9),
    )
    def move(self, picks: list[int], where: Where, other: int, place: int) -> None:
        """Move queued runs."""
        moved = list({run.handle: run for run in map(self.queued_at, picks)}.values())
        before = self.queued_at(other) if where is Where.BEFORE else None
        destination = Destination(where, before.handle if before else "", place)
        real = partial(move_runs, self.scene.store, [run.handle for run in moved], destination, now=self.now)

        def expected() -> None:
            if before is not None and (before in moved or any(run.priority != before.priority for run in moved)):
                raise Refused
            self.model.move(moved, where.value, other=before, place=place)

        self.allowed(expected, real)
        self.tick()

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK, value=st.integers(0, 9))
    def edit_params(self, pick: int, value: int) -> None:
        """Change the params of a run, which only one that was never dispatched allows (INV-001)."""
        run = self.run_at(pick)

        def expected() -> None:
            if run.dispatched or run.final or run.job.members:
                raise Refused
            run.value = value

        self.allowed(expected, partial(edit_run, self.scene.store, run.handle, params={"value": value}, now=self.now))

    @precondition(lambda self: self.model.queue())
    @rule(pick=PICK, priority=st.integers(0, 2))
    def edit_priority(self, pick: int, priority: int) -> None:
        """Change the priority of a queued run; where it then stands between moved ones is learned, not predicted."""
        run = self.queued_at(pick)
        edit_run(self.scene.store, run.handle, priority=priority, now=self.now)
        line = self.model.lines
        line[run.priority].remove(run.handle)
        run.priority = priority
        others = line.setdefault(priority, [])
        queued = [place for place, handle in enumerate(others) if self.model.runs[handle].status == QUEUED]
        own = self.position(run.handle)
        behind = [place for place in queued if self.position(others[place]) > own]
        others.insert(behind[0] if behind else len(others), run.handle)

    def position(self, handle: str) -> tuple[int, int]:
        found = self.scene.store.read(partial(find_run, handle=handle))
        return found.position, found.seq

    def run_at(self, pick: int) -> Run:
        found = list(self.model.runs.values())
        return found[-1 - pick % len(found)]

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        """Cancel a run, wherever it stands."""
        run = self.run_at(pick)

        def expected() -> None:
            if run.final:
                raise Refused
            self.model.cancel(run)

        self.allowed(expected, partial(cancel_run, self.scene.store, run.handle, now=self.now))

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK, queued=st.booleans())
    def sweep(self, pick: int, queued: bool) -> None:
        """Cancel what a filter names."""
        job = self.job_at(pick)
        self.model.sweep(job, queued=queued)
        bulk.cancel_matching(self.scene.store, bulk.Filter(jobs=(job.name,), queued=queued), now=self.now)

    @precondition(lambda self: self.model.runs)
    @rule(pick=PICK, again=st.booleans())
    def retry(self, pick: int, again: bool) -> None:
        """Run a final run again."""
        run = self.run_at(pick)
        chain = [one for one in self.model.runs.values() if one.first == run.first]

        def expected() -> None:
            unfinished = [one for one in chain if not one.final]
            pending = any(one.waiting != "backoff" or one.group is not None for one in unfinished)
            if not run.final or pending or run.job.members or (run.status == "COMPLETED" and not again):
                raise Refused
            self.model.trigger(run.job, value=run.value, retry_of=run)

        self.allowed(expected, partial(retry_run, self.scene.store, run.handle, now=self.now, again=again))

    # groups

    @precondition(lambda self: self.plain() and len(self.model.queue()) < MOST_QUEUED)
    @rule(members=MEMBERS, mode=MODE, on_failure=ON_FAILURE)
    def make_group(self, members: list[tuple[int, bool, int]], mode: str, on_failure: str) -> None:
        """Make a group at run time."""
        seats = self.seats(members)
        self.model.found("made", seats, mode=mode, on_failure=on_failure)
        wanted = [Member(name, {"value": value}, always=always) for name, always, value in seats]
        made = {"mode": GroupMode(mode), "on_failure": OnFailure(on_failure)}
        group_actions.create(self.scene.store, "made", wanted, now=self.now, **made)

    def group_at(self, pick: int) -> Group:
        return self.model.groups[-1 - pick % len(self.model.groups)]

    @precondition(lambda self: self.model.groups)
    @rule(pick=PICK, again=st.booleans())
    def cancel_or_repeat_group(self, pick: int, again: bool) -> None:
        """Cancel a group, or repeat what failed of it."""
        group = self.group_at(pick)
        if again:
            self.repeat_group(group)
        else:
            self.cancel_group(group)

    def cancel_group(self, group: Group) -> None:

        def expected() -> None:
            if group.status != "RUNNING":
                raise Refused
            self.model.cancel_group(group)

        handle = f"{group.name}:{group.number}"
        self.allowed(expected, partial(group_actions.cancel, self.scene.store, handle, now=self.now))

    def repeat_group(self, group: Group) -> None:
        def expected() -> None:
            if group.status == "RUNNING":
                raise Refused
            self.model.repeat(group, name=group.name)

        handle = f"{group.name}:{group.number}"
        self.allowed(expected, partial(group_actions.retry, self.scene.store, handle, now=self.now))

    # processes

    def living(self) -> list[Run | Call]:
        runs = [run for run in self.model.runs.values() if run.status == "RUNNING" and not run.job.members]
        calls = [call for call in self.model.calls if call.status == "RUNNING" and call.job is not None]
        return [one for one in (*runs, *calls) if one.ended is None]

    @precondition(lambda self: self.living())
    @rule(pick=PICK, ending=st.sampled_from(ENDINGS))
    def finish(self, pick: int, ending: tuple[str, str | None]) -> None:
        """A process ends: well, badly, or by its timeout; while no scheduler lives its keeper notes when."""
        found = self.living()
        self.end(found[pick % len(found)], ending)

    @precondition(lambda self: self.model.up)
    @rule(endings=st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=8))
    def work(self, endings: list[tuple[str, str | None]]) -> None:
        """Let the loops turn and processes end, the oldest first, one after another."""
        for ending in endings:
            self.settle()
            found = self.living()
            if found:
                self.end(found[0], ending)

    def end(self, one: Run | Call, ending: tuple[str, str | None]) -> None:
        status, reason = ending
        outcome = Outcome(Status(status), Reason(reason) if reason else None, finished_at=self.now)
        self.scene.processes.living[self.id_of(one)].end(outcome)
        told = Ending(status, reason, self.model.now)
        if not self.model.up:
            one.ended = told
            return
        if isinstance(one, Run):
            self.model.record([(one, told)])
        else:
            self.model.end_call(one, status, reason)
        self.model.claim()
        self.do(self.scene.quiet())

    def id_of(self, one: Run | Call) -> str:
        if isinstance(one, Call):
            return one.name
        return self.scene.store.read(partial(find_run, handle=one.handle)).id

    # direct calls

    @precondition(lambda self: len(self.open_calls()) < MOST_CALLS)
    @rule(pick=PICK, own=st.booleans())
    def call(self, pick: int, own: bool) -> None:
        """Call a job's work directly, or ask for a slot for code of one's own."""
        if own:
            self.reserve(DRAWS[pick % (len(DRAWS) - 1)])
        else:
            self.direct(pick)

    def direct(self, pick: int) -> None:
        job = self.plain()[pick % len(self.plain())]
        caller = self.scene.processes.caller()

        def expected() -> None:
            if any(cost > self.model.pools[pool] for pool, cost in job.draws.items()):
                raise Refused

        def real() -> None:
            name = ask_call(self.scene, job.name, caller=caller)
            self.callers[name] = caller
            self.model.ask(name, job, job.draws)

        self.allowed(expected, real)

    def reserve(self, draws: dict[str, int]) -> None:
        caller = self.scene.processes.caller()
        name = reserve(self.scene, caller=caller, pools=[Draw(pool, cost) for pool, cost in sorted(draws.items())])
        self.callers[name] = caller
        self.model.ask(name, None, draws)

    def open_calls(self) -> list[Call]:
        return [call for call in self.model.calls if call.status in ("QUEUED", "RUNNING") and call.here]

    @precondition(lambda self: self.open_calls())
    @rule(pick=PICK, dies=st.booleans())
    def give_up(self, pick: int, dies: bool) -> None:
        """A caller gives its call up, or its process ends."""
        if dies:
            self.settle()  # from then on it is watched
        calls = self.open_calls()
        if calls and dies:
            self.leave(calls[pick % len(calls)])
        elif calls:
            call = calls[pick % len(calls)]
            self.model.withdraw(call)
            withdraw(self.scene, call.name)

    def leave(self, call: Call) -> None:
        self.model.leave(call)
        self.scene.processes.leave(self.callers[call.name])
        self.do(self.scene.quiet())

    # time

    @rule()
    def settle(self) -> None:
        """Let the loops turn."""
        if self.model.up:
            self.model.settle()
            self.do(self.scene.settle())

    def tick(self) -> None:
        """Let a millisecond pass: what is made in one stands together."""
        self.scene.clock.advance(MS)
        self.model.now += 1

    @rule(seconds=st.sampled_from([1, 9, 10, 20, 31, 90]))
    def advance(self, seconds: int) -> None:
        """Let time pass, from one thing that is due to the next."""
        until = self.model.now + seconds * 1000
        self.settle()
        while self.model.up and (due := self.model.next_due()) is not None and due <= until:
            assert due > self.model.now, "what was due is done"
            self.pass_time(due - self.model.now)
            self.settle()
        self.pass_time(until - self.model.now)
        self.settle()

    def pass_time(self, passed: int) -> None:
        self.scene.clock.advance(passed * MS)
        self.model.now += passed

    @rule(seconds=st.sampled_from([-40, -5, 5, 40]))
    def step(self, seconds: int) -> None:
        """The clock is set, which wakes a scheduler that lives; while none does, steps of one direction alone."""
        if self.model.drift * seconds < 0:
            return
        self.scene.clock.step(timedelta(seconds=seconds))
        self.model.now += seconds * 1000
        self.model.drift += seconds * 1000
        self.settle()

    @rule(seconds=st.sampled_from([15, 15, 60, None]))
    def pause_or_resume(self, seconds: int | None) -> None:
        """Pause everything, for some time or until somebody resumes; or do that."""
        if self.model.paused:
            self.model.resume()
            resume(self.scene.store, JobSelection(everything=True), catch_up=False, now=self.now)
        else:
            self.pause(seconds)

    def pause(self, seconds: int | None) -> None:
        until = None if seconds is None else self.model.now + seconds * 1000
        self.model.pause(until)
        ends = None if seconds is None else self.now + timedelta(seconds=seconds)
        pause(self.scene.store, JobSelection(everything=True), until=ends, reason="", now=self.now)

    # the scheduler itself

    @precondition(lambda self: self.model.up)
    @rule(keepers=st.lists(st.booleans(), min_size=3, max_size=3), away=SELDOM)
    def crash(self, keepers: list[bool], away: bool) -> None:
        """The scheduler is killed, and some keepers with it; as a rule another one begins at once."""
        self.do(self.scene.crash())
        self.model.crash()
        for one, lives in zip(self.living(), keepers, strict=False):
            if not lives:
                del self.scene.processes.living[self.id_of(one)]
                one.ended = Ending("FAILED", "process_restarted")
        if not away:
            self.restart()

    @precondition(lambda self: not self.model.up)
    @rule()
    def restart(self) -> None:
        """Another scheduler begins."""
        begin_again(self.ids.randbytes)
        self.model.restart()
        self.model.settle()
        self.do(self._restart())

    async def _restart(self) -> None:
        self.scene.store.close()
        self.scene.store = CountingStore(self.scene.open_database())
        await self.scene.start()
        await self.scene.settle()
