"""The three streams of a command: one may be closed, and what it leads to may be full."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

NAMES = ("stdin", "stdout", "stderr")
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENXIO})


def open_closed_streams() -> None:
    """Lead streams that are closed nowhere, so that no file which is opened later takes their number."""
    for number, name in enumerate(NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)  # noqa: FBT003
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def is_unwritable(error: BaseException) -> bool:
    """Tell whether an error is that of a stream which takes no more; those of files name their path."""
    return isinstance(error, OSError) and error.errno in UNWRITABLE and error.filename is None


def give_up(stream: TextIO) -> None:
    """Lead a stream nowhere: what is left in its buffer could not be written at the end either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def telling(stream: TextIO) -> Iterator[None]:
    """Tell what is also recorded elsewhere: nobody need hear it, and a stream that takes no more stops nothing."""
    try:
        yield
    except BrokenPipeError:
        give_up(stream)
    except OSError as error:
        if not is_unwritable(error):
            raise
