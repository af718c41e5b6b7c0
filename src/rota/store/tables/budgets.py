"""Rows of budgets and of usage."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from rota.model.budgets import Account, Price, StoredWindow, Subscription, Unit, Window
from rota.model.clock import MILLISECOND, from_ms, to_ms
from rota.store.driver import Database, Row
from rota.store.rows import Record, columns_of, instant_of, record_of, records_of, value_of

PRICES_KEY = "prices"
SUBSCRIPTIONS_KEY = "subscriptions"


class Stored(Struct, frozen=True):
    """A stored account. An undeclared one still limits runs of older definitions."""

    account: Account
    declared: bool = True


class UsedWindow(Struct, frozen=True):
    """A window and its usage. `limit` is the last one; `pruned`: settled by deleted runs."""

    id: int
    window: Window
    limit: int
    settled: int = 0
    reserved: int = 0
    pruned: int = 0

    @property
    def used(self) -> int:
        """The settled and the reserved amount."""
        return self.settled + self.reserved


class HeldAmount(Struct, frozen=True):
    """The reservation of an unfinished run in a window: its `estimate`, and its requests."""

    run_id: str
    window_id: int
    account: str
    unit: Unit
    estimate: int | None
    reserved: int
    spent: int


class BudgetWaiter(Struct, frozen=True):
    """A run that waits for room in an account, and its estimate."""

    run_id: str
    handle: str
    estimate: int


class Spender(Struct, frozen=True):
    """The usage of a job's runs in a window; `estimated`: the part without measured usage."""

    job: str
    runs: int
    used: int
    under_way: int
    estimated: int


def accounts(db: Database) -> list[Stored]:
    """Return all accounts by name."""
    return [_stored(row) for row in db.rows("budgets_all")]


def named_accounts(db: Database, names: Iterable[str]) -> dict[str, Account]:
    """Return the existing ones of these accounts, in the order of their names."""
    rows = db.rows("budgets_named", names=json.dumps(list(names)))
    return {row[0]: _stored(row).account for row in rows}


def _stored(row: Row) -> Stored:
    return Stored(record_of(Account, row[:-1]), bool(row[-1]))


def declare_accounts(db: Database, declared: Iterable[Account]) -> None:
    """Set the declared accounts; an undeclared one stays while it has charges."""
    rows = [(*columns_of(account).values(),) for account in declared]
    db.execute("budgets_declare", accounts=json.dumps(rows))
    db.execute("budgets_withdraw", accounts=json.dumps(rows))
    db.execute("budgets_drop")


def prices(db: Database) -> dict[str, Price]:
    """Return the token prices of each model."""
    stored: dict[str, list[int]] = json.loads(value_of(db, "meta_get", key=PRICES_KEY) or "{}")
    return {model: Price(*rates) for model, rates in stored.items()}


def declare_prices(db: Database, declared: Mapping[str, Price]) -> None:
    """Set the token prices of each model."""
    if prices(db) != dict(declared):
        rates = {
            model: [rate for rate in (price.input, price.output, price.cached_input) if rate is not None]
            for model, price in sorted(declared.items())
        }
        db.execute("meta_set", key=PRICES_KEY, value=json.dumps(rates))


def subscriptions(db: Database) -> dict[str, Subscription]:
    """Return the budgets that keep a part of subscriptions for people, by name."""
    stored: dict[str, list[Any]] = json.loads(value_of(db, "meta_get", key=SUBSCRIPTIONS_KEY) or "{}")
    return {name: Subscription(name, *rest) for name, rest in stored.items()}


def declare_subscriptions(db: Database, declared: Mapping[str, Subscription]) -> bool:
    """Set the budgets that keep a part of subscriptions; return whether they changed."""
    if subscriptions(db) == dict(declared):
        return False
    written = {name: [subscription.keep, subscription.provider] for name, subscription in sorted(declared.items())}
    db.execute("meta_set", key=SUBSCRIPTIONS_KEY, value=json.dumps(written))
    return True


def subscription_windows(db: Database) -> list[StoredWindow]:
    """Return the reported windows of all subscriptions, by provider and name."""
    return records_of(StoredWindow, db.rows("subscription_windows"))


def put_subscription_window(db: Database, window: StoredWindow) -> None:
    """Store the report of a window, unless a newer one is stored."""
    db.execute("subscription_window_put", **columns_of(window))


def waiting_for_subscription(db: Database, provider: str | None, *, limit: int) -> list[str]:
    """Return the runs that wait for a window of a provider's subscription, or of any, in queue order."""
    return [run_id for (run_id,) in db.rows("subscription_waiting", provider=provider, limit=limit)]


