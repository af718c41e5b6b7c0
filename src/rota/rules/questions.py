"""Whether a question may be asked, and whether an answer counts."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from rota.model.amounts import counted
from rota.model.errors import (
    AnswerInvalid,
    AnswerRefused,
    InvalidValue,
    QuestionChanged,
    QuestionClosed,
    TooManyQuestions,
)
from rota.model.questions import (
    CHOICE_LIMIT,
    MAX_CHOICES,
    MAX_CONTINUATIONS,
    MAX_OPEN,
    MAX_OPEN_OF_JOB,
    MAX_TIMEOUT,
    MIN_TIMEOUT,
    TEXT_LIMIT,
    Answer,
    Question,
    QuestionEvent,
    QuestionState,
    next_state,
)
from rota.model.spec import JobSpec, Workspace

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
EDITED = "the job changed"
"""The reason of a withdrawal by another definition of a proposal."""


def clean(text: str) -> str:
    """Return a text from outside without control characters and outer blanks; lines and tabs stay.

    >>> clean(" yes\\x1b[2J\\r\\n")
    'yes'
    """
    return _CONTROL.sub("", text.replace("\r\n", "\n")).strip()


def check_question(text: str, choices: Sequence[str], *, fallback: str | None, timeout: timedelta) -> None:
    """Raise InvalidValue for a question that no person can answer; texts are clean."""
    if not text or len(text) > TEXT_LIMIT:
        raise InvalidValue(f"question: {_size(text)}", hint=f"write 1 to {TEXT_LIMIT:,} characters")
    if len(choices) > MAX_CHOICES or len(choices) == 1:
        hint = f"give 2 to {MAX_CHOICES} choices, or none"
        raise InvalidValue(f"choices: {counted(len(choices), 'choice')}", hint=hint)
    for choice in choices:
        if not choice or len(choice) > CHOICE_LIMIT or "\n" in choice:
            raise InvalidValue(f"choices: {_size(choice)}", hint=f"write 1 to {CHOICE_LIMIT} characters on one line")
    if len({choice.casefold() for choice in choices}) < len(choices):
        raise InvalidValue("choices: two are equal", hint="give different choices")
    if not MIN_TIMEOUT <= timeout <= MAX_TIMEOUT:
        raise InvalidValue(f"timeout: {timeout}", hint="give 60 seconds to 30 days")
    if fallback is not None:
        try:
            read_answer(fallback, choices)
        except AnswerInvalid as error:
            raise InvalidValue(f"default: {error.message}", hint=error.hint) from None


def check_room(total: int, of_job: int, *, job: str) -> None:
    """Raise TooManyQuestions if a job or the project has too many open questions."""
    if of_job >= MAX_OPEN_OF_JOB:
        raise TooManyQuestions(MAX_OPEN_OF_JOB, f"job {job!r}")
    if total >= MAX_OPEN:
        raise TooManyQuestions(MAX_OPEN, "the project")


def check_chain(continuations: int, *, run: str) -> None:
    """Raise TooManyQuestions if a chain has continued too often; its defaults alone could keep it going."""
    if continuations >= MAX_CONTINUATIONS:
        hint = "finish the work without a further answer"
        raise TooManyQuestions(MAX_CONTINUATIONS, f"the chain of {run}", what="runs that continued", hint=hint)


def judge_answer(question: Question, given: Answer, *, current: str, now: datetime) -> str:
    """Return the text of an answer that counts; raise the reason if it does not.

    `current` is the present digest of the subject.
    """
    if question.state is QuestionState.WITHDRAWN and question.why == EDITED:
        raise QuestionChanged(question.number)
    next_state(question.state, QuestionEvent.ANSWER, number=question.number)
    if not question.digest == given.digest == current:
        raise QuestionChanged(question.number)
    if question.expires_at is not None and question.expires_at <= now:
        raise QuestionClosed(question.number, QuestionState.EXPIRED)
    if question.allowed and given.actor not in question.allowed:
        raise AnswerRefused(question.number, given.actor)
    return read_answer(given.text, question.choices)


def read_answer(text: str, choices: Sequence[str]) -> str:
    """Return an answer as it is stored: a choice in its own spelling, or a clean text.

    >>> read_answer("YES", ["yes", "no"])
    'yes'
    """
    text = clean(text)
    if choices:
        found = next((choice for choice in choices if choice.casefold() == text.casefold()), None)
        if found is None:
            raise AnswerInvalid("the answer is none of the choices", hint=f"answer with {' or '.join(choices)}")
        return found
    if not text or len(text) > TEXT_LIMIT:
        raise AnswerInvalid(f"the answer is {_size(text)}", hint=f"write 1 to {TEXT_LIMIT:,} characters")
    return text


def can_wait(spec: JobSpec, *, resumes: bool) -> bool:
    """Return whether a run of a job can go on with an answer in its session; else a later run gets the answer.

    The end of the run reports its work item, removes its workspace and starts its further steps, so it has none.
    Another agent of a list has other sessions.
    """
    work = spec.work.agent
    if work is None or not resumes:
        return False
    plain = not work.choices and work.source is None and work.after is None and spec.work.postcondition is None
    return plain and work.workspace is Workspace.PROJECT


def _size(text: str) -> str:
    return f"{len(text):,} characters" if text else "empty"
