"""A job put into a file: only lines are inserted, and the file then says exactly one thing more."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.declare.export import insert_job
from rota.declare.yaml import parse
from rota.model.errors import FileProblems, InvalidValue, NameTaken

KEYS = {"cron": "0 8 * * *", "command": ["./digest.sh", "a b"]}

FILES = {
    "one job": "timezone: UTC   # mine\n\njobs:\n  a:\n    command: [x]\n",
    "a job on one line": "jobs:\n  a: {command: [x]}\n",
    "four spaces": "jobs:\n    a:\n        command: [x]\n\nretention: {runs: 30d}\n",
    "a comment at the end": "jobs:\n  a:\n    command: [x]   # why\n    # about a\n  # about nothing\n# the end\n",
    "sections after": "jobs:\n  a:\n    command: [x]\n\n\n# the scheduler\nscheduler:\n  tick: 5s\n",
    "a text of lines": "jobs:\n  a:\n    shell: |\n      one\n\n      # two\n\nscheduler: {tick: 5s}\n",
    "a text that keeps its end": "jobs:\n  a:\n    shell: |+\n      one\n\n\nscheduler: {tick: 5s}\n",
    "no line end": "jobs:\n  a:\n    command: [x]",
    "windows": "timezone: UTC\r\njobs:\r\n  a:\r\n    command: [x]\r\nscheduler:\r\n  tick: 5s\r\n",
    "a mark at the start": "\ufeffjobs:\n  a:\n    command: [x]\n",
    "no jobs": "timezone: UTC\n",
    "no jobs, no line end": "timezone: UTC",
    "empty jobs": "jobs:\n\nscheduler: {tick: 5s}\n",
    "an empty map": "jobs: {}   # none yet\nscheduler: {tick: 5s}\n",
    "a list over lines": "jobs:\n  a:\n    command:\n    - x\n    - y\nscheduler: {tick: 5s}\n",
    "a text over lines": 'jobs:\n  a:\n    shell: "one\n      two"\n    cwd: a\n      b\nscheduler: {tick: 5s}\n',
    "quoted names": "jobs:\n  \"a\":\n    command: [x]\n  'b':\n    command: [y]\n",
}


@pytest.mark.parametrize("name", FILES)
def test_the_file_says_one_thing_more(name: str) -> None:
    before = parse(FILES[name].encode()).data
    after = parse(insert_job(FILES[name].encode(), "digest", KEYS).content).data
    assert after == {**before, "jobs": {**(before.get("jobs") or {}), "digest": KEYS}}
    assert list(after["jobs"])[-1] == "digest"


@pytest.mark.parametrize("name", [name for name in FILES if name != "an empty map"])
def test_every_other_byte_stays(name: str) -> None:
    content = FILES[name].encode()
    found = insert_job(content, "digest", KEYS)
    at = found.content.index(found.added.encode())
    rest = found.content[:at] + found.content[at + len(found.added.encode()) :]
    assert rest in (content, content + b"\n")
    assert found.content[:at].count(b"\n") + 1 == found.line


def test_the_new_lines_are_written_like_their_neighbours() -> None:
    assert insert_job(FILES["four spaces"].encode(), "digest", KEYS).added.startswith("    digest:\n      cron: ")
    assert "\r\n" in insert_job(FILES["windows"].encode(), "digest", KEYS).added
    spaced = b"jobs:\n  a:\n    command: [x]\n\n  b:\n    command: [y]\n"
    assert insert_job(spaced, "digest", KEYS).added.startswith("\n  digest:\n")


@pytest.mark.parametrize(
    "text", ["jobs: {a: {command: [x]}}\n", "jobs: {\n  a: {command: [x]}\n}\n", "{timezone: UTC}\n"]
)
def test_a_file_in_braces_is_left_alone_and_the_lines_are_shown(text: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        insert_job(text.encode(), "digest", KEYS)
    assert '  digest:\n    cron: "0 8 * * *"' in caught.value.hint


def test_a_name_that_is_there_is_refused() -> None:
    with pytest.raises(NameTaken):
        insert_job(FILES["one job"].encode(), "a", KEYS)


def test_a_broken_file_is_refused() -> None:
    with pytest.raises(FileProblems):
        insert_job(b"jobs:\n  a: {cron: *}\n", "digest", KEYS)


SCALARS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)


@given(
    st.sampled_from(sorted(FILES)),
    st.dictionaries(
        SCALARS,
        SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(SCALARS, SCALARS, max_size=2),
        min_size=1,
        max_size=3,
    ),
)
def test_whatever_is_added_reads_back(name: str, keys: dict[str, Any]) -> None:
    assert parse(insert_job(FILES[name].encode(), "digest", keys).content).data["jobs"]["digest"] == keys
