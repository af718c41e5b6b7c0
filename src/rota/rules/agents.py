"""Decisions about agents: outcome, policy for jobs they create, provider limits, sessions, workspaces."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count, pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.model.agents import (
    Access,
    AgentProblem,
    AgentResult,
    AgentSession,
    Attempted,
    Capabilities,
    Certification,
    ProviderHold,
    Refusal,
)
from rota.model.amounts import counted, say_dollars
from rota.model.budgets import MILLION, Usage
from rota.model.clock import from_ms, say_duration
from rota.model.proposals import AgentPolicy, Approval, Author, Limits
from rota.model.records import ERROR_LIMIT, SUMMARY_LIMIT, Outcome, bounded_result, cut
from rota.model.spec import AgentChoice, AgentWork, Draw, JobSpec, Kind
from rota.model.states import Reason, Status
from rota.rules.schedule.timezone import zone


def own_figures(result: AgentResult, before: AgentSession | None) -> AgentResult:
    """Return a result with the figures of this run alone: the increase of each total.

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
    """Return the increase of a total; a smaller total has started again."""
    return total if total < before else total - before


def _count(total: int | None, before: int) -> int | None:
    return None if total is None else int(_since(total, before))


def session_after(result: AgentResult, before: AgentSession | None) -> AgentSession | None:
    """Return the session to resume and its totals; None if the agent named none that can be an argument.

    Usage that a run could not report is in the next total, and so charged to the next run.
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
        turns=earlier.turns + (result.turns or 1),
        began_ms=earlier.began_ms,
    )


def session_over(session: AgentSession, *, max_age: timedelta | None, max_turns: int | None, now: datetime) -> str:
    """Return why the next run of a job starts a new session; empty: it resumes this one.

    >>> session_over(AgentSession("s", turns=40), max_age=None, max_turns=40, now=from_ms(0))
    'it has 40 turns, the limit is 40'
    """
    if max_turns is not None and session.turns >= max_turns:
        return f"it has {counted(session.turns, 'turn')}, the limit is {max_turns}"
    age = now - from_ms(session.began_ms)
    if max_age is not None and session.began_ms and age >= max_age:
        return f"it began {say_duration(max_age)} ago or earlier"
    return ""


def continued_session(outcome: Outcome, earlier: AgentSession | None, *, adapter: str) -> AgentSession | None:
    """Return the session of a run for its continuation, with the totals that its program reports from now on."""
    if outcome.session is not None:
        return outcome.session
    if not outcome.session_id or outcome.session_id.lstrip().startswith("-"):
        return None
    before, used = earlier or AgentSession(""), outcome.usage or Usage()
    return AgentSession(
        id=outcome.session_id,
        usd=before.usd + (used.usd or 0) / MILLION,
        tokens_in=before.tokens_in + (used.tokens_in or 0),
        tokens_cached=before.tokens_cached + (used.tokens_cached or 0),
        tokens_out=before.tokens_out + (used.tokens_out or 0),
        adapter=adapter,
        turns=before.turns + 1,
        began_ms=before.began_ms,
    )


def _total(told: float | None, own: float | None, before: float, *, is_total: bool) -> float:
    if told is None or own is None:
        return before
    return told if is_total else before + own


def is_lost(result: AgentResult, before: AgentSession | None) -> bool:
    """Return whether a session cannot be resumed: the program did not find it, or it has become too long.

    Programs report the first in different words, but each names its session when it resumes one.
    """
    if before is None or result.problem is not AgentProblem.AGENT_ERROR:
        return False
    return result.session_full or not result.session_id


DECIDED = (
    Reason.TIMED_OUT,
    Reason.IDLE,
    Reason.LOOPING,
    Reason.AGENT_ERROR,
    Reason.SHUTDOWN,
    Reason.UNKILLABLE,
    Reason.SPAWN_FAILED,
    Reason.PROCESS_RESTARTED,
)
"""Reasons that the agent's own result does not change: the agent did not finish. `agent_error`: rota stopped it."""


