"""What a simulation predicts is what a real scheduler does: the same file, played in memory and by the engine."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field

from rota.declare.project import read_project
from rota.engine.scheduler import Engine
from rota.engine.transactions.claim import Claimed, ClaimOwner
from rota.engine.transactions.finish import Finished
from rota.engine.transactions.pause import pause_job
from rota.model.records import Outcome, Run
from rota.model.spec import Condition, Names
from rota.model.states import Reason, Status
from rota.operations.project.apply import apply_in
from rota.operations.simulate.model import Accounts, SimJob, SimRun
from rota.operations.simulate.player import TOUCH, AtWork, Person, Simulator, at_work, read_length
from rota.operations.simulate.state import Assumptions, State, copy_state, make_engine
from rota.rules.admission import ConditionResult
from rota.rules.schedule.plan import PlannedSkip
from rota.store.tables import jobs
from rota.store.tables.activity import touch
from rota.testing.doubles import Script
from tests.engine.conftest import NOON, audit
from tests.scene import Scene

pytestmark = pytest.mark.anyio
AWAY = AtWork()
MOMENT = timedelta(milliseconds=1)
WORK = ("mon-fri 09:00-09:25", "16:00-16:08")
FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1)

Fate = tuple[Any, ...]


class Ledger(Struct):
    """Keeps every row that a simulation would have written, as the database would show it."""

    rows: list[Fate] = field(default_factory=list)
    now: datetime = NOON

    def look(self, now: datetime) -> None:
        self.now = now

    def fired(self, run: SimRun) -> None: ...

    def waits(self, run: SimRun) -> None: ...

    def charged(self, accounts: Accounts) -> None: ...

    def mode_changed(self, sim_job: SimJob) -> None: ...

    def skipped(self, sim_job: SimJob, row: PlannedSkip) -> None:
        told = (row.scheduled_for, row.covers_to, row.count, "SKIPPED", row.reason.value, 1, None, self.now)
        self.rows.append((sim_job.name, *told))

    def ended(self, run: SimRun) -> None:
        reason = run.reason.value if run.reason else None
        when = (run.scheduled_for, None, 1)
        told = (run.status.value, reason, run.attempt, run.started_at, run.finished_at)
        self.rows.append((run.sim_job.name, *when, *told))


def stored(run: Run) -> Fate:
    told = (run.status.value, run.reason.value if run.reason else None, run.attempt, run.started_at, run.finished_at)
    return (run.job, run.scheduled_for, run.covers_to, run.count if run.covers_to else 1, *told)


def simulated(
    state: State,
    *,
    days: float,
    takes: dict[str, str],
    failing: tuple[str, ...] = (),
    person: Person = AWAY,
    since: datetime = NOON,
) -> list[Fate]:
    """Return the rows that a simulation predicts."""
    ledger = Ledger()
    assumptions = Assumptions({name: read_length(took) for name, took in takes.items()}, dict.fromkeys(failing, 1.0))
    engine = make_engine(state, assumptions, concurrency=3, observer=ledger, now=since)
    Simulator(engine, person).run_until(since + timedelta(days=days))
    return sorted(ledger.rows, key=order)


async def really(
    scene: Scene, *, days: float, takes: dict[str, str], failing: tuple[str, ...] = (), person: AtWork | None = None
) -> list[Fate]:
    """Let the engine do it: runs take what they are said to take, the person touches every minute at work."""
    for name, took in takes.items():
        ending = FAILED if name in failing else Outcome(Status.COMPLETED, exit_code=0)
        scene.processes.scripts[name] = Script(read_length(took), ending)
    until = scene.clock.now() + timedelta(days=days)
    for window in person.runs if person else ():
        at = window.since
        while at < min(window.until, until):
            await advance_to(scene, at - MOMENT)
            scene.clock.advance(MOMENT)
            scene.store.write(partial(touch, what="touch", now=at))
            await scene.settle()
            at += TOUCH
    await advance_to(scene, until - MOMENT)
    names = scene.store.read(jobs.job_names)
    rows = [stored(run) for name in names for run in scene.history(name) if run.status.final]
    return sorted(rows, key=order)


def pause(scene: Scene, name: str, *, until: datetime | None) -> None:
    job_id = scene.job(name).id
    scene.store.write(partial(pause_job, job_id=job_id, until=until, reason="", now=scene.clock.now()))


async def advance_to(scene: Scene, at: datetime) -> None:
    if at > scene.clock.now():
        await scene.advance(at - scene.clock.now())


def order(row: Fate) -> tuple[Any, ...]:
    return (row[8], row[0], row[1], row[6])


FILE = """
timezone: Europe/Madrid
pools: {press: 1}
defaults: {timeout: never, retry: false}
jobs:
  often:    {cron: "*/20 * * * *", command: ["true"]}
  long:     {cron: "*/30 * * * *", command: ["true"]}
  queued:   {cron: "*/30 * * * *", overlap: queue, command: ["true"]}
  replaced: {cron: "15 * * * *", overlap: replace, command: ["true"]}
  allowed:  {cron: "5 */2 * * *", overlap: allow, command: ["true"]}
  after:    {interval: 45m, command: ["true"]}
  started:  {interval: 40m, anchor: start, command: ["true"]}
  grid:     {interval: 1h, anchor: fixed, jitter: 50%, command: ["true"]}
  later:    {interval: 3h, first_run: after_interval, command: ["true"]}
  once:     {at: "2026-11-15T20:00", command: ["true"]}
  single:   {cron: "0 3 * * *", run_once: true, command: ["true"]}
  failing:  {cron: "10 */2 * * *", retry: {max_attempts: 3, backoff: 2m}, command: ["true"]}
  held:     {interval: 10m, on_repeated_failure: {after: 2, backoff_max: 2h}, command: ["true"]}
  first:    {cron: "0 * * * *", pools: [press], priority: 5, command: ["true"]}
  second:   {cron: "0 * * * *", pools: [press], command: ["true"]}
  third:    {cron: "0 */3 * * *", pools: [press], expires_after: 20m, command: ["true"]}
  member:   {command: ["true"]}
  broken:   {command: ["true"]}
  swept:    {command: ["true"]}
