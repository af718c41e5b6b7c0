"""Finish: store outcomes with retry, next instant, pools and notifications, in one transaction."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import asdict, replace

from rota import faults
from rota.engine.activity import note_agents, plan_look, wanted_wait
from rota.engine.transactions import agents, budgets, groups, notifications, poll, questions
from rota.engine.transactions.insert import RunRef, create_run, in_its_lane
from rota.model.agents import AgentSession
from rota.model.clock import MILLISECOND, to_ms
from rota.model.ids import new_id
from rota.model.records import POSTCONDITION, SUMMARY_LIMIT, Job, Outcome, PostconditionResult, Run, cut
from rota.model.spec import Anchor, JobSpec, OnQuota
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.admission import waits_for_all
from rota.rules.agents import REFUSED, continued_session
from rota.rules.outcome import ONE_ATTEMPT, OUTAGES, backing_off, ended_at, is_plain, next_attempt, settle
from rota.rules.schedule.cursor import NOWHERE, Cursor, cursor_after_chain
from rota.store.driver import Database
from rota.store.tables import jobs, queue, run_queries, runs, work_items
from rota.store.tables.processes import hold_jobs_waited_for, lock_jobs_of_runs
from rota.text.runs import outages_before


def _told(result: PostconditionResult) -> dict[str, Any]:
    told = {"passed": result.passed, "exit_code": result.exit_code}
    return {**told, "output": result.output} if result.output else told


def settle_pools(db: Database, ended: Sequence[runs.FinishedRun], *, leaked: Collection[str]) -> None:
    """Release the pools of ended runs; those in `leaked` leave slot and pools to a thread that cannot be killed."""
    if leaked:
        db.execute("abandoned_insert", ids=json.dumps([run.id for run in ended if run.id in leaked]))
    queue.give_back(db, [run.lane_id for run in ended if run.id not in leaked])


def release_leaked(db: Database, run_id: str) -> None:
    """Release the pools that the thread of an ended run held; nothing if it held none."""
    queue.give_back(db, [lane_id for (lane_id,) in db.rows("abandoned_delete", run_id=run_id)])


def release_leaked_by(db: Database, epochs: Sequence[int]) -> None:
    """Release the pools that threads of dead processes held."""
    forgotten = db.rows("abandoned_forget", epochs=json.dumps(list(epochs)))
    queue.give_back(db, [lane_id for (lane_id,) in forgotten])


def retry(db: Database, ended: runs.FinishedRun, *, now: datetime) -> RunRef | None:
    """Insert the next attempt of a failed run if its spec allows one; runs that waited for the run wait for that."""
    spec = jobs.version_spec(db, ended.job_id, ended.version)
    passed_on = _pass_to_next_agent(db, ended, spec, now=now) or _continue_session(db, ended, spec, now=now)
    if passed_on is not None:
        return _insert_retry(db, passed_on)
    earlier = runs.run_by_id(db, ended.id) if ended.attempt > 1 else None
    at = next_attempt(
        spec.retry,
        ended.outcome,
        attempt=ended.attempt,
        run_id=ended.id,
        finished_at=ended.finished_at,
        asked=ended.cancel_reason,
        outages=outages_before(earlier) if earlier else 0,
    )
    failed = None if at is None else earlier or runs.run_by_id(db, ended.id)
    if at is None or failed is None or failed.decisions.get(ONE_ATTEMPT):
        return None
    return _insert_retry(db, _attempt(db, failed, spec, at=at, now=now))


def _insert_retry(db: Database, attempt: runs.NewRun) -> RunRef:
    born = create_run(db, attempt)
    assert attempt.retry_of is not None, "it repeats a run"
    run_queries.relink_followers(db, attempt.retry_of, born.id)
    faults.point("retry.born")
    return born


def _refused(db: Database, ended: runs.FinishedRun) -> Run | None:
    """Return a run that its provider refused and that may be followed by another; None for any other end."""
    if ended.outcome.reason not in REFUSED or ended.cancel_reason is not None:
        return None
    failed = runs.run_by_id(db, ended.id)
    return None if failed is None or failed.decisions.get(ONE_ATTEMPT) else failed


def _continue_session(db: Database, ended: runs.FinishedRun, spec: JobSpec, *, now: datetime) -> runs.NewRun | None:
    """Return the continuation of a run that reached a rate limit. It waits in the queue until the hold ends."""
    work = spec.work.agent
    if work is None or work.on_quota is not OnQuota.CONTINUE or ended.outcome.reason is not Reason.QUOTA:
        return None
    failed = _refused(db, ended)
    if failed is None or outages_before(failed) >= OUTAGES:
        return None
    attempt = _attempt(db, failed, spec, at=ended.finished_at, now=now)
    earlier = failed.decisions.get("retry", {}).get("session")
    session = continued_session(ended.outcome, earlier and AgentSession(**earlier), adapter=work.adapter)
    note = {
        **(attempt.decisions or {})["retry"],
        "outages": outages_before(failed) + 1,
        "continues": failed.decisions.get("workspace") or {},
        "session": None if session is None else asdict(session),
    }
    return replace(attempt, decisions={"retry": note})


def _pass_to_next_agent(db: Database, ended: runs.FinishedRun, spec: JobSpec, *, now: datetime) -> runs.NewRun | None:
    """Return the same run once more with the next agent of its list, after the provider of its agent refused it."""
    work = spec.work.agent
    failed = _refused(db, ended) if work is not None and work.choices else None
    if work is None or failed is None:
        return None
    agent = failed.decisions.get("agent", {})
    refused = [*agent.get("refused", ()), *([agent["agent"]] if "agent" in agent else [])]
    if all(choice.title in refused for choice in work.choices):
        return None
    attempt = _attempt(db, failed, spec, at=ended.finished_at, now=now)
    note = {**(attempt.decisions or {})["retry"], "outages": outages_before(failed) + 1}
    return in_its_lane(db, replace(attempt, decisions={"retry": note}), refused=refused)


def _attempt(db: Database, failed: Run, spec: JobSpec, *, at: datetime, now: datetime) -> runs.NewRun:
    """Return the same run once more: what it does and with what stay as they were when the chain began."""
    job = replace(jobs.job_by_id(db, failed.job_id), version=failed.version, spec=spec)
    expires_after = spec.gates.expires_after
    waits = at > now
    return runs.NewRun(
        id=new_id(now),
        job=job,
        trigger=Trigger.RETRY,
        created_at=now,
        scheduled_for=failed.scheduled_for,
        waiting_for=WaitingFor.BACKOFF if waits else None,
        not_before=at if waits else None,
        expires_at=max(at, now) + expires_after if expires_after else None,
        lane_id=None if spec.work.agent is not None and spec.work.agent.choices else failed.lane_id,
        priority=failed.priority,
        params=failed.params,
        attempt=failed.attempt + 1,
        retry_of=failed.id,
        chain_id=failed.chain_id or failed.id,
        group_id=failed.group_id,
        place=failed.place,
        always=failed.always,
        forced=failed.forced,
        decisions={"retry": _note(failed, spec, at=at)},
    )


def _note(failed: Run, spec: JobSpec, *, at: datetime) -> dict[str, Any]:
    assert failed.finished_at is not None
    outages = outages_before(failed) + (failed.reason is Reason.OUTAGE)
    return {
        **({"outages": outages} if outages else {}),
        "after": failed.handle,
        "reason": failed.reason,
        "of": spec.retry.max_attempts,
        "backoff_ms": (at - failed.finished_at) // MILLISECOND,
    }


RUNNING = runs.RunState(Status.RUNNING, None)


class Finished(NamedTuple):
    """A run that ended, as its executor saw it."""

    run_id: str
    job_id: str
    outcome: Outcome


class FinishMode(Enum):
    """How jobs are locked before their runs end."""

    SINGLE = auto()
    """Lock the jobs with the first statement."""
    BATCH_LOCKED = auto()
    """The caller has locked the jobs of the whole batch."""
    BATCH_INDEPENDENT = auto()
    """No end affects another run as far as the executor knows: lock a job only if a run waits for one of its runs."""


def finish(
    db: Database,
    results: Sequence[Finished],
    mode: FinishMode = FinishMode.BATCH_LOCKED,
    *,
    epoch: int,
    now: datetime,
    leaked: Collection[str] = (),
) -> dict[str, Outcome]:
    """Store the outcomes of runs of `epoch`; return those that were stored, by run id.

    Runs in `leaked` have code that still runs: they keep slot and pools until it returns.
    """
    job_ids = {result.job_id for result in results}
    if mode is FinishMode.BATCH_INDEPENDENT:
        hold_jobs_waited_for(db, job_ids)
    else:
        lock_jobs_of_runs(db, [result.run_id for result in results])
    runs.prefetch_end_facts(db)
    ended: list[runs.FinishedRun] = []
    shared = {id(result.outcome): result for result in results}
    if all(is_plain(result.outcome) for result in shared.values()):
        settled = {key: _settled(result, RUNNING, now)[1:] for key, result in shared.items()}
        ends = [runs.RunEnd(result.run_id, *settled[id(result.outcome)]) for result in results]
        if mode is FinishMode.BATCH_INDEPENDENT:
            ends.sort(key=lambda end: end.run_id)  # the order in which every transaction locks several runs
        ended = _end(db, ends, mode, epoch=epoch, now=now, leaked=leaked, job_ids=job_ids)
        _follow_all(db, ended, now=now, standing=_standing(db, ended, mode))
    if len(ended) < len(results):
        final = {run.id for run in ended}
        left = [result for result in results if result.run_id not in final]
        ended += _finish_standing(db, left, mode, epoch=epoch, now=now, leaked=leaked)
    for run in ended:
        if run.outcome.state is not None:
            jobs.save_job_state(db, run.job_id, run.outcome.state)
        if run.outcome.session is not None or run.outcome.session_lost is not None:
            keep_session(db, run.id, run.outcome, job_id=run.job_id, now=now)
    if changes := [run.outcome.scheduler_state for run in ended if run.outcome.scheduler_state]:
        poll.save(db, changes)
    note_agents(db, [run.id for run in ended if run.outcome.provider is not None], now=now)
    return {run.id: run.outcome for run in ended}


def _prefetch_standing(db: Database, job_ids: Collection[str], *, last: bool) -> None:
    """Ask ahead how the jobs stand; `last`: as a rule nothing else is read, so the next operation may ask ahead."""
    for job_id in job_ids:
        jobs.prefetch_standing(db, job_id)
    if last:
        db.prefetch_next()


def _standing(db: Database, ended: Sequence[runs.FinishedRun], mode: FinishMode) -> dict[str, jobs.JobState]:
    """Return how the jobs of ended runs stand.

    Lock the job now if a run started to wait for one of these before we updated it. A run that starts later waits for
    our commit, and sees the end.
    """
    standing = {job_id: jobs.standing(db, job_id) for job_id in {run.job_id for run in ended}}
    independent = mode is FinishMode.BATCH_INDEPENDENT
    concerned = [job_id for job_id in standing if any(standing[job_id])] if independent else []
    if concerned:
        lock_jobs_of_runs(db, [run.id for run in ended if run.job_id in concerned])
        standing |= {job_id: jobs.standing(db, job_id) for job_id in concerned}
    return standing


def _finish_standing(
    db: Database,
    results: Sequence[Finished],
    mode: FinishMode,
    *,
    epoch: int,
    now: datetime,
    leaked: Collection[str],
) -> list[runs.FinishedRun]:
    """Store the outcomes of runs that were cancelled meanwhile, or had not started."""
    standing = runs.ending_runs(db, [result.run_id for result in results])
    ends = [_settled(result, standing[result.run_id], now) for result in results if result.run_id in standing]
    if any(end.outcome.scheduler_state for end in ends):
        judged = poll.judge(db, [end.outcome for end in ends])
        ends = [end._replace(outcome=outcome) for end, outcome in zip(ends, judged, strict=True)]
    locked = FinishMode.SINGLE if mode is FinishMode.BATCH_INDEPENDENT else mode
    return end_runs(db, ends, locked, epoch=epoch, now=now, leaked=leaked)


def keep_session(db: Database, run_id: str, outcome: Outcome, *, job_id: str, now: datetime) -> None:
    """Store the session that the next run of a job resumes, or forget one that the agent no longer knows."""
    if outcome.session_lost is not None:
        work_items.drop_session(db, job_id, outcome.session_lost)
    elif outcome.session is not None:
        work_items.save_session(db, job_id, outcome.session, run_id=run_id, now=now)


def _settled(finished: Finished, standing: runs.RunState, now: datetime) -> runs.RunEnd:
    outcome = settle(finished.outcome, standing.cancel_reason)
    return runs.RunEnd(finished.run_id, outcome, expected=standing.status, at=ended_at(outcome, now))


def end_run(db: Database, run_id: str, outcome: Outcome, *, expected: Status, epoch: int | None, now: datetime) -> bool:
    """End a run that is `expected`, and do what follows; return whether it was."""
    return bool(end_runs(db, [runs.RunEnd(run_id, outcome, expected=expected, at=now)], epoch=epoch, now=now))


def end_runs(
    db: Database,
    ends: Sequence[runs.RunEnd],
    mode: FinishMode = FinishMode.SINGLE,
    *,
    epoch: int | None,
    now: datetime,
    leaked: Collection[str] = (),
) -> list[runs.FinishedRun]:
    """End runs that are as expected and do what follows; return them. Each statement ends all of them at once."""
    ended = _end(db, ends, mode, epoch=epoch, now=now, leaked=leaked)
    _follow_all(db, ended, now=now, standing=_standing(db, ended, mode))
    return ended


def _follow_all(
    db: Database, ended: Sequence[runs.FinishedRun], *, now: datetime, standing: Mapping[str, jobs.JobState]
) -> None:
    run_ends = follow_up(db, ended, now=now, standing=standing)
    while run_ends:  # runs that end with these: the rest of a group, and the group itself
        more = _end(db, run_ends, FinishMode.SINGLE, epoch=None, now=now)
        run_ends = follow_up(db, more, now=now, standing=_standing(db, more, FinishMode.SINGLE))
    if ended:
        faults.point("record.followed_up")


def _end(
    db: Database,
    ends: Sequence[runs.RunEnd],
    mode: FinishMode,
    *,
    epoch: int | None,
    now: datetime,
    leaked: Collection[str] = (),
    job_ids: Collection[str] = (),
) -> list[runs.FinishedRun]:
    if ends and mode is FinishMode.SINGLE:
        lock_jobs_of_runs(db, [end.run_id for end in ends])
    for end in ends:
        if end.outcome.postcondition is not None:
            runs.note_end(db, end.run_id, {POSTCONDITION: _told(end.outcome.postcondition)}, epoch=epoch)
    ends = [end._replace(outcome=budgets.price(db, end.outcome)) if end.outcome.usage else end for end in ends]
    ends = [_with_questions(db, end) if end.outcome.session_id else end for end in ends]
    sent = partial(_prefetch_standing, db, job_ids, last=mode is FinishMode.BATCH_INDEPENDENT)
    ended = runs.finish_runs(db, ends, epoch=epoch, sent=sent) if ends else []
    if not ended:
        return []
    faults.point("record.run_updated")
    expected = {end.run_id: end.expected for end in ends}
    settle_pools(db, [run for run in ended if expected[run.id] is not Status.QUEUED], leaked=leaked)
    answered = [run for run in ended if run.outcome.provider is not None]
    if answered:
        answers = (
            agents.ProviderAnswer(run.id, run.outcome, run.started_at or now, run.finished_at) for run in answered
        )
        agents.note_answers(db, answers, now=now)
    facts = runs.end_facts(db)
    if facts.budget_held:
        spent = ((run.id, run.outcome.usage, expected[run.id] is Status.RUNNING) for run in ended)
        budgets.settle(db, [budgets.EndedSpender(*one) for one in spent], now=now)
    if facts.work_open:
        agents.settle(db, ended, now=now)
    for run in ended:
        if run.outcome.result:
            run_queries.save_result(db, run.id, run.outcome.result, now=now)
    return ended


def _with_questions(db: Database, end: runs.RunEnd) -> runs.RunEnd:
    """Return the end of an agent's run whose summary says that it asked a person."""
    asked = questions.asked_by(db, end.run_id) if end.outcome.status is Status.COMPLETED else []
    if not asked:
        return end
    said = " and ".join(f"question {number}" for number in asked)
    summary = cut(f"asked {said} · {end.outcome.summary or 'continues with the answer'}", SUMMARY_LIMIT)
    return end._replace(outcome=replace(end.outcome, summary=summary))


