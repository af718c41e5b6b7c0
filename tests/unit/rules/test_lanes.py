"""Who goes next (R-03, INV-004): lanes give what a look at every queued run in order would give."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.spec import Draw
from rota.rules.queue_order import Head, Pool, Room, room_of, shortage, walk
from rota.text.jobs import say_room, say_shortage

NOTHING: tuple[Draw, ...] = ()
ELEVEN = datetime(2026, 11, 15, 11, tzinfo=UTC)


def key(name: str) -> int:
    """Return a key of a run that sorts as its name does."""
    return int.from_bytes(name.encode().ljust(8))


def name_of(head: Head) -> str:
    return head.seq.to_bytes(8).decode().rstrip()


def run(name: str, *draws: Draw, rank: int = 0, position: int = 0) -> Head:
    return Head((-rank, position, 0, key(name)), lane_id=hash(draws), draws=draws)


def go(queued: Sequence[Head], room: Room, *, free: int = 99) -> list[str]:
    """Walk the lanes of `queued`, each in its own order, and return who goes."""
    lanes: dict[tuple[Draw, ...], list[Head]] = {}
    for head in sorted(queued, key=lambda head: head.order):
        lanes.setdefault(head.draws, []).append(head)
    heads = sorted((lane.pop(0) for lane in lanes.values()), key=lambda head: head.order)

    def following(head: Head) -> Head | None:
        rest = lanes[head.draws]
        return rest.pop(0) if rest else None

    return [name_of(head) for head in walk(heads, room, free=free, following=following)]


def room(**capacities: int) -> Room:
    return room_of(Pool(name, capacity, 0) for name, capacity in capacities.items())


def test_the_order_is_rank_then_position_then_age_then_key():
    """INV-004, DEC-005."""
    queued = [run("d", position=2), run("c", position=1), run("b", position=1), run("a", rank=5, position=9)]
    assert go(queued, room()) == ["a", "b", "c", "d"]


def test_no_more_go_than_slots_are_free():
    assert go([run(name) for name in "abc"], room(), free=2) == ["a", "b"]


def test_a_pool_of_one_lets_one_go():
    """CON-002, DEC-011."""
    assert go([run("a", Draw("ollama")), run("b", Draw("ollama"))], room(ollama=1)) == ["a"]


def test_a_full_pool_holds_back_nobody_else():
    """R-03."""
    queued = [run("a", Draw("ollama")), run("b", Draw("ollama")), run("c", Draw("gpu")), run("d")]
    assert go(queued, room(ollama=0, gpu=1)) == ["c", "d"]


def test_a_costly_head_is_not_overtaken_in_its_pool():
    """R-03: the pool is kept for it until it fits."""
    queued = [run("costly", Draw("gpu", 2), position=1), run("cheap", Draw("gpu"), position=2)]
    half = Room(capacity={"gpu": 2}, left={"gpu": 1})
    assert go(queued, half) == []
    assert go(queued, room(gpu=2)) == ["costly"]


def test_a_head_of_two_pools_keeps_only_the_one_that_it_lacks():
    """R-03: runs of other pools go on."""
    queued = [run("both", Draw("a"), Draw("b"), position=1), run("b", Draw("b"), position=2)]
    assert go(queued, room(a=0, b=1)) == ["b"]
    short = Room(capacity={"a": 1, "b": 1}, left={"a": 0, "b": 1})
    assert go([*queued, run("a", Draw("a"), position=3)], short) == ["b"]


def test_a_run_that_can_never_fit_keeps_nothing():
    """R-03: nothing that others give back would help it."""
    queued = [run("huge", Draw("gpu", 3), position=1), run("small", Draw("gpu"), position=2)]
    assert go(queued, room(gpu=2)) == ["small"]


def test_a_pool_that_nobody_knows_has_no_room():
    assert go([run("a", Draw("gone")), run("b")], room()) == ["b"]


def test_a_pool_that_is_already_held_is_left_alone():
    """R-13: a waiting direct call holds its pools against the queue."""
    held = room(gpu=2)
    held.held.add("gpu")
    assert go([run("a", Draw("gpu")), run("b")], held) == ["b"]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(0, 3),
            st.dictionaries(st.sampled_from("xyz"), st.integers(1, 3), max_size=2),
        ),
        max_size=12,
    ),
    st.dictionaries(st.sampled_from("xyz"), st.tuples(st.integers(0, 4), st.integers(0, 4))),
    st.integers(0, 5),
)
def test_lanes_give_what_an_ordered_look_at_every_run_gives(drawn, pools, free):
    """R-03: lanes only make it cheap, and so does leaving out full pools and lanes that draw on nothing else."""
    queued = [
        run(f"{number:02}", *(Draw(*one) for one in sorted(costs.items())), rank=rank, position=position)
        for number, (rank, position, costs) in enumerate(drawn)
    ]
    found = [Pool(name, capacity, used) for name, (capacity, used) in pools.items()]
    wanted = looked_at_one_by_one(queued, found, free)
    assert go(queued, room_of(found), free=free) == wanted
    full = {pool.name for pool in found if pool.used >= pool.capacity}
    open_ = [head for head in queued if not head.draws or any(draw.pool not in full for draw in head.draws)]
    assert go(open_, room_of(pool for pool in found if pool.name not in full), free=free) == wanted


def looked_at_one_by_one(queued: Sequence[Head], pools: Sequence[Pool], free: int) -> list[str]:
    capacity = {pool.name: pool.capacity for pool in pools}
    left = {pool.name: pool.capacity - pool.used for pool in pools}
    held: set[str] = set()
    gone: list[str] = []
    for head in sorted(queued, key=lambda head: head.order):
        if len(gone) == free:
            break
        lacking = [draw for draw in head.draws if left.get(draw.pool, 0) < draw.cost]
        if not lacking and held.isdisjoint(draw.pool for draw in head.draws):
            gone.append(name_of(head))
            for draw in head.draws:
                left[draw.pool] -= draw.cost
        held |= {draw.pool for draw in lacking if draw.cost <= capacity.get(draw.pool, 0)}
    return gone


class TestShortage:
    def test_a_run_with_room_lacks_nothing(self):
        assert shortage(run("a", Draw("gpu")), [Pool("gpu", 1, 0)], []) is None

    def test_the_first_full_pool_in_the_order_of_names_is_named(self):
        found = shortage(run("a", Draw("gpu"), Draw("ollama")), [Pool("gpu", 1, 1), Pool("ollama", 1, 1)], [])
        assert found is not None
        assert (found.pool.name, found.behind) == ("gpu", None)
        assert say_shortage(found, holders=["b:1"]) == 'the pool "gpu": 1 of 1 used by b:1'

    def test_a_pool_that_is_kept_for_an_earlier_run_names_that_run(self):
        costly = run("costly", Draw("gpu", 2), position=1)
        found = shortage(run("a", Draw("gpu"), position=2), [Pool("gpu", 2, 1)], [costly])
        assert found is not None
        assert found.behind == key("costly")
        assert say_shortage(found, behind="costly:1") == 'the pool "gpu", which is reserved for costly:1'

    def test_a_later_run_keeps_nothing_from_it(self):
        later = run("later", Draw("gpu", 2), position=3)
        assert shortage(run("a", Draw("gpu"), position=2), [Pool("gpu", 2, 1)], [later]) is None

    @pytest.mark.parametrize(
        ("pool", "cost", "said"),
        [
            (Pool("gpu", 1, 0), 2, 'the pool "gpu" has 1, and it needs 2: raise its capacity'),
            (Pool("gpu", 0, 0), 1, 'the pool "gpu" has 0, and it needs 1: raise its capacity'),
            (
                Pool("gpu", 0, 0, declared=False),
                1,
                'the pool "gpu" has 0 and is no longer declared, and it needs 1: raise its capacity',
            ),
            (Pool("gpu", 3, 2), 2, 'the pool "gpu": 2 of 3 used, and it needs 2'),
        ],
    )
    def test_a_cost_that_does_not_fit_is_told(self, pool, cost, said):
        found = shortage(run("a", Draw("gpu", cost)), [pool], [])
        assert found is not None
        assert say_shortage(found) == said


@pytest.mark.parametrize(
    ("pools", "said"),
    [
        ([Pool("gpu", 2, 1), Pool("provider:x", 9, 1)], "gpu 1 of 2 → room"),
        ([Pool("gpu", 2, 2), Pool("provider:x", 9, 1)], "gpu 2 of 2 → waits for gpu"),
        ([Pool("gpu", 2, 2), Pool("provider:x", 9, 1, held_until=ELEVEN)], "gpu 2 of 2 → provider x held until 11:00"),
    ],
)
def test_whether_there_is_room_is_told_without_the_pools_of_providers(pools: list[Pool], said: str) -> None:
    draws = (Draw("gpu"), Draw("provider:x"))
    assert say_room(draws, pools, zone="UTC", now=ELEVEN - timedelta(hours=5)) == said


def test_nothing_is_kept_for_somebody_whose_provider_is_held() -> None:
    """R-03: what others give back would not help it."""
    held = [Pool("gpu", 3, 1), Pool("provider:x", 9, 0, held_until=ELEVEN)]
    room = room_of(held)
    room.hold((Draw("gpu", 3), Draw("provider:x")))
    assert room.held == set()
    room.hold((Draw("gpu", 3),))
    assert room.held == {"gpu"}
