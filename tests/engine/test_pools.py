"""Pools on a playing scheduler: never more than there is, nobody else held back, right after a crash (R-03, R-04)."""

import asyncio
import threading
from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from rota.engine.loops.pruner import Pruner
from rota.engine.recovery import settle_restored
from rota.model.records import Outcome
from rota.model.spec import Condition, Draw, Gates, JobSpec, OnRestart, Retention, Retry, WhenFalse
from rota.model.states import Reason, Status
from rota.operations.capacity import pool_views, pool_wait
from rota.operations.explain import explain
from rota.operations.project.apply import apply
from rota.operations.run_actions import cancel_run
from rota.settings import SchedulerSettings, Settings
from rota.store.tables import direct_calls, queue
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from rota.text.jobs import say_shortage
from tests.engine.calling import call
from tests.engine.conftest import ALLOW, audit, command, function
from tests.engine.test_apply import declared
from tests.scene import one_machine, tamper

pytestmark = pytest.mark.anyio

OLLAMA = (Draw("ollama"),)
MINUTE = timedelta(minutes=1)


def put(scene: Scene, *specs: JobSpec, aging: timedelta | None = None, **capacities: int) -> None:
    """Apply these jobs and pools as the whole file."""
    file = declared(scene, *specs)
    scheduler = SchedulerSettings(aging=aging)
    file.settings = Settings(scene.settings.folder, scene.settings.state, scheduler=scheduler, pools=capacities)
    apply(scene.store, file, now=scene.clock.now())


def drawing(name: str, *draws: Draw, takes: timedelta, scene: Scene, **changes) -> JobSpec:
    scene.processes.scripts[name] = Script(takes=takes)
    return command(name, overlap=ALLOW, pools=draws, **changes)


def used(scene: Scene) -> dict[str, int]:
    return {pool.name: pool.used for pool in scene.store.read(queue.pools)}


def running(scene: Scene) -> set[str]:
    return {handle for view in scene.store.read(pool_views) for handle in view.holders}


def most_at_once(scene: Scene, name: str) -> int:
    """Return how many runs of a job ran at the same time at most."""
    spans = [(run.started_at, run.finished_at) for run in scene.history(name)]
    return max(sum(start <= at < end for start, end in spans) for at, _ in spans)


async def test_a_pool_of_one_never_holds_two(scene: Scene) -> None:
    """CON-002, DEC-011: with 16 free slots."""
    put(scene, drawing("model", *OLLAMA, takes=MINUTE, scene=scene), ollama=1)
    for _ in range(5):
        scene.trigger("model")
    await scene.advance("10m")
    assert scene.told("model") == [("COMPLETED", None)] * 5
    assert most_at_once(scene, "model") == 1
    assert scene.processes.begun == [f"model:{number}" for number in range(1, 6)]


async def test_a_pool_of_three_holds_three(scene: Scene) -> None:
    put(scene, drawing("model", *OLLAMA, takes=MINUTE, scene=scene), ollama=3)
    for _ in range(7):
        scene.trigger("model")
    await scene.advance("10m")
    assert most_at_once(scene, "model") == 3


async def test_a_full_pool_never_holds_back_others(scene: Scene) -> None:
    """RISK-4, R-03."""
    model = drawing("model", *OLLAMA, takes=MINUTE, scene=scene, priority=9)
    put(scene, model, command("plain"), drawing("other", Draw("gpu"), takes=MINUTE, scene=scene), ollama=1, gpu=1)
    for name in ("model", "model", "model", "plain", "other"):
        scene.trigger(name)
    await scene.settle()
    assert scene.told("plain") == [("COMPLETED", None)]
    assert running(scene) == {"model:1", "other:1"}


async def test_a_costly_head_is_not_starved_by_cheap_runs_behind_it(scene: Scene) -> None:
    """R-03: no later run overtakes it in its pool."""
    cheap = drawing("cheap", Draw("gpu"), takes=MINUTE, scene=scene)
    put(scene, cheap, drawing("costly", Draw("gpu", 2), takes=MINUTE, scene=scene), gpu=2)
    scene.trigger("cheap")
    await scene.settle()
    scene.trigger("costly")
    scene.trigger("cheap")
    await scene.settle()
    assert running(scene) == {"cheap:1"}
    await scene.advance("1m")
    assert running(scene) == {"costly:1"}
    await scene.advance("1m")
    assert running(scene) == {"cheap:2"}


