"""Values of params: how each kind reads typed texts and JSON values."""

from typing import Any

import pytest

from rota.model.params import ParamKind, ParamType, TypedText
from rota.model.spec import Kind, Work
from rota.rules.params import WrongParam, params_schema, read_param, wrong_params

TEXT, INT, NUMBER = ParamKind("p", ParamType.TEXT), ParamKind("p", ParamType.INT), ParamKind("p", ParamType.NUMBER)
BOOL, JSON = ParamKind("p", ParamType.BOOL), ParamKind("p")
CHOICE = ParamKind("p", one_of=("eu", 3, True, "3x"))


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        (TEXT, TypedText("1.10"), "1.10"),
        (TEXT, TypedText('"a"'), '"a"'),
        (TEXT, "a", "a"),
        (INT, TypedText(" 7 "), 7),
        (INT, 7.0, 7),
        (NUMBER, TypedText("1e3"), 1000.0),
        (NUMBER, TypedText("2"), 2),
        (BOOL, TypedText("True"), True),
        (JSON, TypedText("[1]"), [1]),
        (JSON, TypedText("mon-fri"), "mon-fri"),
        (CHOICE, TypedText("3"), 3),
        (CHOICE, TypedText("true"), True),
        (CHOICE, TypedText("eu"), "eu"),
        (None, TypedText("3"), 3),
        (None, TypedText("x"), "x"),
    ],
)
def test_a_value_is_read_by_its_kind(kind: ParamKind | None, given: Any, stored: Any) -> None:
    found = read_param(kind, given)
    assert (found, type(found)) == (stored, type(stored))


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (TEXT, 3),
        (TEXT, None),
        (INT, TypedText("x")),
        (INT, TypedText("")),
        (INT, TypedText("1.5")),
        (INT, "3"),
        (INT, True),
        (INT, 1.5),
        (NUMBER, TypedText("nan")),
        (NUMBER, float("inf")),
        (NUMBER, TypedText("9e999")),
        (BOOL, TypedText("yes")),
        (BOOL, 1),
        (CHOICE, TypedText("ue")),
        (CHOICE, 1),
        (CHOICE, [1]),
        (CHOICE, None),
    ],
)
def test_a_value_of_another_kind_is_refused(kind: ParamKind, given: Any) -> None:
    with pytest.raises(WrongParam):
        read_param(kind, given)


def test_all_problems_of_a_start_are_found_at_once() -> None:
    kinds = (ParamKind("a", ParamType.INT, max=3), ParamKind("b", required=True), ParamKind("c"))
    work = Work(Kind.COMMAND, params={"a": 1, "c": 0}, param_kinds=kinds)
    values, problems = wrong_params(work, {"a": 4, "c": TypedText("5"), "d": 1})
    assert values == {"c": 5}
    assert [(problem.code, problem.path) for problem in problems] == [
        ("param_kind", "params.a"),
        ("param_unknown", "params.d"),
        ("param_missing", "params.b"),
    ]


def test_the_schema_names_types_bounds_choices_and_what_is_needed() -> None:
    kinds = (ParamKind("n", ParamType.INT, min=1, max=9, required=True), ParamKind("r", one_of=("eu", "us")))
    assert params_schema(Work(Kind.COMMAND, params={"r": "eu"}, param_kinds=kinds)) == {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 9},
            "r": {"enum": ["eu", "us"], "default": "eu"},
        },
        "required": ["n"],
        "additionalProperties": False,
    }
