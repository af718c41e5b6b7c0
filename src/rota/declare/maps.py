"""Readers of environment variables, params and labels."""

import json
import re
from collections.abc import Mapping
from typing import Any

from rota.declare.composing import WrittenFloat, WrittenInt
from rota.declare.fields import ENV_NAME, Refused, shown, wrong_type
from rota.declare.hazards import loads_code, secret_in
from rota.declare.parts import Parts, read_items
from rota.model.records import PARAMS_LIMIT
from rota.model.spec import EnvValue

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/=-]{0,99}", re.ASCII)


def read_env_name(value: Any) -> str:
    """Return the name of an environment variable that a job may set."""
    if not isinstance(value, str) or not ENV_NAME.fullmatch(value):
        raise wrong_type(value, "the name of an environment variable", hint="letters, digits and _, no digit first")
    if value.startswith("ROTA_"):
        raise Refused(f"{shown(value)} starts with ROTA_, which rota sets itself", hint="choose another name")
    return value


def read_env_value(value: Any) -> EnvValue:
    """Return one variable without its name. What is wrong with a value is told without showing it."""
    if isinstance(value, Mapping):
        if set(value) != {"secret"} or not isinstance(value["secret"], str) or not ENV_NAME.fullmatch(value["secret"]):
            raise Refused("is a map that names no secret", code="wrong_type", hint="write {secret: NAME}")
        return EnvValue("", secret=value["secret"])
    if value is None or isinstance(value, list):
        hint = 'write a text, a number, true or false, or {secret: NAME}; "" for an empty one'
        raise Refused("has no value" if value is None else "is a list", code="wrong_type", hint=hint)
    text = write_scalar(value)
    if kind := secret_in(text):
        hint = "store it with `rota secrets set NAME`, and write {secret: NAME}"
        raise Refused(f"looks like {kind}, written out", code="secret_literal", hint=hint)
    return EnvValue("", value=text)


def write_scalar(value: Any) -> str:
    """Return a scalar as it was written; true and false in lower case."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.written
    return str(value)


def read_params(value: Any) -> dict[str, Any]:
    """Return the params of a job: a JSON object whose keys can become names of environment variables."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map of params", hint="write `params: {name: value}`")
    folded: dict[str, str] = {}
    with Parts() as parts:
        for name in value:
            with parts.below(name):
                _check_param(name, folded)
        _check_json(value)
    plain: dict[str, Any] = _plain(value)
    return plain


def _check_param(name: str, folded: dict[str, str]) -> None:
    if not ENV_NAME.fullmatch(name) or name.startswith("__"):
        hint = "letters, digits and _, no digit first" if not name.startswith("__") else "begin it with a letter"
        raise Refused(f"{shown(name)} is no name for a param", hint=hint)
    if loads_code(name):
        message = f"{shown(name)} is a variable by which programs are made to load other code"
        raise Refused(message, code="env_name_denied", hint="choose another name for the param")
    other = folded.setdefault(name.upper(), name)
    if other != name:
        raise Refused(f"{shown(name)} and {shown(other)} would both be ROTA_PARAM_{name.upper()}")


def _check_json(value: Mapping[str, Any]) -> None:
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode())
    except ValueError:
        raise Refused("holds a number that JSON does not know (.inf or .nan)", hint="write it as a text") from None
    if size > PARAMS_LIMIT:
        raise Refused(f"is {size:,} bytes as JSON", code="out_of_range", hint=f"at most {PARAMS_LIMIT:,} are allowed")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, WrittenInt):
        return int(value)
    return float(value) if isinstance(value, WrittenFloat) else value


def read_labels(value: Any) -> tuple[str, ...]:
    """Return labels from a list of texts, or from a map as `key=value`."""
    if isinstance(value, Mapping):
        value = [f"{key}={write_scalar(item)}" for key, item in value.items()]
    if not isinstance(value, list):
        raise wrong_type(value, "a list of labels", hint="write `labels: [backup, team=ops]`")
    return tuple(dict.fromkeys(read_items(value, _label)))


def _label(value: Any) -> str:
    if not isinstance(value, str) or not LABEL.fullmatch(value):
        raise wrong_type(value, "a label", hint="at most 100 letters, digits and . _ / = -")
    return value
