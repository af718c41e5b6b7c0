"""Two schedulers on one PostgreSQL whose transactions meet: each pair ends as if one had come after the other.

The first transaction has done everything and not committed when the second begins. That either goes its way at once,
or is seen waiting for the first one's rows; then the first commits.
"""

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from msgspec import Struct
from msgspec.structs import replace

from rota.engine.loops.pruner import prune_batch
from rota.engine.transactions import groups as groups_transactions
from rota.engine.transactions import poll
from rota.engine.transactions.claim import ClaimCache, Claimed, claim, usable_slots
from rota.engine.transactions.enqueue import active_for, cancel, enqueue
from rota.engine.transactions.finish import Finished, FinishMode, finish
from rota.engine.transactions.fire import fire
from rota.engine.transactions.pause import pause_job
from rota.model.ids import new_id
from rota.model.records import Outcome, Run
from rota.model.spec import Draw, GroupMode, Member, OnFailure, Overlap, OverlapPolicy, Retention
from rota.model.states import GroupStatus, Reason, Status, Trigger, WaitingFor
from rota.operations.project.apply import change_to
from rota.rules.admission import After, Allow, Refuse, Replace, judge
from rota.store.driver import Database, Store
from rota.store.postgres.setup import open_postgres
from rota.store.tables import activity, audit, direct_calls, jobs, queue, run_queries, runs
from rota.store.tables import groups as groups_table
from tests.postgres import lay_postgres
from tests.store.making import (
    CANCELLED,
    DONE,
    FAILED,
    HOUR,
    MINUTE,
    NOW,
    PROCESS,
    SECOND,
    TZDATA,
    add_holder,
    add_job,
    add_run,
    begin,
    look,
    spec_of,
)
from tests.waiting import until

LONG = 60
FULL_HOUR = NOW.replace(minute=0, second=0, microsecond=0) + HOUR
QUEUE = Overlap(OverlapPolicy.QUEUE, queue_depth=5)
WAITING = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"""

Operation = Callable[[Database], Any]


class Met(Struct):
    """What became of two transactions; `waited`: the second one waited for the first."""

    first: Any = None
    second: Any = None
    waited: bool = False


class Two:
    """Two schedulers' stores on one database."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.here: Store = open_postgres(address, now=lambda: NOW)
        self.there: Store = open_postgres(address, now=lambda: NOW)
        self._beside = psycopg.connect(address, autocommit=True)

    def close(self) -> None:
        self.here.close()
        self.there.close()
        self._beside.close()

    def meet(self, first: Operation, second: Operation) -> Met:
        """Run the second before the first commits."""
        met, done, commit = Met(), threading.Event(), threading.Event()

        def held(db: Database) -> Any:
            value = first(db)
            db.row("meta_get", key="whatever")  # all that was sent is answered
            done.set()
            assert commit.wait(LONG)
            return value

        threads = [
            threading.Thread(target=lambda: setattr(met, "first", self.here.write(held))),
            threading.Thread(target=lambda: setattr(met, "second", self.there.write(second))),
        ]
        threads[0].start()
        assert done.wait(LONG)
        threads[1].start()
        while threads[1].is_alive() and not met.waited:
            met.waited = self._beside.execute(WAITING).fetchone() != (0,)
            threads[1].join(0.005)
        commit.set()
        for thread in threads:
            thread.join(LONG)
            assert not thread.is_alive()
        return met

    def read(self, operation: Operation) -> Any:
        return self.here.read(operation)


alone = pytest.mark.parametrize("alone", [False, True], ids=["job held", "job not held"])
"""An end that seems to concern nobody else does not hold its job."""


@pytest.fixture
def two():
    made = Two(lay_postgres())
    yield made
    made.close()


def trigger(job_id: str, *, at=NOW) -> Operation:
    """Return the operation that enqueues a run as overlap says."""

    def operation(db: Database) -> str | None:
        job = jobs.job_by_id(db, job_id)
        verdict = judge(job.spec.overlap, active_for(db, job))
        if isinstance(verdict, Refuse):
            return None
        assert isinstance(verdict, (Allow, After, Replace))
        return enqueue(db, job, verdict, trigger=Trigger.MANUAL, now=at).id

    return operation


