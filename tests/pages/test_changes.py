"""The changes of an agent's run: the files of its worktree, and the patch."""

from pathlib import Path

import pytest

from tests.faces.test_worktrees import FILE, git, kept
from tests.pages.conftest import Site


@pytest.fixture
def repository(site: Site, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project as a repository, with the worktree of fix:1 beside it."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "n")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "n@example.net")
    site.project.applied(FILE)
    folder = site.project.folder
    (folder / ".gitignore").write_text(".rota\n")
    (folder / "code").write_text("one\ntwo\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return Path(kept(site.project, folder).path)


def test_files_and_patch_are_shown_and_never_as_markup(site: Site, repository: Path) -> None:
    (repository / "code").write_text("one\n<script>alert(1)</script>\n")
    (repository / "new file").write_text("x")
    page = site.get("/ui/runs/fix:1/changes")
    assert "2 files +1 −1" in page.words
    assert "new file untracked" in page.words
    assert "+<script>alert(1)</script>" in page.words
    assert "-two" in page.words
    assert "/ui/runs/fix:1/changes" in site.get("/ui/runs/fix:1").links


def test_a_large_patch_is_cut_and_the_page_says_how_to_read_all(site: Site, repository: Path) -> None:
    (repository / "code").write_text("".join(f"line <{number}>\n" for number in range(30_000)))
    page = site.get("/ui/runs/fix:1/changes")
    assert "+30,000" in page.words
    assert "prints all of it" in page.words
    assert len(page.html.encode()) <= 100_000


def test_without_a_worktree_the_page_says_so(site: Site) -> None:
    site.project.ok("trigger", "hello")
    assert "it has no worktree" in site.get("/ui/runs/hello:1/changes").words
