"""Budgets, usage and costs of agents as users see them."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import groupby
from typing import Any, TypedDict

from msgspec import Struct
from msgspec.structs import asdict, replace

from rota.engine.transactions.budgets import charges, current_window
from rota.model.budgets import MILLION, Account, StoredWindow, Subscription, Window
from rota.model.clock import iso
from rota.model.errors import UnknownAccount, nearest
from rota.model.records import Job
from rota.model.serialize import fields_json, iso_or_none, to_shape
from rota.model.spec import JobSpec, Spend
from rota.operations.jobs import find_job
from rota.operations.project.locate import in_scope
from rota.rules.budgets import Basis, Charge, Forecast, estimate_of, forecast, say_amount, window_before
from rota.rules.schedule.timezone import zone
from rota.rules.subscriptions import concerns, full_windows, is_reset, say_part, say_subscription, subscription_of
from rota.settings import Settings
from rota.store.driver import Database, Store
from rota.store.tables import budgets, jobs
from rota.store.tables.budgets import AMOUNTS, Amount, Began, Spender, Used
from rota.text.format import day_time, from_now

WAITING_SHOWN = 5
WAITING_COUNTED = 1000
FORECAST_WINDOWS = 7
WINDOWS_SHOWN = 14
SPENDERS_SHOWN = 10


class AccountView(Struct, frozen=True):
    """An account in its current window."""

    account: Account
    window: Window
    settled: int
    reserved: int
    forecast: Forecast
    waiting: tuple[str, ...] = ()
    """The waiting runs in queue order."""
    declared: bool = True

    @property
    def used(self) -> int:
        """The settled amount and the expected amount of unfinished runs."""
        return self.settled + self.reserved

    @property
    def left(self) -> int:
        """The rest of the limit."""
        return max(self.account.limit - self.used, 0)

    @property
    def over(self) -> int:
        """The amount above the limit: runs cost more than expected, or the account only warns."""
        return max(self.used - self.account.limit, 0)


class PastWindow(Struct, frozen=True):
    """A past window or the current one, with its limit and usage. `runs` is None if the runs are pruned."""

    window: Window
    limit: int
    used: int
    runs: int | None
    estimated: int


class AccountHistory(Struct, frozen=True):
    """An account, its last windows, newest first, and the top spenders of the newest."""

    view: AccountView
    windows: tuple[PastWindow, ...]
    spenders: tuple[Spender, ...]


def list_accounts(store: Store, *, now: datetime) -> list[AccountView]:
    """Return the accounts of the file, and older accounts that runs still use."""
    return store.read(partial(account_views, now=now))


def account_views(db: Database, *, now: datetime) -> list[AccountView]:
    """Return the accounts of the file, and older accounts that runs still use, inside a transaction."""
    views = [_view(db, stored, now=now) for stored in budgets.accounts(db)]
    return [view for view in views if view.declared or view.used or view.waiting]


def show_account(store: Store, name: str, *, now: datetime) -> AccountHistory:
    """Return one account with its last windows; UnknownAccount names the nearest."""
    return store.read(partial(_history, name=name, now=now))


class SubscriptionView(Struct, frozen=True):
    """A subscription: its windows as last reported, and the budgets that keep a part of them."""

    provider: str
    windows: tuple[StoredWindow, ...] = ()
    budgets: tuple[Subscription, ...] = ()
    closed_until: datetime | None = None
    """The end of the wait of its runs; None: they may start."""
    waiting: int = 0


def list_subscriptions(store: Store, *, now: datetime) -> list[SubscriptionView]:
    """Return the subscriptions that were reported, or of which budgets keep a part."""
    return store.read(partial(subscription_views, now=now))


def subscription_views(db: Database, *, now: datetime, providers: Collection[str] = ()) -> list[SubscriptionView]:
    """Return the subscriptions of these providers, those that were reported, and those that budgets name."""
    windows, subscriptions = budgets.subscription_windows(db), list(budgets.subscriptions(db).values())
    names = {subscription_of(one) for one in providers} | {window.provider for window in windows}
    names |= {
        subscription.provider
        for subscription in subscriptions
        if subscription.provider and not any(concerns(subscription, name) for name in names)
    }
    return [_subscription(db, name, windows, subscriptions, now=now) for name in sorted(names)]


def _subscription(
    db: Database, name: str, windows: Sequence[StoredWindow], kept: Sequence[Subscription], *, now: datetime
) -> SubscriptionView:
    full = full_windows(kept, windows, provider=name, model=None, now=now)
    return SubscriptionView(
        name,
        tuple(window for window in windows if window.provider == name),
        tuple(subscription for subscription in kept if concerns(subscription, name)),
        max((window.resets_at for window in full), default=None),
        len(budgets.waiting_for_subscription(db, name, limit=WAITING_COUNTED)),
    )


def windows_words(view: SubscriptionView, tz: str, *, now: datetime) -> str:
    """Return how full the windows of a subscription are and when they reset; `not reported` without a report."""
    return "; ".join(_window_words(window, tz, now=now) for window in view.windows) or "not reported"


def _window_words(window: StoredWindow, tz: str, *, now: datetime) -> str:
    if window.resets_at is not None and is_reset(window, now):
        return f"{window.name} not reported since its reset {from_now(window.resets_at, now)}"
    at = window.resets_at
    resets = "" if at is None else f", resets {day_time(at, tz, now=now)} ({from_now(at, now)})"
    used = "not reported" if window.used is None else f"{say_part(window.used)} used"
    return f"{window.name} {used}{resets}"


def kept_words(view: SubscriptionView, tz: str, *, now: datetime) -> list[str]:
    """Return what budgets keep of a subscription, and until when runs wait for it."""
    lines = [f"{subscription.name} {say_subscription(subscription)}" for subscription in view.budgets]
    if view.closed_until is not None:
        until = f"{day_time(view.closed_until, tz, now=now)} ({from_now(view.closed_until, now)})"
        waits = f"; {view.waiting:,} waiting" if view.waiting else ""
        lines.append(f"runs of {view.provider} wait until {until}{waits}")
    return lines


class SubscriptionJson(TypedDict):
    """A subscription, as `rota agents --json` and `rota budgets --json`; parts from 0 to 1."""

    provider: str
    windows: list[dict[str, Any]]
    budgets: list[dict[str, Any]]
    closed_until: str | None
    waiting: int


def subscription_json(view: SubscriptionView) -> SubscriptionJson:
    """Return a subscription as JSON."""
    windows = [
        {
            "name": window.name,
            "used": None if window.used is None else window.used / MILLION,
            "resets_at": iso_or_none(window.resets_at),
            "told_at": iso(window.at),
        }
        for window in view.windows
    ]
    return {
        "provider": view.provider,
        "windows": windows,
        "budgets": [{"name": subscription.name, "keep": subscription.keep / MILLION} for subscription in view.budgets],
        "closed_until": iso_or_none(view.closed_until),
        "waiting": view.waiting,
    }


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
        waiting=tuple(run.handle for run in waiting),
        declared=stored.declared,
    )


def _rests(db: Database, account: Account, window: Window, *, now: datetime) -> list[int]:
    """Return the usage of each of the last windows after the elapsed time of the current one.

    A window without runs counts. Windows before the first one and windows with pruned runs do not.
    """
    first, elapsed = budgets.first_window(db, account), now - window.since
    rests: list[int] = []
    while len(rests) < FORECAST_WINDOWS and first is not None:
        window = window_before(account.per, account.timezone, window)
        filled = budgets.find_window(db, account, window)
        if window.since < first or (filled is not None and filled.pruned):
            break
        rests.append(0 if filled is None else budgets.rest(db, filled, after=window.since + elapsed))
    return rests


def _history(db: Database, *, name: str, now: datetime) -> AccountHistory:
    stored = {one.account.name: one for one in budgets.accounts(db)}
    if name not in stored:
        raise UnknownAccount(name, nearest(name, stored))
    view = _view(db, stored[name], now=now)
    windows = budgets.past_windows(db, view.account, before=view.window.until, limit=WINDOWS_SHOWN)
    newest = next((filled for filled in windows if filled.window == view.window), None)
    spenders = budgets.spenders(db, newest, limit=SPENDERS_SHOWN) if newest else []
    past = []
    for filled in windows:
        charged, estimated = budgets.counts(db, filled)
        runs = None if filled.pruned else charged
        past.append(PastWindow(filled.window, filled.limit, filled.used, runs, estimated))
    return AccountHistory(view, tuple(past), tuple(spenders))


def charges_of(
    store: Store | None, spec: JobSpec, job: Job | None, *, settings: Settings, now: datetime
) -> list[Charge]:
    """Return the charges of a start of a job now; of a job that is not applied yet, by the accounts of its file."""
    if store is not None and job is not None:
        return store.read(partial(charges, spec=spec, job_id=job.id, now=now))
    declared = settings.budgets
    return [
        _declared_charge(store, declared[spend.account], spend, now=now)
        for spend in spec.budgets
        if spend.account in declared
    ]


def _declared_charge(store: Store | None, account: Account, spend: Spend, *, now: datetime) -> Charge:
    window = current_window(account, now)
    filled = None if store is None else store.read(lambda db: budgets.find_window(db, account, window))
    settled, reserved = (filled.settled, filled.reserved) if filled else (0, 0)
    return Charge(account, window, settled, reserved, estimate_of(spend, account, largest=None))


class AccountJson(TypedDict):
    """An account of budgets in its window, as `rota budgets --json`; money in millionths of a dollar."""

    name: str
    unit: str
    limit: int
    per: str
    timezone: str
    policy: str
    estimate: int | None
    declared: bool
    since: str
    until: str
    settled: int
    reserved: int
    used: int
    left: int
    over: int
    forecast: int | None
    forecast_from: str | None
    forecast_windows: int
    waiting: list[str]


def account_json(view: AccountView) -> AccountJson:
    """Return an account as JSON; money in millionths of a dollar."""
    forecast = view.forecast
    return to_shape(
        AccountJson,
        view,
        **asdict(view.account),
        since=view.window.since,
        until=view.window.until,
        forecast=forecast.amount,
        forecast_from=forecast.basis,
        forecast_windows=forecast.windows,
    )


def history_json(history: AccountHistory) -> dict[str, Any]:
    """Return an account with its last windows and spenders as JSON."""
    return {
        **account_json(history.view),
        "windows": [
            fields_json(past.window, "since", "until") | fields_json(past, "limit", "used", "runs", "estimated")
            for past in history.windows
        ],
        "spenders": [fields_json(by, "job", "runs", "used", "under_way", "estimated") for by in history.spenders],
    }


class By(StrEnum):
    """The grouping of usage."""

    JOB = "job"
    AGENT = "agent"
    MODEL = "model"
    OUTCOME = "outcome"
    DAY = "day"


class UsageView(Struct, frozen=True):
    """Usage since a moment: by day in order, else by decreasing run time."""

    by: By
    since: datetime
    until: datetime
    rows: tuple[Used, ...]
    total: Used


def look_at_usage(
    store: Store, *, by: By, since: datetime, tz: str, now: datetime, job: str | None = None, scope: str = ""
) -> UsageView:
    """Return the usage from `since` to now; days begin in the zone `tz`, `scope` is an included project."""

    def read(db: Database) -> UsageView:
        chosen = [one.id for one in jobs.all_jobs(db) if in_scope(one.name, scope)] if scope else None
        began = Began(since, chosen if job is None else [find_job(db, job).id])
        if by is By.DAY:
            rows = by_day(budgets.used_by_quarter(db, began, now=now), tz)
        else:
            rows = sorted(_READERS[by](db, began, now=now), key=lambda used: (-used.took, used.name or ""))
        return UsageView(by, since, now, tuple(rows), total_of(rows))

    return store.read(read)


_READERS = {
    By.JOB: budgets.used_by_job,
    By.AGENT: budgets.used_by_agent,
    By.MODEL: budgets.used_by_model,
    By.OUTCOME: budgets.used_by_outcome,
}


def by_day(quarters: Sequence[tuple[datetime, Used]], tz: str) -> list[Used]:
    """Return the usage of each day of a zone that has runs, in order."""
    days = groupby(quarters, key=lambda pair: pair[0].astimezone(zone(tz)).date().isoformat())
    return [replace(total_of([used for _, used in alike]), name=day) for day, alike in days]


def total_of(rows: Sequence[Used]) -> Used:
    """Return the sum of all rows."""
    amounts = {name: sum((getattr(used, name) for used in rows), Amount()) for name in AMOUNTS}
    return Used(None, sum(used.runs for used in rows), sum((used.took for used in rows), timedelta()), **amounts)


class UsageJson(TypedDict):
    """The usage of runs, as `rota usage --json`."""

    by: str
    since: str
    until: str
    rows: list[dict[str, Any]]
    total: dict[str, Any]


def usage_json(view: UsageView) -> UsageJson:
    """Return usage as JSON."""
    return {
        "by": view.by.value,
        "since": iso(view.since),
        "until": iso(view.until),
        "rows": [{view.by.value: used.name, **used_json(used)} for used in view.rows],
        "total": used_json(view.total),
    }


def used_json(used: Used) -> dict[str, Any]:
    """Return sums, null where no run reports the amount, each with the number of runs that do not report it."""
    sums: dict[str, Any] = {"runs": used.runs, "seconds": round(used.took.total_seconds(), 3)}
    amounts = {name: getattr(used, name) for name in AMOUNTS}
    amounts["usd_millionths"] = amounts.pop("usd")
    for name, amount in amounts.items():
        sums[name] = amount.total if amount.told else None
        sums[f"{name}_unknown_runs"] = used.runs - amount.told
    return sums


class AgentCosts(Struct, frozen=True):
    """Usage of agents since a moment: every day in order, jobs and agents by decreasing cost."""

    days: tuple[Used, ...]
    jobs: tuple[Used, ...]
    agents: tuple[Used, ...]
    total: Used


def look_at_agent_costs(store: Store, *, since: datetime, tz: str, now: datetime) -> AgentCosts:
    """Return the usage of agent jobs from the day of `since` on; days begin in the zone `tz`."""
    return store.read(partial(_read_costs, since=since, tz=tz, now=now))


def _read_costs(db: Database, *, since: datetime, tz: str, now: datetime) -> AgentCosts:
    first = since.astimezone(zone(tz)).replace(hour=0, minute=0, second=0, microsecond=0)
    agent_jobs = [job.id for job in jobs.all_jobs(db) if job.spec.work.agent is not None]
    began = Began(first, agent_jobs)
    rows = by_day(budgets.used_by_quarter(db, began, now=now), tz) if agent_jobs else []
    used_days = {used.name: used for used in rows}
    names = [(first + timedelta(days=day)).date().isoformat() for day in range((now - first).days + 1)]
    return AgentCosts(
        days=tuple(used_days.get(name, replace(total_of([]), name=name)) for name in names),
        jobs=tuple(sorted(budgets.used_by_job(db, began, now=now), key=_by_cost)) if agent_jobs else (),
        agents=tuple(sorted(budgets.used_by_agent(db, began, now=now), key=_by_cost)) if agent_jobs else (),
        total=total_of(rows),
    )


def _by_cost(used: Used) -> tuple[int, int, str]:
    return -used.usd.total, -(used.tokens_in.total + used.tokens_out.total), used.name or ""


def reopens_words(view: AccountView, *, now: datetime) -> str:
    """Return the start of the next window, relative and in the account's zone."""
    zone = view.account.timezone
    return f"{from_now(view.window.until, now)}, {day_time(view.window.until, zone, now=now)} ({zone})"


