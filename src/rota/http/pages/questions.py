"""The page of questions to people."""

from datetime import timedelta
from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from rota.http.api.questions import answer_question
from rota.http.context import segment
from rota.http.pages.page import Pages, View, VisitOf, fit
from rota.model.questions import Door, Question, Subject
from rota.operations.admin.access import Scope
from rota.operations.questions.grants import GrantView, list_grants, revoke_grant
from rota.operations.questions.views import list_questions
from rota.text.ansi import clean_for_terminal
from rota.text.questions import say_answer, say_call, say_subject

pages = Pages()
PATH = "/ui/questions"
ENDED = 20
OPEN = 50
RECENT = timedelta(days=7)
QuestionNumber = Annotated[int, Path(ge=1, le=2**53)]


@pages.show(PATH)
def show_questions(visit: VisitOf) -> Response:
    """Show the open questions with their forms, and the last ended ones."""
    newest = list_questions(visit.ctx.store, state=None, limit=OPEN + ENDED)
    asked = list_questions(visit.ctx.store, limit=1000)
    granted = list_grants(visit.ctx.store, now=visit.now, limit=OPEN)

    def show(lines: int) -> Response:
        view = {
            "questions": [_question(visit, question) for question in asked[:lines]],
            "count": len(asked),
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
        "path": f"{PATH}/{question.number}/answer",
        "review": f"/ui/agents/{segment(question.job)}" if proposed and question.is_open else "",
        "job": f"/ui/jobs/{segment(question.job)}",
        "run": f"/ui/runs/{segment(question.run)}" if question.run else "",
        "may": visit.ctx.caller.may(Scope.ADMIN if rights else Scope.RUN),
    }


def _grant(view: GrantView) -> View:
    return {"view": view, "call": say_call(view.grant.call), "path": f"/ui/grants/{view.grant.number}/revoke"}


@pages.act("/ui/grants/{grant}/revoke", back=PATH)
def revoke_on_page(visit: VisitOf, grant: QuestionNumber) -> Response:
    """Revoke a standing grant."""
    revoke_grant(visit.ctx.store, grant, by=visit.ctx.actor, now=visit.now)
    return visit.done(f"grant {grant} is revoked", back=PATH)


@pages.act("/ui/questions/{question}/answer", back=PATH)
def answer_on_page(visit: VisitOf, question: QuestionNumber) -> Response:
    """Answer a question with a choice or a text."""
    text, digest = visit.form.get("answer", ""), visit.form.get("digest", "")
    after = answer_question(visit.ctx, question, text, digest=digest, door=Door.DASHBOARD)
    return visit.done(f"question {question}: {say_answer(after)}", back=PATH)
