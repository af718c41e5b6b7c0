"""Ollama: one request, its answer, and its failures."""

import asyncio
import json
from typing import Any

import pytest

from rota.agents.ollama import ADAPTER, address, reach, run
from rota.agents.stub import Stub, serving
from rota.model.agents import Access, AgentProblem, AgentResult, AgentTask


def ask(stub: Stub, order: dict[str, Any], **task: Any) -> AgentResult:
    prompt = f"look\nstub: {json.dumps(order)}"
    options = {"host": stub.url}
    return asyncio.run(run(AgentTask(**{"prompt": prompt, "model": "llama3", "options": options, **task})))


def test_an_answer_tells_text_and_tokens_and_no_cost() -> None:
    with serving() as stub:
        result = ask(stub, {"say": "fine"})
    assert (result.problem, result.summary, result.model) == (None, "fine", "llama3")
    assert (result.tokens_in, result.tokens_out, result.usd) == (1200, 34, None)
    ((path, body),) = [(asked.path, asked.body) for asked in stub.asked]
    assert (path, body["model"], body["stream"]) == ("/api/chat", "llama3", False)


def test_an_empty_answer_is_no_success() -> None:
    with serving() as stub:
        assert ask(stub, {"say": ""}).problem is AgentProblem.AGENT_ERROR


@pytest.mark.parametrize(
    ("status", "problem"),
    [(404, AgentProblem.AGENT_ERROR), (401, AgentProblem.AUTH), (429, AgentProblem.QUOTA)],
)
def test_a_refusal_has_its_class_and_its_words(status: int, problem: AgentProblem) -> None:
    with serving() as stub:
        result = ask(stub, {"status": status, "message": "model 'llama3' not found"})
    assert (result.problem, result.error) == (problem, "model 'llama3' not found")


def test_nobody_there_is_a_failure() -> None:
    result = asyncio.run(run(AgentTask("look", model="llama3", options={"host": "127.0.0.1:1"})))
    assert result.problem is AgentProblem.AGENT_ERROR
    assert "no answer from http://127.0.0.1:1/api/chat" in (result.error or "")


def test_a_model_is_needed() -> None:
    result = asyncio.run(run(AgentTask("look")))
    assert (result.problem, result.error) == (AgentProblem.AGENT_ERROR, "ollama needs a model: set `model`")


def test_the_host_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as stub:
        monkeypatch.setenv("OLLAMA_HOST", stub.url)
        assert ask(stub, {}, options={}).problem is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (None, "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:9000", "http://127.0.0.1:9000"),
        ("box", "http://box:11434"),
        ("box:9000", "http://box:9000"),
        ("[::1]:9000", "http://[::1]:9000"),
        ("https://box.example/ollama/", "https://box.example/ollama"),
    ],
)
def test_a_host_is_written_as_its_own_variable_takes_it(host: str | None, expected: str) -> None:
    assert address(host) == expected


def test_it_is_looked_for_where_it_is_asked() -> None:
    with serving() as stub:
        where, _, problem = reach({"OLLAMA_HOST": "127.0.0.1:1"}, {"host": stub.url})
    assert (where, problem) == (stub.url, None)
    assert reach({"OLLAMA_HOST": "127.0.0.1:1"}, {})[2] is not None


def test_it_keeps_access_to_read_alone_and_no_limit() -> None:
    """R-30: it has no tools, and what it cannot keep is not among its capabilities."""
    found = ADAPTER.capabilities
    assert found.access == {Access.READ}
    assert not any((found.max_turns, found.max_usd, found.allowed_tools, found.resume, found.cost, found.tools_server))


def test_an_option_that_is_not_known_is_complained_about() -> None:
    """R-30"""
    assert ADAPTER.complaints({"host": "box"}) == ()
    assert ADAPTER.complaints({"port": 9}) == ("port: unknown option",)
