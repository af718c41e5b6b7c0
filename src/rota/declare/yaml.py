"""YAML files: composing with line and column, and recovery from unquoted scalars."""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from rota.model.errors import FileProblems, KeyPath, Problem
from rota.settings import FILE_NAME

if TYPE_CHECKING:
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

DEPTH_LIMIT = 20
NO_MAP = "the top level is not a map of sections"
SECTIONS_HINT = "write sections such as `timezone:` and `jobs:` at the left margin"
DIGITS_LIMIT = 300

Mark = tuple[int, int]

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII
)
UNUSABLE = re.compile("[\x00\ud800-\udfff]")
"""Characters that no program can receive."""
TEXT_HINT, KEY_HINT = "programs cannot receive it; remove it", "remove it"


class WrittenInt(int):
    """An integer that remembers its spelling: an environment variable `0755` stays `0755`."""

    written: str


class WrittenFloat(float):
    """A number that remembers its spelling: an environment variable `1.10` stays `1.10`."""

    written: str


class UnreadableText(Exception):
    """The text cannot be read beyond the last of `problems`; `flow` where that is inside of brackets."""

    def __init__(self, problems: list[Problem], *, flow: bool) -> None:
        super().__init__(problems[-1].message)
        self.problems = problems
        self.flow = flow


class Composed(Struct):
    """The result of the events of one text."""

    data: Any = None
    keys: dict[KeyPath, Mark] = field(default_factory=dict)
    values: dict[Mark, KeyPath] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def compose(text: str) -> Composed:
    """Return the value that `text` spells; raise UnreadableText where nothing more can be read."""
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    composer = _Composer(text)
    try:
        composer.run()
    except UnreadableText:
        raise
    except ReaderError as error:
        raise composer.stopped(_unreadable(text, error)) from None
    except MarkedYAMLError as error:
        raise composer.stopped(_syntax(error)) from None
    except Exception as error:  # some texts raise errors of any type in the parser itself
        raise composer.stopped(_problem(f"is not valid YAML: {error}", "yaml_syntax", composer.last)) from None
    return composer.composed


def _problem(message: str, code: str, mark: Mark, at: KeyPath = (), *, hint: str = "") -> Problem:
    return Problem(message, code, "", *mark, at=at, hint=hint)


def _unreadable(text: str, error: "ReaderError") -> Problem:
    match = re.search(YAML_REFUSED, text)
    index = match.start() if match else 0
    line = text.count("\n", 0, index) + 1
    column = index - (text.rfind("\n", 0, index) + 1) + 1
    code = f"U+{ord(text[index]):04X}" if text else str(error.reason)
    return _problem(f"character {code} is not allowed in YAML", "yaml_character", (line, column), hint="remove it")


YAML_REFUSED = "[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


def _syntax(error: "MarkedYAMLError") -> Problem:
    mark = error.problem_mark or error.context_mark
    place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    problem = str(error.problem or error.context or "cannot be read")
    if "'\\t'" in problem:
        return _problem("a tab cannot indent YAML", "yaml_syntax", place, hint="use spaces")
    if error.context in _BRACKETS and error.context_mark:
        return _unclosed(_BRACKETS[error.context], error.context_mark, before=place)
    context = f" {error.context}" if error.context and error.problem else ""
    return _problem(f"is not valid YAML: {problem}{context}", "yaml_syntax", place, hint=_SYNTAX_HINTS.get(problem, ""))


def _unclosed(brackets: tuple[str, str], opened: Any, *, before: Mark) -> Problem:
    opening, closing = brackets
    hint = f"write `{closing}` where it ends, or a comma between its parts, before {before[0]}:{before[1]}"
    place = (opened.line + 1, opened.column + 1)
    return _problem(f"this `{opening}` is not closed", "yaml_syntax", place, hint=hint)


_BRACKETS = {"while parsing a flow mapping": ("{", "}"), "while parsing a flow sequence": ("[", "]")}
_SYNTAX_HINTS = {
    "mapping values are not allowed here": "put a value that contains `: ` in quotes, or check the indentation",
    "could not find expected ':'": "write `key: value`",
}


