"""Import of a crontab and of an anacrontab."""

import re
import shlex
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rota.declare.applicability import secret_in
from rota.declare.importers.names import flock_options, name_for
from rota.declare.importers.translation import (
    NO_VARIABLE,
    ImportedJob,
    KeptKey,
    Reading,
    Remark,
    Section,
    Source,
    Translation,
    TranslationDraft,
    comments_above,
    cron_reading,
    is_variable,
    plain_defaults,
    remark_of,
    slug_for,
)
from rota.declare.problems import REBOOT
from rota.declare.yaml import decode
from rota.model.errors import FileProblems, InvalidCron, InvalidTimezone, Problem
from rota.rules.schedule.cron import check_cron
from rota.rules.schedule.timezone import zone

SIZE_LIMIT = 1_000_000
_VARIABLE = re.compile(r"""\s*(?P<name>"[^"]*"|'[^']*'|[^\s=#"'@*][^\s="']*)\s*=\s*(?P<value>.*?)\s*""")
_ALIAS = re.compile(r"(?P<fields>@\S+)(?:\s+(?P<rest>.*))?", re.DOTALL)
_FIVE = re.compile(r"(?P<fields>\S+(?:\s+\S+){4})(?:\s+(?P<rest>.*))?", re.DOTALL)
_USER = re.compile(r"(?P<user>\S+)(?:\s+(?P<rest>.*))?", re.DOTALL)
_FIELD_LIKE = re.compile(r"[0-9*][0-9*,/-]*")
_PERCENT = re.compile(r"\\%|%")


class CrontabEntry(Struct, frozen=True):
    """One line that starts a command, with the variables in force there."""

    line: int
    cron: str
    command: str
    stdin: str | None = None
    user: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()


class Variable(Struct, frozen=True):
    """One line that sets a variable for the entries below it."""

    line: int
    name: str
    value: str


class Crontab(Struct):
    """A crontab that was read whole; `first` are the variables set before the first entry."""

    entries: list[CrontabEntry] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    first: Mapping[str, str] = field(default_factory=dict)
    header: list[str] = field(default_factory=list)
    footer: list[str] = field(default_factory=list)
    disabled: list[int] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """The lines that cannot be read."""

    @property
    def values(self) -> dict[str, str]:
        """The variables so far."""
        return {variable.name: variable.value for variable in self.variables}


def read_crontab(content: bytes, *, file: str, system: bool = False) -> Crontab:
    """Return the lines of a crontab; raise FileProblems if it is no text."""
    if len(content) > SIZE_LIMIT:
        raise FileProblems([Problem("is larger than 1 MB", "yaml_size", file, hint="a crontab is never that large")])
    reader = _CrontabReader(file, system=system)
    text = decode(content, file, hint="convert it first: iconv -f latin1 -t utf-8")
    for number, line in enumerate(text.split("\n"), start=1):
        reader.line(number, line.rstrip("\r"))
    if not reader.found.entries:
        reader.found.first = reader.found.values
    return reader.found


