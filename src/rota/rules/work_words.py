"""What people are told about work items and their sources."""

from datetime import datetime

from rota.model.claims import Claim, ClaimState
from rota.model.records import Run
from rota.model.spec import SourceKind, WorkSource
from rota.model.states import Reason
from rota.model.work import WorkAhead, WorkItem
from rota.rules.times import clock_time

TITLE = 80


def say_source(source: WorkSource) -> str:
    """Return a source as people name it; of issues with the label that they are found by.

    >>> say_source(WorkSource(SourceKind.GITHUB, "me/api", {"label": "ready"}))
    'github me/api, label ready'
    """
    label = source.options.get("label") if source.kind is SourceKind.GITHUB else None
    return f"{source.title}, label {label}" if label else source.title


def say_item(source: WorkSource, item: WorkItem) -> str:
    """Return an item with where it is from.

    >>> say_item(WorkSource(SourceKind.GITHUB, "me/api"), WorkItem("212", "login fails"))
    'github me/api#212 "login fails"'
    >>> say_item(WorkSource(SourceKind.DIRECTORY, "/inbox"), WorkItem("a.md", "a.md"))
    'directory /inbox: a.md'
    """
    where = f"{source.title}#{item.id}" if source.kind is SourceKind.GITHUB else f"{source.title}: {item.id}"
    title = item.title if len(item.title) <= TITLE else item.title[: TITLE - 1] + "…"
    return where if title in ("", item.id) else f'{where} "{title}"'


def say_work(run: Run, source: WorkSource, claim: Claim | None, *, tz: str) -> str | None:
    """Return what a run got of its source and what became of it; None: it has not asked yet."""
    if claim is None or claim.item is None:
        if run.reason is Reason.NO_WORK:
            return f"{say_source(source)} → nothing to do"
        if run.reason is Reason.SOURCE_ERROR:
            return run.error or f"{say_source(source)} could not be asked"
        return None if claim is None else f"{say_source(source)} asked {_at(claim.asked_at, tz)}"
    claimed = "" if claim.claimed_at is None else f" claimed {_at(claim.claimed_at, tz)}"
    return f"{say_item(claim.source, claim.item)}{claimed}{_fate(claim, tz)}"


def _fate(claim: Claim, tz: str) -> str:
    failed = claim.report is not None and not claim.report.success
    verb = "reported as failed" if failed else "reported" if claim.report else "released"
    if claim.state is ClaimState.GIVEN_UP:
        return f", its source could not be told: {claim.error}"
    if claim.told_at is not None:
        return f", {verb} {_at(claim.told_at, tz)}"
    if claim.ended_at is None:
        return ""
    tried = f" (tried {claim.attempts} times: {claim.error})" if claim.error else ""
    return f", to be {verb}{tried}"


def say_ahead(source: WorkSource, ahead: WorkAhead, *, holders: list[str]) -> str:
    """Return what a source has to offer, and who holds items of it."""
    parts = [] if ahead.open is None else [f"{ahead.open} open"]
    if holders:
        parts.append(f"{len(holders)} held by {', '.join(holders[:3])}{' …' if len(holders) > 3 else ''}")
    told = f"{say_source(source)}: {', '.join(parts)}" if parts else say_source(source)
    if ahead.next is None:
        return told if ahead.open is None else f"{told} → nothing to do" if not ahead.open else told
    number = f"#{ahead.next.id}" if source.kind is SourceKind.GITHUB else ahead.next.id
    title = f' "{ahead.next.title}"' if ahead.next.title != ahead.next.id else ""
    return f"{told}; next {number}{title}"


def _at(at: datetime, tz: str) -> str:
    return clock_time(at, tz)
