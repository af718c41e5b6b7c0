"""The pages of agents, of proposals and of questions to people."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from starlette.responses import PlainTextResponse, Response

from rota.http.api.agents import QuestionNumber, answer_question
from rota.http.context import JobName, segment
from rota.http.pages.page import Pages, View, VisitOf, fit
from rota.model.amounts import counted, say_dollars, say_money
from rota.model.questions import Door, Question, Subject
from rota.model.records import Job
from rota.operations.admin.access import Scope
from rota.operations.budgets import (
    AccountView,
    SubscriptionView,
    forecast_words,
    kept_words,
    list_accounts,
    list_subscriptions,
    look_at_agent_costs,
    other_remarks,
    over_words,
    reopens_words,
)
from rota.operations.capacity import held_providers
from rota.operations.jobs import proposal, waiting
from rota.operations.questions.answers import Answerer, approve, reject
from rota.operations.questions.grants import GrantView, list_grants, revoke_grant
from rota.operations.questions.views import list_questions
from rota.operations.text import spec_pairs
from rota.rules.budgets import say_account, say_amount, say_used
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.preview import next_fires
from rota.rules.subscriptions import is_reset, say_part
from rota.store.tables.budgets import Used
from rota.store.tables.jobs import digest_of
from rota.text.ansi import clean_for_terminal
from rota.text.jobs import say_made
from rota.text.questions import say_answer, say_call, say_subject
from rota.text.schedule import next_fire

pages = Pages()
PATH = "/ui/agents"
FIRES = 5
PROMPT = 2_000
"""Characters of a prompt in the list; the page of the proposal has all of it."""


def _newest(waiting: Sequence[Job], *, now: datetime, shown: int, named: int) -> View:
    """Return the newest jobs that wait for approval, and the names of further ones."""
    newest = sorted(waiting, key=lambda job: (job.provisional_at or now, job.id), reverse=True)
    return {
        "shown": [_proposal(job, now=now, prompt=PROMPT) for job in newest[:shown]],
        "others": [job.name for job in newest[shown : shown + named]],
        "count": len(newest),
    }


def _proposal(job: Job, *, now: datetime, prompt: int) -> View:
    """Return a proposal with so many characters of its prompt."""
    work = job.spec.work.agent
    assert work is not None, "only tasks for agents wait for approval"
    tools = ", ".join(work.allowed_tools) or f"all tools of access {work.access}"
    text = clean_for_terminal(work.prompt)
    return {
        "job": job,
        "path": f"{PATH}/{segment(job.name)}",
        "digest": digest_of(job.spec),
        "made": say_made(job, now=now) or "",
        "schedule": explain_schedule(job.spec.schedule),
        "access": work.access.value,
        "tools": tools + (", rota's own" if work.rota_tools else ""),
        "money": "no limit" if work.max_usd is None else f"{say_dollars(work.max_usd)} a run at most",
        "pairs": list(spec_pairs(job.spec)),
        "prompt": text[:prompt],
        "length": len(text),
        "cut": prompt < len(text),
        "fires": next_fires(job.spec.schedule, now, FIRES, created_at=now, name=job.name),
    }


@pages.show("/ui/agents/{job}")
def show_proposal(visit: VisitOf, job: JobName) -> Response:
    """Show one proposal with its prompt, cut at the size limit of a page."""
    found = visit.ctx.store.read(partial(proposal, name=job))

    def show(characters: int) -> Response:
        view = _proposal(found, now=visit.now, prompt=characters)
        return visit.show("proposal.html", view, title=found.name, section="agents")

    return fit(show, lines=len(clean_for_terminal(_prompt(found))))


@pages.show("/ui/agents/{job}/prompt")
def show_prompt(visit: VisitOf, job: JobName) -> Response:
    """Show the prompt of a proposal alone, exactly as the agent gets it."""
    return PlainTextResponse(_prompt(visit.ctx.store.read(partial(proposal, name=job))))


def _prompt(job: Job) -> str:
    assert job.spec.work.agent is not None, "only tasks for agents wait for approval"
    return job.spec.work.agent.prompt


def _by(visit: VisitOf) -> Answerer:
    return Answerer(visit.ctx.actor, Door.DASHBOARD)


@pages.act("/ui/agents/{job}/approve", back=PATH, scope=Scope.ADMIN)
def approve_one_job(visit: VisitOf, job: JobName) -> Response:
    """Approve a proposed job if its definition has the digest that was shown."""
    digest = visit.form.get("digest", "")
    after = visit.ctx.store.write(partial(approve, name=job, digest=digest, by=_by(visit), now=visit.now))
    visit.ctx.wake()
    return visit.done(f"{job} is approved; {next_fire(after, now=visit.now)}", back=PATH)


@pages.act("/ui/agents/{job}/refuse", back=PATH, scope=Scope.ADMIN)
def refuse_one_job(visit: VisitOf, job: JobName) -> Response:
    """Reject a proposed job: remove it."""
    found = visit.ctx.store.read(partial(proposal, name=job))
    if not visit.confirmed:
        says = "The proposal is removed. Its author may propose it again, within the agent policy."
        return visit.confirm(f"Reject {found.name}?", says=says, button="Reject", back=PATH)
    visit.ctx.store.write(partial(reject, name=job, by=_by(visit), now=visit.now))
    visit.ctx.wake()
    return visit.done(f"{job} is rejected", back=PATH)


DAYS = 14
HEIGHT = 90
STEP = 46
TOP = 15
PROPOSALS = 10
LINES = 50


@pages.show("/ui/agents")
def show_agents(visit: VisitOf) -> Response:
    """Show agents and budgets."""
    store, now = visit.ctx.store, visit.now
    costs = look_at_agent_costs(store, since=now - timedelta(days=DAYS - 1), tz=visit.zone, now=now)
    accounts, holds, proposed = list_accounts(store, now=now), held_providers(store), store.read(waiting)

    subscriptions = list_subscriptions(store, now=now)

    def show(lines: int) -> Response:
        view = {
            "accounts": [_account(account, now) for account in accounts[:lines]],
            "more_accounts": max(0, len(accounts) - lines),
            "holds": holds[:lines],
            "subscriptions": [_subscription(subscription, visit) for subscription in subscriptions[:lines]],
            "proposals": _newest(proposed, now=now, shown=min(PROPOSALS, lines), named=4 * lines),
            "costs": costs,
            "days": _days(costs.days, money=costs.total.usd.told > 0),
            "jobs": [_spender(used, f"/ui/jobs/{segment(used.name or '')}") for used in costs.jobs[:TOP][:lines]],
            "agents": [_spender(used, visit.href("/ui/runs", agent=used.name)) for used in costs.agents[:TOP][:lines]],
            "total": _spender(costs.total, ""),
            "width": DAYS * STEP,
            "height": HEIGHT,
        }
        return visit.show("agents.html", view, title="Agents & budgets", section="agents")

    longest = max(len(accounts), len(holds), len(subscriptions), TOP, min(PROPOSALS, len(proposed)))
    return fit(show, lines=min(LINES, longest))


def _account(view: AccountView, now: datetime) -> View:
    unit = view.account.unit
    return {
        "view": view,
        "about": say_account(view.account),
        "used": say_used(view.settled, view.account.limit, unit),
        "reserved": say_amount(view.reserved, unit, noun=False),
        "left": say_amount(view.left, unit, noun=False),
        "reopens": reopens_words(view, now=now),
        "forecast": forecast_words(view),
        "over": over_words(view),
        "remarks": list(other_remarks(view)),
    }


def _subscription(view: SubscriptionView, visit: VisitOf) -> View:
    now = visit.now
    windows = [
        {
            "name": window.name,
            "part": None if is_reset(window, now) else window.used,
            "used": "not reported since its reset" if is_reset(window, now) else f"{say_part(window.used)} used",
            "resets_at": None if is_reset(window, now) else window.resets_at,
        }
        for window in view.windows
    ]
    return {"provider": view.provider, "windows": windows, "kept": kept_words(view, visit.zone, now=now)}


def _days(days: Sequence[Used], *, money: bool) -> list[View]:
    """Return the bars of the chart: money if any run reports it, else tokens."""
    amounts = [used.usd.total if money else used.tokens_in.total + used.tokens_out.total for used in days]
    largest = max(amounts, default=0) or 1
    bars = []
    for index, (used, amount) in enumerate(zip(days, amounts, strict=True)):
        height = round(HEIGHT * amount / largest, 1)
        title = f"{used.name}: {_cost(used)}, {_tokens(used)} tokens, {counted(used.runs, 'run')}"
        place = {"left": index * STEP, "top": round(HEIGHT - height, 1), "height": height}
        bars.append({"name": used.name or "", **place, "title": title})
    return bars


def _spender(used: Used, path: str) -> View:
    name = used.name or "no agent"
    return {"name": name, "path": path, "runs": used.runs, "cost": _cost(used), "tokens": _tokens(used)}


def _cost(used: Used) -> str:
    """Return the money spent: `?` if no run reports it, `≥` if only some do."""
    if not used.usd.told:
        return "?" if used.runs else "–"
    return f"{'≥ ' if used.usd.told < used.runs else ''}{say_money(used.usd.total)}"


def _tokens(used: Used) -> str:
    total, told = used.tokens_in.total + used.tokens_out.total, max(used.tokens_in.told, used.tokens_out.told)
    return f"{total:,}" if told else "?" if used.runs else "–"


QUESTIONS = "/ui/questions"
ENDED = 20
OPEN = 50
RECENT = timedelta(days=7)


@pages.show(QUESTIONS)
def show_questions(visit: VisitOf) -> Response:
    """Show the open questions with their forms, and the last ended ones."""
    newest = list_questions(visit.ctx.store, state=None, limit=OPEN + ENDED)
    questions = list_questions(visit.ctx.store, limit=1000)
    granted = list_grants(visit.ctx.store, now=visit.now, limit=OPEN)

    def show(lines: int) -> Response:
        view = {
            "questions": [_question(visit, question) for question in questions[:lines]],
            "count": len(questions),
            "grants": [_grant(view) for view in granted[:lines]],
            "ended": [_question(visit, question) for question in newest if not question.is_open][: min(ENDED, lines)],
        }
        return visit.show("questions.html", view, title="Questions", section="questions")

    return fit(show, lines=OPEN)


def _question(visit: VisitOf, question: Question) -> View:
    proposed = question.subject is Subject.PROPOSAL
    rights = proposed or bool(question.call)
    return {
        "question": question,
        "text": clean_for_terminal(question.text),
        "call": say_call(question.call) if question.call else "",
        "about": say_subject(question),
        "answer": say_answer(question),
        "path": f"{QUESTIONS}/{question.number}/answer",
        "review": f"/ui/agents/{segment(question.job)}" if proposed and question.is_open else "",
        "job": f"/ui/jobs/{segment(question.job)}",
        "run": f"/ui/runs/{segment(question.run)}" if question.run else "",
        "may": visit.ctx.caller.may(Scope.ADMIN if rights else Scope.RUN),
    }


def _grant(view: GrantView) -> View:
    return {"view": view, "call": say_call(view.grant.call), "path": f"/ui/grants/{view.grant.number}/revoke"}


@pages.act("/ui/grants/{grant}/revoke", back=QUESTIONS)
def revoke_on_page(visit: VisitOf, grant: QuestionNumber) -> Response:
    """Revoke a standing grant."""
    revoke_grant(visit.ctx.store, grant, by=visit.ctx.actor, now=visit.now)
    return visit.done(f"grant {grant} is revoked", back=QUESTIONS)


@pages.act("/ui/questions/{question}/answer", back=QUESTIONS)
def answer_on_page(visit: VisitOf, question: QuestionNumber) -> Response:
    """Answer a question with a choice or a text."""
    text, digest = visit.form.get("answer", ""), visit.form.get("digest", "")
    after = answer_question(visit.ctx, question, text, digest=digest, door=Door.DASHBOARD)
    return visit.done(f"question {question}: {say_answer(after)}", back=QUESTIONS)
