"""Starting and stopping a scheduler inside a program: document 003's plan for `start/stop` and its integration."""

import asyncio
import threading
from pathlib import Path

import pytest

import rota
from rota.engine.clock import SystemClock
from rota.engine.membership.locks import take_serve_lock
from rota.model.errors import AlreadyServing, EmptyApply, InvalidValue, StateError
from rota.model.states import Reason, Status
from rota.operations.verify.verify import verify
from tests.library.conftest import LONG, Held, first_run, run_now
from tests.waiting import until


def test_a_due_schedule_runs_without_being_asked(scheduler: rota.Scheduler) -> None:
    ran = threading.Event()
    scheduler.add_job("often", run=ran.set, interval="1h")
    scheduler.start()
    assert ran.wait(LONG)
    run = first_run(scheduler, "often")
    assert (run.status, run.trigger.value) == (Status.COMPLETED, "schedule")


def test_it_runs_from_start_to_stop(scheduler: rota.Scheduler) -> None:
    before = set(threading.enumerate())
    assert not scheduler.is_running
    scheduler.start()
    assert scheduler.is_running
    scheduler.stop()
    assert not scheduler.is_running
    assert not [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("rota-")]


def test_what_it_leaves_passes_the_audit(scheduler: rota.Scheduler, store: Path, held: Held) -> None:
    scheduler.add_job("held", run=held, interval="1h", retry=False)
    scheduler.add_job("command", command=["sh", "-c", "exit 3"], interval="1h")
    scheduler.start()
    held.enter()
    first_run(scheduler, "command")
    scheduler.stop(wait=False)
    report = scheduler.operate(lambda opened: verify(opened, store.parent, now=SystemClock().now()))
    assert report.violations == ()


def test_starting_and_stopping_twice_is_the_same_as_once(scheduler: rota.Scheduler) -> None:
    scheduler.stop()
    scheduler.start()
    scheduler.start()
    assert scheduler.is_running
    scheduler.stop()
    scheduler.stop()
    scheduler.start()
    assert scheduler.is_running


def test_a_stop_waits_for_what_runs(scheduler: rota.Scheduler, held: Held) -> None:
    scheduler.add_job("held", run=held)
    scheduler.add_job("other", run=lambda: None)
    scheduler.start()
    scheduler.sync.trigger("held")
    held.enter()
    stopping = threading.Thread(target=scheduler.stop)
    stopping.start()
    until(lambda: not scheduler._guest._engine.claimer.allowed, what="the scheduler to start nothing more")
    assert scheduler.sync.trigger("other").success
    assert scheduler.is_running
    held.go_on.set()
    stopping.join(LONG)
    assert not scheduler.is_running
    assert [run.status for run in scheduler.history("held")] == [Status.COMPLETED]
    assert [run.status for run in scheduler.history("other")] == [Status.QUEUED]


def test_a_stop_whose_time_is_over_ends_what_runs_and_says_so(scheduler: rota.Scheduler, held: Held) -> None:
    """R-08: what had to be ended is FAILED shutdown."""
    scheduler.add_job("held", run=held, retry=False)
    scheduler.start()
    scheduler.sync.trigger("held")
    held.enter()
    with pytest.raises(rota.SchedulerShutdownError, match="1 run did not end within 0 s") as caught:
        scheduler.stop(timeout=0)
    assert caught.value.timed_out
    assert not scheduler.is_running
    (run,) = scheduler.history("held")
    assert (run.status, run.reason) == (Status.FAILED, Reason.SHUTDOWN)


def test_a_stop_that_does_not_wait_ends_what_runs_and_is_content(scheduler: rota.Scheduler, held: Held) -> None:
    scheduler.add_job("held", run=held, retry=False)
    scheduler.start()
    scheduler.sync.trigger("held")
    held.enter()
    scheduler.stop(wait=False)
    assert [run.reason for run in scheduler.history("held")] == [Reason.SHUTDOWN]


