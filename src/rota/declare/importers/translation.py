"""The common shape of all imports: a source, the translation of it, and an independent reading of its fires."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import groupby, islice
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct, field
from msgspec.structs import replace

from rota.declare.export import write_comment, write_entry, write_job, write_map
from rota.declare.problems import ENV_NAME
from rota.model.clock import from_ms
from rota.model.errors import FileProblems, InvalidCron, InvalidTimezone, Problem

Reading = Callable[[datetime, int], Sequence[datetime]]
"""Returns the next instants of a source after an instant, read without rota's own rules of schedules."""
MAX_NAME_LENGTH = 60


class Source(Struct, frozen=True):
    """The file to import, and what its meaning depends on."""

    file: str
    content: bytes
    timezone: str
    """The zone of the machine, by name."""
    now: datetime
    read: Callable[[str], bytes | None] = lambda _name: None
    """Returns another file beside this one, None if there is none."""

    @property
    def text(self) -> str:
        """The content; what is not UTF-8 is replaced."""
        return self.content.decode("utf-8", "replace")


class Unmappable(Exception):
    """An entry that cannot be mapped: why, and its line."""

    def __init__(self, why: str, *, line: int = 0) -> None:
        super().__init__(why)
        self.line = line


class Remark(Struct, frozen=True):
    """A remark on a line of a file, 0 for the whole file; `lines` are kept as comments in the new file."""

    line: int
    message: str
    file: str = ""
    lines: tuple[str, ...] = ()


def remark_of(problem: Problem, *, subject: str = "") -> Remark:
    """Return a problem of an entry as a remark that says why the entry is left out."""
    column = f"column {problem.column}: " if problem.column > 1 else ""
    about = f"{subject}: " if subject else ""
    key = f"{problem.path}: " if problem.path else ""
    hint = f"; {problem.hint}" if problem.hint else ""
    return Remark(problem.line, f"{about}{column}{key}{problem.message}{hint}", problem.file)


class KeptKey(Struct, frozen=True):
    """A key that was written to keep the old meaning, and why it is needed."""

    key: str
    why: str


class ImportedJob(Struct, frozen=True):
    """One job of the new file: its keys, its place in the source, and the source's reading of its fires."""

    name: str
    line: int
    keys: Mapping[str, Any]
    comments: tuple[str, ...] = ()
    reading: Reading | None = None
    by_day: bool = False
    """Whether the source names days alone, so that the time of the day is not compared."""
    file: str = ""


class Section(Struct, frozen=True):
    """A section of the new file above `jobs:`."""

    key: str
    value: Any
    comment: str = ""


class Translation(Struct, frozen=True):
    """A file of another scheduler in rota's words; `text` is the new rota.yaml."""

    read: int
    sections: tuple[Section, ...]
    jobs: tuple[ImportedJob, ...]
    timezone: str = "UTC"
    kept: tuple[KeptKey, ...] = ()
    by_hand: tuple[Remark, ...] = ()
    left_out: tuple[Remark, ...] = ()
    header: tuple[str, ...] = ()
    footer: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The new file."""
        lines = [write_comment(text) for text in self.header]
        lines += [""] if lines else []
        for section in self.sections:
            lines += [*_section(section), ""]
        lines.append("jobs:" if self.jobs else "jobs: {}")
        for job in self.jobs:
            lines += write_job(job.name, job.keys, comments=job.comments)
        for remark in self.left_out:
            place = (
                f"{remark.file}:{remark.line}: "
                if remark.file and remark.line
                else f"line {remark.line}: "
                if remark.line
                else ""
            )
            kept = [write_comment(line, depth=1) for line in remark.lines]
            lines += ["", write_comment(f"left out: {place}{remark.message}", depth=1), *kept]
        lines += ["", *(write_comment(text) for text in self.footer)] if self.footer else []
        return "\n".join(lines) + "\n"

    def without(self, refused: Mapping[str, Remark]) -> "Translation":
        """Return the translation without some jobs, which are left out with a reason."""
        jobs = tuple(job for job in self.jobs if job.name not in refused)
        dropped = [
            replace(refused[job.name], lines=tuple(write_job(job.name, job.keys)))
            for job in self.jobs
            if job.name in refused
        ]
        left_out = (*self.left_out, *dropped)
        many = len({remark.file for remark in left_out if remark.file}) > 1
        ordered = sorted(left_out, key=lambda remark: (remark.file if many else "", remark.line))
        return replace(self, jobs=jobs, left_out=tuple(ordered))


class TranslationDraft(Struct):
    """The jobs and remarks of a source while it is read."""

    jobs: list[ImportedJob] = field(default_factory=list)
    by_hand: list[Remark] = field(default_factory=list)
    left_out: list[Remark] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of the jobs so far."""
        return [job.name for job in self.jobs]

    def translation(
        self, timezone: str, defaults: Mapping[str, Any], *further: Section, read: int, kept: Sequence[KeptKey]
    ) -> Translation:
        """Return the translation, with `further` sections behind the zone and the defaults."""
        return Translation(
            read=read,
            sections=(Section("timezone", timezone), Section("defaults", defaults), *further),
            jobs=tuple(self.jobs),
            timezone=timezone,
            kept=tuple(kept),
            by_hand=tuple(self.by_hand),
            left_out=tuple(self.left_out),
        )


