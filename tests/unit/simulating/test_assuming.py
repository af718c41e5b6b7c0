"""What a person writes about a simulation, and who is there while it plays."""

from datetime import timedelta

import pytest
from playground import BEGIN, DAY, HOUR, MINUTE

from rota.model.errors import InvalidDuration, InvalidValue, InvalidWindow
from rota.model.spec import Mode
from rota.operations.simulate.player import (
    AtWork,
    Forced,
    Phase,
    at_work,
    read_assumptions,
    read_length,
    read_phases,
    read_share,
    read_tick,
)
from rota.operations.simulate.tally import PARTS, Gauge
from rota.rules.activity import mode_at


def test_durations_and_shares_of_jobs_are_read():
    found = read_assumptions(["backup=3m", "rota/poll=200ms"], ["backup=12.5%"])
    assert found.durations == {"backup": 3 * MINUTE, "rota/poll": timedelta(milliseconds=200)}
    assert found.failures == {"backup": 0.125}


@pytest.mark.parametrize("text", ["backup", "=3m", ""])
def test_an_assumption_without_a_job_is_refused(text):
    with pytest.raises(InvalidValue, match="names no job"):
        read_assumptions([text], [])


@pytest.mark.parametrize("text", ["10", "101%", "-1%", "x%"])
def test_a_share_is_a_percentage(text):
    with pytest.raises(InvalidValue, match="is not a percentage"):
        read_share(text)


def test_a_length_may_be_nothing():
    assert read_length("0") == timedelta()
    with pytest.raises(InvalidDuration):
        read_length("soon")


@pytest.mark.parametrize("text", ["60s", "60s=x", "x=16"])
def test_a_tick_is_a_duration_and_a_number(text):
    with pytest.raises(InvalidValue, match="is not a tick"):
        read_tick(text)


@pytest.mark.parametrize("text", ["active", "busy=8h", "active=8h,", ""])
def test_phases_are_modes_with_durations(text):
    with pytest.raises(InvalidValue, match="names no modes"):
        read_phases(text)


def test_forced_modes_follow_each_other_again_and_again():
    person = Forced((Phase(Mode.ACTIVE, 8 * HOUR), Phase(Mode.IDLE, 8 * HOUR), Phase(Mode.DORMANT, 8 * HOUR)), BEGIN)
    at = [BEGIN, BEGIN + 8 * HOUR, BEGIN + 16 * HOUR, BEGIN + 24 * HOUR, BEGIN + 33 * HOUR]
    modes = [mode_at(now, activity=person.activity(now)) for now in at]
    assert modes == [Mode.ACTIVE, Mode.IDLE, Mode.DORMANT, Mode.ACTIVE, Mode.IDLE]
    assert person.acts_at(BEGIN + 9 * HOUR) == BEGIN + 16 * HOUR


@pytest.mark.parametrize("windows", [["00:00-24:00"], ["00:00-12:00", "12:00-24:00"], ["06:00-02:00", "01:00-07:00"]])
def test_somebody_may_be_at_work_all_day(windows):
    person = at_work(windows, "Europe/Madrid", since=BEGIN, until=BEGIN + 2 * DAY)
    assert {mode_at(now, activity=person.activity(now)) for now in (BEGIN, BEGIN + 47 * HOUR)} == {Mode.ACTIVE}
    assert person.acts_at(BEGIN) is None


def test_somebody_at_work_does_something_every_minute():
    person = at_work(["09:00-10:00"], "UTC", since=BEGIN, until=BEGIN + 2 * DAY)
    nine = BEGIN + 9 * HOUR
    assert person.activity(BEGIN) is None
    assert person.activity(nine + 90 * timedelta(seconds=1)) == nine + MINUTE
    assert person.activity(nine + 5 * HOUR) == nine + 59 * MINUTE
    assert [person.acts_at(BEGIN), person.acts_at(nine), person.acts_at(nine + DAY)] == [nine, nine + DAY, None]


def test_a_play_that_begins_during_work_begins_active():
    person = at_work(["00:00-01:00"], "UTC", since=BEGIN + 30 * MINUTE, until=BEGIN + DAY)
    assert person.activity(BEGIN + 30 * MINUTE) == BEGIN + 30 * MINUTE


def test_what_was_done_before_counts_until_somebody_works():
    person = at_work(["09:00-10:00"], "UTC", since=BEGIN, until=BEGIN + DAY, last=BEGIN - MINUTE)
    assert person.activity(BEGIN + HOUR) == BEGIN - MINUTE
    assert AtWork(last=BEGIN - MINUTE).activity(BEGIN) == BEGIN - MINUTE


def test_hours_of_work_are_written_like_quiet_hours():
    with pytest.raises(InvalidWindow):
        at_work(["nine to five"], "UTC", since=BEGIN, until=BEGIN + DAY)


def test_a_gauge_knows_the_mean_level_of_each_part():
    gauge = Gauge(0, PARTS * 10)
    gauge.note(1, 0)
    gauge.note(2, PARTS * 5)
    gauge.note(0, PARTS * 6)
    gauge.close()
    assert gauge.parts[0] == 1.0
    assert gauge.parts[PARTS // 2] == 2.0
    assert sum(gauge.parts) == pytest.approx(0.7 * PARTS)
