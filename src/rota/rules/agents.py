"""Decisions about agents: outcome, policy for jobs they create, provider limits, sessions, workspaces."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count, pairwise
from typing import Any

from rota.model.agents import Access, AgentProblem, AgentResult, AgentSession, Capabilities, ProviderHold, Refusal
from rota.model.amounts import counted, say_dollars
from rota.model.budgets import MILLION, Usage
from rota.model.clock import say_duration
from rota.model.proposals import AgentPolicy, Approval, Author, Limits
from rota.model.records import ERROR_LIMIT, SUMMARY_LIMIT, Outcome, cut
from rota.model.spec import AgentWork, JobSpec, Kind
from rota.model.states import Reason, Status
from rota.rules.schedule.timezone import zone


def own_figures(result: AgentResult, before: AgentSession | None) -> AgentResult:
    """Return a result whose figures are those of this run alone: of a total, what came to it since.

    >>> own_figures(AgentResult(usd=0.75, usd_is_total=True), AgentSession("s", usd=0.5)).usd
    0.25
    """
    if before is None:
        return result
    if result.usd_is_total and result.usd is not None:
        result = replace(result, usd=_since(result.usd, before.usd))
    if result.tokens_are_total:
        result = replace(
            result,
            tokens_in=_count(result.tokens_in, before.tokens_in),
            tokens_cached=_count(result.tokens_cached, before.tokens_cached),
            tokens_out=_count(result.tokens_out, before.tokens_out),
        )
    return result


def _since(total: float, before: float) -> float:
    """Return what came to a total; one that is smaller than before was begun anew."""
    return total if total < before else total - before


def _count(total: int | None, before: int) -> int | None:
    return None if total is None else int(_since(total, before))


def session_after(result: AgentResult, before: AgentSession | None) -> AgentSession | None:
    """Return the session to go on with, and its totals; None where the agent told none that can be an argument.

    What a run used that did not come to tell it is in the next total, and so charged to the next run.
    """
    if not result.session_id or result.session_id.lstrip().startswith("-"):
        return None
    earlier = before or AgentSession("")
    own, are_total = own_figures(result, before), result.tokens_are_total
    return AgentSession(
        id=result.session_id,
        usd=_total(result.usd, own.usd, earlier.usd, is_total=result.usd_is_total),
        tokens_in=int(_total(result.tokens_in, own.tokens_in, earlier.tokens_in, is_total=are_total)),
        tokens_cached=int(_total(result.tokens_cached, own.tokens_cached, earlier.tokens_cached, is_total=are_total)),
        tokens_out=int(_total(result.tokens_out, own.tokens_out, earlier.tokens_out, is_total=are_total)),
    )


def _total(told: float | None, own: float | None, before: float, *, is_total: bool) -> float:
    if told is None or own is None:
        return before
    return told if is_total else before + own


def is_lost(result: AgentResult, before: AgentSession | None) -> bool:
    """Tell whether a session cannot be resumed again: the program did not find it, or it has become too long.

    Programs say the first in words of their own, but each names its session first when it goes on with one.
    """
    if before is None or result.problem is not AgentProblem.AGENT_ERROR:
        return False
    return result.session_full or not result.session_id


DECIDED = (Reason.TIMED_OUT, Reason.SHUTDOWN, Reason.UNKILLABLE, Reason.SPAWN_FAILED, Reason.PROCESS_RESTARTED)
"""Ends that the agent's own words do not change: it did not come to its end."""


def agent_outcome(
    ended: Outcome, result: AgentResult, *, resumed: AgentSession | None = None, resumes: bool = False
) -> Outcome:
    """Return the outcome of an agent's run; `resumed` is the session that it went on with, as it was then.

    `resumes`: the next run of the job goes on with the session of this one.

    >>> agent_outcome(Outcome(Status.COMPLETED), AgentResult(summary="two issues found", tokens_in=9)).summary
    'two issues found'
    """
    told = replace(
        ended,
        usage=_usage(ended, own_figures(result, resumed)),
        session_id=result.session_id,
        session=session_after(result, resumed) if resumes else None,
        denied_tools=result.denied_tools,
        resets_at=result.resets_at,
    )
    if ended.reason in DECIDED:
        return told
    if resumed is not None and is_lost(result, resumed):
        return _without_session(told, result, resumed)
    if result.problem is not None:
        error = cut(result.error or "the agent gave no reason", ERROR_LIMIT)
        return replace(told, status=Status.FAILED, reason=Reason(result.problem.value), error=error, summary=None)
    if ended.status is not Status.COMPLETED:
        return told
    return replace(told, summary=_summary(ended.summary or result.summary.strip(), result.denied_tools))