def _section(section: Section) -> list[str]:
    if not isinstance(section.value, Mapping) or not section.value:
        return write_entry(section.key, section.value)
    comment = [write_comment(section.comment, depth=1)] if section.comment else []
    return [f"{section.key}:", *comment, *write_map(section.value, depth=1)]


def plain_defaults(*, misfire: str = "", overlap: str = "") -> dict[str, Any]:
    """Return the defaults that keep the meaning of a scheduler without a timeout and without retries."""
    keys: dict[str, Any] = {"timeout": "never", "retry": False}
    keys |= {"misfire": misfire} if misfire else {}
    return keys | ({"overlap": overlap} if overlap else {})


NO_VARIABLE = "no variable of a job can have this name"


def is_variable(name: str) -> bool:
    """Return whether a job can set a variable of this name."""
    return bool(ENV_NAME.fullmatch(name)) and not name.startswith("ROTA_")


# Names


def slug_for(text: str, *, taken: Collection[str]) -> str:
    """Return a job's name for a title, none of `taken` (compared without case).

    >>> slug_for("Morning brief: EU", taken=["morning-brief-eu"])
    'morning-brief-eu-2'
    """
    base = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:MAX_NAME_LENGTH].strip("-") or "job"
    return free_name(base, taken=taken)


def free_name(base: str, *, taken: Collection[str]) -> str:
    """Return a name, with a number behind it where it is taken."""
    folded = {name.casefold() for name in taken}
    number, name = 1, base
    while name.casefold() in folded:
        number += 1
        name = f"{base}-{number}"
    return name


# Places and comments in the source


def line_of(content: bytes, mark: bytes) -> int:
    """Return the line on which a text first stands, 0 if it does not."""
    at = content.find(mark)
    return content.count(b"\n", 0, at) + 1 if at >= 0 else 0


def comments_above(lines: Sequence[str], line: int) -> tuple[str, ...]:
    """Return the comments above a line (from 1), blank lines between them included, without rulers of dashes."""
    found: list[str] = []
    for text in reversed(lines[: max(0, line - 1)]):
        if text.strip() and not text.strip().startswith("#"):
            break
        found.append(text.strip().lstrip("#").strip())
    return tuple(text for text in reversed(found) if text.strip("-=* "))


def comments_beside(lines: Sequence[str], first: int, last: int) -> tuple[str, ...]:
    """Return the comments behind `key: value` on some lines (from 1)."""
    matches = (_BESIDE.fullmatch(text) for text in lines[first - 1 : last])
    return tuple(f"{match['key']}: {match['comment'].strip()}" for match in matches if match)


_BESIDE = re.compile(r"""\s*(?:-\s+)?(?P<key>\w+):\s*[^"'|>#]*\s#\s*(?P<comment>.+)""")


class JsonEntry(Struct, frozen=True):
    """An element of a JSON list, and the line on which it begins."""

    line: int
    value: Any


def json_entries(content: bytes, file: str, *, key: str) -> list[JsonEntry]:
    """Return the elements of the list at `key` of a JSON object, or of a list alone; raise FileProblems otherwise."""
    try:
        text = content.decode("utf-8-sig")
        data = json.loads(text)
    except UnicodeDecodeError as error:
        raise FileProblems([Problem(f"is not UTF-8: {error.reason}", "yaml_encoding", file)]) from None
    except json.JSONDecodeError as error:
        problem = Problem(f"is not JSON: {error.msg}", "import_file", file, error.lineno, error.colno)
        raise FileProblems([problem]) from None
    found = data.get(key) if isinstance(data, dict) else data
    if not isinstance(found, list):
        hint = f"it has an object with a list under `{key}`, or such a list alone"
        raise FileProblems([Problem(f"has no list under `{key}`", "import_file", file, 1, 1, hint=hint)])
    return list(_placed(text, found, key=key if isinstance(data, dict) else ""))


