"""The `agents:` section and the agent jobs: adapters found, limits judged, nothing accepted and ignored (R-30)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rota.agents.custom import NAME as CUSTOM
from rota.agents.python import NAME as PYTHON
from rota.agents.registry import adapter, complaints, names
from rota.declare.fields import JOB_NAME, Refused, shown, wrong_type
from rota.declare.fitting import WORKS
from rota.declare.function_agents import FunctionAdapter
from rota.declare.parts import Parts
from rota.model.agents import Access
from rota.model.holds import PLENTY, provider_pool
from rota.model.spec import AgentWork, Draw, SessionMode, Workspace
from rota.rules.nearest import did_you_mean
from rota.rules.prompts import DEFAULT_PROMPT

Keys = Mapping[str, Any]

AGENTS_POOL = "agents"
MAX_TURNS = 10
DEFAULT = "claude"
LIMITS = ("allowed_tools", "max_turns", "max_usd")
KEPT = ("model", *LIMITS)
"""What a program may not be able to keep."""
PROVIDERS = {"anthropic": "claude", "openai": "codex", "google": "gemini"}
"""Who answers for the providers that document 004 names."""
_GIVEN = ("access", "session", "workspace", "rota_tools", "trust_project", *KEPT)
"""What a job gets from its agent when it says nothing else."""
OF_A_PROCESS = ("env", "env_pass", "env_file", "term_grace", "on_restart")
OF_A_FOLDER = ("cwd", "workspace")
OF_ITS_AGENT = ("agent", "provider")
"""What the agent says for its schedules."""
OTHER_WORK = ("command", "shell", "run")
USUAL_SCHEDULES = {"cron": "0 0 * * *", "interval": "1h"}
"""Keys that an agent without a process, or without a folder, has no use for."""
RESERVED = {"webhook": "webhooks", "chat": "chats"}


@dataclass(frozen=True, slots=True)
class Agent:
    """One configured agent, with what its jobs get when they say nothing else."""

    name: str
    adapter: str
    keys: Keys = field(default_factory=dict)
    options: Keys = field(default_factory=dict)
    max_concurrent: int = 1
    function: str = ""
    """The Python function that it is, by its registered name or as module:function; empty for a program."""


Agents = Mapping[str, Agent | None]
"""Configured agents by name; None for one that has problems of its own."""


def pool_of(agent: str) -> str:
    """Return the pool that bounds how many runs of an agent go on at once (R-04).

    >>> pool_of("reviewer")
    'agent:reviewer'
    """
    return f"agent:{agent}"


def own_pools(work: AgentWork) -> dict[str, int]:
    """Return the pools that an agent job has without being declared: that of its agent, and that of its provider."""
    return {pool_of(work.agent): work.max_concurrent, provider_pool(work.provider): PLENTY}


def read_agent(name: str, keys: Keys) -> Agent:
    """Return a configured agent from its read keys; raise Refused for what it cannot be."""
    # Document 003 knows one program alone, and its agents name none.
    kind = keys.get("adapter") or (name if name in names() else DEFAULT)
    if isinstance(kind, FunctionAdapter):
        return _read_function(name, kind, keys)
    if kind not in names():
        hint = did_you_mean(kind, names(), f"one of {', '.join(names())}")
        raise Refused(f"there is no adapter {shown(kind)}", code="unknown_agent", hint=hint, at=("adapter",))
    options = keys.get("options", {})
    with Parts() as parts:
        hint = "the page Agents tells its options"
        parts.refuse(*(Refused(complaint, hint=hint, at=("options",)) for complaint in complaints(kind, options)))
        if not parts.refused:
            _refuse_unkept(kind, keys, options)
    return Agent(name, kind, keys, options, _most_at_once(keys))


def _most_at_once(keys: Keys) -> int:
    instances = keys.get("instances")
    most: int = keys.get("max_concurrent", instances.max_concurrent if instances is not None else 1)
    return most


def _read_function(name: str, written: FunctionAdapter, keys: Keys) -> Agent:
    """Return an agent that is a Python function."""
    with Parts() as parts:
        if "options" in keys:
            hint = "give its jobs `params`, which reach it as task.params"
            parts.refuse(Refused("a function has no options", code="no_effect", hint=hint, at=("options",)))
        _refuse_unkept(PYTHON, keys, written.options)
    return Agent(name, PYTHON, keys, written.options, _most_at_once(keys), function=written.run)


def refuse_elsewhere(written: Any, registered: Keys | None, *, python: str | None) -> None:
    """Refuse an adapter that is a function which cannot be called in this process, or that nobody registered."""
    if not isinstance(written, FunctionAdapter):
        return
    at = ("adapter", "run")
    if python is not None:
        hint = "make it a program with `adapter: custom`, or remove `python:` where that is said"
        message = "is a function inside the scheduler's process, and functions of this project run in another one"
        raise Refused(message, code="conflict", hint=hint, at=at)
    if ":" not in written.run and registered is not None and written.run not in registered:
        hint = f'register it with @rota.agent("{written.run}") in a module that `imports:` names'
        raise Refused(f"no agent is named {shown(written.run)}", code="function_missing", hint=hint, at=at)


def _refuse_unkept(kind: str, keys: Keys, options: Keys) -> None:
    """Refuse everything that a program cannot keep."""
    with Parts() as parts:
        with parts.below():
            if "access" in keys:
                _refuse_access(kind, keys["access"], options)
        for limit in KEPT:
            if limit in keys and not getattr(adapter(kind, options).capabilities, limit):
                message = f"{_named(kind)} cannot keep it"
                parts.refuse(Refused(message, code="no_effect", hint=_remedy(kind, limit), at=(limit,)))
        for refuse in (_refuse_session, _refuse_step, _refuse_tools, _refuse_trust):
            with parts.below():
                refuse(kind, keys, options)
        if not any(one.at[0] in ("access", "allowed_tools") for one in parts.refused):
            _refuse_beyond(kind, keys, options)


def _refuse_step(kind: str, keys: Keys, options: Keys) -> None:
    if keys.get("after") and adapter(kind, options).invoke is None:
        hint = "remove this line: it runs inside the scheduler, and a step comes after a process"
        raise Refused(f"nothing can come after {kind}", code="no_effect", hint=hint, at=("after",))


def _refuse_tools(kind: str, keys: Keys, options: Keys) -> None:
    if keys.get("rota_tools") and not adapter(kind, options).capabilities.tools_server:
        hint = "remove this line, or let another agent do it: claude, codex, opencode, or custom with {mcp_config}"
        raise Refused(f"{_named(kind)} cannot be given tools", code="no_effect", hint=hint, at=("rota_tools",))


def _refuse_trust(kind: str, keys: Keys, options: Keys) -> None:
    if keys.get("trust_project") and not adapter(kind, options).capabilities.trust:
        hint = "remove this line: rota passes no such setting to it"
        raise Refused(f"{_named(kind)} has no trust in folders", code="no_effect", hint=hint, at=("trust_project",))


def _refuse_beyond(kind: str, keys: Keys, options: Keys) -> None:
    """Refuse tools that do more than the access allows."""
    access = keys.get("access", Access.READ)
    beyond = adapter(kind, options).beyond(access, keys.get("allowed_tools", ()))
    if beyond:
        hint = "give it `access: write`, or remove the tool"
        message = f"{shown(beyond[0])} changes things, and the access is {access}"
        raise Refused(message, code="conflict", hint=hint, at=("allowed_tools",))


def _refuse_session(kind: str, keys: Keys, options: Keys) -> None:
    """Refuse a session that cannot go on, or would be looked for in another folder than the one it began in."""
    if keys.get("session") is SessionMode.RESUME and not adapter(kind, options).capabilities.resume:
        hint = "write `session: fresh`, and `carry: last_summary` to tell a run what the last one said"
        raise Refused(f"{_named(kind)} cannot go on with a session", code="no_effect", hint=hint, at=("session",))
    workspace = keys.get("workspace", Workspace.PROJECT)
    if keys.get("session") is SessionMode.RESUME and workspace is not Workspace.PROJECT:
        message = (
            f"a session belongs to the folder that it began in, and with `workspace: {workspace}` each run has its own"
        )
        hint = "remove one of them; `carry: last_summary` tells a run what the last one said"
        raise Refused(message, code="conflict", hint=hint, at=("session",))


def _named(kind: str) -> str:
    return "the function" if kind == PYTHON else kind


def _remedy(kind: str, limit: str) -> str:
    if kind != PYTHON:
        return "remove this line"
    return f"remove this line, or say that it does: @rota.agent(…, {limit}=True), or `capabilities: [{limit}]`"


def default_access(kind: str, options: Keys) -> Access:
    """Return the access of a job that says none: read; full for a function that does not say that it keeps levels."""
    bare = kind == PYTHON and Access.READ not in adapter(kind, options).capabilities.access
    return Access.FULL if bare else Access.READ


def _refuse_access(kind: str, access: Access, options: Keys) -> None:
    kept = adapter(kind, options).capabilities.access
    if access not in kept:
        hint = f"write `access: {' or '.join(level for level in Access if level in kept)}`"
        hint = _remedy(kind, "access") if kind == PYTHON else hint
        raise Refused(f"{_named(kind)} cannot keep {access}", code="conflict", hint=hint, at=("access",))


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
    kind = adapter(agent.adapter, agent.options)
    access = keys.get("access", default_access(agent.adapter, agent.options))
    with Parts() as parts:
        with parts.below():
            _refuse_unkept(agent.adapter, {**keys, "access": access}, agent.options)
        if kind.needs_model and not keys.get("model"):
            raise Refused(f"{kind.name} has to be told which model", code="missing_value", hint="add `model:`")
    default_turns = MAX_TURNS if kind.capabilities.max_turns else None
    return AgentWork(
        agent=agent.name,
        adapter=agent.adapter,
        provider=_provider(agent, keys.get("model")),
        prompt=keys.get("prompt") or keys.get("task") or "",
        prompt_file=prompt_file,
        model=keys.get("model"),
        access=access,
        max_turns=keys.get("max_turns", default_turns),
        max_usd=keys.get("max_usd"),
        allowed_tools=tuple(keys.get("allowed_tools", ())),
        max_concurrent=agent.max_concurrent,
        options=dict(agent.options),
        function=agent.function,
        called=kind.invoke is None,
        session=keys.get("session", SessionMode.FRESH),
        carry=tuple(keys.get("carry", ())),
        workspace=keys.get("workspace", Workspace.PROJECT),
        after=keys.get("after"),
        source=keys.get("work_source"),
        rota_tools=keys.get("rota_tools", False),
        trust_project=keys.get("trust_project", False),
        placeholders=keys.get("placeholders", True),
    )


def _provider(agent: Agent, model: str | None) -> str:
    """Return who answers, and is held when it refuses; that of one's own agents is the agent where nobody is named."""
    own = _is_own(agent.adapter, agent.options)
    found = agent.name if own else adapter(agent.adapter, agent.options).provider_for(model)
    if not JOB_NAME.fullmatch(found):
        hint = "use letters, digits and . _ -"
        raise Refused(f"{shown(found)} cannot be a provider's name", code="invalid_value", hint=hint, at=("model",))
    return found


