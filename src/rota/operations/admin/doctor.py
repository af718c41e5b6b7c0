"""Doctor: look at the machine, the file, the scheduler and the agents; each finding comes with a remedy."""

import os
import resource
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import psutil
from msgspec.structs import asdict, replace

from rota.agents.registry import AgentProbe
from rota.declare.entries import notes_on
from rota.declare.project import Declared
from rota.engine.activity import everything_paused, in_tick_mode, read_ticks
from rota.engine.clock import tzdata_version
from rota.model.amounts import and_more, counted, listed
from rota.model.clock import Clock, from_ms
from rota.model.errors import FileProblems, Problem, RotaError, SecretMissing
from rota.model.notifications import CHATS
from rota.model.spec import JobSpec, KeepAwake
from rota.operations.admin.secrets import missing_secrets
from rota.operations.agents.agents import AgentView, look_at_agents
from rota.operations.project.edit import AGENTS, found_agents
from rota.operations.project.load import Loaded, load_project
from rota.operations.project.locate import DATABASE, ProjectPaths, is_applied, look_at, open_place
from rota.operations.project.takeover import crontab_problem
from rota.operations.status.attention import given_up, left_behind_findings
from rota.operations.status.heartbeat import Heartbeat, Liveness, heartbeat
from rota.operations.workers import worker_states
from rota.rules.health_checks import (
    NONE_HERE,
    NONE_RUNNING,
    Finding,
    Severity,
    judge_clock,
    judge_limits,
    judge_machines,
    judge_mode,
    judge_place,
    judge_power,
    judge_room,
    judge_server,
    judge_sqlite,
)
from rota.rules.liveness import REASON
from rota.runners.environment import FILE_NAME as SECRETS
from rota.runners.secret_origins import read_origin
from rota.settings import SchedulerSettings
from rota.store.driver import Database
from rota.store.sqlite.store import LOCKS, process_lock_held, quick_check
from rota.store.tables.processes import Worker
from rota.store.tables.work_items import kept_worktrees
from rota.text.format import ago, roughly
from rota.text.jobs import remedy_of

NAMES_SHOWN = 3
FIRES = frozenset({"serve", "guest"})
UNTOLD = timedelta(days=7)
"""The period in which a failed report to a work source is a finding."""


def examine(place: ProjectPaths | None, environ: Mapping[str, str], *, clock: Clock) -> list[Finding]:
    """Return the findings by topic; without a project only those of the machine."""
    with ThreadPoolExecutor(1) as aside:
        agents = aside.submit(_agents, place, environ, clock=clock)
        findings = list(_machine())
        if place is not None:
            findings += _project(place, environ, clock=clock)
        else:
            text = "no project here: checked only the machine"
            findings += [judge_clock(clock.now(), None), Finding("project", Severity.NOTE, text, "rota init, or --dir")]
        return [*findings, *agents.result()]


def _machine() -> Iterator[Finding]:
    yield judge_sqlite(apsw.sqlite_lib_version())
    yield Finding("apsw", Severity.OK, f"apsw {apsw.apsw_version()}")
    yield Finding("time zones", Severity.OK, f"tzdata {tzdata_version()}")


def _project(place: ProjectPaths, environ: Mapping[str, str], *, clock: Clock) -> Iterator[Finding]:
    beat = heartbeat(place.state)
    yield from _folder(place.state)
    loaded, findings = _configuration(place, environ, clock=clock)
    settings = loaded.declared.settings.scheduler if loaded else SchedulerSettings()
    yield from judge_limits(*map(_soft_limit, ("RLIMIT_NOFILE", "RLIMIT_NPROC")), slots=settings.concurrency)
    yield from findings
    specs = loaded.declared.jobs if loaded else ()
    yield from _paths(specs, beat, environ)
    yield from _sandboxes(specs)
    yield from _power(settings, specs)
    if problem := crontab_problem(place.state, environ):
        hint = "remove them with `crontab -e`; `rota takeover` shows them"
        yield Finding("crontab", Severity.PROBLEM, problem, hint)
    yield from _secrets(loaded.declared if loaded else None, place, beat, environ)
    yield from _chats(loaded.declared if loaded else None, place, beat, environ)
    yield from _scheduler(place, beat)
    yield from _server(place, beat, clock=clock) if place.shared else _file(place, clock=clock)


