"""Accounts, windows and what runs were charged, in the database (R-19)."""

import random
from datetime import timedelta

from msgspec.structs import replace

from rota.model.budgets import Account, Exceeded, Per, Price, Unit
from rota.rules.budgets import window_of
from rota.store.driver import Database, Store
from rota.store.tables import budgets
from rota.store.tables.budgets import Stored, UsedWindow
from tests.store.making import HOUR, NOW

DAY = Account("day", Unit.REQUESTS, 10, Per.DAY)
WINDOW = window_of(Per.DAY, "UTC", NOW)


def declare(store: Store, *accounts: Account) -> None:
    store.write(lambda db: budgets.declare_accounts(db, accounts))


def opened(store: Store, account: Account = DAY) -> int:
    return store.write(lambda db: budgets.open_window(db, account, WINDOW)).id


def look(store: Store, account: Account = DAY) -> UsedWindow:
    found = store.read(lambda db: budgets.find_window(db, account, WINDOW))
    assert found is not None
    return found


def reserve(store: Store, run_id: str, window_id: int, amount: int) -> bool:
    def operation(db: Database) -> bool:
        if not budgets.take(db, window_id, amount, most=DAY.limit):
            return False
        budgets.reserve(db, run_id, window_id, account="day", job_id="job", estimate=amount)
        return True

    return store.write(operation)


def spend(store: Store, run_id: str, window_id: int, *, most: int | None = DAY.limit) -> bool:
    return store.write(lambda db: budgets.spend_request(db, run_id, window_id, account="day", job_id="job", most=most))


def settle(store: Store, run_id: str, amount: int, *, measured: bool = True) -> None:
    def operation(db: Database) -> None:
        for one in budgets.held(db, [run_id]):
            budgets.settle(db, one, settled=amount, measured=measured, now=NOW)

    store.write(operation)


def release(store: Store, *run_ids: str) -> None:
    store.write(lambda db: budgets.release(db, run_ids))


class TestAccounts:
    def test_they_are_stored_and_changed(self, store):
        declare(store, DAY)
        changed = Account("day", Unit.USD, 7, Per.WEEK, "Europe/Madrid", Exceeded.WARN, 3)
        declare(store, changed)

        assert store.read(budgets.accounts) == [Stored(changed)]

    def test_one_that_left_the_file_stays_while_something_was_charged_to_it(self, store):
        declare(store, DAY, replace(DAY, name="other"))
        opened(store)
        declare(store)

        assert store.read(budgets.accounts) == [Stored(DAY, declared=False)]

    def test_prices_are_stored(self, store):
        prices = {"sonnet": Price(3, 15), "opus": Price(5, 25, cached_input=1)}
        store.write(lambda db: budgets.declare_prices(db, prices))

        assert store.read(budgets.prices) == prices


class TestReserving:
    def test_no_more_is_taken_than_there_is(self, store):
        """R-19: the condition decides, not what was read before."""
        declare(store, DAY)
        window_id = opened(store)

        assert [reserve(store, f"run{n}", window_id, 4) for n in range(3)] == [True, True, False]
        assert look(store).reserved == 8

    def test_a_run_that_does_not_start_gives_back_what_it_reserved(self, store):
        declare(store, DAY)
        window_id = opened(store)
        reserve(store, "run", window_id, 4)
        release(store, "run", "nobody")

        assert look(store) == UsedWindow(window_id, WINDOW, 10)
        assert store.read(lambda db: budgets.held(db, ["run"])) == []

    def test_what_it_spent_before_stays_charged(self, store):
        declare(store, DAY)
        window_id = opened(store)
        spend(store, "run", window_id)
        reserve(store, "run", window_id, 4)
        release(store, "run")

        (held,) = store.read(lambda db: budgets.held(db, ["run"]))
        assert (held.estimate, held.reserved, held.spent) == (None, 1, 1)
        assert look(store).reserved == 1

    def test_a_limit_that_changed_is_that_of_the_window(self, store):
        declare(store, DAY)
        opened(store)
        opened(store, replace(DAY, limit=20))

        assert look(store).limit == 20


