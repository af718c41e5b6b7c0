"""The auditor's own reading of quiet hours and excluded dates (R-17), against the planner's and against false rows."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.clock import from_ms, to_ms
from rota.model.spec import QuietHours, QuietPolicy, Schedule
from rota.operations.verify.instants import Fate, blackouts_of
from rota.rules.schedule.blackouts import blackout_at

ZONES = ["UTC", "Europe/Madrid", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo", "Pacific/Apia"]
WINDOWS = [
    "00:00-07:00",
    "22:00-06:30",
    "mon-fri 09:00-19:00",
    "sat,sun 02:15-02:45",
    "sun 23:00-02:30",
    "wed 00:00-24:00",
]
FATES = {None: Fate.RUNS, "excluded": Fate.EXCLUDED}

schedules = st.builds(
    Schedule,
    cron=st.just(("* * * * *",)),
    timezone=st.sampled_from(ZONES),
    quiet=st.builds(
        QuietHours,
        windows=st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=3, unique=True).map(tuple),
        timezone=st.sampled_from(ZONES),
        policy=st.sampled_from([QuietPolicy.DEFER, QuietPolicy.SKIP]),
    ),
    excluded=st.sampled_from([(), ("10-25", "2026-03-29"), ("04-24", "09-06", "2026-10-04")]),
)
moments = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)) | st.sampled_from(  # noqa: DTZ001
    [datetime(2026, 3, 29, 1), datetime(2026, 10, 25, 0, 30), datetime(2026, 4, 23, 22), datetime(2026, 9, 6, 4)]  # noqa: DTZ001
)


@settings(max_examples=150, deadline=None)
@given(schedules, moments, st.integers(-120, 120))
def test_both_readings_agree(schedule: Schedule, naive: datetime, minutes: int) -> None:
    """R-17: around changes of clocks too."""
    at = naive.replace(tzinfo=UTC, microsecond=0) + timedelta(minutes=minutes)
    ours, blackouts = blackout_at(schedule, at), blackouts_of(schedule)
    assert blackouts is not None
    deferred = Fate.DEFERRED if schedule.quiet and schedule.quiet.policy is QuietPolicy.DEFER else Fate.SKIPPED
    assert blackouts.fate(to_ms(at)) is FATES.get(ours.reason, deferred)
    end = blackouts.quiet_end(to_ms(at))
    assert (None if end is None else from_ms(end)) == ours.fires


@pytest.mark.parametrize("policy", [None, QuietPolicy.DORMANT])
def test_a_calendar_without_effect_is_none(policy: QuietPolicy | None) -> None:
    """R-17."""
    quiet = None if policy is None else QuietHours(("00:00-07:00",), "UTC", policy)
    assert blackouts_of(Schedule(cron=("* * * * *",), quiet=quiet)) is None
