"""How large a page may be: as many lines as fit."""

from collections.abc import Callable

from starlette.responses import Response

LARGEST = 96_000
"""Bytes of a page: 100 KB at most, with what headers add."""


def fit(show: Callable[[int], Response], *, lines: int) -> Response:
    """Return the page with that many lines, or with so many fewer that it is not too large; `show` makes it."""
    response = show(lines)
    while (size := len(response.body)) > LARGEST and lines > 1:
        lines = max(1, min(lines - 1, lines * LARGEST // size))
        response = show(lines)
    return response
