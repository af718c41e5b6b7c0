"""Pools, lanes and the order of the queue in the database (R-03, R-04, CON-002, INV-004)."""

import os
import random
from datetime import timedelta

import pytest

from rota.engine.transactions.claim import ClaimCache, Claimed, ClaimOwner, ask_claim, claim, slots_to_fill
from rota.engine.transactions.enqueue import Aim, Where, move
from rota.engine.transactions.finish import end_runs, release_leaked, release_leaked_by
from rota.engine.transactions.insert import create_run
from rota.model.ids import begin_again, new_id
from rota.model.records import Job, Outcome
from rota.model.spec import Draw
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.rules.queue_order import NO_POOLS, Pool, room_of, walk
from rota.store.driver import Database, Store
from rota.store.tables import queue, runs
from tests.store.making import CANCELLED, DONE, NOW, PROCESS, add_holder, add_job, look, seen

TIMED_OUT = Outcome(Status.FAILED, Reason.TIMED_OUT)
OLLAMA = (Draw("ollama"),)
GPU = (Draw("gpu"),)


@pytest.fixture(autouse=True)
def fresh_ids() -> None:
    """Begin identifiers anew: those of other tests may lie in this one's future, and places are made of them."""
    begin_again(os.urandom)


def declare(store: Store, **capacities: int) -> None:
    store.write(lambda db: queue.declare_pools(db, capacities))


def used(store: Store) -> dict[str, int]:
    return {pool.name: pool.used for pool in store.read(queue.pools)}


def enqueue(store: Store, job: Job, *, later: int = 0, **changes) -> str:
    at = NOW + timedelta(milliseconds=later)
    newborn = runs.NewRun(id=new_id(at), job=job, trigger=Trigger.MANUAL, created_at=at, **changes)
    return store.write(lambda db: create_run(db, newborn)).id


def claim_for(store: Store, holder: ClaimOwner, *slots: int) -> list[Claimed]:
    return store.write(lambda db: claim(db, holder, slots, now=NOW))


def ids(claimed: list[Claimed]) -> list[str]:
    return [one.run.id for one in claimed]


def end(
    store: Store, claimed: Claimed, holder: ClaimOwner, outcome: Outcome = CANCELLED, *, kept: set[str] | None = None
):
    ending = runs.RunEnd(claimed.run.id, outcome, expected=Status.DISPATCHED, at=NOW)
    return store.write(lambda db: end_runs(db, [ending], epoch=holder.epoch, now=NOW, leaked=kept or ()))


class TestDeclaring:
    def test_capacities_change_at_once_and_what_is_used_stays(self, store):
        """R-03."""
        declare(store, ollama=1)
        store.write(lambda db: queue.take(db, OLLAMA))
        declare(store, ollama=3)
        (pool,) = store.read(queue.pools)
        assert (pool.name, pool.capacity, pool.used, pool.declared) == ("ollama", 3, 1, True)

    def test_a_pool_that_is_gone_from_the_file_and_never_drawn_on_is_gone(self, store):
        declare(store, ollama=1, gpu=2)
        declare(store, gpu=2)
        assert list(used(store)) == ["gpu"]

    def test_a_pool_that_a_lane_draws_on_stays_with_its_capacity_and_comes_back(self, store):
        """R-14: runs keep their definition, so older ones still draw on it."""
        declare(store, ollama=2)
        store.write(lambda db: queue.lane_of(db, OLLAMA))
        declare(store)
        (pool,) = store.read(queue.pools)
        assert (pool.capacity, pool.declared) == (2, False)
        declare(store, ollama=4)
        (pool,) = store.read(queue.pools)
        assert (pool.capacity, pool.declared) == (4, True)