def forecast_words(view: AccountView) -> str:
    """Return the forecast of the window and its basis."""
    found = view.forecast
    if found.amount is None:
        return "too early to say"
    amount = say_amount(found.amount, view.account.unit, noun=False)
    basis = f"by the last {found.windows}" if found.basis is Basis.HISTORY else "at this rate"
    return f"{amount} {basis}{', above the limit' * (found.amount > view.account.limit)}"


def over_words(view: AccountView) -> str:
    """Return the amount above the limit and the reason; empty if there is none."""
    if not view.over:
        return ""
    over = say_amount(view.over, view.account.unit)
    why = "the policy is `warn`" if view.account.policy == "warn" else "runs cost more than estimated"
    return f"{view.account.name} is {over} above its limit: {why}"


def other_remarks(view: AccountView) -> Iterator[str]:
    """Yield the runs that wait for an account, and a note if the file no longer declares it."""
    if view.waiting:
        count = len(view.waiting)
        more = f" and {count - WAITING_SHOWN:,}{'+' * (count == WAITING_COUNTED)} more" if count > WAITING_SHOWN else ""
        yield f"waiting for {view.account.name}: {', '.join(view.waiting[:WAITING_SHOWN])}{more}"
    if not view.declared:
        yield f"{view.account.name} is no longer in the file; runs of older definitions still use it"
