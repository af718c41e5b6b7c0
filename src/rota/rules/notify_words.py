"""An event in words, for chats, mail and phones."""

from collections.abc import Mapping
from typing import Any

from rota.model.durations import write_duration
from rota.model.notify import REMIND, TIMEOUT, Target

_SAID = {
    "failed": "failed",
    "completed": "completed",
    "skipped": "was skipped",
    "cancelled": "was cancelled",
    "missed": "was missed",
    "recovered": "works again",
    "late": "is late",
    "test": "this is a test",
}
LONGEST = 1000


def title(payload: Mapping[str, Any]) -> str:
    """Return one line that says it all.

    >>> title({"event": "failed", "run": "backup:112", "reason": "exit_code"})
    'backup:112 failed (exit_code)'
    """
    reason = payload.get("reason")
    return f"{payload['run']} {_SAID[payload['event']]}{f' ({reason})' if reason else ''}"


def body(payload: Mapping[str, Any]) -> str:
    """Return what else there is to say: when, and what the run said."""
    told = [payload.get("error"), payload.get("result_summary")]
    count = payload.get("count")
    if count and count > 1:
        told.insert(0, f"{count:,} instants, {payload.get('scheduled_for')} to {payload.get('covers_to')}")
    elif payload.get("scheduled_for"):
        told.insert(0, f"scheduled for {payload['scheduled_for']}")
    if payload.get("finished_at"):
        told.append(f"finished {payload['finished_at']}, attempt {payload.get('attempt')}")
    lines = [str(one)[:LONGEST] for one in told if one]
    return "\n".join(lines) or "no more is known"


def say_target(target: Target) -> str:
    """Return a target in a few words; an address that is a secret by its name."""
    secret = f"secret {target.address_secret}" if target.address_secret else ""
    place = " ".join(target.command) or " by ".join(one for one in (target.address, secret) if one)
    told = [f"{target.channel} {place} on {', '.join(target.on)}"]
    told += [f"signed by {' and '.join(target.signing)}"] if target.signing else []
    told += [f"allows {', '.join(target.allow_private)}"] if target.allow_private else []
    if target.remind != REMIND:
        told.append("every failure" if target.remind is None else f"reminds after {write_duration(target.remind)}")
    told += [f"within {write_duration(target.timeout)}"] if target.timeout != TIMEOUT else []
    return "; ".join(told + ([f"in {target.cwd}"] if target.cwd else []))
