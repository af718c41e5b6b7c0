"""Why a provider refused, told from its status and words, and when it takes work again. Pure."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from rota.model.agents import AgentProblem

AUTH = re.compile(
    r"not logged in|log in again|please run /login|invalid (?:x-)?api[- ]?key|incorrect api key|api key not valid"
    r"|no api key|missing api key|api key is missing|missing environment variable: `\w*(?:key|token)"
    r"|invalid auth method|authenticat|unauthori[sz]ed|oauth token|\b401\b|status:? 403\b|permission_denied",
    re.IGNORECASE,
)
QUOTA = re.compile(
    r"usage limit|rate[- _]?limit|spend limit|session limit|weekly limit|hit your .*limit|reached your .*limit"
    r"|limit reached|out of usage|credit balance|quota|resource.exhausted|too many requests|billing|\b429\b",
    re.IGNORECASE,
)
OUTAGE = re.compile(
    r"overloaded|high demand|internal server error|service(?: is)?(?: temporarily)? unavailable|bad gateway"
    r"|gateway time-?out|stream disconnected before completion|status:? 5\d\d\b|\"code\": ?5\d\d\b"
    r"|error sending request for url"
    r"|api error: .*(?:fetch failed|connection (?:refused|error|reset)|enotfound|etimedout)",
    re.IGNORECASE,
)
"""A provider that fails or cannot be reached, in the words of the programs."""
TOO_LONG = re.compile(
    r"context[_ ]length[_ ]exceeded|context window|prompt is too long|input is too long|maximum context length"
    r"|exceeds the maximum number of tokens|contextoverflow",
    re.IGNORECASE,
)
AUTH_STATUS = (401, 403)
QUOTA_STATUS = (402, 429)


def problem_of(text: str, status: int | None = None) -> AgentProblem:
    """Return the class of an error; words count only where the status says nothing of it."""
    if status in AUTH_STATUS:
        return AgentProblem.AUTH
    if status in QUOTA_STATUS:
        return AgentProblem.QUOTA
    if status is not None and 500 <= status <= 599:
        return AgentProblem.OUTAGE
    if is_too_long(text):
        return AgentProblem.AGENT_ERROR
    if QUOTA.search(text):
        return AgentProblem.QUOTA
    if AUTH.search(text):
        return AgentProblem.AUTH
    return AgentProblem.OUTAGE if OUTAGE.search(text) else AgentProblem.AGENT_ERROR


def is_too_long(text: str) -> bool:
    """Tell whether a provider refused a prompt because session and prompt do not fit into the model's context."""
    return TOO_LONG.search(text) is not None


# when it takes work again

EPOCH = re.compile(r"(?<![\d.-])([12]\d{9})(?:\d{3})?(?![\d.])")
INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)")
SOON = re.compile(
    r"(?:resets?|try again|retry|available)\s+(?:again\s+)?(?:in|after)\s+((?:\d+(?:\.\d+)?\s*[a-z]+[\s,]*)+)", re.I
)
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|d|h|m|s)[a-z]*", re.IGNORECASE)
CLOCK = re.compile(
    r"(?:resets?|try again)\s+(?:(?:at|on)\s+)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+"
    r"(?:(?P<year>\d{4}),?\s+)?(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]\.?m)?(?:\s*\((?P<zone>[A-Za-z_+\-/0-9]+)\))?",
    re.IGNORECASE,
)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
JUST_PAST = timedelta(minutes=15)
"""A time of day that passed so recently is today's: programs cut seconds off, and a reset may come late."""


def reset_told(text: str, at: datetime | None) -> datetime | None:
    """Return when a provider takes work again, as its words say.

    A time of day is the next one after `at`, unless it has just passed: then that instant is returned.
    """
    return _instant(text) or (at and (_soon(text, at) or _clock(text, at))) or None


def from_epoch(seconds: float | None) -> datetime | None:
    """Return the instant of a Unix time in seconds or milliseconds, None when it is none."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _instant(text: str) -> datetime | None:
    written = INSTANT.search(text)
    if written:
        try:
            return datetime.fromisoformat(written[0]).astimezone(UTC)
        except ValueError:
            return None
    epoch = EPOCH.search(text)
    return from_epoch(float(epoch[1])) if epoch else None


def _soon(text: str, at: datetime) -> datetime | None:
    told = SOON.search(text)
    amounts = AMOUNT.findall(told[1]) if told else []
    try:
        seconds = sum(float(number) * UNITS[unit.lower()] for number, unit in amounts)
        return (at + timedelta(seconds=seconds)).astimezone(UTC) if amounts else None
    except (ValueError, OverflowError):
        return None


def _clock(text: str, at: datetime) -> datetime | None:
    told = CLOCK.search(text)
    if told is None or (told["minute"] is None and told["half"] is None):
        return None
    try:
        return _next(told, at.astimezone(ZoneInfo(told["zone"])) if told["zone"] else at)
    except (ValueError, KeyError, OSError):
        return None


def _next(told: re.Match[str], at: datetime) -> datetime:
    hour = int(told["hour"])
    if told["half"]:
        hour = hour % 12 + (12 if told["half"].lower().startswith("p") else 0)
    then = at.replace(hour=hour, minute=int(told["minute"] or 0), second=0, microsecond=0)
    if told["month"]:
        month = MONTHS.index(told["month"].lower()) + 1
        year = int(told["year"] or at.year)
        then = then.replace(year=year, month=month, day=int(told["day"]))
        if not told["year"] and at - then > JUST_PAST:
            then = then.replace(year=year + 1)
    elif at - then > JUST_PAST:
        then += timedelta(days=1)
    elif then - at >= timedelta(days=1) - JUST_PAST:
        then -= timedelta(days=1)
    return then.astimezone(UTC)
