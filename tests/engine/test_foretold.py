"""What will be claimed is made ready while the claim is being stored; nothing of it begins before that is done."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.model.errors import StateError
from rota.model.spec import Retry
from rota.model.states import Reason
from rota.store.driver import PLAIN, Database, Operation, Store, WriteOptions
from tests.engine.conftest import ALLOW, NOON, audit, function
from tests.engine.real_work import play_runs
from tests.scene import Scene

pytestmark = pytest.mark.anyio
RUNS = 3


class Foretelling:
    """A store that foretells what comes of operations, whatever is below it; so many of them are `refused` then."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read, self.write, self.close = store.read, store.write, store.close
        self.refused = 0
        self.silent = False
        self.foretold: list[Any] = []

    def submit(self, operation: Operation[Any], manner: WriteOptions = PLAIN) -> "asyncio.Future[Any]":
        foretold = manner.on_precommit
        if foretold is None or self.silent:
            return self._store.submit(operation, manner)
        loop, refuses = asyncio.get_running_loop(), self.refused > 0
        self.refused -= refuses

        def tell(value: Any) -> None:
            self.foretold.append(value)
            foretold(value)

        def play(db: Database) -> Any:
            value = operation(db)
            loop.call_soon_threadsafe(tell, value)
            if refuses:
                raise StateError("no room", hint="make some")
            return value

        return self._store.submit(play, WriteOptions(prefetch=manner.prefetch))


class Counted(dict[str, Any]):
    """Functions by name; how often one was looked up is how many calls were made ready."""

    looked_up = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.looked_up += 1
        return super().get(name, default)


class ForetellingScene(Scene):
    """A scene on such a store."""

    telling: Foretelling

    def open_database(self) -> Store:
        self.telling = Foretelling(super().open_database())
        return self.telling


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[ForetellingScene]:
    made = ForetellingScene(tmp_path, NOON)
    await made.start()
    try:
        yield made
        assert audit(made).violations == ()
    finally:
        await made.close()


async def test_what_was_made_ready_is_called_once_with_its_own_run(scene: ForetellingScene) -> None:
    seen = []
    made = scene.table.functions = Counted({"work": lambda context: seen.append(context.run.handle)})
    scene.declare(function("work", overlap=ALLOW))
    await play_runs(scene, "work", runs=RUNS)
    assert sorted(seen) == ["work:1", "work:2", "work:3"]
    assert made.looked_up == RUNS, "what was made ready was made again"
    assert sum(len(claims.claimed) for claims in scene.telling.foretold) == RUNS


async def test_a_claim_that_is_foretold_and_then_refused_begins_nothing(scene: ForetellingScene) -> None:
    seen = []
    scene.table.functions = {"work": lambda context: seen.append((context.run.handle, len(scene.telling.foretold)))}
    scene.declare(function("work", overlap=ALLOW))
    scene.telling.refused = 1
    await play_runs(scene, "work", runs=RUNS)
    await scene.claim_now()
    await play_runs(scene, "work", runs=0)
    assert scene.telling.foretold[0].claimed
    assert sorted(handle for handle, _ in seen) == ["work:1", "work:2", "work:3"]
    assert min(foretold for _, foretold in seen) > 1, "one began of a claim that was refused"
    assert scene.told("work") == [("COMPLETED", None)] * RUNS


async def test_what_was_made_ready_for_a_claim_that_was_refused_is_not_taken_for_that_of_another(
    scene: ForetellingScene,
) -> None:
    made = scene.table.functions = Counted({"work": lambda: None})
    scene.declare(function("work", overlap=ALLOW))
    scene.telling.refused = 1
    scene.trigger("work")
    await scene.claim_now()
    scene.telling.silent = True
    await scene.quiet()
    await play_runs(scene, "work", runs=0)
    assert scene.told("work") == [("COMPLETED", None)]
    assert made.looked_up == 2


class Odd:
    """Something that can be called, but not be hashed; `refuses`: nor even be asked for that."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses

    def __call__(self, _context: Any) -> str:
        return "called"

    def __hash__(self) -> int:
        raise RuntimeError("no") if self.refuses else TypeError("unhashable")


async def test_an_object_that_cannot_be_hashed_is_called(scene: ForetellingScene) -> None:
    scene.table.functions = {"odd": Odd()}
    scene.declare(function("odd", overlap=ALLOW))
    await play_runs(scene, "odd", runs=1)
    assert [run.result_summary for run in scene.history("odd")] == ["called"]


async def test_one_that_cannot_be_made_ready_fails_and_costs_the_others_nothing(scene: ForetellingScene) -> None:
    scene.table.functions = {"odd": Odd(refuses=True), "work": lambda: None}
    scene.declare(function("odd", overlap=ALLOW, retry=Retry(max_attempts=1)), function("work", overlap=ALLOW))
    scene.trigger("odd")
    await play_runs(scene, "work", runs=RUNS)
    assert [(run.reason, run.error) for run in scene.history("odd")] == [
        (Reason.SPAWN_FAILED, "the call failed: RuntimeError: no")
    ]
    assert scene.told("work") == [("COMPLETED", None)] * RUNS


async def test_a_function_that_is_not_there_fails_its_run_as_ever(scene: ForetellingScene) -> None:
    scene.table.functions = {}
    scene.declare(function("work", overlap=ALLOW, retry=Retry(max_attempts=1)))
    await play_runs(scene, "work", runs=RUNS)
    assert {reason for _, reason in scene.told("work")} == {"spawn_failed"}
