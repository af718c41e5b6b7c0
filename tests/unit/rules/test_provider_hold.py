"""How long a provider that refuses is held (section 8)."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from rota.model.agents import AgentProblem, ProviderHold, Refusal
from rota.rules.agents import FARTHEST, FIRST, LONGEST, forgets, hold_after, hold_after_check
from rota.text.jobs import say_hold

SIX = datetime(2026, 11, 15, 6, tzinfo=UTC)
ELEVEN = SIX + timedelta(hours=5)
MINUTE = timedelta(minutes=1)


def refused(*, at: datetime = SIX, resets_at: datetime | None = None, began_at: datetime | None = None) -> Refusal:
    return Refusal(began_at or at - MINUTE, at, "usage limit reached", resets_at, "run-8")


def after(known: ProviderHold | None, refusal: Refusal) -> ProviderHold:
    return hold_after(known, refusal, provider="anthropic")


def over(hold: ProviderHold) -> ProviderHold:
    return replace(hold, until=None)


def test_a_provider_is_held_until_the_reset_that_it_stated() -> None:
    assert after(None, refused(resets_at=ELEVEN)) == ProviderHold(
        "anthropic",
        ELEVEN,
        stated=True,
        refusals=0,
        why="usage limit reached",
        run_id="run-8",
        set_at=SIX,
        problem=AgentProblem.QUOTA,
        since=SIX,
    )


def test_without_a_stated_reset_the_first_wait_is_a_quarter_of_an_hour() -> None:
    hold = after(None, refused())
    assert (hold.until, hold.stated, hold.refusals) == (SIX + FIRST, False, 1)


def test_each_further_refusal_doubles_the_wait_up_to_six_hours() -> None:
    hold: ProviderHold | None = None
    at, waits = SIX, []
    for _ in range(8):
        hold = after(hold, refused(at=at))
        assert hold.until is not None
        waits.append(hold.until - at)
        at = hold.until + MINUTE * 2
        hold = over(hold)
    quarter = timedelta(minutes=15)
    assert waits == [quarter, quarter * 2, quarter * 4, quarter * 8, quarter * 16, LONGEST, LONGEST, LONGEST]


def test_a_stated_reset_that_has_passed_long_ago_says_nothing() -> None:
    assert after(None, refused(resets_at=SIX - MINUTE * 16)).until == SIX + FIRST


@pytest.mark.parametrize("passed", [SIX, SIX - MINUTE])
def test_a_stated_reset_that_has_just_passed_means_in_a_minute(passed: datetime) -> None:
    """Programs print it to the minute: 05:16:50 is told as 5:16."""
    hold = after(None, refused(resets_at=passed))
    assert (hold.until, hold.stated, hold.refusals) == (SIX + MINUTE, False, 1)


def test_a_provider_that_repeats_a_reset_of_just_now_is_asked_after_growing_pauses() -> None:
    hold: ProviderHold | None = None
    at, waits = SIX, []
    for _ in range(4):
        hold = after(hold, refused(at=at, resets_at=SIX))
        assert hold.until is not None
        waits.append(hold.until - at)
        at = hold.until
        hold = over(hold)
    assert waits == [MINUTE, MINUTE * 2, MINUTE * 4, MINUTE * 8]


def test_an_outage_is_probed_after_a_minute_and_then_after_pauses_of_up_to_an_hour() -> None:
    hold: ProviderHold | None = None
    at, waits = SIX, []
    for _ in range(8):
        hold = after(hold, replace(refused(at=at), problem=AgentProblem.OUTAGE))
        assert hold.until is not None
        waits.append((hold.until - at) // MINUTE)
        at = hold.until + MINUTE
        hold = over(hold)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_stated_reset_is_at_most_a_month_away() -> None:
    assert after(None, refused(resets_at=SIX + timedelta(days=4000))).until == SIX + FARTHEST


def test_runs_that_began_before_the_hold_say_nothing_new() -> None:
    first = after(None, refused())
    assert after(first, refused(at=SIX + MINUTE, began_at=SIX - MINUTE)) == first


def test_a_reset_that_such_a_run_states_counts() -> None:
    guessed = after(None, refused())
    stated = after(guessed, refused(at=SIX + MINUTE, began_at=SIX - MINUTE, resets_at=ELEVEN))
    assert (stated.until, stated.stated, stated.refusals) == (ELEVEN, True, 1)
    earlier = refused(at=SIX + MINUTE * 2, began_at=SIX - MINUTE, resets_at=ELEVEN - MINUTE)
    assert after(stated, earlier).until == ELEVEN


def test_a_stated_reset_does_not_count_as_a_refusal_without_one() -> None:
    later = after(over(after(None, refused(resets_at=ELEVEN))), refused(at=ELEVEN + MINUTE))
    assert (later.refusals, later.until) == (1, ELEVEN + MINUTE + FIRST)


def test_only_the_success_of_a_run_that_began_later_ends_the_count() -> None:
    hold = after(None, refused())
    assert not forgets(hold, began_at=SIX - MINUTE)
    assert forgets(hold, began_at=SIX + MINUTE)


def test_a_hold_is_told_with_its_end_in_the_zone_asked_for() -> None:
    assert say_hold("provider:anthropic", ELEVEN, zone="UTC", now=SIX) == "provider anthropic held until 11:00"


def logged_out(*, at: datetime = SIX, began_at: datetime | None = None) -> Refusal:
    return replace(refused(at=at, began_at=began_at, resets_at=ELEVEN), problem=AgentProblem.AUTH)


def test_a_missing_login_is_checked_after_growing_pauses_and_keeps_its_beginning() -> None:
    hold = after(None, logged_out())
    waits = []
    for _ in range(6):
        assert hold.until is not None
        waits.append(hold.until - hold.set_at)
        hold = hold_after_check(hold, works=False, now=hold.until)
    assert waits == [MINUTE * 5, MINUTE * 10, MINUTE * 20, MINUTE * 40, MINUTE * 60, MINUTE * 60]
    assert hold.since == SIX
    assert not hold.stated


def test_a_login_that_works_ends_the_hold_and_its_count_stays() -> None:
    hold = hold_after_check(after(None, logged_out()), works=True, now=SIX + MINUTE)
    assert (hold.until, hold.refusals) == (None, 1)
    assert after(hold, logged_out(at=SIX + MINUTE * 9)).refusals == 2


def test_a_limit_of_a_run_that_began_before_does_not_replace_a_missing_login() -> None:
    hold = after(None, logged_out())
    assert after(hold, refused(at=SIX + MINUTE, began_at=SIX - MINUTE, resets_at=ELEVEN)) is hold


def test_a_limit_that_follows_a_missing_login_is_counted_anew() -> None:
    hold = after(hold_after_check(after(None, logged_out()), works=True, now=SIX), refused(at=SIX + MINUTE * 9))
    assert (hold.refusals, hold.since) == (1, SIX + MINUTE * 9)
