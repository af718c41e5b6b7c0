"""Import of workflows of GitHub Actions with a `schedule:`."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rota.declare.importers.prompts import map_of
from rota.declare.importers.translation import (
    NO_VARIABLE,
    ImportedJob,
    KeptKey,
    Reading,
    Remark,
    Source,
    Translation,
    TranslationDraft,
    Unmappable,
    comments_above,
    cron_reading,
    duration_text,
    is_variable,
    plain_defaults,
    readable_cron,
    slug_for,
)
from rota.declare.yaml import Document, parse
from rota.model.errors import FileProblems, Problem

_CHECKOUT = "actions/checkout"
_SECRET = re.compile(r"\$\{\{\s*secrets\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
_TIMEOUT_MINUTES = 360
_MAPPED = {"name", "runs-on", "steps", "env", "timeout-minutes", "defaults", "permissions"}
_NEEDED = ("needs", "strategy", "container", "services", "uses")
"""Keys of a job without which its steps do not mean the same."""
_KEPT = (
    KeptKey("timezone: UTC", "GitHub reads the times of a schedule in UTC"),
    KeptKey("timeout: 6h", "GitHub's limit of a job; rota's default is 10 min"),
    KeptKey("retry: false", "GitHub does not retry; rota's default is 3 attempts"),
    KeptKey("shell_with: [bash, -eo, pipefail, -c]", "GitHub's own shell of steps"),
)


def import_github(source: Source) -> Translation:
    """Return the translation of a workflow: one job for each of its jobs, on the schedule of the workflow."""
    document = parse(source.content, source.file)
    if document.problems:
        raise FileProblems(document.problems)
    data = map_of(document.data)
    on = data.get("on", data.get("true"))
    if not isinstance(map_of(on).get("schedule"), list) or not isinstance(data.get("jobs"), dict):
        hint = "it needs `on: {schedule: [{cron: …}]}` and `jobs:`"
        raise FileProblems([Problem("has no schedule or no jobs", "import_file", source.file, 1, 1, hint=hint)])
    draft = TranslationDraft()
    key = "on" if "on" in data else "true"
    when, reading = _when(map_of(on)["schedule"], document, key, draft.left_out)
    title = str(data.get("name") or "")
    for name, body in data["jobs"].items():
        line = document.position(("jobs", name))[0]
        if not when:
            draft.left_out.append(Remark(line, f"{name}: the workflow has no time that can be mapped"))
            continue
        try:
            keys, remarks = _job(str(name), map_of(body), data, document)
        except Unmappable as error:
            draft.left_out.append(Remark(error.line or line, f"{name}: {error}"))
            continue
        draft.by_hand += remarks
        own = slug_for(f"{title} {name}" if len(data["jobs"]) > 1 and title else title or name, taken=draft.names)
        comments = comments_above(source.text.splitlines(), line)
        draft.jobs.append(ImportedJob(own, line, {**when, **keys}, comments, reading))
    if "concurrency" in data:
        told_once = "concurrency is not mapped: `overlap: forbid` is rota's default, `replace` ends the running one"
        draft.by_hand.append(Remark(document.position(("concurrency",))[0], told_once))
    for trigger in map_of(on):
        if trigger not in ("schedule", "workflow_dispatch"):
            draft.by_hand.append(
                Remark(document.position((key, trigger))[0], f"on.{trigger} is not mapped: rota starts jobs at times")
            )
    defaults = {**plain_defaults(misfire="skip"), "timeout": "6h", "shell_with": ["bash", "-eo", "pipefail", "-c"]}
    return draft.translation("UTC", defaults, read=len(data["jobs"]), kept=_KEPT)


def _when(
    entries: Sequence[Any], document: Document, key: str, left_out: list[Remark]
) -> tuple[dict[str, Any], Reading | None]:
    found: list[str] = []
    zones: set[str] = set()
    for index, entry in enumerate(entries):
        line = document.position((key, "schedule", index, "cron"))[0]
        expression, timezone = str(map_of(entry).get("cron", "")), str(map_of(entry).get("timezone") or "UTC")
        try:
            plain = readable_cron(expression, timezone)
        except Unmappable as error:
            left_out.append(Remark(line, f"cron {expression!r}: {error}"))
            continue
        if zones and timezone not in zones:
            left_out.append(
                Remark(line, f"cron {expression!r}: another timezone than the times before it; a job has one")
            )
            continue
        zones.add(timezone)
        found.append(plain)
    if not found:
        return {}, None
    (timezone,) = zones
    keys: dict[str, Any] = {"cron": found[0] if len(found) == 1 else found}
    keys |= {"timezone": timezone} if timezone != "UTC" else {}
    readings = [cron_reading(one, timezone) for one in found]
    return keys, lambda after, count: sorted({at for one in readings for at in one(after, count)})[:count]


def _job(
    name: str, body: Mapping[str, Any], workflow: Mapping[str, Any], document: Document
) -> tuple[dict[str, Any], list[Remark]]:
    remarks: list[Remark] = []

    def tell(path: tuple[str | int, ...], text: str) -> None:
        own = ("jobs", name, *path)
        of_workflow = path if path and own not in document.keys and path in document.keys else own
        remarks.append(Remark(document.position(of_workflow)[0], f"{name}: {text}"))

    steps = body.get("steps")
    if not isinstance(steps, list):
        raise Unmappable("it has no steps: a reusable workflow cannot be mapped")
    own, usual = (_run_defaults(one).get("working-directory") for one in (body, workflow))
    script, whole = _script(steps, tell, folder=str(own or usual or ""))
    if not script:
        raise Unmappable("none of its steps is a `run:`; actions run on GitHub alone")
    keys: dict[str, Any] = {"shell": script}
    if env := _environment({**map_of(workflow.get("env")), **map_of(body.get("env"))}, tell):
        keys["env"] = env
    minutes = body.get("timeout-minutes")
    if isinstance(minutes, int) and 0 < minutes < _TIMEOUT_MINUTES:
        keys["timeout"] = duration_text(60 * minutes)
    for key in body:
        if key not in _MAPPED:
            tell((key,), f"`{key}` is not mapped")
            whole = whole and key not in _NEEDED
    if _shell(workflow) or _shell(body):
        tell(("defaults",), "`defaults.run.shell` is not mapped: the job runs in bash")
        whole = False
    if not whole:
        keys["enabled"] = False
        tell((), "disabled, because parts of it are not mapped: complete the script, then remove `enabled: false`")
    return keys, remarks


def _run_defaults(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return map_of(map_of(body.get("defaults")).get("run"))


def _shell(body: Mapping[str, Any]) -> bool:
    return _run_defaults(body).get("shell") not in (None, "bash")


def _script(steps: Sequence[Any], tell: Any, *, folder: str) -> tuple[str, bool]:
    """Return the steps as one script, and whether it is whole. A step has a shell of its own, as at GitHub."""
    parts: list[str] = []
    whole = True
    for index, step in enumerate(steps):
        body = map_of(step)
        path = ("steps", index)
        if "run" in body:
            text = str(body["run"]).rstrip()
            for expression in dict.fromkeys(_EXPRESSION.findall(text)):
                tell((*path, "run"), f"`{expression}` is not filled here: put it into `env`")
                whole = False
            text = _EXPRESSION.sub(lambda match: "$" + re.sub(r"[^A-Za-z0-9]+", "_", match[0]).strip("_").upper(), text)
            own = str(body.get("working-directory") or folder)
            parts.append(f"cd {shlex.quote(own)}\n{text}" if own else text)
            for key in ("if", "shell", "env", "continue-on-error", "timeout-minutes"):
                if key in body and (key, body[key]) != ("shell", "bash"):
                    tell((*path, key), f"`{key}` of a step is not mapped")
                    whole = False
        elif str(body.get("uses", "")).startswith(_CHECKOUT):
            tell((*path, "uses"), "checkout is dropped: the job runs in the project's folder, as it is")
        else:
            tell((*path, "uses"), f"`uses: {body.get('uses')}` runs on GitHub alone")
            whole = False
    if len(parts) > 1:
        parts = [f"(\n{text}\n)" for text in parts]
    return "\n".join(parts) + ("\n" if "\n" in "".join(parts) else ""), whole


def _environment(env: Mapping[str, Any], tell: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in env.items():
        secret = _SECRET.fullmatch(str(value).strip())
        if not is_variable(str(name)):
            tell(("env", name), f"env {name} is not mapped: {NO_VARIABLE}")
        elif secret:
            found[name] = {"secret": secret[1]}
        elif _EXPRESSION.search(str(value)):
            tell(("env", name), f"env {name} = {value} is not mapped: its value is known on GitHub alone")
        else:
            found[name] = value
    return found
