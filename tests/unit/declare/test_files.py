"""Reading the text of rota.yaml: limits, positions, and where a project is."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.declare import yaml
from rota.declare.problems import PROBLEM_CODES
from rota.declare.yaml import compose, load, parse, plain_value, read_simple
from rota.model.errors import FileProblems, ProjectMissing, write_path
from rota.settings import find_project

REFUSED = {
    "a list at the top": (
        "- a\n",
        (
            "rota.yaml:1:1: the top level is not a map of sections; write sections such as `timezone:` and `jobs:` "
            "at the left margin"
        ),
    ),
    "a text at the top": (
        "hello\n",
        (
            "rota.yaml:1:1: the top level is not a map of sections; write sections such as `timezone:` and `jobs:` "
            "at the left margin"
        ),
    ),
    "a second document": ("a: 1\n---\nb: 2\n", "rota.yaml:2:1: a second document starts here; split it into two files"),
    "a tab as indentation": ("a:\n\tb: 1\n", "rota.yaml:2:1: a tab cannot indent YAML; use spaces"),
    "a colon inside a plain value": (
        "a: b: c\n",
        (
            "rota.yaml:1:5: is not valid YAML: mapping values are not allowed here; put a value that contains `: ` in "
            "quotes, "
            "or check the indentation"
        ),
    ),
    "a brace that is not closed": (
        "a: {b: [c]\nd: 1\n",
        "rota.yaml:1:4: this `{` is not closed; write `}` where it ends, or a comma between its parts, before 2:1",
    ),
    "a bracket that is not closed": (
        "a: [b c: 1\n",
        "rota.yaml:1:4: this `[` is not closed; write `]` where it ends, or a comma between its parts, before 2:1",
    ),
    "a NUL": ("a: \0", "rota.yaml:1:4: character U+0000 is not allowed in YAML; remove it"),
    "a bell in the second line": ("a: 1\nb: \a\n", "rota.yaml:2:4: character U+0007 is not allowed in YAML; remove it"),
    "a placeholder without quotes": (
        "a: {{ params.x }}\n",
        "rota.yaml:1:5: a: a map or list is in the place of a key; put a value that starts with `{` in quotes",
    ),
    "a list as key": (
        "? [a]\n: b\n",
        "rota.yaml:1:3: a map or list is in the place of a key; put a value that starts with `{` in quotes",
    ),
}

FLAWED = {
    "a duplicate key": ("a: 1\na: 2\n", "rota.yaml:2:1: a: appears twice, first in line 1; keep one of them"),
    "an anchor": (
        "a: &x 1\n",
        "rota.yaml:1:4: a: `&x` is a YAML anchor; repeat the value, or put it in quotes if it is a text",
    ),
    "a tag": (
        "a: !secret b\n",
        "rota.yaml:1:4: a: `!secret` is a YAML tag; remove it, or put the value in quotes if it is a text",
    ),
    "a tag on a map": (
        "a: !x {b: 1}\n",
        "rota.yaml:1:4: a: `!x` is a YAML tag; remove it, or put the value in quotes if it is a text",
    ),
    "a merge key": (
        "<<: {a: 1}\n",
        "rota.yaml:1:1: <<: merge keys are not supported; write the keys out, or put them into `defaults:`",
    ),
    "an escaped NUL": (
        'a: "\\0"\n',
        "rota.yaml:1:4: a: holds the character U+0000; programs cannot receive it; remove it",
    ),
    "a number of 400 digits": (
        f"a: {'9' * 400}\n",
        "rota.yaml:1:4: a: is too long for a number; put it in quotes",
    ),
    "an unquoted cron": (
        "jobs:\n  b:\n    cron: */5 * * * *\n",
        'rota.yaml:3:11: jobs.b.cron: `*` starts a YAML alias here; put the expression in quotes: cron: "*/5 * * * *"',
    ),
    "an unquoted cron with a comment": (
        "cron: * * * * *   # each minute\n",
        'rota.yaml:1:7: cron: `*` starts a YAML alias here; put the expression in quotes: cron: "* * * * *"',
    ),
    "an unquoted cron between braces": (
        "b: {cron: */5 * * * *, x: 1}\n",
        'rota.yaml:1:11: b.cron: `*` starts a YAML alias here; put the expression in quotes: cron: "*/5 * * * *"',
    ),
    "an unquoted cron in a list": (
        "cron:\n  - */5 * * * *\n",
        'rota.yaml:2:5: cron[0]: `*` starts a YAML alias here; put the expression in quotes: "*/5 * * * *"',
    ),
    "an unquoted @": (
        "cron: @daily\n",
        'rota.yaml:1:7: cron: `@` cannot start a value in YAML; put it in quotes: cron: "@daily"',
    ),
    "an unquoted @ between braces": (
        "b: {cron: @daily, x: 1}\n",
        'rota.yaml:1:11: b.cron: `@` cannot start a value in YAML; put it in quotes: cron: "@daily"',
    ),
    "a backquote": ("a: `x`\n", 'rota.yaml:1:4: a: ``` cannot start a value in YAML; put it in quotes: a: "`x`"'),
    "a true alias": (
        "a: *base\n",
        'rota.yaml:1:4: a: `*` starts a YAML alias here; put the expression in quotes: a: "*base"',
    ),
}


@pytest.mark.parametrize(("text", "line"), REFUSED.values(), ids=REFUSED)
def test_a_text_that_cannot_be_read_is_refused_with_its_place(text, line):
    with pytest.raises(FileProblems) as caught:
        parse(text.encode())
    assert [str(problem) for problem in caught.value.problems] == [line]


@pytest.mark.parametrize(("text", "line"), FLAWED.values(), ids=FLAWED)
def test_yaml_that_rota_does_not_take_is_told_and_the_rest_is_read_on(text, line):
    document = parse((text + "rest: here\n").encode())
    assert [str(problem) for problem in document.problems] == [line]
    assert document.data["rest"] == "here"


def test_all_flaws_of_a_file_are_told_at_once_in_file_order():
    text = "a: &x 1\nb: @daily\nc: * * * * *\nd: !t 1\nd: 2\n"
    codes = [(problem.line, problem.code) for problem in parse(text.encode()).problems]
    assert codes == [
        (1, "yaml_anchor"),
        (2, "yaml_quotes"),
        (3, "yaml_alias"),
        (4, "yaml_tag"),
        (5, "yaml_duplicate_key"),
    ]


def test_flaws_before_the_end_of_reading_are_told_too():
    with pytest.raises(FileProblems) as caught:
        parse(b"a: &x 1\nb: c: d\n")
    assert [problem.code for problem in caught.value.problems] == ["yaml_anchor", "yaml_syntax"]


def test_a_file_over_a_megabyte_is_refused():
    with pytest.raises(FileProblems) as caught:
        parse(b"a: " + b"x" * 1_000_000)
    assert str(caught.value.problems[0]) == (
        "rota.yaml: is larger than 1 MB; split the work or move long texts into files of their own"
    )


def test_bytes_that_are_not_utf8_are_refused_with_their_place():
    with pytest.raises(FileProblems) as caught:
        parse(b"a: 1\nb: caf\xe9\n")
    assert str(caught.value.problems[0]) == "rota.yaml:2:7: byte 0xe9 is not UTF-8; save the file as UTF-8"


def test_a_file_that_is_missing_is_a_problem_not_a_crash(tmp_path):
    with pytest.raises(FileProblems) as caught:
        load(tmp_path / "rota.yaml")
    assert "cannot be read: No such file or directory" in str(caught.value.problems[0])


def test_a_byte_order_mark_and_windows_line_ends_are_fine():
    document = parse("\ufefftimezone: UTC\r\njobs:\r\n  a: {x: 1}\r\n".encode())
    assert document.data == {"timezone": "UTC", "jobs": {"a": {"x": 1}}}
    assert document.position(("jobs", "a")) == (3, 3)


def nested(depth: int) -> bytes:
    return b"a: " + b"[" * (depth - 1) + b"]" * (depth - 1)


def test_twenty_levels_are_read_and_the_twenty_first_is_refused():
    parse(nested(20))
    with pytest.raises(FileProblems) as caught:
        parse(nested(21))
    assert str(caught.value.problems[0]).endswith("is nested more than 20 deep; flatten it")


@pytest.mark.parametrize("text", ["[" * 999_999, "{" * 999_999, "- " * 499_999, "a: " + "[" * 999_000, "&a " * 300_000])
def test_a_depth_bomb_is_refused(text):
    with pytest.raises(FileProblems):
        parse(text.encode())


def test_positions_are_those_of_keys_and_items():
    document = parse(b"jobs:\n  a:\n    cron: x\n    conditions:\n      - one\n      - {command: [b]}\n")
    assert document.position(("jobs", "a", "cron")) == (3, 5)
    assert document.position(("jobs", "a", "conditions", 1)) == (6, 9)
    assert document.position(("jobs", "a", "conditions", 1, "command")) == (6, 10)


def test_the_position_of_what_is_not_there_is_that_of_what_would_hold_it():
    document = parse(b"jobs:\n  a:\n    cron: x\n")
    assert document.position(("jobs", "a", "command", 3)) == (2, 3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-11-15", "2026-11-15"),
        ("2026-11-15T08:30:00Z", "2026-11-15T08:30:00Z"),
        ("12:30", "12:30"),
        ("yes", "yes"),
        ("off", "off"),
        ("NO", "NO"),
        ("true", True),
        ("~", None),
        ("", None),
        ("12", 12),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("-.inf", float("-inf")),
        ("1_000", "1_000"),
        ("5m", "5m"),
    ],
)
def test_plain_values_follow_yaml_1_2_and_dates_stay_texts(text, value):
    assert plain_value(text) == value
    assert type(plain_value(text)) is type(value) or isinstance(plain_value(text), type(value))


@pytest.mark.parametrize("text", ["0755", "1.10", "1e3", "+5"])
def test_a_number_remembers_how_it_was_written(text):
    assert plain_value(text).written == text


def test_paths_are_written_with_dots_and_brackets():
    assert write_path(("jobs", "a", "conditions", 0, "command")) == "jobs.a.conditions[0].command"


def project(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rota.yaml").write_text("jobs: {}\n")
    return folder


def test_the_nearest_project_upwards_is_found(tmp_path):
    outer = project(tmp_path / "a")
    inner = project(tmp_path / "a" / "b")
    (inner / "c" / "d").mkdir(parents=True)
    assert find_project(None, {}, inner / "c" / "d") == inner
    assert find_project(None, {}, outer) == outer


def test_the_flag_wins_over_the_environment_which_wins_over_the_folder(tmp_path):
    flag, environment, here = (project(tmp_path / name) for name in ("flag", "environment", "here"))
    assert find_project(str(flag), {"ROTA_DIR": str(environment)}, here) == flag
    assert find_project(None, {"ROTA_DIR": str(environment)}, here) == environment


def test_the_flag_may_name_the_file_itself_and_be_relative(tmp_path):
    folder = project(tmp_path / "a")
    assert find_project("a/rota.yaml", {}, tmp_path) == folder


def test_a_missing_project_says_where_it_looked_and_what_to_do(tmp_path):
    with pytest.raises(ProjectMissing) as caught:
        find_project(None, {}, tmp_path)
    assert f"there is no rota.yaml in {tmp_path} or above it" in str(caught.value)
    assert "rota init" in str(caught.value)
    with pytest.raises(ProjectMissing) as caught:
        find_project("nowhere", {}, tmp_path)
    assert str(caught.value).startswith(f"there is no rota.yaml in {tmp_path / 'nowhere'} (--dir)")


YAML_PIECES = st.sampled_from(
    [
        "a",
        "jobs",
        ":",
        ": ",
        " ",
        "\n",
        "\n  ",
        "- ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "*",
        "&",
        "!",
        "@",
        "`",
        "%",
        "|",
        ">",
        '"',
        "'",
        "#",
        "?",
        "<<",
        "---",
        "...",
        "\t",
        "\r\n",
        "~",
        "1",
        "0x",
        "é",
        "\u2028",
        "\\",
        "cron",
        "%YAML 1.1",
        "*/5",
    ]
)


def outcome(content: bytes) -> object:
    """Return the data of a document, or the problems that it has instead."""
    try:
        return parse(content).data
    except FileProblems as error:
        return error.problems


@settings(max_examples=400)
@given(st.one_of(st.lists(YAML_PIECES, max_size=40).map("".join), st.text(max_size=80)))
def test_any_text_is_read_or_refused_with_problems(text):
    found = outcome(text.encode(errors="surrogatepass"))
    assert isinstance(found, dict) or (found and all(problem.code in PROBLEM_CODES for problem in found))


@settings(max_examples=200)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused_with_problems(content):
    found = outcome(content)
    assert isinstance(found, dict) or (found and all(problem.code in PROBLEM_CODES for problem in found))


SIMPLE_PIECES = st.sampled_from(
    [
        *(
            "a: b",
            "  c: d",
            "- x",
            "  - y",
            "# c",
            " # c",
            "key:",
            "  k2:",
            "    k3: 1",
            "[a, b]",
            "{a: b}",
            "'q'",
            '"q"',
        ),
        *(
            "t: |",
            "  t: | # x",
            "|",
            "---",
            "...",
            "0x10",
            "1.10",
            "null",
            "a:b",
            "http://x/y",
            ": ",
            "-5",
            "- -",
            "? a",
            "\t",
            "a b",
            "x #y",
        ),
        *("x#y", "{a: {b: [1, 2]}}", "[ ]", "{}", "[a,]", "{a:}", "  b: 'x' # z\n", "\n", "\n", "\n  ", "\n    ", " "),
    ]
)


@settings(max_examples=400)
@given(st.one_of(st.lists(SIMPLE_PIECES, max_size=12).map("".join), st.text("a: -\n#[]{},'\"1", max_size=12)))
def test_the_fast_reader_of_simple_texts_agrees_with_the_parser_of_yaml(text):
    simple = read_simple(text)
    if simple is not None:
        composed = compose(text)
        assert (simple.data, simple.keys) == (composed.data or {}, composed.keys)
        assert composed.problems == []


def test_the_fast_reader_reads_the_usual_forms():
    text = 'a:  # note\n  b: {c: [1, "x y"], d: no}\n  e:\n  - f g\n  - 0755\n  t: |\n    one\n\n      two: x\n\nh:\n'
    simple = read_simple(text)
    assert simple is not None
    assert simple.data == {
        "a": {"b": {"c": [1, "x y"], "d": "no"}, "e": ["f g", 755], "t": "one\n\n  two: x\n"},
        "h": None,
    }
    assert simple.keys[("a", "b", "c", 1)] == (2, 14)


def test_no_pattern_of_the_reader_repeats_possessively_what_can_backtrack() -> None:
    """`(?: +x|y)*+` keeps spaces that it should give back in Python before 3.11.5, such as that of Debian 12."""
    patterns = [value.pattern for value in vars(yaml).values() if isinstance(value, re.Pattern)]
    assert len(patterns) > 10
    assert [pattern for pattern in patterns if re.search(r"\)[*+?]\+|\)\{[0-9,]+\}\+|\(\?>", pattern)] == []
