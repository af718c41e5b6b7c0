"""Agents, prompts and work sources in a file."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rota.agents.adapter import SERVER, Adapter, refused_arguments
from rota.agents.custom import NAME as CUSTOM
from rota.agents.registry import CERTIFIABLE, adapter, complaints, names
from rota.agents.registry import NAME as PYTHON
from rota.declare.applicability import WORKS
from rota.declare.problems import (
    GROUPS,
    JOB_NAME,
    BadValue,
    ProblemList,
    Reader,
    choice,
    list_of,
    matching,
    read_argument,
    read_items,
    read_text,
    shown,
    wrong_type,
)
from rota.declare.readers.function_agents import FunctionAdapter
from rota.declare.readers.values import one_of, read_command, read_keys, read_record, read_step
from rota.model.agents import PLENTY, Access, McpServer, provider_pool
from rota.model.errors import Problem, did_you_mean
from rota.model.spec import AfterStep, AgentChoice, AgentWork, Carry, Draw, OnQuota, SessionMode, StepFolder, Workspace
from rota.rules.prompts import DEFAULT_PROMPT

Keys = Mapping[str, Any]

AGENTS_POOL = "agents"
MAX_TURNS = 10
DEFAULT = "claude"
LIMITS = ("allowed_tools", "max_turns", "max_usd")
ENFORCED = ("model", *LIMITS)
"""Limits that a program may be unable to keep."""
PROVIDERS = {"anthropic": "claude", "openai": "codex", "google": "gemini"}
"""The agents of the providers that older files name."""
EXTRAS = ("args", "system_prompt", "add_dirs", "mcp_servers", "profile")
"""Options that a program may not have."""
SESSION_LIMITS = ("session_max_age", "session_max_turns")
_GIVEN = (
    *EXTRAS,
    "access",
    *SESSION_LIMITS,
    "session",
    "on_quota",
    "workspace",
    "rota_tools",
    "trust_project",
    "loop_guard",
    *ENFORCED,
)
"""Keys that a job inherits from its agent."""
OF_A_PROCESS = ("env", "env_pass", "env_file", "idle_timeout", "term_grace", "on_restart")
OF_A_FOLDER = ("cwd", "workspace")
"""Keys that an agent without a process, or without a folder, has no use for."""
OF_ITS_AGENT = ("agent", "provider")
"""Keys of an agent that apply to its schedules."""
OTHER_WORK = ("command", "shell", "run")
USUAL_SCHEDULES = {"cron": "0 0 * * *", "interval": "1h"}
RESERVED = {"webhook": "webhooks", "chat": "chats"}


class LoginAccount(Struct, frozen=True):
    """A login of an agent's program: its name, and its folder if that is not the default one."""

    name: str
    dir: str = ""


def read_account(value: Any) -> LoginAccount:
    """Return the account of an agent: its name, or {name, dir}."""
    if isinstance(value, str):
        return LoginAccount(_account_name(value))
    if not isinstance(value, Mapping):
        raise wrong_type(value, "an account", hint=ACCOUNT_HINT)
    readers, known = {"name": _account_name, "dir": _account_dir}, "an account has a name and a dir"
    return LoginAccount(**read_record(value, readers, hint=ACCOUNT_HINT, needs={"name": "has no name"}, known=known))


def _account_dir(value: Any) -> str:
    text = read_text(value)
    if not text.startswith(("/", "~/")):
        raise BadValue(f"{shown(text)} is not a whole path", hint="begin it with / or ~/")
    return text


ACCOUNT_HINT = "write `account: work`, or {name: work, dir: ~/logins/work}"
_account_name = matching(JOB_NAME, "the name of an account", hint="use 1 to 200 letters, digits and . _ -")


class Agent(Struct, frozen=True):
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
    """Return the pool that bounds how many runs of an agent go on at once.

    >>> pool_of("reviewer")
    'agent:reviewer'
    """
    return f"agent:{agent}"


def own_pools(work: AgentWork) -> dict[str, int]:
    """Return the pools that an agent job has without being declared: that of its agent, and that of its provider."""
    each: tuple[AgentWork | AgentChoice, ...] = work.choices or (work,)
    found = {pool_of(one.agent): one.max_concurrent for one in each}
    return found | {provider_pool(one.provider): PLENTY for one in each}


