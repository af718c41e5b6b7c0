"""Budgets in the database: reserved at the gate, counted on the way, settled with the end; all or none."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from rota import faults
from rota.model.agents import SubscriptionWindow
from rota.model.budgets import (
    MILLION,
    Account,
    Exceeded,
    Price,
    StoredWindow,
    Subscription,
    Unit,
    Usage,
    Window,
)
from rota.model.clock import Clock, iso
from rota.model.errors import BudgetExceeded
from rota.model.records import Outcome
from rota.model.spec import AgentWork, JobSpec, Spend
from rota.rules.admission import Admission, Admit, Defer, Skip
from rota.rules.budgets import RECENT, Charge, cost_of, estimate_of, judge, no_room, say_used, settle_at, window_of
from rota.rules.subscriptions import FullWindow, decision, full_windows, relieves, say_full, subscription_of
from rota.rules.subscriptions import judge as judge_windows
from rota.store.driver import Database, Store
from rota.store.tables import budgets, run_queries, runs

if TYPE_CHECKING:
    from rota.engine.transactions.claim import Claimed

RELEASE_LIMIT = 100
ALL_WAITING_LIMIT = 100_000


class EndedSpender(NamedTuple):
    """A run or direct call that ended, and what it used; `started`: it did any work at all."""

    run_id: str
    usage: Usage | None = None
    started: bool = True


def charges(db: Database, spec: JobSpec, *, job_id: str, now: datetime) -> list[Charge]:
    """Return how the accounts of a job meet a start of it now; one that is forgotten asks for nothing."""
    spends = {spend.account: spend for spend in spec.budgets}
    known = budgets.named_accounts(db, spends)
    return [_charge(db, spends[name], account, job_id=job_id, now=now) for name, account in known.items()]


def _charge(db: Database, spend: Spend, account: Account, *, job_id: str, now: datetime) -> Charge:
    window = window_of(account.per, account.timezone, now)
    filled = budgets.find_window(db, account, window)
    settled, reserved = (filled.settled, filled.reserved) if filled else (0, 0)
    largest = budgets.largest(db, job_id, account, recent=RECENT)
    return Charge(account, window, settled, reserved, estimate_of(spend, account, largest=largest))


def reserve(db: Database, run_id: str, spec: JobSpec, *, job_id: str, epoch: int, now: datetime) -> Admission:
    """Pass the gate of a run's accounts: reserve its estimate in all of them, or in none; note the decision."""
    if not budgets.at_gate(db, run_id, epoch=epoch):
        return Admit()  # it is no longer ours, which its start finds out
    budgets.release(db, [run_id])
    charge_list = charges(db, spec, job_id=job_id, now=now)
    verdict = judge(charge_list)
    if isinstance(verdict, Admit) and not _take_all(db, run_id, charge_list, job_id=job_id):
        verdict = judge(
            [replace(charge, settled=charge.account.limit) for charge in charge_list]
        )  # another run was faster
    runs.note_decisions(db, run_id, {"budget": _told(charge_list, verdict, now)})
    faults.point("budget.reserved")
    return verdict


def _take_all(db: Database, run_id: str, found: Sequence[Charge], *, job_id: str) -> bool:
    """Reserve in the order of the accounts' names; where one has no room after all, in none."""
    taken: list[tuple[int, Charge]] = []
    for charge in found:
        window_id = budgets.open_window(db, charge.account, charge.window).id
        amount, most = charge.estimate.amount, _most(charge.account)
        if not budgets.take(db, window_id, amount, most=most):
            for other_id, other in taken:
                budgets.take(db, other_id, -other.estimate.amount, most=None)
            return False
        taken.append((window_id, charge))
    for window_id, charge in taken:
        name, amount = charge.account.name, charge.estimate.amount
        budgets.reserve(db, run_id, window_id, account=name, job_id=job_id, estimate=amount)
    return True


def _most(account: Account) -> int | None:
    return None if account.policy is Exceeded.WARN else account.limit


def _told(found: Sequence[Charge], verdict: Admission, now: datetime) -> dict[str, Any]:
    """Return what `explain` tells of the gate, and what the release of waiting runs goes by."""
    words = {Admit: "go", Defer: "wait", Skip: "skip"}
    return {"at": iso(now), "verdict": words[type(verdict)], "accounts": [charge_json(charge) for charge in found]}


def charge_json(charge: Charge) -> dict[str, Any]:
    """Return an account as a run met it."""
    return {
        "account": charge.account.name,
        "unit": charge.account.unit,
        "limit": charge.account.limit,
        "settled": charge.settled,
        "reserved": charge.reserved,
        "estimate": charge.estimate.amount,
        "origin": charge.estimate.origin,
        "answer": charge.answer,
        "until": iso(charge.window.until),
    }


def refuse_exceeded(db: Database, spec: JobSpec, *, job_id: str, now: datetime) -> None:
    """Refuse a direct call for which an account or a subscription has no room: its caller would wait for a window."""
    for charge in charges(db, spec, job_id=job_id, now=now):
        if charge.answer in ("wait", "skip"):
            raise exceeded(charge)
    if spec.work.agent is not None and (windows := full(db, spec.work.agent, now=now)):
        last = max(windows, key=lambda window: window.resets_at)
        raise BudgetExceeded(last.budget.name, f"has no room: {say_full(last)}", reopens=iso(last.resets_at))


def exceeded(charge: Charge) -> BudgetExceeded:
    """Return the error that says that an account has no room."""
    return BudgetExceeded(charge.account.name, no_room(charge), reopens=iso(charge.window.until))


