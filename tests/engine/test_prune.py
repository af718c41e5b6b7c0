"""Retention: old rows and old output are let go, the ledger moves with them, and nothing unfinished is touched."""

from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.engine.loops.pruner import ROWS_A_BATCH, Folder, OutputOwner, choose_output, output_folders
from rota.model.ids import new_id
from rota.model.records import Outcome
from rota.model.spec import JobSpec, Kind, Member, Retention, Retry, Work
from rota.model.states import Reason, Status
from rota.operations.run_actions import retry_run
from rota.runners.output import folder_of, make_folder
from rota.store.driver import Database
from rota.store.tables import audit, groups
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.calling import call, told
from tests.engine.conftest import NOON, command, cron

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)
MEGABYTE = 1_000_000


async def test_old_runs_go_and_the_ledger_begins_after_them(scene: Scene) -> None:
    """R-20: pruning moves ledger_from in the same transaction."""
    scene.declare(command("daily", schedule=cron("0 0 * * *"), retention=Retention(runs=5 * DAY)))
    await scene.advance(10 * DAY)
    await scene.engine.prune_loop.turn()
    kept = scene.history("daily")
    assert len(kept) == 5
    job = scene.job("daily")
    assert kept[0].scheduled_for - DAY < job.ledger_from <= kept[0].scheduled_for


async def test_skipped_rows_go_earlier_than_runs(scene: Scene) -> None:
    scene.processes.scripts["daily"] = Script(takes=timedelta(hours=30))
    scene.declare(command("daily", schedule=cron("0 0 * * *"), retention=Retention(skipped=2 * DAY)))
    await scene.advance(10 * DAY)
    before = [run.reason for run in scene.history("daily")].count("overlap")
    await scene.engine.prune_loop.turn()
    after = [run.reason for run in scene.history("daily")].count("overlap")
    assert (before, after) == (5, 1)


async def test_only_so_many_skipped_rows_are_kept(scene: Scene) -> None:
    scene.processes.scripts["busy"] = Script(takes=DAY)
    retention = Retention(skipped_count=10)
    scene.declare(command("busy", schedule=cron("0 * * * *"), retention=retention))
    await scene.advance(2 * DAY)
    await scene.engine.prune_loop.turn()
    assert [run.reason for run in scene.history("busy")].count("overlap") == 10


async def test_for_ever_is_a_value(scene: Scene) -> None:
    scene.declare(command("daily", schedule=cron("0 0 * * *"), retention=Retention(runs=None)))
    await scene.advance(10 * DAY)
    scene.clock.advance(timedelta(days=3000))
    await scene.engine.prune_loop.turn()
    assert len([run for run in scene.history("daily") if run.reason is None]) == 10


async def test_an_unfinished_run_is_never_pruned(scene: Scene) -> None:
    scene.processes.scripts["long"] = Script(takes=30 * DAY)
    scene.declare(command("long", schedule=cron("0 13 * * *"), retention=Retention(runs=DAY, output=DAY)))
    await scene.advance("1h")
    (run,) = scene.history("long")
    folder = make_folder(folder_of(scene.settings.state, run.id))
    scene.clock.advance(5 * DAY)
    await scene.engine.prune_loop.turn()
    assert folder.exists()
    assert scene.told("long")[0] == ("RUNNING", None)


async def test_output_goes_with_its_age_and_its_run_stays(scene: Scene) -> None:
    scene.declare(command("daily", schedule=cron("0 13 * * *"), retention=Retention(output=2 * DAY)))
    await scene.advance("1h")
    (run,) = scene.history("daily")
    folder = make_folder(folder_of(scene.settings.state, run.id))
    (folder / "output.0").write_bytes(b"hello")
    await scene.engine.prune_loop.turn()
    assert folder.exists()
    scene.clock.advance(3 * DAY)
    await scene.engine.prune_loop.turn()
    assert not folder.exists()
    assert not folder.parent.exists()
    assert scene.told("daily")[0] == ("COMPLETED", None)


async def test_old_events_go_too(scene: Scene) -> None:
    scene.store.write(lambda db: audit.insert_event(db, "test", now=scene.clock.now()))
    scene.clock.advance(timedelta(days=366))
    await scene.engine.prune_loop.turn()
    assert scene.store.read(lambda db: audit.newest(db, since=NOON, limit=10)) == []