class _CrontabReader:
    """One pass over the lines. The comments in `found.footer` are about the next entry, if one comes."""

    def __init__(self, file: str, *, system: bool) -> None:
        self.file = file
        self.system = system
        self.found = Crontab()

    def line(self, number: int, line: str) -> None:
        """Take one line in."""
        text = line.strip()
        if text.startswith("#"):
            self._comment(number, text[1:].strip())
        elif not text:
            if not self.found.entries:
                self._end_header()
        elif match := _VARIABLE.fullmatch(line):
            self._end_header()
            self.found.variables.append(Variable(number, _unquoted(match["name"]), _unquoted(match["value"])))
        else:
            self._entry(number, line)

    def _end_header(self) -> None:
        """Keep the comments so far as those of the file."""
        self.found.header += self.found.footer
        self.found.footer = []

    def _comment(self, number: int, text: str) -> None:
        if _is_entry(text, system=self.system):
            self.found.disabled.append(number)
        elif text:
            self.found.footer.append(text)

    def _entry(self, number: int, line: str) -> None:
        begin = len(line) - len(line.lstrip())
        split = _split(line.strip())
        if split is None:
            hint = "an entry is five fields and a command, a variable is NAME=value, a comment starts with #"
            self._wrong(number, begin + 1, "is not an entry, variable or comment", hint=hint)
            return
        fields, rest = split
        cron = self._cron(number, begin + 1, fields)
        at = line.find(rest, begin + len(fields)) + 1 if rest else len(line) + 1
        user, rest, at = self._user(rest, at) if self.system else ("", rest, at)
        if cron is None or not self._is_command(number, at, rest):
            return
        crontab, (command, stdin) = self.found, split_percent(rest)
        if not crontab.entries:
            crontab.first = crontab.values
        crontab.entries.append(CrontabEntry(number, cron, command, stdin, user, crontab.values, tuple(crontab.footer)))
        crontab.footer = []

    def _cron(self, number: int, column: int, fields: str) -> str | None:
        if fields.lower() == REBOOT:
            return REBOOT
        try:
            check_cron(fields)
            return " ".join(fields.split())
        except InvalidCron as error:
            self.found.problems.append(Problem(error.message, error.code, self.file, number, column, hint=error.hint))
            return None

    def _user(self, rest: str, at: int) -> tuple[str, str, int]:
        match = _USER.fullmatch(rest)
        if match is None:
            return "", "", at
        return match["user"], match["rest"] or "", at + (match.start("rest") if match["rest"] else len(rest))

    def _is_command(self, number: int, column: int, command: str) -> bool:
        if not command or command.startswith("%"):
            what = "user and command" if self.system else "command"
            self._wrong(number, column, f"has no {what} after its time", hint="add it, or comment the line out")
            return False
        word = command.split()[0]
        if not self.system and word == "root":
            hint = "read it with --system"
            self._wrong(number, column, "has the user 'root' before its command, as system crontabs do", hint=hint)
            return False
        if _FIELD_LIKE.fullmatch(word):
            hint = f"cron reads five fields and would start {word!r}; leave the seconds or the year out"
            self._wrong(number, column, f"has a sixth field, {word!r}, before its command", hint=hint)
            return False
        return True

    def _wrong(self, line: int, column: int, message: str, *, hint: str) -> None:
        self.found.problems.append(Problem(message, "crontab_line", self.file, line, column, hint=hint))


def split_percent(text: str) -> tuple[str, str | None]:
    r"""Return a command and what it reads: the first bare `%` begins its input, further ones are line ends.

    >>> split_percent(r"mail -s 50\% ops%one%two")
    ('mail -s 50% ops', 'one\ntwo')
    """
    pieces: list[str] = [""]
    end = 0
    for match in _PERCENT.finditer(text):
        pieces[-1] += text[end : match.start()]
        end = match.end()
        if match[0] == "%":
            pieces.append("")
        else:
            pieces[-1] += "%"
    pieces[-1] += text[end:]
    return pieces[0].strip(), "\n".join(pieces[1:]) if len(pieces) > 1 else None


def _split(text: str) -> tuple[str, str] | None:
    match = (_ALIAS if text.startswith("@") else _FIVE).fullmatch(text)
    return (match["fields"], (match["rest"] or "").strip()) if match else None


def _is_entry(text: str, *, system: bool) -> bool:
    split = _split(text)
    words = split[1].split() if split else []
    if split is None or len(words) < 1 + system:
        return False
    try:
        check_cron(split[0])
    except InvalidCron:
        return split[0].lower() == REBOOT
    return any(character.isdigit() or character == "*" for character in split[0]) or split[0].startswith("@")


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else text


CRON_PATH = "/usr/bin:/bin"
CRON_SHELL = "/bin/sh"
ROOT = "root"
_MAIL = ("MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING")
_MAIL_BY_NOTIFY = (
    "`notify: {mail: {apprise: {secret: MAIL_URL}}}` and `defaults: {notify: mail}` send mail for failures"
)
_CRON_ONLY = frozenset({*_MAIL, "CRON_TZ", "RANDOM_DELAY", "LOGNAME", "USER"})
_SILENT = re.compile(
    r"\s*(?:>>?\s*/dev/null\s+2>\s*(?:&1|/dev/null)|&>>?\s*/dev/null|2>\s*/dev/null\s+>\s*/dev/null)\s*$"
)
_BACKGROUND = re.compile(r"(?<![&>])&\s*$")


class _Setting(Struct, frozen=True):
    """The effect of the current variables on the job of an entry."""

    env: Mapping[str, Any]
    """Variables; one whose value looks like a secret as {secret: NAME}."""
    shell: str
    home: str
    timezone: str


def import_crontab(source: Source, *, system: bool = False, several: bool = False) -> Translation:
    """Return the translation of a crontab, with users in its lines if it is one of the system.

    With `several`, other crontabs stand in the same new file: each job has the variables of its own.
    """
    crontab = read_crontab(source.content, file=source.file, system=system)
    return translate(replace(crontab, first={}) if several else crontab, source.timezone, system=system)