groups:
  nightly:  {cron: "30 */4 * * *", members: [member, broken, member, {job: swept, always: true}]}
  abreast:  {cron: "40 */6 * * *", mode: parallel, on_failure: continue, members: [member, swept]}
"""
TAKES = {
    "often": "90s",
    "long": "40m",
    "queued": "35m",
    "replaced": "65m",
    "allowed": "3h",
    "after": "1m",
    "started": "50m",
    "grid": "2m",
    "later": "1s",
    "once": "1m",
    "single": "1m",
    "failing": "30s",
    "held": "1s",
    "first": "15m",
    "second": "15m",
    "third": "5m",
    "member": "3m",
    "broken": "1m",
    "swept": "2m",
}
FAILING = ("failing", "held", "broken")


CADENCE = """
timezone: Europe/Madrid
quiet_hours: {windows: ["00:00-07:00"], policy: dormant}
budgets:
  hourly: {runs: 5, per: hour}
  daily:  {requests: 40, per: day, policy: skip}
poll: {run: poll, interval: {active: 5m, idle: 20m, dormant: never}}
defaults: {timeout: never, retry: false}
jobs:
  triage:   {interval: {active: 4m, idle: 15m, dormant: 1h}, command: ["true"]}
  never:    {interval: {active: 10m, idle: never, dormant: never}, command: ["true"]}
  started:  {interval: {active: 10m, idle: 30m, dormant: 2h}, anchor: start, jitter: 20%, command: ["true"]}
  needy:    {interval: 30m, needs_poll: true, command: ["true"]}
  nightly:  {cron: "15,45 * * * *", needs_poll: true, command: ["true"]}
  bounded:  {cron: "*/10 * * * *", budget: hourly, command: ["true"]}
  counted:  {cron: "*/20 * * * *", budget: daily, estimate: 2, command: ["true"]}
  deferred: {cron: "*/30 * * * *", quiet_hours: {windows: ["22:00-06:30"], policy: defer}, command: ["true"]}
  skipped:  {cron: "10 * * * *", quiet_hours: {windows: ["mon-fri 09:00-12:00"], policy: skip}, command: ["true"]}
  resting:  {interval: 2h, quiet_hours: {windows: ["20:00-05:00"], policy: defer}, command: ["true"]}
  working:  {cron: "5 * * * *", except: ["2026-11-16"], command: ["true"]}
