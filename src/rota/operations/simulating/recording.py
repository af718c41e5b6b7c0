"""Record in memory, as `engine/record.py` does it in the database: the end of a run and what follows from it."""

from collections.abc import Sequence

from rota.model.records import Outcome
from rota.model.spec import Anchor
from rota.model.states import Status, Trigger, WaitingFor
from rota.operations.simulating import grouping
from rota.operations.simulating.gating import awaits_poll, follow_poll, wait_for_poll
from rota.operations.simulating.played import COMPLETED, FAILED, HOLDING, End, PlayedRun, put
from rota.operations.simulating.stage import Stage
from rota.rules.cursor import NOWHERE, cursor_after_chain
from rota.rules.overlap import waits_for_all
from rota.rules.retry import backing_off, next_attempt


def finish(stage: Stage, ends: Sequence[End]) -> None:
    """End runs and do what follows; what ends because of that, the rest of a group and the group itself, too."""
    while ends:
        ended = [end.run for end in ends if _end(stage, end)]
        ends = _follow_up(stage, ended)


def _end(stage: Stage, end: End) -> bool:
    run, played = end.run, end.run.played
    if run.finished_at is not None:
        return False
    if run.status in HOLDING and not played.is_group:
        stage.waiting.give_back(run, stage.now)
    if played.is_gated and run.started_at is not None:
        stage.accounts.settle(run.id)
    run.status, run.reason, run.waiting_for, run.finished_at = end.status, end.reason, None, stage.now
    played.unfinished.remove(run)
    if played.job.spec.work.agent is not None and run.started_at is not None and not _begun_by_mode(run):
        stage.agent_ended_at = stage.now
    stage.observer.ended(run)
    return True


def _begun_by_mode(run: PlayedRun) -> bool:
    """Tell whether a run goes back to the schedule of a job with intervals by mode, by retries and groups."""
    first = run.first
    while first.place and first.group is not None and first.group.run is not None:
        first = first.group.run.first
    return first.trigger is Trigger.SCHEDULE and first.played.job.spec.schedule.by_mode is not None


def _follow_up(stage: Stage, ended: Sequence[PlayedRun]) -> list[End]:
    """Do what follows from ends, and return what must end because of them; a retry leaves its chain unfinished."""
    further: list[End] = []
    if stage.poll is not None:
        for run in ended:
            if run.played is stage.poll:
                further += follow_poll(stage, run)
    retried = {run.id for run in ended if run.status is FAILED and _retry(stage, run)}
    for run in ended:
        if run.id in retried:
            continue
        if run.followers or run.played.unfinished:
            further += _let_go_waiting(stage, run)
        if run.first.trigger is Trigger.SCHEDULE:
            _end_scheduled(stage, run)
        elif run.status is COMPLETED and run.played.job.failures:
            run.played.alter(failures=0, backing_off_until=None)
    for group in {run.group: None for run in ended if run.place}:
        further += [] if group is None else grouping.step(stage, group)
    return further


def _retry(stage: Stage, failed: PlayedRun) -> bool:
    """Bear the next attempt of a failed run where its definition allows one; who waited for the run waits for that."""
    retry, outcome = failed.played.job.spec.retry, Outcome(FAILED, failed.reason)
    at = next_attempt(retry, outcome, attempt=failed.attempt, run_id=failed.id, finished_at=stage.now)
    if at is None:
        return False
    run = stage.newborn(failed.played, Trigger.RETRY, failed.scheduled_for)
    run.attempt, run.begun = failed.attempt + 1, failed.first
    run.group, run.place, run.always = failed.group, failed.place, failed.always
    for follower in failed.followers:
        follower.follow(run)
    failed.followers = ()
    expires_after = failed.played.job.spec.gates.expires_after
    run.expires_at = max(at, stage.now) + expires_after if expires_after else None
    if at > stage.now:
        run.waiting_for, run.not_before = WaitingFor.BACKOFF, at
    if run.group is not None:
        run.group.sit(run)
    stage.bear(run)
    if at <= stage.now:
        begin(stage, run)
    return True


