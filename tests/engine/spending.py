"""Jobs and accounts for the tests of budgets."""

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from rota.engine.transactions.budgets import current_window
from rota.model.budgets import Account, Exceeded, Per, Unit, Usage
from rota.model.records import Outcome
from rota.model.spec import JobSpec, Spend
from rota.model.states import Status
from rota.operations.project.apply import apply
from rota.store.tables import budgets
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import ALLOW, command
from tests.engine.test_apply import declared

DOLLAR = 1_000_000
DAY = Account("day", Unit.USD, 10 * DOLLAR, Per.DAY)


def put(scene: Scene, *specs: JobSpec, accounts: tuple[Account, ...] = (DAY,), **settings: Any) -> None:
    """Apply these jobs and accounts as the whole file."""
    file = declared(scene, *specs)
    named = {account.name: account for account in accounts}
    file.settings = replace(file.settings, budgets=named, **settings)
    apply(scene.store, file, now=scene.clock.now())


def spending(
    name: str,
    scene: Scene,
    *spends: Spend,
    takes: str | timedelta = timedelta(),
    usage: Usage | None = None,
    **changes: Any,
) -> JobSpec:
    """Return a command that is charged to accounts, and that says what it used."""
    lasts = timedelta(minutes=int(takes.removesuffix("m"))) if isinstance(takes, str) else takes
    scene.processes.scripts[name] = Script(lasts, ending=Outcome(Status.COMPLETED, exit_code=0, usage=usage))
    return command(name, **{"overlap": ALLOW, "budgets": spends, **changes})


def dollars(amount: float) -> int:
    return round(amount * DOLLAR)


def used(scene: Scene, account: Account = DAY) -> tuple[int, int]:
    """Return what is settled and what is reserved of an account's window of now."""
    window = current_window(account, scene.clock.now())
    found = scene.store.read(lambda db: budgets.find_window(db, account, window))
    return (found.settled, found.reserved) if found else (0, 0)


def skipping(account: Account = DAY) -> Account:
    return replace(account, policy=Exceeded.SKIP)


def warning(account: Account = DAY) -> Account:
    return replace(account, policy=Exceeded.WARN)
