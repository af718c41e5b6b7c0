"""What may be made with the tools: one verdict on each wish of a maker (`agent_policy:`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from rota.model.agents import Access, Capabilities
from rota.model.durations import say_duration
from rota.model.making import AgentPolicy, Approval, Limits, Maker
from rota.model.spec import AgentWork, JobSpec, Kind
from rota.rules.timezone import zone

LOOKED_AT = 50
"""So many coming fires are looked at for the shortest time between two."""
LEVELS = tuple(Access)
"""From the least to the most."""
HOUR = timedelta(hours=1)
ASK = "ask the owner to add it to rota.yaml"


@dataclass(frozen=True, slots=True)
class MakerFacts:
    """Who wants it, and what the maker has already: live jobs beside this one, and what was made in the last hour."""

    maker: Maker
    active: int = 0
    created: int = 0
    new: bool = True
    """Whether the job is new, or was gone, so that it counts as a creation."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """It may be made as it is."""


@dataclass(frozen=True, slots=True)
class Provisional:
    """It may be made, and waits until a person approves it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It may not be made: which rule says so, and what the maker can do instead."""

    rule: str
    text: str
    hint: str


Verdict = Allowed | Provisional | Refused


def judge(
    policy: AgentPolicy, facts: MakerFacts, spec: JobSpec, *, fires: Sequence[datetime], now: datetime
) -> Verdict:
    """Return whether a maker may have this job; `fires` are its next instants, about fifty of them."""
    refused = (
        _refuse_work(spec)
        or _refuse_maker(policy, facts)
        or _refuse_schedule(policy, spec, fires=fires, now=now)
        or _refuse_access(policy, spec)
        or _refuse_beyond(spec, facts.maker.limits)
    )
    if refused is not None:
        return refused
    return Provisional() if policy.approval is Approval.REQUIRED else Allowed()


def judge_start(policy: AgentPolicy, *, started: int, force: bool = False) -> Allowed | Refused:
    """Return whether a maker may start one more run, after so many in the last hour."""
    if not policy.enabled:
        return _switched_off()
    if force:
        text = "an agent starts a job only as its overlap and conditions allow"
        return Refused("no_force", text, "start it without `force`, or ask the owner to start it")
    if started >= policy.creations_per_hour:
        text = f"{started} runs were started by this maker within an hour, {policy.creations_per_hour} are allowed"
        return Refused("too_many_starts", text, "wait, or give a job a schedule of its own")
    return Allowed()


def _switched_off() -> Refused:
    return Refused("switched_off", "this project lets nobody make or start jobs with the tools", ASK)


def _refuse_work(spec: JobSpec) -> Refused | None:
    if spec.work.kind is Kind.AGENT:
        return None
    return Refused("no_agent_work", "only tasks for an agent can be scheduled, no commands or functions", ASK)


def _refuse_maker(policy: AgentPolicy, facts: MakerFacts) -> Refused | None:
    depth = facts.maker.depth + 1
    if not policy.enabled:
        return _switched_off()
    if depth > policy.max_depth:
        text = f"jobs make jobs {policy.max_depth} deep here, and this one would be of depth {depth}"
        return Refused("too_deep", text, "do the work in this run, or report what should be scheduled")
    if facts.new and facts.created >= policy.creations_per_hour:
        text = f"{facts.created} jobs were made by this maker within an hour, {policy.creations_per_hour} are allowed"
        return Refused("too_many_creations", text, "wait, or change a job that is there: the same name changes it")
    if facts.active >= policy.max_active:
        text = f"this maker has {facts.active} active jobs, {policy.max_active} are allowed"
        return Refused("too_many_jobs", text, "unschedule one that is no longer needed: list_jobs with mine=true")
    return None


def _refuse_schedule(policy: AgentPolicy, spec: JobSpec, *, fires: Sequence[datetime], now: datetime) -> Refused | None:
    schedule = spec.schedule
    if schedule.manual or schedule.reboot:
        return Refused("no_schedule", "the job has no times", "give `schedule` (cron), `interval_seconds` or `at`")
    if schedule.at is not None and schedule.at >= now + policy.expires_after:
        text = f"{schedule.at.isoformat()} is more than {say_duration(policy.expires_after)} away"
        return Refused("too_far", text, f"what is made here ends after {say_duration(policy.expires_after)}; {ASK}")
    if spec.enabled and not fires:
        return Refused(
            "never_fires", "the schedule has no instant before the job expires", "look with preview_schedule"
        )
    return _refuse_pace(policy, spec, fires)


def _refuse_pace(policy: AgentPolicy, spec: JobSpec, fires: Sequence[datetime]) -> Refused | None:
    found = [shortest_gap(fires, spec.schedule.timezone), None if spec.schedule.run_once else spec.schedule.interval]
    least = min((gap for gap in found if gap is not None), default=None)
    if least is None or least >= policy.min_interval:
        return None
    text = f"the job would start every {say_duration(least)}, at least {say_duration(policy.min_interval)} are needed"
    return Refused("too_often", text, f"use an interval of {policy.min_interval.total_seconds():.0f} s or more")


def shortest_gap(fires: Sequence[datetime], timezone: str) -> timedelta | None:
    """Return the shortest time between two fires; a gap in which clocks are set is not counted.

    At such a change a job at fixed times comes closer to its neighbour once a year, which says nothing about its pace.
    """
    place = zone(timezone)
    gaps = [
        later - earlier
        for earlier, later in pairwise(fires)
        if earlier.astimezone(place).utcoffset() == later.astimezone(place).utcoffset()
    ]
    return min(gaps, default=None)


def _refuse_access(policy: AgentPolicy, spec: JobSpec) -> Refused | None:
    work = spec.work.agent
    if work is None or not more_access(work.access, policy.access):
        return None
    text = f"the agent {work.agent} has access {work.access}, and jobs made here get {policy.access} at most"
    return Refused("more_access", text, "choose another `provider`, or " + ASK)


def _refuse_beyond(spec: JobSpec, limits: Limits | None) -> Refused | None:
    """Refuse what the maker's own run may not do."""
    work = spec.work.agent
    if limits is None or work is None:
        return None
    if more_access(work.access, limits.access):
        text = f"the job would have access {work.access}, this run has {limits.access}"
        return Refused("more_access", text, "choose another `provider`, or " + ASK)
    beyond = further_tools(work, limits)
    if beyond:
        return Refused("more_tools", f"the job would have more tools than this run: {beyond}", ASK)
    return _refuse_money(spec, work, limits)


