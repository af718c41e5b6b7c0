"""What may be made with the tools: every rule of `agent_policy`, alone (section 8)."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.model.agents import Access, Capabilities
from rota.model.proposals import AgentPolicy, Approval, Author, Limits
from rota.model.spec import AgentWork, JobSpec, Kind, Schedule, Spend, Work
from rota.rules.agents import (
    CHECKED_FIRES,
    Allowed,
    MakerFacts,
    PolicyRefusal,
    Provisional,
    held_back,
    judge,
    judge_start,
    more_access,
    shortest_gap,
)
from rota.rules.schedule.preview import next_fires

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
POLICY = AgentPolicy()
ALL = Capabilities(allowed_tools=True, max_turns=True, max_usd=True, tools_server=True)
DAILY = Schedule(cron=("0 9 * * *",))
RUN = Author("agent:reviewer", "id", "nightly:3", limits=Limits("reviewer", Access.READ))


def asking(schedule: Schedule = DAILY, **changes: Any) -> JobSpec:
    agent = AgentWork("reviewer", "claude", "anthropic", prompt="look", **changes)
    return JobSpec("watch", Work(Kind.AGENT, agent=agent), schedule)


def judged(spec: JobSpec, maker: Author | None = None, *, policy: AgentPolicy = POLICY, **facts: Any) -> object:
    fires = [fire.nominal for fire in next_fires(spec.schedule, NOON, CHECKED_FIRES, created_at=NOON)]
    return judge(policy, MakerFacts(maker or Author(), **facts), spec, fires=fires, now=NOON)


def rule(spec: JobSpec, maker: Author | None = None, *, policy: AgentPolicy = POLICY, **facts: Any) -> str:
    verdict = judged(spec, maker, policy=policy, **facts)
    assert isinstance(verdict, PolicyRefusal), verdict
    assert verdict.text
    assert verdict.hint
    return verdict.rule


def test_a_daily_task_is_allowed_by_default() -> None:
    assert judged(asking()) == Allowed()


def test_it_waits_where_approval_is_required() -> None:
    assert judged(asking(), policy=AgentPolicy(approval=Approval.REQUIRED)) == Provisional()


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.AGENT])
def test_no_other_kind_of_work_can_be_made(kind: Kind) -> None:
    assert rule(JobSpec("x", Work(kind, command=("true",)), DAILY)) == "no_agent_work"


def test_nothing_can_be_made_where_it_is_switched_off() -> None:
    assert rule(asking(), policy=AgentPolicy(enabled=False)) == "switched_off"


@pytest.mark.parametrize(("depth", "allowed"), [(0, True), (1, True), (2, False), (3, False)])
def test_makers_are_nested_two_deep(depth: int, allowed: bool) -> None:
    maker = replace(RUN, depth=depth)
    assert (judged(asking(), maker) == Allowed()) is allowed
    if not allowed:
        assert rule(asking(), maker) == "too_deep"


def test_a_maker_has_at_most_twenty_active_jobs() -> None:
    assert judged(asking(), active=19) == Allowed()
    assert rule(asking(), active=20) == "too_many_jobs"


def test_a_maker_makes_at_most_thirty_jobs_an_hour_and_may_still_change_its_own() -> None:
    assert judged(asking(), created=29) == Allowed()
    assert rule(asking(), created=30) == "too_many_creations"
    assert judged(asking(), created=30, new=False) == Allowed()


@pytest.mark.parametrize(
    ("schedule", "allowed"),
    [
        (Schedule(interval=timedelta(minutes=5)), True),
        (Schedule(interval=timedelta(minutes=5) - timedelta(seconds=1)), False),
        (Schedule(cron=("*/5 * * * *",)), True),
        (Schedule(cron=("*/4 * * * *",)), False),
        (Schedule(cron=("0,1 0 1 1 *",)), False),
        (Schedule(cron=("58 23 * * *", "1 0 * * *")), False),
        (Schedule(cron=("* * * * *",), run_once=True), True),
        (Schedule(interval=timedelta(seconds=10), run_once=True), True),
        (Schedule(at=NOON + timedelta(seconds=1)), True),
    ],
)
def test_the_least_time_between_two_starts_holds_for_cron_too(schedule: Schedule, allowed: bool) -> None:
    bounded = replace(schedule, end_at=None)
    if allowed:
        assert judged(asking(bounded)) == Allowed()
    else:
        assert rule(asking(bounded)) == "too_often"


def test_a_change_of_clocks_says_nothing_about_the_pace() -> None:
    # On 29 March 02:59 does not exist: that start comes at 03:00, one minute after 01:59.
    schedule = Schedule(cron=("59 1,2 * * *",), timezone="Europe/Paris")
    before = datetime(2026, 3, 28, tzinfo=UTC)
    fires = [fire.nominal for fire in next_fires(schedule, before, CHECKED_FIRES, created_at=before)]
    gaps = {later - earlier for earlier, later in pairwise(fires)}
    assert timedelta(minutes=1) in gaps
    assert shortest_gap(fires, schedule.timezone) == timedelta(hours=1)


@given(st.integers(1, 59), st.integers(1, 30))
def test_no_step_of_minutes_below_the_least_time_passes(step: int, least: int) -> None:
    schedule = Schedule(cron=(f"*/{step} * * * *",))
    policy = AgentPolicy(min_interval=timedelta(minutes=least))
    closest = min(step, 60 % step or step)
    assert isinstance(judged(asking(schedule), policy=policy), PolicyRefusal) is (closest < least)


def test_one_time_must_be_to_come_and_before_the_job_expires() -> None:
    assert rule(asking(Schedule(at=NOON))) == "never_fires"
    assert rule(asking(Schedule(at=NOON + timedelta(days=30)))) == "too_far"
    assert judged(asking(Schedule(at=NOON + timedelta(days=29)))) == Allowed()


def test_a_schedule_without_an_instant_before_its_end_is_refused() -> None:
    yearly = Schedule(cron=("0 0 1 6 *",), end_at=NOON + timedelta(days=30))
    assert rule(asking(yearly)) == "never_fires"
    assert rule(asking(Schedule())) == "no_schedule"
    assert rule(asking(Schedule(reboot=True))) == "no_schedule"


def test_the_access_has_a_ceiling() -> None:
    policy = AgentPolicy(access=Access.WRITE)
    assert judged(asking(access=Access.WRITE), policy=policy) == Allowed()
    assert rule(asking(access=Access.FULL), policy=policy) == "more_access"


@pytest.mark.parametrize(
    ("limits", "changes", "refused"),
    [
        (Limits("a", Access.READ), {"access": Access.READ}, None),
        (Limits("a", Access.READ), {"access": Access.WRITE}, "more_access"),
        (Limits("a", Access.FULL), {"access": Access.WRITE}, None),
        (Limits("a", Access.READ, ("Read",)), {"allowed_tools": ("Read",)}, None),
        (Limits("a", Access.READ, ("Read",)), {"allowed_tools": ("Read", "Grep")}, "more_tools"),
        (Limits("a", Access.READ, ("Read",)), {"allowed_tools": ()}, "more_tools"),
        (Limits("a", Access.READ), {"rota_tools": True}, "more_tools"),
        (Limits("a", Access.READ, rota_tools=True), {"rota_tools": True}, None),
        (Limits("a", Access.READ, max_usd=1.0), {"max_usd": 1.0}, None),
        (Limits("a", Access.READ, max_usd=1.0), {"max_usd": 1.5}, "more_money"),
        (Limits("a", Access.READ, max_usd=1.0), {}, "more_money"),
        (Limits("a", Access.READ, accounts=("day",)), {}, "more_money"),
    ],
)
def test_a_job_gets_no_more_than_the_run_that_makes_it(
    limits: Limits, changes: dict[str, Any], refused: str | None
) -> None:
    maker = replace(RUN, limits=limits)
    verdict = judged(asking(**changes), maker)
    assert (verdict.rule if isinstance(verdict, PolicyRefusal) else None) == refused


def test_a_job_is_charged_to_the_accounts_of_the_run_that_makes_it() -> None:
    maker = replace(RUN, limits=Limits("a", Access.READ, accounts=("day",)))
    assert judged(replace(asking(), budgets=(Spend("day"), Spend("week"))), maker) == Allowed()


def test_what_holds_a_job_back_makes_it_allowed() -> None:
    limits = Limits("a", Access.READ, ("Read",), max_turns=5, max_usd=1.0, accounts=("day",))
    spec = asking(access=Access.FULL, allowed_tools=("Read", "Bash"), max_turns=9, max_usd=4.0, rota_tools=True)
    assert held_back(spec, limits, ceiling=Access.FULL, can=ALL) == {
        "access": "read",
        "rota_tools": False,
        "allowed_tools": ["Read"],
        "max_turns": 5,
        "max_usd": 1.0,
        "budget": ["day"],
    }


def test_what_an_agent_cannot_keep_is_not_asked_of_it() -> None:
    limits = Limits("a", Access.READ, ("Read",), max_turns=5, max_usd=1.0)
    assert held_back(asking(), limits, ceiling=Access.FULL, can=Capabilities()) == {"rota_tools": False}


def test_without_a_run_only_the_ceiling_holds_a_job_back() -> None:
    assert held_back(asking(access=Access.FULL), None, ceiling=Access.WRITE, can=ALL) == {"access": "write"}
    assert held_back(asking(access=Access.READ), None, ceiling=Access.WRITE, can=ALL) == {}


@given(st.sampled_from(Access), st.sampled_from(Access))
def test_access_is_ordered(one: Access, other: Access) -> None:
    assert not (more_access(one, other) and more_access(other, one))
    assert (one is other) == (not more_access(one, other) and not more_access(other, one))


def test_starts_of_an_agent_are_bounded_by_the_hour() -> None:
    assert judge_start(POLICY, started=29) == Allowed()
    refused = judge_start(POLICY, started=30)
    assert isinstance(refused, PolicyRefusal)
    assert refused.rule == "too_many_starts"
    assert isinstance(judge_start(AgentPolicy(enabled=False), started=0), PolicyRefusal)
    forced = judge_start(POLICY, started=0, force=True)
    assert isinstance(forced, PolicyRefusal)
    assert forced.rule == "no_force"
