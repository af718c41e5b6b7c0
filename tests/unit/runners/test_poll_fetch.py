"""The poll's own work against a server on this machine: what is data, what is a failure, and what each of them says."""

import asyncio
import json
import math
import socket

import pytest
from tests.stub_server import Reply, StubServer, reply_json, serving
from tests.unit.runners.test_function_runner import Harness, context_in

from rota.model.budgets import Usage
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.runners.functions import DATA_LIMIT, FunctionCall, fetcher, judge_data, read_poll


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server():
    with serving() as found:
        yield found


def run(function, folder, *, timeout=None, context=None) -> Outcome:
    async def once():
        harness = Harness(1)
        context_or_new = context or context_in(folder)
        try:
            harness.runner.start(FunctionCall("1", function, context_or_new, timeout=timeout, read=read_poll))
            return await harness.outcome()
        finally:
            harness.runner.close()

    return asyncio.run(once())


def poll(server: StubServer, folder, reply: Reply, **options) -> Outcome:
    server.reply = reply
    return run(fetcher(f"{server.url}/poll", options.pop("headers", {})), folder, **options)


def said(outcome: Outcome, server: StubServer) -> str:
    """Return the error without the request that every error names."""
    head = f"GET {server.url}/poll: "
    assert outcome.status is Status.FAILED
    assert (outcome.error or "").startswith(head)
    return (outcome.error or "").removeprefix(head)


def test_a_json_object_is_the_data(server, tmp_path):
    """R-16."""
    outcome = poll(server, tmp_path, reply_json({"queue_counts": {"provisional": 2}, "name": "Zoë"}))
    assert (outcome.status, outcome.summary) == (Status.COMPLETED, "200 OK")
    assert outcome.poll == {"queue_counts": {"provisional": 2}, "name": "Zoë"}
    assert [path for path, _ in server.asked] == ["/poll"]


def test_an_empty_object_is_data_too(server, tmp_path):
    assert poll(server, tmp_path, Reply(b"{}")).poll == {}


def test_headers_are_sent(server, tmp_path):
    poll(server, tmp_path, Reply(), headers={"Authorization": "Bearer abc", "X-Empty": ""})
    _, headers = server.asked[0]
    assert (headers["Authorization"], headers["X-Empty"]) == ("Bearer abc", "")


@pytest.mark.parametrize("status", [304, 400, 401, 404, 500])
def test_another_answer_than_success_is_a_failure(server, tmp_path, status):
    """R-16. Nothing is asked conditionally, so 304 is not one of the answers that a server may give."""
    outcome = poll(server, tmp_path, Reply(b"", status, {"Retry-After": "60"}))
    assert outcome.reason is Reason.EXCEPTION
    assert said(outcome, server).startswith(f"{status} ")
    assert outcome.suggested is None


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_busy_says_when_to_come_again(server, tmp_path, status):
    """R-16: the server's wish."""
    outcome = poll(server, tmp_path, Reply(b"", status, {"Retry-After": "120"}))
    assert (outcome.status, outcome.suggested) == (Status.FAILED, 120)


def test_a_server_that_is_busy_may_say_it_as_a_date(server, tmp_path):
    """R-16: the server's wish, by its own clock."""
    headers = {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}
    suggested = poll(server, tmp_path, Reply(b"", 503, headers)).suggested
    assert suggested is not None
    assert suggested > 365 * 86400


@pytest.mark.parametrize("wish", ["-5", "1.5", "soon", ""])
def test_a_wish_that_is_neither_seconds_nor_a_date_is_none(server, tmp_path, wish):
    assert poll(server, tmp_path, Reply(b"", 503, {"Retry-After": wish})).suggested is None


def test_a_redirect_is_not_followed_and_says_where_it_leads(server, tmp_path):
    outcome = poll(server, tmp_path, Reply(b"", 302, {"Location": f"{server.url}/elsewhere"}))
    assert said(outcome, server) == f"302 Found: redirects to {server.url}/elsewhere, which is not followed"
    assert len(server.asked) == 1


@pytest.mark.parametrize("body", [b"<html>", b"", b"\xff\xfe{", b'{"a": 1', b"[" * 100_000])
def test_an_answer_that_is_no_json_is_told(server, tmp_path, body):
    outcome = poll(server, tmp_path, Reply(body))
    assert outcome.reason is Reason.RESULT_INVALID
    assert "200 OK, but its answer is not JSON: " in said(outcome, server)


