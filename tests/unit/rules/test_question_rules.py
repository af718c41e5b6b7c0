"""Whether a question may be asked, and whether an answer counts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from rota.model.errors import (
    AnswerInvalid,
    AnswerRefused,
    InvalidValue,
    QuestionChanged,
    QuestionClosed,
    RotaError,
    TooManyQuestions,
)
from rota.model.questions import Answer, Door, Question, QuestionState, Subject
from rota.rules.questions import EDITED, check_question, check_room, judge_answer, read_answer

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPEN = Question(
    number=1,
    subject=Subject.RUN,
    job_id="j",
    job="backup",
    run_id="r",
    text="Deploy?",
    digest="d",
    choices=("Yes", "no"),
    allowed=(),
    asked_by="agent",
    asked_at=NOW,
    expires_at=NOW + timedelta(hours=1),
    fallback=None,
    call={},
    waits=True,
    used_by=None,
    state=QuestionState.OPEN,
    answer=None,
    answered_by=None,
    door=None,
    ended_at=None,
    why=None,
)
GIVEN = Answer("yes", "user:anna", Door.CLI, "d")


def judged(question: Question = OPEN, given: Answer = GIVEN, *, current: str = "d", now: datetime = NOW) -> str:
    return judge_answer(question, given, current=current, now=now)


def test_a_choice_is_stored_in_its_own_spelling() -> None:
    assert judged() == "Yes"


@pytest.mark.parametrize(
    ("changes", "given", "current", "error"),
    [
        ({}, {"digest": "other"}, "d", QuestionChanged),
        ({}, {}, "other", QuestionChanged),
        ({"state": QuestionState.WITHDRAWN, "why": EDITED}, {}, "d", QuestionChanged),
        ({"state": QuestionState.WITHDRAWN, "why": "its run failed"}, {}, "d", QuestionClosed),
        ({"state": QuestionState.ANSWERED}, {}, "d", QuestionClosed),
        ({"state": QuestionState.EXPIRED}, {}, "d", QuestionClosed),
        ({"expires_at": NOW}, {}, "d", QuestionClosed),
        ({"allowed": ("user:bob",)}, {}, "d", AnswerRefused),
        ({}, {"text": "maybe"}, "d", AnswerInvalid),
    ],
)
def test_an_answer_that_does_not_count_is_refused_with_its_reason(
    changes: dict[str, Any], given: dict[str, Any], current: str, error: type[RotaError]
) -> None:
    with pytest.raises(error):
        judged(replace(OPEN, **changes), replace(GIVEN, **given), current=current)


def test_an_actor_of_the_list_may_answer() -> None:
    assert judged(replace(OPEN, allowed=("user:anna",))) == "Yes"


def test_a_free_answer_loses_control_characters_and_keeps_its_lines() -> None:
    assert read_answer(" a\x1b[2J\r\nb\x00\x9b\t ", ()) == "a\nb"


@pytest.mark.parametrize("text", ["", "  ", "\x1b", "x" * 4001])
def test_an_empty_or_long_answer_is_refused(text: str) -> None:
    with pytest.raises(AnswerInvalid):
        read_answer(text, ())


@pytest.mark.parametrize(
    ("text", "choices", "fallback", "seconds"),
    [
        ("", (), None, 60),
        ("x" * 4001, (), None, 60),
        ("ok?", ("one",), None, 60),
        ("ok?", ("Yes", "yes"), None, 60),
        ("ok?", tuple("abcdefghijk"), None, 60),
        ("ok?", ("a\nb", "c"), None, 60),
        ("ok?", ("yes", "no"), "maybe", 60),
        ("ok?", (), None, 59),
        ("ok?", (), None, 31 * 86400),
    ],
)
def test_a_question_that_no_person_can_answer_is_refused(
    text: str, choices: tuple[str, ...], fallback: str | None, seconds: int
) -> None:
    with pytest.raises(InvalidValue):
        check_question(text, choices, fallback=fallback, timeout=timedelta(seconds=seconds))


def test_the_open_questions_of_a_job_and_of_the_project_are_bounded() -> None:
    check_room(999, 19, job="backup")
    with pytest.raises(TooManyQuestions, match="job 'backup'"):
        check_room(20, 20, job="backup")
    with pytest.raises(TooManyQuestions, match="the project"):
        check_room(1000, 0, job="backup")