"""
CADENCE_TAKES = {
    "triage": "1m",
    "never": "1m",
    "started": "4m",
    "needy": "2m",
    "nightly": "1m",
    "bounded": "30s",
    "counted": "1s",
    "deferred": "3m",
    "skipped": "1m",
    "resting": "1m",
    "working": "1m",
    "rota/poll": "0",
}


class PollsAtOnce:
    """Runs no function: every poll comes back at the moment at which it is made."""

    def __init__(self, scene: "PollingScene") -> None:
        self._scene = scene

    def prepare(self, claimed: Sequence[Claimed]) -> None: ...

    def begin(self, claimed: Claimed) -> None:
        finished = Finished(claimed.run.id, claimed.run.job_id, Outcome(Status.COMPLETED, poll={}))
        asyncio.get_running_loop().call_soon(self._scene.engine.all_ended, [finished])

    def stop(self, run_id: str) -> None: ...

    def holds(self, run_id: str) -> bool:
        return False

    async def until_free(self, job_id: str) -> None: ...

    async def check(self, claimed: Claimed, condition: Condition, *, index: int) -> ConditionResult:
        raise AssertionError("no job of these files asks a condition")


class PollingScene(Scene):
    """A scene in which a poll takes no time, neither the clock's nor ours."""

    def _make_engine(self, holder: ClaimOwner) -> Engine:
        polls = PollsAtOnce(self)
        return Engine(
            self.store,
            self.clock,
            settings=self.settings,
            holder=holder,
            processes=self.processes,
            functions=polls,
            server_now=self.server_now,
        )


class EveryName:
    """Knows every function: the poll's is the scene's own."""

    def find(self, functions: Sequence[str], conditions: Sequence[str]) -> Names:
        return Names()


async def scene_of(folder: Path, text: str) -> Scene:
    """Return a scheduler to which the file was just applied, at noon."""
    (folder / "rota.yaml").write_text(text)
    scene = PollingScene(folder, NOON, concurrency=3)
    await scene.start()
    declared = read_project(folder, environment={}, functions=EveryName(), now=NOON)
    scene.store.write(partial(apply_in, declared=declared, now=NOON))
    return scene


async def test_predicted_fires_are_those_of_a_real_run(tmp_path: Path) -> None:
    """From the middle of a day: with runs, queues, retries and a group in progress, and two jobs paused."""
    scene = await scene_of(tmp_path, FILE)
    try:
        await really(scene, days=7 / 24, takes=TAKES, failing=FAILING)
        pause(scene, "often", until=scene.clock.now() + timedelta(hours=5))
        pause(scene, "grid", until=None)
        await scene.advance("31m")
        state = scene.store.read(partial(copy_state, now=scene.clock.now()))
        since = scene.clock.now()
        predicted = simulated(state, days=1.5, takes=TAKES, failing=FAILING, since=since)
        real = await really(scene, days=1.5, takes=TAKES, failing=FAILING)
        assert audit(scene).violations == ()
    finally:
        await scene.close()
    assert len(state.runs) > 5
    assert state.groups
    assert predicted == [row for row in real if row[8] > since]


async def test_predicted_fires_follow_modes_quiet_hours_polls_and_budgets_as_a_real_run_does(tmp_path: Path) -> None:
    """R-16, R-17, R-18, R-19."""
    scene = await scene_of(tmp_path, CADENCE)
    try:
        state = scene.store.read(partial(copy_state, now=NOON))
        until = NOON + timedelta(days=1.25)
        person = at_work(WORK, "Europe/Madrid", since=NOON, until=until, last=state.activity)
        predicted = simulated(state, days=1.25, takes=CADENCE_TAKES, person=person)
        real = await really(scene, days=1.25, takes=CADENCE_TAKES, person=person)
        assert audit(scene).violations == ()
    finally:
        await scene.close()
    assert {row[5] for row in real} >= {None, "quiet_hours", "excluded", "budget"}
    assert predicted == real