def read_agent(name: str, keys: Keys) -> Agent:
    """Return a configured agent from its read keys; raise BadValue for keys that its adapter cannot keep."""
    # Agents of older files name no program.
    kind = keys.get("adapter") or (name if name in names() else DEFAULT)
    if isinstance(kind, FunctionAdapter):
        return _read_function(name, kind, keys)
    if kind not in names():
        hint = did_you_mean(kind, names(), f"one of {', '.join(names())}")
        raise BadValue(f"there is no adapter {shown(kind)}", code="unknown_agent", hint=hint, at=("adapter",))
    options = keys.get("options", {})
    with ProblemList() as problems:
        hint = "its options are on the page Adapters"
        wrong = complaints(kind, options)
        problems.add(*(Problem(complaint, "invalid_value", at=("options",), hint=hint) for complaint in wrong))
        if not problems.problems:
            _refuse_unkept(kind, keys, options)
    return Agent(name, kind, keys, options, _most_at_once(keys))


def _most_at_once(keys: Keys) -> int:
    most: int = keys.get("max_concurrent", (keys.get("instances") or {}).get("max_concurrent", 1))
    return most


def _read_function(name: str, written: FunctionAdapter, keys: Keys) -> Agent:
    with ProblemList() as problems:
        if "options" in keys:
            hint = "give its jobs `params`, which reach it as task.params"
            problems.add(Problem("a function has no options", "no_effect", at=("options",), hint=hint))
        _refuse_unkept(PYTHON, keys, written.options)
    return Agent(name, PYTHON, keys, written.options, _most_at_once(keys), function=written.run)


def refuse_elsewhere(written: Any, registered: Keys | None, *, python: str | None) -> None:
    """Refuse an adapter that is a function which cannot be called in this process or is not registered."""
    if not isinstance(written, FunctionAdapter):
        return
    at = ("adapter", "run")
    if python is not None:
        hint = "use a program with `adapter: custom`, or remove `python:`"
        message = "runs inside the scheduler, but functions of this project run in another interpreter"
        raise BadValue(message, code="conflict", hint=hint, at=at)
    if ":" not in written.run and registered is not None and written.run not in registered:
        hint = f'register it with @rota.agent("{written.run}") in a module that `imports:` names'
        raise BadValue(f"no agent is named {shown(written.run)}", code="function_missing", hint=hint, at=at)


def _refuse_unkept(kind: str, keys: Keys, options: Keys) -> None:
    with ProblemList() as problems:
        with problems.below():
            if "access" in keys:
                _refuse_access(kind, keys["access"], options)
        counted = ("loop_guard",) if keys.get("loop_guard") is not None else ()
        for limit in (*ENFORCED, *counted):
            if limit in keys and not getattr(adapter(kind, options).capabilities, limit):
                message = f"{_named(kind)} cannot enforce it"
                problems.add(Problem(message, "no_effect", at=(limit,), hint=_remedy(kind, limit)))
        for key in EXTRAS:
            if keys.get(key) and not getattr(adapter(kind, options).capabilities, key):
                hint = "write them into its `argv`" if kind == CUSTOM else "remove this line"
                problems.add(Problem(f"{_named(kind)} has no such option", "no_effect", at=(key,), hint=hint))
        for complaint in refused_arguments(keys.get("args", ())):
            hint = "write long options: [--name, value]; rota has keys for access, tools, model and limits"
            problems.add(Problem(complaint, "conflict", at=("args",), hint=hint))
        for server in keys.get("mcp_servers", ()):
            if not server.tools and keys.get("access", Access.READ) is not Access.FULL:
                message = "names no `tools`, and only `access: full` permits all of them"
                hint = "add `tools:` with the names that the agent may call"
                problems.add(Problem(message, "conflict", at=("mcp_servers", server.name), hint=hint))
        with problems.below():
            _refuse_session(kind, keys, options)
            _refuse_continuation(kind, keys, options)
        for key, (able, message, hint) in _NEEDED.items():
            if keys.get(key) and not able(adapter(kind, options)):
                text = message.format(kind=kind, named=_named(kind))
                problems.add(Problem(text, "no_effect", at=(key,), hint=hint))
        if not any(problem.at[0] in ("access", "allowed_tools") for problem in problems.problems):
            _refuse_beyond(kind, keys, options)