def _is_own(kind: str, options: Mapping[str, Any]) -> bool:
    return kind in (CUSTOM, PYTHON) and not options.get("provider")


def in_a_project(work: AgentWork, project: str) -> AgentWork:
    """Return the agent of an included project: two of one name are two, and so are providers that they stand for."""
    own = f"{project}/{work.agent}"
    return replace(work, agent=own, provider=own if _is_own(work.adapter, work.options) else work.provider)


def without_effect(work: AgentWork, own: Keys) -> list[Refused]:
    """Return those of a job's own keys that mean something to a process alone, where its agent is none."""
    if not work.called:
        return []
    keys = OF_A_PROCESS if work.function else (*OF_A_PROCESS, *OF_A_FOLDER)
    message = "has no effect on an agent inside the scheduler's process"
    return [Refused(message, code="no_effect", hint="remove this line", at=(key,)) for key in keys if key in own]


def agent_limit(keys: Keys, agents: Agents) -> float | None:
    """Return what one run may cost at most, None where nobody says."""
    try:
        work = work_of(keys, agents, prompt_file="")
    except Refused:  # told elsewhere; what the job itself says is said
        return keys.get("max_usd")
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
        return Agent(named, named)
    known = [*agents, *(name for name in names() if not complaints(name, {}))]
    hint = did_you_mean(named, known, f"known are {', '.join(known)}")
    at = ("agent",) if "agent" in keys else ("provider",)
    raise Refused(f"there is no agent {shown(named)}", code="unknown_agent", hint=hint, at=at)


