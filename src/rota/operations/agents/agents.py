"""Agents as users see them: configuration, probe on this machine, and current state."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any

import psutil
from msgspec import Struct, field
from msgspec.structs import replace

from rota.agents.adapter import Adapter
from rota.agents.registry import AgentProbe, adapter, probe
from rota.declare.readers.agents import Agent, LoginAccount, default_access, pool_of
from rota.engine.transactions.agents import note_check
from rota.model.agents import Certification
from rota.model.errors import FileProblems, RotaError, UnknownAgent, nearest
from rota.model.records import Job, Run
from rota.model.serialize import fields_json, run_json
from rota.model.spec import AgentChoice, AgentWork, JobSpec
from rota.operations.budgets import SubscriptionView, subscription_json, subscription_views
from rota.operations.capacity import HoldView, hold_json, hold_views
from rota.operations.project.load import is_trusted, load_project
from rota.operations.project.locate import ProjectPaths, in_scope
from rota.operations.runs import asks
from rota.operations.status.heartbeat import heartbeat
from rota.rules.subscriptions import subscription_of
from rota.runners.environment import inherited, login_environment
from rota.settings import account_folder
from rota.store.driver import Database, Store
from rota.store.tables import activity, jobs, queue, run_queries
from rota.text.jobs import remedy_of

COMMAND_OPTIONS = frozenset({"version", "login"})
"""Options of the adapter `custom` that name commands which a probe executes."""


class NamedAgent(Struct, frozen=True):
    """An agent that the file or a job names, with the jobs that use it."""

    name: str
    adapter: str
    options: Mapping[str, Any] = field(default_factory=dict)
    max_concurrent: int = 1
    models: tuple[str, ...] = ()
    access: tuple[str, ...] = ()
    provider: str = ""
    specs: tuple[JobSpec, ...] = ()
    function: str = ""
    account: str = ""
    account_dir: str = ""

    @property
    def kind(self) -> Adapter | None:
        """Its adapter; None for a function of this project."""
        try:
            return adapter(self.adapter, self.options)
        except RotaError:
            return None

    @property
    def providers(self) -> tuple[str, ...]:
        """Its providers: one, or one for each model of a list."""
        works = [spec.work.agent for spec in self.specs if spec.work.agent is not None]
        listed = [choice.provider for work in works for choice in work.choices if choice.agent == self.name]
        return tuple(dict.fromkeys([self.provider, *listed]))

    @property
    def enabled(self) -> bool:
        """Whether an enabled job uses it."""
        return any(spec.enabled for spec in self.specs)


class AgentView(Struct, frozen=True):
    """An agent, its probe on this machine, and its current state."""

    known: NamedAgent
    found: AgentProbe
    remedy: str = ""
    login: Mapping[str, str] = field(default_factory=dict)
    """The variable with the login folder of its account."""
    running: int = 0
    held: HoldView | None = None
    last: Run | None = None
    certified: Certification | None = None
    """The newest certification of its program, maybe of another version."""

    @property
    def sign_in(self) -> str:
        """The command with which a person logs in to its account."""
        kind = self.known.kind
        named = "".join(f"{name}={shlex.quote(folder)} " for name, folder in self.login.items())
        made = "".join(f"mkdir -p {shlex.quote(folder)} && " for folder in self.login.values())
        return f"{made}{named}{kind.sign_in}" if kind is not None and named else ""

    @property
    def pool(self) -> str:
        """The pool that limits its concurrent runs."""
        return pool_of(self.known.name)


class AgentsView(Struct, frozen=True):
    """All agents by name; with a `problem` of the file, the agents of the applied jobs."""

    agents: tuple[AgentView, ...]
    problem: str | None = None
    subscriptions: tuple[SubscriptionView, ...] = ()
    """The subscriptions of agents that report them, and all that were reported."""


def look_at_agents(
    place: ProjectPaths,
    store: Store | None,
    environ: Mapping[str, str],
    *,
    now: datetime,
    name: str | None = None,
    acts: bool = False,
) -> AgentsView:
    """Return the agents of a project, each probed in the environment of its runs; no model is called.

    In an untrusted folder, a probe starts no command of the file and uses no variable of it, unless the caller
    `acts`, as a scheduler does.
    """
    agents, problem = known_agents(place, store, environ, now=now, acts=acts)
    if name is not None:
        near = nearest(name, [agent.name for agent in agents])
        agents = [agent for agent in agents if agent.name == name]
        if not agents:
            raise UnknownAgent(name, near=near)
    environment = _scheduler_environ(place) or environ
    if acts or is_trusted(place.folder, environ):
        probes = probe_each([(agent, environment_of(agent, environment, place)) for agent in agents])
    else:
        probes = probe_each([(_without_commands(agent), environ) for agent in agents])
    views = [
        _with_remedy(AgentView(agent, seen, login=login_of(agent, environment)), environ)
        for agent, seen in zip(agents, probes, strict=True)
    ]
    if store is not None:
        views = store.read(partial(_standing, views=views))
    return AgentsView(tuple(views), problem, _subscriptions(store, agents, now=now))


def _subscriptions(store: Store | None, agents: Sequence[NamedAgent], *, now: datetime) -> tuple[SubscriptionView, ...]:
    """Return the subscriptions of these agents; `not reported` is said of programs that report them."""
    if store is None:
        return ()
    telling = {
        name
        for agent in agents
        if agent.kind is not None and agent.kind.capabilities.windows
        for name in agent.providers
        if name
    }
    mine = {subscription_of(name) for agent in agents for name in agent.providers}
    subscriptions = store.read(partial(subscription_views, now=now, providers=telling))
    return tuple(subscription for subscription in subscriptions if subscription.provider in mine)


def known_agents(
    place: ProjectPaths, store: Store | None, environ: Mapping[str, str], *, now: datetime, acts: bool = False
) -> tuple[list[NamedAgent], str | None]:
    """Return the agents that the file, its jobs or stored jobs name, by name."""
    entries: Sequence[Agent] = ()
    specs: list[JobSpec] = []
    problem = None
    try:
        declared = load_project(place.folder, environ, state=place.state, now=now, lenient=True, acts=acts).declared
        entries, specs = declared.agents, list(declared.jobs)
    except FileProblems as error:
        problem = f"the file has problems ({len(error.problems)}), so these are the agents of the applied jobs"
    stored = store.read(jobs.all_jobs) if store is not None else []
    declared_names = {spec.name for spec in specs}
    specs += [job.spec for job in stored if job.retired_at is None and job.name not in declared_names]
    return [agent for agent in join_agents(entries, specs) if in_scope(agent.name, place.scope)], problem


def join_agents(entries: Iterable[Agent], specs: Iterable[JobSpec]) -> list[NamedAgent]:
    """Return the agents of entries and jobs, each once, by name, with their default access if none is set."""
    agents = {entry.name: _of_entry(entry) for entry in entries}
    for spec in specs:
        work = spec.work.agent
        if work is not None:
            each: tuple[AgentWork | AgentChoice, ...] = work.choices or (work,)
            for one in each:
                unlisted = NamedAgent(
                    one.agent,
                    one.adapter,
                    dict(one.options),
                    one.max_concurrent,
                    account=one.account,
                    account_dir=one.account_dir,
                )
                agents[one.agent] = _with_job(agents.get(one.agent) or unlisted, spec, one, access=work.access.value)
    return [
        agent
        if agent.access or agent.kind is None
        else replace(agent, access=(default_access(agent.adapter, agent.options).value,))
        for _, agent in sorted(agents.items())
    ]


def _of_entry(entry: Agent) -> NamedAgent:
    keys = entry.keys
    written = keys.get("model") or ()
    models = written if isinstance(written, tuple) else (str(written),)
    access = (str(keys["access"]),) if keys.get("access") else ()
    agent = NamedAgent(entry.name, entry.adapter, dict(entry.options), entry.max_concurrent, models, access)
    provider = agent.kind.provider_for(next(iter(models), None)) if agent.kind else ""
    account: LoginAccount | None = keys.get("account")
    if account is None:
        return replace(agent, function=entry.function, provider=provider)
    provider = f"{provider}/{account.name}"
    return replace(agent, function=entry.function, provider=provider, account=account.name, account_dir=account.dir)


def _with_job(agent: NamedAgent, spec: JobSpec, one: AgentWork | AgentChoice, *, access: str) -> NamedAgent:
    models = (*agent.models, *([one.model] if one.model else []))
    return replace(
        agent,
        models=tuple(dict.fromkeys(models)),
        access=tuple(dict.fromkeys((*agent.access, access))),
        provider=one.provider,
        function=agent.function or spec.work.function,
        specs=(*agent.specs, spec),
    )


def _scheduler_environ(place: ProjectPaths) -> Mapping[str, str] | None:
    """Return the environment of the running scheduler; None if none runs or its environment is not readable."""
    pid = heartbeat(place.state).pid
    try:
        return psutil.Process(pid).environ() if pid is not None else None
    except psutil.Error:
        return None


def environment_of(agent: NamedAgent, environ: Mapping[str, str], place: ProjectPaths) -> dict[str, str]:
    """Return the environment of an agent's runs, of all its jobs together."""
    variables = inherited(environ)
    for spec in agent.specs:
        variables |= login_environment(spec.work, environ, project=place.folder, state=place.state)
    return variables | login_of(agent, environ)