def test_a_detached_command_goes_on_and_the_next_start_records_its_end(
    scheduler: rota.Scheduler, tmp_path: Path
) -> None:
    """R-23."""
    gate = tmp_path / "gate"
    scheduler.add_job("long", command=["sh", "-c", f"until test -e {gate}; do sleep 0.05; done; exit 7"], retry=False)
    scheduler.start()
    run_id = scheduler.sync.trigger("long").run_id
    assert run_id is not None
    until(lambda: scheduler.history("long")[0].started_at, what="the command to start")
    scheduler.stop(detach=True)
    assert scheduler.history("long")[0].status is Status.RUNNING
    gate.touch()
    scheduler.start()
    assert scheduler.sync.wait(run_id, timeout=LONG).exit_code == 7


def test_state_and_history_survive_a_restart(store: Path) -> None:
    def count(context: rota.JobContext) -> str:
        context.state["seen"] = context.state.get("seen", 0) + 1
        return f"seen {context.state['seen']}"

    for _ in range(2):
        scheduler = rota.Scheduler(store)
        scheduler.add_job("count", run=count)
        with scheduler:
            run_now(scheduler, "count")
    assert [run.result_summary for run in scheduler.history("count")] == ["seen 1", "seen 2"]


def test_what_the_code_no_longer_declares_is_retired_and_what_it_keeps_stays(store: Path) -> None:
    """R-14: what is declared before the start is like a file."""
    first = rota.Scheduler(store)
    first.add_job("gone", command=["true"], cron="0 8 * * *")
    first.add_job("kept", command=["true"], cron="0 8 * * *", keep=True)
    with first:
        first.add_job("later", command=["true"], cron="0 8 * * *")
        first.add_job("gone", command=["false"], cron="0 8 * * *")
    second = rota.Scheduler(store)
    second.add_job("other", command=["true"])
    with second:
        assert {one.job for one in second.status().schedules} == {"kept", "later", "other"}
        assert second.history("gone") == []


def test_what_is_added_after_the_start_may_be_declared_before_it_the_next_time(store: Path) -> None:
    with rota.Scheduler(store) as first:
        first.add_job("work", command=["true"], cron="0 8 * * *")
    second = rota.Scheduler(store)
    second.add_job("work", command=["true"], cron="0 9 * * *")
    with second:
        assert [at.hour for at in second.next_fires("work", n=2)] == [9, 9]
    third = rota.Scheduler(store)
    third.add_job("other", command=["true"])
    with third:
        assert {one.job for one in third.status().schedules} == {"other"}


def test_code_that_declares_nothing_does_not_retire_everything_by_accident(store: Path) -> None:
    first = rota.Scheduler(store)
    first.add_job("one", command=["true"])
    with first:
        pass
    with pytest.raises(EmptyApply):
        rota.Scheduler(store).start()
    with rota.Scheduler(store, allow_empty=True) as last:
        assert last.status().schedules == ()


def test_a_second_scheduler_on_the_same_store_is_refused_and_the_first_goes_on(store: Path) -> None:
    """R-23: one process at a time serves a state folder, in this process or another."""
    with rota.Scheduler(store) as first:
        second = rota.Scheduler(store)
        with pytest.raises(AlreadyServing):
            second.start()
        with pytest.raises(AlreadyServing):
            take_serve_lock(store.parent)
        assert first.is_running
        assert not second.is_running


def test_a_store_that_another_process_serves_is_refused(scheduler: rota.Scheduler, store: Path) -> None:
    store.parent.mkdir(mode=0o700)
    (store.parent / ".gitignore").write_text("*\n")
    lock = take_serve_lock(store.parent)
    with pytest.raises(AlreadyServing):
        scheduler.start()
    lock.release()
    scheduler.start()


def test_two_schedulers_live_side_by_side(tmp_path: Path) -> None:
    with rota.Scheduler(tmp_path / "a") as one, rota.Scheduler(tmp_path / "b") as other:
        for each in (one, other):
            each.add_job("work", run=lambda: None)
            assert run_now(each, "work").status is Status.COMPLETED
        assert len(one.history()) == len(other.history()) == 1


def test_in_memory_nothing_is_left() -> None:
    scheduler = rota.Scheduler(":memory:")
    ran = threading.Event()
    scheduler.add_job("work", run=ran.set, interval="1h")
    with scheduler:
        assert ran.wait(LONG)
        folder = scheduler.operate(lambda opened: opened.path.parent)
        assert folder.is_dir()
    assert not folder.exists()
    with pytest.raises(rota.SchedulerError):
        scheduler.history()


