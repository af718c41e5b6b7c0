"""How help is laid out: an option is never broken at its hyphens."""

from collections.abc import Iterable

import click

UNBROKEN = "\u2011"
"""A hyphen at which no line is broken; it stands for the plain one until the text is written."""


class HelpLayout(click.HelpFormatter):
    """Help whose lines end between words."""

    def write(self, string: str) -> None:
        """Write what is laid out."""
        super().write(string.replace(UNBROKEN, "-"))

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(text.replace("-", UNBROKEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and what they are, side by side."""
        super().write_dl([(name, text.replace("-", UNBROKEN)) for name, text in rows], col_max, col_spacing)


class HelpContext(click.Context):
    """What a command is run in."""

    formatter_class = HelpLayout