def agent_outcome(
    ended: Outcome, result: AgentResult, *, resumed: AgentSession | None = None, resumes: bool = False
) -> Outcome:
    """Return the outcome of an agent's run; `resumed` is the session that it resumed, as it was then.

    `resumes`: the next run of the job resumes the session of this one.

    >>> agent_outcome(Outcome(Status.COMPLETED), AgentResult(summary="two issues found", tokens_in=9)).summary
    'two issues found'
    """
    answer = result.summary.strip()
    outcome = replace(
        ended,
        result=bounded_result(answer) if answer else ended.result,
        usage=_usage(ended, own_figures(result, resumed)),
        session_id=result.session_id,
        session=session_after(result, resumed) if resumes else None,
        denied_tools=result.denied_tools,
        resets_at=result.resets_at,
        windows=result.windows,
    )
    if ended.reason in DECIDED:
        return outcome
    if resumed is not None and is_lost(result, resumed):
        words = f"the session {resumed.id!r} could not be resumed, the next run starts a new one: {result.error}"
        error = cut(words, ERROR_LIMIT)
        failed = replace(outcome, status=Status.FAILED, reason=Reason.AGENT_ERROR, error=error, summary=None)
        return replace(failed, session_lost=resumed.id)
    if result.problem is not None:
        error = cut(result.error or "the agent gave no reason", ERROR_LIMIT)
        failed = replace(outcome, status=Status.FAILED, reason=Reason(result.problem.value), error=error, summary=None)
        return replace(failed, result=None if outcome.result in (result.error, error) else outcome.result)
    if ended.status is not Status.COMPLETED:
        return outcome
    summary = _summary(ended.summary or answer, result.denied_tools)
    return replace(outcome, summary=summary, result=None if outcome.result == summary else outcome.result)


def _summary(text: str, denied: tuple[str, ...]) -> str | None:
    """Return the summary with the refused tools: a completed run may have done nothing without them."""
    refused = f"{counted(len(denied), 'tool')} denied: {', '.join(dict.fromkeys(denied))}" if denied else ""
    room = SUMMARY_LIMIT - len(refused) - 3
    return " · ".join(part for part in (cut(text, max(room, 100)), refused) if part) or None


def _usage(ended: Outcome, result: AgentResult) -> Usage | None:
    """Return the usage from the result file, else from the agent; None if unknown."""
    if ended.usage is not None:
        return ended.usage
    usage = Usage(
        tokens_in=result.tokens_in,
        tokens_cached=result.tokens_cached,
        tokens_out=result.tokens_out,
        usd=None if result.usd is None else round(result.usd * MILLION),
        model=result.model,
    )
    return None if usage == Usage() else usage


RECHECK_CERTIFIED = timedelta(minutes=1)
"""How often a run looks again whether its program is certified by now."""


def uncertified(made: Certification | None, version: str) -> str:
    """Return why the installed version of a program is not certified; empty: it is.

    >>> uncertified(None, "2.1.0")
    'version 2.1.0 is installed, and no version is certified'
    """
    if not version:
        return "the version of the program is unknown"
    if made is None:
        return f"version {version} is installed, and no version is certified"
    if made.version != version:
        return f"version {version} is installed, and {made.version} is certified"
    failed = [name for name, each in made.attempts.items() if each is not Attempted.DENIED]
    if failed or not made.attempts:
        return f"version {version} did not deny {', '.join(failed) or 'anything'}"
    return ""


CHECKED_FIRES = 50
"""The number of coming fires in which the shortest gap is searched."""
LEVELS = tuple(Access)
"""In ascending order."""
HOUR = timedelta(hours=1)
ASK = "ask the owner to add it to rota.yaml"


class MakerFacts(Struct, frozen=True):
    """The author of a job, the number of its other live jobs, and of those created in the last hour.

    `new`: the job is new or was retired, so that it counts as a creation.
    """

    maker: Author
    active: int = 0
    created: int = 0
    new: bool = True


class Allowed(Struct, frozen=True):
    """The job may be created."""


