"""The sections of a file beside its jobs, `poll` included, and the defaults of jobs."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.declare import jobs
from rota.declare.applicability import Keys
from rota.declare.keys import DEFAULTS, PROJECT, read_map
from rota.declare.merge import Host, Shared
from rota.declare.problems import shown
from rota.declare.readers.calendar import Calendars, WrittenQuiet, local_zone, quiet_of_poll
from rota.declare.readers.limits import spends_of
from rota.declare.readers.people import people_problems
from rota.declare.readers.secrets import placed
from rota.declare.references import Findings, NamesOf
from rota.declare.registry import BUILTIN_CONDITIONS
from rota.declare.types import PollGroup
from rota.declare.yaml import Document
from rota.model.budgets import Account, Subscription, Unit
from rota.model.errors import KeyPath, Problem, RotaError
from rota.model.notifications import Target
from rota.model.proposals import AgentPolicy
from rota.model.spec import (
    ByMode,
    JobSpec,
    Kind,
    Misfire,
    MisfirePolicy,
    Names,
    QuietHours,
    QuietPolicy,
    RepeatedFailure,
    Retention,
    Retry,
    Schedule,
    Work,
)
from rota.model.store_url import SQLITE
from rota.settings import BUILT_IN_POOLS, OUTPUT_TOTAL, STATE_NAME, Http, SchedulerSettings, Settings, home_of

APART = ("jobs", "groups", "defaults", "agents")
"""Sections that are read entry by entry, or against others."""

Sections = Mapping[str, Any]
"""The other sections by name, as far as they are right."""


class FileOrigin(Struct, frozen=True):
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
        return jobs.place_of(text, str(self.folder), home=self.home, program=program)

    def cwd_of(self, target: Target) -> str:
        """Return the folder of a command that is notified: that of the file, if another project includes it."""
        return str(self.folder) if self.host and target.command else ""


def read_sections(findings: Findings) -> Sections:
    """Return the sections that say something about the whole project."""
    written = {key: value for key, value in findings.document.data.items() if key not in APART}
    sections, problems = read_map(PROJECT, written)
    findings.tell((), problems)
    return sections


def read_settings(
    sections: Sections, origin: FileOrigin, *, findings: Findings, state: Path | None
) -> tuple[Settings, Shared]:
    """Return the settings of a project, and what it writes itself of the sections that all projects share.

    Where its host writes the same, that of the host is among the settings.
    """
    zone = named_zone(sections.get("timezone", "UTC"), origin, findings=findings, key=("timezone",))
    targets: Mapping[str, Target] = sections.get("notify", {})
    own = {
        "pools": sections.get("pools", {}),
        "budgets": _budgets(sections.get("budgets", {}), origin, findings=findings, zone=zone),
        "prices": sections.get("prices", {}),
        "notify": {name: replace(target, name=name, cwd=origin.cwd_of(target)) for name, target in targets.items()},
        "secrets": placed(sections.get("secrets", {}), str(origin.folder), origin.place),
    }
    hosted = origin.host.shared if origin.host else {}
    settings = _settings(sections, origin, findings=findings, zone=zone, state=state)
    return with_shared(settings, {section: {**own[section], **hosted.get(section, {})} for section in own}), own


def with_shared(settings: Settings, shared: Shared) -> Settings:
    """Return the settings with the sections that all projects have in common."""
    pools, written = {**BUILT_IN_POOLS, **shared["pools"]}, shared["budgets"]
    return replace(
        settings,
        pools=pools,
        budgets={name: one for name, one in written.items() if isinstance(one, Account)},
        subscriptions={name: one for name, one in written.items() if isinstance(one, Subscription)},
        prices=shared["prices"],
        notify=shared["notify"],
        secrets=shared["secrets"],
    )


def named_zone(zone: str, origin: FileOrigin, *, findings: Findings, key: KeyPath, otherwise: str = "UTC") -> str:
    """Return a zone, that of the machine for `local`; report an unknown one and return `otherwise`."""
    try:
        return origin.local_zone() if zone == "local" else zone
    except RotaError as error:
        findings.tell(key, [Problem(error.message, "timezone", hint=error.hint)])
        return otherwise


def _settings(sections: Sections, origin: FileOrigin, *, findings: Findings, zone: str, state: Path | None) -> Settings:
    retention, scheduler = ({**sections.get(section, {})} for section in ("retention", "scheduler"))
    findings.tell(("http",), people_problems(sections.get("http", {})))
    if "ping_url" in scheduler:
        scheduler["ping"] = scheduler.pop("ping_url")
    folder = state or origin.environment.get("ROTA_STATE") or sections.get("state") or STATE_NAME
    return Settings(
        folder=origin.folder,
        state=Path(origin.place(str(folder))),
        store=origin.environment.get("ROTA_STORE") or sections.get("store") or SQLITE,
        timezone=zone,
        scheduler=SchedulerSettings(**scheduler),
        http=Http(**sections.get("http", {})),
        agent_policy=AgentPolicy(**sections.get("agent_policy", {})),
        output_total=retention.pop("output_total", OUTPUT_TOTAL),
        retention=Retention(**retention),
        imports=tuple(sections.get("imports", ())),
        python=_python(sections.get("python"), origin, findings=findings),
    )


def _budgets(
    written: Mapping[str, Account | Subscription], origin: FileOrigin, *, findings: Findings, zone: str
) -> dict[str, Account | Subscription]:
    found: dict[str, Account | Subscription] = {}
    for name, one in written.items():
        budget = replace(one, name=name)
        if isinstance(budget, Account):
            key = ("budgets", name, "timezone")
            place = named_zone(budget.timezone or zone, origin, findings=findings, key=key)
            budget = replace(budget, timezone=place)
        found[name] = budget
    return found


def _python(written: str | None, origin: FileOrigin, *, findings: Findings) -> str | None:
    """Return the interpreter of the project's functions; None: this one."""
    if written is None:
        return origin.host.python if origin.host else None
    path = origin.place(written, program=True)
    findings.check_interpreter(path, ("python",), written=written)
    return path


