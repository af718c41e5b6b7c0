"""Sentences about retries, work items and notifications of a run."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rota.model.agents import WorkAhead, WorkItem
from rota.model.amounts import counted
from rota.model.clock import MILLISECOND, say_duration, write_duration
from rota.model.notifications import REMIND, TIMEOUT, Target
from rota.model.records import Claim, ClaimState, Run
from rota.model.spec import JobSpec, SourceKind, WorkSource
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.outcome import ONE_ATTEMPT, not_retried
from rota.rules.spans import Span, totals
from rota.text.chats import answer_head, answer_text, cost_line
from rota.text.format import briefly, clock_time, day_time


def outages_before(run: Run) -> int:
    """Return the number of earlier outages in a chain: they use up no attempt."""
    return int(run.decisions.get("retry", {}).get("outages", 0))


def attempts_of(run: Run, spec: JobSpec) -> int:
    """Return the maximum number of attempts of a chain."""
    if run.decisions.get(ONE_ATTEMPT):
        return 1
    return max(spec.retry.max_attempts + outages_before(run), run.attempt)


def say_attempt(run: Run, spec: JobSpec) -> str:
    """Return `attempt 2 of 3`; empty if there is only one."""
    most = attempts_of(run, spec)
    return f"attempt {run.attempt} of {most}" if most > 1 else ""


def say_retry_due(run: Run, spec: JobSpec, *, tz: str, now: datetime) -> str:
    """Return the reason of a retry."""
    retry = run.decisions.get("retry", {})
    waited = say_duration(int(retry.get("backoff_ms", 0)) * MILLISECOND)
    reason = f" {retry['reason']}" if retry.get("reason") else ""
    due = f"; its instant was {day_time(run.scheduled_for, tz, now=now, seconds=True)}" if run.scheduled_for else ""
    return f"{say_attempt(run, spec)}, {waited} after {retry.get('after', 'the one before')} FAILED{reason}{due}"


def say_by_hand(run: Run) -> str:
    """Return the origin of a start by hand: the job, or a run that is repeated."""
    retried = run.decisions.get("retried")
    forced = ", with --force" if run.forced else ""
    reply = run.decisions.get("reply")
    if reply:
        return f"{reply['by']} replied to {reply['to']}"
    if fork := run.decisions.get("fork"):
        return f"{fork['by']} forked {fork['of']}"
    by = run.decisions.get("by")
    starter = "by hand" if by is None else f"by {by['maker']}" + (f" ({by['run']})" if "run" in by else "")
    text = f"started {starter}{forced}"
    if retried:
        text = f"{retried['run']} ({retried['status']}) retried by hand{forced}"
    replaced = run.decisions.get("replaced")
    return f"{text}, replacing the retry {', '.join(replaced)}" if replaced else text


def say_what_follows(run: Run, spec: JobSpec, *, retried_as: Run | None, tz: str, now: datetime) -> str:
    """Return the retry of a failure, or why there is none; empty for any other end."""
    if run.status is Status.COMPLETED and retried_as is not None and retried_as.trigger is Trigger.ANSWER:
        return f"continues as {retried_as.handle} with the answer"
    if run.status is not Status.FAILED:
        return ""
    if retried_as is None:
        asked = None if run.cancel_requested_at is None else "rota cancel, or a run that replaced it"
        why = not_retried(
            spec.retry,
            run.reason,
            attempt=run.attempt,
            asked=asked,
            one_attempt=bool(run.decisions.get(ONE_ATTEMPT)),
            outages=outages_before(run),
        )
        return f"not retried: {why}" if why else "not retried"
    at = retried_as.started_at or retried_as.not_before or retried_as.created_at
    return f"retried as {retried_as.handle} at {day_time(at, tz, now=now, seconds=True)}"


def say_retrying(run: Run, spec: JobSpec, *, held: bool = False) -> str:
    """Return the sentence about a pending retry: `retrying, attempt 2 of 3 at 12:03:20`; `held`: no time is known."""
    when = f" at {clock_time(run.not_before, spec.schedule.timezone)}" if run.not_before else ""
    ready = run.status is Status.QUEUED and run.waiting_for is not WaitingFor.BACKOFF
    soon = when or (" as soon as possible" if ready else "")
    return f"retrying, {say_attempt(run, spec)}{'' if held else soon}"


TITLE_LENGTH = 80


def say_source(source: WorkSource) -> str:
    """Return a source in words, for issues with their label.

    >>> say_source(WorkSource(SourceKind.GITHUB, "me/api", {"label": "ready"}))
    'github me/api, label ready'
    """
    label = source.options.get("label") if source.kind is SourceKind.GITHUB else None
    return f"{source.title}, label {label}" if label else source.title


def say_item(source: WorkSource, item: WorkItem) -> str:
    """Return an item with its source.

    >>> say_item(WorkSource(SourceKind.GITHUB, "me/api"), WorkItem("212", "login fails"))
    'github me/api#212 "login fails"'
    >>> say_item(WorkSource(SourceKind.DIRECTORY, "/inbox"), WorkItem("a.md", "a.md"))
    'directory /inbox: a.md'
    """
    where = f"{source.title}#{item.id}" if source.kind is SourceKind.GITHUB else f"{source.title}: {item.id}"
    title = item.title if len(item.title) <= TITLE_LENGTH else item.title[: TITLE_LENGTH - 1] + "…"
    return where if title in ("", item.id) else f'{where} "{title}"'


def say_work(run: Run, source: WorkSource, claim: Claim | None, *, tz: str) -> str | None:
    """Return the work item of a run and its report; None if the run has not asked yet."""
    if claim is None or claim.item is None:
        if run.reason is Reason.NO_WORK:
            return f"{say_source(source)} → nothing to do"
        if run.reason is Reason.SOURCE_ERROR:
            return run.error or f"{say_source(source)} did not answer"
        return None if claim is None else f"{say_source(source)} asked {clock_time(claim.asked_at, tz)}"
    claimed = "" if claim.claimed_at is None else f" claimed {clock_time(claim.claimed_at, tz)}"
    return f"{say_item(claim.source, claim.item)}{claimed}{_fate(claim, tz)}"


def _fate(claim: Claim, tz: str) -> str:
    failed = claim.report is not None and not claim.report.success
    verb = "reported as failed" if failed else "reported" if claim.report else "released"
    if claim.state is ClaimState.GIVEN_UP:
        return f", the report to its source failed: {claim.error}"
    if claim.told_at is not None:
        return f", {verb} {clock_time(claim.told_at, tz)}"
    if claim.ended_at is None:
        return ""
    tried = f" ({counted(claim.attempts, 'attempt')}: {claim.error})" if claim.error else ""
    return f", to be {verb}{tried}"


def say_ahead(source: WorkSource, ahead: WorkAhead, *, holders: list[str]) -> str:
    """Return the items that a source offers, and the runs that hold items of it."""
    parts = [] if ahead.open is None else [f"{ahead.open} open"]
    if holders:
        parts.append(f"{len(holders)} held by {', '.join(holders[:3])}{' …' if len(holders) > 3 else ''}")
    text = f"{say_source(source)}: {', '.join(parts)}" if parts else say_source(source)
    if ahead.next is None:
        return text if ahead.open is None else f"{text} → nothing to do" if not ahead.open else text
    number = f"#{ahead.next.id}" if source.kind is SourceKind.GITHUB else ahead.next.id
    title = f' "{ahead.next.title}"' if ahead.next.title != ahead.next.id else ""
    return f"{text}; next {number}{title}"


PHASE_WORDS = {
    "backoff": "backoff",
    "budget": "budget",
    "condition": "condition",
    "poll": "poll",
    "predecessor": "runs before it",
    "replaced_run": "end of the replaced run",
    "answer": "answer",
    "queue": "queue",
    "start": "gates and start",
    "running": "running",
    "retrying": "retrying",
}
"""The phases of a run in words; the first ones are what it waits for."""


def say_spans(spans: Sequence[Span]) -> str:
    """Return the phases of a run with their lengths: `queue 2 s, running 1 min`.

    >>> from datetime import timedelta
    >>> at = datetime(2026, 11, 1)
    >>> say_spans([Span("queue", at, at + timedelta(seconds=2)), Span("running", at, at + timedelta(minutes=1))])
    'queue 2 s, running 1 min'
    """
    parts = []
    for phase, length in totals(spans).items():
        held = next((span.held for span in spans if span.phase == phase and span.held), None)
        parts.append(f"{PHASE_WORDS[phase]} {briefly(length)}{f' ({held.value})' if held else ''}")
    return ", ".join(parts)


_EVENT_WORDS = {
    "failed": "failed",
    "completed": "completed",
    "skipped": "was skipped",
    "cancelled": "was cancelled",
    "missed": "was missed",
    "recovered": "works again",
    "late": "is late",
    "result": "answered",
    "test": "this is a test",
}
LINE_LENGTH = 1000


def title(payload: Mapping[str, Any]) -> str:
    """Return the title of a notification.

    >>> title({"event": "failed", "run": "backup:112", "reason": "exit_code"})
    'backup:112 failed (exit_code)'
    """
    reason = payload.get("reason")
    if payload["event"] == "result" and payload["status"] == "FAILED":
        return answer_head(payload)
    return f"{payload['run']} {_EVENT_WORDS[payload['event']]}{f' ({reason})' if reason else ''}"


def body(payload: Mapping[str, Any]) -> str:
    """Return the body of a notification: times, error and summary; of an answer the whole text and its cost."""
    if payload["event"] == "result":
        return "\n\n".join(part for part in (answer_text(payload, payload.get("result")), cost_line(payload)) if part)
    parts = [payload.get("error"), payload.get("result_summary")]
    count = payload.get("count")
    if count and count > 1:
        parts.insert(0, f"{count:,} instants, {payload.get('scheduled_for')} to {payload.get('covers_to')}")
    elif payload.get("scheduled_for"):
        parts.insert(0, f"scheduled for {payload['scheduled_for']}")
    if payload.get("finished_at"):
        parts.append(f"finished {payload['finished_at']}, attempt {payload.get('attempt')}")
    lines = [str(part)[:LINE_LENGTH] for part in parts if part]
    return "\n".join(lines) or "no details"


def say_target(target: Target) -> str:
    """Return a target in words; a secret address by its name."""
    secret = f"secret {target.address_secret}" if target.address_secret else ""
    place = " ".join(target.command) or " by ".join(part for part in (target.address, secret) if part)
    parts = [f"{target.channel} {place} on {', '.join(target.on)}"]
    parts += [f"answers from {', '.join(target.users)}"] if target.users else []
    parts += [f"signed by {' and '.join(target.signing)}"] if target.signing else []
    parts += [f"allows {', '.join(target.allow_private)}"] if target.allow_private else []
    if target.remind != REMIND:
        parts.append("every failure" if target.remind is None else f"reminder after {write_duration(target.remind)}")
    parts += [f"within {write_duration(target.timeout)}"] if target.timeout != TIMEOUT else []
    return "; ".join(parts + ([f"in {target.cwd}"] if target.cwd else []))
