"""Python functions inside the scheduler: outcomes, time, threads that stay (section 7 of the design)."""

import asyncio
import threading
from datetime import UTC, datetime

import pytest
from tests.waiting import LONGEST_WAIT

from rota.model.records import Outcome
from rota.model.spec import OutputPolicy
from rota.model.states import Reason, Status, Trigger
from rota.runners.context import JobContext, RunInfo, RunLog
from rota.runners.functions import FunctionCall, FunctionRunner, read_answer

NOW = datetime(2026, 11, 15, 20, 41, 7, 250_000, tzinfo=UTC)
INFO = RunInfo(
    id="1", handle="a:1", job="a", number=1, attempt=1, trigger=Trigger.MANUAL, scheduled_for=NOW, timezone="UTC"
)


def context_in(folder, *, state=None, policy=OutputPolicy.FULL, **more):
    log = RunLog(lambda: folder, lambda: NOW, policy=policy)
    return JobContext(lambda: INFO, log, params={"x": 1}, state=state or {}, **more)


class Harness:
    """A runner and what it told."""

    def __init__(self, concurrency, **options):
        self.told = {}
        self.released = []
        self.changed = asyncio.Event()
        self.runner = FunctionRunner(
            asyncio.get_running_loop(), concurrency, on_outcomes=self._tell, on_released=self._release, **options
        )

    def _tell(self, outcomes):
        for token, outcome in outcomes:
            assert token not in self.told, "an outcome is told once"
            self.told[token] = outcome
        self.changed.set()

    def _release(self, token):
        self.released.append(token)
        self.changed.set()

    async def until(self, true):
        async with asyncio.timeout(LONGEST_WAIT):
            while not true():
                self.changed.clear()
                await self.changed.wait()

    async def begin(self, function, context, *, begun, token="1", **options):
        """Start a function that sets `begun`, and wait for that; the loop's clock stands till then, so none is late."""
        loop = asyncio.get_running_loop()
        at = loop.time()
        loop.time = lambda: at
        try:
            self.runner.start(FunctionCall(token, function, context, **options))
            assert await asyncio.to_thread(begun.wait, LONGEST_WAIT)
        finally:
            del loop.time

    async def outcome(self, token="1"):
        await self.until(lambda: token in self.told)
        return self.told[token]


def run(function, folder, *, timeout=None, context=None, **options):
    async def once():
        harness = Harness(2)
        try:
            harness.runner.start(FunctionCall("1", function, context or context_in(folder), timeout=timeout, **options))
            return await harness.outcome()
        finally:
            harness.runner.close()

    return asyncio.run(once())


class Stuck:
    """A function that waits until it is let go."""

    def __init__(self):
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, ctx):
        self.begun.set()
        self.go.wait()


def as_async(function):
    async def wrapped(ctx):
        return function(ctx)

    return wrapped


both = pytest.mark.parametrize("kind", [lambda function: function, as_async], ids=["sync", "async"])


@both
def test_a_returned_text_is_the_summary(kind, tmp_path):
    assert run(kind(lambda ctx: "3 mails"), tmp_path) == Outcome(
        status=Status.COMPLETED, summary="3 mails", output_bytes=0
    )


@both
def test_nothing_returned_is_fine_and_leaves_no_folder(kind, tmp_path):
    assert run(kind(lambda ctx: None), tmp_path / "run") == Outcome(status=Status.COMPLETED)
    assert not (tmp_path / "run").exists()


@both
def test_r21_other_values_are_shown_and_cut(kind, tmp_path):
    assert run(kind(lambda ctx: [1, 2]), tmp_path).summary == "[1, 2]"
    assert run(kind(lambda ctx: "x" * 5000), tmp_path).summary == "x" * 999 + "…"


def test_a_function_without_parameters_is_called_without_the_context(tmp_path):
    assert run(lambda: "fine", tmp_path).summary == "fine"


def fail(ctx):
    raise ValueError("no such user")


