"""Python functions inside the scheduler's process: sync ones on threads, async ones on a loop of their own.

Nothing here waits: outcomes are collected in a list and handed over by one pending hint at a time.
"""

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Collection
from datetime import timedelta

from rota import faults
from rota.model.durations import say_duration
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.runners.calling import STOPPED, Call, call, is_async, read_raised
from rota.runners.deadlines import Deadlines
from rota.runners.function_loop import FunctionLoop

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
        self._calls: dict[str, Call] = {}
        self._abandoned: dict[str, Call] = {}
        self._threads: list[threading.Thread] = []
        self._sync_calls = 0
        self._work: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._async = FunctionLoop(self._finish, host=host)
        self._finished: deque[tuple[Call, Outcome]] = deque()
        self._left_alone: Finished = []
        self._hinted = False
        self._deadlines = Deadlines(loop, self._on_deadline, under_way=self._calls)

    def start(self, started: Call) -> None:
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

    def _finish(self, ended: list[tuple[Call, Outcome]]) -> None:
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

    def _settle(self, ended: Call) -> None:
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

    def _stop(self, stopped: Call, outcome: Outcome) -> None:
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

    def _abandon(self, left: Call) -> None:
        assert left.decided is not None
        left.reported = True
        del self._calls[left.token]
        self._abandoned[left.token] = left
        self._left_alone.append((left.token, left.decided))
        self._hint()


def _run(taken: Call) -> Outcome:
    try:
        return taken.read(taken.context, call(taken))
    except BaseException as error:  # nothing that user code raises may end the thread
        return read_raised(taken.context, error)
    finally:
        if taken.context.opened:
            with contextlib.suppress(Exception):
                taken.context.close()
