"""Import of an octopoid jobs file, a map of jobs by name or a list of jobs with names."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.declare.export import write_entry, write_job, write_value
from rota.declare.importers.translation import (
    ImportedJob,
    KeptKey,
    Remark,
    Section,
    Source,
    Translation,
    comments_above,
    comments_beside,
    every,
    free_name,
    plain_defaults,
)
from rota.declare.keys import JOB
from rota.declare.registry import BUILTIN_CONDITIONS
from rota.declare.types import PollGroup, WorkType
from rota.declare.yaml import Document, parse
from rota.model.errors import FileProblems, Problem

PLACEHOLDER = "https://poll.invalid/api/v1/scheduler/poll"
"""A host that cannot exist: each poll fails with a clear error until the address is written."""
_TYPES = {str(word) for word in WorkType}
_KEPT = {
    "timeout": ("never", "octopoid had no timeout; rota's default is 10 min"),
    "retry": (False, "octopoid never retried; rota's default is 3 attempts"),
}
_BUILT_IN = {
    "no_agents_running": "nothing draws on the pool `agents`",
    "has_open_prs": "`queue_counts.provisional` of the poll's data is above 0",
}
_AGENT = {"model": "haiku", "max_turns": 10, "allowed_tools": ["Read", "Grep", "Glob"]}
"""The defaults of an agent job in octopoid."""
STEP = 10
"""Between the priorities of two jobs there is room for another one."""


class _Entry(Struct, frozen=True):
    """One job of the file: its name there, its place, its keys and its comments."""

    name: str
    line: int
    body: Any
    comments: tuple[str, ...] = ()


def import_jobs_file(source: Source) -> Translation:
    """Return the translation of a jobs file."""
    return translate_jobs(parse(source.content, source.file), timezone=source.timezone, content=source.content)


def translate_jobs(document: Document, *, timezone: str, content: bytes = b"") -> Translation:
    """Return the rota.yaml of a jobs file; raise FileProblems when it is no such file."""
    lines = content.decode("utf-8", "replace").splitlines()
    entries = _entries(document, lines)
    jobs: list[ImportedJob] = []
    by_hand: list[Remark] = []
    left_out: list[Remark] = []
    for place, entry in enumerate(entries):
        if trouble := _unmappable(entry):
            kept = write_job(entry.name or "?", entry.body) if isinstance(entry.body, dict) else [f"  {entry.body}"]
            told = f"{entry.name or 'a job'} cannot be mapped: {trouble}"
            left_out.append(Remark(entry.line, told, lines=tuple(kept)))
            continue
        job, remarks = _job(entry, taken=[job.name for job in jobs])
        by_hand += remarks
        keys = {**job.keys, "priority": min(STEP * (len(entries) - place), 1000)} if len(entries) > 1 else job.keys
        jobs.append(replace(job, keys=keys))
    poll, modules = _poll(jobs), _modules(jobs)
    by_hand += [*_about_poll(poll), *_about_names(jobs, modules), *_about_order(jobs)]
    return Translation(
        read=len(entries),
        sections=_sections(jobs, poll, modules=modules, timezone=timezone),
        jobs=tuple(jobs),
        timezone=timezone,
        kept=tuple(KeptKey(write_entry(key, value)[0], why) for key, (value, why) in _kept(jobs, poll).items()),
        by_hand=tuple(by_hand),
        left_out=tuple(left_out),
        header=comments_above(lines, document.position(("jobs",))[0]),
    )


def _entries(document: Document, lines: Sequence[str]) -> list[_Entry]:
    if document.problems:
        raise FileProblems(document.problems)
    raw = document.data.get("jobs") if isinstance(document.data, dict) else None
    wrong = [key for key in document.data if key != "jobs"] if isinstance(document.data, dict) else []
    if not isinstance(raw, dict | list) or wrong:
        line, column = document.position((wrong[0],)) if wrong else (1, 1)
        message = f"`{wrong[0]}` is not a section of such a file" if wrong else "has no jobs under `jobs:`"
        hint = "a jobs file has `jobs:` alone, a map or a list of jobs; a rota.yaml needs no import"
        raise FileProblems([Problem(message, "jobs_file", document.file, line, column, hint=hint)])
    if isinstance(raw, dict):
        entries = [_Entry(str(name), document.position(("jobs", name))[0], body) for name, body in raw.items()]
    else:
        entries = [
            _Entry(str(body.get("name", "")) if isinstance(body, dict) else "", _first_line(document, index), body)
            for index, body in enumerate(raw)
        ]
    ends = [*(entry.line - 1 for entry in entries[1:]), len(lines)][: len(entries)]
    return [_commented(entry, lines, last=last) for entry, last in zip(entries, ends, strict=True)]


def _first_line(document: Document, index: int) -> int:
    at = ("jobs", index)
    return min((line for path, (line, _) in document.keys.items() if path[:2] == at), default=1)


def _commented(entry: _Entry, lines: Sequence[str], *, last: int) -> _Entry:
    above = comments_above(lines, entry.line)
    return replace(entry, comments=(*above, *comments_beside(lines, entry.line, last)))


def _unmappable(entry: _Entry) -> str:
    if not isinstance(entry.body, dict):
        return "it is not a map of keys"
    if not entry.name:
        return "it has no name"
    kind = entry.body.get("type", "script")
    if str(kind) not in _TYPES:
        return f"`type: {kind}` is not supported; it is kept as a comment"
    return ""


def _job(entry: _Entry, *, taken: Sequence[str]) -> tuple[ImportedJob, list[Remark]]:
    body, line = entry.body, entry.line
    name = free_name(re.sub(r"^[^A-Za-z0-9]+", "", entry.name) or "job", taken=taken)
    remarks = [Remark(line, f"{entry.name} is named {name}: a name begins with a letter or digit")]
    remarks = remarks if name != entry.name else []
    keys = {key: value for key, value in body.items() if key in JOB.keys}
    unknown = {key: value for key, value in body.items() if key not in keys and key != "name"}
    if body.get("type", "script") == "agent":
        more, told = _agent_keys(name, body)
        keys |= more
        remarks += [Remark(line, text) for text in told]
    elif not {"run", "command", "shell", "prompt"} & set(keys):
        keys["run"] = entry.name  # the function is registered under the name of its job
    if unknown.get("max_instances") == 1:
        del unknown["max_instances"]  # `overlap: forbid` is rota's default
    texts = [f"{key}: {write_value(value)}" for key, value in unknown.items()]
    remarks += [Remark(line, f"{name}: `{text}` cannot be mapped") for text in texts]
    if "group" not in body and not _is_remote(keys):
        told_group = f"{name} has no group, which octopoid read as remote; here it is local and runs without the poll's"
        remarks.append(Remark(line, f"{told_group} data: add `group: remote` if it reads `ctx.poll_data`"))
    comments = (*entry.comments, *(f"not mapped: {text}" for text in texts))
    interval = keys.get("interval")
    reading = every(interval) if isinstance(interval, int) else None
    return ImportedJob(name, line, keys, comments, reading), remarks


def _agent_keys(name: str, body: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the prompt of an agent whose instructions are in a folder of their own."""
    if {"prompt", "prompt_file"} & set(body):
        return {}, []
    config = body.get("agent_config")
    folder = str(config.get("agent_dir", "")) if isinstance(config, dict) else ""
    folder = folder or f".octopoid/agents/{body.get('blueprint') or name}"
    told = f"{name} has its task in {folder}: check that `prompt_file` names it, then remove `enabled: false`"
    return {"prompt_file": f"{folder.rstrip('/')}/prompt.md", "enabled": False}, [told]


