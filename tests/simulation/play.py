"""Plays a day: everything that happens, and a book of what each job's definition was from when to when."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rota.model.clock import from_ms, to_ms
from rota.model.errors import RotaError
from rota.model.ids import begin_again
from rota.model.records import Job
from rota.model.spec import JobSpec, Schedule
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.project.apply import apply
from rota.operations.run_actions import cancel_run, trigger
from rota.store.tables import jobs
from tests.simulation.plan import DAY, Day, Happening
from tests.simulation.world import World

EVERYTHING = JobSelection(everything=True)


class Span(Struct, frozen=True):
    """A stretch of a job's life, open at its beginning: due, paused, or none of its instants count."""

    since: datetime
    schedule: Schedule
    mode: str


class Book(Struct):
    """What we know of a job without asking the scheduler."""

    created_at: datetime
    spec: JobSpec
    spans: list[Span] = field(default_factory=list)
    retired: bool = False
    paused: bool = False
    alone: bool = False
    until: datetime | None = None

    def outlasts(self, until: datetime | None) -> bool:
        """Return whether the job is paused on its own for longer than a pause of everything would last."""
        longer = self.until is None or (until is not None and self.until >= until)
        return self.paused and self.alone and longer

    @property
    def mode(self) -> str:
        if self.retired or not self.spec.enabled:
            return "none"
        return "paused" if self.paused else "due"


class Tally(Struct):
    """What happened, for the summary."""

    seeds: int = 0
    fires: int = 0
    crashes: int = 0
    steps: int = 0
    pauses: int = 0
    edits: int = 0
    lost: int = 0
    doubled: int = 0
    left: int = 0
    other: int = 0

    def add(self, more: "Tally") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(more, name))


