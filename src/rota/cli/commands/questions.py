"""`rota questions`, `answer` and `grants`."""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, dry_run_option, print_json
from rota.cli.main import RotaGroup
from rota.cli.output import Column, print_pairs, print_table
from rota.model.questions import Door, Question, QuestionState
from rota.model.records import cut
from rota.text.ansi import clean_for_terminal, plain
from rota.text.format import from_now, full_time
from rota.text.questions import say_answer, say_call, say_subject

if TYPE_CHECKING:
    from rota.operations.questions.views import QuestionView


@click.group("questions", cls=RotaGroup, invoke_without_command=True, subcommand_metavar="[COMMAND …]")
@click.option(
    "--state",
    type=click.Choice([*(state.value for state in QuestionState), "all"]),
    default="open",
    help="Default: open.",
)
@click.option("--job", metavar="JOB", help="Only the questions of JOB.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=100, help="Maximum number; default 100.")
@click.pass_context
def questions_command(ctx: click.Context, *, state: str, job: str | None, limit: int) -> None:
    """List the questions that wait for a person, newest first."""
    if ctx.invoked_subcommand is None:
        invocation = ctx.ensure_object(Invocation)
        _list(invocation, None if state == "all" else QuestionState(state), job, limit=limit)


def _list(invocation: Invocation, state: QuestionState | None, job: str | None, *, limit: int) -> None:
    from rota.operations.jobs import project_timezone
    from rota.operations.questions.views import list_questions, question_json

    with invocation.store() as (_, store):
        found = list_questions(store, state=state, job=job, limit=limit)
        found = [question for question in found if invocation.covers(question.job)]
        zone, now = project_timezone(store), invocation.now()
    if invocation.listed(found, question_json, none="no questions", scoped=True):
        return
    titles = [
        Column("QUESTION"),
        Column("JOB"),
        Column(f"ASKED ({zone})"),
        Column("STATE"),
        Column("TEXT", flexible=True),
    ]
    print_table(titles, [_cells(question, zone, now) for question in found])
    click.echo("read one: rota questions show N   answer it: rota answer N [ANSWER]")


def _cells(question: Question, zone: str, now: datetime) -> list[str]:
    left = f", {from_now(question.expires_at, now)}" if question.is_open and question.expires_at else ""
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
        from rota.cli.commands.approve import show_proposal

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
    from rota.engine.membership.control import wake
    from rota.operations.admin.audit import person
    from rota.operations.questions.answers import Answerer
    from rota.operations.questions.answers import answer as store_answer
    from rota.operations.questions.views import question_json, show_question
    from rota.store.driver import rolled_back

    with invocation.store() as (place, store):
        view = show_question(store, question)
        by = Answerer(person(), Door.CLI)
        text = _prompted(invocation, view) if answer is None else answer
        digest, now = view.question.digest, invocation.now()
        act = partial(store_answer, number=question, text=text, digest=digest, by=by, now=now)
        after = rolled_back(store, act) if dry_run else store.write(act)
        if not dry_run:
            wake(place.state)
    if invocation.as_json:
        print_json(question_json(after))
    elif dry_run:
        click.echo("nothing was changed (--dry-run)")
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


@click.group("grants", cls=RotaGroup, invoke_without_command=True, subcommand_metavar="[COMMAND …]")
@click.option("--job", metavar="JOB", help="Only the grants of JOB.")
@click.pass_context
def grants_command(ctx: click.Context, *, job: str | None) -> None:
    """List the standing grants of tool calls, newest first."""
    if ctx.invoked_subcommand is None:
        _list_grants(ctx.ensure_object(Invocation), job)


def _list_grants(invocation: Invocation, job: str | None) -> None:
    from rota.operations.questions.grants import grant_json, list_grants

    now = invocation.now()
    with invocation.store() as (_, store):
        found = [view for view in list_grants(store, now=now, job=job) if invocation.covers(view.grant.job)]
    if invocation.listed(found, grant_json, none="no standing grants", scoped=True):
        return
    rows = []
    for view in found:
        grant, call = view.grant, plain(say_call(view.grant.call))
        until = full_time(grant.expires_at, "UTC", now=now)
        rows.append([str(grant.number), grant.job, view.state, until, str(grant.uses), plain(grant.granted_by), call])
    titles = ("GRANT", "JOB", "STATE", "UNTIL (UTC)", "USES", "BY")
    print_table([*(Column(title) for title in titles), Column("CALL", flexible=True)], rows)


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
        click.echo("nothing was changed (--dry-run)" if dry_run else f"grant {grant} is revoked")