class TestRequests:
    def test_a_run_spends_what_it_holds_first(self, store):
        """R-19: then what is left, to the single request."""
        declare(store, DAY)
        window_id = opened(store)
        reserve(store, "other", window_id, 7)
        reserve(store, "run", window_id, 2)

        assert [spend(store, "run", window_id) for _ in range(4)] == [True, True, True, False]
        assert look(store).reserved == 10

    def test_without_a_limit_every_request_is_counted(self, store):
        declare(store, DAY)
        window_id = opened(store)

        assert all(spend(store, "run", window_id, most=None) for _ in range(12))
        assert look(store).reserved == 12


class TestSettling:
    def test_it_replaces_what_was_reserved(self, store):
        declare(store, DAY)
        window_id = opened(store)
        reserve(store, "run", window_id, 4)
        settle(store, "run", 6)
        settle(store, "run", 9)

        assert (look(store).settled, look(store).reserved) == (6, 0)

    def test_a_run_that_used_nothing_leaves_nothing(self, store):
        declare(store, DAY)
        window_id = opened(store)
        reserve(store, "run", window_id, 4)
        store.write(lambda db: [budgets.drop(db, one) for one in budgets.held(db, ["run"])])

        assert look(store) == UsedWindow(window_id, WINDOW, 10)

    def test_the_dearest_is_of_those_that_said_what_they_used(self, store):
        """R-19: of the newest ten."""
        declare(store, DAY)
        window_id = opened(store)
        for number, amount in enumerate((9, 3, 2)):
            reserve(store, f"run{number}", window_id, 1)
            settle(store, f"run{number}", amount, measured=number > 0)

        assert store.read(lambda db: budgets.largest(db, "job", DAY, recent=10)) == 3
        assert store.read(lambda db: budgets.largest(db, "other", DAY, recent=10)) is None
        in_money = replace(DAY, unit=Unit.USD)
        assert store.read(lambda db: budgets.largest(db, "job", in_money, recent=10)) is None

    def test_pruned_runs_leave_their_sum(self, store):
        declare(store, DAY)
        window_id = opened(store)
        for name in ("one", "two"):
            reserve(store, name, window_id, 1)
            settle(store, name, 2)
        store.write(lambda db: budgets.forget_runs(db, ["one", "absent"]))

        assert (look(store).settled, look(store).pruned) == (4, 2)
        window = look(store)
        assert store.read(lambda db: budgets.counts(db, window)) == (1, 0)

    def test_a_window_goes_when_it_is_old_and_empty(self, store):
        declare(store, DAY)
        window_id = opened(store)
        reserve(store, "run", window_id, 1)
        settle(store, "run", 1)
        later = WINDOW.until + HOUR
        forget = lambda db: budgets.forget_windows(db, before=later, limit=9)  # noqa: E731

        assert not store.read(lambda db: budgets.old_windows(db, before=later))
        assert store.write(forget) == 0
        store.write(lambda db: budgets.forget_runs(db, ["run"]))
        assert store.read(lambda db: budgets.old_windows(db, before=later))
        assert store.write(forget) == 1


def test_whatever_happens_the_sums_are_right(store):
    """R-19: what a window counts is what its entries say."""
    declare(store, DAY)
    window_id, chance = opened(store), random.Random(19)
    for _ in range(300):
        name = f"run{chance.randrange(8)}"
        act = chance.choice([reserve, spend, release, settle])
        held = store.read(lambda db, name=name: budgets.held(db, [name]))
        if act is reserve and not held:
            reserve(store, f"{name}-{chance.random()}", window_id, chance.randrange(3))
        elif act is spend and held:
            spend(store, name, window_id)
        elif act is release:
            release(store, name)
        elif act is settle and held:
            settle(store, name, held[0].spent + chance.randrange(2))
    assert store.read(lambda db: db.rows("audit_budgets", limit=9)) == []


def test_a_window_knows_what_was_used_after_an_instant(store):
    declare(store, DAY)
    window_id = opened(store)
    reserve(store, "run", window_id, 1)
    settle(store, "run", 3)

    window = look(store)
    assert store.read(lambda db: budgets.rest(db, window, after=NOW - timedelta(seconds=1))) == 3
    assert store.read(lambda db: budgets.rest(db, window, after=NOW)) == 0