def begin(stage: Stage, run: PlayedRun) -> None:
    """Let a newborn run that waits for nothing stand in the queue, or wait for the poll (R-16)."""
    if run.played.is_gated and awaits_poll(stage, run):
        wait_for_poll(stage, run)
    else:
        stage.ready(run)


def _let_go_waiting(stage: Stage, ended: PlayedRun) -> list[End]:
    further: list[End] = []
    before = ended.predecessor if not ended.place else None  # what held a member concerns its group alone
    for follower in ended.followers:
        further += _pass_on(stage, follower, before)
    for replacing in [run for run in ended.played.unfinished if run.waiting_for is WaitingFor.REPLACED_RUN]:
        if not any(run.id < replacing.id for run in ended.played.unfinished):
            further += let_go(stage, replacing)
    return further


def _pass_on(stage: Stage, run: PlayedRun, predecessor: PlayedRun | None) -> list[End]:
    """Release a run whose predecessor ended, or let it wait for another one; `predecessor`: for whom that waited."""
    if run.status is not Status.QUEUED:
        return []
    if waits_for_all(run.played.job.spec.overlap, run.trigger):
        predecessor = _last_ahead(run)
    if predecessor is not None and not predecessor.status.final:
        run.follow(predecessor)
        return []
    return let_go(stage, run)


def _last_ahead(run: PlayedRun) -> PlayedRun | None:
    """Return the last of the job's unfinished runs that came before this one; a retry stands where its chain began."""
    ahead = [one for one in run.played.unfinished if one.first.id < run.id]
    return max(ahead, key=lambda one: one.first.id, default=None)


def let_go(stage: Stage, run: PlayedRun) -> list[End]:
    """Make a run claimable, or begin the group whose run it is; return what must end because of that."""
    if run.played.is_group:
        return grouping.begin(stage, run)
    stage.ready(run)
    return []


def _end_scheduled(stage: Stage, ended: PlayedRun) -> None:
    if ended.status is FAILED or ended.played.job.failures:
        _count_failures(ended)
    _move_cursor(stage, ended)


def _count_failures(ended: PlayedRun) -> None:
    """Count the chains that failed in a row; from some number on the job's instants are held back (DEC-007)."""
    job = ended.played.job
    if ended.status is COMPLETED and job.failures:
        ended.played.alter(failures=0, backing_off_until=None)
    elif ended.status is FAILED and ended.finished_at is not None:
        failures = job.failures + 1
        until = backing_off(job.spec.on_repeated_failure, failures=failures, finished_at=ended.finished_at)
        ended.played.alter(failures=failures, backing_off_until=until)


def _move_cursor(stage: Stage, ended: PlayedRun) -> None:
    """Plan the job's next instant where it depends on this chain, or note that the job is used up (R-06, R-07)."""
    played, job, finished_at = ended.played, ended.played.job, ended.finished_at
    if job.next_for or job.held_for or ended.scheduled_for is None or finished_at is None or not job.schedules:
        return
    schedule, begun = job.spec.schedule, ended.first.started_at
    cursor = cursor_after_chain(job, scheduled_for=ended.scheduled_for, first_started_at=begun, finished_at=finished_at)
    if schedule.at is not None or (schedule.run_once and not (ended.status is Status.SKIPPED and cursor.next_for)):
        played.alter(used_up_at=finished_at)
        cursor = NOWHERE
    elif schedule.follows_runs:
        started = begun if schedule.anchor is Anchor.START else None
        put(job, "anchored_at", started or finished_at)
    if job.paused_at is None:
        stage.move(played, cursor.next_for, cursor.next_at)
    else:
        played.alter(held_for=cursor.next_for)  # a paused job holds its cursor back
