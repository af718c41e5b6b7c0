"""Import of an octopoid jobs file."""

from collections.abc import Mapping, Sequence
from typing import Any

from rota.declare.export import write_comment, write_entry, write_job, write_map
from rota.declare.importers.crontab import ImportedJob, KeptKey, Translation, remark
from rota.declare.keys import JOB
from rota.declare.registry import BUILTIN_CONDITIONS
from rota.declare.types import PollGroup, WorkType
from rota.declare.yaml import Document
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


def translate_jobs(document: Document, *, timezone: str) -> Translation:
    """Return the rota.yaml of a jobs file; raise FileProblems when it is no such file."""
    raw = _jobs(document)
    jobs: list[ImportedJob] = []
    by_hand: list[Problem] = []
    left_out: list[Problem] = []
    for name, body in raw.items():
        line = document.position(("jobs", name))[0]
        if trouble := _unmappable(body):
            left_out.append(remark(line, f"{name} cannot be mapped: {trouble}"))
            continue
        keys, comments, remarks = _job(name, body, line=line)
        by_hand += remarks
        jobs.append(ImportedJob(name, line, keys, comments))
    poll, modules = _poll(jobs), _modules(jobs)
    by_hand += [*_about_poll(poll), *_about_names(jobs, modules)]
    return Translation(
        text=_text(jobs, raw, head=_head(poll, modules=modules, timezone=timezone), left_out=left_out),
        read=len(raw),
        jobs=tuple(jobs),
        timezone=timezone,
        kept=tuple(KeptKey(write_entry(key, value)[0], why) for key, (value, why) in _kept(poll).items()),
        by_hand=tuple(by_hand),
        left_out=tuple(left_out),
    )


def _jobs(document: Document) -> dict[str, Any]:
    if document.problems:
        raise FileProblems(document.problems)
    raw = document.data.get("jobs")
    wrong = [key for key in document.data if key != "jobs"]
    if not isinstance(raw, dict) or not all(isinstance(body, dict) for body in raw.values()) or wrong:
        line, column = document.position((wrong[0],)) if wrong else (1, 1)
        message = f"`{wrong[0]}` is not a section of such a file" if wrong else "has no map of jobs under `jobs:`"
        hint = "a jobs file has `jobs:` alone, each job a map of keys; a rota.yaml needs no import"
        raise FileProblems([Problem(message, "jobs_file", document.file, line, column, hint=hint)])
    return raw


def _unmappable(body: Mapping[str, Any]) -> str:
    kind = body.get("type", "script")
    if kind not in _TYPES:
        return f"`type: {kind}` is not supported; it is kept as a comment"
    return ""


def _job(name: str, body: Mapping[str, Any], *, line: int) -> tuple[dict[str, Any], tuple[str, ...], list[Problem]]:
    keys = {key: value for key, value in body.items() if key in JOB.keys}
    unknown = [write_entry(key, value)[0] for key, value in body.items() if key not in keys]
    remarks = [remark(line, f"{name}: `{entry}` cannot be mapped") for entry in unknown]
    if "group" not in body and not _is_remote(keys):
        told = f"{name} has no group, which octopoid read as remote; here it is local and runs without the poll's data"
        remarks.append(remark(line, f"{told}: add `group: remote` if it reads `ctx.poll_data`"))
    return keys, tuple(f"not mapped: {entry}" for entry in unknown), remarks


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


def _about_poll(poll: Mapping[str, Any] | None) -> list[Problem]:
    if poll is None:
        return []
    told = "poll.url: write the address of your server's poll, or `run: module:function` in its place"
    return [remark(0, f"{told}; until then jobs with `group: remote` are skipped as poll_failed")]


def _kept(poll: Mapping[str, Any] | None) -> dict[str, tuple[Any, str]]:
    if poll is None or "interval" not in poll:
        return _KEPT
    why = "octopoid asked when a remote job was due; rota's default is 15 s, 60 s or 300 s by mode"
    return {**_KEPT, "poll.interval": (poll["interval"], why)}


def _modules(jobs: Sequence[ImportedJob]) -> list[str]:
    functions = (str(job.keys.get("run", "")).partition(":") for job in jobs)
    return list(dict.fromkeys(module for module, colon, _ in functions if colon))


def _about_names(jobs: Sequence[ImportedJob], modules: Sequence[str]) -> list[Problem]:
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
    return [remark(0, text) for text in told]


def _head(poll: Mapping[str, Any] | None, *, modules: list[str], timezone: str) -> list[str]:
    lines = [*write_entry("imports", modules), ""] if modules else []
    defaults = {key: value for key, (value, _) in _KEPT.items()}
    lines += [*write_entry("timezone", timezone), "", "defaults:", *write_map(defaults, depth=1), ""]
    if poll is not None:
        lines += ["poll:", write_comment("fill in: what all jobs with `group: remote` share", depth=1)]
        lines += [*write_map(poll, depth=1), ""]
    return lines


def _text(
    jobs: Sequence[ImportedJob], raw: Mapping[str, Any], *, head: Sequence[str], left_out: Sequence[Problem]
) -> str:
    lines = [*head, "jobs:" if jobs else "jobs: {}"]
    for job in jobs:
        lines += write_job(job.name, job.keys, comments=job.comments)
    written = {job.name for job in jobs}
    missing = [(name, body) for name, body in raw.items() if name not in written]
    for left, (name, body) in zip(left_out, missing, strict=True):
        lines += ["", write_comment(left.message, depth=1)]
        lines += [write_comment(line, depth=1) for line in write_job(name, body)]
    return "\n".join(lines) + "\n"
