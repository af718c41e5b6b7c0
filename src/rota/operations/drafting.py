"""Drafts: a job as a person fills in a form, checked with the messages of the file while it is written."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rota.declare.differences import differences
from rota.declare.exporting import Top, export_keys
from rota.declare.files import parse
from rota.declare.notes import notes_on, refuse_past
from rota.declare.writing import write_job, write_map
from rota.model.errors import FileProblems, Problem, RotaError
from rota.model.records import Job
from rota.model.spec import JobSpec, Kind
from rota.operations.api_jobs import put, read_job
from rota.operations.declaring import FILE
from rota.operations.jobs import JobView, project_timezone
from rota.rules.coming import Fire, next_fires
from rota.rules.instants import explain_schedule
from rota.rules.schedule_text import read_schedule_text, write_schedule_text
from rota.store import jobs
from rota.store.driver import Store

KINDS = ("command", "shell", "prompt")
FIRES = 10
UNNAMED = "new-job"
LONGEST = 20_000
_WHEN = ("cron", "interval", "at")
_PLAIN = ("timezone", "timeout", "description", "agent")
_PLACES = {"cron": "schedule", "interval": "schedule", "at": "schedule", "command": "work", "shell": "work"}
"""The field of the form in which each key is written, where it is not that of the same name."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A job as a form has it, all of it text; `others` are further keys as a file writes them."""

    name: str = ""
    kind: str = "command"
    work: str = ""
    agent: str = ""
    schedule: str = ""
    timezone: str = ""
    timeout: str = ""
    labels: str = ""
    description: str = ""
    others: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a draft, and in which field; none: with the whole of it."""

    field: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """A draft, what is wrong with it, and as far as it can be told: what it means, when it fires, how a file says it.

    `changes` is what would differ from the job that it replaces.
    """

    draft: Draft
    troubles: tuple[Trouble, ...]
    spec: JobSpec | None
    reading: str
    fires: tuple[Fire, ...]
    zone: str
    text: str
    notes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    def of(self, field: str) -> tuple[Trouble, ...]:
        """Return what is wrong in one field."""
        return tuple(one for one in self.troubles if one.field == field)


@dataclass(frozen=True, slots=True)
class Workshop:
    """The project for which drafts are checked."""

    store: Store
    folder: Path
    state: Path
    environ: Mapping[str, str]


def draft_from(values: Mapping[str, str]) -> Draft:
    """Return the draft that a form sent; fields that it lacks are empty."""
    found = Draft(**{one.name: values.get(one.name, "")[:LONGEST].replace("\r\n", "\n") for one in fields(Draft)})
    return found if found.kind in KINDS else replace(found, kind=KINDS[0])


def draft_of(shop: Workshop, job: Job, *, name: str) -> Draft:
    """Return a stored job as a draft: to change it, or under another name to make one like it."""
    zone = project_timezone(shop.store)
    keys = export_keys(job.spec, Top(str(shop.folder), timezone=zone))
    kind = next((kind for kind in KINDS if kind in keys), KINDS[0])
    work = keys.pop(kind, "")
    when = {key: keys.pop(key) for key in _WHEN if isinstance(keys.get(key), str)}
    plain = {key: str(keys.pop(key)) for key in _PLAIN if isinstance(keys.get(key), str)}
    return Draft(
        name=name,
        kind=kind,
        work=work if isinstance(work, str) else shlex.join(work),
        schedule=write_schedule_text(when),
        labels=", ".join(keys.pop("labels", ())),
        others="\n".join(write_map(keys)) + "\n" if keys else "",
        **plain,
    )


def check_draft(shop: Workshop, draft: Draft, *, now: datetime, replacing: Job | None = None) -> Checked:
    """Return what a draft means and what is wrong with it; nothing is stored."""
    zone = draft.timezone.strip() or project_timezone(shop.store)
    keys, troubles = _keys(draft, zone=zone, now=now)
    troubles += _name_troubles(shop, draft, replacing)
    spec, told = _read(shop, draft.name.strip() or UNNAMED, keys)
    troubles += told
    if spec is not None and (replacing is None or replacing.spec.schedule.at != spec.schedule.at):
        troubles += _past_troubles(spec, now)
    unclear = any(one.field == "schedule" for one in troubles)
    when = None if unclear else spec or _schedule_alone(shop, keys)
    return Checked(
        draft=draft,
        troubles=tuple(troubles),
        spec=spec if not troubles else None,
        reading=explain_schedule(when.schedule) if when else "",
        fires=tuple(next_fires(when.schedule, now, FIRES, name=when.name)) if when else (),
        zone=when.schedule.timezone if when else zone,
        text="\n".join(["jobs:", *write_job(draft.name.strip() or UNNAMED, keys)]) + "\n",
        notes=notes_on([spec], now=now, environ=shop.environ) if spec else (),
        changes=differences(replacing.spec, spec) if replacing and spec else (),
    )


def save_draft(shop: Workshop, checked: Checked, *, now: datetime, new: bool) -> JobView:
    """Store a draft that is right as a job of the API; JobProblems tells what is not."""
    if checked.spec is None:
        problems = [Problem(one.message, "invalid_value", path=one.field, hint=one.hint) for one in checked.troubles]
        raise FileProblems(problems)
    return put(shop.store, checked.spec, new=new, now=now)[0]


def _keys(draft: Draft, *, zone: str, now: datetime) -> tuple[dict[str, Any], list[Trouble]]:
    """Return the keys that a draft gives, in the order of a file, and what of it cannot be read."""
    troubles: list[Trouble] = []
    keys: dict[str, Any] = {}
    try:
        keys |= read_schedule_text(draft.schedule, tz=zone, now=now)
    except RotaError as error:
        troubles.append(Trouble("schedule", error.message, error.hint or ""))
    told = {key: value.strip() for key, value in asdict(draft).items()}
    keys |= {draft.kind: draft.work} if draft.work.strip() else {}
    keys |= {key: told[key] for key in _PLAIN if told[key] and (key != "agent" or draft.kind == "prompt")}
    labels = [label.strip() for label in draft.labels.split(",") if label.strip()]
    keys |= {"labels": labels} if labels else {}
    others, wrong = _others(draft)
    troubles += wrong
    troubles += [Trouble("others", f"{key} is set above already") for key in others if key in keys]
    return keys | {key: value for key, value in others.items() if key not in keys}, troubles


def _others(draft: Draft) -> tuple[Mapping[str, Any], list[Trouble]]:
    if not draft.others.strip():
        return {}, []
    try:
        document = parse(draft.others.encode("utf-8", "replace"))
    except FileProblems as error:
        return {}, [_in_others(one) for one in error.problems]
    return document.data, [_in_others(one) for one in document.problems]


def _in_others(problem: Problem) -> Trouble:
    place = f"line {problem.line}: " if problem.line else ""
    return Trouble("others", f"{place}{problem.message}", problem.hint)


def _name_troubles(shop: Workshop, draft: Draft, replacing: Job | None) -> list[Trouble]:
    """Return why a name cannot be had: it is missing, or another job has it."""
    name = draft.name.strip()
    if not name:
        return [Trouble("name", "the job has no name", "such as backup-db")]
    known = {one.casefold(): one for one in shop.store.read(jobs.job_names)}
    taken = known.get(name.casefold())
    if taken is None or (replacing is not None and taken == replacing.name):
        return []
    return [Trouble("name", f"there is a job {taken!r} already", "choose another name")]


def _read(shop: Workshop, name: str, keys: Mapping[str, Any]) -> tuple[JobSpec | None, list[Trouble]]:
    try:
        return read_job(name, keys, folder=shop.folder, state=shop.state, environ=shop.environ), []
    except FileProblems as error:
        return None, [_trouble(one, name) for one in error.problems]
    except RotaError as error:
        return None, [Trouble("", error.message, error.hint or "")]


def _past_troubles(spec: JobSpec, now: datetime) -> list[Trouble]:
    try:
        refuse_past(spec, now=now)
    except FileProblems as error:
        return [_trouble(one, spec.name) for one in error.problems]
    return []


def _trouble(problem: Problem, name: str) -> Trouble:
    """Return a problem at the field in which its key is written."""
    below = problem.path.removeprefix("jobs").removeprefix(f".{name}").lstrip(".")
    key = below.partition(".")[0].partition("[")[0]
    known = {one.name for one in fields(Draft)}
    if not key:
        return Trouble("name" if "name" in problem.message else "work", problem.message, problem.hint)
    place = _PLACES.get(key, key)
    place = "work" if key == "prompt" else place if place in known else "others"
    message = problem.message if place == key or place in ("schedule", "work") else f"{below}: {problem.message}"
    return Trouble(place, message, problem.hint)


def _schedule_alone(shop: Workshop, keys: Mapping[str, Any]) -> JobSpec | None:
    """Return a job that only has the schedule of a draft: it can be told before the rest is right."""
    when = {key: value for key, value in keys.items() if key in (*_WHEN, "timezone", "jitter", "except", "quiet_hours")}
    return _read(shop, UNNAMED, {**when, "command": ["true"]})[0]


def may_change(job: Job) -> bool:
    """Tell whether a job can be changed here: one of a file is changed there, one of an agent by its maker."""
    return not job.source.startswith(FILE) and job.made is None


def may_copy(job: Job) -> bool:
    """Tell whether a job like this can be made here: functions, groups and the poll belong to the file."""
    return job.spec.work.kind in (Kind.COMMAND, Kind.SHELL, Kind.AGENT)
