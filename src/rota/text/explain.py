"""The sentences of `rota explain` for runs and jobs."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.model.agents import ProviderHold, provider_of
from rota.model.amounts import and_more, counted
from rota.model.clock import MILLISECOND, say_duration
from rota.model.questions import Question
from rota.model.records import POSTCONDITION, Abandoned, Claim, Execution, Job, NextLook, Run, Worktree, cut
from rota.model.spec import JobSpec, MisfirePolicy, WhenFalse
from rota.model.states import Held, Reason, Status, Trigger, WaitingFor
from rota.rules.budgets import say_estimated, say_gate, say_usage
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.plan import past_when_created
from rota.rules.subscriptions import say_decision
from rota.text import jobs
from rota.text.ansi import plain
from rota.text.format import briefly, clock_time, day_time, from_now, full_time, in_zone, say_why, spaced
from rota.text.questions import say_answer, say_continued
from rota.text.runs import say_by_hand, say_retry_due, say_what_follows, say_work
from rota.text.schedule import (
    next_fire,
    say_excluded,
    say_lull_of_run,
    say_mode_of_job,
    say_mode_of_run,
    say_poll_of_run,
    say_quiet_of_job,
)

MEMBERS_SHOWN = 10
LINES_SHOWN = 5
"""The last lines of a failed postcondition."""
TEXT_SHOWN = 200
ABANDONED_HINT = (
    "a thread cannot be killed: restart the scheduler to end it, and use `isolate: process` for such a function"
)


class ExplainLine(Struct, frozen=True):
    """One decision and its explanation."""

    label: str
    text: str


class Belonging(Struct, frozen=True):
    """The group of a run: a member at `place`, or the group's own run if that is None.

    `members`: each member's run and status, in order. `unfinished`: the members that must end before a held one starts.
    """

    group: str
    mode: str
    on_failure: str
    members: tuple[str, ...]
    unfinished: tuple[str, ...] = ()
    place: int | None = None


class Seen(Struct, frozen=True):
    """The last output of a run: its time, and its last line, events of an agent in words."""

    at: datetime
    text: str = ""


class Facts(Struct, frozen=True):
    """A run with the facts for its explanation.

    `held`: why a claimable run is not running. `hold`: the current limit of its provider. `worker`: the name of its
    machine if there are several. `abandoned`: all functions that still run after the end of their runs.
    `questions`: those that the run asked; `answers`: those whose answers it gets.
    """

    run: Run
    spec: JobSpec
    job: Job
    execution: Execution | None
    unfinished: Sequence[Run] = ()
    held: Held | None = None
    held_until: datetime | None = None
    held_for: str = ""
    held_why: str = ""
    group: Belonging | None = None
    chain: Sequence[Run] = ()
    work: Claim | None = None
    worktree: Worktree | None = None
    hold: ProviderHold | None = None
    worker: str = ""
    abandoned: Sequence[Abandoned] = ()
    questions: Sequence[Question] = ()
    answers: Sequence[Question] = ()
    seen: Seen | None = None

    @property
    def retried_as(self) -> Run | None:
        """The automatic retry of the run."""
        return next((run for run in self.chain if run.retry_of == self.run.id), None)

    @property
    def tz(self) -> str:
        """The zone of the job's schedule."""
        return self.spec.schedule.timezone


def title(facts: Facts, *, now: datetime) -> str:
    """Return the headline of a run's explanation."""
    run = facts.run
    at = run.started_at or run.finished_at or run.nominal
    when = full_time(at, facts.tz, now=now, seconds=True)
    return f"{run.handle}  {run.status.shown}{spaced(run.reason)}  {when} ({facts.tz})"


