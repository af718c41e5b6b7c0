"""Sentences about questions to people."""

import json
from collections.abc import Mapping
from typing import Any

from rota.model.questions import Question, QuestionState, Subject
from rota.model.records import Run
from rota.text.ansi import clean_for_terminal, escape_controls, plain

_SUBJECTS = {
    Subject.RUN: "of run {run}, which waits for the answer",
    Subject.JOB: "of job {job}, whose next run gets the answer",
    Subject.PROPOSAL: "about the proposed job {job}",
}


def say_subject(question: Question) -> str:
    """Return what a question concerns."""
    if question.call:
        return f"of run {question.run or question.job}, for permission"
    return _SUBJECTS[question.subject].format(run=question.run or question.job, job=question.job)


def say_continued(run: Run) -> str:
    """Return the origin of a run that goes on with an answer."""
    told = run.decisions.get("continues", {})
    numbers = " and ".join(f"question {number}" for number in told.get("questions", ()))
    before = told.get("after", "the run before")
    return f"continues with the answer to {numbers or 'a question'}, in the session of {before}"


def say_answer(question: Question) -> str:
    """Return the end of a question: the answer with its actor and interface, the default, or the withdrawal."""
    if question.state is QuestionState.ANSWERED:
        return f"{plain(question.answer)!r}, by {plain(question.answered_by)} ({question.door})"
    if question.state is QuestionState.EXPIRED:
        default = f"the default {plain(question.answer)!r}" if question.answer is not None else "no answer"
        return f"{default}, because no answer came in time"
    return f"withdrawn: {plain(question.why)}" if question.state is QuestionState.WITHDRAWN else "no answer yet"


def say_call(call: Mapping[str, Any]) -> str:
    """Return the exact tool call of a question, for reading."""
    return clean_for_terminal(escape_controls(json.dumps(call, indent=2, ensure_ascii=False)))
