"""What one simulated day holds: its jobs and everything that happens to them, all drawn from one seed."""

from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.model.spec import (
    Anchor,
    Condition,
    FirstRun,
    Gates,
    Isolate,
    Jitter,
    JobSpec,
    Kind,
    Misfire,
    MisfirePolicy,
    OnRestart,
    Overlap,
    OverlapPolicy,
    RepeatedFailure,
    Retry,
    Schedule,
    WhenFalse,
    Work,
)
from tests.simulation.lulls import with_lulls

DAY = timedelta(days=1)
FIRES = 500
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

TRANSITIONS = (
    ("Europe/Berlin", "2026-03-29T01:00"),
    ("Europe/Berlin", "2026-10-25T01:00"),
    ("America/New_York", "2026-03-08T07:00"),
    ("America/New_York", "2026-11-01T06:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30"),
    ("America/Santiago", "2026-09-06T04:00"),
    ("Asia/Kolkata", "2026-06-30T12:00"),
)

CRONS = {
    "*/15 * * * *": 96,
    "*/30 * * * *": 48,
    "*/20 8-17 * * *": 30,
    "7 * * * *": 24,
    "0 */2 * * *": 12,
    "30 2 * * *": 1,
    "15 1-3 * * *": 3,
    "*/10 2 * * *": 6,
    "0,5,10 0,12 * * *": 6,
    "59 23 * * sun": 1,
    "0 0 L * *": 1,
    "45 1,13 1-7 * mon": 2,
}
"""Expressions, and about how often a day they fire."""

STEPS = (1, 2, 30, 61, 600, 3600, 3 * 3600, 86_400)
TITLES = ("./look", "./ask")


class Place(Struct, frozen=True):
    """Where and when the day is."""

    zone: str
    begins: datetime


class Happening(Struct, frozen=True):
    """One thing that happens, so long after the day began."""

    at: timedelta
    kind: str
    job: str = ""
    value: Any = None

    def __str__(self) -> str:
        return f"+{self.at} {self.kind} {self.job} {'' if self.value is None else self.value}".rstrip()


class Day(Struct, frozen=True):
    """A day to simulate."""

    seed: int
    begins: datetime
    around: datetime
    zone: str
    slots: int
    jobs: tuple[JobSpec, ...]
    happenings: tuple[Happening, ...]


def draw(seed: int) -> Day:
    """Return the day of this seed."""
    random = Random(seed)
    zone, transition = random.choice(TRANSITIONS)
    around = datetime.fromisoformat(transition).replace(tzinfo=UTC)
    begins = around - random.randrange(0, 20 * 3600) * SECOND
    place = Place(zone, begins)
    failing = Random(f"{seed}/failing")
    jobs = tuple(_failing(failing, job) for job in _jobs(random, place))
    happenings = sorted((_happening(random, jobs, place) for _ in range(random.randint(4, 36))), key=lambda one: one.at)
    lull = partial(with_lulls, Random(f"{seed}/lulls"), zone=zone, around=around)
    jobs = tuple(replace(job, schedule=lull(job.schedule)) for job in jobs)
    happenings = [replace(one, value=lull(one.value)) if one.kind == "reschedule" else one for one in happenings]
    return Day(seed, begins, around, zone, random.choice((1, 2, 4, 16)), jobs, _bounded(happenings))


def _bounded(happenings: list[Happening]) -> tuple[Happening, ...]:
    """Keep the wall clock within two days of where it would be, so that the oracle's window suffices."""
    kept, off = [], 0.0
    for one in happenings:
        if one.kind in ("step", "suspend"):
            moved = off + one.value
            if abs(moved) > 2 * DAY.total_seconds():
                continue
            off = moved
        kept.append(one)
    return tuple(kept)