_NEEDED: Mapping[str, tuple[Callable[[Adapter], bool], str, str]] = {
    "after": (
        lambda program: program.invoke is not None,
        "{kind} cannot have a step after it",
        "remove this line: the agent runs inside the scheduler and has no process",
    ),
    "rota_tools": (
        lambda program: program.capabilities.tools_server,
        "{named} cannot be given tools",
        "remove this line, or use another agent: claude, codex, opencode, or custom with {mcp_config}",
    ),
    "account": (
        lambda program: bool(program.home),
        "{named} has no login folder that can be chosen",
        "remove this line, and give its key in `env`",
    ),
    "require_certified": (
        lambda program: program.name in CERTIFIABLE,
        "{named} cannot be certified",
        "remove this line: `rota agents certify` knows claude, codex, gemini and opencode",
    ),
    "trust_project": (
        lambda program: program.capabilities.trust,
        "{named} has no setting for trusted folders",
        "remove this line: this agent has no such setting",
    ),
}
"""The ability that a program needs for a key to have an effect, and the problem without it."""


def _refuse_beyond(kind: str, keys: Keys, options: Keys) -> None:
    access = keys.get("access", Access.READ)
    beyond = adapter(kind, options).beyond(access, keys.get("allowed_tools", ()))
    if beyond:
        hint = "give it `access: write`, or remove the tool"
        message = f"{shown(beyond[0])} needs more than the access {access}"
        raise BadValue(message, code="conflict", hint=hint, at=("allowed_tools",))


def _refuse_session(kind: str, keys: Keys, options: Keys) -> None:
    """Refuse a session that cannot go on, or would be looked for in another folder than the one it began in."""
    if keys.get("session") is SessionMode.RESUME and not adapter(kind, options).capabilities.resume:
        hint = "write `session: fresh`, and `carry: last_summary` to pass on the last summary"
        raise BadValue(f"{_named(kind)} cannot continue a session", code="no_effect", hint=hint, at=("session",))
    limit = next((key for key in SESSION_LIMITS if keys.get(key) is not None), None)
    if limit is not None and keys.get("session") is not SessionMode.RESUME:
        hint = "add `session: resume`, or remove this line"
        raise BadValue("has no effect without `session: resume`", code="no_effect", hint=hint, at=(limit,))
    workspace = keys.get("workspace", Workspace.PROJECT)
    if keys.get("session") is SessionMode.RESUME and workspace is not Workspace.PROJECT:
        message = f"a session belongs to its folder, and with `workspace: {workspace}` each run has its own folder"
        hint = "remove one of them; `carry: last_summary` passes on the last summary"
        raise BadValue(message, code="conflict", hint=hint, at=("session",))


def _refuse_continuation(kind: str, keys: Keys, options: Keys) -> None:
    """Refuse to continue after a rate limit where the program cannot, or another agent or item could come instead."""
    if keys.get("on_quota") is not OnQuota.CONTINUE:
        return
    at = ("on_quota",)
    if not adapter(kind, options).capabilities.resume:
        hint = "remove this line; `retry` starts the task again"
        raise BadValue(f"{_named(kind)} cannot continue a session", code="no_effect", hint=hint, at=at)
    if keys.get("work_source") is not None:
        message = "the item of a refused run goes back to its source, so that the session would get another one"
        raise BadValue(message, code="conflict", hint="remove this line", at=at)


def _named(kind: str) -> str:
    return "the function" if kind == PYTHON else kind


def _remedy(kind: str, limit: str) -> str:
    if kind != PYTHON:
        return "remove this line"
    return f"remove this line, or declare that it does: @rota.agent(…, {limit}=True), or `capabilities: [{limit}]`"


def default_access(kind: str, options: Keys) -> Access:
    """Return the access of a job that says none: read; full for a function that does not say that it keeps levels."""
    bare = kind == PYTHON and Access.READ not in adapter(kind, options).capabilities.access
    return Access.FULL if bare else Access.READ


def _refuse_access(kind: str, access: Access, options: Keys) -> None:
    accesses = adapter(kind, options).capabilities.access
    if access not in accesses:
        hint = f"write `access: {' or '.join(level for level in Access if level in accesses)}`"
        hint = _remedy(kind, "access") if kind == PYTHON else hint
        raise BadValue(f"{_named(kind)} cannot enforce access {access}", code="conflict", hint=hint, at=("access",))


