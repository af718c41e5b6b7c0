"""Commands as users write them: a list of words, or one plain text that is split without a shell."""

import re
import shlex
from typing import Any

from rota.declare.fields import Refused, read_duration, shown, wrong_type
from rota.declare.keyed import one_of, read_keys
from rota.declare.maps import write_scalar
from rota.declare.parts import Parts, read_items
from rota.model.spec import Condition
from rota.rules.placeholders import WRITTEN

NAME_LIMIT = 200
ITEM_LIMIT = 128 * 1024 - 1
_ANYWHERE = frozenset("|&;<>()$`*?[\n\r")
_IN_DOUBLE_QUOTES = frozenset("$`")
_AT_START = frozenset("~#")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_SHELL_HINT = "a plain command has no shell: use `shell:` for that, or write a list of words"


def read_command(value: Any) -> tuple[str, ...]:
    """Return the words of a command."""
    if isinstance(value, str):
        return _split(value)
    if not isinstance(value, list):
        raise wrong_type(value, "a command", hint="write a list of words, [restic, backup, /srv], or one plain text")
    if not value:
        raise Refused("is an empty list", hint="name at least the program")
    words = tuple(read_items(value, _word))
    if not words[0].strip():
        raise Refused("the program's name is empty", hint="name the program first", at=(0,))
    return words


def _word(item: Any) -> str:
    if item is None or isinstance(item, dict | list):
        hint = "write it out, or remove the item" if item is None else "put it in quotes"
        raise wrong_type(item, "a word", hint=hint)
    word = write_scalar(item)
    if len(word.encode()) > ITEM_LIMIT:
        raise Refused("is longer than 128 KB", code="out_of_range", hint="pass it in a file")
    return word


def _split(text: str) -> tuple[str, ...]:
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\ue000{len(kept) - 1}\ue001"

    plain = WRITTEN.sub(keep, text.strip())
    if special := _shell_character(plain):
        raise Refused(
            f"{shown(text)} holds {shown(special)}, which only a shell knows", code="needs_shell", hint=_SHELL_HINT
        )
    try:
        words = shlex.split(plain)
    except ValueError:
        raise Refused(f"{shown(text)} has a quote that is not closed", hint="close it, or write a list") from None
    if not words or not words[0]:
        raise Refused("is empty", hint="name at least the program")
    if _ASSIGNMENT.match(words[0]):
        raise Refused(
            f"{shown(words[0])} sets a variable", code="needs_shell", hint="put it into `env:`, or use `shell:`"
        )
    back = re.compile("\ue000([0-9]+)\ue001")
    return tuple(_word(back.sub(lambda found: kept[int(found[1])], word)) for word in words)


def _shell_character(text: str) -> str | None:
    quote, start, escaped = "", True, False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            if quote == '"' and character in _IN_DOUBLE_QUOTES:
                return character
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in _ANYWHERE or (start and character in _AT_START):
            return character
        start = character in " \t"
    return None


def read_condition(value: Any) -> Condition:
    """Return a gate: a name, {name: …} or {command: […]}, each with an optional timeout."""
    if isinstance(value, str):
        return Condition(name=_name(value))
    if not isinstance(value, dict) or not value:
        raise wrong_type(value, "a condition", hint="write a registered name, or {command: [./check.sh]}")
    readers = {"name": _name, "command": read_command, "timeout": read_duration}
    with Parts() as parts:
        found = read_keys(value, readers, parts=parts, hint="", known=f"a condition knows {', '.join(readers)}")
        if not one_of(("name", "command"), value, parts=parts):
            raise Refused("needs either `name` or `command`", code="conflict", hint="write one of them")
    return Condition(**found)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > NAME_LIMIT:
        raise wrong_type(value, "the name of a condition", hint="write a registered name, or {command: [./check.sh]}")
    return value
