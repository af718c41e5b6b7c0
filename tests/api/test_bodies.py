"""Bodies: whatever comes, the answer is a refusal with a code, never a failure of the server."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.http.errors import JsonInvalid
from rota.http.security import read_json
from tests.api.conftest import Api

TRIGGER = "/api/v1/jobs/hello/trigger"


@pytest.mark.parametrize(
    "body",
    [
        b'{"params": NaN}',
        b'{"params": Infinity}',
        b'{"params": {"who": 1e999}}',
        b'{"params": {"who": ' + b"9" * 5000 + b"}}",
        b"[" * 10_000,
        b'{"a":' * 60 + b"1" + b"}" * 60,
        b'{"params": {}, "params": {}}',
        b'{"params": {"who": "\\ud800"}}',
        b'{"params": {"who": [["\\udfff"]]}}',
        b'\xef\xbb\xbf{"params": {}}',
        '{"params": {}}'.encode("utf-16"),
        b'{"params": {"who": "\xff"}}',
        b"{",
        b"{} {}",
        b"nul",
    ],
)
def test_what_is_no_json_in_the_strict_sense_is_refused(api: Api, body: bytes) -> None:
    """#32 to #35: never a failure of the server."""
    assert api.refused("POST", TRIGGER, body) == (400, "json_invalid")
    assert api.get("/runs")["items"] == []


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"1", b"true"])
def test_json_of_another_kind_is_refused(api: Api, body: bytes) -> None:
    assert api.refused("POST", TRIGGER, body) == (422, "request_invalid")


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/json2"],
)
def test_a_body_of_another_type_is_refused(api: Api, kind: str) -> None:
    """T-03, #37: a form of another page can send these without being asked."""
    assert api.refused("POST", TRIGGER, b'{"params": {}}', Content_Type=kind) == (415, "media_type")


def test_a_compressed_body_is_refused(api: Api) -> None:
    assert api.refused("POST", TRIGGER, b"{}", Content_Encoding="gzip") == (415, "media_type")


def test_a_body_of_more_than_a_megabyte_is_refused(api: Api) -> None:
    exact = b'{"params": {}}'.ljust(1_000_000)
    assert api.call("POST", TRIGGER, exact).status_code == 202
    assert api.refused("POST", TRIGGER, exact + b" ") == (413, "body_too_large")


def test_params_of_more_than_64_kilobytes_are_refused(api: Api) -> None:
    """#39."""
    assert api.refused("POST", TRIGGER, {"params": {"who": "x" * 66_000}}) == (422, "invalid_value")
    assert api.refused("POST", TRIGGER, {"params": [1]}) == (422, "request_invalid")
    assert api.refused("POST", TRIGGER, {"params": {"__class__": 1}}) == (422, "invalid_value")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_json_is_read_as_it_was_written(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_anything_else_is_refused_as_such(body: bytes) -> None:
    try:
        value = read_json(body)
    except JsonInvalid:
        return
    assert value == json.loads(body)
