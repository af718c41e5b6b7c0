"""Our own door for cron texts: everything wrong or ambiguous is refused here, with what would be right."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from rota.model.errors import CronCharacters, CronFields, CronRange, CronStep, InvalidCron

LONGEST = 100
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
EXAMPLE = 'five fields are minute, hour, day of month, month, weekday: "30 2 * * mon-fri"'
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_CHARACTERS = re.compile(r"[0-9A-Za-z*,/#?@ \t.+_-]*", re.ASCII)
_RANGED = re.compile(r"(?P<first>\*|[^-/]*)(?:-(?P<last>[^-/]*))?(?:/(?P<step>[^/]*))?", re.DOTALL)
_NUMBER = re.compile(r"[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    example: str
    words: tuple[str, ...] = ()
    values: str = ""

    @property
    def allowed(self) -> str:
        return f"the {self.name} is {self.low}-{self.high}{self.values}, for example {self.example}"

    @property
    def span(self) -> int:
        """The largest step that ever reaches a second value."""
        return len(self.words) - 1 if self.words else self.high - self.low


MINUTE = _Field("minute", 0, 59, "0, */15 or 5,35")
HOUR = _Field("hour", 0, 23, "2, */6 or 9-17")
DAY = _Field("day of month", 1, 31, "1, 1,15 or L", values=", L (last day) or LW (last day from Monday to Friday)")
MONTH = _Field("month", 1, 12, "1, jan or 1-6", _MONTHS, ", or jan-dec")
WEEKDAY = _Field(
    "weekday", 0, 7, "mon-fri, 0 (Sunday), 5L (last Friday) or mon#1 (first Monday)", _WEEKDAYS, ", or sun-sat"
)
FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


def normalise(text: str) -> str:
    """Return `text` with aliases expanded, single spaces, upper-case names and plain numbers, or refuse it.

    >>> normalise("*/5  9-17 * * mon-fri")
    '*/5 9-17 * * MON-FRI'
    >>> normalise("@daily")
    '0 0 * * *'
    """
    _check_characters(text)
    words = text.split()
    if words and words[0].startswith("@"):
        return _expand(words)
    if len(words) != len(FIELDS):
        raise _wrong_count(text, words)
    return " ".join(_field(word.upper(), field) for word, field in zip(words, FIELDS, strict=True))


def _check_characters(text: str) -> None:
    if len(text) > LONGEST:
        raise CronCharacters(
            f"the cron expression has {len(text)} characters, at most {LONGEST} are allowed",
            hint="write a list of shorter expressions: their instants are joined",
        )
    if _CHARACTERS.fullmatch(text):
        return
    bad = next(character for character in text if not _CHARACTERS.fullmatch(character))
    raise CronCharacters(
        f"cron {text!r} holds {bad!r}, which no field can have", hint=f"use 0-9, names and * , - / # L; {EXAMPLE}"
    )


def _expand(words: list[str]) -> str:
    name = words[0].lower()
    if name in ALIASES and len(words) == 1:
        return ALIASES[name]
    if name == "@every":
        duration = words[1] if len(words) == 2 else "1h"
        raise InvalidCron(f"cron {' '.join(words)!r} is no time of day", hint=f"write `interval: {duration}` instead")
    if name == "@reboot":
        raise InvalidCron(
            f"cron {words[0]!r} is not a time: it has no instants that can be planned",
            hint='a job with `cron: "@reboot"` alone runs at each boot; times are written like @hourly',
        )
    raise InvalidCron(f"no cron alias is written {' '.join(words)!r}", hint=f"known: {', '.join(ALIASES)}")


def _wrong_count(text: str, words: list[str]) -> CronFields:
    if len(words) == 6:
        return CronFields(
            f"cron {text!r} has six fields, which is ambiguous: seconds are not supported",
            hint=f'without seconds it is "{" ".join(words[1:])}", without a year "{" ".join(words[:5])}"; '
            "for less than a minute write `interval: 30s`",
        )
    count = f"{len(words)} field{'s' * (len(words) != 1)}" if words else "no fields"
    return CronFields(f"cron {text!r} has {count}, not five", hint=EXAMPLE)


def _field(word: str, field: _Field) -> str:
    terms = word.split(",")
    if len(terms) > 1 and "*" in terms:
        raise _wrong(CronRange, field, word, "has `*` in a list", hint="write `*` alone, or only the values")
    return ",".join(_term(term, field) for term in terms)


def _term(term: str, field: _Field) -> str:
    if not term:
        raise _wrong(CronRange, field, term, "is empty")
    special = _SPECIAL.get(field.name)
    if special and (read := special(term)):
        return read
    match = _RANGED.fullmatch(term)
    if match is None:
        raise _wrong(CronRange, field, term, _trouble(term))
    return _ranged(term, field, match)


def _ranged(term: str, field: _Field, match: re.Match[str]) -> str:
    step = None if match["step"] is None else _step(match["step"], field, term)
    suffix = "" if step is None else f"/{step}"
    if match["first"] == "*":
        if match["last"] is not None:
            raise _wrong(CronRange, field, term, "mixes `*` with a range")
        return f"*{suffix}"
    first = _value(match["first"], field, term)
    if match["last"] is None:
        return f"{_written(match['first'])}{suffix}"
    last = _value(match["last"], field, term)
    if last < first:
        raise _backwards(term, field, first=first, last=last)
    if first == last:
        return _written(match["first"])
    return f"{_written(match['first'])}-{_written(match['last'])}{suffix}"


def _written(value: str) -> str:
    return str(int(value)) if value.isdigit() else value


def _value(value: str, field: _Field, term: str) -> int:
    if value in field.words:
        return field.words.index(value) + (1 if field is MONTH else 0)
    if not _NUMBER.fullmatch(value):
        raise _wrong(CronRange, field, term, _trouble(term))
    if not field.low <= int(value) <= field.high:
        raise _wrong(CronRange, field, term, f"is outside {field.low}-{field.high}")
    return int(value)


def _step(value: str, field: _Field, term: str) -> int:
    if not _NUMBER.fullmatch(value):
        raise _wrong(CronStep, field, term, "has no whole number as its step")
    step = int(value)
    if step == 0:
        raise _wrong(CronStep, field, term, "has step 0, which never moves on")
    if step > field.span:
        raise _wrong(
            CronStep, field, term, f"has a step larger than the field ({field.span})", hint=_longer(step, field)
        )
    return step


def _longer(step: int, field: _Field) -> str:
    unit = {"minute": "m", "hour": "h", "day of month": "d"}.get(field.name)
    instead = f"for every {step}{unit} write `interval: {step}{unit}`; " if unit else ""
    return f"{instead}{field.allowed}"


def _backwards(term: str, field: _Field, *, first: int, last: int) -> InvalidCron:
    high = 6 if field is WEEKDAY else field.high
    start = f"{first}-{high}" if first < high else str(first)
    end = f"{field.low}-{last}" if last > field.low else str(last)
    return _wrong(CronRange, field, term, "runs backwards", hint=f"write {start},{end}; {field.allowed}")


def _trouble(term: str) -> str:
    if term[0] == "-":
        return "is negative"
    if term == "?":
        return "is not a value here, write `*`"
    if term[0] in "HR" and not term[1:2].isalpha():
        return "is random in other schedulers, write a fixed value and `jitter`"
    if re.fullmatch(r"[0-9]+W", term):
        return "asks for the nearest weekday, which is not supported"
    return "is not a value here"


def _wrong(error: type[InvalidCron], field: _Field, term: str, problem: str, *, hint: str = "") -> InvalidCron:
    return error(f"cron {field.name} {term.lower()!r} {problem}", hint=hint or field.allowed)


def _special_day(term: str) -> str | None:
    return term if term in {"L", "LW"} else None


def _special_weekday(term: str) -> str | None:
    if term.endswith("L") and len(term) > 1:
        return f"{_weekday_number(term[:-1], term)}L"
    name, sign, nth = term.partition("#")
    if not sign:
        return None
    if nth not in {"1", "2", "3", "4", "5"}:
        raise _wrong(CronRange, WEEKDAY, term, "has no number 1-5 after `#`")
    return f"{_weekday_number(name, term)}#{nth}"


def _weekday_number(value: str, term: str) -> int:
    return _value(value, WEEKDAY, term)


_SPECIAL: dict[str, Callable[[str], str | None]] = {DAY.name: _special_day, WEEKDAY.name: _special_weekday}
