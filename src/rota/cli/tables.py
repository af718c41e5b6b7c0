"""Tables: by rich on a terminal, cut to its width; as aligned text elsewhere."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

from rota.rules.ansi import clean_for_terminal

Pairs = Iterable[tuple[str, str]]
GAP = 2
FLEXIBLE_LEAST = 10
LEAST = 6
SHORT_TITLE = 8
"""So much of a heading is always shown."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with its colour."""

    text: str
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A heading. On a narrow terminal `flexible` columns are the first to be cut; `spare` ones go before others are."""

    title: str
    flexible: bool = False
    spare: bool = False


Row = Sequence[Cell | str]


def print_table(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Print rows under their headings."""
    texts = [[column.title for column in columns], *([_text(cell) for cell in row] for row in rows)]
    if sys.stdout.isatty():
        _print_rich(columns, rows, texts[1:])
        return
    widths = [max(len(row[index]) for row in texts) for index in range(len(columns))]
    for row in texts:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _text(cell: Cell | str) -> str:
    return clean_for_terminal(cell.text if isinstance(cell, Cell) else cell).replace("\n", " ")


def _print_rich(columns: Sequence[Column], rows: Sequence[Row], texts: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    shown = laid_out(columns, texts, room=console.width)
    for index, width in shown.items():
        table.add_column(columns[index].title, no_wrap=True, overflow="ellipsis", width=width)
    for row in rows:
        table.add_row(*(Text(_text(row[index]), style=_style(row[index])) for index in shown))
    console.print(table)


def _style(cell: Cell | str) -> str:
    return (cell.colour or "") if isinstance(cell, Cell) else ""


def laid_out(columns: Sequence[Column], texts: Sequence[Sequence[str]], *, room: int) -> dict[int, int]:
    """Return which columns are shown, and how wide: long headings give way before anything below them is cut."""
    below = [max((len(row[index]) for row in texts), default=0) for index in range(len(columns))]
    titles = [len(column.title) for column in columns]
    least = [max(text, min(title, SHORT_TITLE)) for text, title in zip(below, titles, strict=True)]
    shown = kept(columns, least, room=room)
    fitted = fitting([columns[index] for index in shown], [least[index] for index in shown], room=room)
    whole = [max(titles[index], below[index]) for index in shown]
    return dict(zip(shown, grown(fitted, whole, room=room), strict=True))


def kept(columns: Sequence[Column], widths: Sequence[int], *, room: int) -> list[int]:
    """Return which columns are shown: spare ones go, the first of them first, while the others would have to be cut.

    >>> kept([Column("JOB"), Column("PATH", spare=True), Column("WHY", flexible=True)], [10, 30, 60], room=50)
    [0, 2]
    """
    least = [min(width, FLEXIBLE_LEAST) if one.flexible else width for one, width in zip(columns, widths, strict=True)]
    shown = list(range(len(columns)))
    for index, column in enumerate(columns):
        if column.spare and sum(least[one] for one in shown) + GAP * (len(shown) - 1) > room:
            shown.remove(index)
    return shown


def fitting(columns: Sequence[Column], widths: Sequence[int], *, room: int) -> list[int]:
    """Return widths that fit into `room`: flexible columns are cut first, then the widest, never the first.

    >>> fitting([Column("JOB"), Column("WHY", flexible=True)], [10, 60], room=50)
    [10, 38]
    """
    fitted = list(widths)
    excess = sum(widths) + GAP * (len(widths) - 1) - room
    for index in (index for index, column in enumerate(columns) if column.flexible):
        cut = max(0, min(excess, fitted[index] - FLEXIBLE_LEAST))
        fitted[index] -= cut
        excess -= cut
    for _ in range(excess):
        widest = max(range(1, len(fitted)), key=lambda index: fitted[index], default=0)
        fitted[widest] = max(LEAST, fitted[widest] - 1)
    return fitted


def grown(widths: Sequence[int], titled: Sequence[int], *, room: int) -> list[int]:
    """Return widths that let headings and texts be read whole, the first ones first, as far as there is room left.

    >>> grown([10, 6, 12], [10, 8, 23], room=40)
    [10, 8, 18]
    """
    found, left = list(widths), room - sum(widths) - GAP * (len(widths) - 1)
    for index, wanted in enumerate(titled):
        more = max(0, min(left, wanted - found[index]))
        found[index] += more
        left -= more
    return found


def print_pairs(pairs: Pairs) -> None:
    """Print labelled lines under a heading."""
    for label, text in pairs:
        click.echo(f"  {label:12} {text}")
