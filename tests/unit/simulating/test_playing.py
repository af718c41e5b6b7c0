"""The play: fires, skips, failures, pools, collisions, budgets and polls, counted."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from playground import BEGIN, DAY, HOUR, MINUTE, SECOND, Play, cron, job, of

from rota.model.budgets import Account, Exceeded, Per, Unit
from rota.model.errors import UnknownJob
from rota.model.spec import (
    AgentWork,
    ByMode,
    Draw,
    Gates,
    JobSpec,
    Kind,
    Member,
    Mode,
    Overlap,
    OverlapPolicy,
    QuietHours,
    QuietPolicy,
    Retry,
    Schedule,
    Spend,
    Work,
)
from rota.operations.simulate.player import Forced, Phase, at_work

HOURLY = cron("0 * * * *")
DAILY_RUNS = Account("daily", Unit.RUNS, 10, Per.DAY)
POLL = JobSpec("rota/poll", Work(Kind.POLL, function="poll"), Schedule(interval=10 * MINUTE), retry=Retry(1))


def test_every_instant_is_counted_in_its_hour():
    found = of(Play([job("a", cron("*/15 * * * *"))]).report(), "a")
    assert (found.fires, found.runs, found.ends) == (95, 95, {"COMPLETED": 95})
    assert found.hours == [3, *[4] * 23]
    assert sum(found.parts) == 95


def test_an_interval_counts_from_the_end_of_a_run():
    play = Play([job("a", Schedule(interval=HOUR))], durations={"a": 20 * MINUTE})
    assert of(play.report(), "a").fires == 18


def test_instants_that_meet_a_run_are_skipped_with_their_reason():
    found = of(Play([job("a", HOURLY)], durations={"a": 90 * MINUTE}).report(), "a")
    assert (found.runs, found.skipped) == (12, {"overlap": 11})
    assert sum(found.skipped_hours) == 11


def test_unfinished_runs_are_told():
    assert of(Play([job("a", HOURLY)], durations={"a": 90 * MINUTE}).report(), "a").unfinished == 1


def test_a_share_of_runs_fails_the_same_ones_every_time():
    play = Play([job("a", cron("* * * * *"), retry=Retry(max_attempts=2))], failures={"a": 0.1})
    first, second = of(play.report(), "a"), of(play.report(), "a")
    assert first == second
    assert 100 < first.ends["FAILED"] < 200
    assert 100 < first.retries <= first.ends["FAILED"]


def test_a_pool_of_one_lets_one_run_at_a_time_and_the_wait_is_told():
    jobs = [job(name, HOURLY, pools=(Draw("press"),)) for name in ("a", "b", "c")]
    play = Play(jobs, pools={"press": 1}, durations=dict.fromkeys("abc", 10 * MINUTE))
    report = play.report()
    (press,) = report.pools
    assert (press.peak, press.longest_wait) == (1, 20 * MINUTE)
    assert press.share_full == pytest.approx(23 * 0.5 / 24)
    assert [of(report, name).longest_wait for name in "abc"] == [timedelta(), 10 * MINUTE, 20 * MINUTE]


def test_slots_bound_what_runs_and_their_saturation_is_told():
    jobs = [job(name, HOURLY) for name in ("a", "b")]
    slots = Play(jobs, concurrency=1, durations=dict.fromkeys("ab", 15 * MINUTE)).report().slots
    assert (slots.peak, slots.capacity, slots.longest_wait) == (1, 1, 15 * MINUTE)
    assert slots.share_full == pytest.approx(23 * 0.5 / 24)
    assert slots.mean == pytest.approx(23 * 0.5 / 24)


def test_priority_goes_first():
    jobs = [job("low", HOURLY), job("high", HOURLY, priority=5)]
    report = Play(jobs, concurrency=1, durations={"low": MINUTE, "high": MINUTE}).report()
    assert of(report, "high").longest_wait == timedelta()
    assert of(report, "low").longest_wait == MINUTE


def test_jobs_that_fire_in_the_same_second_collide():
    report = Play([job("a", HOURLY), job("b", HOURLY), job("c", cron("0 */12 * * *"))]).report()
    assert report.collided == 23
    assert [(one.jobs, one.times, one.at) for one in report.collisions] == [
        (("a", "b", "c"), 1, BEGIN + 12 * HOUR),
        (("a", "b"), 22, BEGIN + HOUR),
    ]


def test_a_replaced_run_makes_room_at_once():
    overlap = Overlap(OverlapPolicy.REPLACE)
    found = of(Play([job("a", HOURLY, overlap=overlap)], durations={"a": 2 * HOUR}).report(), "a")
    assert (found.runs, found.ends) == (23, {"CANCELLED": 22})


def test_members_of_a_group_run_one_after_another():
    work = Work(Kind.GROUP, members=(Member("a"), Member("b")))
    group = JobSpec("nightly", work, cron("0 */6 * * *"))
    report = Play([job("a"), job("b"), group], durations={"a": MINUTE, "b": MINUTE}).report()
    assert [of(report, name).runs for name in ("a", "b", "nightly")] == [3, 3, 0]
    assert of(report, "nightly").ends == {"COMPLETED": 3}
    assert report.slots.peak == 1


def test_quiet_hours_are_seen():
    """R-17."""
    quiet = QuietHours(("00:00-06:00",), policy=QuietPolicy.SKIP)
    found = of(Play([job("a", cron("30 * * * *", quiet=quiet))]).report(), "a")
    assert (found.runs, found.skipped) == (18, {"quiet_hours": 6})


def test_modes_decide_how_often_an_adaptive_job_fires():
    """R-18."""
    schedule = Schedule(by_mode=ByMode(MINUTE, 10 * MINUTE, None))
    phases = (Phase(Mode.ACTIVE, HOUR), Phase(Mode.IDLE, 2 * HOUR), Phase(Mode.DORMANT, 21 * HOUR))
    found = of(Play([job("a", schedule)], person=Forced(phases, BEGIN), durations={"a": timedelta()}).report(), "a")
    assert found.hours[:5] == [60, 6, 6, 1, 0]  # what has come at three belongs to the mode that it was planned in
    assert [one.mode for one in found.modes] == [Mode.ACTIVE, Mode.IDLE, Mode.DORMANT]


def test_the_end_of_an_agents_run_makes_a_job_active_unless_a_job_by_mode_began_it():
    """R-18."""
    schedule = Schedule(by_mode=ByMode(MINUTE, 10 * MINUTE, 6 * HOUR))
    work = Work(Kind.AGENT, agent=AgentWork("claude", "claude", "anthropic", "x"))
    review = replace(job("review", cron("0 9 * * *")), work=work)
    own = replace(job("own", Schedule(by_mode=ByMode(HOUR, HOUR, HOUR))), work=work)
    play = Play([job("a", schedule), review, own], durations={"a": timedelta(), "review": 30 * MINUTE})
    assert [(one.mode, one.at - BEGIN) for one in of(play.report(), "a").modes] == [
        (Mode.DORMANT, timedelta()),
        (Mode.ACTIVE, 9 * HOUR + 30 * MINUTE),
        (Mode.IDLE, 9 * HOUR + 40 * MINUTE),
        (Mode.DORMANT, 10 * HOUR + 30 * MINUTE),
    ]


def test_somebody_at_work_keeps_a_job_active_and_leaves_it_to_sleep():
    """R-18."""
    schedule = Schedule(by_mode=ByMode(MINUTE, 10 * MINUTE, 6 * HOUR))
    person = at_work(["09:00-10:00"], "UTC", since=BEGIN, until=BEGIN + DAY)
    found = of(Play([job("a", schedule)], person=person, durations={"a": timedelta()}).report(), "a")
    assert [(one.mode, one.at - BEGIN) for one in found.modes] == [
        (Mode.DORMANT, timedelta()),
        (Mode.ACTIVE, 9 * HOUR),
        (Mode.IDLE, 10 * HOUR + 9 * MINUTE),
        (Mode.DORMANT, 10 * HOUR + 59 * MINUTE),
    ]
    assert found.hours[9] == 60


def test_a_budget_that_is_used_up_defers_to_the_next_window():
    """R-19."""
    spends = (Spend("daily"),)
    report = Play([job("a", HOURLY, budgets=spends)], days=2, accounts=(DAILY_RUNS,)).report()
    found = of(report, "a")
    assert (found.runs, found.waits) == (20, {"budget": 2})
    assert found.skipped["budget"] == 47 - 20 - 1
    (account,) = report.accounts
    assert [window.used for window in account.windows] == [10, 10]


def test_a_budget_may_skip_and_its_cost_is_summed():
    """R-19."""
    account = Account("money", Unit.USD, 5_000_000, Per.DAY, policy=Exceeded.SKIP)
    report = Play([job("a", HOURLY, budgets=(Spend("money", 1_000_000),))], accounts=(account,)).report()
    found = of(report, "a")
    assert (found.runs, found.skipped, found.cost) == (5, {"budget": 18}, {"usd": 5_000_000})


def test_a_poll_is_a_remote_call_and_lets_all_go_that_need_it():
    """R-16."""
    needy = [job(name, cron("5 * * * *"), gates=Gates(needs_poll=True)) for name in ("a", "b")]
    report = Play([POLL, *needy], durations={"rota/poll": timedelta()}).report()
    assert (of(report, "rota/poll").calls, report.calls) == (144, 144)
    assert [of(report, name).runs for name in ("a", "b")] == [24, 24]
    assert of(report, "a").waits == {}


def test_a_failed_poll_skips_who_waited_for_it():
    """R-16."""
    needy = job("a", cron("5 * * * *"), gates=Gates(needs_poll=True))
    found = of(Play([POLL, needy], failures={"rota/poll": 1.0}).report(), "a")
    assert (found.runs, found.skipped, found.waits["poll"]) == (0, {"poll_failed": 24}, 24)


def test_requests_of_jobs_are_remote_calls_too():
    """R-19."""
    accounts = (Account("api", Unit.REQUESTS, 1000, Per.DAY), Account("hour", Unit.REQUESTS, 100, Per.HOUR))
    spends = (Spend("api", 3), Spend("hour", 3))
    report = Play([job("a", HOURLY, budgets=spends)], accounts=accounts).report()
    assert (report.calls, [one.most for one in report.accounts]) == (69, [69, 3])
    assert [(one.date, one.calls) for one in report.calls_by_day] == [("2026-11-16", 69)]


def test_what_is_assumed_of_an_unknown_job_is_refused():
    with pytest.raises(UnknownJob, match="backpu"):
        Play([job("backup", HOURLY)], durations={"backpu": SECOND}).report()


def test_a_job_that_is_disabled_fires_nothing():
    assert of(Play([job("a", HOURLY, enabled=False)]).report(), "a").fires == 0