def _without_session(told: Outcome, result: AgentResult, resumed: AgentSession) -> Outcome:
    """Return the failure of a run whose session its program no longer knows, and the session that is given up."""
    words = f"the session {resumed.id!r} could not be gone on with, the next run begins a new one: {result.error}"
    return replace(
        told,
        status=Status.FAILED,
        reason=Reason.AGENT_ERROR,
        error=cut(words, ERROR_LIMIT),
        summary=None,
        session_lost=resumed.id,
    )


def _summary(text: str, denied: tuple[str, ...]) -> str | None:
    """Return the summary with the tools that were refused: a run that looks green may have done nothing."""
    refused = f"{counted(len(denied), 'tool')} denied: {', '.join(dict.fromkeys(denied))}" if denied else ""
    room = SUMMARY_LIMIT - len(refused) - 3
    return " · ".join(part for part in (cut(text, max(room, 100)), refused) if part) or None


def _usage(ended: Outcome, result: AgentResult) -> Usage | None:
    """Return what the run used: what its result file says, else what the agent said; unknown stays unknown."""
    if ended.usage is not None:
        return ended.usage
    found = Usage(
        tokens_in=result.tokens_in,
        tokens_cached=result.tokens_cached,
        tokens_out=result.tokens_out,
        usd=None if result.usd is None else round(result.usd * MILLION),
        model=result.model,
    )
    return None if found == Usage() else found


LOOKED_AT = 50
"""So many coming fires are looked at for the shortest time between two."""
LEVELS = tuple(Access)
"""From the least to the most."""
HOUR = timedelta(hours=1)
ASK = "ask the owner to add it to rota.yaml"


@dataclass(frozen=True, slots=True)
class MakerFacts:
    """Who wants it, and what the maker has already: live jobs beside this one, and what was made in the last hour."""

    maker: Author
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
class PolicyRefusal:
    """It may not be made: which rule says so, and what the maker can do instead."""

    rule: str
    text: str
    hint: str


Verdict = Allowed | Provisional | PolicyRefusal


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


def judge_start(policy: AgentPolicy, *, started: int, force: bool = False) -> Allowed | PolicyRefusal:
    """Return whether a maker may start one more run, after so many in the last hour."""
    if not policy.enabled:
        return _switched_off()
    if force:
        text = "an agent starts a job only as its overlap and conditions allow"
        return PolicyRefusal("no_force", text, "start it without `force`, or ask the owner to start it")
    if started >= policy.creations_per_hour:
        text = f"this maker started {counted(started, 'run')} in the last hour, limit {policy.creations_per_hour}"
        return PolicyRefusal("too_many_starts", text, "wait, or give a job a schedule of its own")
    return Allowed()


def _switched_off() -> PolicyRefusal:
    return PolicyRefusal("switched_off", "this project lets nobody make or start jobs with the tools", ASK)


def _refuse_work(spec: JobSpec) -> PolicyRefusal | None:
    if spec.work.kind is Kind.AGENT:
        return None
    return PolicyRefusal("no_agent_work", "only tasks for an agent can be scheduled, no commands or functions", ASK)


def _refuse_maker(policy: AgentPolicy, facts: MakerFacts) -> PolicyRefusal | None:
    depth = facts.maker.depth + 1
    if not policy.enabled:
        return _switched_off()
    if depth > policy.max_depth:
        text = f"jobs make jobs {policy.max_depth} deep here, and this one would be of depth {depth}"
        return PolicyRefusal("too_deep", text, "do the work in this run, or report what should be scheduled")
    if facts.new and facts.created >= policy.creations_per_hour:
        text = f"this maker created {counted(facts.created, 'job')} in the last hour, limit {policy.creations_per_hour}"
        return PolicyRefusal(
            "too_many_creations", text, "wait, or change a job that is there: the same name changes it"
        )
    if facts.active >= policy.max_active:
        text = f"this maker has {facts.active} active jobs, {policy.max_active} are allowed"
        return PolicyRefusal("too_many_jobs", text, "unschedule one that is no longer needed: list_jobs with mine=true")
    return None


