"""Import of Hermes' `cron/jobs.json`."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rota.declare.importers.prompts import AGENT_KEPT, adapter_for, map_of, plain_prompt, texts_of, translate_entries
from rota.declare.importers.translation import (
    CronLibrary,
    ImportedJob,
    KeptKey,
    Reading,
    Source,
    Translation,
    Unmappable,
    every,
    first_of,
    five_fields,
    library_reading,
    once,
    plain_defaults,
    readable_cron,
    slug_for,
)
from rota.model.clock import iso
from rota.rules.schedule.timezone import zone

_SILENT = {
    *("id", "name", "prompt", "skills", "skill", "model", "provider", "script", "no_agent", "schedule", "workdir"),
    *("schedule_display", "repeat", "enabled", "state", "paused_at", "paused_reason", "created_at", "next_run_at"),
    *("last_run_at", "last_status", "last_error", "last_delivery_error", "deliver", "origin", "enabled_toolsets"),
    *("fire_claim", "run_claim", "context_from", "updated_at", "last_output", "profile"),
}
_KEPT = (
    *AGENT_KEPT,
    KeptKey("timeout: never", "Hermes has no limit of a whole run; rota's default is 10 min"),
    KeptKey("idle_timeout: 10m", "as in Hermes: a run without activity for so long ends"),
    KeptKey("retry: false", "Hermes does not retry; an agent has one attempt"),
    KeptKey("misfire: once", "as in Hermes: what was missed runs once"),
)


def import_hermes(source: Source) -> Translation:
    """Return the translation of the jobs of Hermes."""
    return translate_entries(
        source,
        "jobs",
        partial(_job, source=source),
        title_of=lambda body: " ".join(
            str(body.get("name") or body.get("prompt") or body.get("id") or "a job").split()
        )[:50],
        defaults=plain_defaults(misfire="once"),
        kept=_KEPT,
    )


def _job(
    body: Mapping[str, Any], line: int, *, source: Source, title: str, taken: Sequence[str]
) -> tuple[ImportedJob, list[str]]:
    told: list[str] = []
    if body.get("state") == "completed":
        raise Unmappable("it has run for the last time")
    when, reading = _when(map_of(body.get("schedule")), source)
    keys = {**when, **_work(body, told)}
    if body.get("enabled") is False or body.get("paused_at") or body.get("state") == "paused":
        keys["enabled"] = False
    if body.get("workdir"):
        keys["cwd"] = str(body["workdir"])
    times = map_of(body.get("repeat")).get("times")
    if times == 1 and "at" not in keys:
        keys["run_once"] = True
        reading = first_of(reading)
    elif isinstance(times, int) and times > 1:
        left = times - int(map_of(body.get("repeat")).get("completed") or 0)
        told.append(f"repeat: {left} more runs are not counted here; write `end_at` for its last day")
    if body.get("deliver") not in (None, "", "local"):
        way = "`deliver: {to: TARGET}` sends the answer to a target of `notify:`"
        told.append(f"deliver: {body['deliver']} is not mapped: {way}")
    if tools := texts_of(body.get("enabled_toolsets")):
        told.append(f"enabled_toolsets {', '.join(tools)} are not mapped: write `access` and `allowed_tools`")
    if body.get("context_from"):
        told.append("context_from is not mapped: `{{ runs.JOB.result }}` in a prompt stands for the answer of a job")
    told += [
        f"{key} has no counterpart"
        for key, value in body.items()
        if key not in _SILENT and value not in (None, [], "", False)
    ]
    name = slug_for(title, taken=taken)
    return ImportedJob(name, line, keys, (title,) if title != name else (), reading), told


def _when(schedule: Mapping[str, Any], source: Source) -> tuple[dict[str, Any], Reading]:
    kind = schedule.get("kind")
    if kind == "cron":
        expression = five_fields(str(schedule.get("expr", "")))
        readable_cron(expression)
        return {"cron": expression}, library_reading(expression, source.timezone, CronLibrary.CRONITER)
    if kind == "interval":
        minutes = schedule.get("minutes")
        if not isinstance(minutes, int) or minutes < 1:
            raise Unmappable(f"interval of {minutes!r} minutes")
        return {"interval": f"{minutes}m", "anchor": "start", "first_run": "after_interval"}, every(60 * minutes)
    if kind == "once":
        try:
            at = datetime.fromisoformat(str(schedule.get("run_at")))
        except ValueError:
            raise Unmappable(f"run_at {schedule.get('run_at')!r} is not a time") from None
        at = (at if at.tzinfo else at.replace(tzinfo=zone(source.timezone))).astimezone(UTC)
        if at <= source.now:
            raise Unmappable(f"its time {iso(at)} is over")
        return {"at": iso(at)}, once(at)
    raise Unmappable(f"schedule kind {kind!r} is not known" if kind else "it has no schedule")


def _shell_path(path: str) -> str:
    """Return a path as a shell reads it, with its home folder.

    >>> _shell_path("~/my scripts/watch.sh")
    "~/'my scripts/watch.sh'"
    """
    home, slash, rest = path.partition("/") if path.startswith("~") else ("", "", path)
    return home + slash + (shlex.quote(rest) if rest else "")


def _work(body: Mapping[str, Any], told: list[str]) -> dict[str, Any]:
    script = str(body.get("script") or "")
    path = _shell_path(script if script.startswith(("/", "~")) else f"~/.hermes/scripts/{script}")
    run = f"bash {path}" if script.endswith((".sh", ".bash")) else f"python3 {path}"
    if body.get("no_agent"):
        if not script:
            raise Unmappable("it has no_agent and no script")
        return {"shell": run}
    skills = texts_of(body.get("skills")) or ([str(body["skill"])] if body.get("skill") else [])
    prompt = str(body.get("prompt") or "").strip()
    if skills:
        prompt = f"Use the skills {', '.join(skills)}.\n\n{prompt}".strip()
        told.append(f"skills {', '.join(skills)}: the prompt names them; the agent needs skills of these names")
    if not prompt:
        raise Unmappable("it has neither a prompt nor a skill")
    adapter, model = adapter_for(str(body.get("model") or ""), str(body.get("provider") or ""))
    keys: dict[str, Any] = {"agent": adapter, **plain_prompt(prompt), "idle_timeout": "10m"}
    if model:
        keys["model"] = model
    elif body.get("model"):
        told.append(f"model {body['model']} is not mapped: it runs with {adapter} and its own model")
    if script:
        keys |= {"prompt": prompt + "\n\n{{ conditions.0.output }}", "conditions": [{"command": ["sh", "-c", run]}]}
        keys.pop("placeholders", None)
        told.append(
            f"script {script} runs as a condition, and its output stands below the prompt; exit 10 skips the run"
        )
        if "{{" in prompt:
            raise Unmappable("its prompt has braces `{{` and it has a script; write `\\{{` for the braces by hand")
    return keys
