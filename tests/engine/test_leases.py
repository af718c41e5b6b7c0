"""Several machines on one database: leases, and what becomes of the runs of one that is lost (R-01, R-22, R-23)."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from rota.engine.clock import SystemClock
from rota.engine.loops.leases import Leases, lose
from rota.engine.loops.loop import pause_for
from rota.engine.transactions.finish import Finished, finish
from rota.model.errors import DatabaseBusy
from rota.model.records import Outcome
from rota.model.spec import Draw, Overlap, OverlapPolicy, Retry
from rota.model.states import Status
from rota.operations.group_actions import drain_worker
from rota.rules.liveness import LEASE, RENEW_EVERY
from rota.rules.queue_order import PoolFilter
from rota.store.driver import Operation
from rota.store.tables import processes
from rota.store.tables.queue import declare_pools
from rota.testing.scene import Scene
from tests.engine.conftest import command
from tests.engine.machines import Machine
from tests.waiting import LONGEST_WAIT

ALLOW = Overlap(OverlapPolicy.ALLOW)

pytestmark = pytest.mark.anyio


def leases(scene: Scene, *, ended: Callable[[str], None] = lambda _run_id: None) -> Leases:
    """Return the leases of the scene's own process, which is one of many here."""
    holder, claim_now = scene.session.holder, scene.engine.claim_now
    assert scene.store.write(partial(processes.renew_lease, epoch=holder.epoch, lease=LEASE))
    return Leases(scene.store, scene.clock, holder=holder, lost=lambda: None, changed=claim_now, ended=ended)


def for_as_long_as_a_lease_lasts(scene: Scene, kept: Leases) -> None:
    for _ in range(4):
        assert kept.renew()
        scene.clock.advance(RENEW_EVERY)
    assert kept.renew()


async def told(scene: Scene, *names: str) -> list[tuple[str, str | None]]:
    await scene.settle()
    return [one for name in names for one in scene.told(name)]


@pytest.fixture
async def alone(scene: Scene) -> Scene:
    """A scene whose own process claims nothing by itself."""
    scene.engine.claimer.allowed = False
    return scene


async def test_a_running_run_of_a_lost_machine_fails_as_worker_lost_r_22(alone: Scene) -> None:
    """R-22: and is retried by policy, like after a crash."""
    alone.declare(command("copy", retry=Retry(max_attempts=2)))
    alone.trigger("copy")
    other = Machine(alone, "b")
    (claimed,) = other.claim()
    assert other.start(claimed)
    other.vanish()
    left = alone.store.write(partial(lose, epoch=other.holder.epoch, worker="b", now=alone.clock.now()))
    assert left is not None
    assert (left.failed, left.requeued) == (1, 0)
    assert await told(alone, "copy") == [("FAILED", "worker_lost"), ("QUEUED", None)]


async def test_a_run_that_a_lost_machine_had_not_started_waits_again_r_01(alone: Scene) -> None:
    """R-01: no attempt is counted, the loss is."""
    alone.declare(command("copy"))
    alone.trigger("copy")
    other = Machine(alone, "b")
    other.claim()
    other.vanish()
    left = alone.store.write(partial(lose, epoch=other.holder.epoch, worker="b", now=alone.clock.now()))
    assert left is not None
    assert (left.failed, left.requeued) == (0, 1)
    assert await told(alone, "copy") == [("QUEUED", None)]
    assert alone.history("copy")[0].losses == 1


async def test_the_third_machine_lost_before_the_start_fails_the_run_r_01(alone: Scene) -> None:
    """R-01."""
    alone.declare(command("copy"))
    alone.trigger("copy")
    for name in "bcd":
        other = Machine(alone, name)
        assert other.claim()
        other.vanish()
        alone.store.write(partial(lose, epoch=other.holder.epoch, worker=name, now=alone.clock.now()))
    assert await told(alone, "copy") == [("FAILED", "worker_lost")]


async def test_a_machine_whose_lease_holds_is_not_lost_r_22(alone: Scene) -> None:
    """R-22: the lease is checked again inside the transaction that would act on it."""
    other = Machine(alone, "b")
    assert alone.store.write(partial(lose, epoch=other.holder.epoch, worker="b", now=alone.clock.now())) is None
    assert other.renew()


async def test_who_was_declared_lost_can_neither_claim_nor_write_nor_renew_r_22(alone: Scene) -> None:
    """R-22: every write of a run names its epoch."""
    alone.declare(command("copy"), command("move"))
    alone.trigger("copy")
    other = Machine(alone, "b")
    (claimed,) = other.claim()
    assert other.start(claimed)
    other.vanish()
    alone.store.write(partial(lose, epoch=other.holder.epoch, worker="b", now=alone.clock.now()))
    alone.trigger("move")
    assert other.claim() == []
    assert not other.renew()
    late = Finished(claimed.run.id, claimed.run.job_id, Outcome(Status.COMPLETED, None))
    writing = partial(finish, results=[late], epoch=other.holder.epoch, now=alone.clock.now())
    assert alone.store.write(writing) == {}
    assert await told(alone, "copy") == [("FAILED", "worker_lost")]


