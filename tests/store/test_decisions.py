"""Conformance: decisions of the queue that the database itself keeps (DEC-001, DEC-008)."""

import pytest

from rota.model.states import Status, Trigger
from rota.store.tables import queue
from tests.store.making import NOW, SECOND, add_holder, add_job, add_run, run_in


def test_a_failed_run_has_one_automatic_retry_at_most_dec_001(store, backend):
    """DEC-001: the second is refused by the database, whoever asks."""
    job = add_job(store)
    failed = run_in(store, Status.FAILED, job, holder=add_holder(store))
    attempt = {"trigger": Trigger.RETRY, "retry_of": failed.id, "chain_id": failed.id, "attempt": 2}
    again = add_run(store, job, **attempt)
    assert (again.retry_of, again.attempt) == (failed.id, 2)
    with pytest.raises(backend.refusal, match=r"UNIQUE|unique"):
        add_run(store, job, **attempt)


def test_by_hand_a_run_is_repeated_as_often_as_somebody_wants_dec_007(store):
    """DEC-007: further retries are made by hand, without end."""
    job = add_job(store)
    failed = run_in(store, Status.FAILED, job, holder=add_holder(store))
    repeated = [add_run(store, job, retry_of=failed.id) for _ in range(3)]
    assert [run.retry_of for run in repeated] == [failed.id] * 3


def test_the_queue_is_what_is_stored_and_nothing_else_dec_008(store, backend):
    """DEC-008: its order is in the rows, so whoever opens the file next finds it."""
    job = add_job(store)
    for number in range(4):
        add_run(store, job, at=NOW + number * SECOND, priority=number % 2, rank=number % 2, position=10 - number)
    statement = "SELECT number FROM run_now WHERE status = 'QUEUED' ORDER BY rank DESC, position, created_at, seq"
    numbers = [number for (number,) in backend.sql(statement)]
    ready = store.read(lambda db: queue.runs_of(db, queue.ready(db, limit=10)))
    assert [run.number for run in ready] == numbers == [4, 2, 3, 1]