def _is_remote(keys: Mapping[str, Any]) -> bool:
    """Return whether a job needs the poll: it says so, or a built-in condition looks at its data."""
    return keys.get("group") == PollGroup.REMOTE or any(BUILTIN_CONDITIONS.get(name) for name in _conditions(keys))


def _conditions(keys: Mapping[str, Any]) -> list[str]:
    written = keys.get("conditions")
    return [name for name in written if isinstance(name, str)] if isinstance(written, list) else []


def _poll(jobs: Sequence[ImportedJob]) -> dict[str, Any] | None:
    """Return the poll's section, None where no job needs one; octopoid asked as often as the most frequent of them."""
    remote = [job.keys.get("interval") for job in jobs if _is_remote(job.keys)]
    if not remote:
        return None
    whole = [interval for interval in remote if isinstance(interval, int)]
    return {"url": PLACEHOLDER, **({"interval": min(whole)} if whole else {})}


def _about_poll(poll: Mapping[str, Any] | None) -> list[Remark]:
    if poll is None:
        return []
    told = "poll.url: write the address of your server's poll, or `run: module:function` in its place"
    return [Remark(0, f"{told}; until then jobs with `group: remote` are skipped as poll_failed")]


def _about_order(jobs: Sequence[ImportedJob]) -> list[Remark]:
    if len(jobs) < 2:
        return []
    told = "octopoid ran due jobs one after another in this order; `priority` keeps the order in the queue"
    return [Remark(0, f"{told}: for one at a time add `scheduler: {{concurrency: 1}}`")]