class Provisional(Struct, frozen=True):
    """The job may be created and waits for the approval of a person."""


class PolicyRefusal(Struct, frozen=True):
    """The job may not be created: the rule, and a hint for the author."""

    rule: str
    text: str
    hint: str


Verdict = Allowed | Provisional | PolicyRefusal


def judge(
    policy: AgentPolicy, facts: MakerFacts, spec: JobSpec, *, fires: Sequence[datetime], now: datetime
) -> Verdict:
    """Return whether an author may create this job; `fires` are its next instants, about fifty."""
    refused = (
        _refuse_maker(policy, facts, spec)
        or _refuse_schedule(policy, spec, fires=fires, now=now)
        or _refuse_access(policy, spec)
        or _refuse_beyond(spec, facts.maker.limits)
    )
    if refused is not None:
        return refused
    return Provisional() if policy.approval is Approval.REQUIRED else Allowed()


def judge_start(policy: AgentPolicy, *, started: int, force: bool = False) -> Allowed | PolicyRefusal:
    """Return whether an author may start one more run, after this many in the last hour."""
    if not policy.enabled:
        return _switched_off()
    if force:
        text = "an agent starts a job only as its overlap and conditions allow"
        return PolicyRefusal("no_force", text, "start it without `force`, or ask the owner to start it")
    if started >= policy.creations_per_hour:
        text = f"this author started {counted(started, 'run')} in the last hour, limit {policy.creations_per_hour}"
        return PolicyRefusal("too_many_starts", text, "wait, or give a job a schedule of its own")
    return Allowed()


def _switched_off() -> PolicyRefusal:
    return PolicyRefusal("switched_off", "this project does not allow tools to create or start jobs", ASK)


def _refuse_maker(policy: AgentPolicy, facts: MakerFacts, spec: JobSpec) -> PolicyRefusal | None:
    depth = facts.maker.depth + 1
    if spec.work.kind is not Kind.AGENT:
        return PolicyRefusal("no_agent_work", "only tasks for agents can be scheduled, not commands or functions", ASK)
    if not policy.enabled:
        return _switched_off()
    if depth > policy.max_depth:
        text = f"jobs may create jobs to depth {policy.max_depth}, and this one would have depth {depth}"
        return PolicyRefusal("too_deep", text, "do the work in this run, or report what should be scheduled")
    if facts.new and facts.created >= policy.creations_per_hour:
        text = (
            f"this author created {counted(facts.created, 'job')} in the last hour, limit {policy.creations_per_hour}"
        )
        return PolicyRefusal("too_many_creations", text, "wait, or change an existing job: the same name changes it")
    if facts.active >= policy.max_active:
        text = f"this author has {counted(facts.active, 'active job')}, the limit is {policy.max_active}"
        return PolicyRefusal("too_many_jobs", text, "unschedule one that is no longer needed: list_jobs with mine=true")
    return None


def _refuse_schedule(
    policy: AgentPolicy, spec: JobSpec, *, fires: Sequence[datetime], now: datetime
) -> PolicyRefusal | None:
    schedule = spec.schedule
    if schedule.manual or schedule.reboot:
        return PolicyRefusal(
            "no_schedule", "the job has no schedule", "give `schedule` (cron), `interval_seconds` or `at`"
        )
    if schedule.at is not None and schedule.at >= now + policy.expires_after:
        text = f"{schedule.at.isoformat()} is more than {say_duration(policy.expires_after)} away"
        return PolicyRefusal("too_far", text, f"such jobs expire after {say_duration(policy.expires_after)}; {ASK}")
    if spec.enabled and not fires:
        return PolicyRefusal(
            "never_fires", "the schedule has no instant before the job expires", "check it with preview_schedule"
        )
    return _refuse_pace(policy, spec, fires)


