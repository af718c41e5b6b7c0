"""Changes of a project's file: new jobs, drafts and set-up."""

import contextlib
import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from rota.agents.registry import AgentProbe, adapter, probe_all
from rota.declare.entries import notes_on, refuse_past
from rota.declare.export import Insertion, Top, export_keys, insert_job, write_job, write_map
from rota.declare.plan import differences
from rota.declare.project import Declared
from rota.declare.readers.calendar import local_zone, plain_name
from rota.declare.schema import json_schema
from rota.declare.yaml import parse
from rota.model.errors import FileExists, FileProblems, InvalidValue, Problem, RotaError, StateError
from rota.model.records import Job
from rota.model.spec import JobSpec, Kind
from rota.operations.jobs import JobView, project_timezone
from rota.operations.project.apply import FILE, put, read_job
from rota.operations.project.load import load_project
from rota.operations.project.locate import ProjectPaths, make_state
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.phrases import read_schedule_text, write_schedule_text
from rota.rules.schedule.preview import UpcomingFire, next_fires
from rota.settings import FILE_NAME, STATE_NAME
from rota.store.driver import Store
from rota.store.rows import write_json
from rota.store.sqlite.store import sync
from rota.store.tables import jobs


class Added(Struct, frozen=True):
    """A job that is added to the file, or would be."""

    spec: JobSpec
    file: Path
    insertion: Insertion
    declared: Declared
    notes: tuple[str, ...] = ()


def add_job(
    place: ProjectPaths,
    name: str,
    keys: Mapping[str, Any],
    *,
    environ: Mapping[str, str],
    now: datetime,
    dry_run: bool = False,
) -> Added:
    """Add a job to the project's file; raise FileProblems if the file has problems with or without it.

    Inside an included project, change the file of that project, and check it as included.
    """
    file = Path(os.path.realpath(place.nearest / FILE_NAME))
    load_project(place.folder, environ, now=now)
    before = file.read_bytes()
    insertion = insert_job(before, name, keys)
    try:
        declared = load_project(place.folder, environ, now=now, content=insertion.content, inner=place.inner).declared
        full_name = f"{place.scope}/{name}" if place.scope else name
        spec = next(spec for spec in declared.jobs if spec.name == full_name)
        refuse_past(spec, now=now)
    except FileProblems as error:
        raise FileProblems([_unplaced(problem, name) for problem in error.problems]) from None
    if not dry_run:
        replace_file(file, insertion.content, before=before)
    return Added(spec, file, insertion, declared, notes_on([spec], now=now, environ=environ))


def _unplaced(problem: Problem, name: str) -> Problem:
    """Return a problem of the new lines without a position: they are in no file yet."""
    ours = f"{problem.path}.".startswith(f"jobs.{name}.")
    return replace(problem, file="rota add", line=0, column=0) if ours else problem


def read_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Return the keys of `--set key=value`; a dot leads into a map, and values are read as YAML.

    >>> read_settings(["timeout=1h", "env.LANG=C", "labels=[a, b]"])
    {'timeout': '1h', 'env': {'LANG': 'C'}, 'labels': ['a', 'b']}
    """
    keys: dict[str, Any] = {}
    for setting in settings:
        path, sign, value = setting.partition("=")
        parts = path.strip().split(".")
        if not sign or not all(parts):
            raise InvalidValue(f"{setting!r} sets nothing", hint="write --set key=value, such as --set timeout=1h")
        _set(keys, parts, _value(value), setting)
    return keys


def _set(keys: dict[str, Any], parts: Sequence[str], value: Any, setting: str) -> None:
    for part in parts[:-1]:
        keys = keys.setdefault(part, {})
        if not isinstance(keys, dict):
            raise InvalidValue(f"{setting!r} sets a key of a value that is not a map", hint="give each key one value")
    if parts[-1] in keys:
        raise InvalidValue(f"{setting!r} sets a key that is already set", hint="give each key one value")
    keys[parts[-1]] = value


def _value(text: str) -> Any:
    """Return the YAML value of a text; a text that is no YAML stays a text."""
    try:
        document = parse(f"value: {text}\n".encode())
    except FileProblems:
        return text
    plain = not document.problems and set(document.data) == {"value"}
    return document.data["value"] if plain and document.data["value"] is not None else text


def replace_file(file: Path, content: bytes, *, before: bytes) -> None:
    """Replace a file atomically, with the same mode; refuse if its content is no longer `before`."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        if file.read_bytes() != before:
            raise InvalidValue(f"{file} changed meanwhile", hint="nothing was written; run the command again")
        _write(fresh, content, mode=file.stat().st_mode & 0o7777)
        os.replace(fresh, file)
        sync(file.parent)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise StateError(f"cannot write {file}: {error.strerror}", hint="nothing was changed; check its mode") from None


