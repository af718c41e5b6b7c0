"""R-15, DEC-012, INV-006: what a group does next and how it ends, held against the words by enumeration."""

from itertools import product

import pytest

from rota.model.spec import GroupMode, OnFailure
from rota.model.states import GroupStatus, Reason, Status
from rota.rules.groups import Cancel, Finish, KeepWaiting, MemberState, Start, final_status, next_step, to_repeat

SEQUENTIAL, PARALLEL = GroupMode.SEQUENTIAL, GroupMode.PARALLEL
STOP, CONTINUE = OnFailure.STOP, OnFailure.CONTINUE
FINAL = (Status.COMPLETED, Status.FAILED, Status.SKIPPED, Status.CANCELLED)
POLICIES = list(product((SEQUENTIAL, PARALLEL), (STOP, CONTINUE)))

STANDS = {
    "held": (Status.QUEUED, True, False),
    "ready": (Status.QUEUED, False, False),
    "retrying": (Status.QUEUED, False, True),
    "running": (Status.RUNNING, False, False),
    **{status.value.lower(): (status, False, False) for status in FINAL},
}
"""Every way in which a place can stand."""


def place(number, stand, *, always=False):
    status, held, tried = STANDS[stand]
    return MemberState(number, status, always=always, held=held, tried=tried)


def all_groups(size=3):
    """Return every group of `size` places, each ordinary or always, standing in every way."""
    for stands in product(STANDS, repeat=size):
        for always in product((False, True), repeat=size):
            pairs = enumerate(zip(stands, always, strict=True), start=1)
            yield [place(number, stand, always=last) for number, (stand, last) in pairs]


def in_words(mode, on_failure, places, cancelled):
    """Return what R-15 says of a group, word by word, in another shape than the rule's."""
    final = {one.number for one in places if one.status in FINAL}
    if len(final) == len(places):
        return Finish(status_in_words([one.status for one in places], cancelled))
    queued = [one for one in places if one.status is Status.QUEUED]
    if cancelled:  # queued members are cancelled, and no member starts any more
        return Cancel(tuple(one.number for one in queued), Reason.GROUP_CANCELLED) if queued else KeepWaiting()
    ordinary = [one for one in places if not one.always]
    bad = [one.number for one in ordinary if one.status in (Status.FAILED, Status.CANCELLED)]
    if on_failure is STOP and bad:
        rest = [one for one in queued if not one.always and not one.tried]
        rest = [one.number for one in rest if mode is PARALLEL or one.number > bad[0]]
        if rest:
            return Cancel(tuple(rest), Reason.PREDECESSOR_FAILED, because=bad[0])
    stage = ordinary if any(one.number not in final for one in ordinary) else [one for one in places if one.always]
    if mode is PARALLEL:
        starts = [one.number for one in stage if one.held]
    else:
        turn = next(one for one in stage if one.number not in final)
        starts = [turn.number] if turn.held else []
    return Start(tuple(starts)) if starts else KeepWaiting()


def status_in_words(statuses, cancelled):
    if set(statuses) <= {Status.COMPLETED, Status.SKIPPED}:
        return GroupStatus.COMPLETED
    if cancelled and Status.COMPLETED not in statuses and Status.FAILED not in statuses:
        return GroupStatus.CANCELLED
    return GroupStatus.PARTIAL


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize(("mode", "on_failure"), POLICIES)
def test_every_group_of_three_does_what_the_words_say(mode, on_failure, cancelled):
    """R-15 and DEC-012, over all 4,096 ways in which three places can stand."""
    for places in all_groups():
        told = next_step(mode, on_failure, places, cancelled=cancelled)
        assert told == in_words(mode, on_failure, places, cancelled), places


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize(("mode", "on_failure"), POLICIES)
def test_a_group_is_final_exactly_when_all_its_members_are(mode, on_failure, cancelled):
    """INV-006."""
    for places in all_groups():
        finishes = isinstance(next_step(mode, on_failure, places, cancelled=cancelled), Finish)
        assert finishes == all(one.status in FINAL for one in places)


@pytest.mark.parametrize(("mode", "on_failure"), POLICIES)
@pytest.mark.parametrize("cancelled_after", [None, 0, 2, 4])
def test_a_group_always_comes_to_its_end(mode, on_failure, cancelled_after):
    """Played with every ending of four members: it never stands still while nobody runs, and starts nobody twice."""
    for endings in product(FINAL, repeat=4):
        started = play(mode, on_failure, endings, cancelled_after=cancelled_after)
        assert len(started) == len(set(started))


