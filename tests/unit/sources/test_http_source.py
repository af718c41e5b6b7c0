"""Any server as a work source, by rota's own protocol."""

from datetime import UTC, datetime

import pytest
from tests import stub_server
from tests.stub_server import Reply
from tests.waiting import LONGEST_WAIT
from tests.work_servers import ItemServer, serving

from rota.model.agents import WorkReport, WorkRequest
from rota.model.errors import SourceError
from rota.sources.http import HttpSource

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
ITEM = {"id": 7, "title": "500 on empty search", "description": "d", "url": "https://x/7", "metadata": {"p": "high"}}


def request(claim: str = "c1") -> WorkRequest:
    return WorkRequest(claim, "fix", "fix:1", NOW, {"board": "x"})


def source(server: ItemServer) -> HttpSource:
    return HttpSource(f"{server.url}/queue", {"Authorization": "canary"}, timeout=30)


def test_an_item_is_claimed_with_the_claims_name_as_idempotency_key() -> None:
    with serving(ItemServer(ITEM)) as server:
        item = source(server).next_item(request())
        assert item is not None
        assert (item.id, item.title, item.url, item.metadata) == ("7", ITEM["title"], "https://x/7", {"p": "high"})
        assert server.asked == [
            ("POST", "/queue/claim", {"claim": "c1", "job": "fix", "run": "fix:1", "params": {"board": "x"}})
        ]
        assert server.keys == ["c1"]


def test_no_content_means_that_there_is_no_work() -> None:
    with serving(ItemServer()) as server:
        assert source(server).next_item(request()) is None


def test_a_report_tells_how_it_ended() -> None:
    with serving(ItemServer(ITEM)) as server:
        item = source(server).next_item(request())
        assert item is not None
        source(server).report(item, WorkReport(success=True, run="fix:1", summary="done"))
        assert server.reports[0]["summary"] == "done"
        assert server.reports[0]["item"]["id"] == "7"
        assert server.held == {}


def test_an_item_that_is_released_can_be_claimed_again() -> None:
    with serving(ItemServer(ITEM)) as server:
        item = source(server).next_item(request())
        assert item is not None
        source(server).release(item)
        assert source(server).next_item(request("c2")) is not None


def test_a_claim_whose_answer_was_lost_is_released_by_its_name() -> None:
    with serving(ItemServer(ITEM)) as server:
        source(server).next_item(request())
        source(server).release_claim(request())
        assert (len(server.items), server.held) == (1, {})


def test_a_server_that_knows_no_such_claim_has_nothing_left_to_release() -> None:
    with serving(ItemServer(ITEM)) as server:
        source(server).release_claim(request("never"))
        assert [path for _, path, _ in server.asked] == ["/queue/release"]


def test_a_look_ahead_claims_nothing() -> None:
    with serving(ItemServer(ITEM)) as server:
        ahead = source(server).peek(request())
        assert (ahead.open, ahead.next and ahead.next.id) == (1, "7")
        assert server.held == {}


def test_a_server_without_a_look_ahead_says_nothing() -> None:
    with serving(ItemServer(ITEM)) as server:
        server.refuse = lambda _method, _path: (404, None, {})
        assert source(server).peek(request()).open is None


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (401, {"error": "who are you"}, "401 who are you"),
        (409, None, "409"),
        (500, b"<html>", "500"),
        (302, None, "302"),
        (200, b"{not json", "its answer is not JSON"),
        (200, [1], "not a JSON object"),
        (200, {"title": "no id"}, "without an `id`"),
        (200, {"id": 1, "metadata": [1]}, "`metadata` is not a JSON object"),
    ],
)
def test_what_is_no_item_is_an_error_that_says_so(status: int, body: object, text: str) -> None:
    with serving(ItemServer()) as server:
        server.refuse = lambda _method, _path: (status, body, {})
        with pytest.raises(SourceError) as told:
            source(server).next_item(request())
        assert text in str(told.value)
        assert "canary" not in str(told.value)


def test_the_wish_to_be_left_alone_is_kept() -> None:
    with serving(ItemServer()) as server:
        server.refuse = lambda _method, _path: (503, None, {"Retry-After": "120"})
        with pytest.raises(SourceError) as told:
            source(server).next_item(request())
        assert told.value.again_after == 120


def test_a_server_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SourceError, match="ConnectError"):
        HttpSource("http://127.0.0.1:1", {}, timeout=30).next_item(request())


def test_a_server_that_never_answers_is_an_error() -> None:
    with serving(ItemServer()) as server:
        server.before = lambda _method, _path: server.closing.wait() and None
        with pytest.raises(SourceError, match=r"TimeoutError: no answer within 0\.2 s"):
            HttpSource(server.url, {}, timeout=0.2).next_item(request())


def test_a_server_that_drips_its_answer_is_an_error() -> None:
    with stub_server.serving(Reply(drips=True)) as server:
        with pytest.raises(SourceError, match="TimeoutError: no answer within"):
            HttpSource(server.url, {}, timeout=0.3).next_item(request())
        assert server.hung_up.wait(LONGEST_WAIT)


def test_a_header_that_cannot_be_sent_is_told_without_its_value() -> None:
    with pytest.raises(SourceError) as told:
        HttpSource("http://127.0.0.1:1", {"Authorization": "canary\n"}, timeout=1).next_item(request())
    assert "Authorization" in str(told.value)
    assert "canary" not in str(told.value)
