"""Instants of a job that keeps failing (DEC-007): which are held back, and where the cursor goes."""

from datetime import datetime, timedelta

from msgspec.structs import replace
from scheduled import CREATED, HOUR, MINUTE, SECOND, job

from rota.model.records import Job
from rota.model.spec import Misfire, MisfirePolicy, RepeatedFailure, Schedule
from rota.model.states import Reason
from rota.rules.schedule.plan import FireFacts, FirePlan, PlannedRun, PlannedSkip, plan_fire

EVERY_TEN_SECONDS = Schedule(interval=10 * SECOND)
MINUTELY = Schedule(cron=("* * * * *",))
PATIENT = Misfire(grace=HOUR)
HOLDS = RepeatedFailure()


def held(stored: Job, until: datetime, *, policy: RepeatedFailure | None = HOLDS) -> Job:
    spec = replace(stored.spec, on_repeated_failure=policy)
    return replace(stored, spec=spec, failures=5, backing_off_until=until)


def plan(stored: Job, after: timedelta) -> FirePlan:
    return plan_fire(stored, FireFacts(), now=CREATED + after)


def told(found: FirePlan) -> list[tuple[object, timedelta, int | None]]:
    return [
        (
            "run" if isinstance(step, PlannedRun) else step.reason,
            step.scheduled_for - CREATED,
            getattr(step, "count", 1),
        )
        for step in found.steps
    ]


def test_instants_before_the_end_are_one_counted_row_and_the_next_one_runs() -> None:
    found = plan(held(job(MINUTELY, misfire=PATIENT), CREATED + 3 * MINUTE), 3 * MINUTE)
    assert told(found) == [(Reason.BACKING_OFF, timedelta(), 3), ("run", 3 * MINUTE, 1)]
    assert found.next_for == CREATED + 4 * MINUTE


def test_an_instant_at_the_very_end_runs() -> None:
    assert told(plan(held(job(MINUTELY), CREATED), timedelta())) == [("run", timedelta(), 1)]


def test_without_the_policy_nothing_is_held_back() -> None:
    stored = held(job(MINUTELY), CREATED + HOUR, policy=None)
    assert told(plan(stored, timedelta())) == [("run", timedelta(), 1)]


def test_at_is_never_held_back() -> None:
    stored = held(job(Schedule(at=CREATED)), CREATED + HOUR)
    assert told(plan(stored, timedelta())) == [("run", timedelta(), 1)]


def test_an_interval_goes_on_when_the_time_is_over_r_06() -> None:
    found = plan(held(job(EVERY_TEN_SECONDS), CREATED + HOUR), timedelta())
    assert told(found) == [(Reason.BACKING_OFF, timedelta(), 1)]
    assert found.next_for == CREATED + HOUR


def test_an_interval_longer_than_the_time_left_keeps_its_interval() -> None:
    found = plan(held(job(EVERY_TEN_SECONDS), CREATED + SECOND), timedelta())
    assert found.next_for == CREATED + 10 * SECOND


def test_a_missed_instant_is_made_up_only_when_the_time_is_over_r_10() -> None:
    hourly = job(Schedule(cron=("0 * * * *",)), misfire=Misfire(MisfirePolicy.ONCE))
    before, after = (held(hourly, CREATED + 90 * MINUTE), held(hourly, CREATED + 60 * MINUTE))
    [skip] = plan(before, 30 * MINUTE).steps
    [run] = plan(after, 90 * MINUTE).steps[1:]
    assert isinstance(skip, PlannedSkip)
    assert (skip.reason, isinstance(run, PlannedRun)) == (Reason.BACKING_OFF, True)
