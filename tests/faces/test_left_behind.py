"""A scheduler that is another rota than the installed one is named, with how it becomes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

import pytest

from rota.engine.membership.locks import take_process_lock
from rota.model.errors import DatabaseNewer
from rota.operations.project.locate import locate, open_state
from rota.operations.tools.context import named_maker, project_declares
from rota.operations.tools.toolbox import Toolbox
from rota.runners.processes import identity
from rota.store.driver import Database
from rota.store.tables import processes
from tests.faces.conftest import NOON, Project
from tests.faces.test_doctor import findings
from tests.scene import tamper_file

FILE = "jobs: {fine: {command: [echo, hi]}}\n"
INSTALLED = metadata.version("rota")
TEXT = f"(pid 1) is rota 0.0.9, installed is {INSTALLED}"


@contextmanager
def alive(project: Project, *, kind: str, version: str) -> Iterator[None]:
    """Let a process of this version live in the folder."""
    lock = take_process_lock(project.state)

    def enter(db: Database) -> None:
        worker = processes.only_worker(db) or "w"
        processes.insert_worker(db, processes.Worker("w", "here"), now=NOON)
        processes.open_process(
            db, worker_id=worker, kind=kind, identity=identity(1), lock=lock.path.name, version=version, now=NOON
        )

    store = open_state(project.state, project.clock, create=False)
    store.write(enter)
    store.close()
    try:
        yield
    finally:
        lock.release()


def versions(project: Project) -> list[str]:
    return [one["what"] for one in project.json("status")["attention"] if one["name"] == "scheduler"]


@pytest.mark.parametrize(("kind", "who"), [("serve", "the scheduler"), ("guest", "a program that embeds rota")])
def test_status_names_a_scheduler_of_another_version(project: Project, kind: str, who: str) -> None:
    project.applied(FILE)
    with alive(project, kind=kind, version="0.0.9"):
        assert versions(project) == [f"{who} {TEXT}: restart it"]
    assert versions(project) == []


def test_doctor_says_how_a_scheduler_of_another_version_is_restarted(project: Project) -> None:
    project.applied(FILE)
    with alive(project, kind="serve", version="0.0.9"):
        ((level, text, remedy),) = findings(project, "version")
    assert (level, text) == ("warning", f"the scheduler {TEXT}")
    assert "rota service restart" in remedy


@pytest.mark.parametrize(("kind", "version"), [("serve", INSTALLED), ("tick", "0.0.9")])
def test_the_installed_version_and_ticks_which_end_by_themselves_are_well(
    project: Project, kind: str, version: str
) -> None:
    project.applied(FILE)
    with alive(project, kind=kind, version=version):
        assert versions(project) == []
        assert findings(project, "version") == []


def test_tools_that_an_agent_kept_over_an_upgrade_refuse_to_be_called(project: Project) -> None:
    project.applied(FILE)
    store = open_state(project.state, project.clock, create=False)
    place = locate(None, {}, project.folder)
    declare = project_declares(place, {})
    box = Toolbox(store, project.state, project.clock, maker=named_maker("me"), declare=declare)
    tamper_file(project.state / "rota.db", "INSERT INTO migration VALUES (9999, 'later', 'x', 1)")
    with pytest.raises(DatabaseNewer):
        box.call("list_jobs", {})
    store.close()
