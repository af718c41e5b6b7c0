"""Conformance: groups as they are stored, and what the schema itself refuses of them (INV-006, R-05)."""

import pytest

from rota.engine.transactions import groups as groups_transactions
from rota.engine.transactions.enqueue import cancel_group
from rota.engine.transactions.groups import NewGroup
from rota.model.clock import to_ms
from rota.model.ids import new_id
from rota.model.records import Outcome
from rota.model.spec import GroupMode, Member, OnFailure, Retry
from rota.model.states import GroupStatus, Reason, Status, Trigger, WaitingFor
from rota.store.tables import groups as groups_table
from rota.store.tables import runs
from tests.store.making import CANCELLED, DONE, FAILED, NOW, add_holder, add_job, begin, end, seen

SEQUENTIAL, PARALLEL = GroupMode.SEQUENTIAL, GroupMode.PARALLEL


def add_group(store, *jobs, mode=SEQUENTIAL, on_failure=OnFailure.STOP, name="nightly", **changes):
    """Make a group of these jobs at run time."""
    for job in dict.fromkeys(jobs):
        add_job(store, job, **changes)
    founding = NewGroup(name, mode, on_failure, tuple(Member(job) for job in jobs))
    return store.write(lambda db: groups_transactions.found(db, founding, now=NOW)).group


def seats_of(store, group):
    return store.read(lambda db: groups_table.seats(db, group.id))


def group_of(store, group):
    found = store.read(lambda db: groups_table.group_by_id(db, group.id))
    assert found is not None
    return found


def carry_out(store, holder, seat, outcome=DONE):
    """Start a member and end it."""

    def carry(db):
        run = seen(db, seat.run_id)
        assert begin(db, run, holder)
        assert end(db, run, holder, outcome)

    store.write(carry)


def test_a_group_reads_back_as_it_was_stored(store):
    group = add_group(store, "a", "b")
    assert group_of(store, group) == group
    assert (group.handle, group.size, group.status, group.run_id) == ("nightly:1", 2, GroupStatus.RUNNING, None)
    assert [(seat.job, seat.place, seat.attempt) for seat in seats_of(store, group)] == [("a", 1, 1), ("b", 2, 1)]


def test_groups_made_at_run_time_are_numbered_by_name(store):
    add_job(store, "a")
    founding = NewGroup("adhoc", SEQUENTIAL, OnFailure.STOP, (Member("a"),))
    handles = [store.write(lambda db: groups_transactions.found(db, founding, now=NOW)).group.handle for _ in range(3)]
    assert handles == ["adhoc:1", "adhoc:2", "adhoc:3"]
    newest = store.read(lambda db: groups_table.newest_groups(db, "adhoc", limit=2))
    assert [group.number for group in newest] == [3, 2]
    [second] = store.read(lambda db: groups_table.group_by_number(db, "adhoc", 2))
    assert second.number == 2


def test_the_first_of_a_sequence_may_be_claimed_and_the_others_wait(store):
    seats = seats_of(store, add_group(store, "a", "b", "c"))
    held = WaitingFor.PREDECESSOR
    assert [seat.waiting_for for seat in seats] == [None, held, held]


def test_all_of_a_parallel_group_may_be_claimed(store):
    seats = seats_of(store, add_group(store, "a", "b", mode=PARALLEL))
    assert [seat.waiting_for for seat in seats] == [None, None]


def test_a_group_is_final_with_its_last_member(store):
    """INV-006."""
    group, holder = add_group(store, "a", "b"), add_holder(store)
    first, second = seats_of(store, group)
    carry_out(store, holder, first)
    assert group_of(store, group).status is GroupStatus.RUNNING
    carry_out(store, holder, second)
    final = group_of(store, group)
    assert (final.status, final.finished_at) == (GroupStatus.COMPLETED, seats_of(store, group)[1].finished_at)


@pytest.mark.parametrize("status", ["COMPLETED", "PARTIAL", "CANCELLED"])
def test_no_group_is_final_while_a_member_is_not(store, backend, status):
    """INV-006, refused by the database itself."""
    group = add_group(store, "a", "b")
    with pytest.raises(Exception, match="INV-006"):
        backend.sql("UPDATE run_group SET status = :status, finished_at = 1 WHERE id = :id", id=group.id, status=status)
    assert group_of(store, group).status is GroupStatus.RUNNING


