"""Sentences about runs, definitions and history, for all faces."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rota.model.amounts import and_more, counted, say_money
from rota.model.clock import say_duration, write_duration
from rota.model.records import Run, cut
from rota.model.spec import AgentWork, JobSpec, Kind, Work
from rota.model.states import Reason, Status, WaitingFor
from rota.rules.params import declared_params
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.preview import NOTICED, coming_fires
from rota.text.ansi import plain
from rota.text.format import briefly, day_time, full_time, roughly, say_why, spaced
from rota.text.jobs import agent_limits, say_brief, say_draws, say_provider_hold, say_workspace

if TYPE_CHECKING:
    from rota.engine.activity import PauseState
    from rota.operations.jobs import JobView
    from rota.operations.runs import RunView, Stretch

TICKS = {Status.COMPLETED: "▪", Status.FAILED: "✗", Status.SKIPPED: "·", Status.CANCELLED: "–"}
MISSED = "○"
PARTIAL = "PARTIAL"
NAMED = 5
SESSION_SHOWN = 9
LEGEND = "▪ completed  ✗ failed  · skipped  ○ missed  – cancelled"


def shown_status(run: Run) -> str:
    """Return a run's status for users: a group with failed members is PARTIAL."""
    return PARTIAL if run.reason is Reason.MEMBERS_FAILED else run.status.shown.value


def took(run: Run, *, now: datetime) -> str:
    """Return the duration of a run so far; empty if it never started."""
    if run.started_at is None:
        return ""
    return briefly(max((run.finished_at or now) - run.started_at, timedelta()))


def outcome_words(run: Run, *, now: datetime) -> str:
    """Return a run's outcome in a few words: `COMPLETED 11 min`, `FAILED exit 3`, `SKIPPED overlap`."""
    status = run.status.shown.value
    if run.status is Status.FAILED and run.reason is Reason.EXIT_CODE and run.exit_code is not None:
        return f"{status} exit {run.exit_code}"
    if run.denied_tools:
        return f"{status}{spaced(run.reason)}, {denied_words(run)}"
    if run.reason is Reason.MEMBERS_FAILED:
        return f"{PARTIAL} {took(run, now=now)}"
    if run.reason is not None:
        return f"{status} {run.reason}"
    if run.waiting_for is WaitingFor.BACKOFF and run.not_before is not None:
        return f"{status}, attempt {run.attempt} in {roughly(max(run.not_before - now, timedelta()))}"
    if run.waiting_for is not None:
        return f"{status}, waits for {run.waiting_for}"
    late = run.decisions.get("late_ms", 0)
    if "made_up" in run.decisions and run.status is Status.COMPLETED:
        return f"{status}, {roughly(timedelta(milliseconds=late))} late"
    words = " ".join(part for part in (status, took(run, now=now)) if part)
    return f"{words}, checked" if run.checked else words


def denied_words(run: Run) -> str:
    """Return the number of denied tools; empty for none."""
    return f"{counted(len(run.denied_tools), 'tool')} denied" if run.denied_tools else ""


def session_words(run: Run) -> str:
    """Return the beginning of an agent's session: `session 7f3a91c0…`; empty for none."""
    session = plain(run.session_id)
    return f"session {cut(session, SESSION_SHOWN)}" if session else ""


def ticks(runs: Sequence[Run]) -> str:
    """Return one mark a finished run, oldest first; `runs` are newest first."""
    return "".join(_tick(run) for run in reversed(runs) if run.status.final)


def _tick(run: Run) -> str:
    return MISSED if run.reason is Reason.MISSED else TICKS[run.status]


def schedule_words(view: "JobView", zone: str) -> str:
    """Return a job's schedule; the zone is left out where the table's heading names it."""
    return explain_schedule(view.job.spec.schedule).replace(f" ({zone})", "")


def next_words(view: "JobView", zone: str, *, now: datetime) -> str:
    """Return the next fire of a job, in the zone of the table, or why there is none."""
    job = view.job
    if view.state == "paused":
        return f"paused{pause_words(job.paused_until, job.pause_reason, zone=zone, now=now)}"
    if job.next_at is None:
        return _no_next(view)
    fire = next(iter(coming_fires(job, n=1)), None)
    if fire is None:
        return "never, by quiet hours"
    away = fire.at - now
    when = "overdue" if -away > NOTICED else "now" if away < timedelta(seconds=1) else f"in {roughly(away)}"
    seconds = away < timedelta(minutes=2)
    words = f"{day_time(fire.at, zone, now=now, seconds=seconds)}  {when}"
    if fire.deferred:
        words += f"  deferred from {day_time(fire.nominal, zone, now=now)}"
    elif fire.at > fire.nominal:
        words += f"  jitter +{roughly(fire.at - fire.nominal)}"
    return words


