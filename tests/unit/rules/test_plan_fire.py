"""What becomes of due instants, case by case (R-05, R-06, R-07, R-10, R-11, R-12)."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from scheduled import CREATED, DAY, HOUR, MINUTE, SECOND, job

from rota.model.clock import to_ms
from rota.model.records import Job
from rota.model.spec import Anchor, Jitter, Misfire, MisfirePolicy, Overlap, OverlapPolicy, RepeatedFailure, Schedule
from rota.model.states import Reason, Status, WaitingFor
from rota.rules.admission import ActiveRun, After, Allow, Replace
from rota.rules.schedule.plan import ExecutionSpan, FireFacts, FirePlan, PlannedRun, PlannedSkip, plan_fire, planned_id

HOURLY = Schedule(cron=("0 * * * *",))
MINUTELY = Schedule(cron=("* * * * *",))
CHAIN = Schedule(interval=HOUR)
FIXED = Schedule(interval=HOUR, anchor=Anchor.FIXED)
ONCE = Misfire(MisfirePolicy.ONCE)
ALL = Misfire(MisfirePolicy.ALL, limit=3)
RUNNING = ActiveRun("id-7", "backup:7", Status.RUNNING)
HELD = ActiveRun("id-8", "backup:8", Status.QUEUED, WaitingFor.CONDITION)


def at(hours: float) -> datetime:
    return CREATED + hours * HOUR


def key(instant: datetime) -> str:
    return str(to_ms(instant))


def plan(stored: Job, now: datetime, *active: ActiveRun, executed: tuple[ExecutionSpan, ...] = ()) -> FirePlan:
    return plan_fire(stored, FireFacts(active, executed), now=now)


def outline(found: FirePlan) -> list[tuple]:
    """Each step as (what, first, last, count)."""
    return [
        ("run", step.scheduled_for, step.scheduled_for, 1)
        if isinstance(step, PlannedRun)
        else (step.reason, step.scheduled_for, step.covers_to or step.scheduled_for, step.count)
        for step in found.steps
    ]


def test_nothing_is_due_before_the_cursor():
    assert plan(job(HOURLY, next_for=at(1), next_at=at(1)), at(1) - SECOND) == FirePlan((), at(1), at(1))


def test_an_instant_that_is_due_runs_and_moves_the_cursor():
    found = plan(job(HOURLY), at(0))
    run = PlannedRun(at(0), key(at(0)), Allow(), timedelta(0), made_up=False, after_previous=False)
    assert found == FirePlan((run,), at(1), at(1))


@pytest.mark.parametrize("state", [{"enabled": False}, {"retired_at": CREATED}, {"used_up_at": CREATED}])
def test_a_job_that_does_not_schedule_fires_nothing(state):
    stored = job(HOURLY, **{"next_for": at(0), "next_at": at(0), **state})
    assert plan(stored, at(9)).steps == ()


def test_a_manual_job_fires_nothing():
    assert plan(job(Schedule()), at(9)) == FirePlan((), None, None)


@pytest.mark.parametrize(("late", "what"), [(60 * SECOND, "run"), (60 * SECOND + timedelta(milliseconds=1), "missed")])
def test_r10_an_instant_is_late_only_when_more_than_the_grace_has_passed(late, what):
    assert outline(plan(job(HOURLY), at(0) + late))[0][0] == what


def test_r10_lateness_counts_from_the_instant_plus_its_jitter():
    stored = job(replace(HOURLY, jitter=Jitter(percent=50)))
    assert plan(stored, stored.next_at - timedelta(milliseconds=1)).steps == ()
    assert outline(plan(stored, stored.next_at + 60 * SECOND))[0][0] == "run"
    assert outline(plan(stored, stored.next_at + 61 * SECOND))[0][0] == Reason.MISSED
    assert plan(stored, stored.next_at + 61 * SECOND).steps[0].late_by == 61 * SECOND


@pytest.mark.parametrize("schedule", [HOURLY, CHAIN], ids=["cron", "interval"])
def test_r10_between_two_ticks_an_instant_is_not_late(schedule):
    """R-24: nobody could look earlier, so it runs as one that is on time; what came before that was missed."""
    unseen = FireFacts(unseen=10 * MINUTE)
    assert outline(plan_fire(job(schedule), unseen, now=at(0) + 10 * MINUTE))[0][0] == "run"
    step = plan_fire(job(schedule), unseen, now=at(0) + 10 * MINUTE + SECOND).steps[0]
    assert getattr(step, "made_up", False) or step.reason is Reason.MISSED
    assert step.unseen == 10 * MINUTE


def test_r10_a_grace_that_is_longer_than_the_time_between_ticks_holds():
    patient = Misfire(MisfirePolicy.SKIP, grace=HOUR / 2)
    assert outline(plan_fire(job(HOURLY, misfire=patient), FireFacts(unseen=MINUTE), now=at(0.5)))[0][0] == "run"


def test_r10_skip_counts_what_was_missed_in_one_row():
    found = plan(job(HOURLY), at(5.5))
    row = PlannedSkip(Reason.MISSED, at(0), at(5), 6, key(at(0)), timedelta(hours=5.5), None)
    assert found == FirePlan((row,), at(6), at(6))


def test_r10_one_missed_instant_covers_nothing_else():
    row = plan(job(HOURLY), at(0.5)).steps[0]
    assert (row.covers_to, row.count) == (None, 1)


def test_r10_once_runs_the_latest_missed_instant_and_counts_the_others():
    """RISK-2."""
    found = plan(job(HOURLY, misfire=ONCE), at(5.5))
    assert outline(found) == [(Reason.MISSED, at(0), at(4), 5), ("run", at(5), at(5), 1)]
    assert found.steps[1] == PlannedRun(at(5), key(at(5)), Allow(), HOUR / 2, made_up=True, after_previous=False)


def test_r10_all_runs_the_newest_up_to_the_limit_one_after_another():
    found = plan(job(HOURLY, misfire=ALL), at(5.5))
    assert outline(found)[0] == (Reason.MISSED, at(0), at(2), 3)
    assert [(run.scheduled_for, run.verdict, run.after_previous) for run in found.steps[1:]] == [
        (at(3), Allow(), False),
        (at(4), After(planned_id(key(at(3)))), True),
        (at(5), After(planned_id(key(at(4)))), True),
    ]


@pytest.mark.parametrize("policy", [OverlapPolicy.ALLOW, OverlapPolicy.FORBID, OverlapPolicy.QUEUE])
def test_r10_the_runs_of_all_wait_for_each_other_under_every_overlap_policy(policy):
    runs = plan(job(HOURLY, misfire=ALL, overlap=Overlap(policy)), at(2.5)).steps
    assert [run.after_previous for run in runs] == [False, True, True]


def test_r10_max_age_bounds_how_late_once_and_all_may_start():
    for policy in (MisfirePolicy.ONCE, MisfirePolicy.ALL):
        young = Misfire(policy, max_age=HOUR / 2)
        assert outline(plan(job(HOURLY, misfire=young), at(1.5)))[-1] == ("run", at(1), at(1), 1)
        assert outline(plan(job(HOURLY, misfire=young), at(1.5) + SECOND)) == [(Reason.MISSED, at(0), at(1), 2)]
    two = Misfire(MisfirePolicy.ALL, max_age=2 * HOUR)
    assert [step[0] for step in outline(plan(job(HOURLY, misfire=two), at(5.5)))] == [Reason.MISSED, "run", "run"]


def test_r10_a_late_instant_at_which_a_run_was_executing_is_overlap_and_never_made_up():
    span = ExecutionSpan(at(1), at(3), "backup:4")
    found = plan(job(HOURLY, misfire=ALL), at(3.5), executed=(span,))
    assert outline(found) == [
        ("run", at(0), at(0), 1),
        (Reason.OVERLAP, at(1), at(2), 2),
        ("run", at(3), at(3), 1),
    ]
    assert found.steps[1].blocking == "backup:4"
    assert found.steps[2].after_previous


def test_r10_once_passes_over_an_overlap_to_the_latest_missed_instant():
    found = plan(job(HOURLY, misfire=ONCE), at(5.5), executed=(ExecutionSpan(at(4.5), at(5.1)),))
    assert outline(found) == [
        (Reason.MISSED, at(0), at(3), 4),
        ("run", at(4), at(4), 1),
        (Reason.OVERLAP, at(5), at(5), 1),
    ]


def test_r10_an_execution_that_goes_on_holds_every_later_instant():
    found = plan(job(HOURLY), at(5.5), RUNNING, executed=(ExecutionSpan(at(1.5), None, "backup:7"),))
    assert outline(found) == [(Reason.MISSED, at(0), at(1), 2), (Reason.OVERLAP, at(2), at(5), 4)]


def test_r10_an_execution_between_two_instants_does_not_break_the_stretch():
    found = plan(job(HOURLY), at(5.5), executed=(ExecutionSpan(at(1.2), at(1.8)),))
    assert outline(found) == [(Reason.MISSED, at(0), at(5), 6)]


def test_r10_two_executions_are_two_stretches():
    executed = (ExecutionSpan(at(3), at(5)), ExecutionSpan(at(1), at(3)))
    found = plan(job(HOURLY), at(5.5), executed=executed)
    assert outline(found) == [
        (Reason.MISSED, at(0), at(0), 1),
        (Reason.OVERLAP, at(1), at(2), 2),
        (Reason.OVERLAP, at(3), at(4), 2),
        (Reason.MISSED, at(5), at(5), 1),
    ]


def test_r10_a_late_and_a_prompt_refusal_by_the_same_run_are_one_stretch():
    found = plan(job(MINUTELY), at(0.5), RUNNING, executed=(ExecutionSpan(at(0), None, "backup:7"),))
    assert outline(found) == [(Reason.OVERLAP, at(0), at(0.5), 31)]


def test_r10_a_missed_instant_to_be_made_up_is_judged_by_overlap_now():
    found = plan(job(HOURLY, misfire=ONCE), at(2.5), RUNNING)
    assert outline(found) == [(Reason.MISSED, at(0), at(1), 2), (Reason.OVERLAP, at(2), at(2), 1)]
    assert found.steps[1].blocking == "backup:7"
    found = plan(job(HOURLY, misfire=ALL), at(4.5), HELD)
    assert outline(found) == [(Reason.MISSED, at(0), at(1), 2), (Reason.CONDITION, at(2), at(4), 3)]


def test_r10_instants_due_together_but_not_late_fire_one_by_one_under_allow():
    stored = job(MINUTELY, misfire=Misfire(grace=10 * MINUTE), overlap=Overlap(OverlapPolicy.ALLOW))
    found = plan(stored, CREATED + 3 * MINUTE)
    assert [(step.scheduled_for, step.verdict) for step in found.steps] == [
        (CREATED + n * MINUTE, Allow()) for n in range(4)
    ]
    assert not any(step.made_up or step.after_previous for step in found.steps)


def test_r11_of_instants_due_together_forbid_runs_the_first_and_names_it():
    found = plan(job(MINUTELY, misfire=Misfire(grace=10 * MINUTE)), CREATED + 3 * MINUTE)
    assert outline(found) == [
        ("run", CREATED, CREATED, 1),
        (Reason.OVERLAP, CREATED + MINUTE, CREATED + 3 * MINUTE, 3),
    ]
    assert found.steps[1].blocking == "the run of 2026-11-15T12:00:00Z"


def test_r11_of_instants_due_together_queue_lets_the_second_wait_for_the_first():
    stored = job(MINUTELY, misfire=Misfire(grace=10 * MINUTE), overlap=Overlap(OverlapPolicy.QUEUE))
    first, second, rest = plan(stored, CREATED + 3 * MINUTE).steps
    assert (first.verdict, first.after_previous) == (Allow(), False)
    assert (second.verdict, second.after_previous) == (After(planned_id(first.slot_key)), True)
    assert (rest.reason, rest.count) == (Reason.OVERLAP, 2)


def test_r11_a_queue_behind_a_running_run_waits_for_that_run():
    stored = job(HOURLY, overlap=Overlap(OverlapPolicy.QUEUE))
    (run,) = plan(stored, at(0), RUNNING).steps
    assert (run.verdict, run.after_previous) == (After("id-7"), False)


def test_r12_of_instants_due_together_each_replaces_the_one_before():
    stored = job(MINUTELY, misfire=Misfire(grace=10 * MINUTE), overlap=Overlap(OverlapPolicy.REPLACE))
    first, second = plan(stored, CREATED + MINUTE, RUNNING).steps
    assert first.verdict == Replace(("id-7",))
    assert second.verdict == Replace(("id-7", planned_id(first.slot_key)))
    assert not second.after_previous


def test_r11_a_refused_instant_names_the_run_and_takes_its_reason():
    (row,) = plan(job(HOURLY), at(0), HELD).steps
    assert (row.reason, row.blocking, row.count, row.covers_to) == (Reason.CONDITION, "backup:8", 1, None)


def test_a_prompt_instant_after_made_up_runs_is_judged_with_them():
    found = plan(job(MINUTELY, misfire=ALL), CREATED + 5 * MINUTE)
    assert outline(found) == [
        (Reason.MISSED, CREATED, CREATED, 1),
        *(("run", CREATED + n * MINUTE, CREATED + n * MINUTE, 1) for n in (1, 2, 3)),
        (Reason.OVERLAP, CREATED + 4 * MINUTE, CREATED + 5 * MINUTE, 2),
    ]


def test_of_punctual_instants_the_first_runs_and_overlap_judges_the_others():
    found = plan(job(MINUTELY, misfire=ONCE), CREATED + 5 * MINUTE)
    assert outline(found) == [
        (Reason.MISSED, CREATED, CREATED + 3 * MINUTE, 4),
        ("run", CREATED + 4 * MINUTE, CREATED + 4 * MINUTE, 1),
        (Reason.OVERLAP, CREATED + 5 * MINUTE, CREATED + 5 * MINUTE, 1),
    ]


def test_the_last_instant_before_end_at_leaves_no_cursor():
    found = plan(job(replace(HOURLY, end_at=at(2))), at(1))
    assert (found.next_for, found.next_at) == (None, None)
    assert outline(found) == [(Reason.MISSED, at(0), at(0), 1), ("run", at(1), at(1), 1)]


def test_instants_at_or_after_end_at_are_not_due():
    found = plan(job(replace(HOURLY, end_at=at(2))), at(9))
    assert outline(found) == [(Reason.MISSED, at(0), at(1), 2)]
    assert found.next_for is None


def test_an_at_job_is_used_up_by_its_one_row():
    once = Schedule(at=at(1))
    for policy, what in ((Misfire(), Reason.MISSED), (ONCE, "run"), (ALL, "run")):
        found = plan(job(once, misfire=policy), at(9))
        assert outline(found) == [(what, at(1), at(1), 1)]
        assert (found.next_for, found.next_at) == (None, None)


@pytest.mark.parametrize("policy", [Misfire(), ONCE, ALL])
def test_r10_an_at_that_was_past_when_the_job_was_first_stored_is_missed_whatever_misfire_says(policy):
    """A fresh clone, or a lost state folder, must not repeat every old one-shot."""
    found = plan(job(Schedule(at=at(-30)), misfire=policy), at(0))
    assert outline(found) == [(Reason.MISSED, at(-30), at(-30), 1)]
    assert found.steps[0].late_by == 30 * HOUR


def test_r10_an_at_just_before_the_job_was_stored_is_not_late():
    assert outline(plan(job(Schedule(at=CREATED - 30 * SECOND), misfire=ONCE), at(0)))[0][0] == "run"


def test_r10_time_between_ticks_does_not_excuse_an_at_that_was_past_when_the_job_was_stored():
    facts = FireFacts(unseen=15 * MINUTE)
    assert outline(plan_fire(job(Schedule(at=CREATED - 10 * MINUTE)), facts, now=at(0)))[0][0] is Reason.MISSED


def test_r10_with_once_a_punctual_instant_runs_and_covers_the_missed_ones():
    found = plan(job(HOURLY, misfire=ONCE), at(3) + 30 * SECOND)
    assert outline(found) == [(Reason.MISSED, at(0), at(2), 3), ("run", at(3), at(3), 1)]
    assert not found.steps[1].made_up


def test_r10_with_once_missed_instants_are_made_up_where_the_punctual_one_is_held_back():
    held = RepeatedFailure(after=1)
    stored = job(HOURLY, misfire=ONCE, backing_off_until=at(3) + 10 * SECOND)
    stored = replace(stored, spec=replace(stored.spec, on_repeated_failure=held))
    found = plan(stored, at(3) + 30 * SECOND)
    assert outline(found) == [
        (Reason.MISSED, at(0), at(1), 2),
        ("run", at(2), at(2), 1),
        (Reason.BACKING_OFF, at(3), at(3), 1),
    ]


def test_r07_run_once_plans_one_run_and_leaves_no_cursor():
    stored = job(replace(MINUTELY, run_once=True), misfire=ALL, overlap=Overlap(OverlapPolicy.ALLOW))
    found = plan(stored, CREATED + 9 * MINUTE)
    assert outline(found) == [
        (Reason.MISSED, CREATED, CREATED + 4 * MINUTE, 5),
        ("run", CREATED + 5 * MINUTE, CREATED + 5 * MINUTE, 1),
    ]
    assert (found.next_for, found.next_at) == (None, None)


def test_r07_a_skip_does_not_use_run_once_up_while_later_instants_exist():
    found = plan(job(replace(HOURLY, run_once=True)), at(5.5))
    assert outline(found) == [(Reason.MISSED, at(0), at(5), 6)]
    assert found.next_for == at(6)


def test_r05_the_slot_key_of_cron_at_and_fixed_is_the_instant():
    for schedule in (HOURLY, FIXED, Schedule(at=at(0))):
        assert plan(job(schedule), at(0)).steps[0].slot_key == key(at(0))


@pytest.mark.parametrize("anchor", [Anchor.COMPLETION, Anchor.START])
def test_r05_r06_a_chain_that_fires_takes_its_number_and_leaves_no_cursor(anchor):
    found = plan(job(replace(CHAIN, anchor=anchor), fire_number=41), at(0))
    run = PlannedRun(at(0), "#42", Allow(), timedelta(0), made_up=False, after_previous=False)
    assert found == FirePlan((run,), None, None)


def test_r06_a_chain_that_is_skipped_goes_on_one_interval_from_now():
    found = plan(job(CHAIN), at(0) + SECOND, RUNNING)
    assert outline(found) == [(Reason.OVERLAP, at(0), at(0), 1)]
    assert (found.next_for, found.next_at) == (at(1) + SECOND, at(1) + SECOND)
    ended = plan(job(replace(CHAIN, end_at=at(0.5))), at(0), RUNNING)
    assert ended.next_for is None


def test_r06_the_cursor_of_a_skipped_chain_has_its_jitter():
    stored = job(replace(CHAIN, jitter=Jitter(percent=50)))
    found = plan(stored, stored.next_at, RUNNING)
    assert found.next_for == stored.next_at + HOUR
    assert found.next_for < found.next_at < found.next_for + HOUR / 2


def test_r06_a_late_chain_has_one_instant_however_long_it_was_away():
    assert outline(plan(job(CHAIN), at(500))) == [(Reason.MISSED, at(0), at(0), 1)]
    assert plan(job(CHAIN), at(500)).next_for == at(501)
    found = plan(job(CHAIN, misfire=ONCE), at(500))
    assert (outline(found), found.steps[0].made_up, found.next_for) == ([("run", at(0), at(0), 1)], True, None)
    old = plan(job(CHAIN, misfire=replace(ONCE, max_age=HOUR)), at(500))
    assert outline(old) == [(Reason.MISSED, at(0), at(0), 1)]


def test_r10_a_late_chain_during_an_execution_is_overlap():
    found = plan(job(CHAIN, misfire=ONCE), at(5), executed=(ExecutionSpan(at(-1), at(1), "backup:3"),))
    assert outline(found) == [(Reason.OVERLAP, at(0), at(0), 1)]
    assert found.steps[0].blocking == "backup:3"


@pytest.mark.parametrize(
    ("span", "reason"),
    [
        (ExecutionSpan(at(0), at(1)), Reason.OVERLAP),
        (ExecutionSpan(at(-1), at(0)), Reason.MISSED),
        (ExecutionSpan(at(0) + SECOND, at(1)), Reason.MISSED),
        (ExecutionSpan(at(-1), None), Reason.OVERLAP),
    ],
)
@pytest.mark.parametrize("schedule", [CHAIN, Schedule(at=at(0))])
def test_r10_an_execution_holds_its_first_moment_and_not_its_last(schedule, span, reason):
    assert outline(plan(job(schedule), at(5), executed=(span,))) == [(reason, at(0), at(0), 1)]


def test_r26_a_chain_whose_fire_was_moved_by_a_clock_step_is_judged_by_where_it_was_moved():
    stored = job(CHAIN, next_for=at(3), next_at=at(1))
    assert plan(stored, at(1) - SECOND) == FirePlan((), at(3), at(1))
    assert plan(stored, at(1) + SECOND).steps[0].late_by == SECOND


def test_r07_run_once_of_a_chain_is_not_used_up_by_a_skip():
    stored = job(replace(CHAIN, run_once=True))
    assert plan(stored, at(0), RUNNING).next_for == at(1)
    assert plan(stored, at(0)).next_for is None


@pytest.mark.parametrize("policy", list(MisfirePolicy))
@pytest.mark.parametrize("jitter", [None, Jitter(percent=50)])
def test_r10_five_years_of_a_minutely_job_are_one_row_without_a_count(policy, jitter):
    schedule = Schedule(cron=("* * * * *",), timezone="Europe/Paris", jitter=jitter)
    found = plan(job(schedule, misfire=Misfire(policy)), CREATED + 5 * 365 * DAY)
    missed = [step for step in found.steps if isinstance(step, PlannedSkip) and step.reason is Reason.MISSED]
    assert [(row.scheduled_for, row.count) for row in missed] == [(CREATED, None)]
    assert missed[0].covers_to > CREATED + 5 * 365 * DAY - 15 * MINUTE


def test_a_cursor_that_is_no_instant_any_more_goes_on_to_the_next_one():
    stored = job(HOURLY, next_for=at(0.25), next_at=at(0.25))
    assert plan(stored, at(0.5)) == FirePlan((), at(1), at(1))
