"""How fast days are played ahead: fires a second over a mix of schedules, without a database."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from bench.measuring import Report, figure, sized
from rota.model.spec import (
    Anchor,
    ByMode,
    Draw,
    GroupMode,
    Jitter,
    JobSpec,
    Kind,
    Member,
    Overlap,
    OverlapPolicy,
    Schedule,
    Work,
)
from rota.operations.simulate.player import Simulator, at_work
from rota.operations.simulate.state import Assumptions, fresh_state, make_engine
from rota.operations.simulate.tally import Tally
from rota.settings import Settings

TARGET = "200,000 fires in under 10 s"
FIRES = sized(200_000, 2_000)
BEGIN = datetime(2026, 11, 16, tzinfo=UTC)
DAYS = 16
ROUNDS = sized(3, 1)


def measure() -> Report:
    """Play the same month several times."""
    plays = [_play() for _ in range(ROUNDS)]
    fires = plays[0].fires
    best, cpu = min(play.seconds for play in plays), min(play.cpu for play in plays)
    return Report(
        "simulate",
        TARGET,
        [
            figure("fires played", "fires", fires),
            figure("time, best of three", "s", best),
            figure("CPU time, best of three", "s", cpu),
            figure(f"{FIRES:,} fires at that speed", "s", best * FIRES / fires),
            figure(f"{FIRES:,} fires, CPU time", "s", cpu * FIRES / fires),
        ],
    )


class Played(Struct, frozen=True):
    """How long a play took, and how many instants it accounted for."""

    seconds: float
    cpu: float
    fires: int


def _play() -> Played:
    until = BEGIN + timedelta(days=DAYS)
    settings = Settings(Path(), Path(), pools={"agents": 2, "press": 1})
    state = fresh_state(_specs(), settings, now=BEGIN)
    tally = Tally(BEGIN, until, hours_from=BEGIN)
    engine = make_engine(state, Assumptions(), concurrency=16, observer=tally, now=BEGIN)
    person = at_work(["mon-fri 09:00-17:00"], "Europe/Madrid", since=BEGIN, until=until)
    began, cpu = time.perf_counter(), time.process_time()
    Simulator(engine, person).run_until(until)
    took, worked = time.perf_counter() - began, time.process_time() - cpu
    return Played(took, worked, sum(one.fires for one in tally.jobs.values()))


def _specs() -> list[JobSpec]:
    """Return what a busy project has: dense and rare crons in two zones, intervals of all anchors, pools, a group."""
    minute = timedelta(minutes=1)
    crons = ["* * * * *", "*/5 * * * *", "7 * * * *", "30 2 * * *", "0 9-17 * * 1-5", "*/10 8-20 * * *"]
    found = [
        _job(f"cron-{index}", Schedule(cron=(text,), timezone=zone))
        for index, (text, zone) in enumerate((text, zone) for text in crons for zone in ("UTC", "Europe/Madrid"))
    ]
    found += [_job(f"after-{index}", Schedule(interval=(index + 1) * minute)) for index in range(5)]
    found += [_job(f"start-{index}", Schedule(interval=5 * minute, anchor=Anchor.START)) for index in range(2)]
    grid = Schedule(interval=2 * minute, anchor=Anchor.FIXED, jitter=Jitter(percent=10))
    found += [_job(f"grid-{index}", grid) for index in range(2)]
    adaptive = Schedule(by_mode=ByMode(minute / 4, minute, 5 * minute))
    found += [_job("adaptive", adaptive)]
    press, queued = (Draw("press"),), Overlap(OverlapPolicy.QUEUE)
    found += [_job(f"press-{index}", Schedule(cron=("*/5 * * * *",)), pools=press) for index in range(3)]
    found += [_job("queued", Schedule(cron=("*/2 * * * *",)), overlap=queued)]
    members = tuple(Member(f"member-{index}") for index in range(3))
    found += [_job(member.job, Schedule()) for member in members]
    work = Work(Kind.GROUP, members=members, mode=GroupMode.SEQUENTIAL)
    return [*found, JobSpec("nightly", work, schedule=Schedule(cron=("0 * * * *",)))]


def _job(name: str, schedule: Schedule, **changes: object) -> JobSpec:
    return JobSpec(name, Work(Kind.COMMAND, command=("true",)), schedule=schedule, **changes)  # type: ignore[arg-type]
