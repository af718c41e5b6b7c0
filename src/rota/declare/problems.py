"""Problems in a user's file: their types, codes, hints and collection."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from rota.declare.yaml import WrittenFloat, WrittenInt
from rota.model.clock import parse_duration
from rota.model.errors import KeyPath, Problem, RotaError, did_you_mean
from rota.model.spec import Jitter
from rota.rules.schedule.timezone import zone

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")
Reader = Callable[[Any], Any]

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


class BadValue(ValueError):
    """A value cannot be used; `problems` lead from the key to the parts of the value that are wrong.

    `rest` holds the right parts of the value, None where they cannot be checked alone.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "invalid_value",
        hint: str = "",
        at: KeyPath = (),
        others: Iterable[Problem] = (),
        rest: Any = None,
    ) -> None:
        super().__init__(message)
        self.problems = (Problem(message, code, at=at, hint=hint), *others)
        self.rest = rest


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


def wrong_type(value: Any, wanted: str, *, hint: str = "", at: KeyPath = ()) -> BadValue:
    """Return the refusal of a value of another kind than `wanted`."""
    if value is None:
        return BadValue(
            "has no value", code="missing_value", hint=hint or f"give it {wanted}, or remove the line", at=at
        )
    return BadValue(f"{shown(value)} is not {wanted}", code="wrong_type", hint=hint, at=at)


def ask(reader: Callable[[Any], T], value: Any, *, at: KeyPath = ()) -> T:
    """Return what `reader` makes of `value`, its error as a refusal."""
    try:
        return reader(value)
    except RotaError as error:
        raise BadValue(error.message, code=error.code, hint=error.hint, at=at) from None


def read_text(value: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str):
        raise wrong_type(value, "a text", hint="" if value is None else "put it in quotes")
    if not value.strip():
        raise BadValue("is empty", hint="write something, or remove the line")
    return value


def read_argument(value: Any) -> str:
    """Return a text that a program cannot take for one of its options."""
    text = read_text(value)
    if text.lstrip().startswith("-"):
        hint = "the agent program would read it as an option"
        raise BadValue(f"{shown(text)} begins with `-`", hint=hint)
    return text


def read_pattern(value: Any) -> str:
    """Return a pattern of files, each of its levels written."""
    text = read_text(value)
    if "**" in text:
        hint = "name each level, such as ~/code/*/rota.yaml: the scheduler checks the pattern every two seconds"
        raise BadValue(f"{shown(text)} would search whole folder trees", hint=hint)
    return text


def read_note(value: Any) -> str:
    """Return a text of any length up to 1,000 characters."""
    if not isinstance(value, str):
        raise wrong_type(value, "a text")
    if len(value) > 1000:
        raise BadValue(f"has {len(value):,} characters", hint="at most 1,000 are kept; shorten it")
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
            raise BadValue(f"{shown(value)} is not between {least:,} and {most:,}", code="out_of_range")
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


def not_among(value: Any, words: Collection[str], *, otherwise: str = "") -> BadValue:
    """Return the refusal of a word that is none of `words`."""
    if value is None:
        return wrong_type(value, "one of " + ", ".join(words))
    hint = did_you_mean(str(value)[:100].lower(), words, otherwise)
    return BadValue(f"{shown(value)} is not one of {', '.join(words)}", code="choice", hint=hint)


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
    """Return a reader that takes `word` for None, and else asks `reader`; the hint for another word names `word`."""

    def read(value: Any) -> T | None:
        if isinstance(value, str) and value.strip().lower() == word:
            return None
        try:
            return reader(value)
        except BadValue as refusal:
            if not isinstance(value, str) or any(character.isdigit() for character in value):
                raise
            problem = refusal.problems[0]
            hint = f"write `{word}`, or {problem.hint.removeprefix('write ')}"
            raise BadValue(problem.message, code=problem.code, hint=hint) from None

    return read