UNREADABLE = QuietHours(("00:00-00:01",))
"""Stands for quiet hours that have a problem of their own, so that jobs which refer to them have none."""


def read_job_defaults(
    sections: Sections, settings: Settings, *, origin: FileOrigin, calendars: Calendars, findings: Findings
) -> jobs.JobDefaults:
    """Return what the project gives to each of its jobs, all but its agents."""
    project = jobs.JobDefaults(
        folder=str(origin.folder),
        home=origin.home,
        timezone=settings.timezone,
        local_zone=origin.local_zone,
        timeout=settings.scheduler.timeout,
        python=settings.python,
        retention=settings.retention,
        pools=None if findings.told(("pools",)) else settings.pools,
        budgets=None if findings.told(("budgets",)) else settings.budgets,
        subscriptions=frozenset(settings.subscriptions),
        targets=None if findings.told(("notify",)) else settings.notify,
        calendars=calendars,
        included=origin.host is not None,
    )
    defaults = _defaults(findings.document.data.get("defaults", {}), project, findings=findings)
    quiet = _quiet_hours(sections.get("quiet_hours"), origin, findings=findings, zone=settings.timezone)
    return replace(project, defaults=defaults, quiet=quiet)


def _defaults(written: Any, project: jobs.JobDefaults, *, findings: Findings) -> Keys:
    keys, unreadable = read_map(DEFAULTS, written)
    keys, twice = jobs.one_spelling(keys)
    problems = [*unreadable, *jobs.except_problems(keys, project.calendars), *twice]
    problems += jobs.draw_problems(keys, project.pools) + jobs.name_problems(keys, project)
    findings.tell(("defaults",), problems + jobs.target_problems(keys, project.targets))
    return keys


def _quiet_hours(
    written: WrittenQuiet | None, origin: FileOrigin, *, findings: Findings, zone: str
) -> QuietHours | None:
    if written is None:
        return UNREADABLE if "quiet_hours" in findings.document.data else None
    key = ("quiet_hours", "timezone")
    named = named_zone(written.timezone or zone, origin, findings=findings, key=key, otherwise=zone)
    return QuietHours(written.windows, named, written.policy or QuietPolicy.DORMANT)


POLL = "rota/poll"
INTERVAL = ByMode(timedelta(seconds=15), timedelta(seconds=60), timedelta(seconds=300))
TIMEOUT = timedelta(seconds=30)
BACKING_OFF = RepeatedFailure(after=2, backoff_max=timedelta(minutes=15))
POLL_HINT = "add `poll: {url: https://…}`, or remove what needs it"


