"""Pools, retries and budgets in a file."""

import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from rota.declare.problems import (
    BadValue,
    ProblemList,
    Reader,
    choice,
    map_of,
    matching,
    name_of,
    not_among,
    read_duration,
    read_grace,
    read_jitter,
    read_zone,
    shown,
    whole,
    wrong_type,
)
from rota.declare.readers.values import one_of, read_keys, read_record
from rota.model.amounts import listed
from rota.model.budgets import MILLION, Account, Exceeded, Per, Price, Subscription, Unit
from rota.model.errors import KeyPath, Problem, did_you_mean
from rota.model.spec import Draw, Jitter, JobSpec, Kind, RepeatedFailure, Retry, Spend
from rota.rules.budgets import say_amount
from rota.rules.subscriptions import concerns, subscription_of

WrittenDraws = Mapping[KeyPath, Draw]
"""The draws of a job, by their place in its value."""

CAPACITY = 1_000_000
DRAW_HINT = "write `pools: [ollama]`, or with a cost `pools: {gpu: 2}`"

_capacity = whole(0, CAPACITY)
_cost = whole(1, CAPACITY)
_pool_name = name_of("a pool", hint=DRAW_HINT)


read_capacities = map_of(_pool_name, _capacity, wanted="a map of pools", hint="write `pools: {ollama: 1}`")
"""Reads the capacities of pools by name."""


def read_draws(value: Any) -> dict[KeyPath, Draw]:
    """Return what a job draws: names, or names with a cost, in a list or a map."""
    if not isinstance(value, list | Mapping):
        raise wrong_type(value, "a list of pools", hint=DRAW_HINT)
    with ProblemList() as problems:
        found = problems.rest = dict[KeyPath, Draw]()
        for path, (name, cost) in _written_draws(value).items():
            with problems.below(*path):
                found[path] = _draw(name, cost, known=[draw.pool for draw in found.values()])
    return found


def _draw(name: Any, cost: Any, *, known: Collection[str]) -> Draw:
    with ProblemList() as problems:
        with problems.below():
            _pool_name(name)
            if name in known:
                hint = f"name it once, with what it costs together: {{{name}: 2}}"
                raise BadValue(f"the pool {shown(name)} appears twice", hint=hint)
        number = _cost(cost)
    return Draw(name, number)


def _written_draws(value: list[Any] | Mapping[str, Any]) -> dict[KeyPath, tuple[Any, Any]]:
    """Return names and costs by where they stand; a name alone costs one."""
    if isinstance(value, Mapping):
        return {(name,): (name, cost) for name, cost in value.items()}
    found: dict[KeyPath, tuple[Any, Any]] = {}
    for index, item in enumerate(value):
        below = _written_draws(item) if isinstance(item, Mapping) else {(): (item, 1)}
        found |= {(index, *path): draw for path, draw in below.items()}
    return found


def drawn(written: WrittenDraws) -> tuple[Draw, ...]:
    """Return what a job draws, in the order of the pools' names."""
    return tuple(sorted(written.values(), key=lambda draw: draw.pool))


def wrong_draws(written: WrittenDraws, capacities: Mapping[str, int]) -> list[Problem]:
    """Return the draws on pools that are not there, or that can never have room for them."""
    refused = [_wrong_draw(draw, path, capacities) for path, draw in written.items()]
    return [problem for problem in refused if problem is not None]


def _wrong_draw(draw: Draw, path: KeyPath, capacities: Mapping[str, int]) -> Problem | None:
    capacity = capacities.get(draw.pool)
    if capacity is None:
        hint = did_you_mean(draw.pool, capacities, f"declare it at the top: `pools: {{{draw.pool}: 1}}`")
        return Problem(f"no pool is named {shown(draw.pool)}", "pool_missing", at=path, hint=hint)
    if 0 < capacity < draw.cost:
        message = f"costs {draw.cost:,} of the pool {shown(draw.pool)}, which has {capacity:,}"
        return Problem(message, "out_of_range", at=path, hint="lower the cost, or raise the pool's capacity")
    return None