def draws_of(work: AgentWork, draws: tuple[Draw, ...]) -> tuple[Draw, ...]:
    """Return what a run draws: its own pools, that of all agents, and those of its agent and provider (R-04)."""
    mine = {draw.pool for draw in draws}
    further = [Draw(pool) for pool in (AGENTS_POOL, *own_pools(work)) if pool not in mine]
    return tuple(sorted((*draws, *further), key=lambda draw: draw.pool))


def read_schedule(value: Any) -> dict[str, Any]:
    """Return one of an agent's `schedules` as the keys of a job, without document 003's `type`.

    Where it is refused, the other keys are the refusal's `rest`.
    """
    if not isinstance(value, dict):
        raise wrong_type(value, "a map of keys", hint="write `schedules: {hourly: {interval: 1h, prompt: …}}`")
    keys = dict(value)
    kind = keys.pop("type", None)
    with Parts() as parts:
        parts.rest = _job_keys({**_usual_schedule(kind, keys), **keys})
        with parts.below("type"):
            _refuse_type(kind, keys)
        for key in (key for key in OF_ITS_AGENT if key in keys):
            message = "is said by the agent that it stands in"
            parts.refuse(Refused(message, code="conflict", hint="remove this line", at=(key,)))
        for key in (key for key in OTHER_WORK if key in keys):
            parts.refuse(Refused("is no work for an agent", code="conflict", hint="write `prompt:`", at=(key,)))
    return _job_keys(keys)


def _job_keys(keys: Keys) -> dict[str, Any]:
    """Return the keys of a schedule that a job of its agent has; without work it is the usual task."""
    found = {key: value for key, value in keys.items() if key not in (*OF_ITS_AGENT, *OTHER_WORK)}
    return found if set(WORKS) & set(found) else {**found, "prompt": DEFAULT_PROMPT}


def _usual_schedule(kind: Any, keys: Keys) -> dict[str, Any]:
    """Return a schedule in the place of one that `type` names and that is missing, so that other keys have one."""
    timed = isinstance(kind, str) and kind in USUAL_SCHEDULES and not {"cron", "interval", "at"} & set(keys)
    return {kind: USUAL_SCHEDULES[kind]} if timed else {}


def _refuse_type(kind: Any, keys: Keys) -> None:
    if isinstance(kind, str) and kind in RESERVED:
        raise Refused(f"{RESERVED[kind]} do not start jobs", code="choice", hint="use interval or cron")
    if kind is not None and (kind not in ("interval", "cron") or kind not in keys):
        hint = f"add `{kind}:`, or remove this line" if kind in ("interval", "cron") else "remove this line"
        raise Refused(f"{shown(kind)} does not agree with its other keys", code="conflict", hint=hint)
