"""The entries under `jobs:`: reading, naming and notes about each."""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rota.declare.applicability import runs_first
from rota.declare.jobs import NO_MEMBERS, NO_WORK, JobDefaults, build_group, build_job, place_of
from rota.declare.keys import AGENT, GROUP, JOB, read_map
from rota.declare.merge import out_of_process
from rota.declare.problems import JOB_NAME, BadValue, ProblemList, following, independent, shown
from rota.declare.readers.agents import Agent, read_agent, read_schedule, refuse_elsewhere
from rota.declare.readers.function_agents import Bodies
from rota.declare.references import Findings, Mention, mentions_of
from rota.declare.registry import RegisteredAgent
from rota.declare.sections import poll_job
from rota.model.amounts import listed
from rota.model.clock import iso
from rota.model.errors import JobProblems, KeyPath, Problem
from rota.model.spec import PROMPT_LIMIT, FirstRun, JobSpec, Kind, Workspace
from rota.rules.prompts import PromptPlaces, check_placeholders, has_placeholders
from rota.rules.schedule.blackouts import blackout_at, defers, has_blackouts
from rota.rules.schedule.instants import next_instant
from rota.rules.schedule.preview import next_fires, wholly_quiet
from rota.text.format import from_now


def check_names(names: Iterable[tuple[str, str]], findings: Findings, *, base: KeyPath = ()) -> None:
    """Check names of one list, each with its section: `rota run` takes both a job's and a group's."""
    folded: dict[str, tuple[str, str]] = {}
    for section, name in names:
        taken, other = folded.setdefault(name.casefold(), (section, name))
        if problem := _wrong_name(name, other):
            findings.tell((*base, section, name), [problem])
        elif taken != section:
            message = f"a {taken[:-1]} of this name already exists"
            findings.tell((section, name), [Problem(message, "job_name", hint="choose another name")])


def in_case_only(name: str, other: str) -> Problem:
    """Return what is wrong with a job whose name only differs in case from that of another one."""
    problem = _wrong_name(name, other)
    assert problem is not None
    return problem.below("jobs", name)


def _wrong_name(name: str, other: str) -> Problem | None:
    if name.casefold().startswith("rota/"):
        return Problem("names that start with rota/ are reserved", "job_name", hint="choose another name")
    if not JOB_NAME.fullmatch(name):
        hint = "use 1 to 200 letters, digits and . _ -, the first a letter or digit"
        return Problem(f"{shown(name)} cannot be a job's name", "job_name", hint=hint)
    if other != name:
        return Problem(f"differs from {shown(other)} in case only", "job_name", hint="choose another name")
    return None


def bodies_of(section: str, findings: Findings) -> dict[str, Any]:
    """Return the entries of a section, none where it is no map."""
    written = findings.document.data.get(section)
    if written is not None and not isinstance(written, dict):
        hint = f"write each {section[:-1]} under its name"
        findings.tell((section,), [Problem(f"is not a map of {section}", "wrong_type", hint=hint)])
    return written if isinstance(written, dict) else {}


def read_agents(
    bodies: Bodies, *, registered: Mapping[str, RegisteredAgent] | None, python: str | None, findings: Findings
) -> dict[str, Agent | None]:
    """Return the configured agents, None for those that are wrong; `registered` are the functions that are agents."""
    check_names([("agents", name) for name in bodies], findings)
    return {
        name: _agent(name, body, registered=registered, python=python, findings=findings)
        for name, body in bodies.items()
    }


def _agent(
    name: str, body: Any, *, registered: Mapping[str, RegisteredAgent] | None, python: str | None, findings: Findings
) -> Agent | None:
    keys, unreadable = read_map(AGENT, {} if body is None else body)
    findings.tell(("agents", name), unreadable)
    try:
        with ProblemList() as problems:
            with problems.below():
                agent = read_agent(name, keys) if isinstance(body, dict | None) else None
            refuse_elsewhere(keys.get("adapter"), registered, python=python)
    except BadValue as error:
        wrong = following(error.problems, "adapter", "access")
        findings.tell(("agents", name), independent(wrong, unreadable))
        return None
    return agent


