"""Why a run that may be claimed is not running, derived (R-02, R-03, R-13)."""

import pytest

from rota.model.spec import Draw, Overlap, OverlapPolicy
from rota.model.states import Held, Status
from rota.rules.admission import ActiveRun, After, Allow, Hold, Refuse, TooMany, holds, judge_many
from rota.rules.queue_order import Room

GPU, BOTH = (Draw("gpu"),), (Draw("cpu", 2), Draw("gpu"))
NEXT = Hold()


def room(**left: int) -> Room:
    return Room(capacity=dict.fromkeys(left, 3), left=left)


def told(draws, left, *, free=1, first=(), paused=False, served=True):
    return holds(draws, room(**left), paused=paused, served=lambda _draws: served, free=free, first=first)


def test_a_pause_comes_before_everything_and_then_a_missing_scheduler_r_02():
    assert told([(), GPU], {"gpu": 0}, paused=True, served=False) == [Hold(Held.PAUSED)] * 2
    assert told([(), GPU], {"gpu": 0}, served=False) == [Hold(Held.NO_WORKER)] * 2


def test_as_many_as_there_are_free_slots_start_next_and_the_others_wait_for_one():
    assert told([(), (), ()], {}, free=2) == [NEXT, NEXT, Hold(Held.SLOT)]


def test_a_run_that_lacks_a_pool_takes_no_slot_from_those_behind_it_r_03():
    assert told([GPU, ()], {"gpu": 0}) == [Hold(Held.POOL, "gpu"), NEXT]


def test_a_pool_is_kept_for_the_first_who_lacks_room_in_it_r_03():
    """R-03: a cheap run does not overtake a costly one that waits for the same pool."""
    assert told([(Draw("gpu", 2),), GPU], {"gpu": 1}, free=5) == [Hold(Held.POOL, "gpu")] * 2


def test_what_starts_takes_its_room_from_those_behind_it():
    assert told([BOTH, GPU, ()], {"cpu": 2, "gpu": 1}, free=5) == [NEXT, Hold(Held.POOL, "gpu"), NEXT]


def test_direct_callers_are_served_before_the_whole_queue_r_13():
    assert told([(), ()], {}, free=2, first=[()]) == [NEXT, Hold(Held.SLOT)]
    assert told([GPU], {"gpu": 1}, free=5, first=[GPU]) == [Hold(Held.POOL, "gpu")]


ACTIVE = ActiveRun("id-7", "backup:7", Status.RUNNING)


@pytest.mark.parametrize(
    ("policy", "depth", "active", "count", "expected"),
    [
        (OverlapPolicy.ALLOW, 1, [ACTIVE], 10_000, Allow()),
        (OverlapPolicy.FORBID, 1, [], 1, Allow()),
        (OverlapPolicy.FORBID, 1, [], 2, TooMany(1)),
        (OverlapPolicy.FORBID, 1, [ACTIVE], 1, Refuse(ACTIVE)),
        (OverlapPolicy.FORBID, 1, [ACTIVE], 2, TooMany(0)),
        (OverlapPolicy.QUEUE, 4, [], 5, Allow()),
        (OverlapPolicy.QUEUE, 4, [ACTIVE], 4, After("id-7")),
        (OverlapPolicy.QUEUE, 4, [ACTIVE], 5, TooMany(4)),
        (OverlapPolicy.REPLACE, 1, [], 2, TooMany(1)),
    ],
)
def test_overlap_is_judged_for_a_whole_set_r_11(policy, depth, active, count, expected):
    assert judge_many(Overlap(policy, queue_depth=depth), active, count=count) == expected
