"""A job of the file in the dashboard: its lines, the difference, the write, and what is refused."""

import re
from contextlib import closing
from datetime import timedelta
from html import unescape

import pytest

from rota.operations.admin.access import Scope
from tests.pages.conftest import Page, Site

FILE = """# the garden
jobs:
  # the first
  water: {command: [echo, water], cron: "0 6 * * *"}   # each morning
  mow:
    command: [echo, mow]
include: ["parts/*.yaml", beds/rota.yaml]
"""
PART = "jobs:\n  rake: {command: [echo, rake]}  # leaves\n"
BEDS = "jobs:\n  sow: {command: [echo, sow]}  # seeds\n"
LONG = timedelta(days=30 * 365)
NEW = 'water: {command: [echo, water], cron: "0 7 * * *"}   # each morning'


@pytest.fixture
def garden(site: Site) -> Site:
    folder = site.project.folder
    for name, text in {"parts/more.yaml": PART, "beds/rota.yaml": BEDS}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    site.project.applied(FILE)
    return site


def form(page: Page) -> dict[str, str]:
    hidden = {field["name"]: field.get("value", "") for field in page.all("input", type="hidden")}
    return {"digest": hidden["digest"], "seen": hidden["seen"]}


def lines(page: Page) -> str:
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page.html, re.DOTALL)
    assert found is not None
    return unescape(found[1])


def save(site: Site, job: str, text: str) -> Page:
    """Open the page, look at the difference, and save."""
    path = f"/ui/jobs/{job}/file"
    opened = site.get(path)
    looked = site.post(path, text=text, check="1", **form(opened))
    return site.post(path, text=text, **form(looked))


def test_the_page_of_a_job_names_its_file_and_line(garden: Site) -> None:
    page = garden.get("/ui/jobs/water")
    assert "rota.yaml:4" in page.words
    assert "/ui/jobs/water/file" in page.links
    reader = garden.get("/ui/jobs/water", scope=Scope.READ)
    assert "rota.yaml:4" in reader.words
    assert "/ui/jobs/water/file" not in reader.links
    assert "parts/more.yaml:2" in garden.get("/ui/jobs/rake").words


def test_a_change_is_shown_then_written_with_every_comment(garden: Site) -> None:
    page = garden.get("/ui/jobs/water/file")
    assert lines(page) == 'water: {command: [echo, water], cron: "0 6 * * *"}   # each morning\n'
    looked = garden.post("/ui/jobs/water/file", text=NEW, **form(page))
    assert looked.status == 200
    assert '+ water: {command: [echo, water], cron: "0 7 * * *"} # each morning' in looked.words.replace("+  ", "+ ")
    assert (garden.project.folder / "rota.yaml").read_text() == FILE
    done = garden.post("/ui/jobs/water/file", text=NEW, **form(looked))
    assert "water is saved in rota.yaml:4" in done.words
    assert (garden.project.folder / "rota.yaml").read_text() == FILE.replace("0 6", "0 7")
    assert garden.project.json("audit")[0]["action"] == "save_job_file"


def test_the_live_check_returns_the_difference_and_the_schedule(garden: Site) -> None:
    opened = garden.get("/ui/jobs/water/file")
    with closing(garden.browser()) as browser:
        sent = {"text": NEW, **form(opened)}
        found = browser.post("/ui/jobs/water/file/check", data=sent, headers={"Origin": "http://127.0.0.1:7682"})
    assert "at 07:00 every day" in found.text
    assert 'class="added"' in found.text
    assert (garden.project.folder / "rota.yaml").read_text() == FILE