def count_request(db: Database, *, run_id: str, job_id: str, names: Sequence[str], now: datetime) -> None:
    """Count a request that a run is about to make; BudgetExceeded where one of its accounts has no room for it.

    It counts in the window of now, first within what the run holds there.
    """
    for account in budgets.named_accounts(db, names).values():
        if account.unit is not Unit.REQUESTS:
            continue
        window = window_of(account.per, account.timezone, now)
        filled = budgets.open_window(db, account, window)
        most = _most(account)
        if not budgets.spend_request(db, run_id, filled.id, account=account.name, job_id=job_id, most=most):
            used = say_used(filled.used, account.limit, account.unit)
            why = f"has no room for another request: {used} used or reserved"
            raise BudgetExceeded(account.name, why, reopens=iso(window.until))


async def charge_request(store: Store, clock: Clock, claimed: "Claimed") -> None:
    """Count a request of a run that is under way, in a transaction of its own."""
    names = [spend.account for spend in claimed.spec.budgets]
    run = claimed.run
    await store.submit(partial(count_request, run_id=run.id, job_id=run.job_id, names=names, now=clock.now()))


def price(db: Database, outcome: Outcome) -> Outcome:
    """Return an outcome with what it cost by the prices of now, where it tells tokens and a model but no money."""
    usage = outcome.usage
    if usage is None or usage.usd is not None or usage.model is None or usage.tokens is None:
        return outcome
    return replace(outcome, usage=replace(usage, usd=cost_of(usage, budgets.prices(db))))


def settle(db: Database, gone: Iterable[EndedSpender], *, now: datetime) -> None:
    """Replace what ended runs hold by what they used, each in the window in which it was reserved.

    Runs that wait for the room that this leaves are released.
    """
    ended = {spender.run_id: spender for spender in gone}
    freed: set[str] = set()
    for amount in budgets.held(db, list(ended)):
        end = ended[amount.run_id]
        usage = end.usage if end.started else None
        estimate = amount.estimate if end.started else None
        settlement = settle_at(amount.unit, usage, estimate=estimate, reserved=amount.reserved, spent=amount.spent)
        if settlement.amount or end.started:
            budgets.settle(db, amount, settled=settlement.amount, measured=settlement.measured, now=now)
        else:
            budgets.drop(db, amount)
        if settlement.amount < amount.reserved:
            freed.add(amount.account)
    if freed and budgets.anybody_waits(db):
        for account in budgets.named_accounts(db, freed).values():
            _release_fitting(db, account, now=now)


def _release_fitting(db: Database, account: Account, *, now: datetime) -> None:
    filled = budgets.find_window(db, account, window_of(account.per, account.timezone, now))
    room = account.limit - (filled.used if filled else 0)
    for waiter in budgets.waiting(db, account.name, limit=RELEASE_LIMIT):
        if waiter.estimate > room:
            return
        room -= waiter.estimate
        run_queries.release(db, waiter.run_id)


def declare(
    db: Database,
    accounts: Mapping[str, Account],
    prices: Mapping[str, Price],
    *,
    subscriptions: Mapping[str, Subscription],
) -> None:
    """Store the accounts, prices and subscriptions of a file; release runs that wait for one that changed."""
    before = {one.account.name: one for one in budgets.accounts(db)}
    budgets.declare_accounts(db, accounts.values())
    budgets.declare_prices(db, prices)
    changed = budgets.declare_subscriptions(db, subscriptions)
    if not budgets.anybody_waits(db):
        return
    if changed:
        _release_subscribers(db, None)
    for name, account in accounts.items():
        if name in before and before[name].account != account:
            for waiter in budgets.waiting(db, name, limit=ALL_WAITING_LIMIT):
                run_queries.release(db, waiter.run_id)


def full(db: Database, work: AgentWork, *, now: datetime) -> list[FullWindow]:
    """Return the windows of its subscription for which a run of an agent waits."""
    kept = budgets.subscriptions(db)
    if not kept:
        return []
    windows = budgets.subscription_windows(db)
    return full_windows(kept.values(), windows, provider=work.provider, model=work.model, now=now)


def pass_windows(db: Database, run_id: str, work: AgentWork, *, now: datetime) -> Admission:
    """Return whether the windows of its subscription have room for a run of an agent; note the decision."""
    windows = full(db, work, now=now)
    runs.note_decisions(db, run_id, {"subscription": decision(windows, work.provider, now=now)})
    return judge_windows(windows)


def note_windows(db: Database, provider: str, windows: Iterable[SubscriptionWindow], *, at: datetime) -> None:
    """Store the windows that a run reported; release runs that waited for a window with more room now."""
    subscription = subscription_of(provider)
    known = {
        stored_window.name: stored_window
        for stored_window in budgets.subscription_windows(db)
        if stored_window.provider == subscription
    }
    relieved = False
    for subscription_window in windows:
        used = None if subscription_window.used is None else round(subscription_window.used * MILLION)
        stored = known.get(subscription_window.name)
        if used is None and stored is not None and stored.resets_at == subscription_window.resets_at:
            used = stored.used  # the same window: it is at least as full as before
        window = StoredWindow(subscription, subscription_window.name, used, subscription_window.resets_at, at)
        relieved = relieved or relieves(stored, window)
        budgets.put_subscription_window(db, window)
    if relieved and budgets.anybody_waits(db):
        _release_subscribers(db, subscription)


def _release_subscribers(db: Database, subscription: str | None) -> None:
    for run_id in budgets.waiting_for_subscription(db, subscription, limit=ALL_WAITING_LIMIT):
        run_queries.release(db, run_id)


def current_window(account: Account, now: datetime) -> Window:
    """Return the window of an account that is open now."""
    return window_of(account.per, account.timezone, now)