def between(least: timedelta, most: timedelta, *, said: str) -> Callable[[Any], timedelta]:
    """Return a reader of durations within bounds."""

    def read(value: Any) -> timedelta:
        duration = read_duration(value)
        if not least <= duration <= most:
            raise BadValue(f"{shown(value)} is not between {said}", code="out_of_range")
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
            raise BadValue(
                f"{shown(value)} is not a point in time: {error}", code="instant", hint=_INSTANT_HINT
            ) from None
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
            raise BadValue(f"{shown(value)} is not a percentage", hint="write 0% to 50%, or a duration such as 20m")
        return Jitter(up_to=read_duration(value))
    if float(percent[1]) > JITTER_PERCENT:
        raise BadValue(f"{shown(value)} is more than {JITTER_PERCENT}%", code="out_of_range", hint="write 0% to 50%")
    return Jitter(percent=float(percent[1]))


def matching(pattern: re.Pattern[str], wanted: str, *, hint: str) -> Callable[[Any], str]:
    """Return a reader of texts of one shape."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or len(value) > 200 or not pattern.fullmatch(value):
            raise wrong_type(value, wanted, hint=hint)
        return value

    return read


def below(key: str, problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems of a value as problems of the map that holds it under `key`."""
    return [problem.below(key) for problem in problems]


def following(problems: Iterable[Problem], *looks_at: str) -> list[Problem]:
    """Return the problems as ones that problems of the keys `looks_at` may cause."""
    return [replace(problem, looks_at=looks_at) for problem in problems]


def independent(problems: Sequence[Problem], causes: Sequence[Problem]) -> list[Problem]:
    """Return the problems that would exist also if the keys with one of `causes` were right."""
    return [problem for problem in problems if not _follows(problem, causes)] if causes else list(problems)


def _follows(problem: Problem, causes: Sequence[Problem]) -> bool:
    bad = {cause.at[0] for cause in causes if cause.at}
    if problem.at and any(_overlap(problem.at, cause.at) for cause in causes if cause.at):
        return True
    mistyped = any(cause.code == "unknown_key" and len(cause.at) == 1 for cause in causes)
    return bool(problem.looks_at) and (mistyped or not bad.isdisjoint(problem.looks_at))


def _overlap(path: KeyPath, other: KeyPath) -> bool:
    shared = min(len(path), len(other))
    return path[:shared] == other[:shared]


MAX_PROBLEMS = 100
"""Problems of one value that are reported, so that a long list of nonsense has no answer many times its length."""


class ProblemList:
    """Collects the problems of each part of a value, and refuses the value at the end of its `with`."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.rest: Any = None
        """The right parts, where they can be checked without the others."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, BadValue):
            self.add(*error.problems)
        elif error is not None:
            return
        if self.problems:
            first, *others = self.problems[:MAX_PROBLEMS]
            if (left := len(self.problems) - MAX_PROBLEMS) > 0:
                message = f"{left:,} more of its parts are wrong"
                others.append(Problem(message, "invalid_value", hint="fix the others first"))
            raise BadValue(
                first.message, code=first.code, hint=first.hint, at=first.at, others=others, rest=self.rest
            ) from None

    def below(self, *at: str | int) -> "Part":
        """Return a context for the part at `at`: its problems are collected, and the other parts are read too."""
        return Part(self, at)

    def add(self, *problems: Problem) -> None:
        """Collect problems."""
        self.problems += problems

    @property
    def mistyped(self) -> bool:
        """Whether a key is unknown: it may be the one that seems to be missing."""
        return any(problem.code == "unknown_key" and len(problem.at) == 1 for problem in self.problems)


class Part:
    """One part of a value while it is read."""

    __slots__ = ("_at", "_problems")

    def __init__(self, problems: ProblemList, at: KeyPath) -> None:
        self._problems, self._at = problems, at

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, BadValue):
            return False
        self._problems.add(*(problem.below(*self._at) for problem in error.problems))
        return True


