"""Commands as users write them: a list of words, or one plain text that is split without a shell."""

import re
import shlex
from typing import Any

from rota.declare.fields import Refused, ask, read_duration, shown, wrong_type
from rota.declare.maps import write_scalar
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
    words = tuple(_word(item, index) for index, item in enumerate(value))
    if not words[0].strip():
        raise Refused("the program's name is empty", hint="name the program first", at=(0,))
    return words


def _word(item: Any, index: int) -> str:
    if item is None or isinstance(item, dict | list):
        hint = "write it out, or remove the item" if item is None else "put it in quotes"
        raise wrong_type(item, "a word", hint=hint, at=(index,))
    word = write_scalar(item)
    if len(word.encode()) > ITEM_LIMIT:
        raise Refused("is longer than 128 KB", code="out_of_range", hint="pass it in a file", at=(index,))
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
    return tuple(_word(back.sub(lambda found: kept[int(found[1])], word), 0) for word in words)


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
    for key in value:
        if key not in ("name", "command", "timeout"):
            raise Refused("unknown key", code="unknown_key", hint="a condition knows name, command, timeout", at=(key,))
    if ("name" in value) == ("command" in value):
        raise Refused("needs either `name` or `command`", code="conflict", hint="write one of them")
    parts: dict[str, Any] = {}
    for key, reader in (("name", _name), ("command", read_command), ("timeout", read_duration)):
        if key in value:
            parts[key] = _part(reader, value[key], key)
    return Condition(**parts)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > NAME_LIMIT:
        raise wrong_type(value, "the name of a condition", hint="write a registered name, or {command: [./check.sh]}")
    return value


def _part(reader: Any, value: Any, key: str) -> Any:
    try:
        return ask(reader, value)
    except Refused as error:
        raise Refused(error.message, code=error.code, hint=error.hint, at=(key, *error.at)) from None
