"""The arithmetic of positions: whatever is moved, the order is that of a list (DEC-005, R-03)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.rules.queue_order import ROOM, STEP, between, spread

FIRST_WINDOW = 4


def move(queue, moved, at):
    """Move runs (name, position) of a sorted queue before the one at `at` of those left, as the engine does."""
    left = [one for one in queue if one not in moved]
    before, after = left[:at][::-1], left[at:]
    window, found = 0, None
    while found is None:
        found = spread(
            [position for _, position in before],
            [position for _, position in after],
            moved=len(moved),
            window=window,
            origin=min(position for _, position in queue),
        )
        used, window = window, window * 2 or FIRST_WINDOW
    names = [name for name, _ in (*before[:used][::-1], *moved, *after[:used])]
    fresh = dict(zip(names, (*found.before, *found.moved, *found.after), strict=True))
    return sorted(((name, fresh.get(name, position)) for name, position in queue), key=lambda one: (one[1], one[0]))


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(1, 3)), max_size=30),
)
def test_after_any_sequence_of_moves_the_order_is_that_of_a_list_dec_005(positions, moves):
    """DEC-005: also where runs began with equal positions, and where the gap closed again and again."""
    queue = sorted(((name, position) for name, position in enumerate(positions)), key=lambda one: (one[1], one[0]))
    model = [name for name, _ in queue]
    for begin, behind, count in moves:
        start = begin % len(queue)
        moved = queue[start : start + count]
        names = [name for name, _ in moved]
        model = [name for name in model if name not in names]
        at = behind % (len(model) + 1)
        model[at:at] = names
        queue = move(queue, moved, at)
        assert [name for name, _ in queue] == model


@given(st.integers(-(1 << 40), 1 << 40), st.integers(0, 1 << 20), st.integers(1, 40), st.integers(1, 64))
def test_positions_between_two_rise_strictly_and_keep_the_distance(low, gap, count, least):
    found = between(low, low + gap, count, least=least)
    if found is None:
        assert gap < least * (count + 1)
    else:
        assert len(found) == count
        assert all(second - first >= least for first, second in pairwise([low, *found, low + gap]))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (None, 0, [-2 * STEP, -STEP]),
        (0, None, [STEP, 2 * STEP]),
        (None, None, [7, 7 + STEP]),
    ],
)
def test_an_open_end_has_room_for_any_number(low, high, expected):
    assert between(low, high, 2, origin=7) == expected


def test_a_closed_gap_is_refused_without_a_window_and_opened_by_one_r_03():
    before, after = [10, 9, 8, 7, -1000], [10, 11, 12, 13, 1000]
    assert spread(before, after, moved=1, window=0) is None
    found = spread(before, after, moved=1, window=4)
    assert found is not None
    placed = [*found.before, *found.moved, *found.after]
    assert len(placed) == 9
    assert all(second - first >= ROOM for first, second in pairwise([-1000, *placed, 1000]))


def test_runs_beyond_the_window_keep_their_positions_r_03():
    assert spread([5, 0], [6, 7], moved=1, window=1) is None
    found = spread([5, -100], [6, 100], moved=1, window=1)
    assert found is not None
    assert -100 < found.before[0] < found.moved[0] < found.after[0] < 100