def _placed(text: str, found: Sequence[Any], *, key: str) -> Iterator[JsonEntry]:
    decoder, at = json.JSONDecoder(), 0
    for start in re.finditer(rf'"{key}"\s*:\s*\[' if key else r"\[", text):
        at = start.end()
        try:
            if decoder.raw_decode(text, at - 1)[0] == found:
                break
        except json.JSONDecodeError:
            continue
    for value in found:
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,"))
        yield JsonEntry(text.count("\n", 0, at) + 1, value)
        at = decoder.raw_decode(text, at)[1]


# Values


def duration_text(seconds: float) -> str:
    """Return a duration as the file writes it.

    >>> duration_text(5400), duration_text(86400), duration_text(45)
    ('90m', '1d', '45s')
    """
    whole = max(1, round(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole % size == 0:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def every(seconds: float) -> Reading:
    """Return the reading of a plain interval: one fire after another, each run taking no time."""
    return lambda after, count: [after + timedelta(seconds=seconds) * number for number in range(1, count + 1)]


def first_of(reading: Reading) -> Reading:
    """Return the reading of a schedule that ends with its first fire."""
    return lambda after, count: reading(after, min(count, 1))


def instant_from(ms: Any) -> datetime | None:
    """Return the instant of milliseconds since 1970, None for a value that is none."""
    try:
        return from_ms(ms) if isinstance(ms, int) else None
    except OverflowError:
        return None


def once(at: datetime) -> Reading:
    """Return the reading of a single instant."""
    return lambda after, count: [at] if at > after and count else []


def taken_from(instants: Callable[[datetime], Iterator[datetime]]) -> Reading:
    """Return the reading of instants that are found one after another."""
    return lambda after, count: list(islice(instants(after), count))


def readable_cron(expression: str, timezone: str = "UTC") -> str:
    """Return a cron expression with single spaces; raise Unmappable for one, or a zone, that rota cannot read."""
    from rota.rules.schedule.cron import check_cron
    from rota.rules.schedule.timezone import zone

    try:
        check_cron(expression)
        zone(timezone)
    except (InvalidCron, InvalidTimezone) as error:
        raise Unmappable(f"{error.message}; {error.hint}") from None
    return " ".join(expression.split())


def cron_reading(expression: str, timezone: str) -> Reading:
    """Return the reading of a cron line as Debian's cron would start it."""
    from rota.rules.schedule.preview import peer_fires

    return lambda after, count: peer_fires(expression, timezone, after=after, count=count)


class CronLibrary(StrEnum):
    """A library of another scheduler that reads cron lines in its own way where clocks change."""

    CRONER = "croner"
    CRONITER = "croniter"
    CRON_PARSER = "cron-parser"


def library_reading(expression: str, timezone: str, library: CronLibrary) -> Reading:
    """Return the reading of a cron line as a library starts it: each local time, then the instants of that time."""
    from cronsim import CronSim

    from rota.rules.schedule.cron import normalise
    from rota.rules.schedule.timezone import zone

    tz, plain = zone(timezone), normalise(expression)
    minutes, hours = plain.split()[:2]
    single, hourly = minutes.isdigit() and hours.isdigit(), hours == "*"

    def instants(after: datetime) -> Iterator[datetime]:
        latest, yesterday = after, after.astimezone(tz).replace(tzinfo=UTC) - timedelta(days=1)
        for _, walls in groupby(CronSim(plain, yesterday), key=datetime.date):
            times = [wall.replace(tzinfo=None) for wall in walls]
            for at in sorted(at for wall in times for at in _of_wall(wall, tz, library, single=single, hourly=hourly)):
                if at > latest:
                    latest = at
                    yield at

    return taken_from(instants)


def _of_wall(wall: datetime, tz: ZoneInfo, library: CronLibrary, *, single: bool, hourly: bool) -> tuple[datetime, ...]:
    """Return the instants at which a library starts a local time; `single` has one minute and one hour."""
    first, second = (wall.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return (first,)
    if first < second:  # the clock is set back: this time comes twice
        once = single if library is CronLibrary.CRONER else library is CronLibrary.CRON_PARSER and not hourly
        return (first,) if once else (first, second)
    if library is CronLibrary.CRON_PARSER:
        return (first,)
    if hourly or (library is CronLibrary.CRONER and not single):
        return ()
    change = next(
        at
        for minute in range(24 * 60)
        if (at := second + timedelta(minutes=minute)).astimezone(tz).utcoffset() != second.astimezone(tz).utcoffset()
    )
    return (change,)


def five_fields(expression: str) -> str:
    """Return a cron expression with five fields; leave out seconds that are 0.

    >>> five_fields("0 30 7 * * 1-5")
    '30 7 * * 1-5'
    """
    fields = expression.split()
    return " ".join(fields[1:] if len(fields) == 6 and fields[0] == "0" else fields)