def _no_next(view: "JobView") -> str:
    schedule = view.job.spec.schedule
    if view.state not in ("running", "idle"):
        return view.state
    if schedule.manual:
        return "by hand"
    if schedule.reboot:
        return "next boot"
    interval = view.job.interval
    if schedule.follows_runs and interval is not None and view.unfinished:
        return f"when done + {say_duration(interval)}"
    if schedule.by_mode is not None and interval is None:
        return f"not while {view.job.mode}"
    return "when done" if view.unfinished else "no more"


def pause_words(until: datetime | None, reason: str | None, *, zone: str, now: datetime) -> str:
    """Return the end and the reason of a pause: ` until 22:43 (kernel upgrade)`; empty without both."""
    over = ", which has ended" if until is not None and until <= now else ""
    end = f" until {day_time(until, zone, now=now, seconds=bool(until.second))}{over}" if until else ""
    return f"{end} ({plain(reason)})" if reason else end


def everything_words(pause: "PauseState", *, zone: str, now: datetime) -> str:
    """Return the pause of everything, with its end, its reason and the command to resume."""
    from rota.rules.liveness import REASON

    told = pause_words(pause.until, pause.reason, zone=zone, now=now)
    cause = "the scheduler crashed repeatedly: find the cause in its log, then " if pause.reason == REASON else ""
    return f"everything{told}: nothing fires or starts; {cause}continue with `rota resume --all`"


def jobs_paused_words(pauses: "Sequence[PauseState]", *, zone: str, now: datetime) -> str:
    """Return the paused jobs, with ends and reasons."""
    named = [f"{pause.job}{pause_words(pause.until, pause.reason, zone=zone, now=now)}" for pause in pauses[:NAMED]]
    return f"{counted(len(pauses), 'job')}: {', '.join(named)}{and_more(pauses, NAMED)}   rota resume JOB"


def kind_of(run: Run) -> str:
    """Return the style of a run: its status, or `missed`, or `partial`."""
    return "missed" if run.reason is Reason.MISSED else shown_status(run).lower()


SpecPairs = Iterable[tuple[str, str]]


def spec_pairs(spec: JobSpec) -> SpecPairs:
    """Yield the work and the policies of a job, by key of the file."""
    work, gates = spec.work, spec.gates
    yield from _work_pairs(spec)
    if work.param_names:
        yield "params", plain(json.dumps(declared_params(work), ensure_ascii=False))
    names = [*(variable.name for variable in work.env), *work.env_pass, *([work.env_file] if work.env_file else [])]
    if names:
        yield "environment", plain(" ".join(names))
    if work.kind is not Kind.GROUP:
        silent = f", {say_duration(work.idle_timeout)} without output" if work.idle_timeout else ""
        yield "timeout", (say_duration(work.timeout) if work.timeout else "never") + silent
    if work.postcondition is not None:
        check = work.postcondition
        words = plain(" ".join(check.command) or check.shell)
        yield "postcondition", f"{words} (timeout {say_duration(check.timeout)})"
    yield from _enclosure_pairs(work)
    if gates.conditions:
        yield (
            "conditions",
            f"{', '.join(condition.title for condition in gates.conditions)}; when false: {gates.when_false}",
        )
    if work.kind is not Kind.GROUP:
        from rota.rules.outcome import say_retry

        yield "retry", say_retry(spec.retry)
    if spec.on_repeated_failure:
        most = write_duration(spec.on_repeated_failure.backoff_max)
        yield "held back", f"after {spec.on_repeated_failure.after} failures in a row, {most} at most"
    age = f", at most {write_duration(spec.misfire.max_age)} late" if spec.misfire.max_age else ""
    yield "misfire", f"{spec.misfire.policy}{age}"
    yield "overlap", spec.overlap.policy.value
    if spec.pools:
        yield "pools", say_draws(spec.pools)
    if spec.budgets:
        from rota.rules.budgets import say_spend

        yield "budget", ", ".join(say_spend(spend) for spend in spec.budgets)
    if spec.labels:
        yield "labels", plain(", ".join(spec.labels))
    if spec.priority:
        yield "priority", str(spec.priority)
    yield from _further_pairs(spec)


