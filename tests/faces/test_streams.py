"""The streams of a scheduler: written by a thread, bounded, and what is dropped is counted and said."""

import os

import click
import pytest

from rota.cli.output import BackgroundWriter, background_streams
from tests.waiting import until

WORDS = "{} dropped".format


def full_pipe() -> tuple[int, int]:
    """Return a pipe that is full."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (1 << 16, 1):
        try:
            while True:
                os.write(writer, b"-" * size)
        except BlockingIOError:
            pass
    os.set_blocking(writer, True)
    return reader, writer


def read_lines(reader: int, *, up_to: bytes) -> list[bytes]:
    """Read until a line begins with `up_to`; return the lines, without what filled the pipe."""
    data = b""

    def found() -> bool:
        nonlocal data
        data += os.read(reader, 1 << 16)
        return up_to in data

    until(found, what=lambda: f"{up_to!r}, there is {data[-200:]!r}")
    return data.lstrip(b"-").splitlines()


def test_lines_beyond_the_bound_are_dropped_and_their_number_is_written_when_the_reader_goes_on() -> None:
    reader, file = full_pipe()
    stalls: list[int] = []
    with open(file, "w", closefd=True) as stream:
        writer = BackgroundWriter(stream, say_dropped=WORDS, stalled=lambda: stalls.append(1), limit=100)
        for number in range(50):
            writer.write(f"line {number:03}\n".encode())
        assert stalls == [1]
        lines = read_lines(reader, up_to=b"dropped")
        kept = [line for line in lines if line.startswith(b"line")]
        assert lines == [*kept, f"{50 - len(kept)} dropped".encode()]
        assert kept == [f"line {number:03}".encode() for number in range(len(kept))]
        assert 0 < len(kept) <= 100 // len("line 000\n") + 1
        writer.write(b"after\n")
        assert read_lines(reader, up_to=b"after") == [b"after"]
        assert writer.end(10)
    os.close(reader)


def test_a_reader_who_left_is_no_error_and_costs_nothing() -> None:
    reader, file = os.pipe()
    os.close(reader)
    with open(file, "w", closefd=True) as stream:
        writer = BackgroundWriter(stream, say_dropped=WORDS)
        writer.write(b"nobody reads this\n")
        assert writer.end(10)


def test_all_that_was_printed_is_written_before_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    with background_streams({"stdout": WORDS, "stderr": WORDS}):
        for number in range(1000):
            click.echo(number)
        click.echo("trouble", err=True)
    told = capfd.readouterr()
    assert told.out.splitlines() == [str(number) for number in range(1000)]
    assert told.err == "trouble\n"
