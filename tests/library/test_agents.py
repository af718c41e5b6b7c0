"""Agents of an embedded scheduler: document 003's plan for `trigger`, `runSchedule` and `concurrency` per agent."""

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
    assert "'nobody'" in (fleet.sync.trigger("nobody").error or "")
    assert "'writer/third'" in (fleet.sync.trigger("writer", "third").error or "")
    assert "'idle'" in (fleet.sync.trigger("idle").error or "")


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


def test_a_function_is_registered_as_an_agent_of_this_scheduler_alone(fleet: rota.Scheduler) -> None:
    @fleet.agent("researcher", max_concurrent=2)
    async def researcher(task: rota.AgentTask) -> rota.AgentResult:
        return rota.AgentResult(summary=task.prompt)

    registered = fleet.declarations.registry.agents["researcher"]
    assert (registered.function, dict(registered.keys)) == (researcher, {"max_concurrent": 2})
    with pytest.raises(JobProblems, match=r"jobs\.watch\.agent"):
        fleet.add_job("watch", agent="researcher", prompt="What changed?")