def running(two: Two, job, holder, *, slot: int = 0) -> Run:
    run = add_run(two.here, job)
    two.here.write(lambda db: begin(db, run, holder, slot=slot))
    return run


def recording(run: Run, holder, outcome: Outcome = DONE, *, alone: bool = False) -> Operation:
    finished = [Finished(run.id, run.job_id, outcome)]
    mode = FinishMode.BATCH_INDEPENDENT if alone else FinishMode.BATCH_LOCKED
    return lambda db: finish(db, finished, mode, epoch=holder.epoch, now=NOW + MINUTE)


def taking(holder, slots: range, *, known: ClaimCache | None = None) -> Operation:
    return lambda db: [one.run.id for one in claim(db, holder, usable_slots(db, holder, slots), now=NOW, known=known)]


def at(two: Two, run_id: str) -> Run:
    found = two.read(lambda db: runs.run_by_id(db, run_id))
    assert found is not None
    return found


def test_an_instant_that_two_fire_is_fired_once_and_nobody_waits(two):
    """R-05."""
    job = add_job(two.here, next_at=FULL_HOUR)
    met = two.meet(lambda db: fire(db, job.id, now=FULL_HOUR), lambda db: fire(db, job.id, now=FULL_HOUR))
    assert not met.waited
    assert (len(met.first.runs), met.second.runs) == (1, ())
    assert len(two.read(lambda db: run_queries.newest_runs(db, job.id, limit=9))) == 1


@alone
def test_who_is_enqueued_behind_a_run_that_ends_meanwhile_is_let_go(two, alone):
    """R-12: the end waits for the job, or for its run, and then sees who waits for it."""
    holder, job = add_holder(two.here), add_job(two.here, overlap=QUEUE)
    run = running(two, job, holder)
    met = two.meet(trigger(job.id), recording(run, holder, alone=alone))
    assert met.waited
    assert at(two, met.first).waiting_for is None


@alone
def test_who_is_enqueued_while_the_run_before_it_ends_waits_for_nobody(two, alone):
    """R-12."""
    holder, job = add_holder(two.here), add_job(two.here, overlap=QUEUE)
    run = running(two, job, holder)
    met = two.meet(recording(run, holder, alone=alone), trigger(job.id))
    assert met.waited
    assert at(two, met.second).waiting_for is None


def test_two_ends_that_concern_nobody_else_do_not_wait_for_each_other(two):
    """R-12: nobody waits in the job, so neither holds it."""
    holder, job = add_holder(two.here), add_job(two.here)
    first, second = running(two, job, holder), running(two, job, holder, slot=1)
    met = two.meet(recording(first, holder, alone=True), recording(second, holder, alone=True))
    assert not met.waited
    assert [at(two, run.id).status for run in (first, second)] == [Status.COMPLETED] * 2


def test_a_success_that_ends_beside_a_failure_forgets_those_counted_before(two):
    """DEC-007: the one holds the job from the start, the other as soon as it sees that failures are counted."""
    holder, job = add_holder(two.here), add_job(two.here)
    two.here.write(lambda db: jobs.count_failures(db, job.id, 2, backing_off_until=None))
    failed, done = running(two, job, holder), running(two, job, holder, slot=1)
    met = two.meet(recording(failed, holder, FAILED), recording(done, holder, alone=True))
    assert met.waited
    assert two.read(lambda db: jobs.job_by_id(db, job.id)).failures == 0


def test_two_starts_of_a_job_that_runs_alone_make_one_run(two):
    """R-11."""
    job = add_job(two.here, overlap=Overlap(OverlapPolicy.FORBID))
    met = two.meet(trigger(job.id), trigger(job.id))
    assert met.second is None
    assert len(two.read(lambda db: run_queries.unfinished_runs(db, job.id))) == 1


