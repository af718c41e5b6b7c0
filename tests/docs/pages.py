"""The pages written for people, and the pieces of them that the tests look at."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def pages(pattern: str) -> list[str]:
    """Return the names of the pages that match a pattern."""
    return sorted(path.name for path in DOCS.glob(pattern))


COMMAND_PAGES = pages("commands*.md")


def page(*names: str) -> str:
    return "\n".join((DOCS / name).read_text("utf-8") for name in names)


def words(text: str) -> set[str]:
    """Return every text between single backquotes."""
    return set(re.findall(r"`([^`\n]+)`", without_blocks(text)))


def first_cells(text: str) -> set[str]:
    """Return the words in the first cell of each row of the tables."""
    cells = re.findall(r"^\|([^|]+)\|", without_blocks(text), re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def without_blocks(text: str) -> str:
    return _BLOCK.sub("", text)


def blocks(kind: str) -> Iterator[tuple[str, str]]:
    """Yield (page and line, text) of each block of a kind."""
    for path in PAGES:
        text = path.read_text("utf-8")
        for found in _BLOCK.finditer(text):
            if found[1] == kind:
                yield f"{path.name}:{text.count(chr(10), 0, found.start()) + 1}", found[2]


def anchors(text: str) -> set[str]:
    """Return the anchors that headings get: lower case, without punctuation, spaces as hyphens."""
    titles = _HEADING.findall(without_blocks(text))
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}