async def test_raising_a_capacity_starts_what_waited(scene: Scene) -> None:
    """Capacities change at once, also while runs are in progress."""
    model = drawing("model", *OLLAMA, takes=MINUTE, scene=scene)
    put(scene, model, ollama=1)
    for _ in range(3):
        scene.trigger("model")
    await scene.settle()
    assert len(running(scene)) == 1
    put(scene, model, ollama=3)
    await scene.settle()
    assert len(running(scene)) == 3


async def test_lowering_a_capacity_lets_what_runs_finish_and_starts_less(scene: Scene) -> None:
    model = drawing("model", *OLLAMA, takes=MINUTE, scene=scene)
    put(scene, model, ollama=2)
    for _ in range(4):
        scene.trigger("model")
    await scene.settle()
    put(scene, model, ollama=1)
    await scene.settle()
    assert running(scene) == {"model:1", "model:2"}
    await scene.advance("1m")
    assert running(scene) == {"model:3"}


async def test_runs_of_an_older_definition_still_draw_on_a_pool_that_is_gone_from_the_file(scene: Scene) -> None:
    """INV-005, R-14."""
    model = drawing("model", *OLLAMA, takes=MINUTE, scene=scene)
    put(scene, model, ollama=1)
    for _ in range(2):
        scene.trigger("model")
    await scene.settle()
    put(scene, replace(model, pools=()))
    scene.trigger("model")
    await scene.settle()
    assert scene.told("model") == [("RUNNING", None), ("QUEUED", None), ("RUNNING", None)]
    await scene.advance("2m")
    assert scene.told("model") == [("COMPLETED", None)] * 3


async def test_a_crash_keeps_the_counters_right_whatever_became_of_the_runs(scene: Scene) -> None:
    """R-23: one is adopted, one is killed, one had not started; verify recounts."""
    adopted = drawing("adopted", Draw("gpu"), takes=10 * MINUTE, scene=scene)
    killed = drawing("killed", Draw("gpu", 2), takes=10 * MINUTE, scene=scene)
    killed = replace(killed, work=replace(killed.work, on_restart=OnRestart.KILL))
    put(scene, adopted, killed, gpu=4)
    scene.trigger("adopted")
    scene.trigger("killed")
    await scene.settle()
    assert used(scene) == {"gpu": 3}
    await scene.crash()
    assert used(scene) == {"gpu": 3}
    await scene.start()
    await scene.settle()
    assert used(scene) == {"gpu": 1}
    await scene.advance("10m")
    assert used(scene) == {"gpu": 0}


async def test_a_crash_at_the_gates_gives_the_pools_back(scene: Scene) -> None:
    """R-01, R-23: a run that never started is queued again."""
    answer = threading.Event()
    scene.table.conditions = {"slow": lambda context: answer.wait()}
    gates = Gates(conditions=(Condition("slow"),))
    put(scene, command("gated", pools=OLLAMA, gates=gates), ollama=1)
    scene.trigger("gated")
    await scene.settle()
    assert used(scene) == {"ollama": 1}
    await scene.crash()
    answer.set()
    await scene.start()
    assert scene.told("gated") == [("QUEUED", None)]
    assert used(scene) == {"ollama": 0}


async def test_a_run_that_waits_for_its_condition_gives_its_pools_back(scene: Scene) -> None:
    """R-09: slot and pools."""
    scene.processes.conditions["ready"] = "false"
    gates = Gates(conditions=(Condition(command=("ready",)),), when_false=WhenFalse.WAIT)
    put(scene, command("gated", pools=OLLAMA, gates=gates), ollama=1)
    scene.trigger("gated")
    await scene.settle()
    assert scene.told("gated") == [("QUEUED", None)]
    assert used(scene) == {"ollama": 0}


async def test_order_and_waiting_reasons_survive_a_restart(scene: Scene) -> None:
    """DEC-008, INV-004: also behind a full pool."""
    model = drawing("model", *OLLAMA, takes=MINUTE, scene=scene)
    put(scene, model, replace(drawing("first", *OLLAMA, takes=MINUTE, scene=scene), priority=5), ollama=1)
    for name in ("model", "model", "first", "model"):
        scene.trigger(name)
    await scene.settle()
    before = [(run.id, run.waiting_for, run.rank, run.position) for run in scene.history("model")]
    await scene.crash()
    await scene.start()
    assert [(run.id, run.waiting_for, run.rank, run.position) for run in scene.history("model")] == before
    await scene.advance("10m")
    assert scene.processes.begun == ["first:1", "model:1", "model:2", "model:3"]


