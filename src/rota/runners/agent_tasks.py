"""The task of an agent in its run's folder: whoever reads its output, also a later scheduler, finds it there."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.model.agents import Access, AgentTask, Session

TASK = "agent.json"
Told = Mapping[str, Any]


def is_agent(folder: Path) -> bool:
    """Tell whether a run's folder is that of an agent."""
    return (folder / TASK).exists()


def read_task(folder: Path) -> Told | None:
    """Return what was noted of a task, None where there is none."""
    try:
        told: Any = json.loads((folder / TASK).read_bytes())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) and "adapter" in told else None


def task_of(told: Told) -> AgentTask:
    """Return a task as far as reading its output needs it.

    It has no session: an adapter then tells only one that the program itself has named.
    """
    return AgentTask(
        prompt="",
        model=told["model"],
        access=Access(told["access"]),
        max_turns=told["max_turns"],
        max_usd=told["max_usd"],
        allowed_tools=tuple(told["allowed_tools"]),
        cwd=told["cwd"],
        run_id=told["run_id"],
        job=told["job"],
        options=told["options"],
        sessions=told.get("sessions") or "",
    )


def write_session(session: Session | None) -> Told | None:
    """Return the session that a run goes on with, as it is noted."""
    if session is None:
        return None
    counted = {"tokens_in": session.tokens_in, "tokens_out": session.tokens_out, "tokens_cached": session.tokens_cached}
    return {"id": session.id, "usd": session.usd, **counted, "adapter": session.adapter}


def session_of(told: Told) -> Session | None:
    """Return the session that a run went on with."""
    return Session(**told["session"]) if told.get("session") else None