class _Composer:
    def __init__(self, text: str) -> None:
        self.composed = Composed()
        from ruamel.yaml import YAML, events

        self.kinds = events
        self.events: Iterator[Any] = YAML(typ="safe", pure=True).parse(text)
        self.last: Mark = (1, 1)
        self.flow = 0
        self.documents = 0

    def run(self) -> None:
        """Read all events; the first document becomes the data."""
        for event in self.events:
            self.last = _mark(event)
            if isinstance(event, self.kinds.DocumentStartEvent):
                self._start_document()
            elif isinstance(event, self.kinds.SequenceStartEvent):
                raise self.stopped(_problem(NO_MAP, "yaml_top_level", self.last, hint=SECTIONS_HINT))
            elif isinstance(event, self.kinds.AliasEvent | self.kinds.ScalarEvent | self.kinds.MappingStartEvent):
                self.composed.data = self._node(event, (), depth=1)
            elif isinstance(event, self.kinds.StreamEndEvent):
                return

    def stopped(self, problem: Problem) -> UnreadableText:
        """Return the exception for a text that cannot be read beyond `problem`."""
        return UnreadableText([*self.composed.problems, problem], flow=self.flow > 0)

    def _start_document(self) -> None:
        self.documents += 1
        if self.documents > 1:
            message = "a second document starts here"
            raise self.stopped(_problem(message, "yaml_documents", self.last, hint="split it into two files"))

    def _node(self, event: Any, path: KeyPath, *, depth: int) -> Any:
        mark = _mark(event)
        if isinstance(event, self.kinds.AliasEvent):
            message = "`*` starts a YAML alias here"
            raise self.stopped(_problem(message, "yaml_alias", mark, path, hint="write the value in full"))
        self.composed.values.setdefault(mark, path)
        self._refuse_marks(event, mark, path)
        if isinstance(event, self.kinds.ScalarEvent):
            return self._scalar(event, mark, path)
        if depth > DEPTH_LIMIT:
            message = f"is nested more than {DEPTH_LIMIT} deep"
            raise self.stopped(_problem(message, "yaml_depth", mark, path, hint="flatten it"))
        flow = bool(event.flow_style)
        self.flow += flow
        mapping = isinstance(event, self.kinds.MappingStartEvent)
        value = self._mapping(path, depth=depth) if mapping else self._sequence(path, depth=depth)
        self.flow -= flow
        return value

    def _refuse_marks(self, event: Any, mark: Mark, path: KeyPath) -> None:
        if event.anchor:
            hint = "repeat the value, or put it in quotes if it is a text"
            self._add(f"`&{event.anchor}` is a YAML anchor", "yaml_anchor", mark, path, hint=hint)
        if event.ctag and not (isinstance(event, self.kinds.ScalarEvent) and event.style and event.implicit[1]):
            hint = "remove it, or put the value in quotes if it is a text"
            self._add(f"`{event.tag}` is a YAML tag", "yaml_tag", mark, path, hint=hint)

    def _add(self, message: str, code: str, mark: Mark, path: KeyPath, *, hint: str) -> None:
        self.composed.problems.append(_problem(message, code, mark, path, hint=hint))

    def _scalar(self, event: Any, mark: Mark, path: KeyPath) -> Any:
        text: str = event.value
        if match := UNUSABLE.search(text):
            message = f"holds the character U+{ord(match[0]):04X}"
            self._add(message, "yaml_character", mark, path, hint=TEXT_HINT)
            return ""
        if event.style or event.ctag:
            return text
        if len(text) > DIGITS_LIMIT and _INTEGER.fullmatch(text):
            self._add("is too long for a number", "yaml_number", mark, path, hint="put it in quotes")
            return 0
        return plain_value(text)

    def _mapping(self, path: KeyPath, *, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := self._next(), self.kinds.MappingEndEvent):
            key, mark = self._key(event, path, depth=depth), _mark(event)
            below = (*path, key)
            known = self.composed.keys.setdefault(below, mark)
            value = self._node(self._next(), below, depth=depth + 1)
            if key in found:
                message = f"appears twice, first in line {known[0]}"
                self._add(message, "yaml_duplicate_key", mark, below, hint="keep one of them")
            else:
                found[key] = value
        return found

    def _key(self, event: Any, path: KeyPath, *, depth: int) -> str:
        mark = _mark(event)
        if not isinstance(event, self.kinds.ScalarEvent):
            if isinstance(event, self.kinds.AliasEvent):
                self._node(event, path, depth=depth)
            message, hint = "a map or list is in the place of a key", "put a value that starts with `{` in quotes"
            raise self.stopped(_problem(message, "yaml_key", mark, path, hint=hint))
        self._refuse_marks(event, mark, (*path, event.value))
        if event.value == "<<" and not event.style:
            hint = "write the keys out, or put them into `defaults:`"
            self._add("merge keys are not supported", "yaml_merge", mark, (*path, "<<"), hint=hint)
        if match := UNUSABLE.search(event.value):
            message = f"a key holds the character U+{ord(match[0]):04X}"
            self._add(message, "yaml_character", mark, path, hint=KEY_HINT)
            return UNUSABLE.sub("\ufffd", event.value)
        return str(event.value)

    def _sequence(self, path: KeyPath, *, depth: int) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := self._next(), self.kinds.SequenceEndEvent):
            below = (*path, len(found))
            self.composed.keys.setdefault(below, _mark(event))
            found.append(self._node(event, below, depth=depth + 1))
        return found

    def _next(self) -> Any:
        event = next(self.events)
        self.last = _mark(event)
        return event