def explain_run(facts: Facts, *, now: datetime) -> list[ExplainLine]:
    """Return the decisions about a run in their order."""
    run, spec = facts.run, facts.spec
    lull = "except" if run.reason is Reason.EXCLUDED else "quiet hours"
    lines: list[tuple[str, str | None]] = [
        ("due", _due(facts, now)),
        ("moved", _moved_run(run)),
        ("mode", say_mode_of_run(run)),
        (lull, say_lull_of_run(run, spec.schedule, now=now)),
        ("misfire", _misfire(facts)),
        ("overlap", _overlap(facts, now)),
    ]
    if not (run.status is Status.SKIPPED and run.first_dispatched_at is None and run.reason in _BY_PLAN):
        lines += [
            ("poll", say_poll_of_run(run, tz=facts.tz, now=now) if spec.gates.needs_poll else None),
            ("conditions", _conditions(facts)),
            ("budget", _budget(facts)),
            ("work", _work(facts)),
        ]
    if run.status is Status.QUEUED:
        lines.append(("waits", _waits(facts, now)))
    lines += [
        *(
            (
                "answer",
                f"to question {question.number}, {cut(plain(question.text), TEXT_SHOWN)}: {say_answer(question)}",
            )
            for question in facts.answers
        ),
        *_brief(facts, now),
        ("start", _start(facts, now)),
        ("members", _members(facts)),
        ("last seen", _last_seen(facts, now)),
        *_end(facts, now),
        *_used(facts),
        *(
            ("asked", f"question {question.number}: {cut(plain(question.text), TEXT_SHOWN)}: {say_answer(question)}")
            for question in facts.questions
        ),
        ("look again", _asked_for(run)),
        ("then", _then(facts, now)),
    ]
    return [ExplainLine(label, text) for label, text in lines if text is not None]


_BY_PLAN = (Reason.OVERLAP, Reason.MISSED, Reason.BACKING_OFF, Reason.QUIET_HOURS, Reason.EXCLUDED)
"""Reasons of instants that never become a run, so that no later decision concerns them."""


def _brief(facts: Facts, now: datetime) -> list[tuple[str, str | None]]:
    """Return the context of an agent's run beyond its task."""
    agent = facts.spec.work.agent
    if agent is None:
        return []
    brief = dict(jobs.say_brief(agent))
    return [
        ("agent", _choice(facts, now)),
        ("session", jobs.say_session(facts.run, agent)),
        ("carry", brief.get("carry")),
        ("workspace", jobs.say_workspace(facts.run, facts.worktree) or brief.get("workspace")),
        ("after", brief.get("after")),
    ]


def _choice(facts: Facts, now: datetime) -> str | None:
    """Return which agent of a list does the work, and why the preferred ones do not."""
    decision = facts.run.decisions.get("agent")
    if decision is None:
        return None
    why = [f"{agent} refused an earlier attempt" for agent in decision.get("refused", ())]
    for one in decision.get("held", ()):
        until = day_time(datetime.fromisoformat(one["until"]), facts.tz, now=now)
        why.append(f"{one['agent']} was held until {until}")
    return f"{decision['agent']}: {', '.join(why) or 'the first of the list'}"


def _work(facts: Facts) -> str | None:
    agent = facts.spec.work.agent
    return say_work(facts.run, agent.source, facts.work, tz=facts.tz) if agent and agent.source else None


def _policy(group: Belonging) -> str:
    return f"{group.mode}, on_failure: {group.on_failure}"


def _members(facts: Facts) -> str | None:
    group = facts.group
    if group is None or group.place is not None:
        return None
    listed = [f"{number} {member}" for number, member in enumerate(group.members[:MEMBERS_SHOWN], start=1)]
    more = and_more(group.members, MEMBERS_SHOWN)
    return f"{_policy(group)}: {', '.join(listed)}{more}   rota groups show {group.group}"


def _due(facts: Facts, now: datetime) -> str:
    run = facts.run
    if run.trigger is Trigger.GROUP and facts.group is not None:
        group, at = facts.group, day_time(run.nominal, facts.tz, now=now, seconds=True)
        return f"{at} as member {group.place} of {len(group.members)} of {group.group} ({_policy(group)})"
    if run.trigger is Trigger.ANSWER:
        return f"{day_time(run.created_at, facts.tz, now=now, seconds=True)} {say_continued(run)}"
    if run.trigger is Trigger.RETRY:
        return say_retry_due(run, facts.spec, tz=facts.tz, now=now)
    if run.trigger is Trigger.MANUAL or run.scheduled_for is None:
        return f"{day_time(run.created_at, facts.tz, now=now, seconds=True)} {say_by_hand(run)}"
    first = day_time(run.scheduled_for, facts.tz, now=now, seconds=True)
    schedule = explain_schedule(facts.spec.schedule)
    if run.covers_to is None or run.covers_to == run.scheduled_for:
        return f"{first} {schedule}"
    count = counted(run.count, "instant") if run.count is not None else "more than 10,000 instants"
    last = day_time(run.covers_to, facts.tz, now=now, seconds=True)
    return f"{count} from {first} to {last}, recorded in one row: {schedule}"


