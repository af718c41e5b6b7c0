"""Holds of providers as rows: what they close, when they end, what is remembered of them (section 8)."""

from datetime import UTC, datetime, timedelta
from functools import partial

from rota.model.agents import PLENTY, AgentProblem, ProviderHold, provider_pool
from rota.model.spec import Draw
from rota.store.driver import Database, Store
from rota.store.tables import queue

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
POOL = provider_pool("acme")


def hold(provider: str = "acme", *, until: datetime | None = NOON + HOUR, stated: bool = True) -> ProviderHold:
    return ProviderHold(provider, until, stated, 2, "used up", "run-1", NOON, AgentProblem.QUOTA, NOON)


def put(store: Store, *found: ProviderHold) -> None:
    def write(db: Database) -> None:
        queue.declare_pools(db, {POOL: PLENTY, "gpu": 1})
        queue.lane_of(db, [Draw("gpu"), Draw(POOL)])
        for one in found:
            queue.put_hold(db, one)

    store.write(write)


def test_a_hold_is_read_as_it_was_stored(store: Store) -> None:
    put(store, hold("b"), hold("a", until=None))
    assert store.read(partial(queue.hold_of, provider="b")) == hold("b")
    assert store.read(partial(queue.hold_of, provider="a")) == hold("a", until=None)
    assert store.read(partial(queue.hold_of, provider="c")) is None
    assert store.read(queue.holds) == [hold("b")]


def test_the_pool_of_a_held_provider_gives_nothing_and_takes_back(store: Store) -> None:
    put(store)
    assert store.write(partial(queue.take, draws=[Draw("gpu"), Draw(POOL)]))
    put(store, hold())
    room = store.read(queue.room)
    assert (room.closed, room.lacks([Draw(POOL)])) == ({POOL}, POOL)
    assert not store.write(partial(queue.take, draws=[Draw(POOL)]))
    lane = store.read(partial(queue.lane_of, draws=[Draw("gpu"), Draw(POOL)]))
    store.write(partial(queue.give_back, lane_ids=[lane]))
    assert {pool.name: (pool.used, pool.held_until) for pool in store.read(queue.pools)} == {
        "gpu": (0, None),
        POOL: (0, NOON + HOUR),
    }


def test_declaring_pools_again_leaves_a_hold(store: Store) -> None:
    put(store, hold())
    put(store)
    assert store.read(queue.room).closed == {POOL}


def test_a_hold_ends_at_its_moment_and_its_count_is_remembered(store: Store) -> None:
    put(store, hold(), hold("later", until=NOON + 2 * HOUR))
    assert store.read(queue.next_end) == NOON + HOUR
    assert store.write(partial(queue.end_due, now=NOON + HOUR - timedelta(milliseconds=1))) == []
    assert store.write(partial(queue.end_due, now=NOON + HOUR)) == ["acme"]
    assert store.read(queue.room).closed == set()
    assert store.read(partial(queue.hold_of, provider="acme")) == hold(until=None)
    assert store.read(queue.next_end) == NOON + 2 * HOUR


def test_forgetting_tells_whether_it_was_held(store: Store) -> None:
    put(store, hold(), hold("over", until=None))
    forgotten = [store.write(partial(queue.forget_hold, provider=name)) for name in ("acme", "over", "unknown")]
    assert forgotten == [True, False, False]
    assert store.read(queue.next_end) is None


def test_only_ends_that_nobody_stated_move_with_the_clock(store: Store) -> None:
    """R-26."""
    put(store, hold("stated"), hold("guessed", stated=False))
    store.write(partial(queue.shift, back=HOUR))
    found = {one.provider: (one.until, one.set_at) for one in store.read(queue.holds)}
    assert found == {"stated": (NOON + HOUR, NOON), "guessed": (NOON, NOON - HOUR)}
