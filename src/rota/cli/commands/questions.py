"""`rota questions`, `answer`, `grants`, `approve` and `remove`: what waits for a person, and jobs of agents."""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rota.cli.invocation import UNCHANGED, Invocation, RotaCommand, dry_run_option, print_json, tell_unchanged
from rota.cli.main import listing_group
from rota.cli.output import Column, print_pairs, print_table
from rota.model.questions import Door, Question, QuestionState
from rota.model.records import cut
from rota.text.ansi import clean_for_terminal, plain
from rota.text.format import from_now, full_time
from rota.text.questions import say_answer, say_call, say_subject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.model.records import Job
    from rota.operations.questions.views import QuestionView
    from rota.rules.schedule.preview import UpcomingFire
    from rota.store.driver import Store


MAX_FIRES = 5


@listing_group("questions")
@click.option(
    "--state",
    type=click.Choice([*(state.value for state in QuestionState), "all"]),
    default="open",
    help="Default: open.",
)
@click.option("--job", metavar="JOB", help="Only the questions of JOB.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=100, help="Maximum number; default 100.")
def questions_command(invocation: Invocation, *, state: str, job: str | None, limit: int) -> None:
    """List the questions that wait for a person, newest first."""
    from rota.operations.questions.views import list_questions, question_json

    chosen = None if state == "all" else QuestionState(state)
    with invocation.store() as (_, store):
        questions = list_questions(store, state=chosen, job=job, limit=limit)
        questions = [question for question in questions if invocation.covers(question.job)]
        zone, now = invocation.zone(store), invocation.now()
    if invocation.listed(questions, question_json, none="no questions", scoped=True):
        return
    titles = ("QUESTION", "JOB", f"ASKED ({zone})", "STATE", Column("TEXT", flexible=True))
    print_table(titles, [_cells(question, zone, now) for question in questions])
    click.echo("read one: rota questions show N   answer it: rota answer N [ANSWER]")


def _cells(question: Question, zone: str, now: datetime) -> list[str]:
    left = f", expires {from_now(question.expires_at, now)}" if question.is_open and question.expires_at else ""
    text = plain(question.text) if question.is_open else f"{plain(question.text)}: {plain(question.answer)}"
    asked = full_time(question.asked_at, zone, now=now)
    return [str(question.number), question.job, asked, f"{question.state}{left}", cut(text, 200)]


@questions_command.command("show", cls=RotaCommand)
@click.argument("question", type=click.IntRange(1))
@click.pass_obj
def show(invocation: Invocation, *, question: int) -> None:
    """Show a question, and what a proposed job would do."""
    from rota.operations.questions.views import question_json, show_question

    with invocation.store() as (_, store):
        view = show_question(store, question)
    if invocation.as_json:
        print_json(question_json(view.question))
        return
    _tell(view, invocation.now())


def _tell(view: "QuestionView", now: datetime) -> None:
    question = view.question
    click.echo(f"question {question.number}  {question.state}  {say_subject(question)}")
    if view.proposal is not None:
        show_proposal(view.proposal, now)
    for line in clean_for_terminal(question.text).splitlines():
        click.echo(f"  │ {line}")
    if question.call:
        for line in say_call(question.call).splitlines():
            click.echo(f"  │ {line}")
    pairs = [
        ("asked", f"{full_time(question.asked_at, 'UTC', now=now)} (UTC) by {plain(question.asked_by)}"),
        ("choices", " · ".join(map(plain, question.choices))),
        ("default", plain(question.fallback)),
        ("until", f"{full_time(question.expires_at, 'UTC', now=now)} (UTC)" if question.expires_at else ""),
        ("answerers", ", ".join(map(plain, question.allowed))),
        ("answer", "" if question.is_open else say_answer(question)),
        ("continues", question.continues or ""),
    ]
    print_pairs([pair for pair in pairs if pair[1]])


@click.command("answer", cls=RotaCommand)
@click.argument("question", type=click.IntRange(1))
@click.argument("answer", required=False)
@dry_run_option
@click.pass_obj
def answer_command(invocation: Invocation, *, question: int, answer: str | None, dry_run: bool) -> int:
    """Answer a question: a choice, or a text. Without ANSWER, show the question and prompt for the answer.

    The first answer wins. An answer is refused if the subject of the question changed after it was shown.
    """
    from rota.operations.admin.audit import person
    from rota.operations.questions.answers import Answerer
    from rota.operations.questions.answers import answer as store_answer
    from rota.operations.questions.views import question_json, show_question
    from rota.store.driver import rolled_back

    with invocation.changing(dry_run=dry_run) as store:
        view = show_question(store, question)
        by = Answerer(person(), Door.CLI)
        text = _prompted(invocation, view) if answer is None else answer
        digest, now = view.question.digest, invocation.now()
        act = partial(store_answer, number=question, text=text, digest=digest, by=by, now=now)
        after = rolled_back(store, act) if dry_run else store.write(act)
    if invocation.as_json:
        print_json(question_json(after))
    elif dry_run:
        click.echo(UNCHANGED)
    else:
        click.echo(f"question {question}: {say_answer(after)}")
    return 0


def _prompted(invocation: Invocation, view: "QuestionView") -> str:
    """Return the answer that the person types; raise a usage error where no person can answer."""
    import sys

    if invocation.as_json or not sys.stdin.isatty():
        raise click.UsageError(f"the answer is missing: `rota answer {view.question.number} ANSWER`")
    _tell(view, invocation.now())
    answer: str = click.prompt("answer")
    return answer


@listing_group("grants")
@click.option("--job", metavar="JOB", help="Only the grants of JOB.")
def grants_command(invocation: Invocation, *, job: str | None) -> None:
    """List the standing grants of tool calls, newest first."""
    from rota.operations.questions.grants import grant_json, list_grants

    now = invocation.now()
    with invocation.store() as (_, store):
        grants = [view for view in list_grants(store, now=now, job=job) if invocation.covers(view.grant.job)]
    if invocation.listed(grants, grant_json, none="no standing grants", scoped=True):
        return
    rows = []
    for view in grants:
        grant, call = view.grant, plain(say_call(view.grant.call))
        until = full_time(grant.expires_at, "UTC", now=now)
        rows.append([str(grant.number), grant.job, view.state, until, str(grant.uses), plain(grant.granted_by), call])
    print_table(("GRANT", "JOB", "STATE", "UNTIL (UTC)", "USES", "BY", Column("CALL", flexible=True)), rows)


@grants_command.command("revoke", cls=RotaCommand)
@click.argument("grant", type=click.IntRange(1))
@dry_run_option
@click.pass_obj
def revoke(invocation: Invocation, *, grant: int, dry_run: bool) -> None:
    """Revoke a standing grant: the next equal call needs permission again."""
    from rota.operations.admin.audit import person
    from rota.operations.questions.grants import grant_json, revoke_grant, show_grant

    with invocation.store() as (_, store):
        now = invocation.now()
        view = show_grant(store, grant, now=now) if dry_run else revoke_grant(store, grant, by=person(), now=now)
    if invocation.as_json:
        print_json(grant_json(view))
    else:
        click.echo(UNCHANGED if dry_run else f"grant {grant} is revoked")


@click.command("approve", cls=RotaCommand)
@click.argument("job", required=False)
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
@dry_run_option
@click.pass_obj
def approve_command(invocation: Invocation, *, job: str | None, yes: bool, dry_run: bool) -> int:
    """Show a proposed JOB and approve it; without JOB, list the jobs that wait for approval.

    A later change of the job voids the approval. To reject a job: `rota remove JOB`.
    """
    with invocation.store() as (_, store):
        if job is None:
            _list_proposals(invocation, store)
            return 0
        return _approve(invocation, store, job, yes=yes, dry_run=dry_run)


def _list_proposals(invocation: Invocation, store: "Store") -> None:
    from rota.operations.jobs import waiting
    from rota.operations.views import provisional_json

    jobs = [job for job in store.read(waiting) if invocation.covers(job.name)]
    if invocation.listed(jobs, provisional_json, none="no job is waiting for approval", scoped=True):
        return
    zone, now = invocation.zone(store), invocation.now()
    rows = []
    for job in jobs:
        since = full_time(job.provisional_at, zone, now=now) if job.provisional_at else ""
        task = cut(plain(job.spec.work.agent.prompt), 80) if job.spec.work.agent else ""
        rows.append([job.name, job.made.by if job.made else "", since, task or ""])
    print_table(("JOB", "AUTHOR", f"SINCE ({zone})", Column("TASK", flexible=True)), rows)
    click.echo("show and approve one: rota approve JOB   reject it: rota remove JOB")


def _approve(invocation: Invocation, store: "Store", name: str, *, yes: bool, dry_run: bool) -> int:
    from rota.operations.admin.audit import person
    from rota.operations.jobs import proposal
    from rota.operations.questions.answers import Answerer, approve
    from rota.store.tables.jobs import digest_of
    from rota.text.schedule import next_fire

    now = invocation.now()
    job = store.read(partial(proposal, name=name))
    digest = digest_of(job.spec)
    if not invocation.as_json:
        show_proposal(job, now)
    if dry_run:
        return _tell_proposal(invocation, job, approved=False, note=UNCHANGED)
    needs = f"approval needs confirmation: read the job with `rota approve {name} --dry-run`, then pass --yes"
    if not yes and not invocation.confirm("approve it?", needs=needs):
        click.echo("not approved; the job stays proposed", err=True)
        return 1
    after = store.write(partial(approve, name=name, digest=digest, by=Answerer(person(), Door.CLI), now=now))
    invocation.wake()
    return _tell_proposal(invocation, after, approved=True, note=f"{name} is approved; {next_fire(after, now=now)}")


def _tell_proposal(invocation: Invocation, job: "Job", *, approved: bool, note: str) -> int:
    from rota.operations.views import provisional_json

    if invocation.as_json:
        print_json({**provisional_json(job), "approved": approved, "next_fires": _fires(job, invocation.now())})
    else:
        click.echo(note)
    return 0


def show_proposal(job: "Job", now: datetime) -> None:
    """Print the approved content: exact prompt, access, budget and next fires."""
    from rota.model.amounts import counted, say_dollars
    from rota.operations.text import spec_pairs
    from rota.rules.schedule.instants import explain_schedule
    from rota.text.jobs import say_made

    work = job.spec.work.agent
    assert work is not None, "only tasks for agents wait for approval"
    click.echo(f"{job.name}  provisional")
    print_pairs([("created", say_made(job, now=now) or ""), ("schedule", explain_schedule(job.spec.schedule))])
    tools = ", ".join(work.allowed_tools) or f"all tools of access {work.access}"
    most = "no limit" if work.max_usd is None else f"{say_dollars(work.max_usd)} a run at most"
    print_pairs([("access", work.access.value), ("tools", tools + (", rota's own" if work.rota_tools else ""))])
    print_pairs([("money", most), *spec_pairs(job.spec)])
    click.echo(f"  prompt, {counted(len(work.prompt), 'character')}:")
    for line in clean_for_terminal(work.prompt).splitlines():
        click.echo(f"  │ {line}")
    for fire in _coming(job, now):
        print_pairs([("would start", _start(fire, job.spec.schedule.timezone, now=now))])


def _start(fire: "UpcomingFire", zone: str, *, now: datetime) -> str:
    from rota.model.clock import iso

    told = f"{full_time(fire.at, zone, now=now)} ({zone})"
    return told if zone == "UTC" else f"{told}, {iso(fire.at)}"


def _fires(job: "Job", now: datetime) -> list[dict[str, Any]]:
    from rota.operations.tools.reads import fires_answer

    return fires_answer(_coming(job, now), job.spec.schedule.timezone)


def _coming(job: "Job", now: datetime) -> "Sequence[UpcomingFire]":
    """Return the next fires of a job, as if it was approved now."""
    from rota.rules.schedule.preview import coming_fires, next_fires

    if job.provisional_at is None:
        return coming_fires(job, n=MAX_FIRES)
    return next_fires(job.spec.schedule, now, MAX_FIRES, created_at=now, name=job.name)


@click.command("remove", cls=RotaCommand)
@click.argument("jobs", nargs=-1, metavar="[JOB…]")
@click.option(
    "--made-by", "maker", metavar="AUTHOR", help="All jobs of this author; `agent` means all agents and programs."
)
@click.option("--cancel-queued", is_flag=True, help="Also cancel the queued runs of these jobs.")
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
@dry_run_option
@click.pass_obj
def remove_command(
    invocation: Invocation, *, jobs: tuple[str, ...], maker: str | None, cancel_queued: bool, yes: bool, dry_run: bool
) -> int:
    """Remove jobs that agents or programs created. They start no more runs; their history stays.

    To remove a job of rota.yaml, edit that file. Running runs continue; `rota cancel --job JOB` stops them.
    """
    from rota.operations.agents.proposals import removable, remove_all

    if bool(jobs) == (maker is not None):
        raise click.UsageError("name jobs, or an author with --made-by")
    with invocation.store() as (_, store):
        found = store.read(lambda db: removable(db, names=jobs, maker=maker, covers=invocation.covers))
        if maker is not None and not invocation.as_json:
            _preview(found)
        if found and not dry_run:
            needs = "removing all jobs of an author needs confirmation: pass --yes, or try --dry-run first"
            if maker is not None and not yes and not invocation.confirm("remove them?", needs=needs):
                click.echo("nothing was removed", err=True)
                return 1
            now = invocation.now()
            names = [job.name for job in found]
            store.write(lambda db: remove_all(db, names, now=now, cancel_queued=cancel_queued))
            invocation.wake()
    _print_removed(invocation, found, dry_run=dry_run)
    return 0


def _preview(found: "Sequence[Job]") -> None:
    from rota.rules.schedule.instants import explain_schedule

    if not found:
        click.echo("that author has no jobs")
        return
    rows = [[job.name, job.made.by if job.made else "", explain_schedule(job.spec.schedule)] for job in found]
    print_table(("JOB", "AUTHOR", Column("SCHEDULE", flexible=True)), rows)


def _print_removed(invocation: Invocation, found: "Sequence[Job]", *, dry_run: bool) -> None:
    if invocation.as_json:
        print_json({"dry_run": dry_run, "removed": [job.name for job in found]})
        return
    for job in found:
        click.echo(f"- {job.name}  {'would be removed' if dry_run else 'removed'}")
    tell_unchanged(dry_run=dry_run)
