"""What a condition's command says by its exit code and its last words (R-09)."""

import pytest

from rota.engine.processes import answer
from rota.model.spec import Condition
from rota.runners.command import CheckResult

LOOK = Condition(command=("./look",))


@pytest.mark.parametrize(
    ("result", "expected", "detail"),
    [
        (CheckResult(0, timed_out=False, output="3 commits\n"), "pass", "exit 0"),
        (CheckResult(10, timed_out=False, output=""), "false", "exit 10"),
        (CheckResult(1, timed_out=False, output="first\ncannot reach host\n\n"), "error", "cannot reach host"),
        (CheckResult(3, timed_out=False, output=""), "error", "exit 3"),
        (CheckResult(None, timed_out=True, output=""), "error", "timed out"),
        (CheckResult(None, timed_out=False, output="", error="killed by signal 9"), "error", "signal 9"),
    ],
)
def test_an_answer_is_pass_false_or_an_error_that_says_why(result: CheckResult, expected: str, detail: str) -> None:
    told = answer(LOOK, result, took_ms=4)
    assert (told.answer, told.took_ms) == (expected, 4)
    assert detail in told.detail
