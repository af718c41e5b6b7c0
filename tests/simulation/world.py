"""A scheduler on a virtual machine: real rules, engine and database; clock, processes and crashes are ours."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct, field

from rota.engine.activity import next_release
from rota.engine.loops.loop import Loop
from rota.engine.membership.session import Session, open_session
from rota.engine.recovery import RecoveryContext, recover
from rota.engine.scheduler import Engine
from rota.engine.transactions.claim import Claimed
from rota.engine.transactions.finish import Finished
from rota.model.clock import Clock
from rota.model.errors import SpawnFailed
from rota.model.records import Outcome, ProcessIdentity
from rota.model.spec import Condition, Kind, OverlapPolicy, Work
from rota.model.states import Reason, Status
from rota.rules.admission import ConditionResult
from rota.settings import SchedulerSettings, Settings
from rota.store.driver import PLAIN, Database, Done, Operation, Submitted, WriteOptions
from rota.store.migrate import open_store
from rota.store.postgres.setup import open_postgres
from rota.store.postgres.store import PostgresStore
from rota.store.sqlite.store import SqliteStore, connect
from rota.store.tables import jobs
from rota.testing.doubles import CountingStore, FakeClock
from tests.memory import in_memory
from tests.scene import ON_POSTGRES, Beside, address_of, forget_scenes
from tests.template import lay_database

BROKEN = 0.15
"""How many jobs never succeed."""
GONE = Outcome(Status.FAILED, Reason.PROCESS_RESTARTED, error="gone")
STOPPED = Outcome(Status.FAILED, Reason.SHUTDOWN, error="stopped")


class Crashed(BaseException):
    """The scheduler's process is dead; nothing of it may go on."""


class Fuse(Struct):
    """When the scheduler dies: at the commit that counts it down to nothing, done or undone."""

    commits: int | None = None
    undone: bool = False

    def burns_down(self) -> bool:
        if self.commits is None:
            return False
        self.commits -= 1
        return self.commits <= 0


class Life:
    """One process of the scheduler, from its start to its death."""

    def __init__(self, fuse: Fuse) -> None:
        self.fuse = fuse
        self.alive = True
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        self.alive = False
        self.fuse.commits = None
        if not self.died.done():
            self.died.set_result(None)


class DyingStore:
    """The store of one life: submitted writes are committed in groups as by the writer thread, but on the loop."""

    def __init__(self, disk: "Disk", counting: CountingStore, life: Life) -> None:
        self._disk = disk
        self._store = counting
        self._life = life
        self._submitted: list[Submitted] = []
        self.flushes = 0

    @property
    def busy(self) -> bool:
        return bool(self._submitted)

    def read(self, operation: Operation[Any]) -> Any:
        if not self._life.alive:
            raise Crashed
        return self._store.read(operation)

    def write(self, operation: Operation[Any]) -> Any:
        if not self._life.alive:
            raise Crashed
        burnt = self._life.fuse.burns_down()
        value = None if burnt and self._life.fuse.undone else self._store.write(operation)
        if burnt:
            self._life.end()
            raise Crashed
        return value

    def submit(self, operation: Operation[Any], options: WriteOptions = PLAIN) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if self._life.alive:
            if not self._submitted:
                loop.call_soon(self._flush)
            self._submitted.append(Submitted(self._store.watched(operation), future, options))
        return future

    def _flush(self) -> None:
        batch, self._submitted = self._submitted, []
        if not self._life.alive:
            return
        self.flushes += 1
        burnt = self._life.fuse.burns_down()
        done = [] if burnt and self._life.fuse.undone else self._commit(batch)
        if burnt:
            self._life.end()
            return
        for item in done:
            if item.future.done():
                continue
            if item.error is None:
                item.future.set_result(item.value)
            else:
                item.future.set_exception(item.error)

    def _commit(self, batch: list[Submitted]) -> list[Done]:
        if isinstance(self._disk, PostgresStore):
            return self._disk._batches[False].commit(batch)
        return self._disk._commit(batch)

    def close(self) -> None:
        pass


