"""The sections of a file that become its settings, and those that several projects share."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rota.declare.budgets import WrittenAccount
from rota.declare.files import KeyPath, home_of
from rota.declare.findings import Findings
from rota.declare.joining import Host, Shared
from rota.declare.reading import read_map
from rota.declare.spec import AgentPolicySection, HttpSection, ProjectFile, RetentionSection, SchedulerSection
from rota.declare.surroundings import place_of
from rota.declare.troubles import Trouble
from rota.declare.zone import local_zone
from rota.model.address import SQLITE
from rota.model.budget import Account
from rota.model.errors import RotaError
from rota.model.making import AgentPolicy
from rota.model.notify import Target
from rota.model.spec import Retention
from rota.settings import BUILT_IN_POOLS, STATE_NAME, Http, Scheduler, Settings

APART = ("jobs", "groups", "defaults", "agents")
"""Sections that are read entry by entry, or against others."""

Sections = Mapping[str, Any]
"""The other sections by name, as far as they are right."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a file stands: its folder, the environment, and the project that includes it."""

    folder: Path
    environment: Mapping[str, str]
    host: Host | None = None

    @property
    def home(self) -> str:
        """The user's home folder."""
        return home_of(self.environment)

    def local_zone(self) -> str:
        """Return the machine's own zone by name."""
        return local_zone(self.environment)

    def place(self, text: str, *, program: bool = False) -> str:
        """Return the absolute path of what the file names."""
        return place_of(text, str(self.folder), home=self.home, program=program)


def read_sections(findings: Findings) -> Sections:
    """Return the sections that say something about the whole project."""
    written = {key: value for key, value in findings.document.data.items() if key not in APART}
    sections, troubles = read_map(ProjectFile, written)
    findings.tell((), troubles)
    return sections


def read_settings(
    sections: Sections, origin: Origin, *, findings: Findings, state: Path | None
) -> tuple[Settings, Shared]:
    """Return the settings of a project, and what it writes itself of the sections that all projects share.

    Where its host writes the same, that of the host is among the settings.
    """
    zone = named_zone(sections.get("timezone", "UTC"), origin, findings=findings, key=("timezone",))
    own = _shared(sections, origin, findings=findings, zone=zone)
    hosted = origin.host.shared if origin.host else {}
    settings = _settings(sections, origin, findings=findings, zone=zone, state=state)
    return with_shared(settings, {section: {**own[section], **hosted.get(section, {})} for section in own}), own


def with_shared(settings: Settings, shared: Shared) -> Settings:
    """Return the settings with the sections that all projects have in common."""
    pools = {**BUILT_IN_POOLS, **shared["pools"]}
    return replace(settings, pools=pools, budgets=shared["budgets"], prices=shared["prices"], notify=shared["notify"])


def named_zone(zone: str, origin: Origin, *, findings: Findings, key: KeyPath, otherwise: str = "UTC") -> str:
    """Return a zone, that of the machine for `local`; where nobody knows that one, this is told, and `otherwise`."""
    try:
        return origin.local_zone() if zone == "local" else zone
    except RotaError as error:
        findings.tell(key, [Trouble((), error.message, "timezone", error.hint)])
        return otherwise


def _settings(sections: Sections, origin: Origin, *, findings: Findings, zone: str, state: Path | None) -> Settings:
    retention = sections.get("retention") or RetentionSection.model_construct()
    return Settings(
        folder=origin.folder,
        state=_state(sections.get("state"), origin, given=state),
        store=origin.environment.get("ROTA_STORE") or sections.get("store") or SQLITE,
        timezone=zone,
        scheduler=_scheduler(sections.get("scheduler") or SchedulerSection.model_construct()),
        http=_http(sections.get("http") or HttpSection.model_construct()),
        agent_policy=_agent_policy(sections.get("agent_policy") or AgentPolicySection.model_construct()),
        retention=Retention(retention.runs, retention.skipped, retention.skipped_count, retention.output),
        output_total=retention.output_total,
        imports=tuple(sections.get("imports", ())),
        python=_python(sections.get("python"), origin, findings=findings),
    )


def _shared(sections: Sections, origin: Origin, *, findings: Findings, zone: str) -> Shared:
    return {
        "pools": sections.get("pools", {}),
        "budgets": _accounts(sections.get("budgets", {}), origin, findings=findings, zone=zone),
        "prices": sections.get("prices", {}),
        "notify": _targets(sections.get("notify", {}), origin),
    }


def _accounts(
    written: Mapping[str, WrittenAccount], origin: Origin, *, findings: Findings, zone: str
) -> dict[str, Account]:
    """Return the accounts of the file, each in a zone that is known by name."""
    zones = {
        name: named_zone(one.timezone or zone, origin, findings=findings, key=("budgets", name, "timezone"))
        for name, one in written.items()
    }
    return {name: one.account(name, zones[name]) for name, one in written.items()}


def _targets(written: Mapping[str, Target], origin: Origin) -> dict[str, Target]:
    """Return the targets of the file; commands of an included project run in its folder."""
    cwd = str(origin.folder) if origin.host else ""
    return {name: replace(one, name=name, cwd=cwd if one.command else "") for name, one in written.items()}


def _state(written: str | None, origin: Origin, *, given: Path | None) -> Path:
    return Path(origin.place(str(given) if given else origin.environment.get("ROTA_STATE") or written or STATE_NAME))


def _python(written: str | None, origin: Origin, *, findings: Findings) -> str | None:
    """Return the interpreter of the project's functions; None: this one."""
    if written is None:
        return origin.host.python if origin.host else None
    path = origin.place(written, program=True)
    findings.check_interpreter(path, ("python",), written=written)
    return path


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