def read_jobs(project: JobDefaults, findings: Findings) -> tuple[JobSpec, ...]:
    """Return the jobs and the groups of a file, as far as they are right."""
    jobs, groups = bodies_of("jobs", findings), bodies_of("groups", findings)
    check_names([*(("jobs", name) for name in jobs), *(("groups", name) for name in groups)], findings)
    built = {name: _job(name, body, project, findings=findings, at=("jobs", name)) for name, body in jobs.items()}
    grouped = [
        _group(name, body, project, findings=findings, jobs=built, groups=list(groups)) for name, body in groups.items()
    ]
    return tuple(spec for spec in [*built.values(), *grouped] if spec is not None)


def read_schedules(agents: Bodies, project: JobDefaults, *, findings: Findings) -> tuple[JobSpec, ...]:
    """Return the jobs of the agents' own schedules, each named agent/schedule."""
    bodies = {agent: body for agent, body in agents.items() if isinstance(body, dict)}
    schedules = {agent: body["schedules"] for agent, body in bodies.items() if isinstance(body.get("schedules"), dict)}
    for agent, named in schedules.items():
        check_names([("schedules", name) for name in named], findings, base=("agents", agent))
    specs: list[JobSpec | None] = []
    for agent, name, body in ((agent, *entry) for agent, named in schedules.items() for entry in named.items()):
        at: KeyPath = ("agents", agent, "schedules", name)
        try:
            keys, right = read_schedule(body), True
        except BadValue as error:
            findings.tell(at, error.problems)
            keys, right = error.rest, False
        if keys is not None:  # the other keys of a wrong one may be wrong, too
            spec = _job(f"{agent}/{name}", {"agent": agent, **keys}, project, findings=findings, at=at)
            specs.append(spec if right else None)
    return tuple(spec for spec in specs if spec is not None)


def read_poll(keys: Mapping[str, Any] | None, project: JobDefaults, *, findings: Findings) -> tuple[JobSpec, ...]:
    """Return the job that polls; that of an included project does not apply."""
    if keys is None or project.included:
        return ()
    if "run" in keys:
        findings.mentions.append(Mention(("poll", "run"), keys["run"], condition=False, python=project.python))
    spec, problems = poll_job(keys, project)
    findings.tell(("poll",), problems)
    return () if spec is None else (spec,)


def _job(name: str, raw: Any, project: JobDefaults, *, findings: Findings, at: KeyPath) -> JobSpec | None:
    if raw is None or raw == {}:
        findings.tell(at, [NO_WORK])
        return None
    own, problems = read_map(JOB, raw)
    findings.tell(at, problems)
    if not isinstance(raw, dict):
        return None
    own = out_of_process(own) if project.included else own
    findings.mentions += mentions_of(name, raw, own=own, project=project, at=at)
    if "python" in own and "run" in own:
        python = place_of(own["python"], project.folder, home=project.home, program=True)
        findings.check_interpreter(python, (*at, "python"), written=own["python"])
    spec, wrong = build_job(name, own, project)
    agent = None if spec is None else spec.work.agent
    if agent is not None and ":" in agent.function:
        path = ("agents", agent.agent, "adapter", "run")
        findings.mentions.append(Mention(path, agent.function, condition=False, python=None))
    findings.tell(at, independent(wrong, problems))
    return spec


def _group(
    name: str,
    raw: Any,
    project: JobDefaults,
    *,
    findings: Findings,
    jobs: Mapping[str, JobSpec | None],
    groups: Sequence[str],
) -> JobSpec | None:
    if raw is None or raw == {}:
        findings.tell(("groups", name), [replace(NO_MEMBERS, at=())])
        return None
    own, problems = read_map(GROUP, raw)
    findings.tell(("groups", name), problems)
    if not isinstance(raw, dict):
        return None
    spec, wrong = build_group(name, own, project, jobs=jobs, groups=groups)
    findings.tell(("groups", name), independent(wrong, problems))
    return spec


FAR = timedelta(days=366)
NO_JOBS = "the file declares no jobs; write them below `jobs:`, or add one with `rota add`"