def _mark(event: Any) -> Mark:
    return event.start_mark.line + 1, event.start_mark.column + 1


def plain_value(text: str) -> Any:
    """Return the value of an unquoted scalar by YAML 1.2's core rules; dates and times stay texts.

    >>> plain_value("2026-11-15"), plain_value("no"), plain_value("0x10")
    ('2026-11-15', 'no', 16)
    """
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if _INTEGER.fullmatch(text):
        number = int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        return number if str(number) == text else _remember(WrittenInt(number), text)
    if _FLOAT.fullmatch(text):
        value = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        return value if str(value) == text else _remember(WrittenFloat(value), text)
    return text


def _remember(number: Any, text: str) -> Any:
    number.written = text
    return number


_WORD = r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}+"
_QUOTED = r"""\"(?P<double>[^"\\]*)"|'(?P<single>[^']*)'"""
_REST = "(?: +(?:#.*)?)?"
_PLAIN = r"""(?:-(?=[^ ])|[^ \-?:,\[\]{}#&*!|>'"%@`])(?:[^ :#]|:(?=[^ ])|(?<=[^ ])#| +(?=[^ #]))*"""
# A lookahead and its group: `*+` keeps spaces that it should give back in Python before 3.11.5.
_SIMPLE_VALUE = re.compile(f"(?:{_QUOTED}|(?=(?P<plain>{_PLAIN}))(?P=plain)){_REST}")
_FLOW_PLAIN = "(?:-(?=[0-9])|[A-Za-z0-9_./~])(?: *[A-Za-z0-9_./~=+@$%-]|:(?=[A-Za-z0-9_./]))*"
_FLOW_VALUE = re.compile(f"(?:{_QUOTED}|(?=(?P<plain>{_FLOW_PLAIN}))(?P=plain))")
_FLOW_KEY = re.compile(f"({_WORD}): +")
_BLOCK = re.compile(rf"\|{_REST}")
_KEY_LINE = re.compile(f"( *)({_WORD}):(?: +(?=[^ #])|(?={_REST}$))")
_ITEM_LINE = re.compile("( *)- +(?=[^ #])")
_EMPTY_LINE = re.compile(" *(?:#.*)?")
_LINE_REST = re.compile(_REST)
_SPACES = re.compile(" *")


class NotSimple(Exception):
    """The text needs all of YAML."""


