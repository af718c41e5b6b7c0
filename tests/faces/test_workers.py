"""`rota workers` and `rota worker`, as far as a database of one folder goes."""

import json
from datetime import timedelta

import pytest

from rota.model.records import Outcome
from rota.model.states import Status
from tests.faces.conftest import Project


@pytest.fixture
def worked(project: Project) -> Project:
    """A project in which one worker carried out one run, and is gone."""
    project.applied("jobs: {disk: {command: [echo, disk]}}\n")
    project.ok("trigger", "disk")
    project.carry_out([Outcome(Status.COMPLETED, exit_code=0)])
    return project


def code(project: Project, *arguments: str) -> str:
    told: str = json.loads(project.rota(*arguments, "--json").stderr)["error"]["code"]
    return told


def test_the_worker_of_a_folder_is_listed(worked: Project) -> None:
    (found,) = worked.json("workers")
    assert (found["name"], found["state"], found["here"], found["remote"]) == ("here", "gone", True, False)
    assert (found["slots_taken"], found["labels"], found["only_pools"]) == (0, {}, None)
    assert "gone" in worked.ok("workers")


def test_a_worker_that_is_gone_says_when_it_was_last_seen(worked: Project) -> None:
    worked.clock.advance(timedelta(hours=3))
    assert worked.json("workers")[0]["last_seen_at"] == "2026-11-15T12:00:00Z"
    head, line = worked.ok("workers").splitlines()
    assert line[head.index("LAST SEEN") :].startswith("3 h ago")


def test_a_project_that_never_ran_has_no_worker(project: Project) -> None:
    project.applied("jobs: {disk: {command: [echo, disk]}}\n")
    assert project.ok("workers") == "no worker\n"


def test_a_worker_is_drained_and_resumed_by_name(worked: Project) -> None:
    assert worked.ok("workers", "drain", "here") == "here finishes its runs and claims no more\n"
    assert worked.ok("workers", "drain", "here") == "here is already draining\n"
    assert worked.json("workers", "resume", "here") == {
        "worker": "here",
        "draining": False,
        "changed": True,
        "dry_run": False,
    }


def test_a_dry_run_of_a_drain_changes_nothing(worked: Project) -> None:
    told = worked.json("workers", "drain", "here", "--dry-run")
    assert told == {"worker": "here", "draining": True, "changed": True, "dry_run": True}
    assert "here would finish its runs and claim no more" in worked.ok("workers", "drain", "here", "--dry-run")
    assert worked.json("workers", "drain", "here")["changed"]
    assert "here would claim runs again" in worked.ok("workers", "resume", "here", "--dry-run")


def test_a_worker_that_nobody_knows_is_refused(worked: Project) -> None:
    assert code(worked, "workers", "drain", "nobody") == "unknown_worker"


def test_the_only_worker_of_a_folder_is_not_forgotten(worked: Project) -> None:
    assert code(worked, "workers", "forget", "here") == "store_not_shared"


def test_workers_are_chosen_by_label(worked: Project) -> None:
    assert worked.json("workers", "--label", "zone=b") == []
    assert worked.rota("workers", "--label", "zone").exit_code == 2


def test_a_worker_needs_a_database_that_machines_share(worked: Project) -> None:
    assert code(worked, "worker") == "store_not_shared"
    assert code(worked, "serve", "--no-http", "--only-pools", "gpu") == "store_not_shared"


@pytest.mark.parametrize(
    "flags",
    [
        ["--name", "no blanks"],
        ["--label", "zone"],
        ["--only-pools", "a,,b"],
        ["--only-pools", "a", "--except-pools", "a"],
    ],
)
def test_bad_flags_of_a_worker_are_refused(worked: Project, flags: list[str]) -> None:
    assert worked.rota("worker", *flags).exit_code == 2
