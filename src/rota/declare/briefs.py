"""What the runs of an agent are given beyond their task: what they carry over, and the step after them."""

from collections.abc import Callable
from typing import Any

from rota.declare.fields import Refused, ask, choice, read_text, wrong_type
from rota.declare.hints import GROUPS
from rota.declare.words import read_command
from rota.model.spec import AfterStep, Carry, StepFolder

AFTER_HINT = "write {command: [gh, pr, create, --fill]}, or {shell: …}"


def read_carry(value: Any) -> tuple[Carry, ...]:
    """Return what is carried over: one word, or a list of them."""
    reader = choice(Carry)
    if not isinstance(value, list):
        return (reader(value),)
    found = [_part(reader, item, index) for index, item in enumerate(value)]
    return tuple(dict.fromkeys(found))


def read_after(value: Any) -> AfterStep:
    """Return the step after an agent: {command: […]} or {shell: …}, with an optional cwd."""
    if not isinstance(value, dict):
        raise wrong_type(value, "a step", hint=GROUPS if isinstance(value, str | list) else AFTER_HINT)
    for key in value:
        if key not in ("command", "shell", "cwd"):
            raise Refused("unknown key", code="unknown_key", hint="`after` knows command, shell, cwd", at=(key,))
    if ("command" in value) == ("shell" in value):
        raise Refused("needs either `command` or `shell`", code="conflict", hint=AFTER_HINT)
    readers = (("command", read_command), ("shell", read_text), ("cwd", choice(StepFolder)))
    return AfterStep(**{key: _part(reader, value[key], key) for key, reader in readers if key in value})


def _part(reader: Callable[[Any], Any], value: Any, key: str | int) -> Any:
    try:
        return ask(reader, value)
    except Refused as error:
        raise Refused(error.message, code=error.code, hint=error.hint, at=(key, *error.at)) from None