def _jobs(random: Random, place: Place) -> tuple[JobSpec, ...]:
    room, jobs = FIRES, []
    for number in range(random.randint(2, 5)):
        schedule, fires = _schedule(random, place, room // 2)
        room -= fires
        jobs.append(_job(random, f"job{number}", schedule))
    return tuple(jobs)


def _schedule(random: Random, place: Place, room: int) -> tuple[Schedule, int]:
    kind = random.choice(("cron", "cron", "cron", "completion", "start", "fixed", "fixed", "at", "manual"))
    once = random.random() < 0.08
    if kind == "manual":
        return Schedule(), 0
    if kind == "at":
        return Schedule(at=place.begins + random.randint(-600, 86_000) * SECOND, run_once=False), 1
    if kind == "cron":
        chosen = random.sample(sorted(CRONS), random.choice((1, 1, 1, 2)))
        if sum(CRONS[one] for one in chosen) > room:
            chosen = ["30 2 * * *"]
        zone = random.choice((place.zone, place.zone, "UTC"))
        found = Schedule(cron=tuple(chosen), timezone=zone, jitter=_jitter(random), run_once=once)
        return _within(random, found, place.begins), sum(CRONS[one] for one in chosen)
    every = random.choice((7, 15, 20, 60, 150)) * MINUTE + random.choice((0, 0, 13)) * SECOND
    if DAY / every > room:
        every = timedelta(hours=4)
    found = Schedule(
        interval=every,
        anchor=Anchor(kind),
        first_run=random.choice(list(FirstRun)),
        jitter=_jitter(random),
        run_once=once,
    )
    return _within(random, found, place.begins), int(DAY / every)


def _within(random: Random, schedule: Schedule, begins: datetime) -> Schedule:
    if random.random() < 0.1:
        schedule = replace(schedule, start_at=begins + random.randint(0, 600) * MINUTE)
    if random.random() < 0.1:
        schedule = replace(schedule, end_at=begins + random.randint(700, 1400) * MINUTE)
    return schedule


def _jitter(random: Random) -> Jitter | None:
    if random.random() < 0.75:
        return None
    return random.choice((Jitter(percent=50), Jitter(percent=10), Jitter(up_to=5 * MINUTE)))


def _job(random: Random, name: str, schedule: Schedule) -> JobSpec:
    policy = random.choice((OverlapPolicy.FORBID, OverlapPolicy.FORBID, *OverlapPolicy))
    inside = random.random() < 0.25
    work = Work(
        Kind.FUNCTION if inside else Kind.COMMAND,
        command=() if inside else ("true",),
        function=name if inside else "",
        isolate=Isolate.THREAD,
        on_restart=random.choice((OnRestart.ADOPT, OnRestart.ADOPT, OnRestart.KILL)),
    )
    return JobSpec(
        name,
        work,
        schedule,
        misfire=_misfire(random),
        overlap=Overlap(policy, queue_depth=random.choice((1, 1, 3))),
        gates=_gates(random),
        priority=random.choice((0, 0, 5)),
    )


def _failing(random: Random, job: JobSpec) -> JobSpec:
    """Return the job with what it does about failures, drawn apart so that the rest of the day stays as it was."""
    retry = Retry(
        max_attempts=random.choice((1, 2, 3, 5)),
        backoff=random.choice((0, 10, 300, 2400)) * SECOND,
        factor=random.choice((1.0, 2.0)),
        max=timedelta(hours=1),
        jitter=random.choice((None, None, Jitter(percent=50), Jitter(up_to=MINUTE))),
    )
    often = RepeatedFailure(random.choice((1, 2)), random.choice((20 * MINUTE, timedelta(hours=6))))
    return replace(job, retry=retry, on_repeated_failure=random.choice((None, often)))


def _misfire(random: Random) -> Misfire:
    age = random.choice((None, None, None, timedelta(hours=1)))
    return Misfire(random.choice(list(MisfirePolicy)), limit=random.choice((2, 10)), max_age=age)


def _gates(random: Random) -> Gates:
    if random.random() < 0.7:
        return Gates()
    return Gates(
        (Condition(command=(random.choice(TITLES),)),),
        when_false=random.choice(list(WhenFalse)),
        recheck=random.choice((MINUTE, 17 * MINUTE)),
        expires_after=random.choice((None, None, timedelta(minutes=40))),
    )


def _happening(random: Random, jobs: tuple[JobSpec, ...], place: Place) -> Happening:
    at = random.randrange(0, 86_400_000) * timedelta(milliseconds=1)
    if random.random() < 0.3:
        at = timedelta(seconds=at // timedelta(minutes=5) * 300)
    kind = random.choice(sorted(_VALUES))
    job = random.choice(jobs)
    return Happening(at, kind, job.name if kind in _OF_A_JOB else "", _VALUES[kind](random, job, place))


def _nothing(random: Random, job: JobSpec, place: Place) -> None:
    return None


class Crash(Struct, frozen=True):
    """How the scheduler dies: after so many commits, the last one done or not; with its keepers or not."""

    commits: int
    undone: bool
    seconds: int
    again: int | None
    keepers_too: bool


def _crash(random: Random, job: JobSpec, place: Place) -> Crash:
    return Crash(
        commits=random.choice((0, 1, 2, 3, 4, 5, 6, 7, 9)),
        undone=random.random() < 0.5,
        seconds=random.choice((0, 5, 90, 1800, 4 * 3600)),
        again=random.choice((None, None, 1, 2, 3)),
        keepers_too=random.random() < 0.25,
    )


def _step(random: Random, job: JobSpec, place: Place, *, signs: tuple[int, ...] = (-1, 1)) -> float:
    return random.choice(signs) * random.choice(STEPS) + random.choice((0, 0, 0.4))


def _reschedule(random: Random, job: JobSpec, place: Place) -> Schedule:
    return _schedule(random, place, 40)[0]


def _priority(random: Random, job: JobSpec, place: Place) -> int:
    return random.randint(-5, 5)


def _pause(random: Random, job: JobSpec, place: Place) -> int | None:
    """Seconds it lasts; None: until resumed."""
    return random.choice((None, 60, 1500, 3 * 3600))


def _flag(random: Random, job: JobSpec, place: Place) -> bool:
    return random.random() < 0.5


def _answer(random: Random, job: JobSpec, place: Place) -> tuple[str, str]:
    return random.choice(TITLES), random.choice(("pass", "pass", "false", "error"))


_VALUES = {
    "crash": _crash,
    "reboot": _crash,
    "step": _step,
    "suspend": partial(_step, signs=(1,)),
    "reschedule": _reschedule,
    "priority": _priority,
    "disable": _nothing,
    "enable": _nothing,
    "retire": _nothing,
    "revive": _nothing,
    "pause": _pause,
    "pause all": _pause,
    "resume": _flag,
    "resume all": _flag,
    "trigger": _flag,
    "cancel": _nothing,
    "condition": _answer,
    "kill keepers": _nothing,
}
_OF_A_JOB = {
    "reschedule",
    "priority",
    "disable",
    "enable",
    "retire",
    "revive",
    "pause",
    "resume",
    "trigger",
    "cancel",
}
