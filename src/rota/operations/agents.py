"""Agents as people ask for them: configured ones and those that jobs name, what they need, and how they stand."""

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from rota.agents.adapter import Adapter
from rota.agents.registry import AgentProbe, adapter, probe
from rota.declare.agents import Agent, default_access, pool_of
from rota.model.errors import FileProblems, RotaError, UnknownAgent
from rota.model.records import Job, Run
from rota.model.serialize import run_json
from rota.model.spec import AgentWork, JobSpec
from rota.operations.capacity import HoldView, hold_json, hold_views
from rota.operations.project.load import is_trusted, load_project
from rota.operations.project.locate import ProjectPaths, in_scope
from rota.operations.runs import asks
from rota.operations.status.status import heartbeat
from rota.runners.environment import find_secret, inherited, read_env_file
from rota.store.driver import Database, Store
from rota.store.tables import jobs, queue, run_queries
from rota.text.jobs import remedy_of

COMMAND_OPTIONS = frozenset({"version", "login"})
"""Options of the adapter `custom` that a look at the agent starts."""


@dataclass(frozen=True, slots=True)
class NamedAgent:
    """An agent that the file or a job names: how it is found, and the jobs that ask it."""

    name: str
    adapter: str
    options: Mapping[str, Any] = field(default_factory=dict)
    max_concurrent: int = 1
    models: tuple[str, ...] = ()
    access: tuple[str, ...] = ()
    provider: str = ""
    specs: tuple[JobSpec, ...] = ()
    function: str = ""
    """The Python function that it is."""

    @property
    def kind(self) -> Adapter | None:
        """Its adapter; None for one that is a function of this project."""
        try:
            return adapter(self.adapter, self.options)
        except RotaError:
            return None

    @property
    def enabled(self) -> bool:
        """Whether an enabled job asks it."""
        return any(spec.enabled for spec in self.specs)


@dataclass(frozen=True, slots=True)
class AgentView:
    """An agent, what was found of it on this machine, and how it stands."""

    known: NamedAgent
    found: AgentProbe
    remedy: str = ""
    running: int = 0
    held: HoldView | None = None
    last: Run | None = None

    @property
    def pool(self) -> str:
        """The pool that bounds how many of its runs go on at once."""
        return pool_of(self.known.name)


@dataclass(frozen=True, slots=True)
class AgentsView:
    """All agents by name; `problem`: why the file could not be asked, so that these are those of the applied jobs."""

    agents: tuple[AgentView, ...]
    problem: str | None = None


def look_at_agents(
    place: ProjectPaths,
    store: Store | None,
    environ: Mapping[str, str],
    *,
    now: datetime,
    name: str | None = None,
    acts: bool = False,
) -> AgentsView:
    """Return the agents of a project, each really looked for as its runs would find it; no model is asked.

    In a folder that is not trusted nothing that the file says is started or put into an environment, unless the
    caller `acts`, as a scheduler does.
    """
    known, problem = known_agents(place, store, environ, now=now, acts=acts)
    if name is not None:
        known = [_named(name, known)]
    surroundings = scheduler_environ(place) or environ
    if acts or is_trusted(place.folder, environ):
        found = probe_each([(one, environment_of(one, surroundings, place)) for one in known])
    else:
        found = probe_each([(_without_commands(one), environ) for one in known])
    views = [
        AgentView(one, seen, remedy_of(seen, _keys_left_out(one, seen, environ)))
        for one, seen in zip(known, found, strict=True)
    ]
    if store is not None:
        views = store.read(partial(_standing, views=views))
    return AgentsView(tuple(views), problem)


def known_agents(
    place: ProjectPaths, store: Store | None, environ: Mapping[str, str], *, now: datetime, acts: bool = False
) -> tuple[list[NamedAgent], str | None]:
    """Return the agents that the file declares and those that its jobs or stored ones name, by name."""
    entries: Sequence[Agent] = ()
    specs: list[JobSpec] = []
    problem = None
    try:
        loaded = load_project(place.folder, environ, state=place.state, now=now, lenient=True, acts=acts)
        declared = loaded.declared
        entries, specs = declared.agents, list(declared.jobs)
    except FileProblems as error:
        problem = f"the file has problems ({len(error.problems)}), so these are the agents of the applied jobs"
    stored = store.read(jobs.all_jobs) if store is not None else []
    declared_names = {spec.name for spec in specs}
    specs += [job.spec for job in stored if job.retired_at is None and job.name not in declared_names]
    found = join_agents(entries, specs)
    return [one for one in found if in_scope(one.name, place.scope)], problem


def join_agents(entries: Iterable[Agent], specs: Iterable[JobSpec]) -> list[NamedAgent]:
    """Return the agents of entries and jobs, each once, by name."""
    found = {entry.name: _of_entry(entry) for entry in entries}
    for spec in specs:
        work = spec.work.agent
        if work is not None:
            found[work.agent] = _with_job(found.get(work.agent) or _of_work(work), spec, work)
    return [_with_access(found[name]) for name in sorted(found)]


def _with_access(known: NamedAgent) -> NamedAgent:
    """Return an agent with the access that a job of it would have, where neither it nor a job says one."""
    if known.access or known.kind is None:
        return known
    return replace(known, access=(default_access(known.adapter, known.options).value,))


def _of_entry(entry: Agent) -> NamedAgent:
    keys = entry.keys
    models = (str(keys["model"]),) if keys.get("model") else ()
    access = (str(keys["access"]),) if keys.get("access") else ()
    known = NamedAgent(entry.name, entry.adapter, dict(entry.options), entry.max_concurrent, models, access)
    provider = known.kind.provider_for(keys.get("model")) if known.kind else ""
    return replace(known, function=entry.function, provider=provider)