_NO_MISFIRE = {
    Trigger.MANUAL: "not applied to a manual start",
    Trigger.RETRY: "not applied to a retry",
    Trigger.ANSWER: "not applied to a run that continues with an answer",
    Trigger.BACKFILL: "not applied to a backfill",
    Trigger.GROUP: "not applied to members of a group",
    Trigger.REPLY: "not applied to a reply",
    Trigger.FORK: "not applied to a fork",
}


def _misfire(facts: Facts) -> str:
    run, misfire = facts.run, facts.spec.misfire
    if run.trigger in _NO_MISFIRE:
        return _NO_MISFIRE[run.trigger]
    late = int(run.decisions.get("late_ms", 0)) * MILLISECOND
    if "boot" in run.decisions:
        return "not applied to a start at boot"
    if run.reason is Reason.EXCLUDED or "quiet_until" in run.decisions:
        return f"not checked: {'`except`' if run.reason is Reason.EXCLUDED else 'quiet hours'} decided"
    if run.reason is Reason.PAUSED:
        return "not checked: the job was paused"
    if run.decisions.get("made_up") == "resume":
        return f"{say_duration(late)} late; `rota resume --catch-up once` ran it after a pause"
    if "made_up" in run.decisions:
        return f"{say_duration(late)} late; `misfire: {run.decisions['made_up']}` ran it late"
    grace = int(run.decisions["grace_ms"]) * MILLISECOND if "grace_ms" in run.decisions else misfire.grace
    noticed = f"noticed {say_duration(late)} late, more than {say_duration(grace)}"
    if run.reason is Reason.OVERLAP and late > grace:
        return f"{noticed}; a run was executing, so it counts as overlap and does not run"
    if run.reason is not Reason.MISSED:
        return f"no, {briefly(late)} late" if late else "no, on time"
    return f"missed: {noticed}; {_not_made_up(facts)}"


def _not_made_up(facts: Facts) -> str:
    misfire = facts.spec.misfire
    if past_when_created(replace(facts.job, spec=facts.spec)):
        return "it was past when this job was first stored, so it does not run"
    if misfire.policy is MisfirePolicy.SKIP:
        return "`misfire: skip` does not run it"
    if misfire.max_age is not None:
        return f"`misfire: {misfire.policy}` runs only missed instants younger than {say_duration(misfire.max_age)}"
    return f"`misfire: {misfire.policy}` ran a later instant instead"


def _overlap(facts: Facts, now: datetime) -> str:
    if facts.run.trigger is Trigger.GROUP:
        return "not applied to members of a group"
    decided: Mapping[str, Any] = facts.run.decisions.get("overlap") or {}
    policy = decided.get("policy", facts.spec.overlap.policy.value)
    if facts.run.trigger is Trigger.RETRY:
        return f"{policy}: not checked, a retry continues its chain"
    if facts.run.trigger is Trigger.BACKFILL:
        return f"{policy}: not applied to a backfill"
    if facts.run.forced:
        return f"{policy}: ignored, --force"
    if facts.run.reason is Reason.MISSED or not decided:
        return f"{policy}: not checked"
    blocking = in_zone(str(decided.get("blocking") or "another run"), facts.tz, now=now)
    verdicts = {
        "go": "any number may run" if policy == "allow" else "nothing active",
        "after": "queued behind an unfinished run",
        "replace": "replaced the unfinished run",
        "refuse": f"{blocking} was not finished"
        + (f", and `queue_depth: {facts.spec.overlap.queue_depth}` was full" if policy == "queue" else ""),
    }
    return f"{policy}: {verdicts.get(str(decided.get('verdict')), 'nothing active')}"


def _conditions(facts: Facts) -> str:
    run, gates = facts.run, facts.spec.gates
    if not gates.conditions:
        return "none"
    if run.forced:
        return "ignored, --force"
    asked = run.decisions.get("conditions")
    if not asked:
        return f"{len(gates.conditions)}, not checked yet" if not run.status.final else "not checked"
    return "; ".join(_condition(result) for result in asked)


