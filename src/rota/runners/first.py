"""Process 1 of a container: it reaps what others leave behind and passes signals on; the scheduler is its child."""

import os
import signal
from collections.abc import Callable

PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
    signal.SIGCONT,
)


def leave_first_place(pid: Callable[[], int] = os.getpid) -> None:
    """Where this is process 1, go on in a child: orphans of a container belong to process 1, and it must reap them.

    The scheduler cannot do that itself: reaping everything would take away the ends of its own children.
    """
    if pid() != 1:
        return
    waited = {*PASSED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    child = os.fork()
    if child == 0:
        _take_the_terminal()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    os._exit(_attend(child, waited))


def _take_the_terminal() -> None:
    """Be the group that a terminal's Ctrl-C goes to, so that it does not come twice."""
    os.setpgid(0, 0)
    ignored = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(0, os.getpgrp())
    except OSError:
        pass
    signal.signal(signal.SIGTTOU, ignored)


def _attend(child: int, waited: set[signal.Signals]) -> int:
    """Reap and pass signals on until the child ends; return its exit code."""
    while True:
        number = signal.sigwait(waited)
        if number is not signal.SIGCHLD:
            os.kill(child, number)
        elif (code := _reap(child)) is not None:
            return code


def _reap(child: int) -> int | None:
    """Reap all that has ended; return the exit code of the child if it was among them."""
    found = None
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                found = code if code >= 0 else 128 - code
    except ChildProcessError:
        pass
    return found
