"""Secrets in a stream of bytes: taken out, in one piece or in many (R-27)."""

import base64
import json
import random
import re
import time
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.runners.redacting import Redactor

TOKEN = "sk-4711-zebra"
HARD = 'pa"ss\\wörd/+ <4711>'


def make_key(lines: int) -> str:
    noise = random.Random(4711)
    body = [base64.b64encode(noise.randbytes(48)).decode() for _ in range(lines - 2)]
    return "\n".join(["-----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----\n"])


KEY = make_key(51)


def shown(redactor: Redactor, *pieces: bytes) -> bytes:
    return b"".join([*(redactor.feed(piece) for piece in pieces), redactor.rest()])


def test_r27_a_secret_is_replaced_and_the_rest_stays() -> None:
    assert shown(Redactor([TOKEN]), b"a sk-4711-zebra b\nsk-4711-zebrask-4711-zebra\n") == b"a *** b\n******\n"


@given(st.lists(st.sampled_from([b"sk-4711-zebra", b"sk-", b"zebra", b"x\n", b"\xff"]), max_size=12), st.data())
def test_r27_it_does_not_matter_in_which_pieces_it_comes(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    cuts = [0, *places, len(whole)]
    pieces = [whole[begin:end] for begin, end in pairwise(cuts)]
    assert shown(Redactor([TOKEN]), *pieces) == whole.replace(TOKEN.encode(), b"***")


def test_r27_only_what_may_become_a_secret_waits() -> None:
    redactor = Redactor([TOKEN])
    assert redactor.feed(b"ready sk-47") == b"ready "
    assert redactor.feed(b"12\n") == b"sk-4712\n"


def test_r27_each_line_of_a_secret_counts_and_short_ones_do_not() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADAN\nab\n-----END KEY-----\n"
    assert shown(Redactor([key]), b"MIIEvQIBADAN\nab\n") == b"***\nab\n"
    assert shown(Redactor(["true", ""]), b"true\n") == b"true\n"


def test_r27_of_two_secrets_with_one_beginning_the_longer_is_replaced_whole() -> None:
    hidden = ["token-1", "token-1-long"]
    assert shown(Redactor(hidden), b"token-1-long token-1\n") == b"*** ***\n"
    assert shown(Redactor(hidden), b"token-1", b"-long token-1") == b"*** ***"


def wrapped(data: bytes, width: int) -> bytes:
    text = base64.b64encode(data)
    return b"\n".join(text[at : at + width] for at in range(0, len(text), width))


@pytest.mark.parametrize(
    "form",
    [
        HARD.encode(),
        json.dumps(HARD)[1:-1].encode(),
        json.dumps(HARD, ensure_ascii=False)[1:-1].encode(),
        json.dumps(json.dumps(HARD))[3:-3].encode(),
        json.dumps(HARD).replace("/", "\\/")[1:-1].encode(),
        repr(HARD)[1:-1].encode(),
        quote(HARD).encode(),
        quote(HARD, safe="").encode(),
        quote_plus(HARD).encode(),
        re.sub("%..", lambda found: found[0].lower(), quote(HARD, safe="")).encode(),
        base64.b64encode(HARD.encode()),
        base64.b64encode(HARD.encode()).rstrip(b"="),
        base64.urlsafe_b64encode(HARD.encode()),
    ],
)
def test_r27_a_secret_is_found_in_every_form_that_programs_give_it(form: bytes) -> None:
    assert shown(Redactor([HARD]), b"a " + form + b" b") == b"a *** b"


@pytest.mark.parametrize("before", [b"", b"a:", b"me:"])
def test_r27_base64_of_something_longer_shows_nothing_of_the_secret(before: bytes) -> None:
    text = base64.b64encode(before + TOKEN.encode() + b"\n")
    left = shown(Redactor([TOKEN]), text).split(b"***")
    assert len(left) == 2
    assert len(b"".join(left)) <= len(base64.b64encode(before)) + 4


@pytest.mark.parametrize("width", [64, 76])
def test_r27_a_key_as_base64_in_lines_is_replaced(width: int) -> None:
    left = shown(Redactor([KEY]), wrapped(KEY.encode(), width))
    assert set(left) == set(b"*\n")


def test_r27_what_is_long_is_replaced_once_in_whatever_pieces_it_comes() -> None:
    text = b"a " + base64.b64encode(KEY.strip().encode()) + b" b"
    for size in (1, 7, 64, 1000, len(text)):
        assert shown(Redactor([KEY]), *(text[at : at + size] for at in range(0, len(text), size))) == b"a *** b"


def test_r27_secrets_that_follow_each_other_without_an_end_are_not_held_without_an_end() -> None:
    redactor = Redactor(["ababababab"])
    pieces = [redactor.feed(b"ab" * 5_000) for _ in range(30)]
    assert b"***" in b"".join(pieces)
    assert set(b"".join([*pieces, redactor.rest()])) == set(b"*")


SECRETS = [
    "abcabcab",
    "bcabcc-long-enough-to-be-cut" * 4,
    *(f"{number:07}xyz" for number in range(40)),
    "\n".join("aabbab"),
]  # the last has short lines alone


@given(st.lists(st.sampled_from([*SECRETS, "ab", "c", "xyz", "0000001", "bcabcc-long"]), max_size=10), st.data())
def test_r27_of_many_secrets_each_is_found_at_every_place_and_nothing_else(
    parts: list[str], data: st.DataObject
) -> None:
    text = "".join(parts).encode()
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[begin:end] for begin, end in pairwise([0, *places, len(text)])]
    hidden = [False] * len(text)
    for secret in filter(None, (one.encode() for one in SECRETS if "\n" not in one)):
        for at in range(len(text) - len(secret) + 1):
            if text.startswith(secret, at):
                hidden[at : at + len(secret)] = [True] * len(secret)
    left = bytes(byte for byte, gone in zip(text, hidden, strict=True) if not gone)
    assert shown(Redactor(SECRETS), *pieces).replace(b"***", b"") == left


def test_f15_the_cost_does_not_grow_with_the_lines_of_a_secret() -> None:
    """A search for each line at each byte took two seconds here."""
    text = base64.b64encode(random.Random(1).randbytes(3_000_000))
    redactor = Redactor([make_key(200)])
    began = time.process_time()
    assert shown(redactor, *(text[at : at + 65_536] for at in range(0, len(text), 65_536))) == text
    assert time.process_time() - began < 1


def test_r27_texts_and_json_values_are_redacted_too() -> None:
    redactor = Redactor([HARD])
    assert redactor.redact(f"KeyError: {HARD!r}") == "KeyError: '***'"
    assert redactor.redact_all({"a": [HARD, 1, None], HARD: True}) == {"a": ["***", 1, None], "***": True}
