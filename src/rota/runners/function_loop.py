"""The event loop of async functions, never the engine's: one in a thread of its own, or that of the host process."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.runners.calling import STOPPED, Call, call, read_raised

END_WAIT = 1.0
HOST_LOST = Outcome(Status.FAILED, Reason.SHUTDOWN, error="the event loop that the scheduler was entered on is closed")


class FunctionLoop:
    """The loop of async functions: that of a `host`, or one in a thread that is started with the first of them."""

    def __init__(
        self, finish: Callable[[list[tuple[Call, Outcome]]], None], *, host: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._finish = finish
        self._done: list[tuple[Call, Outcome]] = []
        self._hosted = host is not None
        self._loop = host
        self._thread: threading.Thread | None = None
        self._waiting: deque[Call] = deque()
        self._hinted = False
        self._under_way: set[Call] = set()

    def start(self, started: Call) -> None:
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

    def cancel(self, stopped: Call) -> None:
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

    async def _carry(self, started: Call) -> None:
        """Run a call and take its outcome, without a callback for each: that would be a tenth of a short call."""
        started.entered = True
        try:
            outcome = await _run(started)
        except asyncio.CancelledError:  # a second time, while it was closing what it had opened
            outcome = STOPPED
        self._ended(started, outcome)

    def _ended(self, ended: Call, outcome: Outcome) -> None:
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

    def _cancel(self, stopped: Call) -> None:
        """Cancel the task of a call; one that is cancelled before its first step gets no further, and so ends here."""
        if stopped.task is None or stopped not in self._under_way:
            return
        stopped.task.cancel()
        if not stopped.entered:
            self._ended(stopped, STOPPED)

    def _stop_loop(self) -> None:
        assert self._loop is not None
        self._loop.stop()


async def _run(started: Call) -> Outcome:
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