def _further_pairs(spec: JobSpec) -> SpecPairs:
    if spec.pace is not None:
        least, most = say_duration(spec.pace.min), say_duration(spec.pace.max)
        yield "pace", f"its runs choose the wait for the next one, {least} to {most}"
    if spec.wake:
        yield "wake", "wakes the machine for its instants"
    if spec.ping is not None:
        yield "ping", plain(spec.ping.address) or f"secret {spec.ping.address_secret}"


def _enclosure_pairs(work: Work) -> SpecPairs:
    from rota.rules.sandbox import say_limits, say_sandbox

    if work.sandbox is not None:
        yield "sandbox", plain(say_sandbox(work.sandbox))
    limits = work.limits or (work.sandbox.limits if work.sandbox else None)
    if limits is not None:
        yield "limits", say_limits(limits)


def _work_pairs(spec: JobSpec) -> SpecPairs:
    yield spec.work.kind.value, work_words(spec)
    if spec.work.kind is not Kind.GROUP:
        yield "folder", plain(spec.work.cwd)
    if spec.work.agent is not None:
        if limits := agent_limits(spec.work.agent):
            yield "limits", ", ".join(limits)
        yield from ((label, plain(text)) for label, text in say_brief(spec.work.agent))


def work_words(spec: JobSpec) -> str:
    """Return the work itself on one line."""
    work = spec.work
    if work.members:
        listed = [f"{member.job}{' (always)' * member.always}" for member in work.members]
        joint = " → " if work.mode == "sequential" else " | "
        return f"{joint.join(listed)}  ({work.mode}, on_failure: {work.on_failure})"
    if work.agent is not None:
        return plain(_agent_words(work.agent))
    if work.command:
        import shlex

        return plain(shlex.join(work.command))
    return plain(work.shell or work.function or work.url)


def _agent_words(work: AgentWork) -> str:
    """Return the agent, its access, and the beginning of the task."""
    model = f", {work.model}" if work.model else ""
    name = work.agent if work.agent == work.adapter else f"{work.agent} ({work.adapter})"
    asked = work.prompt_file or cut(" ".join(work.prompt.split()), 80) or "the default task"
    listed = f" of [{', '.join(choice.title for choice in work.choices)}]" if work.choices else ""
    return f"{name}{model}{listed}, access {work.access}: {asked}"


Pairs = Iterator[tuple[str, str]]


def run_pairs(view: "RunView", *, zone: str, now: datetime) -> Pairs:
    """Yield the facts about a run; instants in `zone`."""
    run = view.run

    def when(at: datetime | None) -> str:
        return f"{full_time(at, zone, now=now, seconds=True)} ({zone})" if at else "–"

    yield "id", run.id
    yield "trigger", run.trigger.value + (", forced" if run.forced else "")
    if run.scheduled_for:
        yield "due", when(run.scheduled_for)
    if run.covers_to and run.covers_to != run.scheduled_for:
        yield "to", f"{when(run.covers_to)}, {run.count or 'more than 10,000'} instants"
    yield from _chain_pairs(view, when)
    yield "created", when(run.created_at)
    yield "started", when(run.started_at)
    yield "finished", when(run.finished_at)
    yield from outcome_pairs(view, zone=zone, now=now)
    yield from told_pairs(view)
    yield view.spec.work.kind.value, work_words(view.spec)
    yield "definition", f"version {run.version}" + ("" if run.version == view.job.version else " (changed since)")
    if view.execution is not None:
        yield "process", f"pid {view.execution.pid}, slot {view.execution.slot}, epoch {view.execution.epoch}"


def _chain_pairs(view: "RunView", when: Callable[[datetime | None], str]) -> Pairs:
    run, chain = view.run, view.chain
    if run.attempt > 1 or len(chain) > 1:
        from rota.text.runs import say_attempt

        first, *retries = [one.handle for one in chain]
        handles = [first, *(handle.removeprefix(run.job) for handle in retries)]
        yield "attempt", say_attempt(run, view.spec).removeprefix("attempt ")
        yield "chain", " → ".join(handles)
    pending = chain[-1] if chain else run
    if pending.not_before is not None:
        yield "next try", when(pending.not_before)


