"""Budgets, usage and costs of agents as users see them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from itertools import groupby
from typing import Any

from rota.engine.transactions.budgets import charges, current_window
from rota.model.budgets import Account, Window
from rota.model.clock import iso
from rota.model.errors import UnknownAccount
from rota.model.records import Job
from rota.model.spec import JobSpec, Spend
from rota.operations.jobs import find_job
from rota.operations.project.locate import in_scope
from rota.rules.budgets import Charge, Forecast, estimate_of, forecast, window_before
from rota.rules.schedule.timezone import zone
from rota.settings import Settings
from rota.store.driver import Database, Store
from rota.store.tables import budgets, jobs
from rota.store.tables.budgets import (
    AMOUNTS,
    Amount,
    Began,
    Spender,
    Used,
    UsedWindow,
    used_by_agent,
    used_by_job,
    used_by_model,
    used_by_quarter,
)

WAITING_SHOWN = 5
WAITING_COUNTED = 1000
LOOKED_BACK = 7
WINDOWS_SHOWN = 14
SPENDERS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class AccountView:
    """An account in its window of now."""

    account: Account
    window: Window
    settled: int
    reserved: int
    forecast: Forecast
    waiting: tuple[str, ...] = ()
    """Who waits for room, in the order of the queue."""
    declared: bool = True

    @property
    def used(self) -> int:
        """What is spent, and what runs under way are expected to spend."""
        return self.settled + self.reserved

    @property
    def left(self) -> int:
        """What is left of the limit."""
        return max(self.account.limit - self.used, 0)

    @property
    def over(self) -> int:
        """By how much the limit is passed: runs cost more than was expected, or the account only warns."""
        return max(self.used - self.account.limit, 0)


@dataclass(frozen=True, slots=True)
class PastWindow:
    """A window that is over, or the present one: what was used of which limit, and by how many runs."""

    window: Window
    limit: int
    used: int
    runs: int | None
    """None: the runs themselves are forgotten."""
    estimated: int


@dataclass(frozen=True, slots=True)
class AccountHistory:
    """An account, its last windows, newest first, and who spent most of the newest."""

    view: AccountView
    windows: tuple[PastWindow, ...]
    spenders: tuple[Spender, ...]


def list_accounts(store: Store, *, now: datetime) -> list[AccountView]:
    """Return the accounts that matter: those of the file, and older ones that runs still use."""
    return store.read(partial(account_views, now=now))


def account_views(db: Database, *, now: datetime) -> list[AccountView]:
    """Return the accounts that matter, inside a transaction."""
    found = [_view(db, stored, now=now) for stored in budgets.accounts(db)]
    return [view for view in found if view.declared or view.used or view.waiting]


def show_account(store: Store, name: str, *, now: datetime) -> AccountHistory:
    """Return one account with its last windows; UnknownAccount names the nearest."""
    return store.read(partial(_history, name=name, now=now))


def _view(db: Database, stored: budgets.Stored, *, now: datetime) -> AccountView:
    account, window = stored.account, current_window(stored.account, now)
    filled = budgets.find_window(db, account, window)
    settled, reserved = (filled.settled, filled.reserved) if filled else (0, 0)
    waiting = budgets.waiting(db, account.name, limit=WAITING_COUNTED) if budgets.anybody_waits(db) else []
    rests = _rests(db, account, window, now=now)
    return AccountView(
        account=account,
        window=window,
        settled=settled,
        reserved=reserved,
        forecast=forecast(settled, reserved, window=window, rests=rests, now=now),
        waiting=tuple(one.handle for one in waiting),
        declared=stored.declared,
    )


def _rests(db: Database, account: Account, window: Window, *, now: datetime) -> list[int]:
    """Return what each of the last windows used after the point at which this one stands.

    A window in which nobody did anything counts; before the first one nobody could, and of forgotten runs nobody knows
    when they ended.
    """
    first, elapsed = budgets.first_window(db, account), now - window.since
    found: list[int] = []
    while len(found) < LOOKED_BACK and first is not None:
        window = window_before(account.per, account.timezone, window)
        filled = budgets.find_window(db, account, window)
        if window.since < first or (filled is not None and filled.pruned):
            break
        found.append(0 if filled is None else budgets.rest(db, filled, after=window.since + elapsed))
    return found


def _history(db: Database, *, name: str, now: datetime) -> AccountHistory:
    stored = {one.account.name: one for one in budgets.accounts(db)}
    if name not in stored:
        raise UnknownAccount(name, get_close_matches(name, stored, n=1))
    view = _view(db, stored[name], now=now)
    windows = budgets.past_windows(db, view.account, before=view.window.until, limit=WINDOWS_SHOWN)
    newest = next((one for one in windows if one.window == view.window), None)
    spenders = budgets.spenders(db, newest, limit=SPENDERS_SHOWN) if newest else []
    return AccountHistory(view, tuple(_past(db, one) for one in windows), tuple(spenders))


def _past(db: Database, filled: UsedWindow) -> PastWindow:
    charged, estimated = budgets.counts(db, filled)
    return PastWindow(filled.window, filled.limit, filled.used, None if filled.pruned else charged, estimated)


def charges_of(
    store: Store | None, spec: JobSpec, job: Job | None, *, settings: Settings, now: datetime
) -> list[Charge]:
    """Return how the accounts of a job meet a start of it now; of one that is not applied yet, as its file says."""
    if store is not None and job is not None:
        return store.read(partial(charges, spec=spec, job_id=job.id, now=now))
    known = [(spend, settings.budgets[spend.account]) for spend in spec.budgets if spend.account in settings.budgets]
    return [_declared_charge(store, account, spend, now=now) for spend, account in known]


def _declared_charge(store: Store | None, account: Account, spend: Spend, *, now: datetime) -> Charge:
    window = current_window(account, now)
    filled = None if store is None else store.read(lambda db: budgets.find_window(db, account, window))
    settled, reserved = (filled.settled, filled.reserved) if filled else (0, 0)
    return Charge(account, window, settled, reserved, estimate_of(spend, account, largest=None))


def account_json(view: AccountView) -> dict[str, Any]:
    """Return an account as JSON; money in millionths of a dollar."""
    account = view.account
    return {
        "name": account.name,
        "unit": account.unit,
        "limit": account.limit,
        "per": account.per,
        "timezone": account.timezone,
        "policy": account.policy,
        "estimate": account.estimate,
        "declared": view.declared,
        "since": iso(view.window.since),
        "until": iso(view.window.until),
        "settled": view.settled,
        "reserved": view.reserved,
        "used": view.used,
        "left": view.left,
        "over": view.over,
        "forecast": view.forecast.amount,
        "forecast_from": view.forecast.basis,
        "forecast_windows": view.forecast.windows,
        "waiting": list(view.waiting),
    }


def history_json(found: AccountHistory) -> dict[str, Any]:
    """Return an account with its last windows and spenders as JSON."""
    return {
        **account_json(found.view),
        "windows": [_window_json(one) for one in found.windows],
        "spenders": _spenders_json(found.spenders),
    }


def _window_json(one: PastWindow) -> dict[str, Any]:
    return {
        "since": iso(one.window.since),
        "until": iso(one.window.until),
        "limit": one.limit,
        "used": one.used,
        "runs": one.runs,
        "estimated": one.estimated,
    }


def _spenders_json(spenders: Sequence[Spender]) -> list[dict[str, Any]]:
    return [
        {
            "job": one.job,
            "runs": one.runs,
            "used": one.used,
            "under_way": one.under_way,
            "estimated": one.estimated,
        }
        for one in spenders
    ]


class By(StrEnum):
    """What usage is told by."""

    JOB = "job"
    AGENT = "agent"
    MODEL = "model"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class UsageView:
    """What was used since a moment: by day in order, else the one that took longest first."""

    by: By
    since: datetime
    until: datetime
    rows: tuple[Used, ...]
    total: Used


def look_at_usage(
    store: Store, *, by: By, since: datetime, tz: str, now: datetime, job: str | None = None, scope: str = ""
) -> UsageView:
    """Return what was used from `since` to now; `tz` is where days begin, `scope` an included project."""
    return store.read(partial(_look, by=by, since=since, tz=tz, now=now, job=job, scope=scope))


def _look(db: Database, *, by: By, since: datetime, tz: str, now: datetime, job: str | None, scope: str) -> UsageView:
    began = Began(since, _chosen(db, job, scope))
    if by is By.DAY:
        rows = by_day(used_by_quarter(db, began, now=now), tz)
    else:
        found = _READERS[by](db, began, now=now)
        rows = sorted(found, key=lambda used: (-used.took, used.name or ""))
    return UsageView(by, since, now, tuple(rows), total_of(rows))


_READERS = {By.JOB: used_by_job, By.AGENT: used_by_agent, By.MODEL: used_by_model}


def _chosen(db: Database, job: str | None, scope: str) -> list[str] | None:
    if job is not None:
        return [find_job(db, job).id]
    return [one.id for one in jobs.all_jobs(db) if in_scope(one.name, scope)] if scope else None


def by_day(quarters: Sequence[tuple[datetime, Used]], tz: str) -> list[Used]:
    """Return what was used on each day of a zone that has runs, in order."""
    days = groupby(quarters, key=lambda one: one[0].astimezone(zone(tz)).date().isoformat())
    return [replace(total_of([used for _, used in alike]), name=day) for day, alike in days]


def total_of(rows: Sequence[Used]) -> Used:
    """Return all of them together."""
    amounts = {name: sum((getattr(used, name) for used in rows), Amount()) for name in AMOUNTS}
    return Used(None, sum(used.runs for used in rows), sum((used.took for used in rows), timedelta()), **amounts)


def usage_json(view: UsageView) -> dict[str, Any]:
    """Return usage as JSON."""
    return {
        "by": view.by.value,
        "since": iso(view.since),
        "until": iso(view.until),
        "rows": [{view.by.value: used.name, **used_json(used)} for used in view.rows],
        "total": used_json(view.total),
    }


def used_json(used: Used) -> dict[str, Any]:
    """Return sums; null where no run tells, and how many do not tell beside each."""
    found: dict[str, Any] = {"runs": used.runs, "seconds": round(used.took.total_seconds(), 3)}
    amounts = {name: getattr(used, name) for name in AMOUNTS}
    amounts["usd_millionths"] = amounts.pop("usd")
    for name, amount in amounts.items():
        found[name] = amount.total if amount.told else None
        found[f"{name}_unknown_runs"] = used.runs - amount.told
    return found


@dataclass(frozen=True, slots=True)
class AgentCosts:
    """What agents used since a moment: each day in order, days without a run too; who cost most first."""

    days: tuple[Used, ...]
    jobs: tuple[Used, ...]
    agents: tuple[Used, ...]
    total: Used


def look_at_agent_costs(store: Store, *, since: datetime, tz: str, now: datetime) -> AgentCosts:
    """Return what the runs of agent jobs used from the day of `since` on; `tz` is where days begin."""
    return store.read(partial(_read_costs, since=since, tz=tz, now=now))


def _read_costs(db: Database, *, since: datetime, tz: str, now: datetime) -> AgentCosts:
    first = since.astimezone(zone(tz)).replace(hour=0, minute=0, second=0, microsecond=0)
    asked = [job.id for job in jobs.all_jobs(db) if job.spec.work.agent is not None]
    began = Began(first, asked)
    found = by_day(used_by_quarter(db, began, now=now), tz) if asked else []
    told = {used.name: used for used in found}
    names = [(first + timedelta(days=day)).date().isoformat() for day in range((now - first).days + 1)]
    return AgentCosts(
        days=tuple(told.get(name, replace(total_of([]), name=name)) for name in names),
        jobs=tuple(sorted(used_by_job(db, began, now=now), key=_most)) if asked else (),
        agents=tuple(sorted(used_by_agent(db, began, now=now), key=_most)) if asked else (),
        total=total_of(found),
    )


def _most(used: Used) -> tuple[int, int, str]:
    return -used.usd.total, -(used.tokens_in.total + used.tokens_out.total), used.name or ""
