"""The lines of a crontab: entries, variables and comments, read as Vixie cron and its descendants read them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.model.errors import FileProblems, InvalidCron, Problem
from rota.rules.cron import check_cron

REBOOT = "@reboot"
SIZE_LIMIT = 1_000_000
_VARIABLE = re.compile(r"""\s*(?P<name>"[^"]*"|'[^']*'|[^\s=#"'@*][^\s="']*)\s*=\s*(?P<value>.*?)\s*""")
_ALIAS = re.compile(r"(?P<fields>@\S+)(?:\s+(?P<rest>.*))?", re.DOTALL)
_FIVE = re.compile(r"(?P<fields>\S+(?:\s+\S+){4})(?:\s+(?P<rest>.*))?", re.DOTALL)
_USER = re.compile(r"(?P<user>\S+)(?:\s+(?P<rest>.*))?", re.DOTALL)
_FIELD_LIKE = re.compile(r"[0-9*][0-9*,/-]*")
_PERCENT = re.compile(r"\\%|%")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line that starts a command, with the variables in force there."""

    line: int
    cron: str
    command: str
    stdin: str | None = None
    user: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Variable:
    """One line that sets a variable for the entries below it."""

    line: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Crontab:
    """A crontab that was read whole; `first` are the variables set before the first entry."""

    entries: tuple[Entry, ...]
    variables: tuple[Variable, ...]
    first: Mapping[str, str]
    header: tuple[str, ...] = ()
    footer: tuple[str, ...] = ()
    disabled: tuple[int, ...] = ()


def read_crontab(content: bytes, *, file: str, system: bool = False) -> Crontab:
    """Return the lines of a crontab; raise FileProblems with every line that cannot be read."""
    if len(content) > SIZE_LIMIT:
        raise FileProblems([Problem("is larger than 1 MB", "yaml_size", file, hint="a crontab is never that large")])
    reading = _Reading(file, system=system)
    for number, line in enumerate(_decode(content, file).split("\n"), start=1):
        reading.line(number, line.rstrip("\r"))
    return reading.result()


def _decode(content: bytes, file: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        message = f"byte 0x{content[error.start]:02x} is not UTF-8"
        hint = "convert it first: iconv -f latin1 -t utf-8"
        raise FileProblems([Problem(message, "yaml_encoding", file, line, column, hint=hint)]) from None


class _Reading:
    """One pass over the lines; collects problems."""

    def __init__(self, file: str, *, system: bool) -> None:
        self.file = file
        self.system = system
        self.problems: list[Problem] = []
        self.entries: list[Entry] = []
        self.variables: list[Variable] = []
        self.first: dict[str, str] = {}
        self.header: list[str] = []
        self.pending: list[str] = []
        self.disabled: list[int] = []

    def line(self, number: int, line: str) -> None:
        """Take one line in."""
        text = line.strip()
        if text.startswith("#"):
            self._comment(number, text[1:].strip())
        elif not text:
            self._gap()
        elif found := _VARIABLE.fullmatch(line):
            self._variable(Variable(number, _unquoted(found["name"]), _unquoted(found["value"])))
        else:
            self._entry(number, line)

    def result(self) -> Crontab:
        """Return what was read, or tell all that could not be."""
        if self.problems:
            raise FileProblems(self.problems)
        first = self.first if self.entries else self._variables()
        return Crontab(
            tuple(self.entries),
            tuple(self.variables),
            first,
            header=tuple(self.header),
            footer=tuple(self.pending),
            disabled=tuple(self.disabled),
        )

    def _variables(self) -> dict[str, str]:
        return {variable.name: variable.value for variable in self.variables}

    def _gap(self) -> None:
        if not self.entries:
            self.header += self.pending
            self.pending = []

    def _variable(self, variable: Variable) -> None:
        self.header += self.pending
        self.pending = []
        self.variables.append(variable)

    def _comment(self, number: int, text: str) -> None:
        if _is_entry(text, system=self.system):
            self.disabled.append(number)
        elif text:
            self.pending.append(text)

    def _entry(self, number: int, line: str) -> None:
        begin = len(line) - len(line.lstrip())
        split = _split(line.strip())
        if split is None:
            hint = "an entry is five fields and a command, a variable is NAME=value, a comment starts with #"
            self._wrong(number, begin + 1, "is no entry, variable or comment", hint=hint)
            return
        fields, rest = split
        cron = self._cron(number, begin + 1, fields)
        at = line.find(rest, begin + len(fields)) + 1 if rest else len(line) + 1
        user, rest, at = self._user(rest, at) if self.system else ("", rest, at)
        if cron is None or not self._is_command(number, at, rest):
            return
        if not self.entries:
            self.first = self._variables()
        command, stdin = split_percent(rest)
        entry = Entry(number, cron, command, stdin, user, self._variables(), tuple(self.pending))
        self.entries.append(entry)
        self.pending = []

    def _cron(self, number: int, column: int, fields: str) -> str | None:
        if fields.lower() == REBOOT:
            return REBOOT
        try:
            check_cron(fields)
            return " ".join(fields.split())
        except InvalidCron as error:
            self.problems.append(Problem(error.message, error.code, self.file, number, column, hint=error.hint))
            return None

    def _user(self, rest: str, at: int) -> tuple[str, str, int]:
        found = _USER.fullmatch(rest)
        if found is None:
            return "", "", at
        return found["user"], found["rest"] or "", at + (found.start("rest") if found["rest"] else len(rest))

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
        self.problems.append(Problem(message, "crontab_line", self.file, line, column, hint=hint))


def split_percent(text: str) -> tuple[str, str | None]:
    r"""Return a command and what it reads: the first bare `%` begins its input, further ones are line ends.

    >>> split_percent(r"mail -s 50\% ops%one%two")
    ('mail -s 50% ops', 'one\ntwo')
    """
    pieces: list[str] = [""]
    end = 0
    for found in _PERCENT.finditer(text):
        pieces[-1] += text[end : found.start()]
        end = found.end()
        if found[0] == "%":
            pieces.append("")
        else:
            pieces[-1] += "%"
    pieces[-1] += text[end:]
    return pieces[0].strip(), "\n".join(pieces[1:]) if len(pieces) > 1 else None


def _split(text: str) -> tuple[str, str] | None:
    found = (_ALIAS if text.startswith("@") else _FIVE).fullmatch(text)
    return (found["fields"], (found["rest"] or "").strip()) if found else None


def _is_entry(text: str, *, system: bool) -> bool:
    """Tell whether a comment is an entry that somebody has switched off."""
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
