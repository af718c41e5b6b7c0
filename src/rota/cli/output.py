"""Output of commands: tables, streams, interrupts and layout."""

import errno
import io
import json
import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, BinaryIO, NoReturn, TextIO, cast

import click
from msgspec import Struct

from rota.model.records import Run
from rota.model.states import Status
from rota.text.ansi import clean_except_styles, clean_for_terminal, escape_controls

Pairs = Iterable[tuple[str, str]]
GAP = 2
MIN_FLEXIBLE_WIDTH = 10
MIN_WIDTH = 6
MIN_TITLE_WIDTH = 8
"""So much of a heading is always shown."""


class Cell(Struct, frozen=True):
    """A text with its colour."""

    text: str
    colour: str | None = None


class Column(Struct, frozen=True):
    """A heading. A narrow terminal omits `spare` columns first, then cuts `flexible` ones."""

    title: str
    flexible: bool = False
    spare: bool = False


Row = Sequence[Cell | str]


def print_table(headings: Sequence[Column | str], rows: Sequence[Row]) -> None:
    """Print rows under their headings; a text is the heading of a plain column."""
    columns = [Column(heading) if isinstance(heading, str) else heading for heading in headings]
    texts = [[column.title for column in columns], *([_text(cell) for cell in row] for row in rows)]
    if sys.stdout.isatty():
        _print_rich(columns, rows, texts[1:])
        return
    widths = [max(len(row[index]) for row in texts) for index in range(len(columns))]
    for row in texts:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _text(cell: Cell | str) -> str:
    return clean_for_terminal(cell.text if isinstance(cell, Cell) else cell).replace("\n", " ")


def _print_rich(columns: Sequence[Column], rows: Sequence[Row], texts: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    shown = lay_out(columns, texts, room=console.width)
    for index, width in shown.items():
        table.add_column(columns[index].title, no_wrap=True, overflow="ellipsis", width=width)
    for row in rows:
        table.add_row(*(Text(_text(row[index]), style=_style(row[index])) for index in shown))
    console.print(table)


def _style(cell: Cell | str) -> str:
    return (cell.colour or "") if isinstance(cell, Cell) else ""


def lay_out(columns: Sequence[Column], texts: Sequence[Sequence[str]], *, room: int) -> dict[int, int]:
    """Return the shown columns with their widths; long headings are cut before the texts below them."""
    below = [max((len(row[index]) for row in texts), default=0) for index in range(len(columns))]
    titles = [len(column.title) for column in columns]
    least = [max(text, min(title, MIN_TITLE_WIDTH)) for text, title in zip(below, titles, strict=True)]
    shown = visible_columns(columns, least, room=room)
    fitted = fit_widths([columns[index] for index in shown], [least[index] for index in shown], room=room)
    whole = [max(titles[index], below[index]) for index in shown]
    return dict(zip(shown, grow_widths(fitted, whole, room=room), strict=True))


def visible_columns(columns: Sequence[Column], widths: Sequence[int], *, room: int) -> list[int]:
    """Return the indexes of the shown columns: omit spare ones, the first of them first, before any other is cut.

    >>> visible_columns([Column("JOB"), Column("PATH", spare=True), Column("WHY", flexible=True)], [9, 30, 60], room=50)
    [0, 2]
    """
    least = [
        min(width, MIN_FLEXIBLE_WIDTH) if one.flexible else width for one, width in zip(columns, widths, strict=True)
    ]
    shown = list(range(len(columns)))
    for index, column in enumerate(columns):
        if column.spare and sum(least[one] for one in shown) + GAP * (len(shown) - 1) > room:
            shown.remove(index)
    return shown


def fit_widths(columns: Sequence[Column], widths: Sequence[int], *, room: int) -> list[int]:
    """Return widths that fit into `room`: cut flexible columns first, then the widest, never the first.

    >>> fit_widths([Column("JOB"), Column("WHY", flexible=True)], [10, 60], room=50)
    [10, 38]
    """
    fitted = list(widths)
    excess = sum(widths) + GAP * (len(widths) - 1) - room
    for index in (index for index, column in enumerate(columns) if column.flexible):
        cut = max(0, min(excess, fitted[index] - MIN_FLEXIBLE_WIDTH))
        fitted[index] -= cut
        excess -= cut
    for _ in range(excess):
        widest = max(range(1, len(fitted)), key=lambda index: fitted[index], default=0)
        fitted[widest] = max(MIN_WIDTH, fitted[widest] - 1)
    return fitted


def grow_widths(widths: Sequence[int], titled: Sequence[int], *, room: int) -> list[int]:
    """Return widths that use the rest of `room` for complete headings and texts, from the left.

    >>> grow_widths([10, 6, 12], [10, 8, 23], room=40)
    [10, 8, 18]
    """
    found, left = list(widths), room - sum(widths) - GAP * (len(widths) - 1)
    for index, wanted in enumerate(titled):
        more = max(0, min(left, wanted - found[index]))
        found[index] += more
        left -= more
    return found


def print_pairs(pairs: Pairs) -> None:
    """Print labelled lines under a heading."""
    for label, text in pairs:
        click.echo(f"  {label:12} {text}")


NAMES = ("stdin", "stdout", "stderr")
BUFFER_LIMIT = 1 << 20
"""How many bytes wait for a reader of the console or the log before lines are dropped."""
DRAIN_SECONDS = 2.0
"""How many seconds the end of a process waits for each reader."""
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENXIO})


