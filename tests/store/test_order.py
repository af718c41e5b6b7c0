"""Conformance: the order of the queue over all lanes, places and moves (INV-004, DEC-005, R-03)."""

import random
from itertools import islice

import pytest

from rota.engine.transactions.enqueue import Aim, Where, move
from rota.model.errors import InvariantRefused
from rota.model.spec import Draw
from rota.model.states import Status, WaitingFor
from rota.store.tables import queue, runs
from tests.store.making import MINUTE, NOW, SECOND, add_holder, add_job, add_run, look, run_in, seen


def handles(store):
    return store.read(lambda db: [run.handle for run in queue.runs_of(db, queue.ready(db, limit=1000))])


def waiting_handles(store):
    return store.read(lambda db: [run.handle for run in queue.runs_of(db, queue.waiting(db, limit=1000))])


def lanes(store, count):
    def make(db):
        queue.declare_pools(db, {f"pool-{number}": 1 for number in range(count)})
        return [queue.lane_of(db, [Draw(f"pool-{number}")]) for number in range(count)]

    return store.write(make)


def go(store, moved, where, **aim):
    store.write(lambda db: move(db, [seen(db, run.id) for run in moved], Aim(where, **aim)))


def test_the_queue_is_in_order_of_priority_position_creation_and_identifier_inv_004(store):
    """INV-004, over several lanes: rank DESC, position, created_at, id."""
    job, found = add_job(store), lanes(store, 3)
    made = [
        add_run(store, job, at=NOW + number * SECOND, lane_id=found[number % 3], priority=number % 2, rank=number % 2)
        for number in range(9)
    ]
    same = [add_run(store, job, at=NOW + MINUTE, position=5, priority=0) for _ in range(2)]
    later = add_run(store, job, at=NOW + 2 * MINUTE, position=5)
    expected = [*made[1::2], *same, later, *made[0::2]]
    assert handles(store) == [run.handle for run in expected]


def test_only_what_may_be_claimed_has_a_place_and_what_waits_keeps_the_same_order_r_02(store):
    job = add_job(store)
    first, second, third = (add_run(store, job, at=NOW + number * SECOND) for number in range(3))
    late, soon = (
        add_run(store, job, at=NOW + MINUTE, waiting_for=WaitingFor.BACKOFF, not_before=NOW, position=position)
        for position in (9, 8)
    )
    run_in(store, Status.RUNNING, job, holder=add_holder(store))
    assert handles(store) == [first.handle, second.handle, third.handle]
    assert waiting_handles(store) == [soon.handle, late.handle]
    counted = store.read(lambda db: (queue.count_ready(db, limit=2), queue.count_waiting(db, limit=10)))
    assert counted == (2, 2)


def test_a_place_is_counted_over_lanes_and_priorities_and_ends_at_the_limit(store):
    job, found = add_job(store), lanes(store, 2)
    low = [add_run(store, job, at=NOW + number * SECOND, lane_id=found[number % 2]) for number in range(6)]
    high = [add_run(store, job, at=NOW + MINUTE, priority=3, rank=3) for _ in range(2)]
    places = [store.read(lambda db, run=run: queue.place_in_queue(db, run, limit=7)) for run in (*high, *low)]
    assert places == [1, 2, 3, 4, 5, 6, 7, None]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("fetch", [1, 3, 100])
@pytest.mark.parametrize("count", [4, 50])
def test_a_walk_meets_everybody_once_in_order_however_little_it_fetches(store, back, fetch, count):
    job, found = add_job(store), lanes(store, count)
    drawn = random.Random(7)
    for number in range(150):
        waits = {"waiting_for": WaitingFor.PREDECESSOR} if number % 5 == 0 else {"lane_id": drawn.choice(found)}
        add_run(store, job, at=NOW + number * SECOND, position=drawn.randrange(40), **waits)
    end = queue.END if back else queue.START
    walked = store.read(lambda db: list(queue.walk(db, 0, end, back=back, fetch=fetch)))
    assert len(walked) == 150
    assert walked == sorted(walked, reverse=back)
    middle = walked[30]
    beyond = store.read(lambda db: list(islice(queue.walk(db, 0, middle, back=back), 5)))
    assert beyond == walked[31:36]


