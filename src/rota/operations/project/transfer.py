"""Export of jobs."""

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.declare.export import Top, export_text
from rota.declare.jobs import place_of
from rota.declare.readers.agents import own_pools, pool_of
from rota.declare.yaml import load_again
from rota.model.errors import RotaError
from rota.model.spec import JobSpec, Kind
from rota.operations.jobs import find_job, project_timezone
from rota.operations.project.locate import ProjectPaths
from rota.settings import BUILT_IN_POOLS, FILE_NAME
from rota.store.driver import Database, Store
from rota.store.tables import budgets, jobs, notifications, queue


class Exported(Struct, frozen=True):
    """The text of a rota.yaml, the names of its jobs, and notes about facts that it cannot express."""

    text: str
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def export_jobs(store: Store, names: Sequence[str], *, place: ProjectPaths, home: str) -> Exported:
    """Return the stored jobs of these names, or all that are not retired, with the members of their groups."""
    specs, renamed = plain_names(store.read(partial(_specs, names=names)))
    top = _top(store, specs, place=place, home=home)
    waiting = {job.name for job in store.read(jobs.provisional_jobs)}
    unapproved = [
        f"{spec.name}: waits for approval here; in a file it starts at once" for spec in specs if spec.name in waiting
    ]
    notes = (*renamed, *unapproved, *(note for spec in specs if (note := _unsaid(spec, top))))
    return Exported(export_text(specs, top, notes=notes), tuple(spec.name for spec in specs), notes)


def plain_names(specs: Sequence[JobSpec]) -> tuple[list[JobSpec], tuple[str, ...]]:
    """Return jobs with names that a file allows, `api/triage` as `api-triage`, and a note for each change."""
    plain = (spec.name for spec in specs if spec.work.kind is not Kind.POLL)
    changed = {name: name.replace("/", "-") for name in plain if "/" in name}
    notes = [f"{name}: written as {plain}, a name in a file has no /" for name, plain in changed.items()]
    return [_renamed(spec, changed) for spec in specs], tuple(notes)


def _renamed(spec: JobSpec, changed: Mapping[str, str]) -> JobSpec:
    members = tuple(replace(member, job=changed.get(member.job, member.job)) for member in spec.work.members)
    agent, pools = spec.work.agent, spec.pools
    if agent is not None and "/" in agent.agent:
        own, agent = pool_of(agent.agent), replace(agent, agent=agent.agent.replace("/", "-"))
        pools = tuple(replace(draw, pool=pool_of(agent.agent)) if draw.pool == own else draw for draw in pools)
        choices = (replace(choice, agent=choice.agent.replace("/", "-")) for choice in agent.choices)
        agent = replace(agent, choices=tuple(choices))
    work = replace(spec.work, members=members, agent=agent)
    return replace(spec, name=changed.get(spec.name, spec.name), work=work, pools=pools)


def stored_names(store: Store) -> list[str]:
    """Return the names of the jobs that are not retired."""
    return store.read(jobs.job_names)


def _specs(db: Database, *, names: Sequence[str]) -> list[JobSpec]:
    stored = [job.spec for job in jobs.all_jobs(db) if job.retired_at is None]
    if not names:
        return stored
    specs = {name: find_job(db, name).spec for name in names}
    members = [member.job for spec in specs.values() for member in spec.work.members]
    for spec in stored:
        if spec.name in members:
            specs.setdefault(spec.name, spec)
    needs_poll = any(spec.gates.needs_poll for spec in specs.values())
    polls = [spec for spec in stored if needs_poll and spec.work.kind is Kind.POLL and spec.name not in specs]
    return [*polls, *specs.values()]


def _top(store: Store, specs: Sequence[JobSpec], *, place: ProjectPaths, home: str) -> Top:
    written, folder = dict[str, Any](), str(place.folder)
    with contextlib.suppress(RotaError):
        written = dict(load_again(place.folder / FILE_NAME).data)
    python = written.get("python") if isinstance(written.get("python"), str) else None
    # The pools of agents are as large as `agents:` says; a file does not declare them.
    own = {pool for spec in specs if spec.work.agent is not None for pool in own_pools(spec.work.agent)}
    drawn = {draw.pool for spec in specs for draw in spec.pools} - own
    charged = {spend.account for spec in specs for spend in spec.budgets}
    targets = {name for spec in specs for name in spec.targets}
    capacities = {pool.name: pool.capacity for pool in store.read(queue.pools) if pool.name in drawn}
    functions = any(spec.work.kind is Kind.FUNCTION or _named_functions(spec) for spec in specs)
    imports = written.get("imports") if functions else None
    return Top(
        folder=folder,
        timezone=project_timezone(store),
        imports=tuple(map(str, imports)) if isinstance(imports, list) else (),
        python=python,
        interpreter=place_of(python, folder, home=home, program=True) if python else None,
        pools={name: size for name, size in capacities.items() if BUILT_IN_POOLS.get(name) != size},
        budgets=store.read(partial(budgets.named_accounts, names=charged)),
        subscriptions=store.read(budgets.subscriptions) if any(spec.work.agent for spec in specs) else {},
        prices=store.read(budgets.prices) if charged else {},
        notify={name: target for name, target in store.read(notifications.targets).items() if name in targets},
    )


def _named_functions(spec: JobSpec) -> bool:
    """Return whether a job names conditions or a function agent, which modules register."""
    agent = spec.work.agent
    return any(condition.name for condition in spec.gates.conditions) or bool(agent and agent.function)


def _unsaid(spec: JobSpec, top: Top) -> str:
    """Return a note about an interpreter that the exported file cannot express."""
    if spec.work.kind is Kind.FUNCTION:
        changes = spec.work.python is None and top.interpreter
        return f"{spec.name}: runs under `python: {top.python}` here, without one before" if changes else ""
    if spec.work.python is not None and spec.work.python != top.interpreter:
        return f"{spec.name}: its conditions ran under {spec.work.python}; write that as `python:` at the top"
    return ""
