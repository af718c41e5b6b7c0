"""Document 003's plan for the check loop and the integration of agents, on a clock that moves when told.

The other parts of the plan: parseInterval, calculateNextTrigger, isScheduleDue and buildSchedulePrompt in
tests/unit/library; the state of schedules and getStatus in test_seeing; runSchedule, concurrency and trigger in
test_agents, test_triggering and test_work_sources; start, stop and what survives a restart in test_running.
"""

from collections.abc import Iterator

import pytest

import rota
from rota.model.errors import JobProblems
from rota.model.states import Status
from rota.testing.scene import PlayedScheduler
from tests.library.conftest import LONG, Held

MIDNIGHT = "2026-03-02T00:00:00+00:00"


@pytest.fixture
def played() -> Iterator[PlayedScheduler]:
    """A scheduler with an agent that succeeds and one that raises."""
    with rota.testing.scheduler(now="2026-03-02T00:00Z") as made:
        made.agent("writer", max_concurrent=3)(lambda task: rota.AgentResult(summary=task.job))

        @made.agent("broken")
        async def broken(_task: rota.AgentTask) -> rota.AgentResult:
            raise ValueError("no luck")

        yield made


def starts(played: PlayedScheduler, job: str) -> list[str]:
    return [f"{run.started_at:%H:%M}" for run in played.runs(job) if run.started_at]


def test_all_schedules_of_all_agents_are_looked_at(played: PlayedScheduler) -> None:
    """003 Integration: multiple agents with different intervals."""
    played.agent("reader")(lambda _task: rota.AgentResult(summary="read"))
    played.add_job("often", agent="writer", interval="10m", prompt="look")
    played.add_job("seldom", agent="reader", interval="25m", prompt="look")
    played.advance("30m")
    assert starts(played, "often") == ["00:00", "00:10", "00:20", "00:30"]
    assert starts(played, "seldom") == ["00:00", "00:25"]


def test_a_schedule_that_is_due_starts_at_its_instant() -> None:
    """003 looks every `checkInterval`; DESIGN.md section 2 sleeps to the next instant, so there is no such setting."""
    with pytest.raises(JobProblems, match="check_interval: unknown key"):
        rota.Scheduler(":memory:", scheduler={"check_interval": 1})
    with rota.testing.scheduler(now="2026-03-02T00:00Z") as made:
        made.agent("writer")(lambda _task: rota.AgentResult(summary="done"))
        made.add_job("odd", agent="writer", interval="7s", prompt="look")
        made.advance("21s")
        assert [run.started_at.second for run in made.runs("odd") if run.started_at] == [0, 7, 14, 21]


def test_cron_schedules_start_too(played: PlayedScheduler) -> None:
    """003 leaves cron to a later document and skips it; DESIGN.md section 4 has it."""
    played.add_job("daily", agent="writer", cron="30 0 * * *", prompt="look")
    played.advance("1h")
    assert starts(played, "daily") == ["00:30"]


def test_disabled_schedules_are_left_alone(played: PlayedScheduler) -> None:
    played.add_job("off", agent="writer", interval="10m", prompt="look", enabled=False)
    played.advance("1h")
    assert played.history("off") == []


def test_one_schedule_that_fails_keeps_no_other_from_running(played: PlayedScheduler) -> None:
    played.add_job("bad", agent="broken", interval="10m", prompt="look")
    played.add_job("good", agent="writer", interval="10m", prompt="look")
    played.advance("10m")
    assert [status for _, status, _ in played.history("bad")] == ["FAILED", "FAILED"]
    assert [status for _, status, _ in played.history("good")] == ["COMPLETED", "COMPLETED"]


def test_a_schedule_runs_with_the_default_prompt_where_it_has_none(played: PlayedScheduler) -> None:
    prompts: list[str] = []

    @played.agent("listener", schedules={"hourly": {"type": "interval", "interval": "1h"}})
    def listener(task: rota.AgentTask) -> rota.AgentResult:
        prompts.append(task.prompt.splitlines()[-1])
        return rota.AgentResult(summary="heard")

    assert played.history("listener/hourly") == [(MIDNIGHT, "COMPLETED", None)]
    assert prompts == ["Execute scheduled task"]


def test_the_state_says_running_before_the_agent_has_ended_and_idle_after(
    scheduler: rota.Scheduler, held: Held
) -> None:
    """003: the state of a schedule is updated before and after its run."""

    @scheduler.agent("writer")
    def writer(_task: rota.AgentTask) -> rota.AgentResult:
        held.begun.set()
        assert held.go_on.wait(LONG)
        return rota.AgentResult(summary="done")

    scheduler.add_job("write", agent="writer", prompt="look")
    scheduler.start()
    made = scheduler.sync.trigger("write")
    held.enter()
    assert scheduler.status().of("write").state == "running"
    assert scheduler.running_count("writer") == 1
    held.go_on.set()
    assert scheduler.sync.wait(made.run_id or "", timeout=LONG).status is Status.COMPLETED
    found = scheduler.status().of("write")
    assert (found.state, found.last_run_at is not None, found.last_error) == ("idle", True, None)