def _soft_limit(name: str) -> int | None:
    number = getattr(resource, name, None)
    limit = resource.getrlimit(number)[0] if number is not None else resource.RLIM_INFINITY
    return None if limit == resource.RLIM_INFINITY else limit


def _folder(state: Path) -> Iterator[Finding]:
    nearest = next(path for path in (state, *state.parents) if path.exists())
    yield judge_place(state.resolve(), file_system(nearest))
    yield judge_room(state, shutil.disk_usage(nearest).free)
    for path, needed in ((state, False), (state / DATABASE, False), (state / SECRETS, True)):
        if path.exists():
            yield from _permissions(path, needed=needed)


def file_system(path: Path) -> str:
    """Return the type of a path's file system; empty if it is unknown."""
    real = path.resolve()
    mounts = [mount for mount in psutil.disk_partitions(all=True) if real.is_relative_to(mount.mountpoint)]
    return max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else ""


def _permissions(path: Path, *, needed: bool) -> Iterator[Finding]:
    stat = path.stat()
    if stat.st_uid != os.geteuid():
        text = f"{path} belongs to user {stat.st_uid}, you are {os.geteuid()}"
        yield Finding("permissions", Severity.WARNING, text, "run rota as its owner: rota creates files beside it")
    yield judge_mode(path, stat.st_mode, needed=needed)


def _configuration(
    place: ProjectPaths, environ: Mapping[str, str], *, clock: Clock
) -> tuple[Loaded | None, list[Finding]]:
    try:
        loaded = load_project(place.folder, environ, state=place.state, now=clock.now())
    except FileProblems as error:
        findings = [Finding("file", Severity.PROBLEM, str(problem), "rota check") for problem in error.problems]
        return None, findings
    except RotaError as error:
        return None, [Finding("file", Severity.PROBLEM, error.message, error.hint)]
    declared = loaded.declared
    notes = [Finding("file", Severity.NOTE, note) for note in notes_on(declared.jobs, now=clock.now(), environ=environ)]
    if loaded.trust_note:
        notes.append(Finding("file", Severity.NOTE, loaded.trust_note, "rota trust"))
    return loaded, [Finding("file", Severity.OK, f"rota.yaml is valid, {counted(len(declared.jobs), 'job')}"), *notes]