def list_of(key: str, reader: Reader) -> Reader:
    """Return a reader of lists; `key` is shown in the hint."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            hint = f"write `{key}: [{value[:80]}]`" if isinstance(value, str) else ""
            raise wrong_type(value, "a list", hint=hint)
        return tuple(read_items(value, reader))

    return read


def map_of(name: Reader, reader: Reader, *, wanted: str = "a map of keys", hint: str = "") -> Reader:
    """Return a reader of maps whose keys are names; both parts of an entry may have problems."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise wrong_type(value, wanted, hint=hint)
        values: dict[str, Any] = {}
        with ProblemList() as problems:
            for key in value:
                with problems.below(key):
                    name(key)
                with problems.below(key):
                    values[key] = reader(value[key])
        return values

    return read


def read_items(value: Sequence[Any], reader: Callable[[Any], T]) -> list[T]:
    """Return the items of a list, each as `reader` makes it."""
    with ProblemList() as problems:
        found = _right_items(value, reader, problems)
    return list(found.values())


def read_placed(value: Sequence[Any], reader: Callable[[Any], T]) -> dict[int, T]:
    """Return the items of a list by their places; those that are right can be checked without the others."""
    with ProblemList() as problems:
        found = problems.rest = _right_items(value, reader, problems)
    return found


def _right_items(value: Sequence[Any], reader: Callable[[Any], T], problems: ProblemList) -> dict[int, T]:
    found: dict[int, T] = {}
    for index, item in enumerate(value):
        with problems.below(index):
            found[index] = reader(item)
    return found


