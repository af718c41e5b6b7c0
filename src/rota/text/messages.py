"""Titles and bodies of notifications for chats."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rota.model.amounts import counted, say_money
from rota.rules.schedule.timezone import zone
from rota.text import runs

WORDS = {"attention": "needs attention", "resolved": "is resolved"}


def title(payload: Mapping[str, Any]) -> str:
    """Return the title of a message.

    >>> title({"event": "attention", "items": [{"name": "anthropic"}], "more": 0})
    'anthropic needs attention'
    >>> title({"event": "resolved", "items": [{"name": "a"}, {"name": "b"}], "more": 1})
    '3 items: resolved'
    """
    event = payload["event"]
    if event == "digest":
        return f"rota: {say_counts(payload['counts'])} since {_at(payload['since'], payload)}"
    if event not in WORDS:
        return runs.title(payload)
    items = payload["items"]
    if len(items) == 1 and not payload["more"]:
        return f"{items[0]['name']} {WORDS[event]}"
    count = counted(len(items) + payload["more"], "item")
    return f"{count} need attention" if event == "attention" else f"{count}: resolved"


def body(payload: Mapping[str, Any]) -> str:
    """Return the body of a message: one line for each item, or the facts of a run."""
    event = payload["event"]
    if event == "digest":
        return "\n".join(digest_lines(payload))
    if event not in WORDS:
        return runs.body(payload)
    lines = [_line(item, with_command=event == "attention") for item in payload["items"]]
    more = [f"and {payload['more']} more: rota ack"] if payload["more"] else []
    return "\n".join(lines + more)


def _line(item: Mapping[str, Any], *, with_command: bool) -> str:
    command = f"   {item['command']}" if with_command else ""
    return f"{item['name']}: {item['what'][: runs.LINE_LENGTH]}{command}"


def say_counts(counts: Mapping[str, int]) -> str:
    """Return the numbers of ended runs.

    >>> say_counts({"completed": 41, "failed": 1, "skipped": 0, "cancelled": 0})
    '41 completed, 1 failed'
    """
    return ", ".join(f"{count:,} {status}" for status, count in counts.items() if count) or "no runs ended"


def digest_lines(digest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a digest: what needs attention, what failed, what agents did, jobs, budgets."""
    if digest["attention"]:
        yield "Needs attention:"
        yield from (f"  {item['name']}: {item['what']}   {item['command']}" for item in digest["attention"])
        yield from _more(digest["more_attention"])
    if digest["failed"]:
        yield "Failed:"
        yield from (f"  {one['run']} {one['reason']}{_after(': ', one['error'])}" for one in digest["failed"])
        yield from _more(digest["more_failed"])
    if digest["agents"]:
        yield "Agents:"
        yield from (_agent_line(one) for one in digest["agents"])
        yield from _more(digest["more_agents"])
    if digest["jobs"]:
        yield "Jobs:"
        yield from (f"  {one['job']}: {say_counts({**one, 'job': 0})}" for one in digest["jobs"])
        yield from _more(digest["more_jobs"])
    if digest["budgets"]:
        yield "Budgets:"
        yield from (f"  {one['name']}: {one['text']}" for one in digest["budgets"])


def _agent_line(one: Mapping[str, Any]) -> str:
    cost = None if one["usd_millionths"] is None else say_money(one["usd_millionths"])
    facts = [one["status"].lower(), one["reason"], cost, one["branch"] and f"branch {one['branch']}"]
    return f"  {one['run']} ({', '.join(fact for fact in facts if fact)}){_after(': ', one['summary'])}"


def _more(count: int) -> Iterator[str]:
    if count:
        yield f"  and {count:,} more"


def _after(mark: str, text: str | None) -> str:
    return f"{mark}{' '.join(text.split())}" if text else ""


def _at(written: str, digest: Mapping[str, Any]) -> str:
    return f"{datetime.fromisoformat(written).astimezone(zone(digest['timezone'])):%a %d %b %H:%M}"
