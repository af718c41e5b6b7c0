"""Stored jobs as a rota.yaml, also those that no file declares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rota.declare.agents import own_pools, pool_of
from rota.declare.exporting import Top, export_text
from rota.declare.files import load_again
from rota.declare.surroundings import place_of
from rota.model.errors import RotaError
from rota.model.spec import JobSpec, Kind
from rota.operations.jobs import find_job, project_timezone
from rota.operations.project import Place
from rota.settings import BUILT_IN_POOLS, FILE_NAME
from rota.store import budgets, deliveries, jobs, making, queue
from rota.store.driver import Database, Store


@dataclass(frozen=True, slots=True)
class Exported:
    """The text of a rota.yaml, what it declares, and what it cannot say."""

    text: str
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def export_jobs(store: Store, names: Sequence[str], *, place: Place, home: str) -> Exported:
    """Return the stored jobs of these names, or all that are not retired, with the members of their groups."""
    found = store.read(partial(_specs, names=names))
    specs, renamed = plain_names(found)
    top = _top(store, specs, place=place, home=home)
    notes = (*renamed, *_unapproved(store, specs), *(note for spec in specs if (note := _unsaid(spec, top))))
    return Exported(export_text(specs, top, notes=notes), tuple(spec.name for spec in specs), notes)


def plain_names(specs: Sequence[JobSpec]) -> tuple[list[JobSpec], tuple[str, ...]]:
    """Return jobs with names that a file can have: `api/triage` as `api-triage`; and a note where that changes them."""
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
    work = replace(spec.work, members=members, agent=agent)
    return replace(spec, name=changed.get(spec.name, spec.name), work=work, pools=pools)


def _unapproved(store: Store, specs: Sequence[JobSpec]) -> list[str]:
    """Return a note for each job that nobody has approved: in a file it would begin at once."""
    waits = {job.name for job in store.read(making.provisional_jobs)}
    return [
        f"{spec.name}: waits for approval here; in a file it begins at once" for spec in specs if spec.name in waits
    ]


def stored_names(store: Store) -> list[str]:
    """Return the names of the jobs that are not retired."""
    return store.read(jobs.job_names)


def _specs(db: Database, *, names: Sequence[str]) -> list[JobSpec]:
    stored = [job.spec for job in jobs.all_jobs(db) if job.retired_at is None]
    if not names:
        return stored
    found = {name: find_job(db, name).spec for name in names}
    members = [member.job for spec in found.values() for member in spec.work.members]
    for spec in stored:
        if spec.name in members:
            found.setdefault(spec.name, spec)
    needy = any(spec.gates.needs_poll for spec in found.values())
    polls = [spec for spec in stored if needy and spec.work.kind is Kind.POLL and spec.name not in found]
    return [*polls, *found.values()]


def _top(store: Store, specs: Sequence[JobSpec], *, place: Place, home: str) -> Top:
    written, folder = _written(place), str(place.folder)
    python = written.get("python") if isinstance(written.get("python"), str) else None
    # The pools of agents are as large as `agents:` says; a file does not declare them.
    own = {pool for spec in specs if spec.work.agent is not None for pool in own_pools(spec.work.agent)}
    drawn = {draw.pool for spec in specs for draw in spec.pools} - own
    charged = {spend.account for spec in specs for spend in spec.budgets}
    told = {name for spec in specs for name in spec.notify}
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
        prices=store.read(budgets.prices) if charged else {},
        notify={name: one for name, one in store.read(deliveries.targets).items() if name in told},
    )


def _written(place: Place) -> dict[str, Any]:
    """Return the sections of the project's own file; none where it cannot be read."""
    try:
        return dict(load_again(place.folder / FILE_NAME).data)
    except RotaError:
        return {}


def _named_functions(spec: JobSpec) -> bool:
    """Tell whether a job names conditions, or an agent that is a function, which modules register."""
    agent = spec.work.agent
    return any(condition.name for condition in spec.gates.conditions) or bool(agent and agent.function)


def _unsaid(spec: JobSpec, top: Top) -> str:
    """Return what the file cannot say about a job: an interpreter that only the top of another file names."""
    if spec.work.kind is Kind.FUNCTION:
        return (
            f"{spec.name}: runs under `python: {top.python}` here, without one before"
            if (spec.work.python is None and top.interpreter)
            else ""
        )
    if spec.work.python is not None and spec.work.python != top.interpreter:
        return f"{spec.name}: its conditions ran under {spec.work.python}; write that as `python:` at the top"
    return ""