def _refuse_pace(policy: AgentPolicy, spec: JobSpec, fires: Sequence[datetime]) -> PolicyRefusal | None:
    gaps = [shortest_gap(fires, spec.schedule.timezone), None if spec.schedule.run_once else spec.schedule.interval]
    least = min((gap for gap in gaps if gap is not None), default=None)
    if least is None or least >= policy.min_interval:
        return None
    text = f"the job would start every {say_duration(least)}, the minimum is {say_duration(policy.min_interval)}"
    return PolicyRefusal("too_often", text, f"use an interval of {policy.min_interval.total_seconds():.0f} s or more")


def shortest_gap(fires: Sequence[datetime], timezone: str) -> timedelta | None:
    """Return the shortest time between two fires, without gaps in which clocks change.

    Such a change shortens one gap a year and says nothing about the pace of a job.
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
    text = f"the agent {work.agent} has access {work.access}, and such jobs get at most {policy.access}"
    return PolicyRefusal("more_access", text, "choose another `provider`, or " + ASK)


def _refuse_beyond(spec: JobSpec, limits: Limits | None) -> PolicyRefusal | None:
    """Refuse rights that the author's own run does not have."""
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
        text = f"this run may cost {say_dollars(limits.max_usd)}, and the job would have no such limit"
        return PolicyRefusal("more_money", text, "choose another `provider`, or " + ASK)
    missing = sorted(set(limits.accounts) - {spend.account for spend in spec.budgets})
    if missing:
        return PolicyRefusal("more_money", f"the job would not be charged to {missing[0]}, as this run is", ASK)
    return None


def held_back(spec: JobSpec, limits: Limits | None, *, ceiling: Access, can: Capabilities) -> dict[str, Any]:
    """Return the keys that limit a job to the rights of its author's run and the policy, as far as its agent can."""
    work = spec.work.agent
    if work is None:
        return {}
    keys: dict[str, Any] = {}
    access = min(work.access, ceiling, *([limits.access] if limits else []), key=LEVELS.index)
    if access is not work.access:
        keys["access"] = access.value
    return keys if limits is None else keys | _shared(spec, work, limits, can=can)


def _shared(spec: JobSpec, work: AgentWork, limits: Limits, *, can: Capabilities) -> dict[str, Any]:
    """Return the keys that limit tools and money of a job to those of its author's run."""
    keys: dict[str, Any] = {"rota_tools": work.rota_tools and limits.rota_tools}
    if can.trust:
        keys["trust_project"] = work.trust_project and limits.trust_project
    if limits.allowed_tools and can.allowed_tools:
        own = [tool for tool in work.allowed_tools if tool in limits.allowed_tools]
        keys["allowed_tools"] = own if work.allowed_tools else list(limits.allowed_tools)
    for key in ("max_turns", "max_usd"):
        bounds = [value for value in (getattr(work, key), getattr(limits, key)) if value is not None]
        if bounds and getattr(can, key):
            keys[key] = min(bounds)
    if limits.accounts:
        keys["budget"] = sorted({*limits.accounts, *(spend.account for spend in spec.budgets)})
    return keys


def more_access(wanted: Access, most: Access) -> bool:
    """Return whether an access exceeds another one.

    >>> more_access(Access.WRITE, Access.READ), more_access(Access.READ, Access.FULL)
    (True, False)
    """
    return LEVELS.index(wanted) > LEVELS.index(most)


def further_tools(work: AgentWork, limits: Limits) -> str:
    """Return the tools that a job may use and its author's run may not; empty for none."""
    if work.rota_tools and not limits.rota_tools:
        return "rota's own"
    if work.trust_project and not limits.trust_project:
        return "those of the project's settings"
    if not limits.allowed_tools:
        return ""
    if not work.allowed_tools:
        return "all tools of its access"
    return ", ".join(tool for tool in work.allowed_tools if tool not in limits.allowed_tools)


REFUSED = frozenset({Reason.QUOTA, Reason.AUTH, Reason.OUTAGE})
"""Failures after which the next agent of a list takes over."""


class HeldChoice(Struct, frozen=True):
    """An agent that was passed over: its provider is held until then."""

    agent: str
    until: datetime


