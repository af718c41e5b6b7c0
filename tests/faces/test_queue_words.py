"""What the queue says of a run that may be claimed and is not running, under a scheduler that answers (R-02, R-03)."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.model.states import Held
from rota.operations.project.locate import open_state
from rota.operations.queue import QueueView, hold_words, look_in, queue_json
from rota.operations.status.heartbeat import Heartbeat, Liveness
from tests.faces.conftest import Project

JOBS = """
pools: {gpu: 3}
defaults: {overlap: allow, retry: false}
jobs:
  render: {command: [./render], pools: {gpu: 2}}
  train: {command: [./train], pools: {gpu: 3}}
  small: {command: [./small], pools: [gpu]}
  plain: {command: [./plain]}
"""


NOW = datetime(2026, 11, 16, tzinfo=UTC)


def beat(*, taken: int = 1, slots: int = 4) -> Heartbeat:
    return Heartbeat(Liveness.RUNNING, 1, {"concurrency": slots, "slots_taken": taken, "pid": 1})


@pytest.fixture
def rendering(project: Project) -> Project:
    """A project in which `render:1` holds two of three units of a pool."""
    project.applied(JOBS)
    project.ok("trigger", "render")
    project.carry_out([])
    project.clock.advance(timedelta(seconds=1))
    return project


def seen(project: Project, answer: Heartbeat) -> QueueView:
    store = open_state(project.state, project.clock, create=False)
    try:
        return store.read(lambda db: look_in(db, beat=answer, limit=10, now=project.clock.now()))
    finally:
        store.close()


def told(view: QueueView) -> list[tuple[str, Held | None, str]]:
    return [(one.run.handle, one.hold.held, hold_words(one, view, zone="UTC", now=NOW)) for one in view.ready]


def test_the_pool_is_named_with_its_use_and_who_draws_on_it(rendering: Project) -> None:
    """R-03: those behind who need less are told that the pool is kept."""
    for name in ("train", "small", "plain"):
        rendering.ok("trigger", name)
    assert told(seen(rendering, beat())) == [
        ("train:1", Held.POOL, "pool gpu: 2 of 3 used by render:1"),
        ("small:1", Held.POOL, "pool gpu is reserved for a run before it"),
        ("plain:1", None, "starts next"),
    ]


def test_a_full_scheduler_is_told_by_its_slots(rendering: Project) -> None:
    rendering.ok("trigger", "plain")
    assert told(seen(rendering, beat(taken=4))) == [("plain:1", Held.SLOT, "no slot is free: 4 of 4 taken")]


def test_a_run_that_never_fits_is_told_what_to_do(rendering: Project) -> None:
    rendering.ok("trigger", "train")
    rendering.write(JOBS.replace("gpu: 3}\ndefaults", "gpu: 2}\ndefaults").replace("{gpu: 3}}", "{gpu: 2}}"))
    rendering.ok("apply")
    assert told(seen(rendering, beat()))[0] == (
        "train:1",
        Held.POOL,
        "pool gpu holds 2, the run needs 3: raise its capacity",
    )


def test_json_names_the_pools_that_are_waited_for(rendering: Project) -> None:
    rendering.ok("trigger", "train")
    view = queue_json(seen(rendering, beat()))
    assert view["pools"] == [{"name": "gpu", "capacity": 3, "used": 2, "holders": ["render:1"]}]
    assert (view["ready"][0]["held"], view["ready"][0]["pool"]) == ("pool", "gpu")
