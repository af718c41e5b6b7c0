"""Pages of jobs, versions and the record of a job, as operations give them to the dashboard."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from rota.http.pages.jobs import record_of
from rota.model.errors import InvalidValue
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.jobs import JobQuery, Sort, list_jobs, list_versions, page_of_jobs, show_job
from rota.operations.project.locate import open_state
from rota.operations.queue import look_at_queue
from rota.operations.run_actions import step_run
from rota.rules.params import read_value, write_value
from rota.store.driver import Store
from tests.faces.conftest import Project

FILE = """
defaults: {retry: false, overlap: allow}
jobs:
  alpha: {command: [echo, a], cron: "0 3 * * *", labels: [night, db], description: Saves the Records}
  beta: {command: [echo, b], cron: "0 2 * * *", labels: [night]}
  gamma: {command: [echo, c]}
  off: {command: [echo, d], cron: "0 1 * * *", enabled: false}
"""
GOOD = Outcome(Status.COMPLETED, exit_code=0)
BAD = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3)


@pytest.fixture
def applied(project: Project) -> Project:
    return project.applied(FILE)


@pytest.fixture
def store(applied: Project) -> Iterator[Store]:
    opened = open_state(applied.state, applied.clock, create=False)
    yield opened
    opened.close()


def names(store: Store, query: JobQuery, **options: int) -> list[str]:
    return [line.view.job.name for line in page_of_jobs(store, query, **options).lines]


def ran(project: Project, job: str, outcome: Outcome) -> None:
    project.ok("trigger", job)
    project.carry_out([outcome])
    project.clock.advance(timedelta(seconds=1))


def test_a_page_holds_all_jobs_that_are_not_retired_by_name(store: Store) -> None:
    assert names(store, JobQuery()) == ["alpha", "beta", "gamma", "off"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (JobQuery(text="BET"), ["beta"]),
        (JobQuery(text="saves records"), ["alpha"]),
        (JobQuery(text="night"), ["alpha", "beta"]),
        (JobQuery(text="records beta"), []),
        (JobQuery(labels=("night", "db")), ["alpha"]),
        (JobQuery(state="disabled"), ["off"]),
        (JobQuery(state="idle", sort=Sort.NEXT), ["beta", "alpha", "gamma"]),
        (JobQuery(state="retired"), []),
    ],
)
def test_jobs_are_found_by_text_label_and_state(store: Store, query: JobQuery, found: list[str]) -> None:
    assert names(store, query) == found


def test_a_state_that_does_not_exist_is_refused(store: Store) -> None:
    with pytest.raises(InvalidValue, match="no job state is named 'red'"):
        page_of_jobs(store, JobQuery(state="red"))


def test_pages_follow_each_other_and_beyond_the_last_is_the_last(store: Store) -> None:
    assert names(store, JobQuery(), number=2, limit=3) == ["off"]
    beyond = page_of_jobs(store, JobQuery(), number=9, limit=3)
    assert (beyond.number, beyond.pages, beyond.matching) == (2, 2, 4)


def test_a_page_tells_how_many_jobs_there_are_of_each_state_and_label(applied: Project, store: Store) -> None:
    ran(applied, "alpha", BAD)
    applied.ok("pause", "beta")
    found = page_of_jobs(store, JobQuery())
    assert dict(found.states) == {"idle": 2, "failing": 1, "paused": 1, "disabled": 1}
    assert found.labels == {"night": 2, "db": 1}


def test_the_last_outcomes_of_a_page_are_those_of_each_job_alone(applied: Project, store: Store) -> None:
    for outcome in [GOOD] * 9 + [BAD] * 3:
        ran(applied, "alpha", outcome)
    ran(applied, "beta", GOOD)
    lines = {line.view.job.name: line for line in page_of_jobs(store, JobQuery()).lines}
    single = {view.job.name: view for view in list_jobs(store)}
    for name, line in lines.items():
        assert line.view.last == single[name].last
        assert line.failing is single[name].failing
    assert [run.number for run in lines["alpha"].view.last] == [12, 11, 10, 9, 8, 7, 6, 5, 4, 3]


def test_a_job_of_a_page_knows_what_runs_and_what_waits(applied: Project, store: Store) -> None:
    applied.ok("trigger", "alpha")
    applied.begin()
    applied.ok("trigger", "alpha")
    applied.ok("trigger", "beta")
    lines = {line.view.job.name: line.view for line in page_of_jobs(store, JobQuery()).lines}
    assert [run.handle for run in lines["alpha"].unfinished] == ["alpha:1"]
    assert [run.handle for run in lines["beta"].unfinished] == ["beta:1"]
    assert (lines["alpha"].state, lines["beta"].state, lines["gamma"].state) == ("running", "idle", "idle")


def test_versions_tell_what_each_of_them_changed(applied: Project, store: Store) -> None:
    applied.clock.advance(timedelta(minutes=1))
    applied.applied(FILE.replace("0 3", "30 4"))
    applied.ok("pause", "alpha")
    applied.ok("resume", "alpha")
    found = list_versions(store, "alpha")
    assert [(one.version.number, one.changes) for one in found.shown] == [
        (4, ("resumed",)),
        (3, ("paused",)),
        (2, ('cron "0 3 * * *" -> "30 4 * * *"',)),
        (1, ("created",)),
    ]
    assert found.below is None
    assert found.shown[0].version.until is None


def test_older_versions_follow_where_the_newer_ones_end(applied: Project, store: Store) -> None:
    for hour in (4, 5, 6):
        applied.clock.advance(timedelta(minutes=1))
        applied.applied(FILE.replace("0 3", f"0 {hour}"))
    first = list_versions(store, "alpha", limit=2)
    rest = list_versions(store, "alpha", below=first.below, limit=2)
    assert [one.version.number for one in (*first.shown, *rest.shown)] == [4, 3, 2, 1]
    assert (first.below, rest.below) == (3, None)


def test_the_record_of_a_job_tells_rate_and_durations(applied: Project, store: Store) -> None:
    for outcome in (GOOD, GOOD, BAD, GOOD):
        ran(applied, "alpha", outcome)
    told = record_of(show_job(store, "alpha").last)
    assert (told.runs, told.completed, told.failed, told.rate) == (4, 3, 1, 75)
    assert told.median == told.longest == timedelta(seconds=2)
    assert record_of([]).rate is None


def test_a_run_steps_up_and_down_and_stops_at_the_ends(applied: Project, store: Store) -> None:
    """DEC-005."""
    for _ in range(3):
        applied.ok("trigger", "alpha")
    now = applied.clock.now()

    def order() -> list[int]:
        return [one.run.number for one in look_at_queue(store, applied.state, limit=9, now=now).ready]

    assert (step_run(store, "alpha:3", steps=-1, now=now).place, order()) == (2, [1, 3, 2])
    assert (step_run(store, "alpha:1", steps=1, now=now).place, order()) == (2, [3, 1, 2])
    assert (step_run(store, "alpha:3", steps=-1, now=now).place, order()) == (1, [3, 1, 2])
    assert (step_run(store, "alpha:2", steps=1, now=now).place, order()) == (3, [3, 1, 2])


@pytest.mark.parametrize("value", ["x", "3", "true", " blank ", "", 3, 2.5, True, None, '"quoted"', "a\nb"])
def test_a_param_is_shown_as_it_would_be_typed(value: object) -> None:
    assert read_value(write_value(value)) == value
