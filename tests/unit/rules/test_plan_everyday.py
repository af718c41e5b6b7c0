"""The short way of planning a fire says what the long way says, wherever it says anything."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduled import CREATED, HOUR, MINUTE, SECOND, job

from rota.model.records import Job
from rota.model.spec import Anchor, Jitter, Overlap, OverlapPolicy, QuietHours, QuietPolicy, Schedule
from rota.model.states import Status
from rota.rules.admission import ActiveRun
from rota.rules.schedule.plan import FireFacts, Planner, plan_fast_path, plan_in_full

NIGHT = QuietHours(("12:30-14:00",), policy=QuietPolicy.DEFER)
RUNNING = ActiveRun("id-7", "backup:7", Status.RUNNING)
SCHEDULES = (
    Schedule(cron=("*/5 * * * *",)),
    Schedule(cron=("*/7 * * * *", "30 * * * *"), timezone="Europe/Paris", jitter=Jitter(percent=50)),
    Schedule(cron=("0 * * * *",), end_at=CREATED + 2 * HOUR),
    Schedule(cron=("0 * * * *",), quiet=NIGHT),
    Schedule(cron=("0 * * * *",), run_once=True),
    Schedule(at=CREATED + HOUR),
    Schedule(interval=13 * MINUTE, anchor=Anchor.FIXED, jitter=Jitter(up_to=MINUTE)),
    Schedule(interval=13 * MINUTE),
    Schedule(interval=13 * MINUTE, anchor=Anchor.START, quiet=NIGHT),
)

jobs = st.builds(
    job,
    st.sampled_from(SCHEDULES),
    overlap=st.builds(Overlap, policy=st.sampled_from(OverlapPolicy)),
    backing_off_until=st.sampled_from([None, None, CREATED + HOUR]),
    fire_number=st.integers(0, 3),
)
facts = st.builds(
    FireFacts,
    active=st.sampled_from([(), (), (RUNNING,)]),
    unseen=st.sampled_from([timedelta(), 5 * MINUTE]),
)


def fire(stored: Job, count: int) -> Job:
    """Return the job after some everyday fires, or where something else came up."""
    for _ in range(count):
        found = plan_fast_path(stored, FireFacts(), now=stored.next_at) if stored.next_at else None
        if found is None or found.next_for is None:
            break
        stored = replace(stored, next_for=found.next_for, next_at=found.next_at)
    return stored


@given(jobs, facts, st.integers(0, 6), st.integers(-90, 900))
@settings(max_examples=300)
def test_the_short_way_and_the_long_way_plan_alike(stored, known, fires, seconds):
    stored = fire(stored, fires)
    now = stored.next_at + seconds * SECOND
    short = plan_fast_path(stored, known, now=now)
    assert short is None or short == plan_in_full(Planner(stored, known, now), stored.next_for)


def test_most_fires_are_everyday():
    stored = job(Schedule(cron=("*/5 * * * *",)))
    assert fire(stored, 100).next_for == stored.next_for + 500 * MINUTE


def test_what_is_late_or_in_the_way_is_not_everyday():
    stored = job(Schedule(cron=("*/5 * * * *",)))
    assert plan_fast_path(stored, FireFacts(), now=stored.next_at + 61 * SECOND) is None
    assert plan_fast_path(stored, FireFacts((RUNNING,)), now=stored.next_at) is None
    assert plan_fast_path(stored, FireFacts(), now=stored.next_at - SECOND) is None