def _write(path: Path, content: bytes, *, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)


KINDS = ("command", "shell", "prompt")
FIRES = 10
UNNAMED = "new-job"
MAX_FIELD_LENGTH = 20_000
_WHEN = ("cron", "interval", "at")
_PLAIN = ("timezone", "timeout", "description", "agent")
_PLACES = {"cron": "schedule", "interval": "schedule", "at": "schedule", "command": "work", "shell": "work"}
"""The form field of each key that has a field of another name."""


class Draft(Struct, frozen=True):
    """A job in a form, all fields as text; `others` are further keys in YAML."""

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


class DraftProblem(Struct, frozen=True):
    """A problem of a draft and its field; without a field, a problem of the whole draft."""

    field: str
    message: str
    hint: str = ""


class CheckedDraft(Struct, frozen=True):
    """A draft, its problems, and as far as possible its meaning, next fires and YAML.

    `changes` are the differences from the job that it replaces.
    """

    draft: Draft
    troubles: tuple[DraftProblem, ...]
    spec: JobSpec | None
    reading: str
    fires: tuple[UpcomingFire, ...]
    zone: str
    text: str
    notes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    def of(self, field: str) -> tuple[DraftProblem, ...]:
        """Return the problems of one field."""
        return tuple(problem for problem in self.troubles if problem.field == field)


class DraftValidator(Struct, frozen=True):
    """The project for which drafts are checked."""

    store: Store
    folder: Path
    state: Path
    environ: Mapping[str, str]


def draft_from(values: Mapping[str, str]) -> Draft:
    """Return the draft of a form; absent fields are empty."""
    names = [field.name for field in fields(Draft)]
    draft = Draft(**{name: values.get(name, "")[:MAX_FIELD_LENGTH].replace("\r\n", "\n") for name in names})
    return draft if draft.kind in KINDS else replace(draft, kind=KINDS[0])


def draft_of(shop: DraftValidator, job: Job, *, name: str) -> Draft:
    """Return a stored job as a draft: to change it, or to create a similar one under another name."""
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


