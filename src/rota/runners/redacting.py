"""Redaction of secrets in output and results of a run. Standard library only: the keeper uses it.

It finds the forms that programs give a secret: unchanged, escaped as in JSON and in Python, percent-encoded, and as
base64. The time is proportional to the text, however many lines the secrets have.
"""

import json
import os
import stat
import sys
from binascii import b2a_base64
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cache

RESULT = "result.json"
PARAMS = "params.json"
FUNCTION = "function.json"
"""The exception of a Python function in its own process, written by `child.py`."""
SHORTEST = 6
"""Shorter secrets would match ordinary words."""
MASK = b"***"
PIECE = 64
"""A longer form is searched in pieces of this length, so that few bytes are held back."""
OVERLAP = SHORTEST
HELD_LIMIT = 1 << 16
"""The most bytes held back of an endless sequence of secrets."""
FILE_LIMIT = 1 << 20
FEW = 16
"""Up to so many pieces are searched one by one, more of them together."""
SHORT = 16
WORD = 4
_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_LEFT_BY_ENCODERS = (b"~", b"~/", b"~!'()*", b"~!'()*#$&+,/:;=?@", b"*")
"""Characters that percent-encoders keep: RFC 3986, paths, JavaScript's two, HTML forms."""
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class Redactor:
    """Replaces secrets in a stream of bytes, also across two chunks.

    Each line of a secret is a secret. A possible beginning of a secret is held back until it is decided.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        pieces = {piece for secret in secrets for form in forms(secret) for piece in _cut(form)}
        self._pieces = sorted(pieces)
        self._longest = max(map(len, pieces), default=0)
        self._heads = {piece[:length] for piece in pieces for length in (1, 2, 3)}
        short = {piece for piece in pieces if len(piece) < SHORT}
        groups = (short, pieces - short)
        self._few = [piece for group in groups if len(group) <= FEW for piece in group]
        self._many = [_Grams(group) for group in groups if len(group) > FEW]
        self._held = b""
        self._covered = 0
        """How many of the first held bytes belong to a secret that was already replaced."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that can be shown; hold back a possible beginning of a secret."""
        if not self._pieces:
            return data
        data = self._held + data
        spans = self._find(data, covered=self._covered)
        shown = self._begun(data)
        begin, end = next(((begin, end) for begin, end in spans if begin < shown < end), (shown, shown))
        if len(data) - begin <= HELD_LIMIT:
            shown = end = begin
        self._held, self._covered = data[shown:], end - shown
        return _mask(data, spans, shown)

    def rest(self) -> bytes:
        """Return the held bytes, at the end of the stream."""
        data, spans = self._held, self._find(self._held, covered=self._covered)
        self._held, self._covered = b"", 0
        return _mask(data, spans, len(data))

    def redact_bytes(self, data: bytes) -> bytes:
        """Return bytes without their secrets; the held bytes of the stream stay."""
        spans = self._find(data)
        return _mask(data, spans, len(data)) if spans else data

    def redact(self, text: str) -> str:
        """Return a text without its secrets."""
        data = text.encode("utf-8", "surrogatepass")
        shown = self.redact_bytes(data)
        return text if shown is data else shown.decode("utf-8", "replace")

    def redact_all(self, value: object) -> object:
        """Return a JSON value without the secrets in its texts and keys."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, list):
            return [self.redact_all(item) for item in value]
        if isinstance(value, dict):
            return {self.redact(key): self.redact_all(item) for key, item in value.items()}
        return value

    def _find(self, data: bytes, *, covered: int = 0) -> list[tuple[int, int]]:
        """Return the spans of secrets; overlapping ones are joined."""
        places = [(0, covered)] if covered else []
        for piece in self._few:
            places += _occurrences(piece, data)
        for grams in self._many:
            places += grams.find(data)
        spans: list[tuple[int, int]] = []
        for begin, end in sorted(places):
            if spans and begin < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((begin, end))
        return spans

    def _begun(self, data: bytes) -> int:
        """Return the start of the longest suffix of `data` that may begin a secret."""
        for begin in range(max(0, len(data) - self._longest + 1), len(data)):
            if data[begin : begin + 3] in self._heads:
                rest = data[begin:]
                at = bisect_left(self._pieces, rest)
                if at < len(self._pieces) and self._pieces[at] == rest:
                    at += 1
                if at < len(self._pieces) and self._pieces[at].startswith(rest):
                    return begin
        return len(data)


class _Grams:
    """Finds many pieces at once: each covers at least one of the four-byte words that are checked."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = frozenset(pieces)
        shortest = min(map(len, self._pieces))
        # Two passes, two bytes apart, if pieces are too short to always cover an aligned word.
        self._phases = (0, 2) if shortest < 2 * WORD - 1 else (0,)
        self._step = max(1, (shortest - WORD + 1) // WORD)
        self._stretch = 2 if len(self._phases) > 1 else self._step * WORD
        self._places: dict[int, set[tuple[int, int]]] = {}
        for piece in self._pieces:
            first = self._telling(piece)
            for offset in range(first, first + self._stretch):
                word = int.from_bytes(piece[offset : offset + WORD], sys.byteorder)
                self._places.setdefault(word, set()).add((offset, len(piece)))
        self._words = frozenset(self._places)

    def _telling(self, piece: bytes) -> int:
        """Return the offset in a piece with the most distinct bytes."""
        last = len(piece) - WORD + 1 - self._stretch
        return max((last // 2, last, 0), key=lambda at: len(set(piece[at : at + self._stretch + WORD - 1])))

    def find(self, data: bytes) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        for phase in self._phases:
            count = (len(data) - phase) // WORD
            if count <= 0:
                continue
            words = memoryview(data)[phase : phase + count * WORD].cast("I")[:: self._step].tolist()
            if not self._words.isdisjoint(words):
                spans += self._verify(data, words, phase)
        return spans

    def _verify(self, data: bytes, words: list[int], phase: int) -> Iterator[tuple[int, int]]:
        wanted, pieces, step = self._words, self._pieces, self._step * WORD
        for at in [at for at, word in enumerate(words) if word in wanted]:
            for offset, length in self._places[words[at]]:
                begin = phase + at * step - offset
                if begin >= 0 and data[begin : begin + length] in pieces:
                    yield begin, begin + length


def redact_file(path: str, redactor: Redactor) -> bytes | None:
    """Return the redacted content of a run's JSON file, None if it may stay.

    Other content than JSON is redacted as text; no reader takes more than `FILE_LIMIT`.
    """
    try:
        # NONBLOCK: the file may be a pipe.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(file, "rb") as opened:
        data = opened.read(FILE_LIMIT) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    try:
        value = json.loads(data)
        hidden = redactor.redact_all(value)
        return None if hidden == value else json.dumps(hidden).encode()
    except (ValueError, RecursionError):
        shown = redactor.redact_bytes(data)
        return None if shown is data else shown


def forms(secret: str) -> Iterator[bytes]:
    """Yield the forms of a secret, each with six bytes or more."""
    lines = {line.strip() for line in secret.splitlines()}
    long = [line for line in lines if len(line.encode("utf-8", "surrogateescape")) >= SHORTEST]
    for line in long:
        yield from _escaped(line)
        data = line.encode("utf-8", "surrogateescape")
        if not data.isalnum():
            yield from {b"".join(map(table.__getitem__, data)) for table in _percent_tables()}
    if long:
        yield from _base64(secret.encode("utf-8", "surrogateescape"))


def _escaped(line: str) -> set[bytes]:
    """Return a line unchanged, as `repr`, and as JSON, also nested in another JSON text."""
    plain = json.dumps(line)[1:-1]
    wide = json.dumps(line, ensure_ascii=False)[1:-1]
    spellings = {line, repr(line)[1:-1], json.dumps(plain)[1:-1], json.dumps(wide, ensure_ascii=False)[1:-1]}
    for text in (plain, wide):
        spellings |= {text, text.replace("/", "\\/"), text.translate(_HTML)}
    return {text.encode("utf-8", "surrogateescape") for text in spellings}


@cache
def _percent_tables() -> list[list[bytes]]:
    tables = []
    for left in _LEFT_BY_ENCODERS:
        unchanged = _UNRESERVED + left
        for hexadecimal in (b"%%%02X", b"%%%02x"):
            table = [bytes((byte,)) if byte in unchanged else hexadecimal % byte for byte in range(256)]
            tables += [table, [b"+" if byte == ord(" ") else table[byte] for byte in range(256)]]
    return tables


def _base64(secret: bytes) -> Iterator[bytes]:
    """Yield a secret as base64: alone, in lines, and inside a longer text such as `user:secret`."""
    bare = secret.strip()
    spellings: set[bytes] = set()
    for value in {secret, bare, bare + b"\n"}:
        whole = b2a_base64(value, newline=False)
        spellings |= {whole, whole.rstrip(b"=")}
        spellings |= {whole[at : at + width] for width in (64, 76) for at in range(0, len(whole), width)}
    for before in range(3):
        shifted = b2a_base64(bytes(before) + bare, newline=False)
        spellings.add(shifted[-(-before * 4 // 3) : (before + len(bare)) * 4 // 3])
    for text in spellings:
        if len(text) >= SHORTEST:
            yield from {text, text.replace(b"+", b"-").replace(b"/", b"_")}


def _cut(form: bytes) -> Iterator[bytes]:
    """Yield a form in overlapping pieces."""
    while len(form) > PIECE:
        yield form[:PIECE]
        form = form[min(PIECE - OVERLAP, len(form) - PIECE) :]
    yield form


def _occurrences(piece: bytes, data: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(piece)
    while at >= 0:
        yield at, at + len(piece)
        at = data.find(piece, at + 1)


def _mask(data: bytes, spans: list[tuple[int, int]], end: int) -> bytes:
    """Return `data` up to `end` with a mask in each place of `spans`."""
    shown: list[bytes] = []
    at = 0
    for begin, over in spans:
        if begin >= end:
            break
        shown += (data[at:begin], MASK)
        at = over
    return b"".join((*shown, data[at:end])) if shown else data[:end]
