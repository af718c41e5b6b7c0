"""Calling of Python functions, with deadlines, on threads or an event loop, and polls of servers."""

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
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache, partial, wraps
from typing import Any

from rota import faults
from rota.model.clock import say_duration
from rota.model.errors import InvalidValue
from rota.model.records import ERROR_LIMIT, SUMMARY_LIMIT, Outcome, cut
from rota.model.states import Reason, Status
from rota.rules.outcome import retry_after
from rota.runners.context import JobContext
from rota.runners.result import judge_scheduler_state, judge_state, storable
from rota.sources.http import trusted

Function = Callable[..., Any]
Reader = Callable[[JobContext, Any], Outcome]
STOPPED = Outcome(status=Status.FAILED, reason=Reason.SHUTDOWN, error="stopped before it had finished")
_COMPLETED = Outcome(status=Status.COMPLETED)


class FunctionCall:
    """One running function. `decided` is the outcome that replaces its own once it was stopped.

    It is called with what is `given`: the context, or the task of an agent.
    """

    __slots__ = (
        "abandon_at",
        "context",
        "decided",
        "entered",
        "function",
        "given",
        "read",
        "reported",
        "task",
        "ticket",
        "timeout",
        "token",
    )

    def __init__(
        self,
        token: str,
        function: Function,
        context: JobContext,
        *,
        timeout: float | None = None,
        read: Reader | None = None,
        given: Any = None,
    ) -> None:
        self.token = token
        self.function = function
        self.context = context
        self.given = context if given is None else given
        self.read = read or read_returned
        self.timeout = timeout
        self.decided: Outcome | None = None
        self.abandon_at: float | None = None
        self.reported = False
        self.entered = False
        self.task: asyncio.Task[None] | None = None
        # Whoever takes the ticket decides whether the call begins: a thread, or a cancel that came first.
        self.ticket = [True]

    def begin(self) -> bool:
        """Take the ticket; tell whether it was still there."""
        try:
            return self.ticket.pop()
        except IndexError:
            return False


def _remembered(look: Callable[[Function], bool]) -> Callable[[Function], bool]:
    """Look at a function once; at one that cannot be hashed, as an object with a `__call__` may be, each time."""
    known = lru_cache(maxsize=4096)(look)

    @wraps(look)
    def remembered(function: Function) -> bool:
        try:
            return known(function)
        except TypeError:
            return look(function)

    return remembered


@_remembered
def takes_context(function: Function) -> bool:
    """Tell whether a function wants the context; one without parameters is called without it."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters)


@_remembered
def is_async(function: Function) -> bool:
    """Tell whether a function is run on the functions' event loop."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def call(started: FunctionCall) -> Any:
    """Call a user's function with what it is given, if it wants that."""
    return started.function(started.given) if takes_context(started.function) else started.function()


def read_returned(context: JobContext, value: Any) -> Outcome:
    """Return the outcome of a job's function that returned: a text is the summary, other values are shown."""
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the function returned a coroutine; declare it with `async def`")
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
        state=kept,
        scheduler_state=changed,
        output_bytes=written,
    )


def read_answer(_: JobContext, value: Any) -> Outcome:
    """Return the outcome of a condition that answered: COMPLETED is true, SKIPPED/condition is false (R-09)."""
    if value is True:
        return _COMPLETED
    if value is False:
        return Outcome(status=Status.SKIPPED, reason=Reason.CONDITION)
    kind = type(value).__name__
    error = f"the condition returned {kind}, not True or False"
    return Outcome(status=Status.SKIPPED, reason=Reason.CONDITION_ERROR, error=error)


def read_raised(context: JobContext, error: BaseException) -> Outcome:
    """Return the outcome of a function that raised; the whole traceback goes into the run's output."""
    context.log.write(storable("".join(traceback.format_exception(error))))
    return Outcome(
        status=Status.FAILED,
        reason=Reason.EXCEPTION,
        error=cut(storable(say_exception(error)), ERROR_LIMIT),
        output_bytes=context.log.total,
    )


