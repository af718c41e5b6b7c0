"""Values and positions from YAML events, within limits: no aliases, anchors, tags, merges or duplicate keys."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from ruamel.yaml.reader import ReaderError

DEPTH_LIMIT = 20
NO_MAP = "the top level is not a map of sections"
SECTIONS_HINT = "write sections such as `timezone:` and `jobs:` at the left margin"
DIGITS_LIMIT = 300

Mark = tuple[int, int]
KeyPath = tuple[str | int, ...]

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII
)
UNUSABLE = re.compile("[\x00\ud800-\udfff]")
"""What no program can be given, however it is written."""
TEXT_HINT, KEY_HINT = "no program can be given such a text; remove it", "remove it"


class WrittenInt(int):
    """An integer that remembers its spelling: an environment variable `0755` stays `0755`."""

    written: str


class WrittenFloat(float):
    """A number that remembers its spelling: an environment variable `1.10` stays `1.10`."""

    written: str


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something in the YAML that rota does not take."""

    message: str
    code: str
    mark: Mark
    path: KeyPath = ()
    hint: str = ""


class Stopped(Exception):
    """The text cannot be read beyond `mark`; `alias` when an alias stands there."""

    def __init__(self, flaw: Flaw, *, alias: bool = False, flow: bool = False) -> None:
        super().__init__(flaw.message)
        self.flaw = flaw
        self.alias = alias
        self.flow = flow
        self.before: list[Flaw] = []


@dataclass(slots=True)
class Composed:
    """What the events of one text amount to."""

    data: Any = None
    keys: dict[KeyPath, Mark] = field(default_factory=dict)
    values: dict[Mark, KeyPath] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)

    @classmethod
    def empty(cls, stopped: Stopped) -> "Composed":
        """Return what is known of a text that could not be read to its end."""
        return cls(flaws=[*stopped.before, stopped.flaw])


def compose(text: str) -> Composed:
    """Return the value that `text` spells; raise Stopped where nothing more can be read."""
    composer = _Composer(text)
    try:
        composer.run()
    except Stopped as stopped:
        stopped.before = composer.composed.flaws
        raise
    except ReaderError as error:
        raise composer.stopped(_unreadable(text, error)) from None
    except MarkedYAMLError as error:
        raise composer.stopped(_syntax(error)) from None
    except Exception as error:  # the parser meets text of any kind, and some of it trips the parser itself
        raise composer.stopped(Flaw(f"is no YAML: {error}", "yaml_syntax", composer.last)) from None
    return composer.composed


def _unreadable(text: str, error: ReaderError) -> Flaw:
    match = YAML_REFUSED.search(text)
    index = match.start() if match else 0
    line = text.count("\n", 0, index) + 1
    column = index - (text.rfind("\n", 0, index) + 1) + 1
    code = f"U+{ord(text[index]):04X}" if text else str(error.reason)
    return Flaw(f"character {code} is not allowed in YAML", "yaml_character", (line, column), hint="remove it")


YAML_REFUSED = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _syntax(error: MarkedYAMLError) -> Flaw:
    mark = error.problem_mark or error.context_mark
    place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    problem = str(error.problem or error.context or "cannot be read")
    if "'\\t'" in problem:
        return Flaw("a tab cannot indent YAML", "yaml_syntax", place, hint="use spaces")
    if error.context in _BRACKETS and error.context_mark:
        return _unclosed(_BRACKETS[error.context], error.context_mark, before=place)
    context = f" {error.context}" if error.context and error.problem else ""
    return Flaw(f"is no YAML: {problem}{context}", "yaml_syntax", place, hint=_SYNTAX_HINTS.get(problem, ""))


def _unclosed(brackets: tuple[str, str], opened: Any, *, before: Mark) -> Flaw:
    opening, closing = brackets
    hint = f"write `{closing}` where it ends, or a comma between its parts, before {before[0]}:{before[1]}"
    place = (opened.line + 1, opened.column + 1)
    return Flaw(f"this `{opening}` is not closed", "yaml_syntax", place, hint=hint)


_BRACKETS = {"while parsing a flow mapping": ("{", "}"), "while parsing a flow sequence": ("[", "]")}
_SYNTAX_HINTS = {
    "mapping values are not allowed here": "put a value that holds `: ` in quotes, or check the indentation",
    "could not find expected ':'": "write `key: value`",
}


