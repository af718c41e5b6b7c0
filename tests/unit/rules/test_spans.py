"""Spans: a run's life without gaps, each wait with its cause."""

from datetime import timedelta
from typing import Any

from tests.unit.rules.test_explain_lines import DUE, a_run

from rota.model.clock import to_ms
from rota.model.states import Held, Reason, Status, Trigger, WaitingFor
from rota.rules.spans import WAITS, WAITS_LIMIT, Release, add_wait, spans_of, totals


def at(seconds: float) -> Any:
    return DUE + timedelta(seconds=seconds)


def phases(*args: Any, **facts: Any) -> list[tuple[str, float, float]]:
    found = spans_of(*args, **{"now": at(100), **facts})
    assert [span.since for span in found[1:]] == [span.until for span in found[:-1]]
    return [(span.phase, (span.since - DUE).total_seconds(), (span.until - DUE).total_seconds()) for span in found]


def ended(**changes: Any) -> Any:
    done: dict[str, Any] = {
        "status": Status.COMPLETED,
        "first_dispatched_at": at(3),
        "started_at": at(4),
        "finished_at": at(10),
    }
    return a_run(**{**done, **changes})


def test_a_run_queues_passes_its_gates_and_runs() -> None:
    assert phases(ended()) == [("queue", 0, 3), ("start", 3, 4), ("running", 4, 10)]


def test_a_retry_waits_for_its_backoff() -> None:
    run = ended(trigger=Trigger.RETRY, attempt=2, decisions={"retry": {"backoff_ms": 2000}})
    assert phases(run) == [("backoff", 0, 2), ("queue", 2, 3), ("start", 3, 4), ("retrying", 4, 10)]


def test_a_member_waits_for_the_runs_before_it() -> None:
    release = Release(WaitingFor.PREDECESSOR, at(2))
    assert phases(ended(), release=release)[:2] == [("predecessor", 0, 2), ("queue", 2, 3)]


def test_a_member_that_never_got_its_turn_waited_to_its_end() -> None:
    run = a_run(status=Status.CANCELLED, reason=Reason.PREDECESSOR_FAILED, finished_at=at(8))
    assert phases(run) == [("predecessor", 0, 8)]


def test_stored_waits_lie_between_the_queue_and_the_start() -> None:
    waits = [{"for": "budget", "since": to_ms(at(5)), "until": to_ms(at(60))}]
    run = ended(started_at=at(62), finished_at=at(70), decisions={WAITS: waits})
    assert phases(run) == [("queue", 0, 5), ("budget", 5, 60), ("queue", 60, 62), ("running", 62, 70)]


def test_a_run_that_goes_on_is_open_and_names_what_holds_it() -> None:
    (waiting,) = spans_of(a_run(waiting_for=WaitingFor.BUDGET), now=at(9))
    assert (waiting.phase, waiting.open, waiting.held) == ("budget", True, None)
    (queued,) = spans_of(a_run(), now=at(9), held=Held.POOL)
    assert (queued.phase, queued.open, queued.held) == ("queue", True, Held.POOL)
    running = spans_of(ended(status=Status.RUNNING, finished_at=None), now=at(9))
    assert [span.open for span in running] == [False, False, True]


def test_a_run_that_was_never_queued_has_no_spans() -> None:
    assert spans_of(a_run(status=Status.SKIPPED, reason=Reason.OVERLAP, finished_at=DUE), now=at(9)) == ()


def test_times_out_of_order_leave_no_negative_span() -> None:
    run = ended(first_dispatched_at=at(-5), started_at=at(-2), finished_at=at(-1))
    assert phases(run) == []


def test_waits_for_the_same_cause_are_one_and_others_are_bounded() -> None:
    waits: list[Any] = []
    for number in range(3):
        waits = add_wait(waits, WaitingFor.CONDITION, since=at(60 * number), until=at(60 * number + 60))
    assert waits == [{"for": "condition", "since": to_ms(at(0)), "until": to_ms(at(180))}]
    for number in range(50):
        waits = add_wait(waits, WaitingFor.BUDGET, since=at(1000 * number), until=at(1000 * number + 1))
    assert len(waits) == WAITS_LIMIT


def test_totals_add_up_each_phase_in_the_order_of_a_life() -> None:
    spans = [*spans_of(ended(), now=at(100)), *spans_of(ended(), now=at(100))]
    assert list(totals(spans).items()) == [
        ("queue", timedelta(seconds=6)),
        ("start", timedelta(seconds=2)),
        ("running", timedelta(seconds=12)),
    ]