class TestLanes:
    def test_a_run_without_pools_stands_in_the_first_lane(self, store):
        assert store.write(lambda db: queue.lane_of(db, ())) == NO_POOLS

    def test_the_same_draws_in_another_order_are_the_same_lane(self, store):
        declare(store, gpu=2, ollama=1)
        one = store.write(lambda db: queue.lane_of(db, [Draw("gpu", 2), Draw("ollama")]))
        other = store.write(lambda db: queue.lane_of(db, [Draw("ollama"), Draw("gpu", 2)]))
        dearer = store.write(lambda db: queue.lane_of(db, [Draw("ollama"), Draw("gpu", 1)]))
        assert one == other != dearer
        assert store.read(queue.lane_draws)[one] == (Draw("gpu", 2), Draw("ollama"))

    def test_a_lane_on_a_pool_that_nobody_declared_has_no_room(self, store):
        store.write(lambda db: queue.lane_of(db, OLLAMA))
        (pool,) = store.read(queue.pools)
        assert (pool.capacity, pool.declared) == (0, False)
        assert not store.write(lambda db: queue.take(db, OLLAMA))


class TestTaking:
    def test_a_pool_never_gives_more_than_it_has(self, store):
        """CON-002: the condition of the update decides."""
        declare(store, gpu=3)
        taken = [store.write(lambda db: queue.take(db, [Draw("gpu", 2)])) for _ in range(2)]
        assert (taken, used(store)) == ([True, False], {"gpu": 2})

    def test_a_draw_on_several_pools_takes_all_or_none(self, store):
        declare(store, a=1, b=0)
        assert not store.write(lambda db: queue.take(db, [Draw("a"), Draw("b")]))
        assert used(store) == {"a": 0, "b": 0}

    def test_a_pool_above_its_lowered_capacity_gives_nothing_until_enough_came_back(self, store):
        declare(store, gpu=3)
        lane = store.write(lambda db: queue.lane_of(db, [Draw("gpu")]))
        for _ in range(3):
            store.write(lambda db: queue.take(db, [Draw("gpu")]))
        declare(store, gpu=1)
        assert not store.write(lambda db: queue.take(db, [Draw("gpu")]))
        store.write(lambda db: queue.give_back(db, [lane, lane]))
        assert not store.write(lambda db: queue.take(db, [Draw("gpu")]))
        store.write(lambda db: queue.give_back(db, [lane]))
        assert store.write(lambda db: queue.take(db, [Draw("gpu")]))

    def test_more_cannot_come_back_than_was_taken(self, store, backend):
        declare(store, gpu=3)
        lane = store.write(lambda db: queue.lane_of(db, [Draw("gpu")]))
        with pytest.raises(backend.refusal, match=r"used >= 0|pool_used_check"):
            store.write(lambda db: queue.give_back(db, [lane]))


