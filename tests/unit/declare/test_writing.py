"""Text that `import`, `export` and `add` write reads back as the values it was written from."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.declare.export import write_comment, write_entry, write_job, write_value
from rota.declare.yaml import parse

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40)
SHELLS = st.text("ab \n\t#:'\"{}[]|>&*!%@`-$\\", max_size=40)
SCALARS = (
    TEXTS | SHELLS | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=8
)


def read_back(lines: list[str]) -> Any:
    document = parse(("\n".join(lines) + "\n").encode())
    assert document.problems == ()
    return document.data


@given(VALUES)
@example("two\nlines\n")
@example("\n leading")
@example("trailing \n")
@example({"shell": "a: b #c\n- d"})
@example(["@reboot", "~", "yes", "0755", "1e3", ".5", "- x", "a:", "#", "%x", "*x"])
def test_every_value_reads_back_as_it_was(value: Any) -> None:
    assert read_back(["top:", *write_entry("key", value, depth=1)]) == {"top": {"key": value}}


@given(st.dictionaries(TEXTS, VALUES, max_size=3))
def test_every_map_reads_back_as_it_was(value: dict[str, Any]) -> None:
    assert read_back([f"key: {write_value(value)}"]) == {"key": value}


@given(TEXTS)
def test_no_comment_can_become_anything_else(text: str) -> None:
    assert read_back(["a: 1", write_comment(text, depth=1), "b: 2"]) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("pg_dump app | zstd -q", "pg_dump app | zstd -q"),
        ("15 2 * * *", '"15 2 * * *"'),
        ("never", "never"),
        ("true", '"true"'),
        (["sh", "-c", "a b"], '[sh, -c, "a b"]'),
        ({"secret": "TOKEN"}, "{secret: TOKEN}"),
        (False, "false"),
    ],
)
def test_values_look_as_a_person_writes_them(value: Any, written: str) -> None:
    assert write_entry("key", value) == [f"key: {written}"]


def test_a_job_stands_below_its_comments() -> None:
    lines = write_job("nightly", {"cron": "@daily", "shell": "one\ntwo\n"}, comments=["keep: this"])
    assert lines == ["  # keep: this", "  nightly:", '    cron: "@daily"', "    shell: |", "      one", "      two"]