def _refuse_schedule(
    policy: AgentPolicy, spec: JobSpec, *, fires: Sequence[datetime], now: datetime
) -> PolicyRefusal | None:
    schedule = spec.schedule
    if schedule.manual or schedule.reboot:
        return PolicyRefusal(
            "no_schedule", "the job has no times", "give `schedule` (cron), `interval_seconds` or `at`"
        )
    if schedule.at is not None and schedule.at >= now + policy.expires_after:
        text = f"{schedule.at.isoformat()} is more than {say_duration(policy.expires_after)} away"
        return PolicyRefusal(
            "too_far", text, f"what is made here ends after {say_duration(policy.expires_after)}; {ASK}"
        )
    if spec.enabled and not fires:
        return PolicyRefusal(
            "never_fires", "the schedule has no instant before the job expires", "look with preview_schedule"
        )
    return _refuse_pace(policy, spec, fires)


def _refuse_pace(policy: AgentPolicy, spec: JobSpec, fires: Sequence[datetime]) -> PolicyRefusal | None:
    found = [shortest_gap(fires, spec.schedule.timezone), None if spec.schedule.run_once else spec.schedule.interval]
    least = min((gap for gap in found if gap is not None), default=None)
    if least is None or least >= policy.min_interval:
        return None
    text = f"the job would start every {say_duration(least)}, at least {say_duration(policy.min_interval)} are needed"
    return PolicyRefusal("too_often", text, f"use an interval of {policy.min_interval.total_seconds():.0f} s or more")


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


def _refuse_access(policy: AgentPolicy, spec: JobSpec) -> PolicyRefusal | None:
    work = spec.work.agent
    if work is None or not more_access(work.access, policy.access):
        return None
    text = f"the agent {work.agent} has access {work.access}, and jobs made here get {policy.access} at most"
    return PolicyRefusal("more_access", text, "choose another `provider`, or " + ASK)


def _refuse_beyond(spec: JobSpec, limits: Limits | None) -> PolicyRefusal | None:
    """Refuse what the maker's own run may not do."""
    work = spec.work.agent
    if limits is None or work is None:
        return None
    if more_access(work.access, limits.access):
        text = f"the job would have access {work.access}, this run has {limits.access}"
        return PolicyRefusal("more_access", text, "choose another `provider`, or " + ASK)
    beyond = further_tools(work, limits)
    if beyond:
        return PolicyRefusal("more_tools", f"the job would have more tools than this run: {beyond}", ASK)
    return _refuse_money(spec, work, limits)


def _refuse_money(spec: JobSpec, work: AgentWork, limits: Limits) -> PolicyRefusal | None:
    if limits.max_usd is not None and (work.max_usd is None or work.max_usd > limits.max_usd):
        text = f"this run may cost {say_dollars(limits.max_usd)}, and the job would not be held to that"
        return PolicyRefusal("more_money", text, "choose another `provider`, or " + ASK)
    missing = sorted(set(limits.accounts) - {spend.account for spend in spec.budgets})
    if missing:
        return PolicyRefusal("more_money", f"the job would not be charged to {missing[0]}, as this run is", ASK)
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


FIRST = timedelta(minutes=15)
SHORTLY = timedelta(minutes=1)
JUST_PAST = timedelta(minutes=15)
"""A stated reset that passed so recently is about to come: programs print it to the minute."""
LONGEST = timedelta(hours=6)
LONGEST_OUTAGE = timedelta(hours=1)
FARTHEST = timedelta(days=35)
"""No provider's window is longer than a month: a reset beyond that is a misreading."""


