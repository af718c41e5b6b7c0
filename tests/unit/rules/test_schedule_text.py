"""What people write for a schedule, read as the keys of a job."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.errors import InvalidValue, RotaError
from rota.model.spec import Schedule
from rota.rules.schedule.cron import check_cron
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.phrases import read_schedule_text, write_schedule_text

NOW = datetime.fromisoformat("2026-11-15T19:41:07Z")
SAID = {
    "": {},
    "by hand": {},
    "30 2 * * *": {"cron": "30 2 * * *"},
    "  0 8  * * MON ": {"cron": "0 8 * * MON"},
    "@daily": {"cron": "@daily"},
    "@reboot": {"cron": "@reboot"},
    "hourly": {"cron": "@hourly"},
    "15m": {"interval": "15m"},
    "every 15 minutes": {"interval": "15m"},
    "every hour": {"interval": "1h"},
    "every 90 seconds": {"interval": "90s"},
    "every day": {"cron": "0 0 * * *"},
    "daily at 8": {"cron": "0 8 * * *"},
    "every weekday at 9am": {"cron": "0 9 * * mon-fri"},
    "weekdays at 9:30 and 17:30": {"cron": "30 9,17 * * mon-fri"},
    "every day at 8:00 and 9:30": {"cron": ["0 8 * * *", "30 9 * * *"]},
    "at 8 on weekends": {"cron": "0 8 * * sat,sun"},
    "mon, wed and fri at 18:30": {"cron": "30 18 * * mon,wed,fri"},
    "monday to thursday at 6": {"cron": "0 6 * * mon-thu"},
    "fri-mon at 5": {"cron": "0 5 * * mon,fri,sat,sun"},
    "Tuesdays at 10:15 pm": {"cron": "15 22 * * tue"},
    "every day at 12 am": {"cron": "0 0 * * *"},
    "every day at noon": {"cron": "0 12 * * *"},
    "monthly": {"cron": "0 0 1 * *"},
    "the 1st and 15th at 8 pm": {"cron": "0 20 1,15 * *"},
    "every month on the 15th at 6": {"cron": "0 6 15 * *"},
    "last day of the month at 18:00": {"cron": "0 18 L * *"},
    "first monday of the month at 9": {"cron": "0 9 * * mon#1"},
    "last friday at 17:00": {"cron": "0 17 * * 5L"},
    "2026-12-24 08:30": {"at": "2026-12-24 08:30"},
    "tomorrow at 9": {"at": "2026-11-16T09:00:00+01:00"},
    "today at 23:30": {"at": "2026-11-15T23:30:00+01:00"},
    "in 2 hours": {"at": "2026-11-15T22:41:07+01:00"},
}


@pytest.mark.parametrize("text", SAID)
def test_what_people_write_is_read_as_keys_of_a_job(text: str) -> None:
    assert read_schedule_text(text, tz="Europe/Berlin", now=NOW) == SAID[text]


@pytest.mark.parametrize("text", [text for text, keys in SAID.items() if "cron" in keys and text != "@reboot"])
def test_every_cron_expression_that_is_read_is_a_good_one(text: str) -> None:
    crons = SAID[text]["cron"]
    schedule = Schedule(cron=tuple(map(check_cron, [crons] if isinstance(crons, str) else crons)))
    assert explain_schedule(schedule)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sometimes", "which is not a day"),
        ("noon", "has no days"),
        ("8:30", "has no days"),
        ("daily at 25:00", "is not a time of day"),
        ("daily at 13 pm", "is not a time of day"),
        ("today", "names no time of day"),
        ("tomorrow at 8 and 9", "names several times"),
        ("the 1st and mondays at 8", "names dates and weekdays"),
        ("second day of the month", "has no day"),
        ("the 40th at 8", "which is not a day"),
        ("in 99999999 days", "more than ten years away"),
        ("x" * 300, "too long"),
    ],
)
def test_what_is_not_clear_is_refused_with_examples(text: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why) as told:
        read_schedule_text(text, tz="Europe/Berlin", now=NOW)
    assert told.value.hint


WORDS = ["every", "day", "at", "on", "mon", "1st", "last", "8", "9:30", "pm", "and", "15", "m", "in", "to"]


@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        keys = read_schedule_text(text, tz="Europe/Berlin", now=NOW)
    except RotaError:
        return
    assert set(keys) <= {"cron", "interval", "at"}
    assert len(keys) <= 1


def test_keys_are_written_as_a_text_that_reads_as_them() -> None:
    for keys in ({}, {"cron": "30 2 * * *"}, {"interval": "15m"}, {"at": "2026-12-24 08:30"}):
        assert read_schedule_text(write_schedule_text(keys), tz="UTC", now=NOW) == keys
