"""A project's file to its settings and specs: everything is checked, and all problems are told at once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rota.declare.fields import JOB_NAME, shown
from rota.declare.files import Document, KeyPath, load, parse, write_path
from rota.declare.groups import NO_MEMBERS, build_group
from rota.declare.jobs import NO_WORK, Surroundings, Trouble, build_job, draw_troubles, one_spelling, place_of
from rota.declare.mentions import FinderOf, Mention, mentions_of, unknown_names
from rota.declare.notes import notes_on
from rota.declare.reading import read_map
from rota.declare.registry import FunctionFinder
from rota.declare.spec import DefaultsSection, GroupEntry, JobEntry, ProjectFile, RetentionSection, SchedulerSection
from rota.declare.zone import local_zone
from rota.model.errors import FileProblems, Problem, RotaError
from rota.model.spec import JobSpec, Kind, Retention
from rota.settings import BUILT_IN_POOLS, FILE_NAME, STATE_NAME, Scheduler, Settings


@dataclass(frozen=True, slots=True)
class Declared:
    """What a project's file says, complete and checked."""

    settings: Settings
    jobs: tuple[JobSpec, ...]
    notes: tuple[str, ...]
    positions: Mapping[str, tuple[int, int]]
    text_digest: str


def read_project(
    folder: Path,
    *,
    environment: Mapping[str, str],
    functions: FunctionFinder | None = None,
    interpreter: FinderOf | None = None,
    state: Path | None = None,
    now: datetime | None = None,
    content: bytes | None = None,
) -> Declared:
    """Return what the file in `folder` declares; raise FileProblems with every problem, in file order.

    `functions` is asked for every name; without it this process imports the modules, and functions of another
    interpreter are asked of `interpreter`, or not checked where that is None too. `content` is read in the place of
    the file, as if it were there already.
    """
    folder = Path(os.path.abspath(folder))
    document = load(folder / FILE_NAME) if content is None else parse(content)
    reading = _Reading(document, folder, environment)
    settings, jobs = reading.everything(state)
    reading.tell((), reading.unknown_names(settings, functions, interpreter))
    if reading.problems:
        raise FileProblems(sorted(reading.problems, key=lambda problem: (problem.line, problem.column)))
    positions = {spec.name: reading.document.position((section_of(spec), spec.name)) for spec in jobs}
    return Declared(settings, jobs, notes_on(jobs, now=now), positions, reading.document.digest)


def section_of(spec: JobSpec) -> str:
    """Return the section of the file in which a job or group stands."""
    return "groups" if spec.work.kind is Kind.GROUP else "jobs"


