"""The `except` of a job: dates as people write them, and the days of calendar files."""

import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from rota.declare.fields import Refused, shown, wrong_type
from rota.declare.files import Stamp, stamp_of
from rota.declare.ics import IcsProblem, days_of
from rota.declare.parts import Parts

KEY = "except"
CODE = "calendar"
FILE_END = ".ics"
SIZE_LIMIT = 5_000_000
LEAP_YEAR = 2000
_ONE_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EVERY_YEAR = re.compile(r"\d\d-\d\d", re.ASCII)
_HINT = "write dates and files: [2026-12-25, 12-24, holidays.ics]; 12-24 is of every year"


def read_except(value: Any) -> dict[int, str]:
    """Return dates, days of every year, and the names of calendar files, by their places in the list."""
    if not isinstance(value, list):
        raise wrong_type(value, "a list of dates and .ics files", hint=_HINT)
    with Parts() as parts:
        found = parts.rest = dict[int, str]()
        for index, item in enumerate(value):
            with parts.below(index):
                found[index] = _item(item)
    return found


def _item(item: Any) -> str:
    text = item.strip() if isinstance(item, str) else ""
    if text.lower().endswith(FILE_END):
        return text
    if not _ONE_DAY.fullmatch(text) and not _EVERY_YEAR.fullmatch(text):
        raise wrong_type(item, "a date or an .ics file", hint=_HINT)
    try:
        date.fromisoformat(text if len(text) > len("12-24") else f"{LEAP_YEAR}-{text}")
    except ValueError as error:
        raise Refused(f"{shown(text)} is no day: {error}", code=CODE, hint=_HINT) from None
    return text


@dataclass(frozen=True, slots=True)
class Calendars:
    """Reads the calendar files of one project, each once; `looked_at` are all files that it looked at."""

    place: Callable[[str], str]
    """Returns the absolute path of what a file names."""
    looked_at: MutableMapping[Path, Stamp | None] = field(default_factory=dict)
    _known: dict[Path, tuple[str, ...]] = field(default_factory=dict)

    def days(self, text: str) -> tuple[str, ...]:
        """Return the days that a file names; raise Refused with the line where it cannot be read."""
        path = Path(self.place(text))
        if path not in self._known:
            self.looked_at[path] = stamp_of(path)
            self._known[path] = _read(path, text)
        return self._known[path]


def _read(path: Path, text: str) -> tuple[str, ...]:
    try:
        with path.open("rb") as stream:
            content = stream.read(SIZE_LIMIT + 1)
        if len(content) > SIZE_LIMIT:
            raise Refused(f"{text} is larger than 5 MB", code=CODE, hint="take a shorter calendar")
        return days_of(content.decode("utf-8-sig"))
    except OSError as error:
        why = error.strerror or str(error)
        hint = "correct the path, which is relative to the project"
        raise Refused(f"{text} cannot be read: {why}", code=CODE, hint=hint) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Refused(f"{text}:{line}: is not UTF-8", code=CODE, hint="save it as UTF-8") from None
    except IcsProblem as error:
        raise Refused(f"{text}:{error.line}: {error.message}", code=CODE, hint=error.hint) from None


def resolve_except(keys: dict[str, Any], calendars: Calendars) -> list[Refused]:
    """Put days in the place of what `except` names, in `keys`, in order; return what cannot be read."""
    refused: list[Refused] = []
    days: set[str] = set()
    for index, item in keys.get(KEY, {}).items():
        try:
            days.update(calendars.days(item) if item.lower().endswith(FILE_END) else (item,))
        except Refused as error:
            refused.append(error.below(index))
    if KEY in keys:
        keys[KEY] = tuple(sorted(day for day in days if day[5:] not in days))
        refused += _all_year(keys)
    return refused


def _all_year(keys: Mapping[str, Any]) -> list[Refused]:
    yearly = {day for day in keys[KEY] if len(day) == len("12-24")} - {"02-29"}
    if len(yearly) < 365:
        return []
    return [Refused("leaves no day of the year", code=CODE, hint="disable the job with `enabled: false`")]
