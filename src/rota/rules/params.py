"""Params of a run: reading and checking of values by the kinds that a job declares."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from rota.model.errors import Problem, did_you_mean, shown
from rota.model.params import ParamKind, ParamType, TypedText
from rota.model.spec import Work

_INT = r"[-+]?[0-9]{1,30}"
_NUMBER = r"[-+]?([0-9]{1,30}(\.[0-9]{1,30})?|\.[0-9]{1,30})([eE][-+]?[0-9]{1,3})?"
"""Patterns that `re` compiles at the first use: most commands read no param."""
_FLAGS = {"true": True, "false": False}
_WANTED = {
    ParamType.TEXT: "a text",
    ParamType.INT: "a whole number",
    ParamType.NUMBER: "a number",
    ParamType.BOOL: "true or false",
    ParamType.JSON: "a value",
}
_IN_SCHEMAS = {
    ParamType.TEXT: "string",
    ParamType.INT: "integer",
    ParamType.NUMBER: "number",
    ParamType.BOOL: "boolean",
}


class WrongParam(ValueError):
    """A value is not of the kind of its param."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def read_value(text: str) -> Any:
    """Return the value of a typed text: a scalar if it is JSON, else the text.

    >>> read_value("3"), read_value("true"), read_value("mon-fri")
    (3, True, 'mon-fri')
    """
    try:
        value = json.loads(text)
    except (RecursionError, ValueError):
        return str(text)
    finite = not isinstance(value, float) or value - value == 0
    return value if isinstance(value, bool | int | float | str | None) and finite else str(text)


def write_value(value: Any) -> str:
    """Return a value as text that `read_value` reads as the same value.

    >>> write_value(3), write_value("3"), write_value("mon-fri")
    ('3', '"3"', 'mon-fri')
    """
    if isinstance(value, str) and read_value(value) == value and value == value.strip():
        return value
    return json.dumps(value, ensure_ascii=False)


def write_typed(kind: ParamKind | None, value: Any) -> str:
    """Return a value as a person would type it for a param of this kind."""
    if kind is not None and isinstance(value, str) and (kind.one_of or kind.type is ParamType.TEXT):
        return value
    return write_value(value)


def read_param(kind: ParamKind | None, value: Any) -> Any:
    """Return a value as a run stores it; raise WrongParam if the kind does not accept it.

    >>> read_param(ParamKind("n", ParamType.INT, min=1, max=10), TypedText("7"))
    7
    >>> read_param(ParamKind("tag", ParamType.TEXT), TypedText("1.10"))
    '1.10'
    """
    if kind is None:
        return read_value(value) if isinstance(value, TypedText) else value
    if kind.one_of:
        return _choice(kind, value)
    value = _typed(kind, value) if isinstance(value, TypedText) else value
    if kind.type is ParamType.INT and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not _fits(kind.type, value):
        raise WrongParam(f"{shown(_plain(value))} is not {_WANTED[kind.type]}", say_kind(kind))
    if (kind.min is not None and value < kind.min) or (kind.max is not None and value > kind.max):
        raise WrongParam(f"{shown(value)} is out of range", say_kind(kind))
    return value


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, TypedText) else value


def _choice(kind: ParamKind, value: Any) -> Any:
    for one in kind.one_of:
        if same_value(one, value) or (isinstance(value, TypedText) and write_typed(kind, one) == value):
            return one
    words = [write_typed(kind, one) for one in kind.one_of]
    guess = did_you_mean(str(value)[:100], words) if isinstance(value, str) else ""
    raise WrongParam(f"{shown(_plain(value))} is not one of {', '.join(words)}", guess)