class Choice(Struct, frozen=True):
    """The agent that does the work of a run, and the preferred ones that were passed over."""

    chosen: AgentChoice
    held: tuple[HeldChoice, ...] = ()
    refused: tuple[str, ...] = ()
    """The agents that refused earlier runs of the chain."""

    @property
    def decision(self) -> dict[str, Any]:
        """The choice as it is stored with the run."""
        held = [{"agent": choice.agent, "until": choice.until.isoformat()} for choice in self.held]
        told = {"agent": self.chosen.title, "provider": self.chosen.provider, "held": held}
        return told | ({"refused": list(self.refused)} if self.refused else {})


def choose(
    choices: Sequence[AgentChoice], held: Mapping[str, datetime], *, refused: Sequence[str] = ()
) -> Choice | None:
    """Return the first agent that has not refused and whose provider is not held; else that whose hold ends first.

    `held`: the ends of holds by provider. None: all agents have refused.
    """
    left = [choice for choice in choices if choice.title not in refused]
    if not left:
        return None
    chosen = next((choice for choice in left if choice.provider not in held), None)
    if chosen is None:
        chosen = min(left, key=lambda choice: held[choice.provider])
    before = left[: left.index(chosen)]
    return Choice(chosen, tuple(HeldChoice(choice.title, held[choice.provider]) for choice in before), tuple(refused))


def with_choice(spec: JobSpec, choice: AgentChoice) -> JobSpec:
    """Return the definition of a job as one of its agents does the work."""
    work = spec.work.agent
    assert work is not None, "only agent jobs have choices"
    own = {name: getattr(choice, name) for name in choice.__struct_fields__ if name != "pools"}
    return replace(spec, pools=choice.pools, work=replace(spec.work, agent=replace(work, **own)))


def with_pools(spec: JobSpec, pools: Sequence[Draw]) -> JobSpec:
    """Return the definition of a job as the agent with these pools does the work."""
    choices = spec.work.agent.choices if spec.work.agent is not None else ()
    chosen = next((choice for choice in choices if set(choice.pools) == set(pools)), None)
    return spec if chosen is None else with_choice(spec, chosen)


FIRST = timedelta(minutes=15)
SHORTLY = timedelta(minutes=1)
JUST_PAST = timedelta(minutes=15)
"""A stated reset that passed this recently is imminent: programs print it to the minute."""
LONGEST = timedelta(hours=6)
LONGEST_OUTAGE = timedelta(hours=1)
FIRST_LOGIN = timedelta(minutes=5)
"""The wait before the first check of a login; it doubles up to `LONGEST_OUTAGE`."""
FARTHEST = timedelta(days=35)
"""No provider's window is longer than a month: a later reset is a misreading."""


def hold_after(stored: ProviderHold | None, refusal: Refusal, *, provider: str) -> ProviderHold:
    """Return the limit of a provider after a refusal, given the stored one.

    A stated reset counts. Without one, each refusal in a row doubles the wait, from a minute on if the reset has just
    passed. Runs that began before the limit never shorten it. A missing login replaces a limit, and no limit of a run
    that began before replaces a missing login.
    """
    at, resets_at = refusal.at, _stated(refusal)
    if stored is not None and _in_force(stored, at) and refusal.began_at <= stored.set_at:
        if stored.login or (resets_at is None and refusal.problem is not AgentProblem.AUTH):
            return stored
        resets_at = max(resets_at, stored.until or at) if stored.stated and resets_at is not None else resets_at
    same = stored if stored is not None and stored.problem is refusal.problem else None
    refusals = (same.refusals if same else 0) + (resets_at is None)
    until = at + _pause(refusal, refusals) if resets_at is None else resets_at
    return ProviderHold(
        provider,
        until,
        resets_at is not None,
        refusals,
        refusal.why,
        refusal.run_id,
        at,
        refusal.problem,
        same.since if same else at,
    )


def _in_force(hold: ProviderHold, at: datetime) -> bool:
    return hold.until is not None and (hold.login or hold.until > at)


