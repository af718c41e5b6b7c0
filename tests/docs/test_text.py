"""All text files: links lead somewhere, nothing names a package host or the machine it was written on."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, page, without_blocks

LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
SOURCES = ("src", "tests", "docs", "examples", "requirements", "tools", "bench", ".ci")
SUFFIXES = {".py", ".sql", ".md", ".yaml", ".yml", ".toml", ".txt", ".in", ".cfg", ".json", ""}
# Written in two parts, so that this file does not hold what it looks for.
FORBIDDEN = [
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "files.python" + "hosted",
    "conda" + ".io",
    "npmjs" + ".com",
    "jsdeliv" + "r",
    "unpk" + "g.com",
    "googleapis" + ".com",
    "--index" + "-url",
    "/wo" + "rk/",
    "/ro" + "ot/",
    "co-authored" + "-by",
    "generated" + " with",
]


def text_files() -> list[Path]:
    top = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    below = [path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.is_file()]
    hidden = ("__pycache__", ".rota", "scratch")
    return [path for path in top + below if path.suffix in SUFFIXES and not set(hidden) & set(path.parts)]


def broken(path: Path) -> list[str]:
    found = []
    for target in LINK.findall(without_blocks(path.read_text("utf-8"))):
        name, _, anchor = target.partition("#")
        if "://" in target:
            found.append(f"{target} leaves the project")
            continue
        other = (path.parent / name) if name else path
        if not other.exists() or (anchor and anchor not in anchors(other.read_text("utf-8"))):
            found.append(target)
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    assert broken(path) == []


def test_a_broken_link_or_anchor_would_be_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.md"
    wrong.write_text("# Here\n[a](nowhere.md) [b](#there) [c](#here) [d](https://example.net)\n")
    assert broken(wrong) == ["nowhere.md", "#there", "https://example.net leaves the project"]


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r": (\S+\.md)$", text, re.MULTILINE))
    assert listed == {path.relative_to(DOCS).as_posix() for path in PAGES if DOCS in path.parents}


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_a_page_for_users_has_at_most_1500_words(path: Path) -> None:
    assert len(path.read_text("utf-8").split()) <= 1500


def test_the_site_loads_nothing_from_elsewhere() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    assert re.search(r"^  font: false$", text, re.MULTILINE)
    assert "://" not in text


@pytest.mark.parametrize("word", FORBIDDEN)
def test_no_text_names_a_package_host_or_this_machine(word: str) -> None:
    files = text_files()
    assert len(files) > 200
    assert [str(path.relative_to(ROOT)) for path in files if word in path.read_text("utf-8").lower()] == []


def test_the_configuration_page_has_its_sections() -> None:
    assert {"scheduler", "retention", "defaults"} <= anchors(page("configuration.md"))
