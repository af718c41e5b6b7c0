"""Agents that must be certified: their runs wait while the installed version is not."""

from functools import partial

import pytest
from msgspec.structs import replace

from rota.agents.registry import CERTIFIABLE
from rota.model.agents import Attempted, Certification
from rota.model.attention import ItemKind
from rota.model.spec import JobSpec
from rota.model.states import WaitingFor
from rota.operations.agents.certify import PROGRAMS
from rota.operations.explain import explain
from rota.store.tables import activity
from rota.testing.scene import Scene
from tests.engine.agent_jobs import agent
from tests.engine.conftest import NOON

pytestmark = pytest.mark.anyio


def careful(name: str = "review") -> JobSpec:
    spec = agent(name)
    assert spec.work.agent is not None
    return replace(spec, work=replace(spec.work, agent=replace(spec.work.agent, require_certified=True)))


def certify(scene: Scene, version: str, outcome: Attempted = Attempted.DENIED) -> None:
    made = Certification("claude", version, NOON, {"write": outcome, "shell": Attempted.DENIED})
    scene.store.write(partial(activity.save_certification, made=made))


def why(scene: Scene) -> str:
    view = explain(scene.store, "review:1", state=scene.settings.state, now=scene.clock.now())
    return next(line.text for line in view.run_lines if line.label == "waits")


@pytest.mark.parametrize(
    ("certified", "words"),
    [
        (None, "version 2.1.0 is installed, and no version is certified"),
        (("2.0.9", Attempted.DENIED), "version 2.1.0 is installed, and 2.0.9 is certified"),
        (("2.1.0", Attempted.DONE), "version 2.1.0 did not deny write"),
    ],
)
async def test_a_run_waits_until_the_installed_version_is_certified(
    scene: Scene, certified: tuple[str, Attempted] | None, words: str
) -> None:
    scene.logins.versions["claude"] = "2.1.0"
    if certified is not None:
        certify(scene, *certified)
    scene.declare(careful())
    scene.trigger("review")
    await scene.advance("1m")
    assert scene.history("review")[0].waiting_for is WaitingFor.UNCERTIFIED
    assert words in why(scene)
    assert "rota agents certify" in why(scene)
    (item,) = scene.store.read(lambda db: scene._find_items(db, scene.clock.now()))
    assert (item.kind, item.subject) == (ItemKind.HELD, "review:1")
    assert words in item.what
    certify(scene, "2.1.0")
    await scene.advance("2m")
    assert scene.told("review") == [("COMPLETED", None)]


async def test_an_update_of_the_program_holds_later_runs(scene: Scene) -> None:
    scene.logins.versions["claude"] = "2.1.0"
    certify(scene, "2.1.0")
    scene.declare(careful())
    scene.trigger("review")
    await scene.settle()
    scene.logins.versions["claude"] = "2.2.0"
    scene.trigger("review")
    await scene.advance("5m")
    assert [run.waiting_for for run in scene.history("review")] == [None, WaitingFor.UNCERTIFIED]


async def test_a_program_without_a_version_is_not_certified(scene: Scene) -> None:
    certify(scene, "2.1.0")
    scene.declare(careful())
    scene.trigger("review")
    await scene.settle()
    assert "the version of the program is unknown" in why(scene)


async def test_without_the_key_no_version_is_asked_for(scene: Scene) -> None:
    scene.declare(agent("review"))
    scene.trigger("review")
    await scene.settle()
    assert scene.told("review") == [("COMPLETED", None)]


def test_the_adapters_that_can_be_certified_are_those_that_are_tried() -> None:
    assert set(PROGRAMS) == CERTIFIABLE
