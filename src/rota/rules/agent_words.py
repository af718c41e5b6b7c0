"""What people are told about agents: the tools that were refused, what is missing, and what to do about it."""

from collections.abc import Sequence
from typing import Protocol

from rota.model.agents import Access
from rota.model.spec import AgentWork


class Seen(Protocol):
    """What was found of an agent on this machine."""

    @property
    def path(self) -> str | None: ...
    @property
    def logged_in(self) -> bool | None: ...
    @property
    def headless(self) -> bool | None: ...
    @property
    def problem(self) -> str | None: ...


SHOWN = 10
OWN = ("mcp__rota", "mcp_rota_", "rota_")
"""How the agents name the tools of rota's own server."""


def say_denied(tools: Sequence[str], work: AgentWork | None) -> str:
    """Return which tools were refused, and what to change; empty for none.

    >>> say_denied(["Bash"], AgentWork("claude", "claude", "anthropic"))
    'Bash: beyond `access: read`; give it `access: write` or `full`, or ask for less in the prompt'
    """
    if not tools:
        return ""
    distinct = list(dict.fromkeys(tools))
    more = f" and {len(distinct) - SHOWN} more" if len(distinct) > SHOWN else ""
    return f"{', '.join(distinct[:SHOWN])}{more}: {_advice(distinct, work)}"


def remedy_of(found: Seen, keys: Sequence[str] = ()) -> str:
    """Return what to do about an agent that cannot work; `keys` are logins of this shell that its runs do not get."""
    if found.problem is None:
        return ""
    if found.path is None:
        return "install it, or start rota with a PATH that has it"
    if "://" in found.path:
        return "start that server, or name another one by OLLAMA_HOST or `options: {host: …}`"
    if found.headless is False:
        return "update it, or rota, and try `rota agents check` again"
    if found.logged_in is False and keys:
        return f"its runs do not get {keys[0]} of this shell; give it to them: `env_pass: [{keys[0]}]`"
    if found.logged_in is False:
        return "log in with it once, as the user that rota runs as, or give its runs a key by `env` or `env_pass`"
    return "try that command by hand, as the user that rota runs as"


def _advice(tools: Sequence[str], work: AgentWork | None) -> str:
    if work is None:
        return "ask the program that started them"
    if any(tool.startswith(OWN) for tool in tools):
        late = "rota's server was not there in time: try `rota mcp --list` where the run was"
        return late if work.rota_tools else "rota's own tools need `rota_tools: true`"
    if work.allowed_tools:
        return "not among its `allowed_tools`; add them there if it may use them"
    if work.access is Access.FULL:
        return "allowed by rota with `access: full`; look at the program's own settings and hooks"
    wider = "`access: write` or `full`" if work.access is Access.READ else "`access: full`"
    return f"beyond `access: {work.access}`; give it {wider}, or ask for less in the prompt"