def say_exception(error: BaseException) -> str:
    """Return an exception as one line with the place where it was raised."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be read)"
    name = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{name}: {text}{place}" if text else f"{name}{place}"


_HEAP_ROOM = 1024


class Deadlines:
    """One timer for all calls: thousands of timeouts cost one entry of the loop.

    They are known by name alone, so that a call that has ended is gone at once, and not with its deadline.
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
        """Tell `expired` about a call in so many seconds."""
        heapq.heappush(self._heap, (self._loop.time() + seconds, token))
        if len(self._heap) > self._room:
            self._forget_ended()
        if self._timer is None or self._heap[0][0] < self._timer.when():
            self._set()

    def close(self) -> None:
        """Forget all of them."""
        self._heap.clear()
        self._set()

    def _forget_ended(self) -> None:
        self._heap = [entry for entry in self._heap if entry[1] in self._under_way]
        heapq.heapify(self._heap)
        self._room = max(_HEAP_ROOM, 2 * len(self._heap))

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


END_WAIT = 1.0
HOST_LOST = Outcome(Status.FAILED, Reason.SHUTDOWN, error="the event loop that the scheduler was entered on is closed")


class FunctionLoop:
    """The loop of async functions: that of a `host`, or one in a thread that is started with the first of them."""

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
        if not self._hinted:  # once for all that start in this turn, and after them: they end, and are stored, together
            self._hinted = True
            asyncio.get_running_loop().call_soon(self._hint, self._loop)

    def _hint(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.call_soon_threadsafe(self._begin)
        except RuntimeError:  # the host closed its loop before it stopped us
            self._hinted = False
            lost = [(started, HOST_LOST) for started in self._waiting]
            self._waiting.clear()
            self._finish(lost)

    def cancel(self, stopped: FunctionCall) -> None:
        """Cancel a call's task, from the engine's thread."""
        self._tell(partial(self._cancel, stopped))

    def close(self) -> None:
        """Cancel what runs and end the loop, but not a host's; one that user code blocks ends with the process."""
        self._tell(self._end)

    def _tell(self, what: Callable[[], None]) -> None:
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
        """Run a call and take its outcome, without a callback for each: that would be a tenth of a short call."""
        started.entered = True
        try:
            outcome = await _run_loop(started)
        except asyncio.CancelledError:  # a second time, while it was closing what it had opened
            outcome = STOPPED
        self._ended(started, outcome)

    def _ended(self, ended: FunctionCall, outcome: Outcome) -> None:
        self._under_way.discard(ended)
        self._done.append((ended, outcome))
        if len(self._done) == 1:
            assert self._loop is not None
            self._loop.call_soon(self._report)

    def _report(self) -> None:
        """Hand over all that ended in one turn of the loop: waking the engine's thread costs more than a short call."""
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
        ending = self._loop.create_task(_wait_briefly(tasks))
        ending.add_done_callback(lambda _: self._stop_loop())

    def _cancel(self, stopped: FunctionCall) -> None:
        """Cancel the task of a call; one that is cancelled before its first step gets no further, and so ends here."""
        if stopped.task is None or stopped not in self._under_way:
            return
        stopped.task.cancel()
        if not stopped.entered:
            self._ended(stopped, STOPPED)

    def _stop_loop(self) -> None:
        assert self._loop is not None
        self._loop.stop()


async def _run_loop(started: FunctionCall) -> Outcome:
    try:
        return started.read(started.context, await call(started))
    except asyncio.CancelledError as error:
        return STOPPED if started.decided else read_raised(started.context, error)
    except BaseException as error:  # SystemExit and KeyboardInterrupt would end the loop for everybody
        return read_raised(started.context, error)
    finally:
        if started.context.opened:
            with contextlib.suppress(Exception):
                await started.context.aclose()


async def _wait_briefly(tasks: list["asyncio.Task[None]"]) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=END_WAIT)


Finished = list[tuple[str, Outcome]]
GRACE = 10.0