def read_simple(text: str) -> Composed | None:
    """Return the value of a text whose values stand on one line each or below `|`, None for any other text.

    Most files are written so, and this is ten times as fast as `compose`, which finds the same value.
    """
    if not text.replace("\n", "").isprintable():
        return None
    reader = _SimpleReader()
    try:
        for number, line in enumerate(text.split("\n"), 1):
            reader.read(line, number)
        if reader.block and reader.block[-1]:  # a last line without its end
            return None
        reader.end_block()
    except NotSimple:
        return None
    return Composed(reader.data, reader.keys)


class _SimpleReader:
    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.keys: dict[KeyPath, Mark] = {}
        self.maps: list[tuple[int, dict[str, Any], KeyPath]] = [(0, self.data, ())]
        """The open maps with the columns and paths of their keys."""
        self.open: KeyPath | None = None
        """The last key, while it has no value."""
        self.items: tuple[int, list[Any], KeyPath] | None = None
        """The open list."""
        self.block: list[str] | None = None
        """The lines of an open text, the value of the last key."""
        self.number = 0

    def read(self, line: str, number: int) -> None:
        self.number = number
        if self.block is not None:
            if not line.strip() or _after_spaces(line, 0) > self.maps[-1][0]:
                self.block.append(line)
                return
            self.end_block()
        if match := _KEY_LINE.match(line):
            self._key(line, match)
        elif match := _ITEM_LINE.match(line):
            self._item(line, match)
        elif not _EMPTY_LINE.fullmatch(line):
            raise NotSimple

    def _key(self, line: str, found: re.Match[str]) -> None:
        column, name = found.end(1), found[2]
        if self.open is not None and column > self.maps[-1][0]:
            if len(self.open) >= DEPTH_LIMIT:
                raise NotSimple
            inner: dict[str, Any] = {}
            self.maps[-1][1][self.open[-1]] = inner  # type: ignore[index]
            self.maps.append((column, inner, self.open))
        while column < self.maps[-1][0]:
            self.maps.pop()
        at, values, path = self.maps[-1]
        if column != at or name in values:
            raise NotSimple
        below = (*path, name)
        self.keys[below] = (self.number, column + 1)
        self.items = None
        if _BLOCK.fullmatch(line, found.end()):
            self.open, self.block = below, []
        elif found.end() < len(line) and line[found.end() - 1] == " ":
            self.open, values[name] = None, self._value(line, found.end(), below)
        else:
            self.open, values[name] = below, None

    def end_block(self) -> None:
        """Store the text that `|` began, without the blank lines after it."""
        if self.block is None:
            return
        lines, margin = self.block, _after_spaces(self.block[0] if self.block else "", 0)
        blank = [line for line in lines if not line.strip()]
        short = any(line.strip() and _after_spaces(line, 0) < margin for line in lines)
        if not margin or short or lines[0] in blank or any(len(line) > margin for line in blank) or self.open is None:
            raise NotSimple
        while lines[-1] in blank:
            lines.pop()
        self.maps[-1][1][self.open[-1]] = "".join(f"{line[margin:]}\n" for line in lines)  # type: ignore[index]
        self.open = self.block = None

    def _item(self, line: str, found: re.Match[str]) -> None:
        column = found.end(1)
        if self.open is not None and column >= self.maps[-1][0] and len(self.open) < DEPTH_LIMIT:
            self.items = (column, [], self.open)
            self.maps[-1][1][self.open[-1]] = self.items[1]  # type: ignore[index]
            self.open = None
        if self.items is None or column != self.items[0]:
            raise NotSimple
        _, items, path = self.items
        below = (*path, len(items))
        self.keys[below] = (self.number, found.end() + 1)
        items.append(self._value(line, found.end(), below))

    def _value(self, line: str, at: int, path: KeyPath) -> Any:
        if line[at] not in "[{":
            return _simple_scalar(_SIMPLE_VALUE.fullmatch(line, at))
        value, end = self._flow(line, at, path)
        if not _LINE_REST.fullmatch(line, end):
            raise NotSimple
        return value

    def _flow(self, line: str, at: int, path: KeyPath) -> tuple[Any, int]:
        """Return a list or map in brackets, and where it ends."""
        if len(path) >= DEPTH_LIMIT:
            raise NotSimple
        names: list[str | int] = []
        values: list[Any] = []
        closing, named = ("}", True) if line[at] == "{" else ("]", False)
        at = _after_spaces(line, at + 1)
        while line[at : at + 1] != closing:
            if values:
                if line[at : at + 1] != ",":
                    raise NotSimple
                at = _after_spaces(line, at + 1)
            start = at
            key = _FLOW_KEY.match(line, at) if named else None
            if named and (key is None or key[1] in names):
                raise NotSimple
            names.append(key[1] if key else len(names))
            at = key.end() if key else at
            below = (*path, names[-1])
            self.keys[below] = (self.number, start + 1)
            if line[at : at + 1] in ("[", "{"):
                value, at = self._flow(line, at, below)
            else:
                match = _FLOW_VALUE.match(line, at)
                value, at = _simple_scalar(match), match.end() if match else at
            values.append(value)
            at = _after_spaces(line, at)
        return (dict(zip(names, values, strict=True)) if named else values), at + 1