def poll_job(keys: Mapping[str, Any], project: jobs.JobDefaults) -> tuple[JobSpec | None, list[Problem]]:
    """Return the job that polls from the section's read keys, or what is wrong with them."""
    problems: list[Problem] = []
    if ("url" in keys) == ("run" in keys):
        message, hint = "needs either `url` or `run`", "write one of them"
        problems.append(Problem(message, "conflict", hint=hint, looks_at=("url", "run")))
    if "run" in keys and project.python is not None:
        message = "a poll's function runs inside the scheduler's process, not in another interpreter (`python:`)"
        hint = "poll a `url`, or start rota from the project's environment"
        problems.append(Problem(message, "conflict", at=("run",), hint=hint))
    if "headers" in keys and "url" not in keys:
        message, hint = "has no effect without `url`", "add `url`, or remove this line"
        problems.append(Problem(message, "no_effect", at=("headers",), hint=hint, looks_at=("url",)))
    problems += jobs.name_problems(keys, project) or _uncountable(keys, project.budgets or {})
    return (None, problems) if problems else (_spec(keys, project), [])


def _uncountable(keys: Mapping[str, Any], accounts: Mapping[str, Account]) -> list[Problem]:
    found = [(path, accounts[name].unit) for path, name in keys.get("budget", {}).items() if name in accounts]
    hint = "name an account of `requests`"
    return [
        Problem(f"a poll is a request, not {unit}", "conflict", at=("budget", *path), hint=hint)
        for path, unit in found
        if unit in (Unit.TOKENS, Unit.USD)
    ]


def _spec(keys: Mapping[str, Any], project: jobs.JobDefaults) -> JobSpec:
    interval = keys.get("interval", INTERVAL)
    by_mode = interval if isinstance(interval, ByMode) else None
    work = Work(
        Kind.POLL,
        url=keys.get("url", ""),
        function=keys.get("run", ""),
        headers=tuple(keys.get("headers", {}).values()),
        timeout=keys.get("timeout", TIMEOUT),
    )
    accounts = list(keys.get("budget", {}).values())
    schedule = Schedule(interval=None if by_mode else interval, by_mode=by_mode, timezone=project.timezone)
    return JobSpec(
        name=POLL,
        work=work,
        schedule=replace(schedule, quiet=quiet_of_poll(project.quiet, schedule)),
        misfire=Misfire(MisfirePolicy.ONCE),
        retry=Retry(max_attempts=1),
        on_repeated_failure=BACKING_OFF,
        budgets=spends_of(accounts, dict.fromkeys(accounts, Decimal(1)), project.budgets or {}),
        retention=project.retention,
    )


def with_need(specs: Sequence[JobSpec], names: NamesOf) -> tuple[JobSpec, ...]:
    """Return the jobs, those that a condition makes needy marked so."""
    return tuple(
        replace(spec, gates=replace(spec.gates, needs_poll=True)) if _looking(spec, names) else spec for spec in specs
    )


def _looking(spec: JobSpec, names: NamesOf) -> list[int]:
    """Return which of a job's conditions look at what the poll brought; a registered one replaces a built-in one."""
    known = names.get(spec.work.python, Names())
    return [
        index
        for index, condition in enumerate(spec.gates.conditions)
        if condition.name in known.needing_poll
        or (condition.name not in known.conditions and BUILTIN_CONDITIONS.get(condition.name, False))
    ]


def need_problems(
    specs: Sequence[JobSpec], document: Document, *, names: NamesOf, lacking: str | None
) -> list[Problem]:
    """Return, with their whole paths, the jobs that need a poll where none is declared, and those that deny their need.

    `lacking` is the file that has no poll, None where there is one.
    """
    needy = [(spec, _looking(spec, names)) for spec in specs if spec.gates.needs_poll]
    denying = [_denial(spec, document, looking) for spec, looking in needy if looking]
    unmet = [_unmet(spec, document, looking, lacking=lacking) for spec, looking in needy if lacking]
    return [problem for problem in (*denying, *unmet) if problem is not None]


def _denial(spec: JobSpec, document: Document, looking: Sequence[int]) -> Problem | None:
    body = document.data["jobs"][spec.name]
    key = "needs_poll" if body.get("needs_poll") is False else "group" if body.get("group") == PollGroup.LOCAL else None
    if key is None:
        return None
    condition = shown(spec.gates.conditions[looking[0]].name)
    message = f"contradicts the condition {condition}, which reads the poll's data"
    return Problem(message, "conflict", at=("jobs", spec.name, key), hint="remove this line, or the condition")


def _unmet(spec: JobSpec, document: Document, looking: Sequence[int], *, lacking: str | None) -> Problem:
    below = [("needs_poll",), ("group",), *(("conditions", index) for index in looking)]
    written = (path for key in below if (path := ("jobs", spec.name, *key)) in document.keys)
    path = next(written, ("jobs", spec.name, "needs_poll"))
    return Problem(f"needs the shared poll, and {lacking} has no `poll:`", "no_poll", at=path, hint=POLL_HINT)