class FunctionRunner:
    """Runs functions for the engine's loop; all its methods are called on that loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        concurrency: int,
        *,
        on_outcomes: Callable[[Finished], None],
        on_released: Callable[[str], None] | None = None,
        grace: float = GRACE,
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
        if len(self._threads) < min(self._sync_calls, self._concurrency):
            self._add_thread()
        self._work.put(started)

    def cancel(self, token: str, outcome: Outcome = STOPPED) -> None:
        """End a call with `outcome`: at once where it is a thread, after its cancellation where it is a task."""
        found = self._calls.get(token)
        if found is not None and found.decided is None:
            self._stop(found, outcome)

    def abandoned(self) -> Collection[str]:
        """Return the tokens whose outcome is told but whose code still runs: a thread cannot be killed."""
        return self._abandoned.keys()

    def close(self) -> None:
        """Let idle threads go and cancel the tasks; a thread that still runs user code ends with the process."""
        self._deadlines.close()
        for _ in self._threads:
            self._work.put(None)
        self._async.close()

    def _add_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"rota-function-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while (taken := self._work.get()) is not None:
            if taken.begin():
                self._finish([(taken, _run(taken))])
            del taken

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
            pass  # the engine's loop is closed: nobody is left to tell

    def _drain(self) -> None:
        self._hinted = False  # first, so that whoever appends from now on hints again
        told, self._left_alone = self._left_alone, []
        released: list[str] = []
        while self._finished:
            ended, outcome = self._finished.popleft()
            self._settle(ended)
            if ended.reported:
                released.append(ended.token)
            else:
                told.append((ended.token, ended.decided or outcome))
        if told:
            self._on_outcomes(told)
        for token in released:
            self._release(token)

    def _settle(self, ended: FunctionCall) -> None:
        self._sync_calls -= not is_async(ended.function)
        self._calls.pop(ended.token, None)
        ended.context.log.close()

    def _release(self, token: str) -> None:
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
            self._finish([(stopped, outcome)])  # no thread had taken it yet
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
        return taken.read(taken.context, call(taken))
    except BaseException as error:  # nothing that user code raises may end the thread
        return read_raised(taken.context, error)
    finally:
        if taken.context.opened:
            with contextlib.suppress(Exception):
                taken.context.close()


DATA_LIMIT = 1_000_000
SUGGESTED = "suggested_poll_seconds"
"""Where an answer says after how many seconds the next poll should come."""
NOT_NOW = (429, 503)
"""Answers whose Retry-After says when to come again."""


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """What a server answered: its data, or what was wrong, and when it wants the next poll."""

    data: Any = None
    error: str | None = None
    reason: Reason = Reason.EXCEPTION
    summary: str = ""
    suggested: float | None = None


def fetcher(url: str, headers: Mapping[str, str]) -> Function:
    """Return the function that polls `url`; how long it may take is its caller's to say."""
    return partial(_fetch, url=url, headers=headers)


async def _fetch(context: JobContext, *, url: str, headers: Mapping[str, str]) -> PollAnswer:
    unfit = next((name for name, value in headers.items() if not (value.isascii() and value.isprintable())), None)
    if unfit is not None:  # told here, since the client would show the value
        return PollAnswer(error=f"GET {url}: the header {unfit} holds characters that cannot be sent")
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
    told = f"{answer.status_code} {answer.reason_phrase}".strip()
    if answer.has_redirect_location:
        return PollAnswer(error=f"{told}: it has moved to {answer.headers['location']}, which is not followed")
    if not answer.is_success:
        wish = answer.headers.get("retry-after") if answer.status_code in NOT_NOW else None
        return PollAnswer(error=told, suggested=retry_after(wish, date=answer.headers.get("date")))
    return _read_body(body, told)


async def _read(parts: AsyncIterator[bytes]) -> bytes:
    """Return a body up to one byte more than is allowed."""
    body = bytearray()
    async for part in parts:
        body += part
        if len(body) > DATA_LIMIT:
            break
    return bytes(body[: DATA_LIMIT + 1])


def _read_body(body: bytes, told: str) -> PollAnswer:
    if len(body) > DATA_LIMIT:
        error = f"{told}, but its answer is larger than {DATA_LIMIT:,} bytes"
        return PollAnswer(error=error, reason=Reason.RESULT_INVALID)
    try:
        return PollAnswer(json.loads(body), summary=told)
    except (ValueError, RecursionError) as error:
        return PollAnswer(error=f"{told}, but its answer is no JSON: {error}", reason=Reason.RESULT_INVALID)


def read_poll(context: JobContext, value: Any) -> Outcome:
    """Return the outcome of a poll: its data must be a JSON object."""
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the function returned a coroutine; declare it with `async def`")
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
    """Return what a poll brought as it is stored; InvalidValue says what is wrong with it."""
    if not isinstance(value, Mapping):
        raise InvalidValue(f"a poll brings a JSON object, not {type(value).__name__}")
    try:
        text = json.dumps(dict(value), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"what the poll brought is no JSON: {error}") from None
    if len(text) > DATA_LIMIT:
        raise InvalidValue(f"what the poll brought has {len(text):,} characters, {DATA_LIMIT:,} are allowed")
    data: dict[str, Any] = json.loads(storable(text))
    return data


def _seconds(value: Any) -> float | None:
    """Return a number of seconds that a server asked for, None where it is none."""
    try:
        seconds = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None
