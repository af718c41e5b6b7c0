"""The files of a result: shown as text, JSON or image, downloaded as they are, run by nothing."""

from contextlib import closing

import pytest

from rota.operations.runs import show_run
from rota.runners.files import keep_files
from rota.runners.output import folder_of, make_folder
from tests.pages.conftest import Site
from tests.pages.test_runs import DONE, play

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
CONTENTS = {
    "report.txt": b"all <b>well</b>",
    "rows.json": b'{"rows":[1]}',
    "plot.png": PNG,
    "page.html": b"<script>alert(1)</script>",
    "drawing.svg": b"<svg onload='alert(1)'/>",
    "blob": b"\0\1\2",
}


@pytest.fixture
def made(site: Site) -> Site:
    """A run whose result names six files, and one that is not there."""
    play(site, "hello", DONE)
    for name, content in CONTENTS.items():
        (site.project.folder / name).write_bytes(content)
    folder = make_folder(folder_of(site.project.state, show_run(site.store, "hello:1").run.id))
    keep_files([*CONTENTS, "gone"], cwd=str(site.project.folder), folder=str(folder))
    return site


def test_files_are_listed_shown_and_offered(made: Site) -> None:
    page = made.get("/ui/runs/hello:1")
    assert "Files 7 files" in page.words
    assert "all <b>well</b>" in page.words
    assert '{ "rows": [ 1 ] }' in page.words
    assert "not copied: no such file or directory" in page.words
    assert [image["src"] for image in page.all("img")] == ["/api/v1/runs/hello:1/files/2"]
    assert len([link for link in page.links if "/files/" in link]) == 6
    assert not [found for found in page.all("script") if "src" not in found]


@pytest.mark.parametrize(
    ("number", "media"),
    [
        (0, "text/plain; charset=utf-8"),
        (1, "text/plain; charset=utf-8"),
        (2, "image/png"),
        (3, "text/plain; charset=utf-8"),
        (4, "text/plain; charset=utf-8"),
        (5, "application/octet-stream"),
    ],
)
def test_a_download_is_never_active_content(made: Site, number: int, media: str) -> None:
    with closing(made.browser()) as browser:
        answer = browser.get(f"/api/v1/runs/hello:1/files/{number}")
    assert answer.content == list(CONTENTS.values())[number]
    assert answer.headers["content-type"] == media
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "nosniff" in answer.headers["x-content-type-options"]


@pytest.mark.parametrize(("path", "status"), [("6", 422), ("7", 422), ("-1", 422), ("index.json", 422)])
def test_what_has_no_copy_is_refused(made: Site, path: str, status: int) -> None:
    with closing(made.browser()) as browser:
        assert browser.get(f"/api/v1/runs/hello:1/files/{path}").status_code == status


def test_the_command_and_the_api_list_the_same(made: Site) -> None:
    told = made.api.get("/runs/hello:1/files")
    assert told == made.project.json("show", "hello:1", "--files")
    assert [file["kind"] for file in told["files"]] == ["text", "json", "image", "text", "text", "binary", "binary"]
    assert "no such file or directory" in made.project.ok("show", "hello:1", "--files")


def test_a_run_without_files_has_no_list(site: Site) -> None:
    play(site, "hello", DONE)
    assert "Files" not in site.get("/ui/runs/hello:1").words
    assert "has no files" in site.project.ok("show", "hello:1", "--files")
