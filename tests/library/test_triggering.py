"""Triggering, waiting and slots: document 003's plan for `trigger` and `concurrency`."""

import threading
from pathlib import Path

import pytest

import rota
from rota.model.states import Reason, Status
from tests.library.conftest import LONG, Held, first_run
from tests.waiting import until


def run_id(result: rota.TriggerResult) -> str:
    assert result.success, result.error
    assert result.run_id is not None
    return result.run_id


def test_a_trigger_starts_a_job_and_answers_with_its_run(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("work", run=lambda context: f"got {context.params['n']}", params={"n": 1})
    scheduler.start()
    result = scheduler.sync.trigger("work", params={"n": 5})
    run = scheduler.sync.wait(run_id(result), timeout=LONG)
    assert (run.status, run.result_summary, run.trigger.value) == (Status.COMPLETED, "got 5", "manual")
    assert (result.error, result.skipped, result.skip_reason) == (None, False, None)
    assert scheduler.sync.wait("work:1") == scheduler.sync.wait("work") == scheduler.sync.wait(result) == run


def test_a_job_that_is_not_there_is_an_error_with_the_nearest_name(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("digest", command=["true"])
    scheduler.start()
    with pytest.raises(rota.UnknownJob) as caught:
        scheduler.sync.trigger("digset")
    assert str(caught.value) == ("no job is named 'digset'; did you mean 'digest'? list them with `scheduler.status()`")


def test_a_schedule_that_is_not_there_is_an_error(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("writer", command=["true"])
    scheduler.start()
    with pytest.raises(rota.UnknownJob, match="'writer/hourly'"):
        scheduler.sync.trigger("writer", "hourly")


def test_params_that_the_job_does_not_have_are_an_error(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("work", command=["true"])
    scheduler.start()
    with pytest.raises(rota.RotaError, match="no param 'n'"):
        scheduler.sync.trigger("work", params={"n": 1})


def test_a_disabled_job_is_skipped_and_says_so(scheduler: rota.Scheduler) -> None:
    """R-29."""
    scheduler.add_job("off", command=["true"], enabled=False)
    scheduler.start()
    result = scheduler.sync.trigger("off")
    assert (result.success, result.skipped, result.skip_reason) == (False, True, "disabled")
    assert result.error


def test_a_job_that_runs_is_skipped_by_its_overlap_policy_unless_forced(scheduler: rota.Scheduler, held: Held) -> None:
    """R-11, R-29."""
    scheduler.add_job("held", run=held)
    scheduler.start()
    first = scheduler.sync.trigger("held")
    held.enter()
    second = scheduler.sync.trigger("held")
    assert (second.success, second.skipped, second.skip_reason) == (False, True, "overlap")
    assert second.error == (
        "held was not started: held:1 is not finished and the job says `overlap: forbid`; "
        "wait for it, or ignore overlap with `force=True`"
    )
    with pytest.raises(rota.SchedulerError, match="no run to wait for: held was not started"):
        scheduler.sync.wait(second)
    forced = scheduler.sync.trigger("held", force=True)
    held.go_on.set()
    for result in (first, forced):
        assert scheduler.sync.wait(run_id(result), timeout=LONG).status is Status.COMPLETED


def test_at_capacity_a_triggered_run_waits_in_the_queue(store: Path, held: Held) -> None:
    """Document 003 skips it as at_capacity; DESIGN.md section 13 lets it wait."""
    scheduler = rota.Scheduler(store, concurrency=1)
    scheduler.add_job("held", run=held)
    scheduler.add_job("next", run=lambda: None)
    with scheduler:
        scheduler.sync.trigger("held")
        held.enter()
        waiting = run_id(scheduler.sync.trigger("next"))
        assert scheduler.history("next")[0].status is Status.QUEUED
        held.go_on.set()
        assert scheduler.sync.wait(waiting, timeout=LONG).status is Status.COMPLETED


def test_runs_that_are_under_way_are_counted_until_they_complete_or_fail(scheduler: rota.Scheduler) -> None:
    completing, failing = Held(), Held()

    def fail(context: rota.JobContext) -> None:
        failing(context)
        raise KeyError("no")

    scheduler.add_job("completing", run=completing)
    scheduler.add_job("failing", run=fail, retry=False)
    scheduler.start()
    made = [scheduler.sync.trigger(name) for name in ("completing", "failing")]
    completing.enter()
    failing.enter()
    assert (scheduler.running_count(), scheduler.running_count("completing"), scheduler.running_count("no")) == (
        2,
        1,
        0,
    )
    completing.go_on.set()
    assert scheduler.sync.wait(run_id(made[0]), timeout=LONG).status is Status.COMPLETED
    assert (scheduler.running_count(), scheduler.running_count("failing")) == (1, 1)
    failing.go_on.set()
    assert scheduler.sync.wait(run_id(made[1]), timeout=LONG).status is Status.FAILED
    assert scheduler.running_count() == 0


def test_a_full_pool_holds_back_only_who_draws_on_it(store: Path, held: Held) -> None:
    scheduler = rota.Scheduler(store, pools={"narrow": 1})
    scheduler.add_job("held", run=held, pools=["narrow"])
    scheduler.add_job("drawing", run=lambda: None, pools=["narrow"])
    scheduler.add_job("free", run=lambda: None)
    with scheduler:
        scheduler.sync.trigger("held")
        held.enter()
        waiting = run_id(scheduler.sync.trigger("drawing"))
        scheduler.sync.wait(run_id(scheduler.sync.trigger("free")), timeout=LONG)
        assert scheduler.history("drawing")[0].status is Status.QUEUED
        held.go_on.set()
        assert scheduler.sync.wait(waiting, timeout=LONG).status is Status.COMPLETED


def test_one_broken_job_does_not_keep_the_others_from_running(scheduler: rota.Scheduler) -> None:
    """003 US-7."""
    ran = threading.Event()

    def broken() -> None:
        raise RuntimeError("broken")

    scheduler.add_job("broken", run=broken, interval="1h", retry=False)
    scheduler.add_job("fine", run=ran.set, interval="1h")
    scheduler.start()
    assert ran.wait(LONG)
    assert first_run(scheduler, "broken").reason is Reason.EXCEPTION
    assert "RuntimeError: broken" in (scheduler.status().of("broken").last_error or "")


def test_a_wait_that_is_too_short_says_so_and_the_run_goes_on(scheduler: rota.Scheduler, held: Held) -> None:
    scheduler.add_job("held", run=held)
    scheduler.start()
    made = run_id(scheduler.sync.trigger("held"))
    held.enter()
    with pytest.raises(TimeoutError, match="not final"):
        scheduler.sync.wait(made, timeout=0)
    held.go_on.set()
    assert scheduler.sync.wait(made, timeout=LONG).status is Status.COMPLETED


def test_who_waits_for_a_run_that_another_thread_cancels_hears_of_it(scheduler: rota.Scheduler) -> None:
    from rota.engine.clock import SystemClock
    from rota.operations.run_actions import cancel_run

    scheduler.add_job("later", command=["true"], conditions=[{"command": ["sh", "-c", "exit 10"]}], when_false="wait")
    scheduler.start()
    made = run_id(scheduler.sync.trigger("later"))
    until(lambda: scheduler.history("later")[0].waiting_for, what="the run to wait for its condition")
    scheduler.operate(lambda store: cancel_run(store, made, now=SystemClock().now()))
    assert scheduler.sync.wait(made, timeout=LONG).status is Status.CANCELLED


def test_who_waits_when_the_scheduler_stops_hears_of_that(store: Path, held: Held) -> None:
    scheduler = rota.Scheduler(store, concurrency=1, stop_timeout=LONG)
    scheduler.add_job("held", run=held)
    scheduler.add_job("next", run=lambda: None)
    scheduler.start()
    scheduler.sync.trigger("held")
    held.enter()
    waiting = scheduler.begin_wait(run_id(scheduler.sync.trigger("next")))
    stopping = threading.Thread(target=scheduler.stop)
    stopping.start()
    until(lambda: not scheduler._guest._engine.claimer.allowed, what="the scheduler to start nothing more")
    held.go_on.set()
    with pytest.raises(rota.SchedulerShutdownError) as caught:
        waiting.result(LONG)
    assert not caught.value.timed_out
    stopping.join(LONG)


@pytest.mark.anyio
async def test_a_reserved_slot_is_counted_against_the_pool_while_the_block_runs(store: Path) -> None:
    """R-13."""
    ran = threading.Event()
    scheduler = rota.Scheduler(store, pools={"gpu": 1})
    scheduler.add_job("work", run=ran.set, pools=["gpu"])
    async with scheduler:
        async with scheduler.reserve_slot(pools=["gpu"]):
            made = run_id(await scheduler.trigger("work"))
            with pytest.raises(rota.RotaError, match="no slot"):
                async with scheduler.reserve_slot(pools={"gpu": 1}, within=0.0):
                    raise AssertionError("there was no room")
            assert not ran.is_set()
        assert (await scheduler.wait(made, timeout=LONG)).status is Status.COMPLETED


def test_a_block_that_fails_gives_its_slot_back_and_its_error_on(store: Path) -> None:
    with rota.Scheduler(store, concurrency=1) as scheduler:
        with pytest.raises(KeyError, match="mine"), scheduler.sync.reserve_slot():
            raise KeyError("mine")
        with scheduler.sync.reserve_slot() as again:
            assert again.slot == 0


def test_a_slot_that_is_held_when_the_scheduler_stops_is_taken_back(store: Path) -> None:
    scheduler = rota.Scheduler(store)
    scheduler.start()
    with scheduler.sync.reserve_slot(), pytest.raises(rota.SchedulerShutdownError):
        scheduler.stop(timeout=0)
    assert not scheduler.is_running