def over_agent(own: Keys, keys: Keys, agents: Agents) -> dict[str, Any]:
    """Return a job's keys: its own, over those of its agent, over the defaults."""
    try:
        agent = _agent(keys, agents)
    except BadValue:
        return dict(keys)
    given = agent.keys if agent else {}
    found = {key: given[key] for key in _GIVEN if key in given}
    if "working_directory" in given:
        found["cwd"] = given["working_directory"]
    return {**keys, **{key: value for key, value in found.items() if key not in own}}


def work_of(keys: Keys, agents: Agents, *, values: Keys) -> AgentWork | None:
    """Return the work of an agent job with its written `values`, None where its agent has problems of its own."""
    agent = _agent(keys, agents)
    if agent is None:
        return None
    kind = adapter(agent.adapter, agent.options)
    access = keys.get("access", default_access(agent.adapter, agent.options))
    with ProblemList() as problems:
        with problems.below():
            _refuse_unkept(agent.adapter, {**keys, "access": access}, agent.options)
        if Carry.POSTCONDITION in keys.get("carry", ()) and keys.get("postcondition") is None:
            hint = "add `postcondition:`, or remove it"
            message = "`postcondition` has no effect without a postcondition"
            raise BadValue(message, code="no_effect", hint=hint, at=("carry",))
        if kind.needs_model and not keys.get("model"):
            raise BadValue(f"{kind.name} needs a model", code="missing_value", hint="add `model:`")
    account: LoginAccount | None = agent.keys.get("account")
    default_turns = MAX_TURNS if kind.capabilities.max_turns and not kind.capabilities.counts_turns else None
    return AgentWork(
        agent=agent.name,
        adapter=agent.adapter,
        provider=_provider(agent, keys.get("model")),
        account=account.name if account else "",
        account_dir=account.dir if account else "",
        require_certified=agent.keys.get("require_certified", False),
        prompt=keys.get("prompt") or keys.get("task") or "",
        access=access,
        max_turns=keys.get("max_turns", default_turns),
        max_concurrent=agent.max_concurrent,
        options=dict(agent.options),
        function=agent.function,
        called=kind.invoke is None,
        **values,
    )


def choices_of(
    own: Keys, keys: Keys, agents: Agents, *, named: Sequence[str], draws: tuple[Draw, ...]
) -> tuple[AgentChoice, ...]:
    """Return the agents and models that may do the work of a job, none for a single one.

    Each of them must be able to keep every limit of the job. `keys` are those of its first agent.
    """
    if "model" in own and len(named) > 1:
        hint = "give each agent its model in `agents:`"
        raise BadValue("no model fits several agents", code="conflict", hint=hint, at=("model",))
    choices: list[AgentChoice] = []
    with ProblemList() as problems:
        for index, name in enumerate(named):
            with problems.below(*(("agent", index) if len(named) > 1 else ())):
                choices += _choices_of(name, own, keys, agents)
    if len(choices) < 2:
        return ()
    if keys.get("on_quota") is OnQuota.CONTINUE:
        hint = "remove this line: the next agent of the list takes over"
        raise BadValue("a session continues with its own agent alone", code="conflict", hint=hint, at=("on_quota",))
    if len({agent_choice.title for agent_choice in choices}) < len(choices):
        raise BadValue("names an agent or a model twice", code="conflict", hint="remove one", at=("agent",))
    choices = [
        _apart(agent_choice) if _shares_provider(agent_choice, choices) else agent_choice for agent_choice in choices
    ]
    return tuple(replace(agent_choice, pools=draws_of(agent_choice, draws)) for agent_choice in choices)


def _shares_provider(one: AgentChoice, found: Sequence[AgentChoice]) -> bool:
    return any(other.agent == one.agent and other.provider == one.provider for other in found if other is not one)


def _apart(one: AgentChoice) -> AgentChoice:
    """Return a choice with a provider of its model alone: a refusal of one model must not hold the others."""
    model = re.sub(r"[^A-Za-z0-9._-]+", "-", one.model or "default")
    return replace(one, provider=f"{one.provider}:{model}")