@alone
def test_the_last_two_ends_of_those_that_are_replaced_let_the_new_run_go(two, alone):
    """R-11: each sees the other one unfinished, unless one of them waits."""
    holder, job = add_holder(two.here), add_job(two.here)
    first, second = running(two, job, holder), running(two, job, holder, slot=1)
    replacing = replace(job, spec=replace(job.spec, overlap=Overlap(OverlapPolicy.REPLACE)))
    born = two.here.write(
        lambda db: enqueue(db, replacing, Replace((first.id, second.id)), trigger=Trigger.MANUAL, now=NOW + SECOND)
    )
    assert at(two, born.id).waiting_for is WaitingFor.REPLACED_RUN
    met = two.meet(recording(first, holder, alone=alone), recording(second, holder, alone=alone))
    assert met.waited
    assert at(two, born.id).waiting_for is None


def test_the_last_two_members_of_a_group_end_it_between_them(two):
    """INV-006, R-15."""
    holder = add_holder(two.here)
    names = ["one", "two"]
    for name in names:
        add_job(two.here, name)
    founding = groups_transactions.NewGroup(
        "both", GroupMode.PARALLEL, OnFailure.CONTINUE, tuple(Member(name) for name in names)
    )
    begun = two.here.write(lambda db: groups_transactions.found(db, founding, now=NOW).group)
    members = two.read(lambda db: groups_table.member_runs(db, begun.id))
    for slot, member in enumerate(members):
        two.here.write(lambda db, member=member, slot=slot: begin(db, member, holder, slot=slot))
    met = two.meet(recording(members[0], holder), recording(members[1], holder))
    assert met.waited
    assert two.read(lambda db: groups_table.group_by_id(db, begun.id)).status is GroupStatus.COMPLETED


def test_two_claims_take_different_runs_and_nobody_waits(two):
    """R-03."""
    one, other = add_holder(two.here), add_other_holder(two)
    job = add_job(two.here)
    queued = [add_run(two.here, job, at=NOW + number * SECOND).id for number in range(4)]
    met = two.meet(taking(one, range(2)), taking(other, range(2)))
    assert not met.waited
    assert (met.first, met.second) == (queued[:2], queued[2:])


def add_other_holder(two: Two):
    """Return a process of another worker."""
    holder = add_holder(two.there, pid=77)
    worker_id = new_id(NOW)

    def move(db: Database) -> None:
        db.execute("worker_insert", id=worker_id, name="other", host="", state="", labels="{}", now=0)

    two.there.write(move)
    with psycopg.connect(two.address, autocommit=True) as connection:
        connection.execute("UPDATE process SET worker_id = %s WHERE epoch = %s", [worker_id, holder.epoch])
    return replace(holder, worker_id=worker_id)


def test_two_claims_do_not_draw_more_on_a_pool_than_it_has(two):
    """R-03."""
    one, other = add_holder(two.here), add_other_holder(two)
    two.here.write(lambda db: queue.declare_pools(db, {"gpu": 1}))
    job = add_job(two.here, pools=(Draw("gpu"),))
    for number in range(2):
        lane = two.here.write(lambda db: queue.lane_of(db, job.spec.pools))
        add_run(two.here, job, at=NOW + number * SECOND, lane_id=lane)
    met = two.meet(taking(one, range(2)), taking(other, range(2)))
    assert (len(met.first), len(met.second)) == (1, 0)
    assert [pool.used for pool in two.read(queue.pools)] == [1]


def test_two_processes_of_a_worker_do_not_use_a_slot_twice(two):
    """INV-003, R-04."""
    one, other = add_holder(two.here), add_holder(two.there, pid=77)
    assert one.worker_id == other.worker_id
    job = add_job(two.here)
    for number in range(2):
        add_run(two.here, job, at=NOW + number * SECOND)
    met = two.meet(taking(one, range(1)), taking(other, range(2)))
    assert met.waited
    assert sorted(run.slot for run in two.read(run_queries.running_runs)) == [0, 1]


def test_a_run_that_is_claimed_while_somebody_cancels_it_is_asked_to_stop(two):
    """R-01."""
    holder, job = add_holder(two.here), add_job(two.here)
    run = add_run(two.here, job)
    met = two.meet(taking(holder, range(1)), lambda db: cancel(db, run.id, reason=Reason.REQUESTED, now=NOW))
    assert met.waited
    assert (met.first, met.second) == ([run.id], False)
    assert at(two, run.id).cancel_requested_at is not None