def open_closed_streams() -> None:
    """Open closed streams to /dev/null, so that no other file gets their descriptor."""
    for number, name in enumerate(NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)  # noqa: FBT003
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def is_unwritable(error: BaseException) -> bool:
    """Return whether a stream cannot be written; errors of files name their path."""
    return isinstance(error, OSError) and error.errno in UNWRITABLE and error.filename is None


def release_stream(stream: TextIO) -> None:
    """Flush a stream for at most a moment, then redirect it to /dev/null."""
    buffer = getattr(stream, "buffer", None)
    if isinstance(buffer, BackgroundWriter):
        buffer.settle(DRAIN_SECONDS)
    else:
        stream.flush()
    give_up(stream)


def give_up(stream: TextIO) -> None:
    """Redirect a stream to /dev/null; the rest of its buffer cannot be written."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class CleanStream:
    """A text stream that removes control sequences of foreign texts."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text without control sequences, except rota's own colours."""
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
    """Remove control sequences from everything written to stdout and stderr."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if isinstance(stream, CleanStream) else cast("TextIO", CleanStream(stream)) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON with escaped control characters."""
    return escape_controls(json.dumps(value, indent=indent, ensure_ascii=False, default=str))


def direct_stream(stream: TextIO) -> TextIO:
    """Return the stream behind a clean one, for output that moves the cursor, such as a progress bar."""
    return stream.stream if isinstance(stream, CleanStream) else stream


@contextmanager
def ignore_closed(stream: TextIO) -> Iterator[None]:
    """Ignore a closed or full stream: the output is also recorded elsewhere."""
    try:
        yield
    except BrokenPipeError:
        give_up(stream)
    except OSError as error:
        if not is_unwritable(error):
            raise


class BackgroundWriter(io.BufferedIOBase):
    """Writes to a stream's file from its own thread: `write` never blocks.

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
        """Return the file descriptor."""
        return self._file

    def isatty(self) -> bool:
        """Return whether the file is a terminal."""
        return os.isatty(self._file)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any, /) -> int:
        """Buffer `data`, or drop it if the buffer is full; never block."""
        taken = bytes(data)
        with self._changed:
            begins = self._drop(taken)
            if not self._dropping:
                self._put(taken)
        if begins:
            self._stalled()
        return len(taken)

    def settle(self, within: float) -> bool:
        """Wait at most `within` seconds until the buffer is written; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._size, within)

    def end(self, within: float) -> bool:
        """Wait at most `within` seconds for the last write; return whether it is done. No write may follow."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(within)
        return not self._thread.is_alive()

    def _drop(self, data: bytes) -> bool:
        """Count `data` as dropped while the buffer is full; return whether dropping starts here."""
        was = self._dropping
        self._dropping = self._size + len(data) > (self._limit // 2 if was else self._limit)
        self._dropped += data.count(b"\n") if self._dropping else 0
        return self._dropping and not was

    def _put(self, data: bytes) -> None:
        """Queue `data` after the line about dropped lines."""
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
        """Wait for the next piece; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            return self._waiting.popleft() if self._waiting else None

    def _write_out(self, piece: bytes) -> bool:
        """Write and wait for the reader; return whether the write succeeded."""
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
    """Write stdout and stderr from threads, so that a stalled reader blocks nothing else.

    At the end wait a moment for the rest, then redirect a stuck stream to /dev/null.
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
            if not writer.end(DRAIN_SECONDS):
                give_up(getattr(sys, name))


def _warn_of_stall() -> None:
    from rota.log import log

    log.warning("console output is not being read, dropping lines", hint="read or redirect the scheduler's stdout")


def _has_file(stream: TextIO) -> bool:
    try:
        stream.fileno()
    except (OSError, ValueError):
        return False
    return True


class _Noted:
    """Whether Ctrl-C was pressed. No lock: the interrupted code may hold it."""

    pressed = False


@contextmanager
def interrupts_noted() -> Iterator[None]:
    """Record a Ctrl-C besides raising it, so that the next pause can raise a lost one."""
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
    """Raise KeyboardInterrupt for a lost Ctrl-C."""
    if _Noted.pressed:
        _Noted.pressed = False
        raise KeyboardInterrupt


COLOURS = {
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.SKIPPED: "yellow",
    Status.CANCELLED: "magenta",
    Status.RUNNING: "cyan",
    Status.QUEUED: "blue",
}


def coloured(status: Status, text: str | None = None) -> str:
    """Return a status, or a text about it, in its colour."""
    return click.style(text or status.shown.value, fg=COLOURS.get(status.shown))


def colour_of(run: Run) -> str | None:
    """Return the colour of a run; a completed run with denied tools is not green."""
    denied = run.status is Status.COMPLETED and run.denied_tools
    return COLOURS[Status.SKIPPED] if denied else COLOURS.get(run.status.shown)


UNBROKEN = "\u2011"
"""A hyphen at which no line is broken; it stands for the plain one until the text is written."""


class HelpLayout(click.HelpFormatter):
    """Help that breaks no line at a hyphen."""

    def write(self, string: str) -> None:
        """Write with plain hyphens."""
        super().write(string.replace(UNBROKEN, "-"))

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(text.replace("-", UNBROKEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and descriptions in two columns."""
        super().write_dl([(name, text.replace("-", UNBROKEN)) for name, text in rows], col_max, col_spacing)


class HelpContext(click.Context):
    """A context with this layout."""

    formatter_class = HelpLayout