def translate(crontab: Crontab, timezone: str, *, system: bool = False) -> Translation:
    """Return the rota.yaml that means the same; `timezone` is that of the machine whose cron read the file."""
    by_hand = [remark for variable in crontab.variables for remark in _about(variable)]
    of_file = _setting(crontab.first, timezone)
    jobs: list[ImportedJob] = []
    left_out = [remark_of(problem) for problem in crontab.problems]
    for entry in crontab.entries:
        if trouble := _unmappable(entry):
            left_out.append(Remark(entry.line, trouble))
            continue
        name = name_for(entry.command, taken=[job.name for job in jobs])
        keys, remarks = _job(name, entry, of_file=of_file)
        by_hand += remarks
        reading = None
        if entry.cron != REBOOT:
            reading = cron_reading(entry.cron, keys.get("timezone", of_file.timezone))
        jobs.append(ImportedJob(name, entry.line, keys, entry.comments, reading))
    by_hand += [Remark(line, "looks like a disabled entry: omitted") for line in crontab.disabled]
    mail = [f"not mapped: {one.name}={one.value}" for one in crontab.variables if one.name in _MAIL and one.value]
    return Translation(
        read=len(crontab.entries) + len(crontab.problems),
        sections=_sections(of_file),
        jobs=tuple(jobs),
        timezone=of_file.timezone,
        kept=_kept(of_file, timezone, system=system),
        by_hand=tuple(sorted(by_hand, key=lambda remark: remark.line)),
        left_out=tuple(sorted(left_out, key=lambda remark: remark.line)),
        header=(*crontab.header, *mail),
        footer=tuple(crontab.footer),
    )


def _setting(variables: Mapping[str, str], timezone: str) -> _Setting:
    own = {name: value for name, value in variables.items() if name not in _CRON_ONLY and is_variable(name)}
    shell = own.get("SHELL") or CRON_SHELL
    named = {name: {"secret": name} if secret_in(value) else value for name, value in own.items()}
    env = {"PATH": CRON_PATH, "SHELL": shell, **named}
    return _Setting(env, shell, own.get("HOME") or "~", variables.get("CRON_TZ") or timezone)


def _about(variable: Variable) -> list[Remark]:
    name, shown = variable.name, f"{variable.name}={variable.value}"
    if name in _MAIL:
        return [Remark(variable.line, f"{shown} is not mapped: {_MAIL_BY_NOTIFY}")] if variable.value else []
    if name == "RANDOM_DELAY":
        return [Remark(variable.line, f"{shown} is not mapped: write `jitter: {variable.value or 5}m` into the jobs")]
    if name in ("LOGNAME", "USER"):
        return [Remark(variable.line, f"{shown} is not mapped: cron ignored it; the user is that of the scheduler")]
    if name == "TZ":
        return [Remark(variable.line, f"{shown} applies to the commands only, as in cron; times follow `timezone`")]
    if is_variable(name) and secret_in(variable.value):
        told = f"`rota secrets set {name}` stores it, and jobs refer to it by name"
        return [Remark(variable.line, f"{name} looks like a secret: {told}")]
    if name == "CRON_TZ" or is_variable(name):
        return []
    return [Remark(variable.line, f"{shown} is not mapped: {NO_VARIABLE}")]


def _unmappable(entry: CrontabEntry) -> str:
    zone_name = entry.variables.get("CRON_TZ")
    try:
        if zone_name and entry.cron != REBOOT:
            zone(zone_name)
    except InvalidTimezone as error:
        return f"`{entry.command}` cannot be mapped: {error.message}; correct CRON_TZ"
    return ""


def _job(name: str, entry: CrontabEntry, *, of_file: _Setting) -> tuple[dict[str, Any], list[Remark]]:
    own = _setting(entry.variables, of_file.timezone)
    shell, remarks = _shell(name, entry)
    keys: dict[str, Any] = {"cron": entry.cron, "shell": shell}
    if {"-n", "--nb", "--nonblock"} & set(flock_options(entry.command)):
        keys["overlap"] = "forbid"
        told = "a start during a run is SKIPPED `overlap`, where flock would fail; you may remove flock"
        remarks.append(Remark(entry.line, f"`flock -n` of {name} is `overlap: forbid`: {told}"))
    if own.timezone != of_file.timezone and entry.cron != REBOOT:
        keys["timezone"] = own.timezone
    if own.shell != of_file.shell:
        keys["shell_with"] = [own.shell, "-c"]
    if own.home != of_file.home:
        keys["cwd"] = own.home
    if env := {key: value for key, value in own.env.items() if of_file.env.get(key) != value}:
        keys["env"] = env
    if entry.user and entry.user != ROOT:
        keys["enabled"] = False
        recipe = f"shell: sudo -u {shlex.quote(entry.user)} -H {own.shell} -c {shlex.quote(shell)}"
        remarks.append(
            Remark(
                entry.line,
                f"{name} ran as {entry.user}: a job runs as the scheduler's user, so it is disabled; "
                f"let the scheduler be {entry.user}, or write `{recipe}` and allow that in sudoers",
            )
        )
    return keys, remarks