def play(mode, on_failure, endings, *, cancelled_after):
    """Let a group of four, the last of which always runs, run to its end; return the places as they started."""
    places = {number: place(number, "held", always=number == 4) for number in range(1, 5)}
    started = []
    for turn in range(20):
        cancelled = cancelled_after is not None and turn >= cancelled_after
        step = next_step(mode, on_failure, list(places.values()), cancelled=cancelled)
        match step:
            case Finish():
                return started
            case Start(numbers):
                started += numbers
                places |= {number: place(number, "running", always=number == 4) for number in numbers}
            case Cancel(numbers):
                places |= {number: place(number, "cancelled", always=number == 4) for number in numbers}
            case KeepWaiting():
                running = next(number for number, one in places.items() if one.status is Status.RUNNING)
                places[running] = place(running, endings[running - 1].value.lower(), always=running == 4)
    raise AssertionError(f"the group did not end: {places}")


def test_a_failure_cancels_the_rest_of_a_sequence_and_then_the_always_member_starts():
    """DEC-012."""
    places = [place(1, "completed"), place(2, "failed"), place(3, "held"), place(4, "held", always=True)]
    stopped = next_step(SEQUENTIAL, STOP, places, cancelled=False)
    assert stopped == Cancel((3,), Reason.PREDECESSOR_FAILED, because=2)
    places[2] = place(3, "cancelled")
    assert next_step(SEQUENTIAL, STOP, places, cancelled=False) == Start((4,))


def test_a_failure_that_is_tried_again_stops_nothing_yet():
    """DEC-012: a failed member is retried before the group decides to stop."""
    places = [place(1, "retrying"), place(2, "held")]
    assert next_step(SEQUENTIAL, STOP, places, cancelled=False) == KeepWaiting()


def test_a_skipped_member_does_not_stop_a_sequence():
    places = [place(1, "skipped"), place(2, "held")]
    assert next_step(SEQUENTIAL, STOP, places, cancelled=False) == Start((2,))


def test_a_member_cancelled_before_its_turn_stops_only_those_after_it():
    places = [place(1, "running"), place(2, "held"), place(3, "cancelled"), place(4, "held")]
    stopped = next_step(SEQUENTIAL, STOP, places, cancelled=False)
    assert stopped == Cancel((4,), Reason.PREDECESSOR_FAILED, because=3)


def test_a_failure_beside_others_cancels_only_what_has_not_started():
    places = [place(1, "failed"), place(2, "running"), place(3, "ready"), place(4, "retrying")]
    stopped = next_step(PARALLEL, STOP, places, cancelled=False)
    assert stopped == Cancel((3,), Reason.PREDECESSOR_FAILED, because=1)


@pytest.mark.parametrize(
    ("statuses", "cancelled", "told"),
    [
        ("COMPLETED SKIPPED", False, "COMPLETED"),
        ("SKIPPED SKIPPED", False, "COMPLETED"),
        ("COMPLETED COMPLETED", True, "COMPLETED"),
        ("COMPLETED FAILED CANCELLED", False, "PARTIAL"),
        ("COMPLETED CANCELLED", True, "PARTIAL"),
        ("FAILED CANCELLED", True, "PARTIAL"),
        ("CANCELLED SKIPPED", True, "CANCELLED"),
        ("CANCELLED CANCELLED", True, "CANCELLED"),
        ("CANCELLED CANCELLED", False, "PARTIAL"),
    ],
)
def test_the_status_of_a_group_follows_from_its_members(statuses, cancelled, told):
    """R-15, INV-006."""
    assert final_status([Status(word) for word in statuses.split()], cancelled=cancelled) == told


def test_a_sequence_is_repeated_from_its_first_failed_member_on():
    places = [place(1, "completed"), place(2, "failed"), place(3, "completed"), place(4, "completed", always=True)]
    assert to_repeat(SEQUENTIAL, places) == (2, 3, 4)


def test_of_a_parallel_group_only_what_failed_and_what_always_runs_is_repeated():
    places = [place(1, "completed"), place(2, "failed"), place(3, "completed"), place(4, "completed", always=True)]
    assert to_repeat(PARALLEL, places) == (2, 4)


@pytest.mark.parametrize("mode", list(GroupMode))
def test_nothing_is_repeated_of_a_group_that_completed(mode):
    assert to_repeat(mode, [place(1, "completed"), place(2, "skipped", always=True)]) == ()


@pytest.mark.parametrize(("mode", "on_failure"), POLICIES)
def test_the_final_places_that_decide_nothing_may_be_left_out(mode, on_failure):
    """What the engine reads of a long group leads to the same step as all of it."""
    for places in all_groups():
        unfinished = [one for one in places if one.status not in FINAL]
        failed = [one for one in places if not one.always and one.status in (Status.FAILED, Status.CANCELLED)][:1]
        if not unfinished:
            continue
        if mode is SEQUENTIAL and not (failed and on_failure is STOP):
            unfinished = sorted(unfinished, key=lambda one: (one.always, one.number))[:1]
        few = sorted([*unfinished, *failed], key=lambda one: one.number)
        whole = next_step(mode, on_failure, places, cancelled=False)
        assert next_step(mode, on_failure, few, cancelled=False) == whole, places
