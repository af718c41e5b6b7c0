"""Import of scheduled tasks of Claude Code."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from rota.declare.importers.prompts import AGENT_KEPT, plain_prompt, translate_entries
from rota.declare.importers.translation import (
    ImportedJob,
    KeptKey,
    Remark,
    Source,
    Translation,
    TranslationDraft,
    Unmappable,
    cron_reading,
    first_of,
    instant_from,
    plain_defaults,
    readable_cron,
    slug_for,
)

_FRONT = re.compile(r"---\n(?P<head>.*?)\n---\n(?P<body>.*)", re.DOTALL)
_KNOWN = {"id", "cron", "prompt", "createdAt", "lastFiredAt", "recurring", "permanent", "durable", "agentId"}
EXPIRY = timedelta(days=7)
"""Claude Code removes a recurring task so long after it was created."""
_WORDS = 6
_DEFAULTS = {**plain_defaults(), "timeout": "60m", "agent": "claude"}
_KEPT = (
    *AGENT_KEPT,
    KeptKey("timeout: 60m", "a task ran in an open session without a limit; rota's default is 10 min"),
    KeptKey("retry: false", "an agent has one attempt"),
)


def import_claude(source: Source) -> Translation:
    """Return the translation of `.claude/scheduled_tasks.json`, or of the `SKILL.md` of one task."""
    if not source.content.lstrip().startswith(b"---"):
        return translate_entries(
            source,
            "tasks",
            partial(_job, source=source),
            title_of=lambda body: " ".join(str(body.get("prompt") or body.get("id") or "a task").split()[:_WORDS]),
            defaults=_DEFAULTS,
            kept=_KEPT,
        )
    told = "the times of a task are not in its SKILL.md: write `cron:` into the job"
    draft = TranslationDraft([_skill(source)], [Remark(1, told, source.file)])
    return draft.translation(source.timezone, _DEFAULTS, read=1, kept=_KEPT)


def _job(
    body: Mapping[str, Any], line: int, *, source: Source, title: str, taken: Sequence[str]
) -> tuple[ImportedJob, list[str]]:
    told = list[str]()
    prompt, expression = str(body.get("prompt") or "").strip(), str(body.get("cron") or "")
    if not prompt:
        raise Unmappable("it has no prompt")
    keys: dict[str, Any] = {"cron": readable_cron(expression), **plain_prompt(prompt)}
    if not body.get("recurring"):
        keys["run_once"] = True
    elif not body.get("permanent"):
        created = instant_from(body.get("createdAt"))
        when = f" on {created + EXPIRY:%Y-%m-%d}" if created and created < source.now + EXPIRY else ""
        told.append(f"Claude Code would remove it after 7 days{when}; here it stays: `end_at` sets a last day")
    if prompt.startswith("/"):
        told.append(f"{prompt.split()[0]} is a command or skill of the session; it must exist for `claude -p` too")
    told += [f"{key} has no counterpart" for key in body if key not in _KNOWN]
    name = slug_for(title, taken=taken)
    reading = cron_reading(expression, source.timezone)
    return ImportedJob(name, line, keys, reading=reading if body.get("recurring") else first_of(reading)), told


def _skill(source: Source) -> ImportedJob:
    """Return the task of a SKILL.md, without its times: they are not in that file."""
    match = _FRONT.fullmatch(source.text.replace("\r\n", "\n"))
    head = dict(re.findall(r"^(\w+):\s*(.+?)\s*$", match["head"], re.MULTILINE)) if match else {}
    name = slug_for(head.get("name", "task").strip("\"'"), taken=())
    keys = plain_prompt((match["body"] if match else source.text).strip())
    if head.get("description"):
        keys["description"] = head["description"].strip("\"'")[:1000]
    return ImportedJob(name, 1, keys)
