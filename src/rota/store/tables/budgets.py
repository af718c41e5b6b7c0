"""Rows of budgets and of usage."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rota.model.budgets import Account, Exceeded, Per, Price, Unit, Window
from rota.model.clock import MILLISECOND, from_ms, to_ms
from rota.store.driver import Database, Row
from rota.store.rows import Record

PRICES_KEY = "prices"


@dataclass(frozen=True, slots=True)
class Stored:
    """An account as it is stored. One that is not declared still bounds runs of older definitions."""

    account: Account
    declared: bool = True


@dataclass(frozen=True, slots=True)
class UsedWindow:
    """A window with what is used of it. `limit` is as it was last; `pruned`: settled by runs that are forgotten."""

    id: int
    window: Window
    limit: int
    settled: int = 0
    reserved: int = 0
    pruned: int = 0

    @property
    def used(self) -> int:
        """What is spent, and what runs under way are expected to spend."""
        return self.settled + self.reserved


@dataclass(frozen=True, slots=True)
class HeldAmount:
    """What an unfinished run holds of a window: for its start (`estimate`), and for requests that it made."""

    run_id: str
    window_id: int
    account: str
    unit: Unit
    estimate: int | None
    reserved: int
    spent: int


@dataclass(frozen=True, slots=True)
class BudgetWaiter:
    """A run that waits for room in an account, and what it would reserve there."""

    run_id: str
    handle: str
    estimate: int


@dataclass(frozen=True, slots=True)
class Spender:
    """What the runs of a job used of a window; `estimated` of it without having said what they used."""

    job: str
    runs: int
    used: int
    under_way: int
    estimated: int


def accounts(db: Database) -> list[Stored]:
    """Return all accounts by name."""
    return [_stored(*row) for row in db.rows("budgets_all")]


def named_accounts(db: Database, names: Iterable[str]) -> dict[str, Account]:
    """Return those of these accounts that are there, in the order of their names."""
    found = [_stored(*row) for row in db.rows("budgets_named", names=json.dumps(list(names)))]
    return {one.account.name: one.account for one in found}


def _stored(
    name: str, unit: str, limit: int, per: str, timezone: str, policy: str, estimate: int | None, declared: int
) -> Stored:
    account = Account(name, Unit(unit), limit, Per(per), timezone, Exceeded(policy), estimate)
    return Stored(account, bool(declared))


def declare_accounts(db: Database, declared: Iterable[Account]) -> None:
    """Set the declared accounts; one that is gone stays as it was while something was charged to it."""
    rows = [(one.name, one.unit, one.limit, one.per, one.timezone, one.policy, one.estimate) for one in declared]
    db.execute("budgets_declare", accounts=json.dumps(rows))
    db.execute("budgets_withdraw", accounts=json.dumps(rows))
    db.execute("budgets_drop")


def prices(db: Database) -> dict[str, Price]:
    """Return what the tokens of each model cost."""
    row = db.row("meta_get", key=PRICES_KEY)
    found: dict[str, list[int]] = json.loads(row[0]) if row else {}
    return {model: Price(*rates) for model, rates in found.items()}


def declare_prices(db: Database, declared: Mapping[str, Price]) -> None:
    """Set what the tokens of each model cost."""
    if prices(db) != dict(declared):
        value = json.dumps({model: _rates(price) for model, price in sorted(declared.items())})
        db.execute("meta_set", key=PRICES_KEY, value=value)


def _rates(price: Price) -> list[int]:
    return [price.input, price.output, *(() if price.cached_input is None else (price.cached_input,))]


def open_window(db: Database, account: Account, window: Window) -> UsedWindow:
    """Return a window of an account, made where it is new; it takes on the account's limit."""
    span = {"since": to_ms(window.since), "until": to_ms(window.until)}
    db.execute("budget_window_open", budget=account.name, unit=account.unit, amount=account.limit, **span)
    found = find_window(db, account, window)
    assert found is not None
    return found


def find_window(db: Database, account: Account, window: Window) -> UsedWindow | None:
    """Return a window of an account, None where nothing was charged to it."""
    span = {"since": to_ms(window.since), "until": to_ms(window.until)}
    row = db.row("budget_window", budget=account.name, unit=account.unit, **span)
    return None if row is None else _filled(row)


