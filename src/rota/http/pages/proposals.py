"""What agents proposed: exactly what each would do, and a person's yes or no to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from starlette.responses import PlainTextResponse, Response

from rota.http.pages.fitting import fit
from rota.http.pages.routing import Pages
from rota.http.pages.visit import VisitOf
from rota.http.routes.names import JobName, segment
from rota.model.records import Job
from rota.operations.access import Scope
from rota.operations.made import proposal
from rota.operations.making import approve, remove_all
from rota.operations.spec_words import spec_pairs
from rota.rules.ansi import clean_for_terminal
from rota.rules.coming import Fire, next_fires
from rota.rules.instants import explain_schedule
from rota.rules.making_words import say_made
from rota.rules.next_words import next_fire
from rota.store.making import digest_of

pages = Pages()
PATH = "/ui/agents"
FIRES = 5
PROMPT = 2_000
"""So much of a prompt stands among others; all of it on a page of its own."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A job that waits for approval: exactly what it would do, and when. `prompt` may be its beginning alone."""

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
    length: int
    fires: tuple[Fire, ...]

    @property
    def cut(self) -> bool:
        """Whether the prompt goes on beyond what is shown."""
        return len(self.prompt) < self.length


@dataclass(frozen=True, slots=True)
class Proposals:
    """The newest proposals, and the names of those that have no room here."""

    shown: tuple[Proposal, ...]
    others: tuple[str, ...]
    count: int


def newest_of(waiting: Sequence[Job], *, now: datetime, shown: int, named: int) -> Proposals:
    """Return the newest of the jobs that wait for approval."""
    newest = sorted(waiting, key=lambda job: (job.provisional_at or now, job.id), reverse=True)
    names = tuple(job.name for job in newest[shown : shown + named])
    return Proposals(tuple(proposal_of(job, now=now, prompt=PROMPT) for job in newest[:shown]), names, len(newest))


def proposal_of(job: Job, *, now: datetime, prompt: int) -> Proposal:
    """Return a proposal with so many characters of its prompt."""
    work = job.spec.work.agent
    assert work is not None, "only tasks for agents wait for approval"
    tools = ", ".join(work.allowed_tools) or f"what access {work.access} gives"
    text = clean_for_terminal(work.prompt)
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
        prompt=text[:prompt],
        length=len(text),
        fires=tuple(next_fires(job.spec.schedule, now, FIRES, created_at=now, name=job.name)),
    )


@pages.show("/ui/agents/{job}")
def show_proposal(visit: VisitOf, job: JobName) -> Response:
    """Show one proposal with its whole prompt, or as much of it as a page may hold."""
    found = visit.desk.store.read(partial(proposal, name=job))

    def show(characters: int) -> Response:
        view = proposal_of(found, now=visit.now, prompt=characters)
        return visit.show("proposal.html", view, title=found.name, section="agents")

    return fit(show, lines=len(clean_for_terminal(_prompt(found))))


@pages.show("/ui/agents/{job}/prompt")
def show_prompt(visit: VisitOf, job: JobName) -> Response:
    """Show the prompt of a proposal alone, exactly as it will be given."""
    return PlainTextResponse(_prompt(visit.desk.store.read(partial(proposal, name=job))))


def _prompt(job: Job) -> str:
    assert job.spec.work.agent is not None, "only tasks for agents wait for approval"
    return job.spec.work.agent.prompt


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
        return visit.confirm(f"Turn {found.name} down?", says=says, button="Turn it down", back=PATH)
    visit.desk.store.write(partial(remove_all, names=[job], now=visit.now))
    visit.desk.wake()
    return visit.done(f"{job} is turned down", back=PATH)