ATTEMPTS = 100
FACTOR = 100
FAILURES = 1000
RETRY_HINT = "write `retry: {max_attempts: 5, backoff: 30s}`, or `retry: false` for none"
REPEATED_HINT = "write `on_repeated_failure: {after: 5, backoff_max: 1d}`, or `on_repeated_failure: false` for none"
_RETRY_WORDS = {
    "attempts": "write `max_attempts: 3`; it counts the first one",
    "retries": "write `max_attempts: 4` for three retries; it counts the first one",
    "max_retries": "write `max_attempts: 4` for three retries; it counts the first one",
    "delay": "write `backoff: 30s`",
    "wait": "write `backoff: 30s`",
    "max_backoff": "write `max: 10m`",
    "backoff_max": "write `max: 10m`",
    "multiplier": "write `factor: 2`",
    "exponential": "write `factor: 2`; `factor: 1` waits equally long each time",
}


def read_retry(value: Any) -> Retry:
    """Return how often a failed run is tried again; `false` is one attempt, `true` is the default."""
    if isinstance(value, bool):
        return Retry() if value else Retry(max_attempts=1)
    if isinstance(value, int):
        hint = f"write `retry: {{max_attempts: {shown(value)}}}`; it counts the first attempt"
        raise wrong_type(value, "a map of keys", hint=hint)
    with ProblemList() as problems:
        found = read_keys(value, _RETRY, problems=problems, hint=RETRY_HINT, words=_RETRY_WORDS)
        backoff, most = found.get("backoff", Retry().backoff), found.get("max")
        if found.get("max_attempts") == 1 and len(found) > 1:
            other = next(name for name in found if name != "max_attempts")
            raise BadValue("has no effect with `max_attempts: 1`", code="no_effect", at=(other,))
        known = "backoff" in found or ("backoff" not in value and not problems.mistyped)
        if most is not None and known and backoff > most:
            hint = "raise it, or lower `backoff`"
            raise BadValue("is shorter than the first backoff", code="conflict", hint=hint, at=("max",))
    return Retry(**{**found, "max": most or max(Retry().max, backoff)})


def read_repeated_failure(value: Any) -> RepeatedFailure | None:
    """Return when a job that keeps failing is held back; `false` is never, `true` is the default."""
    if isinstance(value, bool):
        return RepeatedFailure() if value else None
    if isinstance(value, int):
        raise wrong_type(value, "a map of keys", hint=f"write `on_repeated_failure: {{after: {shown(value)}}}`")
    return RepeatedFailure(**read_record(value, _REPEATED, hint=REPEATED_HINT))


