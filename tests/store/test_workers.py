"""Workers and leases, on every backend (R-04, R-22)."""

from datetime import timedelta

from msgspec.structs import replace

from rota.model.states import Status
from rota.rules.queue_order import EVERYTHING, PoolFilter
from rota.store.tables import processes, runs
from rota.store.tables.processes import Worker
from tests.store.making import NOW, PROCESS, add_holder, add_job, run_in

LEASE, OVER = timedelta(seconds=30), timedelta(seconds=-30)
OTHER = Worker("0190-other", "other", {"zone": "b"}, "host-b", "/srv/b", created_at=NOW)


def add_worker(store, worker=OTHER):
    assert store.write(lambda db: processes.insert_worker(db, worker, now=NOW))
    return worker


def open_for(store, worker, *, lease=LEASE, pid=9):
    def enter(db):
        epoch = processes.open_process(
            db,
            worker_id=worker.id,
            kind="worker",
            identity=replace(PROCESS, pid=pid),
            lock=f"{pid}",
            version="0",
            now=NOW,
        )
        processes.renew_lease(db, epoch, lease=lease)
        return epoch

    return store.write(enter)


def test_a_worker_is_found_by_name_and_identifier_with_its_labels(store):
    add_worker(store)
    assert store.read(lambda db: processes.worker_by_name(db, "other")) == OTHER
    assert store.read(lambda db: processes.worker_by_id(db, OTHER.id)) == OTHER
    assert store.read(lambda db: processes.worker_by_name(db, "nobody")) is None


def test_a_worker_was_last_seen_when_its_process_ended_renewed_its_lease_or_started_a_run(store):
    def seen():
        return store.read(lambda db: processes.last_seen(db, OTHER.id))

    add_worker(store)
    assert seen() is None
    epoch = open_for(store, OTHER)
    renewed = seen()
    assert renewed is not None
    assert abs(store.read(processes.server_now) - renewed) < timedelta(seconds=60)
    late = renewed + timedelta(days=9)
    store.write(lambda db: processes.end_process(db, epoch, ending="lost", now=late))
    assert seen() == renewed
    later = store.write(open_unleased)
    store.write(lambda db: processes.end_process(db, later, ending="clean", now=late))
    assert seen() == late


def open_unleased(db):
    return processes.open_process(
        db, worker_id=OTHER.id, kind="worker", identity=replace(PROCESS, pid=10), lock="10", version="0", now=NOW
    )


def test_a_name_that_is_taken_is_not_taken_twice(store):
    add_worker(store)
    again = replace(OTHER, id="0191-third")
    assert not store.write(lambda db: processes.insert_worker(db, again, now=NOW))
    assert [one.id for one in store.read(processes.workers)] == [OTHER.id]


def test_draining_a_worker_keeps_its_processes_from_claiming_r_04(store):
    epoch = open_for(store, add_worker(store))
    assert store.write(lambda db: processes.may_claim(db, epoch))
    assert store.write(lambda db: processes.drain(db, OTHER.id, draining=True))
    assert not store.write(lambda db: processes.drain(db, OTHER.id, draining=True))
    assert not store.write(lambda db: processes.may_claim(db, epoch))


def test_a_process_that_ended_may_not_claim_r_22(store):
    epoch = open_for(store, add_worker(store))
    store.write(lambda db: processes.end_process(db, epoch, ending="lost", now=NOW))
    assert not store.write(lambda db: processes.may_claim(db, epoch))


def test_a_lease_is_counted_on_the_clock_of_the_database_r_22(store):
    """R-22: the machine's own clock has no part in it."""
    epoch = open_for(store, add_worker(store))
    now = store.read(processes.server_now)
    until = store.write(lambda db: processes.renew_lease(db, epoch, lease=LEASE))
    assert now + LEASE <= until <= store.read(processes.server_now) + LEASE


def test_processes_whose_lease_is_over_are_found_but_not_ones_own_r_22(store):
    own = add_holder(store)
    store.write(lambda db: processes.renew_lease(db, own.epoch, lease=OVER))
    other = add_worker(store)
    gone, there = open_for(store, other, lease=OVER), open_for(store, other, pid=10)
    found = store.read(lambda db: processes.lapsed_processes(db, but=own.worker_id))
    assert [(one.epoch, one.worker, one.host) for one in found] == [(gone, "other", "host-b")]
    assert store.write(lambda db: processes.still_lapsed(db, gone))
    assert not store.write(lambda db: processes.still_lapsed(db, there))
    assert store.write(lambda db: processes.still_lapsed(db, there, forced=True))


def test_a_process_that_was_declared_lost_renews_nothing_r_22(store):
    epoch = open_for(store, add_worker(store))
    store.write(lambda db: processes.end_process(db, epoch, ending="lost", now=NOW))
    assert store.write(lambda db: processes.renew_lease(db, epoch, lease=LEASE)) is None
    assert not store.write(lambda db: processes.still_lapsed(db, epoch, forced=True))


def test_a_process_without_a_lease_is_never_lost_to_others_r_22(store):
    """R-22: where one folder has the database to itself, its lock alone tells."""
    add_holder(store)
    assert store.read(lambda db: processes.lapsed_processes(db, but="somebody else")) == []


def test_what_a_worker_takes_is_kept_until_it_says_otherwise(store):
    assert store.read(lambda db: processes.capacity(db, OTHER.id)) == processes.Capacity()
    takes = PoolFilter(only=("gpu",), but=("slow",))
    store.write(lambda db: processes.note_capacity(db, OTHER.id, takes=takes, slots=3))
    assert store.read(lambda db: processes.capacity(db, OTHER.id)) == processes.Capacity(takes, 3)
    store.write(lambda db: processes.note_capacity(db, OTHER.id, takes=EVERYTHING, slots=None))
    assert store.read(lambda db: processes.capacity(db, OTHER.id)) == processes.Capacity()


def test_slots_are_of_a_worker_r_04(store):
    """R-04: slot 0 of one is not slot 0 of another."""
    job, here = add_job(store), add_holder(store)
    run_in(store, Status.RUNNING, job, holder=here, slot=0)
    add_worker(store)
    assert store.read(lambda db: runs.taken_slots(db, here.worker_id)) == {0}
    assert store.read(lambda db: runs.taken_slots(db, OTHER.id)) == set()


def test_epochs_with_runs_are_those_of_one_worker_r_23(store):
    job, here = add_job(store), add_holder(store)
    run_in(store, Status.RUNNING, job, holder=here, slot=0)
    add_worker(store)
    assert store.read(lambda db: processes.epochs_with_runs(db, here.worker_id)) == [here.epoch]
    assert store.read(lambda db: processes.epochs_with_runs(db, OTHER.id)) == []
