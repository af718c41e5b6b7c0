"""Routes of questions to people."""

from functools import partial
from typing import Annotated, Literal

from fastapi import Path, Query
from starlette.responses import Response

from rota.http import schemas
from rota.http.context import Ctx, RequestContext, Routes, answer, page
from rota.http.errors import ScopeRefused
from rota.model.questions import Door, Question, QuestionState, Subject
from rota.operations.admin.access import Scope
from rota.operations.questions.answers import Answerer
from rota.operations.questions.answers import answer as store_answer
from rota.operations.questions.grants import GrantJson, grant_json, list_grants, revoke_grant
from rota.operations.questions.views import QuestionJson, list_questions, question_json, show_question

questions_routes = Routes("questions")
QuestionNumber = Annotated[int, Path(ge=1, le=2**53, description="The number of a question.")]


def answer_question(ctx: RequestContext, number: int, text: str, *, digest: str, door: Door) -> Question:
    """Answer a question; one that gives rights needs the scope admin."""
    question = show_question(ctx.store, number).question
    if (question.call or question.subject is Subject.PROPOSAL) and not ctx.caller.may(Scope.ADMIN):
        raise ScopeRefused(ctx.caller.scope, Scope.ADMIN)
    by = Answerer(ctx.actor, door)
    after = ctx.store.write(partial(store_answer, number=number, text=text, digest=digest, by=by, now=ctx.now))
    ctx.wake()
    return after


@questions_routes.on("GET", "/questions", scope=Scope.READ, answer=schemas.QuestionPage)
def get_questions(
    ctx: Ctx,
    state: Annotated[Literal["open", "answered", "expired", "withdrawn", "all"], Query()] = "open",
    job: Annotated[str | None, Query(min_length=1, max_length=400)] = None,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="The `next` of the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the questions to people, newest first: open ones unless `state` names another state."""
    wanted = None if state == "all" else QuestionState(state)
    found = list_questions(ctx.store, state=wanted, job=job, before=before, limit=limit)
    following = str(found[-1].number) if len(found) == limit else None
    return answer(page([question_json(question) for question in found], following=following))


@questions_routes.on("GET", "/questions/{question}", scope=Scope.READ, answer=QuestionJson)
def get_question(ctx: Ctx, question: QuestionNumber) -> Response:
    """Show a question."""
    return answer(question_json(show_question(ctx.store, question).question))


@questions_routes.on("POST", "/questions/{question}/answer", scope=Scope.RUN, answer=QuestionJson)
def answer_one_question(ctx: Ctx, question: QuestionNumber, wish: schemas.AnswerWish) -> Response:
    """Answer a question; `digest` is that of the question that was shown. The first answer wins."""
    after = answer_question(ctx, question, wish.answer, digest=wish.digest, door=Door.API)
    return answer(question_json(after))


@questions_routes.on("GET", "/grants", scope=Scope.READ, answer=schemas.GrantPage)
def get_grants(
    ctx: Ctx, job: Annotated[str | None, Query(min_length=1, max_length=400, description="Only of this job.")] = None
) -> Response:
    """List the standing grants of tool calls, newest first."""
    return answer(page([grant_json(view) for view in list_grants(ctx.store, now=ctx.now, job=job)], following=None))


@questions_routes.on("POST", "/grants/{grant}/revoke", scope=Scope.RUN, answer=GrantJson)
def revoke_one_grant(
    ctx: Ctx, grant: Annotated[int, Path(ge=1, le=2**53, description="The number of a grant.")]
) -> Response:
    """Revoke a standing grant."""
    return answer(grant_json(revoke_grant(ctx.store, grant, by=ctx.actor, now=ctx.now)))
