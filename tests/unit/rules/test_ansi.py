"""Colours in output: styles by name, and nothing else gets through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.text.ansi import StyledSpan, styled_lines


def shown(*lines: str) -> list[list[tuple[str, str]]]:
    return [[(span.text, span.classes) for span in line] for line in styled_lines(lines)]


@pytest.mark.parametrize(
    ("codes", "classes"),
    [
        ("31", "ansi-red"),
        ("1;32", "ansi-green ansi-bold"),
        ("93", "ansi-bright-yellow"),
        ("44", "ansi-on-blue"),
        ("38;5;9", "ansi-bright-red"),
        ("38;5;196", "ansi-bright-red"),
        ("38;2;0;130;0", "ansi-green"),
        ("48;5;244", "ansi-on-white"),
        ("4;3;2", "ansi-faint ansi-italic ansi-underlined"),
        ("38", ""),
        ("7;999", ""),
    ],
)
def test_a_sequence_names_a_style(codes: str, classes: str) -> None:
    assert shown(f"\x1b[{codes}mtext") == [[("text", classes)]]


@pytest.mark.parametrize("end", ["", "0"])
def test_a_style_lasts_over_lines_until_it_is_ended(end: str) -> None:
    found = shown("a\x1b[31mb", "c", f"d\x1b[{end}me")
    assert found == [[("a", ""), ("b", "ansi-red")], [("c", "ansi-red")], [("d", "ansi-red"), ("e", "")]]


def test_other_sequences_and_control_characters_are_left_out() -> None:
    assert shown("\x1b]0;title\x07a\x1b[2Jb\x1b[?25l\x08c\u202ed\tf") == [[("abcd\tf", "")]]


def test_a_line_that_was_written_over_shows_its_end() -> None:
    assert shown(" 10 %\r 50 %\r100 %\r") == [[("100 %", "")]]


@given(st.lists(st.text(alphabet="\x1b[]0123456789;m<>&\"'ab\x07\r\\\u202e"), max_size=5))
def test_classes_are_ours_whatever_was_written(lines: list[str]) -> None:
    for line in styled_lines(lines):
        for span in line:
            assert isinstance(span, StyledSpan)
            assert all(part.startswith("ansi-") and part.replace("-", "").isalpha() for part in span.classes.split())
            assert "\x1b" not in span.text
            assert "\u202e" not in span.text
