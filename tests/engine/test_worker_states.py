"""Who is there, what the machines take, and forgetting one that is gone (R-02, R-22)."""

from functools import partial

import pytest

from rota.engine.membership.locks import life_here
from rota.model.errors import UnknownWorker, WorkerAlive
from rota.model.spec import Draw
from rota.model.states import Held
from rota.operations.explain import held_by
from rota.operations.group_actions import drain_worker, forget_worker
from rota.operations.status.attention import machines_needing
from rota.operations.status.heartbeat import Heartbeat, Liveness
from rota.operations.workers import Presence, WorkerState, anybody_takes, worker_states
from rota.rules.queue_order import PoolFilter
from rota.store.tables import processes
from rota.testing.scene import Scene
from tests.engine.conftest import command
from tests.engine.machines import Machine
from tests.scene import ON_POSTGRES

pytestmark = pytest.mark.anyio

on_postgres = pytest.mark.skipif(not ON_POSTGRES, reason="of a database that machines share")


def states(scene: Scene) -> dict[str, Presence]:
    found = scene.store.read(partial(worker_states, state=scene.settings.state))
    return {one.worker.name: one.presence for one in found}


def named(scene: Scene, name: str) -> list[WorkerState]:
    found = scene.store.read(partial(worker_states, state=scene.settings.state))
    return [one for one in found if one.worker.name == name]


async def test_a_machine_is_there_while_its_lease_lasts_r_22(scene: Scene) -> None:
    """R-22."""
    other = Machine(scene, "b")
    assert states(scene)["b"] is Presence.ALIVE
    other.vanish()
    assert states(scene)["b"] is Presence.GONE


async def test_ones_own_folder_is_told_by_its_lock_r_22(scene: Scene) -> None:
    """R-22: a lease that could not be renewed does not make the process beside us a dead one."""
    (own,) = [one for one in scene.store.read(partial(worker_states, state=scene.settings.state)) if one.here]
    assert own.presence is Presence.ALIVE
    assert scene.store.read(partial(life_here, state=scene.settings.state)).own == own.worker.id


async def test_a_run_waits_as_no_worker_when_nobody_there_takes_its_pools_r_02(scene: Scene) -> None:
    """R-02: derived when somebody looks."""
    scene.engine.claimer.allowed = False
    Machine(scene, "small", takes=PoolFilter(but=("gpu",)))
    found = named(scene, "small")
    beat = Heartbeat(Liveness.ELSEWHERE, workers=tuple(found))
    assert anybody_takes(found, ())
    assert held_by(beat, [Draw("gpu")]).held is Held.NO_WORKER
    assert held_by(beat, []).held is None


async def test_machines_without_anybody_who_serves_need_somebody(scene: Scene) -> None:
    Machine(scene, "b")
    found = named(scene, "b")
    assert [one.name for one in machines_needing(found)] == ["workers"]
    assert list(machines_needing(())) == []


def needing(scene: Scene) -> list[str]:
    found = scene.store.read(partial(worker_states, state=scene.settings.state))
    return [f"{one.name} {one.what}   {one.command}" for one in machines_needing(found)]


async def test_machines_that_are_all_drained_need_somebody_and_runs_say_whom_they_wait_for(scene: Scene) -> None:
    Machine(scene, "b", kind="serve")
    own = next(
        one.worker.called for one in scene.store.read(partial(worker_states, state=scene.settings.state)) if one.here
    )
    assert needing(scene) == []
    for name in (own, "b"):
        drain_worker(scene.store, name, draining=True)
    names = ", ".join(sorted((own, "b")))
    first = min(own, "b")
    assert needing(scene) == [
        f"workers all running workers are drained ({names}): no run is claimed   rota workers resume {first}"
    ]
    states_now = scene.store.read(partial(worker_states, state=scene.settings.state))
    why = held_by(Heartbeat(Liveness.RUNNING, workers=states_now), ())
    assert why.held is Held.NO_WORKER
    assert why.text.startswith(f"for a worker: all running workers are drained ({names})")


async def test_a_machine_that_was_drained_for_its_crashes_says_so_until_it_is_resumed(scene: Scene) -> None:
    """R-23."""
    other = Machine(scene, "b", kind="serve")
    scene.store.write(partial(processes.drain, worker_id=other.holder.worker_id, draining=True, crashes=6))
    wanted = "b was drained because it crashed 6 times in a row: find the cause   rota workers resume b"
    assert needing(scene) == [wanted]
    drain_worker(scene.store, "b", draining=False)
    drain_worker(scene.store, "b", draining=True)
    assert needing(scene) == []


@on_postgres
async def test_a_machine_that_is_gone_is_forgotten_with_what_it_had(scene: Scene) -> None:
    """R-22: what it left to its keepers has failed then."""
    scene.engine.claimer.allowed = False
    scene.declare(command("copy"))
    scene.trigger("copy")
    other = Machine(scene, "b")
    (claimed,) = other.claim()
    assert other.start(claimed)
    with pytest.raises(WorkerAlive):
        forget_worker(scene.store, scene.settings.state, "b", now=scene.clock.now())
    other.vanish()
    assert forget_worker(scene.store, scene.settings.state, "b", now=scene.clock.now(), dry_run=True) == 1
    assert forget_worker(scene.store, scene.settings.state, "b", now=scene.clock.now()) == 1
    assert scene.told("copy") == [("FAILED", "worker_lost")]
    assert "b" not in states(scene)
    with pytest.raises(UnknownWorker):
        forget_worker(scene.store, scene.settings.state, "b", now=scene.clock.now())
