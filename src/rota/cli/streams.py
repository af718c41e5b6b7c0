"""The three streams of a command: one may be closed, its end may be full, and a terminal obeys what it is sent."""

import errno
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from rota.rules.ansi import clean_except_styles, escape_controls

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


class CleanStream:
    """A text stream through which no control sequence of a text from outside reaches the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text; only the colours that rota writes itself stay in it."""
        self.stream.write(clean_except_styles(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return everything else from the stream itself."""
        return getattr(self.stream, name)


@contextmanager
def clean_streams() -> Iterator[None]:
    """Clean what is written to stdout and stderr: commands, tables, errors, the console and the log alike."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if isinstance(stream, CleanStream) else cast("TextIO", CleanStream(stream)) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON that a terminal shows and a program reads unchanged: controls are escaped, not removed."""
    return escape_controls(json.dumps(value, indent=indent, ensure_ascii=False, default=str))


def direct_stream(stream: TextIO) -> TextIO:
    """Return the stream behind a clean one, for output that moves the cursor, such as a progress bar."""
    return stream.stream if isinstance(stream, CleanStream) else stream


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