def test_no_group_is_final_before_all_of_its_members_are_born(store, backend):
    """INV-006: a place without a run is not final either."""
    backend.sql(
        """INSERT INTO run_group (id, name, number, mode, on_failure, size, created_at)
        VALUES (:id, 'empty', 1, 'parallel', 'stop', 2, :now)""",
        id=new_id(NOW),
        now=to_ms(NOW),
    )
    with pytest.raises(Exception, match="INV-006"):
        backend.sql("UPDATE run_group SET status = 'COMPLETED', finished_at = 1 WHERE name = 'empty'")


@pytest.mark.parametrize("change", ["status = 'RUNNING', finished_at = NULL", "status = 'CANCELLED'", "size = 9"])
def test_a_final_group_never_changes(store, backend, change):
    """INV-006."""
    group, holder = add_group(store, "a"), add_holder(store)
    carry_out(store, holder, seats_of(store, group)[0])
    with pytest.raises(Exception, match="INV-006"):
        backend.sql(f"UPDATE run_group SET {change} WHERE id = :id", id=group.id)
    assert group_of(store, group).status is GroupStatus.COMPLETED


def test_no_run_joins_a_final_group(store, backend):
    """INV-006."""
    group, holder = add_group(store, "a"), add_holder(store)
    seat = seats_of(store, group)[0]
    carry_out(store, holder, seat)
    job = add_job(store, "late")
    with pytest.raises(Exception, match="INV-006"):
        store.write(lambda db: runs.insert_run(db, _newborn(job, group_id=group.id, place=2), number=1))


def test_a_place_has_one_run_an_attempt(store, backend):
    """R-05: unique (group, place, attempt)."""
    group, job = add_group(store, "a", "b"), add_job(store, "other")
    with pytest.raises(backend.refusal, match=r"UNIQUE|unique"):
        store.write(lambda db: runs.insert_run(db, _newborn(job, group_id=group.id, place=1), number=1))


def _newborn(job, **changes):
    return runs.NewRun(id=new_id(NOW), job=job, trigger=Trigger.GROUP, created_at=NOW, lane_id=1, **changes)


def test_a_stopped_group_ends_in_the_transaction_of_the_failure(store):
    """DEC-012: nothing is left to do for anybody else, so no crash can come between."""
    group, holder = add_group(store, "a", "b", "c"), add_holder(store)

    def fail(db):
        run = seen(db, groups_table.seats(db, group.id)[0].run_id)
        begin(db, run, holder)
        end(db, run, holder, Outcome(Status.FAILED, Reason.UNKILLABLE))

    store.write(fail)
    assert [seat.reason for seat in seats_of(store, group)] == [
        Reason.UNKILLABLE,
        Reason.PREDECESSOR_FAILED,
        Reason.PREDECESSOR_FAILED,
    ]
    assert group_of(store, group).status is GroupStatus.PARTIAL


def test_the_newest_attempt_stands_for_its_place(store):
    """DEC-001: a retry takes the place of the run before it, and the group waits for it."""
    group, holder = add_group(store, "a", "b", retry=Retry(max_attempts=2)), add_holder(store)
    first = seats_of(store, group)[0]
    carry_out(store, holder, first, FAILED)
    again = seats_of(store, group)[0]
    assert (again.place, again.attempt, again.status) == (1, 2, Status.QUEUED)
    assert group_of(store, group).status is GroupStatus.RUNNING
    assert len(store.read(lambda db: groups_table.member_runs(db, group.id))) == 3


def test_cancelling_asks_those_that_run_and_ends_the_others(store):
    group, holder = add_group(store, "a", "b"), add_holder(store)
    first = seats_of(store, group)[0]
    store.write(lambda db: begin(db, seen(db, first.run_id), holder))
    assert store.write(lambda db: cancel_group(db, group, reason=Reason.REQUESTED, now=NOW)) is False
    assert [seat.status for seat in seats_of(store, group)] == [Status.RUNNING, Status.CANCELLED]
    assert store.read(lambda db: runs.cancelling_runs(db, holder.epoch)) == [(first.run_id, Reason.GROUP_CANCELLED)]
    store.write(lambda db: end(db, seen(db, first.run_id), holder, CANCELLED))
    assert group_of(store, group).status is GroupStatus.CANCELLED
