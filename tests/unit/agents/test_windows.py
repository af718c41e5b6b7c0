"""What programs and APIs report about the windows of a subscription."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agents.replaying import read, recording, replay
from tests.unit.agents.test_codex_agent import rollout

from rota import SubscriptionWindow
from rota.agents.windows import claude_windows, codex_windows, header_windows
from rota.model.errors import InvalidValue
from rota.runners.agent_step import judge_result

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
SECONDS = int(NOON.timestamp())
WEEK = NOON + timedelta(days=3)


def event(**info: Any) -> dict[str, Any]:
    return {"type": "rate_limit_event", "rate_limit_info": info}


def test_a_rejected_run_of_claude_says_that_its_window_is_full() -> None:
    assert replay("claude-usage_limit").windows == (SubscriptionWindow("five_hour", 1.0, NOON),)


def test_claude_tells_all_windows_and_the_last_report_counts() -> None:
    weeks = {"five_hour": {"utilization": 0.24, "resetsAt": SECONDS}, "seven_day": {"utilization": 1, "resetsAt": None}}
    told = [
        event(status="allowed", rateLimitType="five_hour", resetsAt=SECONDS, unifiedWindows=weeks),
        event(status="allowed_warning", rateLimitType="five_hour", utilization=0.9, resetsAt=SECONDS),
    ]
    assert claude_windows(told[:1]) == (
        SubscriptionWindow("five_hour", 0.24, NOON),
        SubscriptionWindow("seven_day", 1.0, None),
    )
    assert claude_windows(told)[0] == SubscriptionWindow("five_hour", 0.9, NOON)


def test_an_allowed_run_of_claude_may_tell_the_reset_alone() -> None:
    [window] = claude_windows([event(status="allowed", rateLimitType="five_hour", resetsAt=SECONDS)])
    assert window == SubscriptionWindow("five_hour", None, NOON)


@pytest.mark.parametrize("info", [{}, {"rateLimitType": None}, {"unifiedWindows": [1]}, {"unifiedWindows": {}}])
def test_an_event_without_a_window_tells_nothing(info: dict[str, Any]) -> None:
    assert claude_windows([event(**info)]) == ()
    assert claude_windows([{"type": "rate_limit_event", "rate_limit_info": "x"}]) == ()


def test_codex_tells_its_windows_in_the_file_of_the_session(tmp_path: Path) -> None:
    limits = {
        "primary": {"used_percent": 82.5, "window_minutes": 300, "resets_at": SECONDS},
        "secondary": {"used_percent": 130.0, "window_minutes": 10080, "resets_in_seconds": 60},
    }
    folder = rollout(tmp_path, {"type": "task_started"}, {"type": "token_count", "rate_limits": limits})
    ended = replace(recording("codex-success"), ended_at=NOON)
    assert read("codex", ended, sessions=folder).windows == (
        SubscriptionWindow("five_hour", 0.825, NOON),
        SubscriptionWindow("seven_day", 1.0, NOON + timedelta(minutes=1)),
    )


@pytest.mark.parametrize(
    ("limits", "windows"),
    [
        ({}, ()),
        ({"primary": None, "secondary": {"used_percent": "half"}}, ()),
        ({"primary": {"used_percent": 5}}, (SubscriptionWindow("primary", 0.05, None),)),
        ({"primary": {"used_percent": 5, "window_minutes": 7}}, (SubscriptionWindow("7_minutes", 0.05, None),)),
        (
            {"primary": {"used_percent": 5, "resets_in_seconds": 9e15}},
            (SubscriptionWindow("primary", 0.05, None),),
        ),
    ],
)
def test_codex_windows_are_named_after_their_length(limits: Any, windows: Any) -> None:
    assert codex_windows(limits, NOON) == windows


@pytest.mark.parametrize(
    ("headers", "window"),
    [
        (
            {"Anthropic-Ratelimit-Unified-5h-Utilization": "0.5", "anthropic-ratelimit-unified-5h-reset": str(SECONDS)},
            SubscriptionWindow("five_hour", 0.5, NOON),
        ),
        (
            {
                "anthropic-ratelimit-input-tokens-limit": "1000",
                "anthropic-ratelimit-input-tokens-remaining": "250",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-16T12:00:00Z",
            },
            SubscriptionWindow("input-tokens", 0.75, NOON),
        ),
        (
            {
                "x-ratelimit-limit-tokens": "100",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "6m0s",
                "date": "Mon, 16 Nov 2026 11:54:00 GMT",
            },
            SubscriptionWindow("tokens", 1.0, NOON),
        ),
        (
            {"x-codex-secondary-used-percent": "40", "x-codex-secondary-window-minutes": "10080"},
            SubscriptionWindow("seven_day", 0.4, None),
        ),
    ],
)
def test_apis_tell_their_windows_in_headers(headers: dict[str, str], window: SubscriptionWindow) -> None:
    assert header_windows(headers) == (window,)


@pytest.mark.parametrize(
    "headers",
    [
        {"date": "yesterday"},
        {"x-ratelimit-limit-requests": "50"},
        {"x-ratelimit-limit-requests": "0", "x-ratelimit-remaining-requests": "0"},
        {"anthropic-ratelimit-unified-5h-utilization": "much", "x-codex-primary-used-percent": "-1"},
    ],
)
def test_headers_that_say_nothing_sure_tell_no_window(headers: dict[str, str]) -> None:
    assert header_windows(headers) == ()


def test_opencode_tells_the_headers_of_an_error() -> None:
    ended = recording("opencode-quota")
    told = json.loads(ended.stdout.splitlines()[-1])
    told["error"]["data"]["responseHeaders"] |= {
        "x-ratelimit-limit-requests": "4",
        "x-ratelimit-remaining-requests": "0",
    }
    result = read("opencode", replace(ended, stdout=json.dumps(told)))
    assert result.windows == (SubscriptionWindow("requests", 1.0, None),)


@pytest.mark.parametrize(
    "windows", ["five_hour", [("five_hour", 0.5)], [SubscriptionWindow("x", 82)], [SubscriptionWindow("")]]
)
def test_a_function_that_reports_something_else_is_refused(windows: Any) -> None:
    with pytest.raises(InvalidValue, match="windows of the agent's result is"):
        judge_result(replace(replay("claude-success"), windows=windows))


def test_a_function_may_report_windows() -> None:
    windows = (SubscriptionWindow("five_hour", 0.5, NOON),)
    assert judge_result(replace(replay("claude-success"), windows=list(windows))).windows == windows
