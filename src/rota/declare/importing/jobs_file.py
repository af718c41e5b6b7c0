"""A jobs file of document 000 in rota's words: its keys as they are written there, and what has no place yet."""

from collections.abc import Mapping
from typing import Any

from rota.declare.files import Document
from rota.declare.importing.report import ImportedJob, Kept, Remark, Translation
from rota.declare.registry import BUILTIN_CONDITIONS
from rota.declare.spec import JobEntry
from rota.declare.values import WorkType
from rota.declare.writing import write_comment, write_entry, write_job, write_map
from rota.model.errors import FileProblems, Problem

_TYPES = {str(word) for word in WorkType}
_KEPT = {
    "timeout": ("never", "000 had no timeout; rota's default is 10 min"),
    "retry": (False, "000 never retried; rota's default is 3 attempts"),
}


def translate_jobs(document: Document, *, timezone: str) -> Translation:
    """Return the rota.yaml of a jobs file; raise FileProblems when it is no such file."""
    raw = _jobs(document)
    jobs: list[ImportedJob] = []
    by_hand: list[Remark] = []
    left_out: list[Remark] = []
    for name, body in raw.items():
        line = document.position(("jobs", name))[0]
        if trouble := _unmappable(body):
            left_out.append(Remark(line, f"{name} cannot be mapped yet: {trouble}"))
            continue
        keys, comments, remarks = _job(name, body, line=line)
        by_hand += remarks
        jobs.append(ImportedJob(name, line, keys, comments))
    modules = _modules(jobs)
    by_hand += _unknown_conditions(jobs, modules)
    return Translation(
        text=_text(jobs, raw, modules=modules, timezone=timezone, left_out=left_out),
        read=len(raw),
        jobs=tuple(jobs),
        timezone=timezone,
        kept=tuple(Kept(write_entry(key, value)[0], why) for key, (value, why) in _KEPT.items()),
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
        message = f"`{wrong[0]}` is no section of such a file" if wrong else "has no map of jobs under `jobs:`"
        hint = "a jobs file has `jobs:` alone, each job a map of keys; a rota.yaml needs no import"
        raise FileProblems([Problem(message, "jobs_file", document.file, line, column, hint=hint)])
    return raw


def _unmappable(body: Mapping[str, Any]) -> str:
    """Return why a job as a whole has no place in a rota.yaml of this version."""
    kind = body.get("type", "script")
    if kind not in _TYPES:
        return f"`type: {kind}` is not in this version; it is kept as a comment"
    return ""


def _job(name: str, body: Mapping[str, Any], *, line: int) -> tuple[dict[str, Any], tuple[str, ...], list[Remark]]:
    keys = {key: value for key, value in body.items() if key in JobEntry.model_fields}
    comments, remarks = [], []
    for key, value in body.items():
        if key in keys or (key, value) == ("group", "local"):
            continue
        comments.append(f"not mapped yet: {write_entry(key, value)[0]}")
        remarks.append(Remark(line, f"{name}: `{write_entry(key, value)[0]}` cannot be mapped yet{_meant(key)}"))
    if "group" not in body and "group" not in JobEntry.model_fields:
        remarks.append(Remark(line, f"{name} names no group, which 000 read as remote; here it runs without a poll"))
    return keys, tuple(comments), remarks


def _meant(key: str) -> str:
    return ": the job runs without the poll's data" if key == "group" else ""


def _modules(jobs: list[ImportedJob]) -> list[str]:
    functions = (str(job.keys.get("run", "")).partition(":") for job in jobs)
    return list(dict.fromkeys(module for module, colon, _ in functions if colon))


def _unknown_conditions(jobs: list[ImportedJob], modules: list[str]) -> list[Remark]:
    """Return the names whose modules the file cannot tell: those of conditions, and of plain functions."""
    conditions = [name for job in jobs for name in job.keys.get("conditions", ()) if name not in BUILTIN_CONDITIONS]
    plain = [run for job in jobs if (run := str(job.keys.get("run", ""))) and ":" not in run]
    remarks = []
    for what, names in (("conditions", conditions), ("functions", plain)):
        if names:
            listed = ", ".join(dict.fromkeys(map(str, names)))
            remarks.append(Remark(0, f"{what} {listed}: add the modules that register them to `imports:`"))
    if modules or conditions or plain:
        told = "`@register_job(name)` becomes `@rota.job(name)`, `@register_condition(name)` `@rota.condition(name)`"
        remarks.append(Remark(0, told))
    return remarks


def _text(
    jobs: list[ImportedJob], raw: Mapping[str, Any], *, modules: list[str], timezone: str, left_out: list[Remark]
) -> str:
    defaults = {key: value for key, (value, _) in _KEPT.items()}
    lines = [*write_entry("imports", modules), ""] if modules else []
    lines += [*write_entry("timezone", timezone), "", "defaults:", *write_map(defaults, depth=1), ""]
    lines.append("jobs:" if jobs else "jobs: {}")
    for job in jobs:
        lines += write_job(job.name, job.keys, comments=job.comments)
    written = {job.name for job in jobs}
    missing = [(name, body) for name, body in raw.items() if name not in written]
    for remark, (name, body) in zip(left_out, missing, strict=True):
        lines += ["", write_comment(remark.text, depth=1)]
        lines += [write_comment(line, depth=1) for line in write_job(name, body)]
    return "\n".join(lines) + "\n"
