"""The `agents:` section and the agent jobs: adapters found, limits judged, nothing accepted and ignored (R-30)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from rota.agents.registry import FIXED, adapter, complaints, names
from rota.declare.fields import Refused, shown, wrong_type
from rota.declare.fitting import WORKS
from rota.model.agents import Access
from rota.model.spec import AgentWork, Draw

Keys = Mapping[str, Any]

AGENTS_POOL = "agents"
MAX_TURNS = 10
DEFAULT = "claude"
LIMITS = ("allowed_tools", "max_turns", "max_usd")
KEPT = ("model", *LIMITS)
"""What a program may not be able to keep."""
PROVIDERS = {"anthropic": "claude", "openai": "codex", "google": "gemini"}
"""Who answers for the providers that document 004 names."""
_GIVEN = ("access", *KEPT)
"""What a job gets from its agent when it says nothing else."""
RESERVED = {"webhook": "webhooks", "chat": "chats"}


@dataclass(frozen=True, slots=True)
class Agent:
    """One configured agent, with what its jobs get when they say nothing else."""

    name: str
    adapter: str
    keys: Keys = field(default_factory=dict)
    options: Keys = field(default_factory=dict)
    max_concurrent: int = 1


Agents = Mapping[str, Agent | None]
"""Configured agents by name; None for one that has problems of its own."""


def pool_of(agent: str) -> str:
    """Return the pool that bounds how many runs of an agent go on at once (R-04).

    >>> pool_of("reviewer")
    'agent:reviewer'
    """
    return f"agent:{agent}"


def read_agent(name: str, keys: Keys) -> Agent:
    """Return a configured agent from its read keys; raise Refused for what it cannot be."""
    kind = keys.get("adapter") or (name if name in names() else None)
    if kind is None:
        hint = f"add `adapter:`, one of {', '.join(names())}"
        raise Refused("does not say which program it is", code="missing_value", hint=hint)
    if kind not in names():
        near = get_close_matches(kind, names(), n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"one of {', '.join(names())}"
        raise Refused(f"there is no adapter {shown(kind)}", code="unknown_agent", hint=hint, at=("adapter",))
    _refuse_calls(kind, at=("adapter",) if "adapter" in keys else ())
    options = keys.get("options", {})
    for complaint in complaints(kind, options):
        raise Refused(complaint, code="invalid_value", hint="the page Agents tells its options", at=("options",))
    if "access" in keys:
        _refuse_access(kind, keys["access"], options)
    _refuse_limits(kind, keys, options)
    instances = keys.get("instances")
    most = keys.get("max_concurrent", instances.max_concurrent if instances is not None else 1)
    return Agent(name, kind, keys, options, most)


def _refuse_calls(kind: str, *, at: tuple[str, ...]) -> None:
    """Refuse an adapter that is a call and no process: nothing here makes such a call yet."""
    if kind in FIXED and FIXED[kind].invoke is None:
        hint = "name a program that asks it, as `adapter: custom`"
        raise Refused(f"{kind} jobs are not in this version", code="not_in_this_version", hint=hint, at=at)


def _refuse_limits(kind: str, keys: Keys, options: Keys) -> None:
    can = adapter(kind, options).capabilities
    for limit in KEPT:
        if limit in keys and not getattr(can, limit):
            raise Refused(f"{kind} cannot keep it", code="no_effect", hint="remove this line", at=(limit,))
    access = keys.get("access", Access.READ)
    beyond = adapter(kind, options).beyond(access, keys.get("allowed_tools", ()))
    if beyond:
        hint = "give it `access: write`, or remove the tool"
        message = f"{shown(beyond[0])} changes things, and the access is {access}"
        raise Refused(message, code="conflict", hint=hint, at=("allowed_tools",))


def _refuse_access(kind: str, access: Access, options: Keys) -> None:
    kept = adapter(kind, options).capabilities.access
    if access not in kept:
        hint = f"write `access: {' or '.join(level for level in Access if level in kept)}`"
        raise Refused(f"{kind} cannot keep {access}", code="conflict", hint=hint, at=("access",))


def over_agent(own: Keys, keys: Keys, agents: Agents) -> dict[str, Any]:
    """Return a job's keys: its own, over those of its agent, over the defaults."""
    try:
        agent = _agent(keys, agents)
    except Refused:
        return dict(keys)
    given = agent.keys if agent else {}
    found = {key: given[key] for key in _GIVEN if key in given}
    if "working_directory" in given:
        found["cwd"] = given["working_directory"]
    return {**keys, **{key: value for key, value in found.items() if key not in own}}


