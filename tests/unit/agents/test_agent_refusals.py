"""Why a provider refused, and when it takes work again, told from its words."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from rota.agents.adapter import from_epoch, problem_of, reset_told
from rota.model.agents import AgentProblem

NOW = datetime(2026, 11, 16, 6, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "status", "problem"),
    [
        ("whatever", 401, AgentProblem.AUTH),
        ("whatever", 403, AgentProblem.AUTH),
        ("whatever", 429, AgentProblem.QUOTA),
        ("whatever", 402, AgentProblem.QUOTA),
        ("Overloaded", 529, AgentProblem.OUTAGE),
        ("whatever", 500, AgentProblem.OUTAGE),
        ("whatever", 599, AgentProblem.OUTAGE),
        ("whatever", 404, AgentProblem.AGENT_ERROR),
        ("unexpected status 403 Forbidden: no access, url: http://stub/v1", None, AgentProblem.AUTH),
        ("unexpected status 503 Service Unavailable: gone, url: http://stub/v1", None, AgentProblem.OUTAGE),
        ("We’re currently experiencing high demand, which may cause temporary errors.", None, AgentProblem.OUTAGE),
        ("exceeded retry limit, last status: 502 Bad Gateway", None, AgentProblem.OUTAGE),
        ('[API Error: {"error":{"code":500,"message":"Internal error"}}]', None, AgentProblem.OUTAGE),
        ("[API Error: exception TypeError: fetch failed sending request]", None, AgentProblem.OUTAGE),
        ("API Error: Connection refused — a firewall may be blocking it (ECONNREFUSED)", None, AgentProblem.OUTAGE),
        ("cannot read line 503 of notes.txt", None, AgentProblem.AGENT_ERROR),
        ("Codex ran out of room in the model's context window.", None, AgentProblem.AGENT_ERROR),
        ("prompt is too long: 4290 tokens > 429 maximum", 400, AgentProblem.AGENT_ERROR),
        ("Not logged in · Please run /login", None, AgentProblem.AUTH),
        ("Incorrect API key provided: sk-x", None, AgentProblem.AUTH),
        ("API key not valid. Please pass a valid API key.", 400, AgentProblem.AUTH),
        ("Missing environment variable: `OPENAI_API_KEY`.", None, AgentProblem.AUTH),
        ("usage limit reached, resets 11:00", None, AgentProblem.QUOTA),
        ("Claude AI usage limit reached|1794830400", None, AgentProblem.QUOTA),
        ("You've hit your session limit · resets 3pm", None, AgentProblem.QUOTA),
        ("exceeded retry limit, last status: 429 Too Many Requests", None, AgentProblem.QUOTA),
        ("RESOURCE_EXHAUSTED", None, AgentProblem.QUOTA),
        ("Your credit balance is too low", 400, AgentProblem.QUOTA),
        ("the author of this file is unknown", None, AgentProblem.AGENT_ERROR),
        ("request 4290 failed", None, AgentProblem.AGENT_ERROR),
    ],
)
def test_an_error_has_its_class(text: str, status: int | None, problem: AgentProblem) -> None:
    assert problem_of(text, status) is problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("usage limit reached, resets 11:00", datetime(2026, 11, 16, 11, tzinfo=UTC)),
        ("usage limit reached, resets 05:00", datetime(2026, 11, 17, 5, tzinfo=UTC)),
        ("You've hit your limit · resets 3pm (Europe/Madrid)", datetime(2026, 11, 16, 14, tzinfo=UTC)),
        ("You've hit your limit · resets 12am (UTC)", datetime(2026, 11, 17, tzinfo=UTC)),
        ("limit · resets Nov 20, 5:30pm (America/New_York)", datetime(2026, 11, 20, 22, 30, tzinfo=UTC)),
        ("limit · resets Jan 2 at 9am", datetime(2027, 1, 2, 9, tzinfo=UTC)),
        ("Try again at Nov 20th, 2026 3:45 PM.", datetime(2026, 11, 20, 15, 45, tzinfo=UTC)),
        ("usage limit reached|1794830400", datetime(2026, 11, 16, 12, tzinfo=UTC)),
        ("usage limit reached|1794830400000", datetime(2026, 11, 16, 12, tzinfo=UTC)),
        ("limit until 2026-11-16T12:00:00Z", datetime(2026, 11, 16, 12, tzinfo=UTC)),
        ("Please try again in 20s.", datetime(2026, 11, 16, 6, 12, 20, tzinfo=UTC)),
        ("Please retry in 1.5s.", datetime(2026, 11, 16, 6, 12, 1, 500000, tzinfo=UTC)),
        ("Please retry in 20.5s. Suggested retry after 20s.", datetime(2026, 11, 16, 6, 12, 20, 500000, tzinfo=UTC)),
        ("Try again in 1 day, 2 hours. Thanks.", datetime(2026, 11, 17, 8, 12, tzinfo=UTC)),
        ("usage limit reached, try again at 6:11 AM.", datetime(2026, 11, 16, 6, 11, tzinfo=UTC)),
        ("usage limit reached, try again at 6:12 AM.", datetime(2026, 11, 16, 6, 12, tzinfo=UTC)),
        ("usage limit reached, try again at Nov 16, 6:11 AM.", datetime(2026, 11, 16, 6, 11, tzinfo=UTC)),
        ("usage limit reached, try again at 5:52 AM.", datetime(2026, 11, 17, 5, 52, tzinfo=UTC)),
        ("Your quota will reset after 5h30m12s.", datetime(2026, 11, 16, 11, 42, 12, tzinfo=UTC)),
        ("Try again in 3 days 2 hours 5 minutes.", datetime(2026, 11, 19, 8, 17, tzinfo=UTC)),
        ("slow down", None),
        ("limit · resets Feb 31, 5pm", None),
        ("limit · resets 3pm (Nowhere/Land)", None),
        ("limit · resets 45:99", None),
        ("this model has 3 limits", None),
    ],
)
def test_the_words_tell_when_a_provider_takes_work_again(text: str, expected: datetime | None) -> None:
    assert reset_told(text, NOW) == expected


def test_a_time_of_day_of_the_minute_before_midnight_is_not_tomorrow() -> None:
    midnight = datetime(2026, 11, 17, 0, 0, 30, tzinfo=UTC)
    assert reset_told("try again at 11:59 PM", midnight) == datetime(2026, 11, 16, 23, 59, tzinfo=UTC)


def test_a_time_of_day_without_a_zone_is_that_of_the_machine() -> None:
    madrid = NOW.astimezone(ZoneInfo("Europe/Madrid"))
    assert reset_told("resets 11:00", madrid) == datetime(2026, 11, 16, 10, tzinfo=UTC)


def test_a_time_of_day_means_nothing_to_who_does_not_know_the_time() -> None:
    assert reset_told("resets 11:00", None) is None
    assert reset_told("limit reached|1794830400", None) == datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_an_instant_beyond_the_calendar_is_none() -> None:
    assert from_epoch(1e300) is None
    assert reset_told("try again in 99999999999999 days", NOW) is None