@pytest.mark.parametrize(
    ("job", "file", "before"), [("rake", "parts/more.yaml", PART), ("beds~sow", "beds/rota.yaml", BEDS)]
)
def test_jobs_of_included_files_are_edited_where_they_stand(garden: Site, job: str, file: str, before: str) -> None:
    name = job.rpartition("~")[2]
    wrong = save(garden, job, f"{name}: {{command: [echo], crom: '0 7 * * *'}}")
    assert "crom" in wrong.words
    assert (garden.project.folder / file).read_text() == before
    done = save(garden, job, f"{name}: {{command: [echo, more]}}  # kept")
    assert "is saved in" in done.words
    assert (garden.project.folder / file).read_text() == f"jobs:\n  {name}: {{command: [echo, more]}}  # kept\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("water: {command: [echo], crom: x}", "crom"),
        ("water: {command: [echo], cron: '0 25 * * *'}", "25"),
        ("rain: {command: [echo]}", "'water' and nothing else"),
        ("water: [", "flow"),
        ("water: {command: [echo], pools: [none]}", "none"),
        ("", "nothing else"),
    ],
)
def test_wrong_lines_are_explained_and_never_written(garden: Site, text: str, words: str) -> None:
    page = save(garden, "water", text)
    assert page.status == 422
    assert words in page.words
    assert lines(page).strip() == text
    assert (garden.project.folder / "rota.yaml").read_text() == FILE


def test_a_file_that_changed_meanwhile_is_not_overwritten(garden: Site) -> None:
    file = garden.project.folder / "rota.yaml"
    looked = garden.post("/ui/jobs/water/file", text=NEW, check="1", **form(garden.get("/ui/jobs/water/file")))
    theirs = FILE.replace("mow]", "mow, more]")
    file.write_text(theirs)
    page = garden.post("/ui/jobs/water/file", text=NEW, **form(looked))
    assert page.status == 422
    assert "changed since this page was loaded" in page.words
    assert lines(page).strip() == NEW
    assert file.read_text() == theirs


def test_only_a_difference_that_was_shown_is_written(garden: Site) -> None:
    looked = garden.post("/ui/jobs/water/file", text=NEW, check="1", **form(garden.get("/ui/jobs/water/file")))
    other = garden.post("/ui/jobs/water/file", text=NEW.replace("7", "8"), **form(looked))
    assert "0 8 * * *" in other.words
    assert (garden.project.folder / "rota.yaml").read_text() == FILE


@pytest.mark.parametrize("scope", [Scope.READ, Scope.RUN, Scope.AGENT, Scope.CALENDAR])
def test_only_the_scope_admin_may_look_at_the_lines_or_write_them(garden: Site, scope: Scope) -> None:
    for path, method in (("file", "GET"), ("file", "POST"), ("file/check", "POST")):
        answer = garden.api.bare.request(
            method,
            f"/ui/jobs/water/{path}",
            data={"text": NEW, "digest": "x"} if method == "POST" else None,
            headers=garden.api.headers(scope),
        )
        assert answer.status_code == 403


def test_a_form_of_another_origin_is_refused(garden: Site) -> None:
    with closing(garden.browser()) as browser:
        sent = {"text": NEW, "digest": "x"}
        for headers in ({"Origin": "http://evil.test"}, {}):
            assert browser.post("/ui/jobs/water/file", data=sent, headers=headers).status_code == 403


def test_a_job_of_the_api_has_no_file_to_edit(site: Site) -> None:
    site.api.post("/jobs", {"name": "made", "command": ["true"]}, status=201)
    page = site.get("/ui/jobs/made/file", status=422)
    assert "No file of this project declares job 'made'" in page.words


def test_a_change_while_an_agent_may_write_waits_for_apply(garden: Site) -> None:
    path = garden.project.folder / "rota.yaml"
    file = FILE.replace("jobs:", "agents:\n  helper: {adapter: claude, access: full}\njobs:")
    file = file.replace("include:", "  think: {agent: helper, prompt: Think.}\ninclude:")
    garden.project.applied(file)
    garden.clock.advance(-LONG)  # files have real times: the run is under way at each of them
    garden.project.ok("trigger", "think")
    garden.project.carry_out([])
    garden.clock.advance(2 * LONG)
    done = save(garden, "water", NEW)
    assert "is saved in" in done.words
    assert "changed while the agent's run think:1 worked there" in done.words
    assert path.read_text() == file.replace("0 6", "0 7")