def past_windows(db: Database, account: Account, *, before: datetime, limit: int) -> list[UsedWindow]:
    """Return the windows to which something was charged, newest first."""
    rows = db.rows("budget_windows", budget=account.name, unit=account.unit, before=to_ms(before), limit=limit)
    return [_filled(row) for row in rows]


def first_window(db: Database, account: Account) -> datetime | None:
    """Return when the oldest window that is kept began."""
    row = db.row("budget_earliest", budget=account.name, unit=account.unit)
    return None if row is None or row[0] is None else from_ms(row[0])


def _filled(row: Row) -> UsedWindow:
    id_, since, until, limit, settled, reserved, pruned = row
    return UsedWindow(id_, Window(from_ms(since), from_ms(until)), limit, settled, reserved, pruned)


def at_gate(db: Database, run_id: str, *, epoch: int) -> bool:
    """Tell whether a run or direct call stands at its gates in the process of `epoch`."""
    return db.row("budget_gate", id=run_id, epoch=epoch) is not None


def take(db: Database, window_id: int, amount: int, *, most: int | None) -> bool:
    """Reserve an amount of a window; tell whether it fitted into `most`, None for no limit."""
    return db.execute("budget_take", id=window_id, amount=amount, most=most) == 1


def reserve(db: Database, run_id: str, window_id: int, *, account: str, job_id: str, estimate: int) -> None:
    """Note that an amount that was taken is for the start of a run."""
    entry = {"run_id": run_id, "window_id": window_id, "budget": account, "job_id": job_id}
    db.execute("budget_entry_reserve", estimate=estimate, **entry)


def spend_request(db: Database, run_id: str, window_id: int, *, account: str, job_id: str, most: int | None) -> bool:
    """Count a request of a run: within what it holds, else within `most`; tell whether there was room."""
    row = db.row("budget_entry_held", run_id=run_id, window_id=window_id)
    extend = int(row is None or row[1] >= row[0])
    if extend and not take(db, window_id, 1, most=most):
        return False
    if row is not None:
        db.execute("budget_entry_spend", run_id=run_id, window_id=window_id, extend=extend)
    else:
        db.execute("budget_entry_begin", run_id=run_id, window_id=window_id, budget=account, job_id=job_id)
    return True


def prefetch_held(db: Database) -> None:
    """Ask ahead what `held` looks at first."""
    db.prefetch("budget_any_held")


def held(db: Database, run_ids: Sequence[str]) -> list[HeldAmount]:
    """Return what these runs hold; asked at every end of a run, so it looks first whether anybody holds anything."""
    if db.row("budget_any_held") is None:
        return []
    return [_held(row) for row in db.rows("budget_entries_held", ids=json.dumps(list(run_ids)))]


def _held(row: Row) -> HeldAmount:
    run_id, window_id, account, unit, estimate, reserved, spent = row
    return HeldAmount(run_id, window_id, account, Unit(unit), estimate, reserved, spent)


def release(db: Database, run_ids: Sequence[str]) -> None:
    """Give back what was reserved for the starts of runs that wait again; requests that they made stay charged."""
    for one in held(db, run_ids):
        take(db, one.window_id, one.spent - one.reserved, most=None)
        db.execute("budget_entry_release", run_id=one.run_id, window_id=one.window_id)
        db.execute("budget_entry_drop", run_id=one.run_id, window_id=one.window_id)


def settle(db: Database, one: HeldAmount, *, settled: int, measured: bool, now: datetime) -> None:
    """Replace what a run held by what it used."""
    key = {"run_id": one.run_id, "window_id": one.window_id}
    db.execute("budget_settle", id=one.window_id, settled=settled, reserved=one.reserved)
    db.execute("budget_entry_settle", settled=settled, measured=int(measured), now=to_ms(now), **key)


def drop(db: Database, one: HeldAmount) -> None:
    """Give back what a run held that used nothing."""
    take(db, one.window_id, -one.reserved, most=None)
    db.execute("budget_entry_drop", run_id=one.run_id, window_id=one.window_id)


def largest(db: Database, job_id: str, account: Account, *, recent: int) -> int | None:
    """Return the dearest of a job's last settled runs that said what they used, None for none."""
    row = db.row("budget_largest", job_id=job_id, budget=account.name, unit=account.unit, recent=recent)
    return None if row is None else row[0]


