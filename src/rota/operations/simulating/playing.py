"""The play itself: from one moment at which something comes up to the next, with the engine's own rules."""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from rota.model.clock import to_ms
from rota.model.spec import Mode
from rota.model.states import Reason, Status
from rota.operations.simulating.firing import fire
from rota.operations.simulating.gating import pass_gates
from rota.operations.simulating.people import Forced, Person
from rota.operations.simulating.played import COMPLETED, RUNNING, End, PlayedJob, PlayedRun
from rota.operations.simulating.recording import finish, let_go
from rota.operations.simulating.stage import Due, Skipped, Stage, Subject
from rota.rules.admission import Go, Skip, Wait
from rota.rules.cursor import cursor_in_mode
from rota.rules.mode import mode_at, next_change
from rota.rules.pause import plan_pause_end
from rota.store.cadence import dormant_hours

HUNDRED = 10_000


class Player:
    """Plays a stage up to a moment."""

    def __init__(self, stage: Stage, person: Person) -> None:
        self._stage = stage
        self._person = person
        self._adaptive = [played for played in stage.jobs.values() if played.job.spec.schedule.by_mode is not None]

    def play(self, until: datetime) -> None:
        """Play everything that comes up before `until`."""
        stage = self._stage
        if self._adaptive:
            stage.mode_at = stage.now
        self._claim()
        while (at := stage.next_at()) is not None and at < until:
            if at > stage.now:
                stage.now = at
            self._instant(stage, stage.now)
        stage.now = until

    def _instant(self, stage: Stage, now: datetime) -> None:
        """Do what is due at one moment, in the order in which the engine's loops look."""
        stage.observer.look(now)
        if stage.mode_at is not None and stage.mode_at <= now:
            self._replan()
            self._claim()
        if stage.ends and stage.ends[0][0] <= now:
            finish(stage, [_ending(run) for run in stage.due_ends()])
            if self._adaptive and stage.agent_ended_at == now:
                self._replan()
            self._claim()
        if stage.fires and stage.fires[0][0] <= now:
            for played in stage.due_fires():
                fire(stage, played)
            self._claim()
        if stage.others and stage.others[0][0] <= now:
            for kind, found in groupby(stage.due_others(), key=itemgetter(0)):
                self._look_at(kind, [subject for _, subject in found])

    def _look_at(self, kind: Due, subjects: Sequence[Subject]) -> None:
        """Do what one of the rarer looks of the engine does."""
        stage = self._stage
        runs = [one for one in subjects if isinstance(one, PlayedRun) and one.finished_at is None]
        for run in runs:
            finish(stage, _go_on(stage, kind, run))
        if kind is Due.PAUSE_END:
            stage.paused = stage.paused and None not in subjects
            for played in subjects:
                if isinstance(played, PlayedJob):
                    _end_pause(stage, played)
        self._claim()

    # claim

    def _claim(self) -> None:
        stage = self._stage
        while stage.waiting.lanes and not stage.paused and (chosen := stage.waiting.take(stage.now)):
            for run in chosen:
                self._start(run)
            at_once = [run for run in chosen if run.ends_at == stage.now]
            if at_once:  # what takes no time has ended before anything else is looked at
                finish(stage, [_ending(run) for run in at_once])

    def _start(self, run: PlayedRun) -> None:
        """Let a claimed run pass its gates and start, or go where they send it."""
        stage, played = self._stage, run.played
        if played.is_gated:
            run.status = Status.DISPATCHED
            if not self._pass(run):
                return
        run.status, run.started_at = RUNNING, stage.now
        stage.plan_end(run, stage.now + played.takes)

    def _pass(self, run: PlayedRun) -> bool:
        """Tell whether a run passes its gates; if not, let it go where they send it."""
        stage, admission = self._stage, pass_gates(self._stage, run)
        if isinstance(admission, Skip):
            finish(stage, [End(run, Status.SKIPPED, admission.reason)])
        elif isinstance(admission, Wait):
            stage.waiting.give_back(run, stage.now)
            stage.wait(run, admission.waiting_for, admission.until)
        return isinstance(admission, Go)

    # modes

    def _replan(self) -> None:
        """Give every job with intervals by mode the cursor of the mode that holds now (R-18)."""
        stage, now = self._stage, self._stage.now
        activity = self._activity(now)
        changes = [self._person.acts_at(now)]
        for played in self._adaptive:
            quiet = dormant_hours(played.job.spec)
            mode = mode_at(now, activity=activity, quiet=quiet)
            if mode is not played.job.mode:
                self._replan_one(played, mode)
            elif now == stage.began:
                stage.observer.moded(played)
            changes.append(next_change(now, activity=activity, quiet=quiet))
        stage.mode_at = min((at for at in changes if at is not None and at > now), default=None)

    def _activity(self, now: datetime) -> datetime | None:
        """Return when the last activity was, of the person or by the end of an agent's run."""
        found, ended = self._person.activity(now), self._stage.agent_ended_at
        if ended is None or isinstance(self._person, Forced):
            return found
        return ended if found is None else max(found, ended)

    def _replan_one(self, played: PlayedJob, mode: Mode) -> None:
        """Re-plan one job. What has come is fired first: it belongs to the mode that it was planned in."""
        stage = self._stage
        fire(stage, played)
        job = replace(played.job)
        played.alter(mode=mode)
        stage.observer.moded(played)
        waits = job.next_for is None and played.scheduled_chain_unfinished
        if job.schedules and job.paused_at is None and not waits:
            cursor = cursor_in_mode(job, mode, now=stage.now)
            stage.move(played, cursor.next_for, cursor.next_at)