def follow_up(
    db: Database, ended: Sequence[runs.FinishedRun], *, now: datetime, standing: Mapping[str, jobs.JobState]
) -> list[runs.RunEnd]:
    """Do what follows from ends, and return what must end because of them.

    A failure that is retried leaves its chain unfinished, and so does a run that asked a person: runs that waited for
    it wait for the next one. The end of a chain releases the runs that waited for it, advances its group, and moves
    the job's cursor if that depends on its runs. All retries come first, since runs in line wait for them too.
    Nothing follows from most: the success of a run that was started by hand, outside of a group, of a quiet job.
    """
    quiet = {job_id for job_id, state in standing.items() if not any(state)}
    ended = [run for run in ended if run.job_id not in quiet or not _is_quiet(run)]
    run_ends = [end for run in ended if standing[run.job_id].polls for end in poll.follow(db, run, now=now)]
    failed = [run for run in ended if run.status is Status.FAILED]
    retried = {run.id: born.id for run in failed if (born := retry(db, run, now=now)) is not None}
    for run in ended:
        if standing[run.job_id].asks or run.trigger is Trigger.ANSWER:
            continued = questions.follow(db, run, now=now)
            run_ends += continued.further
            retried |= {} if continued.run_id is None else {run.id: continued.run_id}
    for run in ended:
        failures, waited_for, notifies, *_ = standing[run.job_id]
        if run.id in retried:
            if notifies:
                notifications.tried_again(db, run.id, retried[run.id])
            continue
        if notifies:
            notifications.chain_ended(db, run, now=now)
        if waited_for:
            run_ends += _let_go_waiting(db, run, now=now)
        begun = _chain(db, run)
        if begun.trigger is Trigger.SCHEDULE:
            _end_scheduled(db, run, begun)
        elif failures and run.status is Status.COMPLETED:
            jobs.count_failures(db, run.job_id, 0, backing_off_until=None)
    for group_id in dict.fromkeys(run.group_id for run in ended if run.group_id is not None):
        run_ends += groups.step(db, group_id, now=now)
    return run_ends


