"""Ctrl-C that is not lost: what is raised while the interpreter runs a callback of its own, it only prints.

The end of an import is such a callback, and commands import as they go.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class _Noted:
    """Whether Ctrl-C was pressed. A plain value: what has a lock may be held by the code that was interrupted."""

    pressed = False


@contextmanager
def interrupts_noted() -> Iterator[None]:
    """Note a Ctrl-C besides raising it, so that the next pause of the command raises one that got lost."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _Noted.pressed = False
    signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _note(number: int, frame: FrameType | None) -> NoReturn:
    _Noted.pressed = True
    signal.default_int_handler(number, frame)


def raise_lost_interrupt() -> None:
    """Raise a Ctrl-C that was pressed and did not come through."""
    if _Noted.pressed:
        _Noted.pressed = False
        raise KeyboardInterrupt