def test_a_run_that_somebody_cancels_is_not_claimed_meanwhile(two):
    """R-01."""
    holder, job = add_holder(two.here), add_job(two.here)
    run = add_run(two.here, job)
    met = two.meet(lambda db: cancel(db, run.id, reason=Reason.REQUESTED, now=NOW), taking(holder, range(1)))
    assert (met.first, met.second) == (True, [])
    assert at(two, run.id).status is Status.CANCELLED


@alone
def test_a_run_that_ends_while_somebody_cancels_it_stays_as_it_ended(two, alone):
    """R-01."""
    holder, job = add_holder(two.here), add_job(two.here)
    run = running(two, job, holder)
    met = two.meet(recording(run, holder, alone=alone), lambda db: cancel(db, run.id, reason=Reason.REQUESTED, now=NOW))
    assert met.waited
    assert met.second is True
    assert at(two, run.id).status is Status.COMPLETED


def test_a_run_is_ended_by_one_of_two_who_end_it(two):
    """R-22: whoever comes second finds nothing that is still as it expects."""
    holder, job = add_holder(two.here), add_job(two.here)
    run = running(two, job, holder)
    met = two.meet(recording(run, holder, CANCELLED), recording(run, holder))
    assert (list(met.first), met.second) == ([run.id], {})
    kept = two.read(runs.counts)
    assert kept[Status.CANCELLED] == {holder.worker_id: 1}


def test_a_job_that_is_paused_meanwhile_does_not_fire(two):
    """R-20."""
    job = add_job(two.here, next_at=FULL_HOUR)
    pausing = partial(pause_job, job_id=job.id, until=None, reason="", now=NOW)
    met = two.meet(pausing, lambda db: fire(db, job.id, now=FULL_HOUR))
    assert (met.first, met.second.runs) == (True, ())
    assert two.there.write(lambda db: fire(db, job.id, now=FULL_HOUR)).runs == ()


def test_who_waited_for_a_job_that_was_changed_sees_its_new_definition(two):
    """INV-005, R-14."""
    job = add_job(two.here)
    changing = partial(change_to, job=job, spec=spec_of(priority=7), source="file", tzdata=TZDATA, now=NOW)
    met = two.meet(changing, lambda db: jobs.job_by_name(db, job.name))
    assert met.waited
    assert (met.second.version, met.second.spec.priority) == (2, 7)
    met = two.meet(
        lambda db: change_to(db, jobs.job_by_id(db, job.id), spec_of(), source="file", tzdata=TZDATA, now=NOW),
        lambda db: jobs.job_by_id(db, job.id),
    )
    assert (met.second.version, met.second.spec.priority) == (3, 0)


def test_numbers_of_runs_have_neither_gap_nor_double(two):
    """INV-005."""
    job = add_job(two.here, overlap=Overlap(OverlapPolicy.ALLOW))
    two.meet(trigger(job.id), trigger(job.id, at=NOW + SECOND))
    assert [run.number for run in two.read(lambda db: run_queries.newest_runs(db, job.id, limit=9))] == [2, 1]


def test_two_who_need_a_new_lane_share_it(two):
    """R-03."""
    draws = (Draw("gpu"), Draw("ollama", 2))
    met = two.meet(lambda db: queue.lane_of(db, draws), lambda db: queue.lane_of(db, draws))
    assert met.first == met.second
    assert two.read(queue.lane_draws)[met.first] == draws


def test_two_groups_of_a_name_get_different_numbers(two):
    """R-15."""
    add_job(two.here, "one")
    founding = groups_transactions.NewGroup("both", GroupMode.PARALLEL, OnFailure.CONTINUE, (Member("one"),))
    met = two.meet(
        lambda db: groups_transactions.found(db, founding, now=NOW),
        lambda db: groups_transactions.found(db, founding, now=NOW),
    )
    assert (met.first.group.number, met.second.group.number) == (1, 2)


