"""Import of scheduled tasks of Claude Code."""

import re
from datetime import timedelta
from typing import Any

from rota.declare.importers.calendar import Unmappable
from rota.declare.importers.prompts import AGENT_KEPT, map_of, plain_prompt
from rota.declare.importers.translation import (
    ImportedJob,
    JsonEntry,
    KeptKey,
    Remark,
    Section,
    Source,
    Translation,
    cron_reading,
    first_of,
    json_entries,
    plain_defaults,
    remark,
    slug_for,
)
from rota.model.clock import from_ms
from rota.model.errors import InvalidCron
from rota.rules.schedule.cron import check_cron

_FRONT = re.compile(r"---\n(?P<head>.*?)\n---\n(?P<body>.*)", re.DOTALL)
_KNOWN = {"id", "cron", "prompt", "createdAt", "lastFiredAt", "recurring", "permanent", "durable", "agentId"}
EXPIRY = timedelta(days=7)
"""Claude Code removes a recurring task so long after it was created."""
_WORDS = 6
_KEPT = (
    *AGENT_KEPT,
    KeptKey("timeout: 60m", "a task ran in an open session without a limit; rota's default is 10 min"),
    KeptKey("retry: false", "an agent has one attempt"),
)


def import_claude(source: Source) -> Translation:
    """Return the translation of `.claude/scheduled_tasks.json`, or of the `SKILL.md` of one task."""
    if source.content.lstrip().startswith(b"---"):
        return _translation(source, [_skill(source)], [], [_told_without_times(source)])
    entries = json_entries(source.content, source.file, key="tasks")
    jobs: list[ImportedJob] = []
    by_hand: list[Remark] = []
    left_out: list[Remark] = []
    for entry in entries:
        try:
            job, told = _job(entry, source, taken=[job.name for job in jobs])
        except Unmappable as error:
            left_out.append(remark(entry.line, f"{map_of(entry.value).get('id', 'a task')}: {error}"))
            continue
        jobs.append(job)
        by_hand += [remark(entry.line, f"{job.name}: {text}") for text in told]
    return _translation(source, jobs, left_out, by_hand)


def _translation(source: Source, jobs: list[ImportedJob], left_out: list[Remark], by_hand: list[Remark]) -> Translation:
    defaults = {**plain_defaults(), "timeout": "60m", "agent": "claude"}
    return Translation(
        read=len(jobs) + len(left_out),
        sections=(Section("timezone", source.timezone), Section("defaults", defaults)),
        jobs=tuple(jobs),
        timezone=source.timezone,
        kept=_KEPT,
        by_hand=tuple(by_hand),
        left_out=tuple(left_out),
    )


def _job(entry: JsonEntry, source: Source, *, taken: list[str]) -> tuple[ImportedJob, list[str]]:
    body, told = map_of(entry.value), list[str]()
    prompt, expression = str(body.get("prompt") or "").strip(), str(body.get("cron") or "")
    if not prompt:
        raise Unmappable("it has no prompt")
    try:
        check_cron(expression)
    except InvalidCron as error:
        raise Unmappable(f"{error.message}; {error.hint}") from None
    keys: dict[str, Any] = {"cron": " ".join(expression.split()), **plain_prompt(prompt)}
    if not body.get("recurring"):
        keys["run_once"] = True
    elif not body.get("permanent"):
        created = body.get("createdAt")
        when = f" on {from_ms(created) + EXPIRY:%Y-%m-%d}" if isinstance(created, int) else ""
        told.append(f"Claude Code would remove it after 7 days{when}; here it stays: `end_at` sets a last day")
    if prompt.startswith("/"):
        told.append(f"{prompt.split()[0]} is a command or skill of the session; it must exist for `claude -p` too")
    told += [f"{key} has no counterpart" for key in body if key not in _KNOWN]
    name = slug_for(" ".join(prompt.split()[:_WORDS]), taken=taken)
    reading = cron_reading(expression, source.timezone)
    return ImportedJob(name, entry.line, keys, reading=reading if body.get("recurring") else first_of(reading)), told


def _skill(source: Source) -> ImportedJob:
    """Return the task of a SKILL.md, without its times: they are not in that file."""
    found = _FRONT.fullmatch(source.content.decode("utf-8", "replace").replace("\r\n", "\n"))
    head = dict(re.findall(r"^(\w+):\s*(.+?)\s*$", found["head"], re.MULTILINE)) if found else {}
    name = slug_for(head.get("name", "task").strip("\"'"), taken=())
    keys = plain_prompt((found["body"] if found else source.content.decode("utf-8", "replace")).strip())
    if head.get("description"):
        keys["description"] = head["description"].strip("\"'")[:1000]
    return ImportedJob(name, 1, keys)


def _told_without_times(source: Source) -> Remark:
    return remark(1, "the times of a task are not in its SKILL.md: write `cron:` into the job", file=source.file)