async def test_a_look_takes_back_what_a_lost_machine_had_r_22(scene: Scene) -> None:
    """R-22, G-09."""
    scene.declare(command("copy", retry=Retry(max_attempts=2, backoff=RENEW_EVERY)))
    scene.engine.claimer.allowed = False
    scene.trigger("copy")
    other = Machine(scene, "b")
    (claimed,) = other.claim()
    assert other.start(claimed)
    other.vanish()
    ended: list[str] = []
    kept = leases(scene, ended=ended.extend)
    for_as_long_as_a_lease_lasts(scene, kept)
    await kept.round()
    assert (await told(scene, "copy"))[0] == ("FAILED", "worker_lost")
    assert ended == [claimed.run.id]


async def test_who_could_not_renew_its_own_lease_declares_nobody_lost_r_22(scene: Scene) -> None:
    """R-22: after an outage of the database every lease is over, and nobody is lost."""
    other = Machine(scene, "b")
    kept = leases(scene)
    for_as_long_as_a_lease_lasts(scene, kept)
    scene.clock.advance("5m")
    assert kept.renew()
    other.vanish()
    await kept.round()
    assert other.renew()


async def test_a_drained_worker_takes_nothing_more_r_04(alone: Scene) -> None:
    """R-04."""
    alone.declare(command("copy"))
    alone.trigger("copy")
    other = Machine(alone, "b")
    assert drain_worker(alone.store, "b", draining=True)
    assert other.claim() == []
    assert drain_worker(alone.store, "b", draining=False)
    assert other.claim()
    other.vanish()
    alone.store.write(partial(lose, epoch=other.holder.epoch, worker="b", now=alone.clock.now()))


async def test_a_pool_of_one_holds_over_two_machines_r_03(alone: Scene) -> None:
    """R-03."""
    alone.store.write(partial(declare_pools, capacities={"db": 1}))
    alone.declare(command("copy", pools=(Draw("db"),)), command("move", pools=(Draw("db"),)))
    alone.trigger("copy")
    alone.trigger("move")
    here, there = Machine(alone, "b"), Machine(alone, "c")
    assert len(here.claim(4)) == 1
    assert there.claim(4) == []
    here.vanish()
    alone.store.write(partial(lose, epoch=here.holder.epoch, worker="b", now=alone.clock.now()))
    assert [one.run.job for one in there.claim(4)] == ["copy"]
    there.vanish()
    alone.store.write(partial(lose, epoch=there.holder.epoch, worker="c", now=alone.clock.now()))


async def test_a_worker_takes_only_runs_of_its_pools_and_leaves_those_it_must_not_take_r_03(alone: Scene) -> None:
    """R-03: what another worker takes keeps nobody waiting."""
    alone.store.write(partial(declare_pools, capacities={"gpu": 4}))
    alone.declare(command("draw", pools=(Draw("gpu"),), overlap=ALLOW), command("copy", overlap=ALLOW))
    for name in ("draw", "copy", "draw", "copy"):
        alone.trigger(name)
    gpu = Machine(alone, "gpu-box", takes=PoolFilter(only=("gpu",)))
    rest = Machine(alone, "small", takes=PoolFilter(but=("gpu",)))
    assert [one.run.job for one in rest.claim(4)] == ["copy", "copy"]
    assert [one.run.job for one in gpu.claim(4)] == ["draw", "draw"]
    for one in (gpu, rest):
        one.vanish()
        alone.store.write(partial(lose, epoch=one.holder.epoch, worker=one.name, now=alone.clock.now()))


class Refusing:
    """A store whose first writes fail."""

    def __init__(self, scene: Scene, times: int, *, error: Exception | None = None) -> None:
        self._scene = scene
        self._times = times
        self._error = error or ValueError("nobody foresaw this")
        self.read = scene.store.read

    def write(self, operation: Operation[Any]) -> Any:
        """Write, once it has failed often enough."""
        if self._times:
            self._times -= 1
            raise self._error
        return self._scene.store.write(operation)


async def test_a_lease_is_renewed_on_whatever_went_wrong_and_a_loss_is_heard_r_22(scene: Scene) -> None:
    """R-22: the thread that renews never ends by itself, but by a loss, of which the event loop hears."""
    heard = asyncio.Event()
    other = Machine(scene, "b")
    store: Any = Refusing(scene, times=1)
    kept = Leases(store, SystemClock(), holder=other.holder, lost=heard.set, changed=lambda: None)
    other.vanish()
    kept.start()
    await until_true(other.lives)
    kept.stop()
    other.vanish()
    scene.store.write(partial(lose, epoch=other.holder.epoch, worker="b", now=scene.clock.now()))
    again = Leases(scene.store, SystemClock(), holder=other.holder, lost=heard.set, changed=lambda: None)
    again.start()
    async with asyncio.timeout(LONGEST_WAIT):
        await heard.wait()
    again.stop()


@pytest.mark.parametrize("error", [ValueError("a bug"), DatabaseBusy("/srv/rota.db")])
async def test_a_renewal_that_fails_is_logged_with_a_traceback_where_nobody_foresaw_it(
    scene: Scene, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    other = Machine(scene, "b")
    store: Any = Refusing(scene, times=1, error=error)
    kept = Leases(store, SystemClock(), holder=other.holder, lost=lambda: None, changed=lambda: None)
    other.vanish()
    kept.start()
    await until_true(other.lives)
    kept.stop()
    (record,) = [one for one in caplog.records if "lease renewal failed" in one.getMessage()]
    assert record.getMessage() == f"lease renewal failed, retrying error={str(error)!r}"
    assert bool(record.exc_info) is isinstance(error, ValueError)


async def until_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST_WAIT):
        while not condition():
            await pause_for(timedelta(milliseconds=10))
