"""Tables: by rich on a terminal, as aligned text elsewhere."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with its colour."""

    text: str
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; `flexible` columns are cut where the terminal is narrow."""

    title: str
    flexible: bool = False


Row = Sequence[Cell | str]


def print_table(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Print rows under their headings."""
    if sys.stdout.isatty():
        _print_rich(columns, rows)
        return
    texts = [[column.title for column in columns], *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in texts) for index in range(len(columns))]
    for row in texts:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _text(cell: Cell | str) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _print_rich(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.title, no_wrap=True, overflow="ellipsis", min_width=None if column.flexible else 4)
    for row in rows:
        table.add_row(*(Text(_text(cell), style=_style(cell)) for cell in row))
    Console(highlight=False, soft_wrap=False).print(_fitting(table, columns, rows))


def _style(cell: Cell | str) -> str:
    return cell.colour or "" if isinstance(cell, Cell) else ""


def _fitting(table: "object", columns: Sequence[Column], rows: Sequence[Row]) -> "object":
    """Fix the width of columns that must stay whole, so that only the flexible ones are cut."""
    for index, column in enumerate(table.columns):  # type: ignore[attr-defined]
        if not columns[index].flexible:
            texts = [columns[index].title, *(_text(row[index]) for row in rows)]
            column.min_width = max(len(text) for text in texts)
    return table
