"""One file with its parts, from its text to settings, jobs and problems: what is read after what."""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rota.declare.agents import Agent
from rota.declare.defaults import read_surroundings
from rota.declare.entries import bodies_of, read_agents, read_jobs, read_poll, read_schedules
from rota.declare.excluding import Calendars
from rota.declare.files import Document, Stamp, home_of
from rota.declare.findings import Findings
from rota.declare.function_agents import with_registered
from rota.declare.including import Included, find_included, join_parts, patterns_of
from rota.declare.joining import FileRead, Host, Shared, pattern_notes, pattern_troubles
from rota.declare.mentions import (
    FinderOf,
    LookedUp,
    NamesOf,
    known_agents,
    left_troubles,
    look_up,
    modules_of,
    with_replaced,
)
from rota.declare.polling import need_troubles, with_need
from rota.declare.registry import FunctionFinder
from rota.declare.sections import Origin, read_sections, read_settings
from rota.declare.troubles import Trouble
from rota.model.spec import JobSpec
from rota.settings import Settings


@dataclass(frozen=True, slots=True)
class _Content:
    """What the sections of a file say, before anybody is asked for the names in them."""

    settings: Settings
    shared: Shared
    agents: tuple[Agent, ...]
    jobs: tuple[JobSpec, ...]


def read_file(
    one: Included,
    document: Document,
    *,
    environment: Mapping[str, str],
    functions: FunctionFinder | None,
    interpreter: FinderOf | None,
    calendars: MutableMapping[Path, Stamp | None],
    state: Path | None = None,
    host: Host | None = None,
    imports: bool = True,
    modules: MutableMapping[str, None] | None = None,
) -> FileRead:
    """Return one file with its parts, as far as it is right; `host` where it is an included project.

    Without `imports` no module of it is run: names are looked up in their source. `modules` gets those that it names.
    """
    patterns = patterns_of(document)
    found = find_included(patterns, one.path, home=home_of(environment), base=host.folder if host else None)
    findings = Findings(join_parts(document, found.parts))
    origin = Origin(one.folder, environment, host)
    content = _read_content(findings, origin, state=state, functions=functions, calendars=calendars, imports=imports)
    known = _look_up(findings, content.settings, functions=functions, interpreter=interpreter, imports=imports)
    if modules is not None:
        modules.update(dict.fromkeys(modules_of(findings.mentions, content.settings, content.agents)))
    findings.tell((), [*pattern_troubles(found), *known.troubles])
    jobs = with_need(with_replaced(content.jobs, known.names), known.names)
    findings.tell((), _unpolled(jobs, findings.document, names=known.names, host=host))
    findings.tell((), left_troubles(jobs, known.names))
    return FileRead(
        included=one,
        document=findings.document,
        settings=content.settings,
        found=found,
        jobs=jobs,
        shared=content.shared,
        notes=tuple(pattern_notes(found, patterns)),
        problems=tuple(findings.problems),
        agents=content.agents,
    )


def _read_content(
    findings: Findings,
    origin: Origin,
    *,
    state: Path | None,
    functions: FunctionFinder | None,
    calendars: MutableMapping[Path, Stamp | None],
    imports: bool,
) -> _Content:
    """Read the sections, then what every job is seen against, then the jobs."""
    written = bodies_of("agents", findings)
    sections = read_sections(findings)
    settings, shared = read_settings(sections, origin, findings=findings, state=state)
    registered = known_agents(settings, functions, imports=imports)
    findings.agents_known = registered is not None
    bodies = with_registered(written, registered or {})
    looking = Calendars(origin.place, calendars)
    around = read_surroundings(sections, settings, origin=origin, calendars=looking, findings=findings)
    agents = read_agents(bodies, registered=registered, python=settings.python, findings=findings)
    around = replace(around, agents=agents)
    jobs = read_jobs(around, findings)
    scheduled = read_schedules(bodies, around, findings=findings)
    poll = read_poll(sections.get("poll"), around, findings=findings)
    right = tuple(agent for agent in agents.values() if agent is not None)
    return _Content(replace(settings, quiet=around.quiet), shared, right, (*poll, *scheduled, *jobs))


def _look_up(
    findings: Findings,
    settings: Settings,
    *,
    functions: FunctionFinder | None,
    interpreter: FinderOf | None,
    imports: bool,
) -> LookedUp:
    """Ask for the names that the file mentions; an interpreter that is not there is not asked."""
    if settings.python in findings.lost:
        return LookedUp()
    mentions = [mention for mention in findings.mentions if mention.python not in findings.lost]
    return look_up(mentions, settings, functions=functions, interpreter=interpreter, imports=imports)


def _unpolled(jobs: Sequence[JobSpec], document: Document, *, names: NamesOf, host: Host | None) -> list[Trouble]:
    """Return the jobs that need a poll which nobody makes; that of an included project is nobody's."""
    polls = "poll" in document.data if host is None else host.polls
    lacking = None if polls else "the file" if host is None else "the including file"
    return need_troubles(jobs, document, names=names, lacking=lacking)
