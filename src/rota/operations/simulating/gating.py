"""The gates between claim and start, in memory: the shared poll (R-16), then budgets (R-19). Conditions pass."""

from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.operations.simulating.played import End, PlayedJob, PlayedRun
from rota.operations.simulating.stage import Stage
from rota.rules.admission import Admission, Go, Skip, decide
from rota.rules.polling import is_fresh


def awaits_poll(stage: Stage, run: PlayedRun) -> bool:
    """Tell whether a run needs the poll and finds no result that serves it."""
    if not run.played.job.spec.gates.needs_poll:
        return False
    interval = stage.poll.job.interval if stage.poll else None
    return not is_fresh(stage.polled_at, interval=interval, born=run.created_at, now=stage.now)


def wait_for_poll(stage: Stage, run: PlayedRun) -> PlayedRun | None:
    """Let a run wait for the next poll; return the one that is made for it where none would come by itself."""
    run.status, run.waiting_for, run.not_before = Status.QUEUED, WaitingFor.POLL, None
    stage.polling.append(run)
    stage.observer.waits(run)
    poll = stage.poll
    if poll is None or not poll.job.schedules or poll.job.interval is not None or poll.unfinished:
        return None
    demanded = stage.bear(stage.newborn(poll, Trigger.NEED, None))
    stage.ready(demanded)
    return demanded


def follow_poll(stage: Stage, run: PlayedRun) -> list[End]:
    """Let go who waited for a poll that ended; return those that end because it failed."""
    run.played.alter(suggested=None)  # what the server asked for holds until the next poll
    waiting, stage.polling = [one for one in stage.polling if _waits(one)], []
    if run.status is not Status.COMPLETED:
        return [End(one, Status.SKIPPED, Reason.POLL_FAILED) for one in waiting]
    stage.polled_at = run.finished_at
    for one in waiting:
        stage.ready(one)
    return []


def _waits(run: PlayedRun) -> bool:
    return run.status is Status.QUEUED and run.waiting_for is WaitingFor.POLL


def pass_gates(stage: Stage, run: PlayedRun) -> Admission | None:
    """Return whether a claimed run goes on; None: it was put back to wait for the poll."""
    spec = run.played.job.spec
    if run.expires_at is not None:
        admission = decide(spec.gates, expires_at=run.expires_at, forced=False, conditions=(), now=stage.now)
        if isinstance(admission, Skip):
            return admission
    if awaits_poll(stage, run):
        stage.waiting.give_back(run, stage.now)
        wait_for_poll(stage, run)
        return None
    if not spec.budgets:
        return Go()
    verdict = stage.accounts.reserve(run.id, spec, now=stage.now)
    stage.observer.charged(stage.accounts)
    return verdict


def remote_calls(stage: Stage, played: PlayedJob) -> int:
    """Return how many remote calls a run of a job makes: a poll one, others what their accounts expect."""
    calls = stage.accounts.requests(played.job.spec)
    return max(calls, 1) if played is stage.poll else calls