class _Composer:
    def __init__(self, text: str) -> None:
        self.composed = Composed()
        self.events: Iterator[Any] = YAML(typ="safe", pure=True).parse(text)
        self.last: Mark = (1, 1)
        self.flow = 0
        self.documents = 0

    def run(self) -> None:
        """Read all events; the first document becomes the data."""
        for event in self.events:
            self.last = _mark(event)
            if isinstance(event, DocumentStartEvent):
                self._start_document()
            elif isinstance(event, SequenceStartEvent):
                raise Stopped(Flaw(NO_MAP, "yaml_top_level", self.last, hint=SECTIONS_HINT))
            elif isinstance(event, AliasEvent | ScalarEvent | MappingStartEvent):
                self.composed.data = self._node(event, (), depth=1)
            elif isinstance(event, StreamEndEvent):
                return

    def stopped(self, flaw: Flaw) -> Stopped:
        """Return the exception for a text that ends for us at `flaw`."""
        stopped = Stopped(flaw, flow=self.flow > 0)
        stopped.before = self.composed.flaws
        return stopped

    def _start_document(self) -> None:
        self.documents += 1
        if self.documents > 1:
            raise Stopped(
                Flaw("a second document starts here", "yaml_documents", self.last, hint="write one file each")
            )

    def _node(self, event: Any, path: KeyPath, *, depth: int) -> Any:
        mark = _mark(event)
        if isinstance(event, AliasEvent):
            flaw = Flaw("`*` starts a YAML alias here", "yaml_alias", mark, path, hint="write the value out")
            raise Stopped(flaw, alias=True, flow=self.flow > 0)
        self.composed.values.setdefault(mark, path)
        self._refuse_marks(event, mark, path)
        if isinstance(event, ScalarEvent):
            return self._scalar(event, mark, path)
        if depth > DEPTH_LIMIT:
            raise Stopped(Flaw(f"is nested more than {DEPTH_LIMIT} deep", "yaml_depth", mark, path, hint="flatten it"))
        flow = bool(event.flow_style)
        self.flow += flow
        mapping = isinstance(event, MappingStartEvent)
        value = self._mapping(path, depth=depth) if mapping else self._sequence(path, depth=depth)
        self.flow -= flow
        return value

    def _refuse_marks(self, event: Any, mark: Mark, path: KeyPath) -> None:
        if event.anchor:
            flaw = Flaw(f"`&{event.anchor}` is a YAML anchor", "yaml_anchor", mark, path)
            self._flaw(flaw, hint="repeat the value, or put it in quotes if it is a text")
        if event.ctag and not (isinstance(event, ScalarEvent) and event.style and event.implicit[1]):
            flaw = Flaw(f"`{event.tag}` is a YAML tag", "yaml_tag", mark, path)
            self._flaw(flaw, hint="remove it, or put the value in quotes if it is a text")

    def _flaw(self, flaw: Flaw, *, hint: str) -> None:
        self.composed.flaws.append(Flaw(flaw.message, flaw.code, flaw.mark, flaw.path, hint))

    def _scalar(self, event: Any, mark: Mark, path: KeyPath) -> Any:
        text: str = event.value
        if found := UNUSABLE.search(text):
            flaw = Flaw(f"holds the character U+{ord(found[0]):04X}", "yaml_character", mark, path)
            self._flaw(flaw, hint=TEXT_HINT)
            return ""
        if event.style or event.ctag:
            return text
        if len(text) > DIGITS_LIMIT and _INTEGER.fullmatch(text):
            self._flaw(Flaw("is too long for a number", "yaml_number", mark, path), hint="put it in quotes")
            return 0
        return plain_value(text)

    def _mapping(self, path: KeyPath, *, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := self._next(), MappingEndEvent):
            key, mark = self._key(event, path, depth=depth), _mark(event)
            below = (*path, key)
            known = self.composed.keys.setdefault(below, mark)
            value = self._node(self._next(), below, depth=depth + 1)
            if key in found:
                flaw = Flaw(f"is there twice, first in line {known[0]}", "yaml_duplicate_key", mark, below)
                self._flaw(flaw, hint="keep one of them")
            else:
                found[key] = value
        return found

    def _key(self, event: Any, path: KeyPath, *, depth: int) -> str:
        mark = _mark(event)
        if not isinstance(event, ScalarEvent):
            if isinstance(event, AliasEvent):
                self._node(event, path, depth=depth)
            flaw = Flaw("a map or list stands where a key should", "yaml_key", mark, path)
            raise Stopped(Flaw(flaw.message, flaw.code, mark, path, "put a value that starts with `{` in quotes"))
        self._refuse_marks(event, mark, (*path, event.value))
        if event.value == "<<" and not event.style:
            flaw = Flaw("merge keys are not supported", "yaml_merge", mark, (*path, "<<"))
            self._flaw(flaw, hint="write the keys out, or put them into `defaults:`")
        if found := UNUSABLE.search(event.value):
            flaw = Flaw(f"a key holds the character U+{ord(found[0]):04X}", "yaml_character", mark, path)
            self._flaw(flaw, hint=KEY_HINT)
            return UNUSABLE.sub("\ufffd", event.value)
        return str(event.value)

    def _sequence(self, path: KeyPath, *, depth: int) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := self._next(), SequenceEndEvent):
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
