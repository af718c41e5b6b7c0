"""Records to JSON and back: whatever a record holds comes back equal, through real JSON text."""

import inspect
import json
import typing
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, field

from rota.model import records, spec
from rota.model.serialize import decode, encode, encode_changed, is_record
from rota.model.spec import EnvValue, JobSpec, Kind, Schedule, Work

RECORDS = [
    kind
    for module in (spec, records)
    for _, kind in inspect.getmembers(module, is_record)
    if kind.__module__ == module.__name__
]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MILLISECOND = timedelta(milliseconds=1)
LEAVES = {
    datetime: st.integers(0, 253_402_300_000_000).map(lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + ms * MILLISECOND),
    timedelta: st.integers(-(10**12), 10**12).map(lambda ms: ms * MILLISECOND),
    Mapping[str, Any]: st.dictionaries(st.text(max_size=5), json_values, max_size=3),
    str: st.text(max_size=8),
    float: st.floats(allow_nan=False, allow_infinity=False),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    if hint in LEAVES:
        return LEAVES[hint]
    if is_record(hint):
        hints = typing.get_type_hints(hint)
        return st.builds(hint, **{name: values_of(hints[name]) for name in hint.__struct_fields__})
    args = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return st.lists(values_of(args[0]), max_size=3).map(tuple)
    if args:
        return st.one_of(*(values_of(arg) for arg in args))
    return st.from_type(hint)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_record_comes_back_equal(record):
    @settings(max_examples=15)
    @given(values_of(record))
    def round_trip(value):
        assert decode(record, json.loads(json.dumps(encode(value)))) == value

    round_trip()


MINIMAL = JobSpec("backup", Work(Kind.COMMAND))


def test_keys_that_are_not_known_are_ignored():
    written = encode(MINIMAL)
    written["later"] = 1
    written["work"]["later"] = {"a": 1}
    assert decode(JobSpec, written) == MINIMAL


def test_keys_that_are_missing_have_their_default():
    assert decode(JobSpec, {"name": "backup", "work": {"kind": "command"}}) == MINIMAL


def test_a_key_without_default_must_be_there():
    with pytest.raises(TypeError, match="work"):
        decode(JobSpec, {"name": "backup"})


def test_a_word_that_is_not_in_the_list_is_refused():
    with pytest.raises(ValueError, match="dance"):
        decode(Work, {"kind": "dance"})


def test_instants_and_durations_are_whole_milliseconds():
    at = datetime(2026, 11, 15, 20, 41, 7, 250_999, tzinfo=UTC)
    written = encode(Schedule(at=at, interval=timedelta(seconds=1.5)))
    assert (written["at"], written["interval"]) == (1_794_775_267_250, 1_500)


def test_what_is_written_holds_plain_json_types_alone():
    def kinds(value):
        yield type(value)
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for item in inner:
            yield from kinds(item)

    work = Work(Kind.SHELL, shell="x", env=(EnvValue("A", "b"),), params=MappingProxyType({"a": (1, Kind.SHELL)}))
    written = encode(JobSpec("backup", work, labels=("a",)))
    assert set(kinds(written)) <= {dict, list, str, int, float, bool, type(None)}
    assert written["work"]["params"] == {"a": [1, "shell"]}


class Text(str):
    """A text of somebody else's kind, such as a YAML reader makes."""


def test_kinds_of_text_and_number_pass_as_what_they_are():
    written = encode({"text": Text("a"), "flag": True})
    assert json.dumps(written) == '{"text": "a", "flag": true}'


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", 1j], ids=["object", "set", "bytes", "complex"])
def test_what_has_no_json_form_is_refused(value):
    with pytest.raises(TypeError, match="has no place in a record"):
        encode({"params": value})


def test_no_type_is_ever_taken_from_stored_data():
    stored = {"name": "backup", "work": {"kind": "command", "params": {"__class__": "os.system", "py/object": "x"}}}
    assert decode(JobSpec, stored).work.params == {"__class__": "os.system", "py/object": "x"}


class Inner(Struct, frozen=True):
    """A record of an earlier version."""

    wait: timedelta = timedelta(seconds=1)


class Grown(Struct, frozen=True):
    """The same record of a later version."""

    wait: timedelta = timedelta(seconds=1)
    names: tuple[str, ...] = field(default_factory=tuple)
    limit: int | None = None


class Outer(Struct, frozen=True):
    """A record that holds others."""

    name: str
    inner: Inner | Grown = Inner()
    all: tuple[Inner | Grown, ...] = ()


def test_a_field_that_a_later_version_adds_does_not_change_what_a_record_sets() -> None:
    wait = timedelta(seconds=2)
    earlier, later = (Outer("a", kind(wait), (kind(), kind(wait))) for kind in (Inner, Grown))
    assert (
        encode_changed(earlier)
        == encode_changed(later)
        == {"name": "a", "inner": {"wait": 2000}, "all": [{}, {"wait": 2000}]}
    )
    assert encode_changed(Outer("a", Grown(wait, limit=0))) != encode_changed(Outer("a", Grown(wait)))
