"""What every adapter is: a record of what it can keep, and the functions that start it and read it."""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.model.agents import Access, AgentResult, AgentTask, Capabilities, Ended, Invocation, Probe


def _no_tools(_access: Access, _tools: Sequence[str]) -> tuple[str, ...]:
    return ()


def _no_options(options: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{name}: unknown option" for name in options)


STATE_FILES = ("rota.db", "rota.db-wal", "rota.db-shm", "secrets", "secrets.env", "token", "token.new")
"""What is hidden in the state folder also before it exists."""


def hidden_from(task: AgentTask) -> list[str]:
    """Return the paths in the state folder that an agent must not see: all but those that lead to its own folders."""
    if not task.state:
        return []
    names = {*STATE_FILES, *(os.listdir(task.state) if os.path.isdir(task.state) else ())}
    paths = [os.path.join(task.state, name) for name in sorted(names)]
    return [path for path in paths if not any(f"{own}/".startswith(f"{path}/") for own in (task.folder, task.cwd))]


@dataclass(frozen=True, slots=True)
class Adapter:
    """One kind of agent. It has either `invoke` and `read` (a process) or `run` (a call in this process).

    That of a Python function has none of them: whoever runs it knows the function.
    """

    name: str
    provider: str
    """Who answers, and is held when it refuses; empty: the first part of the model's name says it."""
    capabilities: Capabilities
    executable: str = ""
    probe: Probe | None = None
    invoke: Callable[[AgentTask], Invocation] | None = None
    read: Callable[[Ended, AgentTask], AgentResult] | None = None
    run: Callable[[AgentTask], Awaitable[AgentResult]] | None = None
    reach: Callable[[Mapping[str, str], Mapping[str, Any]], tuple[str, str, str | None]] | None = None
    """Where `run` asks with these variables and options, what version answers, the problem when none does."""
    tell: Callable[[dict[str, Any]], Iterable[str]] | None = None
    """What an event of its output says to a person who watches; None: its output is text."""
    sessions: Callable[[Mapping[str, str]], str] | None = None
    """Where a run with these variables keeps its sessions, where `read` looks into them."""
    login_problem: Callable[[str], str | None] | None = None
    """What keeps the program from its provider, by the report of its probe; None: nothing, it needs no login."""
    needs_model: bool = False
    """Whether it can do nothing without being told which model to use."""
    beyond: Callable[[Access, Sequence[str]], tuple[str, ...]] = _no_tools
    """Which of some `allowed_tools` go beyond an access; such a job is refused at load."""
    complaints: Callable[[Mapping[str, Any]], tuple[str, ...]] = _no_options
    """What is wrong with the options of the file, each as `key: text`."""

    def provider_for(self, model: str | None) -> str:
        """Return who answers when this model is asked."""
        first, slash, _ = (model or "").partition("/")
        return self.provider or (first if slash and first else self.name)
