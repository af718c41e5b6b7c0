"""What a person writes about a simulation: JOB=3s, JOB=10%, 60s=16."""

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TypeVar

from rota.model.durations import parse_duration
from rota.model.errors import InvalidDuration, InvalidValue
from rota.operations.simulating.reporting import Tick
from rota.operations.simulating.staging import Assumptions

T = TypeVar("T")
_MILLISECONDS = re.compile(r"([0-9]{1,9})ms", re.ASCII)
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?)%", re.ASCII)


def read_assumptions(durations: Iterable[str], failures: Iterable[str]) -> Assumptions:
    """Return what is assumed of jobs, from texts such as backup=3m and backup=10%."""
    return Assumptions(
        dict(_named(text, read_length, hint="write a job and a duration: backup=3m") for text in durations),
        dict(_named(text, read_share, hint="write a job and a percentage: backup=10%") for text in failures),
    )


def _named(text: str, read: Callable[[str], T], *, hint: str) -> tuple[str, T]:
    name, equals, value = text.rpartition("=")
    if not equals or not name.strip():
        raise InvalidValue(f"{text!r} names no job", hint=hint)
    return name.strip(), read(value.strip())


def read_length(text: str) -> timedelta:
    """Return how long a run takes: a duration, also in milliseconds, or 0.

    >>> read_length("200ms")
    datetime.timedelta(microseconds=200000)
    """
    short = _MILLISECONDS.fullmatch(text)
    if short:
        return timedelta(milliseconds=int(short[1]))
    if text in ("0", "0s"):
        return timedelta()
    return parse_duration(int(text) if text.isdecimal() else text)


def read_share(text: str) -> float:
    """Return a percentage as a share.

    >>> read_share("10%")
    0.1
    """
    found = _PERCENT.fullmatch(text)
    if found is None or float(found[1]) > 100:
        raise InvalidValue(f"{text!r} is no percentage", hint="write 0% to 100%")
    return float(found[1]) / 100


def read_tick(text: str) -> Tick:
    """Return the single tick that a text such as 60s=16 names.

    >>> read_tick("60s=16").a_day
    23040.0
    """
    interval, equals, calls = (part.strip() for part in text.partition("="))
    hint = "write how often it ticks and how many calls each tick makes: 60s=16"
    if not equals or not calls.isdecimal():
        raise InvalidValue(f"{text!r} is no tick", hint=hint)
    try:
        return Tick(read_length(interval), int(calls))
    except InvalidDuration as error:
        raise InvalidValue(f"{text!r} is no tick: {error.message}", hint=hint) from None