def name_of(what: str, *, hint: str) -> Callable[[Any], str]:
    """Return a reader of names that have the shape of a job's."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise wrong_type(value, f"the name of {what}", hint=hint)
        if not JOB_NAME.fullmatch(value):
            shape = "use 1 to 200 letters, digits and . _ -, the first a letter or digit"
            raise BadValue(f"{shown(value)} cannot be {what}'s name", hint=shape)
        return value

    return read


PROBLEM_CODES = {
    "file_unreadable": "The file cannot be opened or read.",
    "yaml_size": "The file is larger than 1 MB.",
    "yaml_encoding": "The file is not UTF-8.",
    "yaml_character": "It holds a character that YAML or a program cannot take.",
    "yaml_syntax": "The text is not valid YAML.",
    "yaml_documents": "The file holds more than one document.",
    "yaml_top_level": "The top level of the file is not a map.",
    "yaml_depth": "Maps and lists are nested more than 20 deep.",
    "yaml_alias": "An unquoted `*` starts a YAML alias.",
    "yaml_quotes": "An unquoted value starts with a character that YAML reserves, such as `@`.",
    "yaml_anchor": "YAML anchors are not supported.",
    "yaml_tag": "YAML tags are not supported.",
    "yaml_merge": "YAML merge keys are not supported.",
    "yaml_duplicate_key": "A key appears twice.",
    "yaml_key": "A map or list is in the place of a key.",
    "yaml_number": "A number has more than 300 digits.",
    "unknown_key": "rota does not know the key, or the key is not allowed here.",
    "missing_value": "A key has no value.",
    "wrong_type": "The value has the wrong type.",
    "invalid_value": "The value cannot be used.",
    "out_of_range": "The value is below or above what is allowed.",
    "choice": "The word is not one of those that the key takes.",
    "duration_format": "The text is not a duration.",
    "cron": "The cron expression cannot be read.",
    "cron_fields": "The cron expression does not have exactly five fields.",
    "cron_charset": "The cron expression is too long, or holds characters that no field can have.",
    "cron_range": "A value is outside the range of its cron field.",
    "cron_step": "A step is zero, or larger than its cron field.",
    "cron_never_fires": "The cron expression names only days that do not exist.",
    "timezone": "No time zone has this name.",
    "instant": "The point in time does not exist, exists twice, or cannot be read.",
    "at_past": "The one time of a new job is over already.",
    "env_name_denied": "A param has the name of a variable that makes programs load other code, such as `LD_PRELOAD`.",
    "header_denied": "rota sets this header itself, such as `Host` or `Content-Length`.",
    "secret_literal": "A value looks like a secret: an API key, a token, a private key.",
    "quiet_window": "The text is not a window of quiet hours, or the windows leave no minute of the week.",
    "calendar": "A date of `except` does not exist, or a calendar file cannot be read or used.",
    "sandbox": "This machine cannot keep the sandbox or the limits of a job; only `rota check` tries them.",
    "needs_shell": "A plain command holds something that only a shell knows.",
    "placeholder": "The placeholder is not on the list, names no param, or stands in a shell's text.",
    "include": "A pattern of `include`, or what it matches, cannot be used; or an included file holds what it cannot.",
    "job_name": "A job cannot have this name.",
    "member": "A member of a group is not a job of the file, is disabled or a group itself, or there are no members.",
    "no_work_given": "The job has none of `command`, `shell`, `run` and `prompt`.",
    "no_effect": "The key has no effect on a job of this kind.",
    "conflict": "Keys contradict each other.",
    "import_failed": "A module of `imports` cannot be imported.",
    "function_missing": "The function is not registered.",
    "pool_missing": "The file declares no pool of this name.",
    "budget_missing": "The file declares no account of this name, or the job is not charged to it.",
    "estimate_missing": "The job is charged to an account of tokens or money, and a run has no estimate.",
    "target_missing": "The file declares no target of this name.",
    "address_refused": "rota refuses the address: it is private, uses http, holds a password, or is not valid.",
    "no_poll": "A job needs the shared poll, and the file has no `poll:`.",
    "unknown_agent": "No agent or adapter has this name.",
    "condition_missing": "The condition is not registered.",
    "crontab_line": "A line of a crontab is not an entry, variable or comment, or has no command.",
    "jobs_file": "The file for `rota import jobs` has no jobs under `jobs:`, or other sections.",
    "import_file": "The file for `rota import` is not one of its kind.",
    "import_entry": "No entry of the imported file can be mapped; this is one of them.",
    "python_missing": "The interpreter that `python` names is not there.",
}


GROUPS = "jobs that belong together are members of a group: `groups: {nightly: {members: [extract, load]}}`"

JOB_WORDS = {
    "every": "intervals are written `interval: 30m`",
    "expression": 'write `cron: "30 2 * * *"`',
    "schedule": 'times are written `cron: "30 2 * * *"`, `interval: 30m` or `at: "2026-11-15 08:30"`',
    "when": "gates are written `conditions: [network_up]`",
    "if": "gates are written `conditions: [network_up]`",
    "cmd": "write `command: [program, argument]`, or `shell:` for a shell's text",
    "script": "write `command: [program, argument]`, `shell:` for a shell's text, or `run:` for a Python function",
    "exec": "write `command: [program, argument]`, or `shell:` for a shell's text",
    "function": "Python functions are written `run: name` or `run: module:function`",
    "tz": "write `timezone: Europe/Paris`",
    "catchup": "missed instants are governed by `misfire: skip | once | all`",
    "catch_up": "missed instants are governed by `misfire: skip | once | all`",
    "coalesce": "missed instants are governed by `misfire: skip | once | all`",
    "concurrency_policy": "write `overlap: forbid | queue | replace | allow`",
    "environment": "write `env: {NAME: value}`",
    "dir": "write `cwd: folder`",
    "workdir": "write `cwd: folder`",
    "tags": "write `labels: [backup]`",
    "exclude": "dates without runs are written `except: [2026-12-25, holidays.ics]`",
    "excluded": "dates without runs are written `except: [2026-12-25, holidays.ics]`",
    "holidays": "dates without runs are written `except: [2026-12-25, holidays.ics]`",
    "maintenance": 'recurring windows are written `quiet_hours: {windows: ["sun 02:00-04:00"], policy: skip}`',
    "maintenance_windows": 'recurring windows are written `quiet_hours: {windows: ["sun 02:00-04:00"], policy: skip}`',
    "disabled": "write `enabled: false`",
    "user": "a job runs as the user of the scheduler",
    "name": "a job's name is its key under `jobs:`",
    "retries": "write `retry: {max_attempts: 4}` for three retries; it counts the first attempt",
    "max_retries": "write `retry: {max_attempts: 4}` for three retries; it counts the first attempt",
    "max_attempts": "write `retry: {max_attempts: 3}`",
    "backoff": "write `retry: {backoff: 30s}`",
    "retry_delay": "write `retry: {backoff: 30s}`",
    "depends_on": GROUPS,
    "needs": GROUPS,
    "on_failure": "notifications are written `notify: {on: [failed], webhook: https://host/path}`",
    "on_success": "notifications are written `notify: {on: [completed], webhook: https://host/path}`",
    "webhook": "write `notify: {on: [failed], webhook: https://host/path}`",
    "mailto": "write `notify: {on: [failed], apprise: {secret: MAIL_URL}}`",
    "deadline": 'write `finish_by: "06:00"`',
    "resources": "capacities are drawn on by `pools: [ollama]`, or with a cost `pools: {gpu: 2}`",
    "pool": "write `pools: [ollama]`",
    "queue": "`pools: [name]` limits how many run at once; `overlap: queue` is the queue of one job",
    "budgets": "write `budget: claude-day`, or a list of accounts",
}
"""Fixed hints for words people type in a job; none of them is ever accepted."""

GROUP_WORDS = {
    **{word: hint for word, hint in JOB_WORDS.items() if word != "on_failure"},
    "jobs": "write `members: [extract, load]`",
    "steps": "write `members: [extract, load]`",
    "tasks": "write `members: [extract, load]`",
    "runs": "write `members: [extract, load]`",
    "parallel": "write `mode: parallel`",
    "sequential": "write `mode: sequential`",
    "always": "it belongs to a member: `{job: report, always: true}`",
    "name": "a group's name is its key under `groups:`",
    "depends_on": "members of a sequence run in the order in which they are written",
    "needs": "members of a sequence run in the order in which they are written",
}
"""Fixed hints for words people type in a group."""

TOP_WORDS = {
    "maintenance": 'recurring windows are written `quiet_hours: {windows: ["sun 02:00-04:00"], policy: skip}`',
    "except": "it belongs in `defaults:` or a job",
    "holidays": "dates without runs are written `except: [2026-12-25, holidays.ics]`, in `defaults:` or a job",
    "group": GROUPS,
    "tz": "write `timezone: Europe/Paris`",
    "import": "write `imports: [module]`",
    "modules": "write `imports: [module]`",
    "resources": "write `pools: {ollama: 1}`",
    "targets": "write `notify: {ops: {on: [failed], webhook: https://host/path}}`",
    "webhooks": "write `notify: {ops: {on: [failed], webhook: https://host/path}}`",
    "budget": "accounts are declared in `budgets:`; a job names one by `budget:`",
    "price": "write `prices: {sonnet: {input: 3.00, output: 15.00}}`",
    "includes": "write `include: [jobs.d/*.yaml]`",
    "database": "write `store: postgresql://user@host/database`; without it the state is in SQLite",
    "postgres": "write `store: postgresql://user@host/database`",
    "concurrency": "it belongs in `scheduler:`",
    "tick": "it belongs in `scheduler:`",
    "aging": "it belongs in `scheduler:`",
    "timeout": "it belongs in `scheduler:`, `defaults:` or a job",
    "env": "it belongs in `defaults:` or a job",
}
"""Fixed hints for words people type at the top of the file."""


def unknown_key(key: str, known: Collection[str], words: dict[str, str] | None = None) -> str:
    """Return the hint for an unknown key.

    >>> unknown_key("intervall", ["cron", "interval"])
    'did you mean "interval"?'
    """
    if words and (fixed := words.get(key.lower())):
        return fixed
    return did_you_mean(key[:100].lower().replace("-", "_"), known, cutoff=0.75)
