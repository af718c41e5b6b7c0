"""The scheduler's side of running keepers: a deadline behind their own, and the wait for their end."""

import asyncio
import os
import signal

from rota.model.records import ProcessIdentity
from rota.runners.processes import alive, keeps, kill_keeper, send_signal, stuck

POLL_SECONDS = 0.05
LOOK_SECONDS = 1.0
UNKILLABLE_SECONDS = 30.0
"""After so long a keeper gives up processes that it cannot kill."""


class Watch:
    """The scheduler's own deadline behind a keeper's, for a run that keeps stopping its keeper.

    After its deadline the keeper gets CONT once a second, which is harmless. A keeper that is still stopped after the
    grace is killed with its process tree, and so is a keeper with running processes after `UNKILLABLE_SECONDS`.
    """

    def __init__(self, keeper: ProcessIdentity, *, timeout: float | None, term_grace: float, slack: float) -> None:
        self.overdue: str | None = None
        """Why the keeper was killed: `timed_out` or `stopped`; None: not killed."""
        self._keeper = keeper
        self._term_grace = term_grace
        self._slack = slack
        self._why = "timed_out"
        self._due = float("inf")
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        if timeout is not None:
            self._expect(timeout)

    def order(self, *, at_once: bool) -> None:
        """Expect the end of the run: the keeper got a signal."""
        if self._due > self._loop.time():
            self._why = "stopped"
        self._term_grace = 0.0 if at_once else self._term_grace
        self._expect(0.0)

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _expect(self, seconds: float) -> None:
        self._due = min(self._due, self._loop.time() + seconds)
        self.close()
        self._timer = self._loop.call_at(self._due + LOOK_SECONDS, self._look)

    def _look(self) -> None:
        late = self._loop.time() - self._due - self._term_grace - self._slack
        given_up = late > UNKILLABLE_SECONDS and keeps(self._keeper)
        if (late > 0 and stuck(self._keeper)) or given_up:
            self.overdue = self._why
            self._loop.run_in_executor(None, kill_keeper, self._keeper)
        else:
            send_signal(self._keeper, signal.SIGCONT)
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)


async def wait_keeper(keeper: ProcessIdentity) -> None:
    """Return when the process is gone; it need not be a child."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        handle = os.pidfd_open(keeper.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
        while alive(keeper):
            loop.call_later(POLL_SECONDS, ready.set)
            await ready.wait()
            ready.clear()
        return
    try:
        if alive(keeper):
            loop.add_reader(handle, ready.set)
            await ready.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
