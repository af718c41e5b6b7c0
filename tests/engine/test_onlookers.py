"""Who looks on at a scheduler costs it nothing, whatever happens to them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from rota.model.errors import DatabaseGone
from rota.model.records import Outcome, Run
from rota.model.spec import Condition, Gates, WhenFalse
from rota.model.states import Reason, Status
from rota.operations.run_actions import cancel_run
from rota.operations.status.feed import QueueWatch, ended_with
from rota.store.driver import Operation, Store
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import command
from tests.engine.test_groups import declare, group

pytestmark = pytest.mark.anyio


async def test_runs_that_end_together_all_leave_although_the_end_of_one_cannot_be_shown(scene: Scene) -> None:
    """R-08: the database is gone when the console reads what it shows; a stop would wait for the others for ever."""

    def unable(run_ids: Sequence[str]) -> None:
        raise DatabaseGone(f"{run_ids} cannot be read")

    scene.engine._on_finished = unable
    scene.declare(command("one"), command("two"), command("three"))
    for name in ("one", "two", "three"):
        scene.trigger(name)
    await scene.settle()
    await scene.advance("1h")
    assert [scene.told(name) for name in ("one", "two", "three")] == [[("COMPLETED", None)]] * 3
    assert not scene.engine.busy


async def test_a_run_that_expired_in_the_queue_is_shown_like_one_that_ran(scene: Scene) -> None:
    """R-09: nothing ends in silence."""
    shown: list[str] = []
    scene.engine._on_finished = lambda _run_ids: shown.append(scene.history("stale")[0].status)
    scene.processes.conditions["./look"] = "false"
    gates = Gates((Condition(command=("./look",)),), when_false=WhenFalse.WAIT, expires_after=timedelta(minutes=5))
    scene.declare(command("stale", gates=gates))
    scene.trigger("stale")
    await scene.advance("10m")
    assert scene.told("stale") == [("SKIPPED", "expired")]
    assert shown[-1] == "SKIPPED"


class Onlooker:
    """Somebody who is told what ends, as the console of `rota serve` is."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.watch = QueueWatch(scene.store)
        self.shown: list[tuple[str, str]] = []
        scene.engine._on_finished = self.take

    def take(self, run_ids: Sequence[str]) -> None:
        for run in ended_with(self.scene.store, run_ids):
            if self.watch.tells(run):
                self.show(run)

    def show(self, run: Run) -> None:
        self.shown.append((run.handle, run.reason.value if run.reason else ""))

    def look(self) -> None:
        self.watch.stir()
        for run in self.watch.look():
            self.show(run)


@pytest.fixture
async def onlooker(scene: Scene) -> Onlooker:
    onlooker = Onlooker(scene)
    await onlooker.watch.begin()
    return onlooker


async def test_a_queued_run_that_somebody_cancels_is_shown_once(scene: Scene, onlooker: Onlooker) -> None:
    scene.engine.claimer.allowed = False
    scene.declare(command("waits"))
    scene.trigger("waits")
    cancel_run(scene.store, "waits", now=scene.clock.now())
    onlooker.look()
    onlooker.look()
    assert onlooker.shown == [("waits:1", "requested")]


async def test_a_running_run_that_somebody_cancels_is_shown_once(scene: Scene, onlooker: Onlooker) -> None:
    scene.processes.scripts["runs"] = Script(takes=timedelta(hours=1))
    scene.declare(command("runs"))
    scene.trigger("runs")
    await scene.settle()
    cancel_run(scene.store, "runs", now=scene.clock.now())
    scene.engine.wake()
    await scene.settle()
    onlooker.look()
    assert onlooker.shown == [("runs:1", "requested")]


async def test_members_that_a_failure_takes_along_are_shown_after_it(scene: Scene, onlooker: Onlooker) -> None:
    declare(scene, group("nightly", "a", "b"))
    scene.processes.scripts["a"] = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1))
    scene.trigger("nightly")
    await scene.settle()
    onlooker.look()
    assert onlooker.shown == [("a:1", "exit_code"), ("nightly:1", "members_failed"), ("b:1", "predecessor_failed")]


async def test_the_end_of_a_group_is_shown_once_although_its_last_member_ended_a_moment_before(
    scene: Scene, onlooker: Onlooker
) -> None:
    """A keeper notes when its command ended, the group ends when that is recorded."""
    declare(scene, group("nightly", "a"))
    scene.trigger("nightly")
    await scene.settle()
    scene.engine._on_finished = lambda _run_ids: None  # nobody hears of the member
    await scene.advance("1h")
    onlooker.look()
    onlooker.look()
    assert onlooker.shown == [("nightly:1", "")]


async def test_what_was_cancelled_before_somebody_looked_on_is_not_shown(scene: Scene) -> None:
    scene.engine.claimer.allowed = False
    scene.declare(command("waits"))
    scene.trigger("waits")
    cancel_run(scene.store, "waits", now=scene.clock.now())
    onlooker = Onlooker(scene)
    await onlooker.watch.begin()
    onlooker.look()
    assert onlooker.shown == []


async def test_a_look_that_fails_is_looked_for_again(scene: Scene, onlooker: Onlooker) -> None:
    """A read that breaks off runs again, on another connection."""
    scene.engine.claimer.allowed = False
    scene.declare(command("waits"))
    scene.trigger("waits")
    cancel_run(scene.store, "waits", now=scene.clock.now())
    onlooker.watch = watch = QueueWatch(Breaking(scene.store))
    watch.stir()
    with pytest.raises(DatabaseGone):
        watch.look()
    onlooker.look()
    assert onlooker.shown == [("waits:1", "requested")]


class Breaking:
    """A store whose first read breaks off at its end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._breaks = True

    def read(self, operation: Operation[Any]) -> Any:
        found = self._store.read(operation)
        if self._breaks:
            self._breaks = False
            raise DatabaseGone("the database is gone", hint="")
        return found


async def test_what_a_look_has_found_is_not_told_again(scene: Scene, onlooker: Onlooker) -> None:
    """What is committed can be found before those hear of it who did it."""
    declare(scene, group("nightly", "a"))
    scene.trigger("nightly")
    await scene.settle()
    hear, scene.engine._on_finished = scene.engine._on_finished, lambda _run_ids: None
    await scene.advance("1h")
    onlooker.look()
    hear([scene.history("a")[0].id])
    assert onlooker.shown == [("nightly:1", ""), ("a:1", "")]