def open_window(db: Database, account: Account, window: Window) -> UsedWindow:
    """Return a window of an account with the account's limit; insert a new one."""
    params = {"budget": account.name, "unit": account.unit, **columns_of(window)}
    db.execute("budget_window_open", amount=account.limit, **params)
    used = find_window(db, account, window)
    assert used is not None
    return used


def find_window(db: Database, account: Account, window: Window) -> UsedWindow | None:
    """Return a window of an account, None without charges."""
    row = db.row("budget_window", budget=account.name, unit=account.unit, **columns_of(window))
    return None if row is None else _filled(row)


def past_windows(db: Database, account: Account, *, before: datetime, limit: int) -> list[UsedWindow]:
    """Return the windows with charges, newest first."""
    rows = db.rows("budget_windows", budget=account.name, unit=account.unit, before=to_ms(before), limit=limit)
    return [_filled(row) for row in rows]


def first_window(db: Database, account: Account) -> datetime | None:
    """Return the start of the oldest stored window."""
    return instant_of(db, "budget_earliest", budget=account.name, unit=account.unit)


def _filled(row: Row) -> UsedWindow:
    id_, since, until, *amounts = row
    return UsedWindow(id_, Window(from_ms(since), from_ms(until)), *amounts)


def at_gate(db: Database, run_id: str, *, epoch: int) -> bool:
    """Return whether a run or direct call is at its gates in the process of `epoch`."""
    return db.row("budget_gate", id=run_id, epoch=epoch) is not None


def take(db: Database, window_id: int, amount: int, *, most: int | None) -> bool:
    """Reserve an amount of a window; return whether it fits into `most`, None for no limit."""
    return db.execute("budget_take", id=window_id, amount=amount, most=most) == 1


def reserve(db: Database, run_id: str, window_id: int, *, account: str, job_id: str, estimate: int) -> None:
    """Store a taken amount as the reservation of a run."""
    entry = {"run_id": run_id, "window_id": window_id, "budget": account, "job_id": job_id}
    db.execute("budget_entry_reserve", estimate=estimate, **entry)


def spend_request(db: Database, run_id: str, window_id: int, *, account: str, job_id: str, most: int | None) -> bool:
    """Count a request of a run within its reservation, else within `most`; return whether there was room."""
    row = db.row("budget_entry_held", run_id=run_id, window_id=window_id)
    extend = int(row is None or row[1] >= row[0])
    if extend and not take(db, window_id, 1, most=most):
        return False
    if row is not None:
        db.execute("budget_entry_spend", run_id=run_id, window_id=window_id, extend=extend)
    else:
        db.execute("budget_entry_begin", run_id=run_id, window_id=window_id, budget=account, job_id=job_id)
    return True


def held(db: Database, run_ids: Sequence[str]) -> list[HeldAmount]:
    """Return the reservations of these runs. Every end of a run reads them, so it first checks whether any exist."""
    if db.row("budget_any_held") is None:
        return []
    return records_of(HeldAmount, db.rows("budget_entries_held", ids=json.dumps(list(run_ids))))


def release(db: Database, run_ids: Sequence[str]) -> None:
    """Release the reservations of runs that return to the queue; their requests stay charged."""
    for amount in held(db, run_ids):
        take(db, amount.window_id, amount.spent - amount.reserved, most=None)
        db.execute("budget_entry_release", run_id=amount.run_id, window_id=amount.window_id)
        db.execute("budget_entry_drop", run_id=amount.run_id, window_id=amount.window_id)


def settle(db: Database, amount: HeldAmount, *, settled: int, measured: bool, now: datetime) -> None:
    """Replace the reservation of a run by its usage."""
    key = {"run_id": amount.run_id, "window_id": amount.window_id}
    db.execute("budget_settle", id=amount.window_id, settled=settled, reserved=amount.reserved)
    db.execute("budget_entry_settle", settled=settled, measured=int(measured), now=to_ms(now), **key)


def drop(db: Database, amount: HeldAmount) -> None:
    """Release the reservation of a run without usage."""
    take(db, amount.window_id, -amount.reserved, most=None)
    db.execute("budget_entry_drop", run_id=amount.run_id, window_id=amount.window_id)


def largest(db: Database, job_id: str, account: Account, *, recent: int) -> int | None:
    """Return the largest measured usage of a job's last settled runs, None for none."""
    params = {"job_id": job_id, "budget": account.name, "unit": account.unit, "recent": recent}
    amount: int | None = value_of(db, "budget_largest", **params)
    return amount


