"""Document 003's test plan for `buildSchedulePrompt`."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

import rota


class Item(Struct, frozen=True):
    title: str
    description: str | None = None
    url: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def test_without_an_item_the_prompt_is_the_schedules_own() -> None:
    assert rota.build_prompt("Triage new issues.\n") == "Triage new issues."


def test_a_missing_or_blank_prompt_is_the_default_one() -> None:
    assert rota.build_prompt(None) == rota.build_prompt("  \n") == "Execute scheduled task"


def test_title_and_description_of_the_item_follow_the_prompt() -> None:
    prompt = rota.build_prompt("Fix it.", Item("500 on empty search", "Search for nothing."))
    assert prompt == "Fix it.\n\nWork item: 500 on empty search\n\nSearch for nothing."


def test_the_address_and_the_metadata_of_the_item_are_there() -> None:
    item = Item("a", url="https://example.net/219", metadata={"priority": "high", "labels": ["bug", "ünïcode"]})
    lines = rota.build_prompt("Fix it.", item).splitlines()
    assert "https://example.net/219" in lines
    assert lines[-2:] == ["priority: high", 'labels: ["bug", "ünïcode"]']


def test_an_item_without_a_prompt_comes_below_the_default_one() -> None:
    assert rota.build_prompt(None, Item("a")) == "Execute scheduled task\n\nWork item: a"


def test_an_item_may_be_a_plain_map() -> None:
    item = {"title": "a", "description": "b", "url": "https://example.net", "metadata": {"n": 1}}
    assert rota.build_prompt("Do.", item) == rota.build_prompt("Do.", Item(**item))
