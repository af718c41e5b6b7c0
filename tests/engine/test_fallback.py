"""Jobs with a list of agents: the first whose provider is not held does the work, the next takes over a refusal."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from rota.declare.readers.agents import draws_of, own_pools
from rota.engine.functions import FunctionTable
from rota.model.agents import Access, AgentResult, AgentTask
from rota.model.spec import AgentChoice, AgentWork, JobSpec, Kind, Retry, Work
from rota.operations.explain import explain
from rota.operations.project.apply import apply
from rota.operations.runs import show_run
from rota.settings import Settings
from rota.store.tables import budgets
from rota.testing.scene import Scene
from tests.engine.conftest import ALLOW
from tests.engine.test_apply import declared
from tests.engine.test_functions import play

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
Answer = Callable[[AgentTask], AgentResult]
REFUSALS = ("quota", "auth", "outage")


def choice(name: str) -> AgentChoice:
    own = AgentChoice(name, "python", f"of-{name}", function=name, called=True)
    return replace(own, pools=draws_of(own, ()))


def listing(*names: str, retry: int = 1) -> JobSpec:
    """Return a job with a list of agents, each a function of this name."""
    choices = tuple(map(choice, names))
    first = AgentWork(
        names[0], "python", choices[0].provider, "look", access=Access.FULL, function=names[0], called=True
    )
    work = Work(Kind.AGENT, agent=replace(first, choices=choices))
    return JobSpec("job", work, retry=Retry(max_attempts=retry), overlap=ALLOW, pools=choices[0].pools)


def put(scene: Scene, spec: JobSpec, **functions: Answer) -> None:
    file = declared(scene, spec)
    assert spec.work.agent is not None
    pools = {"agents": 4, **own_pools(spec.work.agent)}
    file.settings = Settings(scene.settings.folder, scene.settings.state, pools=pools)
    apply(scene.store, file, now=scene.clock.now())
    scene.functions.table = FunctionTable(agents=functions)


def answer(_task: AgentTask) -> AgentResult:
    return AgentResult(summary="done")


def refuse(problem: str, **more: Any) -> Answer:
    return lambda _task: AgentResult(problem=problem, error="no", **more)  # type: ignore[arg-type]


def agents(scene: Scene) -> list[str]:
    return [run.decisions["agent"]["agent"] for run in scene.history("job")]


def ends(scene: Scene) -> list[tuple[str, str | None]]:
    return [(run.status.value, run.reason and str(run.reason)) for run in scene.history("job")]


@pytest.mark.parametrize("problem", REFUSALS)
async def test_the_next_agent_takes_over_a_refusal_and_costs_no_attempt(scene: Scene, problem: str) -> None:
    put(scene, listing("a", "b"), a=refuse(problem), b=answer)
    scene.trigger("job")
    await play(scene)
    assert ends(scene) == [("FAILED", problem), ("COMPLETED", None)]
    assert agents(scene) == ["a", "b"]
    assert scene.history("job")[1].retry_of == scene.history("job")[0].id


async def test_another_failure_is_not_passed_on(scene: Scene) -> None:
    put(scene, listing("a", "b"), a=refuse("agent_error"), b=answer)
    scene.trigger("job")
    await play(scene)
    assert ends(scene) == [("FAILED", "agent_error")]


async def test_an_agent_whose_provider_is_held_is_passed_over_until_it_is_free(scene: Scene) -> None:
    resets_at = scene.clock.now() + HOUR
    put(scene, listing("a", "b"), a=refuse("quota", resets_at=resets_at), b=answer)
    scene.trigger("job")
    await play(scene)
    scene.trigger("job")
    await play(scene)
    scene.functions.table = FunctionTable(agents={"a": answer, "b": answer})
    await scene.advance("61m")
    scene.trigger("job")
    await play(scene)
    assert agents(scene) == ["a", "b", "b", "a"]
    [line] = [one.text for one in explained(scene, 2) if one.label == "agent"]
    assert line.startswith("b: a was held until")
    [line] = [one.text for one in explained(scene, 1) if one.label == "agent"]
    assert line == "b: a refused an earlier attempt"


def explained(scene: Scene, index: int) -> Any:
    run = scene.history("job")[index]
    return explain(scene.store, run.id, state=scene.settings.state, now=scene.clock.now()).run_lines


async def test_when_all_refuse_the_policy_of_the_job_decides(scene: Scene) -> None:
    put(scene, listing("a", "b"), a=refuse("quota"), b=refuse("auth"))
    scene.trigger("job")
    await play(scene)
    assert ends(scene) == [("FAILED", "quota"), ("FAILED", "auth")]


async def test_when_all_are_held_the_one_that_is_free_first_waits(scene: Scene) -> None:
    now = scene.clock.now()
    put(
        scene,
        listing("a", "b", retry=2),
        a=refuse("quota", resets_at=now + 2 * HOUR),
        b=refuse("quota", resets_at=now + HOUR),
    )
    scene.trigger("job")
    await play(scene)
    scene.functions.table = FunctionTable(agents={"a": answer, "b": answer})
    await scene.advance("59m")
    assert ends(scene)[2:] == [("QUEUED", None)]
    await scene.advance("2m")
    await play(scene)
    assert (agents(scene), ends(scene)[2]) == (["a", "b", "b"], ("COMPLETED", None))


async def test_a_start_of_one_attempt_is_not_passed_on(scene: Scene) -> None:
    put(scene, listing("a", "b"), a=refuse("quota"), b=answer)
    scene.trigger("job", one_attempt=True)
    await play(scene)
    assert ends(scene) == [("FAILED", "quota")]


async def test_usage_is_counted_for_the_agent_that_did_the_work(scene: Scene) -> None:
    put(scene, listing("a", "b"), a=refuse("quota"), b=lambda _task: AgentResult(summary="done", tokens_in=9))
    scene.trigger("job")
    await play(scene)
    began = budgets.Began(scene.clock.now() - HOUR, None)
    used = scene.store.read(partial(budgets.used_by_agent, began=began, now=scene.clock.now()))
    assert {one.name: one.runs for one in used} == {"a": 1, "b": 1}


async def test_a_run_is_shown_with_the_agent_that_did_it(scene: Scene) -> None:
    put(scene, listing("a", "b"), a=refuse("quota"), b=answer)
    scene.trigger("job")
    await play(scene)
    shown = [show_run(scene.store, run.id).spec.work.agent for run in scene.history("job")]
    assert [work.agent for work in shown if work] == ["a", "b"]


async def test_both_draw_on_their_own_pools_alone(scene: Scene) -> None:
    seen: list[dict[str, int]] = []

    def look(_task: AgentTask) -> AgentResult:
        from rota.store.tables import queue

        seen.append({pool.name: pool.used for pool in scene.store.read(queue.pools)})
        return AgentResult(summary="done")

    put(scene, listing("a", "b"), a=refuse("quota"), b=look)
    scene.trigger("job")
    await play(scene)
    assert seen == [{"agent:a": 0, "agent:b": 1, "agents": 1, "provider:of-a": 0, "provider:of-b": 1}]


async def test_a_choice_survives_a_kill_of_the_scheduler(scene: Scene) -> None:
    now = scene.clock.now()
    a, b = (refuse("quota", resets_at=now + hours * HOUR) for hours in (2, 1))
    put(scene, listing("a", "b", retry=2), a=a, b=b)
    scene.trigger("job")
    await play(scene)
    await scene.crash()
    await scene.start()
    scene.functions.table = FunctionTable(agents={"a": answer, "b": answer})
    await scene.advance("61m")
    await play(scene)
    assert (agents(scene), ends(scene)[2:]) == (["a", "b", "b"], [("COMPLETED", None)])
