"""Import of systemd timers with their services."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from rota.declare.importers.calendar import CalendarSpec, cron_of, parse_calendar, reading_of
from rota.declare.importers.translation import (
    NO_VARIABLE,
    ImportedJob,
    KeptKey,
    Reading,
    Remark,
    Source,
    Translation,
    TranslationDraft,
    Unmappable,
    duration_text,
    every,
    free_name,
    is_variable,
    plain_defaults,
)
from rota.model.errors import FileProblems, Problem

_HEADER = re.compile(r"# (?P<path>/\S+\.(?:timer|service))\s*")
_SECTION = re.compile(r"\[(?P<name>[^\]]+)\]\s*")
_SPAN = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[a-zA-Zµ]*)\s*")
_UNITS = {
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
    **dict.fromkeys(("M", "month", "months"), 2_629_800.0),
    **dict.fromkeys(("y", "year", "years"), 31_557_600.0),
    **dict.fromkeys(("ms", "msec"), 0.001),
    **dict.fromkeys(("us", "usec", "µs"), 0.000001),
}
_QUIET = {"Description", "AccuracySec", "Unit", "Type", "RemainAfterExit", "StandardOutput", "StandardError"}
"""Keys without a meaning for a job of rota, which keeps the output itself."""
_TIMES = ("OnCalendar", "OnBootSec", "OnStartupSec", "OnActiveSec", "OnUnitActiveSec", "OnUnitInactiveSec")


Tell = Callable[[int, str], None]
"""Notes a remark on a line of a unit."""


class Line(Struct, frozen=True):
    """One `Key=value` of a unit."""

    line: int
    section: str
    key: str
    value: str


class SystemdUnit(Struct, frozen=True):
    """A unit file."""

    name: str
    file: str
    lines: tuple[Line, ...]

    def all(self, key: str) -> list[Line]:
        """Return the lines of a key; an empty value resets those before it."""
        lines: list[Line] = []
        for line in self.lines:
            if line.key == key:
                lines = [*lines, line] if line.value else []
        return lines

    def last(self, key: str, default: str = "") -> str:
        """Return the last value of a key."""
        lines = self.all(key)
        return lines[-1].value if lines else default


def import_systemd(source: Source) -> Translation:
    """Return the translation of a timer, or of what `systemctl cat` printed of timers and services."""
    units = {unit.name: unit for unit in _units(source)}
    timers = [unit for unit in units.values() if unit.name.endswith(".timer")]
    if not timers:
        hint = "name a .timer file, or pipe in `systemctl cat NAME.timer NAME.service`"
        raise FileProblems([Problem("has no timer", "import_file", source.file, 1, 1, hint=hint)])
    draft = TranslationDraft()
    for timer in timers:
        service = _service(timer, units, source)
        try:
            job, remarks = _job(timer, service, timezone=source.timezone, taken=draft.names)
        except Unmappable as error:
            draft.left_out.append(Remark(error.line, f"{timer.name}: {error}", timer.file))
            continue
        draft.jobs.append(job)
        draft.by_hand += remarks
    defaults = {**plain_defaults(misfire="skip"), "cwd": "/"}
    return draft.translation(source.timezone, defaults, read=len(timers), kept=_KEPT)


_KEPT = (
    KeptKey("timeout: never", "systemd has none for a oneshot service; rota's default is 10 min"),
    KeptKey("retry: false", "a timer starts its service once; rota's default is 3 attempts"),
    KeptKey("misfire: skip", "as in systemd without Persistent=true, which becomes `misfire: once`"),
    KeptKey("cwd: /", "systemd's default folder of a system service; user services start in the home folder"),
)


def _units(source: Source) -> list[SystemdUnit]:
    """Return the units of a text: one file, or several below the comments that `systemctl cat` writes."""
    parts: list[tuple[str, list[tuple[int, str]]]] = [(source.file, [])]
    for number, line in enumerate(source.text.splitlines(), start=1):
        if match := _HEADER.fullmatch(line):
            parts.append((match["path"], []))
        parts[-1][1].append((number, line))
    named: dict[str, SystemdUnit] = {}
    for path, lines in parts:
        name = re.sub(r"^.*/|\.d/.*$", "", path) if path != source.file else path.rpartition("/")[2]
        unit = SystemdUnit(name, source.file, tuple(_lines(lines)))
        if name in named:  # a drop-in adds to its unit
            unit = SystemdUnit(name, source.file, (*named[name].lines, *unit.lines))
        if unit.lines:
            named[name] = unit
    return list(named.values())


def _lines(lines: Sequence[tuple[int, str]]) -> list[Line]:
    found: list[Line] = []
    section, pending, begun = "", "", 0
    for number, line in lines:
        if not pending and line.strip()[:1] in ("#", ";", ""):
            continue
        begun, text = (begun, pending + line.strip()) if pending else (number, line.strip())
        if text.endswith("\\"):
            pending = text[:-1].rstrip() + " "
            continue
        pending = ""
        if heading := _SECTION.fullmatch(text):
            section = heading["name"]
        elif "=" in text:
            key, _, value = text.partition("=")
            found.append(Line(begun, section, key.strip(), value.strip()))
    return found


def _service_of(timer: SystemdUnit) -> str:
    return timer.last("Unit") or timer.name.removesuffix(".timer") + ".service"


def _service(timer: SystemdUnit, units: Mapping[str, SystemdUnit], source: Source) -> SystemdUnit | None:
    name = _service_of(timer)
    if name in units:
        return units[name]
    content = source.read(name)
    if content is None:
        return None
    lines = list(enumerate(content.decode("utf-8", "replace").splitlines(), start=1))
    return SystemdUnit(name, name, tuple(_lines(lines)))


def _job(
    timer: SystemdUnit, service: SystemdUnit | None, *, timezone: str, taken: Sequence[str]
) -> tuple[ImportedJob, list[Remark]]:
    if service is None:
        raise Unmappable(f"its service {_service_of(timer)} is not here; name both files, or put them into one folder")
    name = free_name(re.sub(r"[^A-Za-z0-9._-]+", "-", timer.name.removesuffix(".timer")).strip("-._"), taken=taken)
    remarks: list[Remark] = []
    tell = _teller(remarks, name, timer)
    when, reading = _when(timer, tell, timezone=timezone)
    keys = {**when, **_service_keys(service, _teller(remarks, name, service))}
    description = timer.last("Description") or service.last("Description")
    if description:
        keys["description"] = description[:1000]
    for line in timer.lines:
        of_timer = line.section == "Timer" and line.key not in {*_TIMES, *_QUIET, "Persistent", "RandomizedDelaySec"}
        if of_timer or (line.section == "Unit" and line.key not in _OF_UNIT):
            tell(line.line, f"{line.key}={line.value} has no counterpart")
    first = min((line.line for line in timer.lines), default=1)
    return ImportedJob(name, first, keys, reading=reading, file=timer.file), remarks


def _teller(remarks: list[Remark], name: str, unit: SystemdUnit) -> Tell:
    return lambda line, text: remarks.append(Remark(line, f"{name}: {text}", unit.file))


def _when(timer: SystemdUnit, tell: Tell, *, timezone: str) -> tuple[dict[str, Any], Reading | None]:
    calendars = timer.all("OnCalendar")
    monotonic = {key: timer.all(key) for key in _TIMES[1:] if timer.all(key)}
    if calendars:
        keys, reading = _calendar_keys(calendars, tell, timezone=timezone)
        for lines in monotonic.values():
            tell(lines[0].line, f"{lines[0].key}={lines[0].value} beside OnCalendar is not mapped")
    elif monotonic:
        keys, reading = _monotonic_keys(monotonic, tell)
    else:
        raise Unmappable("it has no time", line=min((line.line for line in timer.lines), default=1))
    if timer.last("Persistent").lower() in ("1", "yes", "true", "on") and "cron" in keys:
        keys["misfire"] = "once"
    if (delay := timer.last("RandomizedDelaySec")) and seconds_of(delay):
        keys["jitter"] = duration_text(seconds_of(delay))
    return keys, reading


def _calendar_keys(lines: Sequence[Line], tell: Tell, *, timezone: str) -> tuple[dict[str, Any], Reading | None]:
    specs: list[CalendarSpec] = []
    for line in lines:
        try:
            spec = parse_calendar(line.value)
        except Unmappable as error:
            raise Unmappable(str(error), line=line.line) from None
        specs.append(spec)
        if spec.second not in (0, None):
            tell(line.line, f"second {spec.second} of `{line.value}` is dropped: cron has full minutes")
    zones = {spec.timezone or timezone for spec in specs}
    if len(zones) > 1:
        raise Unmappable(f"its times are in the zones {', '.join(sorted(zones))}; a job has one", line=lines[0].line)
    (zone,) = zones
    try:
        keys: dict[str, Any] = cron_of(specs)
    except Unmappable as error:
        raise Unmappable(str(error), line=lines[0].line) from None
    keys |= {"timezone": zone} if zone != timezone else {}
    return keys, reading_of(specs, zone)


def _monotonic_keys(monotonic: Mapping[str, Sequence[Line]], tell: Tell) -> tuple[dict[str, Any], Reading | None]:
    first = next((monotonic[key][-1] for key in _TIMES[1:4] if key in monotonic), None)
    again = next((monotonic[key][-1] for key in _TIMES[4:] if key in monotonic), None)
    if again is None:
        assert first is not None
        if first.key == "OnActiveSec":
            raise Unmappable("OnActiveSec alone starts it once after it was activated", line=first.line)
        tell(first.line, f"the delay of {first.key}={first.value} is dropped: it runs when the scheduler starts")
        return {"cron": "@reboot"}, None
    seconds = seconds_of(again.value)
    if seconds < 1:
        raise Unmappable(f"{again.key}={again.value} is shorter than a second", line=again.line)
    keys: dict[str, Any] = {"interval": duration_text(seconds)}
    if again.key == "OnUnitActiveSec":
        keys["anchor"] = "start"
    if first is not None:
        tell(first.line, f"{first.key}={first.value}: it runs at once when the scheduler starts the first time")
    else:
        keys["first_run"] = "after_interval"
    return keys, every(float(round(seconds)))


def seconds_of(text: str) -> float:
    """Return the seconds of a time span of systemd, 0 where it is none.

    >>> seconds_of("1h 30min"), seconds_of("90"), seconds_of("soon")
    (5400.0, 90.0, 0.0)
    """
    total, at = 0.0, 0
    for match in _SPAN.finditer(text.strip()):
        if match.start() != at or match["unit"] not in _UNITS:
            return 0.0
        total += float(match["number"]) * _UNITS[match["unit"]]
        at = match.end()
    return total if at == len(text.strip()) else 0.0


# The service


_OF_SERVICE = {
    *_QUIET,
    *("ExecStart", "ExecStartPre", "ExecStartPost", "WorkingDirectory", "Environment", "EnvironmentFile", "User"),
    *("TimeoutStartSec", "RuntimeMaxSec", "TimeoutSec", "TimeoutStopSec", "ExecCondition"),
}


_OF_UNIT = {"Description", "Documentation", "DefaultDependencies", "Requires", "Wants", "After", "Before", "PartOf"}
"""Keys of `[Unit]` that do not decide whether a started service runs."""


def _service_keys(service: SystemdUnit, tell: Tell) -> dict[str, Any]:
    """Return the keys of what a service runs."""
    if not service.all("ExecStart"):
        raise Unmappable(f"{service.name} has no ExecStart")
    commands = [line for key in ("ExecStartPre", "ExecStart", "ExecStartPost") for line in service.all(key)]
    keys = _command_keys(commands, tell)
    if service.last("Type") in ("forking", "notify", "dbus"):
        told = f"Type={service.last('Type')} is a daemon: a job ends when its first process ends"
        tell(service.all("Type")[-1].line, told)
    if (user := service.last("User")) not in ("", "root", "0"):
        recipe = f"let a scheduler of {user} run it, or write `sudo -u {user} --` before it, and allow that in sudoers"
        told = f"ran as {user}: a job runs as the scheduler's user, so it is disabled; {recipe}"
        tell(service.all("User")[-1].line, told)
        keys["enabled"] = False
    if folder := service.last("WorkingDirectory").lstrip("-").replace("%h", "~"):
        keys["cwd"] = folder
    if env := _environment(service, tell):
        keys["env"] = env
    for line in (files := service.all("EnvironmentFile"))[:-1]:
        tell(line.line, f"EnvironmentFile={line.value} is not mapped: a job has one `env_file`")
    if files:
        keys["env_file"] = files[-1].value.lstrip("-").replace("%h", "~")
    keys |= _limits(service)
    _tell_unmapped(service, tell)
    return keys


def _tell_unmapped(service: SystemdUnit, tell: Tell) -> None:
    recipe = "write `conditions: [{command: […]}]`, exit 10 skips"
    for line in service.lines:
        if line.key == "ExecCondition":
            tell(line.line, f"ExecCondition={line.value} is not mapped: {recipe}")
        elif line.key == "OnFailure":
            tell(line.line, f"OnFailure={line.value} is not mapped: `notify:` tells of failures")
        elif line.key not in {"Service": _OF_SERVICE, "Unit": _OF_UNIT}.get(line.section, line.key):
            tell(line.line, f"{line.key}={line.value} has no counterpart")


def _limits(service: SystemdUnit) -> dict[str, Any]:
    limit = service.last("RuntimeMaxSec") or service.last("TimeoutStartSec") or service.last("TimeoutSec")
    keys = {"timeout": duration_text(seconds_of(limit))} if seconds_of(limit) >= 1 else {}
    grace = seconds_of(service.last("TimeoutStopSec"))
    return keys | ({"term_grace": duration_text(grace)} if grace >= 1 else {})


def _command_keys(commands: Sequence[Line], tell: Tell) -> dict[str, Any]:
    found = [command for line in commands for command in _commands_of(line, tell)]
    if len(found) == 1 and found[0].words:
        return {"command": list(found[0].words)}
    return {"shell": "".join(f"{command.text}\n" for command in found) if len(found) > 1 else found[0].text}


class _Command(Struct, frozen=True):
    """One command: its text for a shell, and its words if it needs none."""

    text: str
    words: tuple[str, ...] = ()


def _commands_of(line: Line, tell: Tell) -> Iterator[_Command]:
    """Yield the commands of an `ExecStart=`, which a `;` alone separates."""
    try:
        words = shlex.split(_specified(line, tell))
    except ValueError as error:
        raise Unmappable(f"{line.key} cannot be split into words: {error}", line=line.line) from None
    for semicolon, group in groupby(words, key=lambda word: word == ";"):
        if not semicolon:
            yield _command(line, list(group), tell)


def _specified(line: Line, tell: Tell) -> str:
    """Return the value of a line without the specifiers of systemd."""
    text = line.value.replace("%%", "\0").replace("%h", "${HOME}").replace("\0", "%")
    for found in dict.fromkeys(re.findall(r"%[a-zA-Z]", line.value.replace("%%", "").replace("%h", ""))):
        tell(line.line, f"the specifier {found} of {line.key} is not mapped: write its value")
    return text


def _command(line: Line, words: list[str], tell: Tell) -> _Command:
    program = words[0].lstrip("-@:+!|")
    marks = words[0][: len(words[0]) - len(program)]
    words[0] = program
    if "@" in marks and len(words) > 1:
        tell(line.line, f"the name {words[1]} of {line.key}, which `@` gives to the program, is dropped")
        del words[1]
    if "+" in marks or "!" in marks:
        tell(line.line, f"`{marks}` before {line.key} is dropped: a job has the rights of the scheduler's user")
    literal = ":" in marks
    plain = tuple(word if literal else word.replace("$$", "$") for word in words)
    text = " ".join(shlex.quote(word) if literal else _shell_word(word) for word in words)
    if "-" in marks:
        return _Command(f"{text} || true")
    expands = not literal and any(_EXPANDED.search(word.replace("$$", "")) for word in words)
    return _Command(text, () if expands else plain)


_EXPANDED = re.compile(r"\$\{[A-Za-z_]\w*\}|^\$[A-Za-z_]\w*$")


def _shell_word(word: str) -> str:
    """Return a word as a shell reads it: systemd expands `${NAME}` in any quotes, `$NAME` as a whole word alone.

    >>> print(_shell_word("a ${X} $$1"), _shell_word("$OPTIONS"), _shell_word("--all"))
    'a '"${X}"' $1' $OPTIONS --all
    """
    if re.fullmatch(r"\$[A-Za-z_]\w*", word):
        return word
    pieces = re.split(r"(\$\{[A-Za-z_]\w*\})", word.replace("$$", "\0"))
    texts = [
        f'"{piece}"' if index % 2 else piece and shlex.quote(piece.replace("\0", "$"))
        for index, piece in enumerate(pieces)
    ]
    return "".join(texts) or "''"


def _environment(service: SystemdUnit, tell: Tell) -> dict[str, Any]:
    env: dict[str, Any] = {}
    for line in service.all("Environment"):
        try:
            words = shlex.split(line.value)
        except ValueError:
            words = []
        for word in words:
            name, sign, value = word.partition("=")
            if sign and is_variable(name):
                env[name] = value.replace("%%", "%")
            else:
                tell(line.line, f"Environment={word} is not mapped: {NO_VARIABLE}")
    return env
