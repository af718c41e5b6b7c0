"""R-21: what is kept of a run's output, and how it is read."""

import os
import re
import resource
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.ids import IdSource
from rota.runners import output
from rota.runners.writer import BoundedWriter
from rota.text.ansi import clean_for_terminal


def write(folder, data, *, policy="full", limit=320, size=7):
    writer = BoundedWriter(str(folder), policy, limit=limit)
    for start in range(0, len(data), size):
        writer.write(data[start : start + size])
    writer.close()
    return writer


def numbered(count):
    return b"".join(b"%08d\n" % number for number in range(count // 9 + 1))[:count]


def test_short_output_is_kept_whole(tmp_path):
    writer = write(tmp_path, b"hello\n")

    assert b"".join(output.read_output(tmp_path)) == b"hello\n"
    assert (writer.total, writer.truncated) == (6, False)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("count", [159, 160, 161, 320, 321, 330, 5000])
def test_r21_the_first_and_the_last_half_are_kept_within_the_limit(count, size, tmp_path):
    data = numbered(count)

    writer = write(tmp_path, data, size=size)

    stored = sum(path.stat().st_size for path in tmp_path.iterdir())
    text = b"".join(output.read_output(tmp_path))
    assert stored <= 320
    assert text.startswith(data[:160])
    assert text.endswith(data[-150:])
    assert writer.truncated == (b"omitted" in text) == (stored < count)
    assert (writer.total, output.size(tmp_path)) == (count, count)


def test_r21_what_is_left_out_is_marked_with_its_size(tmp_path):
    write(tmp_path, bytes(3_032_000), limit=32_000, size=10_000)

    assert "… 3.0 MB omitted …".encode() in b"".join(output.read_output(tmp_path))


def test_r21_the_policy_tail_keeps_only_the_end(tmp_path):
    data = numbered(5000)

    write(tmp_path, data, policy="tail")

    text = b"".join(output.read_output(tmp_path))
    assert text.endswith(data[-300:])
    assert data[:160] not in text


def test_r21_the_policy_none_counts_and_writes_nothing(tmp_path):
    writer = write(tmp_path, b"x" * 5000, policy="none")

    assert os.listdir(tmp_path) == []
    assert writer.total == 5000


def test_the_files_are_closed_to_others(tmp_path):
    write(tmp_path, b"x" * 5000)

    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_output_goes_on_when_the_disk_has_room_again_and_the_hole_is_marked(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    writer = BoundedWriter(str(folder), "full", limit=1000)
    writer.write(b"before\n")
    writer.close()
    folder.rename(tmp_path / "away")

    writer.write(b"lost\n")
    (tmp_path / "away").rename(folder)
    writer.write(b"after\n")
    writer.close()

    assert b"".join(output.read_output(folder)) == "before\n\n… 5 bytes omitted …\nafter\n".encode()
    assert writer.truncated
    assert "No such file" in writer.error


@pytest.mark.parametrize("before", [b"", b"begun\n", bytes(200)])
def test_a_full_disk_is_not_filled_with_empty_files(before, tmp_path):
    writer = BoundedWriter(str(tmp_path), "full", limit=320)
    writer.write(before)
    names = os.listdir(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # every write fails, every open works
    try:
        for _ in range(100):
            writer.write(b"lost\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    left = os.listdir(tmp_path)
    writer.write(b"after\n")
    writer.close()

    assert sorted(left) == sorted(names)
    assert b"".join(output.read_output(tmp_path)).endswith("… 500 bytes omitted …\nafter\n".encode())
    assert writer.truncated


def test_files_that_somebody_removed_do_not_stop_the_output(tmp_path):
    writer = BoundedWriter(str(tmp_path), "full", limit=320)
    writer.write(numbered(1000))
    for path in tmp_path.iterdir():
        path.unlink()

    writer.write(numbered(1000))
    writer.close()

    assert b"".join(output.read_output(tmp_path)).endswith(numbered(1000)[-100:])
    assert writer.error is None


def test_a_reader_follows_a_writer(tmp_path):
    writer = BoundedWriter(str(tmp_path), "full", limit=1000)
    seen = b""
    offset = 0
    for number in range(50):
        writer.write(b"%d\n" % number)
        piece = output.read_from(tmp_path, offset)
        seen += piece.data
        offset = piece.end
    writer.close()

    assert seen == b"".join(b"%d\n" % number for number in range(50))
    assert output.read_from(tmp_path, offset).data == b""


def test_a_slow_reader_is_told_what_it_missed(tmp_path):
    data = numbered(5000)
    write(tmp_path, data)

    piece = output.read_from(tmp_path, 500)

    assert piece.skipped == 5000 - 500 - len(
        b"".join(output.read_output(tmp_path)).partition("omitted …\n".encode())[2]
    )
    assert data[500 + piece.skipped :].startswith(piece.data)


@given(st.lists(st.binary(max_size=400), max_size=30), st.integers(min_value=2, max_value=700))
def test_r21_no_sequence_of_writes_breaks_the_bounds(pieces, limit):
    with tempfile.TemporaryDirectory() as name:
        check_bounds(Path(name), pieces, limit)


def check_bounds(folder, pieces, limit):
    writer = BoundedWriter(str(folder), "full", limit=limit)
    for piece in pieces:
        writer.write(piece)
    writer.close()
    data = b"".join(pieces)

    assert sum(path.stat().st_size for path in folder.iterdir()) <= max(limit, limit // 2 + 16)
    assert output.size(folder) == len(data) == writer.total
    offset = 0
    while (piece := output.read_from(folder, offset)).data:
        assert data[piece.end - len(piece.data) : piece.end] == piece.data
        offset = piece.end
    assert offset == len(data)


@pytest.mark.parametrize(("lines", "text"), [(0, b""), (1, b"c"), (2, b"b\nc"), (9, b"a\nb\nc")])
def test_the_tail_is_the_last_lines(lines, text, tmp_path):
    write(tmp_path, b"a\nb\nc")

    assert output.tail(tmp_path, lines) == text


def test_the_tail_never_joins_lines_over_a_gap(tmp_path):
    data = numbered(5000)
    write(tmp_path, data)

    assert data.endswith(output.tail(tmp_path, 1000))


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(min_value=2, max_value=500), st.integers(1, 8))
def test_the_tail_and_every_range_are_those_of_the_whole(pieces, limit, lines):
    """The first line of the tail is the one after a gap, where the lines before it were left out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writer = BoundedWriter(str(folder), "full", limit=limit)
        for piece in pieces:
            writer.write(piece)
        writer.close()
        whole, snapshot = output.read_all(folder), output.Snapshot(folder)
        kept = whole.split(" omitted …\n".encode())[-1]
        assert output.tail(folder, lines) == b"".join(re.findall(rb"[^\n]*\n|[^\n]+", kept)[-lines:])
        assert snapshot.size == len(whole)
        middle = len(whole) // 3, len(whole) * 2 // 3
        for first, last in [(0, len(whole) - 1), middle, (len(whole) - 1, len(whole) + 5)]:
            assert b"".join(snapshot.read(first, last)) == whole[max(first, 0) : last + 1]


@pytest.mark.parametrize("lines", [1, 2, 99, 1_000, 3_999, 4_000, 4_001])
def test_a_tail_that_is_larger_than_a_chunk_is_found(lines, tmp_path):
    data = b"".join(b"%d %s\n" % (number, b"x" * (number % 97)) for number in range(4_000))
    write(tmp_path, data, limit=1_000_000, size=50_000)

    assert len(data) > 3 * output.CHUNK
    assert output.tail(tmp_path, lines) == b"".join(data.splitlines(keepends=True)[-lines:])


def test_nothing_was_written_is_not_an_error(tmp_path):
    folder = tmp_path / "absent"

    assert list(output.read_output(folder)) == []
    assert output.tail(folder, 5) == b""
    assert output.last_line(folder) == ""


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"one\ntwo\n\n  \n", "two"),
        (b"\x1b[31mrepository locked\x1b[0m\r\n", "repository locked"),
        (b"10%\r50%\r100%", "100%"),
        (b"\xff\xfebad \x00bytes\n", "\ufffd\ufffdbad bytes"),
        (b"x" * 300, "x" * 199 + "…"),
        (b"said\n\x1b[2J\x1b[H\n", "said"),
    ],
)
def test_the_last_line_is_clean_and_short(data, line, tmp_path):
    write(tmp_path, data, limit=10_000)

    assert output.last_line(tmp_path) == line


@pytest.mark.parametrize(
    ("ugly", "clean"),
    [
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;c3RvbGVu\x07x", "x"),
        ("\x1b]never closed\nnext line", "\nnext line"),
        ("\x9b31mred", "red"),
        ("a\u202eb\u2066c", "abc"),
        ("honest\rforged", "honest\nforged"),
        ("tab\tstays\n", "tab\tstays\n"),
        ("bell\x07\x08\x7f", "bell"),
        ("\x1bcreset", "reset"),
        ("</script>", "</script>"),
        ("e\u0301", "e\u0301"),
    ],
)
def test_f32_nothing_reaches_the_terminal_that_could_steer_it(ugly, clean):
    assert clean_for_terminal(ugly) == clean


@given(st.text())
def test_f32_no_text_keeps_a_control_character(text):
    cleaned = clean_for_terminal(text)

    assert not any((ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160 for char in cleaned)
    assert clean_for_terminal(cleaned) == cleaned


def test_cleaning_a_million_escapes_is_quick():
    assert clean_for_terminal("\x1b]" * 1_000_000) == ""
    assert clean_for_terminal("\x1b[" * 1_000_000) == ""


def test_a_runs_folder_is_found_by_the_day_in_its_id(tmp_path, clock_now):
    run_id = IdSource().new(clock_now)

    assert output.folder_of(tmp_path, run_id) == tmp_path / "runs" / "20261115" / run_id


def test_a_runs_folder_is_closed_to_others(tmp_path):
    folder = output.make_folder(tmp_path / "runs" / "20251115" / "x")

    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700, 0o700]


def test_an_output_of_some_seconds_notes_its_times(tmp_path):
    ticks = iter([1_000, 1_900, 7_000, 7_500, 9_000])
    writer = BoundedWriter(str(tmp_path), "full", limit=1000, clock=lambda _file: next(ticks))
    for _ in range(5):
        writer.write(b"line\n")
    writer.close()
    times = output.OutputTimes(tmp_path)
    assert [times.at(offset).timestamp() for offset in (0, 5, 10, 15, 20, 24)] == [1, 1, 7, 7, 9, 9]


def test_a_short_output_has_the_time_of_its_file(tmp_path):
    write(tmp_path, b"a\nb\n")
    assert os.listdir(tmp_path) == ["output.0"]
    assert output.OutputTimes(tmp_path).at(2) == output.written_at(tmp_path)


def test_the_times_of_a_very_long_output_are_few(tmp_path):
    ticks = iter(range(1_000, 10**9, 50_000))
    writer = BoundedWriter(str(tmp_path), "tail", limit=100_000, clock=lambda _file: next(ticks))
    for _ in range(19_000):
        writer.write(b"line\n")
    writer.close()
    assert (tmp_path / "output.times").stat().st_size < 16 * 13_000


def test_a_forgotten_output_leaves_no_times(tmp_path):
    ticks = iter([1_000, 5_000])
    writer = BoundedWriter(str(tmp_path), "full", limit=1000, clock=lambda _file: next(ticks))
    writer.write(b"one\n")
    writer.write(b"two\n")
    writer.close()
    output.forget_output(tmp_path)
    assert os.listdir(tmp_path) == []
