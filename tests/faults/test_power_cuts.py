"""Power cuts and failing disks under the real store: nothing acknowledged is lost, nothing is doubled, all is told."""

import os
from pathlib import Path

import pytest

from rota.model.spec import Overlap, OverlapPolicy
from rota.operations.run_actions import trigger
from rota.store.migrate import open_store
from tests.faults.cuts import CLEAR, FAILING, cut, fail, judge, places, write
from tests.faults.shims import compiled
from tests.store.making import NOW, add_job

PAGE = 4096
ALLOW = Overlap(OverlapPolicy.ALLOW)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("recorder", tmp_path_factory.getbasetemp())


def test_no_power_cut_loses_or_doubles_what_was_acknowledged(recorder: Path, tmp_path: Path) -> None:
    """DEC-002."""
    log = write(recorder, tmp_path, seed=1, rounds=60)
    verdicts = cut(log, at=places(log, count=150, seed=1), seed=1)
    assert [(at, loss, found) for at, loss, found in verdicts if not found.clean] == []


def test_the_power_cuts_would_find_a_store_that_does_not_sync_its_commits(recorder: Path, tmp_path: Path) -> None:
    """The proof of the tool: synchronous=NORMAL loses acknowledged commits, and the cuts show it."""
    log = write(recorder, tmp_path, seed=1, rounds=20, mode="NORMAL")
    assert any(found.lost for _, _, found in cut(log, at=places(log, count=40, seed=1), seed=1))


@pytest.mark.parametrize("how", FAILING)
def test_a_failing_disk_is_told_and_loses_nothing_acknowledged(how: str, recorder: Path, tmp_path: Path) -> None:
    after = 2 if how.startswith("ftruncate") else 40
    found, codes = fail(recorder, tmp_path, how=how, after=after, seed=1)
    assert found.clean
    assert codes or how.startswith("ftruncate"), "the failure was not told"
    assert codes <= {*CLEAR, os.strerror(FAILING[how][1])}


def test_a_database_whose_checkpoint_was_cut_short_opens_again(tmp_path: Path) -> None:
    """A checkpoint writes the first page, which names the new size, before the pages that make the file that long."""
    path, half = tmp_path / "rota.db", tmp_path / "half"
    store = open_store(path, now=NOW)
    add_job(store, "hand", overlap=ALLOW)
    born = [trigger(store, "hand", now=NOW, params={"name": "x" * 20_000}) for _ in range(20)]
    half.mkdir()
    for name in ("rota.db", "rota.db-wal"):
        (half / name).write_bytes((tmp_path / name).read_bytes())
    store.close()
    whole = path.read_bytes()
    short = bytearray((half / "rota.db").read_bytes())
    assert len(whole) > len(short), "the checkpoint makes the file longer"
    short[:PAGE] = whole[:PAGE]
    (half / "rota.db").write_bytes(short)

    found = judge(half, [f'{{"kind": "run", "id": "{run.id}", "status": "QUEUED"}}'.encode() for run in born])

    assert found.clean