class Played:
    """A day as it goes on."""

    def __init__(self, day: Day, world: World) -> None:
        self.day = day
        self.world = world
        self.books: dict[str, Book] = {}
        self.file: dict[str, JobSpec] = {spec.name: spec for spec in day.jobs}
        self.starts_at: timedelta | None = None
        self.again: int | None = None
        self.keepers_too = False
        self.seconds = 20
        self.triggered: list[str] = []
        self.tally = Tally(seeds=1)
        self._random = Random(day.seed + 1)

    @property
    def now(self) -> datetime:
        return self.world.clock.now()

    async def play(self) -> None:
        """Let the day happen; it ends with a living scheduler that has done all that is due."""
        self._apply()
        await self._start()
        for happening in self.day.happenings:
            await self._pass_until(happening.at)
            await self._happen(happening)
        await self._pass_until(DAY)
        self.again = None
        self.world.fuse.commits = None
        if not self.world.up:
            await self._start()
        await self.world.settle()
        self._notice()

    async def _pass_until(self, at: timedelta) -> None:
        await self._settle()
        while self.world.elapsed < at:
            until = at if self.starts_at is None else min(at, self.starts_at)
            if not await self.world.pass_time(until - self.world.elapsed):
                self._went_down()
            elif self.starts_at is not None and self.world.elapsed >= self.starts_at:
                await self._start()

    async def _settle(self) -> None:
        if not await self.world.settle():
            self._went_down()

    def _went_down(self, seconds: float | None = None) -> None:
        self.starts_at = self.world.elapsed + timedelta(seconds=self.seconds if seconds is None else seconds)
        self.seconds = 20
        if self.keepers_too:
            self.world.machine.kill_keepers()
        self.keepers_too = False

    async def _start(self) -> None:
        self.starts_at = None
        self.world.fuse.commits, self.again = self.again or self.world.fuse.commits, None
        if not await self.world.start():
            self._went_down()
        else:
            await self._settle()

    async def _happen(self, happening: Happening) -> None:
        self._notice()
        self.world.touched = True
        name = happening.kind.replace(" ", "_")
        act: Callable[[Happening], Any] = getattr(self, f"_do_{name}")
        try:
            result = act(happening)
            if result is not None:
                await result
        except RotaError:
            return  # refused, as an overlap or a retired job is: nothing has happened
        except Exception as error:
            self.world.machine.wrongs.append(f"other: {happening} ended in {error!r}")

    # the machine

    async def _do_crash(self, happening: Happening) -> None:
        crash = happening.value
        if not self.world.up:
            return
        self.again, self.keepers_too, self.world.fuse.undone = crash.again, crash.keepers_too, crash.undone
        if crash.commits:
            self.world.fuse.commits, self.seconds = crash.commits, crash.seconds
        else:
            await self.world.crash()
            self._went_down(crash.seconds)

    async def _do_reboot(self, happening: Happening) -> None:
        if self.world.up:
            await self.world.crash()
            self._went_down(happening.value.seconds)
        self.world.machine.reboot()

    def _do_step(self, happening: Happening) -> None:
        self.tally.steps += 1
        self.world.clock.step(timedelta(seconds=happening.value))

    @property
    def went_back(self) -> bool:
        """Whether the wall clock was ever set back."""
        return any(one.kind == "step" and one.value < 0 for one in self.day.happenings)

    def _do_suspend(self, happening: Happening) -> None:
        self.world.clock.suspend(timedelta(seconds=happening.value))

    def _do_kill_keepers(self, happening: Happening) -> None:
        self.world.machine.kill_keepers()

    def _do_condition(self, happening: Happening) -> None:
        title, answer = happening.value
        self.world.machine.conditions[title] = answer

    # people

    def _do_reschedule(self, happening: Happening) -> None:
        self._edit(happening.job, schedule=happening.value)

    def _do_priority(self, happening: Happening) -> None:
        self._edit(happening.job, priority=happening.value)

    def _do_disable(self, happening: Happening) -> None:
        self._edit(happening.job, enabled=False)

    def _do_enable(self, happening: Happening) -> None:
        self._edit(happening.job, enabled=True)

    def _do_retire(self, happening: Happening) -> None:
        self.file.pop(happening.job, None)
        self._apply()

    def _do_revive(self, happening: Happening) -> None:
        self.file.setdefault(happening.job, self.books[happening.job].spec)
        self._apply()

    def _edit(self, name: str, **changes: Any) -> None:
        if name in self.file:
            self.file[name] = replace(self.file[name], **changes)
            self._apply()

    def _apply(self) -> None:
        declared: Any = SimpleNamespace(jobs=tuple(self.file.values()), settings=self.world.settings, left_out=())
        plan = apply(self.world.disk, declared, now=self.now, allow_empty=True, dry_run=True)
        self._end_pauses([change.name for change in plan.changing if change.name in self.books])
        apply(self.world.disk, declared, now=self.now, allow_empty=True)
        for change in plan.changing:
            self.tally.edits += 1
            book = self.books.get(change.name)
            if book is None:
                assert change.spec is not None
                book = self.books[change.name] = Book(self.now, change.spec)
            book.spec = change.spec or book.spec
            book.retired = change.spec is None
            self._write(change.name, self.now)

    def _do_pause(self, happening: Happening) -> None:
        self._pause(JobSelection((happening.job,)), [happening.job], happening.value)

    def _do_pause_all(self, happening: Happening) -> None:
        self._pause(EVERYTHING, [name for name, book in self.books.items() if not book.retired], happening.value)

    def _pause(self, chosen: JobSelection, names: list[str], seconds: int | None) -> None:
        until = None if seconds is None else self.now + timedelta(seconds=seconds)
        names = [name for name in names if not self.books[name].retired]
        if names:
            self._end_pauses(names)
        reason = "everything" if chosen.everything else "this job"
        pause(self.world.disk, chosen, until=until, reason=reason, now=self.now)
        self.tally.pauses += 1
        for name in names:
            book = self.books[name]
            if chosen.everything and book.outlasts(until):
                continue
            before, book.paused, book.until, book.alone = book.paused, True, until, not chosen.everything
            if not before:
                self._write(name, self.now)

    def _do_resume(self, happening: Happening) -> None:
        self._resume(JobSelection((happening.job,)), [happening.job], catch_up=happening.value)

    def _do_resume_all(self, happening: Happening) -> None:
        self._resume(EVERYTHING, list(self.books), catch_up=happening.value)

    def _resume(self, chosen: JobSelection, names: list[str], *, catch_up: bool) -> None:
        names = [name for name in names if chosen.everything or not self.books[name].retired]
        self._end_pauses(names)
        paused = [name for name in names if self.books[name].paused]
        highest = {name: self._highest(name) for name in paused}
        resume(self.world.disk, chosen, catch_up=catch_up, now=self.now)
        for name in paused:
            self.books[name].paused = False
            self._write(name, self.now, highest[name])

    def _do_trigger(self, happening: Happening) -> None:
        born = trigger(self.world.disk, happening.job, now=self.now, force=happening.value)
        self.triggered.append(born.handle)

    def _do_cancel(self, happening: Happening) -> None:
        cancel_run(self.world.disk, happening.job, now=self.now)

    # the book

    def _notice(self) -> None:
        """Write down timed pauses that the scheduler has seen to be over."""
        for name, book in self.books.items():
            if book.paused and book.until is not None and self.job(name).paused_at is None:
                book.paused = False
                self._write(name, book.until, book.until)

    def _end_pauses(self, names: list[str]) -> None:
        """Write down timed pauses that are over: whoever acts on a job finds them ended."""
        for name in names:
            book = self.books[name]
            if book.paused and book.until is not None and book.until <= self.now:
                book.paused = False
                self._write(name, book.until)

    def _write(self, name: str, since: datetime, highest: datetime | None = None) -> None:
        """Begin a span: never before the one before it, nor before the last instant that has its row."""
        book = self.books[name]
        before = [book.spans[-1].since] if book.spans else []
        since = max(since, *before, highest or self._highest(name))
        book.spans.append(Span(since, book.spec.schedule, book.mode))

    def _highest(self, name: str) -> datetime:
        """Return the last instant of the calendar that has its row."""
        row = self.query(
            "SELECT max(coalesce(covers_to, scheduled_for)) FROM run_now WHERE job_id = ? AND slot_key NOT LIKE '#%'",
            self.job(name).id,
        )[0]
        return from_ms(row[0] or 0)

    def job(self, name: str) -> Job:
        found = self.world.disk.read(partial(jobs.job_by_name, name=name))
        assert found is not None
        return found

    def query(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask the database itself, by SQL of our own."""
        return self.world.beside.rows(text, *values)

    @property
    def now_ms(self) -> int:
        return to_ms(self.now)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let the scheduler log nothing."""
    logger = logging.getLogger("rota")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def play(day: Day, world_type: type[World] = World) -> tuple[list[str], Tally]:
    """Simulate a day; return what is wrong with it and what happened."""
    from tests.simulation.oracle import examine

    async def go() -> tuple[list[str], Tally]:
        world = world_type(day.begins, seed=day.seed, slots=day.slots)
        played = Played(day, world)
        try:
            await played.play()
            wrongs = [*world.machine.wrongs, *examine(played)]
            played.tally.fires, played.tally.crashes = world.fires, world.crashes
            await world.crash()
        finally:
            world.close()
        return wrongs, played.tally

    begin_again(Random(day.seed).randbytes)
    with quiet(), asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(lambda loop, context: None)
        wrongs, tally = runner.run(go())
    for wrong in wrongs:
        name = wrong.partition(":")[0]
        name = name if name in ("lost", "doubled", "left") else "other"
        setattr(tally, name, getattr(tally, name) + 1)
    return wrongs, tally
