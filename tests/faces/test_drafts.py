"""Drafts of jobs: what a person fills in, checked with the messages of the file before anything is stored."""

from collections.abc import Iterator

import pytest

from rota.model.errors import FileProblems
from rota.operations.jobs import show_job
from rota.operations.project.edit import (
    Draft,
    DraftValidator,
    check_draft,
    draft_from,
    draft_of,
    may_change,
    save_draft,
)
from rota.operations.project.locate import open_state
from tests.faces.conftest import Project

FILE = """
timezone: Europe/Berlin
jobs:
  hello: {command: [echo, "a b"], cron: "0 3 * * *", labels: [x, y], params: {a: 1}, retry: false, timeout: 5m}
"""
DIGEST = Draft(name="digest", work="./digest.sh --short", schedule="weekdays at 9:30")


@pytest.fixture
def shop(project: Project) -> Iterator[DraftValidator]:
    project.applied(FILE)
    store = open_state(project.state, project.clock, create=False)
    yield DraftValidator(store, project.folder, project.state, {"HOME": str(project.folder)})
    store.close()


def troubles(shop: DraftValidator, project: Project, draft: Draft) -> dict[str, str]:
    return {one.field: one.message for one in check_draft(shop, draft, now=project.clock.now()).troubles}


def test_a_good_draft_tells_its_reading_its_fires_and_its_lines(shop: DraftValidator, project: Project) -> None:
    checked = check_draft(shop, DIGEST, now=project.clock.now())
    assert checked.troubles == ()
    assert checked.reading == "at 09:30 on Monday through Friday (Europe/Berlin)"
    assert [f"{fire.at:%a %H:%M}" for fire in checked.fires[:2]] == ["Mon 08:30", "Tue 08:30"]
    assert len(checked.fires) == 10
    assert checked.text == 'jobs:\n  digest:\n    cron: "30 9 * * mon-fri"\n    command: ./digest.sh --short\n'


def test_a_draft_that_is_saved_is_a_job_of_the_api(shop: DraftValidator, project: Project) -> None:
    now = project.clock.now()
    view = save_draft(shop, check_draft(shop, DIGEST, now=now), now=now, new=True)
    assert (view.job.source, view.job.spec.work.command) == ("api", ("./digest.sh", "--short"))
    assert may_change(view.job)
    assert not may_change(show_job(shop.store, "hello").job)


def test_an_empty_draft_lacks_a_name_and_work(shop: DraftValidator, project: Project) -> None:
    told = troubles(shop, project, Draft())
    assert told == {"name": "the job has no name", "work": "has no work"}


@pytest.mark.parametrize(
    ("draft", "field", "words"),
    [
        (Draft(name="a b", work="true"), "name", "cannot be a job's name"),
        (Draft(name="HELLO", work="true"), "name", "a job 'hello' already exists"),
        (Draft(name="a", work="echo 'x"), "work", "has a quote that is not closed"),
        (Draft(name="a", work="true", schedule="0 8 * *"), "schedule", "has 4 fields, not five"),
        (Draft(name="a", work="true", schedule="now and then"), "schedule", "which is not a day"),
        (Draft(name="a", work="true", timezone="Europe/Berlinn"), "timezone", "no time zone is named"),
        (Draft(name="a", work="true", timeout="5x"), "timeout", "has the unit 'x'"),
        (Draft(name="a", work="true", labels="ok, not ok"), "labels", "is not a label"),
        (Draft(name="a", work="true", others="retrys: 3"), "others", "retrys: unknown key"),
        (Draft(name="a", work="true", others="a: ["), "others", "is not valid YAML"),
        (Draft(name="a", work="true", timeout="1m", others="timeout: 5m"), "others", "timeout is already set above"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(
    shop: DraftValidator, project: Project, draft: Draft, field: str, words: str
) -> None:
    assert words in troubles(shop, project, draft).get(field, "")


def test_a_draft_that_is_wrong_is_not_saved(shop: DraftValidator, project: Project) -> None:
    now = project.clock.now()
    checked = check_draft(shop, Draft(name="a", work="true", timeout="5x"), now=now)
    assert checked.spec is None
    with pytest.raises(FileProblems):
        save_draft(shop, checked, now=now, new=True)


def test_the_schedule_is_told_before_the_rest_is_right(shop: DraftValidator, project: Project) -> None:
    checked = check_draft(shop, Draft(schedule="daily at 8", timezone="UTC"), now=project.clock.now())
    assert checked.reading == "at 08:00 every day (UTC)"
    assert len(checked.fires) == 10
    unclear = check_draft(shop, Draft(schedule="now and then"), now=project.clock.now())
    assert (unclear.reading, unclear.fires) == ("", ())


def test_a_stored_job_becomes_a_draft_that_means_the_same(shop: DraftValidator, project: Project) -> None:
    job = show_job(shop.store, "hello").job
    draft = draft_of(shop, job, name="hello")
    assert (draft.work, draft.schedule, draft.labels, draft.timeout) == ("echo 'a b'", "0 3 * * *", "x, y", "5m")
    checked = check_draft(shop, draft, now=project.clock.now(), replacing=job)
    assert (checked.troubles, checked.changes) == ((), ())


def test_a_draft_of_a_form_takes_what_it_knows_and_no_more() -> None:
    assert draft_from({"name": "a", "kind": "nonsense", "work": "x\r\ny", "more": "1"}) == Draft(name="a", work="x\ny")


def test_a_file_that_changes_counts_from_then_on(shop: DraftValidator, project: Project) -> None:
    draft = Draft(name="a", work="true", others="pools: [gpu]")
    assert 'no pool is named "gpu"' in troubles(shop, project, draft)["others"]
    project.write(f"pools: {{gpu: 1}}{FILE}")
    assert troubles(shop, project, draft) == {}


def test_a_file_that_is_broken_is_told(shop: DraftValidator, project: Project) -> None:
    project.write("jobs: [")
    assert "the project's file cannot be read" in troubles(shop, project, Draft(name="a", work="true"))[""]


def test_a_time_that_is_over_is_told_at_the_schedule(shop: DraftValidator, project: Project) -> None:
    told = troubles(shop, project, Draft(name="a", work="true", schedule="2026-11-14 08:30"))
    assert "is in the past" in told["schedule"]