@both
def test_an_exception_is_told_with_its_place_and_its_traceback_is_kept(kind, tmp_path):
    outcome = run(kind(fail), tmp_path)

    line = fail.__code__.co_firstlineno + 1
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.EXCEPTION)
    assert outcome.error == f"ValueError: no such user ({__file__}:{line})"
    assert b"Traceback (most recent call last)" in (tmp_path / "output.0").read_bytes()


class Unreadable(Exception):
    def __str__(self):
        raise RuntimeError


@both
@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), Unreadable(), GeneratorExit(), asyncio.CancelledError()]
)
def test_nothing_that_a_function_raises_hurts_the_next_one(kind, error, tmp_path):
    def raising(ctx):
        raise error

    async def twice():
        harness = Harness(1)
        harness.runner.start(FunctionCall("1", kind(raising), context_in(tmp_path)))
        await harness.outcome("1")
        harness.runner.start(FunctionCall("2", kind(lambda ctx: "alive"), context_in(tmp_path)))
        await harness.outcome("2")
        harness.runner.close()
        return harness.told

    told = asyncio.run(twice())

    assert (told["1"].reason, told["1"].error.split(" ")[0].strip(":")) == (Reason.EXCEPTION, type(error).__name__)
    assert told["2"].summary == "alive"


def test_a_function_that_forgets_async_is_told_so(tmp_path):
    async def inner():
        """Never awaited."""

    assert "declare it with `async def`" in run(lambda ctx: inner(), tmp_path).error


@both
def test_a_changed_state_is_part_of_the_outcome(kind, tmp_path):
    def change(ctx):
        ctx.state["seen"].append(2)

    before = {"seen": [1]}

    assert run(kind(change), tmp_path, context=context_in(tmp_path, state=before)).state == {"seen": [1, 2]}
    assert before == {"seen": [1]}


def test_a_state_that_was_only_read_is_not(tmp_path):
    outcome = run(lambda ctx: ctx.state["seen"][0], tmp_path, context=context_in(tmp_path, state={"seen": [1]}))

    assert outcome.state is None


@pytest.mark.parametrize(
    ("value", "words"),
    [({1, 2}, "cannot be stored as JSON"), ("y" * 17_000, "17,008 bytes"), (float("nan"), "cannot be")],
)
def test_a_state_that_cannot_be_kept_fails_the_run(value, words, tmp_path):
    outcome = run(lambda ctx: ctx.state.update(x=value), tmp_path)

    assert outcome.reason is Reason.RESULT_INVALID
    assert words in outcome.error


@both
def test_the_changed_keys_of_the_scheduler_state_are_part_of_the_outcome(kind, tmp_path):
    """Document 000: `ctx.scheduler_state`."""

    def change(ctx):
        ctx.scheduler_state["lists"].append(2)
        ctx.scheduler_state["new"] = {"a": 1}
        del ctx.scheduler_state["old"]

    before = {"lists": [1], "old": 1, "same": 5}
    context = context_in(tmp_path, scheduler_state=lambda: before)

    assert run(kind(change), tmp_path, context=context).scheduler_state == {
        "lists": [1, 2],
        "new": {"a": 1},
        "old": None,
    }
    assert before == {"lists": [1], "old": 1, "same": 5}


def test_a_scheduler_state_that_was_only_read_or_not_even_that_changes_nothing(tmp_path):
    loaded = []
    context = context_in(tmp_path, scheduler_state=lambda: loaded.append(1) or {"seen": [1]})

    assert run(lambda ctx: None, tmp_path, context=context).scheduler_state is None
    assert loaded == []
    assert run(lambda ctx: ctx.scheduler_state["seen"][0], tmp_path, context=context).scheduler_state is None
    assert loaded == [1]


@pytest.mark.parametrize(("value", "words"), [({1, 2}, "cannot be stored as JSON"), ("y" * 66_000, "66,008 bytes")])
def test_a_scheduler_state_that_cannot_be_kept_fails_the_run(value, words, tmp_path):
    outcome = run(lambda ctx: ctx.scheduler_state.update(x=value), tmp_path)

    assert outcome.reason is Reason.RESULT_INVALID
    assert outcome.error.startswith("`scheduler_state` ")
    assert words in outcome.error


