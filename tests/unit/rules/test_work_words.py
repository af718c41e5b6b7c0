"""What people are told about work items."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from rota.model.agents import WorkAhead, WorkItem, WorkReport
from rota.model.records import Claim, ClaimState, Run
from rota.model.spec import SourceKind, WorkSource
from rota.model.states import Reason, Status, Trigger
from rota.text.runs import say_ahead, say_work

AT = datetime(2026, 11, 15, 6, 12, 1, tzinfo=UTC)
LATER = AT + timedelta(seconds=43)
GITHUB = WorkSource(SourceKind.GITHUB, "me/api", {"label": "agent-ready"})
ITEM = WorkItem("212", "login fails on Safari")
DONE = WorkReport(success=True, run="fix:8")
HELD = Claim("c", "r", "fix:8", GITHUB, AT, ITEM, AT, ClaimState.HELD, None, None, 0, None, None, None)
CLAIMED = 'github me/api#212 "login fails on Safari" claimed 06:12:01'


def run(reason: Reason | None = None, error: str | None = None) -> Run:
    """Return a run as far as the words look at it."""
    given: dict[str, Any] = {"reason": reason, "error": error, "status": Status.RUNNING, "trigger": Trigger.MANUAL}
    return Run(**dict.fromkeys(Run.__struct_fields__) | given)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, CLAIMED),
        ({"state": ClaimState.RELEASED, "ended_at": LATER, "told_at": LATER}, f"{CLAIMED}, released 06:12:44"),
        (
            {"state": ClaimState.REPORTED, "ended_at": LATER, "told_at": LATER, "report": DONE},
            f"{CLAIMED}, reported 06:12:44",
        ),
        (
            {"state": ClaimState.REPORTED, "ended_at": LATER, "told_at": LATER, "report": replace(DONE, success=False)},
            f"{CLAIMED}, reported as failed 06:12:44",
        ),
        ({"state": ClaimState.RELEASING, "ended_at": LATER}, f"{CLAIMED}, to be released"),
        (
            {"state": ClaimState.REPORTING, "ended_at": LATER, "report": DONE, "attempts": 2, "error": "502"},
            f"{CLAIMED}, to be reported (2 attempts: 502)",
        ),
        (
            {"state": ClaimState.GIVEN_UP, "ended_at": LATER, "told_at": LATER, "error": "401"},
            f"{CLAIMED}, the report to its source failed: 401",
        ),
        (
            {"state": ClaimState.ASKING, "item": None, "claimed_at": None},
            f"{GITHUB.title}, label agent-ready asked 06:12:01",
        ),
    ],
)
def test_an_item_is_told_with_what_became_of_it(changes: dict[str, Any], text: str) -> None:
    assert say_work(run(), GITHUB, replace(HELD, **changes), tz="UTC") == text


def test_a_run_without_an_item_says_why() -> None:
    none = say_work(run(Reason.NO_WORK), GITHUB, None, tz="UTC")
    assert none == "github me/api, label agent-ready → nothing to do"
    assert say_work(run(Reason.SOURCE_ERROR, "github me/api: 401"), GITHUB, None, tz="UTC") == "github me/api: 401"
    assert say_work(run(), GITHUB, None, tz="UTC") is None


@pytest.mark.parametrize(
    ("ahead", "holders", "text"),
    [
        (
            WorkAhead(3, WorkItem("219", "500 on empty search")),
            ["fix:8"],
            '3 open, 1 held by fix:8; next #219 "500 on empty search"',
        ),
        (WorkAhead(0), [], "0 open → nothing to do"),
        (WorkAhead(None, WorkItem("1", "1")), [], "next #1"),
        (WorkAhead(4), ["a:1", "a:2", "a:3", "a:4"], "4 open, 4 held by a:1, a:2, a:3 …"),
    ],
)
def test_a_look_ahead_is_told(ahead: WorkAhead, holders: list[str], text: str) -> None:
    assert say_ahead(GITHUB, ahead, holders=holders).endswith(text)


def test_a_source_that_does_not_say_what_it_has_is_only_named() -> None:
    assert say_ahead(GITHUB, WorkAhead(), holders=[]) == "github me/api, label agent-ready"