def hold_after_check(hold: ProviderHold, *, works: bool, now: datetime) -> ProviderHold:
    """Return the hold of a missing login after a check of the login; a failed check doubles the wait.

    The count of refusals stays until a run succeeds: the key of a working login may still be refused.
    """
    if works:
        return replace(hold, until=None)
    refusals = hold.refusals + 1
    wait = backoff(refusals, first=FIRST_LOGIN, longest=LONGEST_OUTAGE)
    return replace(hold, refusals=refusals, until=now + wait, set_at=now)


def _stated(refusal: Refusal) -> datetime | None:
    """Return the stated reset, at most 35 days away; None if it has passed."""
    if refusal.problem is AgentProblem.AUTH or refusal.resets_at is None or refusal.resets_at <= refusal.at:
        return None
    return min(refusal.resets_at, refusal.at + FARTHEST)


def _pause(refusal: Refusal, refusals: int) -> timedelta:
    if refusal.problem is AgentProblem.OUTAGE:
        return backoff(refusals, first=SHORTLY, longest=LONGEST_OUTAGE)
    if refusal.problem is AgentProblem.AUTH:
        return backoff(refusals, first=FIRST_LOGIN, longest=LONGEST_OUTAGE)
    past = refusal.resets_at is not None and refusal.at - refusal.resets_at <= JUST_PAST
    return backoff(refusals, first=SHORTLY if past else FIRST)


def backoff(refusals: int, *, first: timedelta = FIRST, longest: timedelta = LONGEST) -> timedelta:
    """Return the wait for a provider without a stated reset, after this many refusals in a row.

    >>> [str(backoff(refusals)) for refusals in (1, 2, 5, 6, 500)]
    ['0:15:00', '0:30:00', '4:00:00', '6:00:00', '6:00:00']
    """
    return min(first * (1 << min(refusals - 1, 10)), longest)


def forgets(stored: ProviderHold, *, began_at: datetime) -> bool:
    """Return whether a success resets the count: the run must have begun after the refusal."""
    return began_at > stored.set_at


BRANCHES = "rota/"
NAME_LIMIT = 150
_UNSAFE = r"[^A-Za-z0-9._/-]+|\.\.+|@\{|//+"
_EDGES = r"^[.-]+|\.+$|\.lock$"

COMMITS = "it has commits"
CHANGES = "it has uncommitted changes"
FAILED = "the run failed"


def branch_name(job: str, number: int, *, taken: Collection[str] = ()) -> str:
    """Return a free and valid branch name for a run's worktree; number 0 is a direct call.

    >>> branch_name("fix-issues", 9), branch_name("api/fix issues", 9, taken={"rota/api/fix-issues-9"})
    ('rota/fix-issues-9', 'rota/api/fix-issues-9-2')
    """
    parts = [re.sub(_EDGES, "-", part) for part in re.sub(_UNSAFE, "-", job).strip("/")[:NAME_LIMIT].split("/")]
    name = f"{BRANCHES}{'/'.join(part or '-' for part in parts)}-{number or 'direct'}"
    # Git cannot hold `rota/a-1` beside `rota/a-1/b`.
    return next(
        branch
        for branch in _numbered(name)
        if branch not in taken and not any(other.startswith(f"{branch}/") for other in taken)
    )


def _numbered(name: str) -> Iterator[str]:
    return (name if step == 1 else f"{name}-{step}" for step in count(1))


def folder_name(branch: str, *, taken: Collection[str] = ()) -> str:
    """Return a free name for a worktree's folder.

    >>> folder_name("rota/api/fix-issues-9")
    'api-fix-issues-9'
    """
    name = branch.removeprefix(BRANCHES).replace("/", "-")
    return next(folder for folder in _numbered(name) if folder not in taken)


def why_kept(status: Status | None, *, commits: bool, changes: bool) -> str | None:
    """Return why the worktree of a run stays, None if it may be removed; work is never removed.

    `status` None: the run never started, or no longer exists.
    """
    if commits:
        return COMMITS
    if changes:
        return CHANGES
    return FAILED if status is Status.FAILED else None
