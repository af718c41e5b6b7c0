"""How an agent's run ended: what its process did, and what the agent said about it."""

import pytest

from rota.model.agents import AgentProblem, AgentResult
from rota.model.budget import Usage
from rota.model.records import SUMMARY_LIMIT, Outcome
from rota.model.states import Reason, Status
from rota.rules.agent_outcome import agent_outcome

DONE = Outcome(Status.COMPLETED, exit_code=0)
TOLD = AgentResult(summary="two PRs are stale", tokens_in=12, tokens_out=3, usd=0.5, model="haiku", session_id="s-1")


def test_a_success_has_summary_usage_and_session() -> None:
    found = agent_outcome(DONE, TOLD)
    assert (found.status, found.reason, found.summary) == (Status.COMPLETED, None, "two PRs are stale")
    assert found.usage == Usage(tokens_in=12, tokens_out=3, usd=500_000, model="haiku")
    assert found.session_id == "s-1"


@pytest.mark.parametrize("problem", AgentProblem)
def test_a_problem_is_a_failure_with_its_reason_also_when_the_process_ended_well(problem: AgentProblem) -> None:
    found = agent_outcome(DONE, AgentResult(summary="x", usd=0.1, problem=problem, error="Not logged in"))
    assert (found.status, found.reason, found.error) == (Status.FAILED, Reason(problem.value), "Not logged in")
    assert found.summary is None
    assert found.usage == Usage(usd=100_000)


def test_a_problem_without_words_has_an_error_nevertheless() -> None:
    assert agent_outcome(DONE, AgentResult(problem=AgentProblem.AGENT_ERROR)).error


@pytest.mark.parametrize("reason", [Reason.TIMED_OUT, Reason.SHUTDOWN])
def test_an_agent_that_was_stopped_keeps_that_reason_and_what_it_used(reason: Reason) -> None:
    ended = Outcome(Status.FAILED, reason, error="stopped after 5m")
    found = agent_outcome(ended, AgentResult(tokens_in=7, problem=AgentProblem.AGENT_ERROR, error="no result"))
    assert (found.status, found.reason, found.error) == (Status.FAILED, reason, "stopped after 5m")
    assert found.usage == Usage(tokens_in=7)


def test_a_process_that_failed_is_no_success_whatever_the_agent_says() -> None:
    ended = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit code 3")
    found = agent_outcome(ended, TOLD)
    assert (found.status, found.reason) == (Status.FAILED, Reason.EXIT_CODE)


@pytest.mark.parametrize(
    ("denied", "said"),
    [
        (("Bash",), "two PRs are stale · 1 tool denied: Bash"),
        (("Bash", "Edit"), "two PRs are stale · 2 tools denied: Bash, Edit"),
    ],
)
def test_tools_that_were_denied_are_in_the_summary(denied: tuple[str, ...], said: str) -> None:
    found = agent_outcome(DONE, AgentResult(summary="two PRs are stale", denied_tools=denied))
    assert (found.summary, found.denied_tools) == (said, denied)


def test_a_long_summary_leaves_room_for_the_tools_that_were_denied() -> None:
    found = agent_outcome(DONE, AgentResult(summary="x" * 5000, denied_tools=("Bash",)))
    assert found.summary is not None
    assert found.summary.endswith("1 tool denied: Bash")
    assert len(found.summary) <= SUMMARY_LIMIT


def test_what_a_session_had_cost_before_is_not_counted_again() -> None:
    told = AgentResult(usd=0.75, usd_is_total=True)
    assert agent_outcome(DONE, told, spent_before=0.5).usage == Usage(usd=250_000)
    assert agent_outcome(DONE, told, spent_before=2.0).usage == Usage(usd=0)
    assert agent_outcome(DONE, AgentResult(usd=0.75), spent_before=0.5).usage == Usage(usd=750_000)


def test_what_is_unknown_stays_unknown() -> None:
    """R-19: it is never nothing."""
    assert agent_outcome(DONE, AgentResult(summary="done")).usage is None


def test_what_the_result_file_says_goes_before_what_the_agent_says() -> None:
    ended = Outcome(Status.COMPLETED, exit_code=0, summary="from the file", usage=Usage(tokens_in=99))
    found = agent_outcome(ended, TOLD)
    assert (found.summary, found.usage) == ("from the file", Usage(tokens_in=99))
