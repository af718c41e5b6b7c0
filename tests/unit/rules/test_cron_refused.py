"""The door for cron texts: what is refused, with which code, message and way out."""

import pytest

from rota.model.errors import InvalidCron
from rota.rules.schedule.cron import ALIASES, check_cron

FIVE = 'five fields are minute, hour, day of month, month, weekday: "30 2 * * mon-fri"'
MINUTE = "the minute is 0-59, for example 0, */15 or 5,35"
HOUR = "the hour is 0-23, for example 2, */6 or 9-17"
DAY = "the day of month is 1-31, L (last day) or LW (last day from Monday to Friday), for example 1, 1,15 or L"
MONTH = "the month is 1-12, or jan-dec, for example 1, jan or 1-6"
WEEKDAY = "the weekday is 0-7, or sun-sat, for example mon-fri, 0 (Sunday), 5L (last Friday) or mon#1 (first Monday)"
NO_DAY = "never fires: none of its months has that day"

REFUSED = [
    ("", "cron_fields", "cron '' has no fields, not five", FIVE),
    ("   ", "cron_fields", "cron '   ' has no fields, not five", FIVE),
    ("5", "cron_fields", "cron '5' has 1 field, not five", FIVE),
    ("* * * *", "cron_fields", "cron '* * * *' has 4 fields, not five", FIVE),
    ("* * * * * * *", "cron_fields", "cron '* * * * * * *' has 7 fields, not five", FIVE),
    ("60 * * * *", "cron_range", "cron minute '60' is outside 0-59", MINUTE),
    ("-5 * * * *", "cron_range", "cron minute '-5' is negative", MINUTE),
    ("+5 * * * *", "cron_range", "cron minute '+5' is not a value here", MINUTE),
    ("1.5 * * * *", "cron_range", "cron minute '1.5' is not a value here", MINUTE),
    ("0-60 * * * *", "cron_range", "cron minute '0-60' is outside 0-59", MINUTE),
    ("1-2-3 * * * *", "cron_range", "cron minute '1-2-3' is not a value here", MINUTE),
    ("1,,2 * * * *", "cron_range", "cron minute '' is empty", MINUTE),
    ("*5 * * * *", "cron_range", "cron minute '*5' is not a value here", MINUTE),
    ("*-5 * * * *", "cron_range", "cron minute '*-5' mixes `*` with a range", MINUTE),
    ("*,5 * * * *", "cron_range", "cron minute '*,5' has `*` in a list", "write `*` alone, or only the values"),
    ("0 24 * * *", "cron_range", "cron hour '24' is outside 0-23", HOUR),
    ("0 22-2 * * *", "cron_range", "cron hour '22-2' runs backwards", f"write 22-23,0-2; {HOUR}"),
    ("5-1 * * * *", "cron_range", "cron minute '5-1' runs backwards", f"write 5-59,0-1; {MINUTE}"),
    ("0 0 0 * *", "cron_range", "cron day of month '0' is outside 1-31", DAY),
    ("0 0 32 * *", "cron_range", "cron day of month '32' is outside 1-31", DAY),
    ("0 0 15W * *", "cron_range", "cron day of month '15w' means the nearest weekday, which is not supported", DAY),
    ("0 0 L-3 * *", "cron_range", "cron day of month 'l-3' is not a value here", DAY),
    ("0 0 L/2 * *", "cron_range", "cron day of month 'l/2' is not a value here", DAY),
    ("0 0 ? * *", "cron_range", "cron day of month '?' is not a value here, write `*`", DAY),
    ("0 0 1 0 *", "cron_range", "cron month '0' is outside 1-12", MONTH),
    ("0 0 1 13 *", "cron_range", "cron month '13' is outside 1-12", MONTH),
    ("0 0 1 mon *", "cron_range", "cron month 'mon' is not a value here", MONTH),
    ("0 0 * * 8", "cron_range", "cron weekday '8' is outside 0-7", WEEKDAY),
    ("0 0 * * monday", "cron_range", "cron weekday 'monday' is not a value here", WEEKDAY),
    ("0 0 * * L", "cron_range", "cron weekday 'l' is not a value here", WEEKDAY),
    ("0 0 * * mon#6", "cron_range", "cron weekday 'mon#6' has no number 1-5 after `#`", WEEKDAY),
    ("0 0 * * #2", "cron_range", "cron weekday '#2' is not a value here", WEEKDAY),
    ("0 0 * * fri-mon", "cron_range", "cron weekday 'fri-mon' runs backwards", f"write 5-6,0-1; {WEEKDAY}"),
    ("0 0 * * fri-sun", "cron_range", "cron weekday 'fri-sun' runs backwards", f"write 5-6,0; {WEEKDAY}"),
    (
        "H * * * *",
        "cron_range",
        "cron minute 'h' is random in other schedulers, write a fixed value and `jitter`",
        MINUTE,
    ),
    (
        "R/5 * * * *",
        "cron_range",
        "cron minute 'r/5' is random in other schedulers, write a fixed value and `jitter`",
        MINUTE,
    ),
    ("*/0 * * * *", "cron_step", "cron minute '*/0' has step 0", MINUTE),
    ("*/x * * * *", "cron_step", "cron minute '*/x' has no whole number as its step", MINUTE),
    ("*/ * * * *", "cron_step", "cron minute '*/' has no whole number as its step", MINUTE),
    (
        "*/90 * * * *",
        "cron_step",
        "cron minute '*/90' has a step larger than the field (59)",
        f"for every 90m write `interval: 90m`; {MINUTE}",
    ),
    (
        "0 */24 * * *",
        "cron_step",
        "cron hour '*/24' has a step larger than the field (23)",
        f"for every 24h write `interval: 24h`; {HOUR}",
    ),
    ("0 0 1 */12 *", "cron_step", "cron month '*/12' has a step larger than the field (11)", MONTH),
    ("0 0 * * */7", "cron_step", "cron weekday '*/7' has a step larger than the field (6)", WEEKDAY),
    ("0 0 31 2 *", "cron_never_fires", f"cron '0 0 31 2 *' {NO_DAY}", None),
    ("0 0 30 feb *", "cron_never_fires", f"cron '0 0 30 feb *' {NO_DAY}", None),
    ("0 0 31 4,6,9,11 *", "cron_never_fires", f"cron '0 0 31 4,6,9,11 *' {NO_DAY}", None),
    ("@every 1h", "cron", "cron '@every 1h' is not a time of day", "write `interval: 1h` instead"),
    ("@fortnightly", "cron", "unknown cron alias '@fortnightly'", f"use one of {', '.join(ALIASES)}"),
    ("@daily 5", "cron", "unknown cron alias '@daily 5'", f"use one of {', '.join(ALIASES)}"),
]


