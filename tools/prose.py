"""Find words and sentence openings that this project avoids, in docstrings, comments, help, logs and pages.

`python tools/prose.py` prints each place as `file:line: word: sentence`, and exits with 1 if a limit is exceeded.
Arguments restrict it to the files whose path ends so.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PEOPLE = r"\b(?:who|whoever|whom|somebody|nobody|whatever)\b"
OPENINGS = r"^(?:Tell|Tells|Let|Lets|What|Who|One that|One who|Those|Meet|Bear)\b"
PRIVATE = r"\bdocuments? 00\d|\bsection \d|\b(?:EXPERIENCE|DESIGN|HOUSE|STYLE)\.md\b|\bG-\d\d\b"
RULES = r"\b(?:R-\d\d|INV-\d+|DEC-\d+|CON-\d+)\b"
IN_CODE = re.compile(f"{PEOPLE}|{OPENINGS}|{PRIVATE}", re.IGNORECASE)
ON_PAGES = re.compile(rf"\b(?:whoever|whom|somebody|nobody)\b|^Who (?!.*\?)|[.;:,] who\b|{PRIVATE}", re.IGNORECASE)
CITED = re.compile(RULES)
LIMITS = {"src": 10, "pages": 0, "internals": 10}
"""Places that may remain: the words have right uses too ("who" in a question that a person asks)."""
INTERNALS = ROOT / "docs" / "internals"


@dataclass(frozen=True, slots=True)
class Place:
    """A banned word or opening in a file."""

    path: Path
    line: int
    word: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.word}: {self.text.strip()[:120]}"


def sentences_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, sentence) of each docstring, comment, help text and log message."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from _lines(node.lineno, node.value.value)
        elif isinstance(node, ast.keyword) and node.arg in {"help", "short_help", "epilog"}:
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield from _lines(node.value.lineno, node.value.value)
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).startswith("log."):
            yield node.lineno, ast.unparse(node.args[0]).strip("'\"")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#! ")


def sentences_of_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of a page, without code blocks and code words."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        if not fenced and not line.startswith(("    ", "```")):
            yield number, re.sub(r"`[^`]*`", "`", line).lstrip("#->| *0123456789.")


def find(paths: Iterable[Path]) -> Iterator[Place]:
    """Yield the places of banned words in files."""
    for path in paths:
        text = path.read_text("utf-8")
        page = path.suffix == ".md"
        banned = ON_PAGES if page else IN_CODE
        for line, sentence in sentences_of_page(text) if page else sentences_of_python(text):
            if word := banned.search(sentence):
                yield Place(path, line, word[0], sentence)
            if INTERNALS not in path.parents and (word := CITED.search(sentence)):
                yield Place(path, line, word[0], sentence)


def main(arguments: list[str]) -> int:
    """Print the places; return 1 if a limit is exceeded."""
    groups = {
        "src": sorted((ROOT / "src").rglob("*.py")),
        "pages": [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))],
        "internals": sorted(INTERNALS.glob("*.md")),
    }
    code = 0
    for name, paths in groups.items():
        chosen = [path for path in paths if not arguments or any(str(path).endswith(end) for end in arguments)]
        places = list(find(chosen))
        if arguments or len(places) > LIMITS[name]:
            print(*places, sep="\n")
        print(f"{name}: {len(places)} places, at most {LIMITS[name]}")
        code |= len(places) > LIMITS[name]
    return code


def _lines(first: int, text: str) -> Iterator[tuple[int, str]]:
    for offset, line in enumerate(text.splitlines()):
        yield first + offset, line.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