def _read_factor(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(value, "a number", hint=f"write one from 1 to {FACTOR}; 1 waits equally long each time")
    if not 1 <= value <= FACTOR:
        raise BadValue(f"{shown(value)} is not between 1 and {FACTOR}", code="out_of_range")
    return float(value)


_RETRY: Mapping[str, Reader] = {
    "max_attempts": whole(1, ATTEMPTS),
    "backoff": read_grace,
    "factor": _read_factor,
    "max": read_duration,
    "jitter": lambda value: None if (jitter := read_jitter(value)) == Jitter() else jitter,
}
_REPEATED: Mapping[str, Reader] = {"after": whole(1, FAILURES), "backoff_max": read_duration}


WrittenNames = Mapping[KeyPath, str]
"""The accounts that a job names, by where in its value that stands."""
WrittenEstimates = Mapping[str, Decimal]
"""The expected cost of a run, by account; the empty name means the only account."""

MAX_AMOUNT = 10**15
ACCOUNT_HINT = "write `budgets: {claude-day: {usd: 10, per: day}}`"
NAMES_HINT = "write `budget: claude-day`, or a list of accounts"
ESTIMATE_HINT = "write a number, or one for each account: `estimate: {claude-day: 0.50}`"
PRICE_HINT = "write what a million tokens cost: `prices: {sonnet: {input: 3.00, output: 15.00}}`"
_COUNTED = "write what is counted: `usd: 10`, `requests: 10000`, `tokens: 4000000` or `runs: 60`"
_PER = "write `per: day`: minute, hour, day, week or month"
_POLICY = "write `policy: defer`, `skip` or `warn`"
_WORDS = {
    **dict.fromkeys(("limit", "max", "amount"), _COUNTED),
    **dict.fromkeys(("window", "period", "every", "reset"), _PER),
    **dict.fromkeys(("exceeded", "on_exceeded", "when_exceeded"), _POLICY),
    **dict.fromkeys(("dollars", "money", "cost"), "write `usd: 10`"),
    "calls": "write `requests: 10000`",
    "tz": "write `timezone: Europe/Paris`",
}


def read_number(value: Any) -> Decimal:
    """Return a number as it is written: 0.1 is a tenth."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(value, "a number")
    if not isfinite(value) or value < 0:
        raise BadValue(f"{shown(value)} is not a number from 0 on", code="out_of_range")
    return Decimal(int(value)) if isinstance(value, int) else Decimal(getattr(value, "written", str(value)))


def amount_of(number: Decimal, unit: Unit) -> int:
    """Return a number in an account's unit: money in millionths, everything else whole."""
    amount = number * MILLION if unit is Unit.USD else number
    if amount != int(amount):
        raise BadValue(f"{number} is too precise", hint=_FINEST[unit is Unit.USD])
    if amount > MAX_AMOUNT:
        raise BadValue(f"{number} is too large", code="out_of_range", hint="the limit would have no effect")
    return int(amount)


_FINEST = {True: "the smallest amount is a millionth of a dollar", False: "write a whole number"}


SUBSCRIPTION_HINT = "write `{of: subscription, keep: 30%}`, with `provider: anthropic` for one provider"
_KEEP = "write a part from 1% to 99%, such as `keep: 30%`"
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,2})?) ?%", re.ASCII)
_read_provider = matching(
    re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)?", re.ASCII),
    "a provider",
    hint="write anthropic, or anthropic/work for one account",
)


def _read_of(value: Any) -> str:
    if value != "subscription":
        raise not_among(value, ("subscription",))
    return str(value)


def _read_keep(value: Any) -> int:
    percent = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if percent is None:
        raise wrong_type(value, "a percentage", hint=_KEEP)
    keep = round(float(percent[1]) * MILLION / 100)
    if not MILLION // 100 <= keep <= MILLION - MILLION // 100:
        raise BadValue(f"{shown(value)} is not between 1% and 99%", code="out_of_range", hint=_KEEP)
    return keep


_SUBSCRIPTION: Mapping[str, Reader] = {"of": _read_of, "provider": _read_provider, "keep": _read_keep}


def read_budget(value: Any) -> Account | Subscription:
    """Return an entry of `budgets` without its name: an account, or the part of a subscription kept for people."""
    if not isinstance(value, Mapping) or "of" not in value:
        return read_account(value)
    with ProblemList() as problems:
        found = read_keys(value, _SUBSCRIPTION, problems=problems, hint=SUBSCRIPTION_HINT)
        if "keep" not in value and not problems.mistyped:
            problems.add(Problem("has no `keep`", "missing_value", hint=_KEEP))
    return Subscription("", found["keep"], found.get("provider", ""))


def read_account(value: Any) -> Account:
    """Return an account without its name: a limit of one unit per window, and the policy for runs beyond it.

    Its zone is empty where none is written.
    """
    with ProblemList() as problems:
        found = read_keys(value, _ACCOUNT, problems=problems, hint=ACCOUNT_HINT, words=_WORDS)
        units = _counted(value, problems)
        if "per" not in value and not problems.mistyped:
            problems.add(Problem("has no `per`", "missing_value", hint=_PER))
        for key, reader in (("estimate", estimate_in), (units[0], _limit)) if len(units) == 1 else ():
            with problems.below(key):
                found |= {key: reader(units[0], found[key])} if key in found else {}
    unit, estimate, policy = units[0], found.get("estimate"), found.get("policy", Exceeded.DEFER)
    account = Account("", unit, found[unit], found["per"], found.get("timezone", ""), policy, estimate)
    if too_dear(account, estimate):
        raise _too_dear(account, estimate, at=("estimate",))
    return account