def _budget(facts: Facts) -> str | None:
    run = facts.run
    windows = run.decisions.get("subscription")
    told = say_decision(windows) if windows else None
    if not facts.spec.budgets:
        return told
    gate = run.decisions.get("budget")
    if gate:
        return "; ".join(part for part in (told, say_gate(gate)) if part)
    if told and windows and windows.get("verdict") == "wait":
        return told
    names = ", ".join(spend.account for spend in facts.spec.budgets)
    return f"{names}: not checked{'' if run.status.final else ' yet'}"


def _used(facts: Facts) -> list[tuple[str, str | None]]:
    """Return the reported usage of an execution, its charged estimate, and its refused tools."""
    run, ended = facts.run, facts.run.status.final and facts.run.started_at is not None
    charged = say_estimated(run.decisions.get("budget") or {}, run.usage or {}) if ended else ""
    return [
        ("used", say_usage(run.usage) if run.usage else None),
        ("charged", charged or None),
        ("checked", _checked(facts)),
        ("denied", jobs.say_denied(run.denied_tools, facts.spec.work.agent) or None),
    ]


def _checked(facts: Facts) -> str | None:
    """Return the end of the postcondition; None for a job without one."""
    check, run = facts.spec.work.postcondition, facts.run
    told = run.decisions.get(POSTCONDITION)
    if told is None:
        return None if check is None else "not yet" if not run.status.final else "no: the work did not succeed"
    if told.get("passed"):
        return "the postcondition passed"
    lines = [line.strip() for line in str(told.get("output") or "").splitlines() if line.strip()]
    said = "; ".join(lines[-LINES_SHOWN:])
    return f"the postcondition failed: {said}" if said else "the postcondition failed, without output"


def _condition(result: Mapping[str, Any]) -> str:
    took = f"{result.get('took_ms', 0)} ms"
    detail = f"{result['detail']}, {took}" if result.get("detail") else took
    return f"{result.get('title')} → {result.get('answer')} ({detail})"


def _waits(facts: Facts, now: datetime) -> str:
    run = facts.run
    if run.waiting_for is WaitingFor.CONDITION:
        again = f"checked again {_when(run.not_before, facts.tz, now)}"
        ends = f", abandoned {_when(run.expires_at, facts.tz, now)}" if run.expires_at else ""
        return f"for its condition (`when_false: {WhenFalse.WAIT}`), {again}{ends}{_held(facts)}"
    if run.waiting_for is WaitingFor.BUDGET:
        windows = run.decisions.get("subscription") or {}
        if windows.get("verdict") == "wait":
            resets = f"it resets {_when(run.not_before, facts.tz, now)}"
            return f"for its subscription: {say_decision(windows)}; {resets}   rota agents{_held(facts)}"
        opens = f"the next window opens {_when(run.not_before, facts.tz, now)}"
        return f"for room in its budget; {opens}   rota budgets{_held(facts)}"
    if run.waiting_for is WaitingFor.UNCERTIFIED:
        told = run.decisions.get("uncertified", {})
        agent = told.get("agent", "AGENT")
        return f"until {agent} is certified: {told.get('why', '')}   rota agents certify {agent}{_held(facts)}"
    if run.waiting_for is WaitingFor.POLL:
        return f"for the next poll   rota explain rota/poll{_held(facts)}"
    if run.waiting_for is WaitingFor.BACKOFF:
        return f"for its backoff, retried {_when(run.not_before, facts.tz, now)}{_held(facts)}"
    if run.waiting_for is WaitingFor.ANSWER:
        open_ones = [question for question in facts.answers if question.is_open]
        asked = " and ".join(f"question {question.number}" for question in open_ones)
        until = min((question.expires_at for question in open_ones if question.expires_at), default=None)
        answer = f"; answer it with `rota answer {open_ones[0].number}`" if open_ones else ""
        return f"for the answer to {asked}, at most until {_until(until, facts.tz, now)}{answer}{_held(facts)}"
    others = [other.handle for other in facts.unfinished if other.number < run.number]
    others = [other.handle for other in facts.unfinished if other.id == run.predecessor_id] or others
    if run.waiting_for is WaitingFor.PREDECESSOR and facts.group is not None and facts.group.place is not None:
        return f"for {', '.join(facts.group.unfinished)} of {facts.group.group} to finish{_held(facts)}"
    if run.waiting_for is WaitingFor.PREDECESSOR:
        return f"for {', '.join(others) or 'an earlier run'} to finish{_held(facts)}"
    if run.waiting_for is WaitingFor.REPLACED_RUN:
        return f"until {', '.join(others) or 'the run it replaces'} is stopped{_held(facts)}"
    return _waits_to_be_claimed(facts, now)


