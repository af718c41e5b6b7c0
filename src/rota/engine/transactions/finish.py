"""Finish: store outcomes with retry, next instant, pools and notifications, in one transaction."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from rota import faults
from rota.engine.activity import note_agents
from rota.engine.transactions import agents, groups, notifications, poll
from rota.engine.transactions import budgets as budgets_transactions
from rota.engine.transactions.insert import RunRef, create_run
from rota.model.clock import MILLISECOND, to_ms
from rota.model.ids import new_id
from rota.model.records import Job, Outcome, Run
from rota.model.spec import Anchor, JobSpec
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.admission import waits_for_all
from rota.rules.outcome import ONE_ATTEMPT, backing_off, ended_at, is_plain, next_attempt, settle
from rota.rules.schedule.cursor import NOWHERE, Cursor, cursor_after_chain
from rota.store.driver import Database
from rota.store.tables import activity, budgets, jobs, queue, run_queries, runs, work_items
from rota.store.tables.processes import hold_jobs_waited_for, lock_jobs_of_runs
from rota.text.runs import outages_before


def settle_pools(db: Database, ended: Sequence[runs.FinishedRun], *, kept: Collection[str]) -> None:
    """Give back what ended runs drew; those of `kept` leave slot and pools to a thread that cannot be killed."""
    if kept:
        db.execute("abandoned_insert", ids=json.dumps([run.id for run in ended if run.id in kept]))
    queue.give_back(db, [run.lane_id for run in ended if run.id not in kept])


def return_kept(db: Database, run_id: str) -> None:
    """Give back what the thread of an ended run kept; nothing if it kept nothing."""
    queue.give_back(db, [lane_id for (lane_id,) in db.rows("abandoned_delete", run_id=run_id)])


def forget_kept(db: Database, epochs: Sequence[int]) -> None:
    """Give back what threads of processes that are gone kept: they went with them."""
    forgotten = db.rows("abandoned_forget", epochs=json.dumps(list(epochs)))
    queue.give_back(db, [lane_id for (lane_id,) in forgotten])


def retry(db: Database, ended: runs.FinishedRun, *, now: datetime) -> RunRef | None:
    """Bear the next attempt of a failed run where its definition allows one; who waited for the run waits for that."""
    spec = jobs.version_spec(db, ended.job_id, ended.version)
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
    born = create_run(db, _attempt(db, failed, spec, at=at, now=now))
    run_queries.relink_followers(db, failed.id, born.id)
    faults.point("retry.born")
    return born


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
        lane_id=failed.lane_id,
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


def record(
    db: Database,
    finished: Sequence[Finished],
    *,
    epoch: int,
    now: datetime,
    kept: Collection[str] = (),
    alone: bool = False,
) -> dict[str, Outcome]:
    """Store the ends of runs of `epoch`; return the outcomes as stored, of those that were still ours.

    The code of those in `kept` still runs: they keep slot and pools until it returns. `alone`: none of these ends
    concerns anybody else, unless the jobs say so by now.
    """
    job_ids = {one.job_id for one in finished}
    if alone:
        hold_jobs_waited_for(db, job_ids)
    else:
        lock_jobs_of_runs(db, [one.run_id for one in finished])
    _ask_ahead(db)
    ended: list[runs.FinishedRun] = []
    if all(is_plain(one.outcome) for one in finished):
        ends = [_settled(one, RUNNING, now) for one in finished]
        if alone:
            ends.sort(key=lambda end: end.run_id)  # as all lock runs who lock several
        sent = partial(_ask_standing, db, job_ids, last=alone)
        ended = _end(db, ends, epoch=epoch, now=now, kept=kept, held=True, sent=sent)
        _follow_all(db, ended, now=now, standing=_standing(db, ended, held=not alone))
    if len(ended) < len(finished):
        final = {run.id for run in ended}
        left = [one for one in finished if one.run_id not in final]
        ended += _record_standing(db, left, epoch=epoch, now=now, kept=kept, held=not alone)
    for run in ended:
        if run.outcome.state is not None:
            jobs.save_job_state(db, run.job_id, run.outcome.state)
        keep_session(db, run.id, run.outcome, job_id=run.job_id, now=now)
    poll.save(db, (run.outcome.scheduler_state for run in ended))
    note_agents(db, [run.id for run in ended if run.outcome.provider is not None], now=now)
    return {run.id: run.outcome for run in ended}


def _ask_ahead(db: Database) -> None:
    """Send along what the end of every run looks at, so that none of it is a round trip of its own."""
    budgets.ask_held(db)
    work_items.ask_open(db)
    activity.ask_poll_job(db)


def _ask_standing(db: Database, job_ids: Collection[str], *, last: bool) -> None:
    """Send along how the jobs stand; `last`: as a rule that is all, and somebody else may be asked for."""
    for job_id in job_ids:
        jobs.ask_standing(db, job_id)
    if last:
        db.ask_next()


def _standing(db: Database, ended: Sequence[runs.FinishedRun], *, held: bool) -> dict[str, jobs.JobState]:
    """Return how the jobs of runs that ended stand.

    One that is not `held` is after all where there is something to look after: somebody began to wait for such a run
    just before it was ours to end. Who begins later waits for our commit, and finds it ended.
    """
    standing = {job_id: jobs.standing(db, job_id) for job_id in {run.job_id for run in ended}}
    concerned = [] if held else [job_id for job_id in standing if any(standing[job_id])]
    if concerned:
        lock_jobs_of_runs(db, [run.id for run in ended if run.job_id in concerned])
        standing |= {job_id: jobs.standing(db, job_id) for job_id in concerned}
    return standing


def _record_standing(
    db: Database, finished: Sequence[Finished], *, epoch: int, now: datetime, kept: Collection[str], held: bool
) -> list[runs.FinishedRun]:
    """Store ends for which it counts where their runs stand: they were asked to stop, or had not started."""
    standing = runs.ending_runs(db, [one.run_id for one in finished])
    ends = [_settled(one, standing[one.run_id], now) for one in finished if one.run_id in standing]
    if any(end.outcome.scheduler_state for end in ends):
        judged = poll.judge(db, [end.outcome for end in ends])
        ends = [end._replace(outcome=outcome) for end, outcome in zip(ends, judged, strict=True)]
    return finish_all(db, ends, epoch=epoch, now=now, kept=kept, held=held)


def keep_session(db: Database, run_id: str, outcome: Outcome, *, job_id: str, now: datetime) -> None:
    """Store the session that the next run of a job goes on with, or forget one that nobody knows any more."""
    if outcome.session_lost is not None:
        work_items.drop_session(db, job_id, outcome.session_lost)
    elif outcome.session is not None:
        work_items.save_session(db, job_id, outcome.session, run_id=run_id, now=now)


def _settled(finished: Finished, standing: runs.RunState, now: datetime) -> runs.RunEnd:
    outcome = settle(finished.outcome, standing.cancel_reason)
    return runs.RunEnd(finished.run_id, outcome, expected=standing.status, at=ended_at(outcome, now))


def finish(db: Database, run_id: str, outcome: Outcome, *, expected: Status, epoch: int | None, now: datetime) -> bool:
    """End a run that is `expected`, whoever held it, and do what follows."""
    return bool(finish_all(db, [runs.RunEnd(run_id, outcome, expected=expected, at=now)], epoch=epoch, now=now))


def finish_all(
    db: Database,
    ends: Sequence[runs.RunEnd],
    *,
    epoch: int | None,
    now: datetime,
    kept: Collection[str] = (),
    held: bool = False,
) -> list[runs.FinishedRun]:
    """End runs that are as expected and do what follows; return them. Each statement ends all of them at once.

    `held`: the caller holds their jobs already.
    """
    ended = _end(db, ends, epoch=epoch, now=now, kept=kept, held=held)
    _follow_all(db, ended, now=now, standing=_standing(db, ended, held=True))
    return ended


def _follow_all(
    db: Database, ended: Sequence[runs.FinishedRun], *, now: datetime, standing: Mapping[str, jobs.JobState]
) -> None:
    further = follow_up(db, ended, now=now, standing=standing)
    while further:  # what ends because these did: the rest of a group, and the group itself
        more = _end(db, further, epoch=None, now=now)
        further = follow_up(db, more, now=now, standing=_standing(db, more, held=True))
    if ended:
        faults.point("record.followed_up")


def _end(
    db: Database,
    ends: Sequence[runs.RunEnd],
    *,
    epoch: int | None,
    now: datetime,
    kept: Collection[str] = (),
    held: bool = False,
    sent: Callable[[], None] = lambda: None,
) -> list[runs.FinishedRun]:
    if ends and not held:
        lock_jobs_of_runs(db, [end.run_id for end in ends])
    ends = [
        end._replace(outcome=budgets_transactions.price(db, end.outcome)) if end.outcome.usage else end for end in ends
    ]
    ended = runs.finish_runs(db, ends, epoch=epoch, sent=sent) if ends else []
    if not ended:
        return []
    faults.point("record.run_updated")
    final = {run.id for run in ended}
    started = [end for end in ends if end.expected is Status.RUNNING and end.run_id in final]
    if started:
        runs.finish_executions(db, started)
        db.send()
    queued = {end.run_id for end in ends if end.expected is Status.QUEUED}
    settle_pools(db, [run for run in ended if run.id not in queued], kept=kept)
    answered = [run for run in ended if run.outcome.provider is not None]
    if answered:
        asked = (agents.ProviderAnswer(run.id, run.outcome, run.started_at or now, run.finished_at) for run in answered)
        agents.note_answers(db, asked, now=now)
    began = {end.run_id for end in started}
    budgets_transactions.settle(
        db, [budgets_transactions.EndedSpender(run.id, run.outcome.usage, run.id in began) for run in ended], now=now
    )
    agents.settle(db, ended, now=now)
    return ended


def follow_up(
    db: Database, ended: Sequence[runs.FinishedRun], *, now: datetime, standing: Mapping[str, jobs.JobState]
) -> list[runs.RunEnd]:
    """Do what follows from ends, and return what must end because of them.

    A failure that is retried leaves its chain unfinished (DEC-001): who waited for the run waits for the retry. The end
    of a chain lets go who waited for it, moves its group on, and the job's cursor where that depends on its runs. All
    retries come first: who stands in line waits for them too.
    """
    further = poll.follow(db, ended, now=now)
    failed = [run for run in ended if run.status is Status.FAILED]
    retried = {run.id: born.id for run in failed if (born := retry(db, run, now=now)) is not None}
    for run in ended:
        failures, waited_for, notifies = standing[run.job_id]
        if run.id in retried:
            if notifies:
                notifications.tried_again(db, run.id, retried[run.id])
            continue
        if notifies:
            notifications.chain_ended(db, run, now=now)
        if waited_for:
            further += _let_go_waiting(db, run, now=now)
        begun = _chain(db, run)
        if begun.trigger is Trigger.SCHEDULE:
            _end_scheduled(db, run, begun)
        elif failures and run.status is Status.COMPLETED:
            jobs.count_failures(db, run.job_id, 0, backing_off_until=None)
    for group_id in dict.fromkeys(run.group_id for run in ended if run.group_id is not None):
        further += groups.step(db, group_id, now=now)
    return further


def _chain(db: Database, ended: runs.FinishedRun) -> run_queries.Chain:
    if ended.chain_id is None:
        return run_queries.Chain(ended.trigger, ended.started_at)
    return run_queries.chain_of(db, ended.chain_id)


def _let_go_waiting(db: Database, ended: runs.FinishedRun, *, now: datetime) -> list[runs.RunEnd]:
    further: list[runs.RunEnd] = []
    before = ended.predecessor_id if ended.group_id is None else None  # what held a member concerns its group alone
    for follower in run_queries.followers(db, ended.id):
        further += _pass_on(db, follower, before, now=now)
    for replacing in run_queries.replacing_runs(db, ended.job_id):
        if not run_queries.unfinished_before(db, ended.job_id, replacing):
            further += _let_go(db, replacing, now=now)
    return further


def _pass_on(
    db: Database, follower: run_queries.WaitingSuccessor, before: str | None, *, now: datetime
) -> list[runs.RunEnd]:
    """Release a run whose predecessor ended, or let it wait for another one; `before`: for whom that still waited."""
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
    return [] if run_queries.let_go(db, run_id) else groups.let_go(db, run_id, now=now)


def _end_scheduled(db: Database, ended: runs.FinishedRun, begun: run_queries.Chain) -> None:
    job = jobs.job_by_id(db, ended.job_id)
    _count_failures(db, job, ended)
    _move_cursor(db, job, ended, begun.first_started_at)


def _count_failures(db: Database, job: Job, ended: runs.FinishedRun) -> None:
    """Count the chains that failed in a row; from some number on the job's instants are held back (DEC-007)."""
    if ended.status is Status.COMPLETED and job.failures:
        jobs.count_failures(db, job.id, 0, backing_off_until=None)
    elif ended.status is Status.FAILED:
        failures = job.failures + 1
        until = backing_off(job.spec.on_repeated_failure, failures=failures, finished_at=ended.finished_at)
        jobs.count_failures(db, job.id, failures, backing_off_until=until)


def _move_cursor(db: Database, job: Job, ended: runs.FinishedRun, first_started_at: datetime | None) -> None:
    """Plan the job's next instant where it depends on this chain, or note that the job is used up (R-06, R-07)."""
    schedule = job.spec.schedule
    planned = job.next_for or job.held_for
    if planned is not None or ended.scheduled_for is None:
        return
    if not job.schedules:
        _use_up_while_off(db, job, ended)
        return
    cursor = cursor_after_chain(
        job, scheduled_for=ended.scheduled_for, first_started_at=first_started_at, finished_at=ended.finished_at
    )
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
        finish(db, run_id, outcome, expected=Status.QUEUED, epoch=None, now=now)
    return expired