class Tree(Struct):
    """A run's processes: a keeper and what it started."""

    run_id: str
    job: str
    handle: str
    forced: bool
    identity: ProcessIdentity
    life: Life
    takes: float
    ending: Outcome
    machine: "Machine"
    inside: bool
    ends_at: float | None = None
    keeper: bool = True
    living: bool = True
    outcome: Outcome | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> None:
        if self.life.alive and self.ends_at is None:
            self.machine.begin(self)

    def close(self) -> None:
        if self.life.alive:
            self.end(STOPPED)

    def end(self, outcome: Outcome | None) -> None:
        """End the keeper; without an outcome what it started lives on."""
        self.outcome = outcome
        self.keeper = False
        self.living = self.living and outcome is None
        self.ended.set()


class Machine:
    """All processes that the scheduler's lives started. They measure time that passes, whatever the wall shows."""

    def __init__(self, clock: FakeClock, seed: int) -> None:
        self.trees: dict[str, Tree] = {}
        self.older: list[Tree] = []
        self.begun: dict[str, int] = {}
        self.conditions: dict[str, str] = {}
        self.answers: dict[str, str] = {}
        self.wrongs: list[str] = []
        self.boot = 1
        self._clock = clock
        self._seed = seed
        self._pid = 100_000

    def begin(self, tree: Tree) -> None:
        """Let a tree run: only once for a run, and never beside another of a job that forbids it."""
        tree.ends_at = self._clock.monotonic() + tree.takes
        self.begun[tree.handle] = self.begun.get(tree.handle, 0) + 1
        if self.begun[tree.handle] > 1:
            self.wrongs.append(f"doubled: {tree.handle} was started {self.begun[tree.handle]} times")
        if not tree.takes:
            tree.end(tree.ending)

    def make(self, claimed: Claimed, life: Life) -> Tree:
        self._pid += 1
        identity = ProcessIdentity(f"boot-{self.boot}", self._pid, self._pid)
        takes, ending = self._fate(claimed.run.handle)
        run = claimed.run
        tree = Tree(
            run.id, run.job, run.handle, run.forced, identity, life, takes, ending, self, claimed.spec.work.in_process
        )
        if run.id in self.trees:
            self.older.append(self.trees[run.id])
        self._look_for_another(claimed)
        self.trees[run.id] = tree
        return tree

    def _look_for_another(self, claimed: Claimed) -> None:
        run = claimed.run
        if self.answers.get(run.id, "pass") != "pass" and not run.forced:
            self.wrongs.append(f"other: {run.handle} was started although its condition said {self.answers[run.id]}")
        if claimed.spec.overlap.policy is OverlapPolicy.ALLOW or run.forced:
            return
        for other in self.trees.values():
            if other.job == run.job and other.living and other.ends_at is not None and not other.forced:
                self.wrongs.append(f"doubled: {run.handle} was started while {other.handle} ran")

    def _fate(self, handle: str) -> tuple[float, Outcome]:
        random = Random(f"{self._seed}/{handle}")
        takes = random.choice((0, 0, 0.2, 3, 40, 300, 900, 5400))
        ending = random.choice((Outcome(Status.COMPLETED, exit_code=0),) * 4 + (_failed(1), _timed_out()))
        broken = Random(f"{self._seed}/{handle.rpartition(':')[0]}/broken").random() < BROKEN
        return takes, _failed(1) if broken else ending

    def refuses(self, handle: str) -> bool:
        return Random(f"{self._seed}/{handle}/spawn").random() < 0.02

    def next_end(self) -> datetime | None:
        ends = [tree.ends_at for tree in self.trees.values() if tree.keeper and tree.ends_at is not None]
        if not ends:
            return None
        return self._clock.now() + timedelta(seconds=max(0.0, min(ends) - self._clock.monotonic()))

    def end_due(self) -> None:
        passed = self._clock.monotonic() + 1e-6
        for tree in self.trees.values():
            if tree.keeper and tree.ends_at is not None and tree.ends_at <= passed:
                tree.end(tree.ending)

    def scheduler_died(self, life: Life) -> None:
        """Keepers at their gates go away, functions die with their process."""
        for tree in self.trees.values():
            if tree.life is life and (tree.ends_at is None or tree.inside) and tree.keeper:
                tree.keeper = tree.living = False

    def kill_keepers(self) -> None:
        for tree in self.trees.values():
            if tree.keeper and tree.ends_at is not None and not tree.inside:
                tree.end(None)

    def reboot(self) -> None:
        self.boot += 1
        for tree in self.trees.values():
            tree.keeper = tree.living = False