def anybody_waits(db: Database) -> bool:
    """Return whether a run waits for room in an account."""
    return db.row("budget_anybody_waits") is not None


def waiting(db: Database, account: str, *, limit: int) -> list[BudgetWaiter]:
    """Return the runs that wait for room in an account, in queue order."""
    return [BudgetWaiter(*row) for row in db.rows("budget_waiting", budget=account, limit=limit)]


def rest(db: Database, window: UsedWindow, *, after: datetime) -> int:
    """Return the usage of a window by runs that ended after an instant."""
    return int(value_of(db, "budget_rest", window_id=window.id, after=to_ms(after)) or 0)


def spenders(db: Database, window: UsedWindow, *, limit: int) -> list[Spender]:
    """Return the jobs with the largest usage of a window."""
    return [Spender(*row) for row in db.rows("budget_spenders", window_id=window.id, limit=limit)]


def counts(db: Database, window: UsedWindow) -> tuple[int, int]:
    """Return the number of runs charged to a window, and the amount settled at estimates."""
    row = db.row("budget_counts", window_id=window.id)
    return (int(row[0]), int(row[1])) if row else (0, 0)


def forget_runs(db: Database, run_ids: Sequence[str]) -> None:
    """Delete the charges of pruned runs; their windows keep the sum."""
    ids = json.dumps(list(run_ids))
    if db.execute("prune_budget_count", ids=ids):
        db.execute("prune_budget_entries", ids=ids)


def old_windows(db: Database, *, before: datetime) -> bool:
    """Return whether there are windows to delete."""
    return db.row("budget_old_windows", before=to_ms(before)) is not None


def forget_windows(db: Database, *, before: datetime, limit: int) -> int:
    """Delete windows without runs that ended before an instant; return the number."""
    return db.execute("prune_budget_windows", before=to_ms(before), limit=limit)


AMOUNTS = ("tokens_in", "tokens_out", "requests", "usd")
QUARTER = timedelta(minutes=15)


class Amount(Struct, frozen=True):
    """A sum over the runs with known usage, and their number."""

    told: int = 0
    total: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.told + other.told, self.total + other.total)


class Used(Struct, frozen=True):
    """The usage of runs and direct calls; `usd` in millionths. `name` None: without a job, agent or known model."""

    name: str | None
    runs: int
    took: timedelta
    tokens_in: Amount
    tokens_out: Amount
    requests: Amount
    usd: Amount


class Began(Struct, frozen=True):
    """Selects executions: started at `since` or later, of these jobs or of all."""

    since: datetime
    job_ids: Sequence[str] | None = None


def used_by_job(db: Database, began: Began, *, now: datetime) -> list[Used]:
    """Return the usage of each job."""
    return [_used(row) for row in db.records("usage_by_job", **_params(began, now))]


def used_by_agent(db: Database, began: Began, *, now: datetime) -> list[Used]:
    """Return the usage of each agent; the rest has no name."""
    return [_used(row) for row in db.records("usage_by_agent", **_params(began, now))]


def used_by_model(db: Database, began: Began, *, now: datetime) -> list[Used]:
    """Return the usage of each model."""
    return [_used(row) for row in db.records("usage_by_model", **_params(began, now))]


def used_by_outcome(db: Database, began: Began, *, now: datetime) -> list[Used]:
    """Return the usage of each outcome: `completed checked`, `failed postcondition_failed`."""
    return [_used(row) for row in db.records("usage_by_outcome", **_params(began, now))]


def used_by_quarter(db: Database, began: Began, *, now: datetime) -> list[tuple[datetime, Used]]:
    """Return the usage of each quarter of an hour, in order: a day of any time zone has whole ones."""
    rows = db.records("usage_by_quarter", quarter=QUARTER // MILLISECOND, **_params(began, now))
    return [(from_ms(row["name"] * (QUARTER // MILLISECOND)), _used({**row, "name": None})) for row in rows]


def _params(began: Began, now: datetime) -> dict[str, Any]:
    jobs = None if began.job_ids is None else json.dumps(list(began.job_ids))
    return {"since": to_ms(began.since), "jobs": jobs, "now": to_ms(now)}


def _used(row: Record) -> Used:
    amounts = {name: Amount(row[f"{name}_told"], row[name]) for name in AMOUNTS}
    return Used(name=row["name"], runs=row["runs"], took=row["took"] * MILLISECOND, **amounts)