async def test_old_events_go_in_batches_and_young_ones_stay(scene: Scene) -> None:
    def many(db: Database, count: int) -> None:
        for _ in range(count):
            audit.insert_event(db, "test", now=scene.clock.now())

    scene.store.write(partial(many, count=2 * ROWS_A_BATCH + 1))
    scene.clock.advance(timedelta(days=300))
    scene.store.write(partial(many, count=1))
    scene.clock.advance(timedelta(days=66))
    await scene.engine.prune_loop.turn()
    assert len(scene.store.read(lambda db: audit.newest(db, since=NOON, limit=10))) == 1


def folders(sizes: list[int]) -> tuple[list[Folder], dict[str, OutputOwner]]:
    made = [new_id(NOON + number * timedelta(minutes=1)) for number in range(len(sizes))]
    found = [Folder(folder_of(Path("state"), one), size) for one, size in zip(made, sizes, strict=True)]
    return found, {one: OutputOwner("job", finished=True) for one in made}


def chosen(found: list[Folder], known: dict[str, OutputOwner], total: int | None) -> list[int]:
    doomed = choose_output(found, known, retention={}, default=Retention(), total=total, now=NOON + DAY)
    return [found.index(one) for one in doomed]


def test_beyond_the_total_the_oldest_output_goes_first() -> None:
    """R-21: 5 GB in all, oldest first."""
    found, known = folders([3 * MEGABYTE] * 4)
    assert chosen(found, known, 7 * MEGABYTE) == [0, 1]
    assert chosen(found, known, None) == []


def test_the_output_of_an_unfinished_run_counts_but_stays() -> None:
    found, known = folders([3 * MEGABYTE] * 4)
    known[found[0].run_id] = replace(known[found[0].run_id], finished=False)
    assert chosen(found, known, 7 * MEGABYTE) == [1, 2]


def test_output_without_a_run_goes_once_it_is_no_longer_young() -> None:
    found, known = folders([1])
    assert chosen(found, {}, None) == [0]
    assert choose_output(found, {}, retention={}, default=Retention(), total=None, now=NOON) == []
    assert chosen(found, known, None) == []


def test_what_is_no_run_in_the_folder_is_left_alone(tmp_path) -> None:
    (tmp_path / "runs" / "20261115" / "not-a-run").mkdir(parents=True)
    assert output_folders(tmp_path) == []


async def test_a_run_that_another_one_repeats_by_hand_stays_as_long_as_that_one(scene: Scene) -> None:
    """DEC-001: a chain goes as one, and never before a run that points at it."""
    fails = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1)
    scene.processes.scripts["flaky"] = Script(ending=fails)
    scene.declare(command("flaky", retry=Retry(max_attempts=2), retention=Retention(runs=2 * DAY)))
    scene.trigger("flaky")
    await scene.advance(1.5 * DAY)
    retry_run(scene.store, "flaky:1", now=scene.clock.now())
    await scene.advance(DAY)
    await scene.engine.prune_loop.turn()
    assert [run.number for run in scene.history("flaky")] == [1, 2, 3, 4]
    await scene.advance(2 * DAY)
    await scene.engine.prune_loop.turn()
    assert scene.history("flaky") == []


async def test_a_group_goes_after_its_members_and_its_run_after_the_group(scene: Scene) -> None:
    """R-15: rows that others point at go last."""
    members = (Member("extract"), Member("load"))
    nightly = JobSpec("nightly", Work(Kind.GROUP, members=members), retention=Retention(runs=DAY))
    scene.declare(command("extract", retention=Retention(runs=DAY)), command("load", retention=Retention(runs=5 * DAY)))
    scene.declare(nightly)
    scene.trigger("nightly")
    await scene.advance(2 * DAY)
    await prune(scene)
    assert (len(scene.history("extract")), len(scene.history("load")), len(scene.history("nightly"))) == (0, 1, 1)
    await scene.advance(4 * DAY)
    await prune(scene)
    assert (len(scene.history("load")), len(scene.history("nightly"))) == (0, 0)
    assert scene.store.read(groups.group_names) == []


async def prune(scene: Scene) -> None:
    """Prune until nothing more goes: what others pointed at goes in the next round."""
    for _ in range(3):
        await scene.engine.prune_loop.turn()


async def test_old_direct_calls_go_with_their_output(scene: Scene) -> None:
    """R-13: by the retention of the job's runs."""
    scene.declare(command("extract", retention=Retention(runs=2 * DAY)))
    old = call(scene, "extract")
    await scene.advance(1.5 * DAY)
    new = call(scene, "extract")
    await scene.advance(DAY)
    for one in (old, new):
        make_folder(folder_of(scene.settings.state, one))
    await scene.engine.prune_loop.turn()
    assert [told(scene, one) for one in (old, new)] == [None, ("COMPLETED", None)]
    assert [folder_of(scene.settings.state, one).exists() for one in (old, new)] == [False, True]