async def test_cancelling_a_running_run_gives_its_pools_to_the_next(scene: Scene) -> None:
    put(scene, drawing("model", *OLLAMA, takes=MINUTE, scene=scene), ollama=1)
    for _ in range(2):
        scene.trigger("model")
    await scene.settle()
    cancel_run(scene.store, "model:1", now=scene.clock.now())
    await scene.settle()
    assert running(scene) == {"model:2"}


async def abandoned(scene: Scene, let_go: threading.Event) -> None:
    """Play until a run has ended whose thread goes on."""
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stubborn(context) -> None:
        loop.call_soon_threadsafe(begun.set)
        let_go.wait()

    scene.table.functions = {"stubborn": stubborn, "next": lambda context: None}
    put(scene, function("stubborn", pools=OLLAMA), function("next", pools=OLLAMA), ollama=1)
    handle = scene.trigger("stubborn")
    await scene.settle()
    await begun.wait()
    cancel_run(scene.store, handle, now=scene.clock.now())
    await scene.settle()
    await scene.engine.until_empty()
    assert scene.told("stubborn") == [("CANCELLED", "requested")]


async def test_a_thread_that_outlives_its_run_keeps_its_pool_until_it_returns(scene: Scene) -> None:
    """Section 7: it cannot be killed, and may still use what it drew."""
    let_go = threading.Event()
    await abandoned(scene, let_go)
    scene.trigger("next")
    await scene.settle()
    assert running(scene) == {"stubborn:1 (abandoned)"}
    assert scene.told("next") == [("QUEUED", None)]
    assert audit(scene).violations == ()
    let_go.set()
    while scene.told("next") != [("COMPLETED", None)]:
        await scene.quiet()
    assert used(scene) == {"ollama": 0}


async def test_the_threads_of_a_crashed_process_keep_nothing(scene: Scene) -> None:
    """R-23: they went with it."""
    let_go = threading.Event()
    await abandoned(scene, let_go)
    assert used(scene) == {"ollama": 1}
    await scene.crash()
    await scene.start()
    assert used(scene) == {"ollama": 0}
    let_go.set()


async def test_under_aging_an_old_run_of_a_low_priority_comes_before_newer_ones_of_a_high_one(scene: Scene) -> None:
    """RISK-4, R-03: overtaken only by what was made less than (5 - 0) × 1 min after it."""
    low, high = (drawing(name, *OLLAMA, takes=MINUTE, scene=scene) for name in ("low", "high"))
    busy = drawing("busy", *OLLAMA, takes=10 * MINUTE, scene=scene)
    put(scene, low, replace(high, priority=5), busy, ollama=1, aging=MINUTE)
    scene.trigger("busy")
    await scene.settle()
    scene.trigger("low")
    await scene.advance("4m")
    scene.trigger("high")
    await scene.advance("2m")
    scene.trigger("high")
    await scene.advance("20m")
    assert scene.processes.begun == ["busy:1", "high:1", "low:1", "high:2"]


async def test_a_waiting_run_names_the_pool_and_who_holds_it(scene: Scene) -> None:
    """R-02: derived when read, never stored."""
    put(scene, drawing("model", *OLLAMA, takes=MINUTE, scene=scene), ollama=1)
    for _ in range(2):
        scene.trigger("model")
    await scene.settle()
    waiting = scene.history("model")[1]
    found = scene.store.read(partial(pool_wait, run=waiting))
    assert found is not None
    said = say_shortage(found.shortage, holders=found.holders, behind=found.behind)
    assert said == 'the pool "ollama": 1 of 1 used by model:1'


async def test_explain_names_the_run_that_a_pool_is_kept_for(scene: Scene) -> None:
    """R-03: a costly head holds its pool."""
    cheap = drawing("cheap", Draw("gpu"), takes=MINUTE, scene=scene)
    put(scene, cheap, drawing("costly", Draw("gpu", 2), takes=MINUTE, scene=scene), gpu=2)
    scene.trigger("cheap")
    await scene.settle()
    scene.trigger("costly")
    scene.trigger("cheap")
    await scene.settle()
    found = scene.store.read(partial(pool_wait, run=scene.history("cheap")[1]))
    assert found is not None
    assert found.behind == "costly:1"