def test_a_damaged_store_is_told_and_never_begun_anew(store: Path) -> None:
    """Document 003 starts with an empty state; DESIGN.md section 13 fails fast."""
    store.parent.mkdir()
    store.write_bytes(b"nothing that rota wrote" * 100)
    with pytest.raises(StateError):
        rota.Scheduler(store).start()
    assert store.read_bytes().startswith(b"nothing that rota wrote")


def test_a_state_folder_that_vanishes_stops_the_scheduler(scheduler: rota.Scheduler, store: Path) -> None:
    scheduler.start()
    store.rename(store.with_name("moved"))
    until(lambda: not scheduler.is_running, what="the scheduler to notice")
    scheduler.stop()


@pytest.mark.parametrize("name", ["state/jobs.db", "mysql://host/name", "rota.db"])
def test_a_store_that_cannot_be_meant_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.txt").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValue):
        rota.Scheduler(name)


@pytest.mark.anyio
async def test_async_functions_run_on_the_loop_that_entered_and_others_do_not(scheduler: rota.Scheduler) -> None:
    here, seen = asyncio.get_running_loop(), []

    async def work(context: rota.JobContext) -> str:
        seen.append(asyncio.get_running_loop())
        return "done"

    scheduler.add_job("work", run=work)
    async with scheduler:
        triggered = await scheduler.trigger("work")
        run = await scheduler.wait(triggered.run_id or "", timeout=LONG)
    assert (run.status, run.result_summary) == (Status.COMPLETED, "done")
    assert seen == [here]


@pytest.mark.anyio
async def test_leaving_the_block_ends_async_functions_that_do_not(store: Path) -> None:
    begun = asyncio.Event()

    async def forever(context: rota.JobContext) -> None:
        begun.set()
        await asyncio.Event().wait()

    scheduler = rota.Scheduler(store, stop_timeout=0)
    scheduler.add_job("forever", run=forever, retry=False)

    async def main() -> None:
        async with scheduler:
            await scheduler.trigger("forever")
            await begun.wait()

    with pytest.raises(rota.SchedulerShutdownError):
        await main()
    assert [run.reason for run in scheduler.history("forever")] == [Reason.SHUTDOWN]


@pytest.mark.anyio
async def test_what_goes_wrong_in_the_block_is_what_comes_out_of_it(store: Path) -> None:
    begun = asyncio.Event()

    async def forever(context: rota.JobContext) -> None:
        begun.set()
        await asyncio.Event().wait()

    scheduler = rota.Scheduler(store, stop_timeout=0)
    scheduler.add_job("forever", run=forever)

    async def main() -> None:
        async with scheduler:
            await scheduler.trigger("forever")
            await begun.wait()
            raise KeyError("mine")

    with pytest.raises(KeyError):
        await main()
    assert not scheduler.is_running


@pytest.mark.anyio
async def test_a_stop_that_would_block_its_own_loop_is_refused(scheduler: rota.Scheduler) -> None:
    async with scheduler:
        with pytest.raises(rota.SchedulerError, match="block the event loop"):
            scheduler.stop()
        with pytest.raises(rota.SchedulerError, match="already running"):
            await scheduler.__aenter__()
        await asyncio.to_thread(scheduler.stop)
        assert not scheduler.is_running


def test_what_needs_a_running_scheduler_says_so(scheduler: rota.Scheduler) -> None:
    scheduler.add_job("work", command=["true"])
    with pytest.raises(rota.SchedulerError, match="not running"):
        scheduler.sync.trigger("work")
    with pytest.raises(rota.SchedulerError, match="not running"):
        scheduler.sync.wait("work:1")
    assert scheduler.running_count() == 0


def test_errors_name_calls_and_no_commands(store: Path) -> None:
    scheduler = rota.Scheduler(store)
    scheduler.add_job("idle", command=["true"])
    with scheduler:
        with pytest.raises(AlreadyServing) as serving:
            rota.Scheduler(store).start()
        with pytest.raises(rota.UnknownJob) as unknown:
            scheduler.status().of("none")
        with pytest.raises(rota.RotaError, match=r"`scheduler.history\(\)`"):
            scheduler.sync.wait("idle:1")
    assert [error.value.hint for error in (serving, unknown)] == ["", "list them with `scheduler.status()`"]
