"""Escape sequences in texts: colours as names of styles for a page, everything else removed before a terminal."""

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
BRIGHT = 8
CUBE, GREYS = 16, 232
_SEQUENCES = (
    r"\x1b\[(?P<style>[0-9;]*)m"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # any other control sequence
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
)
_ESCAPES = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC and its kin: titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
_OWN_STYLES = r"(\x1b\[(?:[0-2]|(?:[12];)?3[1-6])m)"


class Style(Struct, frozen=True):
    """The style of a text; colours by the names of `COLOURS`, also with `bright-`, empty for the default."""

    colour: str = ""
    ground: str = ""
    bold: bool = False
    faint: bool = False
    italic: bool = False
    underlined: bool = False

    @property
    def classes(self) -> str:
        """The CSS classes."""
        colours = [f"ansi-{self.colour}" if self.colour else "", f"ansi-on-{self.ground}" if self.ground else ""]
        ways = {"bold": self.bold, "faint": self.faint, "italic": self.italic, "underlined": self.underlined}
        return " ".join([name for name in colours if name] + [f"ansi-{way}" for way, on in ways.items() if on])


class StyledSpan(Struct, frozen=True):
    """A piece of a line with one style."""

    text: str
    classes: str = ""


PLAIN = Style()


def clean_for_terminal(text: str) -> str:
    """Return `text` without escape sequences, control characters and writing-direction overrides.

    >>> clean_for_terminal("\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07done\\r\\n")
    'red done\\n'
    """
    if _is_clean(text):
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(_CONTROLS, "", re.sub(_ESCAPES, "", text))


def _is_clean(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def plain(text: str | None) -> str:
    """Return an external text on one line, without control characters."""
    return " ".join(clean_for_terminal(text or "").split())


def clean_except_styles(text: str) -> str:
    """Return `text` as `clean_for_terminal` does, but keep the few styles that rota writes.

    >>> clean_except_styles("\\x1b[31mFAILED\\x1b[0m \\x1b[8m\\x1b[2Jhidden")
    '\\x1b[31mFAILED\\x1b[0m hidden'
    """
    if _is_clean(text):
        return text
    pieces = re.split(_OWN_STYLES, text)
    return "".join(piece if index % 2 else clean_for_terminal(piece) for index, piece in enumerate(pieces))


def escape_controls(text: str) -> str:
    """Return a JSON or YAML text with control characters and direction overrides as `\\uXXXX`.

    >>> escape_controls('"\\x9b2J"')
    '"\\\\u009b2J"'
    """
    return re.sub(_CONTROLS, lambda match: f"\\u{ord(match[0]):04x}", text)


def styled_lines(lines: Iterable[str]) -> Iterator[tuple[StyledSpan, ...]]:
    """Yield each line as pieces with their styles; a style lasts until it is reset, also across lines.

    >>> [list(line) for line in styled_lines(["\\x1b[1;31mno\\x1b[0m: 3"])]
    [[StyledSpan(text='no', classes='ansi-red ansi-bold'), StyledSpan(text=': 3', classes='')]]
    """
    style = PLAIN
    for line in lines:
        spans, style = _spans(line.rstrip("\r").rpartition("\r")[2], style)
        yield tuple(spans)


def _spans(line: str, style: Style) -> tuple[list[StyledSpan], Style]:
    spans: list[StyledSpan] = []
    begin = 0
    for match in re.finditer(_SEQUENCES, line):
        _add(spans, line[begin : match.start()], style)
        begin = match.end()
        if match["style"] is not None:
            style = _changed(style, [int(code or 0) for code in match["style"][:100].split(";")])
    _add(spans, line[begin:], style)
    return spans, style


def _add(spans: list[StyledSpan], text: str, style: Style) -> None:
    shown = re.sub(_CONTROLS, "", text)
    if not shown:
        return
    if spans and spans[-1].classes == style.classes:
        spans[-1] = StyledSpan(spans[-1].text + shown, spans[-1].classes)
    else:
        spans.append(StyledSpan(shown, style.classes))


def _changed(style: Style, codes: list[int]) -> Style:
    left = iter(codes)
    for code in left:
        if code in (38, 48):
            colour = _chosen(left)
            style = replace(style, colour=colour) if code == 38 else replace(style, ground=colour)
        else:
            style = _simply_changed(style, code)
    return style


def _simply_changed(style: Style, code: int) -> Style:
    ten, unit = divmod(code, 10)
    if code == 0:
        return PLAIN
    if code in _WAYS:
        return _WAYS[code](style)
    if ten in (3, 9) and unit < BRIGHT:
        return replace(style, colour=_named(unit + BRIGHT * (ten == 9)))
    if ten in (4, 10) and unit < BRIGHT:
        return replace(style, ground=_named(unit + BRIGHT * (ten == 10)))
    return style


_WAYS: dict[int, Callable[[Style], Style]] = {
    1: lambda style: replace(style, bold=True),
    2: lambda style: replace(style, faint=True),
    3: lambda style: replace(style, italic=True),
    4: lambda style: replace(style, underlined=True),
    22: lambda style: replace(style, bold=False, faint=False),
    23: lambda style: replace(style, italic=False),
    24: lambda style: replace(style, underlined=False),
    39: lambda style: replace(style, colour=""),
    49: lambda style: replace(style, ground=""),
}


def _chosen(codes: Iterator[int]) -> str:
    """Return the nearest colour of `COLOURS` for `5;N` or `2;RED;GREEN;BLUE`."""
    kind = next(codes, 0)
    if kind == 5:
        number = next(codes, 0)
        if number < CUBE:
            return _named(number)
        if number >= GREYS:
            return _nearest(*[8 + 10 * (number - GREYS)] * 3)
        number -= CUBE
        return _nearest(*(51 * (number // part % 6) for part in (36, 6, 1)))
    if kind == 2:
        return _nearest(next(codes, 0), next(codes, 0), next(codes, 0))
    return ""


def _nearest(red: int, green: int, blue: int) -> str:
    bits = sum(bit for bit, part in zip((1, 2, 4), (red, green, blue), strict=True) if part > 127)
    return _named(bits + BRIGHT * (max(red, green, blue) > 200 or (not bits and max(red, green, blue) > 60)))


def _named(number: int) -> str:
    name = COLOURS[number % BRIGHT]
    return f"bright-{name}" if number >= BRIGHT else name
