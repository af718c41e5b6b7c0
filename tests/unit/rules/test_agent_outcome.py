"""How an agent's run ended: what its process did, and what the agent said about it."""

import pytest

from rota.model.agents import AgentProblem, AgentResult, AgentSession
from rota.model.budgets import Usage
from rota.model.records import SUMMARY_LIMIT, Outcome
from rota.model.states import Reason, Status
from rota.rules.agents import agent_outcome

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
    assert agent_outcome(DONE, told, resumed=AgentSession("s", usd=0.5)).usage == Usage(usd=250_000)
    assert agent_outcome(DONE, AgentResult(usd=0.75), resumed=AgentSession("s", usd=0.5)).usage == Usage(usd=750_000)


def test_the_tokens_of_a_session_are_not_counted_again() -> None:
    told = AgentResult(tokens_in=100, tokens_out=9, tokens_are_total=True)
    before = AgentSession("s", tokens_in=60, tokens_out=4)
    assert agent_outcome(DONE, told, resumed=before).usage == Usage(tokens_in=40, tokens_out=5)


def test_a_total_that_is_smaller_than_before_was_begun_anew_and_counts_whole() -> None:
    told = AgentResult(usd=0.75, usd_is_total=True)
    assert agent_outcome(DONE, told, resumed=AgentSession("s", usd=2.0)).usage == Usage(usd=750_000)


def test_a_session_that_a_program_would_take_for_an_option_is_not_kept() -> None:
    assert agent_outcome(DONE, AgentResult(session_id="--yolo"), resumes=True).session is None


def test_a_job_that_resumes_keeps_its_session_with_its_totals() -> None:
    before = AgentSession("s-1", usd=0.25, tokens_in=5, tokens_out=1)
    totals = AgentResult(session_id="s-2", usd=0.75, usd_is_total=True, tokens_in=3, tokens_out=2)
    kept = agent_outcome(DONE, totals, resumed=before, resumes=True).session
    assert kept == AgentSession("s-2", usd=0.75, tokens_in=8, tokens_out=3, turns=1)
    assert agent_outcome(DONE, totals, resumed=before).session is None


def test_a_run_that_was_stopped_before_its_figures_leaves_the_totals_as_they_were() -> None:
    """What it used is part of the next total, and so charged to the next run."""
    ended = Outcome(Status.FAILED, Reason.TIMED_OUT, error="timed out")
    result = AgentResult(session_id="s-1", problem=AgentProblem.AGENT_ERROR, usd_is_total=True)
    found = agent_outcome(ended, result, resumed=AgentSession("s-1", usd=0.5), resumes=True)
    assert (found.session, found.usage) == (AgentSession("s-1", usd=0.5, turns=1), None)


def test_a_session_that_the_program_does_not_find_is_given_up_with_its_words() -> None:
    result = AgentResult(problem=AgentProblem.AGENT_ERROR, error="No conversation found with session ID: s-1")
    found = agent_outcome(DONE, result, resumed=AgentSession("s-1"), resumes=True)
    assert (found.status, found.reason, found.session_lost) == (Status.FAILED, Reason.AGENT_ERROR, "s-1")
    assert found.error is not None
    assert "No conversation found" in found.error
    assert "the next run starts a new one" in found.error


@pytest.mark.parametrize(
    "result",
    [
        AgentResult(problem=AgentProblem.AUTH, error="not logged in"),
        AgentResult(problem=AgentProblem.QUOTA, error="no more"),
        AgentResult(problem=AgentProblem.AGENT_ERROR, error="overloaded", session_id="s-1"),
    ],
)
def test_a_failure_for_another_reason_does_not_give_the_session_up(result: AgentResult) -> None:
    found = agent_outcome(DONE, result, resumed=AgentSession("s-1"), resumes=True)
    assert (found.error, found.session_lost) == (result.error, None)


def test_a_run_that_was_stopped_does_not_give_the_session_up() -> None:
    ended = Outcome(Status.FAILED, Reason.SHUTDOWN, error="stopped")
    result = AgentResult(problem=AgentProblem.AGENT_ERROR, error="was stopped")
    assert agent_outcome(ended, result, resumed=AgentSession("s-1"), resumes=True).session_lost is None


def test_what_is_unknown_stays_unknown() -> None:
    """R-19: it is never nothing."""
    assert agent_outcome(DONE, AgentResult(summary="done")).usage is None


def test_what_the_result_file_says_goes_before_what_the_agent_says() -> None:
    ended = Outcome(Status.COMPLETED, exit_code=0, summary="from the file", usage=Usage(tokens_in=99))
    found = agent_outcome(ended, TOLD)
    assert (found.summary, found.usage) == ("from the file", Usage(tokens_in=99))