def _failed(code: int) -> Outcome:
    return Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=code)


def _timed_out() -> Outcome:
    return Outcome(Status.FAILED, Reason.TIMED_OUT, error="it took too long")


class Commands:
    """The `Processes` of one life."""

    def __init__(self, machine: Machine, life: Life) -> None:
        self._machine = machine
        self._life = life
        self._claims = 0

    async def prepare(self, claimed: Claimed) -> Claimed:
        if self._machine.refuses(claimed.run.handle):
            raise SpawnFailed("no such program", hint="install it")
        return claimed

    async def launch(self, run_id: str, prepared: Claimed) -> Tree:
        if not self._life.alive:
            raise Crashed
        return self._machine.make(prepared, self._life)

    def reserve(self, count: int, ended: Sequence[ProcessIdentity]) -> Sequence[ProcessIdentity]:
        """Have a keeper for each slot at every second claim, so that both ways of a start are played."""
        self._claims += 1
        return [ProcessIdentity("spare", number, self._claims) for number in range(count if self._claims % 2 else 0)]

    def launch_reserved(self, claimed: Claimed, reserved: ProcessIdentity) -> Tree | None:
        plain = claimed.spec.work.kind in (Kind.COMMAND, Kind.SHELL) and not self._machine.refuses(claimed.run.handle)
        return self._machine.make(claimed, self._life) if plain and self._life.alive else None

    def release(self, reserved: Sequence[ProcessIdentity], *, claimed: bool) -> None:
        pass

    async def outcome(self, run_id: str, identity: ProcessIdentity, work: Work | None = None) -> Outcome:
        tree = self._machine.trees.get(run_id)
        if tree is None or tree.identity != identity:
            return GONE
        await tree.ended.wait()
        if tree.outcome is None:
            await self.sweep(run_id)
        return tree.outcome or GONE

    async def check(self, claimed: Claimed, condition: Condition, *, index: int) -> ConditionResult:
        answer: Any = self._machine.conditions.get(condition.title, "pass")
        self._machine.answers[claimed.run.id] = answer
        return ConditionResult(condition.title, answer)

    def stop(self, identity: ProcessIdentity, *, at_once: bool) -> None:
        for tree in self._machine.trees.values():
            if tree.identity == identity and tree.keeper and self._life.alive:
                tree.end(STOPPED)

    def alive(self, identity: ProcessIdentity) -> bool:
        return any(tree.identity == identity and tree.keeper for tree in self._machine.trees.values())

    def settle(self, identity: ProcessIdentity, *, stored: bool) -> None:
        pass

    def outcome_left(self, run_id: str) -> bool:
        tree = self._machine.trees.get(run_id)
        return tree is not None and tree.outcome is not None

    async def sweep(self, run_id: str) -> list[int]:
        tree = self._machine.trees.get(run_id)
        if tree is not None and self._life.alive:
            tree.keeper = tree.living = False
        return []


