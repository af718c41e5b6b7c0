"""Agents and budgets: what they cost, by day and job, what holds them, and what waits for a person's yes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.responses import Response

from rota.http.pages.fitting import fit
from rota.http.pages.proposals import Proposals, newest_of
from rota.http.pages.routing import Pages
from rota.http.pages.visit import VisitOf
from rota.http.routes.names import segment
from rota.operations.agent_costs import AgentCosts, look_at_agent_costs
from rota.operations.budget_words import forecast_words, other_remarks, over_words, reopens_words
from rota.operations.budgets import AccountView, list_accounts
from rota.operations.holds import HoldView, held_providers
from rota.operations.made import waiting
from rota.operations.words import counted
from rota.rules.budget_words import say_account, say_amount, say_money, say_used
from rota.store.usage import Used

pages = Pages()
DAYS = 14
HEIGHT = 90
STEP = 46
TOP = 15
PROPOSALS = 10
LINES = 50


@dataclass(frozen=True, slots=True)
class AccountRow:
    """How an account stands, in numbers and words."""

    view: AccountView
    about: str
    used: str
    reserved: str
    left: str
    reopens: str
    forecast: str
    over: str
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Day:
    """A day of the chart."""

    name: str
    left: int
    top: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Spender:
    """What one job or agent used."""

    name: str
    path: str
    runs: int
    cost: str
    tokens: str


@dataclass(frozen=True, slots=True)
class AgentsView:
    """The page of agents and budgets."""

    accounts: tuple[AccountRow, ...]
    more_accounts: int
    holds: tuple[HoldView, ...]
    proposals: Proposals
    costs: AgentCosts
    days: tuple[Day, ...]
    jobs: tuple[Spender, ...]
    agents: tuple[Spender, ...]
    total: Spender
    width: int = DAYS * STEP
    height: int = HEIGHT


@pages.show("/ui/agents")
def show_agents(visit: VisitOf) -> Response:
    """Show agents and budgets."""
    store, now = visit.desk.store, visit.now
    costs = look_at_agent_costs(store, since=now - timedelta(days=DAYS - 1), tz=visit.zone, now=now)
    accounts, holds, proposed = list_accounts(store, now=now), held_providers(store), store.read(waiting)

    def show(lines: int) -> Response:
        view = AgentsView(
            accounts=tuple(_account(view, now) for view in accounts[:lines]),
            more_accounts=max(0, len(accounts) - lines),
            holds=tuple(holds[:lines]),
            proposals=newest_of(proposed, now=now, shown=min(PROPOSALS, lines), named=4 * lines),
            costs=costs,
            days=tuple(_days(costs.days, money=costs.total.usd.told > 0)),
            jobs=tuple(_spender(used, f"/ui/jobs/{segment(used.name or '')}") for used in costs.jobs[:TOP][:lines]),
            agents=tuple(
                _spender(used, visit.href("/ui/runs", agent=used.name)) for used in costs.agents[:TOP][:lines]
            ),
            total=_spender(costs.total, ""),
        )
        return visit.show("agents.html", view, title="Agents & budgets", section="agents")

    longest = max(len(accounts), len(holds), TOP, min(PROPOSALS, len(proposed)))
    return fit(show, lines=min(LINES, longest))


def _account(view: AccountView, now: datetime) -> AccountRow:
    unit = view.account.unit
    return AccountRow(
        view=view,
        about=say_account(view.account),
        used=say_used(view.settled, view.account.limit, unit),
        reserved=say_amount(view.reserved, unit, noun=False),
        left=say_amount(view.left, unit, noun=False),
        reopens=reopens_words(view, now=now),
        forecast=forecast_words(view),
        over=over_words(view),
        remarks=tuple(other_remarks(view)),
    )


def _days(days: Sequence[Used], *, money: bool) -> list[Day]:
    """Return the bars of the chart: money where any run tells it, else tokens."""
    amounts = [used.usd.total if money else used.tokens_in.total + used.tokens_out.total for used in days]
    most = max(amounts, default=0) or 1
    found = []
    for index, (used, amount) in enumerate(zip(days, amounts, strict=True)):
        height = round(HEIGHT * amount / most, 1)
        told = f"{used.name}: {_cost(used)}, {_tokens(used)} tokens, {counted(used.runs, 'run')}"
        found.append(Day(used.name or "", index * STEP, round(HEIGHT - height, 1), height, told))
    return found


def _spender(used: Used, path: str) -> Spender:
    return Spender(used.name or "no agent", path, used.runs, _cost(used), _tokens(used))


def _cost(used: Used) -> str:
    """Return what was spent: `?` where no run tells, never 0; `≥` where some do not."""
    if not used.usd.told:
        return "?" if used.runs else "–"
    return f"{'≥ ' if used.usd.told < used.runs else ''}{say_money(used.usd.total)}"


def _tokens(used: Used) -> str:
    total, told = used.tokens_in.total + used.tokens_out.total, max(used.tokens_in.told, used.tokens_out.told)
    return f"{total:,}" if told else "?" if used.runs else "–"