@pytest.mark.parametrize(("value", "kind"), [([1], "list"), ("x", "str"), (3, "int"), (None, "NoneType")])
def test_another_value_than_an_object_is_refused(server, tmp_path, value, kind):
    outcome = poll(server, tmp_path, reply_json(value))
    assert (outcome.reason, outcome.error) == (Reason.RESULT_INVALID, f"a poll must return a JSON object, not {kind}")


def test_an_answer_that_is_too_large_is_refused(server, tmp_path):
    outcome = poll(server, tmp_path, Reply(b'{"a": "' + b"x" * DATA_LIMIT + b'"}'))
    assert outcome.reason is Reason.RESULT_INVALID
    assert "larger than 1,000,000 bytes" in said(outcome, server)


def test_a_server_that_does_not_answer_is_given_up_after_the_timeout(server, tmp_path):
    """The timeout is the whole poll's and the scheduler's: the client has none of its own."""
    outcome = poll(server, tmp_path, Reply(silent=True), timeout=0.2)
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.TIMED_OUT)


def test_nobody_there_is_told(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/poll"
        outcome = run(fetcher(url, {}), tmp_path)
    assert outcome.reason is Reason.EXCEPTION
    assert (outcome.error or "").startswith(f"GET {url}: ConnectError")


@pytest.mark.parametrize("value", ["hunter2\nX-Other: 1", "hunter2é", "hunter2\x00"])
def test_a_secret_that_cannot_be_sent_is_not_shown(server, tmp_path, value):
    outcome = poll(server, tmp_path, Reply(), headers={"Authorization": value})
    assert said(outcome, server) == "the header Authorization holds characters that cannot be sent"
    assert server.asked == []


@pytest.mark.parametrize(
    ("wish", "seconds"),
    [(40, 40.0), (0.5, 0.5), (0, None), (-1, None), (True, None), ("40", None), (None, None), (10**400, None)],
)
def test_an_object_says_when_it_wants_the_next_poll(server, tmp_path, wish, seconds):
    """R-16."""
    assert poll(server, tmp_path, reply_json({"suggested_poll_seconds": wish})).suggested == seconds


def test_a_poll_counts_as_one_request(server, tmp_path):
    """R-19: also one that failed."""
    for reply in (Reply(), Reply(b"", 500)):
        context = context_in(tmp_path)
        poll(server, tmp_path, reply, context=context)
        assert context.settle() == Usage(requests=1)


def test_a_function_may_bring_the_data_and_keep_a_state(tmp_path):
    """R-16: `poll: {run: …}`."""

    def fetch(ctx):
        ctx.state["seen"] = 1
        ctx.log("asked")
        return {"n": 1, "suggested_poll_seconds": 30}

    outcome = run(fetch, tmp_path)
    assert (outcome.status, outcome.poll, outcome.state) == (
        Status.COMPLETED,
        {"n": 1, "suggested_poll_seconds": 30},
        {"seen": 1},
    )
    assert outcome.suggested == 30
    assert outcome.output_bytes


def test_a_function_that_raises_fails_the_poll(tmp_path):
    outcome = run(lambda ctx: 1 / 0, tmp_path)
    assert outcome.reason is Reason.EXCEPTION
    assert "ZeroDivisionError" in (outcome.error or "")


def test_a_forgotten_await_is_told(tmp_path):
    async def later():
        return {}

    outcome = run(lambda ctx: later(), tmp_path)
    assert "declare it with `async def`" in (outcome.error or "")


@pytest.mark.parametrize("value", [{"a": {1, 2}}, {"a": math.nan}, {"a": math.inf}, {(1, 2): 3}])
def test_what_json_does_not_know_is_refused(tmp_path, value):
    outcome = run(lambda ctx: value, tmp_path)
    assert outcome.reason is Reason.RESULT_INVALID
    assert "the data of the poll is not JSON" in (outcome.error or "")


def test_data_is_what_json_makes_of_it():
    """Keys become texts and halves of characters are replaced: what is stored can be read again."""
    data = judge_data({1: (2, 3), "b": "\ud800x", "nul": "\x00"})
    assert data == {"1": [2, 3], "b": "?x", "nul": "\x00"}
    assert json.loads(json.dumps(data, ensure_ascii=False).encode()) == data