def test_outside_of_a_scheduler_there_is_no_sdk(tmp_path):
    assert "ctx.sdk is available only inside the scheduler" in run(lambda ctx: ctx.sdk, tmp_path).error


def test_the_log_is_a_logger_too(tmp_path):
    """Document 000: `ctx.log` is callable; it is a logger as well."""

    def talk(ctx):
        ctx.log.debug("one")
        ctx.log.info("two")
        ctx.log.error("three")
        try:
            raise ValueError("four")
        except ValueError:
            ctx.log.exception("it went wrong")

    run(talk, tmp_path / "run")

    lines = (tmp_path / "run" / "output.0").read_text().splitlines()
    levels = ["debug one", "info two", "error three", "error it went wrong"]
    assert [line.partition(" ")[2] for line in lines[:4]] == levels
    assert (lines[4], lines[-1]) == ("Traceback (most recent call last):", "ValueError: four")


@both
def test_log_lines_have_a_time_and_a_level(kind, tmp_path):
    def talk(ctx):
        ctx.log("hello", 3)
        ctx.log.warning("careful")

    outcome = run(kind(talk), tmp_path / "run")

    expected = b"2026-11-15T20:41:07.250Z hello 3\n2026-11-15T20:41:07.250Z warning careful\n"
    assert (tmp_path / "run" / "output.0").read_bytes() == expected
    assert outcome.output_bytes == len(expected)


def test_r21_the_policy_none_keeps_no_line(tmp_path):
    run(lambda ctx: ctx.log("secret"), tmp_path, context=context_in(tmp_path / "run", policy=OutputPolicy.NONE))

    assert not (tmp_path / "run").exists()


def test_a_timed_out_thread_is_told_at_once_and_abandoned_until_it_returns(tmp_path):
    stuck, context = Stuck(), context_in(tmp_path)

    async def late():
        harness = Harness(2)
        await harness.begin(stuck, context, begun=stuck.begun, timeout=0.05)
        outcome = await harness.outcome()
        assert harness.runner.abandoned() == {"1"}
        assert harness.released == []
        stuck.go.set()
        await harness.until(lambda: harness.released == ["1"])
        assert harness.runner.abandoned() == set()
        harness.runner.close()
        return outcome

    outcome = asyncio.run(late())

    assert (outcome.reason, outcome.error) == (Reason.TIMED_OUT, "timed out after 0.1 s")
    assert context.cancelled


def test_an_abandoned_thread_does_not_hold_up_the_others(tmp_path):
    stuck = Stuck()

    async def late():
        harness = Harness(2)
        await harness.begin(stuck, context_in(tmp_path), begun=stuck.begun, token="stuck", timeout=0.01)
        await harness.outcome("stuck")
        for number in range(20):
            harness.runner.start(FunctionCall(str(number), lambda ctx: "ok", context_in(tmp_path)))
            assert (await harness.outcome(str(number))).summary == "ok"
        stuck.go.set()
        harness.runner.close()

    asyncio.run(late())


def test_a_cancelled_thread_ends_with_the_outcome_it_was_given(tmp_path):
    requested = Outcome(status=Status.CANCELLED, reason=Reason.REQUESTED)

    def watch(ctx):
        while not ctx.cancelled:
            pass
        return "tidied"

    async def cancel():
        harness = Harness(1)
        harness.runner.start(FunctionCall("1", watch, context_in(tmp_path)))
        harness.runner.cancel("1", requested)
        assert await harness.outcome() == requested
        await harness.until(lambda: not harness.runner.abandoned())
        harness.runner.close()

    asyncio.run(cancel())


def test_a_call_that_no_thread_has_taken_is_cancelled_without_running(tmp_path):
    stuck, ran = Stuck(), []
    requested = Outcome(status=Status.CANCELLED, reason=Reason.REQUESTED)

    async def cancel():
        harness = Harness(1)
        await harness.begin(stuck, context_in(tmp_path), begun=stuck.begun)
        harness.runner.start(FunctionCall("2", lambda ctx: ran.append(1), context_in(tmp_path)))
        harness.runner.cancel("2", requested)
        assert await harness.outcome("2") == requested
        assert harness.runner.abandoned() == set()
        stuck.go.set()
        await harness.outcome("1")
        harness.runner.start(FunctionCall("3", lambda ctx: None, context_in(tmp_path)))
        await harness.outcome("3")
        harness.runner.close()

    asyncio.run(cancel())

    assert ran == []


