"""Agents of an embedded scheduler: document 003's plan for `trigger`, `runSchedule` and `concurrency` per agent."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.model.errors import JobProblems
from rota.model.states import Reason, Status
from tests.library.conftest import LONG, run_now
from tests.waiting import until

PROGRAM = """
printf '%s\\n' "$2" >> said
case "$2" in *fail*) echo broken >&2; exit 3;; esac
case "$2" in *wait*) until test -e go; do sleep 0.02; done;; esac
echo "did it"
"""


def agent(**keys: Any) -> dict[str, Any]:
    """Return an agent that is a shell script: it notes its prompt, waits or fails where the prompt says so."""
    options = {"argv": ["sh", "-c", PROGRAM, "sh", "{job}", "{prompt}"]}
    return {"adapter": "custom", "access": "full", "options": options, **keys}


@pytest.fixture
def fleet(store: Path) -> Iterator[rota.Scheduler]:
    """A scheduler with an agent that has two schedules, and one that has none."""
    schedules = {
        "first": {"type": "cron", "cron": "0 8 * * *", "prompt": "look"},
        "second": {"type": "cron", "cron": "0 9 * * *", "prompt": "look again"},
    }
    agents = {"writer": agent(schedules=schedules), "idle": agent(instances={"max_concurrent": 2})}
    scheduler = rota.Scheduler(store, folder=store.parents[1], agents=agents, defaults={"retry": False})
    yield scheduler
    (store.parents[1] / "go").touch()
    scheduler.stop(wait=False)


def test_a_schedule_runs_its_agent_with_its_prompt(fleet: rota.Scheduler, tmp_path: Path) -> None:
    fleet.start()
    made = fleet.sync.trigger("writer", "second")
    run = fleet.sync.wait(made.run_id or "", timeout=LONG)
    assert (run.job, run.status, run.result_summary) == ("writer/second", Status.COMPLETED, "did it")
    assert (tmp_path / "said").read_text().rstrip().endswith("look again")


def test_without_a_schedule_the_first_one_of_the_agent_is_meant(fleet: rota.Scheduler) -> None:
    fleet.start()
    assert run_now(fleet, "writer").job == "writer/first"


def test_an_agent_or_a_schedule_that_is_not_there_is_an_error(fleet: rota.Scheduler) -> None:
    fleet.start()
    for asked, named in ((("nobody",), "nobody"), (("writer", "third"), "writer/third"), (("idle",), "idle")):
        with pytest.raises(rota.UnknownJob, match=f"'{named}'"):
            fleet.sync.trigger(*asked)


def test_the_status_names_agent_and_schedule(fleet: rota.Scheduler) -> None:
    fleet.start()
    found = [(one.job, one.agent, one.schedule) for one in fleet.status().schedules]
    assert found == [("writer/first", "writer", "first"), ("writer/second", "writer", "second")]


def test_an_agent_that_fails_shows_in_the_status_and_not_in_its_neighbour(fleet: rota.Scheduler) -> None:
    fleet.add_job("failing", agent="writer", prompt="fail")
    fleet.start()
    run = run_now(fleet, "failing")
    assert (run.status, run.reason) == (Status.FAILED, Reason.AGENT_ERROR)
    assert run_now(fleet, "writer").status is Status.COMPLETED
    assert fleet.status().of("failing").last_error
    assert fleet.status().of("writer/first").last_error is None


def test_runs_of_an_agent_beyond_its_limit_wait_and_are_counted_apart(fleet: rota.Scheduler, tmp_path: Path) -> None:
    """Document 003 skips at capacity; DESIGN.md section 13 lets the run wait (R-04)."""
    fleet.add_job("one", agent="writer", prompt="wait")
    fleet.add_job("other", agent="writer", prompt="look")
    fleet.start()
    fleet.sync.trigger("one")
    until(lambda: fleet.running_count("writer"), what="the agent to begin")
    waiting = fleet.sync.trigger("other")
    assert waiting.success
    assert fleet.history("other")[0].status is Status.QUEUED
    assert (fleet.running_count("writer"), fleet.running_count("idle")) == (1, 0)
    (tmp_path / "go").touch()
    assert fleet.sync.wait(waiting.run_id or "", timeout=LONG).status is Status.COMPLETED
    assert fleet.running_count("writer") == 0


def test_an_agent_that_had_no_job_at_the_start_may_get_one(fleet: rota.Scheduler) -> None:
    fleet.start()
    fleet.add_job("late", agent="idle", prompt="look")
    assert run_now(fleet, "late").status is Status.COMPLETED
    assert fleet.status().of("late").agent == "idle"


def test_a_schedule_of_another_kind_is_refused_by_its_key(store: Path) -> None:
    """003: webhooks and chats are reserved for later."""
    with pytest.raises(JobProblems, match="webhook"):
        rota.Scheduler(store, agents={"writer": agent(schedules={"hook": {"type": "webhook"}})})


def test_a_function_is_an_agent_of_this_scheduler_alone(fleet: rota.Scheduler, tmp_path: Path) -> None:
    @fleet.agent("researcher", max_concurrent=2)
    async def researcher(task: rota.AgentTask) -> rota.AgentResult:
        return rota.AgentResult(summary=f"{task.job}: {task.prompt.splitlines()[-1]}", tokens_in=3, usd=0.25)

    fleet.add_job("watch", agent="researcher", prompt="What changed?")
    fleet.start()
    run = run_now(fleet, "watch")
    assert (run.status, run.result_summary) == (Status.COMPLETED, "watch: What changed?")
    assert dict(run.usage) == {"tokens_in": 3, "usd_millionths": 250_000}
    assert fleet.status().of("watch").agent == "researcher"
    other = rota.Scheduler(tmp_path / "other" / "rota.db")
    other.add_job("watch", agent="researcher", prompt="What changed?")
    with pytest.raises(JobProblems, match=r"jobs\.watch\.agent: there is no agent \"researcher\""):
        other.start()


def test_an_async_agent_runs_on_the_loop_that_entered_and_another_on_a_thread(store: Path) -> None:
    threads: dict[str, int] = {}
    scheduler = rota.Scheduler(store)

    @scheduler.agent
    async def here(_task: rota.AgentTask) -> rota.AgentResult:
        threads["here"] = threading.get_ident()
        return rota.AgentResult(summary="done")

    @scheduler.agent("apart")
    def apart(_task: rota.AgentTask) -> rota.AgentResult:
        threads["apart"] = threading.get_ident()
        return rota.AgentResult(summary="done")

    async def main() -> None:
        async with scheduler:
            for name in ("here", "apart"):
                scheduler.add_job(name, agent=name, prompt="look")
                made = await scheduler.trigger(name)
                assert (await scheduler.wait(made.run_id or "", timeout=LONG)).status is Status.COMPLETED

    asyncio.run(main())
    assert threads["here"] == threading.get_ident()
    assert threads["apart"] != threading.get_ident()


def test_an_agent_may_be_registered_after_its_job_and_must_be_at_the_start(store: Path) -> None:
    scheduler = rota.Scheduler(store)
    scheduler.add_job("watch", agent="researcher", prompt="look")
    with pytest.raises(JobProblems, match="there is no agent"):
        scheduler.start()
    scheduler.agent("researcher")(lambda _task: rota.AgentResult(summary="seen"))
    with scheduler:
        assert run_now(scheduler, "watch").result_summary == "seen"


def test_a_mistake_in_the_decorator_is_told_at_once_and_changes_nothing(fleet: rota.Scheduler) -> None:
    with pytest.raises(JobProblems, match=r'agents\.helper\.max_concurent: unknown key; did you mean "max_concurrent"'):
        fleet.agent("helper", max_concurent=2)(lambda _task: rota.AgentResult())
    fleet.agent("helper", max_concurrent=2)(lambda _task: rota.AgentResult())
    with pytest.raises(JobProblems, match=r"jobs\.limited\.max_turns: the function cannot enforce it"):
        fleet.add_job("limited", agent="helper", prompt="look", max_turns=3)


def test_a_function_may_be_named_by_its_module(fleet: rota.Scheduler) -> None:
    fleet.declarations.sections["agents"]["helper"] = {"adapter": {"run": f"{__name__}:helper"}}
    fleet.add_job("help", agent="helper", prompt="look")
    fleet.start()
    assert run_now(fleet, "help").result_summary == "helped"


def helper(_task: rota.AgentTask) -> rota.AgentResult:
    return rota.AgentResult(summary="helped")


def test_a_provider_that_refuses_is_held_in_a_played_scheduler() -> None:
    """DESIGN.md section 8: a quota error is a hold; 003 has none."""
    refusals = [True, False]

    with rota.testing.scheduler(now="2026-03-29T00:00Z") as played:

        @played.agent("researcher", provider="example")
        async def researcher(_task: rota.AgentTask) -> rota.AgentResult:
            quota = rota.AgentProblem.QUOTA if refusals.pop(0) else None
            return rota.AgentResult(summary="done", problem=quota, error="used up" if quota else None)

        played.add_job("watch", agent="researcher", prompt="look", interval="5m")
        played.advance("14m")
        assert played.history("watch") == [
            ("2026-03-29T00:00:00+00:00", "FAILED", "quota"),
            ("2026-03-29T00:05:00+00:00", "QUEUED", None),
        ]
        played.advance("1m")
        assert played.history("watch")[1] == ("2026-03-29T00:05:00+00:00", "COMPLETED", None)