def test_two_callers_get_different_turns_and_nobody_waits(two):
    """R-13."""

    def asking(db: Database) -> None:
        direct_calls.ask(db, direct_calls.WaitingCall(new_id(NOW), None, None, None, 1, {}, PROCESS, NOW))

    assert not two.meet(asking, asking).waited
    assert len(two.read(direct_calls.calls)) == 2


def test_a_run_that_is_born_while_aging_is_set_gets_the_place_that_it_then_has(two):
    """INV-004, R-03."""
    job = add_job(two.here, priority=3)
    met = two.meet(lambda db: queue.set_aging(db, timedelta(minutes=5)), trigger(job.id))
    assert met.waited
    assert at(two, met.second).rank == 0


def test_a_run_whose_birth_aging_waited_for_gets_the_place_that_it_then_has(two):
    """INV-004, R-03."""
    job = add_job(two.here, priority=3)
    met = two.meet(trigger(job.id), lambda db: queue.set_aging(db, timedelta(minutes=5)))
    assert met.waited
    assert at(two, met.first).rank == 0


def test_a_run_that_somebody_repeats_is_not_pruned_meanwhile(two):
    """R-14."""
    holder, job = add_holder(two.here), add_job(two.here, retention=Retention(runs=timedelta(0)))
    run = running(two, job, holder)
    two.here.write(recording(run, holder))

    def repeat(db: Database) -> str:
        found = jobs.job_by_id(db, job.id)
        return enqueue(db, found, Allow(), trigger=Trigger.MANUAL, now=NOW, retry_of=run.id).id

    met = two.meet(repeat, lambda db: prune_batch(db, job=job, now=NOW + HOUR, limit=10))
    assert met.waited
    assert met.second == []
    assert at(two, met.first).retry_of == run.id


def test_two_who_prune_a_job_prune_each_run_once(two):
    """R-14."""
    holder, job = add_holder(two.here), add_job(two.here, retention=Retention(runs=timedelta(0)))
    run = running(two, job, holder)
    two.here.write(recording(run, holder))
    pruning = partial(prune_batch, job=job, now=NOW + HOUR, limit=10)
    met = two.meet(pruning, pruning)
    assert (met.first, met.second) == ([run.id], [])
    assert two.read(runs.counts)[Status.COMPLETED] == {holder.worker_id: 0}


def test_who_begins_to_wait_for_a_poll_that_ends_meanwhile_is_let_go(two):
    """R-16."""
    holder = add_holder(two.here)
    asking, polling = add_job(two.here), add_job(two.here, activity.POLL)
    run = running(two, polling, holder, slot=1)

    def wait(db: Database) -> str:
        poll.look(db, born=NOW, now=NOW)
        newborn = runs.NewRun(new_id(NOW), asking, Trigger.MANUAL, NOW, waiting_for=WaitingFor.POLL)
        runs.insert_run(db, newborn, number=jobs.next_number(db, asking.id))
        return newborn.id

    met = two.meet(wait, recording(run, holder, replace(DONE, poll={"open": 3})))
    assert met.waited
    assert at(two, met.first).waiting_for is None


def test_what_both_count_is_counted_and_nobody_waits(two):
    jobs_of = [add_job(two.here, name) for name in ("one", "other")]
    met = two.meet(trigger(jobs_of[0].id), trigger(jobs_of[1].id))
    assert not met.waited
    assert two.read(runs.counts)[Status.QUEUED] == {runs.NO_WORKER: 2}


def test_a_change_that_is_stored_later_than_a_newer_one_is_not_missed(two):
    """Who follows reads no further than the oldest transaction in progress."""
    jobs_of = [add_job(two.here, name) for name in ("one", "other")]
    seen = two.read(audit.bounds).last
    read_meanwhile: list[Any] = []

    def second(db: Database) -> str | None:
        return trigger(jobs_of[1].id)(db)

    def first(db: Database) -> str | None:
        born = trigger(jobs_of[0].id)(db)
        two.there.write(second)
        read_meanwhile.extend(two.there.read(lambda other: audit.changes_after(other, seen, limit=9)))
        return born

    two.here.write(first)
    after = max([seen, *(one.seq for one in read_meanwhile)])
    born = {
        one.id for job in jobs_of for one in two.read(lambda db, job=job: run_queries.newest_runs(db, job.id, limit=9))
    }

    def all_told() -> bool:
        rest = two.read(lambda db: audit.changes_after(db, after, limit=9))
        return {one.subject for one in [*read_meanwhile, *rest] if one.kind == "run.created"} == born

    until(all_told, what="both runs to be told")  # transactions of other tests on this server hold it up