def test_runs_move_to_each_end_before_another_and_to_a_place_dec_005(store):
    """DEC-005: several at once keep their given order."""
    job, found = add_job(store), lanes(store, 2)
    a, b, c, d, e = made = [
        add_run(store, job, at=NOW + number * SECOND, lane_id=found[number % 2]) for number in range(5)
    ]
    go(store, [d], Where.FIRST)
    assert handles(store) == [run.handle for run in (d, a, b, c, e)]
    go(store, [c, a], Where.LAST)
    assert handles(store) == [run.handle for run in (d, b, e, c, a)]
    go(store, [a, e], Where.BEFORE, other=look(store, b))
    assert handles(store) == [run.handle for run in (d, a, e, b, c)]
    go(store, [d], Where.TO, place=3)
    assert handles(store) == [run.handle for run in (a, e, d, b, c)]
    go(store, [a], Where.TO, place=900)
    assert handles(store) == [run.handle for run in (e, d, b, c, a)]
    assert {look(store, run).rank for run in made} == {0}


def test_a_move_to_a_place_stops_at_the_border_of_its_priority_inv_004(store):
    job = add_job(store)
    high = [add_run(store, job, at=NOW + number * SECOND, priority=5, rank=5) for number in range(2)]
    low = [add_run(store, job, at=NOW + number * SECOND) for number in range(3)]
    go(store, [low[2]], Where.TO, place=1)
    assert handles(store) == [run.handle for run in (*high, low[2], low[0], low[1])]
    go(store, [high[0]], Where.TO, place=4)
    assert handles(store) == [run.handle for run in (high[1], high[0], low[2], low[0], low[1])]


def test_a_gap_that_closes_is_opened_anew_and_nobody_else_changes_place_r_03(store):
    """R-03: forty moves into the same gap between runs of one position, those that wait among them."""
    job = add_job(store)
    still = [add_run(store, job, position=7) for _ in range(20)]
    waiting = [add_run(store, job, position=7, waiting_for=WaitingFor.PREDECESSOR) for _ in range(5)]
    everybody = sorted([*still, *waiting], key=lambda run: run.id)
    moving = [add_run(store, job, at=NOW + MINUTE) for _ in range(40)]
    for run in moving:
        go(store, [run], Where.BEFORE, other=look(store, still[10]))
    expected = [*still[:10], *moving, *still[10:]]
    assert handles(store) == [run.handle for run in expected]
    assert waiting_handles(store) == [run.handle for run in waiting]
    after = sorted((look(store, run) for run in everybody), key=queue.spot_of)
    assert [run.id for run in after] == [run.id for run in everybody]


def test_a_run_that_waits_can_be_moved_and_stands_there_when_it_is_let_go(store):
    job = add_job(store)
    first, second = (add_run(store, job, at=NOW + number * SECOND) for number in range(2))
    waits = add_run(store, job, at=NOW + MINUTE, waiting_for=WaitingFor.BACKOFF, not_before=NOW)
    go(store, [waits], Where.BEFORE, other=look(store, second))
    assert handles(store) == [first.handle, second.handle]
    store.write(lambda db: db.execute("runs_let_go", now=10**15))
    assert handles(store) == [first.handle, waits.handle, second.handle]


def test_new_runs_still_come_last_after_a_thousand_moves_to_the_end_dec_005(store):
    """DEC-005: moves to the end stay within the millisecond of the last run."""
    job = add_job(store)
    old = [add_run(store, job, at=NOW + number * SECOND) for number in range(3)]
    for number in range(300):
        go(store, [old[number % 3]], Where.LAST)
    new = add_run(store, job, at=NOW + 3 * SECOND)
    assert handles(store)[-1] == new.handle


def test_a_change_that_the_schema_refuses_is_told_in_words_inv_001(store):
    """INV-001: a code path that forgets to ask meets the trigger, and its refusal names the rule."""
    holder = add_holder(store)
    run = run_in(store, Status.DISPATCHED, add_job(store), holder=holder)
    store.write(lambda db: runs.release_run(db, run.id, epoch=holder.epoch))
    with pytest.raises(InvariantRefused, match="frozen from its first dispatch") as refused:
        store.write(lambda db: queue.set_params(db, run.id, {"full": False}))
    assert refused.value.rule == "INV-001"
    assert look(store, run).params == run.params
