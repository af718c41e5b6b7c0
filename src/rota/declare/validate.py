"""A project's file to its settings and specs: everything is checked, and all problems are told at once."""

import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rota.declare.agents import Agent, own_pools, read_agent, read_schedule, refuse_elsewhere
from rota.declare.budgets import WrittenAccount, counting_notes
from rota.declare.excluding import Calendars, resolve_except
from rota.declare.fields import JOB_NAME, Refused, shown
from rota.declare.files import Document, KeyPath, Stamp, home_of, load, parse, write_path
from rota.declare.function_agents import with_registered
from rota.declare.given import document_of, plain, usable
from rota.declare.groups import NO_MEMBERS, build_group
from rota.declare.including import Included, find_included, join_parts, patterns_of
from rota.declare.jobs import (
    NO_WORK,
    Surroundings,
    Trouble,
    build_job,
    draw_troubles,
    name_troubles,
    one_spelling,
    place_of,
    target_troubles,
)
from rota.declare.joining import FileRead, Host, LeftOut, Shared, gather, in_project, pattern_notes, pattern_troubles
from rota.declare.mentions import (
    FinderOf,
    LookedUp,
    Mention,
    NamesOf,
    known_agents,
    left_troubles,
    look_up,
    mentions_of,
    with_replaced,
)
from rota.declare.notes import notes_on, notes_on_files
from rota.declare.polling import POLL, need_troubles, poll_job, with_need
from rota.declare.quiet_hours import WrittenQuiet
from rota.declare.reading import read_map
from rota.declare.registry import FunctionFinder, RegisteredAgent
from rota.declare.spec import (
    AgentEntry,
    AgentPolicySection,
    DefaultsSection,
    GroupEntry,
    HttpSection,
    JobEntry,
    PollSection,
    ProjectFile,
    RetentionSection,
    SchedulerSection,
)
from rota.declare.zone import local_zone
from rota.model.address import SQLITE
from rota.model.budget import Account
from rota.model.errors import FileProblems, JobProblems, Problem, RotaError
from rota.model.making import AgentPolicy
from rota.model.notify import Target
from rota.model.spec import JobSpec, Kind, QuietHours, QuietPolicy, Retention
from rota.settings import BUILT_IN_POOLS, FILE_NAME, STATE_NAME, Http, Scheduler, Settings

KnownAgents = Callable[[Settings], Mapping[str, RegisteredAgent] | None]


@dataclass(frozen=True, slots=True)
class Declared:
    """What a project's file says, complete and checked."""

    settings: Settings
    jobs: tuple[JobSpec, ...]
    notes: tuple[str, ...]
    positions: Mapping[str, tuple[int, int]]
    text_digest: str
    included: tuple[Included, ...] = ()
    """The parts and projects that were included."""
    left_out: tuple[LeftOut, ...] = ()
    agents: tuple[Agent, ...] = ()
    """The entries of `agents:`; those of an included project under its name."""

    @property
    def projects(self) -> tuple[Included, ...]:
        """The included projects, also those that were left out."""
        return (*(one for one in self.included if one.name), *(one.included for one in self.left_out))