def test_every_run_that_one_statement_moves_is_told(two):
    """Fifty share a row of the feed, and with it a number."""
    job = add_job(two.here, overlap=Overlap(OverlapPolicy.ALLOW))
    born = [add_run(two.here, job) for _ in range(120)]
    holder = add_holder(two.here)
    every = {run.id for run in born}
    until(lambda: every <= {one.subject for one in _changes(two, 0)}, what="the inserts to be told")
    seen = two.read(audit.bounds).last
    taken = [runs.ClaimedSlot(run.seq, slot, started=True) for slot, run in enumerate(born)]
    moved = two.here.write(
        lambda db: runs.claim_runs(db, taken, worker_id=holder.worker_id, epoch=holder.epoch, now=NOW)
    )
    assert moved == 120
    until(lambda: two.read(audit.bounds).last > seen, what="the change to be told")
    told = _changes(two, seen)
    assert {one.subject for one in told} == every
    assert len({one.seq for one in told}) == 3


def _changes(two, seq):
    return two.read(lambda db: audit.changes_after(db, seq, limit=1000))


def test_changes_of_another_cluster_do_not_hide_new_ones(two):
    """A dump that is put elsewhere carries numbers of transactions that are yet to come there."""
    with psycopg.connect(two.address, autocommit=True) as connection:
        connection.execute("INSERT INTO change (seq, kind, subject) VALUES (1::bigint << 60, 'run', 'elsewhere')")
    seen = two.read(audit.bounds).last
    open_postgres(two.address, now=lambda: NOW).close()
    job = add_job(two.here)
    found = until(lambda: two.read(lambda db: audit.changes_after(db, seen, limit=9)), what="the change to be told")
    assert [one.subject for one in found] == [job.id]


def test_a_run_made_where_the_clock_is_behind_counts_as_the_newer_one(two):
    """R-11: a job's runs are older and newer by their identifiers, whichever machine made them."""
    job = add_job(two.here, overlap=QUEUE)
    ahead = add_run(two.here, job, at=NOW + HOUR)
    born = two.there.write(trigger(job.id))
    assert born > ahead.id
    assert look(two.here, at(two, born)).predecessor_id == ahead.id


def test_a_run_that_a_refused_start_looks_at_is_looked_for_again_by_a_claim(two):
    """A refusal changes nothing, so nobody is told that the run is free again."""
    holder, job = add_holder(two.here), add_job(two.here, overlap=Overlap(OverlapPolicy.FORBID))
    run, known = add_run(two.here, job), ClaimCache()
    met = two.meet(trigger(job.id), taking(holder, range(1), known=known))
    assert (met.first, met.second, known.passed_over) == (None, [], True)
    assert two.here.write(taking(holder, range(2), known=known)) == [run.id]
    assert not known.passed_over


def test_what_a_claim_that_was_rolled_back_read_is_not_remembered_inv_005(two):
    """INV-005: until a claim is committed, the version that it read may yet be another one's."""
    holder, job, known = add_holder(two.here), add_job(two.here), ClaimCache()

    def change_and_take(db: Database, *, priority: int) -> list[Claimed]:
        stored = jobs.job_by_id(db, job.id)
        change_to(db, stored, spec_of(priority=priority), source="file", tzdata=TZDATA, now=NOW)
        enqueue(db, jobs.job_by_id(db, job.id), Allow(), trigger=Trigger.MANUAL, now=NOW)
        return claim(db, holder, usable_slots(db, holder, range(1)), now=NOW, known=known)

    def rolled_back(db: Database) -> None:
        change_and_take(db, priority=1)
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        two.here.write(rolled_back)
    (claimed,) = two.here.write(partial(change_and_take, priority=2))
    assert claimed.spec.priority == 2
    known.keep([claimed])
    assert known.specs[job.id, 2].priority == 2