def _checked_pairs(view: "RunView") -> Pairs:
    """Yield the end of the postcondition; of an agent's success also that nothing checked it."""
    run = view.run
    if run.checked is not None:
        yield "checked", "the postcondition passed" if run.checked else "the postcondition failed"
    elif run.status is Status.COMPLETED and view.spec.work.agent is not None:
        yield "checked", "no: the job has no postcondition"


def outcome_pairs(view: "RunView", *, zone: str, now: datetime) -> Pairs:
    """Yield the outcome of a run: hold, work, duration, error, usage, denied tools and workspace."""
    from rota.rules.budgets import say_usage
    from rota.text.runs import say_work

    run = view.run
    if view.hold is not None:
        yield "held", say_provider_hold(view.hold, zone=zone, now=now)
    source = view.spec.work.agent.source if view.spec.work.agent else None
    if source is not None and (worked := say_work(run, source, view.work, tz=zone)):
        yield "work", plain(worked)
    if run.started_at:
        on = f", on {view.worker.called}" if view.worker is not None else ""
        yield "took", took(run, now=now) + plain(on)
    if run.exit_code is not None:
        yield "exit code", str(run.exit_code)
    if error := say_why(run, zone, now=now):
        yield "error", plain(error)
    yield from _checked_pairs(view)
    yield from _answer_pairs(view)
    if run.usage:
        yield "used", plain(say_usage(run.usage))
    if run.denied_tools:
        yield "denied", plain(", ".join(run.denied_tools))
    if run.session_id:
        resumed = " (resumed)" if run.decisions.get("session") == run.session_id else ""
        yield "session", plain(run.session_id) + resumed
    if (place := say_workspace(run, view.worktree)) is not None:
        yield "workspace", plain(place)
    if run.params:
        yield "params", plain(json.dumps(dict(run.params), ensure_ascii=False))


def _answer_pairs(view: "RunView") -> Pairs:
    run = view.run
    if run.result_summary:
        yield "summary", plain(run.result_summary)
    if view.result and view.result != run.result_summary:
        yield "result", f"{counted(len(view.result), 'character')}, `rota show {run.handle} --result` prints all"


def told_pairs(view: "RunView") -> Pairs:
    """Yield the notifications of a run with their status."""
    for delivery in view.deliveries:
        tries = f", {counted(delivery.attempts, 'attempt')}" if delivery.attempts > 1 else ""
        error = f": {plain(delivery.error)}" if delivery.error and delivery.finished_at else ""
        yield "told", f"{plain(delivery.target)} of {delivery.event}: {delivery.status}{tries}{error}"


def cost_words(stretch: "Stretch") -> str:
    """Return the cost of a stretch; with `≥` if some runs report none, empty if all do."""
    return _amount(say_money(stretch.usd), stretch.usd_told, stretch)


def token_words(stretch: "Stretch") -> str:
    """Return the tokens of a stretch, input and output together."""
    return _amount(f"{stretch.tokens:,}", stretch.tokens_told, stretch)


def _amount(words: str, told: int, stretch: "Stretch") -> str:
    return f"{'≥ ' if told < stretch.runs else ''}{words}" if told else ""


def started_words(stretch: "Stretch", zone: str, *, now: datetime) -> str:
    """Return the start of a stretch and of its newest run; for runs that never started, their due time."""
    newest, oldest = (run.started_at or run.nominal for run in (stretch.newest, stretch.oldest))
    near = newest - oldest < timedelta(hours=1)
    first = unstarted_word(stretch.oldest) + day_time(oldest, zone, now=now, seconds=near)
    return first if stretch.runs == 1 else f"{first} … {day_time(newest, zone, now=now, seconds=near)}"


def unstarted_word(run: Run) -> str:
    """Return the label of the time that replaces a missing start; empty if the run started."""
    if run.started_at is not None:
        return ""
    return "created " if run.scheduled_for is None else "due "


def why_words(run: Run, zone: str, *, now: datetime) -> str:
    """Return the error or the summary of a run, with its lateness."""
    attempt = f"attempt {run.attempt}" if run.attempt > 1 else ""
    if error := say_why(run, zone, now=now):
        return f"{attempt}: {error}" if attempt else error
    parts = [attempt, run.result_summary or ""]
    if "made_up" in run.decisions:
        parts.append(f"{say_duration(timedelta(milliseconds=run.decisions.get('late_ms', 0)))} late")
    return " · ".join(part for part in parts if part)