def _choices_of(name: str, own: Keys, keys: Keys, agents: Agents) -> list[AgentChoice]:
    """Return one agent of a list, once for each of its models."""
    agent = _agent({"agent": name}, agents)
    if agent is None:
        return []
    models = own.get("model") or agent.keys.get("model")
    apart = ("agent", "provider", "model", "args", "system_prompt", "profile")
    choices, rest = [], {key: value for key, value in keys.items() if key not in apart}
    rest |= {key: (own if key in own else agent.keys)[key] for key in apart[3:] if key in own or key in agent.keys}
    for model in models if isinstance(models, tuple) else (models,):
        own_model = {"model": model} if model else {}
        values = own_model | {key: rest[key] for key in apart[3:] if key in rest}
        work = work_of({**rest, "agent": name, **own_model}, agents, values=values)
        if work is not None:
            fields = (field for field in AgentChoice.__struct_fields__ if field != "pools")
            choices.append(AgentChoice(**{field: getattr(work, field) for field in fields}))
    return choices


def _provider(agent: Agent, model: str | None) -> str:
    """Return the provider, whose limits hold all its runs; the agent itself where it is custom and names none."""
    own = _is_own(agent.adapter, agent.options)
    found = agent.name if own else adapter(agent.adapter, agent.options).provider_for(model)
    if not JOB_NAME.fullmatch(found):
        hint = "use letters, digits and . _ -"
        raise BadValue(f"{shown(found)} cannot be a provider's name", code="invalid_value", hint=hint, at=("model",))
    account: LoginAccount | None = agent.keys.get("account")
    return f"{found}/{account.name}" if account else found


def _is_own(kind: str, options: Mapping[str, Any]) -> bool:
    return kind in (CUSTOM, PYTHON) and not options.get("provider")


def in_a_project(work: AgentWork, project: str) -> AgentWork:
    """Return the agent of an included project: two of one name are two, and so are providers that they stand for."""
    choices = tuple(replace(agent_choice, **_names_in(agent_choice, project)) for agent_choice in work.choices)
    return replace(work, **_names_in(work, project), choices=choices)


def _names_in(work: AgentWork | AgentChoice, project: str) -> dict[str, str]:
    own = f"{project}/{work.agent}"
    return {"agent": own, "provider": own if _is_own(work.adapter, work.options) else work.provider}


def without_effect(work: AgentWork, own: Keys) -> list[Problem]:
    """Return those of a job's own keys that mean something to a process alone, where its agent is none."""
    if not work.called:
        return []
    keys = OF_A_PROCESS if work.function else (*OF_A_PROCESS, *OF_A_FOLDER)
    message = "has no effect: this agent runs inside the scheduler"
    looks_at = ("agent", "provider")
    return [
        Problem(message, "no_effect", at=(key,), hint="remove this line", looks_at=looks_at)
        for key in keys
        if key in own
    ]


