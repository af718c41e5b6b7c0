"""Calls of Python functions on threads or an event loop, with deadlines, and polls of servers."""

import asyncio
import contextlib
import heapq
import inspect
import json
import math
import queue
import threading
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Container, Mapping
from datetime import timedelta
from functools import lru_cache, partial, wraps
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rota import faults
from rota.model.clock import say_duration
from rota.model.errors import InvalidValue, RotaError, SecretMissing
from rota.model.records import ERROR_LIMIT, SUMMARY_LIMIT, Outcome, cut, whole_result
from rota.model.states import Reason, Status
from rota.rules.outcome import retry_after
from rota.runners import child
from rota.runners.context import JobContext
from rota.runners.result import judge_scheduler_state, judge_state, storable
from rota.sources.http import header_problem, trusted

Function = Callable[..., Any]
Reader = Callable[[JobContext, Any], Outcome]
STOPPED = Outcome(status=Status.FAILED, reason=Reason.SHUTDOWN, error="stopped before it finished")
_COMPLETED = Outcome(status=Status.COMPLETED)


def _cached(check: Callable[[Function], bool]) -> Callable[[Function], bool]:
    """Cache a check of functions; an object with `__call__` may be unhashable and is checked each time."""
    cached = lru_cache(maxsize=4096)(check)

    @wraps(check)
    def wrapped(function: Function) -> bool:
        try:
            return cached(function)
        except TypeError:
            return check(function)

    return wrapped


takes_context = _cached(child.takes_context)


@_cached
def is_async(function: Function) -> bool:
    """Return whether a function runs on the functions' event loop."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _refuse_coroutine(value: Any) -> None:
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the function returned a coroutine; declare it with `async def`")


def read_returned(context: JobContext, value: Any) -> Outcome:
    """Return the outcome of a job's function: a returned text is the summary, other values are shown by `repr`."""
    _refuse_coroutine(value)
    state, shared = context.changed_state, context.changed_scheduler_state
    written = context.log.total
    if value is None and state is None and shared is None and not written:
        return _COMPLETED
    try:
        kept, changed = judge_state(state), judge_scheduler_state(shared)
    except InvalidValue as error:
        return Outcome(status=Status.FAILED, reason=Reason.RESULT_INVALID, error=cut(str(error), ERROR_LIMIT))
    text = None if value is None else storable(value if isinstance(value, str) else repr(value))
    return Outcome(
        status=Status.COMPLETED,
        summary=cut(text, SUMMARY_LIMIT),
        result=whole_result(text),
        state=kept,
        scheduler_state=changed,
        output_bytes=written,
    )


class FunctionCall(Struct, eq=False):
    """One call of a function with its context, or with `given`, the task of an agent.

    `decided` is the outcome that replaces its own once it was stopped.
    """

    token: str
    function: Function
    context: JobContext
    timeout: float | None = None
    read: Reader = read_returned
    given: Any = None
    decided: Outcome | None = None
    abandon_at: float | None = None
    reported: bool = False
    entered: bool = False
    task: "asyncio.Task[None] | None" = None
    _ticket: list[bool] = field(default_factory=lambda: [True])
    """The thread that starts the call, or an earlier cancel, takes it; `pop` is atomic."""

    def begin(self) -> bool:
        """Return whether the call may begin: True once."""
        try:
            return self._ticket.pop()
        except IndexError:
            return False

    def run(self) -> Any:
        """Call the function."""
        if not takes_context(self.function):
            return self.function()
        return self.function(self.context if self.given is None else self.given)


def read_answer(_: JobContext, value: Any) -> Outcome:
    """Return the outcome of a condition: COMPLETED for True, SKIPPED/condition for False."""
    if value is True:
        return _COMPLETED
    if value is False:
        return Outcome(status=Status.SKIPPED, reason=Reason.CONDITION)
    error = f"the condition returned {type(value).__name__}, not True or False"
    return Outcome(status=Status.SKIPPED, reason=Reason.CONDITION_ERROR, error=error)


def read_raised(context: JobContext, error: BaseException) -> Outcome:
    """Return the outcome of a function that raised; the traceback goes into the run's output."""
    context.log.write(storable("".join(traceback.format_exception(error))))
    return Outcome(
        status=Status.FAILED,
        reason=Reason.EXCEPTION,
        error=cut(storable(child.say_exception(error)), ERROR_LIMIT),
        output_bytes=context.log.total,
    )


_HEAP_ROOM = 1024


