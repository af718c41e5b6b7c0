"""Agent jobs for tests on scripted processes."""

from typing import Any

from msgspec.structs import replace

from rota.model.spec import AgentWork, JobSpec, Kind, Work
from tests.engine.conftest import command


def agent(name: str, *, cwd: str = ".", **keys: Any) -> JobSpec:
    """Return an agent job without retries, and without pools: `keys` are those of its agent's work."""
    asked = AgentWork(**{"agent": "claude", "adapter": "claude", "provider": "anthropic", "prompt": "x", **keys})
    return replace(command(name), work=Work(Kind.AGENT, agent=asked, cwd=cwd))
