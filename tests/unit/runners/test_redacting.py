"""Secrets in a stream of bytes: taken out, in one piece or in many (R-27)."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rota.runners.redacting import Redactor

TOKEN = "sk-4711-zebra"


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