def notes_on(
    jobs: Sequence[JobSpec], *, now: datetime | None = None, environ: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the notes on `jobs`; those that depend on the time or on PATH only when `now` and `environ` are given."""
    disk = _Disk(None if environ is None else environ.get("PATH"))
    notes = [note for spec in jobs for note in (*_on_cron(spec), *_on_variables(spec), *_on_places(spec, disk))]
    if now is not None:
        notes += [note for spec in jobs if (note := _on_time(spec, now) or _on_lulls(spec, now))]
    return (*notes, *_on_first_runs(jobs, now))


def notes_on_files(files: Iterable[Path]) -> tuple[str, ...]:
    """Return which files everybody on the machine may change, and so what this user runs."""
    return tuple(
        f"{path} is writable by every user of this machine, and its commands run as you; `chmod o-w {path}`"
        for path in files
        if _written_by_all(path)
    )


def _written_by_all(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _on_cron(spec: JobSpec) -> list[str]:
    return [
        f'{spec.name}: "{cron}" fires on each day that matches its day of month or its weekday, as cron does, '
        "not only where both match"
        for cron in spec.schedule.cron
        if _restricts_both_days(cron)
    ]


def _restricts_both_days(cron: str) -> bool:
    fields = cron.split()
    return len(fields) == 5 and not fields[2].startswith("*") and not fields[4].startswith("*")


def _on_variables(spec: JobSpec) -> list[str]:
    return [
        f"{spec.name}: {variable.name} runs other code before the program; keep it only if you intend that"
        for variable in spec.work.env
        if runs_first(variable.name)
    ]


class _Disk:
    """What the notes of one reading find on the disk, each looked up once; `path` is the PATH that runs inherit."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.which, self.wrong_folder = cache(shutil.which), cache(_wrong_folder)


def _on_places(spec: JobSpec, disk: _Disk) -> Iterator[str]:
    cwd, agent = spec.work.cwd, spec.work.agent
    if cwd and not has_placeholders(cwd):
        if wrong := disk.wrong_folder(cwd):
            yield f"{spec.name}: its runs fail: the folder {cwd} {wrong}; create it, or correct `cwd`"
        elif agent is not None and agent.workspace is Workspace.WORKTREE and not _in_repository(cwd):
            yield f"{spec.name}: {cwd} is not in a git repository, as `workspace: worktree` needs; run `git init`"
        elif wrong := _wrong_program(spec, cwd, disk):
            yield f"{spec.name}: its runs fail: {wrong}"
    file = agent.prompt_file if agent is not None else ""
    if file and not has_placeholders(file):
        yield from (f"{spec.name}: its runs fail: {wrong}" for wrong in _wrong_prompt(spec, file))


def _wrong_prompt(spec: JobSpec, file: str) -> list[str]:
    """Return what is wrong with a prompt file, which is read again at each start."""
    if not os.path.isfile(file):
        return [f"there is no file {file}; write it, or correct `prompt_file`"]
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read(PROMPT_LIMIT + 1)
    except UnicodeDecodeError:
        return [f"{file} is not UTF-8 text; save it as UTF-8"]
    except OSError as error:
        return [f"{file} cannot be read: {(error.strerror or str(error)).lower()}"]
    if not text.strip():
        return [f"{file} is empty; write the task"]
    if len(text) > PROMPT_LIMIT:
        return [f"{file} has more than {PROMPT_LIMIT:,} characters; shorten it"]
    agent = spec.work.agent
    if agent is None or not agent.placeholders:
        return []
    places = PromptPlaces(conditions=len(spec.gates.conditions), item=agent.source is not None)
    return [f"{file} says: {one}" for one in check_placeholders(text, params=spec.work.param_names, prompt=places)]


def _wrong_folder(folder: str) -> str:
    if not os.path.exists(folder):
        return "does not exist"
    if not os.path.isdir(folder):
        return "is a file"
    return "" if os.access(folder, os.X_OK) else "cannot be entered"


def _wrong_program(spec: JobSpec, cwd: str, disk: _Disk) -> str:
    """Return what is wrong with the program of a command; it is not known where PATH is not."""
    program = next(iter(spec.work.command), "")
    in_image = spec.work.sandbox is not None and spec.work.sandbox.image
    if not program or has_placeholders(program) or in_image:
        return ""
    if "/" not in program:
        searched = _own_path(spec, disk.path)
        lost = searched is not None and disk.which(program, path=searched) is None
        return f"no folder of PATH has a program {program}; correct `command`, or set PATH in `env`" if lost else ""
    file = os.path.join(cwd, program.removeprefix("./"))
    if not os.path.isfile(file):
        return f"there is no program {file}; write it, or correct `command`"
    return "" if os.access(file, os.X_OK) else f"{file} is not executable; `chmod +x {file}`, or name its interpreter"


def _own_path(spec: JobSpec, path: str | None) -> str | None:
    """Return the PATH of a job's runs: its own, else what they inherit; None where it is not known before they run."""
    own = next((variable for variable in spec.work.env if variable.name == "PATH"), None)
    if own is not None:
        return None if own.value is None or has_placeholders(own.value) else own.value
    return None if spec.work.env_file is not None else path


def _in_repository(folder: str) -> bool:
    parents = [folder]
    while parents[-1] != os.path.dirname(parents[-1]):
        parents.append(os.path.dirname(parents[-1]))
    return any(os.path.exists(os.path.join(parent, ".git")) for parent in parents)


def refuse_past(spec: JobSpec, *, now: datetime) -> None:
    """Reject a new job whose `at` is in the past, which is probably a mistake. A file may keep such a job."""
    at = spec.schedule.at
    if at is not None and at <= now:
        hint = "give a future time, or no schedule and start the job with `rota trigger`"
        path = ("jobs", spec.name.rpartition("/")[2], "at")
        raise JobProblems([Problem(_over(at, now), "at_past", at=path, hint=hint)])


def _over(at: datetime, now: datetime) -> str:
    return f"{iso(at)} is in the past, {from_now(at, now)}"


def _on_time(spec: JobSpec, now: datetime) -> str | None:
    at = spec.schedule.at
    if at is not None and at <= now:
        known = f"for a stored job `misfire: {spec.misfire.policy}` decides"
        return f"{spec.name}: {_over(at, now)}; a new job records it as missed, {known}"
    if spec.schedule.end_at is not None and spec.schedule.end_at <= now:
        return f"{spec.name}: ended {iso(spec.schedule.end_at)} and no longer fires"
    if not spec.schedule.cron:
        return None
    fires = next_fires(spec.schedule, now, 1, name=spec.name)
    if fires and fires[0].nominal - now > FAR:
        return f"{spec.name}: fires next on {fires[0].nominal.date()}, more than a year from now"
    return None


def _on_lulls(spec: JobSpec, now: datetime) -> str | None:
    schedule = spec.schedule
    if not has_blackouts(schedule) or schedule.follows_runs:
        return None
    if defers(schedule) and wholly_quiet(schedule, since=now, created_at=now):
        return f"{spec.name}: every instant is in quiet hours and is deferred; `quiet_hours: ignore` runs it on time"
    instant = next_instant(schedule, after=now, created_at=now)
    if instant is not None and not next_fires(schedule, now, 1, name=spec.name):
        return f"{spec.name}: never runs, as quiet hours and `except` leave none of its instants"
    return None


def _on_first_runs(jobs: Sequence[JobSpec], now: datetime | None) -> list[str]:
    names = [
        spec.name
        for spec in jobs
        if spec.schedule.repeats and spec.schedule.first_run is FirstRun.NOW and spec.enabled
        if spec.work.kind is not Kind.POLL
        if spec.schedule.start_at is None or (now is not None and spec.schedule.start_at <= now)
        if now is None or not has_blackouts(spec.schedule) or blackout_at(spec.schedule, now).reason is None
    ]
    start = "starts as soon as it is first" if len(names) == 1 else "start as soon as they are first"
    return [f"{listed(names)}: {start} applied; `first_run: after_interval` waits"] if names else []
