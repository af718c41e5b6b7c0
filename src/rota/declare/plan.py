"""What an apply would do: the declared jobs against the stored ones (R-14). Jobs of other sources are not touched."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar

from rota.declare.differences import differences
from rota.model.budget import Account, Price
from rota.model.durations import write_duration
from rota.model.errors import NameTaken
from rota.model.holds import provider_of
from rota.model.making import MADE, AgentPolicy
from rota.model.notify import Target
from rota.model.records import Job
from rota.model.spec import JobSpec
from rota.rules.budget_words import say_account, say_money
from rota.rules.notify_words import say_target
from rota.settings import BUILT_IN_POOLS, Settings

T = TypeVar("T")


class ChangeKind(StrEnum):
    """What happens to one job."""

    CREATE = "create"
    UPDATE = "update"
    REVIVE = "revive"
    RETIRE = "retire"
    ADOPT = "adopt"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Change:
    """One job in a plan: the spec it gets, the stored job it concerns, and what differs."""

    kind: ChangeKind
    name: str
    spec: JobSpec | None = None
    job: Job | None = None
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All changes, in the order of the file, then what is retired; `empties` when some jobs would become none."""

    changes: tuple[Change, ...]
    empties: bool = False
    settings: tuple[str, ...] = ()
    """What differs in the settings that are stored with the jobs: pools, aging, budgets and prices."""

    @property
    def changing(self) -> tuple[Change, ...]:
        """The changes that change something."""
        return tuple(change for change in self.changes if change.kind is not ChangeKind.UNCHANGED)


def plan(
    declared: Sequence[JobSpec],
    stored: Sequence[Job],
    *,
    source: str,
    adopt: Collection[str] = (),
    kept: Collection[str] = (),
) -> Plan:
    """Return how the jobs of `source` become the declared ones; those of `kept` projects stay as they are.

    A name that a job of another source has is NameTaken, unless it is in `adopt`.
    """
    known = {job.name.casefold(): job for job in stored}
    _refuse_taken(declared, known, source=source, adopt=adopt)
    changes = [_change(spec, known.get(spec.name.casefold()), source) for spec in declared]
    wanted = {spec.name.casefold() for spec in declared}
    ours = [job for job in stored if job.source == source and job.retired_at is None]
    lost = [job for job in ours if job.name.casefold() not in wanted and project_of(job.name) not in kept]
    gone = [Change(ChangeKind.RETIRE, job.name, job=job) for job in lost]
    return Plan((*changes, *gone), empties=bool(gone) and not declared)


def project_of(name: str) -> str:
    """Return the included project that a job's name begins with; empty for a job of the including file.

    >>> project_of("api/triage"), project_of("triage")
    ('api', '')
    """
    return name.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """The settings that are stored with the jobs, as they are."""

    pools: Mapping[str, int] = field(default_factory=dict)
    aging: timedelta | None = None
    budgets: Mapping[str, Account] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)
    agent_policy: AgentPolicy = field(default_factory=AgentPolicy)
    notify: Mapping[str, Target] = field(default_factory=dict)


def settings_differences(settings: Settings, stored: StoredSettings) -> tuple[str, ...]:
    """Return how the declared pools, aging, budgets and prices differ from the stored ones."""
    found = [*_pool_differences(settings, stored.pools)]
    if settings.scheduler.aging != stored.aging:
        found.append(f"aging {_aging(stored.aging)} -> {_aging(settings.scheduler.aging)}")
    found += _named("budget", settings.budgets, stored.budgets, say=say_account)
    found += _named("price", settings.prices, stored.prices, say=_price)
    found += _named("target", settings.notify, stored.notify, say=say_target)
    return (*found, *_policy_differences(settings.agent_policy, stored.agent_policy))


def _policy_differences(wanted: AgentPolicy, stored: AgentPolicy) -> list[str]:
    """Return how what agents may make differs."""
    names = [one.name for one in fields(AgentPolicy)]
    changed = [(name, getattr(stored, name), getattr(wanted, name)) for name in names]
    return [f"agent_policy.{name} {_said(old)} -> {_said(new)}" for name, old, new in changed if old != new]


def _said(value: object) -> str:
    return write_duration(value) if isinstance(value, timedelta) else str(value).lower()


def _named(kind: str, declared: Mapping[str, T], stored: Mapping[str, T], *, say: Callable[[T], str]) -> list[str]:
    found = [f"{kind} {name} {say(one)}" for name, one in declared.items() if name not in stored]
    for name, one in stored.items():
        if name not in declared:
            found.append(f"{kind} {name} removed")
        elif declared[name] != one:
            found.append(f"{kind} {name} {say(one)} -> {say(declared[name])}")
    return found


def _price(price: Price) -> str:
    cached = "" if price.cached_input is None else f", {say_money(price.cached_input)} cached"
    return f"{say_money(price.input)} in, {say_money(price.output)} out{cached}"


def _pool_differences(settings: Settings, pools: Mapping[str, int]) -> list[str]:
    """Return how pools differ; a built-in one is there from the start, and those of providers bound nothing."""
    before = {name: capacity for name, capacity in {**BUILT_IN_POOLS, **pools}.items() if provider_of(name) is None}
    now = {name: capacity for name, capacity in settings.pools.items() if provider_of(name) is None}
    return _named("pool", now, before, say=lambda capacity: f"{capacity:,}")


def _aging(value: timedelta | None) -> str:
    return "off" if value is None else write_duration(value)


def _refuse_taken(
    declared: Sequence[JobSpec], known: Mapping[str, Job], *, source: str, adopt: Collection[str]
) -> None:
    taken = [
        job
        for spec in declared
        if (job := known.get(spec.name.casefold())) and job.source != source and spec.name not in adopt
        if job.source != MADE or job.retired_at is None  # what agents made and is gone is in nobody's way
    ]
    if not taken:
        return
    names = ", ".join(f"{job.name!r} ({job.source})" for job in taken)
    what = "a job of another source has this name" if len(taken) == 1 else "jobs of other sources have these names"
    flags = " ".join(f"--adopt {job.name}" for job in taken)
    raise NameTaken(f"{what}: {names}", hint=f"choose another name, or take it over with `rota apply {flags}`")


def _change(spec: JobSpec, job: Job | None, source: str) -> Change:
    if job is None:
        return Change(ChangeKind.CREATE, spec.name, spec)
    found = differences(job.spec, spec)
    if job.source != source:
        return Change(ChangeKind.ADOPT, spec.name, spec, job, found)
    if job.retired_at is not None:
        return Change(ChangeKind.REVIVE, spec.name, spec, job, found)
    kind = ChangeKind.UNCHANGED if job.spec == spec else ChangeKind.UPDATE
    return Change(kind, spec.name, spec, job, found)
