"""What a scheduler tells of itself: document 003's plan for `getStatus` and the state of schedules."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

import rota
from rota.model.errors import UnknownJob
from tests.library.conftest import Held, first_run, run_now


def test_before_the_start_what_is_declared_is_known(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("on", command=["true"], cron="0 8 * * *")
    scheduler.add_job("off", command=["true"], enabled=False)
    status = scheduler.status()
    assert (status.running, status.active_runs) == (False, 0)
    assert [(one.job, one.state) for one in status.schedules] == [("on", "idle"), ("off", "disabled")]


def test_the_status_tells_whether_it_runs_how_many_are_active_and_each_job(
    scheduler: rota.Scheduler, held: Held
) -> None:
    scheduler.add_job("held", run=held, interval="1h")
    scheduler.add_job("idle", command=["true"], cron="0 8 * * *")
    scheduler.start()
    held.enter()
    status = scheduler.status()
    assert (status.running, status.active_runs) == (True, 1)
    assert {one.job: one.state for one in status.schedules} == {"held": "running", "idle": "idle"}
    assert status.of("held").last_run_at is None


def test_a_schedule_counts_on_from_its_completion(scheduler: rota.Scheduler) -> None:
    """003: the interval starts when the run has ended (R-06)."""
    scheduler.add_job("work", run=lambda: None, interval="1h")
    scheduler.start()
    run = first_run(scheduler, "work")
    one = scheduler.status().of("work")
    assert one.last_run_at == run.finished_at
    assert one.next_run_at == run.finished_at + timedelta(hours=1)


def test_the_last_error_goes_away_with_the_next_success(scheduler: rota.Scheduler) -> None:
    fails = threading.Event()
    fails.set()

    def work() -> None:
        if fails.is_set():
            raise KeyError("no")

    scheduler.add_job("work", run=work, retry=False)
    scheduler.start()
    run_now(scheduler, "work")
    assert "KeyError" in (scheduler.status().of("work").last_error or "")
    fails.clear()
    run_now(scheduler, "work")
    assert scheduler.status().of("work").last_error is None


def test_a_job_that_is_not_there_has_no_status(scheduler: rota.Scheduler) -> None:
    scheduler.start()
    with pytest.raises(UnknownJob):
        scheduler.status().of("missing")


def test_the_state_of_schedules_is_there_after_a_stop_and_in_the_next_process(store: Path) -> None:
    first = rota.Scheduler(store)
    first.add_job("work", run=lambda: None, interval="1h")
    with first:
        first_run(first, "work")
    stopped = first.status()
    assert (stopped.running, stopped.active_runs) == (False, 0)
    assert rota.Scheduler(store).status().of("work") == stopped.of("work")


def test_changing_one_schedule_leaves_the_others_as_they_are(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("one", command=["true"], cron="0 8 * * *")
    scheduler.add_job("other", command=["true"], cron="0 9 * * *")
    scheduler.start()
    before = scheduler.status().of("other")
    scheduler.add_job("one", command=["true"], cron="0 10 * * *")
    assert scheduler.status().of("other") == before
    assert scheduler.next_fires("one", n=1)[0].hour == 10


def test_jobs_that_many_threads_add_at_the_same_time_are_all_there(scheduler: rota.Scheduler) -> None:
    scheduler.start()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: scheduler.add_job(f"job-{n}", command=["true"]), range(40)))
    assert len(scheduler.status().schedules) == 40


def test_next_fires_are_in_the_zone_of_the_job_with_or_without_a_start(store: Path) -> None:
    scheduler = rota.Scheduler(store, timezone="Europe/Berlin")
    scheduler.add_job("work", command=["true"], cron="0 8 * * mon-fri")
    before = scheduler.next_fires("work", n=3)
    assert {(at.hour, str(at.tzinfo)) for at in before} == {(8, "Europe/Berlin")}
    with scheduler:
        assert scheduler.next_fires("work", n=3)[-1] >= before[-1]
        with pytest.raises(UnknownJob):
            scheduler.next_fires("missing")


def test_history_is_a_story_oldest_first_and_bounded_to_the_newest(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("a", run=lambda: None)
    scheduler.add_job("b", run=lambda: None)
    scheduler.start()
    for name in ("a", "b", "a"):
        run_now(scheduler, name)
    assert [run.handle for run in scheduler.history()] == ["a:1", "b:1", "a:2"]
    assert [run.handle for run in scheduler.history("a", limit=1)] == ["a:2"]