def test_a_timed_out_task_is_cancelled_and_may_tidy_up(tmp_path):
    tidied, begun = [], threading.Event()

    async def forever(ctx):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            tidied.append(ctx.cancelled)

    async def late():
        harness = Harness(2)
        await harness.begin(forever, context_in(tmp_path), begun=begun, timeout=0.02)
        outcome = await harness.outcome()
        harness.runner.close()
        return outcome

    outcome = asyncio.run(late())

    assert outcome.reason is Reason.TIMED_OUT
    assert tidied == [True]


def test_a_task_that_swallows_its_cancellation_is_abandoned_after_the_grace(tmp_path):
    begun = threading.Event()

    async def deaf(ctx):
        begun.set()
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def late():
        harness = Harness(2, grace=0.05)
        await harness.begin(deaf, context_in(tmp_path), begun=begun, timeout=0.02)
        outcome = await harness.outcome()
        assert harness.runner.abandoned() == {"1"}
        harness.runner.close()
        await harness.until(lambda: harness.released == ["1"])
        return outcome

    assert asyncio.run(late()).reason is Reason.TIMED_OUT


def test_an_async_function_that_blocks_does_not_block_the_engine_or_threads(tmp_path):
    stuck = Stuck()

    async def rude(ctx):
        stuck(ctx)

    async def mixed():
        harness = Harness(2, grace=0.02)
        await harness.begin(rude, context_in(tmp_path), begun=stuck.begun, token="rude", timeout=0.02)
        harness.runner.start(FunctionCall("sync", lambda ctx: "ok", context_in(tmp_path)))
        assert (await harness.outcome("sync")).summary == "ok"
        assert (await harness.outcome("rude")).reason is Reason.TIMED_OUT
        stuck.go.set()
        await harness.until(lambda: harness.released == ["rude"])
        harness.runner.close()

    asyncio.run(mixed())


def test_a_function_that_ends_in_time_is_not_touched_by_its_deadline(tmp_path):
    async def both_ends(seconds):
        harness, later = Harness(2), Stuck()
        harness.runner.start(FunctionCall("1", lambda ctx: "done", context_in(tmp_path), timeout=seconds))
        first = await harness.outcome()
        harness.runner.start(FunctionCall("2", later, context_in(tmp_path), timeout=seconds))
        assert (await harness.outcome("2")).reason is Reason.TIMED_OUT, "by then the first deadline has passed too"
        later.go.set()
        harness.runner.close()
        return first.summary

    assert "done" in (asyncio.run(both_ends(seconds)) for seconds in (0.2, 2.0, 20.0)), "it never ended in time"


def test_deadlines_of_ended_calls_are_forgotten(tmp_path):
    async def kept():
        harness = Harness(4)
        for number in range(5000):
            harness.runner.start(FunctionCall(str(number), lambda ctx: None, context_in(tmp_path), timeout=3600))
            if number % 50 == 49:
                await harness.until(lambda: len(harness.told) == number + 1)  # noqa: B023
        size = len(harness.runner._deadlines._heap)
        harness.runner.close()
        return size

    assert asyncio.run(kept()) < 2100


@both
def test_ten_thousand_calls_need_no_more_threads_than_slots(kind, tmp_path):
    async def many():
        harness = Harness(8)
        before = threading.active_count()
        function = kind(lambda ctx: None)
        for number in range(8):
            harness.runner.start(FunctionCall(str(number), function, context_in(tmp_path), timeout=60))
        number = 8
        while number < 10_000:
            await harness.until(lambda: len(harness.told) > number - 8)  # noqa: B023
            for _ in range(len(harness.told) + 8 - number):
                harness.runner.start(FunctionCall(str(number), function, context_in(tmp_path), timeout=60))
                number += 1
        await harness.until(lambda: len(harness.told) == number)
        threads = threading.active_count() - before
        harness.runner.close()
        return threads

    assert asyncio.run(many()) <= 8