def hold_after(known: ProviderHold | None, refusal: Refusal, *, provider: str) -> ProviderHold:
    """Return how a provider is held after a refusal, given how it is or was.

    The reset that it stated counts. Where it stated none, each refusal in a row doubles the wait, from a minute on
    where the reset has just passed. Runs that had begun before it was held say nothing new, and never
    shorten what is known.
    """
    at, resets_at = refusal.at, _stated(refusal)
    if known is not None and known.until is not None and known.until > at and refusal.began_at <= known.set_at:
        if resets_at is None:
            return known
        resets_at = max(resets_at, known.until) if known.stated else resets_at
    refusals = (known.refusals if known else 0) + (resets_at is None)
    until = at + _pause(refusal, refusals) if resets_at is None else resets_at
    return ProviderHold(provider, until, resets_at is not None, refusals, refusal.why, refusal.run_id, at)


def _stated(refusal: Refusal) -> datetime | None:
    """Return the reset that was stated, within reason; None for one that had passed already."""
    if refusal.resets_at is None or refusal.resets_at <= refusal.at:
        return None
    return min(refusal.resets_at, refusal.at + FARTHEST)


def _pause(refusal: Refusal, refusals: int) -> timedelta:
    if refusal.outage:
        return backoff(refusals, first=SHORTLY, longest=LONGEST_OUTAGE)
    past = refusal.resets_at is not None and refusal.at - refusal.resets_at <= JUST_PAST
    return backoff(refusals, first=SHORTLY if past else FIRST)


def backoff(refusals: int, *, first: timedelta = FIRST, longest: timedelta = LONGEST) -> timedelta:
    """Return how long a provider is held that did not say until when, after so many refusals in a row.

    >>> [str(backoff(refusals)) for refusals in (1, 2, 5, 6, 500)]
    ['0:15:00', '0:30:00', '4:00:00', '6:00:00', '6:00:00']
    """
    return min(first * (1 << min(refusals - 1, 10)), longest)


def forgets(known: ProviderHold, *, began_at: datetime) -> bool:
    """Tell whether a success ends the count: that of a run which had begun before the refusal does not."""
    return began_at > known.set_at


BRANCHES = "rota/"
NAME_LIMIT = 150
_UNSAFE = re.compile(r"[^A-Za-z0-9._/-]+|\.\.+|@\{|//+")
_EDGES = re.compile(r"^[.-]+|\.+$|\.lock$")

COMMITS = "it has commits"
CHANGES = "it has uncommitted changes"
FAILED = "the run failed"


def branch_name(job: str, number: int, *, taken: Collection[str] = ()) -> str:
    """Return the branch of a run's worktree, which git can hold and nobody has; number 0 is a direct call.

    >>> branch_name("fix-issues", 9), branch_name("api/fix issues", 9, taken={"rota/api/fix-issues-9"})
    ('rota/fix-issues-9', 'rota/api/fix-issues-9-2')
    """
    parts = [_EDGES.sub("-", part) for part in _UNSAFE.sub("-", job).strip("/")[:NAME_LIMIT].split("/")]
    name = f"{BRANCHES}{'/'.join(part or '-' for part in parts)}-{number or 'direct'}"
    return next(one for one in _numbered(name) if not _clashes(one, taken))


def _numbered(name: str) -> Iterator[str]:
    return (name if step == 1 else f"{name}-{step}" for step in count(1))


def _clashes(name: str, taken: Collection[str]) -> bool:
    """Tell whether git has this name, or would have to make a folder of it: `rota/a-1` and `rota/a-1/b`."""
    return name in taken or any(other.startswith(f"{name}/") for other in taken)


def folder_name(branch: str, *, taken: Collection[str] = ()) -> str:
    """Return the name of a worktree's folder, which nobody has.

    >>> folder_name("rota/api/fix-issues-9")
    'api-fix-issues-9'
    """
    name = branch.removeprefix(BRANCHES).replace("/", "-")
    return next(one for one in _numbered(name) if one not in taken)


def why_kept(status: Status | None, *, commits: bool, changes: bool) -> str | None:
    """Return why the worktree of a run stays, None where it goes: never what holds work (section 8).

    `status` None: the run never started, or is gone itself.
    """
    if commits:
        return COMMITS
    if changes:
        return CHANGES
    return FAILED if status is Status.FAILED else None