class TestClaiming:
    def test_two_runs_of_a_pool_of_one_never_run_together(self, store):
        """CON-002, DEC-011."""
        declare(store, ollama=1)
        job, holder = add_job(store, pools=OLLAMA), add_holder(store)
        first, second = enqueue(store, job), enqueue(store, job)
        (claimed,) = claim_for(store, holder, 0, 1)
        assert claimed.run.id == first
        assert claim_for(store, holder, 1) == []
        end(store, claimed, holder)
        assert ids(claim_for(store, holder, 0, 1)) == [second]

    def test_a_full_pool_never_holds_back_others(self, store):
        """R-03: also those of a lower priority behind it."""
        declare(store, ollama=0, gpu=1)
        holder = add_holder(store)
        enqueue(store, add_job(store, "full", pools=OLLAMA, priority=9))
        free = enqueue(store, add_job(store, "free"), later=1)
        other = enqueue(store, add_job(store, "other", pools=(Draw("gpu"),)), later=2)
        assert ids(claim_for(store, holder, 0, 1, 2)) == [free, other]

    def test_lanes_are_merged_in_the_order_of_the_queue(self, store):
        """INV-004."""
        declare(store, ollama=9)
        plain, drawing, holder = add_job(store, "plain"), add_job(store, "drawing", pools=OLLAMA), add_holder(store)
        queued = [enqueue(store, job, later=n) for n, job in enumerate([plain, drawing, drawing, plain, drawing])]
        assert ids(claim_for(store, holder, 0, 1)) == queued[:2]
        assert ids(claim_for(store, holder, 2, 3, 4, 5)) == queued[2:]

    def test_those_behind_a_long_line_of_a_full_pool_go_in_order(self, store):
        """R-03, INV-004: further back than a look at the front of the queue reaches."""
        declare(store, ollama=0, gpu=2)
        full, plain, holder = add_job(store, "full", pools=OLLAMA), add_job(store, "plain"), add_holder(store)
        other = add_job(store, "other", pools=GPU)
        for number in range(40):
            enqueue(store, full, later=number)
        queued = [enqueue(store, job, later=50 + n) for n, job in enumerate([plain, other, other, plain, other])]
        assert ids(claim_for(store, holder, 0, 1)) == queued[:2]
        assert ids(claim_for(store, holder, 2, 3)) == queued[2:4]
        assert claim_for(store, holder, 4) == []

    def test_a_costly_run_far_behind_keeps_its_pool_too(self, store):
        """R-03."""
        declare(store, ollama=0, gpu=2)
        full, cheap, holder = (
            add_job(store, "full", pools=OLLAMA),
            add_job(store, "cheap", pools=GPU),
            add_holder(store),
        )
        first = enqueue(store, cheap)
        assert ids(claim_for(store, holder, 0)) == [first]
        for number in range(40):
            enqueue(store, full, later=number)
        enqueue(store, add_job(store, "costly", pools=(Draw("gpu", 2),)), later=50)
        enqueue(store, cheap, later=51)
        plain = enqueue(store, add_job(store, "plain"), later=52)
        assert ids(claim_for(store, holder, 1, 2)) == [plain]

    @pytest.mark.parametrize("meanwhile", ["one comes in front", "it moves to the end", "it is taken"])
    def test_who_stands_behind_the_head_of_a_lane_is_never_the_head_itself_nor_one_before_it(self, store, meanwhile):
        """R-03: other machines change the queue between a look at the heads and the next one."""
        job, holder = add_job(store), add_holder(store)
        first, second, third = (enqueue(store, job, later=10 + number) for number in range(3))

        def look(db: Database) -> list[str]:
            (head,) = queue.heads(db)
            taken = seen(db, first)
            assert head.seq == taken.seq
            if meanwhile == "one comes in front":
                newborn = runs.NewRun(id=new_id(NOW), job=job, trigger=Trigger.MANUAL, created_at=NOW, priority=1)
                create_run(db, newborn)
            elif meanwhile == "it moves to the end":
                move(db, [seen(db, first)], Aim(Where.LAST))
            else:
                runs.claim_runs(
                    db,
                    [runs.ClaimedSlot(taken.seq, 0, started=False)],
                    worker_id=holder.worker_id,
                    epoch=holder.epoch,
                    now=NOW,
                )
            return [runs.run_by_seq(db, one.seq).id for one in queue.behind(db, head, limit=9)]

        assert store.write(look) == [second, third]

    @pytest.mark.parametrize("seed", range(12))
    def test_a_claim_takes_whom_a_look_at_every_run_in_order_would_take(self, store, seed):
        """R-03, INV-004: however it is cut short."""
        drawn = random.Random(seed)
        capacities = {name: drawn.randrange(3) for name in ("gpu", "ollama", "disk")}
        declare(store, **capacities)
        kinds = [(), OLLAMA, GPU, (Draw("gpu", 2),), (Draw("disk"), *GPU), (Draw("disk", 2), *OLLAMA)]
        made = [add_job(store, f"job-{number}", pools=draws) for number, draws in enumerate(kinds)]
        holder, often = add_holder(store), drawn.choices(made[1:], k=2)
        for number in range(40):
            enqueue(store, drawn.choice(often if number < 30 else made), later=number, priority=drawn.randrange(2))
        everybody = store.read(lambda db: queue.front(db, limit=99))
        by_key = store.read(lambda db: {head.seq: runs.run_by_seq(db, head.seq).id for head in everybody})
        room = room_of(Pool(name, capacity, 0) for name, capacity in capacities.items())
        free = drawn.randint(1, 3)
        wanted = walk(everybody, room, free=free, following=lambda _: None)
        assert len(everybody) == 40
        assert ids(claim_for(store, holder, *range(free))) == [by_key[head.seq] for head in wanted]

    def test_an_expired_run_takes_nothing_of_its_pool(self, store):
        declare(store, ollama=1)
        job, holder = add_job(store, pools=OLLAMA), add_holder(store)
        expired = enqueue(store, job, expires_at=NOW)
        assert claim_for(store, holder, 0) == []
        assert store.read(lambda db: runs.run_by_id(db, expired)).reason is Reason.EXPIRED
        assert used(store) == {"ollama": 0}

    def test_a_run_that_goes_back_to_the_queue_gives_its_pools_back(self, store):
        """R-01, R-09."""
        declare(store, ollama=1)
        job, holder = add_job(store, pools=OLLAMA), add_holder(store)
        run = enqueue(store, job)
        claim_for(store, holder, 0)
        assert used(store) == {"ollama": 1}
        waiting = WaitingFor.CONDITION
        release = {"epoch": holder.epoch, "waiting_for": waiting, "not_before": NOW}
        assert store.write(lambda db: runs.release_run(db, run, **release))
        assert not store.write(lambda db: runs.release_run(db, run, **release))
        assert used(store) == {"ollama": 0}

    def test_a_queued_run_that_is_cancelled_gives_nothing_back(self, store):
        declare(store, ollama=1)
        job, holder = add_job(store, pools=OLLAMA), add_holder(store)
        enqueue(store, job)
        claim_for(store, holder, 0)
        waiting = enqueue(store, job)
        ending = runs.RunEnd(waiting, CANCELLED, expected=Status.QUEUED, at=NOW)
        store.write(lambda db: end_runs(db, [ending], epoch=None, now=NOW))
        assert used(store) == {"ollama": 1}

    def test_a_write_of_a_stale_epoch_gives_nothing_back(self, store):
        """INV-003, R-22."""
        declare(store, ollama=1)
        job, holder, other = add_job(store, pools=OLLAMA), add_holder(store), add_holder(store, pid=9)
        enqueue(store, job)
        (claimed,) = claim_for(store, holder, 0)
        assert end(store, claimed, other) == []
        assert used(store) == {"ollama": 1}