def _counted(value: Mapping[str, Any], problems: ProblemList) -> list[Unit]:
    units = [unit for unit in Unit if unit in value]
    if not one_of(units, value, problems=problems):
        message = f"counts both {units[0]} and {units[1]}" if units else "has no limit"
        code = "conflict" if units else "missing_value"
        problems.add(Problem(message, code, at=(*units[1:2],), hint=_COUNTED))
    return units


def _limit(unit: Unit, number: Decimal) -> int:
    limit = amount_of(number, unit)
    if not limit:
        raise BadValue("with 0 nothing starts", code="out_of_range", hint="pause or disable the jobs instead")
    return limit


def estimate_in(unit: Unit, number: Decimal) -> int:
    """Return an estimate in an account's unit; refused where there is nothing to estimate."""
    if unit is Unit.RUNS:
        raise BadValue("has no effect: a run is one run", code="no_effect", hint="remove it")
    return amount_of(number, unit)


def too_dear(account: Account, estimate: int | None) -> bool:
    """Return whether an estimate is more than an account ever has: such a run would wait for ever."""
    return estimate is not None and estimate > account.limit and account.policy is not Exceeded.WARN


def _too_dear(account: Account, estimate: int | None, *, at: KeyPath) -> BadValue:
    limit, wanted = say_amount(account.limit, account.unit), say_amount(estimate or 0, account.unit)
    whose = f" of {shown(account.name)}" if account.name else ""
    message = f"{wanted} is more than the whole limit{whose}, {limit}"
    return BadValue(message, code="out_of_range", hint="lower it, or raise the limit", at=at)


read_name = name_of("an account", hint=NAMES_HINT)
"""Reads the name of an account."""

_ACCOUNT = {
    **dict.fromkeys((*map(str, Unit), "estimate"), read_number),
    "per": choice(Per),
    "policy": choice(Exceeded),
    "timezone": read_zone,
}


def _dollars(value: Any) -> int:
    return amount_of(read_number(value), Unit.USD)


def read_price(value: Any) -> Price:
    """Return what a million tokens of a model cost."""
    needs = {"input": "lacks `input`", "output": "lacks `output`"}
    return Price(**read_record(value, dict.fromkeys(Price.__struct_fields__, _dollars), hint=PRICE_HINT, needs=needs))


def read_names(value: Any) -> dict[KeyPath, str]:
    """Return the accounts that a job is charged to: one, or a list."""
    if isinstance(value, str):
        return {(): read_name(value)}
    if not isinstance(value, list):
        raise wrong_type(value, "the name of an account", hint=NAMES_HINT)
    with ProblemList() as problems:
        found = problems.rest = dict[KeyPath, str]()
        for index, item in enumerate(value):
            with problems.below(index):
                if item in found.values():
                    raise BadValue(f"the account {shown(item)} appears twice", hint="name it once")
                found[index,] = read_name(item)
    return found


def read_estimates(value: Any) -> dict[str, Decimal]:
    """Return what a run is expected to cost: a number, or one for each account."""
    if not isinstance(value, Mapping):
        return {"": read_number(value)}
    if not value:
        raise BadValue("is an empty map", hint=ESTIMATE_HINT)
    found: dict[str, Decimal] = map_of(read_name, read_number)(value)
    return found