def _until(at: datetime | None, tz: str, now: datetime) -> str:
    return "its end" if at is None else f"{day_time(at, tz, now=now, seconds=True)} ({from_now(at, now)})"


def _waits_to_be_claimed(facts: Facts, now: datetime) -> str:
    if facts.held is Held.PAUSED:
        until = f" until {day_time(facts.held_until, facts.tz, now=now)}" if facts.held_until else ""
        why = f" ({facts.held_why})" if facts.held_why else ""
        return f"because everything is paused{until}{why}: nothing starts; resume with `rota resume --all`"
    if facts.held is Held.NO_WORKER:
        return facts.held_why or "for a scheduler: none is running here; start one with `rota serve`"
    if facts.held is Held.POOL:
        return f"for {facts.held_why}"
    if facts.held is Held.PROVIDER_HOLD:
        held = jobs.say_hold(facts.held_why, facts.held_until, zone=facts.tz, now=now, problem=facts.held_for)
        return f"as provider_hold: {held}; release it with `rota agents release {provider_of(facts.held_why)}`"
    if facts.held is Held.SLOT:
        return f"for a slot: all are taken{_by_abandoned(facts)}"
    return facts.held_why or "for its turn; a slot is free"


def _held(facts: Facts) -> str:
    if facts.held is Held.PAUSED:
        return "; everything is paused"
    return "; no scheduler is running here" if facts.held is Held.NO_WORKER and not facts.held_why else ""


def _when(at: datetime | None, tz: str, now: datetime) -> str:
    return "soon" if at is None else f"at {day_time(at, tz, now=now, seconds=True)} ({from_now(at, now)})"


def _start(facts: Facts, now: datetime) -> str:
    run, execution = facts.run, facts.execution
    if execution is not None:
        at = day_time(execution.started_at, facts.tz, now=now, seconds=True)
        on = f" of {facts.worker}" if facts.worker else ""
        return f"{at} {_where(facts)}, slot {execution.slot}{on}"
    if run.started_at is not None:
        return day_time(run.started_at, facts.tz, now=now, seconds=True)
    if run.status is Status.DISPATCHED:
        before = next((each.handle for each in facts.abandoned if each.job == run.job), None)
        if before is not None and facts.spec.work.in_process:
            return f"not yet: it waits for the function of {before}, which is still running"
        return "not yet: it has a slot, and its conditions and budget are being checked"
    return "never" if run.status.final else "not yet"


def _where(facts: Facts) -> str:
    assert facts.execution is not None
    if facts.spec.work.in_process:
        return f"inside the scheduler (pid {facts.execution.pid})"
    workspace = jobs.workspace_of(facts.run)
    where = f" in {facts.spec.work.cwd}" if workspace is None else f", {jobs.say_place(workspace)}"
    return f"pid {facts.execution.pid}{where}"


def _last_seen(facts: Facts, now: datetime) -> str | None:
    """Return the last sign of life of a run that runs, or that was ended for its silence."""
    seen = facts.seen
    if seen is None:
        return None
    at = f"{day_time(seen.at, facts.tz, now=now, seconds=True)} ({from_now(seen.at, now)})"
    return f"{at}: {seen.text}" if seen.text else at


def _end(facts: Facts, now: datetime) -> list[tuple[str, str | None]]:
    run = facts.run
    if run.finished_at is None:
        return [("end", _running(facts, now))] if run.status in (Status.RUNNING, Status.DISPATCHED) else []
    at = day_time(run.finished_at, facts.tz, now=now, seconds=True)
    took = f" after {briefly(run.finished_at - run.started_at)}" if run.started_at else ""
    reason = f" {run.reason}" if run.reason else ""
    why = f": {say_why(run, facts.tz, now=now)}" if run.error else ""
    summary = f": {run.result_summary}" if run.result_summary and not why else ""
    abandoned = [each for each in facts.abandoned if each.run_id == run.id]
    return [
        ("end", f"{at} {run.status}{reason}{took}{why}{summary}"),
        *(("abandoned", f"{jobs.say_abandoned(each, now=now)}; {ABANDONED_HINT}") for each in abandoned),
    ]


