"""What the runs of an agent are given beyond their task: what they carry over, and the step after them."""

from typing import Any

from rota.declare.fields import Refused, choice, read_text, wrong_type
from rota.declare.hints import GROUPS
from rota.declare.keyed import one_of, read_keys
from rota.declare.parts import Parts, read_items
from rota.declare.words import read_command
from rota.model.spec import AfterStep, Carry, StepFolder

AFTER_HINT = "write {command: [gh, pr, create, --fill]}, or {shell: …}"


def read_carry(value: Any) -> tuple[Carry, ...]:
    """Return what is carried over: one word, or a list of them."""
    reader = choice(Carry)
    if not isinstance(value, list):
        return (reader(value),)
    return tuple(dict.fromkeys(read_items(value, reader)))


def read_after(value: Any) -> AfterStep:
    """Return the step after an agent: {command: […]} or {shell: …}, with an optional cwd."""
    if not isinstance(value, dict):
        raise wrong_type(value, "a step", hint=GROUPS if isinstance(value, str | list) else AFTER_HINT)
    readers = {"command": read_command, "shell": read_text, "cwd": choice(StepFolder)}
    with Parts() as parts:
        found = read_keys(value, readers, parts=parts, hint=AFTER_HINT, known=f"`after` knows {', '.join(readers)}")
        if not one_of(("command", "shell"), value, parts=parts):
            raise Refused("needs either `command` or `shell`", code="conflict", hint=AFTER_HINT)
    return AfterStep(**found)