def anybody_waits(db: Database) -> bool:
    """Tell whether a run waits for room in some account."""
    return db.row("budget_anybody_waits") is not None


def waiting(db: Database, account: str, *, limit: int) -> list[BudgetWaiter]:
    """Return the runs that wait for room in an account, in the order of the queue."""
    return [BudgetWaiter(*row) for row in db.rows("budget_waiting", budget=account, limit=limit)]


def rest(db: Database, window: UsedWindow, *, after: datetime) -> int:
    """Return what a window used by runs that ended after an instant."""
    row = db.row("budget_rest", window_id=window.id, after=to_ms(after))
    return int(row[0]) if row else 0


def spenders(db: Database, window: UsedWindow, *, limit: int) -> list[Spender]:
    """Return the jobs that used most of a window."""
    return [Spender(*row) for row in db.rows("budget_spenders", window_id=window.id, limit=limit)]


def counts(db: Database, window: UsedWindow) -> tuple[int, int]:
    """Return how many runs were charged to a window, and how much of it was settled at estimates."""
    row = db.row("budget_counts", window_id=window.id)
    return (int(row[0]), int(row[1])) if row else (0, 0)


def forget_runs(db: Database, run_ids: Sequence[str]) -> None:
    """Forget what runs were charged that are pruned; their windows keep the sum."""
    ids = json.dumps(list(run_ids))
    if db.execute("prune_budget_count", ids=ids):
        db.execute("prune_budget_entries", ids=ids)


def old_windows(db: Database, *, before: datetime) -> bool:
    """Tell whether there are windows to forget."""
    return db.row("budget_old_windows", before=to_ms(before)) is not None


def forget_windows(db: Database, *, before: datetime, limit: int) -> int:
    """Forget windows that ended before an instant and of which no run is left; return how many."""
    return db.execute("prune_budget_windows", before=to_ms(before), limit=limit)


AMOUNTS = ("tokens_in", "tokens_out", "requests", "usd")
QUARTER = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Amount:
    """A sum over those of the runs that tell, and how many do."""

    told: int = 0
    total: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.told + other.told, self.total + other.total)


@dataclass(frozen=True, slots=True)
class Used:
    """What runs and direct calls used; `usd` in millionths. `name` None: those of no job, or of no known model."""

    name: str | None
    runs: int
    took: timedelta
    tokens_in: Amount
    tokens_out: Amount
    requests: Amount
    usd: Amount


@dataclass(frozen=True, slots=True)
class Began:
    """Which executions are looked at: those that began at `since` or later, of these jobs; None: of all."""

    since: datetime
    job_ids: Sequence[str] | None = None


def used_by_job(db: Database, began: Began, *, now: datetime) -> list[Used]:
    """Return what each job used."""
    return [_used(row) for row in db.records("usage_by_job", **_params(began, now))]


def used_by_agent(db: Database, began: Began, *, now: datetime) -> list[Used]:
    """Return what each agent used; what no agent did stands alone, without a name."""
    return [_used(row) for row in db.records("usage_by_agent", **_params(began, now))]


def used_by_model(db: Database, began: Began, *, now: datetime) -> list[Used]:
    """Return what was used of each model."""
    return [_used(row) for row in db.records("usage_by_model", **_params(began, now))]


def used_by_quarter(db: Database, began: Began, *, now: datetime) -> list[tuple[datetime, Used]]:
    """Return what was used in each quarter of an hour, in order: a day of any time zone is made of whole ones."""
    rows = db.records("usage_by_quarter", quarter=QUARTER // MILLISECOND, **_params(began, now))
    return [(from_ms(row["name"] * (QUARTER // MILLISECOND)), _used({**row, "name": None})) for row in rows]


def _params(began: Began, now: datetime) -> dict[str, Any]:
    jobs = None if began.job_ids is None else json.dumps(list(began.job_ids))
    return {"since": to_ms(began.since), "jobs": jobs, "now": to_ms(now)}


def _used(row: Record) -> Used:
    amounts = {name: Amount(row[f"{name}_told"], row[name]) for name in AMOUNTS}
    return Used(name=row["name"], runs=row["runs"], took=row["took"] * MILLISECOND, **amounts)
