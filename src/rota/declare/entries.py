"""The entries of a file: its agents, and what becomes jobs, which are jobs, groups, agents' schedules and the poll."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rota.declare.agents import Agent, read_agent, read_schedule, refuse_elsewhere
from rota.declare.contradictions import NO_WORK
from rota.declare.fields import Refused
from rota.declare.files import KeyPath
from rota.declare.findings import Findings
from rota.declare.function_agents import Bodies
from rota.declare.groups import NO_MEMBERS, build_group
from rota.declare.job_keys import GroupEntry, JobEntry
from rota.declare.jobs import build_job
from rota.declare.joining import out_of_process
from rota.declare.mentions import Mention, mentions_of
from rota.declare.naming import check_names
from rota.declare.parts import Parts
from rota.declare.polling import poll_job
from rota.declare.reading import read_map
from rota.declare.registry import RegisteredAgent
from rota.declare.spec import AgentEntry, PollSection
from rota.declare.surroundings import Surroundings, place_of
from rota.declare.troubles import Trouble, independent, troubles_of
from rota.model.spec import AgentWork, JobSpec


def bodies_of(section: str, findings: Findings) -> dict[str, Any]:
    """Return the entries of a section, none where it is no map."""
    written = findings.document.data.get(section)
    if written is not None and not isinstance(written, dict):
        hint = f"write each {section[:-1]} under its name"
        findings.tell((section,), [Trouble((), f"is not a map of {section}", "wrong_type", hint)])
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
    name: str,
    body: Any,
    *,
    registered: Mapping[str, RegisteredAgent] | None,
    python: str | None,
    findings: Findings,
) -> Agent | None:
    keys, troubles = read_map(AgentEntry, {} if body is None else body)
    findings.tell(("agents", name), troubles)
    try:
        with Parts() as parts:
            with parts.below():
                agent = read_agent(name, keys) if isinstance(body, dict | None) else None
            refuse_elsewhere(keys.get("adapter"), registered, python=python)
    except Refused as error:
        wrong = troubles_of(error, looks_at=("adapter", "access"))
        findings.tell(("agents", name), independent(wrong, troubles))
        return None
    return agent


def read_jobs(around: Surroundings, findings: Findings) -> tuple[JobSpec, ...]:
    """Return the jobs and the groups of a file, as far as they are right."""
    jobs, groups = bodies_of("jobs", findings), bodies_of("groups", findings)
    check_names([*(("jobs", name) for name in jobs), *(("groups", name) for name in groups)], findings)
    built = {name: _job(name, body, around, findings=findings, at=("jobs", name)) for name, body in jobs.items()}
    grouped = [
        _group(name, body, around, findings=findings, jobs=built, groups=list(groups)) for name, body in groups.items()
    ]
    return tuple(spec for spec in [*built.values(), *grouped] if spec is not None)


def read_schedules(agents: Bodies, around: Surroundings, *, findings: Findings) -> tuple[JobSpec, ...]:
    """Return the jobs of the agents' own schedules, each named agent/schedule (document 003)."""
    schedules = {agent: body["schedules"] for agent, body in agents.items() if _has_schedules(body)}
    for agent, named in schedules.items():
        check_names([("schedules", name) for name in named], findings, base=("agents", agent))
    found = [
        _scheduled(agent, name, body, around=around, findings=findings)
        for agent, named in schedules.items()
        for name, body in named.items()
    ]
    return tuple(spec for spec in found if spec is not None)


def _has_schedules(body: Any) -> bool:
    return isinstance(body, dict) and isinstance(body.get("schedules"), dict)


def _scheduled(agent: str, schedule: str, body: Any, *, around: Surroundings, findings: Findings) -> JobSpec | None:
    at: KeyPath = ("agents", agent, "schedules", schedule)
    try:
        keys = read_schedule(body)
    except Refused as error:
        findings.tell(at, troubles_of(error))
        if error.rest is not None:  # its other keys may be wrong, too
            _job(f"{agent}/{schedule}", {"agent": agent, **error.rest}, around, findings=findings, at=at)
        return None
    return _job(f"{agent}/{schedule}", {"agent": agent, **keys}, around, findings=findings, at=at)


def read_poll(section: PollSection | None, around: Surroundings, *, findings: Findings) -> tuple[JobSpec, ...]:
    """Return the job that polls; that of an included project does not apply."""
    if section is None or around.included:
        return ()
    keys = {key: getattr(section, key) for key in section.model_fields_set}
    if "run" in keys:
        findings.mentions.append(Mention(("poll", "run"), keys["run"], condition=False, python=around.python))
    spec, troubles = poll_job(keys, around)
    findings.tell(("poll",), troubles)
    return () if spec is None else (spec,)


def _job(name: str, raw: Any, around: Surroundings, *, findings: Findings, at: KeyPath) -> JobSpec | None:
    """Return the spec of the job that stands at `at`."""
    if raw is None or raw == {}:
        findings.tell(at, [NO_WORK])
        return None
    own, troubles = read_map(JobEntry, raw)
    findings.tell(at, troubles)
    if not isinstance(raw, dict):
        return None
    own = out_of_process(own) if around.included else own
    findings.mentions += mentions_of(name, raw, own=own, around=around, at=at)
    if "python" in own and "run" in own:
        python = place_of(own["python"], around.folder, home=around.home, program=True)
        findings.check_interpreter(python, (*at, "python"), written=own["python"])
    spec, wrong = build_job(name, own, around)
    if spec is not None and spec.work.agent is not None:
        findings.mentions += _function_of(spec.work.agent)
    findings.tell(at, independent(wrong, troubles))
    return spec


def _function_of(work: AgentWork) -> list[Mention]:
    """Return the function that is a job's agent, where it is named by its module."""
    path = ("agents", work.agent, "adapter", "run")
    return [Mention(path, work.function, condition=False, python=None)] if ":" in work.function else []


def _group(
    name: str,
    raw: Any,
    around: Surroundings,
    *,
    findings: Findings,
    jobs: Mapping[str, JobSpec | None],
    groups: Sequence[str],
) -> JobSpec | None:
    if raw is None or raw == {}:
        findings.tell(("groups", name), [replace(NO_MEMBERS, path=())])
        return None
    own, troubles = read_map(GroupEntry, raw)
    findings.tell(("groups", name), troubles)
    if not isinstance(raw, dict):
        return None
    spec, wrong = build_group(name, own, around, jobs=jobs, groups=groups)
    findings.tell(("groups", name), independent(wrong, troubles))
    return spec