async def test_a_run_that_waits_for_no_pool_is_told_so(scene: Scene) -> None:
    put(scene, drawing("model", *OLLAMA, takes=MINUTE, scene=scene), command("plain"), ollama=1)
    handles = [scene.trigger("model"), scene.trigger("plain")]
    queued = [scene.history(handle.partition(":")[0])[0] for handle in handles]
    assert [scene.store.read(partial(pool_wait, run=run)) for run in queued] == [None, None]


@one_machine
async def test_without_a_scheduler_explain_says_so_first(scene: Scene) -> None:
    put(scene, drawing("model", *OLLAMA, takes=MINUTE, scene=scene), ollama=0)
    scene.trigger("model")
    found = explain(scene.store, "model:1", state=scene.settings.state, now=scene.clock.now())
    assert any("none is running here" in line.text for line in found.run_lines)


async def test_a_restored_database_draws_on_nothing(unaudited: Scene) -> None:
    """What ran, was called or was left behind by a thread there does not run here."""
    scene, let_go = unaudited, threading.Event()
    await abandoned(scene, let_go)
    long = drawing("long", Draw("gpu"), takes=MINUTE, scene=scene)
    put(scene, function("stubborn", pools=OLLAMA), long, ollama=1, gpu=2)
    scene.trigger("long")
    await scene.settle()
    for _ in range(2):
        call(scene, "long")
    await scene.settle()
    assert used(scene) == {"gpu": 2, "ollama": 1}
    now = scene.clock.now()
    scene.store.write(partial(settle_restored, made_at=now, host="elsewhere", reason="restored", now=now))
    assert used(scene) == {"gpu": 0, "ollama": 0}
    assert scene.told("long") == [("FAILED", "process_restarted")]
    assert scene.store.read(direct_calls.calls) == []
    let_go.set()


class TestVerify:
    async def test_a_counter_that_is_wrong_is_found(self, unaudited: Scene) -> None:
        """R-03: verify recounts."""
        put(unaudited, drawing("model", *OLLAMA, takes=MINUTE, scene=unaudited), ollama=2)
        unaudited.trigger("model")
        await unaudited.settle()
        assert audit(unaudited).violations == ()
        unaudited.store.write(lambda db: queue.take(db, OLLAMA))
        (found,) = audit(unaudited).violations
        assert str(found.text) == "the pool ollama counts 2 as used, but 1 is drawn"

    async def test_a_run_in_the_wrong_lane_is_found(self, unaudited: Scene) -> None:
        put(unaudited, drawing("model", *OLLAMA, takes=MINUTE, scene=unaudited), command("plain"), ollama=0)
        unaudited.trigger("model")
        handle = unaudited.trigger("plain")
        lane = unaudited.history("model")[0].lane_id
        tamper(unaudited, *(f"UPDATE {table} SET lane_id = {lane} WHERE lane_id = 1" for table in ("run", "live")))
        (found,) = audit(unaudited).violations
        assert (found.run, found.check) == (handle, "pool")

    async def test_a_rank_that_is_not_the_priority_is_found(self, unaudited: Scene) -> None:
        """INV-004."""
        put(unaudited, command("plain"))
        handle = unaudited.trigger("plain")
        tamper(unaudited, "UPDATE live SET rank = 7")
        (found,) = audit(unaudited).violations
        assert (found.run, found.check) == (handle, "order")


class TestPruning:
    async def test_a_chain_goes_as_one_when_its_last_run_is_old(self, scene: Scene) -> None:
        failing = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1))
        scene.processes.scripts["flaky"] = failing
        spec = command("flaky", retry=Retry(max_attempts=3), retention=Retention(runs=timedelta(days=1)))
        put(scene, spec)
        scene.trigger("flaky")
        await scene.advance("1h")
        assert scene.told("flaky") == [("FAILED", "exit_code")] * 3
        await prune(scene)
        assert len(scene.history("flaky")) == 3
        await scene.advance("2d")
        await prune(scene)
        assert scene.history("flaky") == []


async def prune(scene: Scene) -> None:
    await Pruner(scene.store, scene.clock, scene.settings).round()