def _shell(name: str, entry: CrontabEntry) -> tuple[str, list[Remark]]:
    text, remarks = entry.command, []
    if background := _BACKGROUND.search(text):
        text = text[: background.start()].rstrip()
        told = "otherwise the run kills its background processes"
        remarks.append(Remark(entry.line, f"`&` dropped from {name}: {told}"))
    if silent := _SILENT.search(text):
        told = f"rota keeps the output (rota logs {name})"
        remarks.append(Remark(entry.line, f"`{silent[0].strip()}` dropped from {name}: {told}"))
        text = text[: silent.start()].rstrip()
    if entry.stdin is not None:
        text = with_input(text, entry.stdin)
        remarks.append(Remark(entry.line, f"`%` of {name} is written as a here-document: the lines it reads"))
    return text or ":", remarks


def with_input(command: str, stdin: str) -> str:
    """Return a shell's text in which the whole command reads `stdin`, as cron feeds what follows `%`."""
    lines, mark = stdin.split("\n"), "STDIN"
    while mark in lines:
        mark += "_"
    body = [*lines, mark] if stdin else [mark]
    return "\n".join(["{", command, f"}} <<'{mark}'", *body]) + "\n"


def _kept(of_file: _Setting, timezone: str, *, system: bool) -> tuple[KeptKey, ...]:
    zone_why = "CRON_TZ of the file" if of_file.timezone != timezone else "cron used this machine's local time"
    path_why = "cron's own kept" if of_file.env["PATH"] == CRON_PATH else "as the file sets it"
    kept_keys = [
        KeptKey(f"timezone: {of_file.timezone}", f"{zone_why}; rota's default is UTC"),
        KeptKey("timeout: never", "cron had none; rota's default is 10 min"),
        KeptKey("retry: false", "cron never retried; rota's default is 3 attempts"),
        KeptKey("misfire: skip", "as in cron: instants missed while the machine was down do not run"),
        KeptKey("overlap: allow", "cron did not wait for an earlier run; rota's default is forbid"),
        KeptKey(f"shell_with: [{of_file.shell}, -c]", "cron's shell; rota's default stops at the first error (-e)"),
        KeptKey(f"cwd: {of_file.home}", "cron started in the home folder; rota's default is the project"),
        KeptKey("env.PATH", f"{of_file.env['PATH']}, {path_why}"),
    ]
    if system:
        kept_keys.append(KeptKey("user root", "lines of root need a scheduler that runs as root"))
    return tuple(kept_keys)


def _sections(of_file: _Setting) -> tuple[Section, ...]:
    usual = plain_defaults(misfire="skip", overlap="allow")
    defaults = {**usual, "shell_with": [of_file.shell, "-c"], "cwd": of_file.home, "env": dict(of_file.env)}
    return Section("timezone", of_file.timezone), Section("defaults", defaults)


# Anacron


_ANACRON_VARIABLE = re.compile(r"\s*(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*?)\s*")
_ANACRON_JOB = re.compile(r"\s*(?P<period>\d+|@\w+)\s+(?P<delay>\d+)\s+(?P<id>\S+)\s+(?P<command>.*\S)\s*")
_PERIODS = {"@daily": 1, "@weekly": 7}
_CALENDAR = {"@monthly": "1 * *", "@yearly": "1 1 *", "@annually": "1 1 *"}
_ANACRON_ONLY = {
    *("START_HOURS_RANGE", "RANDOM_DELAY", "MAILTO", "MAILFROM", "SHELL", "PATH", "HOME", "LOGNAME", "NO_MAIL_OUTPUT")
}
FIRST_HOUR = 3
"""The hour of a job where the file has no START_HOURS_RANGE; anacron itself then takes the first hour of the day."""
_ANACRON_KEPT = (
    KeptKey("timeout: never", "anacron had none; rota's default is 10 min"),
    KeptKey("retry: false", "anacron never retried; rota's default is 3 attempts"),
    KeptKey("misfire: once", "as in anacron: what was missed while the machine was off runs once"),
    KeptKey("shell_with", "anacron's shell; rota's default stops at the first error (-e)"),
)


