"""The form of a new job: told what it means and what is wrong, stored as a job of the API."""

import pytest

from rota.operations.admin.access import Scope
from rota.operations.jobs import show_job
from tests.pages.conftest import Page, Site

GOOD = {"name": "digest", "kind": "command", "work": "./digest.sh", "schedule": "weekdays at 9:30"}


def problems(page: Page) -> list[str]:
    """Return the fields that a page marks as wrong."""
    return [found["data-field"] for found in page.all("div", class_="field wrong")]


def test_an_empty_form_complains_of_nothing_yet(site: Site) -> None:
    page = site.get("/ui/new")
    assert problems(page) == []
    assert "by hand" in page.words


def test_a_check_tells_the_reading_the_fires_and_the_lines_and_stores_nothing(site: Site) -> None:
    page = site.post("/ui/new", check="1", **GOOD)
    assert "at 09:30 on Monday through Friday (UTC)" in page.words
    assert "Mon 09:30" in page.words
    assert 'digest: cron: "30 9 * * mon-fri" command: ./digest.sh' in page.words
    assert page.status == 200
    assert "digest" not in site.get("/ui/jobs").words


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        ({"name": "a b"}, "name", "cannot be a job's name"),
        ({"name": "hello"}, "name", "a job 'hello' already exists"),
        ({"work": ""}, "work", "has no work"),
        ({"schedule": "0 8 * *"}, "schedule", "has 4 fields, not five"),
        ({"timeout": "5x"}, "timeout", "has the unit 'x'"),
        ({"timezone": "Mars/Olympus"}, "timezone", "no time zone is named"),
        ({"others": "retrys: 3"}, "others", "unknown key"),
    ],
)
def test_what_is_wrong_is_told_at_its_field_and_nothing_is_stored(
    site: Site, wrong: dict[str, str], field: str, words: str
) -> None:
    page = site.post("/ui/new", **{**GOOD, **wrong})
    assert (page.status, problems(page)) == (422, [field])
    assert words in page.words
    assert "digest" not in site.get("/ui/jobs").words


def test_what_was_typed_is_still_there_after_a_refusal(site: Site) -> None:
    page = site.post("/ui/new", **{**GOOD, "name": "a b", "work": "echo </textarea><b>x"})
    assert page.all("input", name="name")[0]["value"] == "a b"
    assert "echo </textarea><b>x" in page.words
    assert not page.all("b")


def test_a_good_form_makes_a_job_and_shows_it(site: Site) -> None:
    page = site.post("/ui/new", **GOOD, labels="night, db", others="params: {a: 1}")
    assert "digest is created: at 09:30 on Monday through Friday (UTC)" in page.words
    assert "Copy to rota.yaml" in page.words
    job = show_job(site.store, "digest").job
    assert (job.source, job.spec.labels, dict(job.spec.work.params)) == ("api", ("night", "db"), {"a": 1})


def test_a_job_that_was_made_here_is_changed_here(site: Site) -> None:
    site.post("/ui/new", **GOOD)
    form = site.get("/ui/new?change=digest")
    assert form.all("input", name="schedule")[0]["value"] == "30 9 * * MON-FRI"
    page = site.post("/ui/new", **{**GOOD, "changing": "digest", "schedule": "0 6 * * *"})
    assert "digest is changed: at 06:00 every day (UTC)" in page.words
    assert show_job(site.store, "digest").job.version == 2


def test_a_job_of_a_file_is_copied_not_changed(site: Site) -> None:
    assert "was not created here" in site.get("/ui/new?change=hello", status=422).words
    form = site.get("/ui/new?like=hello")
    assert form.all("input", name="name")[0]["value"] == "hello-2"
    assert form.all("input", name="labels")[0]["value"] == "greeting"


def test_a_form_is_checked_while_it_is_written(site: Site) -> None:
    part = site.post("/ui/new/check", name="", work="", schedule="every 5 min", timeout="x")
    assert not part.all("html")
    assert {found["data-for"] for found in part.all("div") if "data-for" in found} == {"name", "work", "timeout"}
    assert "every 5 min" in part.words


def test_only_who_may_do_everything_makes_jobs(site: Site) -> None:
    site.get("/ui/new", scope=Scope.RUN, status=403)
    assert site.post("/ui/new", scope=Scope.RUN, **GOOD).status == 403
    assert site.post("/ui/new/check", scope=Scope.RUN, **GOOD).status == 403