def _is_quiet(ended: runs.FinishedRun) -> bool:
    own = ended.trigger is Trigger.MANUAL and ended.chain_id is None and ended.group_id is None
    return own and ended.outcome.status is Status.COMPLETED


def _chain(db: Database, ended: runs.FinishedRun) -> run_queries.Chain:
    if ended.chain_id is None:
        return run_queries.Chain(ended.trigger, ended.started_at)
    return run_queries.chain_of(db, ended.chain_id)


def _let_go_waiting(db: Database, ended: runs.FinishedRun, *, now: datetime) -> list[runs.RunEnd]:
    run_ends: list[runs.RunEnd] = []
    before = (
        ended.predecessor_id if ended.group_id is None else None
    )  # the cause of a member's wait concerns its group alone
    for follower in run_queries.followers(db, ended.id):
        run_ends += _pass_on(db, follower, before, now=now)
    for replacing in run_queries.replacing_runs(db, ended.job_id):
        if not run_queries.unfinished_before(db, ended.job_id, replacing):
            run_ends += _let_go(db, replacing, now=now)
    return run_ends


def _pass_on(
    db: Database, follower: run_queries.WaitingSuccessor, before: str | None, *, now: datetime
) -> list[runs.RunEnd]:
    """Release a run whose predecessor ended, or let it wait for `before`, for which the predecessor waited."""
    if waits_for_all(jobs.version_spec(db, follower.job_id, follower.version).overlap, follower.trigger):
        before = run_queries.last_ahead(db, follower.id)
    elif before is not None and not run_queries.is_unfinished(db, before):
        before = None
    if before is None:
        return _let_go(db, follower.id, now=now)
    run_queries.relink(db, follower.id, before)
    return []