def _go_on(stage: Stage, kind: Due, run: PlayedRun) -> list[End]:
    """Let a run go on that waited, or return how it ends: it waited too long, or somebody wants it stopped."""
    if kind is Due.STOP and run.status is Status.RUNNING:
        cancelled = run.group is not None and run.group.cancelled
        return [End(run, Status.CANCELLED, Reason.GROUP_CANCELLED if cancelled else Reason.REPLACED)]
    if run.status is not Status.QUEUED:
        return []
    if kind is Due.EXPIRE and run.expires_at is not None and run.expires_at <= stage.now:
        return [End(run, Status.SKIPPED, Reason.EXPIRED)]
    if kind is Due.RELEASE and run.not_before is not None and run.not_before <= stage.now:
        return let_go(stage, run)
    return []


def _ending(run: PlayedRun) -> End:
    """Return how a run ends: well, or as often as was asked for badly, chosen by hash so that it repeats."""
    share = run.played.fails
    if share:
        key = f"{run.played.name}\0{to_ms(run.scheduled_for or run.created_at)}\0{run.attempt}"
        if zlib.crc32(key.encode()) % HUNDRED < share * HUNDRED:
            return End(run, Status.FAILED, Reason.EXIT_CODE)
    return End(run, COMPLETED)


def _end_pause(stage: Stage, played: PlayedJob) -> None:
    """End a timed pause at its stored end: one counted row, and the cursor from there on (R-20)."""
    job = played.job
    if job.paused_until is None or job.paused_until > stage.now:
        return
    end = job.paused_until
    plan = plan_pause_end(job, end=end, catch_up=False, now=stage.now)
    played.alter(
        paused_at=None,
        paused_until=None,
        pause_reason=None,
        held_for=None,
        anchored_at=end if plan.skip is not None and job.spec.schedule.follows_runs else job.anchored_at,
        fire_number=job.fire_number + (plan.skip is not None),
    )
    if plan.skip is not None:
        row = Skipped(plan.skip.reason, plan.skip.scheduled_for, plan.skip.covers_to, plan.skip.count)
        stage.observer.skipped(played, row)
    stage.move(played, plan.cursor.next_for, plan.cursor.next_at)
