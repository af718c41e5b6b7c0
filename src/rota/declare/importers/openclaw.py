"""Import of OpenClaw's cron table, `jobs.json`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rota.declare.importers.prompts import AGENT_KEPT, adapter_for, map_of, plain_prompt, translate_entries
from rota.declare.importers.translation import (
    CronLibrary,
    ImportedJob,
    KeptKey,
    Reading,
    Source,
    Translation,
    Unmappable,
    duration_text,
    every,
    five_fields,
    instant_from,
    library_reading,
    once,
    plain_defaults,
    readable_cron,
    slug_for,
)
from rota.model.clock import iso

_KNOWN = {
    *("id", "jobId", "agentId", "sessionKey", "name", "description", "enabled", "deleteAfterRun", "createdAtMs"),
    *("updatedAtMs", "schedule", "sessionTarget", "wakeMode", "payload", "delivery", "state", "createdAt", "updatedAt"),
}
_KIND_OF = {"expr": "cron", "everyMs": "every", "at": "at", "atMs": "at"}
"""The kind of a schedule that does not name it, by a key."""
_LONGEST_MS = 3_650 * 86_400_000
_OF_PAYLOAD = {"kind", "message", "model", "timeoutSeconds", "deliver", "channel", "to", "bestEffortDeliver"}
_OF_COMMAND = {"kind", "argv", "command", "cwd", "timeoutSeconds"}
_KEPT = (
    *AGENT_KEPT,
    KeptKey("timeout: 60m", "OpenClaw's limit of an isolated run; rota's default is 10 min"),
    KeptKey("retry: false", "an agent has one attempt"),
)


def import_openclaw(source: Source) -> Translation:
    """Return the translation of a cron table of OpenClaw."""
    return translate_entries(
        source,
        "jobs",
        partial(_job, source=source),
        title_of=lambda body: str(body.get("name") or body.get("id") or "a job"),
        defaults={**plain_defaults(), "timeout": "60m"},
        kept=_KEPT,
    )


def _job(
    body: Mapping[str, Any], line: int, *, source: Source, title: str, taken: Sequence[str]
) -> tuple[ImportedJob, list[str]]:
    told: list[str] = []
    name = slug_for(title, taken=taken)
    when, reading = _when(map_of(body.get("schedule")), body, source, told)
    keys = {**when, **_work(map_of(body.get("payload")), told)}
    if body.get("enabled") is False:
        keys["enabled"] = False
    if body.get("description"):
        keys["description"] = str(body["description"])[:1000]
    if str(body.get("sessionTarget") or "").startswith(("session:", "current")):
        told.append(
            f"sessionTarget {body['sessionTarget']} is not mapped: `session: resume` continues the last session"
        )
    delivery = map_of(body.get("delivery"))
    told += _about_delivery(delivery)
    if body.get("agentId") not in (None, "main", "default"):
        told.append(f"agentId {body['agentId']} is not mapped: write an entry under `agents:` and name it")
    told += [f"{key} has no counterpart" for key in body if key not in _KNOWN]
    comments = (title,) if title != name else ()
    return ImportedJob(name, line, keys, comments, reading), told


def _when(
    schedule: Mapping[str, Any], body: Mapping[str, Any], source: Source, told: list[str]
) -> tuple[dict[str, Any], Reading]:
    kind = schedule.get("kind") or next((kind for key, kind in _KIND_OF.items() if key in schedule), None)
    if kind == "cron":
        return _cron(schedule, source, told)
    if kind == "every":
        milliseconds = schedule.get("everyMs")
        if not isinstance(milliseconds, int | float) or not 1000 <= milliseconds <= _LONGEST_MS:
            raise Unmappable(f"everyMs {milliseconds!r} is no number from a second to ten years")
        anchor = instant_from(schedule.get("anchorMs") or body.get("createdAtMs"))
        keys: dict[str, Any] = {"interval": duration_text(milliseconds / 1000), "anchor": "fixed"}
        if milliseconds % 1000:
            told.append(f"everyMs {milliseconds} is written as {keys['interval']}: an interval has whole seconds")
        if anchor is not None:
            keys["start_at"] = iso(anchor)
            return keys, _grid(anchor, milliseconds / 1000)
        return keys, every(milliseconds / 1000)
    if kind == "at":
        return _at(schedule.get("at", schedule.get("atMs")), source)
    raise Unmappable(f"schedule kind {kind!r} starts it on an event, not at a time" if kind else "it has no schedule")


def _cron(schedule: Mapping[str, Any], source: Source, told: list[str]) -> tuple[dict[str, Any], Reading]:
    expression = str(schedule.get("expr", schedule.get("expression", "")))
    timezone = str(schedule.get("tz") or schedule.get("timezone") or source.timezone)
    plain = five_fields(expression)
    readable_cron(plain, timezone)
    keys: dict[str, Any] = {"cron": plain}
    if timezone != source.timezone:
        keys["timezone"] = timezone
    stagger = schedule.get("staggerMs")
    if isinstance(stagger, int | float) and 1000 <= stagger <= _LONGEST_MS:
        keys["jitter"] = duration_text(stagger / 1000)
    elif stagger is None and plain.split()[0] == "0" and plain.split()[1].startswith("*"):
        told.append("OpenClaw starts it up to 5 minutes after the hour; `jitter: 5m` would do the same")
    return keys, library_reading(plain, timezone, CronLibrary.CRONER)


def _at(value: Any, source: Source) -> tuple[dict[str, Any], Reading]:
    try:
        at = instant_from(value) or datetime.fromisoformat(str(value))
    except ValueError:
        raise Unmappable(f"{value!r} is not a time") from None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    if at <= source.now:
        raise Unmappable(f"its time {iso(at)} is over")
    return {"at": iso(at)}, once(at)


def _grid(anchor: datetime, seconds: float) -> Reading:
    """Return the reading of OpenClaw's own rule: the anchor, then every multiple of the interval."""

    def read(after: datetime, count: int) -> list[datetime]:
        step = round(seconds)
        begin = int(anchor.timestamp())
        number = max(0, (int(after.timestamp()) - begin) // step + 1)
        times = [begin + (number + index) * step for index in range(count)]
        return [datetime.fromtimestamp(at, UTC).replace(microsecond=anchor.microsecond) for at in times]

    return read


def _work(payload: Mapping[str, Any], told: list[str]) -> dict[str, Any]:
    kind = payload.get("kind")
    known = _OF_COMMAND if kind == "command" else _OF_PAYLOAD
    told += [f"payload.{key} has no counterpart" for key in payload if key not in known]
    seconds = payload.get("timeoutSeconds")
    limit = {"timeout": duration_text(seconds)} if isinstance(seconds, int) and seconds > 0 else {}
    if kind == "command" and (words := payload.get("argv") or payload.get("command")):
        work = {"command": words} if isinstance(words, list) else {"shell": str(words)}
        return work | limit | ({"cwd": str(payload["cwd"])} if payload.get("cwd") else {})
    if kind == "systemEvent":
        raise Unmappable("a systemEvent is a text for OpenClaw's main session, which rota does not have")
    if kind != "agentTurn" or not payload.get("message"):
        raise Unmappable(f"payload kind {kind!r} has no counterpart")
    adapter, model = adapter_for(str(payload.get("model") or ""))
    keys: dict[str, Any] = {"agent": adapter, **plain_prompt(str(payload["message"]))}
    if model:
        keys["model"] = model
    if payload.get("model") and not model:
        told.append(f"model {payload['model']} is not mapped: it runs with claude and its own model")
    return keys | limit


def _about_delivery(delivery: Mapping[str, Any]) -> list[str]:
    mode, to = delivery.get("mode"), " ".join(str(delivery[key]) for key in ("channel", "to") if delivery.get(key))
    if mode == "webhook":
        return [f"delivery to {to}: write `notify: {{on: [completed, failed], webhook: …}}`"]
    if mode == "announce" or to:
        told = "`deliver: {to: TARGET}` sends the answer to a target of `notify:`"
        return [f"delivery to {to or 'the last chat'} is not mapped: {told}"]
    return []
