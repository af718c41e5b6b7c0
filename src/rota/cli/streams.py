"""The three streams of a command: one may be closed, its end may be full, and a terminal obeys what it is sent."""

import errno
import io
import json
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, TextIO, cast

from rota.log import log
from rota.rules.ansi import clean_except_styles, escape_controls

NAMES = ("stdin", "stdout", "stderr")
BUFFER_LIMIT = 1 << 20
"""How many bytes wait for a reader of the console or the log before lines are dropped."""
DRAIN_WAIT = 2.0
"""How many seconds the end of a process waits for each reader."""
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


def let_go(stream: TextIO) -> None:
    """Write what a stream still holds, where its reader takes it within a moment; then lead it nowhere."""
    buffer = getattr(stream, "buffer", None)
    if isinstance(buffer, BackgroundWriter):
        buffer.settle(DRAIN_WAIT)
    else:
        stream.flush()
    give_up(stream)


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


class BackgroundWriter(io.BufferedIOBase):
    """Writes to a stream's file from a thread of its own: `write` never waits for the reader.

    A full buffer drops whole writes and counts their lines. `say_dropped` words the line that stands for them, which is
    written as soon as the reader goes on; `stalled` is called once when the dropping begins.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        say_dropped: Callable[[int], str],
        stalled: Callable[[], None] = lambda: None,
        limit: int = BUFFER_LIMIT,
    ) -> None:
        self._stream = stream
        self._file = stream.fileno()
        self._say_dropped = say_dropped
        self._stalled = stalled
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._dropping = False
        self._dropped = 0
        self._ending = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name=f"rota-{stream.name}", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """Return the file that is written to."""
        return self._file

    def isatty(self) -> bool:
        """Tell whether the file is a terminal."""
        return os.isatty(self._file)

    def writable(self) -> bool:
        """Tell that it takes text."""
        return True

    def write(self, data: Any, /) -> int:
        """Take `data` over, or drop it where the buffer is full; never wait."""
        taken = bytes(data)
        with self._changed:
            begins = self._drop(taken)
            if not self._dropping:
                self._put(taken)
        if begins:
            self._stalled()
        return len(taken)

    def settle(self, within: float) -> bool:
        """Wait until all that was taken over is written, so many seconds at most; tell whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._size, within)

    def end(self, within: float) -> bool:
        """Wait until all is written, so many seconds at most; tell whether it is. Nothing may be written after this."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(within)
        return not self._thread.is_alive()

    def _drop(self, data: bytes) -> bool:
        """Count `data` as dropped while there is no room; tell whether this is where the dropping begins."""
        was = self._dropping
        self._dropping = self._size + len(data) > (self._limit // 2 if was else self._limit)
        self._dropped += data.count(b"\n") if self._dropping else 0
        return self._dropping and not was

    def _put(self, data: bytes) -> None:
        """Queue `data`, after the line that stands for what was dropped before it."""
        for piece in (self._notice(), data):
            if piece:
                self._waiting.append(piece)
                self._size += len(piece)
        self._changed.notify_all()

    def _notice(self) -> bytes:
        dropped, self._dropped = self._dropped, 0
        return f"{self._say_dropped(dropped)}\n".encode() if dropped else b""

    def _serve(self) -> None:
        while (piece := self._next()) is not None:
            stored = self._write_out(piece)
            with self._changed:
                self._size -= len(piece)
                if not stored:
                    self._dropped += piece.count(b"\n")
                elif self._dropped and not self._waiting:
                    self._dropping = False
                    self._put(b"")
                self._changed.notify_all()

    def _next(self) -> bytes | None:
        """Wait for what is to be written; None: nothing more comes."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            return self._waiting.popleft() if self._waiting else None

    def _write_out(self, piece: bytes) -> bool:
        """Write, however long the reader takes; tell whether the file took it."""
        view = memoryview(piece)
        while view:
            try:
                view = view[os.write(self._file, view) :]
            except BlockingIOError:
                ready = select.poll()
                ready.register(self._file, select.POLLOUT)
                ready.poll()
            except BrokenPipeError:
                give_up(self._stream)
            except OSError:
                return False
        return True


@contextmanager
def background_streams(say_dropped: Mapping[str, Callable[[int], str]]) -> Iterator[None]:
    """Have stdout and stderr written by threads, so that a reader that stops reading stops nothing else.

    At the end the rest is waited for, but not without end: a stream that is still stuck then leads nowhere.
    """
    before = sys.stdout, sys.stderr
    writers = {}
    for name, stream in zip(("stdout", "stderr"), before, strict=True):
        if _has_file(stream):
            stream.flush()
            # Of the log's own stream nothing can be logged.
            stalled = _warn_of_stall if name == "stdout" else lambda: None
            writer = writers[name] = BackgroundWriter(stream, say_dropped=say_dropped[name], stalled=stalled)
            buffer = cast("BinaryIO", writer)
            text = io.TextIOWrapper(buffer, encoding=stream.encoding, errors=stream.errors, write_through=True)
            setattr(sys, name, CleanStream(text) if isinstance(stream, CleanStream) else text)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for name, writer in writers.items():
            if not writer.end(DRAIN_WAIT):
                give_up(getattr(sys, name))


def _warn_of_stall() -> None:
    log.warning("console output is not being read, dropping lines", hint="read or redirect the scheduler's stdout")


def _has_file(stream: TextIO) -> bool:
    try:
        stream.fileno()
    except (OSError, ValueError):
        return False
    return True
