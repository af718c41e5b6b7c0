"""Readers of single values: what a user wrote to what a spec holds, or a refusal that shows the value."""

import json
import re
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

from rota.declare.composing import WrittenFloat, WrittenInt
from rota.model.durations import parse_duration
from rota.model.errors import RotaError
from rota.model.spec import Jitter
from rota.rules.nearest import did_you_mean
from rota.rules.timezone import zone

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

JITTER_PERCENT = 50
REBOOT = "@reboot"
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
FUNCTION = re.compile(r"[A-Za-z_][\w.-]*|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
INSTANT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,3})?)?( ?(Z|[+-]\d\d:\d\d))?)?", re.ASCII)
SIZE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"([0-9]{1,12}) ?(B|KB|MB|GB|TB)", re.ASCII)
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?%", re.ASCII)
_ZERO = re.compile(r"0+(\.0+)? ?[smhd%]?", re.ASCII)


class Refused(ValueError):
    """A value cannot be used; `at` leads from the key to the part of the value that is wrong."""

    def __init__(self, message: str, *, code: str = "invalid_value", hint: str = "", at: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.message, self.code, self.hint, self.at = message, code, hint, at
        self.further: tuple[Refused, ...] = ()
        """What is wrong with other parts of the value."""
        self.rest: Any = None
        """What the right parts of the value come to, None where nobody can judge them alone."""

    @property
    def each(self) -> "tuple[Refused, ...]":
        """All that is wrong with the value."""
        return (self, *self.further)

    def with_others(self, further: "Iterable[Refused]", *, rest: Any = None) -> "Refused":
        """Return the refusal of a value that is wrong in other parts too."""
        found = Refused(self.message, code=self.code, hint=self.hint, at=self.at)
        found.further, found.rest = tuple(further), rest
        return found

    def below(self, *at: str | int) -> "Refused":
        """Return the refusal of the value that has this one as its part `at`."""
        first, *others = [Refused(one.message, code=one.code, hint=one.hint, at=(*at, *one.at)) for one in self.each]
        return first.with_others(others)


def shown(value: Any) -> str:
    """Return `value` as messages show it: escaped, at most 80 characters.

    >>> shown("a\\nb"), shown([1, True])
    ('"a\\\\nb"', '[1, true]')
    """
    if isinstance(value, str):
        value = value[:200]
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.written[:80]
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return text if len(text) <= 80 else text[:79] + "…"


def wrong_type(value: Any, wanted: str, *, hint: str = "", at: tuple[Any, ...] = ()) -> Refused:
    """Return the refusal of a value of another kind than `wanted`."""
    if value is None:
        return Refused(
            "has no value", code="missing_value", hint=hint or f"give it {wanted}, or remove the line", at=at
        )
    return Refused(f"{shown(value)} is not {wanted}", code="wrong_type", hint=hint, at=at)


def ask(reader: Callable[[Any], T], value: Any) -> T:
    """Return what `reader` makes of `value`, its error as a refusal."""
    try:
        return reader(value)
    except RotaError as error:
        raise Refused(error.message, code=error.code, hint=error.hint) from None


def read_text(value: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str):
        raise wrong_type(value, "a text", hint="" if value is None else "put it in quotes")
    if not value.strip():
        raise Refused("is empty", hint="write something, or remove the line")
    return value


def read_argument(value: Any) -> str:
    """Return a text that a program cannot take for one of its options."""
    text = read_text(value)
    if text.lstrip().startswith("-"):
        hint = "an agent program would take it for an option"
        raise Refused(f"{shown(text)} begins with `-`", hint=hint)
    return text


def read_pattern(value: Any) -> str:
    """Return a pattern of files, each of its levels written."""
    text = read_text(value)
    if "**" in text:
        hint = "name each level, such as ~/code/*/rota.yaml: the scheduler looks again every two seconds"
        raise Refused(f"{shown(text)} would search whole trees", hint=hint)
    return text


def read_note(value: Any) -> str:
    """Return a text of any length up to 1,000 characters."""
    if not isinstance(value, str):
        raise wrong_type(value, "a text")
    if len(value) > 1000:
        raise Refused(f"has {len(value):,} characters", hint="at most 1,000 are kept; shorten it")
    return value


def read_flag(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        hint = "YAML 1.2 reads yes, no, on and off as texts" if str(value).lower() in _OLD_FLAGS else ""
        raise wrong_type(value, "true or false", hint=hint)
    return value


def read_switch(value: Any) -> bool:
    """Return true or false, also written `on` or `off`, which YAML 1.2 reads as texts."""
    word = value.strip().lower() if isinstance(value, str) else value
    if word in ("on", "off"):
        return bool(word == "on")
    if not isinstance(word, bool):
        raise wrong_type(value, "on or off")
    return word


_OLD_FLAGS = ("yes", "no", "on", "off", "y", "n")


def whole(least: int, most: int) -> Callable[[Any], int]:
    """Return a reader of whole numbers from `least` to `most`."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(value, "a whole number", hint=f"write one from {least:,} to {most:,}")
        if not least <= value <= most:
            raise Refused(f"{shown(value)} is not between {least:,} and {most:,}", code="out_of_range")
        return int(value)

    return read


def choice(kind: type[E], *, otherwise: str = "") -> Callable[[Any], E]:
    """Return a reader of one of the words of `kind`; `otherwise` is the hint where no word is near."""
    words = {str(word): word for word in kind}

    def read(value: Any) -> E:
        if isinstance(value, str) and value in words:
            return words[value]
        raise not_among(value, list(words), otherwise=otherwise)

    return read


def not_among(value: Any, words: Collection[str], *, otherwise: str = "") -> Refused:
    """Return the refusal of a word that is none of `words`."""
    if value is None:
        return wrong_type(value, "one of " + ", ".join(words))
    hint = did_you_mean(str(value)[:100].lower(), words, otherwise)
    return Refused(f"{shown(value)} is not one of {', '.join(words)}", code="choice", hint=hint)


def read_duration(value: Any) -> timedelta:
    """Return a duration: one whole number and one unit, or whole seconds."""
    if isinstance(value, bool) or not isinstance(value, str | int) or len(str(value)) > 40:
        wanted = "a whole number of seconds" if isinstance(value, float) else "a duration"
        raise wrong_type(value, wanted, hint="write 30s, 5m, 1h, 1d, or whole seconds")
    return ask(_duration, value)


@lru_cache(4096)
def _duration(value: str | int) -> timedelta:
    return parse_duration(value)


def read_grace(value: Any) -> timedelta:
    """Return a duration that may be zero."""
    if _is_zero(value):
        return timedelta(0)
    return read_duration(value)


def _is_zero(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool) and value == 0) or (
        isinstance(value, str) and bool(_ZERO.fullmatch(value.strip()))
    )


def or_word(word: str, reader: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """Return a reader that takes `word` for None, and else asks `reader`."""

    def read(value: Any) -> T | None:
        if isinstance(value, str) and value.strip().lower() == word:
            return None
        return reader(value)

    return read


def between(least: timedelta, most: timedelta, *, said: str) -> Callable[[Any], timedelta]:
    """Return a reader of durations within bounds."""

    def read(value: Any) -> timedelta:
        duration = read_duration(value)
        if not least <= duration <= most:
            raise Refused(f"{shown(value)} is not between {said}", code="out_of_range")
        return duration

    return read


def read_size(value: Any) -> int:
    """Return a number of bytes: `5GB`, `200MB`, or a whole number."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return int(value)
    written = _SIZE.fullmatch(value.strip().upper()) if isinstance(value, str) else None
    if not written or not int(written[1]):
        raise wrong_type(value, "a size", hint="write 500MB, 5GB, or a number of bytes")
    return int(written[1]) * SIZE_UNITS[written[2]]


def read_instant(value: Any) -> str:
    """Return the ISO text of an instant; the job's zone is applied later, when it is known."""
    if isinstance(value, str) and INSTANT.fullmatch(value.strip()):
        text = value.strip()
        try:
            to_datetime(text)
        except ValueError as error:
            raise Refused(f"{shown(value)} is no point in time: {error}", code="instant", hint=_INSTANT_HINT) from None
        return text
    raise wrong_type(value, "a point in time", hint=_INSTANT_HINT)


_INSTANT_HINT = 'write "2026-11-15 08:30" in the job\'s time zone, or with an offset: "2026-11-15T08:30:00+01:00"'


def to_datetime(text: str) -> datetime:
    """Return what `read_instant` let through: aware with an offset, else naive; midnight for a date alone."""
    return datetime.fromisoformat(text[:11] + text[11:].replace(" ", ""))


def read_zone(value: Any) -> str:
    """Return the name of a time zone, or `local`."""
    if not isinstance(value, str) or len(value) > 100:
        raise wrong_type(value, "a time zone", hint="use an IANA name such as Europe/Paris, UTC, or local")
    if value.strip().lower() == "local":
        return "local"
    ask(zone, value)
    return value


def read_jitter(value: Any) -> Jitter:
    """Return a jitter: a percentage of the gap, or a duration; zero is none."""
    if _is_zero(value):
        return Jitter()
    percent = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if percent is None:
        if isinstance(value, str) and "%" in value:
            raise Refused(f"{shown(value)} is not a percentage", hint="write 0% to 50%, or a duration such as 20m")
        return Jitter(up_to=read_duration(value))
    if float(percent[1]) > JITTER_PERCENT:
        raise Refused(f"{shown(value)} is more than {JITTER_PERCENT}%", code="out_of_range", hint="write 0% to 50%")
    return Jitter(percent=float(percent[1]))


def matching(pattern: re.Pattern[str], wanted: str, *, hint: str) -> Callable[[Any], str]:
    """Return a reader of texts of one shape."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or len(value) > 200 or not pattern.fullmatch(value):
            raise wrong_type(value, wanted, hint=hint)
        return value

    return read
