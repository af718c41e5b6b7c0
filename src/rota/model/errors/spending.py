"""Agents, their providers, and the accounts that their work is charged to."""

from collections.abc import Sequence

from rota.model.errors.root import RotaError, guess


class UnknownAgent(RotaError):
    """No agent has this name: neither the file nor a job names it."""

    code = "unknown_agent"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no agent is named {name!r}", hint=f"{guess(near)}list them with `rota agents`")


class UnknownAdapter(RotaError):
    """No adapter has this name."""

    code = "unknown_adapter"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        hint = f"{guess(near)}an agent that rota does not know is `custom`"
        super().__init__(f"no adapter is named {name!r}", hint=hint)


class ProviderNotHeld(RotaError):
    """The provider is not held, so there is nothing to let go."""

    code = "provider_not_held"

    def __init__(self, name: str, held: Sequence[str] = ()) -> None:
        others = f"held: {', '.join(held)}" if held else "no provider is held"
        super().__init__(f"provider {name!r} is not held", hint=others)


class UnknownAccount(RotaError):
    """No account of budgets has this name."""

    code = "unknown_account"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no account is named {name!r}", hint=f"{guess(near)}list them with `rota budgets`")


class BudgetExceeded(RotaError):
    """An account has no room for what was about to be spent (R-19)."""

    code = "budget_exceeded"

    def __init__(self, account: str, why: str, *, reopens: str) -> None:
        hint = f"it opens again {reopens}; `rota budgets {account}` shows who used it"
        super().__init__(f"{account} {why}", hint=hint)
        self.account = account