class TestAbandoned:
    def test_a_thread_that_outlives_its_run_keeps_its_pools_until_it_returns(self, store):
        declare(store, ollama=1)
        job, holder = add_job(store, pools=OLLAMA), add_holder(store)
        enqueue(store, job)
        (claimed,) = claim_for(store, holder, 0)
        end(store, claimed, holder, TIMED_OUT, kept={claimed.run.id})
        assert used(store) == {"ollama": 1}
        for _ in range(2):
            store.write(lambda db: release_leaked(db, claimed.run.id))
        assert used(store) == {"ollama": 0}

    def test_the_threads_of_a_dead_process_keep_nothing(self, store):
        declare(store, ollama=2)
        job, holder, other = add_job(store, pools=OLLAMA), add_holder(store), add_holder(store, pid=9)
        for _ in range(2):
            enqueue(store, job)
        one, two = claim_for(store, holder, 0)[0], claim_for(store, other, 1)[0]
        end(store, one, holder, TIMED_OUT, kept={one.run.id})
        end(store, two, other, TIMED_OUT, kept={two.run.id})
        store.write(lambda db: release_leaked_by(db, [holder.epoch]))
        assert used(store) == {"ollama": 1}


class TestOrder:
    def test_under_aging_an_older_run_of_a_lower_priority_comes_first_once_it_waited_long_enough(self, store):
        """R-03, INV-004."""
        store.write(lambda db: queue.set_aging(db, timedelta(milliseconds=10)))
        low, high, holder = add_job(store, "low"), add_job(store, "high", priority=1), add_holder(store)
        old = enqueue(store, low)
        near, far = enqueue(store, high, later=9), enqueue(store, high, later=11)
        assert ids(claim_for(store, holder, 0, 1, 2)) == [near, old, far]

    def test_a_change_of_aging_gives_every_queued_run_its_new_place(self, store):
        """R-03: in the transaction that changes it."""
        low, high = add_job(store, "low"), add_job(store, "high", priority=1)
        old, new = enqueue(store, low), enqueue(store, high, later=50)

        def order() -> list[str]:
            return [run.id for run in store.read(lambda db: runs.candidates(db, free=9))]

        assert order() == [new, old]
        store.write(lambda db: queue.set_aging(db, timedelta(milliseconds=10)))
        assert order() == [old, new]
        assert store.read(queue.aging) == timedelta(milliseconds=10)
        store.write(lambda db: queue.set_aging(db, None))
        assert order() == [new, old]
        assert store.read(queue.aging) is None

    def test_a_finished_run_keeps_its_place_when_aging_changes(self, store):
        job, holder = add_job(store), add_holder(store)
        run = enqueue(store, job)
        (claimed,) = claim_for(store, holder, 0)
        end(store, claimed, holder, CANCELLED)
        before = store.read(lambda db: runs.run_by_id(db, run))
        store.write(lambda db: queue.set_aging(db, timedelta(hours=1)))
        assert look(store, before) == before


