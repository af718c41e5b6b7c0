"""The result file of a command: what is accepted, and what is said about the rest."""

import json
import os

import pytest

from rota.model.budgets import Usage
from rota.model.errors import InvalidValue
from rota.runners.result import Result, read_result, read_usage


def read(tmp_path, content):
    path = tmp_path / "result.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return read_result(path)


def test_no_file_is_an_empty_result(tmp_path):
    assert read_result(tmp_path / "absent") == Result()


def test_a_whole_result_is_read(tmp_path):
    found = read(tmp_path, {"summary": "3 mails", "state": {"last": [1]}, "files": ["a.txt"]})

    assert found == Result(summary="3 mails", state={"last": [1]}, files=("a.txt",))


def test_r21_a_long_summary_is_cut_on_a_character_and_marked(tmp_path):
    found = read(tmp_path, {"summary": "é" * 1001})

    assert found.summary == "é" * 999 + "…"


def test_a_summary_that_no_database_takes_is_made_storable(tmp_path):
    assert read(tmp_path, rb'{"summary": "a\u0000b\ud800c"}').summary == "ab?c"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1], "the result is a list, not an object"),
        ("x", "the result is a text, not an object"),
        (None, "the result is null, not an object"),
        ({"sumary": "x"}, "unknown key 'sumary'"),
        ({"summary": 3}, "`summary` of the result is a number, not a text"),
        ({"state": [1]}, "`state` is a list, not an object"),
        ({"state": {"x": "y" * 17_000}}, "`state` is 17,008 bytes, the limit is 16,384"),
        ({"files": "a"}, "`files` of the result is not a list of texts"),
        ({"files": [1]}, "`files` of the result is not a list of texts"),
        ({"files": ["a"] * 101}, "101 entries, the limit is 100"),
        (
            {"usage": 3},
            "`usage` is not an object; its keys are requests, tokens_in, tokens_cached, tokens_out, usd, model",
        ),
        ({"usage": {"tokens": 3}}, "`usage` has an unknown key 'tokens'"),
        ({"usage": {"tokens_in": -1}}, "`tokens_in` of the usage is -1, not a whole number from 0 on"),
        ({"usage": {"requests": 1.5}}, "`requests` of the usage is 1.5, not a whole number"),
        ({"usage": {"requests": True}}, "`requests` of the usage is True, not a whole number"),
        ({"usage": {"usd": "1"}}, "`usd` of the usage is '1', not a number of dollars"),
        ({"usage": {"usd": -0.1}}, "`usd` of the usage is -0.1, not a number of dollars"),
        ({"usage": {"model": ""}}, "`model` of the usage is '', not the name of a model"),
        (b"{", "the result file is not JSON"),
        (b"\xff\xfe\xfd", "the result file is not JSON"),
        (b'{"state": {"x": NaN}}', "NaN is not JSON value"),
        (b"[" * 60_000, "nested too deeply"),
        (b'{"summary": "' + b"x" * 65_536 + b'"}', "larger than 64 KB"),
    ],
)
def test_a_wrong_result_is_refused_and_named(content, words, tmp_path):
    with pytest.raises(InvalidValue, match=words):
        read(tmp_path, content)


def test_a_pipe_under_the_results_name_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "result.json")

    with pytest.raises(InvalidValue, match="not a plain file"):
        read_result(tmp_path / "result.json")


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "result.json").symlink_to("/etc/passwd")

    with pytest.raises(InvalidValue, match="cannot be read"):
        read_result(tmp_path / "result.json")


def test_r19_a_usage_is_read_in_millionths_of_a_dollar(tmp_path):
    found = read(tmp_path, {"usage": {"tokens_in": 18204, "usd": 0.1, "model": "sonnet", "requests": None}})

    assert found.usage == Usage(tokens_in=18204, usd=100_000, model="sonnet")


def test_r19_a_failed_run_says_what_it_used_unless_its_file_is_wrong(tmp_path):
    read(tmp_path, {"usage": {"requests": 3}})
    assert read_usage(tmp_path / "result.json") == Usage(requests=3)

    with pytest.raises(InvalidValue):
        read(tmp_path, {"usage": {"requests": 3}, "other": 1})
    assert read_usage(tmp_path / "result.json") is None
    assert read_usage(tmp_path / "absent") is None