def _by_abandoned(facts: Facts) -> str:
    handles = [each.handle for each in facts.abandoned]
    if not handles:
        return ""
    functions = "a function that still runs" if len(handles) == 1 else "functions that still run"
    return f", {len(handles)} of them by {functions} after the end of {', '.join(handles[:3])}"


def _running(facts: Facts, now: datetime) -> str:
    run, timeout = facts.run, facts.spec.work.timeout
    asked = " and is being stopped" if run.cancel_requested_at else ""
    if run.started_at is None:
        return f"not yet{asked}"
    so_far = say_duration(max(now - run.started_at, timedelta()))
    limit = f", stopped after {say_duration(timeout)}" if timeout else ", without a timeout"
    return f"not yet: running for {so_far}{limit}{asked}"


def _then(facts: Facts, now: datetime) -> str:
    followed = say_what_follows(facts.run, facts.spec, retried_as=facts.retried_as, tz=facts.tz, now=now)
    fires = next_fire(facts.job, now=now, unfinished=facts.unfinished)
    hold = ""
    if facts.hold is not None and facts.run.status.final:
        hold = jobs.say_provider_hold(facts.hold, zone=facts.tz, now=now)
    return "; ".join(part for part in (hold, followed, fires) if part)


def explain_job(
    job: Job, *, state: str, unfinished: Sequence[Run], now: datetime, look: NextLook | None = None
) -> list[ExplainLine]:
    """Return a job's own lines: its state, its schedule and when it fires next or why not.

    `look`: the next run that a run of the job asked for.
    """
    running = [run.handle for run in unfinished if run.status is not Status.QUEUED]
    queued = [run.handle for run in unfinished if run.status is Status.QUEUED]
    states = [
        *([f"running {', '.join(running)}"] if running else [state]),
        *([f"queued {', '.join(queued)}"] if queued else []),
        *_failures(job, now),
    ]
    since = f"version {job.version} since {clock_or_day(job.updated_at, job, now)}"
    agent = job.spec.work.agent
    lines: list[tuple[str, str | None]] = [
        ("state", ", ".join(states)),
        ("schedule", f"{explain_schedule(job.spec.schedule)}; {since}"),
        ("mode", say_mode_of_job(job)),
        ("quiet hours", say_quiet_of_job(job, now=now)),
        ("except", say_excluded(job.spec.schedule, now=now)),
        ("created", jobs.say_made(job, now=now)),
        *(jobs.say_brief(agent) if agent is not None else ()),
        ("next", next_fire(job, now=now, unfinished=unfinished).removeprefix("next ")),
        ("moved", _say_look(job, look)),
    ]
    return [ExplainLine(label, text) for label, text in lines if text is not None]


def _say_look(job: Job, look: NextLook | None) -> str | None:
    """Return which run moved the next instant of a job, None if none did."""
    if look is None or (look.next_for is not None and look.next_for not in (job.next_for, job.held_for)):
        return None
    return _moved(look.author, look.run, look.after, look.why)


def _moved(author: str, run: str, after: timedelta, why: str) -> str:
    return f"by {plain(author)} in {run}, {say_duration(after)} after a run: {cut(plain(why), TEXT_SHOWN)}"


def _moved_run(run: Run) -> str | None:
    """Return which run asked for this one, None if none did."""
    told = run.decisions.get("moved")
    return None if told is None else _moved(told["by"], told["run"], told["after_ms"] * MILLISECOND, told["why"])


def _asked_for(run: Run) -> str | None:
    """Return the next run that a run asked for, None if it asked for none."""
    told = run.decisions.get("look_again")
    if told is None:
        return None
    wait = say_duration(told["after_ms"] * MILLISECOND)
    return f"asked for the next run {wait} later: {cut(plain(told['why']), TEXT_SHOWN)}"


def _failures(job: Job, now: datetime) -> list[str]:
    until, tz = job.backing_off_until, job.spec.schedule.timezone
    if job.spec.on_repeated_failure is not None and until is not None and now < until:
        return [f"held back until {day_time(until, tz, now=now, seconds=True)} after {job.failures} failures in a row"]
    return [f"{job.failures} failures in a row"] if job.failures > 1 else []


def clock_or_day(at: datetime, job: Job, now: datetime) -> str:
    """Return an instant in the job's zone: a recent one with seconds, others with their day."""
    tz = job.spec.schedule.timezone
    if now - at < timedelta(hours=12):
        return clock_time(at, tz)
    return day_time(at, tz, now=now)
