"""The `poll:` section as the built-in job `rota/poll`, and which jobs need what it brings (R-16)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from rota.declare.budgets import spends_of
from rota.declare.contradictions import name_troubles
from rota.declare.fields import shown
from rota.declare.files import Document
from rota.declare.mentions import NamesOf
from rota.declare.quiet_hours import quiet_of_poll
from rota.declare.registry import BUILTIN_CONDITIONS
from rota.declare.surroundings import Surroundings
from rota.declare.troubles import Trouble
from rota.declare.values import PollGroup
from rota.model.budget import Account, Unit
from rota.model.names import Names
from rota.model.spec import (
    ByMode,
    JobSpec,
    Kind,
    Misfire,
    MisfirePolicy,
    RepeatedFailure,
    Retry,
    Schedule,
    Work,
)

POLL = "rota/poll"
INTERVAL = ByMode(timedelta(seconds=15), timedelta(seconds=60), timedelta(seconds=300))
TIMEOUT = timedelta(seconds=30)
BACKING_OFF = RepeatedFailure(after=2, backoff_max=timedelta(minutes=15))
POLL_HINT = "add `poll: {url: https://…}`, or remove what needs it"


def poll_job(keys: Mapping[str, Any], around: Surroundings) -> tuple[JobSpec | None, list[Trouble]]:
    """Return the job that polls from the section's read keys, or what is wrong with them."""
    troubles: list[Trouble] = []
    if ("url" in keys) == ("run" in keys):
        troubles.append(Trouble((), "needs either `url` or `run`", hint="write one of them", looks_at=("url", "run")))
    if "run" in keys and around.python is not None:
        message = "a poll's function runs inside the scheduler's process, not in another interpreter (`python:`)"
        troubles.append(Trouble(("run",), message, hint="poll a `url`, or start rota from the project's environment"))
    if "headers" in keys and "url" not in keys:
        hint = "add `url`, or remove this line"
        troubles.append(Trouble(("headers",), "has no effect without `url`", "no_effect", hint, ("url",)))
    troubles += name_troubles(keys, around.budgets) or _uncountable(keys, around.budgets or {})
    return (None, troubles) if troubles else (_spec(keys, around), [])


def _uncountable(keys: Mapping[str, Any], accounts: Mapping[str, Account]) -> list[Trouble]:
    """Return the accounts that count what a poll does not have."""
    found = [(path, accounts[name]) for path, name in keys.get("budget", {}).items() if name in accounts]
    return [
        Trouble(("budget", *path), f"a poll is a request and costs no {one.unit}", hint="name an account of `requests`")
        for path, one in found
        if one.unit in (Unit.TOKENS, Unit.USD)
    ]


def _spec(keys: Mapping[str, Any], around: Surroundings) -> JobSpec:
    interval = keys.get("interval", INTERVAL)
    by_mode = interval if isinstance(interval, ByMode) else None
    work = Work(
        Kind.POLL,
        url=keys.get("url", ""),
        function=keys.get("run", ""),
        headers=tuple(keys.get("headers", {}).values()),
        timeout=keys.get("timeout", TIMEOUT),
    )
    accounts = list(keys.get("budget", {}).values())
    schedule = Schedule(interval=None if by_mode else interval, by_mode=by_mode, timezone=around.timezone)
    return JobSpec(
        name=POLL,
        work=work,
        schedule=replace(schedule, quiet=quiet_of_poll(around.quiet, schedule)),
        misfire=Misfire(MisfirePolicy.ONCE),
        retry=Retry(max_attempts=1),
        on_repeated_failure=BACKING_OFF,
        budgets=spends_of(accounts, dict.fromkeys(accounts, Decimal(1)), around.budgets or {}),
        retention=around.retention,
    )


def with_need(specs: Sequence[JobSpec], names: NamesOf) -> tuple[JobSpec, ...]:
    """Return the jobs, those that a condition makes needy marked so."""
    return tuple(
        replace(spec, gates=replace(spec.gates, needs_poll=True)) if _looking(spec, names) else spec for spec in specs
    )


def _looking(spec: JobSpec, names: NamesOf) -> list[int]:
    """Return which of a job's conditions look at what the poll brought; a registered one replaces a built-in one."""
    known = names.get(spec.work.python, Names())
    return [
        index
        for index, condition in enumerate(spec.gates.conditions)
        if condition.name in known.needing_poll
        or (condition.name not in known.conditions and BUILTIN_CONDITIONS.get(condition.name, False))
    ]


def need_troubles(
    specs: Sequence[JobSpec], document: Document, *, names: NamesOf, lacking: str | None
) -> list[Trouble]:
    """Return, with their whole paths, the jobs that need a poll which nobody makes, and those that deny their need.

    `lacking` is the file that has no poll, None where there is one.
    """
    needy = [(spec, _looking(spec, names)) for spec in specs if spec.gates.needs_poll]
    denying = [_denial(spec, document, looking) for spec, looking in needy if looking]
    unmet = [_unmet(spec, document, looking, lacking=lacking) for spec, looking in needy if lacking]
    return [trouble for trouble in (*denying, *unmet) if trouble is not None]


def _denial(spec: JobSpec, document: Document, looking: Sequence[int]) -> Trouble | None:
    body = document.data["jobs"][spec.name]
    key = "needs_poll" if body.get("needs_poll") is False else "group" if body.get("group") == PollGroup.LOCAL else None
    if key is None:
        return None
    condition = shown(spec.gates.conditions[looking[0]].name)
    message = f"does not agree with the condition {condition}, which looks at the poll's data"
    return Trouble(("jobs", spec.name, key), message, hint="remove this line, or the condition")


def _unmet(spec: JobSpec, document: Document, looking: Sequence[int], *, lacking: str | None) -> Trouble:
    below = [("needs_poll",), ("group",), *(("conditions", index) for index in looking)]
    written = (path for key in below if (path := ("jobs", spec.name, *key)) in document.keys)
    path = next(written, ("jobs", spec.name, "needs_poll"))
    return Trouble(path, f"needs the shared poll, and {lacking} has no `poll:`", "no_poll", POLL_HINT)
