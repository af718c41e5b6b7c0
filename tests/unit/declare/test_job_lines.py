"""The lines of one job in a file: what belongs to it, and what a change of it may touch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.declare.job_lines import find_lines, replace_lines
from rota.declare.yaml import parse
from rota.model.errors import FileProblems, InvalidValue

FILE = b"""# the garden
timezone: UTC   # of all

jobs:
  # the first
  water:            # each morning
    cron: "0 6 * * *"
    shell: |
      # not a comment
      water

      again
    # the end of water

  # the second
  mow: {command: [mow], cron: "0 9 * * sat"}

groups:
  all: {members: [water, mow]}  # both
"""


def edit(content: bytes, text: str, name: str = "water", section: str = "jobs") -> bytes:
    path = (section, name)
    return replace_lines(content, find_lines(content, path, file="rota.yaml"), text, file="rota.yaml")


def test_a_job_has_its_own_lines_and_comments_without_those_of_the_next() -> None:
    found = find_lines(FILE, ("jobs", "water"), file="rota.yaml")
    assert (found.line, found.margin) == (6, 2)
    assert found.text.startswith('water:            # each morning\n  cron: "0 6 * * *"\n')
    assert found.text.endswith("    again\n  # the end of water\n")
    assert find_lines(FILE, ("jobs", "mow"), file="rota.yaml").text == 'mow: {command: [mow], cron: "0 9 * * sat"}\n'
    assert find_lines(FILE, ("groups", "all"), file="rota.yaml").text == "all: {members: [water, mow]}  # both\n"


@pytest.mark.parametrize("path", [("jobs", "water"), ("jobs", "mow"), ("groups", "all")])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
@pytest.mark.parametrize("tail", [b"", b"\n", b"\n# the end\n"])
def test_unchanged_lines_leave_every_byte(path: tuple[str, str], ends: bytes, tail: bytes) -> None:
    content = (FILE.rstrip(b"\n") + tail).replace(b"\n", ends)
    lines = find_lines(content, path, file="rota.yaml")
    assert replace_lines(content, lines, lines.text, file="rota.yaml") == content
    assert replace_lines(content, lines, lines.text.replace("\n", "\r\n"), file="rota.yaml") == content


def test_a_change_keeps_all_other_lines_and_the_line_ends() -> None:
    new = edit(FILE.replace(b"\n", b"\r\n"), "water:  # rarely\n  cron: '0 7 * * *'\n  command: [water]\n")
    assert b"  water:  # rarely\r\n    cron: '0 7 * * *'\r\n    command: [water]\r\n\r\n  # the second\r\n" in new
    assert new.startswith(b"# the garden\r\ntimezone: UTC   # of all\r\n\r\njobs:\r\n  # the first\r\n")
    assert new.replace(b"\r\n", b"").count(b"\n") == 0


@pytest.mark.parametrize(
    "text",
    [
        "rain: {command: [rain]}\n",
        "water: {command: [water]}\nrain: {command: [rain]}\n",
        "water: {command: [water]}\n---\nx: 1\n",
        "- water\n",
        "",
        "# nothing\n",
        "water: [\n",
        "water: {command: *x}\n",
        "water: {command: [a]}\nwater: {command: [b]}\n",
    ],
)
def test_lines_that_are_not_this_job_alone_are_refused(text: str) -> None:
    with pytest.raises((InvalidValue, FileProblems)):
        edit(FILE, text)


def test_a_problem_has_the_line_of_the_file() -> None:
    with pytest.raises(FileProblems) as refused:
        edit(FILE, "water:\n  cron: &a x\n")
    assert [problem.line for problem in refused.value.problems] == [7]


def test_a_job_that_shares_its_line_is_refused() -> None:
    with pytest.raises(InvalidValue, match="shares its line"):
        find_lines(b"jobs: {water: {command: [a]}, mow: {command: [b]}}\n", ("jobs", "water"), file="rota.yaml")


def test_a_job_that_is_gone_is_refused() -> None:
    with pytest.raises(InvalidValue, match="no longer declares"):
        find_lines(FILE, ("jobs", "rake"), file="rota.yaml")


@given(st.text(alphabet="water: {}[]#|>-'\"\n\t &*!x", max_size=60))
def test_no_text_changes_another_part_of_the_file(text: str) -> None:
    before = parse(FILE).data
    try:
        new = edit(FILE, f"water:{text}")
    except (InvalidValue, FileProblems):
        return
    after = parse(new).data
    assert {**after, "jobs": {**after["jobs"], "water": None}} == {**before, "jobs": {**before["jobs"], "water": None}}
    assert new.endswith(FILE[FILE.index(b"  # the second") :])
