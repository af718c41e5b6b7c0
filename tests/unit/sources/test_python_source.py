"""A Python class as a work source."""

from datetime import UTC, datetime
from typing import Any

import pytest

from rota.model.agents import WorkAhead, WorkItem, WorkReport, WorkRequest
from rota.model.errors import SourceError
from rota.sources.items import CUT, DESCRIPTION_LIMIT, make_item
from rota.sources.registry import make

REQUEST = WorkRequest("c1", "fix", "fix:1", datetime(2026, 11, 16, 9, tzinfo=UTC))
REPORT = WorkReport(success=True, run="fix:1")


class Tickets:
    """A source of one ticket."""

    def __init__(self, board: str = "x") -> None:
        self.told: list[Any] = []
        self.board = board

    def next_item(self, request: WorkRequest) -> Any:
        return {"id": 1, "title": f"{self.board} {request.job}"}

    def report(self, item: WorkItem, outcome: WorkReport) -> None:
        self.told.append((item.id, outcome.success))

    def release(self, item: WorkItem) -> None:
        self.told.append(item.id)


def test_a_class_is_made_with_its_options_and_gives_items() -> None:
    item = make("t:Tickets", Tickets, {"board": "ops"}).next_item(REQUEST)
    assert item is not None
    assert (item.id, item.title) == ("1", "ops fix")


def test_methods_may_be_async() -> None:
    class Async(Tickets):
        async def next_item(self, request: WorkRequest) -> WorkItem | None:
            return WorkItem("a", f"for {request.run}")

    item = make("t:Async", Async, {}).next_item(REQUEST)
    assert item is not None
    assert item.title == "for fix:1"


def test_a_class_is_told_reports_and_releases() -> None:
    tickets = Tickets()
    source = make("t", lambda: tickets, {})
    source.report(WorkItem("1", "t"), REPORT)
    source.release(WorkItem("1", "t"))
    source.release_claim(REQUEST)
    assert tickets.told == [("1", True), "1"]


def test_a_class_without_a_look_ahead_says_nothing() -> None:
    assert make("t", Tickets, {}).peek(REQUEST) == WorkAhead()


def test_what_a_method_raises_is_an_error_that_names_it() -> None:
    class Broken(Tickets):
        def next_item(self, request: WorkRequest) -> Any:
            raise KeyError("x")

    with pytest.raises(SourceError, match=r"t:Broken\.next_item: KeyError: 'x'"):
        make("t:Broken", Broken, {}).next_item(REQUEST)


def test_an_item_must_be_one() -> None:
    class Odd(Tickets):
        def next_item(self, request: WorkRequest) -> Any:
            return 7

    with pytest.raises(SourceError, match="returned a int"):
        make("t", Odd, {}).next_item(REQUEST)


def test_a_class_that_lacks_a_method_or_refuses_its_options_is_told() -> None:
    with pytest.raises(SourceError, match="has no method report"):
        make("t", type("Half", (), {"next_item": len}), {})
    with pytest.raises(SourceError, match="cannot be created: TypeError"):
        make("t", Tickets, {"colour": "red"})


def test_an_item_is_bounded_and_holds_nothing_that_cannot_be_stored() -> None:
    item = make_item(
        "a\0", "two\nlines", description="x" * (DESCRIPTION_LIMIT + 1), metadata={"when": object, "n": 1.0}
    )
    assert item.id == "a\ufffd"
    assert item.title == "two lines"
    assert item.description.endswith(CUT)
    assert item.metadata["n"] == 1.0
    assert make_item("a", "\ud800", metadata={"x": "y" * 70_000}).metadata["names"] == ["x"]