def read_project(
    folder: Path,
    *,
    environment: Mapping[str, str],
    functions: FunctionFinder | None = None,
    interpreter: FinderOf | None = None,
    state: Path | None = None,
    now: datetime | None = None,
    content: bytes | None = None,
    inner: Path | None = None,
    lenient: bool = False,
    calendars: MutableMapping[Path, Stamp | None] | None = None,
) -> Declared:
    """Return what the file in `folder` declares; raise FileProblems with every problem, in file order.

    `functions` is asked for every name; without it this process imports the modules, and functions of another
    interpreter are asked of `interpreter`, or not checked where that is None too. `content` is read in the place of
    the file, or of that of the included project in `inner`, as if it were there already. A `lenient` reading leaves
    out included projects that have problems. `calendars` gets the calendar files that were looked at, also where they
    are what is wrong.
    """
    one = Included(Path(os.path.abspath(folder)) / FILE_NAME, FILE_NAME)
    document = load(one.path) if content is None or inner else parse(content)
    given = {inner: content} if inner and content is not None else {}
    looked_at = {} if calendars is None else calendars
    read = partial(
        _read_file, environment=environment, functions=functions, interpreter=interpreter, calendars=looked_at
    )
    main = read(one, document, state=state)
    host = Host(main.folder, main.shared, polls="poll" in main.document.data)
    projects = [_read_included(found, host, read, content=given.get(found.folder)) for found in main.found.projects]
    whole = gather(main, projects, lenient=lenient)
    if whole.problems:
        raise FileProblems(whole.problems)
    files = notes_on_files([one.path, *(found.path for found in whole.included)])
    return Declared(
        settings=_with_agents(_with_shared(main.settings, whole.shared), whole.jobs),
        jobs=whole.jobs,
        notes=(*files, *whole.notes, *notes_on(whole.jobs, now=now), *counting_notes(whole.jobs)),
        positions={spec.name: main.document.position((section_of(spec), spec.name)) for spec in main.jobs},
        text_digest=main.document.digest,
        included=whole.included,
        left_out=whole.left_out,
        agents=whole.agents,
    )


def read_given(
    data: Mapping[str, Any],
    folder: Path,
    *,
    environment: Mapping[str, str],
    functions: FunctionFinder,
    interpreter: FinderOf | None = None,
    state: Path | None = None,
) -> Declared:
    """Return what values in the shape of a file declare, as if it lay in `folder`; raise JobProblems with all problems.

    `functions` is asked for the names of this process, `interpreter` for those of others.
    """
    one = Included(folder / FILE_NAME, FILE_NAME)
    read = partial(_read_file, environment=environment, functions=functions, interpreter=interpreter, calendars={})
    found = read(one, document_of(data), state=state)
    if found.problems:
        raise JobProblems(found.problems)
    settings = _with_agents(found.settings, found.jobs)
    return Declared(settings, found.jobs, notes=(), positions={}, text_digest="", agents=found.agents)


def read_further(
    folder: Path,
    name: str,
    keys: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    interpreter: FinderOf | None = None,
    inner: Path | None = None,
) -> JobSpec:
    """Return one more job as the file in `folder` would declare it, or that of the included project in `inner`.

    The file's other jobs are not looked at; raise JobProblems with all problems of this one and of the sections.
    """
    one = Included(Path(os.path.abspath(folder)) / FILE_NAME, FILE_NAME)
    read = partial(_read_file, environment=environment, functions=None, interpreter=interpreter, calendars={})
    jobs = {name: dict(keys)}
    found = read(one, _with_jobs(load(one.path), {} if inner else jobs))
    if inner is not None:
        host = Host(found.folder, found.shared, polls="poll" in found.document.data)
        wanted = os.path.realpath(inner)
        project = next((part for part in found.found.projects if os.path.realpath(part.folder) == wanted), None)
        if project is None:
            raise JobProblems([Problem(f"{inner} is no longer included", "include", one.file)])
        found = in_project(read(project, _with_jobs(load(project.path, named=project.file), jobs), host=host))
    if found.problems:
        raise JobProblems(found.problems)
    return next(spec for spec in found.jobs if spec.name.rpartition("/")[2] == name)


def _with_jobs(document: Document, jobs: Mapping[str, Any]) -> Document:
    """Return a file as if it had these jobs, and no others."""
    kept = {key: value for key, value in document.data.items() if key not in ("jobs", "groups")}
    spoilt: dict[KeyPath, Problem] = {}
    data = {**kept, "jobs": usable(plain(jobs), ("jobs",), spoilt=spoilt)}
    problems = (*document.problems, *spoilt.values())
    return replace(document, data=data, problems=problems, spoilt=document.spoilt | frozenset(spoilt))