def _of_work(work: AgentWork) -> NamedAgent:
    return NamedAgent(work.agent, work.adapter, dict(work.options), work.max_concurrent)


def _with_job(known: NamedAgent, spec: JobSpec, work: AgentWork) -> NamedAgent:
    models = (*known.models, *([work.model] if work.model else []))
    return replace(
        known,
        models=tuple(dict.fromkeys(models)),
        access=tuple(dict.fromkeys((*known.access, work.access.value))),
        provider=work.provider,
        function=known.function or spec.work.function,
        specs=(*known.specs, spec),
    )


def _named(name: str, known: Sequence[NamedAgent]) -> NamedAgent:
    found = next((one for one in known if one.name == name), None)
    if found is None:
        raise UnknownAgent(name, near=get_close_matches(name, [one.name for one in known], n=1))
    return found


# what it is on this machine


def scheduler_environ(place: ProjectPaths) -> Mapping[str, str] | None:
    """Return the environment of the running scheduler, which its runs get; None where none runs or it is hidden."""
    pid = heartbeat(place.state).pid
    try:
        return psutil.Process(pid).environ() if pid is not None else None
    except psutil.Error:
        return None


def environment_of(known: NamedAgent, environ: Mapping[str, str], place: ProjectPaths) -> dict[str, str]:
    """Return the variables with which an agent's runs start, of all its jobs together (R-27)."""
    found = inherited(environ)
    for spec in known.specs:
        work = spec.work
        found |= {name: environ[name] for name in work.env_pass if name in environ}
        if work.env_file is not None:
            found |= _from_file(Path(work.project or place.folder) / Path(work.env_file).expanduser())
        for variable in work.env:
            value = variable.value if variable.secret is None else _secret(variable.secret, environ, place.state)
            found |= {} if value is None else {variable.name: value}
    return found


def _from_file(path: Path) -> dict[str, str]:
    try:
        return read_env_file(path)
    except RotaError:
        return {}


def _secret(name: str, environ: Mapping[str, str], state: Path) -> str | None:
    try:
        return find_secret(name, credentials=environ.get("CREDENTIALS_DIRECTORY"), environ=environ, state=state)
    except RotaError:
        return None


def probe_each(asked: Sequence[tuple[NamedAgent, Mapping[str, str]]]) -> list[AgentProbe]:
    """Look for agents at the same time; those that are the same program in the same surroundings once."""
    keys = [_same(one, env) for one, env in asked]
    first = dict(zip(reversed(keys), reversed(asked), strict=True))
    with ThreadPoolExecutor(max(1, len(first))) as asking:
        found = dict(zip(first, asking.map(lambda one: _look(*one), first.values()), strict=True))
    return [replace(found[key], name=one.name) for key, (one, _) in zip(keys, asked, strict=True)]


def _without_commands(known: NamedAgent) -> NamedAgent:
    """Return an agent without the commands that its options name."""
    return replace(known, options={key: value for key, value in known.options.items() if key not in COMMAND_OPTIONS})


def _same(known: NamedAgent, environ: Mapping[str, str]) -> str:
    told = [known.adapter, known.function, known.options, dict(environ)]
    return json.dumps(told, sort_keys=True, default=str)


def _look(known: NamedAgent, environ: Mapping[str, str]) -> AgentProbe:
    kind = known.kind
    if kind is None or (kind.invoke is None and kind.reach is None):
        # a function: it was imported when the file was read
        return AgentProbe(known.name, known.function or known.adapter, headless=True)
    return probe(kind, environ, known.options)


def _keys_left_out(known: NamedAgent, found: AgentProbe, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the logins that this shell has and the agent's runs do not get."""
    if found.logged_in is not False or known.kind is None or known.kind.probe is None:
        return ()
    return tuple(name for name in known.kind.probe.login_env if environ.get(name))


# how it stands


def _standing(db: Database, *, views: Sequence[AgentView]) -> list[AgentView]:
    used = {pool.name: pool.used for pool in queue.pools(db)}
    held = {one.hold.provider: one for one in hold_views(db)}
    stored = jobs.all_jobs(db)
    return [
        replace(
            view,
            running=used.get(view.pool, 0),
            held=held.get(view.known.provider),
            last=_last(db, [job for job in stored if asks(job, view.known.name)]),
        )
        for view in views
    ]


def _last(db: Database, of: Iterable[Job]) -> Run | None:
    newest = [run for job in of for run in run_queries.newest_runs(db, job.id, limit=1)]
    return max(newest, key=lambda run: run.id, default=None)


def agents_json(view: AgentsView) -> dict[str, Any]:
    """Return the agents as JSON."""
    return {"agents": [agent_json(one) for one in view.agents], "problem": view.problem}


def agent_json(view: AgentView) -> dict[str, Any]:
    """Return an agent as JSON."""
    known, found = view.known, view.found
    return {
        "name": known.name,
        "adapter": known.adapter,
        "provider": known.provider or None,
        "models": list(known.models),
        "access": list(known.access),
        "path": found.path,
        "version": found.version or None,
        "logged_in": found.logged_in,
        "headless": found.headless,
        "problem": found.problem,
        "remedy": view.remedy or None,
        "running": view.running,
        "max_concurrent": known.max_concurrent,
        "pool": view.pool,
        "hold": hold_json(view.held) if view.held else None,
        "jobs": [spec.name for spec in known.specs],
        "last": run_json(view.last) if view.last else None,
    }
