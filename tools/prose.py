"""Find words and openings that this project avoids, in code, messages, labels, examples and pages.

`python tools/prose.py` prints each place as `file:line: word: sentence`, and exits with 1 if a limit is exceeded.
Arguments restrict it to the files whose path ends so.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
PEOPLE = r"\b(?:who|whoever|whom|somebody|nobody|whatever)\b"
OPENINGS = r"^(?:Tell|Tells|Let|Lets|What|Who|One that|One who|Those|Meet|Bear)\b"
PRIVATE = r"\bdocuments? 00\d|\bsection \d|\b(?:EXPERIENCE|DESIGN|HOUSE|STYLE)\.md\b|\bG-\d\d\b"
RULES = r"\b(?:R-\d\d|INV-\d+|DEC-\d+|CON-\d+)\b"
TRANSLATED = (
    r"(?<!there )\bis no (?!longer\b|more\b)|\bis there (?:twice|already)\b|\b(?:gone|goes|went|go) on\b"
    r"|\blet (?:it|them) go\b"
    r"|\bput back a\b|\bgiven up\b|\bmaker\b|\bwhich only\b|\bcould not be told\b|\b(?:is|are|was|were) told\b"
)
"""Phrases that read like a translation. Standard words: is not, appears twice, exists, continues, restore, author."""
IN_MESSAGES = re.compile(f"{TRANSLATED}|{PRIVATE}|{RULES}", re.IGNORECASE)
IN_LABELS = re.compile(f"{PEOPLE}|{TRANSLATED}|{PRIVATE}|{RULES}", re.IGNORECASE)
IN_CODE = re.compile(f"{PEOPLE}|{OPENINGS}|{PRIVATE}", re.IGNORECASE)
ON_PAGES = re.compile(rf"\b(?:whoever|whom|somebody|nobody)\b|^Who (?!.*\?)|[.;:,] who\b|{PRIVATE}", re.IGNORECASE)
CITED = re.compile(RULES)
LIMITS = {"src": 10, "pages": 0, "internals": 0, "messages": 10, "labels": 0, "examples": 0, "tests": 0}
"""Places that may remain: the words have right uses too ("who" in a question that a person asks)."""
INTERNALS = ROOT / "docs" / "internals"
TELLS = re.compile(r"^Tell whether\b")


@dataclass(frozen=True, slots=True)
class Place:
    """A banned word or opening in a file."""

    path: Path
    line: int
    word: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.word}: {self.text.strip()[:120]}"


Reader = Callable[[str], Iterator[tuple[int, str]]]
Finder = Callable[[Iterable[Path]], Iterator[Place]]


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


def messages_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each string of three words or more that is no docstring."""
    tree = ast.parse(source)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docs else None
        if isinstance(text, str) and len(text.split()) > 2:
            yield node.lineno, text


def labels_of_template(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of a template, without tags and expressions."""
    for number, line in enumerate(text.splitlines(), 1):
        yield number, re.sub(r"<[^>]*>|\{[{%#].*?[}%#]\}", " ", line)


def comments_of_yaml(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, comment) of a YAML file."""
    for number, line in enumerate(text.splitlines(), 1):
        yield number, line.partition("#")[2].strip()


def find_in(paths: Iterable[Path], read: Reader, banned: re.Pattern[str]) -> Iterator[Place]:
    """Yield the places of banned words in the texts that `read` takes out of files."""
    for path in paths:
        for line, text in read(path.read_text("utf-8")):
            if word := banned.search(text):
                yield Place(path, line, word[0], text)


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
    source = sorted((ROOT / "src").rglob("*.py"))
    examples = ROOT / "examples"
    checked = [
        path for folder in ("tests", "tools", "bench", "examples") for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    groups: dict[str, tuple[list[Path], Finder]] = {
        "src": (source, find),
        "pages": ([*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))], find),
        "internals": (sorted(INTERNALS.glob("*.md")), find),
        "messages": (source, partial(find_in, read=messages_of_python, banned=IN_MESSAGES)),
        "labels": (sorted((ROOT / "src").rglob("*.html")), partial(find_in, read=labels_of_template, banned=IN_LABELS)),
        "examples": (sorted(examples.rglob("*.yaml")), partial(find_in, read=comments_of_yaml, banned=IN_MESSAGES)),
        "tests": (checked, partial(find_in, read=sentences_of_python, banned=TELLS)),
    }
    code = 0
    for name, (paths, finder) in groups.items():
        chosen = [path for path in paths if not arguments or any(str(path).endswith(end) for end in arguments)]
        places = list(finder(chosen))
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