def _with_agents(settings: Settings, jobs: Sequence[JobSpec]) -> Settings:
    """Return the settings with the pools of each agent that has a job, and of its provider (R-04)."""
    working = [own_pools(spec.work.agent) for spec in jobs if spec.work.agent is not None]
    return replace(settings, pools={**settings.pools, **{pool: size for one in working for pool, size in one.items()}})


def _with_shared(settings: Settings, shared: Shared) -> Settings:
    pools = {**BUILT_IN_POOLS, **shared["pools"]}
    return replace(settings, pools=pools, budgets=shared["budgets"], prices=shared["prices"], notify=shared["notify"])


def _read_file(
    one: Included,
    document: Document,
    *,
    environment: Mapping[str, str],
    functions: FunctionFinder | None,
    interpreter: FinderOf | None,
    calendars: MutableMapping[Path, Stamp | None],
    state: Path | None = None,
    host: Host | None = None,
) -> FileRead:
    """Return one file with its parts, as far as it is right; `host` where it is an included project."""
    patterns = patterns_of(document)
    found = find_included(patterns, one.path, home=home_of(environment), base=host.folder if host else None)
    reading = _Reading(join_parts(document, found.parts), one.folder, environment, host=host, calendars=calendars)
    settings, jobs = reading.everything(state, partial(known_agents, functions=functions))
    looked_up = reading.look_up(settings, functions, interpreter)
    reading.tell((), [*pattern_troubles(found), *looked_up.troubles])
    jobs = with_need(with_replaced(jobs, looked_up.names), looked_up.names)
    reading.tell((), [*reading.need_troubles(jobs, looked_up.names), *left_troubles(jobs, looked_up.names)])
    return FileRead(
        included=one,
        document=reading.document,
        settings=settings,
        found=found,
        jobs=jobs,
        shared=reading.shared,
        notes=tuple(pattern_notes(found, patterns)),
        problems=tuple(reading.problems),
        agents=reading.agents,
    )


def _read_included(
    one: Included, host: Host, read: Callable[..., FileRead], *, content: bytes | None
) -> FileRead | LeftOut:
    try:
        document = load(one.path, named=one.file) if content is None else parse(content, one.file)
        return in_project(read(one, document, host=host))
    except FileProblems as error:
        return LeftOut(one, error.problems)


def section_of(spec: JobSpec) -> str:
    """Return the section of the file in which a job or group stands."""
    return "groups" if spec.work.kind is Kind.GROUP else "jobs" if spec.name != POLL else "poll"


UNREADABLE = QuietHours(("00:00-00:01",))
"""Stands for quiet hours that have a problem of their own, so that jobs which refer to them have none."""


