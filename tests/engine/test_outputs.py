"""Output that is shared by the database (`output: database`, R-21)."""

from functools import partial

import pytest
from msgspec.structs import replace

from rota.engine.loops.outputs import LIVE_LIMIT, Outputs
from rota.model.spec import OutputPolicy
from rota.model.states import Status
from rota.runners.output import folder_of, make_folder
from rota.runners.writer import BoundedWriter
from rota.store.tables import run_queries
from rota.testing.scene import Scene
from tests.engine.conftest import command, function

pytestmark = pytest.mark.anyio


def stored(scene: Scene, run_id: str) -> bytes:
    pieces = scene.store.read(partial(run_queries.read, run_id=run_id, after=0, limit=10_000))
    assert [one.offset for one in pieces] == sorted(one.offset for one in pieces)
    return b"".join(one.data for one in pieces)


def writes(scene: Scene, run_id: str, data: bytes, policy: str = "full", limit: int = 10_000_000) -> BoundedWriter:
    writer = BoundedWriter(str(make_folder(folder_of(scene.settings.state, run_id))), policy, limit=limit)
    writer.write(data)
    return writer


async def test_what_a_run_wrote_is_shared_while_it_runs_and_whole_at_its_end_r_21(scene: Scene) -> None:
    """R-21."""
    run_id = "01a1e3d9-fdc8-7076-8bb0-513f8eacde8b"
    shared = Outputs(scene.store, scene.clock, scene.settings.state)
    shared.begin(run_id)
    writer = writes(scene, run_id, b"first\n")
    assert await shared.round() is not None
    assert stored(scene, run_id) == b"first\n"
    writer.write(b"second\n")
    writer.close()
    await shared.finish(run_id)
    assert stored(scene, run_id) == b"first\nsecond\n"
    assert await shared.round() is None


async def test_a_flood_is_bounded_while_it_runs_r_21(scene: Scene) -> None:
    """R-21: a run that writes without end does not fill the database."""
    run_id = "01a1e3d9-fdc8-7076-8bb0-513f8eacde8c"
    shared = Outputs(scene.store, scene.clock, scene.settings.state)
    shared.begin(run_id)
    writes(scene, run_id, b"x" * 3 * LIVE_LIMIT)
    for _ in range(5):
        await shared.round()
    assert LIVE_LIMIT <= len(stored(scene, run_id)) < LIVE_LIMIT + 100_000
    await shared.finish(run_id)
    assert len(stored(scene, run_id)) == 3 * LIVE_LIMIT


async def test_who_takes_over_goes_on_where_the_last_one_ended_r_21(scene: Scene) -> None:
    """R-21, R-23: pieces never overlap, whoever copied them."""
    run_id = "01a1e3d9-fdc8-7076-8bb0-513f8eacde8d"
    first = Outputs(scene.store, scene.clock, scene.settings.state)
    first.begin(run_id)
    writer = writes(scene, run_id, b"before the crash\n")
    await first.round()
    writer.write(b"after it\n")
    writer.close()
    second = Outputs(scene.store, scene.clock, scene.settings.state)
    await second.finish(run_id)
    assert stored(scene, run_id) == b"before the crash\nafter it\n"


async def test_the_output_of_a_function_is_there_when_its_end_is_recorded_r_21(scene: Scene) -> None:
    """R-21."""
    spec = function("talk")
    scene.table.functions["talk"] = lambda ctx: ctx.log("said")
    scene.declare(replace(spec, work=replace(spec.work, output=OutputPolicy.DATABASE)))
    scene.trigger("talk")
    await scene.settle()
    await scene.engine.until_empty()
    (run,) = scene.history("talk")
    assert run.status is Status.COMPLETED
    assert b"said" in stored(scene, run.id)


async def test_shared_output_goes_with_its_age_r_21(scene: Scene) -> None:
    """R-21."""
    run_id = "01a1e3d9-fdc8-7076-8bb0-513f8eacde8e"
    writes(scene, run_id, b"old\n").close()
    await Outputs(scene.store, scene.clock, scene.settings.state).finish(run_id)
    await scene.advance("31d")
    await scene.engine.prune_loop.turn()
    assert stored(scene, run_id) == b""


async def test_output_that_is_not_shared_stays_out_of_the_database(scene: Scene) -> None:
    scene.declare(command("quiet"))
    scene.trigger("quiet")
    await scene.settle()
    (run,) = scene.history("quiet")
    assert stored(scene, run.id) == b""