def _refuse_money(spec: JobSpec, work: AgentWork, limits: Limits) -> Refused | None:
    if limits.max_usd is not None and (work.max_usd is None or work.max_usd > limits.max_usd):
        text = f"this run may cost ${limits.max_usd:g}, and the job would not be held to that"
        return Refused("more_money", text, "choose another `provider`, or " + ASK)
    missing = sorted(set(limits.accounts) - {spend.account for spend in spec.budgets})
    if missing:
        return Refused("more_money", f"the job would not be charged to {missing[0]}, as this run is", ASK)
    return None


def held_back(spec: JobSpec, limits: Limits | None, *, ceiling: Access, can: Capabilities) -> dict[str, Any]:
    """Return the keys that hold a job to what its maker's run and the policy allow, as far as its agent keeps them."""
    work = spec.work.agent
    if work is None:
        return {}
    keys: dict[str, Any] = {}
    access = min(work.access, ceiling, *([limits.access] if limits else []), key=LEVELS.index)
    if access is not work.access:
        keys["access"] = access.value
    return keys if limits is None else keys | _shared(spec, work, limits, can=can)


def _shared(spec: JobSpec, work: AgentWork, limits: Limits, *, can: Capabilities) -> dict[str, Any]:
    """Return the keys that make tools and money of a job no more than those of the run that makes it."""
    keys: dict[str, Any] = {"rota_tools": work.rota_tools and limits.rota_tools}
    if can.trust:
        keys["trust_project"] = work.trust_project and limits.trust_project
    if limits.allowed_tools and can.allowed_tools:
        own = [tool for tool in work.allowed_tools if tool in limits.allowed_tools]
        keys["allowed_tools"] = own if work.allowed_tools else list(limits.allowed_tools)
    for key in ("max_turns", "max_usd"):
        known = [value for value in (getattr(work, key), getattr(limits, key)) if value is not None]
        if known and getattr(can, key):
            keys[key] = min(known)
    if limits.accounts:
        keys["budget"] = sorted({*limits.accounts, *(spend.account for spend in spec.budgets)})
    return keys


def more_access(wanted: Access, most: Access) -> bool:
    """Tell whether an access goes beyond another one.

    >>> more_access(Access.WRITE, Access.READ), more_access(Access.READ, Access.FULL)
    (True, False)
    """
    return LEVELS.index(wanted) > LEVELS.index(most)


def further_tools(work: AgentWork, limits: Limits) -> str:
    """Return what a job may use and the run that makes it may not; empty for nothing."""
    if work.rota_tools and not limits.rota_tools:
        return "rota's own"
    if work.trust_project and not limits.trust_project:
        return "those of the project's settings"
    if not limits.allowed_tools:
        return ""
    if not work.allowed_tools:
        return "all that its access gives"
    return ", ".join(tool for tool in work.allowed_tools if tool not in limits.allowed_tools)
