"""Recordings of the real agents, as the adapters get them."""

import json
from datetime import UTC, datetime

from rota.agents.registry import adapter
from rota.model.agents import AgentResult, AgentTask, ProcessEnd
from tests.agents.fake_agent import RECORDED

ENDED_AT = datetime(2026, 11, 16, 6, 12, tzinfo=UTC)


def recording(name: str) -> ProcessEnd:
    """Return how a recorded process ended."""
    head, *lines = (RECORDED / f"{name}.jsonl").read_text("utf-8").split("\n")
    return ProcessEnd(stdout="\n".join(lines), ended_at=ENDED_AT, **json.loads(head))


def replay(name: str, **task: object) -> AgentResult:
    """Return what the adapter reads from a recording."""
    return read(name.partition("-")[0], recording(name), **task)


def read(agent: str, ended: ProcessEnd, **task: object) -> AgentResult:
    """Return what an adapter reads from the end of a process."""
    reads = adapter(agent).read
    assert reads is not None
    return reads(ended, AgentTask(**{"prompt": "look", **task}))  # type: ignore[arg-type]


def argv(agent: str, **task: object) -> list[str]:
    """Return the command line of a task."""
    invokes = adapter(agent).invoke
    assert invokes is not None
    return list(invokes(AgentTask(**{"prompt": "look", **task})).argv)  # type: ignore[arg-type]
