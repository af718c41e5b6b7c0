"""What code declares: the same keys and the same messages as a file, for one scheduler and no other."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rota
from rota.model.errors import InvalidValue, JobInFile, JobProblems, NameTaken, UnknownJob
from rota.model.spec import OverlapPolicy
from rota.model.states import Reason, Status
from tests.library.conftest import run_now


def spec(scheduler: rota.Scheduler, name: str):
    return next(one for one in scheduler.declarations.everything().jobs if one.name == name)


def test_a_decorated_function_is_a_job_and_stays_a_function(scheduler: rota.Scheduler) -> None:
    @scheduler.job("digest", cron="0 8 * * mon-fri", timeout="5m", overlap="queue")
    def digest(context: rota.JobContext) -> str:
        return "done"

    @scheduler.job
    def bare() -> None: ...

    @scheduler.job(interval="1h")
    def hourly() -> None: ...

    assert digest(None) == "done"
    made = spec(scheduler, "digest")
    assert (made.schedule.cron, made.work.timeout) == (("0 8 * * MON-FRI",), timedelta(minutes=5))
    assert made.overlap.policy is OverlapPolicy.QUEUE
    assert spec(scheduler, "bare").schedule.manual
    assert spec(scheduler, "hourly").schedule.interval == timedelta(hours=1)


def test_what_a_file_would_refuse_is_refused_in_the_same_words(scheduler: rota.Scheduler) -> None:
    with pytest.raises(JobProblems) as caught:
        scheduler.add_job("work", command=["true"], every="5m", timeout="soon")
    told = str(caught.value)
    assert "jobs.work.every: unknown key; intervals are written `interval: 30m`" in told
    assert "jobs.work.timeout: " in told
    with pytest.raises(UnknownJob):
        scheduler.next_fires("work")


def test_sections_are_those_of_a_file_and_are_checked_at_once(store: Path) -> None:
    with pytest.raises(JobProblems, match="timezone"):
        rota.Scheduler(store, timezone="Europe/Berlim")
    scheduler = rota.Scheduler(
        store,
        timezone="Europe/Berlin",
        defaults={"timeout": "1h", "labels": ["mine"]},
        pools={"gpu": 2},
        scheduler={"tick": "10s"},
    )
    scheduler.add_job("work", command=["true"], pools={"gpu": 2})
    made = spec(scheduler, "work")
    assert (made.schedule.timezone, made.work.timeout, made.labels) == ("Europe/Berlin", timedelta(hours=1), ("mine",))
    with pytest.raises(JobProblems, match="no pool is named"):
        scheduler.add_job("other", command=["true"], pools=["cpu"])


def test_durations_instants_and_paths_may_be_pythons_own(scheduler: rota.Scheduler, tmp_path: Path) -> None:
    at = datetime(2030, 1, 2, 3, tzinfo=UTC)
    scheduler.add_job("once", command=("true",), at=at, timeout=timedelta(minutes=5), cwd=tmp_path)
    made = spec(scheduler, "once")
    assert (made.schedule.at, made.work.timeout, made.work.cwd) == (at, timedelta(minutes=5), str(tmp_path))
    scheduler.add_job("daily", command=["true"], cron="0 8 * * *", except_=["2030-12-25"])
    assert spec(scheduler, "daily").schedule.excluded == ("2030-12-25",)


def test_the_order_of_conditions_and_jobs_in_the_code_does_not_matter(scheduler: rota.Scheduler) -> None:
    @scheduler.job("work", conditions=["open"])
    def work() -> None: ...

    with pytest.raises(JobProblems, match=r'no condition is named "open"; register it with @scheduler.condition'):
        scheduler.start()

    @scheduler.condition("open")
    async def is_open(context: rota.JobContext) -> bool:
        return False

    scheduler.start()
    run = run_now(scheduler, "work")
    assert (run.status, run.reason) == (Status.SKIPPED, Reason.CONDITION)


def test_while_it_runs_a_name_must_be_there_when_it_is_used(scheduler: rota.Scheduler) -> None:
    scheduler.start()
    with pytest.raises(JobProblems, match='no function is named "missing"'):
        scheduler.add_job("work", run="missing")


def test_adding_a_job_again_changes_it_and_its_function(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("work", run=lambda: "first")
    scheduler.start()
    scheduler.add_job("work", run=lambda: "second", params={"n": 1})
    run = run_now(scheduler, "work")
    assert (run.result_summary, run.version, dict(run.params)) == ("second", 2, {"n": 1})


def test_a_refused_change_leaves_the_job_and_its_function_as_they_were(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("work", run=lambda: "first")
    scheduler.start()
    with pytest.raises(JobProblems):
        scheduler.add_job("work", run=lambda: "second", interval="never")
    run = run_now(scheduler, "work")
    assert (run.result_summary, run.version) == ("first", 1)


def test_two_functions_cannot_be_declared_under_one_name(scheduler: rota.Scheduler) -> None:
    @scheduler.job("work")
    def first() -> None: ...

    with pytest.raises(InvalidValue, match="two functions"):

        @scheduler.job("work")
        def second() -> None: ...


def test_nothing_is_shared_between_two_schedulers(tmp_path: Path) -> None:
    one, other = rota.Scheduler(tmp_path / "a"), rota.Scheduler(tmp_path / "b")

    @one.job("work")
    def work() -> None: ...

    assert [made.name for made in other.declarations.everything().jobs] == []
    with pytest.raises(JobProblems):
        other.declarations.add("work", {"run": "work", "interval": "soon"}, keep=None)


def test_a_function_may_be_named_by_its_module(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("work", run="platform:node", retry=False)
    scheduler.start()
    run = run_now(scheduler, "work")
    assert run.status is Status.COMPLETED
    assert run.result_summary


def test_a_registered_function_cannot_run_in_another_process_and_a_named_one_can(scheduler: rota.Scheduler) -> None:
    with pytest.raises(JobProblems, match="a separate process does not know"):
        scheduler.add_job("work", run=threading.get_ident, isolate="process")
    scheduler.add_job("named", run="platform:node", isolate="process", retry=False)
    scheduler.start()
    run = run_now(scheduler, "named")
    assert run.status is Status.COMPLETED


def test_a_removed_job_fires_no_more_and_comes_back_with_its_history(scheduler: rota.Scheduler) -> None:
    """R-14."""
    scheduler.add_job("work", run=lambda: None, cron="0 8 * * *")
    scheduler.start()
    run_now(scheduler, "work")
    scheduler.remove_job("work")
    assert scheduler.next_fires("work") == []
    assert scheduler.status().schedules == ()
    assert scheduler.sync.trigger("work").skip_reason == "disabled"
    with pytest.raises(UnknownJob):
        scheduler.remove_job("missing")
    scheduler.add_job("work", run=lambda: None, cron="0 8 * * *")
    assert [run.handle for run in scheduler.history("work")] == ["work:1"]
    assert len(scheduler.next_fires("work")) == 3


def test_before_the_start_a_job_can_be_taken_back(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("work", command=["true"])
    scheduler.remove_job("work")
    assert scheduler.declarations.everything().jobs == ()
    with pytest.raises(UnknownJob):
        scheduler.remove_job("work")


def test_a_job_of_a_file_is_not_taken_over(store: Path) -> None:
    from rota.declare.project import read_project
    from rota.engine.clock import SystemClock
    from rota.operations.project.apply import apply

    with rota.Scheduler(store) as scheduler:
        folder = store.parents[1]
        (folder / "rota.yaml").write_text("jobs: {mine: {command: [true]}}\n".replace("true", "'true'"))
        declared = read_project(folder, environment={})
        scheduler.operate(lambda opened: apply(opened, declared, now=SystemClock().now()))
        with pytest.raises(NameTaken):
            scheduler.add_job("mine", command=["false"])
        with pytest.raises(JobInFile, match=r"declared in .*/rota\.yaml:1;"):
            scheduler.remove_job("mine")


def test_groups_of_jobs_are_declared_as_in_a_file(store: Path) -> None:
    seen: list[str] = []
    scheduler = rota.Scheduler(store, groups={"nightly": {"members": ["first", "second"]}})
    scheduler.add_job("first", run=lambda: seen.append("first"))
    scheduler.add_job("second", run=lambda: seen.append("second"))
    with scheduler:
        run = run_now(scheduler, "nightly")
    assert (run.status, seen) == (Status.COMPLETED, ["first", "second"])