def work_of(keys: Keys, agents: Agents, *, prompt_file: str) -> AgentWork | None:
    """Return what an agent job asks, None where its agent is wrong itself; raise Refused for what cannot be kept."""
    agent = _agent(keys, agents)
    if agent is None:
        return None
    _refuse_access(agent.adapter, keys.get("access", Access.READ), agent.options)
    _refuse_limits(agent.adapter, keys, agent.options)
    kind = adapter(agent.adapter, agent.options)
    default_turns = MAX_TURNS if kind.capabilities.max_turns else None
    return AgentWork(
        agent=agent.name,
        adapter=agent.adapter,
        provider=kind.provider_for(keys.get("model")),
        prompt=keys.get("prompt") or keys.get("task") or "",
        prompt_file=prompt_file,
        model=keys.get("model"),
        access=keys.get("access", Access.READ),
        max_turns=keys.get("max_turns", default_turns),
        max_usd=keys.get("max_usd"),
        allowed_tools=tuple(keys.get("allowed_tools", ())),
        max_concurrent=agent.max_concurrent,
        options=dict(agent.options),
    )


def agent_limit(keys: Keys, agents: Agents) -> float | None:
    """Return what one run may cost at most, None where nobody says."""
    try:
        work = work_of(keys, agents, prompt_file="")
    except Refused:
        return None
    return None if work is None else work.max_usd


def _agent(keys: Keys, agents: Agents) -> Agent | None:
    """Return the agent of a job: the one it names, the only one there is, or the built-in one."""
    named = keys.get("agent")
    provider = keys.get("provider")
    if named is None and provider is not None:
        named = PROVIDERS.get(provider, provider)
    if named is None:
        named = next(iter(agents)) if len(agents) == 1 else DEFAULT
    if named in agents:
        return agents[named]
    if named in names() and not complaints(named, {}):
        _refuse_calls(named, at=("agent",) if "agent" in keys else ("provider",))
        return Agent(named, named)
    known = [*agents, *(name for name in names() if not complaints(name, {}))]
    near = get_close_matches(named, known, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(known)}"
    at = ("agent",) if "agent" in keys else ("provider",)
    raise Refused(f"there is no agent {shown(named)}", code="unknown_agent", hint=hint, at=at)


def draws_of(work: AgentWork, draws: tuple[Draw, ...]) -> tuple[Draw, ...]:
    """Return what a run draws: its own pools, the pool of all agents, and that of its agent (R-04)."""
    mine = {draw.pool for draw in draws}
    further = [Draw(pool) for pool in (AGENTS_POOL, pool_of(work.agent)) if pool not in mine]
    return tuple(sorted((*draws, *further), key=lambda draw: draw.pool))


def read_schedule(value: Any) -> dict[str, Any]:
    """Return one of an agent's `schedules` as the keys of a job, without document 003's `type`."""
    if not isinstance(value, dict):
        raise wrong_type(value, "a map of keys", hint="write `schedules: {hourly: {interval: 1h, prompt: …}}`")
    keys = dict(value)
    kind = keys.pop("type", None)
    if kind in RESERVED:
        raise Refused(f"{RESERVED[kind]} do not start jobs", code="choice", hint="use interval or cron", at=("type",))
    if kind is not None and (kind not in ("interval", "cron") or kind not in keys):
        raise Refused(
            f"{shown(kind)} does not agree with its other keys", code="conflict", hint="remove this line", at=("type",)
        )
    for key in ("agent", "provider"):
        if key in keys:
            raise Refused("is said by the agent that it stands in", code="conflict", hint="remove this line", at=(key,))
    for key in ("command", "shell", "run"):
        if key in keys:
            raise Refused("is no work for an agent", code="conflict", hint="write `prompt:`", at=(key,))
    if not set(WORKS) & set(keys):
        keys["prompt"] = ""
    return keys