@pytest.mark.parametrize(("text", "code", "message", "hint"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_wrong_text_is_refused_with_field_value_allowed_range_and_example(text, code, message, hint):
    with pytest.raises(InvalidCron) as refused:
        check_cron(text)
    assert (refused.value.code, refused.value.message) == (code, message)
    assert refused.value.hint
    assert hint is None or refused.value.hint == hint


def test_six_fields_are_ambiguous_and_the_hint_shows_both_readings():
    with pytest.raises(InvalidCron, match="six fields, which is ambiguous: seconds are not supported") as refused:
        check_cron("0 30 2 * * 1")
    assert refused.value.code == "cron_fields"
    assert '"30 2 * * 1"' in refused.value.hint
    assert '"0 30 2 * *"' in refused.value.hint


def test_reboot_is_not_a_time():
    with pytest.raises(InvalidCron, match="'@reboot' is not a time"):
        check_cron("@reboot")


@pytest.mark.parametrize(
    "text", ["٣ * * * *", "0 0 * * *\x00", "0 0 * *\n*", "{{ minute }} * * * *", "$(id) * * * *", "0 0 * * ＭON", "é"]
)
def test_characters_that_no_field_can_have_are_refused_by_name(text):
    with pytest.raises(InvalidCron, match="which is not allowed") as refused:
        check_cron(text)
    assert refused.value.code == "cron_charset"


def test_a_text_of_more_than_100_characters_is_refused_without_repeating_it():
    text = ",".join(str(minute) for minute in range(60)) + " * * * *"
    with pytest.raises(InvalidCron, match="has 177 characters, at most 100") as refused:
        check_cron(text)
    assert text not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        (" @Annually ", "0 0 1 1 *"),
        ("  05\t2 *  * mon-fri ", "5 2 * * MON-FRI"),
        ("0 0 * jan,MAR Sun", "0 0 * JAN,MAR SUN"),
        ("0 0 * * 7", "0 0 * * 7"),
        ("0 0 * * friL", "0 0 * * 5L"),
        ("0 0 * * mon#1,thu#3", "0 0 * * 1#1,4#3"),
        ("0 0 l,lw * *", "0 0 L,LW * *"),
        ("5/15 * * * *", "5/15 * * * *"),
        ("10-10/5 * * * *", "10 * * * *"),
        ("*/59 */23 */30 */11 */6", "*/59 */23 */30 */11 */6"),
        ("0 0 31 2 mon", "0 0 31 2 MON"),
        ("0 0 29 2 *", "0 0 29 2 *"),
    ],
)
def test_a_right_text_is_normalised(text, expression):
    assert check_cron(text) == expression


def test_a_normalised_expression_stays_as_it_is():
    for text in ALIASES.values():
        assert check_cron(text) == text
