"""Agents and budgets: what they cost, by day and job, what holds them, and what waits for a person's yes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from starlette.responses import Response

from rota.http.pages.routing import Pages
from rota.http.pages.visit import Visit, VisitOf
from rota.http.routes.names import JobName, segment
from rota.model.records import Job
from rota.operations.access import Scope
from rota.operations.agent_costs import AgentCosts, look_at_agent_costs
from rota.operations.budget_words import forecast_words, other_remarks, over_words, reopens_words
from rota.operations.budgets import AccountView, list_accounts
from rota.operations.holds import HoldView, held_providers
from rota.operations.making import approve, proposal, remove_all, waiting
from rota.operations.spec_words import spec_pairs
from rota.operations.words import counted
from rota.rules.budget_words import say_account, say_amount, say_money, say_used
from rota.rules.coming import Fire, next_fires
from rota.rules.explain import next_fire
from rota.rules.instants import explain_schedule
from rota.rules.making_words import say_made
from rota.runners.output import clean_for_terminal
from rota.store.making import digest_of
from rota.store.usage import Used

pages = Pages()
PATH = "/ui/agents"
DAYS = 14
FIRES = 5
HEIGHT = 90
STEP = 46
TOP_JOBS = 15


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
class Proposal:
    """A job that waits for approval: exactly what it would do, and when."""

    job: Job
    path: str
    digest: str
    made: str
    schedule: str
    access: str
    tools: str
    money: str
    pairs: tuple[tuple[str, str], ...]
    prompt: str
    fires: tuple[Fire, ...]


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
    holds: tuple[HoldView, ...]
    proposals: tuple[Proposal, ...]
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
    since = now - timedelta(days=DAYS - 1)
    costs = look_at_agent_costs(store, since=since, tz=visit.zone, now=now)
    view = AgentsView(
        accounts=tuple(_account(view, now) for view in list_accounts(store, now=now)),
        holds=tuple(held_providers(store)),
        proposals=tuple(_proposal(job, now) for job in store.read(waiting)),
        costs=costs,
        days=tuple(_days(costs.days, money=costs.total.usd.told > 0)),
        jobs=tuple(_spender(used, f"/ui/jobs/{segment(used.name or '')}") for used in costs.jobs[:TOP_JOBS]),
        agents=tuple(_spender(used, visit.href("/ui/runs", agent=used.name)) for used in costs.agents),
        total=_spender(costs.total, ""),
    )
    return visit.show("agents.html", view, title="Agents & budgets", section="agents")


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


def _proposal(job: Job, now: datetime) -> Proposal:
    work = job.spec.work.agent
    assert work is not None, "only tasks for agents wait for approval"
    tools = ", ".join(work.allowed_tools) or f"what access {work.access} gives"
    return Proposal(
        job=job,
        path=f"{PATH}/{segment(job.name)}",
        digest=digest_of(job.spec),
        made=say_made(job, now=now) or "",
        schedule=explain_schedule(job.spec.schedule),
        access=work.access.value,
        tools=tools + (", rota's own" if work.rota_tools else ""),
        money="no limit of its own" if work.max_usd is None else f"${work.max_usd:g} a run at most",
        pairs=tuple(spec_pairs(job.spec)),
        prompt=clean_for_terminal(work.prompt),
        fires=tuple(next_fires(job.spec.schedule, now, FIRES, created_at=now, name=job.name)),
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


@pages.act("/ui/agents/{job}/approve", back=PATH, scope=Scope.ADMIN)
def approve_one_job(visit: VisitOf, job: JobName) -> Response:
    """Let a job begin that an agent proposed, if it is still what was shown."""
    digest = visit.form.get("digest", "")
    after = visit.desk.store.write(partial(approve, name=job, digest=digest, now=visit.now))
    visit.desk.wake()
    return visit.done(f"{job} is approved; {next_fire(after, now=visit.now)}", back=PATH)


@pages.act("/ui/agents/{job}/refuse", back=PATH, scope=Scope.ADMIN)
def refuse_one_job(visit: VisitOf, job: JobName) -> Response:
    """Turn a proposed job down: it is removed."""
    found = visit.desk.store.read(partial(proposal, name=job))
    if not visit.confirmed:
        says = "The proposal is removed. Whoever made it may propose again, within the agent policy."
        return _confirm(visit, found, says)
    visit.desk.store.write(partial(remove_all, names=[job], now=visit.now))
    visit.desk.wake()
    return visit.done(f"{job} is turned down", back=PATH)


def _confirm(visit: Visit, job: Job, says: str) -> Response:
    return visit.confirm(f"Turn {job.name} down?", says=says, button="Turn it down", back=PATH)
