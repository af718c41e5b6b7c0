"""Pools as people see them: what an apply changes, how full they are, who draws on them (R-03, R-04)."""

from functools import partial

from rota.engine.transactions.claim import claim
from rota.operations.project.locate import open_state
from tests.faces.conftest import Project

FILE = """pools: {ollama: 1, gpu: 4}
jobs:
  model: {command: [echo, model], pools: [ollama, {gpu: 2}], overlap: allow}
  plain: {command: [echo, plain]}
"""


def begin(project: Project) -> None:
    """Claim what may be claimed, as a scheduler would."""
    store = open_state(project.state, project.clock, create=False)
    try:
        holder = store.write(project._holder)
        store.write(partial(claim, holder=holder, free=range(9), now=project.clock.now()))
    finally:
        store.close()


def test_apply_tells_what_changes_in_pools_and_aging(project: Project) -> None:
    project.write(FILE)
    assert "~ pool ollama 1\n" in project.ok("apply", "--dry-run")
    assert "~ pool ollama 1\n" in project.ok("apply")
    assert project.ok("apply") == "= 2 jobs unchanged\n"
    project.write("scheduler: {aging: 10m}\n" + FILE.replace("ollama: 1, gpu: 4", "ollama: 2, gpu: 4, agents: 5"))
    told = project.ok("apply")
    assert told.splitlines() == [
        "~ pool agents 2 → 5",
        "~ pool ollama 1 → 2",
        "~ aging off → 10m",
        "= 2 jobs unchanged",
    ]


def test_apply_as_json_tells_settings_too(project: Project) -> None:
    project.write(FILE)
    assert project.json("apply")["settings"] == ["pool ollama 1", "pool gpu 4"]


def test_a_pool_that_is_gone_from_the_file_is_told(project: Project) -> None:
    project.applied(FILE)
    project.write("pools: {gpu: 4}\njobs:\n  model: {command: [echo, model], pools: {gpu: 2}, overlap: allow}\n")
    assert "~ pool ollama removed\n" in project.ok("apply")


def test_status_shows_how_full_the_pools_are_and_who_draws_on_them(project: Project) -> None:
    project.applied(FILE)
    assert "pools     gpu 0 of 4 · ollama 0 of 1\n" in project.rota("status").stdout
    project.ok("trigger", "model")
    project.ok("trigger", "model")
    begin(project)
    assert "pools     gpu 2 of 4 (model:1) · ollama 1 of 1 (model:1)\n" in project.rota("status").stdout
    assert project.json("status")["pools"][1] == {
        "name": "ollama",
        "capacity": 1,
        "used": 1,
        "declared": True,
        "holders": ["model:1"],
    }


def test_status_says_nothing_of_pools_where_there_are_none(project: Project) -> None:
    """R-04: the built-in one is not worth a line until somebody draws on it."""
    project.applied("jobs:\n  plain: {command: [echo, plain]}\n")
    assert "pools" not in project.rota("status").stdout


def test_show_tells_what_a_job_draws(project: Project) -> None:
    project.applied(FILE)
    assert "pools        gpu × 2, ollama" in project.ok("show", "model")
    assert project.json("show", "model")["pools"] == {"gpu": 2, "ollama": 1}
    assert "pools" not in project.ok("show", "plain")
