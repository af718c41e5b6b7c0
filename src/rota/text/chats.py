"""Texts of chats: answers of agents, and the help."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rota.model.amounts import say_dollars
from rota.model.clock import say_duration
from rota.model.notifications import Target
from rota.model.questions import Question
from rota.model.spec import JobSpec
from rota.rules.budgets import say_usage
from rota.rules.schedule.instants import explain_schedule
from rota.text.questions import say_call, say_subject

NOTHING_SAID = "nothing to report"
UNKNOWN_BUTTON = "this button is not known"
UNKNOWN_MESSAGE = "This message is not stored any more. Reply to a newer one."


def answer_head(payload: Mapping[str, Any]) -> str:
    """Return the first line of an answer.

    >>> answer_head({"run": "review:12", "status": "FAILED", "reason": "timed_out"})
    'review:12 failed (timed_out)'
    """
    if payload["status"] != "FAILED":
        return str(payload["run"])
    reason = payload.get("reason")
    return f"{payload['run']} failed{f' ({reason})' if reason else ''}"


def answer_text(payload: Mapping[str, Any], text: str | None) -> str:
    """Return the text of an answer: what the agent said, and the error of a failure."""
    error = payload.get("error") if payload["status"] == "FAILED" else None
    return "\n\n".join(str(part) for part in (error, text) if part) or NOTHING_SAID


def cost_line(payload: Mapping[str, Any]) -> str:
    """Return how long a run took and what it cost; empty if neither is known.

    >>> cost_line({"usage": {"usd_millionths": 410000}, "started_at": None})
    '$0.41'
    """
    used = say_usage(payload.get("usage") or {})
    return " · ".join(part for part in (_took(payload), used) if part)


def _took(payload: Mapping[str, Any]) -> str:
    started, finished = payload.get("started_at"), payload.get("finished_at")
    if not started or not finished:
        return ""
    return say_duration(datetime.fromisoformat(finished) - datetime.fromisoformat(started))


def file_name(handle: str) -> str:
    """Return the name of the file with a whole answer.

    >>> file_name("team/review:12")
    'team-review-12.txt'
    """
    return f"{handle.replace('/', '-').replace(':', '-')}.txt"


def say_help(target: Target) -> str:
    """Return the commands that a chat allows."""
    commands = target.commands
    lines = [f"/run {name}" for name in commands.run] + [f"/pause {name}" for name in commands.pause]
    lines += ["/status"] if commands.status else []
    told = "\n".join(lines) if lines else "No commands are allowed here."
    return f"{told}\n\nReply to an answer to go on with its agent. Reply to a question to answer it."


def say_question(question: Question, proposed: JobSpec | None) -> str:
    """Return the text of a question: its subject, its exact words and call, its default and its end."""
    parts = [f"Question {question.number} {say_subject(question)}", question.text]
    if proposed is not None:
        parts.append(say_proposal(proposed))
    if question.call:
        parts.append(say_call(question.call))
    if question.is_open:
        parts += [_how(question)]
    return "\n\n".join(part for part in parts if part)


def _how(question: Question) -> str:
    how = "" if question.choices else "Reply to this message to answer."
    until = f"Until {question.expires_at:%Y-%m-%d %H:%M} UTC" if question.expires_at is not None else ""
    default = f"; then: {question.fallback}" if question.fallback is not None else ""
    return " ".join(part for part in (how, f"{until}{default}." if until else "") if part)


def say_proposal(spec: JobSpec) -> str:
    """Return what a proposed job would do: schedule, access, money and prompt."""
    work = spec.work.agent
    lines = [f"schedule: {explain_schedule(spec.schedule)}"]
    if work is not None:
        money = "no limit" if work.max_usd is None else f"{say_dollars(work.max_usd)} a run at most"
        tools = ", ".join(work.allowed_tools) or f"all tools of access {work.access}"
        lines += [f"agent: {work.agent}", f"access: {work.access}", f"tools: {tools}", f"money: {money}"]
        lines += [f"prompt:\n{work.prompt}"]
    return "\n".join(lines)