def _let_go(db: Database, run_id: str, *, now: datetime) -> list[runs.RunEnd]:
    """Make a run claimable, or begin the group whose run it is; return what must end because of that."""
    return [] if run_queries.release(db, run_id) else groups.let_go(db, run_id, now=now)


def _end_scheduled(db: Database, ended: runs.FinishedRun, begun: run_queries.Chain) -> None:
    job = jobs.job_by_id(db, ended.job_id)
    _count_failures(db, job, ended)
    _move_cursor(db, job, ended, begun.first_started_at)


def _count_failures(db: Database, job: Job, ended: runs.FinishedRun) -> None:
    """Count the chains that failed in a row; from some number on the job's instants are held back."""
    if ended.status is Status.COMPLETED and job.failures:
        jobs.count_failures(db, job.id, 0, backing_off_until=None)
    elif ended.status is Status.FAILED:
        failures = job.failures + 1
        until = backing_off(job.spec.on_repeated_failure, failures=failures, finished_at=ended.finished_at)
        jobs.count_failures(db, job.id, failures, backing_off_until=until)


def _move_cursor(db: Database, job: Job, ended: runs.FinishedRun, first_started_at: datetime | None) -> None:
    """Plan the job's next instant where it depends on this chain, or note that the job is used up."""
    schedule = job.spec.schedule
    planned = job.next_for or job.held_for
    if planned is not None or ended.scheduled_for is None:
        return
    if not job.schedules:
        _use_up_while_off(db, job, ended)
        return
    wait = wanted_wait(db, job)
    cursor = cursor_after_chain(
        job,
        scheduled_for=ended.scheduled_for,
        first_started_at=first_started_at,
        finished_at=ended.finished_at,
        wait=wait,
    )
    if wait is not None:
        plan_look(db, job, cursor)
    skipped = ended.status is Status.SKIPPED
    if schedule.at is not None or (schedule.run_once and not (skipped and cursor.next_for)):
        _set_cursor(db, job, NOWHERE, anchored_at=job.anchored_at, used_up_at=ended.finished_at)
    elif schedule.follows_runs:
        started = schedule.anchor is Anchor.START and first_started_at is not None
        _set_cursor(db, job, cursor, anchored_at=first_started_at if started else ended.finished_at)
    else:
        _set_cursor(db, job, cursor, anchored_at=job.anchored_at)