class _Reading:
    """One pass over a document; collects problems."""

    def __init__(self, document: Document, folder: Path, environment: Mapping[str, str]) -> None:
        self.document = document
        self.folder = folder
        self.environment = environment
        self.home = environment.get("HOME") or os.path.expanduser("~")
        self.problems = list(document.problems)
        self.mentions: list[Mention] = []
        self.lost: set[str] = set()

    def everything(self, state: Path | None) -> tuple[Settings, tuple[JobSpec, ...]]:
        """Return settings and jobs as far as they are right."""
        data: dict[str, Any] = dict(self.document.data)
        raw_jobs, raw_groups, raw_defaults = data.pop("jobs", None), data.pop("groups", None), data.pop("defaults", {})
        top, troubles = read_map(ProjectFile, data)
        self.tell((), troubles)
        settings = self._settings(top, state)
        defaults, troubles = read_map(DefaultsSection, raw_defaults)
        defaults, twice = one_spelling(defaults)
        pools = None if self._told(("pools",)) else settings.pools
        self.tell(("defaults",), [*troubles, *twice, *draw_troubles(defaults, pools)])
        around = Surroundings(
            folder=str(self.folder),
            home=self.home,
            timezone=settings.timezone,
            local_zone=self._local_zone,
            timeout=settings.scheduler.timeout,
            python=settings.python,
            retention=settings.retention,
            pools=pools,
            defaults=defaults,
        )
        bodies = {"jobs": self._bodies(raw_jobs, "jobs"), "groups": self._bodies(raw_groups, "groups")}
        self._check_names([(section, name) for section, named in bodies.items() for name in named])
        return settings, self._jobs(bodies["jobs"], bodies["groups"], around)

    def _told(self, base: KeyPath) -> bool:
        """Tell whether something is wrong below a key."""
        key = write_path(base)
        return any(problem.path == key or problem.path.startswith(f"{key}.") for problem in self.problems)

    def unknown_names(
        self, settings: Settings, functions: FunctionFinder | None, interpreter: FinderOf | None
    ) -> list[Trouble]:
        """Return the names that nobody knows; an interpreter that is not there is not asked."""
        mentions = [mention for mention in self.mentions if mention.python not in self.lost]
        if settings.python in self.lost:
            return []
        return unknown_names(mentions, settings, functions=functions, interpreter=interpreter)

    def _settings(self, top: Mapping[str, Any], state: Path | None) -> Settings:
        retention = top.get("retention") or RetentionSection.model_construct()
        return Settings(
            folder=self.folder,
            state=self._state(top.get("state"), state),
            timezone=self._zone(top),
            scheduler=_scheduler(top.get("scheduler") or SchedulerSection.model_construct()),
            retention=Retention(retention.runs, retention.skipped, retention.skipped_count, retention.output),
            output_total=retention.output_total,
            imports=tuple(top.get("imports", ())),
            python=self._python(top["python"], ("python",)) if "python" in top else None,
            pools={**BUILT_IN_POOLS, **top.get("pools", {})},
        )

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

    def _check_names(self, names: list[tuple[str, str]]) -> None:
        """Check the names of jobs and groups, which share one list: `rota run` takes both."""
        folded: dict[str, tuple[str, str]] = {}
        for section, name in names:
            taken, other = folded.setdefault(name.casefold(), (section, name))
            if trouble := _wrong_name(name, other):
                self.tell((section, name), [trouble])
            elif taken != section:
                message = f"there is a {taken[:-1]} of this name already"
                self.tell((section, name), [Trouble((), message, "job_name", "choose another name")])

    def _job(self, name: str, raw: Any, around: Surroundings) -> JobSpec | None:
        if raw is None or raw == {}:
            self.tell(("jobs", name), [NO_WORK])
            return None
        own, troubles = read_map(JobEntry, raw)
        self.tell(("jobs", name), troubles)
        if not isinstance(raw, dict):
            return None
        self.mentions += mentions_of(name, raw, own=own, around=around)
        if "python" in own and "run" in own:
            self._python(own["python"], ("jobs", name, "python"))
        spec, wrong = build_job(name, own, around)
        self.tell(("jobs", name), [trouble for trouble in wrong if not _follows(trouble, troubles)])
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
            place = self.document.position(path)
            self.problems.append(
                Problem(trouble.message, trouble.code, self.document.file, *place, write_path(path), trouble.hint)
            )

    def _written_path(self, path: KeyPath) -> KeyPath:
        # A command written as one text has words but no items, and a default stands elsewhere than its job.
        while path not in self.document.keys and isinstance(path[-1] if path else None, int):
            path = path[:-1]
        return path


def _scheduler(section: SchedulerSection) -> Scheduler:
    return Scheduler(
        concurrency=section.concurrency,
        tick=section.tick,
        timeout=section.timeout,
        shutdown_grace=section.shutdown_grace,
        enabled=section.enabled,
        crash_guard=section.crash_guard,
        aging=section.aging,
    )


def _wrong_name(name: str, other: str) -> Trouble | None:
    if name.casefold().startswith("rota/"):
        return Trouble((), "names that start with rota/ are rota's own", "job_name", "choose another name")
    if not JOB_NAME.fullmatch(name):
        hint = "use 1 to 200 letters, digits and . _ -, the first a letter or digit"
        return Trouble((), f"{shown(name)} cannot be a job's name", "job_name", hint)
    if other != name:
        return Trouble((), f"differs from {shown(other)} in case only", "job_name", "choose another name")
    return None


def _follows(trouble: Trouble, found: list[Trouble]) -> bool:
    """Tell whether `trouble` may be there only because keys with another one were left out."""
    bad = {other.path[0] for other in found if other.path}
    if trouble.path and trouble.path[0] in bad:
        return True
    mistyped = any(other.code == "unknown_key" and len(other.path) == 1 for other in found)
    return bool(trouble.looks_at) and (mistyped or not bad.isdisjoint(trouble.looks_at))