@both
@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (True, Status.COMPLETED, None),
        (False, Status.SKIPPED, Reason.CONDITION),
        (None, Status.SKIPPED, Reason.CONDITION_ERROR),
        (1, Status.SKIPPED, Reason.CONDITION_ERROR),
    ],
)
def test_r09_a_condition_answers_true_or_false(kind, answer, status, reason, tmp_path):
    outcome = run(kind(lambda ctx: answer), tmp_path, read=read_answer)

    assert (outcome.status, outcome.reason) == (status, reason)


def test_the_context_says_what_the_run_is(tmp_path):
    assert run(lambda ctx: f"{ctx.run.handle} {ctx.run.scheduled_for:%H:%M} {ctx.params['x']}", tmp_path).summary == (
        "a:1 20:41 1"
    )


def test_a_closed_runner_leaves_no_thread_of_its_own(tmp_path):
    before = {*threading.enumerate()}

    async def use():
        harness = Harness(3)
        harness.runner.start(FunctionCall("1", lambda ctx: None, context_in(tmp_path)))
        harness.runner.start(FunctionCall("2", as_async(lambda ctx: None), context_in(tmp_path)))
        await harness.until(lambda: len(harness.told) == 2)
        new = {*threading.enumerate()} - before
        threads = [thread for thread in new if thread.name.startswith("rota-")]
        harness.runner.close()
        for thread in threads:
            thread.join(LONGEST_WAIT)
        return [thread for thread in threads if thread.is_alive()]

    assert asyncio.run(use()) == []


def test_a_task_cancelled_before_its_first_step_still_has_an_outcome(tmp_path):
    requested = Outcome(status=Status.CANCELLED, reason=Reason.REQUESTED)

    async def cancel():
        harness = Harness(1, grace=60.0)
        harness.runner.start(FunctionCall("1", as_async(lambda ctx: None), context_in(tmp_path)))
        harness.runner.cancel("1", requested)
        assert await harness.outcome("1") == requested
        harness.runner.close()

    asyncio.run(cancel())


def test_the_timeout_does_not_shorten_the_grace_of_a_task_that_was_cancelled_before(tmp_path):
    requested = Outcome(status=Status.CANCELLED, reason=Reason.REQUESTED)
    go, begun = threading.Event(), threading.Event()

    async def slow_to_end(ctx):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.get_running_loop().run_in_executor(None, go.wait)

    async def cancel():
        harness = Harness(1, grace=60.0)
        await harness.begin(slow_to_end, context_in(tmp_path), begun=begun, timeout=0.05)
        harness.runner.cancel("1", requested)
        harness.runner.start(FunctionCall("2", lambda ctx: threading.Event().wait(0.1), context_in(tmp_path)))
        await harness.outcome("2")
        assert "1" not in harness.told
        go.set()
        assert await harness.outcome("1") == requested
        assert harness.released == []
        harness.runner.close()

    asyncio.run(cancel())


def test_a_functions_params_are_a_copy(tmp_path):
    params = {"x": [1]}
    context = JobContext(lambda: INFO, RunLog(lambda: tmp_path, lambda: NOW), params=params, state={})

    run(lambda ctx: ctx.params["x"].append(2), tmp_path, context=context)

    assert params == {"x": [1]}


def test_an_outcome_is_always_told_before_its_release(tmp_path):
    order = []

    async def race():
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def release(token):
            order.append(("released", token))
            done.set()

        runner = FunctionRunner(
            loop, 1, on_outcomes=lambda told: order.extend(("told", token) for token, _ in told), on_released=release
        )
        gate = threading.Event()
        runner.start(FunctionCall("1", lambda ctx: gate.set(), context_in(tmp_path)))
        gate.wait()  # the loop stands still while the thread ends: both events meet in one round
        runner.cancel("1")
        await asyncio.wait_for(done.wait(), LONGEST_WAIT)
        runner.close()

    asyncio.run(race())

    assert order == [("told", "1"), ("released", "1")]
