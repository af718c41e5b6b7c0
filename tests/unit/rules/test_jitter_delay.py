"""Jitter: a hash of job and instant, never early, always less than the gap."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.spec import Jitter
from rota.rules.schedule.instants import delay

AT = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
spans = st.integers(1, 10**9).map(lambda ms: timedelta(milliseconds=ms))
jitters = st.one_of(
    spans.map(lambda up_to: Jitter(up_to=up_to)),
    st.floats(0, 50, allow_nan=False).map(lambda percent: Jitter(percent=percent)),
)


@settings(max_examples=300)
@given(jitters, st.text(max_size=20), st.integers(0, 10**13), spans)
def test_a_delay_is_never_negative_always_less_than_the_gap_and_whole_milliseconds(jitter, name, ms, gap):
    found = delay(jitter, name=name, instant=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms), gap=gap)
    assert timedelta(0) <= found < gap
    assert found % timedelta(milliseconds=1) == timedelta(0)
    assert found <= (jitter.up_to if jitter.up_to is not None else gap * (jitter.percent / 100))


def test_without_jitter_there_is_no_delay():
    assert delay(None, name="a", instant=AT, gap=HOUR) == timedelta(0)
    assert delay(Jitter(percent=0), name="a", instant=AT, gap=HOUR) == timedelta(0)


def test_delays_of_many_instants_fill_the_whole_range():
    found = [delay(Jitter(percent=50), name="a", instant=AT + n * HOUR, gap=HOUR) for n in range(400)]
    assert min(found) < timedelta(minutes=1)
    assert max(found) > timedelta(minutes=29)
    assert abs(sum(found, timedelta(0)) / len(found) - timedelta(minutes=15)) < timedelta(minutes=2)


def test_two_jobs_of_one_instant_are_spread():
    found = {delay(Jitter(up_to=HOUR), name=f"job-{n}", instant=AT, gap=24 * HOUR) for n in range(50)}
    assert len(found) > 45


def test_the_only_instant_of_a_job_takes_a_duration_and_has_nothing_to_take_a_percentage_of():
    assert timedelta(0) < delay(Jitter(up_to=HOUR), name="a", instant=AT, gap=None) < HOUR
    assert delay(Jitter(percent=50), name="a", instant=AT, gap=None) == timedelta(0)


def test_another_process_finds_the_same_delay():
    program = (
        "from datetime import *; from rota.model.spec import Jitter; from rota.rules.schedule.instants import delay;"
        "at = datetime(2026, 1, 1, tzinfo=UTC);"
        "found = delay(Jitter(percent=50), name='a', instant=at, gap=timedelta(hours=1));"
        "print(found // timedelta(milliseconds=1))"
    )
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    here = delay(Jitter(percent=50), name="a", instant=AT, gap=HOUR)
    assert int(there.stdout) == here // timedelta(milliseconds=1)