def wrong_names(
    names: WrittenNames, accounts: Collection[str], *, subscriptions: Collection[str] = ()
) -> list[Problem]:
    """Return the accounts that are not there, and budgets of subscriptions, which apply without being named."""
    problems = []
    for path, name in names.items():
        if name in subscriptions:
            hint = "remove it: it applies to every agent of its provider"
            problems.append(Problem(f"{shown(name)} is no account", "no_effect", at=path, hint=hint))
        elif name not in accounts:
            hint = did_you_mean(name, accounts, f"declare it at the top: `budgets: {{{name}: {{usd: 10, per: day}}}}`")
            problems.append(Problem(f"no account is named {shown(name)}", "budget_missing", at=path, hint=hint))
    return problems


def wrong_estimates(
    estimates: WrittenEstimates, names: Collection[str], accounts: Mapping[str, Account]
) -> list[Problem]:
    """Return what is wrong with the estimates that a job itself has."""
    if "" in estimates and len(names) > 1:
        message = f"is one number, and the job has {len(names)} accounts"
        return [Problem(message, "conflict", hint=ESTIMATE_HINT)]
    problems = []
    for name in (name for name in estimates if name and name not in names):
        hint = did_you_mean(name, names, "name it under `budget:` too, or remove this line")
        problems.append(Problem("is not an account of this job", "budget_missing", at=(name,), hint=hint))
    for name in (name for name in names if name in accounts):
        key = (name,) if name in estimates else ()
        try:
            estimate = estimate_for(accounts[name], estimates, names)
        except BadValue as error:
            problems += [problem.below(*key) for problem in error.problems]
            continue
        if too_dear(accounts[name], estimate):
            problems += _too_dear(accounts[name], estimate, at=key).problems
    return problems


def estimate_for(account: Account, estimates: WrittenEstimates, names: Collection[str]) -> int | None:
    """Return what a job says a run costs in one of its accounts, None where it does not say."""
    alone = "" if len(names) == 1 else None
    written = estimates.get(account.name, estimates.get(alone) if alone is not None else None)
    return None if written is None else estimate_in(account.unit, written)


def spends_of(
    names: Collection[str], estimates: WrittenEstimates, accounts: Mapping[str, Account]
) -> tuple[Spend, ...]:
    """Return what a job is charged, in the order of the accounts' names; estimates that fit none are left out."""
    spends = []
    for account in (accounts[name] for name in sorted(names) if name in accounts):
        try:
            estimate = estimate_for(account, estimates, names)
        except BadValue:
            estimate = None  # a default that says nothing to this account
        spends.append(Spend(account.name, estimate, account.unit))
    return tuple(spends)


def without_estimate(spends: Collection[Spend], accounts: Mapping[str, Account], *, limited: bool) -> list[str]:
    """Return the accounts of tokens or money without an estimate; `limited`: the agent has a limit of cost."""
    counted = [accounts[spend.account] for spend in spends if spend.estimate is None]
    unknown = (Unit.TOKENS,) if limited else (Unit.TOKENS, Unit.USD)
    return [account.name for account in counted if account.estimate is None and account.unit in unknown]


def counting_notes(specs: Sequence[JobSpec]) -> list[str]:
    """Return which commands count as one request a run, unless they say otherwise: nothing sees what they send."""
    names = [
        spec.name
        for spec in specs
        if spec.work.kind in (Kind.COMMAND, Kind.SHELL)
        if any(spend.unit is Unit.REQUESTS and spend.estimate is None for spend in spec.budgets)
    ]
    counts = "counts" if len(names) == 1 else "count"
    told = f"{counts} as one request a run; `estimate`, or `usage` in the result file, sets the number"
    return [f"{listed(names)}: {told}"] if names else []


def unused_subscriptions(budgets: Mapping[str, Subscription], specs: Sequence[JobSpec]) -> list[str]:
    """Return the notes about budgets of subscriptions that no agent of a job uses."""
    works = [spec.work.agent for spec in specs if spec.work.agent is not None]
    providers = {subscription_of(one.provider) for work in works for one in (work.choices or (work,))}
    return [
        f"budgets.{name}: no job has an agent of {budget.provider or 'a provider'}"
        for name, budget in budgets.items()
        if not any(concerns(budget, provider) for provider in providers)
    ]