def import_anacron(source: Source) -> Translation:
    """Return the translation of an anacrontab."""
    lines, draft, read = source.text.splitlines(), TranslationDraft(), 0
    variables: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.strip().startswith("#"):
            continue
        if found := _ANACRON_VARIABLE.fullmatch(line):
            variables[found["name"]] = found["value"].strip("\"'")
            draft.by_hand += _about_anacron(number, found["name"], variables[found["name"]])
            continue
        read += 1
        match = _ANACRON_JOB.fullmatch(line)
        if match is None:
            why = "is not an entry of anacron: a period in days, a delay in minutes, a name and a command"
            draft.left_out.append(Remark(number, f"`{line.strip()}` {why}"))
        elif trouble := _trouble(match["period"]):
            draft.left_out.append(Remark(number, f"{match['id']}: {trouble}"))
        else:
            days = _PERIODS.get(match["period"]) or (int(match["period"]) if match["period"].isdigit() else 0)
            name, keys = slug_for(match["id"], taken=draft.names), _anacron_keys(match, days, variables, source)
            reading = _anacron_reading(match["period"], days, source.timezone)
            draft.jobs.append(ImportedJob(name, number, keys, comments_above(lines, number), reading, by_day=True))
    return draft.translation(source.timezone, _anacron_defaults(variables), read=read, kept=_ANACRON_KEPT)


def _about_anacron(line: int, name: str, value: str) -> list[Remark]:
    why = NO_VARIABLE if name not in _ANACRON_ONLY and not is_variable(name) else ""
    if name in ("MAILTO", "MAILFROM") and value:
        why = _MAIL_BY_NOTIFY
    if name == "LOGNAME":
        why = "the user is that of the scheduler"
    return [Remark(line, f"{name}={value} is not mapped: {why}")] if why else []


def _trouble(period: str) -> str:
    if period.startswith("@") and period not in {**_PERIODS, **_CALENDAR}:
        return f"{period} is not a period of anacron"
    return "a period of 0 days never ends" if period == "0" else ""


def _anacron_keys(match: re.Match[str], days: int, variables: Mapping[str, str], source: Source) -> dict[str, Any]:
    period, delay = match["period"], int(match["delay"])
    first, _, last = variables.get("START_HOURS_RANGE", "").partition("-")
    hour = min((int(first) if first.isdigit() and last.isdigit() else FIRST_HOUR) + delay // 60, 23)
    keys: dict[str, Any]
    if period in _CALENDAR or days == 1:
        keys = {"cron": f"{delay % 60} {hour} {_CALENDAR.get(period, '* * *')}"}
    else:
        begin = f"{source.now.astimezone(zone(source.timezone)):%Y-%m-%d} {hour:02}:{delay % 60:02}"
        keys = {"interval": f"{days}d", "anchor": "fixed", "start_at": begin}
    if (random := variables.get("RANDOM_DELAY", "0")).isdigit() and int(random):
        keys["jitter"] = f"{random}m"
    return {**keys, "shell": match["command"]}


def _anacron_reading(period: str, days: int, timezone: str) -> Reading:
    """Return anacron's own rule on a machine that is always on: a job runs on the first day after its period."""

    def read(after: datetime, count: int) -> list[datetime]:
        day = after.astimezone(zone(timezone)).replace(hour=12, minute=0, second=0, microsecond=0)
        last, found = day, list[datetime]()
        while len(found) < count:
            day += timedelta(days=1)
            if period in ("@yearly", "@annually"):
                due = day.year != last.year
            elif period == "@monthly":
                due = (day.year, day.month) != (last.year, last.month)
            else:
                due = (day.date() - last.date()).days >= days
            if due:
                last = day
                found.append(day)
        return found

    return read


def _anacron_defaults(variables: Mapping[str, str]) -> dict[str, Any]:
    shell = variables.get("SHELL") or CRON_SHELL
    others = {name: value for name, value in variables.items() if name not in _ANACRON_ONLY and is_variable(name)}
    env = {"PATH": variables.get("PATH") or CRON_PATH, "SHELL": shell, **others}
    defaults = {**plain_defaults(misfire="once"), "shell_with": [shell, "-c"]}
    return {**defaults, "cwd": variables.get("HOME") or "/", "env": env}
