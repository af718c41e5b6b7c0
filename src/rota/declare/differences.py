"""Two specs of a job in the words of the file, and what differs between them. Values of `env` are never shown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from rota.model.clock import iso
from rota.model.durations import write_duration
from rota.model.records import cut
from rota.model.spec import (
    AfterStep,
    AgentWork,
    ByMode,
    Condition,
    EnvValue,
    Jitter,
    JobSpec,
    Member,
    Mode,
    QuietHours,
    RepeatedFailure,
    Retention,
    Retry,
)
from rota.rules.budget_words import say_spend
from rota.rules.notify_words import say_target
from rota.rules.quiet import say_quiet

SHOWN = 120


def differences(before: JobSpec, after: JobSpec) -> tuple[str, ...]:
    """Return what differs, such as `cron "0 2 * * *" -> "0 3 * * *"`, one text a key."""
    if before == after:
        return ()
    old, new = _keys(before), _keys(after)
    found = [f"{key} {_write(old[key])} -> {_write(new[key])}" for key in old if old[key] != new[key]]
    found += _env_differences("env", before.work.env, after.work.env)
    return (*found, *_env_differences("headers", before.work.headers, after.work.headers))


def _keys(spec: JobSpec) -> dict[str, Any]:
    schedule, work, gates = spec.schedule, spec.work, spec.gates
    return {
        "name": spec.name,
        "cron": ("@reboot",) if schedule.reboot else schedule.cron,
        "interval": schedule.by_mode or schedule.interval,
        "at": schedule.at,
        "timezone": schedule.timezone,
        "start_at": schedule.start_at,
        "end_at": schedule.end_at,
        "anchor": schedule.anchor,
        "first_run": schedule.first_run,
        "jitter": schedule.jitter,
        "run_once": schedule.run_once,
        "quiet_hours": schedule.quiet,
        "except": schedule.excluded,
        "misfire": spec.misfire.policy,
        "misfire_grace": spec.misfire.grace,
        "misfire_limit": spec.misfire.limit,
        "misfire_max_age": spec.misfire.max_age,
        "overlap": spec.overlap.policy,
        "queue_depth": spec.overlap.queue_depth,
        "kind": work.kind,
        "command": list(work.command),
        "shell": work.shell,
        "shell_with": list(work.shell_with),
        "run": work.function,
        "members": [_member(member) for member in work.members],
        "mode": work.mode,
        "on_failure": work.on_failure,
        "python": work.python,
        "params": dict(work.params),
        "env_pass": list(work.env_pass),
        "env_file": work.env_file,
        "cwd": work.cwd,
        "project": work.project,
        "imports": list(work.imports),
        "timeout": work.timeout or "never",
        "term_grace": work.term_grace,
        "isolate": work.isolate,
        "output": work.output,
        "on_restart": work.on_restart,
        "conditions": gates.conditions,
        "when_false": gates.when_false,
        "recheck": gates.recheck,
        "expires_after": gates.expires_after,
        "needs_poll": gates.needs_poll,
        "url": work.url,
        **_agent_keys(work.agent),
        "retry": spec.retry,
        "on_repeated_failure": spec.on_repeated_failure,
        "pools": {draw.pool: draw.cost for draw in spec.pools},
        "budget": [say_spend(spend) for spend in spec.budgets],
        "notify": [*spec.notify, *map(say_target, spec.notify_own)],
        "finish_by": spec.finish_by,
        "labels": list(spec.labels),
        "priority": spec.priority,
        "enabled": spec.enabled,
        "description": spec.description,
        "retention": spec.retention,
    }


def _agent_keys(agent: AgentWork | None) -> dict[str, Any]:
    names = [one.name for one in fields(AgentWork)]
    return {name if name != "options" else "agents.options": _plain(agent, name) for name in names}


def _plain(agent: AgentWork | None, name: str) -> Any:
    value = getattr(agent, name) if agent is not None else None
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


def _member(member: Member) -> Any:
    told = {"job": member.job, "params": dict(member.params), "always": member.always}
    return {key: value for key, value in told.items() if value} if member.params or member.always else member.job


def _env_differences(key: str, before: Sequence[EnvValue], after: Sequence[EnvValue]) -> list[str]:
    old = {variable.name: variable for variable in before}
    new = {variable.name: variable for variable in after}
    found = [f"{key}.{name} added" for name in new if name not in old]
    found += [f"{key}.{name} removed" for name in old if name not in new]
    found += [f"{key}.{name} changed" for name in new if name in old and old[name] != new[name]]
    return found or ([] if before == after else [f"{key} in another order"])


def _write(value: Any) -> str:
    text = _text(value)
    return cut(text, SHOWN) or "none"


def _text(value: Any) -> str:
    if value is None or value in ("", (), [], {}):
        return "none"
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, ByMode):
        return ", ".join(f"{mode} {_text(value.of(mode) or 'never')}" for mode in Mode)
    if isinstance(value, QuietHours):
        return say_quiet(value)
    if isinstance(value, Jitter):
        return f"{value.percent:g}%" if value.percent is not None else _text(value.up_to)
    if isinstance(value, Retry):
        return _retry(value)
    if isinstance(value, RepeatedFailure):
        return f"after {value.after}, backoff_max {_text(value.backoff_max)}"
    if isinstance(value, AfterStep):
        return f"{_text(list(value.command) or value.shell)} in {value.cwd}"
    if isinstance(value, Retention):
        kept = {key: getattr(value, key) for key in ("runs", "skipped", "skipped_count", "output")}
        return ", ".join(f"{key} {'forever' if item is None else _text(item)}" for key, item in kept.items())
    if isinstance(value, tuple):
        value = [_condition(item) if isinstance(item, Condition) else item for item in value]
        value = value[0] if len(value) == 1 else value
    return json.dumps(value, ensure_ascii=False)


def _retry(retry: Retry) -> str:
    if retry.max_attempts == 1:
        return "false"
    waits = f"backoff {_text(retry.backoff)}, factor {retry.factor:g}, max {_text(retry.max)}"
    jitter = f", jitter {_text(retry.jitter)}" if retry.jitter else ""
    return f"max_attempts {retry.max_attempts}, {waits}{jitter}"


def _condition(condition: Condition) -> str:
    waits = "" if condition.timeout == Condition().timeout else f" (timeout {write_duration(condition.timeout)})"
    return condition.title + waits + (" (the project's own)" if condition.replaces else "")
