"""A session that a program does not know: told by what it did not say, never by words of its own."""

import pytest
from tests.agents.replaying import replay

from rota.model.agents import AgentSession
from rota.rules.agents import is_lost

RESUMED = AgentSession("s-1")


@pytest.mark.parametrize("name", ["claude-no_session", "codex-no_session", "opencode-no_session"])
def test_a_program_that_does_not_find_a_session_has_lost_it(name: str) -> None:
    assert is_lost(replay(name), RESUMED)


def test_a_session_that_has_become_too_long_is_lost_although_it_was_found() -> None:
    """Trap: Codex names the session, and would fail with it for ever."""
    result = replay("codex-too_long")
    assert result.session_id
    assert is_lost(result, RESUMED)


@pytest.mark.parametrize(
    "name",
    [
        *("claude-resumed", "claude-overloaded", "claude-max_turns", "claude-max_usd", "claude-nothing"),
        *("claude-bad_key", "claude-usage_limit"),
        *("codex-resumed", "codex-nothing", "codex-bad_key", "codex-quota", "codex-unavailable", "opencode-nothing"),
    ],
)
def test_a_failure_of_another_kind_leaves_the_session(name: str) -> None:
    assert not is_lost(replay(name), RESUMED)


def test_a_run_that_began_afresh_has_none_to_lose() -> None:
    assert not is_lost(replay("claude-no_session"), None)