def _agent_defaults(jobs: Sequence[ImportedJob]) -> dict[str, Any]:
    """Return octopoid's defaults of agent jobs, where a job relies on one."""
    agents = [job.keys for job in jobs if job.keys.get("type") == "agent"]
    return dict(_AGENT) if any(set(_AGENT) - set(keys) for keys in agents) else {}


def _kept(jobs: Sequence[ImportedJob], poll: Mapping[str, Any] | None) -> dict[str, tuple[Any, str]]:
    kept: dict[str, tuple[Any, str]] = dict(_KEPT)
    if defaults := _agent_defaults(jobs):
        kept["agents.claude.model"] = (defaults["model"], "octopoid's default model, with its turns and tools")
    if poll is not None and "interval" in poll:
        why = "octopoid asked when a remote job was due; rota's default is 15 s, 60 s or 300 s by mode"
        kept["poll.interval"] = (poll["interval"], why)
    return kept


def _modules(jobs: Sequence[ImportedJob]) -> list[str]:
    functions = (str(job.keys.get("run", "")).partition(":") for job in jobs)
    return list(dict.fromkeys(module for module, colon, _ in functions if colon))


def _about_names(jobs: Sequence[ImportedJob], modules: Sequence[str]) -> list[Remark]:
    """Return what is to be known of the names whose modules the file cannot tell: conditions, and plain functions."""
    conditions = list(dict.fromkeys(name for job in jobs for name in _conditions(job.keys)))
    plain = list(dict.fromkeys(run for job in jobs if (run := str(job.keys.get("run", ""))) and ":" not in run))
    told = [f"condition {name} is built in: {_BUILT_IN[name]}" for name in conditions if name in _BUILT_IN]
    if told:
        told[-1] += "; one that a module of `imports:` registers replaces it"
    for what, names in (
        ("conditions", [name for name in conditions if name not in BUILTIN_CONDITIONS]),
        ("functions", plain),
    ):
        if names:
            told.append(f"{what} {', '.join(names)}: add the modules that register them to `imports:`")
    if modules or conditions or plain:
        told.append(
            "`@register_job(name)` is `@rota.job(name)`, `@register_condition(name)` is `@rota.condition(name)`"
        )
    return [Remark(0, text) for text in told]


def _sections(
    jobs: Sequence[ImportedJob], poll: Mapping[str, Any] | None, *, modules: list[str], timezone: str
) -> tuple[Section, ...]:
    sections = [Section("imports", modules)] if modules else []
    sections += [Section("timezone", timezone), Section("defaults", plain_defaults())]
    if defaults := _agent_defaults(jobs):
        sections.append(Section("agents", {"claude": defaults}))
    if poll is not None:
        sections.append(Section("poll", poll, "fill in: what all jobs with `group: remote` share"))
    return tuple(sections)
