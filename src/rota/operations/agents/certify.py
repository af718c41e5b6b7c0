"""Certification of agents: the installed program is tried, not believed."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from rota.model.agents import Attempted, Certification
from rota.model.clock import iso
from rota.model.errors import InvalidValue
from rota.operations.agents.agents import AgentView, environment_of
from rota.operations.project.locate import ProjectPaths
from rota.store.driver import Database, Store
from rota.store.tables import activity, audit

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")
"""The variables of an agent's runs that its program gets: no login leaves this machine."""


def certify_agents(
    store: Store,
    views: Sequence[AgentView],
    *,
    place: ProjectPaths,
    environ: Mapping[str, str],
    clock: Callable[[], datetime],
    tell: Callable[[str, str], None],
) -> list[Certification]:
    """Try each program on the acts that `access: read` forbids, and store the outcome; `tell` gets agent and class."""
    from rota.agents.certify import certify

    made: list[Certification] = []
    for view in views:
        known = view.known
        if known.kind is None or known.adapter in [one.adapter for one in made]:
            continue
        _refuse_unready(view)
        whole = environment_of(known, environ, place)
        env = {name: whole[name] for name in PASSED_ON if name in whole}
        attempts = certify(known.kind, env, tell=lambda each, name=known.name: tell(name, each))  # type: ignore[misc]
        outcome = Certification(known.adapter, view.found.version, clock(), attempts)
        store.write(lambda db, outcome=outcome: _save(db, outcome))  # type: ignore[misc]
        made.append(outcome)
    return made


def _save(db: Database, made: Certification) -> None:
    activity.save_certification(db, made)
    failed = ", ".join(not_denied(made))
    audit.insert_event(
        db, "agent_certified", now=made.at, adapter=made.adapter, version=made.version, not_denied=failed or None
    )


def certifiable(views: Sequence[AgentView]) -> list[AgentView]:
    """Return the agents whose programs can be certified."""
    from rota.agents.certify import PROGRAMS

    return [view for view in views if view.known.adapter in PROGRAMS]


def _refuse_unready(view: AgentView) -> None:
    if view.found.path is None or not view.found.version:
        hint = "`rota agents check` has its path and version"
        raise InvalidValue(f"{view.known.name} cannot be certified: {view.found.problem or 'no version'}", hint=hint)


def not_denied(made: Certification) -> list[str]:
    """Return the classes that were not denied."""
    return [name for name, each in made.attempts.items() if each is not Attempted.DENIED]


def certified_words(made: Certification | None, version: str) -> str:
    """Return whether this version of a program is certified, in a few words."""
    if made is None:
        return "no"
    if made.version != version:
        return f"no, {made.version} was"
    failed = ", ".join(f"{name} {made.attempts[name]}" for name in not_denied(made))
    return f"failed: {failed}" if failed else "yes"


class CertificationJson(TypedDict):
    """The certification of a program; `current`: it is about the installed version."""

    adapter: str
    version: str
    at: str
    passed: bool
    current: bool
    attempts: dict[str, str]


def certification_json(made: Certification | None, version: str) -> CertificationJson | None:
    """Return a certification as JSON."""
    if made is None:
        return None
    attempts = {name: each.value for name, each in made.attempts.items()}
    return {
        "adapter": made.adapter,
        "version": made.version,
        "at": iso(made.at),
        "passed": made.passed,
        "current": made.version == version,
        "attempts": attempts,
    }


def certified_json(made: Sequence[Certification]) -> dict[str, Any]:
    """Return new certifications as JSON."""
    return {
        "ok": all(one.passed for one in made),
        "certified": [certification_json(one, one.version) for one in made],
    }
