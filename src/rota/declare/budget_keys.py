"""Accounts, prices and what jobs are charged to, as a file writes them."""

from collections.abc import Sequence
from typing import Any

from rota.model.budget import MILLION, Account, Exceeded, Price, Unit
from rota.model.spec import Spend


def account_keys(account: Account, *, zone: str) -> dict[str, Any]:
    """Return the keys under which a file in `zone` declares an account."""
    keys: dict[str, Any] = {str(account.unit): written(account.limit, account.unit), "per": str(account.per)}
    keys |= {"policy": str(account.policy)} if account.policy is not Exceeded.DEFER else {}
    keys |= {"estimate": written(account.estimate, account.unit)} if account.estimate is not None else {}
    return keys | ({"timezone": account.timezone} if account.timezone != zone else {})


def price_keys(price: Price) -> dict[str, Any]:
    """Return the keys under which a file says what a model costs."""
    cached = {} if price.cached_input is None else {"cached_input": written(price.cached_input, Unit.USD)}
    return {"input": written(price.input, Unit.USD), "output": written(price.output, Unit.USD), **cached}


def spend_keys(spends: Sequence[Spend]) -> dict[str, Any]:
    """Return the keys under which a file charges a job to accounts."""
    if not spends:
        return {}
    names = [spend.account for spend in spends]
    keys: dict[str, Any] = {"budget": names[0] if len(names) == 1 else names}
    told = {one.account: written(one.estimate, one.unit) for one in spends if one.estimate is not None}
    if told:
        keys["estimate"] = told[names[0]] if len(names) == 1 else told
    return keys


def written(amount: int, unit: Unit | None) -> int | float:
    """Return an amount as a file writes it: money in dollars.

    >>> written(500_000, Unit.USD), written(2_000_000, Unit.USD), written(3, Unit.RUNS)
    (0.5, 2, 3)
    """
    if unit is not Unit.USD:
        return amount
    return amount // MILLION if amount % MILLION == 0 else amount / MILLION
