"""How processes of several folders enter one database: names, identity, and whose dead they find (R-22, R-23)."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.engine.membership.locks import WORKER, read_worker
from rota.engine.membership.session import Entrance, Session, close_session, dead_epochs, open_session
from rota.model.errors import DatabaseNewer, WorkerNameTaken
from rota.model.records import ProcessIdentity
from rota.rules.liveness import LEASE
from rota.rules.queue_order import PoolFilter, default_name
from rota.store.tables import processes
from rota.testing.scene import Scene
from tests.scene import sqlite_alone, tamper

pytestmark = pytest.mark.anyio

HOST = default_name(socket.gethostname())


def enter(scene: Scene, folder: Path, entrance: Entrance = Entrance(), *, pid: int = 1) -> Session:  # noqa: B008
    """Enter as a process of this folder, which shares the scene's database."""
    folder.mkdir(exist_ok=True)
    me = ProcessIdentity(f"boot of {folder.name}", pid, pid)
    return open_session(scene.store, folder, scene.clock, kind="worker", identity=me, entrance=entrance, shared=True)


@contextmanager
def upgraded(scene: Scene) -> Iterator[None]:
    """Let a newer rota have been at the database; scenes to come have it as it was."""
    tamper(scene, "INSERT INTO migration VALUES (9999, 'later', 'x', 1)")
    yield
    tamper(scene, "DELETE FROM migration WHERE number = 9999")


def name_of(scene: Scene, session: Session) -> str:
    found = scene.store.read(partial(processes.worker_by_id, worker_id=session.holder.worker_id))
    assert found is not None
    return found.name


async def test_folders_of_one_machine_get_names_of_their_own(scene: Scene, tmp_path: Path) -> None:
    """The scene's own worker has the name of the machine already."""
    first, second = enter(scene, tmp_path / "a"), enter(scene, tmp_path / "b")
    assert [name_of(scene, one) for one in (first, second)] == [f"{HOST}-2", f"{HOST}-3"]


async def test_a_folder_stays_the_worker_that_it_is_r_23(scene: Scene, tmp_path: Path) -> None:
    """R-23: its next process finds what the last one left."""
    first = enter(scene, tmp_path / "a", Entrance("gpu-box", {"zone": "b"}, PoolFilter(only=("gpu",)), 3))
    assert read_worker(tmp_path / "a") == first.holder.worker_id
    close_session(scene.store, first, scene.clock, ending="clean")
    again = enter(scene, tmp_path / "a")
    assert again.holder.worker_id == first.holder.worker_id
    assert again.holder.epoch > first.holder.epoch
    found = scene.store.read(partial(processes.worker_by_name, name="gpu-box"))
    assert found is not None
    assert (found.labels, found.state) == ({"zone": "b"}, str(tmp_path / "a"))


async def test_nobody_enters_a_database_that_was_upgraded_since_it_was_opened(scene: Scene, tmp_path: Path) -> None:
    """Whoever upgrades sees all who have entered (R-22), so nobody may enter afterwards with what it knew before."""
    with upgraded(scene), pytest.raises(DatabaseNewer, match="upgraded to schema 9999 meanwhile"):
        enter(scene, tmp_path / "a")
    assert scene.store.read(lambda db: processes.worker_by_name(db, f"{HOST}-2")) is None
    assert not list((tmp_path / "a" / "locks").iterdir())


async def test_who_came_back_to_an_upgraded_database_gets_no_lease_r_22(scene: Scene, tmp_path: Path) -> None:
    """R-22: its lease was over, so the upgrade could not see that it lives."""
    session = enter(scene, tmp_path / "a")
    renew = partial(processes.renew_lease, epoch=session.holder.epoch, lease=LEASE)
    assert scene.store.write(renew) is not None
    with upgraded(scene):
        assert scene.store.write(renew) is None


async def test_a_name_of_another_folder_is_refused(scene: Scene, tmp_path: Path) -> None:
    enter(scene, tmp_path / "a", Entrance("gpu-box"))
    with pytest.raises(WorkerNameTaken, match="gpu-box"):
        enter(scene, tmp_path / "b", Entrance("gpu-box"))


async def test_a_worker_is_renamed_by_its_next_process(scene: Scene, tmp_path: Path) -> None:
    first = enter(scene, tmp_path / "a", Entrance("old"))
    close_session(scene.store, first, scene.clock, ending="clean")
    assert name_of(scene, enter(scene, tmp_path / "a", Entrance("new"))) == "new"


async def test_a_folder_recovers_its_own_dead_alone_r_23(scene: Scene, tmp_path: Path) -> None:
    """R-23: those of other folders are told by their leases."""
    killed, other = enter(scene, tmp_path / "a"), enter(scene, tmp_path / "b")
    killed.lock.release()
    other.lock.release()
    again = enter(scene, tmp_path / "a", pid=2)
    assert again.dead == [killed.holder.epoch]
    assert again.unclean


async def test_what_a_folder_is_about_to_recover_is_not_lost_meanwhile_r_22(scene: Scene, tmp_path: Path) -> None:
    """R-22: whoever starts again within its lease adopts what it left."""
    killed = enter(scene, tmp_path / "a")
    killed.lock.release()
    over = -scene.clock.now().resolution
    scene.store.write(partial(processes.renew_lease, epoch=killed.holder.epoch, lease=over))
    enter(scene, tmp_path / "a", pid=2)
    found = scene.store.read(partial(processes.lapsed_processes, but=scene.session.holder.worker_id))
    assert [one.epoch for one in found] == []


async def test_a_forgotten_folder_that_comes_back_is_a_worker_again(scene: Scene, tmp_path: Path) -> None:
    first = enter(scene, tmp_path / "a", Entrance("gpu-box"))
    close_session(scene.store, first, scene.clock, ending="clean")
    worker = scene.store.read(partial(processes.worker_by_name, name="gpu-box"))
    assert worker is not None
    forgotten = replace(worker, name=f"gpu-box~{worker.id}")
    assert forgotten.forgotten
    assert forgotten.called == "gpu-box"
    scene.store.write(partial(processes.update_worker, worker=forgotten))
    assert name_of(scene, enter(scene, tmp_path / "a")) == f"{HOST}-2"


@sqlite_alone
async def test_the_scene_of_one_folder_needs_no_file_to_know_its_worker(scene: Scene) -> None:
    assert not (scene.settings.state / WORKER).exists()
    assert dead_epochs_of(scene) == []


def dead_epochs_of(scene: Scene) -> list[int]:
    holder = scene.session.holder
    look = partial(dead_epochs, state=scene.settings.state, own=holder.epoch, worker_id=holder.worker_id)
    return scene.store.read(look)