def _after_spaces(line: str, at: int) -> int:
    match = _SPACES.match(line, at)
    return match.end() if match else at


def _simple_scalar(found: re.Match[str] | None) -> Any:
    if found is None or len(found[0]) > DIGITS_LIMIT:
        raise NotSimple
    text = found[str(found.lastgroup)]
    return plain_value(text) if found.lastgroup == "plain" else text


SPECIAL = "*@`%"
_STARTS = re.compile(r"(?:^|(?<=[:\-])\s|[,\[{])\s*(\*)")
QUOTE_HINTS = {"yaml_alias": "put the expression in quotes: {key}", "yaml_quotes": "put it in quotes: {key}"}


def mend(text: str, stopped: UnreadableText) -> tuple[str, Problem] | None:
    """Return `text` with the value at which reading stopped in quotes, and its problem with these quotes as hint.

    None when quotes are not what is missing.
    """
    last = stopped.problems[-1]
    line, lines = last.line, text.split("\n")
    if last.code not in ("yaml_alias", "yaml_syntax") or line > len(lines):
        return None
    row = lines[line - 1]
    start = _start(row, last.column - 1)
    if start is None:
        return None
    rest = row[start:]
    value = rest[: _end(rest, flow=stopped.flow or _opens_flow(row[:start]))].rstrip()
    lines[line - 1] = row[:start] + "'" + value.replace("'", "''") + "'" + rest[len(value) :]
    message = f"`{rest[0]}` starts a YAML alias here" if rest[0] == "*" else f"`{rest[0]}` cannot start a value in YAML"
    code = "yaml_alias" if rest[0] == "*" else "yaml_quotes"
    return "\n".join(lines), _problem(message, code, (line, start + 1), hint=_in_quotes(value))


def _start(row: str, index: int) -> int | None:
    if row[index : index + 1] and row[index] in SPECIAL:
        return index
    # The parser trips one character after the `*` of `* * * * *`, or at the second one of a list's item.
    before = [match.start(1) for match in _STARTS.finditer(row) if match.start(1) < index]
    return before[-1] if before else None


def _opens_flow(before: str) -> bool:
    opened = before.count("{") + before.count("[")
    return opened > before.count("}") + before.count("]")


def _end(rest: str, *, flow: bool) -> int:
    ends = [rest.find(" #")]
    if flow:
        ends += [rest.find(mark) for mark in (",", "}", "]")]
    return min((end for end in ends if end >= 0), default=len(rest))


def _in_quotes(value: str) -> str:
    shown = value if len(value) <= 80 else value[:79] + "…"
    return f"'{shown}'" if '"' in shown or "\\" in shown else f'"{shown}"'


SIZE_LIMIT = 1_000_000
MENDS = 20
MEND_SIZE = 100_000