class Deadlines:
    """One timer of the event loop for thousands of calls.

    It keeps only the tokens, so that an ended call is freed before its deadline.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, expired: Callable[[str], None], *, under_way: Container[str]
    ) -> None:
        self._loop = loop
        self._expired = expired
        self._under_way = under_way
        self._heap: list[tuple[float, str]] = []
        self._room = _HEAP_ROOM
        self._timer: asyncio.TimerHandle | None = None

    def add(self, seconds: float, token: str) -> None:
        """Call `expired` with the token after so many seconds."""
        heapq.heappush(self._heap, (self._loop.time() + seconds, token))
        if len(self._heap) > self._room:
            self._heap = [entry for entry in self._heap if entry[1] in self._under_way]
            heapq.heapify(self._heap)
            self._room = max(_HEAP_ROOM, 2 * len(self._heap))
        if self._timer is None or self._heap[0][0] < self._timer.when():
            self._set()

    def close(self) -> None:
        """Drop all deadlines."""
        self._heap.clear()
        self._set()

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._heap[0][0], self._fire) if self._heap else None

    def _fire(self) -> None:
        now = self._loop.time()
        self._timer = None
        while self._heap and self._heap[0][0] <= now:
            self._expired(heapq.heappop(self._heap)[1])
        self._set()


END_WAIT_SECONDS = 1.0
HOST_LOST = Outcome(Status.FAILED, Reason.SHUTDOWN, error="the event loop that the scheduler was entered on is closed")


class FunctionLoop:
    """The event loop of async functions: that of a `host`, or a thread that starts with the first call."""

    def __init__(
        self,
        finish: Callable[[list[tuple[FunctionCall, Outcome]]], None],
        *,
        host: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._finish = finish
        self._done: list[tuple[FunctionCall, Outcome]] = []
        self._hosted = host is not None
        self._loop = host
        self._thread: threading.Thread | None = None
        self._waiting: deque[FunctionCall] = deque()
        self._hinted = False
        self._under_way: set[FunctionCall] = set()

    def start(self, started: FunctionCall) -> None:
        """Run a coroutine function on the loop, from the engine's thread."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._serve, args=(self._loop,), name="rota-async", daemon=True)
            self._thread.start()
        self._waiting.append(started)
        if not self._hinted:  # once for all calls of this turn, so that their outcomes are stored together
            self._hinted = True
            asyncio.get_running_loop().call_soon(self._hint, self._loop)

    def _hint(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.call_soon_threadsafe(self._begin)
        except RuntimeError:  # the host closed its loop before the scheduler stopped
            self._hinted = False
            lost = [(started, HOST_LOST) for started in self._waiting]
            self._waiting.clear()
            self._finish(lost)

    def cancel(self, stopped: FunctionCall) -> None:
        """Cancel a call's task, from the engine's thread."""
        self._submit(partial(self._cancel, stopped))

    def close(self) -> None:
        """Cancel the calls and end the loop, unless it is a host's; a blocked loop ends with the process."""
        self._submit(self._end)

    def _submit(self, what: Callable[[], None]) -> None:
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            pass  # the loop has ended already

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def _begin(self) -> None:
        self._hinted = False
        assert self._loop is not None
        while self._waiting:
            started = self._waiting.popleft()
            started.task = self._loop.create_task(self._carry(started))
            self._under_way.add(started)

    async def _carry(self, started: FunctionCall) -> None:
        started.entered = True
        try:
            outcome = await _run_async(started)
        except asyncio.CancelledError:  # for the second time, while the context was closed
            outcome = STOPPED
        self._ended(started, outcome)

    def _ended(self, ended: FunctionCall, outcome: Outcome) -> None:
        self._under_way.discard(ended)
        self._done.append((ended, outcome))
        if len(self._done) == 1:
            assert self._loop is not None
            self._loop.call_soon(self._report)

    def _report(self) -> None:
        # All of one turn of the loop together: waking the engine's thread costs more than a short call.
        done, self._done = self._done, []
        self._finish(done)

    def _end(self) -> None:
        assert self._loop is not None
        under_way = list(self._under_way)
        for started in under_way:
            self._cancel(started)
        if self._hosted:
            return
        tasks = [started.task for started in under_way if started.task is not None]
        self._loop.create_task(self._stop_after(tasks))

    def _cancel(self, stopped: FunctionCall) -> None:
        if stopped.task is None or stopped not in self._under_way:
            return
        stopped.task.cancel()
        if not stopped.entered:  # a task that is cancelled before its first step never runs
            self._ended(stopped, STOPPED)

    async def _stop_after(self, tasks: list["asyncio.Task[None]"]) -> None:
        if tasks:
            await asyncio.wait(tasks, timeout=END_WAIT_SECONDS)
        asyncio.get_running_loop().stop()


async def _run_async(started: FunctionCall) -> Outcome:
    try:
        return started.read(started.context, await started.run())
    except asyncio.CancelledError as error:
        return STOPPED if started.decided else read_raised(started.context, error)
    except BaseException as error:  # SystemExit and KeyboardInterrupt would end the loop of all functions
        return read_raised(started.context, error)
    finally:
        if started.context.opened:
            with contextlib.suppress(Exception):
                await started.context.aclose()


Finished = list[tuple[str, Outcome]]
GRACE_SECONDS = 10.0


class FunctionRunner:
    """Runs functions for the engine's event loop, which calls all its methods."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        concurrency: int,
        *,
        on_outcomes: Callable[[Finished], None],
        on_released: Callable[[str], None] | None = None,
        grace: float = GRACE_SECONDS,
        host: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._loop = loop
        self._concurrency = concurrency
        self._on_outcomes = on_outcomes
        self._on_released = on_released
        self._grace = grace
        self._calls: dict[str, FunctionCall] = {}
        self._abandoned: dict[str, FunctionCall] = {}
        self._threads: list[threading.Thread] = []
        self._sync_calls = 0
        self._work: queue.SimpleQueue[FunctionCall | None] = queue.SimpleQueue()
        self._async = FunctionLoop(self._finish, host=host)
        self._finished: deque[tuple[FunctionCall, Outcome]] = deque()
        self._left_alone: Finished = []
        self._hinted = False
        self._deadlines = Deadlines(loop, self._on_deadline, under_way=self._calls)

    def start(self, started: FunctionCall) -> None:
        """Start a function; its outcome arrives through `on_outcomes` under its token."""
        self._calls[started.token] = started
        if started.timeout is not None:
            self._deadlines.add(started.timeout, started.token)
        if is_async(started.function):
            self._async.start(started)
            return
        self._sync_calls += 1
        if (count := len(self._threads)) < min(self._sync_calls, self._concurrency):
            thread = threading.Thread(target=self._serve, name=f"rota-function-{count}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._work.put(started)

    def cancel(self, token: str, outcome: Outcome = STOPPED) -> None:
        """End a call with `outcome`: a thread at once, a task after its cancellation."""
        started = self._calls.get(token)
        if started is not None and started.decided is None:
            self._stop(started, outcome)

    def abandoned(self) -> Collection[str]:
        """Return the tokens with an outcome whose code still runs: a thread cannot be killed."""
        return self._abandoned.keys()

    def close(self) -> None:
        """End idle threads and cancel the tasks; a thread in user code ends with the process."""
        self._deadlines.close()
        for _ in self._threads:
            self._work.put(None)
        self._async.close()

    def _serve(self) -> None:
        while (function_call := self._work.get()) is not None:
            if function_call.begin():
                self._finish([(function_call, _run(function_call))])
            del function_call

    def _finish(self, ended: list[tuple[FunctionCall, Outcome]]) -> None:
        """Hand outcomes to the engine's loop, from any thread."""
        self._finished.extend(ended)
        self._hint()

    def _hint(self) -> None:
        if self._hinted:
            return
        self._hinted = True
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:
            pass  # the engine's loop is closed

    def _drain(self) -> None:
        self._hinted = False  # first: outcomes that are appended from now on need a new hint
        outcomes, self._left_alone = self._left_alone, []
        released: list[str] = []
        while self._finished:
            ended, outcome = self._finished.popleft()
            self._sync_calls -= not is_async(ended.function)
            self._calls.pop(ended.token, None)
            ended.context.log.close()
            if ended.reported:
                released.append(ended.token)
            else:
                outcomes.append((ended.token, ended.decided or outcome))
        if outcomes:
            self._on_outcomes(outcomes)
        for token in released:
            del self._abandoned[token]
            if self._on_released:
                self._on_released(token)

    def _on_deadline(self, token: str) -> None:
        late = self._calls.get(token)
        if late is None:
            return
        if late.decided is None:
            faults.point("function.timed_out")
            error = f"timed out after {say_duration(timedelta(seconds=late.timeout or 0))}"
            self._stop(late, Outcome(status=Status.FAILED, reason=Reason.TIMED_OUT, error=error))
        elif late.abandon_at is not None and self._loop.time() >= late.abandon_at:
            self._abandon(late)

    def _stop(self, stopped: FunctionCall, outcome: Outcome) -> None:
        stopped.decided = outcome
        stopped.context.cancel()
        if is_async(stopped.function):
            self._async.cancel(stopped)
            stopped.abandon_at = self._loop.time() + self._grace
            self._deadlines.add(self._grace, stopped.token)
        elif stopped.begin():
            self._finish([(stopped, outcome)])  # no thread has taken it
        else:
            self._abandon(stopped)

    def _abandon(self, left: FunctionCall) -> None:
        assert left.decided is not None
        left.reported = True
        del self._calls[left.token]
        self._abandoned[left.token] = left
        self._left_alone.append((left.token, left.decided))
        self._hint()


def _run(taken: FunctionCall) -> Outcome:
    try:
        return taken.read(taken.context, taken.run())
    except BaseException as error:  # user code must not end the thread
        return read_raised(taken.context, error)
    finally:
        if taken.context.opened:
            with contextlib.suppress(Exception):
                taken.context.close()


DATA_LIMIT = 1_000_000
SUGGESTED = "suggested_poll_seconds"
RETRY_STATUSES = (429, 503)


class PollAnswer(Struct, frozen=True):
    """The answer of a server: data or an error, and when it suggests the next poll."""

    data: Any = None
    error: str | None = None
    reason: Reason = Reason.EXCEPTION
    summary: str = ""
    suggested: float | None = None


def fetcher(url: str, headers: Mapping[str, str] | Callable[[], Mapping[str, str]]) -> Function:
    """Return the function that polls `url`; the caller sets the timeout. A thread reads headers that are a call."""
    return partial(_fetch, url=url, headers=headers)


async def _fetch(
    context: JobContext, *, url: str, headers: Mapping[str, str] | Callable[[], Mapping[str, str]]
) -> PollAnswer:
    if not isinstance(headers, Mapping):
        try:
            headers = await asyncio.to_thread(headers)
        except RotaError as error:
            reason = Reason.SECRET_MISSING if isinstance(error, SecretMissing) else Reason.SPAWN_FAILED
            return PollAnswer(error=str(error), reason=reason)
    if (problem := header_problem(headers)) is not None:
        return PollAnswer(error=f"GET {url}: {problem}")
    context.add_usage(requests=1)
    answer = await _get(url, headers)
    return answer if answer.error is None else replace(answer, error=f"GET {url}: {answer.error}")


async def _get(url: str, headers: Mapping[str, str]) -> PollAnswer:
    import httpx2

    client = httpx2.AsyncClient(timeout=None, verify=trusted())
    try:
        async with client, client.stream("GET", url, headers=headers) as answer:
            body = await _read(answer.aiter_bytes())
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        return PollAnswer(error=f"{type(error).__name__}: {error}".rstrip(": "))
    status = f"{answer.status_code} {answer.reason_phrase}".strip()
    if answer.has_redirect_location:
        return PollAnswer(error=f"{status}: redirects to {answer.headers['location']}, which is not followed")
    if not answer.is_success:
        header = answer.headers.get("retry-after") if answer.status_code in RETRY_STATUSES else None
        return PollAnswer(error=status, suggested=retry_after(header, date=answer.headers.get("date")))
    if len(body) > DATA_LIMIT:
        text = f"{status}, but its answer is larger than {DATA_LIMIT:,} bytes"
        return PollAnswer(error=text, reason=Reason.RESULT_INVALID)
    try:
        return PollAnswer(json.loads(body), summary=status)
    except (ValueError, RecursionError) as error:
        return PollAnswer(error=f"{status}, but its answer is not JSON: {error}", reason=Reason.RESULT_INVALID)


async def _read(parts: AsyncIterator[bytes]) -> bytes:
    """Return a body up to one byte more than the limit."""
    body = bytearray()
    async for part in parts:
        body += part
        if len(body) > DATA_LIMIT:
            break
    return bytes(body[: DATA_LIMIT + 1])


def read_poll(context: JobContext, value: Any) -> Outcome:
    """Return the outcome of a poll; its data must be a JSON object."""
    _refuse_coroutine(value)
    answer = value if isinstance(value, PollAnswer) else PollAnswer(value)
    written = context.log.total
    data: dict[str, Any] = {}
    state: Mapping[str, Any] | None = None
    try:
        if answer.error is None:
            data, state = judge_data(answer.data), judge_state(context.changed_state)
    except InvalidValue as error:
        answer = replace(answer, error=error.message, reason=Reason.RESULT_INVALID)
    if answer.error is not None:
        text = cut(storable(answer.error), ERROR_LIMIT)
        return Outcome(Status.FAILED, answer.reason, error=text, suggested=answer.suggested, output_bytes=written)
    return Outcome(
        Status.COMPLETED,
        summary=answer.summary or None,
        state=state,
        output_bytes=written,
        poll=data,
        suggested=_seconds(data.get(SUGGESTED)),
    )


def judge_data(value: Any) -> dict[str, Any]:
    """Return the data of a poll as it is stored, or raise InvalidValue."""
    if not isinstance(value, Mapping):
        raise InvalidValue(f"a poll must return a JSON object, not {type(value).__name__}")
    try:
        text = json.dumps(dict(value), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"the data of the poll is not JSON: {error}") from None
    if len(text) > DATA_LIMIT:
        raise InvalidValue(f"the data of the poll has {len(text):,} characters, {DATA_LIMIT:,} are allowed")
    data: dict[str, Any] = json.loads(storable(text))
    return data


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None
