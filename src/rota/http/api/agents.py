"""Routes of agents, proposals, notifications and tools."""

from functools import partial
from typing import Annotated, Literal

from fastapi import Path, Query, Request
from starlette.responses import Response

from rota.http import schemas
from rota.http.context import Ctx, JobName, RequestContext, Routes, TargetName, answer, page
from rota.http.errors import ScopeRefused
from rota.model.errors import InvalidValue
from rota.model.notifications import DeliveryStatus
from rota.model.questions import Door, Question, QuestionState, Subject
from rota.model.serialize import delivery_json
from rota.operations.admin.access import Scope
from rota.operations.agents.agents import agents_json, look_at_agents
from rota.operations.jobs import show_job, waiting
from rota.operations.notifications import enable_target, list_deliveries, list_targets, retry_deliveries, target_json
from rota.operations.project.locate import ProjectPaths
from rota.operations.questions.answers import Answerer, approve
from rota.operations.questions.answers import answer as store_answer
from rota.operations.questions.grants import GrantJson, grant_json, list_grants, revoke_grant
from rota.operations.questions.views import QuestionJson, list_questions, question_json, show_question
from rota.operations.tools.context import project_declares
from rota.operations.tools.toolbox import Toolbox
from rota.operations.views import JobJson, job_json, provisional_json

people_routes = Routes("people")


@people_routes.on("GET", "/agents", scope=Scope.READ, answer=schemas.Told)
def get_agents(ctx: Ctx) -> Response:
    """List the agents: program, version, login, rate limits, current runs; each program is started to check it."""
    context = ctx.context
    place = ProjectPaths(context.folder, context.state)
    return answer(agents_json(look_at_agents(place, ctx.store, context.environ, now=ctx.now, acts=True)))


@people_routes.on("GET", "/approvals", scope=Scope.READ, answer=schemas.Page)
def get_approvals(ctx: Ctx) -> Response:
    """List the jobs that agents proposed and that wait for approval, each with the digest of what it would do."""
    return answer(page([provisional_json(job) for job in ctx.store.read(waiting)], following=None))


@people_routes.on("POST", "/jobs/{job}/approve", scope=Scope.ADMIN, answer=JobJson)
def approve_job(ctx: Ctx, job: JobName, wish: schemas.ApproveWish) -> Response:
    """Approve a proposed job; `digest` is that of the reviewed definition, and any change voids it."""
    ctx.store.write(partial(approve, name=job, digest=wish.digest, by=Answerer(ctx.actor, Door.API), now=ctx.now))
    ctx.wake()
    return answer(job_json(show_job(ctx.store, job)))


@people_routes.on("GET", "/notify", scope=Scope.READ, answer=schemas.Page)
def get_targets(ctx: Ctx) -> Response:
    """List the notification targets."""
    return answer(page([target_json(view) for view in list_targets(ctx.store)], following=None))


@people_routes.on("POST", "/notify/{target}/enable", scope=Scope.RUN, answer=schemas.Told)
def enable_notify(ctx: Ctx, target: TargetName, wish: schemas.OptionalDryRun) -> Response:
    """Enable a target that was disabled by a 410, or that is in backoff after failures."""
    dry_run = wish.dry_run
    changed = enable_target(ctx.store, target, dry_run=dry_run)
    if changed and not dry_run:
        ctx.wake()
    return answer({"target": target, "changed": changed, "dry_run": dry_run})


@people_routes.on("GET", "/deliveries", scope=Scope.READ, answer=schemas.Page)
def get_deliveries(
    ctx: Ctx,
    status: Annotated[Literal["PENDING", "DELIVERED", "FAILED"] | None, Query()] = None,
    about: Annotated[
        str | None, Query(min_length=1, max_length=300, description="A job, or a run as JOB:NUMBER.")
    ] = None,
    target: Annotated[str | None, Query(min_length=1, max_length=300)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    """List the notifications, newest first."""
    delivery_status = DeliveryStatus(status) if status else None
    deliveries = list_deliveries(ctx.store, status=delivery_status, about=about, target=target, limit=limit)
    return answer(page([delivery_json(delivery) for delivery in deliveries], following=None))


@people_routes.on("POST", "/deliveries/retry", scope=Scope.RUN, answer=schemas.Told, status=202)
def retry_sent(ctx: Ctx, wish: schemas.DeliveriesWish) -> Response:
    """Resend notifications under their own ids: the named ones, or all that failed."""
    if not wish.ids and not wish.failed:
        raise InvalidValue("no delivery is named", hint="name `ids`, or set `failed`")
    deliveries = retry_deliveries(ctx.store, wish.ids, failed=wish.failed, now=ctx.now, dry_run=wish.dry_run)
    if deliveries and not wish.dry_run:
        ctx.wake()
    return answer(
        {"dry_run": wish.dry_run, "retried": [delivery_json(delivery) for delivery in deliveries]}, status=202
    )


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
    question_state = None if state == "all" else QuestionState(state)
    questions = list_questions(ctx.store, state=question_state, job=job, before=before, limit=limit)
    following = str(questions[-1].number) if len(questions) == limit else None
    return answer(page([question_json(question) for question in questions], following=following))


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


tools_routes = Routes("tools", prefix="")


@tools_routes.on("POST", "/mcp", scope=Scope.AGENT, answer=schemas.Told, shown=False)
def call_tools(ctx: Ctx, request: Request) -> Response:
    """Answer one MCP message: the tools act as the token of the request, within `agent_policy`."""
    from rota.mcp import answer_post

    context = ctx.context
    toolbox = Toolbox(
        context.store,
        context.state,
        context.clock,
        maker=ctx.maker,
        declare=project_declares(ProjectPaths(context.folder, context.state), context.environ),
    )
    http_answer = answer_post(toolbox, getattr(request.state, "body", None), request.headers)
    return (
        Response(status_code=http_answer.status)
        if http_answer.message is None
        else answer(http_answer.message, status=http_answer.status)
    )