def same_value(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; true is not 1.

    >>> same_value(1, True), same_value(1, 1.0)
    (False, True)
    """
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


def _typed(kind: ParamKind, text: TypedText) -> Any:
    """Return the value of a typed text, or the text itself where it has none of this type."""
    word = text.strip()
    match kind.type:
        case ParamType.TEXT:
            return str(text)
        case ParamType.INT:
            return int(word) if re.fullmatch(_INT, word) else text
        case ParamType.NUMBER:
            return (int(word) if re.fullmatch(_INT, word) else float(word)) if re.fullmatch(_NUMBER, word) else text
        case ParamType.BOOL:
            return _FLAGS.get(word.lower(), text)
        case ParamType.JSON:
            try:
                return json.loads(text, parse_constant=_refuse)
            except (RecursionError, ValueError):
                return str(text)


def _refuse(word: str) -> float:
    raise ValueError(word)


def _fits(kind: ParamType, value: Any) -> bool:
    match kind:
        case ParamType.TEXT:
            return isinstance(value, str)
        case ParamType.BOOL:
            return isinstance(value, bool)
        case ParamType.INT:
            return isinstance(value, int) and not isinstance(value, bool)
        case ParamType.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        case ParamType.JSON:
            return True


def say_kind(kind: ParamKind) -> str:
    """Return a kind in words.

    >>> say_kind(ParamKind("n", ParamType.INT, min=1, max=10))
    'a whole number from 1 to 10'
    """
    if kind.one_of:
        return "one of " + ", ".join(write_typed(kind, one) for one in kind.one_of)
    least = "" if kind.min is None else f" from {kind.min:,}"
    most = "" if kind.max is None else f" to {kind.max:,}"
    return f"{_WANTED[kind.type]}{least}{most}"


def wrong_params(work: Work, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return the values as a run stores them, and a problem for each unknown, wrong or missing param.

    `given` are the values of one start, without defaults.
    """
    kinds, names = work.kind_of_param, work.param_names
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name in sorted(given):
        if name not in names:
            hint = f"its params: {', '.join(sorted(names)) or 'none'}"
            problems.append(Problem(f"no param {shown(str(name))}", "param_unknown", at=("params", name), hint=hint))
            continue
        try:
            values[name] = read_param(kinds.get(name), given[name])
        except WrongParam as error:
            problems.append(Problem(str(error), "param_kind", at=("params", name), hint=error.hint))
    for name, kind in kinds.items():
        if kind.required and name not in given and name not in work.params:
            problems.append(Problem("needs a value", "param_missing", at=("params", name), hint=say_kind(kind)))
    return values, problems


def declared_params(work: Work) -> dict[str, Any]:
    """Return the params of a job as a file declares them."""
    kinds = work.kind_of_param
    return {name: _declared(work, name, kinds.get(name)) for name in work.param_names}


def _declared(work: Work, name: str, kind: ParamKind | None) -> Any:
    value = work.params.get(name)
    if kind is None or (kind == ParamKind(name) and not is_kind(value)):
        return value
    keys: dict[str, Any] = {"one_of": list(kind.one_of)} if kind.one_of else {"type": str(kind.type)}
    keys |= {key: bound for key in ("min", "max") if (bound := getattr(kind, key)) is not None}
    keys |= {} if kind.required else {"default": value}
    return keys | ({"description": kind.description} if kind.description else {})


def is_kind(value: Any) -> bool:
    """Return whether the value of a param in a file declares a kind."""
    return isinstance(value, Mapping) and ("type" in value or "one_of" in value)


def params_schema(work: Work) -> dict[str, Any]:
    """Return the JSON Schema of the params that a start may give."""
    kinds = work.kind_of_param
    required = [name for name, kind in kinds.items() if kind.required]
    return {
        "type": "object",
        "properties": {name: _schema(work, name, kinds.get(name)) for name in work.param_names},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _schema(work: Work, name: str, kind: ParamKind | None) -> dict[str, Any]:
    kind = kind or ParamKind(name)
    schema: dict[str, Any] = {"enum": list(kind.one_of)} if kind.one_of else {}
    if not kind.one_of and kind.type in _IN_SCHEMAS:
        schema["type"] = _IN_SCHEMAS[kind.type]
    bounds = (("minimum", kind.min), ("maximum", kind.max))
    schema |= {key: bound for key, bound in bounds if bound is not None}
    schema |= {"description": kind.description} if kind.description else {}
    return schema if kind.required else {**schema, "default": work.params.get(name)}
