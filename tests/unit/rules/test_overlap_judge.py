"""Overlap: what becomes of a new run of an active job (R-11, R-12)."""

import pytest

from rota.model.spec import Overlap, OverlapPolicy
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.admission import ActiveRun, After, Allow, Refuse, Replace, judge, waits_for_all

RUNNING = ActiveRun("id-1", "backup:1", Status.RUNNING)
QUEUED = ActiveRun("id-2", "backup:2", Status.QUEUED, WaitingFor.PREDECESSOR)
THIRD = ActiveRun("id-3", "backup:3", Status.QUEUED, WaitingFor.PREDECESSOR)
HELD = ActiveRun("id-4", "backup:4", Status.QUEUED, WaitingFor.CONDITION)
REPLACING = ActiveRun("id-5", "backup:5", Status.QUEUED, WaitingFor.REPLACED_RUN)


@pytest.mark.parametrize("policy", list(OverlapPolicy))
def test_r11_an_inactive_job_runs_under_every_policy(policy):
    assert judge(Overlap(policy), []) == Allow()


def test_r11_allow_runs_beside_whatever_is_active():
    assert judge(Overlap(OverlapPolicy.ALLOW), [RUNNING, QUEUED]) == Allow()


def test_r11_forbid_refuses_and_names_the_oldest_unfinished_run():
    assert judge(Overlap(), [RUNNING, QUEUED]) == Refuse(RUNNING, Reason.OVERLAP)


@pytest.mark.parametrize(
    ("depth", "active", "verdict"),
    [
        (0, [RUNNING], Refuse(RUNNING)),
        (1, [RUNNING], After("id-1")),
        (1, [RUNNING, QUEUED], Refuse(RUNNING)),
        (2, [RUNNING, QUEUED], After("id-2")),
        (2, [RUNNING, QUEUED, THIRD], Refuse(RUNNING)),
    ],
)
def test_r11_queue_holds_one_and_its_depth_and_each_waits_for_the_newest(depth, active, verdict):
    assert judge(Overlap(OverlapPolicy.QUEUE, depth), active) == verdict


@pytest.mark.parametrize("policy", [OverlapPolicy.FORBID, OverlapPolicy.QUEUE])
def test_r11_a_run_that_waits_for_a_condition_gives_its_reason(policy):
    assert judge(Overlap(policy, 1), [HELD, QUEUED]) == Refuse(HELD, Reason.CONDITION)


def test_r11_a_condition_further_back_in_the_queue_is_not_the_reason():
    assert judge(Overlap(), [RUNNING, HELD]) == Refuse(RUNNING, Reason.OVERLAP)


def test_r12_replace_takes_the_place_of_every_unfinished_run():
    active = [RUNNING, HELD, REPLACING]
    assert judge(Overlap(OverlapPolicy.REPLACE), active) == Replace(("id-1", "id-4", "id-5"))


@pytest.mark.parametrize("policy", [OverlapPolicy.QUEUE, OverlapPolicy.FORBID, OverlapPolicy.REPLACE])
@pytest.mark.parametrize("trigger", [Trigger.SCHEDULE, Trigger.MANUAL])
def test_r11_who_stands_in_line_waits_for_all_that_came_before(policy, trigger):
    assert waits_for_all(Overlap(policy), trigger)


def test_r11_a_backfill_and_where_any_number_may_run_waits_for_its_predecessor_alone():
    assert not waits_for_all(Overlap(OverlapPolicy.QUEUE), Trigger.BACKFILL)
    assert not waits_for_all(Overlap(OverlapPolicy.ALLOW), Trigger.SCHEDULE)