def check_draft(shop: DraftValidator, draft: Draft, *, now: datetime, replacing: Job | None = None) -> CheckedDraft:
    """Return the meaning and the problems of a draft; nothing is stored."""
    zone = draft.timezone.strip() or project_timezone(shop.store)
    keys, troubles = _keys(draft, zone=zone, now=now)
    troubles += _name_troubles(shop, draft, replacing)
    spec, problems = _read(shop, draft.name.strip() or UNNAMED, keys)
    troubles += problems
    if spec is not None and (replacing is None or replacing.spec.schedule.at != spec.schedule.at):
        try:
            refuse_past(spec, now=now)
        except FileProblems as error:
            troubles += [_trouble(problem, spec.name) for problem in error.problems]
    when = spec
    if any(trouble.field == "schedule" for trouble in troubles):
        when = None
    elif spec is None:  # the schedule has a meaning before the rest is complete
        schedule_keys = (*_WHEN, "timezone", "jitter", "except", "quiet_hours")
        alone = {key: value for key, value in keys.items() if key in schedule_keys}
        when = _read(shop, UNNAMED, {**alone, "command": ["true"]})[0]
    return CheckedDraft(
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


def save_draft(shop: DraftValidator, checked: CheckedDraft, *, now: datetime, new: bool) -> JobView:
    """Store a valid draft as a job of the API; raise FileProblems for an invalid one."""
    if checked.spec is None:
        problems = [
            Problem(problem.message, "invalid_value", at=(problem.field,), hint=problem.hint)
            for problem in checked.troubles
        ]
        raise FileProblems(problems)
    return put(shop.store, checked.spec, new=new, now=now)[0]


def _keys(draft: Draft, *, zone: str, now: datetime) -> tuple[dict[str, Any], list[DraftProblem]]:
    """Return the keys of a draft, in the order of a file, and its unreadable fields."""
    troubles: list[DraftProblem] = []
    keys: dict[str, Any] = {}
    try:
        keys |= read_schedule_text(draft.schedule, tz=zone, now=now)
    except RotaError as error:
        troubles.append(DraftProblem("schedule", error.message, error.hint or ""))
    texts = {key: value.strip() for key, value in asdict(draft).items()}
    keys |= {draft.kind: draft.work} if texts["work"] else {}
    keys |= {key: texts[key] for key in _PLAIN if texts[key] and (key != "agent" or draft.kind == "prompt")}
    labels = [label.strip() for label in draft.labels.split(",") if label.strip()]
    keys |= {"labels": labels} if labels else {}
    others, wrong = _others(draft)
    troubles += wrong
    troubles += [DraftProblem("others", f"{key} is already set above") for key in others if key in keys]
    return keys | {key: value for key, value in others.items() if key not in keys}, troubles


def _others(draft: Draft) -> tuple[Mapping[str, Any], list[DraftProblem]]:
    if not draft.others.strip():
        return {}, []
    try:
        document = parse(draft.others.encode("utf-8", "replace"))
    except FileProblems as error:
        return {}, [_in_others(problem) for problem in error.problems]
    return document.data, [_in_others(problem) for problem in document.problems]


def _in_others(problem: Problem) -> DraftProblem:
    place = f"line {problem.line}: " if problem.line else ""
    return DraftProblem("others", f"{place}{problem.message}", problem.hint)


def _name_troubles(shop: DraftValidator, draft: Draft, replacing: Job | None) -> list[DraftProblem]:
    """Return the problem of a name: it is missing, or another job has it."""
    name = draft.name.strip()
    if not name:
        return [DraftProblem("name", "the job has no name", "such as backup-db")]
    names = {stored.casefold(): stored for stored in shop.store.read(jobs.job_names)}
    taken = names.get(name.casefold())
    if taken is None or (replacing is not None and taken == replacing.name):
        return []
    return [DraftProblem("name", f"a job {taken!r} already exists", "choose another name")]


def _read(shop: DraftValidator, name: str, keys: Mapping[str, Any]) -> tuple[JobSpec | None, list[DraftProblem]]:
    try:
        return read_job(name, keys, folder=shop.folder, state=shop.state, environ=shop.environ), []
    except FileProblems as error:
        return None, [_trouble(problem, name) for problem in error.problems]
    except RotaError as error:
        return None, [DraftProblem("", error.message, error.hint or "")]


def _trouble(problem: Problem, name: str) -> DraftProblem:
    """Return a problem at the form field of its key."""
    below = problem.path.removeprefix("jobs").removeprefix(f".{name}").lstrip(".")
    key = below.partition(".")[0].partition("[")[0]
    known = {field.name for field in fields(Draft)}
    if not key:
        return DraftProblem("name" if "name" in problem.message else "work", problem.message, problem.hint)
    place = _PLACES.get(key, key)
    place = "work" if key == "prompt" else place if place in known else "others"
    message = problem.message if place == key or place in ("schedule", "work") else f"{below}: {problem.message}"
    return DraftProblem(place, message, problem.hint)


def may_change(job: Job) -> bool:
    """Return whether a form may change a job: neither a job of a file nor one of an agent."""
    return not job.source.startswith(FILE) and job.made is None


def may_copy(job: Job) -> bool:
    """Return whether a form may copy a job: functions, groups and the poll belong to the file."""
    return job.spec.work.kind in (Kind.COMMAND, Kind.SHELL, Kind.AGENT)


AGENTS = ("claude", "codex", "gemini", "opencode")
MODULE = "rota_jobs.py"


class Machine(Struct, frozen=True):
    """The facts about this machine that a first file uses."""

    timezone: str
    detected_zone: bool
    battery: bool
    agents: tuple[AgentProbe, ...]


def inspect_machine(environ: Mapping[str, str]) -> Machine:
    """Return the zone and the battery of this machine, and the agents on PATH."""
    try:
        timezone, detected = plain_name(local_zone(environ)), True
    except RotaError:
        timezone, detected = "UTC", False
    battery = False
    with contextlib.suppress(AttributeError, OSError, RuntimeError):
        battery = psutil.sensors_battery() is not None
    return Machine(timezone, detected, battery, found_agents(environ))


def found_agents(environ: Mapping[str, str], but: Collection[str] = ()) -> tuple[AgentProbe, ...]:
    """Return the agents on PATH `but` some, all probed for version and login concurrently."""
    adapters = [adapter(name) for name in AGENTS if name not in but]
    return tuple(agent for agent in probe_all(adapters, environ) if agent.path)


def plan_project(folder: Path, machine: Machine, *, kind: str | None) -> dict[str, str]:
    """Return the files of a first project by name; raise FileExists if one exists."""
    files = {FILE_NAME: first_file(machine, kind=kind)}
    if kind == "python":
        files[MODULE] = _MODULE
    for name in files:
        if (folder / name).exists() or (folder / name).is_symlink():
            raise FileExists(str(folder / name))
    return files


def make_project(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a first project, its state folder and the schema for editors."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except FileExistsError as error:
        raise FileExists(str(error.filename)) from None
    except OSError as error:
        hint = "choose a folder that is yours"
        raise StateError(f"cannot write into {folder}: {error.strerror}", hint=hint) from None
    make_state(folder / STATE_NAME)
    (folder / STATE_NAME / "schema.json").write_text(write_json(json_schema()), encoding="utf-8")


def first_file(machine: Machine, *, kind: str | None) -> str:
    """Return the text of a first rota.yaml."""
    zone = "" if machine.detected_zone else "   # the zone of this machine has no name"
    parts = [
        f"# yaml-language-server: $schema={STATE_NAME}/schema.json",
        _HEAD,
        f"timezone: {machine.timezone}{zone}\n",
    ]
    if machine.battery:
        parts.append(_BATTERY)
    if kind == "python":
        parts.append("imports: [rota_jobs]             # modules whose @rota.job and @rota.condition are known\n")
    parts.append("jobs:\n" + _JOBS[kind])
    if machine.agents and kind not in ("claude", "codex"):
        names = ", ".join(agent.name for agent in machine.agents)
        parts.append(_AGENTS_FOUND.format(names=names, first=machine.agents[0].name))
    return "\n".join(parts)


_HEAD = """\
# rota.yaml: the jobs of this project. After a change: `rota check` validates it, `rota apply` stores it;
# a running `rota serve` applies changes by itself.
"""

_BATTERY = """\
defaults:                        # any job key; a job's own key wins
  misfire: once                  # this machine has a battery: runs missed during sleep run once on wake
"""

_AGENTS_FOUND = """
# Found on PATH: {names}. A job with a `prompt:` runs one of them unattended, within limits:
# see `rota init --with {first} --dry-run` in an empty folder for an example (claude and codex).
"""

_HELLO = """\
  hello:
    cron: "*/5 * * * *"          # minute hour day month weekday; quotes are needed
    command: [echo, "hello from rota"]
    # timeout: 10m               # the default; `never` for none
    # retry: false               # the default is 3 attempts
    # overlap: forbid            # the default: skip a run while another one is unfinished
    # conditions: [{command: [./may-i-run]}]   # exit 0 run, 10 skip
"""

_CRON = """\
  nightly:
    cron: "30 2 * * *"           # every day at 02:30 in `timezone`
    shell: echo "backing up on $ROTA_DATE" && sleep 1 && echo done   # a shell; `command:` starts a program directly
    timeout: 1h
    misfire: once                # missed while the machine was off: run once when it is back
  # cron had no timeout, no overlap check and dropped the output; rota has all three: see `rota logs nightly`
"""

_PYTHON = """\
  greet:
    interval: 1m                 # counted from the end of the last run
    run: greet                   # the function with @rota.job("greet") in rota_jobs.py
    conditions: [is_awake]       # @rota.condition("is_awake"); false: checked again later
    params: {name: world}
"""

_MODULE = '''\
"""The functions that rota.yaml names."""

import rota


@rota.job("greet")
def greet(ctx: rota.JobContext) -> str:
    """Say hello; the text returned is the run's summary."""
    ctx.log(f"hello {ctx.params['name']}")
    ctx.state["greetings"] = ctx.state.get("greetings", 0) + 1
    return f"greeted {ctx.params['name']} {ctx.state['greetings']} times"


@rota.condition("is_awake")
def is_awake(ctx: rota.JobContext) -> bool:
    """Say whether the job may run now."""
    return True
'''

_CLAUDE = """\
  nightly-review:
    cron: "30 2 * * *"
    enabled: false               # it costs money: try `rota run nightly-review --dry-run` first, then enable it
    agent: claude
    access: read                 # read | write | full; denied tools are reported
    max_usd: 1.00                # limit of one run
    prompt: Review the commits of the last day.
    timeout: 30m
    # env_pass: [ANTHROPIC_API_KEY]   # other variables than HOME and PATH must be named
"""

_CODEX = """\
  nightly-review:
    cron: "30 2 * * *"
    enabled: false               # it costs money: try `rota run nightly-review --dry-run` first, then enable it
    agent: codex
    access: read                 # read | write | full, enforced by Codex's sandbox
    prompt: Review the commits of the last day.
    timeout: 30m
    # env_pass: [OPENAI_API_KEY]      # other variables than HOME and PATH must be named
"""

_JOBS = {None: _HELLO, "cron": _CRON, "python": _PYTHON, "claude": _CLAUDE, "codex": _CODEX}