class _Reading:
    """One pass over a document; collects problems."""

    def __init__(
        self,
        document: Document,
        folder: Path,
        environment: Mapping[str, str],
        *,
        host: Host | None = None,
        calendars: MutableMapping[Path, Stamp | None],
    ) -> None:
        self.document = document
        self.folder = folder
        self.environment = environment
        self.host = host
        self.interpreter = host.python if host else None
        self.home = home_of(environment)
        self.calendars = Calendars(partial(place_of, folder=str(folder), home=self.home), calendars)
        self.shared: Shared = {}
        self.problems = list(document.problems)
        self.mentions: list[Mention] = []
        self.lost: set[str] = set()
        self.agents: tuple[Agent, ...] = ()
        self.all_known = True
        """Whether it is known which functions are agents: a module that fails may have registered some."""

    def everything(self, state: Path | None, known_agents: KnownAgents) -> tuple[Settings, tuple[JobSpec, ...]]:
        """Return settings and jobs as far as they are right; `known_agents` tells the functions that are agents."""
        data: dict[str, Any] = dict(self.document.data)
        raw_jobs, raw_groups, raw_defaults = data.pop("jobs", None), data.pop("groups", None), data.pop("defaults", {})
        raw_agents = self._bodies(data.pop("agents", None), "agents")
        top, troubles = read_map(ProjectFile, data)
        self.tell((), troubles)
        settings = self._settings(top, state)
        registered = known_agents(settings)
        raw_agents, self.all_known = with_registered(raw_agents, registered or {}), registered is not None
        defaults, troubles = read_map(DefaultsSection, raw_defaults)
        defaults, twice = one_spelling(defaults)
        troubles += [
            Trouble(("except", *one.at), one.message, one.code, one.hint)
            for one in resolve_except(defaults, self.calendars)
        ]
        pools = None if self._told(("pools",)) else settings.pools
        budgets = None if self._told(("budgets",)) else settings.budgets
        targets = None if self._told(("notify",)) else settings.notify
        wrong = [*draw_troubles(defaults, pools), *name_troubles(defaults, budgets)]
        wrong += target_troubles(defaults, targets)
        self.tell(("defaults",), [*troubles, *twice, *wrong])
        around = Surroundings(
            folder=str(self.folder),
            home=self.home,
            timezone=settings.timezone,
            local_zone=self._local_zone,
            timeout=settings.scheduler.timeout,
            python=settings.python,
            retention=settings.retention,
            pools=pools,
            budgets=budgets,
            defaults=defaults,
            quiet=self._quiet(top.get("quiet_hours"), settings.timezone),
            calendars=self.calendars,
            targets=targets,
            target_folder=str(self.folder) if self.host else "",
            agents=self._agents(raw_agents, registered, python=settings.python),
        )
        bodies = {"jobs": self._bodies(raw_jobs, "jobs"), "groups": self._bodies(raw_groups, "groups")}
        self._check_names([(section, name) for section, named in bodies.items() for name in named])
        jobs = self._jobs(bodies["jobs"], bodies["groups"], around)
        scheduled = self._scheduled(raw_agents, around)
        return settings, (*self._poll(top.get("poll"), around), *scheduled, *jobs)

    def _agents(
        self, raw: Mapping[str, Any], registered: Mapping[str, Any] | None, *, python: str | None
    ) -> Mapping[str, Agent | None]:
        """Return the configured agents, None for those that are wrong."""
        found: dict[str, Agent | None] = dict.fromkeys(raw)
        self._check_names([("agents", name) for name in raw])
        for name, body in raw.items():
            keys, troubles = read_map(AgentEntry, {} if body is None else body)
            self.tell(("agents", name), troubles)
            try:
                found[name] = read_agent(name, keys) if isinstance(body, dict | None) else None
                refuse_elsewhere(found[name], registered, python=python)
            except Refused as error:
                wrong = Trouble(error.at, error.message, error.code, error.hint, ("adapter", "access"))
                self.tell(("agents", name), [] if _follows(wrong, troubles) else [wrong])
                found[name] = None
        self.agents = tuple(agent for agent in found.values() if agent is not None)
        return found

    def _scheduled(self, raw: Mapping[str, Any], around: Surroundings) -> list[JobSpec]:
        """Return the jobs of the agents' own schedules, each named agent/schedule (document 003)."""
        found = []
        named = self._schedules(raw)
        for agent in raw:
            self._check_names([("schedules", name) for owner, name, _ in named if owner == agent], ("agents", agent))
        for agent, schedule, body in named:
            at: KeyPath = ("agents", agent, "schedules", schedule)
            try:
                keys = read_schedule(body)
            except Refused as error:
                self.tell(at, [Trouble(error.at, error.message, error.code, error.hint)])
                continue
            found.append(self._job(f"{agent}/{schedule}", {"agent": agent, **keys}, around, at=at))
        return [spec for spec in found if spec is not None]

    def _schedules(self, raw: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
        bodies = {agent: body.get("schedules") for agent, body in raw.items() if isinstance(body, dict)}
        return [
            (agent, name, body)
            for agent, schedules in bodies.items()
            if isinstance(schedules, dict)
            for name, body in schedules.items()
        ]

    def _quiet(self, written: WrittenQuiet | None, zone: str) -> QuietHours | None:
        """Return the file's quiet hours, in a zone that is known by name."""
        if written is None:
            return UNREADABLE if "quiet_hours" in self.document.data else None
        try:
            zone = self._local_zone() if written.timezone == "local" else written.timezone or zone
        except RotaError as error:
            self.tell(("quiet_hours",), [Trouble(("timezone",), error.message, "timezone", error.hint)])
        return QuietHours(written.windows, zone, written.policy or QuietPolicy.DORMANT)

    def _poll(self, section: PollSection | None, around: Surroundings) -> tuple[JobSpec, ...]:
        """Return the job that polls; that of an included project does not apply."""
        if section is None or self.host is not None:
            return ()
        keys = {key: getattr(section, key) for key in section.model_fields_set}
        if "run" in keys:
            self.mentions.append(Mention(("poll", "run"), keys["run"], condition=False, python=around.python))
        spec, troubles = poll_job(keys, around)
        self.tell(("poll",), troubles)
        return () if spec is None else (spec,)

    def _told(self, base: KeyPath) -> bool:
        """Tell whether something is wrong below a key."""
        key = write_path(base)
        return any(problem.path == key or problem.path.startswith(f"{key}.") for problem in self.problems)

    def look_up(self, settings: Settings, functions: FunctionFinder | None, interpreter: FinderOf | None) -> LookedUp:
        """Ask for the names that the file mentions; an interpreter that is not there is not asked."""
        mentions = [mention for mention in self.mentions if mention.python not in self.lost]
        if settings.python in self.lost:
            return LookedUp()
        return look_up(mentions, settings, functions=functions, interpreter=interpreter)

    def need_troubles(self, jobs: Sequence[JobSpec], names: NamesOf) -> list[Trouble]:
        """Return the jobs that need a poll which nobody makes; that of an included project is nobody's."""
        polls = "poll" in self.document.data if self.host is None else self.host.polls
        lacking = None if polls else "the file" if self.host is None else "the including file"
        return need_troubles(jobs, self.document, names=names, lacking=lacking)

    def _settings(self, top: Mapping[str, Any], state: Path | None) -> Settings:
        retention = top.get("retention") or RetentionSection.model_construct()
        self.shared = {
            "pools": top.get("pools", {}),
            "budgets": self._accounts(top),
            "prices": top.get("prices", {}),
            "notify": self._targets(top),
        }
        hosted = self.host.shared if self.host else {}
        shared = {section: {**own, **hosted.get(section, {})} for section, own in self.shared.items()}
        settings = Settings(
            folder=self.folder,
            state=self._state(top.get("state"), state),
            store=self.environment.get("ROTA_STORE") or top.get("store") or SQLITE,
            timezone=self._zone(top),
            scheduler=_scheduler(top.get("scheduler") or SchedulerSection.model_construct()),
            http=_http(top.get("http") or HttpSection.model_construct()),
            agent_policy=_agent_policy(top.get("agent_policy") or AgentPolicySection.model_construct()),
            retention=Retention(retention.runs, retention.skipped, retention.skipped_count, retention.output),
            output_total=retention.output_total,
            imports=tuple(top.get("imports", ())),
            python=self._python(top["python"], ("python",)) if "python" in top else self.interpreter,
        )
        return _with_shared(settings, shared)

    def _targets(self, top: Mapping[str, Any]) -> dict[str, Target]:
        """Return the targets of the file; commands of an included project run in its folder."""
        written: Mapping[str, Target] = top.get("notify", {})
        cwd = str(self.folder) if self.host else ""
        return {name: replace(one, name=name, cwd=cwd if one.command else "") for name, one in written.items()}

    def _accounts(self, top: Mapping[str, Any]) -> dict[str, Account]:
        """Return the accounts of the file, each in a zone that is known by name."""
        written: Mapping[str, WrittenAccount] = top.get("budgets", {})
        default = self._zone(top) if written else "UTC"
        zones = {name: self._account_zone(name, one.timezone or default) for name, one in written.items()}
        return {name: one.account(name, zones[name]) for name, one in written.items()}

    def _account_zone(self, name: str, zone: str) -> str:
        try:
            return self._local_zone() if zone == "local" else zone
        except RotaError as error:
            self.tell(("budgets", name), [Trouble(("timezone",), error.message, "timezone", error.hint)])
            return "UTC"

    def _state(self, written: str | None, given: Path | None) -> Path:
        text = str(given) if given else self.environment.get("ROTA_STATE") or written or STATE_NAME
        return Path(place_of(text, str(self.folder), home=self.home))

    def _zone(self, top: Mapping[str, Any]) -> str:
        name: str = top.get("timezone", "UTC")
        if name != "local":
            return name
        try:
            return self._local_zone()
        except RotaError as error:
            self.tell(("timezone",), [Trouble((), error.message, "timezone", error.hint)])
            return "UTC"

    def _local_zone(self) -> str:
        return local_zone(self.environment)

    def _python(self, text: str, key: KeyPath) -> str:
        path = place_of(text, str(self.folder), home=self.home, program=True)
        if "/" in path and not os.access(path, os.X_OK):
            self.lost.add(path)
            hint = "create the environment, or correct the path"
            self.tell(key, [Trouble((), f"there is no program {shown(text)}", "python_missing", hint)])
        return path

    def _bodies(self, raw: Any, section: str) -> dict[str, Any]:
        """Return the map of a section, an empty one where it is no map."""
        if raw is not None and not isinstance(raw, dict):
            hint = f"write each {section[:-1]} under its name"
            self.tell((section,), [Trouble((), f"is not a map of {section}", "wrong_type", hint)])
        return raw if isinstance(raw, dict) else {}

    def _jobs(self, raw: Mapping[str, Any], groups: Mapping[str, Any], around: Surroundings) -> tuple[JobSpec, ...]:
        jobs = {name: self._job(name, body, around) for name, body in raw.items()}
        built = [self._group(name, body, around, jobs=jobs, groups=list(groups)) for name, body in groups.items()]
        return tuple(spec for spec in [*jobs.values(), *built] if spec is not None)

    def _check_names(self, names: list[tuple[str, str]], base: KeyPath = ()) -> None:
        """Check names of one list, such as those of jobs and groups: `rota run` takes both."""
        folded: dict[str, tuple[str, str]] = {}
        for section, name in names:
            taken, other = folded.setdefault(name.casefold(), (section, name))
            if trouble := _wrong_name(name, other):
                self.tell((*base, section, name), [trouble])
            elif taken != section:
                message = f"there is a {taken[:-1]} of this name already"
                self.tell((section, name), [Trouble((), message, "job_name", "choose another name")])

    def _job(self, name: str, raw: Any, around: Surroundings, *, at: KeyPath = ()) -> JobSpec | None:
        """Return the spec of a job; `at` is where it stands, where that is not below `jobs`."""
        at = at or ("jobs", name)
        if raw is None or raw == {}:
            self.tell(at, [NO_WORK])
            return None
        own, troubles = read_map(JobEntry, raw)
        self.tell(at, troubles)
        if not isinstance(raw, dict):
            return None
        own = self.host.fitted(own) if self.host else own
        self.mentions += mentions_of(name, raw, own=own, around=around, at=at)
        if "python" in own and "run" in own:
            self._python(own["python"], (*at, "python"))
        spec, wrong = build_job(name, own, around)
        if spec is not None and spec.work.agent is not None and ":" in spec.work.agent.function:
            place = ("agents", spec.work.agent.agent, "adapter", "run")
            self.mentions.append(Mention(place, spec.work.agent.function, condition=False, python=None))
        self.tell(at, [trouble for trouble in wrong if not _follows(trouble, troubles)])
        return spec

    def _group(
        self,
        name: str,
        raw: Any,
        around: Surroundings,
        *,
        jobs: Mapping[str, JobSpec | None],
        groups: list[str],
    ) -> JobSpec | None:
        if raw is None or raw == {}:
            self.tell(("groups", name), [replace(NO_MEMBERS, path=())])
            return None
        own, troubles = read_map(GroupEntry, raw)
        self.tell(("groups", name), troubles)
        if not isinstance(raw, dict):
            return None
        spec, wrong = build_group(name, own, around, jobs=jobs, groups=groups)
        self.tell(("groups", name), [trouble for trouble in wrong if not _follows(trouble, troubles)])
        return spec

    def tell(self, base: KeyPath, troubles: list[Trouble]) -> None:
        """Make problems of troubles below `base`, with their places in the file."""
        for trouble in troubles:
            path = self._written_path((*base, *trouble.path))
            if any(path[: len(spoilt)] == spoilt for spoilt in self.document.spoilt):
                continue
            if trouble.code == "unknown_agent" and not self.all_known:
                continue
            place = self.document.place(path)
            self.problems.append(Problem(trouble.message, trouble.code, *place, write_path(path), trouble.hint))

    def _written_path(self, path: KeyPath) -> KeyPath:
        # A command written as one text has words but no items, and a default stands elsewhere than its job.
        while path not in self.document.keys and isinstance(path[-1] if path else None, int):
            path = path[:-1]
        return path


def _agent_policy(section: AgentPolicySection) -> AgentPolicy:
    return AgentPolicy(
        enabled=section.enabled,
        max_active=section.max_active,
        creations_per_hour=section.creations_per_hour,
        min_interval=section.min_interval,
        expires_after=section.expires_after,
        max_depth=section.max_depth,
        approval=section.approval,
        access=section.access,
    )


def _scheduler(section: SchedulerSection) -> Scheduler:
    return Scheduler(
        concurrency=section.concurrency,
        tick=section.tick,
        timeout=section.timeout,
        shutdown_grace=section.shutdown_grace,
        agent_shutdown_grace=section.agent_shutdown_grace,
        enabled=section.enabled,
        crash_guard=section.crash_guard,
        aging=section.aging,
        ping=section.ping_url,
    )


def _http(section: HttpSection) -> Http:
    return Http(section.listen, section.base_path, section.public_url)


def _wrong_name(name: str, other: str) -> Trouble | None:
    if name.casefold().startswith("rota/"):
        return Trouble((), "names that start with rota/ are rota's own", "job_name", "choose another name")
    if not JOB_NAME.fullmatch(name):
        hint = "use 1 to 200 letters, digits and . _ -, the first a letter or digit"
        return Trouble((), f"{shown(name)} cannot be a job's name", "job_name", hint)
    if other != name:
        return Trouble((), f"differs from {shown(other)} in case only", "job_name", "choose another name")
    return None


def in_case_only(name: str, other: str) -> Problem:
    """Return what is wrong with a job whose name only differs in case from that of another one."""
    found = _wrong_name(name, other)
    assert found is not None
    return Problem(found.message, found.code, path=write_path(("jobs", name)), hint=found.hint)


def _follows(trouble: Trouble, found: list[Trouble]) -> bool:
    """Tell whether `trouble` may be there only because keys with another one were left out."""
    bad = {other.path[0] for other in found if other.path}
    if trouble.path and trouble.path[0] in bad:
        return True
    mistyped = any(other.code == "unknown_key" and len(other.path) == 1 for other in found)
    return bool(trouble.looks_at) and (mistyped or not bad.isdisjoint(trouble.looks_at))