def test_a_skipped_instant_makes_no_lane(store):
    job = add_job(store, pools=OLLAMA)
    enqueue(store, job, reason=Reason.OVERLAP, count=1, scheduled_for=NOW)
    assert set(store.read(queue.lane_draws)) == {0, NO_POOLS}


def test_a_started_run_that_completes_gives_its_pools_back(store):
    declare(store, ollama=1)
    job, holder = add_job(store, pools=OLLAMA), add_holder(store)
    run = enqueue(store, job)
    claim_for(store, holder, 0)
    store.write(lambda db: runs.start_run(db, run, epoch=holder.epoch, process=PROCESS, now=NOW))
    ending = runs.RunEnd(run, DONE, expected=Status.RUNNING, at=NOW)
    store.write(lambda db: end_runs(db, [ending], epoch=holder.epoch, now=NOW))
    assert used(store) == {"ollama": 0}


class TestRemembering:
    """What a process asks ahead because earlier claims found it so, it takes only where it still is so."""

    def fill(self, store: Store, holder: ClaimOwner, known: ClaimCache, *slots: int, limit: int = 9) -> list[str]:
        def take(db: Database) -> list[Claimed]:
            ask_claim(db, holder, slots, limit=limit, known=known)
            usable = slots_to_fill(db, holder, slots, limit=limit, known=known)
            return [] if usable is None else claim(db, holder, usable, now=NOW, known=known)

        return ids(store.write(take))

    def test_claims_one_after_the_other_take_the_queue_in_order(self, store):
        job, holder, known = add_job(store), add_holder(store), ClaimCache()
        wanted = [enqueue(store, job, later=number) for number in range(5)]
        taken = [self.fill(store, holder, known, *slots) for slots in ((0, 1), (2, 3), (4, 5))]
        assert taken == [wanted[:2], wanted[2:4], wanted[4:]]
        assert known.plain

    def test_a_slot_that_another_process_of_the_folder_took_is_left_out(self, store):
        """R-04, INV-003."""
        job, holder, known = add_job(store), add_holder(store), ClaimCache()
        first, second, third = [enqueue(store, job, later=number) for number in range(3)]
        assert self.fill(store, holder, known, 0) == [first]
        assert self.fill(store, holder, known, 0, 1) == [second]
        assert self.fill(store, holder, known, 2, 3, limit=1) == [third]

    def test_pools_that_came_since_count(self, store):
        """R-03: who lacks room in a pool does not go, and who draws on one goes in turn."""
        plain, drawing = add_job(store), add_job(store, "drawing", pools=OLLAMA)
        holder, known = add_holder(store), ClaimCache()
        assert self.fill(store, holder, known, 0) == []
        assert known.plain
        declare(store, ollama=1)
        drawn = [enqueue(store, drawing, later=number) for number in range(2)]
        last = enqueue(store, plain, later=5)
        assert self.fill(store, holder, known, 0, 1, 2) == [drawn[0], last]
        assert not known.plain
        assert used(store) == {"ollama": 1}
