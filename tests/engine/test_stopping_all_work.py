"""Each way to stop with every kind of work: queued, running, called directly, reserved, in a group (CON-003, R-08)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import Struct

from rota.engine.membership.shutdown import Stop, StopMode, Stopping
from rota.engine.transactions import direct_calls
from rota.model.records import Outcome, ProcessIdentity
from rota.model.spec import JobSpec, Kind, Member, Retry, Work
from rota.model.states import Status
from rota.store.tables import direct_calls as direct_calls_table
from rota.testing.doubles import Script
from tests.engine.calling import call, reserve, told
from tests.engine.conftest import NOON, audit, command
from tests.scene import Scene

pytestmark = pytest.mark.anyio

HOUR, NO_TIME = timedelta(hours=1), timedelta()
QUEUED, RUNNING, COMPLETED = ("QUEUED", None), ("RUNNING", None), ("COMPLETED", None)
SHUT_DOWN = ("FAILED", "shutdown")


class Busy(Struct):
    """A scheduler whose four slots are taken by every kind of work, with more of it waiting."""

    scene: Scene
    caller: ProcessIdentity
    called: str = ""
    reserved: str = ""
    waiting: str = ""

    def stands(self) -> dict[str, object]:
        """Return how everything stands: the first run of each job, and the direct calls."""
        runs = {name: self.scene.told(name)[0] for name in ("long", "first", "second", "nightly", "queued")}
        calls = {"called": self.called, "reserved": self.reserved, "waiting": self.waiting}
        return {**runs, **{name: told(self.scene, one) for name, one in calls.items()}}

    def hand_back(self) -> None:
        """End the caller's own code, which had a slot."""
        now, done = self.scene.clock.now(), Outcome(Status.COMPLETED)
        self.scene.store.write(lambda db: direct_calls.finish(db, self.reserved, done, epoch=None, now=now))


@pytest.fixture
async def busy(tmp_path: Path) -> AsyncIterator[Busy]:
    scene = Scene(tmp_path, NOON, concurrency=4)
    await scene.start()
    for name in ("long", "first", "second", "queued", "extract"):
        scene.processes.scripts[name] = Script(takes=HOUR)
        scene.declare(command(name, retry=Retry(max_attempts=1)))
    members = (Member("first"), Member("second"))
    scene.declare(JobSpec("nightly", Work(Kind.GROUP, members=members)))
    made = Busy(scene, scene.processes.caller())
    scene.trigger("long")
    scene.trigger("nightly")
    await scene.settle()
    made.called = call(scene, "extract")
    made.reserved = reserve(scene, caller=made.caller)
    await scene.settle()
    scene.trigger("queued")
    made.waiting = call(scene, "extract")
    await scene.settle()
    scene.engine.quiesce()
    yield made
    await scene.quiet()
    assert audit(scene).violations == ()
    await scene.close()


async def test_before_the_stop_everything_is_at_work_or_waits(busy: Busy) -> None:
    assert busy.stands() == {
        "long": RUNNING,
        "first": RUNNING,
        "second": QUEUED,
        "nightly": RUNNING,
        "queued": QUEUED,
        "called": RUNNING,
        "reserved": RUNNING,
        "waiting": QUEUED,
    }


async def test_when_idle_waits_for_all_that_runs_and_starts_nothing_more(busy: Busy) -> None:
    """CON-003: runs, direct calls and reserved slots may finish; queued work and the rest of a group stay."""
    stopping = asyncio.create_task(Stopping().carry_out(Stop("idle", None), busy.scene.engine))
    await busy.scene.quiet()
    assert told(busy.scene, busy.waiting) is None
    await busy.scene.advance(HOUR)
    assert not stopping.done()  # the reserved slot is still the caller's
    busy.hand_back()
    await busy.scene.settle()
    assert await stopping is False
    assert busy.stands() == {
        "long": COMPLETED,
        "first": COMPLETED,
        "second": QUEUED,
        "nightly": RUNNING,
        "queued": QUEUED,
        "called": COMPLETED,
        "reserved": COMPLETED,
        "waiting": None,
    }


@pytest.mark.parametrize("mode", ["grace", "within", "now"])
async def test_when_the_time_is_over_all_that_runs_is_ended(busy: Busy, mode: StopMode) -> None:
    """R-08: FAILED/shutdown; the caller's own code goes on, without its slot."""
    assert await Stopping().carry_out(Stop(mode, NO_TIME), busy.scene.engine) is False
    assert busy.stands() == {
        "long": SHUT_DOWN,
        "first": SHUT_DOWN,
        "second": ("CANCELLED", "predecessor_failed"),
        "nightly": ("FAILED", "members_failed"),
        "queued": QUEUED,
        "called": SHUT_DOWN,
        "reserved": SHUT_DOWN,
        "waiting": None,
    }
    assert not busy.scene.engine.busy


async def test_detach_leaves_commands_and_reserved_slots_to_the_next_scheduler(busy: Busy) -> None:
    """R-23: nothing is interrupted; only who waited for a direct call is sent away."""
    assert await Stopping().carry_out(Stop("detach", NO_TIME), busy.scene.engine) is True
    left = {
        "long": RUNNING,
        "first": RUNNING,
        "second": QUEUED,
        "nightly": RUNNING,
        "queued": QUEUED,
        "called": RUNNING,
        "reserved": RUNNING,
        "waiting": None,
    }
    assert busy.stands() == left
    await busy.scene.crash()
    assert await busy.scene.start() == 4
    assert busy.stands() == left
    busy.hand_back()
    await busy.scene.advance(3 * HOUR)
    assert set(busy.stands().values()) == {COMPLETED, None}


@pytest.mark.parametrize("mode", ["idle", "grace", "within", "now", "detach"])
async def test_who_comes_while_the_scheduler_stops_is_sent_away(busy: Busy, mode: StopMode) -> None:
    """R-13: a waiting caller is told, however the scheduler stops."""
    within = HOUR if mode in ("grace", "within") else None if mode == "idle" else NO_TIME
    busy.scene.processes.scripts["extract"] = Script(takes=HOUR)
    stopping = asyncio.create_task(Stopping().carry_out(Stop(mode, within), busy.scene.engine))
    late = call(busy.scene, "extract")
    await busy.scene.settle()
    assert told(busy.scene, late) is None
    assert [one.slot for one in busy.scene.store.read(direct_calls_table.calls)] == []
    busy.hand_back()
    await busy.scene.advance(HOUR)
    await stopping


async def test_what_stayed_queued_starts_with_the_next_scheduler(busy: Busy) -> None:
    """DEC-008."""
    await Stopping().carry_out(Stop("now", NO_TIME), busy.scene.engine)
    await busy.scene.crash()
    await busy.scene.start()
    await busy.scene.settle()
    assert busy.scene.told("queued") == [RUNNING]
    await busy.scene.advance(HOUR)