class Inside:
    """The `Functions` of one life: they end by the same clock, and die with their process."""

    def __init__(self, machine: Machine, life: Life) -> None:
        self._machine = machine
        self._life = life
        self._commands = Commands(machine, life)
        self.engine: Engine
        self.running: dict[str, Claimed] = {}

    def prepare(self, claimed: Sequence[Claimed]) -> None: ...

    def begin(self, claimed: Claimed) -> None:
        if not self._life.alive:
            return
        self.running[claimed.run.id] = claimed
        self._machine.begin(self._machine.make(claimed, self._life))
        asyncio.get_running_loop().call_soon(self.report)

    def report(self) -> None:
        """Hand over what has ended."""
        ended = [run_id for run_id in self.running if self._machine.trees[run_id].outcome is not None]
        finished = []
        for run_id in ended:
            outcome = self._machine.trees[run_id].outcome
            assert outcome is not None
            finished.append(Finished(run_id, self.running.pop(run_id).run.job_id, outcome))
        if finished and self._life.alive:
            self.engine.all_ended(finished)

    def stop(self, run_id: str) -> None:
        tree = self._machine.trees[run_id]
        if tree.keeper:
            tree.end(STOPPED)
            asyncio.get_running_loop().call_soon(self.report)

    async def check(self, claimed: Claimed, condition: Condition, *, index: int) -> ConditionResult:
        return await self._commands.check(claimed, condition, index=index)

    def holds(self, run_id: str) -> bool:
        return False

    async def until_free(self, job_id: str) -> None:
        return None


Disk = SqliteStore | PostgresStore


def lay_disk(folder: Path, now: datetime) -> Disk:
    """Return an empty store that takes batches without a writer thread."""
    if ON_POSTGRES:
        return open_postgres(address_of(folder), now=lambda: now)
    lay_database(folder)
    disk = open_store(folder / "rota.db", now=now)
    disk._written = connect(folder / "rota.db")
    return disk


def end_writer(disk: Disk) -> None:
    """Close what the batches were written through."""
    if isinstance(disk, PostgresStore):
        disk._batches[False].drop()
    else:
        disk._end_writer()


