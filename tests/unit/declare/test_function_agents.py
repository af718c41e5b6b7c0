"""Python functions that are agents, in a file and by decorators: what they keep, who is held with them (R-30)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rota.declare.export import Top, export_text
from rota.declare.project import Declared, read_project
from rota.declare.registry import RegisteredFinder, Registry
from rota.model.agents import Access, AgentResult, AgentTask
from rota.model.errors import FileProblems, FunctionMissing, InvalidValue
from rota.model.spec import AgentWork

FOLDER = Path("/srv/project")


async def researcher(task: AgentTask) -> AgentResult:
    return AgentResult(summary=task.prompt)


def read(text: str, **registered: dict[str, Any]) -> Declared:
    registry = Registry()
    for name, keys in registered.items():
        registry.agent(name, **keys)(researcher)
    finder = RegisteredFinder(registry)
    return read_project(FOLDER, environment={"HOME": "/home/ops"}, functions=finder, content=text.encode())


def asked(text: str, **registered: dict[str, Any]) -> AgentWork:
    work = read(text, **registered).jobs[-1].work
    assert work.agent is not None
    assert work.in_process
    return work.agent


def problems(text: str, **registered: dict[str, Any]) -> list[str]:
    with pytest.raises(FileProblems) as caught:
        read(text, **registered)
    return [str(problem) for problem in caught.value.problems]


JOB = "jobs: {watch: {agent: researcher, prompt: look}}\n"
MODULE = "agents: {r: {adapter: {run: 'builtins:print'}}}\njobs: {watch: {agent: r, prompt: look}}\n"


def test_a_registered_function_is_an_agent_by_its_name() -> None:
    work = asked(JOB, researcher={"max_concurrent": 2})
    assert (work.agent, work.adapter, work.function, work.called) == ("researcher", "python", "researcher", True)
    assert (work.max_concurrent, work.max_turns) == (2, None)


def test_the_only_registered_agent_does_what_names_none() -> None:
    assert asked("jobs: {watch: {prompt: look}}\n", researcher={}).agent == "researcher"


def test_a_function_is_named_in_the_file() -> None:
    work = asked(MODULE)
    assert (work.agent, work.adapter, work.function) == ("r", "python", "builtins:print")


def test_the_file_says_more_about_a_registered_function() -> None:
    text = "agents: {researcher: {max_concurrent: 3}, other: {adapter: {run: researcher, provider: mine}}}\n"
    assert asked(text + JOB, researcher={"max_turns": 20}).max_turns == 20
    assert asked(text + JOB, researcher={"max_concurrent": 2}).max_concurrent == 3
    other = asked(text + JOB.replace("researcher", "other"), researcher={"max_turns": True})
    assert (other.function, other.provider, other.options["capabilities"]) == ("researcher", "mine", ["max_turns"])


@pytest.mark.parametrize(
    "limit", ["max_turns: 5", "max_usd: 1", "model: m", "allowed_tools: [Read]", "session: resume"]
)
def test_r_30_a_limit_that_the_function_does_not_keep_is_refused(limit: str) -> None:
    text = f"jobs: {{watch: {{agent: researcher, prompt: look, {limit}}}}}\n"
    assert f"jobs.watch.{limit.partition(':')[0]}: the function cannot" in problems(text, researcher={})[0]


@pytest.mark.parametrize(
    ("limit", "keys"),
    [
        ("max_turns: 5", {"max_turns": True}),
        ("max_turns: 5", {"max_turns": 20}),
        ("max_usd: 1", {"capabilities": ["max_usd"]}),
        ("model: m", {"capabilities": "model"}),
        ("allowed_tools: [Read]", {"allowed_tools": ["Read", "Grep"]}),
        ("session: resume", {"resume": True}),
        ("access: read", {"access": True}),
    ],
)
def test_a_limit_that_it_says_it_keeps_is_taken(limit: str, keys: dict[str, Any]) -> None:
    assert asked(f"jobs: {{watch: {{agent: researcher, prompt: look, {limit}}}}}\n", researcher=keys)


def test_a_file_may_say_what_a_function_keeps() -> None:
    text = MODULE.replace("'builtins:print'", "'builtins:print', capabilities: [max_turns, cost]")
    assert asked(text.replace("prompt: look", "prompt: look, max_turns: 3")).max_turns == 3


def test_nothing_restrains_a_function_that_does_not_keep_levels_of_access() -> None:
    """R-30: `read` would be accepted and ignored."""
    assert asked(JOB, researcher={}).access is Access.FULL
    assert asked(JOB, researcher={"access": True}).access is Access.READ
    text = "jobs: {watch: {agent: researcher, prompt: look, access: read}}\n"
    assert "jobs.watch.access: the function cannot enforce access read" in problems(text, researcher={})[0]


def test_a_function_is_its_own_provider_unless_it_names_one() -> None:
    assert asked(JOB, researcher={}).provider == "researcher"
    assert asked(JOB, researcher={"provider": "openai"}).provider == "openai"


def test_a_custom_agent_is_its_own_provider_unless_it_names_one() -> None:
    text = "agents: {a: {adapter: custom, access: full, options: {argv: [a]%s}}}\njobs: {j: {prompt: x}}\n"
    found = [read(text % further).jobs[0].work.agent for further in ("", ", provider: openai")]
    assert [work.provider for work in found if work is not None] == ["a", "openai"]


def test_a_provider_that_no_pool_could_be_named_after_is_refused() -> None:
    text = "agents: {a: {adapter: custom, access: full, options: {argv: [a], provider: 'a,b=1'}}}\n"
    assert "agents.a.options: provider: needs a name" in problems(text)[0]
    text = "jobs: {j: {prompt: x, agent: opencode, model: 'a,b=1/m'}}\n"
    assert 'jobs.j.model: "a,b=1" cannot be a provider\'s name' in problems(text)[0]


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        ("{}", "agents.r.adapter: does not name a function"),
        ("{run: 5}", "agents.r.adapter.run: 5 is not the name of a function"),
        ("{run: [researcher]}", 'agents.r.adapter.run: ["researcher"] is not the name of a function'),
        ("{run: researcher, also: 1}", "agents.r.adapter.also: unknown key"),
        ("{run: researcher, capabilities: max_turns}", 'agents.r.adapter.capabilities: "max_turns" is not a list'),
        ("{run: researcher, capabilities: [turns]}", "agents.r.adapter.capabilities"),
        ("{run: researcher, provider: 'a b'}", 'agents.r.adapter.provider: "a b" is not the name of a provider'),
        ("{run: gone}", 'agents.r.adapter.run: no agent is named "gone"'),
        ("{run: researcher}, options: {a: 1}", "agents.r.options: a function has no options"),
        ("{run: researcher}, max_turns: 4", "agents.r.max_turns: the function cannot enforce it"),
    ],
)
def test_what_is_wrong_with_it_is_told_with_its_place(adapter: str, said: str) -> None:
    [told] = problems(f"agents: {{r: {{adapter: {adapter}}}}}\n", researcher={})
    assert said in told


def test_a_module_that_is_not_there_is_told_with_the_place_of_the_function() -> None:
    [told] = problems(MODULE.replace("builtins:print", "nowhere_at_all:f"))
    assert 'agents.r.adapter.run: cannot import "nowhere_at_all"' in told


def test_in_another_interpreter_functions_cannot_be_agents() -> None:
    [told] = problems("python: /bin/sh\nagents: {r: {adapter: {run: 'builtins:print'}}}\n")
    assert "agents.r.adapter.run: runs inside the scheduler" in told


def test_a_module_that_fails_is_the_only_problem(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("imports: [broken_helpers]\n" + JOB)
    (tmp_path / "broken_helpers.py").write_text("import nowhere_at_all\n")
    with pytest.raises(FileProblems) as caught:
        read_project(tmp_path, environment={"HOME": "/home/ops"})
    assert [problem.code for problem in caught.value.problems] == ["import_failed"]


def test_its_schedules_are_jobs() -> None:
    """003: an agent's own schedules."""
    daily = {"type": "cron", "cron": "0 8 * * *", "prompt": "look"}
    found = read("jobs: {}\n", researcher={"schedules": {"daily": daily}})
    assert [spec.name for spec in found.jobs] == ["researcher/daily"]


def test_an_export_names_the_function_and_reads_back_the_same() -> None:
    found = read(JOB, researcher={"max_turns": 20, "provider": "openai", "max_concurrent": 2})
    text = export_text(found.jobs, Top(str(FOLDER), "UTC"))
    assert "adapter: {run: researcher, capabilities: [max_turns], provider: openai}" in text
    assert read(text, researcher={}).jobs == found.jobs


@pytest.mark.parametrize("register", [lambda registry: registry.agent, lambda registry: registry.agent()])
def test_a_decorator_without_a_name_takes_the_functions(register: Callable[[Registry], Any]) -> None:
    registry = Registry()
    assert register(registry)(researcher) is researcher
    assert registry.resolve_agent("researcher") is researcher


def test_a_name_is_given_once() -> None:
    registry = Registry()
    registry.agent("helper")(researcher)
    registry.agent("helper")(researcher)
    with pytest.raises(InvalidValue, match='two functions are registered as agent "helper"'):
        registry.agent("helper")(print)
    with pytest.raises(FunctionMissing, match='did you mean "helper"'):
        registry.resolve_agent("helpr")