class Document(Struct, frozen=True):
    """The content of a file: plain values, where each key and item stands, and what is wrong with the YAML itself.

    Values below a `spoilt` path are not reported again.
    """

    file: str
    data: Any
    keys: Mapping[KeyPath, tuple[int, int]]
    problems: tuple[Problem, ...] = ()
    spoilt: frozenset[KeyPath] = frozenset()
    files: Mapping[KeyPath, str] = field(default_factory=dict)
    """The files of the keys that stand in another one than `file`."""

    def position(self, path: KeyPath) -> tuple[int, int]:
        """Return line and column (from 1) of the key or item at `path`, else of the nearest one that holds it."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.keys.get(path, (1, 1))

    def place(self, path: KeyPath) -> tuple[str, int, int]:
        """Return file, line and column of the key or item at `path`."""
        file = next((self.files[part] for part in (path[:2], path[:1]) if part in self.files), self.file)
        return (file, *self.position(path))


def load(path: Path, *, named: str | None = None) -> Document:
    """Return the document in the file at `path`, `named` so in messages; raise FileProblems when it cannot be read."""
    document = _parsed(_content(path, named), named or path.name)
    return replace(document, data=deepcopy(document.data))


def load_again(path: Path) -> Document:
    """Return the document without a copy, for frequent callers that do not change it."""
    return _parsed(_content(path, None), path.name)


@lru_cache(maxsize=4)
def _parsed(content: bytes, file: str) -> Document:
    """Read bytes once: one command asks for the same file two or three times, and half its time is reading YAML."""
    return parse(content, file)


def _content(path: Path, named: str | None) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(SIZE_LIMIT + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise FileProblems([Problem(f"cannot be read: {why}", "file_unreadable", named or str(path))]) from None


def parse(content: bytes, file: str = FILE_NAME) -> Document:
    """Return the document that `content` spells; raise FileProblems when it cannot be read at all."""
    if len(content) > SIZE_LIMIT:
        hint = "split the work or move long texts into files of their own"
        raise FileProblems([Problem("is larger than 1 MB", "yaml_size", file, hint=hint)])
    text = decode(content, file, hint="save the file as UTF-8")
    mended: list[Problem] = []
    while True:
        try:
            composed = (None if mended else read_simple(text)) or compose(text)
            break
        except UnreadableText as stopped:
            found = mend(text, stopped) if len(mended) < MENDS and len(text) <= MEND_SIZE else None
            if found is None:
                raise FileProblems(_all_problems(file, Composed(problems=stopped.problems), mended)) from None
            text, problem = found
            mended.append(problem)
    return _document(file, composed, mended=mended)


def decode(content: bytes, file: str, *, hint: str) -> str:
    """Return the text of a file; raise FileProblems where it is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1
        message = f"byte 0x{content[error.start]:02x} is not UTF-8"
        problem = Problem(message, "yaml_encoding", file, line, column, hint=hint)
        raise FileProblems([problem]) from None


def _document(file: str, composed: Composed, *, mended: list[Problem]) -> Document:
    problems = _all_problems(file, composed, mended)
    data = {} if composed.data is None else composed.data  # no text but comments: a file that declares nothing
    if not isinstance(data, dict):
        raise FileProblems([*problems, Problem(NO_MAP, "yaml_top_level", file, 1, 1, hint=SECTIONS_HINT)])
    spoilt = {problem.at for problem in problems if problem.code != "yaml_duplicate_key"}
    return Document(file, data, composed.keys, tuple(problems), frozenset(spoilt - {()}))


def _all_problems(file: str, composed: Composed, mended: list[Problem]) -> list[Problem]:
    problems = [replace(problem, file=file) for problem in composed.problems]
    for problem in mended:
        path = composed.values.get((problem.line, problem.column), ())
        key = f"{path[-1]}: " if path and isinstance(path[-1], str) else ""
        hint = QUOTE_HINTS[problem.code].format(key=key) + problem.hint
        problems.append(replace(problem, file=file, at=path, hint=hint))
    return sorted(problems, key=lambda problem: (problem.line, problem.column))
