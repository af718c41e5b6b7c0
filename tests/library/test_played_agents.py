"""Jobs of agents in `rota.testing`: their answers, refusals and prompts are scripted."""

from datetime import timedelta

import rota
from rota import AgentResult


def test_each_run_takes_the_next_result_and_the_last_one_repeats() -> None:
    with rota.testing.scheduler(now="2026-03-28T00:30Z", timezone="UTC") as s:
        s.add_job("ask", prompt="Look.", cron="0 * * * *")
        denied = AgentResult(summary="two", denied_tools=("Bash",), tokens_in=7, usd=0.25)
        s.script_agent("ask", AgentResult(summary="one"), denied)
        s.advance("150m")
        assert [run.result_summary for run in s.runs("ask")] == ["one", *["two · 1 tool denied: Bash"] * 2]
        assert s.runs("ask")[1].usage == {"tokens_in": 7, "usd_millionths": 250_000}


def test_a_refusal_holds_the_provider_until_its_reset() -> None:
    with rota.testing.scheduler(now="2026-03-28T00:00Z", timezone="UTC") as s:
        s.add_job("ask", prompt="Look.")
        resets_at = s.now + timedelta(hours=5)
        s.script_agent(
            "ask", AgentResult(problem="quota", error="limit", resets_at=resets_at), AgentResult(summary="ok")
        )
        s.trigger("ask")
        s.trigger("ask")
        s.advance("4h")
        assert [run.status for run in s.runs("ask")] == ["FAILED", "QUEUED"]
        s.advance("61m")
        assert s.runs("ask")[1].result_summary == "ok"


def test_a_prompt_is_the_task_as_the_agent_gets_it() -> None:
    with rota.testing.scheduler(now="2026-03-28T00:00Z", timezone="UTC") as s:
        s.add_job("ask", prompt="Look at {{ job }}.", carry="last_summary")
        s.script_agent("ask", AgentResult(summary="nothing new"))
        s.trigger("ask")
        s.trigger("ask")
        first, second = s.prompts("ask")
        assert first == "Look at ask."
        assert second.endswith("Summary of the last completed run:\nnothing new")


def test_an_outage_is_retried_when_the_hold_ends() -> None:
    with rota.testing.scheduler(now="2026-03-28T00:00Z", timezone="UTC") as s:
        s.add_job("ask", prompt="Look.")
        s.script_agent("ask", AgentResult(problem="outage", error="overloaded"), AgentResult(summary="ok"))
        s.trigger("ask")
        s.advance("5m")
        assert [run.reason or run.result_summary for run in s.runs("ask")] == ["outage", "ok"]