def _use_up_while_off(db: Database, job: Job, ended: runs.FinishedRun) -> None:
    """Note that a job that was switched off meanwhile has run its once, so that it does not when it is on again."""
    once = job.spec.schedule.run_once or job.spec.schedule.at is not None
    if job.used_up_at is not None or not once or ended.status is Status.SKIPPED:
        return
    run = runs.run_by_id(db, ended.id)
    if run is not None and jobs.version_spec(db, job.id, run.version).schedule == job.spec.schedule:
        _set_cursor(db, job, NOWHERE, anchored_at=job.anchored_at, used_up_at=ended.finished_at)


def _set_cursor(
    db: Database, job: Job, cursor: Cursor, *, anchored_at: datetime | None, used_up_at: datetime | None = None
) -> None:
    jobs.move_cursor(
        db,
        job,
        next_for=cursor.next_for,
        next_at=cursor.next_at,
        anchored_at=anchored_at,
        used_up_at=used_up_at,
        fire_number=job.fire_number,
    )


def expire(db: Database, *, now: datetime, limit: int) -> list[str]:
    """End queued runs that waited longer than `expires_after`; return which."""
    outcome = Outcome(Status.SKIPPED, Reason.EXPIRED, error="it waited longer than `expires_after`")
    expired = [run_id for (run_id,) in db.rows("runs_expired", now=to_ms(now), limit=limit)]
    for run_id in expired:
        end_run(db, run_id, outcome, expected=Status.QUEUED, epoch=None, now=now)
    return expired
