"""The plan of an apply: what is created, changed and retired."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import fields, replace

from rota.model.agents import provider_of
from rota.model.amounts import say_money
from rota.model.budgets import Account, Price, Subscription
from rota.model.clock import iso, write_duration
from rota.model.errors import NameTaken
from rota.model.notifications import Target
from rota.model.proposals import MADE, AgentPolicy
from rota.model.records import Job, cut
from rota.model.spec import (
    AfterStep,
    AgentChoice,
    AgentWork,
    ByMode,
    Condition,
    EnvValue,
    Jitter,
    JobSpec,
    Mode,
    QuietHours,
    RepeatedFailure,
    Retention,
    Retry,
    WorkSource,
)
from rota.rules.budgets import say_account, say_spend
from rota.rules.params import declared_params
from rota.rules.schedule.blackouts import say_quiet
from rota.rules.subscriptions import say_subscription
from rota.settings import BUILT_IN_POOLS, Settings
from rota.text.runs import say_target

if TYPE_CHECKING:
    from rota.declare.project import Declared

SHOWN = 120


def differences(before: JobSpec, after: JobSpec) -> tuple[str, ...]:
    """Return what differs, such as `cron "0 2 * * *" -> "0 3 * * *"`, one text a key."""
    if before == after:
        return ()
    old, new = _keys(before), _keys(after)
    found = [
        f"{key} {cut(_text(old[key]), SHOWN)} -> {cut(_text(new[key]), SHOWN)}" for key in old if old[key] != new[key]
    ]
    found += _env_differences("env", before.work.env, after.work.env)
    return (*found, *_env_differences("headers", before.work.headers, after.work.headers))


_NAMES = {"misfire.policy": "misfire", "overlap.policy": "overlap", "work.agent.options": "agents.options"}
"""Fields whose key has another name, beside those of the table of keys."""
_HOLDERS = frozenset({"work", "schedule", "misfire", "overlap", "gates", "work.agent"})
_APART = frozenset(
    {
        "work.env",
        "work.param_kinds",
        "work.headers",
        "schedule.by_mode",
        "schedule.reboot",
        "budgets",
        "notify_own",
        "ping",
    }
)
"""Fields that have no line of their own: they are compared one by one, or are a part of another key."""


def _keys(spec: JobSpec) -> dict[str, Any]:
    """Return the value of each field, by the key that a file has for it."""
    from rota.declare.keys import FIELDS  # plans are also shown where no file is read

    names = {field: key for key, field in FIELDS.items()} | _NAMES
    found: dict[str, Any] = {}
    for holder in ("", *sorted(_HOLDERS)):
        record = attrgetter(holder)(spec) if holder else spec
        kind = AgentWork if holder == "work.agent" else type(record)
        for name in (field_info.name for field_info in fields(kind)):
            field = f"{holder}.{name}" if holder else name
            if field not in _HOLDERS | _APART:
                found[names.get(field, name)] = None if record is None else _plain(getattr(record, name))
    schedule, work = spec.schedule, spec.work
    return found | {
        "cron": ("@reboot",) if schedule.reboot else schedule.cron,
        "interval": schedule.by_mode or schedule.interval,
        "except": schedule.excluded,
        "params": declared_params(work),
        "members": [member.written for member in work.members],
        "timeout": work.timeout or "never",
        "conditions": spec.gates.conditions,
        "pools": {draw.pool: draw.cost for draw in spec.pools},
        "budget": [say_spend(spend) for spend in spec.budgets],
        "notify": [*spec.notify, *map(say_target, spec.notify_own)],
        "ping": None if spec.ping is None else spec.ping.address or f"secret {spec.ping.address_secret}",
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


def _env_differences(key: str, before: Sequence[EnvValue], after: Sequence[EnvValue]) -> list[str]:
    old = {variable.name: variable for variable in before}
    new = {variable.name: variable for variable in after}
    found = [f"{key}.{name} added" for name in new if name not in old]
    found += [f"{key}.{name} removed" for name in old if name not in new]
    found += [f"{key}.{name} changed" for name in new if name in old and old[name] != new[name]]
    return found or ([] if before == after else [f"{key} reordered"])


def _text(value: Any) -> str:
    if value is None or value in ("", (), [], {}):
        return "none"
    if writer := _WRITERS.get(type(value)):
        return writer(value)
    if isinstance(value, tuple):
        value = [_condition(item) if isinstance(item, Condition) else item for item in value]
        value = value[0] if len(value) == 1 else value
    return json.dumps(value, ensure_ascii=False, default=_record)


def _record(value: Any) -> Any:
    """Return a record without a writer of its own as JSON: the parts that are set; of an agent of a list its title."""
    if not isinstance(value, Struct):
        return _text(value)
    parts = {field_info.name: getattr(value, field_info.name) for field_info in fields(type(value))}
    if isinstance(value, AgentChoice):
        parts = {"agent": value.title} | {name: part for name, part in parts.items() if name not in _IN_TITLE}
    return {name: part for name, part in parts.items() if part not in (None, "", (), {}, False)}


_IN_TITLE = ("agent", "model", "adapter", "provider", "pools", "called")
"""The parts of an agent of a list that its title implies."""


def _retention(retention: Retention) -> str:
    kept = {field_info.name: getattr(retention, field_info.name) for field_info in fields(Retention)}
    return ", ".join(f"{key} {'forever' if item is None else _text(item)}" for key, item in kept.items())


def _work_source(source: WorkSource) -> str:
    options = {**source.options, "timeout": _text(source.timeout), "attempts": source.attempts}
    return f"{source.title} {json.dumps(options, ensure_ascii=False)}"


def _retry(retry: Retry) -> str:
    if retry.max_attempts == 1:
        return "false"
    waits = f"backoff {_text(retry.backoff)}, factor {retry.factor:g}, max {_text(retry.max)}"
    jitter = f", jitter {_text(retry.jitter)}" if retry.jitter else ""
    return f"max_attempts {retry.max_attempts}, {waits}{jitter}"


def _condition(condition: Condition) -> str:
    waits = "" if condition.timeout == Condition().timeout else f" (timeout {write_duration(condition.timeout)})"
    return condition.title + waits + (" (the project's own)" if condition.replaces else "")


_WRITERS: Mapping[type, Callable[[Any], str]] = {
    timedelta: write_duration,
    datetime: iso,
    ByMode: lambda value: ", ".join(f"{mode} {_text(value.of(mode) or 'never')}" for mode in Mode),
    QuietHours: say_quiet,
    Jitter: lambda value: f"{value.percent:g}%" if value.percent is not None else _text(value.up_to),
    Retry: _retry,
    RepeatedFailure: lambda value: f"after {value.after}, backoff_max {_text(value.backoff_max)}",
    WorkSource: _work_source,
    AfterStep: lambda value: f"{_text(list(value.command) or value.shell)} in {value.cwd}",
    Retention: _retention,
}

T = TypeVar("T")


class ChangeKind(StrEnum):
    """The change of one job."""

    CREATE = "create"
    UPDATE = "update"
    REVIVE = "revive"
    RETIRE = "retire"
    ADOPT = "adopt"
    UNCHANGED = "unchanged"


class JobChange(Struct, frozen=True):
    """One job in a plan: the spec it gets, the stored job it concerns, and what differs."""

    kind: ChangeKind
    name: str
    spec: JobSpec | None = None
    job: Job | None = None
    differences: tuple[str, ...] = ()


class Plan(Struct, frozen=True):
    """All changes, in the order of the file, then what is retired; `empties` when some jobs would become none."""

    changes: tuple[JobChange, ...]
    empties: bool = False
    settings: tuple[str, ...] = ()
    """Changes of the settings that are stored with the jobs: pools, aging, budgets and prices."""

    @property
    def changing(self) -> tuple[JobChange, ...]:
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
    gone = [JobChange(ChangeKind.RETIRE, job.name, job=job) for job in lost]
    return Plan((*changes, *gone), empties=bool(gone) and not declared)


def project_of(name: str) -> str:
    """Return the included project that a job's name begins with; empty for a job of the including file.

    >>> project_of("api/triage"), project_of("triage")
    ('api', '')
    """
    return name.rpartition("/")[0]


class StoredSettings(Struct, frozen=True):
    """The settings that are stored with the jobs, as they are."""

    pools: Mapping[str, int] = field(default_factory=dict)
    aging: timedelta | None = None
    budgets: Mapping[str, Account] = field(default_factory=dict)
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)
    agent_policy: AgentPolicy = field(default_factory=AgentPolicy)
    notify: Mapping[str, Target] = field(default_factory=dict)


def settings_differences(settings: Settings, stored: StoredSettings) -> tuple[str, ...]:
    """Return how the declared pools, aging, budgets and prices differ from the stored ones."""
    found = [*_pool_differences(settings, stored.pools)]
    if settings.scheduler.aging != stored.aging:
        found.append(f"aging {_aging(stored.aging)} -> {_aging(settings.scheduler.aging)}")
    found += _named("budget", settings.budgets, stored.budgets, say=say_account)
    found += _named("budget", settings.subscriptions, stored.subscriptions, say=say_subscription)
    found += _named("price", settings.prices, stored.prices, say=_price)
    found += _named("target", settings.notify, stored.notify, say=say_target)
    return (*found, *_policy_differences(settings.agent_policy, stored.agent_policy))


def _policy_differences(wanted: AgentPolicy, stored: AgentPolicy) -> list[str]:
    names = [field_info.name for field_info in fields(AgentPolicy)]
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
    jobs = [
        job
        for spec in declared
        if (job := known.get(spec.name.casefold())) and job.source != source and spec.name not in adopt
        if job.source != MADE or job.retired_at is None  # a retired job of an agent does not reserve its name
    ]
    if not jobs:
        return
    names = ", ".join(f"{job.name!r} ({job.source})" for job in jobs)
    what = "a job of another source has this name" if len(jobs) == 1 else "jobs of other sources have these names"
    flags = " ".join(f"--adopt {job.name}" for job in jobs)
    raise NameTaken(f"{what}: {names}", hint=f"choose another name, or take it over with `rota apply {flags}`")


def _change(spec: JobSpec, job: Job | None, source: str) -> JobChange:
    if job is None:
        return JobChange(ChangeKind.CREATE, spec.name, spec)
    found = differences(job.spec, spec)
    if job.source != source:
        return JobChange(ChangeKind.ADOPT, spec.name, spec, job, found)
    if job.retired_at is not None:
        return JobChange(ChangeKind.REVIVE, spec.name, spec, job, found)
    kind = ChangeKind.UNCHANGED if job.spec == spec else ChangeKind.UPDATE
    return JobChange(kind, spec.name, spec, job, found)


def source_of(declared: "Declared") -> str:
    """Return the source under which the jobs of a file are stored."""
    return f"file:{declared.settings.file}"


def first_plan(declared: "Declared") -> Plan:
    """Return the plan of the first apply of a project."""
    settings = settings_differences(declared.settings, StoredSettings())
    return replace(plan(declared.jobs, [], source=source_of(declared)), settings=settings)