class World:
    """The machine, its disk and the scheduler's lives on it."""

    store_type: type[DyingStore] = DyingStore

    def __init__(self, now: datetime, *, seed: int, slots: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rota-simulation-", dir=in_memory()))
        self.clock = FakeClock(now)
        self.machine = Machine(self.clock, seed)
        self.settings = Settings(self.folder, self.folder, scheduler=SchedulerSettings(concurrency=slots))
        self.disk = lay_disk(self.folder, now)
        self.beside = Beside(self.folder)
        self.fuse = Fuse()
        self.refused: set[str] = set()
        self.touched = False
        """Whether somebody else wrote since the scheduler looked."""
        self.crashes = 0
        self.fires = 0
        self.elapsed = timedelta()
        self.session: Session | None = None
        self._counting = CountingStore(self.disk)
        self._pid = 500
        self.life: Life
        self.store: DyingStore
        self.engine: Engine
        self.inside: Inside

    @property
    def up(self) -> bool:
        """Whether a scheduler lives."""
        return self.session is not None

    async def start(self) -> bool:
        """Begin as a new process would; tell whether it lived through its recovery."""
        self._pid += 1
        self.touched = True
        self.life = Life(self.fuse)
        self.store = self.store_type(self.disk, self._counting, self.life)
        me = ProcessIdentity(f"boot-{self.machine.boot}", self._pid, self._pid)
        try:
            self.session = open_session(
                self.store, self.folder, self.clock, kind="serve", identity=me, server_now=self._server_now
            )
        except Crashed:
            self.crashes += 1
            return False
        self._build(self.session)
        return await self._unless_it_dies(self._recover(self.session))

    def _build(self, session: Session) -> None:
        commands = Commands(self.machine, self.life)
        self.inside = Inside(self.machine, self.life)
        clock: Clock = self.clock
        self.engine = Engine(
            self.store,
            clock,
            settings=self.settings,
            holder=session.holder,
            processes=commands,
            functions=self.inside,
            on_fired=self._count,
            server_now=self._server_now,
        )
        self.inside.engine = self.engine

    def _server_now(self, _db: Any) -> datetime:
        """Return the time of a server on this machine."""
        return self.clock.now()

    def _count(self, fired: Any) -> None:
        self.fires += len(fired.runs) + len(fired.skips)

    async def _recover(self, session: Session) -> None:
        heir = RecoveryContext(
            self.store,
            self.clock,
            holder=session.holder,
            children=Commands(self.machine, self.life),
            executor=self.engine.executor,
            slots=self.engine.slots,
        )
        await recover(heir, session.dead)

    async def _unless_it_dies(self, work: Awaitable[None]) -> bool:
        """Do something in the scheduler's process; tell whether it survived."""
        task = asyncio.ensure_future(work)
        await asyncio.wait({task, self.life.died}, return_when=asyncio.FIRST_COMPLETED)
        if self.life.alive:
            task.result()
            return True
        await self._bury(task)
        return False

    async def crash(self) -> None:
        """Vanish as by kill -9 at a quiet moment."""
        self.life.end()
        await self._bury()

    async def _bury(self, *more: "asyncio.Future[Any]") -> None:
        assert self.session is not None
        self.crashes += 1
        self.machine.scheduler_died(self.life)
        tasks = [carried.task for carried in self.engine.executor.carried.values() if carried.task is not None]
        self.engine.executor.carried.clear()
        for task in (*tasks, *more):
            task.cancel()
        await self._calm()
        for task in (*tasks, *more):
            task.cancel()
        await asyncio.gather(*tasks, *more, return_exceptions=True)
        self.session.lock.release()
        self.session = None

    async def _calm(self) -> None:
        """Let everything that is in progress come to rest: nothing but us is ready to run."""
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        while True:
            await asyncio.sleep(0)  # noqa: TID251 - one turn of the loop, no time
            if not ready and not self.store.busy:
                return

    async def settle(self) -> bool:
        """Do all that is due at this instant; tell whether the scheduler survived it."""
        return not self.up or await self._unless_it_dies(self._settle())

    async def _settle(self) -> None:
        """Go round while something is due; what follows from it the engine does by itself."""
        engine, before = self.engine, -1
        self.inside.report()
        if self.touched:
            engine.claim_now()  # for what others enqueued
        while before != self._changes():
            before = self._changes()
            await self._turn(engine.fire_loop)
            if self._due(next_release):
                await self._turn(engine.release_loop)
            if self._changes() != before or self.touched:
                await self._turn(engine.cancel_loop)
                self.touched = False
            if not self._due(_next):
                break
        for job_id in engine.firer.quarantine.keys() - self.refused:
            self.refused.add(job_id)
            self.machine.wrongs.append(f"lost: job {job_id} could not be fired at {self.clock.now()}")

    def _due(self, ask: Callable[[Database], datetime | None]) -> bool:
        at = self.disk.read(ask)
        return at is not None and at <= self.clock.now()

    async def _turn(self, loop: Loop) -> None:
        await loop.turn()
        if loop.pulse.error is not None:
            self.machine.wrongs.append(f"other: the {loop.name} loop failed: {loop.pulse.error}")
        await self._calm()

    def _changes(self) -> int:
        return self._counting.changes

    async def pass_time(self, duration: timedelta) -> bool:
        """Let time pass, stopping wherever something is due; tell whether the scheduler survived it."""
        until = self.elapsed + duration
        while self.elapsed < until:
            left = until - self.elapsed
            due = self.next_due()
            step = left if due is None else min(left, due - self.clock.now())
            self.clock.advance(step)
            self.elapsed += step
            self.machine.end_due()
            if self.up and not await self.settle():
                return False
        return True

    def next_due(self) -> datetime | None:
        """Return when something happens next."""
        if not self.up:
            return None
        found = [*self.disk.read(lambda db: (jobs.next_due(db), next_release(db))), self.machine.next_end()]
        tick = self.clock.now() + self.settings.scheduler.tick  # for what is overdue and was refused
        return min((at if at > self.clock.now() else tick for at in found if at is not None), default=None)

    def close(self) -> None:
        """Remove everything."""
        self.beside.close()
        end_writer(self.disk)
        self.disk.close()
        forget_scenes()
        shutil.rmtree(self.folder)


def _next(db: Database) -> datetime | None:
    """Return when the database says that something is due next."""
    return min((at for at in (jobs.next_due(db), next_release(db)) if at is not None), default=None)