def _paths(specs: Iterable[JobSpec], beat: Heartbeat, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Search each command on the PATH of its runs: the PATH of a running scheduler, else of this shell."""
    own, served = environ.get("PATH", os.defpath), _environ_of(beat.pid).get("PATH")
    path = own if served is None else served
    programs = [(spec, program) for spec in specs if spec.enabled for program in _programs(spec)]
    missing = [f"{spec.name}: {program}" for spec, program in programs if not _found(spec, program, path)]
    if missing:
        shown = listed(missing, NAMES_SHOWN)
        whose = "the scheduler's" if served is not None else "this"
        text = f"not found on {whose} PATH: {shown}"
        yield Finding("PATH", Severity.PROBLEM, text, "use the full path, or start rota with a PATH that includes them")
    elif served is not None and served != own:
        text = "the scheduler's PATH is not that of this shell; runs get the scheduler's"
        yield Finding("PATH", Severity.NOTE, text, "a command that works here may not be found there: use full paths")
    else:
        yield Finding("PATH", Severity.OK, "every job's command is found")


def _sandboxes(specs: Iterable[JobSpec]) -> Iterator[Finding]:
    enclosed = [spec for spec in specs if spec.work.sandbox or spec.work.limits]
    wrong = list(_unkept(enclosed))
    for name, key, text in wrong:
        yield Finding(
            key, Severity.PROBLEM, f"{name}: {text}", f"its runs fail until this works, or `{key}` is removed"
        )
    if enclosed and not wrong:
        yield Finding("sandbox", Severity.OK, f"works for {counted(len(enclosed), 'job')}")


def _power(settings: SchedulerSettings, specs: Iterable[JobSpec]) -> Iterator[Finding]:
    """Try to keep the machine awake and to wake it, where the file asks for that."""
    from rota.runners.power import alarm_problem, inhibitor_problem

    waking = [spec.name for spec in specs if spec.enabled and spec.wake]
    if settings.keep_awake is not KeepAwake.OFF:
        yield judge_power("kept awake during runs", inhibitor_problem(), key="scheduler.keep_awake")
    if waking:
        yield judge_power(f"woken for {counted(len(waking), 'job')}", alarm_problem(), key="wake")


def _unkept(specs: Iterable[JobSpec]) -> Iterator[tuple[str, str, str]]:
    """Yield the jobs whose sandbox or limits this machine cannot keep, the key and why; each kind is tried once."""
    from rota.runners.sandbox import sandbox_problems

    tried: dict[Any, list[tuple[str, str]]] = {}
    for spec in specs:
        kind = (spec.work.sandbox and (spec.work.sandbox.image and spec.work.sandbox.runtime), spec.work.limits)
        if kind not in tried:
            tried[kind] = list(sandbox_problems(spec.work))
        yield from ((spec.name, key, text) for key, text in tried[kind])


def refuse_unkept_sandboxes(declared: Declared) -> None:
    """Raise FileProblems for the sandboxes and limits that this machine cannot keep."""
    problems = []
    for name, key, text in _unkept(declared.jobs):
        line, column = declared.positions.get(name, (0, 0))
        file, hint = declared.settings.file.name if line else "", "`rota doctor` tries it again"
        at = ("jobs", name, key)
        problems.append(Problem(text, "sandbox", file=file, line=line, column=column, at=at, hint=hint))
    if problems:
        raise FileProblems(problems)


def _programs(spec: JobSpec) -> list[str]:
    """Return the programs of a job that this machine must have: its command's, and that of the step after its agent."""
    after = spec.work.agent.after if spec.work.agent else None
    # A program with a path may be in the workspace of a run, or created there.
    step = [word for word in after.command[:1] if "/" not in word] if after else []
    in_image = spec.work.sandbox is not None and bool(spec.work.sandbox.image)
    return [*(() if in_image else spec.work.command[:1]), *step]


def _found(spec: JobSpec, program: str, path: str) -> bool:
    own = next((variable.value for variable in spec.work.env if variable.name == "PATH"), None) or path
    if "{{" in program + own + spec.work.cwd:
        return True  # filled in when it runs
    where = os.path.join(spec.work.cwd, program) if "/" in program else program
    return shutil.which(where, path=own) is not None


def _secrets(
    declared: Declared | None, place: ProjectPaths, beat: Heartbeat, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Search each secret in the environment of a running scheduler, else of this shell."""
    if declared is None:
        return
    served = _environ_of(beat.pid)
    enabled = [spec for spec in declared.jobs if spec.enabled]
    settings = declared.settings
    missing = missing_secrets(enabled, settings, place.state, served or environ)
    for name, origin in settings.secrets.items():
        try:
            read_origin(name, origin, served or environ)
        except SecretMissing as error:
            yield Finding("secrets", Severity.PROBLEM, error.message, error.hint)
    level = Severity.PROBLEM if served else Severity.WARNING
    elsewhere = "" if served else ", unless the scheduler's own environment has it"
    for name, jobs in missing.items():
        more = " and others" if len(jobs) > NAMES_SHOWN else ""
        text = f"{name} is missing, and needed by {', '.join(jobs[:NAMES_SHOWN])}{more}"
        yield Finding("secrets", level, text, f"rota secrets set {name}{elsewhere}")


def _chats(
    declared: Declared | None, place: ProjectPaths, beat: Heartbeat, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Ask the services of chats for the names of their bots; a missing secret is reported elsewhere."""
    targets = declared.settings.notify if declared is not None else {}
    bots = {target.bot: (name, target) for name, target in sorted(targets.items()) if target.channel in CHATS}
    if declared is None or not bots:
        return
    from rota.engine.loops.notifier import ThreadedPost

    settings = replace(declared.settings, state=place.state)
    post = ThreadedPost(settings, _environ_of(beat.pid) or environ)
    for name, target in bots.values():
        try:
            delivery = post.check(target)
        except SecretMissing:
            continue
        if delivery.ok:
            yield Finding("chats", Severity.OK, f"{name}: {delivery.message} answers")
        else:
            hint = "check the token with `rota notify test`, and the network"
            yield Finding("chats", Severity.PROBLEM, f"{name}: {delivery.error}", hint)


def _environ_of(pid: int | None) -> Mapping[str, str]:
    """Return the environment of a running scheduler; empty if there is none or it is not readable."""
    try:
        return psutil.Process(pid).environ() if pid is not None else {}
    except psutil.Error:
        return {}


def _scheduler(place: ProjectPaths, beat: Heartbeat) -> Iterator[Finding]:
    if beat.liveness is Liveness.RUNNING:
        yield Finding("scheduler", Severity.OK, f"runs as process {beat.pid}")
    elif beat.liveness is Liveness.STOPPING:
        yield Finding(
            "scheduler", Severity.NOTE, f"process {beat.pid} is stopping", "`rota status` shows what it waits for"
        )
    elif beat.liveness is Liveness.FAILING:
        failing = beat.answer["failing"]
        text = f"process {beat.pid} starts nothing: {failing['stage']} fails with {failing['error']}"
        yield Finding("scheduler", Severity.PROBLEM, text, "it continues by itself when the cause is removed")
    elif beat.liveness is Liveness.STALLED:
        text = f"process {beat.pid} holds the lock but does not answer: it is stalled"
        yield Finding(
            "scheduler", Severity.PROBLEM, text, f"end it with `kill {beat.pid}` and start `rota serve` again"
        )
    elif not place.shared:
        yield NONE_RUNNING
    for key in ("storage_problem", "damage", "file_problem"):
        problem, failing = beat.answer.get(key), beat.answer.get("failing") or {}
        if problem and problem != failing.get("error"):
            yield Finding("scheduler", Severity.PROBLEM, str(problem), "see the log of `rota serve`")
    locks = sorted(os.listdir(place.state / LOCKS)) if (place.state / LOCKS).is_dir() else []
    left = [name for name in locks if not process_lock_held(place.state, name)]
    if left:
        text = (
            "1 lock file of a process that is gone"
            if len(left) == 1
            else f"{len(left)} lock files of processes that are gone"
        )
        yield Finding("locks", Severity.NOTE, text, "nothing to do: the next `rota serve` removes them")


def _server(place: ProjectPaths, beat: Heartbeat, *, clock: Clock) -> Iterator[Finding]:
    """Check the server of a shared database, then its content."""
    try:
        yield from judge_server(look_at(place, clock))
        if not is_applied(place, clock):
            yield Finding("database", Severity.NOTE, "nothing is applied yet", "rota apply, or rota serve")
            yield NONE_RUNNING
            return
        store = open_place(place, clock, create=False)
        try:
            yield from store.read(partial(_machines, state=place.state, beat=beat))
            yield from store.read(partial(_stored, state=place.state, clock=clock))
        finally:
            store.close()
    except RotaError as error:
        yield Finding("database", Severity.PROBLEM, error.message, error.hint)
        if beat.liveness is Liveness.DEAD:
            yield NONE_HERE


def _machines(db: Database, *, state: Path, beat: Heartbeat) -> list[Finding]:
    """Report other machines that serve this database; one is enough."""
    there = [worker for worker in worker_states(db, state) if worker.kinds and not worker.here]
    serving = [_called(worker.worker) for worker in there if FIRES.intersection(worker.kinds)]
    claiming = [_called(worker.worker) for worker in there if not FIRES.intersection(worker.kinds)]
    return judge_machines(serving, claiming, here=beat.liveness is not Liveness.DEAD)


def _called(worker: Worker) -> str:
    return worker.called if worker.host in ("", worker.called) else f"{worker.called} on {worker.host}"


def _file(place: ProjectPaths, *, clock: Clock) -> Iterator[Finding]:
    path = place.state / DATABASE
    if not path.exists():
        yield judge_clock(clock.now(), None)
        yield Finding("database", Severity.NOTE, "nothing is applied yet", "rota apply, or rota serve")
        return
    try:
        store = open_place(place, clock, create=False)
        try:
            yield from store.read(partial(_stored, state=place.state, clock=clock))
        finally:
            store.close()
        damage = quick_check(path)
    except RotaError as error:
        yield Finding("database", Severity.PROBLEM, error.message, error.hint)
        return
    if damage:
        text = f"{path} is damaged: {damage[0]}"
        yield Finding("database", Severity.PROBLEM, text, "stop rota and restore a backup: `rota restore FILE --force`")
    else:
        yield Finding("database", Severity.OK, f"{path} is whole")


def _stored(db: Database, *, state: Path, clock: Clock) -> list[Finding]:
    last = db.row("process_last", limit=1)
    findings = [judge_clock(clock.now(), from_ms(last[3]) if last else None)]
    everything = everything_paused(db)
    if everything is not None and everything.reason == REASON:
        text = "everything is paused: the scheduler crashed repeatedly"
        findings.append(
            Finding("scheduler", Severity.PROBLEM, text, "find the cause in the log, then `rota resume --all`")
        )
    elif everything is not None:
        why = f" ({everything.reason})" if everything.reason else ""
        findings.append(Finding("scheduler", Severity.NOTE, f"everything is paused{why}", "rota resume --all"))
    findings += left_behind_findings(db, state)
    return [*findings, *_ticks(db, clock.now()), *_worktrees(db), *untold_findings(db, now=clock.now())]


def untold_findings(db: Database, *, now: datetime) -> list[Finding]:
    """Yield the work sources with failed reports: there the items still look unfinished."""
    return [
        Finding(
            "work sources",
            Severity.WARNING,
            f"{one.source}: {one.text}",
            f"see `rota show {one.newest.handle}`, then correct the item at its source",
        )
        for one in given_up(db, now - UNTOLD)
    ]


def _worktrees(db: Database) -> Iterator[Finding]:
    """Report the number of kept worktrees, and how to remove them: rota never removes work."""
    worktrees = [worktree for worktree in kept_worktrees(db) if os.path.isdir(worktree.path)]
    if not worktrees:
        return
    shown = ", ".join(f"{worktree.branch} ({worktree.kept_why})" for worktree in worktrees[:NAMES_SHOWN])
    text = f"{len(worktrees)} kept in {os.path.dirname(worktrees[0].path)}: {shown}{and_more(worktrees, NAMES_SHOWN)}"
    first = worktrees[0].handle
    remedy = f"`rota worktrees` lists them; `rota worktrees merge {first}`, or `rota worktrees discard {first}`"
    yield Finding("worktrees", Severity.NOTE, text, remedy)


def _ticks(db: Database, now: datetime) -> Iterator[Finding]:
    ticks = read_ticks(db)
    if ticks.last is None or not in_tick_mode(db):
        return
    text = f"the last tick was {ago(ticks.last, now)} ago, the usual interval is {roughly(ticks.usual)}"
    if ticks.still_come(now):
        yield Finding("ticks", Severity.OK, text)
    else:
        yield Finding("ticks", Severity.PROBLEM, text, "look at what starts `rota tick`: a timer or crontab")


# agents


def _agents(place: ProjectPaths | None, environ: Mapping[str, str], *, clock: Clock) -> list[Finding]:
    """Look at the agents of this project as their runs would find them, then at others on PATH."""
    views = _configured(place, environ, clock=clock)
    others = found_agents(environ, but={view.known.adapter for view in views})
    findings = [*map(_used, views), *map(_agent, others)]
    return findings or [Finding("agents", Severity.NOTE, f"none of {', '.join(AGENTS)} is on PATH")]


def _configured(place: ProjectPaths | None, environ: Mapping[str, str], *, clock: Clock) -> tuple[AgentView, ...]:
    if place is None:
        return ()
    try:
        return look_at_agents(place, None, environ, now=clock.now()).agents
    except RotaError:
        return ()  # reported as a problem of the file


def _used(view: AgentView) -> Finding:
    """Judge an agent of this project: a broken agent is a problem if an enabled job uses it."""
    name, probe = view.known.name, view.found
    program = probe.name if view.known.adapter == name else f"{name} ({view.known.adapter})"
    finding = _agent(replace(probe, name=program))
    if finding.level is Severity.OK:
        return finding
    return replace(finding, level=Severity.PROBLEM if view.known.enabled else Severity.NOTE, remedy=view.remedy)


def _agent(found: AgentProbe) -> Finding:
    text = f"{found.name} {found.version}".rstrip()
    if found.problem is None:
        words = ["logged in" if found.logged_in else "", "runs headless" if found.headless else ""]
        return Finding("agents", Severity.OK, ", ".join(word for word in (text, *words) if word))
    return Finding("agents", Severity.NOTE, f"{text}: {found.problem}", remedy_of(found))


def findings_json(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as JSON."""
    return [asdict(finding) for finding in found]