def login_of(agent: NamedAgent, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable with the login folder of an agent's account; none without an account."""
    if not agent.account or agent.kind is None or not agent.kind.home:
        return {}
    return {agent.kind.home: account_folder(environ, agent.adapter, agent.account, agent.account_dir)}


def probe_each(agents: Sequence[tuple[NamedAgent, Mapping[str, str]]]) -> list[AgentProbe]:
    """Probe agents concurrently; the same program in the same environment once."""
    keys = [
        json.dumps([agent.adapter, agent.function, agent.options, dict(env)], sort_keys=True, default=str)
        for agent, env in agents
    ]
    unique = dict(zip(reversed(keys), reversed(agents), strict=True))
    with ThreadPoolExecutor(max(1, len(unique))) as pool:
        probes = dict(zip(unique, pool.map(lambda pair: _probe(*pair), unique.values()), strict=True))
    return [replace(probes[key], name=agent.name) for key, (agent, _) in zip(keys, agents, strict=True)]


def release_logged_in(store: Store, views: Sequence[AgentView], *, now: datetime) -> list[str]:
    """Release the providers that wait for a login and whose probed agents all work; return them."""
    broken = {view.known.provider for view in views if view.found.problem}
    works = {view.known.provider for view in views} - broken

    def release(db: Database) -> list[str]:
        held = [hold for hold in queue.holds(db) if hold.login and hold.provider in works]
        released = [hold.provider for hold in held if note_check(db, hold, works=True, now=now)]
        if released:
            activity.touch(db, what="release", now=now)
        return released

    return store.write(release)


def _without_commands(agent: NamedAgent) -> NamedAgent:
    return replace(agent, options={key: value for key, value in agent.options.items() if key not in COMMAND_OPTIONS})


def _probe(agent: NamedAgent, environ: Mapping[str, str]) -> AgentProbe:
    kind = agent.kind
    if kind is None or (kind.invoke is None and kind.reach is None):
        # a function: it was imported when the file was read
        return AgentProbe(agent.name, agent.function or agent.adapter, headless=True)
    return probe(kind, environ, agent.options)


def _with_remedy(view: AgentView, environ: Mapping[str, str]) -> AgentView:
    missing = _missing_logins(view.known, view.found, environ)
    return replace(view, remedy=remedy_of(view.found, missing, sign_in=view.sign_in))


def _missing_logins(agent: NamedAgent, found: AgentProbe, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the login variables of this shell that the agent's runs do not get."""
    if found.logged_in is not False or agent.kind is None or agent.kind.probe is None:
        return ()
    return tuple(name for name in agent.kind.probe.login_env if environ.get(name))


def _standing(db: Database, *, views: Sequence[AgentView]) -> list[AgentView]:
    used = {pool.name: pool.used for pool in queue.pools(db)}
    held = {view.hold.provider: view for view in hold_views(db)}
    stored = jobs.all_jobs(db)
    return [
        replace(
            view,
            running=used.get(view.pool, 0),
            held=next((held[name] for name in view.known.providers if name in held), None),
            certified=activity.certification(db, view.known.adapter),
            last=_last(db, [job for job in stored if asks(job, view.known.name)]),
        )
        for view in views
    ]


def _last(db: Database, of: Iterable[Job]) -> Run | None:
    newest = [run for job in of for run in run_queries.newest_runs(db, job.id, limit=1)]
    return max(newest, key=lambda run: run.id, default=None)


def agents_json(view: AgentsView) -> dict[str, Any]:
    """Return the agents as JSON."""
    return {
        "agents": [_agent_json(agent) for agent in view.agents],
        "subscriptions": [subscription_json(subscription) for subscription in view.subscriptions],
        "problem": view.problem,
    }


def _certified(view: AgentView) -> bool | None:
    """Return whether the installed version is certified; None: no attempt was made."""
    certification = view.certified
    return None if certification is None else certification.passed and certification.version == view.found.version


def _agent_json(view: AgentView) -> dict[str, Any]:
    agent, probed = view.known, view.found
    return {
        **fields_json(agent, "name", "adapter"),
        "provider": agent.provider or None,
        "account": agent.account or None,
        "login_folder": next(iter(view.login.values()), None),
        **fields_json(agent, "models", "access"),
        "path": probed.path,
        "version": probed.version or None,
        "certified": _certified(view),
        **fields_json(probed, "logged_in", "headless", "problem"),
        "remedy": view.remedy or None,
        "running": view.running,
        "max_concurrent": agent.max_concurrent,
        "pool": view.pool,
        "hold": hold_json(view.held) if view.held else None,
        "jobs": [spec.name for spec in agent.specs],
        "last": run_json(view.last) if view.last else None,
    }