def one_of_each(keys: Keys) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return keys with the first of several agents and models, and the names of the agents."""
    named = keys.get("agent")
    named = named if isinstance(named, tuple) else () if named is None else (named,)
    firsts = {key: keys[key][0] for key in ("agent", "model") if isinstance(keys.get(key), tuple)}
    return {**keys, **firsts}, named


def agent_limit(keys: Keys, agents: Agents) -> float | None:
    """Return what one run may cost at most, None where no limit is known."""
    try:
        known = _agent(keys, agents) is not None
    except BadValue:  # reported elsewhere; the job's own limit is known
        known = True
    return keys.get("max_usd") if known else None


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
    hint = did_you_mean(named, known, f"use one of {', '.join(known)}")
    at = ("agent",) if "agent" in keys else ("provider",)
    raise BadValue(f"there is no agent {shown(named)}", code="unknown_agent", hint=hint, at=at)


def draws_of(work: AgentWork | AgentChoice, draws: tuple[Draw, ...]) -> tuple[Draw, ...]:
    """Return what a run draws: its own pools, that of all agents, and those of its agent and provider."""
    mine = {draw.pool for draw in draws}
    own = (AGENTS_POOL, pool_of(work.agent), provider_pool(work.provider))
    further = [Draw(pool) for pool in own if pool not in mine]
    return tuple(sorted((*draws, *further), key=lambda draw: draw.pool))


def read_schedule(value: Any) -> dict[str, Any]:
    """Return one of an agent's `schedules` as the keys of a job, without the `type` of older files.

    Where it is refused, the other keys are the refusal's `rest`.
    """
    if not isinstance(value, dict):
        raise wrong_type(value, "a map of keys", hint="write `schedules: {hourly: {interval: 1h, prompt: …}}`")
    keys = dict(value)
    kind = keys.pop("type", None)
    with ProblemList() as problems:
        problems.rest = _job_keys({**_usual_schedule(kind, keys), **keys})
        with problems.below("type"):
            _refuse_type(kind, keys)
        for key in (key for key in OF_ITS_AGENT if key in keys):
            message = "a schedule of an agent has that agent"
            problems.add(Problem(message, "conflict", at=(key,), hint="remove this line"))
        for key in (key for key in OTHER_WORK if key in keys):
            problems.add(Problem("is not work for an agent", "conflict", at=(key,), hint="write `prompt:`"))
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
        raise BadValue(f"{RESERVED[kind]} cannot start jobs", code="choice", hint="use interval or cron")
    if kind is not None and (kind not in ("interval", "cron") or kind not in keys):
        hint = f"add `{kind}:`, or remove this line" if kind in ("interval", "cron") else "remove this line"
        raise BadValue(f"{shown(kind)} contradicts the other keys", code="conflict", hint=hint)


AFTER_HINT = "write {command: [gh, pr, create, --fill]}, or {shell: …}"


def read_agents(value: Any) -> str | tuple[str, ...]:
    """Return the agent of a job, or several in the order of preference."""
    return tuple(read_items(value, read_text)) if isinstance(value, list) and value else read_text(value)


def read_models(value: Any) -> str | tuple[str, ...]:
    """Return a model, or several in the order of preference."""
    return tuple(read_items(value, read_argument)) if isinstance(value, list) and value else read_argument(value)


SERVERS_HINT = "write {docs: {command: [npx, docs-mcp], tools: [search]}}, or {docs: {url: https://…, tools: [search]}}"
_WORD = "at most 40 letters, digits, - and _"
_server_name = matching(re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}"), "the name of a server", hint=_WORD)
_tool_name = matching(re.compile(r"[A-Za-z0-9_-]{1,100}"), "the name of a tool", hint="write it as the server names it")
_variable = matching(re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "the name of a variable", hint="letters, digits and _")
read_profile = matching(re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}"), "the name of a profile", hint=_WORD)


def read_servers(value: Any) -> tuple[McpServer, ...]:
    """Return MCP servers by name: {docs: {command: […], tools: […]}}."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map of servers", hint=SERVERS_HINT)
    servers = []
    with ProblemList() as problems:
        for name, keys in value.items():
            with problems.below(name):
                servers.append(_read_server(_server_name(name), keys))
    return tuple(servers)


def _read_server(name: str, keys: Any) -> McpServer:
    if name == SERVER:
        hint = "choose another name; `rota_tools: true` gives its tools"
        raise BadValue("is the name of rota's own server", code="conflict", hint=hint)
    lists = {"tools": list_of("tools", _tool_name), "env_pass": list_of("env_pass", _variable)}
    readers: Mapping[str, Reader] = {"command": read_command, "url": _server_url, **lists}
    with ProblemList() as problems:
        found = read_keys(keys, readers, problems=problems, hint=SERVERS_HINT)
        if not one_of(("command", "url"), keys, problems=problems):
            raise BadValue("needs either `command` or `url`", code="conflict", hint=SERVERS_HINT)
    return McpServer(name, **found)


def _server_url(value: Any) -> str:
    text = read_text(value)
    if not re.fullmatch(r"https?://[^\s]+", text):
        raise BadValue(f"{shown(text)} is no address", code="invalid_value", hint="write https://…")
    return text


def read_carry(value: Any) -> tuple[Carry, ...]:
    """Return what is carried over: one word, or a list of them."""
    reader = choice(Carry)
    if not isinstance(value, list):
        return (reader(value),)
    return tuple(dict.fromkeys(read_items(value, reader)))


def read_after(value: Any) -> AfterStep:
    """Return the step after an agent: {command: […]} or {shell: …}, with an optional cwd."""
    found = read_step(value, {"cwd": choice(StepFolder)}, key="after", hint=AFTER_HINT, mistyped=GROUPS)
    return AfterStep(**found)
